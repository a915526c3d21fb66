from typing import List, Optional

from fastapi import FastAPI
from pydantic import BaseModel
from sentiment import score

app = FastAPI()


class Options(BaseModel):
    top_k: int = 3
    threshold: float


class Request(BaseModel):
    texts: List[str]
    options: Options
    language: Optional[str] = None


@app.get("/healthz")
def healthz():
    return {"status": "ok"}


@app.post("/api/v2/classify")
def classify(request: Request):
    import json

    return {"results": [score(json.dumps({"text": text})) for text in request.texts]}
