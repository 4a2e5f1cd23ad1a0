"""`/api/setup`: the first run, and the choice of a model later on.

1. Only the owner's session reads it, and only his device's signature changes anything.
2. What can be chosen: a model of a server that answers on this machine, a provider's, one at an
   address that the owner types, or none. Another server's key never goes to that address, and none
   goes over plain http to another machine.
3. A model is asked before it is chosen. Its key goes to the vault and is never said again.
"""

from typing import Annotated, Literal, Protocol

from fastapi import HTTPException
from pydantic import Field, SecretStr

from silas.kernel import SilasError
from silas.kernel.models import Data
from silas.memory.curation import MemoryCuration
from silas.web.access import page
from silas.web.command_routes import Routes
from silas.web.commands import Body, PageAccess

Name = Annotated[str, Field(min_length=1, max_length=200)]


class LocalModels(Data):
    """A model server that answers on this machine."""

    kind: str
    address: str
    models: tuple[str, ...]


class CloudProvider(Data):
    """A provider that needs a key."""

    provider: str
    label: str
    models: tuple[str, ...]
    """A few that do well; any other one can be typed."""
    has_key: bool
    """Whether there is a key already, in the vault or in the environment."""
    install: str = ""
    """The command that brings what the provider needs; empty if it is there."""


class SetupShown(Data):
    """How things stand."""

    finished: bool
    name: str
    model: str | None
    changeable: bool
    reason: str = ""
    """Why nothing can be changed from here."""
    cloud: list[CloudProvider]


class ChosenModel(Body):
    """What the owner wants: a local model, a provider's, one at an address, or none."""

    kind: Literal["local", "cloud", "address", "none"]
    server: Annotated[str, Field(min_length=1, max_length=500)] | None = None
    """The address of a local server, as it was offered, or as the owner typed it."""
    provider: Name | None = None
    model: Name | None = None
    """At an address of the owner's it may be left out: the server is asked what it has."""
    key: Annotated[SecretStr, Field(max_length=4000)] | None = None


class TriedModel(Data):
    """Whether the model answered; if not, then why, and nothing was changed."""

    ok: bool
    model: str | None = None
    milliseconds: int = 0
    message: str = ""
    facts: tuple[str, ...] = ()
    """What it can do, a sentence each."""
    warnings: tuple[str, ...] = ()
    """Roles that need more than it can do."""


class Finished(Body):
    """The end of the first run. A name is welcome, but not needed."""

    name: Annotated[str, Field(max_length=80)] = ""


class SetupService(Protocol):
    """What `silas.app` does for these pages."""

    async def shown(self) -> SetupShown:
        """How things stand."""
        ...

    async def local_models(self) -> list[LocalModels]:
        """Who answers on this machine."""
        ...

    async def choose(self, wanted: ChosenModel) -> TriedModel:
        """Ask the model, and if it answers, keep the choice; raises `SilasError`."""
        ...

    async def finish(self, name: str) -> None:
        """Never show the first run again."""
        ...


def setup_routes(setup: SetupService | None, memory: MemoryCuration) -> Routes:
    """The routes."""
    routes = Routes("/api/setup")

    @routes.get("")
    @page(PageAccess.SESSION)
    async def shown() -> SetupShown:
        return await _present(setup).shown()

    @routes.get("/local")
    @page(PageAccess.SESSION)
    async def local() -> list[LocalModels]:
        return await _present(setup).local_models()

    @routes.post("/model")
    @page(PageAccess.SIGNED)
    async def model(wanted: ChosenModel) -> TriedModel:
        try:
            return await _present(setup).choose(wanted)
        except SilasError as error:
            raise HTTPException(409, error.message) from error

    @routes.post("/finish")
    @page(PageAccess.SIGNED)
    async def finish(done: Finished) -> dict[str, bool]:
        name = done.name.strip()
        await _present(setup).finish(name)
        if name:
            await memory.note_name(name)
        return {"finished": True}

    return routes


def _present(setup: SetupService | None) -> SetupService:
    if setup is None:
        raise HTTPException(404, "Nothing can be set up from here.")
    return setup
