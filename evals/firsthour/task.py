"""What a task is, what an owner does in one, and how it is judged.

A task is data: what is on the disk before, what the owner does (`says`, `approves`, `declines` …),
what the model says (`model.py`), and what must be so at the end. A judge looks at the disk and at
what the owner was shown, and at nothing else; it returns what is wrong, or nothing.
"""

import asyncio
import json
import shlex
import subprocess
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from evals.firsthour.model import Script
from evals.firsthour.owner import ENDED, Owner, kind_of
from evals.served import Frame

Step = Callable[[Owner], Awaitable[object]]
Judge = Callable[[Owner], str]


@dataclass(frozen=True)
class Task:
    """One thing that a person does in the first hour."""

    name: str
    owner: Sequence[Step]
    """What the owner does, in order."""
    model: Script
    judge: Sequence[Judge]
    files: Mapping[str, str] = field(default_factory=dict)
    """What is in the owner's files before; names that begin with `~/` are below the home."""
    repository: str = ""
    """A directory of these that is a git repository."""
    real: bool = False
    """One of the twelve that a real model has to do as well."""
    slow: bool = False
    """Takes more than a few seconds: never in the sample that `make test` runs."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of a server of its own; without them tasks share one."""


# --- what the owner does ---


def says(text: str) -> Step:
    """Say something, and wait for the answer or the card."""
    return lambda owner: owner.say(text)


def approves(kind: str = "plan") -> Step:
    """Say yes to the newest card of this kind; wait until its work has ended or asks for more."""

    async def step(owner: Owner) -> None:
        before = {each["request_id"] for each in owner.cards("plan", "call")}
        card = await owner.decide("approved", kind)

        def ended(frames: Sequence[Frame]) -> bool:
            waiting = {each["request_id"] for each in owner.cards("plan", "call")}
            return bool(waiting - before) or _ended_with_report(frames, card)

        await owner.until(f"the end of “{card['title']}”", ended)

    return step


def starts(kind: str = "plan") -> Step:
    """Say yes, and wait only until the work runs."""

    async def step(owner: Owner) -> None:
        await owner.decide("approved", kind)
        await owner.until("work that runs", lambda frames: _work(frames, {"running"}))

    return step


def agrees(kind: str = "plan") -> Step:
    """Say yes to something that does not run at once, such as a schedule; wait for its answer."""

    async def step(owner: Owner) -> None:
        await owner.decide("approved", kind)
        await owner.until("a word about it", _any_message)

    return step


def declines(kind: str = "plan") -> Step:
    """Say no, and wait for what Silas says to that."""

    async def step(owner: Owner) -> None:
        await owner.decide("declined", kind)
        await owner.until("a word about the no", _any_message)

    return step


def asks_for_changes(words: str) -> Step:
    """Ask for changes, say which, and wait for the next version of the plan."""

    async def step(owner: Owner) -> None:
        await owner.decide("edit_requested")
        await owner.say(words)

    return step


def waits_for(kind: str) -> Step:
    """Wait for a card of this kind."""
    return lambda owner: owner.card(kind)


def waits_for_words(text: str) -> Step:
    """Wait until Silas has said something with these words."""

    async def step(owner: Owner) -> None:
        await owner.until(
            f"“{text}”",
            lambda _: any(text.lower() in each.lower() for each in owner.heard),
        )

    return step


def runs(*arguments: str) -> Step:
    """Run `silas …` in a terminal. `CARD`, `HASH` and `WORK` stand for the newest ones."""

    async def step(owner: Owner) -> None:
        await owner.run(*(_named(owner, each) for each in arguments))

    return step


def restarts() -> Step:
    """Stop Silas and start it again."""

    async def step(owner: Owner) -> None:
        await owner.leave()
        await owner.sit_down()

    return step


def _named(owner: Owner, word: str) -> str:
    cards = [each for each in owner.frames if each["type"] == "approval_request"]
    if word == "WORK":
        # The page may still be told about the work of the task before.
        asked = {item["id"] for card in cards for item in card["items"]}
        shown = [each["work_item_id"] for each in owner.work if each["work_item_id"] in asked]
        return str(shown[-1] if shown else cards[-1]["items"][0]["id"])
    if word == "CARD":
        return str(cards[-1]["request_id"])
    if word == "HASH":
        return str(cards[-1]["items"][0]["plan_hash"])
    return word


def _work(frames: Sequence[Frame], statuses: set[str] | frozenset[str]) -> Frame | None:
    found = [each for each in frames if each["type"] == "work" and each["status"] in statuses]
    return found[-1] if found else None


def _ended_with_report(frames: Sequence[Frame], card: Frame) -> bool:
    """Whether the work of a card has ended, and that is said in the conversation as well."""
    mine, ended = list(frames), ENDED
    if card["kind"] == "call":  # it is about work that has a card of its own, and was blocked by it
        ended = ENDED - {"blocked"}
    else:
        ids = {None, *(item["id"] for item in card["items"])}
        mine = [each for each in frames if each.get("trace_id") == card["trace_id"]]
        mine = [each for each in mine if each.get("work_item_id") in ids]
    reports = [
        each
        for each in mine
        if each["type"] == "message"
        and each["sender"] == "silas"
        and each["surface"] == "stream"
        and each["final"]
    ]
    return bool(reports) and _work(mine, ended) is not None


