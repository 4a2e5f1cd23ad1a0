"""`silas doctor`: what state this machine is in, one finding per line, in the order in which a
person would ask: the machine, what is set up, what contains commands, who thinks.

Each finding that is not well names the command that mends it. A check that cannot be made is a
finding too.
"""

import asyncio
import errno
import importlib.util
import inspect
import os
import shlex
import shutil
import socket
import stat
import sys
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path

import apsw

from silas.agents.models.choices import ModelChoice
from silas.agents.models.providers import facts_of, package_missing
from silas.app.agents import lacks_key, model_choices, without_reading
from silas.app.core import Core, open_core
from silas.app.instance import holder_of
from silas.app.journal import open_journal
from silas.app.work import left_of_attempts
from silas.approval import PublicKeys
from silas.connections.models import ConnectionStatus
from silas.kernel import Clock, SilasError, SystemClock, parse_timestamp
from silas.kernel.loopback import is_loopback_url
from silas.kernel.models import Data
from silas.kernel.process import is_guarded
from silas.sandbox.choice import containment, describe_backends, install_command
from silas.secrets import Prompt, detect_keyring, open_vault
from silas.settings.load import LoadedSettings
from silas.settings.models import Settings
from silas.settings.paths import NotInitialised
from silas.skills.sidecar import SkillKind
from silas.storage import Row, SqliteDatabase, load_migrations, migrate
from silas.storage.trees import shown, walk

_NEEDED_OPTIONS = ("ENABLE_FTS5",)
_FIXED_WAL_RACE = (3, 51, 3)
_LITTLE_SPACE_BYTES = 1024**3
_NO_SPACE_BYTES = 50 * 1024**2
_ATTEMPTS = "work/attempts"
_BUILT = datetime(2026, 1, 1, tzinfo=UTC)
_RENEW = "renew it where it came from; a running Silas reads it anew"
_RENEWED_BEFORE = timedelta(days=14)
_QUICK_CHECK = "PRAGMA quick_check(1)"
_FIXES = {
    "E_CFG_NOT_INITIALISED": "silas init",
    "E_CFG_INVALID": "silas config check",
    "E_CFG_SYNTAX": "silas config check",
    "E_CFG_MISSING": "silas --config {file} init",
    "E_CFG_UNREADABLE": "chmod u+r {file}",
    "E_CFG_NOT_A_FILE": "mv {file} {file}.old",
    "E_CFG_ENCODING": "iconv -f LATIN1 -t UTF-8 -o {file}.utf8 {file}",
    "E_SECRETS_MISSING": "silas init",
    "E_APPROVAL_NO_KEY": "silas init",
    "E_SECRETS_LOCKED": "export SILAS_VAULT_PASSPHRASE=…",
    "E_SECRETS_WRONG_KEY": "export SILAS_VAULT_PASSPHRASE=…",
    "E_SECRETS_TAMPERED": "silas restore FILE",
    "E_APPROVAL_KEY_DAMAGED": "silas restore FILE",
    "E_DB_CORRUPT": "silas restore FILE",
    "E_DB_FUTURE": "pip install --upgrade silas",
    "E_DB_MIGRATION_DRIFT": "pip install --force-reinstall silas",
    "E_DB_MIGRATION_MISSING": "pip install --force-reinstall silas",
    "E_DB_FULL": "df -h",
    "E_DB_BUSY": "silas status",
    "E_DB_LOCKED": "silas stop",
    "E_AUDIT_BROKEN": "silas audit verify",
    "E_AUDIT_FAILED": "silas audit verify",
    "E_AUDIT_STATE": "silas audit verify",
}
"""The step that helps, by the code of the error; what is left is explained in `docs/errors.md`."""


