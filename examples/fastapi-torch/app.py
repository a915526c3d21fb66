"""A PyTorch text classifier behind FastAPI, as many teams write it: a small transformer, and requests that wait for each other are run as one batch.

Its weights are random (seeded): what serving costs does not depend on them. BATCH_SIZE is the most that one batch holds, TORCH_THREADS the threads
of one batch; how many processes there are is uvicorn's own --workers.
"""

import asyncio
import os
import zlib
from typing import List

import torch
from fastapi import FastAPI
from pydantic import BaseModel

LABELS = ["negative", "neutral", "positive", "mixed"]
VOCABULARY, WIDTH, TOKENS, LAYERS = 4096, 64, 32, 2
BATCH_SIZE = int(os.environ.get("BATCH_SIZE", "1"))
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
app = FastAPI()
waiting: "asyncio.Queue" = None


def tokens_of(text: str) -> List[int]:
    words = [zlib.crc32(word.encode()) % VOCABULARY for word in text.lower().split()][:TOKENS]
    return words + [0] * (TOKENS - len(words))


def scores_of(texts: List[str]) -> List[List[float]]:
    with torch.no_grad():
        return model(torch.tensor([tokens_of(text) for text in texts])).tolist()


async def batches():
    """Whoever waits when the model is free goes in one batch."""
    loop = asyncio.get_running_loop()
    while True:
        batch = [await waiting.get()]
        while len(batch) < BATCH_SIZE and not waiting.empty():
            batch.append(waiting.get_nowait())
        try:
            answers = await loop.run_in_executor(None, scores_of, [text for text, _ in batch])
        except Exception as error:
            for _, answer in batch:
                answer.set_exception(error)
            continue
        for (_, answer), scores in zip(batch, answers):
            if not answer.done():
                answer.set_result(scores)


@app.on_event("startup")
async def start():
    global waiting
    waiting = asyncio.Queue()
    app.state.batches = asyncio.create_task(batches())


class Request(BaseModel):
    text: str


@app.get("/healthz")
def healthz():
    return {"status": "ok"}


@app.post("/predict")
async def predict(request: Request):
    answer = asyncio.get_running_loop().create_future()
    await waiting.put((request.text, answer))
    scores = await answer
    best = max(range(len(LABELS)), key=scores.__getitem__)
    return {"label": LABELS[best], "score": scores[best]}
