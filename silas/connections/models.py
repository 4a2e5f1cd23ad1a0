"""What a connection is, what its scripts say, and what can be done when it fails.

What scripts say comes from outside: it is read strictly, and what is not understood is refused.
"""

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, StrictBool

from silas.egress.accounts import (
    BrokeredAccount,
    CredentialRef,
    Endpoint,
    OAuthRegistration,
    Tier,
)
from silas.kernel import AccountError
from silas.kernel.models import Data, UtcDatetime, text_like
from silas.skills.sidecar import AuthStrategy, PermissionName

PERSONAL = "personal"
_MAX_ENDPOINTS = 6
_SKIP = "skip"
ConnectionName = Annotated[
    str,
    Field(min_length=1, max_length=120),
    text_like(r"[^\x00-\x1f\x7f]*\S[^\x00-\x1f\x7f]*", "must be a name in one line"),
]
DomainName = Annotated[
    str,
    Field(max_length=80),
    text_like(
        r"[a-z][a-z0-9-]*(?::[a-z0-9][a-z0-9-]*)?",
        "must be a name such as `personal` or `business:acme`",
    ),
]
ShortText = Annotated[str, Field(max_length=500)]
LongText = Annotated[str, Field(max_length=4000)]


class ConnectionUnknown(AccountError):
    """There is no such connection. `silas connections list` shows those that there are."""

    code = "E_CONNECTION_UNKNOWN"


class ConnectionRefused(AccountError):
    """This cannot be done with the connection. The sentence says why, and what can be done."""

    code = "E_CONNECTION_REFUSED"


class ConnectionStatus(StrEnum):
    """Where a connection is in its life."""

    PROPOSED = "proposed"
    """It waits for the owner, or was cancelled."""
    CONNECTING = "connecting"
    """The owner has said yes, and the account is being set up."""
    ACTIVE = "active"
    PAUSED = "paused"
    FAILED = "failed"


def tier_of(permission: str) -> Tier:
    """How far a permission goes; one that does not say so counts as `act`."""
    last = permission.rpartition(".")[2]
    return Tier(last) if last in set(Tier) else Tier.ACT


def covered_by(granted: Collection[str], available: Collection[str]) -> list[str]:
    """What was granted, and what it includes: who may act may look."""
    levels = list(Tier)
    found = set(granted)
    for each in granted:
        resource, _, _ = each.rpartition(".")
        below = levels[: levels.index(tier_of(each))] if resource else []
        found |= {f"{resource}.{tier.value}" for tier in below} & set(available)
    return sorted(found)


class Connection(Data):
    """One account: the fields of the registry."""

    connection_id: str
    name: ConnectionName
    domain: DomainName = PERSONAL
    skill_name: str
    auth_strategy: AuthStrategy
    provider: str = ""
    username: str = ""
    address: str = ""
    """The owner's own address there, if it is another than the name that they sign in with."""
    endpoints: tuple[Endpoint, ...] = ()
    credential: Literal["password", "bearer"] = "password"
    """Whether it is a password or a token: the broker signs in with either."""
    oauth: OAuthRegistration | None = None
    """Where the owner signs in, as which client and for what; None: the secret was typed."""
    ref_id: str
    """Where its credential is in the vault."""
    permissions_granted: tuple[str, ...] = ()
    permissions_available: tuple[str, ...] = ()
    permissions_once: tuple[str, ...] = ()
    """Granted for the next call that needs it, and gone with it."""
    initial_permissions: tuple[str, ...] = ()
    """What the owner granted when it was set up; it is never changed."""
    status: ConnectionStatus = ConnectionStatus.PROPOSED
    health_check: str
    """When it is checked, as a cron expression."""
    token_expires_at: UtcDatetime | None = None
    refresh_token_expires_at: UtcDatetime | None = None
    last_health_check: UtcDatetime | None = None
    last_refresh: UtcDatetime | None = None
    last_used_at: UtcDatetime | None = None
    problem: str = ""
    """Why it does not work, in words."""
    question_id: str | None = None
    """The card that asks about it."""
    created_at: UtcDatetime
    changed_at: UtcDatetime
    sealed: bool = False
    """Whether the row is as the owner's key has sealed it; if not, nothing uses it."""

    @property
    def identity(self) -> str:
        """Whose account it is, as others know them."""
        return self.address or self.username

    @property
    def permissions(self) -> list[Tier]:
        """The tiers that were granted, the least first."""
        granted = {tier_of(each) for each in self.permissions_granted}
        return [tier for tier in Tier if tier in granted]

    @property
    def fewer_permissions(self) -> tuple[str, ...]:
        """Those that it began with and that only look; none if it began with nothing else."""
        looks = tuple(each for each in self.initial_permissions if tier_of(each) is Tier.OBSERVE)
        return looks if len(looks) < len(self.initial_permissions) else ()

    @property
    def usable(self) -> bool:
        """Whether work may use it."""
        return self.sealed and self.status is ConnectionStatus.ACTIVE

    def scopes_for(self, permission: str) -> tuple[str, ...]:
        """What the sign-in does not cover yet and this permission needs."""
        if self.oauth is None:
            return ()
        covered = covered_by([permission], self.permissions_available)
        wanted = (each for name in covered for each in self.oauth.later_scopes.get(name, ()))
        return tuple(dict.fromkeys(each for each in wanted if each not in self.oauth.scopes))

    def with_scopes(self, scopes: tuple[str, ...]) -> "Connection":
        """The same with a wider sign-in, whose tokens lie beside those of the old one."""
        if self.oauth is None:
            return self
        wider = self.oauth.model_copy(update={"scopes": (*self.oauth.scopes, *scopes)})
        first = f"connections/{self.connection_id}"
        beside = first if self.ref_id != first else f"{first}/wider"
        return self.model_copy(update={"oauth": wider, "ref_id": beside})

    def account(self, tier: Tier) -> BrokeredAccount:
        """The account for one run that goes so far."""
        return BrokeredAccount(
            connection_id=self.connection_id,
            address=self.identity,
            endpoints=self.endpoints,
            tier=tier,
            credential=self.credential_ref,
        )

    @property
    def credential_ref(self) -> CredentialRef:
        """Which secret signs in, and how."""
        return CredentialRef(
            kind="oauth" if self.oauth else self.credential,
            ref_id=self.ref_id,
            username=self.username,
            oauth=self.oauth,
        )


