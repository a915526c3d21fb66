import tornado.ioloop
import tornado.web
from sentiment import Refused, score
from tornado.options import define, options, parse_command_line

define("port", type=int)


class Predict(tornado.web.RequestHandler):
    def post(self):
        try:
            self.write(score(self.request.body))
        except Refused as error:
            self.set_status(400)
            self.write({"error": str(error)})


parse_command_line()
tornado.web.Application([("/predict", Predict)]).listen(options.port, "127.0.0.1")
tornado.ioloop.IOLoop.current().start()
