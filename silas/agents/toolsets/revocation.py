"""Revocation, the outermost wrapper: when the run may not go on, no call is made and it ends."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

from pydantic_ai.tools import RunContext
from pydantic_ai.toolsets import ToolsetTool, WrapperToolset

Revoked = Callable[[RunContext[None]], str | None]
"""Why the run may not go on; None as long as it may."""


class CallsRevoked(Exception):
    """The run has to end; the text says why. Whoever runs the agent catches it."""


@dataclass
class RevocationToolset(WrapperToolset[None]):
    """Ends a run whose right to call anything is gone."""

    revoked: Revoked

    # Nothing inside has instructions of its own, or a state for a run or a step: whoever asks for
    # them need not be sent through every wrapper, at every step.
    async def get_instructions(self, ctx: RunContext[None]) -> None:
        return None

    async def for_run(self, ctx: RunContext[None]) -> Self:
        return self

    async def for_run_step(self, ctx: RunContext[None]) -> Self:
        return self

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[None], tool: ToolsetTool[None]
    ) -> Any:
        reason = self.revoked(ctx)
        if reason is not None:
            raise CallsRevoked(reason)
        return await self.wrapped.call_tool(name, tool_args, ctx, tool)