class Status(StrEnum):
    """How bad it is, from nothing to do to must be mended."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


class DoctorFinding(Data):
    """One line of `silas doctor`."""

    topic: str
    status: Status
    sentence: str
    fix: str | None = None


def ok(topic: str, sentence: str) -> DoctorFinding:
    """Nothing to do."""
    return DoctorFinding(topic=topic, status=Status.OK, sentence=sentence)


def warning(topic: str, sentence: str, *, fix: str) -> DoctorFinding:
    """Silas works, but not as well or as safely as it could."""
    return DoctorFinding(topic=topic, status=Status.WARNING, sentence=sentence, fix=fix)


def problem(topic: str, sentence: str, *, fix: str) -> DoctorFinding:
    """Silas cannot do its work until this is mended."""
    return DoctorFinding(topic=topic, status=Status.PROBLEM, sentence=sentence, fix=fix)


def worst(findings: Iterable[DoctorFinding]) -> Status:
    """The status of the whole: that of its worst part."""
    order = list(Status)
    return max((finding.status for finding in findings), key=order.index, default=Status.OK)


Check = Callable[[], DoctorFinding | Awaitable[DoctorFinding]]


async def examine(
    loaded: LoadedSettings, *, environ: Mapping[str, str], prompt: Prompt | None = None
) -> AsyncIterator[DoctorFinding]:
    """One finding after the other; a check that fails is a finding too."""
    settings, data_dir = loaded.settings, loaded.paths.data_dir
    yield _python()
    yield _sqlite()
    yield _process()
    yield _configuration(loaded)
    yield _disk(data_dir)
    yield await _made("keyring", _keyring)
    async for finding in _installed(loaded, environ, prompt):
        yield finding
    yield await _made("sandbox", lambda: _sandbox(settings))
    web, running = settings.channels.web, holder_of(loaded.paths.lock) is not None
    yield _port(web.host, web.port, running=running)
    chain, key = web.tls_certificate, web.tls_key
    if chain is not None and key is not None:
        yield await _made("certificate", lambda: _certificate(chain, key))
    yield _model(settings, environ)


async def _installed(
    loaded: LoadedSettings, environ: Mapping[str, str], prompt: Prompt | None
) -> AsyncIterator[DoctorFinding]:
    """The checks that need a data directory; without one, there is one finding that says so."""
    if not loaded.paths.database.exists():
        yield failed("data directory", NotInitialised())
        return
    yield await _made("permissions", lambda: _permissions(loaded.paths.data_dir))
    try:
        async with open_core(loaded, environ=environ, prompt=prompt) as core:
            checks: dict[str, Check] = {
                "database": lambda: _database(core),
                "journal": lambda: _journal(core),
                "companions": lambda: _companions(core),
                "vault": lambda: _vault(core, environ),
                "owner key": lambda: _owner_key(core),
                "audit": lambda: _audit(core),
                "clock": lambda: _clock(core),
                "skills": lambda: _skills(core),
                "tool servers": lambda: _tool_servers(core),
                "connections": lambda: _connections(core),
                "leftovers": lambda: _leftovers(core),
            }
            for topic, check in checks.items():
                yield await _made(topic, check)
    except SilasError as error:
        yield failed("data directory", error)


async def _clock(core: Core) -> DoctorFinding:
    newest = await core.audit.tail(1)
    moment = parse_timestamp(newest[-1].at) if newest else None
    zone = core.settings.scheduler.timezone
    return _clock_is_sane(SystemClock(), moment, zone=zone)


async def _skills(core: Core) -> DoctorFinding:
    """Whether the skills are those that the owner has approved, to the last byte."""
    records = [each for each in await core.skills.listed() if each.digest is not None]
    changed = [
        each.name
        for each in records
        if not each.sealed or not await core.skills.is_whole(each.digest or "")
    ]
    waiting = len(await core.skills.proposed())
    if changed:
        return problem(
            "skills",
            f"Not as you approved them, and not used: {', '.join(changed)}.",
            fix=f"silas skills remove {changed[0]}",
        )
    used = [each for each in records if each.usable]
    told = f" {waiting} more wait for you: `silas review list`." if waiting else ""
    return ok("skills", f"{len(used)} installed, each as it was approved.{told}")


async def _tool_servers(core: Core) -> DoctorFinding:
    """Whether each tool server is what the owner has approved, and can be spoken with."""
    found = []
    for record in await core.skills.listed():
        if record.digest is None or not await core.skills.is_whole(record.digest):
            continue
        skill = await core.skill_files.loader.version(record.name, record.digest)
        if skill.sidecar.type is SkillKind.TOOL_SERVER:
            found.append(record)
    if not found:
        return ok("tool servers", "None.")
    if importlib.util.find_spec("mcp") is None:
        return problem(
            "tool servers", "What speaks with them is missing.", fix="pip install 'silas[mcp]'"
        )
    held = [each.name for each in found if each.is_quarantined]
    if held:
        return problem(
            "tool servers",
            f"Changed since you approved them, and not used: {', '.join(held)}.",
            fix=f"silas mcp show {held[0]}",
        )
    return ok("tool servers", f"{len(found)}, none of them quarantined.")


async def _connections(core: Core) -> DoctorFinding:
    """Whether each account is as the owner has connected it, has its secret, and works."""
    every = await core.connections.listed()
    changed = [each for each in every if not each.sealed]
    if changed:
        return problem(
            "connections",
            f"Not as you connected it, and not used: {changed[0].name}.",
            fix=f"silas connections remove {changed[0].connection_id}",
        )
    kept = set(await asyncio.to_thread(core.vault.list))
    in_use = [each for each in every if each.status is not ConnectionStatus.PROPOSED]
    lost = [each for each in in_use if each.ref_id not in kept]
    failed_ones = [each for each in in_use if each.status is ConnectionStatus.FAILED]
    for each, why in [
        *((one, "does not work") for one in failed_ones),
        *((one, "has no secret in the vault") for one in lost),
    ]:
        said = f" {each.problem}" if each.problem else ""
        return problem(
            "connections",
            f"{each.name} {why}.{said}",
            fix=f"silas connections reconnect {each.connection_id}",
        )
    waiting = len(every) - len(in_use)
    told = f" {waiting} more wait for you: `silas connections list`." if waiting else ""
    return ok("connections", f"{len(in_use)} connected.{told}")


async def _leftovers(core: Core) -> DoctorFinding:
    return _left_behind(await left_of_attempts(core))


async def _made(topic: str, check: Check) -> DoctorFinding:
    try:
        finding = check()
        return await finding if inspect.isawaitable(finding) else finding
    except SilasError as error:
        return failed(topic, error)
    except OSError as error:
        words = f"This could not be looked at: {error}. See who owns it, and who may read it."
        return problem(topic, words, fix=f"ls -ld {shlex.quote(str(error.filename or '.'))}")


def _python() -> DoctorFinding:
    """The interpreter."""
    return ok("python", f"Python {sys.version.split()[0]}.")


def _sqlite() -> DoctorFinding:
    """The SQLite that comes with APSW, and what it was built with."""
    version = apsw.sqlite_lib_version()
    missing = [name for name in _NEEDED_OPTIONS if name not in apsw.compile_options]
    if missing:
        return problem(
            "sqlite",
            f"SQLite {version} lacks {', '.join(missing)}.",
            fix="pip install --force-reinstall apsw",
        )
    if tuple(int(part) for part in version.split(".")) < _FIXED_WAL_RACE:
        return warning(
            "sqlite",
            f"SQLite {version} has a known race in its write-ahead log.",
            fix="pip install --upgrade apsw",
        )
    return ok("sqlite", f"SQLite {version} with full-text search, through APSW.")


def _process() -> DoctorFinding:
    """Whether other programs of the same user are kept from this process's memory."""
    if is_guarded():
        return ok("process", "Your other programs cannot read the memory of Silas.")
    return warning(
        "process",
        "This system does not keep your other programs from reading the memory of Silas.",
        fix="run Silas as a user of its own",
    )


