"""An account is set up: a conversation between a script, which knows the service, and the owner.

1. The script names the steps. Silas asks the owner or lets the owner sign in at the provider, keeps
   the secret, and says whether it is there; no value ever reaches the script. A secret that the
   owner has named in the vault is copied there, and nobody is asked.
2. The name of a secret in the vault is Silas' own choice: a script cannot name another one's.
3. The script's servers answer by the broker, with the least that the owner has granted.
4. A script that is silent for long, says what nobody understands or dies has failed.
5. Whatever ends it before the account works, the secret is forgotten and no request for it is left.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Protocol

from pydantic import TypeAdapter, ValidationError

from silas.connections.models import (
    CompletionPayload,
    Connection,
    ConnectionRefused,
    FailureKind,
    FailureReport,
    RequestedSecret,
    SecureInputStep,
    SetupStep,
    SignInShown,
    SignInStep,
    tier_of,
)
from silas.connections.scripts import (
    PROBE,
    SETUP,
    AccountFailed,
    ConnectionScripts,
    ScriptConversation,
    ScriptMisbehaved,
    failure_in,
)
from silas.egress.accounts import OAuthRegistration, Tier
from silas.egress.oauth import (
    REDIRECT_SECONDS,
    GrantRevoked,
    OAuthClient,
    OAuthDenied,
    OAuthUnreachable,
)
from silas.kernel import EgressError, visible
from silas.skills.format import Skill

_SILENCE_SECONDS = 120.0
_MAX_LOGGED = 20
_STEP: TypeAdapter[Any] = TypeAdapter(SetupStep)
CLIENT_SECRET = "client_secret"  # noqa: S105 - the name of a step
"""The step at which the owner types the secret of a client of their own."""
_NOT_UNDERSTOOD = "setup.py of the connection said something that Silas does not understand."


class SetupCancelled(ConnectionRefused):
    """The owner does not go on with it."""

    code = "E_CONNECTION_CANCELLED"


class SecretRequests(Protocol):
    """Where the owner types secrets, outside of every conversation."""

    async def collect(
        self, ref_id: str, label: str, *, input_hint: str, guidance: dict[str, Any]
    ) -> bool:
        """Ask for it and wait; whether it is in the vault then."""
        ...

    async def holds(self, ref_id: str) -> bool:
        """Whether the vault has a secret of the owner's own under this name."""
        ...

    async def copy(self, source: str, ref_id: str) -> bool:
        """Keep such a secret under a second name; False: there is none."""
        ...

    async def forget(self, ref_id: str) -> None:
        """Withdraw the request, and remove what was typed."""
        ...


@dataclass
class SetupRun:
    """One setup on its way, as lists show it."""

    connection: Connection
    told: Callable[[], None]
    message: str = ""
    wants_secret: str | None = None
    """The name of the secret that the owner is asked to type now."""
    guidance: str = ""
    """Which secret that is, and where the owner gets it."""
    sign_in: SignInShown | None = None
    """How the owner signs in at the provider now."""
    logged: list[str] = field(default_factory=list)
    task: asyncio.Task[None] | None = None
    secret_from: str | None = None
    """Where the vault has the secret already; None: the owner types it."""
    scopes: tuple[str, ...] = ()
    """What a sign-in is to cover in addition; none: it is the first one."""

    def say(self, message: str) -> None:
        """Say how far it is."""
        self.message = message
        self.told()


def least_tier(connection: Connection) -> Tier:
    """As far as a connection goes when it is set up."""
    tiers = [tier_of(each) for each in connection.initial_permissions] or [Tier.OBSERVE]
    return min(tiers, key=list(Tier).index)


