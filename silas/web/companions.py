"""`/api/companions/*`: the owner's companions, looked at and directed.

The page reads through the GET routes, each of which has what one view of it shows. Everything else
is one route for each command of `silas.web.companion_commands`.
"""

from typing import Any

from silas.companions.errors import NetworkDenied
from silas.companions.service import CompanionService
from silas.companions.views import CompanionList, DisclosureView
from silas.companions.words import CHECKS, TOOLS
from silas.kernel.models import UtcDatetime
from silas.web.access import page
from silas.web.command_routes import Routes, command_routes
from silas.web.commands import PageAccess
from silas.web.companion_commands import COMPANION_COMMANDS
from silas.web.front import Front

_MAX_RUNS = 30
_MAX_LISTED = 100
"""Nobody reads more lines than these; the others are found by name."""
_MAX_SEARCH_CHARACTERS = 200


def companion_routes(front: Front) -> Routes:
    """The routes."""
    commands = COMPANION_COMMANDS.values()
    routes = command_routes("/api/companions", commands, lambda: front.companions)

    @routes.get("")
    @page(PageAccess.SESSION)
    async def overview() -> dict[str, Any]:
        service = front.companions
        listed = await service.listed(limit=_MAX_LISTED)
        return {
            "companions": listed.companions,
            "total": listed.total,
            "switches": await service.switches(),
            "questions": await service.questions(),
            "kinds": service.kinds(),
            "models": service.models(),
            "categories": [
                {"id": each.id, "name": each.name} for each in await front.journal.categories()
            ],
        }

    @routes.get("/find/{words:path}")
    @page(PageAccess.SESSION)
    async def find(words: str) -> CompanionList:
        wanted = words[:_MAX_SEARCH_CHARACTERS]
        return await front.companions.listed(words=wanted, limit=_MAX_LISTED)

    @routes.get("/of/{agent_id}")
    @page(PageAccess.SESSION)
    async def one(agent_id: str) -> dict[str, Any]:
        service = front.companions
        return {
            **dict(await service.show(agent_id)),
            "runs": await service.runs(agent_id, limit=_MAX_RUNS),
            "reports": await service.reports(agent_id),
            "disclosure": await _disclosure(service, agent_id),
            "timers": await service.timers(agent_id),
            "conversation": await service.conversation(agent_id),
            "personas": await service.persona(agent_id),
            "forgotten": await service.forgotten(agent_id),
            "objectives": await service.objectives(agent_id),
            "rollout": await service.rollout(agent_id),
            "diagnostics": await service.diagnostics(agent_id),
            "words": {"tools": dict(TOOLS), "checks": dict(CHECKS)},
        }

    @routes.get("/of/{agent_id}/conversation/{before}")
    @page(PageAccess.SESSION)
    async def earlier(agent_id: str, before: UtcDatetime) -> dict[str, Any]:
        return {"conversation": await front.companions.conversation(agent_id, before=before)}

    @routes.get("/runs/{run_key}")
    @page(PageAccess.SESSION)
    async def trace(run_key: str) -> dict[str, Any]:
        return {"trace": await front.companions.trace(run_key)}

    @routes.get("/reports/{report_id}/{claim_id}")
    @page(PageAccess.SESSION)
    async def why(report_id: str, claim_id: str) -> dict[str, Any]:
        return {"sources": await front.companions.why(report_id, claim_id)}

    return routes


async def _disclosure(service: CompanionService, agent_id: str) -> DisclosureView | None:
    """None also if its model is not configured any more: nobody is asked then."""
    try:
        return await service.disclosure(agent_id)
    except NetworkDenied:
        return None
