"""The model of the first hour: it says what a task's script says, role by role.

A `Script` has a list of turns for each role of Silas that asks a model; each request of a role
takes the next turn, and the last one is repeated. A turn is a text (sent as it is, so broken JSON
is easy to write), a `Call` of a tool, or a function of the request that returns one of them: a
model that can only know something if Silas has told it.

The helpers below write the answers that a model would write: `direct`, `PLAN_IT`, `plan` for the
front door and the planner; `write`, `edit`, `read`, `run`, `done` for the worker. They make
ordinary mistakes just as easily: leave out a key, name a tool that does not exist, forget the
workspace.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from silas.testing.model_server import (
    Reply,
    Request,
    answer,
    streamed,
    streamed_tool_call,
    tool_call,
)

ROLES: Mapping[str, str] = {
    "proxy": "You are the front door",
    "planner": "You write plans",
    "executor": "You do the work of one approved briefing",
    "research": "You look something up for a planner",
    "advice": "You wrote a plan, and the worker",
}
"""How the system prompt of each role begins; whoever else asks is the scorer, a gate or a probe."""


@dataclass(frozen=True)
class Call:
    """A call of a tool; arguments given as text are sent as they are."""

    tool: str
    arguments: Mapping[str, Any] | str


Turn = str | Call | Callable[["Heard"], "str | Call"]


@dataclass(frozen=True)
class Heard:
    """What one request has told the model."""

    system: str
    text: str
    """Everything else that it was told: the request, the conversation, results of tools."""
    tools: tuple[str, ...]

    @classmethod
    def of(cls, request: Request) -> "Heard":
        """Read from the request itself, as a model does."""
        body = request.json
        system: list[str] = []
        rest: list[str] = []
        for message in body["messages"]:
            kind = system if message["role"] in ("system", "developer") else rest
            kind.append(_text(message.get("content")))
            kind += [str(call["function"]["arguments"]) for call in message.get("tool_calls") or ()]
        tools = tuple(each["function"]["name"] for each in body.get("tools") or ())
        return cls("\n".join(system), "\n".join(rest), tools)

    @property
    def role(self) -> str:
        """Who asks."""
        found = [role for role, begins in ROLES.items() if begins in self.system]
        return found[0] if found else "other"


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content)
    return str(content or "")


@dataclass(frozen=True)
class Script:
    """What the model says, by role, in order; the last turn of each is repeated."""

    proxy: Sequence[Turn] = ()
    planner: Sequence[Turn] = ()
    executor: Sequence[Turn] = ()
    research: Sequence[Turn] = ('{"ok": false, "text": "I found nothing.", "sources": []}',)
    advice: Sequence[Turn] = ('{"text": "Read what the check says, and begin again."}',)
    other: Sequence[Turn] = ("{}",)


@dataclass
class ScriptedModel:
    """Plays a script; `heard` is what it was asked, for whoever looks why a task fails.

    `HOME` in what it says stands for the owner's home directory.
    """

    script: Script
    home: Path
    heard: list[Heard] = field(default_factory=list)
    _next: dict[str, int] = field(default_factory=dict)

    def __call__(self, request: Request) -> Reply:
        """The next turn of the role that asks."""
        heard = Heard.of(request)
        self.heard.append(heard)
        turns: Sequence[Turn] = getattr(self.script, heard.role) or (direct("I do not know."),)
        number = self._next.get(heard.role, 0)
        self._next[heard.role] = number + 1
        turn = turns[min(number, len(turns) - 1)]
        said = turn(heard) if callable(turn) else turn
        return _reply(self._placed(said), stream=request.wants_stream)

    def _placed(self, turn: str | Call) -> str | Call:
        if isinstance(turn, str):
            return turn.replace("HOME", str(self.home))
        return Call(turn.tool, _arguments(turn).replace("HOME", str(self.home)))


def _arguments(turn: Call) -> str:
    return turn.arguments if isinstance(turn.arguments, str) else json.dumps(turn.arguments)


def _reply(turn: str | Call, *, stream: bool) -> Reply:
    if isinstance(turn, str):
        return streamed(turn) if stream else answer(turn)
    if stream:
        return streamed_tool_call(turn.tool, _arguments(turn))
    return tool_call(turn.tool, turn.arguments)


def route(way: str, message: str = "", **response: Any) -> str:
    """A decision of the front door; `response` may hold `memory_ops` and `journal_ops`."""
    return json.dumps(
        {
            "reason": "what was asked",
            "route": way,
            "interaction_register": "execution" if way == "planner" else "exploration",
            "interaction_mode": "act_and_report" if way == "planner" else "default_and_offer",
            "context_profile": "conversation",
            "continuation_of": None,
            "response": {"message": message, **response},
        }
    )


def direct(message: str, **response: Any) -> str:
    """The front door answers by itself."""
    return route("direct", message, **response)


PLAN_IT = route("planner")
"""The front door wants a plan."""


def check(name: str, run: str, **expect: Any) -> dict[str, Any]:
    """A check of a plan: `check("the note is there", "cat notes.txt", contains="milk")`."""
    return {"name": name, "run": run, "expect": expect or {"exit_code": 0}}


def plan_text(title: str, todo: str, **keys: Any) -> str:
    """The markdown of a plan; YAML reads JSON, so the front matter is JSON, key by key."""
    front = {"type": "task", "title": title, **keys}
    lines = [f"{key}: {json.dumps(value)}" for key, value in front.items() if value is not None]
    return "\n".join(["---", *lines, "---", "", "# What to do", todo, ""])


def plan(
    title: str,
    todo: str,
    *,
    message: str = "This is the plan.",
    action: str = "propose",
    add: Sequence[str] = (),
    change: Sequence[str] = (),
    remove: Sequence[str] = (),
    place: str | None = None,
    verify: Sequence[Mapping[str, Any]] = (),
    **keys: Any,
) -> str:
    """An answer of the planner. Without `place` it forgets the workspace's path, as models do."""
    changes = {"add": list(add), "change": list(change), "remove": list(remove)}
    changes = {kind: paths for kind, paths in changes.items() if paths}
    workspace = {**({"path": place} if place else {}), **({"changes": changes} if changes else {})}
    if workspace:
        keys["workspace"] = workspace
    if verify:
        keys["verify"] = list(verify)
    text = plan_text(title, todo, **keys)
    return json.dumps(
        {"plan_action": {"action": action, "plan_markdown": text}, "message": message}
    )


def no_plan(message: str) -> str:
    """The planner asks, or says that it cannot."""
    empty = {"action": "propose", "plan_markdown": ""}
    return json.dumps({"plan_action": empty, "message": message})


def write(path: str, content: str) -> Call:
    """The worker writes a file."""
    return Call("write_file", {"path": path, "content": content})


def edit(path: str, old: str, new: str) -> Call:
    """The worker replaces a passage."""
    return Call("edit_file", {"path": path, "old": old, "new": new})


def read(path: str) -> Call:
    """The worker reads a file."""
    return Call("read_file", {"path": path})


def run(*argv: str) -> Call:
    """The worker runs a program."""
    return Call("shell_exec", {"argv": list(argv)})


def done(summary: str, *next_steps: str) -> str:
    """The worker's last word."""
    return json.dumps({"summary": summary, "artifact_refs": [], "next_steps": list(next_steps)})
