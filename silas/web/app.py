"""The ASGI application: the door, the page, the API, the conversation."""

from fastapi import FastAPI
from starlette.types import ASGIApp
from starlette.websockets import WebSocket

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

    @app.websocket("/ws")
    async def conversation(socket: WebSocket) -> None:
        await Conversation(front, hub, socket).run()

    return Door(app, origins=front.origins)
