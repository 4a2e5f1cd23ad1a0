"""The ground floor, wired: database, audit, vault, keys, approvals of one data directory."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property

from silas.app.errors import NotInitialised
from silas.app.machine import Machine
from silas.app.paths import Paths
from silas.app.settings import LoadedSettings, Settings
from silas.approval import (
    ApprovalEngine,
    ApprovalPolicy,
    ApprovalScope,
    ApprovalStrength,
    DeviceStore,
    KeyManager,
    MessageVerifier,
    NonceStore,
    PasskeyStore,
    PublicKeys,
)
from silas.audit import AuditLog
from silas.kernel import Clock, IdFactory, SystemClock
from silas.secrets import Prompt, Vault, VaultLocked, is_internal, open_vault
from silas.storage import SqliteDatabase, load_migrations, migrate
from silas.storage.errors import translated
from silas.storage.files import write_private_file


class OnDemandVault:
    """The vault, opened when it is first needed: most commands never need it."""

    def __init__(self, open_it: Callable[[], Vault]) -> None:
        self._open = open_it
        self._seen: frozenset[str] = frozenset()

    @cached_property
    def opened(self) -> Vault:
        return self._open()

    def get(self, ref_id: str) -> bytes | None:
        value = self.opened.get(ref_id)
        self._remember(ref_id, value)
        return value

    def set(self, ref_id: str, value: bytes) -> None:
        self._remember(ref_id, value)
        self.opened.set(ref_id, value)

    def seen(self) -> frozenset[str]:
        """The secrets that passed through this process: what must never reach the audit log."""
        return self._seen

    def _remember(self, ref_id: str, value: bytes | None) -> None:
        if value is not None and not is_internal(ref_id):
            self._seen |= {value.decode("utf-8", "replace")}


class OwnerKeys:
    """The owner's public keys for checking the audit log: the vault's, if it can be opened.

    `owner.pub` is a copy in the same directory as the log, so it proves less; but a log must be
    readable also while the vault is locked.
    """

    def __init__(self, keys: KeyManager, paths: Paths) -> None:
        self._keys = keys
        self._paths = paths
        self._locked = False

    @property
    def public(self) -> PublicKeys:
        if not self._locked:
            try:
                return self._keys.public
            except VaultLocked:
                self._locked = True  # and nobody is asked again
        return self._from_file

    @cached_property
    def _from_file(self) -> PublicKeys:
        path = self._paths.public_key
        return PublicKeys.from_text(path.read_text("utf-8")) if path.exists() else PublicKeys(())

    def verify(self, key_id: str, payload: bytes, signature: bytes, *, at: datetime) -> bool:
        """Whether this key, which was the owner's at that time, made this signature."""
        return self.public.verify(key_id, payload, signature, at=at)


@dataclass(frozen=True)
class Ground:
    """What commands and the server stand on."""

    paths: Paths
    settings: Settings
    machine: Machine
    clock: Clock
    ids: IdFactory
    database: SqliteDatabase
    vault: OnDemandVault
    keys: KeyManager
    audit: AuditLog
    nonces: NonceStore
    approvals: ApprovalEngine
    messages: MessageVerifier
    devices: DeviceStore
    passkeys: PasskeyStore

    def publish_keys(self) -> None:
        """Write the owner's public keys to `owner.pub`, for people and for offline checks."""
        with translated(str(self.paths.public_key)):
            write_private_file(self.paths.public_key, self.keys.public.to_text().encode())


@asynccontextmanager
async def open_ground(
    loaded: LoadedSettings,
    *,
    environ: Mapping[str, str],
    prompt: Prompt | None = None,
    clock: Clock | None = None,
) -> AsyncIterator[Ground]:
    """Open the data directory, bring its schema up to date, and close everything at the end."""
    paths = loaded.paths
    if not paths.database.exists():
        raise NotInitialised(f"{paths.data_dir}: {NotInitialised().message}")
    vault = OnDemandVault(lambda: open_vault(paths.vault, environ=environ, prompt=prompt))
    async with make_ground(loaded, vault, clock=clock) as ground:
        yield ground


@asynccontextmanager
async def make_ground(
    loaded: LoadedSettings,
    vault: OnDemandVault,
    *,
    clock: Clock | None = None,
    machine: Machine | None = None,
) -> AsyncIterator[Ground]:
    """The same, creating the database if it is not there yet."""
    clock, machine = clock or SystemClock(), machine or Machine()
    database = machine.open_database(loaded.paths.database)
    try:
        await migrate(database, load_migrations("runtime"), clock=clock)
        yield _wire(loaded, database, vault, clock, machine)
    finally:
        await database.close()


def _wire(
    loaded: LoadedSettings,
    database: SqliteDatabase,
    vault: OnDemandVault,
    clock: Clock,
    machine: Machine,
) -> Ground:
    settings, paths = loaded.settings, loaded.paths
    ids = IdFactory(clock, entropy=machine.entropy)
    keys = KeyManager(vault, clock=clock)
    audit = AuditLog(
        database,
        clock=clock,
        ids=ids,
        signer=keys,
        verifier=OwnerKeys(keys, paths),
        witness=paths.audit_witness,
        known_secrets=vault.seen,
        checkpoint_every=settings.audit.checkpoint_every,
    )
    nonces = NonceStore(database, clock=clock)
    devices = DeviceStore(database, keys, vault=vault, audit=audit, clock=clock)
    return Ground(
        paths=paths,
        settings=settings,
        machine=machine,
        clock=clock,
        ids=ids,
        database=database,
        vault=vault,
        keys=keys,
        audit=audit,
        nonces=nonces,
        approvals=ApprovalEngine(
            database,
            keys,
            nonces=nonces,
            audit=audit,
            clock=clock,
            ids=ids,
            policy=_policy(settings),
            entropy=machine.entropy,
        ),
        messages=MessageVerifier(
            database, nonces=nonces, audit=audit, clock=clock, devices=devices
        ),
        devices=devices,
        passkeys=PasskeyStore(database, keys, vault=vault, audit=audit, clock=clock),
    )


def _policy(settings: Settings) -> ApprovalPolicy:
    return ApprovalPolicy(
        default_ttl=timedelta(minutes=settings.approval.default_ttl_minutes),
        standing_ttl=timedelta(days=settings.approval.standing_ttl_days),
        max_executions=settings.approval.max_executions,
        max_standing_executions=settings.autonomy.max_standing_executions,
        scope_min_strength={
            ApprovalScope(scope): ApprovalStrength(strength)
            for scope, strength in settings.approval.scope_min_strength.items()
        },
    )
