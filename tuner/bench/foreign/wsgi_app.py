import json

from sentiment import Refused, score


def app(environ, start_response):
    status, answer = "404 Not Found", {"error": "no such path"}
    if environ["PATH_INFO"] == "/predict":
        status, answer = "405 Method Not Allowed", {"error": "POST it"}
        if environ["REQUEST_METHOD"] == "POST":
            try:
                status, answer = "200 OK", score(environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0)))
            except Refused as error:
                status, answer = "400 Bad Request", {"error": str(error)}
    body = json.dumps(answer).encode()
    start_response(status, [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
    return [body]


if __name__ == "__main__":
    import sys
    from wsgiref.simple_server import make_server

    make_server("127.0.0.1", int(sys.argv[1].split("=")[1]), app).serve_forever()
