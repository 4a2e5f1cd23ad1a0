"""Cards that nobody asked for: so many a day, and the rest in one digest.

1. Suggestions, teaching, grants, autonomy, preferences, offers of skills, what companions want and
   reminders of connections share one budget a day: the owner's day.
2. What does not fit is held: sealed like any question, and shown to nobody. One digest names all
   that is held. It counts as no card, and is asked anew when there is more to name.
3. A yes to the digest asks what is held; the owner wants to see it, so it counts no more. A no
   drops it. Once a digest was answered, the next one comes on another day.
4. What the owner has begun himself is asked by other ways, at once, and never held.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from silas.gates.risk import RiskLevel
from silas.kernel import Clock, IdFactory, format_timestamp, join_taint, visible
from silas.review.decisions import QuestionKind
from silas.review.questions import (
    QUESTION,
    Question,
    QuestionChoice,
    QuestionContent,
    QuestionStore,
)
from silas.storage import Database, Transaction

DIGEST = "digest"
"""The source of the suggestion that names what is held."""
_LIFETIME = timedelta(days=3)
_MOST_LINES = 20
_LONGEST_LINE = 200
_COUNT = "SELECT count(*) FROM unasked_cards WHERE shown = 1 AND at >= ?"
_NOTE = """
INSERT INTO unasked_cards (question_id, at, shown) VALUES (?, ?, ?)
ON CONFLICT (question_id) DO NOTHING
"""
_ANSWERED = """
SELECT 1 FROM questions WHERE about LIKE 'digest:%' AND answered_at >= ?
AND state IN ('do_it', 'not_now')
"""
_PRUNE = "DELETE FROM unasked_cards WHERE at < ?"


@dataclass(frozen=True)
class UnaskedCards:
    """The one budget of one data directory."""

    database: Database
    questions: QuestionStore
    clock: Clock
    ids: IdFactory
    zone: ZoneInfo
    owner_id: str
    a_day: int = 5

    async def ask(self, question: Question) -> bool:
        """Ask, if there is room today; False if it is held for the digest (rule 2)."""
        shown = await self.database.transaction(lambda tx: self.ask_in(tx, question))
        self.questions.tell()
        if not shown:
            await self.renew_digest()
        return shown

    def ask_in(self, tx: Transaction, question: Question) -> bool:
        """The same as part of a transaction; the next `renew_digest` names what is held."""
        row = tx.fetch_one(_COUNT, (self._today(),))
        shown = int(row[0] if row else 0) < self.a_day
        if shown:
            self.questions.ask_in(tx, question)
        else:
            self.questions.hold_in(tx, question)
        now = format_timestamp(self.clock.now())
        tx.execute(_NOTE, (question.question_id, now, int(shown)))
        return shown

    async def left_today(self) -> int:
        """How many more are asked today."""
        row = await self.database.fetch_one(_COUNT, (self._today(),))
        return max(0, self.a_day - int(row[0] if row else 0))

    async def renew_digest(self) -> None:
        """Have one digest name all that is held, and nothing else (rules 2 and 3)."""
        oldest = format_timestamp(self.clock.now() - timedelta(days=60))
        await self.database.execute(_PRUNE, (oldest,))
        held = await self.questions.held()
        about = _about(held)
        waiting = [e for e in await self.questions.open() if e.about.startswith(f"{DIGEST}:")]
        if held and any(each.about == about for each in waiting):
            return
        for old in waiting:
            await self.questions.close(old.question_id, "outdated")
        if held and await self.database.fetch_one(_ANSWERED, (self._today(),)) is None:
            await self.questions.ask(self._digest(held, about))

    async def follow(self, digest: Question, answer: str | None) -> int:
        """What the owner said to a digest (rule 3); returns how many are asked now."""
        names = [str(each) for each in digest.content.body.get("held", ())]
        if answer == "do_it":
            return await self.questions.release(names)
        await self.questions.drop_held(names)
        return 0

    def _digest(self, held: Sequence[Question], about: str) -> Question:
        now, name, count = self.clock.now(), self.ids.new(QUESTION), len(held)
        lines = [visible(e.content.intent, keep_newlines=False) for e in held[:_MOST_LINES]]
        things = f"{count} thing{'s' * (count != 1)}"
        return Question(
            question_id=name,
            scope_id=self.owner_id,
            trace_id=f"trace_{name}",
            about=about,
            content=QuestionContent(
                kind=QuestionKind.SUGGESTION,
                intent=f"{things} that I did not ask today",
                rationale=f"You see {self.a_day} cards a day that you did not ask for. "
                "This is the rest.",
                risk=RiskLevel.LOW,
                taint=join_taint(*(each.content.taint for each in held)),
                actions=[
                    QuestionChoice(value="do_it", label="Show them"),
                    QuestionChoice(value="not_now", label="Drop them"),
                ],
                body={
                    "source": DIGEST,
                    "request": "",
                    "cooldown_key": about,
                    "held": [each.question_id for each in held],
                    "lines": [each[:_LONGEST_LINE] for each in lines],
                },
            ),
            created_at=now,
            expires_at=now + _LIFETIME,
        )

    def _today(self) -> str:
        """When the owner's day began."""
        here = self.clock.now().astimezone(self.zone)
        return format_timestamp(_midnight(here))


def is_digest(question: Question) -> bool:
    """Whether it names what is held, and suggests nothing itself."""
    return question.content.body.get("source") == DIGEST


def _midnight(here: datetime) -> datetime:
    return here.replace(hour=0, minute=0, second=0, microsecond=0)


def _about(held: Sequence[Question]) -> str:
    named = "\n".join(sorted(each.question_id for each in held))
    return f"{DIGEST}:{hashlib.sha256(named.encode()).hexdigest()[:16]}"
