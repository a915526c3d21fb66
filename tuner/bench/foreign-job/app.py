"""A PyTorch text classifier behind Flask: each worker has a copy of the model, and each request is a batch of its own."""

import os
import zlib

import torch
from flask import Flask, jsonify, request

LABELS = ["negative", "neutral", "positive", "mixed"]
VOCABULARY, WIDTH, TOKENS, LAYERS = 4096, 64, 32, 2
torch.set_num_threads(int(os.environ.get("TORCH_THREADS", "1")))
torch.manual_seed(7)


class Classifier(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(VOCABULARY, WIDTH)
        layer = torch.nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True)
        self.encoder = torch.nn.TransformerEncoder(layer, LAYERS)
        self.head = torch.nn.Linear(WIDTH, len(LABELS))

    def forward(self, tokens):
        return self.head(self.encoder(self.embedding(tokens)).mean(1)).softmax(-1)


model = Classifier().eval()
app = Flask(__name__)


def tokens_of(text):
    words = [zlib.crc32(word.encode()) % VOCABULARY for word in text.lower().split()][:TOKENS]
    return words + [0] * (TOKENS - len(words))


@app.get("/healthz")
def healthz():
    return jsonify(status="ok")


@app.post("/predict")
def predict():
    with torch.no_grad():
        scores = model(torch.tensor([tokens_of(request.get_json()["text"])]))[0].tolist()
    best = max(range(len(LABELS)), key=scores.__getitem__)
    return jsonify(label=LABELS[best], score=scores[best])
