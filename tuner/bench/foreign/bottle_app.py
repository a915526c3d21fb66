import sys

from bottle import Bottle, request, response, run
from sentiment import Refused, score

app = Bottle()


@app.post("/invocations")
def invocations():
    try:
        return score(request.body.read())
    except Refused as error:
        response.status = 400
        return {"error": str(error)}


@app.get("/ping")
def ping():
    return {}


server = sys.argv[sys.argv.index("--server") + 1] if "--server" in sys.argv else "wsgiref"
run(app, host="127.0.0.1", port=int(sys.argv[sys.argv.index("-p") + 1]), server=server, quiet=True)
