"""How other commands of the owner's talk to the companions of a running server.

One method of the control socket, `companions`, with the name of a method of the desk and its
arguments as JSON. The names and arguments are those of `silas.companions.desk.CompanionDesk`.
Without a server, `open_desk` works on the files; wakes then wait on the bus until Silas starts.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_jsonable_python

from silas.app.companions import make_companions, open_companion_store
from silas.app.ground import Ground
from silas.app.instance import NotRunning, ServerRefused, call_server
from silas.app.journal import open_journal
from silas.app.stream import open_queue
from silas.companions.desk import CompanionDesk
from silas.companions.models import BudgetLimits, ReportScope, StopScope
from silas.companions.schedules import TimerWish
from silas.gates.risk import RiskLevel
from silas.kernel import CompanionError, ServerError, SilasError
from silas.kernel.field_problems import dotted, problems_in

METHOD = "companions"
_AT_ONCE = 200
"""A line may take a few thousand bytes, and an answer a megabyte."""

_TYPED: Mapping[str, TypeAdapter[Any]] = MappingProxyType(
    {
        "scope": TypeAdapter(StopScope | ReportScope | None),
        "budget": TypeAdapter(BudgetLimits | None),
        "confirm_from": TypeAdapter(RiskLevel | None),
        "file": TypeAdapter(Path | None),
        "timers": TypeAdapter(tuple[TimerWish, ...]),
    }
)
"""Arguments that are more than JSON."""

_CALLS = frozenset(
    {
        "list", "meant", "listed", "show", "kinds", "models", "runs", "report", "why", "trace",
        "replay", "new", "configure", "disclosure", "consent", "revoke_consent", "wake", "pause",
        "resume", "cancel", "destroy", "stop", "release", "resume_all", "switches", "questions",
        "answer", "waiting", "persona", "propose_persona", "approve_persona", "decline_persona",
        "describe_provider", "timers", "set_timers",
    }
)  # fmt: skip
"""What may be called from outside; `decided` and `recover` are the house's own."""


class CompanionLine:
    """Answers for the companions of one house."""

    def __init__(self) -> None:
        self._desk: CompanionDesk | None = None

    @contextlib.contextmanager
    def connected(self, desk: CompanionDesk) -> Iterator[None]:
        """Answer with this desk, for as long as it is open."""
        self._desk = desk
        try:
            yield
        finally:
            self._desk = None

    async def answer(self, params: dict[str, Any]) -> Any:
        """Control: do something with companions in the owner's name."""
        if self._desk is None:
            raise ServerError("Silas is just starting or stopping. Try again in a moment.")
        call, arguments = params.get("call"), params.get("arguments")
        if not isinstance(call, str) or not isinstance(arguments, dict):
            raise ServerError("Name the call and its arguments.")
        return await call_desk(self._desk, call, arguments)


async def call_desk(desk: CompanionDesk, call: str, arguments: Mapping[str, Any]) -> Any:
    """The answer of a method of the desk, as JSON; raises `CompanionError` for what is not one."""
    if call not in _CALLS:
        raise CompanionError(f"Companions know no {call[:60]!a}. Known are: {', '.join(_CALLS)}.")
    method: Callable[..., Any] = getattr(desk, call)
    try:
        answer = method(**_typed(arguments))
    except TypeError as error:
        raise CompanionError(f"{call} cannot be called like this: {error}.") from error
    if isinstance(answer, Awaitable):
        answer = await answer
    return to_jsonable_python(answer)


async def ask_companions(ground: Ground, call: str, arguments: Mapping[str, Any]) -> Any:
    """The same, answered by the running server, or on the files if there is none."""
    try:
        return await _ask_server(ground, call, arguments)
    except NotRunning:
        async with open_desk(ground) as desk:
            return await call_desk(desk, call, arguments)


async def list_companions(ground: Ground, *, with_destroyed: bool) -> list[dict[str, Any]]:
    """The whole list; what the control socket cannot carry at once comes in pieces."""
    whole: dict[str, Any] = {"with_destroyed": with_destroyed}
    found: list[dict[str, Any]] = []
    try:
        while True:
            piece = {**whole, "skip": len(found), "limit": _AT_ONCE}
            some = await _ask_server(ground, "list", piece)
            found += some
            if len(some) < _AT_ONCE:
                return found
    except NotRunning:
        async with open_desk(ground) as desk:
            return list(await call_desk(desk, "list", whole))


async def _ask_server(ground: Ground, call: str, arguments: Mapping[str, Any]) -> Any:
    params = {"call": call, "arguments": to_jsonable_python(dict(arguments))}
    try:
        return await asyncio.to_thread(call_server, ground.paths, METHOD, params)
    except ServerRefused as refused:
        raise _as_it_was(refused) from refused


@contextlib.asynccontextmanager
async def open_desk(ground: Ground) -> AsyncIterator[CompanionDesk]:
    """The desk without a server: nothing runs, and what is woken waits on the bus."""
    async with (
        open_journal(ground) as journal,
        open_companion_store(
            ground.paths, clock=ground.clock, ids=ground.ids, host_id=journal.host_id
        ) as store,
    ):
        room = make_companions(ground, journal, store, queue=open_queue(ground))
        yield room.desk


def _as_it_was(refused: ServerRefused) -> SilasError:
    """The companions' own error, so that its code and exit code are the same either way."""
    answer = refused.details.get("answer", {})
    every: list[type[CompanionError]] = [CompanionError, *CompanionError.__subclasses__()]
    kind = {each.code: each for each in every}.get(answer.get("code"))
    if kind is None:
        return refused
    return kind(
        answer.get("message"),
        correlation_id=answer.get("correlation_id"),
        **answer.get("details", {}),
    )


def _typed(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _read(name, value) for name, value in arguments.items()}


def _read(name: str, value: Any) -> Any:
    if name not in _TYPED:
        return value
    try:
        return _TYPED[name].validate_python(value)
    except ValidationError as error:
        told = "; ".join(f"{dotted((name, *path))} {text}" for path, text in problems_in(error))
        raise CompanionError(f"These arguments cannot be read: {told}.") from error
