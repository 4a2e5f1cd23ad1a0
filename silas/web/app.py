"""The ASGI application: the door, the page, the API, the conversation."""

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.responses import JSONResponse
from starlette.types import ASGIApp
from starlette.websockets import WebSocket

from silas.kernel import ChannelError, ServerError, SilasError
from silas.web.doors import Door
from silas.web.front import Front
from silas.web.hub import Hub
from silas.web.pages import page_routes
from silas.web.routes import make_routes
from silas.web.socket import Conversation


def make_app(front: Front, hub: Hub) -> ASGIApp:
    """Everything, behind the door."""
    app = FastAPI(title="Silas", version=front.version, docs_url=None, redoc_url=None)
    app.include_router(make_routes(front, hub))
    app.router.routes.extend(page_routes())

    app.add_exception_handler(RequestValidationError, _not_understood)
    app.add_exception_handler(SilasError, _not_done)

    @app.websocket("/ws")
    async def conversation(socket: WebSocket) -> None:
        await Conversation(front, hub, socket).run()

    return Door(app, origins=front.origins)


async def _not_understood(_request: Request, error: Exception) -> JSONResponse:
    """What is wrong with a request, without what it said: that may be a secret."""
    found = error.errors() if isinstance(error, RequestValidationError) else []
    told = [{"loc": each["loc"], "msg": each["msg"], "type": each["type"]} for each in found]
    return JSONResponse({"detail": told}, status_code=422)


async def _not_done(_request: Request, error: Exception) -> JSONResponse:
    """Why something was not done, in words."""
    if not isinstance(error, SilasError):
        raise error
    refused = isinstance(error, (ChannelError, ServerError))
    told = {"detail": error.message, "code": error.code}
    return JSONResponse(told, status_code=409 if refused else 503)
