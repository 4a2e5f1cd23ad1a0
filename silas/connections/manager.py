"""Leads a connection through its life: found, approved, set up, used, watched, taken back.

`ConnectionManager` has the methods of the protocol 4.19. The channel is the owner's cards.

1. A connection is discovered, put before the owner, set up with the owner's yes, tried out, and
   only then active. The yes is used up for exactly the account, servers and permissions that it
   showed.
2. Cancelled at any step, it is `proposed` again: no secret, request, process or card is left.
3. It is checked at its times. What fails is recovered once, by its own script. After that it is
   `failed`, the owner is told, and nothing uses it. What passes by itself, such as an outage, is
   looked at again at its times as long as its card is open: without another recovery or card. A
   week before a sign-in ends, the owner of an account that is used is asked to sign in again.
4. It does more by a yes to more, and not otherwise. *Just this once* is gone with the next call.
   What the sign-in does not cover yet takes another one first; without it, nothing is changed.
5. Pausing, renaming and removing need no card: they give nothing.
6. What a crash has left half-way is `proposed` again when Silas starts.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

from pydantic import ValidationError

from silas.audit.models import AuditTrail
from silas.connections.cards import (
    EXPIRY,
    FAILURE,
    PERMISSION,
    RECONNECT,
    SETUP,
    ConnectionCards,
    about,
    it_request,
    oauth_shown,
    signs_in_again,
)
from silas.connections.models import (
    PERSONAL,
    CompletionPayload,
    Connection,
    ConnectionRefused,
    ConnectionStatus,
    ConnectionUnknown,
    Discovery,
    FailureReport,
    HealthCheckResult,
    covered_by,
)
from silas.connections.registry import CONNECTION, ConnectionStore
from silas.connections.scripts import (
    DISCOVER,
    HEALTH_CHECK,
    RECOVER,
    AccountFailed,
    ConnectionScripts,
    ScriptMisbehaved,
)
from silas.connections.setup import SecretRequests, SetupCancelled, SetupRun, set_up
from silas.connections.sign_ins import NOT_CONFIRMED, SignIns
from silas.egress.accounts import Tier
from silas.kernel import Clock, EgressError, IdFactory, SilasError, visible
from silas.kernel.models import problem_text
from silas.kernel.tasks import BackgroundWork, end_task
from silas.review.questions import ONCE, YES, AnsweredQuestion, Question
from silas.scheduler.cron import CronSchedule, last_due
from silas.secrets import InvalidSecret
from silas.skills.format import Skill
from silas.skills.sidecar import SkillKind

_log = logging.getLogger(__name__)
_EXPIRES_SOON, _RECENTLY_USED = timedelta(days=7), timedelta(days=30)
_REMIND_AFTER = timedelta(days=1)
_TOO_LATE = "The yes came too late to be followed. Connect it again."
_OTHER = "The account is not what the card showed. Connect it again."
_STOPPED = "Silas was stopped while it was set up. Connect it again."


@dataclass(frozen=True)
class ConnectionPolicy:
    """The settings, as far as connections are concerned."""

    health_check: str
    """When a new connection is checked, as a cron expression."""
    auto_recovery: bool
    recoveries: int
    """How often a check that fails is recovered by itself."""
    zone: ZoneInfo


@dataclass(frozen=True)
class _LastFailure:
    """Why a connection failed last, while this process remembers it."""

    report: FailureReport
    details: str = ""
    secret_kept: bool = False


@dataclass
class ConnectionManager:
    """The connections of one data directory."""

    store: ConnectionStore
    scripts: ConnectionScripts
    cards: ConnectionCards
    secrets: SecretRequests
    sign_ins: SignIns
    audit: AuditTrail
    clock: Clock
    ids: IdFactory
    policy: ConnectionPolicy
    changed: list[Callable[[], None]] = field(default_factory=list)
    """Called when something about a connection is different."""
    runs: dict[str, SetupRun] = field(default_factory=dict)
    """The setups that are on their way."""
    found: dict[str, str] = field(default_factory=dict)
    """What was found when a connection was tried out, for the owner who connects it."""
    _failures: dict[str, _LastFailure] = field(default_factory=dict)
    _reminded: dict[str, datetime] = field(default_factory=dict)
    _looked: dict[str, datetime] = field(default_factory=dict)
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    _background: BackgroundWork = field(default_factory=lambda: BackgroundWork(_log))

    # Before there is a connection (rule 1).

    async def discover_connection(
        self, skill_name: str, identity_hint: Mapping[str, str]
    ) -> Discovery:
        """What `discover.py` finds out about an account; raises `AccountFailed`."""
        return await self._discover(await self.connection_skill(skill_name), identity_hint)

    async def propose(
        self,
        skill_name: str,
        identity_hint: Mapping[str, str],
        *,
        name: str | None = None,
        domain: str = PERSONAL,
        secret_from: str | None = None,
    ) -> tuple[Connection, Question]:
        """Find an account, and put it before the owner; the card names a secret that is there."""
        await self._require_secret(secret_from)
        skill = await self.connection_skill(skill_name)
        found = await self._discover(skill, identity_hint)
        connection = await self._proposed(skill, found, name=name, domain=domain)
        question = await self.cards.ask_to_connect(
            connection, skill, guessed=not found.identity_match, secret_from=secret_from
        )
        connection = connection.model_copy(update={"question_id": question.question_id})
        await self.store.save(connection, "connection_proposed", provider=found.provider)
        self._tell()
        return connection, question

    async def connection_skill(self, name: str) -> Skill:
        """An installed skill that is a connection; raises `ConnectionRefused` or `SkillUnknown`."""
        skill = await self.scripts.loader.load(name)
        if skill.sidecar.type is not SkillKind.CONNECTION:
            raise ConnectionRefused(f"{name} is a skill, but no connection: there is no account.")
        return skill

    async def _discover(self, skill: Skill, hint: Mapping[str, str]) -> Discovery:
        request = {"type": "discover", "identity_hint": dict(hint)}
        said = await self.scripts.ask(skill, DISCOVER, request)
        try:
            return Discovery.model_validate(said)
        except ValidationError as error:
            raise ScriptMisbehaved(
                f"discover.py of {skill.name} found something that cannot be an account: "
                f"{visible(problem_text(error), keep_newlines=False)}."
            ) from error

    async def _proposed(
        self, skill: Skill, found: Discovery, *, name: str | None, domain: str
    ) -> Connection:
        """The row of the account, new or taken up again; raises `ConnectionRefused`."""
        same = [
            each
            for each in await self.store.listed()
            if (each.skill_name, each.username, each.endpoints)
            == (skill.name, found.username, found.endpoints)
        ]
        if any(each.status is not ConnectionStatus.PROPOSED for each in same):
            raise ConnectionRefused(
                f"{same[0].name} is connected already. Remove it first, or give another account."
            )
        permissions = skill.sidecar.permissions
        wanted = found.initial_permissions or permissions.initial
        if not set(wanted) <= set(permissions.initial):
            raise ScriptMisbehaved("discover.py asks for more than its skill begins with.")
        identity = same[0].connection_id if same else self.ids.new(CONNECTION)
        ref = f"connections/{identity}"
        own = visible(found.address, keep_newlines=False)
        oauth = await self.sign_ins.registration(found, ref)
        now = self.clock.now()
        return Connection(
            connection_id=identity,
            name=await self._free_name(
                name or f"{found.provider} — {own or found.username or skill.name}", but=identity
            ),
            domain=domain,
            skill_name=skill.name,
            auth_strategy=found.auth_strategy,
            provider=found.provider,
            username=found.username,
            address=own,
            endpoints=found.endpoints,
            credential="bearer" if oauth else found.credential,
            oauth=oauth,
            ref_id=ref,
            permissions_available=tuple(
                dict.fromkeys((*permissions.initial, *permissions.available))
            ),
            initial_permissions=wanted,
            health_check=self.policy.health_check,
            created_at=same[0].created_at if same else now,
            changed_at=now,
        )

    async def _free_name(self, name: str, *, but: str) -> str:
        name = visible(name, keep_newlines=False)[:120]
        taken = {
            each.name.casefold() for each in await self.store.listed() if each.connection_id != but
        }
        if name.casefold() in taken:
            raise ConnectionRefused(f"Another connection is called {name}. Choose another name.")
        return name

    # What the owner has said.

    async def answered(self, subject: str) -> None:
        """Follow the owner's answer to a card, once."""
        kind, connection_id, question_id = subject.split(":", 2)
        async with self._turn:
            connection = await self.store.get(connection_id)
            found = await self.cards.answered(question_id)
            if connection is None or found is None or not connection.sealed:
                return
            if kind == SETUP:
                await self._follow_setup(connection, found)
            elif kind == PERMISSION:
                await self._follow_permission(connection, found)
            elif kind == FAILURE:
                await self._follow_failure(connection, found.value or "")
            elif kind == EXPIRY and connection.usable and found.value == RECONNECT:
                await self._begin(connection)

    async def _follow_setup(self, connection: Connection, found: AnsweredQuestion) -> None:
        waits = connection.status is ConnectionStatus.PROPOSED
        if not waits or connection.question_id != found.question.question_id:
            return
        if found.value != YES:
            await self._back_to_proposed(connection, "You declined it.")
            return
        if not await self.cards.use(found):
            await self._back_to_proposed(connection, _TOO_LATE)
        elif not _is_as_shown(connection, found.question):
            await self._back_to_proposed(connection, _OTHER)
        else:
            shown = found.question.content.body["connection"]
            await self._begin(connection, secret_from=shown.get("secret_from"))

    async def _follow_permission(self, connection: Connection, found: AnsweredQuestion) -> None:
        wanted = tuple(found.question.content.body["requested_permissions"])
        said = " ".join(signs_in_again(connection, each) for each in wanted)
        shown = said in found.question.content.body["reason"]
        busy = connection.connection_id in self.runs
        yes = found.value in (YES, ONCE) and shown and not busy
        if not yes or not await self.cards.use(found):
            await self._deny(connection, wanted)
            return
        scopes = tuple(new for each in wanted for new in connection.scopes_for(each))
        lasting = found.value == YES
        if not scopes:
            await self._grant(connection, wanted, lasting=lasting)
            return
        run = SetupRun(connection.with_scopes(scopes), self._tell, scopes=scopes)
        self.runs[connection.connection_id] = run
        widening = partial(self._widen, run, connection, wanted, lasting=lasting)
        run.task = self._background.start(widening, f"{connection.name} was not signed in anew")
        self._tell()

    async def _grant(
        self, connection: Connection, wanted: tuple[str, ...], *, lasting: bool
    ) -> None:
        field_ = "permissions_granted" if lasting else "permissions_once"
        event = "connection_permission_granted" if lasting else "connection_permission_once"
        more = tuple(dict.fromkeys((*getattr(connection, field_), *wanted)))
        changed = connection.model_copy(update={field_: more})
        await self.store.save(changed, event, permissions=", ".join(wanted))
        self._tell()

    async def _deny(self, connection: Connection, wanted: tuple[str, ...]) -> None:
        await self.audit.log(
            "connection_permission_denied",
            connection=connection.connection_id,
            name=connection.name,
            permissions=", ".join(wanted),
        )

    async def _widen(
        self, run: SetupRun, old: Connection, wanted: tuple[str, ...], *, lasting: bool
    ) -> None:
        """Sign in for more, and only then grant it; else the old sign-in goes on (rule 4)."""
        wider, name = run.connection, old.connection_id
        try:
            skill = await self.connection_skill(old.skill_name)
            await set_up(
                run, skill, scripts=self.scripts, secrets=self.secrets, oauth=self.sign_ins.oauth
            )
            await self.sign_ins.require(wider, run.scopes)
            now = await self._again(old)
            if not now.sealed or (now.ref_id, now.oauth) != (old.ref_id, old.oauth):
                raise SetupCancelled(_OTHER)
            signed_in = {"ref_id": wider.ref_id, "oauth": wider.oauth}
            await self._grant(now.model_copy(update=signed_in), wanted, lasting=lasting)
            await self.store.note(name, problem="")
        except asyncio.CancelledError:
            await self._deny(old, wanted)
            raise
        except SilasError as error:
            await self.store.note(name, problem=f"It may do no more than before: {error.message}")
            await self._deny(old, wanted)
        finally:
            await self._keep_one_sign_in(name)
            self.runs.pop(name, None)
            self._tell()

    async def _keep_one_sign_in(self, connection_id: str) -> None:
        """Forget the sign-in that is not the connection's own, if there is one."""
        connection = await self.store.get(connection_id)
        if connection is not None and connection.oauth is not None and connection.sealed:
            await self.sign_ins.replace(connection.with_scopes(()))
            await self.sign_ins.note_ends(connection)

    async def _follow_failure(self, connection: Connection, action: str) -> None:
        if connection.status is not ConnectionStatus.FAILED:
            return
        if action in ("retry", "reconnect"):
            await self._begin(connection)
        elif action == "retry_fewer_permissions" and connection.fewer_permissions:
            fewer = {"permissions_granted": connection.fewer_permissions}
            await self._begin(connection.model_copy(update=fewer))
        elif action == "retry_later":
            active = connection.model_copy(update={"status": ConnectionStatus.ACTIVE})
            await self.store.save(active, "connection_tried_later")
        elif action == "use_personal_account":
            left = (
                f"You left this account. `silas connect {connection.skill_name}` connects another."
            )
            await self._back_to_proposed(connection, left)
        elif action in ("show_details", "draft_it_request"):
            await self._tell_more(connection, draft=action == "draft_it_request")
        self._tell()

    async def _tell_more(self, connection: Connection, *, draft: bool) -> None:
        last = self._failures.get(
            connection.connection_id, _LastFailure(FailureReport(message=connection.problem))
        )
        more = (
            {"draft": it_request(connection, await self.connection_skill(connection.skill_name))}
            if draft
            else {"details": last.details or "Its script has said nothing more."}
        )
        await self.cards.tell_failure(connection, last.report, secret_kept=last.secret_kept, **more)

    # Setting up (rules 1 and 2).

    async def run_setup_flow(self, connection_id: str) -> None:
        """Set up an account that the owner has said yes to before, and that has failed."""
        await self._begin(await self._to_set_up_again(connection_id))

    async def activate_connection(self, connection_id: str, reference: str) -> None:
        """The same with a secret that is in the vault: nobody is asked for it."""
        await self._require_secret(reference)
        connection = await self._to_set_up_again(connection_id)
        await self._begin(connection, secret_from=reference)

    async def _to_set_up_again(self, connection_id: str) -> Connection:
        connection = await self.store.find(connection_id)
        if connection.status is not ConnectionStatus.FAILED or not connection.sealed:
            raise ConnectionRefused(f"{connection.name} has not failed: nothing is to be set up.")
        await self.cards.close(about(FAILURE, connection))
        return connection

    async def _require_secret(self, reference: str | None) -> None:
        if reference is None:
            return
        try:
            held = await self.secrets.holds(reference)
        except InvalidSecret:  # no secret has such a name
            held = False
        if not held:
            raise ConnectionRefused(
                f"The vault holds no {reference!a} of yours. `silas secrets set` stores a secret."
            )

    async def _begin(self, connection: Connection, *, secret_from: str | None = None) -> None:
        started = connection.model_copy(
            update={"status": ConnectionStatus.CONNECTING, "problem": ""}
        )
        started = await self.store.save(started, "connection_setup_started")
        run = SetupRun(started, self._tell, secret_from=secret_from)
        self.runs[started.connection_id] = run
        setting_up = partial(self._set_up, run)
        run.task = self._background.start(setting_up, f"{started.name} was not set up")
        self._tell()

    async def _set_up(self, run: SetupRun) -> None:
        connection = run.connection
        try:
            skill = await self.connection_skill(connection.skill_name)
            done = await set_up(
                run, skill, scripts=self.scripts, secrets=self.secrets, oauth=self.sign_ins.oauth
            )
            await self._activate(connection, done)
        except (asyncio.CancelledError, SetupCancelled) as error:
            told = error.message if isinstance(error, SetupCancelled) else "You cancelled it."
            await self._back_to_proposed(connection, told)
            if isinstance(error, asyncio.CancelledError):
                raise
        except SilasError as error:
            await self.sign_ins.forget(connection)
            report = error.report if isinstance(error, AccountFailed) else None
            report = report or FailureReport(message=error.message)
            last = _LastFailure(report, "\n".join(run.logged), secret_kept=False)
            await self._fail(connection, last)
        finally:
            self.runs.pop(connection.connection_id, None)
            self._tell()

    async def _activate(self, connection: Connection, done: CompletionPayload) -> None:
        """Register it; the script can say that less was granted than the owner said, not more."""
        granted = connection.permissions_granted or connection.initial_permissions
        said = done.permissions_granted
        kept = tuple(each for each in granted if not said or each in said) or granted
        active = connection.model_copy(
            update={
                "status": ConnectionStatus.ACTIVE,
                "permissions_granted": kept,
                "last_health_check": self.clock.now(),
                "problem": "",
            }
        )
        self.found[connection.connection_id] = done.summary
        await self.store.save(active, "connection_activated", permissions=", ".join(kept))
        await self.sign_ins.note_ends(active)

    async def _back_to_proposed(self, connection: Connection, reason: str) -> None:
        """Rule 2."""
        await self.sign_ins.forget(connection)
        back = connection.model_copy(
            update={
                "status": ConnectionStatus.PROPOSED,
                "problem": reason,
                "permissions_granted": (),
                "permissions_once": (),
            }
        )
        await self.store.save(back, "connection_not_set_up", reason=reason)
        self._tell()

    async def cancel(self, named: str) -> Connection:
        """End a setup, wherever it is."""
        connection = await self.store.find(named)
        await self.cards.close(about(SETUP, connection))
        run = self.runs.get(connection.connection_id)
        if run is not None and run.task is not None:
            await end_task(run.task)
        elif connection.status is ConnectionStatus.CONNECTING:
            await self._back_to_proposed(connection, _STOPPED)
        elif connection.status is not ConnectionStatus.PROPOSED:
            raise ConnectionRefused(f"{connection.name} is not being set up.")
        return await self._again(connection)

    async def take_up(self) -> None:
        """Rule 6."""
        for connection in await self.store.listed():
            if connection.status is ConnectionStatus.CONNECTING:
                await self._back_to_proposed(connection, _STOPPED)
            await self._keep_one_sign_in(connection.connection_id)

    async def close(self) -> None:
        """End what is on its way."""
        for run in list(self.runs.values()):
            if run.task is not None:
                await end_task(run.task)

    # Permissions (rule 4).

    async def escalate_permission(
        self, named: str, permission: str, reason: str
    ) -> Question | None:
        """Ask the owner to let a connection do more; None: it may do it already."""
        connection = await self.store.find(named)
        available = connection.permissions_available
        if permission not in available:
            known = ", ".join(available)
            raise ConnectionRefused(
                f"{connection.name} has no permission {permission!a}. There are: {known}."
            )
        if connection.status not in (ConnectionStatus.ACTIVE, ConnectionStatus.PAUSED):
            raise ConnectionRefused(f"{connection.name} is not connected yet.")
        if connection.connection_id in self.runs:
            raise ConnectionRefused(f"You are signing in for {connection.name}. Finish it first.")
        if permission in covered_by(connection.permissions_granted, available):
            return None
        return await self.cards.ask_for_more(connection, permission, reason)

    async def reduce_permission(self, named: str, permission: str) -> Connection:
        """Take a permission back, also one for a single call; what a connection began with goes by
        removing it."""
        connection = await self.store.find(named)
        granted, once = connection.permissions_granted, connection.permissions_once
        if permission not in (*granted, *once):
            raise ConnectionRefused(f"{connection.name} was not granted {permission!a}.")
        kept = tuple(each for each in granted if each != permission)
        if not kept:
            raise ConnectionRefused(
                f"{connection.name} could do nothing then. `silas connections remove` ends it."
            )
        available = connection.permissions_available
        left = tuple(each for each in once if permission not in covered_by([each], available))
        changed = connection.model_copy(
            update={"permissions_granted": kept, "permissions_once": left}
        )
        changed = await self.store.save(
            changed, "connection_permission_taken", permissions=permission
        )
        self._tell()
        return changed

    # Health (rule 3).

    async def run_health_checks(self) -> list[HealthCheckResult]:
        """Check every active connection now."""
        return [
            await self.check(each.connection_id)
            for each in await self.store.listed()
            if each.usable
        ]

    async def look(self) -> None:
        """Check what is due."""
        now = self.clock.now()
        for each in await self.store.listed():
            if each.usable and each.oauth is not None:
                await self.schedule_proactive_refresh(each.connection_id)
        for each in await self.store.listed():
            since = max(
                each.last_health_check or each.created_at,
                self._looked.get(each.connection_id, each.created_at),
            )
            schedule = CronSchedule.parse(each.health_check)
            due = last_due(schedule, now, zone=self.policy.zone)
            if due is not None and due > since and await self._is_watched(each):
                self._looked[each.connection_id] = now
                await self.check(each.connection_id, recover=each.usable)

    async def _is_watched(self, connection: Connection) -> bool:
        if connection.status is not ConnectionStatus.FAILED or not connection.sealed:
            return connection.usable
        return await self.cards.passes_by_itself(connection)

    async def check(self, named: str, *, recover: bool = True) -> HealthCheckResult:
        """Whether a connection works, found out by using it; what fails is recovered once."""
        connection = await self.store.find(named)
        if connection.status not in (ConnectionStatus.ACTIVE, ConnectionStatus.FAILED):
            raise ConnectionRefused(
                f"{connection.name} is {connection.status.value}, and is not checked."
            )
        result, report = await self._examine(connection)
        attempts = self.policy.recoveries if self.policy.auto_recovery and recover else 0
        for _ in range(0 if result.healthy else attempts):
            recovered, _reason = await self.recover(connection.connection_id, result.error or "")
            if recovered:
                result, report = await self._examine(connection)
                break
        result, report = await self.sign_ins.judged(connection, result, report)
        await self._keep(connection, result, report)
        return result

    # Tokens (spec 5.10.3).

    async def schedule_proactive_refresh(self, connection_id: str) -> None:
        """Renew tokens that end soon; called again and again, so that nothing else is planned."""
        await self._renewed(await self.store.find(connection_id), self.sign_ins.renew_if_due)

    async def refresh_token(self, connection_id: str) -> bool:
        """Renew the tokens of a sign-in now; one that was taken back fails the connection."""
        connection = await self.store.find(connection_id)
        if connection.oauth is None:
            raise ConnectionRefused(f"{connection.name} has a password, which is not renewed.")
        return await self._renewed(connection, self.sign_ins.renew)

    async def _renewed(
        self,
        connection: Connection,
        renew: Callable[[Connection, datetime], Awaitable[FailureReport | None]],
    ) -> bool:
        try:
            report = await renew(connection, self.clock.now())
        except EgressError as error:  # an outage: the next look tries again
            await self.store.note(connection.connection_id, problem=error.message)
            return False
        if report is not None:
            await self._fail(connection, _LastFailure(report, secret_kept=False))
        return report is None

    async def recover(self, named: str, error: str = "") -> tuple[bool, str]:
        """Let the connection's own script try to restore it; if it cannot, the reason."""
        connection = await self.store.find(named)
        request = {
            "type": "recover",
            "connection_id": connection.connection_id,
            "error": error,
        }
        try:
            skill = await self.connection_skill(connection.skill_name)
            if RECOVER not in skill.tree.by_path:
                return False, "The connection has no way to recover."
            said = await self.scripts.ask(
                skill, RECOVER, request, account=connection.account(Tier.OBSERVE)
            )
        except SilasError as failed:
            return False, failed.message
        return said.get("success") is True, ""

    async def _examine(
        self, connection: Connection
    ) -> tuple[HealthCheckResult, FailureReport | None]:
        request = {"type": "health_check", "connection_id": connection.connection_id}
        try:
            skill = await self.connection_skill(connection.skill_name)
            said = await self.scripts.ask(
                skill, HEALTH_CHECK, request, account=connection.account(Tier.OBSERVE)
            )
            result = HealthCheckResult.model_validate(said)
        except AccountFailed as failed:
            return HealthCheckResult(healthy=False, error=failed.message), failed.report
        except ValidationError:
            error = "health_check.py said something that Silas does not understand."
            return HealthCheckResult(healthy=False, error=error), FailureReport(message=error)
        except SilasError as failed:
            return (
                HealthCheckResult(healthy=False, error=failed.message),
                FailureReport(message=failed.message),
            )
        if result.healthy:
            return result, None
        return result, FailureReport(message=result.error or "The check did not say why.")

    async def _keep(
        self, connection: Connection, result: HealthCheckResult, report: FailureReport | None
    ) -> None:
        name, now = connection.connection_id, self.clock.now()
        if report is not None:
            await self._fail(connection, _LastFailure(report, secret_kept=True))
            return
        await self.store.note(
            name,
            last_health_check=now,
            token_expires_at=result.token_expires_at,
            refresh_token_expires_at=result.refresh_token_expires_at,
            problem="",
        )
        await self._suggest_reconnect(connection, result.refresh_token_expires_at)
        if connection.status is ConnectionStatus.FAILED:
            await self.cards.close(about(FAILURE, connection))
            well = (await self._again(connection)).model_copy(
                update={"status": ConnectionStatus.ACTIVE}
            )
            await self.store.save(well, "connection_recovered")
        self._tell()

    async def _suggest_reconnect(self, connection: Connection, ends: datetime | None) -> None:
        """Ask to sign in again, a week before it is needed, once a day at most."""
        now, used = self.clock.now(), connection.last_used_at
        name = connection.connection_id
        soon = ends is not None and now < ends <= now + _EXPIRES_SOON
        in_use = used is not None and used > now - _RECENTLY_USED
        asked = self._reminded.get(name)
        if ends is None or not soon or not in_use or (asked and now < asked + _REMIND_AFTER):
            return
        self._reminded[name] = now
        await self.cards.suggest_reconnect(connection, (ends - now).days)

    async def _fail(self, connection: Connection, last: _LastFailure) -> None:
        report = last.report
        reason = visible(report.message, keep_newlines=False)[:500]
        known = connection.status is ConnectionStatus.FAILED and connection.problem == reason
        self._failures[connection.connection_id] = last
        failed = connection.model_copy(
            update={"status": ConnectionStatus.FAILED, "problem": reason}
        )
        if not known:
            await self.store.save(failed, "connection_failed", kind=report.failure_type)
            await self.cards.tell_failure(failed, report, secret_kept=last.secret_kept)
        self._tell()

    # What the owner does with one (rule 5).

    async def list_connections(self, domain: str | None = None) -> list[Connection]:
        """All connections, or those of one domain."""
        every = await self.store.listed()
        return [each for each in every if domain is None or each.domain == domain]

    async def pause(self, named: str) -> Connection:
        """Let nothing use it."""
        connection = await self.store.find(named)
        if connection.status is not ConnectionStatus.ACTIVE:
            raise ConnectionRefused(f"{connection.name} is {connection.status.value}, not active.")
        return await self._with(connection, "connection_paused", status=ConnectionStatus.PAUSED)

    async def resume(self, named: str) -> Connection:
        """Let it be used again."""
        connection = await self.store.find(named)
        if connection.status is not ConnectionStatus.PAUSED or not connection.sealed:
            raise ConnectionRefused(f"{connection.name} is {connection.status.value}, not paused.")
        return await self._with(connection, "connection_resumed", status=ConnectionStatus.ACTIVE)

    async def rename(self, named: str, new_name: str) -> Connection:
        """Call it otherwise."""
        connection = await self.store.find(named)
        if not connection.sealed:
            raise ConnectionRefused("This connection was changed by somebody else. Remove it.")
        free = await self._free_name(new_name, but=connection.connection_id)
        return await self._with(connection, "connection_renamed", name=free)

    async def remove(self, named: str) -> Connection:
        """Forget it, with its secret and everything that waits about it."""
        connection = await self.store.find(named)
        run = self.runs.get(connection.connection_id)
        if run is not None and run.task is not None:
            await end_task(run.task)
        for question in await self.cards.waiting(connection):
            await self.cards.questions.close(question.question_id, "outdated")
        confirmed = await self.sign_ins.forget(connection)
        await self.store.remove(connection)
        self._tell()
        return connection.model_copy(update={"problem": "" if confirmed else NOT_CONFIRMED})

    async def _with(self, connection: Connection, event: str, **values: Any) -> Connection:
        changed = await self.store.save(connection.model_copy(update=values), event)
        self._tell()
        return changed

    async def _again(self, connection: Connection) -> Connection:
        found = await self.store.get(connection.connection_id)
        if found is None:
            raise ConnectionUnknown
        return found

    def _tell(self) -> None:
        for hear in self.changed:
            hear()


def _is_as_shown(connection: Connection, question: Question) -> bool:
    """Whether the row is what the card showed, and the owner has signed."""
    shown = question.content.body["connection"]
    return shown["connection_id"] == connection.connection_id and (
        shown["username"],
        shown.get("address", ""),
        shown["skill"],
        shown["domain"],
        tuple(shown["permissions"]),
        shown["endpoints"],
        shown.get("oauth"),
    ) == (
        connection.username,
        connection.address,
        connection.skill_name,
        connection.domain,
        connection.initial_permissions,
        [each.model_dump(mode="json") for each in connection.endpoints],
        oauth_shown(connection),
    )
