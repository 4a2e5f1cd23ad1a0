"""`/api/connections/*`: the owner's accounts elsewhere; put before the owner, watched, taken back.

Reading needs the session of a paired device. A change needs its signature. Connecting and allowing
more are no commands: they follow from the owner's signed yes to the cards that `connect` and
`allow` put there. A secret goes to `/secrets/{ref_id}` and nowhere else.
"""

from typing import Annotated

from fastapi import Path

from silas.connections.service import (
    ConnectionDetails,
    ConnectionList,
    ConnectionService,
    ItRequest,
)
from silas.proactive.lessons import ItemAnswers, RuleList
from silas.web.access import page
from silas.web.command_routes import Routes, command_routes
from silas.web.commands import ApiCommand, PageAccess, by_name

CONNECTION_COMMANDS = by_name(
    [
        # Looking. The page has GET routes of its own for these.
        ApiCommand(ConnectionService.list_connections, alias="list"),
        ApiCommand(ConnectionService.show),
        ApiCommand(ConnectionService.it_request),
        # Changing.
        ApiCommand(ConnectionService.connect, PageAccess.SIGNED),
        ApiCommand(ConnectionService.reconnect, PageAccess.SIGNED),
        ApiCommand(ConnectionService.cancel, PageAccess.SIGNED),
        ApiCommand(ConnectionService.check, PageAccess.SIGNED),
        ApiCommand(ConnectionService.pause, PageAccess.SIGNED),
        ApiCommand(ConnectionService.resume, PageAccess.SIGNED),
        ApiCommand(ConnectionService.rename, PageAccess.SIGNED),
        ApiCommand(ConnectionService.remove, PageAccess.SIGNED),
        ApiCommand(ConnectionService.allow, PageAccess.SIGNED),
        ApiCommand(ConnectionService.disallow, PageAccess.SIGNED),
        ApiCommand(ConnectionService.cross, PageAccess.SIGNED),
        ApiCommand(ConnectionService.uncross, PageAccess.SIGNED),
    ]
)
"""By name."""
RULE_COMMANDS = by_name(
    [
        ApiCommand(ItemAnswers.list_rules, alias="list"),
        ApiCommand(ItemAnswers.drop_rule, PageAccess.SIGNED, alias="drop"),
    ]
)
"""By name."""
Name = Annotated[str, Path(min_length=1, max_length=200)]


def connection_routes(connections: ConnectionService) -> Routes:
    """The routes."""
    routes = command_routes("/api/connections", CONNECTION_COMMANDS.values(), lambda: connections)

    @routes.get("")
    @page(PageAccess.SESSION)
    async def listed() -> ConnectionList:
        return await connections.list_connections()

    @routes.get("/item/{name}")
    @page(PageAccess.SESSION)
    async def one(name: Name) -> ConnectionDetails:
        return await connections.show(name)

    @routes.get("/item/{name}/letter")
    @page(PageAccess.SESSION)
    async def letter(name: Name) -> ItRequest:
        return await connections.it_request(name)

    return routes


def rule_routes(answers: ItemAnswers) -> Routes:
    """What the owner has signed about the items of these accounts."""
    routes = command_routes("/api/rules", RULE_COMMANDS.values(), lambda: answers)

    @routes.get("")
    @page(PageAccess.SESSION)
    async def listed() -> RuleList:
        return await answers.list_rules()

    return routes
