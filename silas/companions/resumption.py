"""From the owner's decision to the write, also when the process dies in between.

1. What is decided is read from the approvals; the event that woke us says only which action.
2. While a stop switch is on or the companion is paused, nothing is used up: it is done when it goes
   on, if the decision is still valid then.
3. The token is used up for exactly the bytes that were shown (`verify`), then checked at the door
   (`check`) against the call and a preview made anew. Other arguments, another scope, or a journal
   that has changed meanwhile are other bytes: refused.
4. The write, its entries in the log and the end of the operation follow `operations.py`. Every step
   can be repeated: the journal does an operation once.
5. At the start, and now and then, every operation that nobody is at any more is looked at, one
   after the other. What the journal has done is written down; what it has not done is left to
   whoever still wants it, or ends as failed. Doing this again changes nothing.

Questions to the owner, kept until they are answered; what depends on them waits.

6. A question's id follows from the action that asks it: a run that is done again asks once.
7. An answer's id follows from the question and what was said: the same answer twice is one answer.
8. What waits for a question goes on only after a yes. A no, or no answer in time, ends it. Who
   waits for no question at all has no yes.
9. At most so many questions of one companion are open at once; what is asked beyond is not kept.
10. What is open already is not asked again, and for a week not what was met with a no. What would
   have waited for such a question does not wait: it ends.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from pydantic import ValidationError

from silas.approval import ApprovalToken
from silas.companions.errors import (
    AgentDestroyed,
    AgentPaused,
    ApprovalRefused,
    CompanionInvalid,
    Stopped,
    UnsafeTarget,
    tool_code,
)
from silas.companions.ids import digest, prompt_response_id
from silas.companions.log import MessageLog
from silas.companions.messages import (
    AgentMessage,
    AgentOperation,
    AgentPromptItem,
    AgentPromptResponse,
    PolicyDecisions,
    WakeJob,
    WakeRun,
)
from silas.companions.models import (
    AgentInteractionType,
    AgentPromptItemState,
    Companion,
    OperationPhase,
    OperationStatus,
    ToolResultStatus,
)
from silas.companions.operations import (
    ActionApprovals,
    MessageProvenance,
    action_message_id,
    is_genuine,
    result_draft,
)
from silas.companions.ports import ApprovableAction, CompanionQuestion
from silas.companions.store import CompanionStore
from silas.companions.tools.executor import ToolExecutor, refused
from silas.companions.tools.registry import AgentToolCall, AgentToolResult
from silas.companions.words import spoken_change
from silas.kernel import CompanionError, SecretsError
from silas.storage import Reader, Transaction

TTL = timedelta(days=7)
QUIET = timedelta(days=7)
"""So long nobody is asked again what was met with a no."""
_LOOKED_BACK_AT = 100
MAX_OPEN = 20
"""How many questions of one companion may be open at once."""
_YES = frozenset({"yes", "y", "true", "yes please", "yes, please"})
_NO = frozenset({"no", "n", "false", "no thanks", "no, thanks"})
_MAX_ANSWER = 2_000
_OPEN = {"state": AgentPromptItemState.OPEN}


class AnswerState(StrEnum):
    """Whether the questions that something waits for have a yes."""

    OPEN = "open"
    YES = "yes"
    NO = "no"


def prompt_item(
    job: WakeJob, question: CompanionQuestion, *, operation_id: str, now: datetime
) -> AgentPromptItem:
    """The question of an action (rule 6)."""
    return AgentPromptItem(
        id=prompt_item_id(operation_id),
        agent_id=job.agent_id,
        run_key=job.run_key,
        interaction_type=question.interaction_type,
        prompt_text=question.prompt_text,
        options=question.options,
        required_by=now + TTL,
        created_at=now,
    )


class PromptItems:
    """The questions of this device's companions."""

    def __init__(self, store: CompanionStore) -> None:
        self._store = store

    def keep_in(self, tx: Transaction, item: AgentPromptItem) -> None:
        """Write a question down, unless it is there: it may have been answered already (rule 9)."""
        mine = {**_OPEN, "agent_id": item.agent_id}
        has_place = len(self._store.find_in(tx, AgentPromptItem, mine)) < MAX_OPEN
        if item.sleep_until is not None and self._asked_to_sleep_in(tx, item):
            return
        if has_place and self._store.get_in(tx, AgentPromptItem, item.id) is None:
            self._store.put_in(tx, item)

    def _asked_to_sleep_in(self, tx: Transaction, item: AgentPromptItem) -> bool:
        """Whether the owner was asked for its rest already, whatever the date was (rule 10)."""
        mine = {"agent_id": item.agent_id}
        newest = self._store.find_in(
            tx, AgentPromptItem, mine, newest_first=True, limit=_LOOKED_BACK_AT
        )
        asked = next((each for each in newest if each.sleep_until is not None), None)
        if asked is None or asked.id == item.id:
            return False
        met = self._one(tx, asked.id)
        recent = item.created_at - asked.created_at < QUIET
        return met is AnswerState.OPEN or (met is AnswerState.NO and recent)

    async def repeats(self, agent_id: str, question: CompanionQuestion, *, now: datetime) -> bool:
        """Whether this is open already, or was met with a no lately (rule 10)."""
        mine = {"agent_id": agent_id}
        newest = await self._store.find(
            AgentPromptItem, mine, newest_first=True, limit=_LOOKED_BACK_AT
        )
        same = [each for each in newest if each.prompt_text == question.prompt_text]
        if any(each.state is AgentPromptItemState.OPEN for each in same):
            return True
        if same and now - same[0].created_at < QUIET and _was_left(same[0]):
            return True
        if not same or question.interaction_type is not AgentInteractionType.YES_NO:
            return False
        met = await self.answers_to([same[0].id])
        return met is AnswerState.NO and now - same[0].created_at < QUIET

    async def open_items(self, agent_id: str | None = None) -> list[AgentPromptItem]:
        """The questions that wait for an answer, oldest first; not those whose time is over."""
        where: dict[str, Any] = {**_OPEN}
        if agent_id is not None:
            where["agent_id"] = agent_id
        now = self._store.clock.now()
        found = await self._store.find(AgentPromptItem, where)
        return [item for item in found if not _is_late(item, now)]

    async def answer(self, item_id: str, said: str) -> AgentPromptResponse:
        """Keep the owner's answer; raises `CompanionInvalid` if it is none, or comes too late."""
        now = self._store.clock.now()

        def write(tx: Transaction) -> AgentPromptResponse:
            item = self._store.require_in(tx, AgentPromptItem, item_id)
            response = {"answer": _understood(item, said)}
            key = prompt_response_id(item_id, response=response)
            known = self._store.get_in(tx, AgentPromptResponse, key)
            if known is not None:
                return known
            _require_open(item, now)
            kept = self._store.put_in(
                tx,
                AgentPromptResponse(
                    id=key,
                    prompt_item_id=item_id,
                    agent_id=item.agent_id,
                    run_key=item.run_key,
                    response=response,
                    responded_at=now,
                ),
            )
            answered = {"state": AgentPromptItemState.ANSWERED, "resolved_at": now}
            self._store.put_in(tx, item.model_copy(update=answered))
            return kept

        return await self._store.transaction(write)

    async def leave(self, item_id: str) -> None:
        """End a question without an answer; raises `CompanionInvalid` if it does not wait."""

        def write(tx: Transaction) -> None:
            item = self._store.require_in(tx, AgentPromptItem, item_id)
            _require_open(item, self._store.clock.now())
            self._end_in(tx, item)

        await self._store.transaction(write)

    async def expire_due(self) -> list[AgentPromptItem]:
        """End the questions that nobody has answered in time; returns them."""
        now = self._store.clock.now()

        def write(tx: Transaction) -> list[AgentPromptItem]:
            late = [
                item
                for item in self._store.find_in(tx, AgentPromptItem, _OPEN)
                if _is_late(item, now)
            ]
            return [ended for item in late if (ended := self._end_in(tx, item)) is not None]

        return await self._store.transaction(write)

    def end_all_in(self, tx: Transaction, agent_id: str) -> None:
        """End the questions of a companion: nobody will hear an answer."""
        for item in self._store.find_in(tx, AgentPromptItem, {**_OPEN, "agent_id": agent_id}):
            self._end_in(tx, item)

    def _end_in(self, tx: Transaction, item: AgentPromptItem) -> AgentPromptItem | None:
        ended = {
            "state": AgentPromptItemState.EXPIRED,
            "resolved_at": self._store.clock.now(),
        }
        try:
            return self._store.put_in(tx, item.model_copy(update=ended))
        except AgentDestroyed:
            return None  # one that nobody can end must not keep the others open

    async def answers_to(self, item_ids: Collection[str]) -> AnswerState:
        """Rule 3, for all of these together."""
        return await self._store.database.snapshot(
            lambda reader: self._answers_to(reader, item_ids)
        )

    async def known(self, item_ids: Collection[str]) -> bool:
        """Whether every one of these questions was asked."""
        found = [await self._store.get(AgentPromptItem, each) for each in item_ids]
        return all(each is not None for each in found)

    async def sleep_agreed(self, response: AgentPromptResponse) -> datetime | None:
        """Until when the companion may sleep, if this is a yes to that question."""
        item = await self._store.require(AgentPromptItem, response.prompt_item_id)
        return item.sleep_until if response.response.get("answer") == "yes" else None

    async def recent_answers(self, agent_id: str, *, limit: int = 5) -> list[dict[str, str]]:
        """The newest answers with their questions, oldest first."""
        found = await self._store.find(
            AgentPromptResponse, {"agent_id": agent_id}, newest_first=True, limit=limit
        )
        answers = []
        for each in reversed(found):
            item = await self._store.get(AgentPromptItem, each.prompt_item_id)
            if item is not None:
                said = str(each.response.get("answer", ""))
                answers.append({"question": item.prompt_text, "answer": said})
        return answers

    def _answers_to(self, reader: Reader, item_ids: Collection[str]) -> AnswerState:
        states = [self._one(reader, each) for each in item_ids]
        if AnswerState.NO in states or not states:
            return AnswerState.NO
        return AnswerState.OPEN if AnswerState.OPEN in states else AnswerState.YES

    def _one(self, reader: Reader, item_id: str) -> AnswerState:
        item = self._store.get_in(reader, AgentPromptItem, item_id)
        if item is None or item.state is AgentPromptItemState.OPEN:
            return AnswerState.OPEN
        if item.state is AgentPromptItemState.EXPIRED:
            return AnswerState.NO
        answers = self._store.find_in(
            reader, AgentPromptResponse, {"prompt_item_id": item_id}, newest_first=True, limit=1
        )
        said = str(answers[0].response.get("answer")) if answers else ""
        return AnswerState.YES if said.casefold() in _YES else AnswerState.NO


