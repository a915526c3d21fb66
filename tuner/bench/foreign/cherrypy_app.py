import sys

import cherrypy
from sentiment import Refused, score


class Root:
    @cherrypy.expose
    @cherrypy.tools.allow(methods=["POST"])
    @cherrypy.tools.json_out()
    def predict(self):
        try:
            return score(cherrypy.request.rfile.read(int(cherrypy.request.headers["Content-Length"])))
        except Refused as error:
            cherrypy.response.status = 400
            return {"error": str(error)}


host, port = sys.argv[2].split(":")
cherrypy.config.update({"server.socket_host": host, "server.socket_port": int(port)})
cherrypy.quickstart(Root(), "/", {"/": {"request.process_request_body": False}})
