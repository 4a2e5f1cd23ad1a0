"""How whoever reads Silas's words can type its commands.

Silas names its commands as `silas …`. Where typing `silas` would not start this very installation,
what is printed names the path of its program instead, so that it can be typed as it stands there.
"""

import re
import shlex
import shutil
import sys
from functools import cache
from pathlib import Path

NAME = "silas"
_COMMAND = re.compile(rf"`{NAME}(?= [a-z-])")
_PLAIN = re.compile(r"[\w./-]+")


def own_program() -> Path:
    """The program `silas` of this installation."""
    return Path(sys.executable).parent / NAME


def is_on_path() -> bool:
    """Whether whoever types `silas` gets this installation's program."""
    found = shutil.which(NAME)
    return found is not None and Path(found).resolve() == own_program().resolve()


@cache
def program() -> str:
    """What to type for `silas`. A process that was not started by that program keeps the name."""
    # However a script is typed, it is started by its path.
    own, started = own_program(), sys.argv[0]
    by_program = started.endswith(f"/{NAME}") and own.exists()
    if not by_program or is_on_path():
        return NAME
    home = Path.home()
    if own.is_relative_to(home) and _PLAIN.fullmatch(str(own.relative_to(home))):
        return f"~/{own.relative_to(home)}"
    return shlex.quote(str(own))


def as_typed(text: str) -> str:
    """The text with its commands as they can be typed."""
    name = program()
    return text if name == NAME else _COMMAND.sub(lambda _found: f"`{name}", text)
