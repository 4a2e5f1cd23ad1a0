"""Whether the owner himself has said what an agent wants written down. Pure, and no model is asked.

An agent words things. What it wrote counts as the owner's only if it can be read in the message:

1. A text is the owner's words if it is the whole message, what the message asks to have remembered
   ("remember that ..."), or what it puts right ("no, ..."): every word of it, in order. Case,
   spaces and punctuation do not count. A part of a sentence is not enough: what is left out may be
   the "not".
2. The person may change ("I like tea", "the owner likes tea"), by the table below and no further,
   and only where the message speaks of nobody else who could be meant.
3. Letters are compared as they are: one from another alphabet, or one that cannot be seen, is
   another letter, and the text then is not the owner's.
4. A message names a memory to be forgotten if it is a request to forget ("forget that ...") and
   every word of what it names is in the memory, or it names the memory's id.
5. A message corrects a memory if it says so ("no, ...", "... any more"), shares a telling word with
   the memory, and the new text is the owner's words (1).
6. A message asks for a change of the journal if the change's names and times stand in it as they
   are, each once, it has a word for that kind of change ("tasks" is one for several), and nothing
   is left over but words that ask. What is left over could have turned the meaning.
7. The briefing is a reminder with a fixed name, which a message asks for with the word "brief" or
   "briefing", and ends with "stop", "cancel", "end" or "no more".

Whoever is not understood here is asked: all of these rules can only say no too often.
"""

import re
import unicodedata
from collections.abc import Sequence
from types import MappingProxyType

from silas.journal.conversation import JournalOp, JournalOpType
from silas.memory.question import STOP_WORDS
from silas.stream.accounts import BRIEFING

_WORD = re.compile(r"\d+(?:[.,:]\d+)+|[^\W_]+(?:['’][^\W_]+)*")  # noqa: RUF001 - the apostrophe that phones write
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})
_QUOTED = re.compile(r"[\"“”„«»`>]")
_MEANT = frozenset("%€$£¥+-−=<>≤≥≠±°#@/~^*_\\|&§")  # noqa: RUF001
"""Signs that carry meaning of their own: they are words, so that "-5" is not "5"."""

Words = tuple[str, ...]

_SHORT_NOT = "n't"
_NEGATIONS = frozenset({"not", "no", "never", "nobody", "none", "nothing", "without"})
_NOT = MappingProxyType({"can't": "cannot", "won't": "will not", "shan't": "shall not"})
_SHORT = MappingProxyType({"i'm": "i am", "i've": "i have", "i'll": "i will", "cannot": "can not"})
_COURTESY = r"(?:(?:hi|hello|hey|ok|okay|so|and|also|please|silas)\b[\s,.!:]*)*"
_THANKS = re.compile(r"[\s,.!]*(?:\b(?:please|thanks|thank you)\b[\s,.!]*)+$", re.IGNORECASE)
_REMEMBER = re.compile(
    rf"{_COURTESY}(?:(?:can|could|will|would) you\s+)?{_COURTESY}"
    r"(?:remember|note|keep in mind|do not forget|don['’]t forget|write down)\b"  # noqa: RUF001
    r"[\s,:]*(?:that\b)?[\s,:]*(?P<what>.+)",
    re.IGNORECASE | re.DOTALL,
)
_FORGET = re.compile(
    rf"{_COURTESY}(?:(?:can|could|will|would) you\s+)?{_COURTESY}"
    r"(?:forget|delete|remove|erase)\b[\s,:]*"
    r"(?:(?:everything|all|what you (?:know|remember))\s+about\b|about\b|(?P<that>that)\b|"
    r"the memory\b(?:\s+(?:that|about|of)\b)?)?[\s,:]*(?P<what>.+)",
    re.IGNORECASE | re.DOTALL,
)
_CORRECTION = re.compile(
    # "No" needs its comma: "no sugar" is no correction.
    rf"{_COURTESY}(?:(?:no|nope|correction|sorry|wait)\s*[,.!:;]+|(?:actually|i meant)\b)"
    r"[\s,:.!]*(?P<what>.+)",
    re.IGNORECASE | re.DOTALL,
)
_CHANGED = re.compile(
    r"\b(?:any ?more|no longer|from now on|instead|now|meanwhile|not true|wrong)\b", re.IGNORECASE
)

# Rule 2. The first person of the message, and what stands for it in the agent's text.
_FIRST = MappingProxyType({"i": "you", "me": "you", "my": "your", "mine": "yours"})
_SECOND = frozenset({"you", "your", "yours", "owner", "owner's", "user", "user's"})
_OWNER = re.compile(r"\b(?:the )?(?:owner|user)(?P<own>'s)?\b")
_AGREES = MappingProxyType(
    {"am": {"are", "is"}, "was": {"were"}, "have": {"has"}, "do": {"does"}, "go": {"goes"}}
)
_BETWEEN = frozenset({"really", "always", "never", "usually", "often", "also", "only", "still"})