class _Said(Data):
    """What a script says. Fields that nobody reads are let pass: they decide nothing."""

    model_config = ConfigDict(extra="ignore")


class OfferedSignIn(_Said):
    """Where the owner signs in: an issuer with metadata (RFC 8414) or a preset, and the client."""

    issuer: Annotated[ShortText, Field(min_length=1)]
    address: ShortText | None = None
    """The exact private address of the issuer, if it is in the owner's own network."""
    client_id: Annotated[ShortText, Field(min_length=1)]
    client_secret: bool = False
    """The client has a secret, which the owner types as the step `client_secret`."""
    scopes: Annotated[tuple[ShortText, ...], Field(max_length=50)] = ()
    later_scopes: Annotated[
        dict[PermissionName, Annotated[tuple[ShortText, ...], Field(max_length=50)]],
        Field(max_length=20),
    ] = Field(default_factory=dict)
    """What else is signed in for once a permission is granted."""


class Discovery(_Said):
    """What `discover.py` found."""

    auth_strategy: AuthStrategy
    provider: Annotated[ShortText, Field(min_length=1)]
    username: ShortText = ""
    address: ShortText = ""
    """The owner's own address there, if they sign in with another name."""
    endpoints: Annotated[tuple[Endpoint, ...], Field(min_length=1, max_length=_MAX_ENDPOINTS)]
    credential: Literal["password", "bearer"] = "password"
    oauth: OfferedSignIn | None = None
    """With every strategy but `secure_input`."""
    identity_match: bool = True
    tenant_type: ShortText = ""
    initial_permissions: Annotated[tuple[PermissionName, ...], Field(max_length=20)] = ()
    setup_requirements: dict[str, Any] = Field(default_factory=dict)


class RequestedSecret(_Said):
    """A secret that `setup.py` asks for. Its name in the vault is Silas' own choice."""

    ref_id: ShortText = ""
    label: Annotated[ShortText, Field(min_length=1)]
    input_hint: ShortText | None = None
    guidance: dict[str, ShortText | None] = Field(default_factory=dict)


class SecureInputStep(_Said):
    """The owner types a secret."""

    type: Literal["secure_input"]
    request: RequestedSecret


class ProgressStep(_Said):
    """How far it is."""

    type: Literal["progress"]
    message: ShortText
    progress_pct: float | None = None


class SignInStep(_Said):
    """The owner signs in at the provider. Silas does it; the script says when."""

    type: Literal["device_code", "browser_redirect"]


SetupStep = Annotated[SecureInputStep | ProgressStep | SignInStep, Field(discriminator="type")]


class SignInShown(Data):
    """What the owner does to sign in at the provider."""

    kind: Literal["device_code", "browser_redirect"]
    url: str
    """The page that the owner opens."""
    user_code: str | None = None
    """What the owner enters there."""
    listening_on: str | None = None
    """Where the browser comes back to: the page is opened on this machine."""
    expires_at: UtcDatetime


