"""A text classifier behind Flask, as many teams run one: plain JSON in, plain JSON out.

The model is a small network in pure Python with seeded weights, so that it needs nothing but Flask; its cost is real CPU time.
LOOKUP_MS stands in for a call to a feature store: the request waits for so long without using a core.
"""

import os
import random
import time
import zlib

from flask import Flask, jsonify, request

LABELS = ["negative", "neutral", "positive", "mixed"]
EMBEDDING, HIDDEN, VOCABULARY = 64, 192, 2048
LOOKUP_SECONDS = float(os.environ.get("LOOKUP_MS", "5")) / 1000

rng = random.Random(7)


def matrix(rows, columns):
    scale = columns**-0.5
    return [[rng.gauss(0, scale) for _ in range(columns)] for _ in range(rows)]


embeddings = matrix(VOCABULARY, EMBEDDING)
hidden_weights = matrix(HIDDEN, EMBEDDING)
output_weights = matrix(len(LABELS), HIDDEN)


def classify(text):
    words = [embeddings[zlib.crc32(word.encode()) % VOCABULARY] for word in text.lower().split()] or [embeddings[0]]
    mean = [sum(column) / len(words) for column in zip(*words)]
    hidden = [max(0.0, sum(w * x for w, x in zip(row, mean))) for row in hidden_weights]
    scores = [sum(w * x for w, x in zip(row, hidden)) for row in output_weights]
    best = max(range(len(LABELS)), key=scores.__getitem__)
    return LABELS[best], scores[best]


app = Flask(__name__)


@app.get("/healthz")
def healthz():
    return jsonify(status="ok")


@app.post("/predict")
def predict():
    body = request.get_json(silent=True)
    if not isinstance(body, dict) or not isinstance(body.get("text"), str):
        return jsonify(error='send {"text": "..."}'), 400
    time.sleep(LOOKUP_SECONDS)
    label, score = classify(body["text"])
    return jsonify(label=label, score=score)