def _disk(data_dir: Path) -> DoctorFinding:
    """The space that is left where the data is."""
    place = _existing(data_dir)
    free = shutil.disk_usage(place).free
    words = f"{free / 1024**3:.1f} GB free on the disk of {data_dir}."
    if free < _NO_SPACE_BYTES:
        return problem("disk", words, fix=f"free some space on the disk of {place}")
    if free < _LITTLE_SPACE_BYTES:
        return warning("disk", words, fix=f"free some space on the disk of {place}")
    return ok("disk", words)


def _permissions(data_dir: Path) -> DoctorFinding:
    """Whether anybody but the owner may look into the data directory."""
    open_paths = list(_open_to_others(data_dir))
    if open_paths:
        shown = ", ".join(str(path) for path in open_paths[:3])
        more = f" and {len(open_paths) - 3} more" if len(open_paths) > 3 else ""
        return problem(
            "permissions",
            f"Others on this machine may read {shown}{more}.",
            fix=f"chmod -R go-rwx {data_dir}",
        )
    return ok("permissions", f"Only you may read {data_dir}.")


def _left_behind(places: Sequence[Path]) -> DoctorFinding:
    """Whether files of work that has ended are still there, because they could not be removed."""
    if not places:
        return ok("leftovers", "Nothing is left of attempts that ended.")
    listed = ", ".join(map(str, places[:3]))
    more = f" and {len(places) - 3} more" if len(places) > 3 else ""
    return warning(
        "leftovers",
        f"Files of attempts that ended are left: {listed}{more}. Silas tries again to remove them "
        "when it starts; `silas audit tail` says what was in the way.",
        fix=f"sudo rm -rf -- {' '.join(shlex.quote(str(place)) for place in places)}",
    )


