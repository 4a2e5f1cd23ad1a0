"""The kinds that there are: those that come with Silas, and the owner's own files."""

from functools import cache
from importlib.resources import files
from pathlib import Path

from silas.companions.errors import CompanionInvalid
from silas.companions.kinds.definition import CompanionDefinition
from silas.companions.kinds.loading import known_kinds, load_definition, parse_definition
from silas.work.plan_keys import meant_instead

BUILT_IN = ("planner", "gym_coach", "strategist")


@cache
def built_in(kind: str) -> CompanionDefinition:
    """A kind that comes with Silas."""
    text = (files("silas.companions.kinds") / kind / "companion.yaml").read_text("utf-8")
    return parse_definition(text, name=f"{kind}/companion.yaml")


class KindLibrary:
    """Kinds by name. A file of the owner's cannot take the place of one that comes with Silas."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder

    def names(self) -> tuple[str, ...]:
        """What can be made, whether or not it is in order."""
        own = (name for name in known_kinds(self._folder) if name not in BUILT_IN)
        return (*BUILT_IN, *own)

    def get(self, kind: str) -> CompanionDefinition:
        """The kind of this name; raises `CompanionInvalid` with what is wrong or close to it."""
        if kind in BUILT_IN:
            return built_in(kind)
        path = known_kinds(self._folder).get(kind)
        if path is None:
            hint = meant_instead(kind, list(self.names()))
            raise CompanionInvalid(f"There is no kind of companion `{kind[:60]}`{hint or '.'}")
        return self.read(path)

    def read(self, path: Path) -> CompanionDefinition:
        """The kind in a file; raises `CompanionInvalid`."""
        definition = load_definition(path)
        if definition.kind in BUILT_IN:
            raise CompanionInvalid(
                f"`{definition.kind}` comes with Silas. Give your own kind another name."
            )
        return definition
