"""Owners, models and secrets for companions, under the control of a test."""

from collections.abc import Callable
from typing import Self

from silas.approval import (
    ApprovalDecision,
    ApprovalEngine,
    ApprovalScope,
    ApprovalToken,
    ApprovalVerdict,
)
from silas.companions.kinds.offline import OfflineBrain
from silas.companions.ports import (
    ApprovableAction,
    CompanionModel,
    CompanionRequest,
    Destination,
)
from silas.companions.proposals import CompanionProposal
from silas.kernel import TaintLevel

_ONE_CALL = frozenset({ApprovalScope.SINGLE_STEP})
OFFLINE = Destination(provider="offline", model="brain")


class OwnerApprovals:
    """`ActionApprovals` with the real engine; the test decides instead of a card."""

    def __init__(self, engine: ApprovalEngine) -> None:
        self._engine = engine
        self.asked: dict[str, ApprovableAction] = {}
        self.taints: dict[str, TaintLevel] = {}
        self.times_asked = 0
        self._tokens: dict[str, ApprovalToken] = {}
        self._declined: set[str] = set()
        self.withdrawn: list[str] = []

    def with_engine(self, engine: ApprovalEngine) -> Self:
        """The same owner before another process's engine."""
        self._engine = engine
        return self

    async def ask(self, action: ApprovableAction, *, taint: TaintLevel) -> None:
        self.times_asked += 1
        self.taints.setdefault(action.operation_id, taint)
        self.asked.setdefault(action.operation_id, action)

    async def approve(self, operation_id: str) -> ApprovalToken:
        """The owner says yes to what was shown."""
        token = await self._engine.issue_token(
            self.asked[operation_id],
            ApprovalDecision(verdict=ApprovalVerdict.APPROVED),
            ApprovalScope.SINGLE_STEP,
        )
        self._tokens[operation_id] = token
        return token

    def decline(self, operation_id: str) -> None:
        """The owner says no."""
        self._declined.add(operation_id)

    async def token_for(self, action: ApprovableAction) -> ApprovalToken | None:
        return self._tokens.get(action.operation_id)

    async def declined(self, action: ApprovableAction) -> bool:
        return action.operation_id in self._declined

    async def consume(self, token: ApprovalToken, action: ApprovableAction) -> tuple[bool, str]:
        return await self._engine.verify(token, action, accept=_ONE_CALL)

    async def check(self, token: ApprovalToken, action: ApprovableAction) -> tuple[bool, str]:
        return await self._engine.enter(token, action, accept=_ONE_CALL)

    async def carried_out(self, token: ApprovalToken, action: ApprovableAction) -> None:
        await self._engine.carried_out(token, action)

    async def withdraw(self, agent_id: str) -> None:
        self.withdrawn.append(agent_id)


class ScriptedModel:
    """`CompanionModel` that answers as a test says, and remembers what it was asked."""

    def __init__(
        self, *answers: CompanionProposal | Callable[[CompanionRequest], CompanionProposal]
    ) -> None:
        self._answers = list(answers)
        self.requests: list[CompanionRequest] = []

    async def propose(self, request: CompanionRequest) -> CompanionProposal:
        self.requests.append(request)
        if not self._answers:
            return CompanionProposal()
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        return answer(request) if callable(answer) else answer


class FakeGateway:
    """`ProviderGateway` with the destinations that a test names; without a name, offline."""

    def __init__(self, model: CompanionModel | None = None, *destinations: Destination) -> None:
        self._model = model
        self._known = {each.model_id: each for each in destinations}
        self.sent: list[tuple[Destination, CompanionRequest]] = []

    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._known))

    def destination(self, model_id: str | None) -> Destination | None:
        return OFFLINE if model_id is None else self._known.get(model_id)

    async def propose(
        self, destination: Destination, request: CompanionRequest
    ) -> CompanionProposal:
        if not destination.local:
            self.sent.append((destination, request))
        model = self._model or OfflineBrain()
        return await model.propose(request)


class FakeSecrets:
    """`SecretProvider` that knows these names."""

    def __init__(self, *names: str) -> None:
        self.names = set(names)

    def available(self, secret_ref_id: str) -> bool:
        return secret_ref_id in self.names
