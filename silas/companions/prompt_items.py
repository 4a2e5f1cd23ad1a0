"""Questions to the owner, kept until they are answered; what depends on them waits.

1. A question's id follows from the action that asks it: a run that is done again asks once.
2. An answer's id follows from the question and what was said: the same answer twice is one answer.
3. What waits for a question goes on only after a yes. A no, or no answer in time, ends it. Who
   waits for no question at all has no yes.
4. At most so many questions of one companion are open at once; what is asked beyond is not kept.
"""

from collections.abc import Collection
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from silas.companions.errors import AgentDestroyed, CompanionInvalid
from silas.companions.ids import digest, prompt_response_id
from silas.companions.models import (
    AgentInteractionType,
    AgentPromptItem,
    AgentPromptItemState,
    AgentPromptResponse,
)
from silas.companions.proposals import Question
from silas.companions.store import CompanionStore
from silas.storage import Reader, Transaction

TTL = timedelta(days=7)
MOST_OPEN = 20
"""How many questions of one companion may be open at once."""
_YES = frozenset({"yes", "y", "true"})
_NO = frozenset({"no", "n", "false"})
_MAX_ANSWER = 2_000
_OPEN = {"state": AgentPromptItemState.OPEN}


class Gate(StrEnum):
    """Whether what waits for questions may go on."""

    OPEN = "open"
    YES = "yes"
    NO = "no"


class PromptItems:
    """The questions of this device's companions."""

    def __init__(self, store: CompanionStore) -> None:
        self._store = store

    def made(
        self, agent_id: str, run_key: str, question: Question, *, operation_id: str, now: datetime
    ) -> AgentPromptItem:
        """The question of an action (rule 1)."""
        return AgentPromptItem(
            id=prompt_item_id(operation_id),
            agent_id=agent_id,
            run_key=run_key,
            interaction_type=question.interaction_type,
            prompt_text=question.prompt_text,
            options=question.options,
            required_by=now + TTL,
            created_at=now,
        )

    def keep_in(self, tx: Transaction, item: AgentPromptItem) -> None:
        """Write a question down, unless it is there: it may have been answered already (rule 4)."""
        mine = {**_OPEN, "agent_id": item.agent_id}
        room = len(self._store.find_in(tx, AgentPromptItem, mine)) < MOST_OPEN
        if room and self._store.get_in(tx, AgentPromptItem, item.id) is None:
            self._store.put_in(tx, item)

    async def open_items(self, agent_id: str | None = None) -> list[AgentPromptItem]:
        """The questions that wait for an answer, oldest first."""
        where: dict[str, Any] = {**_OPEN}
        if agent_id is not None:
            where["agent_id"] = agent_id
        return await self._store.find(AgentPromptItem, where)

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

    async def expire_due(self) -> list[AgentPromptItem]:
        """End the questions that nobody has answered in time; returns them."""
        now = self._store.clock.now()

        def write(tx: Transaction) -> list[AgentPromptItem]:
            late = [
                item
                for item in self._store.find_in(tx, AgentPromptItem, _OPEN)
                if item.required_by is not None and now >= item.required_by
            ]
            return [ended for item in late if (ended := self._end_in(tx, item)) is not None]

        return await self._store.transaction(write)

    def end_all_in(self, tx: Transaction, agent_id: str) -> None:
        """End the questions of a companion: nobody will hear an answer."""
        for item in self._store.find_in(tx, AgentPromptItem, {**_OPEN, "agent_id": agent_id}):
            self._end_in(tx, item)

    def forget_all_in(self, tx: Transaction, agent_id: str) -> None:
        """Forget what a companion has asked, and what it was told."""
        self.end_all_in(tx, agent_id)
        mine = {"agent_id": agent_id}
        for answer in self._store.find_in(tx, AgentPromptResponse, mine):
            self._store.delete_in(tx, AgentPromptResponse, answer.id)
        for item in self._store.find_in(tx, AgentPromptItem, mine):
            self._store.delete_in(tx, AgentPromptItem, item.id)

    def _end_in(self, tx: Transaction, item: AgentPromptItem) -> AgentPromptItem | None:
        ended = {
            "state": AgentPromptItemState.EXPIRED,
            "resolved_at": self._store.clock.now(),
        }
        try:
            return self._store.put_in(tx, item.model_copy(update=ended))
        except AgentDestroyed:
            return None  # one that nobody can end must not keep the others open

    async def gate(self, item_ids: Collection[str]) -> Gate:
        """Rule 3, for all of these together."""
        return await self._store.database.snapshot(lambda reader: self._gate(reader, item_ids))

    async def known(self, item_ids: Collection[str]) -> bool:
        """Whether every one of these questions was asked."""
        found = [await self._store.get(AgentPromptItem, each) for each in item_ids]
        return all(each is not None for each in found)

    async def recent_answers(self, agent_id: str, *, limit: int = 5) -> list[dict[str, str]]:
        """The newest answers with their questions, oldest first."""
        found = await self._store.find(
            AgentPromptResponse, {"agent_id": agent_id}, newest_first=True, limit=limit
        )
        told = []
        for each in reversed(found):
            item = await self._store.get(AgentPromptItem, each.prompt_item_id)
            if item is not None:
                said = str(each.response.get("answer", ""))
                told.append({"question": item.prompt_text, "answer": said})
        return told

    def _gate(self, reader: Reader, item_ids: Collection[str]) -> Gate:
        gates = [self._one(reader, each) for each in item_ids]
        if Gate.NO in gates or not gates:
            return Gate.NO
        return Gate.OPEN if Gate.OPEN in gates else Gate.YES

    def _one(self, reader: Reader, item_id: str) -> Gate:
        item = self._store.get_in(reader, AgentPromptItem, item_id)
        if item is None or item.state is AgentPromptItemState.OPEN:
            return Gate.OPEN
        if item.state is AgentPromptItemState.EXPIRED:
            return Gate.NO
        answers = self._store.find_in(
            reader, AgentPromptResponse, {"prompt_item_id": item_id}, newest_first=True, limit=1
        )
        said = str(answers[0].response.get("answer")) if answers else ""
        return Gate.YES if said.casefold() in _YES else Gate.NO


def prompt_item_id(operation_id: str) -> str:
    """The id of the question that an action asks."""
    return digest("prompt_item", operation_id)


def _understood(item: AgentPromptItem, said: str) -> str:
    text = said.strip()
    if item.interaction_type is AgentInteractionType.YES_NO:
        if text.casefold() in _YES:
            return "yes"
        if text.casefold() in _NO:
            return "no"
        raise CompanionInvalid("Answer this question with yes or no.")
    if item.interaction_type is AgentInteractionType.MULTI_CHOICE and text not in item.options:
        raise CompanionInvalid(f"Answer with one of: {', '.join(item.options)}.")
    if not 0 < len(text) <= _MAX_ANSWER:
        raise CompanionInvalid(f"An answer has 1 to {_MAX_ANSWER} characters.")
    return text


def _require_open(item: AgentPromptItem, now: datetime) -> None:
    late = item.required_by is not None and now >= item.required_by
    if item.state is not AgentPromptItemState.OPEN or late:
        raise CompanionInvalid("This question does not wait for an answer any more.")
