"""A companion that is spoken to from the conversation: "ask the coach what comes next".

1. Only the owner's own words, signed, reach a companion. Nobody else knows that there are any.
2. The words after "ask", "tell" or "@" name the companion: its whole name, its kind, the beginning
   of its name, or a word of it that no other one has. Whoever fits nobody is no companion, and the
   message goes its usual way. If several fit, the owner is asked which one, and nobody is woken.
3. What follows the name is passed on as it was said, and nothing else is: no model is asked about
   it, and nothing of the conversation goes along.
4. The runtime says that it was asked. The answer comes into the same conversation when the run has
   ended, also if it is that there is none. Words that only answer its question, so that it goes on
   with what waited, are told as that.
5. The same message asks once, however often its turn is taken: the run follows from its id.
"""

import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from pydantic import ValidationError

from silas.companions.conversation import CompanionWord
from silas.companions.erasure import ErasedElsewhere
from silas.companions.service import CompanionService
from silas.companions.views import CompanionName
from silas.kernel import Clock, SilasError, TaintLevel, parse_timestamp
from silas.queue import Agent, MessageKind, QueueMessage, Urgency
from silas.queue.models import OWN_CHANNEL, AgentReply
from silas.storage import Database, Durability, Transaction
from silas.stream.interaction import Surface
from silas.stream.store import Origin
from silas.stream.turn_context import Turn

_ADDRESSED = re.compile(
    r"\s*(?:(?:hey|hi|please)[\s,]+)?(?:(?:ask|tell)\s+(?:(?:the|my)\s+)?|@)(?P<rest>\S.*)",
    re.IGNORECASE | re.DOTALL,
)
_WORD = re.compile(r"[^\s,:;.!?]+")
_BETWEEN = re.compile(r"^[\s,:;.!-]*(?:(?:to|that|about)\s+)?", re.IGNORECASE)
_LONGEST_NAME = 5
_ASKED = "I asked {name}. The answer comes into this conversation."
_ANSWERED = "{name} has your answer, and goes on with what waited for it."
_WHAT = "What shall I ask {name}? Say it in one line: ask {name} what comes next."
_WHICH = "Several companions are meant by “{said}”: {names}. Which one? Nobody was asked."
_NEWS_KEY = 40
_WORD_ID = "companion_"
_WORDS = f"""
SELECT message_id, message, created_at FROM deliveries
WHERE substr(message_id, 1, {len(_WORD_ID)}) = '{_WORD_ID}'
"""  # noqa: S608 - our own prefix
_DELETE = "DELETE FROM deliveries WHERE message_id IN (SELECT value FROM json_each(?))"
_FORGET_SAID = "DELETE FROM said WHERE message_id IN (SELECT value FROM json_each(?))"
_BY_THEM, _TO_THEM = "words of theirs in your conversations", "words to them in your conversations"
ForgetMemories = Callable[[Sequence[str]], Awaitable[int]]
"""Forgets these memories, with the entries of the chronicle that they were kept from."""


@dataclass(frozen=True)
class Addressed:
    """Whom a message speaks to, and what it says."""

    found: tuple[CompanionName, ...]
    named: str
    """The words that name them."""
    said: str


class _Told(NamedTuple):
    """What the runtime says, and whether the companion answers later."""

    text: str
    goes_on: bool = False


def addressed(text: str, known: Sequence[CompanionName]) -> Addressed | None:
    """The companion that a message speaks to (rule 2); None if it speaks to none."""
    match = _ADDRESSED.fullmatch(text)
    if match is None:
        return None
    rest = match["rest"]
    words = list(_WORD.finditer(rest))[:_LONGEST_NAME]
    for last in reversed(words):
        named = rest[: last.end()]
        found = _named(named, known)
        if found:
            said = _BETWEEN.sub("", rest[last.end() :], count=1).strip()
            return Addressed(found, named, said)
    return None


def _named(text: str, known: Sequence[CompanionName]) -> tuple[CompanionName, ...]:
    small = " ".join(text.casefold().split())
    ways = (
        lambda each: each.display_name.casefold() == small,
        lambda each: each.kind.replace("_", " ") == small,
        lambda each: small in each.display_name.casefold().split(),
        lambda each: small in each.kind.split("_"),
    )
    found = ([each for each in known if way(each)] for way in ways)
    return tuple(next((each for each in found if each), []))


