"""How well memories are found again: LoCoMo conversations, question by question.

Every turn of a conversation becomes one memory of a scope of its own, exactly as the application
stores it; the gold is the evidence that the file names for a question. recall@k is the share of the
gold turns among the first k, averaged over questions; MRR looks at the first hundred.

    python -m evals.locomo FILE --json
"""

import argparse
import asyncio
import json
import re
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from silas.app.context import open_index
from silas.kernel import TaintLevel
from silas.memory.models import MemoryItem, MemoryQuery, MemoryQueryStrategy
from silas.memory.service import MemoryRetriever
from silas.memory.store import MemoryStores
from silas.storage import SqliteDatabase, load_migrations, migrate
from silas.testing import FakeClock

CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open", 4: "single-hop", 5: "adversarial"}
DEPTHS = (5, 10, 20)
_DEEPEST = 100
_LONGEST_QUESTION = 2000
_TURN = re.compile(r"D\d+:\d+")
_SESSION = re.compile(r"session_(\d+)")

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Question:
    """What is asked, of which kind, and the ids of the turns that hold the answer."""

    text: str
    category: str
    gold: frozenset[str]


@dataclass(frozen=True)
class Conversation:
    """The turns of one conversation as memories, and the questions about them."""

    name: str
    turns: list[MemoryItem]
    questions: list[Question]


