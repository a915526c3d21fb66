from flask import Flask, jsonify, request
from sentiment import Refused, score

app = Flask(__name__)


@app.post("/v1/sentiment")
def sentiment():
    try:
        return jsonify(score(request.get_data()))
    except Refused as error:
        return jsonify(error=str(error)), 422


@app.get("/health")
def health():
    return jsonify(status="ok")