def _port(host: str, number: int, *, running: bool = False) -> DoctorFinding:
    """Whether the web app's address is free; Silas is allowed to be the one who has it."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, number))
        except OSError as error:
            if running and error.errno == errno.EADDRINUSE:
                return ok("port", f"{host} port {number} is in use: Silas is running.")
            reason = (
                "is taken by another program" if error.errno == errno.EADDRINUSE else str(error)
            )
            return warning(
                "port",
                f"{host} port {number} {reason}.",
                fix=f"SILAS_CHANNELS__WEB__PORT={number + 1} silas start",
            )
    return ok("port", f"{host} port {number} is free.")


async def _certificate(chain: Path, key: Path) -> DoctorFinding:
    """Whether browsers will accept the page's certificate, and for how long."""
    # Imported here: of all checks, this one alone needs the server's code.
    from silas.web.serving import Certificate  # noqa: PLC0415

    ends = (await asyncio.to_thread(Certificate, chain, key)).expires_at()
    said = f"{chain} is good until {ends:%Y-%m-%d %H:%M} UTC."
    now = SystemClock().now()
    if ends <= now:
        said = f"{chain} expired on {ends:%Y-%m-%d}: no browser opens the page."
        return problem("certificate", said, fix=_RENEW)
    if ends - now < _RENEWED_BEFORE:
        return warning("certificate", said, fix=_RENEW)
    return ok("certificate", said)


def _clock_is_sane(clock: Clock, newest_entry: datetime | None, *, zone: str) -> DoctorFinding:
    """Whether this machine's time can be true."""
    now = clock.now()
    if now < _BUILT:
        return problem("clock", f"The clock says {now:%Y-%m-%d}.", fix="timedatectl set-ntp true")
    if newest_entry is not None and now < newest_entry:
        return problem(
            "clock",
            f"The clock says {now:%Y-%m-%d %H:%M} UTC, but the audit log already has an entry of "
            f"{newest_entry:%Y-%m-%d %H:%M}.",
            fix="timedatectl set-ntp true",
        )
    return ok("clock", f"{now:%Y-%m-%d %H:%M} UTC. You live in {zone} (`scheduler.timezone`).")


