"""Made-up memories and questions of any number, the same every time; words as rare as in life."""

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from silas.kernel import TaintLevel
from silas.memory.models import MemoryItem

_WORDS = 20_000
_LENGTH = 18
_IN_SESSION = 20
_START = datetime(2020, 1, 1, tzinfo=UTC)


def made_up_memories(count: int, *, scope_id: str = "owner", seed: int = 1) -> Iterator[MemoryItem]:
    """Sessions of twenty memories, one after the other."""
    rng = random.Random(seed)
    for number in range(count):
        when = _START + timedelta(minutes=number)
        yield MemoryItem(
            memory_id=f"mem_{number:012}",
            scope_id=scope_id,
            content=" ".join(_word(rng) for _ in range(_LENGTH)),
            taint=TaintLevel.OWNER,
            created_at=when,
            updated_at=when,
            session_id=f"session-{number // _IN_SESSION}",
            source_kind="made_up",
        )


def made_up_questions(count: int, *, seed: int = 2) -> list[str]:
    """Questions of six words, of which some are common and some rare."""
    rng = random.Random(seed)
    return [" ".join(_word(rng) for _ in range(6)) for _ in range(count)]


def _word(rng: random.Random) -> str:
    """By Zipf's law: the n-th most frequent word is n times as rare as the first."""
    rank = int(_WORDS ** rng.random())
    letters = ""
    while rank:
        rank, rest = divmod(rank, 20)
        letters += "bcdfghjklmnpqrstvwxz"[rest] + "aeiou"[rest % 5]
    return f"{letters}n"
