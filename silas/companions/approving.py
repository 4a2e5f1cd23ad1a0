"""From the owner's decision to the deed, also when the process dies in between.

1. What is decided is read from the approvals; the event that woke us says only which action.
2. While a stop switch is on or the companion is paused, nothing is used up: it is done when it goes
   on, if the decision is still valid then.
3. The token is used up for exactly the bytes that were shown (`verify`), then checked at the door
   (`check`) against the call and a preview made anew. Other arguments, another scope, or a journal
   that has changed meanwhile are other bytes: refused.
4. The write, its entries in the log and the end of the waiting follow the saga. Every step can be
   repeated: the journal does an operation once.
"""

import asyncio
import contextlib

from pydantic import ValidationError

from silas.approval import ApprovalToken
from silas.companions.actions import is_genuine, result_draft
from silas.companions.decisions import Decisions
from silas.companions.errors import (
    AgentDestroyed,
    AgentPaused,
    ApprovalRefused,
    Stopped,
    UnsafeTarget,
    tool_code,
)
from silas.companions.log import MessageLog
from silas.companions.models import (
    Companion,
    SagaEntry,
    SagaPhase,
    ToolResultStatus,
    WaitingAction,
    WaitingStatus,
    WakeRun,
)
from silas.companions.ports import ActionApprovals, ApprovableAction
from silas.companions.prompt_items import Gate, PromptItems
from silas.companions.saga import SagaLog
from silas.companions.store import CompanionStore
from silas.companions.tools.executor import ToolExecutor, refused
from silas.companions.tools.models import AgentToolCall, AgentToolResult
from silas.kernel import CompanionError, SecretsError
from silas.storage import Transaction

_DECLINED = "declined"
_UNREADABLE = "unreadable"
"""What is written down cannot be read any more: it is not done, and nobody else is kept from it."""


_HELD = frozenset(tool_code(each()) for each in (Stopped, AgentPaused))