def fold(text: str) -> Words:
    """The words of a text, for comparing; a sign that means something is a word as well."""
    plain = unicodedata.normalize("NFC", text).casefold().replace("’", "'")  # noqa: RUF001
    words: list[str] = []
    end = 0
    for found in _WORD.finditer(plain):
        words += [sign for sign in plain[end : found.start()] if _counts(sign)]
        words += _long_form(found[0]).split()
        end = found.end()
    words += [sign for sign in plain[end:] if _counts(sign)]
    return tuple(words)


def in_owners_words(text: str, message: str) -> bool:
    """Whether the owner has said exactly this in the message (rules 1 to 3)."""
    wanted = fold(text)
    return bool(wanted) and any(
        _same(fold(said), wanted)
        for said in (message, *_asked_to_remember(message), *_put_right(message))
    )


def all_said(text: str, message: str) -> bool:
    """Whether every word of a short label stands somewhere in the message."""
    return bool(fold(text)) and set(fold(text)) <= set(fold(message))


def names_to_forget(message: str, *, memory_id: str, content: str) -> bool:
    """Whether the message asks that this memory be forgotten (rule 4)."""
    found = _FORGET.fullmatch(_without_thanks(message))
    if found is None:
        return False
    named = found["what"].strip().strip(".!?")
    if named == memory_id:
        return True
    if found["that"] and _negations(named) != _negations(content):
        return False
    telling = _telling(named)
    return bool(telling) and telling <= _telling(content)


def corrects(message: str, *, old: str, new: str) -> bool:
    """Whether the owner corrects this memory in the message, and in these words (rule 5)."""
    if not _put_right(message) and _CHANGED.search(message) is None:
        return False
    return in_owners_words(new, message) and bool((_telling(new) & _telling(old)) - _NEGATIONS)


# The journal (rule 6).


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_ASKING = _set(
    "a an and as at by can could for have hello hey hi i in into it kindly let list me my now of ok"
    " okay on please put silas that thank thanks the then to today want will would you"
)
_CUES: MappingProxyType[JournalOpType, tuple[frozenset[str], frozenset[str]]] = MappingProxyType(
    {
        # What must stand in the message, and what else may.
        JournalOpType.ADD_TASK: (
            frozenset({"task", "todo", "do", "remind", "add"}),
            _set(
                "another category create dos down due make need new note some these to write until"
            ),
        ),
        JournalOpType.FINISH_TASK: (
            frozenset({"done", "finished", "completed", "finish", "complete"}),
            _set("am been is mark task was with"),
        ),
        JournalOpType.START_TIMER: (
            frozenset({"start", "begin"}),
            _set("task timer working"),
        ),
        JournalOpType.STOP_TIMER: (frozenset({"stop", "end"}), frozenset({"timer"})),
        JournalOpType.LOG_TIME: (
            frozenset({"log", "spent", "worked", "track"}),
            _set("just task time"),
        ),
        JournalOpType.PLAN_BLOCK: (
            frozenset({"plan", "block", "schedule"}),
            _set("from task till until with"),
        ),
        JournalOpType.PLAN_DAY: (frozenset({"plan"}), frozenset({"day"})),
        JournalOpType.REMIND: (
            frozenset({"remind", "reminder"}),
            _set("about add another create make of set"),
        ),
        JournalOpType.CANCEL_REMINDER: (
            frozenset({"cancel", "delete", "remove", "stop", "drop"}),
            _set("about called reminder reminding this"),
        ),
    }
)
_SEVERAL = frozenset({"tasks", "todos", "dos"})
"""One of these asks for as many tasks as are named, all in the one category that is named."""
_REQUEST = re.compile(rf"\s*{_COURTESY}(?:can|could|will|would) you\b", re.IGNORECASE)
_QUESTIONS = frozenset((word,) for word in ("am", "are", "did", "have", "is", "was", "were"))
_FIELDS = ("title", "task", "category", "due", "every", "duration", "begin", "end", "day")


def asked_for(ops: Sequence[JournalOp], message: str) -> tuple[bool, ...]:
    """For each of these changes of the journal, whether the message asks for exactly it."""
    said = fold(message)
    if _hides(message) or _is_question(message):
        return tuple(False for _ in ops)
    taken: set[int] = set()
    categories: set[int] = set()
    found = [_places(op, said, taken, categories) for op in ops]
    allowed = set(_ASKING)
    for op, is_there in zip(ops, found, strict=True):
        if is_there:
            needed, more = _CUES[op.op]
            allowed |= needed | more
    left = {word for number, word in enumerate(said) if number not in taken and word != "-"}
    understood = left <= allowed
    return tuple(is_there and understood for is_there in found)


def _is_question(message: str) -> bool:
    """Whether something is asked, and not asked for."""
    if _REQUEST.match(message):
        return False
    return "?" in message or fold(message)[:1] in _QUESTIONS


