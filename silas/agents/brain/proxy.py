"""The offline brain as proxy: what it answers itself, and what it hands to the planner."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from silas.agents.brain.grammar import example_of, understand
from silas.agents.brain.hearing import Heard, ToolAnswer
from silas.agents.brain.intents import (
    Forget,
    Greeting,
    Help,
    LookAtJournal,
    NotUnderstood,
    Planned,
    Recall,
    Remember,
    Said,
    Thanks,
    WhatDidYouDo,
)
from silas.agents.brain.steps import Answer, Call, Move
from silas.journal.wishes import JournalOp

_MEMORY = "memory_search"
_ACTIVITY = "recent_activity"
_JOURNAL = "journal_read"
_FOUND = re.compile(r"^(?P<id>mem\w+) \((?P<kind>\w+)\): (?P<text>.*)$", re.MULTILINE)
_ID = re.compile(r"mem\w+")
_SHOWN = 10

_CAN = (
    "I am the offline brain: no model is configured, so I understand a small set of requests. What "
    "I do on your machine still needs your approval and is checked. I can:\n"
    "- run a command: “{run}”\n"
    "- write and change files: “{file}”, “{edit}”\n"
    "- fix something by your patch, and test it\n"
    "- watch an address or a command: “{watch}”\n"
    "- remember, recall and forget: “{remember}”\n"
    "- keep your journal: “{task}”, “{timer}”, “{plan}”, “{today}”\n"
    "- tell you what I did: “{did}”\n\n"
    "For everything else, set up a model: `silas models detect` looks for one on this machine."
)


def route(heard: Heard) -> Move:
    """The proxy's next move."""
    wish = understand(heard.request)
    if isinstance(wish, Planned):
        return Answer(_decision("planner", "something is to be done", "execution"))
    return _say(wish, heard)


def _say(wish: Said, heard: Heard) -> Move:
    match wish:
        case Remember(text):
            op = {"op": "store", "content": text, "memory_type": "fact"}
            return _direct(f"I will remember: {text}", ops=[op])
        case Recall(about):
            return _recall(about, heard)
        case Forget(about):
            return _forget(about, heard)
        case JournalOp() | LookAtJournal():
            return _journal(wish, heard)
        case WhatDidYouDo():
            return _look(_ACTIVITY, {}, heard, otherwise="I cannot see the log from here.")
        case _:
            return _direct(_words(wish))


def _words(wish: Greeting | Thanks | Help | NotUnderstood) -> str:
    match wish:
        case Greeting():
            return f"Hello! {what_i_can()}"
        case Thanks():
            return "You are welcome."
        case Help():
            return what_i_can()
        case NotUnderstood(near):
            return _did_not_understand(near)


def what_i_can() -> str:
    """Everything that can be said, with an example each."""
    return _CAN.format(
        run=example_of("run a command"),
        file=example_of("make a file"),
        edit=example_of("change a file"),
        watch=example_of("watch something"),
        remember=example_of("remember"),
        task=example_of("add a task"),
        timer=example_of("start the timer"),
        plan=example_of("plan a block"),
        today=example_of("look at a day"),
        did=example_of("say what was done"),
    )


def _did_not_understand(near: str | None) -> str:
    if near is None:
        return f"I did not understand that. {what_i_can()}"
    return f"I did not understand that exactly. Say it like this: “{example_of(near)}”"


def _recall(about: str, heard: Heard) -> Move:
    move = _look(_MEMORY, _query(about), heard, otherwise="I have no memory here.")
    if isinstance(move, Call) or not heard.answers or not heard.answers[-1].success:
        return move
    found = _memories(heard.answers[-1])
    if not found:
        return _direct("I do not remember anything about that.")
    return _direct("\n".join(["This is what I remember:", *(f"- {text}" for _, text in found)]))


def _forget(about: str, heard: Heard) -> Move:
    if _ID.fullmatch(about):
        return _direct(f"I forget {about}.", ops=[{"op": "delete", "memory_id": about}])
    move = _look(_MEMORY, _query(about), heard, otherwise="I have no memory here.")
    if isinstance(move, Call) or not heard.answers or not heard.answers[-1].success:
        return move
    found = _memories(heard.answers[-1])
    if not found:
        return _direct("I do not remember anything about that, so there is nothing to forget.")
    if len(found) > 1:
        listed = [f"- {memory_id}: {text}" for memory_id, text in found]
        return _direct(
            "\n".join(["Which one? Say “forget” with its name:", *listed]),
        )
    [(memory_id, text)] = found
    return _direct(f"I forget: {text}", ops=[{"op": "delete", "memory_id": memory_id}])


def _journal(wish: JournalOp | LookAtJournal, heard: Heard) -> Move:
    if isinstance(wish, JournalOp):
        # The runtime does it or does not, and says so: there is nothing to add.
        return _direct("", journal=[wish.model_dump(mode="json", exclude_none=True)])
    args = {"show": wish.show, "day": wish.day, "category": wish.category}
    return _look(_JOURNAL, args, heard, otherwise="I have no journal of yours here.")


def _look(tool: str, args: Mapping[str, Any], heard: Heard, *, otherwise: str) -> Move:
    """Use the tool once; its answer is the answer."""
    if heard.answers:
        return _direct(heard.answers[-1].plain)
    return Call(tool, args) if tool in heard.tools else _direct(otherwise)


def _query(about: str) -> dict[str, Any]:
    if not about:
        return {"query": "this month", "strategy": "temporal", "max_results": _SHOWN}
    return {"query": about, "max_results": _SHOWN}


def _memories(answer: ToolAnswer) -> Sequence[tuple[str, str]]:
    return [(found["id"], found["text"]) for found in _FOUND.finditer(answer.text)]


def _direct(
    message: str,
    *,
    ops: Sequence[Mapping[str, Any]] = (),
    journal: Sequence[Mapping[str, Any]] = (),
) -> Answer:
    register = "status" if ops or journal else "exploration"
    decision = _decision("direct", "it can be answered at once", register)
    response = {"message": message, "memory_ops": list(ops), "journal_ops": list(journal)}
    return Answer({**decision, "response": response})


def _decision(route_to: str, reason: str, register: str) -> dict[str, Any]:
    """`context_profile` is filled in by whoever knows which there are."""
    return {
        "route": route_to,
        "reason": reason,
        "interaction_register": register,
        "interaction_mode": "act_and_report" if register == "execution" else "default_and_offer",
        "continuation_of": None,
        "response": None,
    }
