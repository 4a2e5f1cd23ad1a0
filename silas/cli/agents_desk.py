"""What commands about companions have at hand: the desk, wherever it is, and names to ids."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

from silas.app.companion_line import ask_companions, list_companions
from silas.app.ground import Ground
from silas.cli.context import CliContext
from silas.cli.opening import with_ground
from silas.companions.errors import CompanionInvalid, CompanionUnknown

T = TypeVar("T")


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

    async def everybody(self, *, destroyed: bool) -> list[dict[str, Any]]:
        """Every companion, in lines."""
        return await list_companions(self.ground, with_destroyed=destroyed)

    async def find(self, text: str, *, destroyed: bool = False) -> dict[str, Any]:
        """The one companion that is meant; raises if there is none or several."""
        found: list[dict[str, Any]] = await self.ask("meant", text=text, with_destroyed=destroyed)
        if len(found) > 1:
            names = ", ".join(f"{each['display_name']} ({each['id']})" for each in found)
            raise CompanionInvalid(f"Several are called like that: {names}. Nothing was done.")
        if not found:
            raise CompanionUnknown(
                f"There is no companion {text!r}. Run `silas agents list` to see those that there "
                "are."
            )
        return found[0]


def with_desk(cli: CliContext, work: Callable[[Desk], Awaitable[T]]) -> T:
    """Open what is needed, do the work, close it."""

    async def inside(ground: Ground) -> T:
        return await work(Desk(ground))

    return with_ground(cli, inside)
