"""A companion that is spoken to from the conversation: "ask the coach what comes next".

1. Only the owner's own words, signed, reach a companion. Nobody else knows that there are any.
2. The words after "ask", "tell" or "@" name the companion: its whole name, its kind, the beginning
   of its name, or a word of it that no other one has. Whoever fits nobody is no companion, and the
   message goes its usual way. If several fit, the owner is asked which one, and nobody is woken.
3. What follows the name is passed on as it was said, and nothing else is: no model is asked about
   it, and nothing of the conversation goes along.
4. The runtime says that it was asked. The answer comes into the same conversation when the run has
   ended, also if it is that there is none.
5. The same message asks once, however often its turn is taken: the run follows from its id.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from silas.companions.conversation import CompanionWord
from silas.companions.service import CompanionService
from silas.companions.views import CompanionName
from silas.kernel import Clock, SilasError, TaintLevel
from silas.queue import Agent, MessageKind, QueueMessage, Urgency
from silas.queue.models import AgentReply
from silas.stream.interaction import Surface
from silas.stream.scheduling import HOME
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
_WHAT = "What shall I ask {name}? Say it in one line: ask {name} what comes next."
_WHICH = "Several companions are meant by “{said}”: {names}. Which one? Nobody was asked."
_NEWS_KEY = 40


@dataclass(frozen=True)
class Addressed:
    """Whom a message speaks to, and what it says."""

    found: tuple[CompanionName, ...]
    named: str
    """The words that name them."""
    said: str


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
        told = await self._ask(service, turn, asked)
        # The runtime says it, about the message alone: nobody else's text has a part in it.
        return replace(turn.saying(told), taint=turn.message.taint, read_taint=turn.message.taint)

    async def _ask(self, service: CompanionService, turn: Turn, asked: Addressed) -> str:
        if len(asked.found) > 1:
            names = ", ".join(each.display_name for each in asked.found)
            return _WHICH.format(said=asked.named, names=names)
        (companion,) = asked.found
        if not asked.said:
            return _WHAT.format(name=companion.display_name)
        try:
            await service.say(
                companion.id,
                asked.said,
                request_id=turn.message.message_id,
                reply_to=_place_of(turn.origin),
            )
        except SilasError as error:
            return f"{companion.display_name} was not asked. {error.message}"
        return _ASKED.format(name=companion.display_name)


def word_message(word: CompanionWord, *, owner_id: str, clock: Clock) -> QueueMessage:
    """A companion's word for the owner, on its way to where it is to be seen.

    An answer goes to where it was asked for. What a companion says by itself goes to the line of
    what has happened, the same words once a day.
    """
    place = word.reply_to or {}
    name = f"companion_{word.run_key if place else word.news_id}"[: len("companion_") + _NEWS_KEY]
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
            channel=place.get("channel", HOME),
            surface=(Surface.STREAM if place else Surface.ACTIVITY).value,
        ),
    )


def _place_of(origin: Origin) -> Mapping[str, str]:
    return {
        "scope_id": origin.scope_id,
        "connection_id": origin.connection_id,
        "channel": origin.channel,
        "trace_id": origin.trace_id,
    }