class Approving:
    """Follows the owner's decisions and answers."""

    def __init__(
        self,
        store: CompanionStore,
        executor: ToolExecutor,
        *,
        log: MessageLog,
        saga: SagaLog,
        prompts: PromptItems,
    ) -> None:
        self._store = store
        self._executor = executor
        self._waiting = executor.waiting
        self._log = log
        self._saga = saga
        self._prompts = prompts
        self._turn = asyncio.Lock()

    async def follow(self, operation_id: str) -> AgentToolResult | None:
        """What the owner's decision about an action leads to; None if nothing is to be done now."""
        # The bus and the clock may come with the same decision: one after the other.
        async with self._turn:
            with self._readable():
                return await self._follow(operation_id)
            await self._waiting.move(operation_id, WaitingStatus.REFUSED, error=_UNREADABLE)
            return None

    async def _follow(self, operation_id: str) -> AgentToolResult | None:
        waiting, approvals = await self._waiting.get(operation_id), self._waiting.approvals
        if waiting is None or waiting.status.is_over or approvals is None:
            return None
        if waiting.approvable is None:
            return None
        action = ApprovableAction.model_validate(waiting.approvable)
        if await approvals.declined(action):
            return await self._end(waiting, _declined(waiting), WaitingStatus.DECLINED)
        if not await self._may_go_on(waiting):
            return None
        token = await self._token(waiting, approvals, action)
        return await self._go_on(waiting, approvals, token) if token is not None else None

    async def _go_on(
        self, waiting: WaitingAction, approvals: ActionApprovals, token: ApprovalToken
    ) -> AgentToolResult:
        """Rules 3 and 4."""
        if waiting.status is WaitingStatus.WAITING:
            action = ApprovableAction.model_validate(waiting.approvable)
            if not await self._used_up(approvals, token, action):
                refusal = _refused(waiting, ApprovalRefused())
                return await self._end(waiting, refusal, WaitingStatus.REFUSED)
            await self._waiting.move(waiting.operation_id, WaitingStatus.APPROVED)
        return await self._apply(waiting, approvals, token)

    async def answered(self, prompt_item_id: str) -> list[AgentToolResult]:
        """Let go on, or end, what has waited for this question."""
        blocked = await self._waiting.of(status=WaitingStatus.BLOCKED)
        concerned = [each for each in blocked if prompt_item_id in each.prompt_item_ids]
        results = [await self._unblock(each) for each in concerned]
        return [each for each in results if each is not None]

    async def settle(self) -> int:
        """Look at everything that waits: decisions may have come while nobody was here."""
        blocked = await self._waiting.of(status=WaitingStatus.BLOCKED)
        results = [await self._unblock(each) for each in blocked]
        for status in (WaitingStatus.APPROVED, WaitingStatus.WAITING):
            for each in await self._waiting.of(status=status):
                await self._ask_again(each)
                results.append(await self.follow(each.operation_id))
        return sum(each is not None for each in results)

    async def recover(self) -> int:
        """At the start: bring both databases to the same point, then look at what waits."""
        return await self.reconcile() + await self.settle()

    async def reconcile(self) -> int:
        """Bring every write that nobody is at any more to its end; returns how many there were."""
        return sum([await self._reconcile(entry) for entry in await self._saga.pending()])

    async def _ask_again(self, waiting: WaitingAction) -> None:
        """The process may have died after the action was written down and before it was asked."""
        approvals = self._waiting.approvals
        if approvals is None or waiting.approvable is None:
            return
        # Without the owner's key no card can be sealed; it is asked when the vault is open.
        with self._readable(), contextlib.suppress(SecretsError):
            taint = AgentToolCall.model_validate(waiting.call).taint
            action = ApprovableAction.model_validate(waiting.approvable)
            await approvals.ask(action, taint=taint)

    async def _token(
        self, waiting: WaitingAction, approvals: ActionApprovals, action: ApprovableAction
    ) -> ApprovalToken | None:
        if waiting.token is not None:
            return ApprovalToken.model_validate(waiting.token)
        token = await approvals.token_for(action)
        if token is not None:
            await self._waiting.keep_token(waiting.operation_id, token)
        return token

    @staticmethod
    def _readable() -> contextlib.suppress:
        return contextlib.suppress(ValidationError)

    async def _used_up(
        self, approvals: ActionApprovals, token: ApprovalToken, action: ApprovableAction
    ) -> bool:
        used, _ = await approvals.consume(token, action)
        if not used:
            # It may have been used up for this very action, just before a crash.
            used, _ = await approvals.check(token, action)
        return used

    async def _apply(
        self, waiting: WaitingAction, approvals: ActionApprovals, token: ApprovalToken
    ) -> AgentToolResult:
        async def door(action: ApprovableAction) -> None:
            valid, why = await approvals.check(token, action)
            if not valid:
                raise ApprovalRefused(f"{ApprovalRefused.sentence()} ({why}.)")

        call = AgentToolCall.model_validate(waiting.call)
        result = await self._executor.execute(
            call, decisions=Decisions(), reason=waiting.reason, door=door
        )
        result = await self._end_unless_held(waiting, result)
        if result.success:
            done = ApprovableAction.model_validate(waiting.approvable)
            await approvals.carried_out(token, done)
        return result

    async def _unblock(self, waiting: WaitingAction) -> AgentToolResult | None:
        async with self._turn:
            with self._readable():
                return await self._go_on_after_answers(waiting)
            await self._waiting.move(waiting.operation_id, WaitingStatus.REFUSED, error=_UNREADABLE)
            return None

    async def _go_on_after_answers(self, waiting: WaitingAction) -> AgentToolResult | None:
        gate = await self._gate(waiting)
        if gate is Gate.OPEN:
            return None
        if gate is Gate.NO:
            return await self._end(waiting, _declined(waiting), WaitingStatus.DECLINED)
        if not await self._may_go_on(waiting):
            return None
        call = AgentToolCall.model_validate(waiting.call)
        if not _is_own(waiting, call):
            return await self._end(waiting, refused(call, UnsafeTarget()), WaitingStatus.REFUSED)
        result = await self._executor.execute(call, decisions=Decisions(), reason=waiting.reason)
        if result.status is ToolResultStatus.PARTIAL:
            return result  # it waits for a card now
        return await self._end_unless_held(waiting, result)

    async def _end_unless_held(
        self, waiting: WaitingAction, result: AgentToolResult
    ) -> AgentToolResult:
        """What was stopped or paused on its way is not over: it goes on later (rule 2)."""
        if result.error_code in _HELD:
            return result
        status = WaitingStatus.APPLIED if result.success else WaitingStatus.REFUSED
        return await self._end(waiting, result, status)

    async def _gate(self, waiting: WaitingAction) -> Gate:
        """Who waits for a question that was never asked gets no yes any more."""
        gate = await self._prompts.gate(waiting.prompt_item_ids)
        run = await self._store.get(WakeRun, waiting.run_key)
        if gate is Gate.OPEN and (run is None or run.status.is_terminal):
            known = await self._prompts.known(waiting.prompt_item_ids)
            return gate if known else Gate.NO
        return gate

    async def _may_go_on(self, waiting: WaitingAction) -> bool:
        """Rule 2."""
        companion = await self._store.get(Companion, waiting.agent_id)
        if companion is None or companion.is_destroyed:
            await self._waiting.move(
                waiting.operation_id,
                WaitingStatus.CANCELLED,
                error=tool_code(AgentDestroyed()),
            )
            return False
        if companion.paused_at is not None:
            return False
        tool = self._executor.registry.get(str(waiting.call.get("tool_name")))
        classes = tool.classes if tool is not None else ()
        return await self._executor.switches.stopping(waiting.agent_id, classes) is None

    async def _end(
        self, waiting: WaitingAction, result: AgentToolResult, status: WaitingStatus
    ) -> AgentToolResult:
        """Rule 4: the entries of the log, the saga and the waiting end in one transaction."""
        error = result.error_code

        def write(tx: Transaction) -> None:
            self._append_in(tx, waiting.agent_id, result, waiting, step=status.value)
            self._saga.finish_in(tx, waiting.operation_id)
            self._waiting.move_in(tx, waiting.operation_id, status, error=error)

        try:
            await self._store.transaction(write)
        except AgentDestroyed:
            await self._waiting.move(
                waiting.operation_id, WaitingStatus.CANCELLED, error="agent_destroyed"
            )
        return result

    def _append_in(
        self,
        tx: Transaction,
        agent_id: str,
        result: AgentToolResult,
        place: WaitingAction | AgentToolCall,
        *,
        step: str,
    ) -> None:
        draft = result_draft(
            result,
            agent_id=agent_id,
            thread_id=place.thread_id,
            run_key=place.run_key,
            step=step,
        )
        # The state's pointer follows with the next run: a run that is under way has read it.
        self._log.append_in(tx, [draft])

    async def _reconcile(self, entry: SagaEntry) -> bool:
        """Bring one write to its end, if it is not on its way there by itself."""
        if await self._waiting.get(entry.operation_id) is not None:
            return False  # `settle` goes on with it
        run = await self._store.get(WakeRun, entry.run_key)
        if run is not None and not run.status.is_terminal:
            return False  # the run is taken up again, with the same plan
        with self._readable():
            return await self._converge(entry)
        await self._saga.failed(entry.operation_id, _UNREADABLE)
        return True

    async def _converge(self, entry: SagaEntry) -> bool:
        call = AgentToolCall.model_validate(entry.call)
        own = (call.operation_id, call.agent_id) == (entry.operation_id, entry.agent_id)
        result = await self._result_of(entry, call) if own else None
        if result is None:
            await self._saga.failed(entry.operation_id, "The run has ended without it.")
            return True
        # The process may have died before it could say so; twice is better than never.
        await self._executor.note_written(call, result)

        def write(tx: Transaction) -> None:
            self._append_in(tx, entry.agent_id, result, call, step="first")
            self._saga.finish_in(tx, entry.operation_id)

        try:
            await self._store.transaction(write)
        except AgentDestroyed:
            await self._store.transaction(lambda tx: self._saga.finish_in(tx, entry.operation_id))
        return True

    async def _result_of(self, entry: SagaEntry, call: AgentToolCall) -> AgentToolResult | None:
        """What the journal has done; None if nothing."""
        if entry.phase is not SagaPhase.PLANNED and entry.result is not None:
            return AgentToolResult.model_validate(entry.result)
        return await self._executor.result_in_journal(call)


def _is_own(waiting: WaitingAction, call: AgentToolCall) -> bool:
    """Whether what waits is one action of this companion, as it was planned in this run."""
    # Where there was a card, the owner's token says so; here nobody has signed anything.
    named = (call.operation_id, call.agent_id, call.run_key)
    return named == (waiting.operation_id, waiting.agent_id, waiting.run_key) and is_genuine(call)


def _declined(waiting: WaitingAction) -> AgentToolResult:
    call = AgentToolCall.model_validate(waiting.call)
    result = refused(call, CompanionError("The owner said no, or did not answer in time."))
    return result.model_copy(update={"error_code": _DECLINED})


def _refused(waiting: WaitingAction, error: CompanionError) -> AgentToolResult:
    return refused(AgentToolCall.model_validate(waiting.call), error)