def _places(op: JournalOp, said: Words, taken: set[int], categories: set[int]) -> bool:
    """Take the words of the change out of the message, and one that asks for this kind of it.

    Tasks of a list share the word that asks for them, and their category.
    """
    if _is_coined(op):
        return _asks_for_briefing(op, said, taken)
    mine: set[int] = set()
    is_task = op.op is JournalOpType.ADD_TASK
    several = {number for number, word in enumerate(said) if is_task and word in _SEVERAL}
    for name in _FIELDS:
        value = getattr(op, name)
        if value is None:
            continue
        is_shared = name == "category" and bool(several)
        place = _place_of(fold(value), said, (taken - categories if is_shared else taken) | mine)
        if place is None:
            return False
        mine |= place
        categories |= place if is_shared else set()
    needed, _ = _CUES[op.op]
    asking = {n for n, word in enumerate(said) if word in needed} - taken | several
    cue = min(asking - mine, default=None)
    if cue is None:
        return False
    taken |= mine | {cue}
    return True


_COINED = frozenset({"brief", "briefing", "briefings"})
_STOPS = frozenset({"stop", "cancel", "end", "no"})


def _is_coined(op: JournalOp) -> bool:
    """Whether it is the reminder that has a name of its own, which nobody says (rule 7)."""
    return BRIEFING in (op.title, op.task)


def _asks_for_briefing(op: JournalOp, said: Words, taken: set[int]) -> bool:
    """Take the words that ask for it, and for when; for its end, one that ends it."""
    stops = op.op is JournalOpType.CANCEL_REMINDER
    cue = {number for number, word in enumerate(said) if word in _COINED}
    when = _place_of(fold(op.every), said, taken) if op.every else set()
    ends = {number for number, word in enumerate(said) if word in _STOPS}
    if not cue or when is None or bool(ends) is not stops:
        return False
    more = {n for n, word in enumerate(said) if word in ("give", "send", "tell", "more", "morning")}
    taken |= cue | when | ends | more
    return True


def _place_of(words: Words, said: Words, taken: set[int]) -> set[int] | None:
    for start in range(len(said) - len(words) + 1) if words else ():
        place = set(range(start, start + len(words)))
        if said[start : start + len(words)] == words and not place & taken:
            return place
    return None


# Words.


def _counts(sign: str) -> bool:
    """Whether a character between words is one itself: it means something, or it is hidden."""
    if sign in _MEANT:
        return True
    category = unicodedata.category(sign)
    return (category in _HIDDEN and not sign.isspace()) or category[0] in "MS"


def _hides(text: str) -> bool:
    return any(unicodedata.category(c) in _HIDDEN and not c.isspace() for c in text)


def _long_form(word: str) -> str:
    word = _SHORT.get(_NOT.get(word, word), _NOT.get(word, word))
    return f"{word.removesuffix(_SHORT_NOT)} not" if word.endswith(_SHORT_NOT) else word


def _asked_to_remember(message: str) -> list[str]:
    """What the message asks to have remembered. Where somebody is quoted, only as a whole."""
    whole = _without_thanks(message)
    parts = [whole] if _QUOTED.search(message) else [whole, *_SENTENCE_END.split(whole)]
    found = [_REMEMBER.fullmatch(part.strip()) for part in parts]
    return [each["what"] for each in found if each is not None]


def _put_right(message: str) -> list[str]:
    """What follows "no," or "actually" at the beginning of the message."""
    found = _CORRECTION.fullmatch(_without_thanks(message))
    return [found["what"]] if found is not None else []


def _without_thanks(message: str) -> str:
    return _THANKS.sub("", message.strip())


def _same(said: Words, wanted: Words) -> bool:
    if said == wanted:
        return True
    speaks_of_others = _SECOND & set(said)
    if speaks_of_others or set(_FIRST) & set(wanted) or not set(_FIRST) & set(said):
        return False
    text = _OWNER.sub(lambda found: "your" if found["own"] else "you", " ".join(wanted))
    return _agree(said, tuple(text.split()))


def _agree(said: Words, wanted: Words) -> bool:
    """Word for word, with the person changed and the verb after it as that person has it."""
    if len(said) != len(wanted):
        return False
    verb_follows = False
    for mine, theirs in zip(said, wanted, strict=True):
        if _FIRST.get(mine, mine) != theirs and not (verb_follows and _is_form(mine, theirs)):
            return False
        verb_follows = mine == "i" or (verb_follows and mine in _BETWEEN)
    return True


def _is_form(mine: str, theirs: str) -> bool:
    if theirs in _AGREES.get(mine, ()):
        return True
    regular = {f"{mine}s", f"{mine}es"} | ({f"{mine[:-1]}ies"} if mine.endswith("y") else set())
    return theirs in regular


def _negations(text: str) -> frozenset[str]:
    return _NEGATIONS & set(fold(text))


def _telling(text: str) -> set[str]:
    """The words that say something; a "not" always does."""
    words = {word.removesuffix("'s") for word in fold(text)}
    short = {word for word in words if word in STOP_WORDS or len(word) < 2}
    return words - (short - _NEGATIONS)
