import json
import os

from sentiment import Refused, score
from twisted.internet import reactor
from twisted.web import resource, server


class Score(resource.Resource):
    isLeaf = True

    def render_POST(self, request):
        request.setHeader("content-type", "application/json")
        try:
            return json.dumps(score(request.content.read())).encode()
        except Refused as error:
            request.setResponseCode(400)
            return json.dumps({"error": str(error)}).encode()


root = resource.Resource()
root.putChild(b"score", Score())
reactor.listenTCP(int(os.environ.get("PORT", "8080")), server.Site(root), interface="127.0.0.1")
reactor.run()
