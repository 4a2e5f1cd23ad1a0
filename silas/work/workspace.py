"""The directory that a plan works on, and what of it the owner's approval covers.

A plan names the directory and the files; `binding.py` fills in what they are at that moment, before
anything is shown and signed. What was filled in is part of the plan hash, so that a later change is
either a different plan or a difference that the door of execution notices.
"""

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from silas.kernel.field_problems import text_like
from silas.kernel.models import Data

EDITABLE = "editable"
"""Says of a file that the plan may change it although the plan names it as a program."""


def _names_to_pins(value: Any) -> Any:
    """A list of names is the short form: their hashes are filled in before approval."""
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        return dict.fromkeys(value)
    return value


RelativePath = Annotated[
    str,
    Field(max_length=1024),
    text_like(
        r"(?!\.{0,2}(?:/|$))[^\x00-\x1f\x7f/]+(?:/(?!\.{0,2}(?:/|$))[^\x00-\x1f\x7f/]+)*",
        "must be a path below the workspace, without `.`, `..` or empty parts",
    ),
]
Pin = Annotated[str, text_like(rf"[0-9a-f]{{64}}|{EDITABLE}", f"must be a SHA-256 or `{EDITABLE}`")]
EnvironmentName = Annotated[
    str, text_like(r"[A-Za-z_][A-Za-z0-9_]{0,127}", "must be the name of an environment variable")
]
EnvironmentValue = Annotated[str, Field(max_length=8192), text_like(r"[^\x00]*", "must be text")]
Identity = Annotated[
    str, text_like(r"\d{1,20}:\d{1,20}", "is filled in by Silas: device and inode of the directory")
]


class Workspace(Data):
    """Where the commands of a plan run, and with what around them.

    Without a path, every attempt gets an empty directory of its own.
    """

    path: Annotated[str, Field(min_length=1, max_length=4096)] | None = None
    identity: Identity | None = None
    files: Annotated[dict[RelativePath, Pin | None], BeforeValidator(_names_to_pins)] = Field(
        default_factory=dict
    )
    env: dict[EnvironmentName, EnvironmentValue] = Field(default_factory=dict)
    network: bool = False

    @property
    def pinned(self) -> dict[str, str]:
        """The files that must be what they were, and their hashes."""
        return {
            name: pin for name, pin in self.files.items() if pin is not None and pin != EDITABLE
        }
