"""What a person can want from the offline brain."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from silas.journal.wishes import JournalOp


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
class ApplyPatch:
    """Apply a patch, and let a command say whether it was right."""

    patch: str
    check: str
    where: str | None = None


class Watched(StrEnum):
    """What can be watched."""

    ADDRESS = "address"
    COMMAND = "command"


@dataclass(frozen=True)
class Watch:
    """Look at something again and again; `schedule` is a cron expression."""

    what: Watched
    target: str
    schedule: str
    often: str
    """The schedule in the person's words."""


@dataclass(frozen=True)
class Remember:
    """Keep this in mind."""

    text: str


@dataclass(frozen=True)
class Recall:
    """Say what is known about this; empty means everything recent."""

    about: str


@dataclass(frozen=True)
class Forget:
    """Remove this from the memory: words, or the id of a memory."""

    about: str


@dataclass(frozen=True)
class LookAtJournal:
    """Say what a day is about, or which tasks are open."""

    show: Literal["day", "tasks"]
    day: str = "today"
    category: str | None = None


@dataclass(frozen=True)
class WhatDidYouDo:
    """Report from the audit log."""


@dataclass(frozen=True)
class Greeting:
    """A friendly word."""


@dataclass(frozen=True)
class Thanks:
    """A friendly word at the end."""


@dataclass(frozen=True)
class Help:
    """What can you do?"""


@dataclass(frozen=True)
class NotUnderstood:
    """Everything else. `near` is the name of the phrase that was probably meant."""

    near: str | None = None


Planned = RunCommand | MakeFile | AppendToFile | EditFile | ApplyPatch | Watch
"""What needs a plan, and so the owner's approval."""

Said = (
    Remember
    | Recall
    | Forget
    | JournalOp
    | LookAtJournal
    | WhatDidYouDo
    | Greeting
    | Thanks
    | Help
    | NotUnderstood
)
"""What is answered at once."""

Intent = Planned | Said
