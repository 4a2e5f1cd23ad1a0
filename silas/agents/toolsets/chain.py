"""The whole chain, in the one order that there is."""

from collections.abc import Callable

from pydantic_ai.tools import RunContext
from pydantic_ai.toolsets import AbstractToolset

from silas.agents.toolsets.approval import approval_required
from silas.agents.toolsets.filtered import filtered
from silas.agents.toolsets.gated import GatedToolset
from silas.agents.toolsets.modes import ToolMode
from silas.agents.toolsets.prepared import prepared
from silas.agents.toolsets.revocation import RevocationToolset, Revoked
from silas.agents.toolsets.shown import plain
from silas.agents.toolsets.skill import SkillToolset
from silas.work.execution_models import ModelView
from silas.work.ports import ReviewingCaller, ToolCaller


def tool_chain(
    caller: ToolCaller,
    *,
    role: str,
    allowed: frozenset[str],
    mode: ToolMode,
    revoked: Revoked | None = None,
    show: Callable[[str, ModelView], str] = plain,
) -> AbstractToolset[None]:
    """The tools of one run of a role; what is not `allowed` by name does not exist.

    `revoked` may end the run for reasons of its own; those of the runtime always do. `show` makes
    text of a result.
    """
    reviewer = caller if isinstance(caller, ReviewingCaller) else None
    chain: AbstractToolset[None] = SkillToolset(caller, reviewer=reviewer, role=role)
    chain = prepared(chain, mode=mode)
    chain = filtered(chain, allowed=allowed, mode=mode)
    chain = approval_required(chain)
    chain = GatedToolset(chain, reviewer, show)
    return RevocationToolset(chain, _first_reason(reviewer, revoked))


def _first_reason(reviewer: ReviewingCaller | None, revoked: Revoked | None) -> Revoked:
    def reason(ctx: RunContext[None]) -> str | None:
        # What the run says it has used is told first: the runtime counts it.
        told = revoked(ctx) if revoked else None
        return told or (reviewer.revoked() if reviewer else None)

    return reason