class CompletionPayload(_Said):
    """What a setup that has worked says."""

    summary: LongText = ""
    permissions_granted: Annotated[tuple[PermissionName, ...], Field(max_length=20)] = ()


class HealthCheckResult(_Said):
    """What `health_check.py` found."""

    healthy: StrictBool
    token_expires_at: UtcDatetime | None = None
    refresh_token_expires_at: UtcDatetime | None = None
    latency_ms: Annotated[int, Field(ge=0)] = 0
    error: LongText | None = None
    warnings: Annotated[list[ShortText], Field(max_length=20)] = Field(default_factory=list)


class RecoveryOption(Data):
    """One thing that the owner can do about a failure."""

    action: str
    label: str
    description: str
    risk_level: Literal["low", "medium", "high"] = "low"


FailureKind = Literal[
    "enterprise_policy_block",
    "consent_denied",
    "mfa_required",
    "rate_limited",
    "service_unavailable",
    "token_revoked",
    "unknown",
]


class FailureReport(_Said):
    """Why a connection does not work, as one of its scripts or Silas says (`ConnectionFailure`)."""

    failure_type: FailureKind = "unknown"
    service: ShortText = ""
    message: LongText
    retry_after_seconds: Annotated[int, Field(ge=1, le=30 * 86_400)] | None = None
    """When the service takes requests again, if it says so."""

    def recovery_options(
        self, connection: Connection, *, secret_kept: bool
    ) -> Sequence[RecoveryOption]:
        """What can be done about it: Silas knows that, not the script.

        Without its secret an account is set up again: to try it later would try nothing.
        """
        actions = list(_RECOVERY[self.failure_type])
        if not secret_kept:
            actions = ["retry" if each == "retry_later" else each for each in actions]
        if not connection.fewer_permissions:
            actions = [each for each in actions if each != "retry_fewer_permissions"]
        return [*(_OPTIONS[each] for each in actions), _OPTIONS[_SKIP]]

    def sentence(self, service: str) -> str:
        """What the card says of it."""
        told = f"{SENTENCES[self.failure_type].format(service=service)} {self.message}"
        if self.retry_after_seconds is None:
            return told
        minutes = -(-self.retry_after_seconds // 60)
        return f"{told} It takes requests again in {minutes} minute{'s' * (minutes != 1)}."


_OPTIONS: Mapping[str, RecoveryOption] = MappingProxyType(
    {
        each.action: each
        for each in (
            RecoveryOption(
                action="retry",
                label="Try again",
                description="You sign in again, and Silas sets the account up.",
            ),
            RecoveryOption(
                action="reconnect",
                label="Reconnect",
                description="You sign in again, and Silas tries the account out.",
            ),
            RecoveryOption(
                action="retry_later",
                label="Try later",
                description="Silas tries it again at its next check.",
            ),
            RecoveryOption(
                action="draft_it_request",
                label="Draft IT request",
                description="Silas writes what your IT department has to know. You send it.",
            ),
            RecoveryOption(
                action="use_personal_account",
                label="Use personal account",
                description="Silas leaves this account, and you connect another one.",
            ),
            RecoveryOption(
                action="retry_fewer_permissions",
                label="Retry with fewer permissions",
                description="Silas sets the account up again, and asks for looking alone.",
            ),
            RecoveryOption(
                action="show_details",
                label="Show details",
                description="Silas shows what the connection said about it.",
            ),
            RecoveryOption(
                action=_SKIP,
                label="Leave it",
                description="Nothing uses the connection until you try it again.",
            ),
        )
    }
)
_RECOVERY: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "enterprise_policy_block": ("draft_it_request", "use_personal_account"),
        "consent_denied": ("retry", "retry_fewer_permissions"),
        "mfa_required": ("retry",),
        "token_revoked": ("reconnect",),
        "rate_limited": ("retry_later",),
        "service_unavailable": ("retry_later",),
        "unknown": ("retry", "show_details"),
    }
)
SENTENCES: Mapping[str, str] = MappingProxyType(
    {
        "enterprise_policy_block": "The rules of your organisation keep Silas out of {service}.",
        "consent_denied": "{service} did not let Silas in.",
        "mfa_required": "{service} wants a second factor. Most providers have app passwords for "
        "this.",
        "token_revoked": "{service} does not accept the sign-in any more.",
        "rate_limited": "{service} takes no more requests for now.",
        "service_unavailable": "{service} does not answer.",
        "unknown": "{service} cannot be used.",
    }
)
"""What the card says of each kind of failure, before what the script says of it."""
