"""What a person can want from the offline brain."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

from silas.journal.conversation import JournalOp


@dataclass(frozen=True)
class RunCommand:
    """Run a command; `expected` is what it must print, `check` a command that must succeed."""

    command: str
    where: str | None = None
    expected: str | None = None
    check: str | None = None


@dataclass(frozen=True)
class MakeFile:
    """Write a file."""

    path: str
    content: str


@dataclass(frozen=True)
class AppendToFile:
    """Add lines at the end of a file."""

    path: str
    content: str


@dataclass(frozen=True)
class EditFile:
    """Replace a passage of a file."""

    path: str
    old: str
    new: str


@dataclass(frozen=True)
class SaveAttachment:
    """Write the attached file, byte by byte; `name` says which one, if there are several."""

    path: str
    name: str | None = None
    sha256: str = ""
    """Which one it is, once that is known."""


@dataclass(frozen=True)
class ApplyPatch:
    """Apply a patch, and let a command say whether it was right."""

    patch: str
    check: str
    where: str | None = None


class WatchedKind(StrEnum):
    """What can be watched."""

    ADDRESS = "address"
    COMMAND = "command"


@dataclass(frozen=True)
class Watch:
    """Look at something again and again; `schedule` is a cron expression."""

    what: WatchedKind
    target: str
    schedule: str
    often: str
    """The schedule in the person's words."""


@dataclass(frozen=True)
class ListWatches:
    """Say what is watched."""


@dataclass(frozen=True)
class StopWatching:
    """Watch something no more: words of its title, or its id; empty if there is only one."""

    about: str
    everything: bool = False


@dataclass(frozen=True)
class StopWork:
    """Stop what is being done right now."""


@dataclass(frozen=True)
class UndoLast:
    """Take back what was done last."""


@dataclass(frozen=True)
class WhoAmI:
    """Say the person's name."""


@dataclass(frozen=True)
class Remember:
    """Keep this in mind."""

    text: str


@dataclass(frozen=True)
class RecallIntent:
    """Say what is known about this; empty means everything recent."""

    about: str


@dataclass(frozen=True)
class Forget:
    """Remove this from the memory: words, or the id of a memory."""

    about: str


@dataclass(frozen=True)
class LookAtJournal:
    """Say what a day is about, which tasks are open, or what the owner will be reminded of."""

    show: Literal["day", "tasks", "reminders"]
    day: str = "today"
    category: str | None = None


@dataclass(frozen=True)
class AddTasks:
    """Write several tasks down."""

    tasks: tuple[JournalOp, ...]


@dataclass(frozen=True)
class LookAtFiles:
    """List a folder, show or explain a file, or find a text in what a path names."""

    how: Literal["list", "show", "explain", "find"]
    path: str
    text: str = ""


@dataclass(frozen=True)
class LookAtAccount:
    """Look into an account, with this tool."""

    tool: str
    args: Mapping[str, Any]


@dataclass(frozen=True)
class ConnectAccount:
    """Say how an account of this kind is connected."""

    kind: str


@dataclass(frozen=True)
class AnswerMail:
    """Send this text as an answer to the newest mail of somebody, or to the one shown last."""

    text: str
    who: str | None = None


@dataclass(frozen=True)
class MoveEvent:
    """Move the event with these words in its title; `to` is a time in words."""

    what: str
    to: str


AccountChange = AnswerMail | MoveEvent
"""What needs something looked up in an account, and then a plan."""


@dataclass(frozen=True)
class WhatDidYouDo:
    """Report from the audit log."""


@dataclass(frozen=True)
class Greeting:
    """A friendly word."""


@dataclass(frozen=True)
class Remark:
    """Feedback about how Silas speaks: what is wanted instead."""

    wanted: str


@dataclass(frozen=True)
class Thanks:
    """A friendly word at the end."""


@dataclass(frozen=True)
class Help:
    """What can you do?"""


@dataclass(frozen=True)
class NotUnderstood:
    """Everything else."""

    near: str | None = None
    """The name of the phrase that was probably meant."""
    lacks: str = ""
    """What is missing, in a sentence."""
    instead: tuple[str, ...] = ()
    """What to say for the nearest things that it can do."""


Planned = RunCommand | MakeFile | AppendToFile | EditFile | SaveAttachment | ApplyPatch | Watch
"""What needs a plan, and so the owner's approval."""

Said = (
    ListWatches
    | StopWatching
    | StopWork
    | UndoLast
    | Remember
    | RecallIntent
    | Forget
    | JournalOp
    | AddTasks
    | LookAtJournal
    | LookAtFiles
    | LookAtAccount
    | ConnectAccount
    | WhatDidYouDo
    | WhoAmI
    | Greeting
    | Remark
    | Thanks
    | Help
    | NotUnderstood
)
"""What is answered at once."""

Intent = Planned | AccountChange | Said