async def set_up(
    run: SetupRun,
    skill: Skill,
    *,
    scripts: ConnectionScripts,
    secrets: SecretRequests,
    oauth: OAuthClient,
) -> CompletionPayload:
    """Lead the conversation to its end, and try the account out."""
    done = await _converse(run, skill, scripts, _Owner(run, secrets, oauth))
    run.say("Silas tries it out.")
    if PROBE not in skill.tree.by_path:
        return done
    connection = run.connection
    request = {
        "type": "probe",
        "connection_id": connection.connection_id,
        "capability": next(iter(connection.initial_permissions), ""),
    }
    found = await scripts.ask(
        skill, PROBE, request, account=connection.account(least_tier(connection))
    )
    summary = str(found.get("summary") or done.summary)
    return done.model_copy(update={"summary": visible(summary[:500], keep_newlines=False)})


async def _converse(
    run: SetupRun, skill: Skill, scripts: ConnectionScripts, owner: "_Owner"
) -> CompletionPayload:
    connection = run.connection
    run.say("Silas starts the setup.")
    steps: dict[str, SecureInputStep | SignInStep] = {}
    client = connection.oauth
    account = connection.account(least_tier(connection))
    async with scripts.talk(skill, SETUP, account=account) as talk:
        talk.send(
            type="start",
            connection_id=connection.connection_id,
            auth_strategy=connection.auth_strategy.value,
            initial_permissions=list(
                connection.permissions_granted or connection.initial_permissions
            ),
            incremental_scopes=list(run.scopes),
            identity_hint={"identity": connection.identity},
            client_secret=client is not None
            and client.client_secret_ref is not None
            and not run.scopes,
        )
        try:
            while True:
                done = await _heard(run, talk, await _next(talk), steps, owner)
                if done is not None:
                    return done
        except (asyncio.CancelledError, SetupCancelled):
            talk.send(type="cancel", reason="user_cancelled")
            raise


async def _next(talk: ScriptConversation) -> dict[str, Any]:
    """Rule 4."""
    try:
        async with asyncio.timeout(_SILENCE_SECONDS):
            said = await talk.next()
    except TimeoutError as error:
        raise ScriptMisbehaved("setup.py of the connection said nothing for long.") from error
    if said is None:
        raise ScriptMisbehaved("setup.py of the connection ended before it was done.")
    return said


async def _heard(
    run: SetupRun,
    talk: ScriptConversation,
    said: dict[str, Any],
    steps: dict[str, SecureInputStep | SignInStep],
    owner: "_Owner",
) -> CompletionPayload | None:
    """Follow one event; what a setup that has worked says, once it does."""
    try:
        match said.get("type"):
            case "log":
                line = visible(str(said.get("message", ""))[:500], keep_newlines=False)
                run.logged = [*run.logged, line][-_MAX_LOGGED:]
            case "setup_step":
                step = _STEP.validate_python(said.get("step"))
                if isinstance(step, SecureInputStep | SignInStep):
                    steps[str(said["step_id"])] = step
                else:
                    run.say(visible(step.message, keep_newlines=False))
            case "await_input":
                name = str(said["step_id"])
                step = steps[name]
                if isinstance(step, SignInStep):
                    payload = await owner.signs_in(step.type)
                else:
                    payload = await owner.types(step.request)
                talk.send(type="step_result", step_id=name, payload=payload)
            case "completion":
                return CompletionPayload.model_validate(said.get("connection_payload") or {})
            case "failure":
                raise AccountFailed(failure_in(said) or FailureReport(message=_NOT_UNDERSTOOD))
            case _:
                raise ScriptMisbehaved(_NOT_UNDERSTOOD)
    except (ValidationError, KeyError) as error:
        raise ScriptMisbehaved(_NOT_UNDERSTOOD) from error
    return None


