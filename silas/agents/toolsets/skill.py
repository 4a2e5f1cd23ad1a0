"""The innermost toolset: the runtime's tools, as it offers them. A call goes to the runtime.

It takes calls from `GatedToolset` alone, which marks them as `Passed`. What comes on another way
has gone around the wrappers, and is refused.
"""

from dataclasses import dataclass
from typing import Any

from pydantic_ai.exceptions import ApprovalRequired
from pydantic_ai.tools import RunContext, ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
from pydantic_core import SchemaValidator, core_schema

from silas.work.execution_models import ModelView
from silas.work.ports import CallReview, ReviewingCaller, ToolCaller, ToolOffer

_MAX_RETRIES = 3
# The runtime checks arguments against the tool's own model, and says in words what does not fit.
# Here they only have to be an object, so that there is one place that decides.
_ANY_OBJECT = SchemaValidator(core_schema.dict_schema(keys_schema=core_schema.str_schema()))


@dataclass(frozen=True)
class Passed:
    """The mark of a call that came through the gates, with the runtime's review of it, if any."""

    review: CallReview | None = None


class SkillToolset(AbstractToolset[None]):
    """Core tools and skill tools of one run; what they do is the runtime's business."""

    def __init__(self, caller: ToolCaller, *, reviewer: ReviewingCaller | None, role: str) -> None:
        self._caller = caller
        self._reviewer = reviewer
        self._role = role
        self._tools = {offer.name: self._tool(offer) for offer in caller.offers}

    @property
    def id(self) -> str:
        return f"silas-{self._role}"

    async def get_tools(self, ctx: RunContext[None]) -> dict[str, ToolsetTool[None]]:
        return self._tools

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[None], tool: ToolsetTool[None]
    ) -> ModelView:
        """Make the call: as it was reviewed, or whole if this runtime reviews none."""
        passed = ctx.tool_call_metadata
        if not isinstance(passed, Passed):
            raise ApprovalRequired
        if self._reviewer is None:
            return await self._caller.call(name, tool_args)
        if passed.review is None:
            raise ApprovalRequired
        return await self._reviewer.perform(passed.review)

    def _tool(self, offer: ToolOffer) -> ToolsetTool[None]:
        return ToolsetTool(
            toolset=self,
            tool_def=ToolDefinition(
                name=offer.name,
                description=offer.description,
                parameters_json_schema=offer.parameters,
                metadata={"contained": offer.contained, "changes_state": offer.changes_state},
            ),
            max_retries=_MAX_RETRIES,
            args_validator=_ANY_OBJECT,
        )
