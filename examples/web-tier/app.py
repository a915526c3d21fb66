"""The web application: plain JSON in, the model server asked, plain JSON out. Nothing but the standard library."""

import http.client
import json
import os
import threading
from urllib.parse import urlsplit

LABELS = ["negative", "positive"]
MODEL = urlsplit(os.environ["MODEL_URL"])
local = threading.local()


def classify(text):
    """Each thread keeps its connection to the model server; one that was closed meanwhile is opened anew."""
    body = json.dumps({"inputs": [{"name": "text", "shape": [1], "datatype": "BYTES", "data": [text]}]})
    for attempt in (1, 2):
        if not hasattr(local, "connection"):
            local.connection = http.client.HTTPConnection(MODEL.netloc, timeout=30)
        try:
            local.connection.request("POST", MODEL.path, body, {"Content-Type": "application/json"})
            answer = local.connection.getresponse()
            reply = json.loads(answer.read())
            break
        except (http.client.HTTPException, ConnectionError):
            local.connection.close()
            del local.connection
            if attempt == 2:
                raise
    if answer.status != 200:
        return answer.status, {"error": reply.get("error", "the model server failed")}
    logits = reply["outputs"][0]["data"]
    best = max(range(len(logits)), key=logits.__getitem__)
    return 200, {"label": LABELS[best], "logit": logits[best]}


def answer(environ):
    if environ["PATH_INFO"] == "/healthz":
        return 200, {"status": "ok"}
    if environ["PATH_INFO"] != "/classify" or environ["REQUEST_METHOD"] != "POST":
        return 404, {"error": "POST /classify"}
    try:
        text = json.loads(environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0)))["text"]
    except (ValueError, KeyError, TypeError):
        return 400, {"error": 'send {"text": "..."}'}
    return classify(text)


def app(environ, start_response):
    status, reply = answer(environ)
    body = json.dumps(reply).encode()
    start_response(f"{status} {http.client.responses[status]}", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
    return [body]
