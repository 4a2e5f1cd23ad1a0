"""A runtime for the chain's tests: it reviews and performs, and remembers everything."""

from collections.abc import Mapping
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.tools import DeferredToolRequests, RunContext
from pydantic_ai.toolsets import AbstractToolset
from pydantic_ai.usage import RunUsage

from silas.agents.toolsets import ToolMode, tool_chain
from silas.kernel import TaintLevel
from silas.testing.work import offer
from silas.tools.declaration import ToolOffer
from silas.tools.execution import ModelView
from silas.work.ports import CallReview, PausedCall

OFFERS = (
    offer("read_file"),
    offer("write_file"),
    offer("shell_exec"),
    offer("web_search", contained=False),
    offer("send", contained=False, changes_state=True),
)
NAMES = frozenset(each.name for each in OFFERS)


class Runtime:
    """`ToolCaller` that lets everything pass; only `send` waits until it is decided."""

    def __init__(self, *offers: ToolOffer) -> None:
        self.offers = offers or OFFERS
        self.reviewed: list[tuple[str, dict[str, Any]]] = []
        self.performed: list[tuple[str, dict[str, Any]]] = []
        self.decided: list[dict[str, Any]] = []
        self.reason: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.offers)

    @property
    def reviewer(self) -> "Runtime":
        return self

    async def call(self, tool: str, args: Mapping[str, Any]) -> ModelView:
        raise AssertionError("the chain must not go around the review")

    async def review(self, tool: str, args: Mapping[str, Any]) -> CallReview:
        self.reviewed.append((tool, dict(args)))
        number, args = len(self.reviewed), dict(args)
        waits = None
        if tool == "send" and args not in self.decided:
            waits = PausedCall(
                work_item_id="t1",
                attempt=1,
                tool=tool,
                args=args,
                reasons=["It changes something."],
                taint=TaintLevel.OWNER,
            )
        refusal = "Forbidden." if args.get("path") == "/etc/passwd" else None
        return CallReview(number=number, tool=tool, args=args, refusal=refusal, waits=waits)

    async def perform(self, review: CallReview) -> ModelView:
        assert review.refusal is None
        assert review.waits is None
        self.performed.append((review.tool, review.args))
        return view(f"{review.tool} was called")

    def revoked(self) -> str | None:
        return self.reason

    def report(self, *, tokens: int, cost_usd: float) -> None:
        raise AssertionError("the chain does not count")


def view(text: str = "", **more: Any) -> ModelView:
    fields = {"success": True, "content": [], "error": None, "taint": TaintLevel.OWNER}
    return ModelView.model_validate({**fields, "return_value": text, **more})


def chain_of(runtime: Any, **more: Any) -> AbstractToolset[None]:
    fields = {"role": "executor", "allowed": NAMES, "mode": ToolMode.EXECUTION}
    return tool_chain(runtime, **{**fields, **more})


def context(**more: Any) -> RunContext[None]:
    return RunContext[None](deps=None, model=FunctionModel(says()), usage=RunUsage(), **more)


def says(*turns: list[tuple[str, Any]]) -> Any:
    """A model that makes these calls, turn by turn, and then says `done`."""

    def answer(messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
        at = sum(isinstance(each, ModelResponse) for each in messages)
        if at >= len(turns):
            return ModelResponse(parts=[TextPart("done")])
        return ModelResponse(
            parts=[
                ToolCallPart(name, args, tool_call_id=f"{at}-{number}")
                for number, (name, args) in enumerate(turns[at])
            ]
        )

    return answer


def agent_of(*turns: list[tuple[str, Any]]) -> Agent[None, Any]:
    return Agent(
        FunctionModel(says(*turns)), output_type=[str, DeferredToolRequests], retries={"tools": 3}
    )


def answers(messages: list[ModelMessage]) -> list[str]:
    """What the tools answered, in order."""
    parts = [part for each in messages for part in each.parts]
    return [str(part.content) for part in parts if isinstance(part, ToolReturnPart)]