@dataclass
class Tally:
    """What one way of searching achieved."""

    recalls: dict[int, list[float]] = field(default_factory=lambda: {k: [] for k in DEPTHS})
    reciprocal: list[float] = field(default_factory=list)
    by_category: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    seconds: list[float] = field(default_factory=list)

    def add(self, question: Question, found: Sequence[str], seconds: float) -> None:
        """Count one question."""
        places = [place for place, name in enumerate(found[:_DEEPEST]) if name in question.gold]
        for depth, values in self.recalls.items():
            values.append(sum(place < depth for place in places) / len(question.gold))
        self.reciprocal.append(1 / (places[0] + 1) if places else 0.0)
        self.by_category[question.category].append(self.recalls[10][-1])
        self.seconds.append(seconds)

    def figures(self) -> dict[str, Any]:
        """The means, and how long a question took."""
        times = sorted(self.seconds)
        return {
            **{f"recall@{k}": round(statistics.fmean(v), 4) for k, v in self.recalls.items()},
            "mrr": round(statistics.fmean(self.reciprocal), 4),
            "recall@10_by_category": {
                name: round(statistics.fmean(values), 4)
                for name, values in sorted(self.by_category.items())
            },
            "p50_ms": round(1000 * times[len(times) // 2], 2),
            "p95_ms": round(1000 * times[int(0.95 * (len(times) - 1))], 2),
        }


def read_conversations(path: Path, *, only: Sequence[str] = ()) -> list[Conversation]:
    """The conversations of a file, or those of them that are named."""
    every = json.loads(path.read_text("utf-8"))
    return [
        _conversation(entry) for entry in every if not only or entry.get("sample_id") in set(only)
    ]


async def evaluate(conversations: Iterable[Conversation], *, tell: Tell) -> dict[str, Any]:
    """The figures of every strategy, of the fusion without vectors, and with them."""
    tallies: dict[str, Tally] = defaultdict(Tally)
    questions = turns = 0
    for conversation in conversations:
        tell(f"{conversation.name}: {len(conversation.turns)} turns")
        questions += len(conversation.questions)
        turns += len(conversation.turns)
        with tempfile.TemporaryDirectory(prefix="locomo-") as folder:
            await _measure(conversation, Path(folder), tallies)
    return {
        "turns": turns,
        "questions": questions,
        "systems": {name: tally.figures() for name, tally in tallies.items()},
    }


async def _measure(conversation: Conversation, folder: Path, tallies: dict[str, Tally]) -> None:
    clock = FakeClock(max(turn.created_at for turn in conversation.turns))
    database = SqliteDatabase.open(folder / "silas.db")
    await migrate(database, load_migrations("runtime"), clock=clock)
    memories = MemoryStores(database, clock=clock)
    await memories.of(conversation.name).store_many(conversation.turns)
    rows = await database.fetch_all("SELECT id, memory_id FROM memory_items")
    names: dict[int, str] = dict(rows)
    vectors = await open_index(folder, memories)
    if vectors is not None:
        await vectors.reindex()
    by_words = MemoryRetriever(memories)
    by_all = MemoryRetriever(memories, vectors=vectors)
    ways = {each.value: (by_words, each) for each in MemoryQueryStrategy}
    del ways[MemoryQueryStrategy.SEMANTIC.value]
    if vectors is not None:
        ways["semantic"] = (by_all, MemoryQueryStrategy.SEMANTIC)
        ways["fused with vectors"] = (by_all, MemoryQueryStrategy.FUSED)
    store = memories.of(conversation.name)
    for question in conversation.questions:
        for name, (retriever, strategy) in ways.items():
            query = MemoryQuery(
                query=question.text[:_LONGEST_QUESTION], strategy=strategy, max_results=50
            )
            begun = time.perf_counter()
            ranked = await retriever.rank(query, store)
            seconds = time.perf_counter() - begun
            tallies[name].add(question, [names[row] for row, _ in ranked], seconds)
    if vectors is not None:
        await vectors.close()
    await database.close()


def in_words(report: dict[str, Any]) -> str:
    """The figures as a table."""
    head = ["system", *(f"R@{k}" for k in DEPTHS), "MRR", *CATEGORIES.values(), "p50 / p95 ms"]
    rows = [head]
    for name, got in report["systems"].items():
        categories = got["recall@10_by_category"]
        rows.append(
            [
                name,
                *(f"{got[f'recall@{k}']:.3f}" for k in DEPTHS),
                f"{got['mrr']:.3f}",
                *(f"{categories[kind]:.3f}" if kind in categories else "-" for kind in head[5:-1]),
                f"{got['p50_ms']:.1f} / {got['p95_ms']:.1f}",
            ]
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    about = f"{report['questions']} questions about {report['turns']} turns"
    return "\n".join([about, "", *lines])


def _conversation(entry: dict[str, Any]) -> Conversation:
    spoken = entry["conversation"]
    name = str(entry.get("sample_id", "conversation"))
    numbers = sorted(int(match[1]) for key in spoken if (match := _SESSION.fullmatch(key)))
    turns = [
        _turn(turn, name, f"session_{number}", _moment(spoken[f"session_{number}_date_time"]))
        for number in numbers
        for turn in spoken[f"session_{number}"]
    ]
    known = {turn.memory_id for turn in turns}
    questions = []
    for asked in entry["qa"]:
        gold = {found for each in asked["evidence"] for found in _TURN.findall(each)} & known
        if gold:
            kind = CATEGORIES.get(asked["category"], str(asked["category"]))
            questions.append(Question(asked["question"], kind, frozenset(gold)))
    return Conversation(name, turns, questions)


def _turn(turn: dict[str, Any], scope: str, session: str, when: datetime) -> MemoryItem:
    caption = f" [image: {turn['blip_caption']}]" if turn.get("blip_caption") else ""
    return MemoryItem(
        memory_id=turn["dia_id"],
        scope_id=scope,
        content=f"{turn['speaker']}: {turn['text']}{caption}",
        taint=TaintLevel.OWNER,
        created_at=when,
        updated_at=when,
        session_id=session,
        entity_refs=[turn["speaker"]],
        source_kind="conversation",
    )


def _moment(text: str) -> datetime:
    return datetime.strptime(text, "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(
        prog="evals.locomo", description="How well memories are found again."
    )
    parser.add_argument("file", type=Path, help="conversations in the format of LoCoMo")
    parser.add_argument(
        "--only", action="append", default=[], metavar="NAME", help="this conversation; repeatable"
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    chosen = parser.parse_args()
    try:
        conversations = read_conversations(chosen.file, only=chosen.only)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        parser.error(f"{chosen.file} is not in the format of LoCoMo ({error}).")
    if not conversations:
        parser.error(f"{chosen.file} holds no such conversation.")
    tell = (lambda _: None) if chosen.json else print
    report = asyncio.run(evaluate(conversations, tell=tell))
    print(json.dumps(report, indent=2, ensure_ascii=False) if chosen.json else in_words(report))


if __name__ == "__main__":
    main()
