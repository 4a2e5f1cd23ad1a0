"""`/api/mcp/*`: which tool servers there are, what each runs and offers; asked for and taken away.

Reading needs the session of a paired device. A change needs its signature. Nothing is started or
used by a command: that follows from the owner's signed yes to the card that the command puts there.
"""

from typing import Annotated

from fastapi import Path

from silas.mcp.service import ToolServerDetails, ToolServerList, ToolServerService
from silas.web.access import page
from silas.web.command_routes import Routes, command_routes
from silas.web.commands import ApiCommand, PageAccess, by_name

MCP_COMMANDS = by_name(
    [
        # Looking. The page has GET routes of its own for these.
        ApiCommand(ToolServerService.list_servers, alias="list"),
        ApiCommand(ToolServerService.show),
        # Changing.
        ApiCommand(ToolServerService.add, PageAccess.SIGNED),
        ApiCommand(ToolServerService.connect, PageAccess.SIGNED),
        ApiCommand(ToolServerService.assign, PageAccess.SIGNED),
        ApiCommand(ToolServerService.check, PageAccess.SIGNED),
        ApiCommand(ToolServerService.renew, PageAccess.SIGNED),
        ApiCommand(ToolServerService.remove, PageAccess.SIGNED),
    ]
)
"""By name."""
ServerName = Annotated[str, Path(min_length=1, max_length=64)]


def mcp_routes(servers: ToolServerService) -> Routes:
    """The routes."""
    routes = command_routes("/api/mcp", MCP_COMMANDS.values(), lambda: servers)

    @routes.get("")
    @page(PageAccess.SESSION)
    async def listed_servers() -> ToolServerList:
        return await servers.list_servers()

    @routes.get("/item/{name}")
    @page(PageAccess.SESSION)
    async def one_server(name: ServerName) -> ToolServerDetails:
        return await servers.show(name)

    return routes
