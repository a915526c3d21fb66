"""Plays open load and prints one latency a request, ms, -1 for one that failed: client.py URL BODY RATE SECONDS SEED

Poisson arrivals; a latency counts from the moment the request should have been sent to the answer's last byte. It shares no code and no language
with the load generator of tune. Connections are kept where the server keeps them; a kept one that the server has closed is replaced once.
"""

import asyncio
import random
import sys
import time
from urllib.parse import urlsplit

url, body, rate, seconds, seed = sys.argv[1], sys.argv[2].encode(), float(sys.argv[3]), float(sys.argv[4]), int(sys.argv[5])
parts = urlsplit(url)
head = (
    f"POST {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\n"
    f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
).encode()
idle = []
timeout_s = 30


async def ask(connection):
    """Whether the answer was a good one, and whether the connection is kept."""
    reader, writer = connection
    writer.write(head + body)
    await writer.drain()
    answer = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    lines = answer.split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines[1:] if ": " in line)
    await reader.readexactly(int(headers["content-length"]))
    return lines[0].split(" ")[1].startswith("2"), headers.get("connection") != "close"


async def exchange():
    while True:
        kept = len(idle) > 0
        connection = idle.pop() if kept else await asyncio.open_connection(parts.hostname, parts.port)
        try:
            good, keeps = await ask(connection)
        except (ConnectionError, asyncio.IncompleteReadError):
            connection[1].close()
            if kept:
                continue
            return False
        if keeps:
            idle.append(connection)
        else:
            connection[1].close()
        return good


async def request(due):
    try:
        good = await asyncio.wait_for(exchange(), timeout_s)
    except (OSError, asyncio.TimeoutError, KeyError, ValueError):
        good = False
    return 1000 * (time.monotonic() - due) if good else -1.0


async def main():
    arrivals = random.Random(seed)
    begun = time.monotonic() + 0.2
    due, tasks = begun, []
    while True:
        due += arrivals.expovariate(rate)
        if due > begun + seconds:
            break
        await asyncio.sleep(max(0, due - time.monotonic()))
        tasks.append(asyncio.create_task(request(due)))
    for latency in await asyncio.gather(*tasks):
        print(f"{latency:.3f}")
    for _, writer in idle:
        writer.close()


asyncio.run(main())