class CompanionDoor:
    """What the conversation knows of companions: their names, and how one is spoken to."""

    def __init__(self) -> None:
        self._service: CompanionService | None = None

    def attach(self, service: CompanionService) -> None:
        """Speak to these. Before that there are none."""
        self._service = service

    async def answer(self, turn: Turn, is_owners: bool) -> Turn | None:
        """The turn that says whom it has asked; None if the message speaks to no companion."""
        service = self._service
        if service is None or not is_owners or _ADDRESSED.fullmatch(turn.text) is None:
            return None
        asked = addressed(turn.text, await service.names())
        if asked is None:
            return None
        told, goes_on = await self._ask(service, turn, asked)
        # The runtime says it, about the message alone: nobody else's text has a part in it.
        taint = turn.message.taint
        return replace(turn.saying(told), taint=taint, read_taint=taint, goes_on=goes_on)

    async def _ask(self, service: CompanionService, turn: Turn, asked: Addressed) -> _Told:
        if len(asked.found) > 1:
            names = ", ".join(each.display_name for each in asked.found)
            return _Told(_WHICH.format(said=asked.named, names=names))
        (companion,) = asked.found
        if not asked.said:
            return _Told(_WHAT.format(name=companion.display_name))
        try:
            woken = await service.say(
                companion.id,
                asked.said,
                request_id=turn.message.message_id,
                reply_to=_place_of(turn.origin),
            )
        except SilasError as error:
            return _Told(f"{companion.display_name} was not asked. {error.message}")
        told = _ASKED if woken.replies else _ANSWERED
        return _Told(told.format(name=companion.display_name), woken.replies)


def word_message(word: CompanionWord, *, owner_id: str, clock: Clock) -> QueueMessage:
    """A companion's word for the owner, on its way to where it is to be seen.

    An answer goes to where it was asked for. What a companion says by itself goes to the line of
    what has happened, the same words once a day.
    """
    place = word.reply_to or {}
    name = f"{_WORD_ID}{word.run_key if place else word.news_id}"[: len(_WORD_ID) + _NEWS_KEY]
    return QueueMessage(
        message_id=name,
        trace_id=place.get("trace_id", name),
        content=f"{word.name}: {word.text}",
        sender=Agent.RUNTIME,
        message_kind=MessageKind.AGENT_RESPONSE,
        scope_id=place.get("scope_id", owner_id),
        # A model may have written it, from records that anybody may have written.
        taint=TaintLevel.EXTERNAL,
        created_at=clock.now(),
        urgency=Urgency.NEEDS_ATTENTION if place else Urgency.INFORMATIONAL,
        payload=AgentReply(
            connection_id=place.get("connection_id", owner_id),
            channel=place.get("channel", OWN_CHANNEL),
            in_reply_to=place.get("message_id"),
            companion_id=word.agent_id,
            surface=(Surface.STREAM if place else Surface.ACTIVITY).value,
        ),
    )


class CompanionTraces:
    """What companions and the owner have said to each other in the conversation with Silas."""

    def __init__(self, database: Database, forget: ForgetMemories) -> None:
        self._database = database
        self._forget = forget

    async def __call__(self, about: ErasedElsewhere) -> dict[str, int]:
        """`silas.companions.erasure.Elsewhere`: erase it, or count it.

        Of what the owner has said it goes by the run that it began, and in the same breath from
        the chronicle, the memory and their indexes.
        """
        words = [
            str(name)
            for name, message, at in await self._database.fetch_all(_WORDS)
            if _is_erased(about, str(message), parse_timestamp(str(at)))
        ]
        said = sorted(about.message_ids)
        ends = (".in", ".out") if about.wish.whole else (".in",)
        count = len(said)
        if about.really and said:
            count = await self._forget([f"raw_{each}{end}" for each in said for end in ends])

        def erase(tx: Transaction) -> None:
            tx.execute(_DELETE, (json.dumps(words),))
            tx.execute(_FORGET_SAID, (json.dumps(said),))

        if about.really and (words or said):
            await self._database.transaction(erase, durability=Durability.TRUST)
        return {_BY_THEM: len(words), _TO_THEM: count}


def _is_erased(about: ErasedElsewhere, message: str, at: datetime) -> bool:
    try:
        word = QueueMessage.model_validate_json(message)
    except ValidationError:
        return about.fits_word(None, message, at)  # nobody can say what is in it
    reply = word.payload
    whose = reply.companion_id if isinstance(reply, AgentReply) else None
    return about.fits_word(whose, word.content, at)


def _place_of(origin: Origin) -> Mapping[str, str]:
    return {
        "scope_id": origin.scope_id,
        "connection_id": origin.connection_id,
        "channel": origin.channel,
        "trace_id": origin.trace_id,
        "message_id": origin.message_id,
    }