def _open_to_others(data_dir: Path) -> Iterator[Path]:
    if data_dir.stat().st_mode & 0o077:
        yield data_dir
    root = os.open(data_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # What workers left below has the modes that they gave it, behind a directory of ours.
        for entry in walk(root, enter=lambda each: each.path != _ATTEMPTS):
            mode = entry.status.st_mode
            if not stat.S_ISLNK(mode) and mode & 0o077:
                yield data_dir / shown(entry.path)
    finally:
        os.close(root)


def _existing(path: Path) -> Path:
    return next(place for place in (path, *path.absolute().parents) if place.exists())


def _configuration(loaded: LoadedSettings) -> DoctorFinding:
    """Whether there is a configuration file, and what its owner should know about it."""
    where = loaded.paths.config_file
    if loaded.warnings:
        return warning("configuration", " ".join(loaded.warnings), fix="silas config check")
    if not loaded.file_exists:
        return ok("configuration", f"No file at {where}; the defaults are in force.")
    return ok("configuration", f"{where} is valid.")


def _keyring() -> DoctorFinding:
    """Whether the operating system offers an encrypted keyring."""
    state = detect_keyring()
    if state.usable:
        return ok("keyring", f"{state.backend} works.")
    # Not a fault: the encrypted file is there for machines without one.
    return ok("keyring", f"No system keyring ({state.reason}); an encrypted file serves instead.")


def _vault(core: Core, environ: Mapping[str, str]) -> DoctorFinding:
    """Which vault is in use, and what opens it."""
    description = open_vault(core.paths.vault, environ=environ).describe()
    words = f"{description.kind} vault at {description.where}, opened by {description.unlocked_by}."
    if description.warnings:
        return warning(
            "vault", f"{words} {' '.join(description.warnings)}", fix="silas secrets passphrase"
        )
    return ok("vault", words)


async def _owner_key(core: Core) -> DoctorFinding:
    """Whether the owner's key can be used, and whether `owner.pub` still is a copy of it."""
    keys = await asyncio.to_thread(lambda: core.keys.public)
    active = keys.keys[0]
    path = core.paths.public_key
    if not path.exists() or PublicKeys.from_text(path.read_text("utf-8")) != keys:
        return warning(
            "owner key",
            f"{path} is not a copy of the owner's public keys any more.",
            fix="silas init",
        )
    return ok("owner key", f"{active.key_id}, in use since {active.created_at:%Y-%m-%d}.")


async def _database(core: Core) -> DoctorFinding:
    """Whether the database is whole and its schema up to date."""
    rows = await core.database.snapshot(lambda reader: reader.fetch_all(_QUICK_CHECK))
    return _wholeness("database", core.paths.database, rows, schema="runtime")


async def _journal(core: Core) -> DoctorFinding:
    """Whether the journal is whole and its schema up to date."""
    async with open_journal(core) as opened:
        rows = await opened.read(lambda reader: reader.fetch_all(_QUICK_CHECK))
    return _wholeness("journal", core.paths.journal, rows, schema="journal")


async def _companions(core: Core) -> DoctorFinding:
    """Whether the companions' file is whole and its schema up to date; it is not made here."""
    path = core.paths.companions
    if not path.exists():
        return ok("companions", "There are none yet.")
    opened = SqliteDatabase.open(path)
    try:
        await migrate(opened, load_migrations("agent"), clock=core.clock)
        rows = await opened.snapshot(lambda reader: reader.fetch_all(_QUICK_CHECK))
    finally:
        await opened.close()
    return _wholeness("companions", path, rows, schema="agent")


def _wholeness(topic: str, path: Path, rows: Sequence[Row], *, schema: str) -> DoctorFinding:
    if rows != [("ok",)]:
        return problem(topic, f"{path} is damaged.", fix="silas restore FILE")
    return ok(topic, f"{path} is whole, schema {load_migrations(schema)[-1].id}.")


async def _audit(core: Core) -> DoctorFinding:
    """Whether the audit log holds together since its last checkpoint; the finding says so."""
    report = await core.audit.examine(from_checkpoint="latest")
    if report.first_problem:
        return problem("audit", report.first_problem.sentence, fix="silas audit verify")
    entries = "1 entry" if report.head_seq == 1 else f"{report.head_seq} entries"
    if report.start_seq:
        entries += f", examined from entry {report.start_seq + 1} on (`silas audit verify`: all)"
    return ok("audit", f"{entries}; signatures: {report.signatures.value}.")


def failed(topic: str, error: SilasError) -> DoctorFinding:
    """A check that could not be made is itself a finding."""
    fix = _FIXES.get(error.code, f"look up {error.code} in docs/errors.md")
    named = shlex.quote(str(error.details.get("file", "FILE")))
    return problem(topic, error.message, fix=fix.format(file=named))


async def _sandbox(settings: Settings) -> DoctorFinding:
    """Which backend is in force, and what it does not contain."""
    found = await containment(settings.sandbox.backend)
    if found.backend is None:
        # Elsewhere than on Linux nothing mends it, and everything else works.
        state = problem if sys.platform == "linux" else warning
        return state("sandbox", found.sentence, fix=found.fix or install_command())
    reports = await describe_backends(settings.sandbox.backend)
    in_force = next(report for report in reports if report.in_force)
    words = (
        f"{in_force.name} is in force. It contains {'; '.join(in_force.contains)}. "
        f"It does not contain {'; '.join(in_force.does_not_contain)}."
    )
    if found.fix is None:
        return ok("sandbox", words)
    return warning("sandbox", f"{found.sentence} {words}", fix=found.fix)


def _model(settings: Settings, environ: Mapping[str, str]) -> DoctorFinding:
    """Whether the configured models have what they need; nothing is sent to them."""
    roles = model_choices(settings, without_reading).values()
    chosen = [each for role in roles for each in (role.model, role.fallback) if role.model and each]
    if not chosen:
        return ok(
            "model", "None is configured: the offline brain is in charge, and no model is asked."
        )
    problems = (_model_problem(choice, environ) for choice in chosen)
    names = ", ".join(sorted({choice.name for choice in chosen}))
    return next((each for each in problems if each), ok("model", f"{names}."))


def _model_problem(choice: ModelChoice, environ: Mapping[str, str]) -> DoctorFinding | None:
    if package := package_missing(choice.provider):
        words = f"{choice.name} needs a package that is not installed."
        return warning("model", words, fix=f'pip install "{package}"')
    if lacks_key(choice, environ):
        facts = facts_of(choice.provider)
        variable = facts.key_variables[0] if facts and facts.key_variables else "its key"
        words = f"{choice.name} needs a key, and {variable} is not set."
        return warning("model", words, fix=f"export {variable}=…")
    if choice.base_url and choice.base_url.startswith("http://") and choice.api_key:
        return _in_the_open(choice)
    return None


def _in_the_open(choice: ModelChoice) -> DoctorFinding | None:
    if is_loopback_url(choice.base_url or ""):
        return None
    words = f"The key of {choice.name} and all that is said go over the network unencrypted."
    return warning("model", words, fix="use an https:// address in models")
