"""The tools of agents that only look: proxy, planner, and the executor in research mode.

1. A tool that is not allowed here does not exist here. Nothing that changes anything is among them.
2. Arguments fit the tool's schema, before and after the gates.
3. The gates `on_tool_call` look at every call. Whoever blocks is obeyed; nobody can be asked in the
   middle of reading, so a gate that wants the owner's decision blocks too.
4. What was read taints the reader, from then on.
5. There is a greatest number of calls.
6. Whoever has read something private and something from outside sends nothing out any more: a text
   from outside may have asked for it, and a search is a message to whoever answers it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from silas.gates import Gate, GateAction, GateTrigger
from silas.kernel import CanonicalError, SilasError, TaintLevel, canonical_bytes, join_taint
from silas.kernel.models import Data
from silas.work.execution_models import ModelView
from silas.work.executors.arguments import ArgumentsRefused, checked
from silas.work.ports import AuditTrail, GateRunner, ToolOffer

MAX_CALLS = 40


@dataclass(frozen=True)
class ReadingTool:
    """One tool that looks, or that asks somebody else to look."""

    name: str
    description: str
    arguments: type[Data]
    run: Callable[[Any], Awaitable[ModelView]]
    contained: bool = True
    private: bool = False
    """What it gives is the owner's: memories, conversation, files."""

    @property
    def offer(self) -> ToolOffer:
        """The tool as an agent sees it."""
        return ToolOffer(
            name=self.name,
            description=self.description,
            parameters=_schema(self.arguments),
            contained=self.contained,
            changes_state=False,
        )


@cache
def _schema(arguments: type[Data]) -> dict[str, Any]:
    return arguments.model_json_schema()


@dataclass(frozen=True)
class Rules:
    """What looks at every call, and what the runtime knows about the caller."""

    gates: GateRunner | None
    active: Sequence[Gate]
    audit: AuditTrail
    known: Mapping[str, Any]


class _Refused(Exception):
    """The call is not made; the text is the agent's answer."""


class ReadingTools:
    """`ToolCaller` of one answer of one agent."""

    def __init__(
        self,
        tools: Iterable[ReadingTool],
        rules: Rules,
        *,
        allowed: frozenset[str],
        taint: TaintLevel,
        max_calls: int = MAX_CALLS,
        seen_private: bool = False,
    ) -> None:
        self._tools = {tool.name: tool for tool in tools if tool.name in allowed}
        self._rules = rules
        self._left = max_calls
        self._turn = asyncio.Lock()
        self._seen_private = seen_private
        self.taint = taint

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._tools)

    @property
    def offers(self) -> tuple[ToolOffer, ...]:
        return tuple(tool.offer for tool in self._tools.values())

    async def call(self, tool: str, args: Mapping[str, Any]) -> ModelView:
        async with self._turn:
            try:
                view = await self._call(tool, dict(args))
            except _Refused as refused:
                return refused_view(str(refused), taint=self.taint)
            except SilasError as error:
                return refused_view(error.message, taint=self.taint)
            self.taint = join_taint(self.taint, view.taint)
            return view.model_copy(update={"taint": self.taint})

    async def _call(self, name: str, args: dict[str, Any]) -> ModelView:
        self._left -= 1
        if self._left < 0:
            raise _Refused("There were too many calls. Answer with what is known.")
        tool = self._tools.get(name)
        if tool is None:
            raise _Refused(f"There is no tool {name[:100]!a}. There are: {', '.join(self.names)}.")
        _fitting(tool, args)
        args = await self._pass_gates(tool, args)
        await self._require_harmless(tool)
        self._seen_private = self._seen_private or tool.private
        return await tool.run(_fitting(tool, args))

    async def _require_harmless(self, tool: ReadingTool) -> None:
        """Rule 6."""
        if tool.contained or not self._seen_private or self.taint is not TaintLevel.EXTERNAL:
            return
        reasons = ["private data and text from outside were read before"]
        await self._rules.audit.log(
            "tool_call_blocked", **self._rules.known, tool=tool.name, reasons=reasons
        )
        raise _Refused(f"{tool.name} sends something out, and {reasons[0]}. Answer without it.")

    async def _pass_gates(self, tool: ReadingTool, args: dict[str, Any]) -> dict[str, Any]:
        rules = self._rules
        active = [gate for gate in rules.active if gate.on is GateTrigger.ON_TOOL_CALL]
        if not active:
            return args
        if rules.gates is None:
            raise _Refused("There are gates, and nobody here can evaluate them.")
        context = {
            **rules.known,
            "tool_name": tool.name,
            "tool_args": args,
            "tool_parameters": sorted(tool.arguments.model_fields),
            "contained": tool.contained,
            "changes_state": False,
            "taint": self.taint.value,
        }
        policy, quality, merged = await rules.gates.check_gates(
            active, GateTrigger.ON_TOOL_CALL, context
        )
        for result in quality:
            await rules.audit.log(
                "quality_gate_tool_call",
                **rules.known,
                gate=result.gate_name,
                score=result.score,
                flags=result.flags,
            )
        stopped = [each for each in policy if each.action is not GateAction.CONTINUE]
        if stopped:
            reasons = [f"{each.gate_name}: {each.reason}" for each in stopped]
            await rules.audit.log(
                "tool_call_blocked", **rules.known, tool=tool.name, reasons=reasons
            )
            raise _Refused(f"A gate stopped this: {reasons[0]}")
        return dict(merged.get("tool_args", args))


def _fitting(tool: ReadingTool, args: dict[str, Any]) -> Data:
    try:
        canonical_bytes(args)
        return checked(tool.arguments, args)
    except (ArgumentsRefused, CanonicalError) as error:
        raise _Refused(f"These arguments do not fit {tool.name}: {error}") from error


def answered_view(text: str, *, taint: TaintLevel) -> ModelView:
    """The answer of a tool that worked."""
    return ModelView(success=True, return_value=text, content=[], error=None, taint=taint)


def refused_view(reason: str, *, taint: TaintLevel) -> ModelView:
    """The answer of a tool that did not."""
    return ModelView(success=False, return_value="", content=[], error=reason, taint=taint)