@dataclass(frozen=True)
class _Owner:
    """Whoever the script asks for: types secrets, and signs in at the provider."""

    run: SetupRun
    secrets: SecretRequests
    oauth: OAuthClient

    async def types(self, request: RequestedSecret) -> dict[str, Any]:
        """Rules 1 and 2."""
        run, connection = self.run, self.run.connection
        ref = connection.ref_id
        if connection.oauth is not None:
            if request.ref_id != CLIENT_SECRET or connection.oauth.client_secret_ref is None:
                raise ScriptMisbehaved("setup.py asks for a password that nothing would use.")
            ref = connection.oauth.client_secret_ref
        if run.secret_from is None:
            await self._asked(request, ref)
        elif not await self.secrets.copy(run.secret_from, ref):
            raise ConnectionRefused(f"The vault holds no {run.secret_from!a} any more.")
        run.say("It is in the vault.")
        return {"ref_id": request.ref_id, "success": True}

    async def _asked(self, request: RequestedSecret, ref: str) -> None:
        """Raises `SetupCancelled`."""
        run = self.run
        run.wants_secret, run.guidance = ref, _in_words(request)
        run.say(f"You are asked for: {visible(request.label, keep_newlines=False)}.")
        try:
            stored = await self.secrets.collect(
                ref,
                visible(f"{request.label}: {run.connection.name}"[:200], keep_newlines=False),
                input_hint=request.input_hint or "",
                guidance={key: value for key, value in request.guidance.items() if value},
            )
        finally:
            run.wants_secret, run.guidance = None, ""
        if not stored:
            raise SetupCancelled("You did not type it, so nothing was connected.")

    async def signs_in(self, kind: str) -> dict[str, Any]:
        """Rule 1, at the provider's own page; raises `AccountFailed`."""
        connection = self.run.connection
        if connection.oauth is None or kind != connection.auth_strategy.value:
            raise ScriptMisbehaved("setup.py asks for a sign-in that the card did not show.")
        try:
            await (self._by_code() if kind == "device_code" else self._by_browser())
        except EgressError as error:
            report = FailureReport(
                failure_type=_kind_of(error), service=connection.provider, message=error.message
            )
            raise AccountFailed(report) from error
        finally:
            self.run.sign_in = None
        self.run.say("You are signed in. The tokens are in the vault.")
        return {"ref_id": "sign_in", "success": True}

    async def _by_code(self) -> None:
        credential = self.run.connection.credential_ref
        started = await self.oauth.start_device(_client(credential.oauth))
        self._show(
            SignInShown(
                kind="device_code",
                url=started.verification_url,
                user_code=visible(started.user_code, keep_newlines=False),
                expires_at=started.expires_at,
            ),
            "Enter the code at the provider.",
        )
        await self.oauth.finish_device(credential, started)

    async def _by_browser(self) -> None:
        credential = self.run.connection.credential_ref
        started = await self.oauth.start_redirect(_client(credential.oauth))
        try:
            self._show(
                SignInShown(
                    kind="browser_redirect",
                    url=started.auth_url,
                    listening_on=started.listening_on,
                    expires_at=self.oauth.clock.now() + timedelta(seconds=REDIRECT_SECONDS),
                ),
                "Open the provider's sign-in page in a browser on this machine.",
            )
            await self.oauth.finish_redirect(credential, started)
        finally:
            started.close()  # rule 5

    def _show(self, sign_in: SignInShown, message: str) -> None:
        self.run.sign_in = sign_in
        self.run.say(message)


def _in_words(request: RequestedSecret) -> str:
    known = (request.guidance.get(each) for each in ("instructions", "help_url"))
    told = [request.label, *(each for each in known if each)]
    return visible("\n".join(told), keep_newlines=True)


def _client(registration: OAuthRegistration | None) -> OAuthRegistration:
    if registration is None:
        raise ScriptMisbehaved(_NOT_UNDERSTOOD)
    return registration


def _kind_of(error: EgressError) -> FailureKind:
    if isinstance(error, OAuthDenied):
        return "consent_denied"
    if isinstance(error, GrantRevoked):
        return "token_revoked"
    if isinstance(error, OAuthUnreachable):
        return "service_unavailable"
    return "unknown"