def prompt_item_id(operation_id: str) -> str:
    """The id of the question that an action asks."""
    return digest("prompt_item", operation_id)


def choice_meant(item: AgentPromptItem, said: str) -> str | None:
    """The answer to this question that these words are, if they are a yes, a no or a choice."""
    words = said.strip().rstrip(".!").casefold()
    if item.interaction_type is AgentInteractionType.YES_NO:
        return "yes" if words in _YES else "no" if words in _NO else None
    return next((each for each in item.options if each.strip().casefold() == words), None)


def _understood(item: AgentPromptItem, said: str) -> str:
    text = said.strip()
    if item.interaction_type is AgentInteractionType.YES_NO:
        meant = choice_meant(item, text)
        if meant is None:
            raise CompanionInvalid("Answer this question with yes or no.")
        return meant
    if item.interaction_type is AgentInteractionType.MULTI_CHOICE:
        meant = choice_meant(item, text)
        if meant is None:
            raise CompanionInvalid(f"Answer with one of: {', '.join(item.options)}.")
        return meant
    if not 0 < len(text) <= _MAX_ANSWER:
        raise CompanionInvalid(f"An answer has 1 to {_MAX_ANSWER} characters.")
    return text


def _was_left(item: AgentPromptItem) -> bool:
    return item.state is AgentPromptItemState.EXPIRED


