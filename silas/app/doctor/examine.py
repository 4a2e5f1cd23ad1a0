"""All checks, in the order in which a person would ask."""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

from silas.app.doctor import installation, machine, minds
from silas.app.doctor.containment import sandbox
from silas.app.doctor.findings import Finding, problem
from silas.app.errors import NotInitialised
from silas.app.ground import Ground, open_ground
from silas.app.instance import holder_of
from silas.app.settings import LoadedSettings
from silas.kernel import SilasError, SystemClock, parse_timestamp
from silas.secrets import Prompt

Check = Callable[[], Finding | Awaitable[Finding]]


async def examine(
    loaded: LoadedSettings, *, environ: Mapping[str, str], prompt: Prompt | None = None
) -> AsyncIterator[Finding]:
    """One finding after the other; a check that fails is a finding too."""
    settings, data_dir = loaded.settings, loaded.paths.data_dir
    yield machine.python()
    yield machine.sqlite()
    yield installation.configuration(loaded)
    yield machine.disk(data_dir)
    yield await _made("keyring", installation.keyring)
    async for finding in _installed(loaded, environ, prompt):
        yield finding
    yield await _made("sandbox", lambda: sandbox(settings))
    web, running = settings.channels.web, holder_of(loaded.paths.lock) is not None
    yield machine.port(web.host, web.port, running=running)
    yield minds.model(settings, environ)


async def _installed(
    loaded: LoadedSettings, environ: Mapping[str, str], prompt: Prompt | None
) -> AsyncIterator[Finding]:
    """The checks that need a data directory; without one, there is one finding that says so."""
    if not loaded.paths.database.exists():
        yield installation.failed("data directory", NotInitialised())
        return
    yield machine.permissions(loaded.paths.data_dir)
    try:
        async with open_ground(loaded, environ=environ, prompt=prompt) as ground:
            checks: dict[str, Check] = {
                "database": lambda: installation.database(ground),
                "journal": lambda: installation.journal(ground),
                "companions": lambda: installation.companions(ground),
                "vault": lambda: installation.vault(ground, environ),
                "owner key": lambda: installation.owner_key(ground),
                "audit": lambda: installation.audit(ground),
                "clock": lambda: _clock(ground),
            }
            for topic, check in checks.items():
                yield await _made(topic, check)
    except SilasError as error:
        yield installation.failed("data directory", error)


async def _clock(ground: Ground) -> Finding:
    newest = await ground.audit.tail(1)
    moment = parse_timestamp(newest[-1].at) if newest else None
    zone = ground.settings.scheduler.timezone
    return machine.clock_is_sane(SystemClock(), moment, zone=zone)


async def _made(topic: str, check: Check) -> Finding:
    try:
        finding = check()
        return await finding if inspect.isawaitable(finding) else finding
    except SilasError as error:
        return installation.failed(topic, error)
    except OSError as error:
        return problem(topic, f"This could not be looked at: {error}.", fix="silas doctor --json")
