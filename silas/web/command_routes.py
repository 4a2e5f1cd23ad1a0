"""Routes that an application is given, and commands as routes: one `POST` each, read strictly."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from fastapi import FastAPI
from fastapi.params import Depends
from pydantic import BeforeValidator
from starlette.types import Receive, Scope, Send

from silas.kernel import SilasError
from silas.web.access import Endpoint, page
from silas.web.commands import ApiCommand, Body, read_strictly

Responses = dict[int | str, dict[str, Any]]


@dataclass(frozen=True)
class DeclaredRoute:
    """One route, before an application has it."""

    methods: tuple[str, ...]
    path: str
    endpoint: Callable[..., Any]
    options: dict[str, Any]
    dependencies: tuple[Depends, ...] = ()


class Routes:
    """Routes below one path, declared here and made once, when an application is given them.

    FastAPI's own router makes a route when it is declared and makes it again for the application.
    There are two hundred, and to make one takes milliseconds.
    """

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix
        self.declared: list[DeclaredRoute] = []

    def get(self, path: str, **options: Any) -> Callable[[Endpoint], Endpoint]:
        return self.route("GET", path=path, **options)

    def post(self, path: str, **options: Any) -> Callable[[Endpoint], Endpoint]:
        return self.route("POST", path=path, **options)

    def route(self, *methods: str, path: str, **options: Any) -> Callable[[Endpoint], Endpoint]:
        def declare(endpoint: Endpoint) -> Endpoint:
            self.declared.append(DeclaredRoute(methods, self._prefix + path, endpoint, options))
            return endpoint

        return declare

    def include(self, others: "Routes", *, dependencies: Sequence[Depends] = ()) -> None:
        """Take over all routes of another, each with these dependencies before its own."""
        self.declared += [
            replace(
                each,
                path=self._prefix + each.path,
                dependencies=(*dependencies, *each.dependencies),
            )
            for each in others.declared
        ]

    def add_to(
        self,
        app: FastAPI,
        *,
        dependencies: Sequence[Depends] = (),
        responses: Responses | None = None,
    ) -> None:
        """Give the application every route, with these dependencies first."""
        for each in self.declared:
            app.add_api_route(
                each.path,
                each.endpoint,
                methods=list(each.methods),
                dependencies=[*dependencies, *each.dependencies],
                responses=responses,
                **each.options,
            )

    def by_place(self) -> dict[str, "Routes"]:
        """The same routes, apart: those below `/api/journal`, those below `/visit`, …"""
        places: dict[str, Routes] = {}
        for each in self.declared:
            places.setdefault(_place_of(each.path), Routes()).declared.append(each)
        return places


class RoutesOnDemand:
    """An application whose routes are made when somebody asks for the place that they are below.

    To make all of them would be a third of the time that Silas takes to start, and most processes
    are asked for a few.
    """

    def __init__(self, app: FastAPI, routes: Routes, *, dependencies: Sequence[Depends]) -> None:
        self._app = app
        self._waiting = routes.by_place()
        self._dependencies = dependencies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        waiting = self._waiting.pop(_place_of(scope.get("path", "")), None)
        if waiting is not None:
            waiting.add_to(self._app, dependencies=self._dependencies)
        await self._app(scope, receive, send)


def _place_of(path: str) -> str:
    """The first part of a path, or the first two of one below `/api`: no place is in another."""
    parts = path.split("/", 3)
    return "/".join(parts[:3] if parts[1:2] == ["api"] else parts[:2])


def command_routes(
    prefix: str, commands: Iterable[ApiCommand], target: Callable[[], object]
) -> Routes:
    """A route for each command, done with whatever `target` returns by then."""
    routes = Routes(prefix)
    for each in commands:
        add_command(routes, each, each.arguments, _runner(each, target))
    return routes


def add_command(
    routes: Routes, command: ApiCommand, body: type[Body], run: Callable[[Any], Awaitable[Any]]
) -> None:
    """The route of one command, for those whom the command admits."""

    async def do(body: Any) -> Any:
        return await run(body)

    do.__annotations__ = {"body": _strictly(body, command.refusal), "return": command.answers}
    do.__name__, do.__doc__ = command.name, command.function.__doc__
    routes.post(f"/{command.name}")(page(command.page)(do))


def _runner(command: ApiCommand, target: Callable[[], object]) -> Callable[[Body], Awaitable[Any]]:
    async def run(arguments: Body) -> Any:
        return await command.run(target(), arguments)

    return run


def _strictly(model: type[Body], refusal: type[SilasError]) -> Any:
    """The annotation of a body that is read strictly."""
    return Annotated[model, BeforeValidator(lambda value: read_strictly(model, value, refusal))]