def _any_message(frames: Sequence[Frame]) -> bool:
    return any(each["type"] == "message" and each["sender"] == "silas" for each in frames)


# --- how it is judged ---


def path_of(owner: Owner, name: str) -> Path:
    """A file of the owner's: in his home with `~/`, else where requests without a place work."""
    return owner.machine.home / name[2:] if name.startswith("~/") else owner.files / name


def file_is(name: str, text: str) -> Judge:
    """The file holds exactly this, but for white space at its end."""

    def judge(owner: Owner) -> str:
        path = path_of(owner, name)
        if not path.is_file():
            return f"{name} is not there"
        held = path.read_text("utf-8")
        return "" if held.rstrip() == text.rstrip() else f"{name} holds {held[:80]!r}"

    return judge


def file_has(name: str, *texts: str) -> Judge:
    """The file holds each of these somewhere."""

    def judge(owner: Owner) -> str:
        path = path_of(owner, name)
        held = path.read_text("utf-8") if path.is_file() else ""
        missing = [text for text in texts if text not in held]
        return f"{name} has no {missing[0]!r}: {held[:80]!r}" if missing else ""

    return judge


def no_file(name: str) -> Judge:
    """There is no such file."""
    return lambda owner: f"{name} is there" if path_of(owner, name).exists() else ""


def succeeds(command: str, place: str = "") -> Judge:
    """A command that the judge runs in the owner's files ends with 0."""

    def judge(owner: Owner) -> str:
        done = subprocess.run(
            shlex.split(command),
            cwd=path_of(owner, place) if place else owner.files,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return f"`{command}`: {done.stdout[-200:]}{done.stderr[-200:]}" if done.returncode else ""

    return judge


def hears(*texts: str) -> Judge:
    """Silas has said each of these, in any message."""

    def judge(owner: Owner) -> str:
        said = "\n".join(owner.heard)
        missing = [text for text in texts if text.lower() not in said.lower()]
        return f"never said {missing[0]!r}; last: {said[-300:]!r}" if missing else ""

    return judge


def never_hears(*texts: str) -> Judge:
    """Silas has said none of these."""

    def judge(owner: Owner) -> str:
        said = [text for text in texts if any(text.lower() in each.lower() for each in owner.heard)]
        return f"said {said[0]!r}" if said else ""

    return judge


def ends(*statuses: str) -> Judge:
    """The page shows the work at the end in one of these states."""

    def judge(owner: Owner) -> str:
        shown = owner.work[-1]["status"] if owner.work else "nothing"
        return "" if shown in statuses else f"the page shows the work as {shown}"

    return judge


def risk(level: str) -> Judge:
    """Every plan was shown with this risk."""

    def judge(owner: Owner) -> str:
        other = [each for each in _plans(owner) if each["risk_level"] != level]
        return f"{other[0]['risk_level']}: {other[0]['rationale']}" if other else ""

    return judge


def asked(times: int) -> Judge:
    """So many plans were shown."""

    def judge(owner: Owner) -> str:
        names = {each["request_id"] for each in _plans(owner)}
        return "" if len(names) == times else f"{len(names)} plans were shown"

    return judge


def card_shows(*texts: str) -> Judge:
    """A card shows each of these."""

    def judge(owner: Owner) -> str:
        shown = json.dumps([each for each in owner.frames if "risk_level" in each])
        missing = [text for text in texts if json.dumps(text)[1:-1] not in shown]
        return f"no card shows {missing[0]!r}" if missing else ""

    return judge


def page_shows(*texts: str) -> Judge:
    """The page shows each of these: in the conversation, on a card or beside the work."""

    def judge(owner: Owner) -> str:
        shown = json.dumps([each for each in owner.frames if each["type"] not in _NOT_SHOWN])
        missing = [text for text in texts if json.dumps(text)[1:-1] not in shown]
        return f"the page never shows {missing[0]!r}" if missing else ""

    return judge


def prints(*texts: str) -> Judge:
    """Commands of the owner have printed each of these."""

    def judge(owner: Owner) -> str:
        printed = "\n".join(owner.printed)
        missing = [text for text in texts if text not in printed]
        return f"nothing printed {missing[0]!r}: {printed[-300:]!r}" if missing else ""

    return judge


def never_prints(*texts: str) -> Judge:
    """No command of the owner has printed any of these."""

    def judge(owner: Owner) -> str:
        printed = "\n".join(owner.printed)
        found = [text for text in texts if text in printed]
        return f"printed {found[0]!r}" if found else ""

    return judge


_NOT_SHOWN = frozenset({"progress", "accepted", "ready", "text"})


def _plans(owner: Owner) -> list[Frame]:
    return [
        each
        for each in owner.frames
        if each["type"] == "approval_request" and kind_of(each) == "plan"
    ]


async def prepare(owner: Owner, task: Task) -> None:
    """Put the files of a task there, and make a repository of what is one."""
    for name, text in task.files.items():
        path = path_of(owner, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    if task.repository:
        await asyncio.to_thread(_commit, path_of(owner, task.repository))


def _commit(place: Path) -> None:
    person = ["-c", "user.name=Owner", "-c", "user.email=owner@example.org"]
    for command in (["init", "-q", "-b", "main"], ["add", "-A"], [*person, "commit", "-qm", "All"]):
        subprocess.run(["git", *command], cwd=place, check=True, capture_output=True)
