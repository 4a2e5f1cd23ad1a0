"""Gates: every call is reviewed by the runtime before anything inside of this sees it.

1. The tool is one that exists in this run. What the caller of this brings along does not count:
   neither a tool from elsewhere, nor that a call is said to be approved.
2. The runtime reviews the call: gates, argument schemas, envelope, the owner's decisions. Arguments
   that were changed on the way, also by an approval, are reviewed as they are now.
3. A refusal is the answer. What waits for the owner is deferred, with its exact arguments.
4. What passed goes on inside, with the arguments as the gates left them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic_ai.exceptions import ApprovalRequired
from pydantic_ai.tools import RunContext
from pydantic_ai.toolsets import ToolsetTool, WrapperToolset

from silas.agents.toolsets.shown import cut, plain
from silas.agents.toolsets.skill import Passed
from silas.work.execution_models import ModelView
from silas.work.ports import ReviewingCaller

WAITS = "waits"
"""Under this name a deferred call carries what the owner has to decide."""


@dataclass
class GatedToolset(WrapperToolset[None]):
    """Lets calls pass that the runtime lets pass."""

    reviewer: ReviewingCaller | None
    """None: this runtime reviews a call when it is made, and never lets one wait."""
    show: Callable[[str, ModelView], str] = plain
    _tools: dict[str, ToolsetTool[None]] | None = field(default=None, init=False, repr=False)

    async def get_tools(self, ctx: RunContext[None]) -> dict[str, ToolsetTool[None]]:
        """The tools of this run. Everything inside is fixed with the chain, so once is enough."""
        if self._tools is None:
            self._tools = await self.wrapped.get_tools(ctx)
        return self._tools

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[None], tool: ToolsetTool[None]
    ) -> str:
        known = (await self.get_tools(ctx)).get(name)
        if known is None:
            return f"There is no tool {name[:100]!a} here."
        review = await self.reviewer.review(name, tool_args) if self.reviewer else None
        if review is not None and review.refusal is not None:
            return cut(f"Refused: {review.refusal}")
        passes = review is None or review.waits is None
        inside = replace(ctx, tool_call_approved=passes, tool_call_metadata=Passed(review))
        args = review.args if review is not None else tool_args
        try:
            return self.show(name, await self.wrapped.call_tool(name, args, inside, known))
        except ApprovalRequired as deferred:
            if review is None or review.waits is None:
                raise
            raise ApprovalRequired(metadata={WAITS: review.waits}) from deferred
