from sentiment import Refused, score
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route


async def infer(request):
    try:
        return JSONResponse(score(await request.body()))
    except Refused as error:
        return JSONResponse({"error": str(error)}, status_code=400)


app = Starlette(routes=[Route("/infer", infer, methods=["POST"]), Route("/ping", lambda request: JSONResponse({}))])