def _is_late(item: AgentPromptItem, now: datetime) -> bool:
    return item.required_by is not None and now >= item.required_by


def _require_open(item: AgentPromptItem, now: datetime) -> None:
    if item.state is not AgentPromptItemState.OPEN or _is_late(item, now):
        raise CompanionInvalid("This question does not wait for an answer any more.")


_DECLINED = "declined"
_UNREADABLE = "unreadable"
"""What is written down cannot be read any more: it is not done, and nobody else is kept from it."""
_HELD = frozenset(tool_code(each()) for each in (Stopped, AgentPaused))


class OperationResumption:
    """Goes on with operations: after the owner's decisions and answers, and after a crash."""

    def __init__(
        self,
        store: CompanionStore,
        executor: ToolExecutor,
        *,
        remember: Callable[[str, str], Awaitable[object]] | None = None,
    ) -> None:
        """`remember` is told the companion and the thread in which something was decided."""
        self._store = store
        self._executor = executor
        self._remember = remember
        self._operations = executor.operations
        self._log = MessageLog(store)
        self._prompts = PromptItems(store)
        self._turn = asyncio.Lock()

    async def follow(self, operation_id: str) -> AgentToolResult | None:
        """What the owner's decision about an action leads to; None if nothing is to be done now."""
        # The bus and the clock may come with the same decision: one after the other.
        async with self._turn:
            with _readable():
                return await self._follow(operation_id)
            await self._refuse_unreadable(operation_id)
            return None

    async def answered(self, prompt_item_id: str) -> list[AgentToolResult]:
        """Let go on, or end, what has waited for this question."""
        blocked = await self._operations.pending(OperationPhase.BLOCKED)
        concerned = [each for each in blocked if prompt_item_id in each.prompt_item_ids]
        results = [await self._unblock(each) for each in concerned]
        return [each for each in results if each is not None]

    async def settle(self) -> int:
        """Look at everything that waits: decisions may have come while nobody was here."""
        blocked = await self._operations.pending(OperationPhase.BLOCKED)
        results = [await self._unblock(each) for each in blocked]
        for phase in (OperationPhase.APPROVED, OperationPhase.WAITING):
            for each in await self._operations.pending(phase):
                await self._ask_again(each)
                results.append(await self.follow(each.operation_id))
        return sum(each is not None for each in results)

    async def recover(self) -> int:
        """At the start: bring both databases to the same point, then look at what waits."""
        return await self.reconcile() + await self.settle()

    async def reconcile(self) -> int:
        """Bring every write that nobody is at any more to its end; returns how many there were."""
        begun = (OperationPhase.PLANNED, OperationPhase.JOURNAL_COMMITTED)
        found = await self._operations.pending(*begun)
        return sum([await self._reconcile(each) for each in found])

    # After a card.

    async def _follow(self, operation_id: str) -> AgentToolResult | None:
        operation, approvals = await self._operations.get(operation_id), self._operations.approvals
        if operation is None or approvals is None or not _is_before_the_owner(operation):
            return None
        action = ApprovableAction.model_validate(operation.approvable)
        if await approvals.declined(action):
            return await self._end(operation, _declined(operation), OperationStatus.DECLINED)
        if not await self._may_go_on(operation):
            return None
        token = await self._token(operation, approvals, action)
        if token is None:
            return None
        if operation.phase is OperationPhase.APPROVED or await _used_up(approvals, token, action):
            await self._operations.approved(operation_id)
            return await self._apply(operation, approvals, token, action)
        refusal = refused(AgentToolCall.model_validate(operation.call), ApprovalRefused())
        return await self._end(operation, refusal, OperationStatus.REFUSED)

    async def _token(
        self, operation: AgentOperation, approvals: ActionApprovals, action: ApprovableAction
    ) -> ApprovalToken | None:
        if operation.token is not None:
            return ApprovalToken.model_validate(operation.token)
        token = await approvals.token_for(action)
        if token is not None:
            await self._operations.keep_token(operation.operation_id, token)
        return token

    async def _apply(
        self,
        operation: AgentOperation,
        approvals: ActionApprovals,
        token: ApprovalToken,
        shown: ApprovableAction,
    ) -> AgentToolResult:
        """Rules 3 and 4."""

        async def door(action: ApprovableAction) -> None:
            valid, why = await approvals.check(token, action)
            if not valid:
                raise ApprovalRefused(f"{ApprovalRefused.sentence()} ({why}.)")

        call = AgentToolCall.model_validate(operation.call)
        result = await self._executor.execute(
            call, decisions=PolicyDecisions(), reason=operation.reason, door=door
        )
        result = await self._end_unless_held(operation, result)
        if result.success:
            await approvals.carried_out(token, shown)
        return result

    async def _ask_again(self, operation: AgentOperation) -> None:
        """The process may have died after the action was written down and before it was asked."""
        approvals = self._operations.approvals
        if approvals is None or operation.approvable is None:
            return
        # Without the owner's key no card can be sealed; it is asked when the vault is open.
        with _readable(), contextlib.suppress(SecretsError):
            call = AgentToolCall.model_validate(operation.call)
            action = ApprovableAction.model_validate(operation.approvable)
            await approvals.ask(action, call)

    # After an answer.

    async def _unblock(self, operation: AgentOperation) -> AgentToolResult | None:
        async with self._turn:
            with _readable():
                return await self._go_on_after_answers(operation)
            await self._refuse_unreadable(operation.operation_id)
            return None

    async def _go_on_after_answers(self, operation: AgentOperation) -> AgentToolResult | None:
        answers = await self._answers(operation)
        if answers is AnswerState.OPEN:
            return None
        if answers is AnswerState.NO:
            return await self._end(operation, _declined(operation), OperationStatus.DECLINED)
        if not await self._may_go_on(operation):
            return None
        call = AgentToolCall.model_validate(operation.call)
        if not _is_own(operation, call):
            refusal = refused(call, UnsafeTarget())
            return await self._end(operation, refusal, OperationStatus.REFUSED)
        result = await self._executor.execute(
            call, decisions=PolicyDecisions(), reason=operation.reason
        )
        if result.status is ToolResultStatus.PARTIAL:
            return result  # it waits for a card now
        return await self._end_unless_held(operation, result)

    async def _answers(self, operation: AgentOperation) -> AnswerState:
        """Who waits for a question that was never asked gets no yes any more."""
        answers = await self._prompts.answers_to(operation.prompt_item_ids)
        run = await self._store.get(WakeRun, operation.run_key)
        if answers is AnswerState.OPEN and (run is None or run.status.is_terminal):
            known = await self._prompts.known(operation.prompt_item_ids)
            return answers if known else AnswerState.NO
        return answers

    # Both.

    async def _may_go_on(self, operation: AgentOperation) -> bool:
        """Rule 2."""
        companion = await self._store.get(Companion, operation.agent_id)
        if companion is None or companion.is_destroyed:
            await self._cancel(operation)
            return False
        if companion.paused_at is not None:
            return False
        registry = self._executor.registry
        tool = registry.get(str(operation.call.get("tool_name")))
        classes = registry.classes_of(tool) if tool is not None else ()
        return await self._executor.switches.stopping(operation.agent_id, classes) is None

    async def _end_unless_held(
        self, operation: AgentOperation, result: AgentToolResult
    ) -> AgentToolResult:
        """What was stopped or paused on its way is not over: it goes on later (rule 2)."""
        if result.error_code in _HELD:
            return result
        status = OperationStatus.DONE if result.success else OperationStatus.REFUSED
        return await self._end(operation, result, status)

    async def _end(
        self, operation: AgentOperation, result: AgentToolResult, status: OperationStatus
    ) -> AgentToolResult:
        """Rule 4: the entries of the log and the end of the operation are one transaction."""
        name = operation.operation_id

        def write(tx: Transaction) -> None:
            self._append_in(tx, operation, result, status)
            self._operations.end_in(tx, name, status, error=result.error_code)

        try:
            await self._store.transaction(write)
        except AgentDestroyed:
            # Its log takes no entries any more. What the journal has done is done all the same.
            if result.success:
                await self._operations.end(name, status)
            await self._cancel(operation)
            return result
        if operation.has_waited and self._remember is not None:
            await self._remember(operation.agent_id, operation.thread_id)
        return result

    def _append_in(
        self,
        tx: Transaction,
        operation: AgentOperation,
        result: AgentToolResult,
        status: OperationStatus,
    ) -> None:
        """The result in the log: the first there is, or the one that follows the owner's answer."""
        later = "applied" if status is OperationStatus.DONE else status.value
        acted = self._store.get_in(
            tx, AgentMessage, action_message_id(operation.run_key, operation.operation_id)
        )
        named = acted.metadata.model_dump() if acted is not None else {}
        shown = (operation.approvable or {}).get("preview", {})
        decided = {
            "decided": status.value,
            "reason": operation.reason,
            "changes": [spoken_change(each) for each in shown.get("changes", ())],
        }
        draft = result_draft(
            result,
            agent_id=operation.agent_id,
            thread_id=operation.thread_id,
            run_key=operation.run_key,
            step=later if operation.has_waited else "first",
            provenance=MessageProvenance(
                **{each: named.get(each) for each in MessageProvenance.model_fields}
            ),
            decided=decided if operation.has_waited else None,
        )
        # The state's pointer follows with the next run: a run that is under way has read it.
        self._log.append_in(tx, [draft])

    async def _cancel(self, operation: AgentOperation) -> None:
        await self._operations.end(
            operation.operation_id, OperationStatus.CANCELLED, error=tool_code(AgentDestroyed())
        )

    async def _refuse_unreadable(self, operation_id: str) -> None:
        await self._operations.end(operation_id, OperationStatus.REFUSED, error=_UNREADABLE)

    # After a crash (rule 5).

    async def _reconcile(self, operation: AgentOperation) -> bool:
        """Bring one write to its end, if it is not on its way there by itself."""
        if operation.has_waited:
            return await self._converge_once(operation.operation_id)
        run = await self._store.get(WakeRun, operation.run_key)
        if run is not None and not run.status.is_terminal:
            return False  # the run is taken up again, with the same plan
        with _readable():
            return await self._converge(operation)
        await self._operations.failed(operation.operation_id, _UNREADABLE)
        return True

    async def _converge_once(self, operation_id: str) -> bool:
        """The same for what has waited: somebody may just be following the owner's answer."""
        async with self._turn:
            operation = await self._operations.get(operation_id)
            if operation is None or operation.is_over:
                return False
            with _readable():
                await self._converge(operation)
                await self._carried_out(operation)
                return True
            await self._refuse_unreadable(operation_id)
            return True

    async def _carried_out(self, operation: AgentOperation) -> None:
        approvals = self._operations.approvals
        if approvals is not None and operation.token is not None:
            token = ApprovalToken.model_validate(operation.token)
            await approvals.carried_out(
                token, ApprovableAction.model_validate(operation.approvable)
            )

    async def _converge(self, operation: AgentOperation) -> bool:
        call = AgentToolCall.model_validate(operation.call)
        own = (call.operation_id, call.agent_id) == (operation.operation_id, operation.agent_id)
        result = await self._result_of(operation, call) if own else None
        if result is None:
            await self._give_up(operation)
            return True
        # The process may have died before it could say so; twice is better than never.
        await self._executor.note_written(call, result)
        await self._end(operation, result, OperationStatus.DONE)
        return True

    async def _give_up(self, operation: AgentOperation) -> None:
        name, why = operation.operation_id, "The run has ended without it."
        await self._operations.failed(name, why)
        await self._operations.end(name, OperationStatus.REFUSED, error=why)

    async def _result_of(
        self, operation: AgentOperation, call: AgentToolCall
    ) -> AgentToolResult | None:
        """What the journal has done; None if nothing."""
        if operation.result is not None:
            return AgentToolResult.model_validate(operation.result)
        return await self._executor.result_in_journal(call)


