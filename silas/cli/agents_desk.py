"""What commands about companions have at hand: the desk, wherever it is, and names to ids."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

from silas.app.companion_line import ask_companions
from silas.app.ground import Ground
from silas.cli.context import CliContext
from silas.cli.opening import with_ground
from silas.companions.errors import CompanionInvalid, CompanionUnknown

T = TypeVar("T")
_LEAST = 3


@dataclass(frozen=True)
class Desk:
    """The owner's desk: of the running server, or of the files."""

    ground: Ground

    @property
    def zone(self) -> ZoneInfo:
        """Of the owner's clock."""
        return ZoneInfo(self.ground.settings.scheduler.timezone)

    async def ask(self, call: str, /, **arguments: Any) -> Any:
        """The answer of one of its methods, as JSON."""
        return await ask_companions(self.ground, call, arguments)

    async def find(self, text: str, *, destroyed: bool = False) -> dict[str, Any]:
        """The one companion that is meant; raises if there is none or several."""
        known = await self.ask("list", with_destroyed=destroyed)
        found = _meant(text, known)
        if len(found) > 1:
            names = ", ".join(f"{each['display_name']} ({each['id']})" for each in found)
            raise CompanionInvalid(f"Several are called like that: {names}. Nothing was done.")
        if not found:
            raise CompanionUnknown(
                f"There is no companion {text!r}. Run `silas agents list` to see those that there "
                "are."
            )
        return found[0]


def _meant(text: str, known: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """By id, by name, by the beginning of a name, by the end of an id: the first way that finds."""
    small = text.casefold()
    ways: tuple[Callable[[dict[str, Any]], bool], ...] = (
        lambda each: each["id"] == text,
        lambda each: each["display_name"].casefold() == small or each["kind"] == text,
        lambda each: each["display_name"].casefold().startswith(small),
        lambda each: len(text) >= _LEAST and each["id"].endswith(text),
    )
    for way in ways:
        if found := [each for each in known if way(each)]:
            return found
    return []


def with_desk(cli: CliContext, work: Callable[[Desk], Awaitable[T]]) -> T:
    """Open what is needed, do the work, close it."""

    async def inside(ground: Ground) -> T:
        return await work(Desk(ground))

    return with_ground(cli, inside)
