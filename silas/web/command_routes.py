"""Commands as routes: one `POST` each, with a body that is read strictly."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import BeforeValidator

from silas.kernel import SilasError
from silas.web.access import page
from silas.web.commands import ApiCommand, Body, read_strictly


def command_routes(
    prefix: str, commands: Iterable[ApiCommand], target: Callable[[], object]
) -> APIRouter:
    """A route for each command, done with whatever `target` returns by then."""
    router = APIRouter(prefix=prefix)
    for each in commands:
        add_command(router, each, each.arguments, _runner(each, target))
    return router


def add_command(
    router: APIRouter, command: ApiCommand, body: type[Body], run: Callable[[Any], Awaitable[Any]]
) -> None:
    """The route of one command, for those whom the command admits."""

    async def do(body: Any) -> Any:
        return await run(body)

    do.__annotations__ = {"body": _strictly(body, command.refusal), "return": command.answers}
    do.__name__, do.__doc__ = command.name, command.function.__doc__
    router.post(f"/{command.name}")(page(command.page)(do))


def _runner(command: ApiCommand, target: Callable[[], object]) -> Callable[[Body], Awaitable[Any]]:
    async def run(arguments: Body) -> Any:
        return await command.run(target(), arguments)

    return run


def _strictly(model: type[Body], refusal: type[SilasError]) -> Any:
    """The annotation of a body that is read strictly."""
    return Annotated[model, BeforeValidator(lambda value: read_strictly(model, value, refusal))]
