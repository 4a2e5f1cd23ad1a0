"""`/api/setup`: the first run, and the choice of a model later on.

1. Only the owner's session reads it, and only his device's signature changes anything.
2. What can be chosen is what Silas itself offers: a model of a server that answers on this
   machine, a provider of its list, or none. No address comes from the page.
3. A model is asked before it is chosen. Its key goes to the vault and is never said again.
"""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal, Protocol

from fastapi import APIRouter, Depends, HTTPException
from pydantic import Field, SecretStr

from silas.kernel import SilasError
from silas.kernel.models import Data
from silas.web.bodies import Body

Name = Annotated[str, Field(min_length=1, max_length=200)]
Guard = Callable[..., Awaitable[Any]]


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
    """What the owner wants: a local model, a provider's, or none."""

    kind: Literal["local", "cloud", "none"]
    server: Name | None = None
    """The address of a local server, as it was offered."""
    provider: Name | None = None
    model: Name | None = None
    key: Annotated[SecretStr, Field(max_length=4000)] | None = None


class TriedModel(Data):
    """Whether the model answered; if not, then why, and nothing was changed."""

    ok: bool
    model: str | None = None
    milliseconds: int = 0
    message: str = ""


class Finished(Body):
    """The end of the first run. A name is welcome, but not needed."""

    name: Annotated[str, Field(max_length=80)] = ""


class SetupDesk(Protocol):
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


def setup_routes(desk: SetupDesk | None, *, reader: Guard, signer: Guard) -> APIRouter:
    """The routes; whoever passes the guards is the owner (rule 1)."""
    router = APIRouter(prefix="/api/setup")

    @router.get("", dependencies=[Depends(reader)])
    async def shown() -> SetupShown:
        return await _desk(desk).shown()

    @router.get("/local", dependencies=[Depends(reader)])
    async def local() -> list[LocalModels]:
        return await _desk(desk).local_models()

    @router.post("/model", dependencies=[Depends(signer)])
    async def model(wanted: ChosenModel) -> TriedModel:
        try:
            return await _desk(desk).choose(wanted)
        except SilasError as error:
            raise HTTPException(409, error.message) from error

    @router.post("/finish", dependencies=[Depends(signer)])
    async def finish(done: Finished) -> dict[str, bool]:
        await _desk(desk).finish(done.name.strip())
        return {"finished": True}

    return router


def _desk(desk: SetupDesk | None) -> SetupDesk:
    if desk is None:
        raise HTTPException(404, "Nothing can be set up from here.")
    return desk
