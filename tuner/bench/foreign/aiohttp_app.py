"""Streams as OpenAI's chat completions: a token each five milliseconds, and nothing that says it is ready but its list of models."""

import asyncio
import json
import os

from aiohttp import web


async def models(request):
    return web.json_response({"object": "list", "data": [{"id": "tiny-chat", "object": "model"}]})


async def chat(request):
    asked = await request.json()
    if asked.get("model") != "tiny-chat":
        return web.json_response({"error": {"message": "no such model"}}, status=404)
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for token in range(min(int(asked.get("max_tokens") or 16), 16)):
        await asyncio.sleep(0.005)
        chunk = {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": f" t{token}"}}]}
        await response.write(f"data: {json.dumps(chunk)}\n\n".encode())
    await response.write(b"data: [DONE]\n\n")
    return response


app = web.Application()
app.add_routes([web.get("/v1/models", models), web.post("/v1/chat/completions", chat), web.post("/v1/completions", chat)])
web.run_app(app, host="127.0.0.1", port=int(os.environ["PORT"]))
