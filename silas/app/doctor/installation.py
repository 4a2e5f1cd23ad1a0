"""What is set up: vault, owner key, database, journal, companions, audit log."""

import asyncio
from collections.abc import Mapping

from silas.app.doctor.findings import Finding, ok, problem, warning
from silas.app.ground import Ground
from silas.app.journal import open_journal
from silas.app.settings import LoadedSettings
from silas.approval import PublicKeys
from silas.kernel import SilasError
from silas.secrets import detect_keyring, open_vault
from silas.storage import SqliteDatabase, load_migrations, migrate


def configuration(loaded: LoadedSettings) -> Finding:
    """Whether there is a configuration file, and what its owner should know about it."""
    where = loaded.paths.config_file
    if loaded.warnings:
        return warning("configuration", " ".join(loaded.warnings), fix="silas config check")
    if not loaded.file_exists:
        return ok("configuration", f"No file at {where}; the defaults are in force.")
    return ok("configuration", f"{where} is valid.")


def keyring() -> Finding:
    """Whether the operating system offers an encrypted keyring."""
    state = detect_keyring()
    if state.usable:
        return ok("keyring", f"{state.backend} works.")
    # Not a fault: the encrypted file is there for machines without one.
    return ok("keyring", f"No system keyring ({state.reason}); an encrypted file serves instead.")


def vault(ground: Ground, environ: Mapping[str, str]) -> Finding:
    """Which vault is in use, and what opens it."""
    description = open_vault(ground.paths.vault, environ=environ).describe()
    words = f"{description.kind} vault at {description.where}, opened by {description.unlocked_by}."
    if description.warnings:
        return warning(
            "vault", f"{words} {' '.join(description.warnings)}", fix="silas secrets passphrase"
        )
    return ok("vault", words)


async def owner_key(ground: Ground) -> Finding:
    """Whether the owner's key can be used, and whether `owner.pub` still is a copy of it."""
    keys = await asyncio.to_thread(lambda: ground.keys.public)
    active = keys.keys[0]
    path = ground.paths.public_key
    if not path.exists() or PublicKeys.from_text(path.read_text("utf-8")) != keys:
        return warning(
            "owner key",
            f"{path} is not a copy of the owner's public keys any more.",
            fix="silas init",
        )
    return ok("owner key", f"{active.key_id}, in use since {active.created_at:%Y-%m-%d}.")


async def database(ground: Ground) -> Finding:
    """Whether the database is whole and its schema up to date."""
    rows = await ground.database.snapshot(lambda reader: reader.fetch_all("PRAGMA quick_check(1)"))
    if rows != [("ok",)]:
        return problem("database", f"{ground.paths.database} is damaged.", fix="silas restore FILE")
    newest = load_migrations("runtime")[-1].id
    return ok("database", f"{ground.paths.database} is whole, schema {newest}.")


async def journal(ground: Ground) -> Finding:
    """Whether the journal is whole and its schema up to date."""
    async with open_journal(ground) as opened:
        rows = await opened.read(lambda reader: reader.fetch_all("PRAGMA quick_check(1)"))
    if rows != [("ok",)]:
        return problem("journal", f"{ground.paths.journal} is damaged.", fix="silas restore FILE")
    newest = load_migrations("journal")[-1].id
    return ok("journal", f"{ground.paths.journal} is whole, schema {newest}.")


async def companions(ground: Ground) -> Finding:
    """Whether the companions' file is whole and its schema up to date; it is not made here."""
    path = ground.paths.companions
    if not path.exists():
        return ok("companions", "There are none yet.")
    opened = SqliteDatabase.open(path)
    try:
        await migrate(opened, load_migrations("agent"), clock=ground.clock)
        rows = await opened.snapshot(lambda reader: reader.fetch_all("PRAGMA quick_check(1)"))
    finally:
        await opened.close()
    if rows != [("ok",)]:
        return problem("companions", f"{path} is damaged.", fix="silas restore FILE")
    newest = load_migrations("agent")[-1].id
    return ok("companions", f"{path} is whole, schema {newest}.")


async def audit(ground: Ground) -> Finding:
    """Whether the newest part of the audit log holds together."""
    report = await ground.audit.examine(from_checkpoint="latest")
    if report.first_problem:
        return problem("audit", report.first_problem.sentence, fix="silas audit verify --full")
    entries = "1 entry" if report.head_seq == 1 else f"{report.head_seq} entries"
    return ok("audit", f"{entries}; signatures: {report.signatures.value}.")


def failed(topic: str, error: SilasError) -> Finding:
    """A check that could not be made is itself a finding."""
    return problem(topic, error.message, fix=_FIXES.get(error.code, "silas doctor --json"))


_FIXES = {
    "E_CFG_NOT_INITIALISED": "silas init",
    "E_CFG_INVALID": "silas config check",
    "E_CFG_SYNTAX": "silas config check",
    "E_SECRETS_MISSING": "silas init",
    "E_APPROVAL_NO_KEY": "silas init",
    "E_SECRETS_LOCKED": "export SILAS_VAULT_PASSPHRASE=…",
    "E_SECRETS_WRONG_KEY": "export SILAS_VAULT_PASSPHRASE=…",
    "E_SECRETS_TAMPERED": "silas restore FILE",
    "E_APPROVAL_KEY_DAMAGED": "silas restore FILE",
    "E_DB_CORRUPT": "silas restore FILE",
    "E_DB_FUTURE": "pip install --upgrade silas",
}
