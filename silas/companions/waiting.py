"""Actions that wait: for the owner's yes to a card, or for the answer to a question.

1. What waits is written down before anybody is asked, so that a crash in between asks again and not
   never.
2. Asking twice is asking once: the card's id follows from the action.
3. What is over stays over.
"""

from collections.abc import Callable
from typing import Any

from silas.approval import ApprovalToken
from silas.companions.errors import AnswerRequired, ConfirmationRequired
from silas.companions.models import WaitingAction, WaitingStatus
from silas.companions.ports import ActionApprovals, ApprovableAction
from silas.companions.store import CompanionStore
from silas.companions.tools.models import AgentToolCall
from silas.storage import Durability, Transaction

MOST_WAITING = 20
"""How many cards of one companion may be open at once, and how many actions wait for answers."""


class WaitingRoom:
    """Where actions wait. Without approvals nobody can be asked, so what needs a yes is refused."""

    def __init__(self, store: CompanionStore, approvals: ActionApprovals | None) -> None:
        self._store = store
        self.approvals = approvals

    async def hold(self, call: AgentToolCall, action: ApprovableAction) -> None:
        """Let the action wait for a card; raises `ConfirmationRequired` if nobody can be asked."""
        if self.approvals is None:
            raise ConfirmationRequired(
                "This needs your approval, and nobody can be asked here. Nothing was done."
            )
        await self._require_room(call)
        kept = await self._keep(
            call,
            status=WaitingStatus.WAITING,
            approvable=action.model_dump(mode="json"),
            reason=action.reason,
        )
        if kept.status is WaitingStatus.WAITING:
            await self.approvals.ask(action, taint=call.taint)

    async def _require_room(self, call: AgentToolCall) -> None:
        """Nobody is asked about more than a person can look at."""
        open_cards = await self.of(call.agent_id, status=WaitingStatus.WAITING)
        known = {each.operation_id for each in open_cards}
        if call.operation_id not in known and len(known) >= MOST_WAITING:
            raise ConfirmationRequired(
                f"{len(known)} of its actions wait for you already. Decide about those first."
            )

    async def block(
        self, call: AgentToolCall, *, prompt_item_ids: tuple[str, ...], reason: str
    ) -> None:
        """Let the action wait for answers; raises `AnswerRequired` if too many do already."""
        waiting = {each.operation_id for each in await self._blocked(call.agent_id)}
        if call.operation_id not in waiting and len(waiting) >= MOST_WAITING:
            raise AnswerRequired(f"{len(waiting)} of its actions wait for your answers already.")
        await self._keep(
            call, status=WaitingStatus.BLOCKED, prompt_item_ids=prompt_item_ids, reason=reason
        )

    async def _blocked(self, agent_id: str) -> list[WaitingAction]:
        return await self.of(agent_id, status=WaitingStatus.BLOCKED)

    async def get(self, operation_id: str) -> WaitingAction | None:
        """The action, also if it is over."""
        return await self._store.get(WaitingAction, operation_id)

    async def of(
        self, agent_id: str | None = None, *, status: WaitingStatus | None = None
    ) -> list[WaitingAction]:
        """Actions, oldest first."""
        where: dict[str, Any] = {}
        if agent_id is not None:
            where["agent_id"] = agent_id
        if status is not None:
            where["status"] = status
        return await self._store.find(WaitingAction, where)

    async def move(
        self, operation_id: str, status: WaitingStatus, *, error: str | None = None
    ) -> bool:
        """Let it go on to this status; False if it is over already (rule 3)."""
        return await self._store.transaction(
            lambda tx: self.move_in(tx, operation_id, status, error=error)
        )

    def move_in(
        self,
        tx: Transaction,
        operation_id: str,
        status: WaitingStatus,
        *,
        error: str | None = None,
    ) -> bool:
        """The same inside a transaction."""
        known = self._store.get_in(tx, WaitingAction, operation_id)
        if known is None or known.status.is_over:
            return False
        changes = {
            "status": status,
            "last_error": error,
            "updated_at": self._store.clock.now(),
        }
        self._store.put_in(tx, known.model_copy(update=changes))
        return True

    async def keep_token(self, operation_id: str, token: ApprovalToken) -> None:
        """Write down the token that was issued, before it is used."""

        def write(tx: Transaction) -> None:
            known = self._store.require_in(tx, WaitingAction, operation_id)
            kept = {"token": token.model_dump(mode="json")}
            self._store.put_in(tx, known.model_copy(update=kept))

        await self._store.transaction(write, durability=Durability.TRUST)

    async def cancel_all(self, agent_id: str, *, error: str) -> int:
        """End everything that waits for this companion, and take its cards away."""
        waiting = [each for each in await self.of(agent_id) if not each.status.is_over]
        for each in waiting:
            await self.move(each.operation_id, WaitingStatus.CANCELLED, error=error)
        if self.approvals is not None and waiting:
            await self.approvals.withdraw(agent_id)
        return len(waiting)

    async def _keep(
        self, call: AgentToolCall, *, status: WaitingStatus, reason: str, **more: Any
    ) -> WaitingAction:
        now = self._store.clock.now()
        wanted = WaitingAction(
            operation_id=call.operation_id,
            agent_id=call.agent_id,
            run_key=call.run_key,
            thread_id=call.thread_id,
            status=status,
            call=call.model_dump(mode="json"),
            reason=reason,
            created_at=now,
            updated_at=now,
            **more,
        )
        return await self._store.transaction(self._kept(wanted))

    def _kept(self, wanted: WaitingAction) -> Callable[[Transaction], WaitingAction]:
        def write(tx: Transaction) -> WaitingAction:
            known = self._store.get_in(tx, WaitingAction, wanted.operation_id)
            goes_on = known is not None and known.status is WaitingStatus.BLOCKED
            if known is not None and not (goes_on and wanted.status is WaitingStatus.WAITING):
                return known
            self._store.require_alive_in(tx, wanted.agent_id)
            return self._store.put_in(tx, wanted)

        return write
