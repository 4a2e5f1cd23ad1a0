"""`/api/companions/*`: the owner's companions, looked at and directed in the page.

Reading needs the session, everything else the device's signature, like everything here. What can
be asked is what the owner's desk can do; which methods the page may call is listed here, and none
of them reads a file.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException
from pydantic import Field

from silas.companions.errors import CompanionUnknown, NetworkDenied
from silas.companions.words import CHECKS, TOOLS
from silas.kernel import SilasError
from silas.web.bodies import Body
from silas.web.front import Front

Guard = Callable[..., Awaitable[Any]]
_CHANGES = frozenset(
    {
        "new", "configure", "consent", "revoke_consent", "wake", "pause", "resume", "cancel",
        "destroy", "stop", "release", "resume_all", "answer", "propose_persona", "approve_persona",
        "decline_persona", "describe_provider", "replay", "set_timers",
    }
)  # fmt: skip
_NOT_FROM_HERE = frozenset({"file"})
_RUNS = 30
_LISTED = 100
"""Nobody reads more lines than these; the others are found by name."""
_MOST_SOUGHT = 200


class Wanted(Body):
    """One method of the desk, and its arguments."""

    call: Annotated[str, Field(min_length=1, max_length=40)]
    arguments: dict[str, Any] = Field(default_factory=dict, max_length=20)


def companion_routes(front: Front, *, reader: Guard, signer: Guard) -> APIRouter:
    """The routes; whoever passes the guards is the owner."""
    router = APIRouter(prefix="/api/companions")

    @router.get("", dependencies=[Depends(reader)])
    async def overview() -> dict[str, Any]:
        return {
            **await _ask(front, "listed", {"limit": _LISTED}),
            "switches": await _ask(front, "switches"),
            "questions": await _ask(front, "questions"),
            "kinds": await _ask(front, "kinds"),
            "models": await _ask(front, "models"),
            "categories": [
                {"id": each.id, "name": each.name} for each in await front.journal.categories()
            ],
        }

    @router.get("/find/{words:path}", dependencies=[Depends(reader)])
    async def find(words: str) -> dict[str, Any]:
        wanted = {"words": words[:_MOST_SOUGHT], "limit": _LISTED}
        return dict(await _ask(front, "listed", wanted))

    @router.get("/of/{agent_id}", dependencies=[Depends(reader)])
    async def one(agent_id: str) -> dict[str, Any]:
        named = {"agent_id": agent_id}
        return {
            **await _ask(front, "show", named),
            "runs": await _ask(front, "runs", {**named, "limit": _RUNS}),
            "report": await _ask(front, "report", named),
            "disclosure": await _disclosure(front, named),
            "timers": await _ask(front, "timers", named),
            "personas": await _ask(front, "persona", named),
            "words": {"tools": dict(TOOLS), "checks": dict(CHECKS)},
        }

    @router.get("/runs/{run_key}", dependencies=[Depends(reader)])
    async def trace(run_key: str) -> dict[str, Any]:
        return {"trace": await _ask(front, "trace", {"run_key": run_key})}

    @router.get("/reports/{report_id}/{claim_id}", dependencies=[Depends(reader)])
    async def why(report_id: str, claim_id: str) -> dict[str, Any]:
        wanted = {"report_id": report_id, "claim_id": claim_id}
        return {"sources": await _ask(front, "why", wanted)}

    @router.post("/do", dependencies=[Depends(signer)])
    async def do(wanted: Wanted) -> dict[str, Any]:
        if wanted.call not in _CHANGES or _NOT_FROM_HERE & set(wanted.arguments):
            raise HTTPException(400, "This cannot be done from the page.")
        return {"answer": await _ask(front, wanted.call, wanted.arguments)}

    return router


async def _disclosure(front: Front, named: Mapping[str, Any]) -> Any:
    """None also if its model is not configured any more: nobody is asked then."""
    try:
        return await _ask(front, "disclosure", named)
    except HTTPException as error:
        if isinstance(error.__cause__, NetworkDenied):
            return None
        raise


async def _ask(front: Front, call: str, arguments: Mapping[str, Any] | None = None) -> Any:
    if front.companions is None:
        raise HTTPException(503, "There are no companions here.")
    try:
        return await front.companions(call, arguments or {})
    except CompanionUnknown as error:
        raise HTTPException(404, error.message) from error
    except SilasError as error:
        raise HTTPException(400, error.message) from error
