"""Workers, gates, planners and owners under the control of a test.

Also the decisions of an owner who has the vault open, as a test or a measurement needs them.
"""

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from silas.approval import ApprovalDecision, ApprovalVerdict
from silas.gates import Gate, GateAction, GateLane, GateResult, GateTrigger
from silas.gates.risk import ActionKind, DeclaredEffect, EffectOf, Reversibility
from silas.gates.runner import GateRunner
from silas.kernel import TaintLevel
from silas.review import Decisions, OwnersProof, OwnersWord, ShownQuestion
from silas.storage import Transaction
from silas.testing.fakes import RecordingAudit
from silas.tools.declaration import Tool, ToolOffer
from silas.tools.execution import ModelView
from silas.work import VerificationResult
from silas.work.authorisation import authorise, calls_question, decide_waiting, plan_question
from silas.work.execution_context import Authority
from silas.work.models import WorkItem
from silas.work.paused import KeptCall
from silas.work.ports import (
    AgentRun,
    Briefing,
    CallVerdict,
    ExecutorAgentOutput,
    Guidance,
    Later,
    OneRunWorker,
    PausedCall,
    PausedRun,
    ToolCaller,
    WaitingCall,
)

LOOKS = DeclaredEffect(action=ActionKind.OBSERVE, reversibility=Reversibility.REVERSIBLE)
SENDS = DeclaredEffect(action=ActionKind.SEND, reversibility=Reversibility.IRREVERSIBLE)
DESTROYS = DeclaredEffect(action=ActionKind.DESTROY, reversibility=Reversibility.IRREVERSIBLE)
"""What tools of tests declare."""

Work = Callable[[Briefing, ToolCaller], Awaitable[None]]


def offer(name: str, **more: Any) -> ToolOffer:
    """A tool for a test: it takes anything, and says that it stays in the sandbox."""
    told = {"description": f"The tool {name}.", "parameters": {"type": "object"}}
    return ToolOffer.model_validate(
        {"name": name, "contained": True, "changes_state": False, **told, **more}
    )


def declaring(**effects: DeclaredEffect) -> EffectOf:
    """`EffectOf` of tools that declare exactly this."""
    return effects.get


class UnsafeOwnerTaint:
    """Says of every work item that the owner's own words made it: for tests about other things."""

    async def __call__(self, item: WorkItem) -> TaintLevel:
        return TaintLevel.OWNER


class UnsafeNoRateLimit:
    """Lets every tool be called as often as anybody likes: for tests about other things."""

    async def __call__(self, item: WorkItem, tool: str) -> str | None:
        return None


class FakeTools:
    """`ToolCaller` that answers by the tool's name, and remembers what was called."""

    reviewer = None

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


class FakeWorker(OneRunWorker):
    """`AttemptWorker` that does what the test says, and claims success whatever happens."""

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
    """`AttemptWorker` that makes its calls in order; it waits where the owner has to decide.

    Its history is how many calls it has made, and what they answered stays in `answers`.
    """

    pauses = True

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
        reviewer = tools.reviewer
        if reviewer is None:
            raise TypeError("this worker needs tools that can be reviewed")
        for at in range(first, len(self._wanted)):
            review = await reviewer.review(*self._wanted[at])
            if review.waits is not None:
                waiting = WaitingCall(call_id=str(at), call=review.waits)
                return PausedRun(history=str(at), calls=(waiting,), tokens=self._tokens)
            view = await reviewer.perform(review)
            self.answers.append(view.error or view.return_value)
        said = ExecutorAgentOutput(summary="Everything is done and works.")
        return AgentRun(output=said, tokens=self._tokens)


class FakeGateRunner(GateRunner):
    """`GateRunner` that answers by the name of the gate, and remembers what it was asked."""

    def __init__(
        self, answers: Mapping[str, GateAction], *, rewritten: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__({}, RecordingAudit())
        # A gate runner is frozen: a fake adds what it needs beside its fields.
        object.__setattr__(self, "_answers", answers)
        object.__setattr__(self, "_rewritten", rewritten)
        object.__setattr__(self, "asked", [])

    _answers: Mapping[str, GateAction]
    _rewritten: Mapping[str, Any] | None
    asked: list[tuple[str, dict[str, Any]]]

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
    """`Approver` whose owner always decides the same, with the vault open.

    Without `decisions` the vault is locked: there is no proof of what is said.
    """

    def __init__(self, verdict: ApprovalVerdict = ApprovalVerdict.APPROVED) -> None:
        self._decision = ApprovalDecision(verdict=verdict)
        self.decisions: Decisions | None = None
        self.calls: list[PausedCall] = []
        self.items: list[WorkItem] = []

    async def decide_call(self, call: PausedCall, question: ShownQuestion) -> OwnersWord | Later:
        self.calls.append(call)
        return self._word(question)

    async def decide_item(self, item: WorkItem, question: ShownQuestion) -> OwnersWord | Later:
        self.items.append(item)
        return self._word(question)

    def _word(self, question: ShownQuestion) -> OwnersWord:
        if self.decisions is None:
            return OwnersWord(self._decision, OwnersProof("", b""))
        return self.decisions.owners_word(question, self._decision)


class LaterApprover(FakeApprover):
    """`Approver` whose owner decides later."""

    async def decide_call(self, call: PausedCall, question: ShownQuestion) -> OwnersWord | Later:
        self.calls.append(call)
        return Later()

    async def decide_item(self, item: WorkItem, question: ShownQuestion) -> OwnersWord | Later:
        self.items.append(item)
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

    def directories(self, hashes: Mapping[str, str]) -> list[str]:
        return []

    async def tools(self, hashes: Mapping[str, str]) -> Sequence[Tool]:
        return ()


YES = ApprovalDecision(verdict=ApprovalVerdict.APPROVED)
NO = ApprovalDecision(verdict=ApprovalVerdict.DECLINED)


async def authorise_with_vault(
    authority: Authority, item: WorkItem, decision: ApprovalDecision = YES
) -> WorkItem:
    """The item with its token, as `silas plan run` gets it."""
    question = await plan_question(authority, [item])
    word = authority.decisions.owners_word(question, decision)
    [approved] = await authorise(authority, [item], question, word)
    return approved


def question_about(authority: Authority, calls: Sequence[KeptCall]) -> ShownQuestion:
    """Calls that wait, as `silas work decide` shows them."""
    shown = [(each.id, each.call) for each in calls]
    return calls_question(shown, card_id=calls[0].id, effect_of=authority.registry.effect_of)


async def decide_with_vault(
    authority: Authority, calls: Sequence[KeptCall], decision: ApprovalDecision
) -> None:
    """Decide about calls that wait, as `silas work decide` does."""
    word = authority.decisions.owners_word(question_about(authority, calls), decision)
    await decide_calls(authority, calls, word)


async def decide_calls(authority: Authority, calls: Sequence[KeptCall], word: OwnersWord) -> None:
    """Decide about calls that wait, with this proof; nothing is written besides."""

    def nothing(tx: Transaction) -> None:
        del tx

    await decide_waiting(authority, calls, word, card_id=calls[0].id, also=nothing)
