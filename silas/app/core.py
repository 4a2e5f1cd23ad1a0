"""The core, wired: what commands and the server share of one data directory, each built once.

`open_core` opens database, audit log, vault, keys and approvals. `Machine` is what a Silas takes
from the machine that it runs on, besides the time: a simulation gives all of it, so that one seed
decides what happens; nothing in it can switch off a check.
"""

import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from silas.approval import (
    ApprovalEngine,
    ApprovalPolicy,
    ApprovalScope,
    ApprovalStrength,
    DeviceStore,
    KeyManager,
    MessageVerifier,
    NonceStore,
    OwnerKeys,
    PasskeyStore,
)
from silas.audit import AuditLog
from silas.connections.registry import ConnectionStore
from silas.connections.tools import AccountTools
from silas.egress import PublicNetwork
from silas.egress.broker import CredentialBroker
from silas.kernel import Clock, IdFactory, SystemClock
from silas.kernel.redaction import RenewedRedactor
from silas.queue import QueueStore
from silas.review import Decisions
from silas.sandbox import SandboxRunner
from silas.sandbox.choice import BackendChoice, all_backends
from silas.secrets import OnDemandVault, Prompt, open_vault
from silas.settings.load import LoadedSettings
from silas.settings.models import Settings
from silas.settings.paths import Paths
from silas.skills.loading import SkillLoader, SkillResolver
from silas.skills.store import SkillStore, SkillTrees
from silas.storage import SqliteDatabase, load_migrations, migrate
from silas.storage.errors import translated
from silas.storage.files import write_private_file
from silas.stream.store import ConversationStore
from silas.tools import core_tools
from silas.tools.declaration import Tool, ToolRegistry
from silas.tools.files import attachment_tool, restore_tool
from silas.tools.web_search import SearchLimits, make_provider
from silas.work import ArtifactStore, AttemptStore, ToolLedger, WorkItemStore
from silas.work.attempt_store import this_runner
from silas.work.before_images import BeforeImages
from silas.work.ledger import CallUndos
from silas.work.origins import OriginStore

if TYPE_CHECKING:
    from silas.mcp.tools import ServedTools
    from silas.skills.format import Skill
    from silas.stream.attachments import AttachmentStore
    from silas.stream.limits import RateLimit
    from silas.stream.usage import UsageLedger

OpenDatabase = Callable[[Path], SqliteDatabase]


@dataclass(frozen=True)
class Machine:
    """Randomness, disk, containment, and the name of the process."""

    entropy: Callable[[int], bytes] = os.urandom
    open_database: OpenDatabase = SqliteDatabase.open
    sandbox: SandboxRunner | None = None
    """None: the backend that the settings name."""
    tools: tuple[Tool, ...] = ()
    """Tools beside those that every Silas has."""
    runner: str = field(default_factory=this_runner)
    """As other processes know this one: see `silas.work.attempt_store`."""


@dataclass(frozen=True)
class WorkStores:
    """Where work is written down."""

    items: WorkItemStore
    attempts: AttemptStore
    ledger: ToolLedger
    undos: CallUndos
    """What takes back the calls in accounts."""
    artifacts: ArtifactStore
    images: BeforeImages
    """What files were before Silas changed them."""
    origins: OriginStore
    """Whose text files and work are."""