def _readable() -> contextlib.suppress:
    return contextlib.suppress(ValidationError)


async def _used_up(
    approvals: ActionApprovals, token: ApprovalToken, action: ApprovableAction
) -> bool:
    used, _ = await approvals.consume(token, action)
    if not used:
        # It may have been used up for this very action, just before a crash.
        used, _ = await approvals.check(token, action)
    return used


def _is_before_the_owner(operation: AgentOperation) -> bool:
    """Whether there is a card of this, and nobody has brought it to its end."""
    decidable = operation.phase in (OperationPhase.WAITING, OperationPhase.APPROVED)
    return decidable and not operation.is_over and operation.approvable is not None


def _is_own(operation: AgentOperation, call: AgentToolCall) -> bool:
    """Whether what waits is one action of this companion, as it was planned in this run."""
    # Where there was a card, the owner's token says so; here nobody has signed anything.
    named = (call.operation_id, call.agent_id, call.run_key)
    kept = (operation.operation_id, operation.agent_id, operation.run_key)
    return named == kept and is_genuine(call)


def _declined(operation: AgentOperation) -> AgentToolResult:
    call = AgentToolCall.model_validate(operation.call)
    result = refused(call, CompanionError("The owner said no, or did not answer in time."))
    return result.model_copy(update={"error_code": _DECLINED})
