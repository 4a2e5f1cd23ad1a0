"""Workers, gates, planners and owners under the control of a test."""

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from silas.approval import ApprovalDecision, ApprovalVerdict
from silas.gates import Gate, GateAction, GateLane, GateResult, GateTrigger
from silas.kernel import TaintLevel
from silas.work import ExecutorAgentOutput, ModelView, VerificationResult, WorkItem
from silas.work.ports import (
    AgentRun,
    Briefing,
    CallVerdict,
    Guidance,
    Later,
    PausedCall,
    PausedRun,
    ReviewingCaller,
    ToolCaller,
    ToolOffer,
    WaitingCall,
)

Work = Callable[[Briefing, ToolCaller], Awaitable[None]]


def offer(name: str, **more: Any) -> ToolOffer:
    """A tool for a test: it takes anything, and says that it stays in the sandbox."""
    told = {"description": f"The tool {name}.", "parameters": {"type": "object"}}
    return ToolOffer.model_validate(
        {"name": name, "contained": True, "changes_state": False, **told, **more}
    )


class FakeTools:
    """`ToolCaller` that answers by the tool's name, and remembers what was called."""

    def __init__(
        self,
        *offers: ToolOffer,
        answers: Mapping[str, str] | None = None,
        taint: TaintLevel = TaintLevel.OWNER,
    ) -> None:
        self.offers = offers
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self._answers = answers or {}
        self._taint = taint

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.offers)

    async def call(self, tool: str, args: Mapping[str, Any]) -> ModelView:
        self.calls.append((tool, dict(args)))
        there = tool in self.names
        return ModelView(
            success=there,
            return_value=self._answers.get(tool, "done") if there else "",
            content=[],
            error=None if there else f"There is no tool {tool}.",
            taint=self._taint,
        )


class FakeWorker:
    """`ExecutorAgent` that does what the test says, and claims success whatever happens."""

    def __init__(self, *work: Work, claims: Sequence[str] = (), tokens: int = 0) -> None:
        self._work = work
        self._claims = list(claims)
        self._tokens = tokens
        self.briefings: list[Briefing] = []

    async def run(self, briefing: Briefing, tools: ToolCaller) -> AgentRun:
        self.briefings.append(briefing)
        if self._work:
            # The last piece of work is repeated for every further attempt.
            await self._work[min(len(self.briefings), len(self._work)) - 1](briefing, tools)
        said = ExecutorAgentOutput(
            summary="Everything is done and works.", artifact_refs=self._claims
        )
        return AgentRun(output=said, tokens=self._tokens)


class PausingWorker:
    """`PausingAgent` that makes its calls in order; it waits where the owner has to decide.

    Its history is how many calls it has made, and what they answered stays in `answers`.
    """

    def __init__(self, *wanted: tuple[str, dict[str, Any]], tokens: int = 0) -> None:
        self._wanted = wanted
        self._tokens = tokens
        self.answers: list[str] = []

    async def run(self, briefing: Briefing, tools: ToolCaller) -> AgentRun | PausedRun:
        return await self._from(0, tools)

    async def resume(
        self,
        briefing: Briefing,
        tools: ToolCaller,
        *,
        paused: PausedRun,
        verdicts: Sequence[CallVerdict],
    ) -> AgentRun | PausedRun:
        at, (verdict,) = int(paused.history), verdicts
        if not verdict.approved:
            self.answers.append(verdict.reason)
            at += 1
        return await self._from(at, tools)

    async def _from(self, first: int, tools: ToolCaller) -> AgentRun | PausedRun:
        if not isinstance(tools, ReviewingCaller):
            raise TypeError("this worker needs tools that can be reviewed")
        for at in range(first, len(self._wanted)):
            review = await tools.review(*self._wanted[at])
            if review.waits is not None:
                waiting = WaitingCall(call_id=str(at), call=review.waits)
                return PausedRun(history=str(at), calls=(waiting,), tokens=self._tokens)
            view = await tools.perform(review)
            self.answers.append(view.error or view.return_value)
        said = ExecutorAgentOutput(summary="Everything is done and works.")
        return AgentRun(output=said, tokens=self._tokens)


class FakeGateRunner:
    """`GateRunner` that answers by the name of the gate, and remembers what it was asked."""

    def __init__(
        self, answers: Mapping[str, GateAction], *, rewritten: Mapping[str, Any] | None = None
    ) -> None:
        self._answers = answers
        self._rewritten = rewritten
        self.asked: list[tuple[str, dict[str, Any]]] = []

    async def check_gates(
        self, gates: list[Gate], trigger: GateTrigger, context: dict[str, Any]
    ) -> tuple[list[GateResult], list[GateResult], dict[str, Any]]:
        mine = [gate for gate in gates if gate.on is trigger]
        self.asked += [(gate.name, context) for gate in mine]
        results = [self._answer(gate) for gate in mine]
        policy = [result for result in results if result.lane is GateLane.POLICY]
        quality = [result for result in results if result.lane is GateLane.QUALITY]
        merged = {**context, "tool_args": self._rewritten} if self._rewritten else context
        return policy, quality, merged

    def _answer(self, gate: Gate) -> GateResult:
        action = self._answers.get(gate.name, GateAction.BLOCK)
        return GateResult(
            gate_name=gate.name, lane=gate.lane, action=action, reason="the test says so"
        )


class FakePlanner:
    """`Planner` that always has the same advice."""

    def __init__(self, text: str, *, tokens: int = 0) -> None:
        self._guidance = Guidance(text=text, tokens=tokens)
        self.asked: list[tuple[str, ...]] = []

    async def consult(
        self,
        item: WorkItem,
        failures: Sequence[VerificationResult],
        *,
        reason: str,
    ) -> Guidance:
        self.asked.append(tuple(failure.name for failure in failures))
        return self._guidance


class FakeApprover:
    """`Approver` whose owner always decides the same."""

    def __init__(self, verdict: ApprovalVerdict = ApprovalVerdict.APPROVED) -> None:
        self._decision = ApprovalDecision(verdict=verdict)
        self.calls: list[PausedCall] = []
        self.items: list[WorkItem] = []

    async def decide_call(self, call: PausedCall) -> ApprovalDecision | Later:
        self.calls.append(call)
        return self._decision

    async def decide_item(self, item: WorkItem) -> ApprovalDecision:
        self.items.append(item)
        return self._decision


class LaterApprover(FakeApprover):
    """`Approver` whose owner decides later about calls."""

    async def decide_call(self, call: PausedCall) -> ApprovalDecision | Later:
        self.calls.append(call)
        return Later()


class FakeSkills:
    """`SkillFiles` in memory: one text for each skill."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self.texts = dict(texts)

    async def digest(self, name: str) -> str | None:
        text = self.texts.get(name)
        return None if text is None else hashlib.sha256(text.encode()).hexdigest()

    async def instructions(self, name: str) -> str:
        return self.texts[name]