@dataclass(frozen=True)
class Core:
    """What commands and the server share, each object built once."""

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
    decisions: Decisions

    @cached_property
    def queue(self) -> QueueStore:
        """The one bus of this process: a second one would wake nobody who waits on the first."""
        # Imported here: most commands put nothing on the bus, and this brings all turns along.
        from silas.stream.loops.runtime import on_dead_letter  # noqa: PLC0415

        return QueueStore(
            self.database,
            clock=self.clock,
            ids=self.ids,
            holder=self.machine.runner,
            on_dead_letter=on_dead_letter(self.clock),
        )

    @cached_property
    def conversations(self) -> ConversationStore:
        """Where messages and work came from."""
        return ConversationStore(self.database, self.clock)

    @cached_property
    def attachments(self) -> "AttachmentStore":
        """The files that the owner attached to messages."""
        # Imported here: most commands attach nothing, and this brings the memory's rules along.
        from silas.stream.attachments import AttachmentStore  # noqa: PLC0415

        return AttachmentStore(self.database, self.paths.attachments, self.clock)

    @cached_property
    def redact(self) -> RenewedRedactor:
        """Takes every secret out of a text that is known by then."""
        return RenewedRedactor(self.vault.seen)

    @cached_property
    def searches(self) -> "RateLimit":
        """How often each conversation may search, whoever searches for it."""
        from silas.stream.limits import RateLimit  # noqa: PLC0415 - most commands search nothing

        limits = self.settings.limits
        return RateLimit(self.clock, limits.web_search_calls_per_minute_per_scope)

    @cached_property
    def usage(self) -> "UsageLedger":
        """What models have used, by day."""
        from silas.stream.usage import UsageLedger  # noqa: PLC0415 - most commands ask no model

        zone = ZoneInfo(self.settings.scheduler.timezone)
        return UsageLedger(self.database, self.clock, self.ids, zone)

    @cached_property
    def work(self) -> WorkStores:
        """Where plans, and what came of them, are written down."""
        return WorkStores(
            items=WorkItemStore(self.database, self.clock),
            attempts=AttemptStore(self.database, self.clock, self.audit),
            ledger=ToolLedger(self.database, self.clock, redact=self.redact),
            undos=CallUndos(
                self.database,
                self.clock,
                self.keys,
                timedelta(minutes=self.settings.undo.window_minutes),
            ),
            artifacts=ArtifactStore(self.database, self.paths.artifacts, clock=self.clock),
            images=BeforeImages(self.database, self.clock, self.paths.before_images),
            origins=OriginStore(
                self.database,
                self.clock,
                own_repositories=self.settings.planner.own_repositories,
            ),
        )

    @cached_property
    def skills(self) -> SkillStore:
        """Which skills are in force, and their files."""
        trees = SkillTrees(self.paths.skills)
        return SkillStore(self.database, trees, self.keys, self.audit, self.clock)

    @cached_property
    def connections(self) -> ConnectionStore:
        """The accounts that the owner has connected."""
        return ConnectionStore(self.database, self.keys, self.audit, self.clock)

    @cached_property
    def skill_files(self) -> SkillResolver:
        """The skills as work uses them; those that are connections with the owner's accounts."""
        accounts = AccountTools(self.connections, self.audit, self.clock)
        return SkillResolver(SkillLoader(self.skills), self.sandbox, accounts, self._served)

    def _served(self, skill: "Skill", directory: Path) -> "Sequence[Tool]":
        return self.tool_servers(skill, directory)

    @cached_property
    def tool_servers(self) -> "ServedTools":
        """The servers of other people's tools; what has changed in one is let nothing use it."""
        from silas.mcp.tools import ServedTools  # noqa: PLC0415 - most commands use no server

        return ServedTools(self.sandbox, self.skills.quarantine, self.broker.session)

    @cached_property
    def sandbox(self) -> SandboxRunner:
        """What contains the commands that run here."""
        return self.machine.sandbox or sandbox_of(
            self.settings, self.paths, clock=self.clock, broker=self.broker
        )

    @cached_property
    def broker(self) -> CredentialBroker:
        """Lets code in the sandbox use an account without its credential."""
        return CredentialBroker(self.vault, PublicNetwork(), clock=self.clock)

    @cached_property
    def tools(self) -> ToolRegistry[Tool]:
        """The tools of this data directory, with what each declares."""
        search = self.settings.search
        key = search.api_key.get_secret_value() if search.api_key else None
        tools = core_tools(
            self.sandbox,
            search=make_provider(search.provider, key),
            search_limits=SearchLimits(
                seconds=search.timeout_seconds,
                max_results=search.max_results,
                max_query_chars=search.max_query_chars,
                allowed_domains=search.allowed_domains,
            ),
        )
        restoring = restore_tool(self.work.images.content_for)
        attaching = attachment_tool(self.attachments.content)
        every = [*tools, restoring, attaching, *self.machine.tools]
        return ToolRegistry(every, declared=self.skills.effect_of)

    def publish_keys(self) -> None:
        """Write the owner's public keys to `owner.pub`, for people and for offline checks."""
        with translated(str(self.paths.public_key)):
            write_private_file(self.paths.public_key, self.keys.public.to_text().encode())


