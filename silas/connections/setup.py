"""An account is set up: a conversation between a script, which knows the service, and the owner.

1. The script names the steps. Silas asks the owner, keeps the secret, and says whether it is there;
   no value ever reaches the script.
2. The name of a secret in the vault is Silas' own choice: a script cannot name another one's.
3. The script's servers answer by the broker, with the least that the owner has granted.
4. A script that is silent for long, says what nobody understands or dies has failed.
5. Whatever ends it before the account works, the secret is forgotten and no request for it is left.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from pydantic import TypeAdapter, ValidationError

from silas.connections.models import (
    CompletionPayload,
    Connection,
    ConnectionRefused,
    FailureReport,
    RequestedSecret,
    SecureInputStep,
    SetupStep,
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
from silas.egress.accounts import Tier
from silas.kernel import visible
from silas.skills.format import Skill

_SILENCE_SECONDS = 120.0
_MAX_LOGGED = 20
_STEP: TypeAdapter[Any] = TypeAdapter(SetupStep)
_NOT_UNDERSTOOD = "setup.py of the connection said something that Silas does not understand."


class SetupCancelled(ConnectionRefused):
    """The owner does not go on with it."""

    code = "E_CONNECTION_CANCELLED"


class SecretDesk(Protocol):
    """Where the owner types secrets, outside of every conversation."""

    async def collect(
        self, ref_id: str, label: str, *, input_hint: str, guidance: dict[str, Any]
    ) -> bool:
        """Ask for it and wait; whether it is in the vault then."""
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
    secret: RequestedSecret | None = None
    """What the owner is asked to type now."""
    logged: list[str] = field(default_factory=list)
    task: asyncio.Task[None] | None = None

    def say(self, message: str) -> None:
        """Say how far it is."""
        self.message = message
        self.told()


def least_tier(connection: Connection) -> Tier:
    """As far as a connection goes when it is set up."""
    tiers = [tier_of(each) for each in connection.initial_permissions] or [Tier.OBSERVE]
    return min(tiers, key=list(Tier).index)


async def set_up(
    run: SetupRun, skill: Skill, *, scripts: ConnectionScripts, secrets: SecretDesk
) -> CompletionPayload:
    """Lead the conversation to its end, and try the account out."""
    done = await _converse(run, skill, scripts, secrets)
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
    run: SetupRun, skill: Skill, scripts: ConnectionScripts, secrets: SecretDesk
) -> CompletionPayload:
    connection = run.connection
    run.say("Silas starts the setup.")
    steps: dict[str, SecureInputStep] = {}
    account = connection.account(least_tier(connection))
    async with scripts.talk(skill, SETUP, account=account) as talk:
        talk.send(
            type="start",
            connection_id=connection.connection_id,
            auth_strategy=connection.auth_strategy.value,
            initial_permissions=list(connection.initial_permissions),
            incremental_scopes=[],
            identity_hint={"identity": connection.username},
        )
        try:
            while True:
                done = await _heard(run, talk, await _next(talk), steps, secrets)
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
    steps: dict[str, SecureInputStep],
    secrets: SecretDesk,
) -> CompletionPayload | None:
    """Follow one event; what a setup that has worked says, once it does."""
    try:
        match said.get("type"):
            case "log":
                line = visible(str(said.get("message", ""))[:500], keep_newlines=False)
                run.logged = [*run.logged, line][-_MAX_LOGGED:]
            case "setup_step":
                step = _STEP.validate_python(said.get("step"))
                if isinstance(step, SecureInputStep):
                    steps[str(said["step_id"])] = step
                else:
                    run.say(visible(step.message, keep_newlines=False))
            case "await_input":
                name = str(said["step_id"])
                talk.send(
                    type="step_result",
                    step_id=name,
                    payload=await _collect(run, steps[name].request, secrets),
                )
            case "completion":
                return CompletionPayload.model_validate(said.get("connection_payload") or {})
            case "failure":
                raise AccountFailed(failure_in(said) or FailureReport(message=_NOT_UNDERSTOOD))
            case _:
                raise ScriptMisbehaved(_NOT_UNDERSTOOD)
    except (ValidationError, KeyError) as error:
        raise ScriptMisbehaved(_NOT_UNDERSTOOD) from error
    return None


async def _collect(run: SetupRun, request: RequestedSecret, secrets: SecretDesk) -> dict[str, Any]:
    """Rules 1 and 2."""
    connection = run.connection
    run.secret = request
    run.say("You are asked for the password.")
    try:
        stored = await secrets.collect(
            connection.ref_id,
            visible(f"{request.label}: {connection.name}"[:200], keep_newlines=False),
            input_hint=request.input_hint or "",
            guidance={key: value for key, value in request.guidance.items() if value},
        )
    finally:
        run.secret = None
    if not stored:
        raise SetupCancelled("You did not type the password, so nothing was connected.")
    run.say("The password is in the vault.")
    return {"ref_id": request.ref_id, "success": True}
