"""The chain of toolsets between a model and the runtime, in the one order that there is.

From the inside out, one wrapper with one responsibility each; a call comes in at the outside:

1. `SkillToolset`: the runtime's tools, as it offers them. It takes calls from `GatedToolset` alone,
   which marks them as `PassedCall`. What comes on another way has gone around the wrappers, and is
   refused.
2. `_prepared`, in approved work alone: what acts outside of the sandbox says that the owner may be
   asked.
3. `_filtered`: what the access level does not allow, or what the mode rules out, does not exist.
4. Approval required: the library's wrapper asks for approval of every call that does not count as
   approved. `GatedToolset` says whether one does, after the runtime's review.
5. `GatedToolset`: the runtime reviews every call before anything inside of this sees it.
6. `RevocationToolset`: when the run may not go on, no call is made and it ends.

No wrapper decides what is safe: the runtime's `ToolCaller` does, and the chain sees to it that
there is no way around it. A model sees the channels of a result that are meant for it, cut to a
sane size.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Self

from pydantic_ai.exceptions import ApprovalRequired
from pydantic_ai.tools import RunContext, ToolDefinition
from pydantic_ai.toolsets import (
    AbstractToolset,
    FilteredToolset,
    PreparedToolset,
    ToolsetTool,
    WrapperToolset,
)
from pydantic_core import SchemaValidator, core_schema, to_json

from silas.tools import RESEARCH_TOOLS
from silas.tools.declaration import ToolOffer
from silas.tools.execution import ModelView
from silas.work.ports import CallReview, CallReviewer, ToolCaller


class ToolMode(StrEnum):
    """What a run is for."""

    EXECUTION = "execution"
    """Approved work: whatever the access level allows."""
    RESEARCH = "research"
    """Finding things out. What could change anything does not exist."""
    CONVERSATION = "conversation"
    """The proxy and the planner: the tools that the stream gives them."""


def _filtered(
    inner: AbstractToolset[None], *, allowed: frozenset[str], mode: ToolMode
) -> FilteredToolset[None]:
    """Only tools that are named; in research only those that can change nothing."""

    def exists(_ctx: RunContext[None], tool: ToolDefinition) -> bool:
        if tool.name not in allowed:
            return False
        changes = (tool.metadata or {}).get("changes_state") is not False
        return mode is not ToolMode.RESEARCH or (tool.name in RESEARCH_TOOLS and not changes)

    return inner.filtered(exists)


_ASKS = "It acts outside of the sandbox: the owner may be asked first, and may say no."


def _prepared(inner: AbstractToolset[None]) -> PreparedToolset[None]:
    """The tools with what approved work has to know about them."""
    # Every step of a run asks again, and the answer is the same as long as the tools are.
    told: dict[str, tuple[ToolDefinition, ToolDefinition]] = {}

    def prepare(_ctx: RunContext[None], tools: list[ToolDefinition]) -> list[ToolDefinition]:
        for tool in tools:
            known = told.get(tool.name)
            if known is None or known[0] is not tool:
                told[tool.name] = (tool, _described(tool))
        return [told[tool.name][1] for tool in tools]

    return inner.prepared(prepare)


def _described(tool: ToolDefinition) -> ToolDefinition:
    if (tool.metadata or {}).get("contained") is True:
        return tool
    return replace(tool, description=f"{tool.description} {_ASKS}")


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


MOST_CHARS = 32_000
"""About 9,000 tokens. Who needs more reads it in parts."""


def plain(_tool: str, view: ModelView) -> str:
    """The result as it is."""
    return cut(text_of(view))


def text_of(view: ModelView) -> str:
    """What a result says."""
    said = view.return_value or (to_json(view.content).decode() if view.content else "")
    if view.success:
        return said or "Done. There was no output."
    return f"Did not work: {view.error or 'nobody knows why.'}" + (f"\n{said}" if said else "")


def cut(text: str, most: int = MOST_CHARS) -> str:
    """The beginning and the end of a text that is too long: errors tend to stand at the end."""
    if len(text) <= most:
        return text
    left_out = len(text) - most
    return f"{text[: most // 2]}\n[{left_out} characters left out]\n{text[-(most // 2) :]}"


_MAX_RETRIES = 3
# The runtime checks arguments against the tool's own model, and says in words what does not fit.
# Here they only have to be an object, so that there is one place that decides.
_ANY_OBJECT = SchemaValidator(core_schema.dict_schema(keys_schema=core_schema.str_schema()))


@dataclass(frozen=True)
class PassedCall:
    """The mark of a call that came through the gates, with the runtime's review of it, if any."""

    review: CallReview | None = None


class SkillToolset(AbstractToolset[None]):
    """Core tools and skill tools of one run; what they do is the runtime's business."""

    def __init__(self, caller: ToolCaller, *, reviewer: CallReviewer | None, role: str) -> None:
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
        if not isinstance(passed, PassedCall):
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


WAITS = "waits"
"""Under this name a deferred call carries what the owner has to decide."""


@dataclass
class GatedToolset(WrapperToolset[None]):
    """Lets calls pass that the runtime lets pass.

    1. The tool is one that exists in this run. What the caller of this brings along does not count:
       neither a tool from elsewhere, nor that a call is said to be approved.
    2. The runtime reviews the call: gates, argument schemas, envelope, the owner's decisions.
       Arguments that were changed on the way, also by an approval, are reviewed as they are now.
    3. A refusal is the answer. What waits for the owner is deferred, with its exact arguments.
    4. What passed goes on inside, with the arguments as the gates left them.
    """

    reviewer: CallReviewer | None
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
        inside = replace(ctx, tool_call_approved=passes, tool_call_metadata=PassedCall(review))
        args = review.args if review is not None else tool_args
        try:
            return self.show(name, await self.wrapped.call_tool(name, args, inside, known))
        except ApprovalRequired as deferred:
            if review is None or review.waits is None:
                raise
            raise ApprovalRequired(metadata={WAITS: review.waits}) from deferred


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
    reviewer = caller.reviewer
    chain: AbstractToolset[None] = SkillToolset(caller, reviewer=reviewer, role=role)
    if mode is ToolMode.EXECUTION:
        chain = _prepared(chain)
    chain = _filtered(chain, allowed=allowed, mode=mode)
    chain = chain.approval_required()
    chain = GatedToolset(chain, reviewer, show)
    return RevocationToolset(chain, _first_reason(reviewer, revoked))


def _first_reason(reviewer: CallReviewer | None, revoked: Revoked | None) -> Revoked:
    def reason(ctx: RunContext[None]) -> str | None:
        # What the run says it has used is told first: the runtime counts it.
        told = revoked(ctx) if revoked else None
        return told or (reviewer.revoked() if reviewer else None)

    return reason