def sandbox_of(
    settings: Settings, paths: Paths, *, clock: Clock, broker: CredentialBroker | None = None
) -> BackendChoice:
    """The backend that the settings name; what Silas keeps is visible in none of them.

    Without a `broker`, commands that use an account are refused.
    """
    own = (paths.data_dir, paths.config_file)
    backends = all_backends(
        clock=clock,
        image=settings.sandbox.base_image,
        hidden=[str(path.resolve()) for path in own],
        broker=broker,
    )
    return BackendChoice(backends, settings.sandbox.backend)


@asynccontextmanager
async def open_core(
    loaded: LoadedSettings,
    *,
    environ: Mapping[str, str],
    prompt: Prompt | None = None,
    clock: Clock | None = None,
    machine: Machine | None = None,
) -> AsyncIterator[Core]:
    """Open the data directory, bring its schema up to date, and close everything at the end."""
    paths = loaded.paths
    paths.require_initialised()
    vault = OnDemandVault(lambda: open_vault(paths.vault, environ=environ, prompt=prompt))
    async with make_core(loaded, vault, clock=clock, machine=machine) as core:
        yield core


@asynccontextmanager
async def make_core(
    loaded: LoadedSettings,
    vault: OnDemandVault,
    *,
    clock: Clock | None = None,
    machine: Machine | None = None,
) -> AsyncIterator[Core]:
    """The same, creating the database if it is not there yet."""
    clock, machine = clock or SystemClock(), machine or Machine()
    database = machine.open_database(loaded.paths.database)
    try:
        await migrate(database, load_migrations("runtime"), clock=clock)
        core = _wire(loaded, database, vault, clock, machine)
        await core.skills.load()
        yield core
    finally:
        await database.close()


def _wire(
    loaded: LoadedSettings,
    database: SqliteDatabase,
    vault: OnDemandVault,
    clock: Clock,
    machine: Machine,
) -> Core:
    settings, paths = loaded.settings, loaded.paths
    ids = IdFactory(clock, entropy=machine.entropy)
    keys = KeyManager(vault, clock=clock)
    audit = AuditLog(
        database,
        clock=clock,
        ids=ids,
        signer=keys,
        verifier=OwnerKeys(keys, published=paths.public_key),
        witness=paths.audit_witness,
        known_secrets=vault.seen,
        checkpoint_every=settings.audit.checkpoint_every,
    )
    nonces = NonceStore(database, clock=clock)
    devices = DeviceStore(database, keys, vault=vault, audit=audit, clock=clock)
    passkeys = PasskeyStore(database, keys, vault=vault, audit=audit, clock=clock)
    approvals = ApprovalEngine(
        database,
        keys,
        nonces=nonces,
        audit=audit,
        clock=clock,
        ids=ids,
        policy=_policy(settings),
        entropy=machine.entropy,
    )
    return Core(
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
        approvals=approvals,
        messages=MessageVerifier(
            database, nonces=nonces, audit=audit, clock=clock, devices=devices
        ),
        devices=devices,
        passkeys=passkeys,
        decisions=Decisions(
            database,
            keys,
            approvals=approvals,
            audit=audit,
            clock=clock,
            devices=devices,
            passkeys=passkeys,
        ),
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
