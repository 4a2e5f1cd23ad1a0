"""Accounts with somebody else, as the broker knows them: where, how far, and by which secret.

1. An account is a list of endpoints: protocol, host, port and how the connection is encrypted. The
   owner has signed all of it. Nothing else is reached with its credential.
2. An endpoint is at public addresses, and its connection is encrypted, unless the owner has signed
   the exact private address with its host and port. Nobody resolves such a name, and only there a
   connection may go without encryption. Link-local addresses, and those at which a cloud answers
   its machines, are never one (`hosts.is_own`).
3. What may be done follows from the tier alone, by tables of Silas's own (`HTTP_TIERS`,
   `IMAP_TIERS`, and `act` for every mail that is sent). What is in no table counts as `act`.
4. A `Narrowing` takes away from what the tier allows, and never adds to it.
5. A credential is named by its reference into the vault. Its value is in no record; `Credential`
   carries it from the vault to the server.
"""

import base64
import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, Literal, Self
from urllib.parse import quote, urlsplit

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from silas.egress.hosts import (
    PLAIN_PORT,
    TLS_PORT,
    HostAndPort,
    is_host_name,
    is_own,
)
from silas.kernel.models import Data, FieldProblem, refuse, text_like

MAX_ENDPOINTS = 8
MAX_RULES = 100
_MAX_RECIPIENTS = 200
_SHORTEST_NEEDLE = 8

_LOCAL_NAME = re.compile(r"(?=.{1,253}\Z)[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?", re.ASCII)

EndpointKind = Literal["http", "caldav", "imap", "smtp"]
Encryption = Literal["tls", "starttls", "none"]
VaultReference = Annotated[
    str, text_like(r"[A-Za-z0-9._/-]{1,180}", "must be the name of a secret in the vault")
]
_Line = Annotated[
    str, Field(max_length=500), text_like(r"[^\x00-\x1f\x7f]*", "must be one line of text")
]
_Url = Annotated[
    str, Field(max_length=500), text_like(r"https?://[!-~]+", "must be an address `https://…`")
]
_Method = Annotated[str, text_like(r"[A-Z]{1,20}", "must be a method such as `GET`")]
ImapCommand = Annotated[str, text_like(r"[A-Z]{1,20}", "must be a command such as `SEARCH`")]
_Path = Annotated[
    str, Field(max_length=500), text_like(r"/[!-~]*", "must be a path such as `/notifications`")
]
# One part of a path, whatever it is. A brace is in no path that a program may ask for (RFC 3986).
_ANY_PART = re.compile(r"\{[a-z_]{1,40}\}", re.ASCII)
_Recipient = Annotated[str, Field(max_length=320), text_like(r"[^\s<>]+@[^\s<>]+", "is no address")]


class Tier(StrEnum):
    """How far an account may be used. Each tier holds those before it."""

    OBSERVE = "observe"
    DRAFT = "draft"
    ACT = "act"
    MANAGE = "manage"

    def allows(self, needed: "Tier") -> bool:
        """Whether this tier holds the other one."""
        order = tuple(Tier)
        return order.index(needed) <= order.index(self)


class Endpoint(Data):
    """One server of an account (rules 1 and 2).

    `caldav` is HTTP whose reading methods are also those of calendars.
    """

    kind: EndpointKind
    host: str
    port: Annotated[int, Field(ge=1, le=65_535)]
    tls: Encryption
    address: str | None = None
    """The exact private or loopback address that the owner signed; None: public addresses only."""

    @model_validator(mode="after")
    def _holds_together(self) -> Self:
        refuse([*address_problems(self.host, self.address), *self._encryption_problems()])
        return self

    def _encryption_problems(self) -> list[FieldProblem]:
        if self.tls == "starttls" and self.is_http:
            return [FieldProblem(("tls",), "`starttls` is for imap and smtp")]
        if self.tls == "none" and self.address is None:
            message = "`none` needs the exact private address that the owner signed"
            return [FieldProblem(("tls",), message)]
        return []

    @property
    def is_http(self) -> bool:
        return self.kind in ("http", "caldav")

    @property
    def usual_port(self) -> int:
        """The port that an `http://` address of this endpoint means without saying one."""
        return PLAIN_PORT if self.tls == "none" else TLS_PORT

    @property
    def at(self) -> HostAndPort:
        return HostAndPort(self.host, self.port)

    def __str__(self) -> str:
        where = f"{self.host}:{self.port}"
        return f"{where} at {self.address}" if self.address else where


def address_problems(host: str, address: str | None) -> list[FieldProblem]:
    """What is wrong with a host and the private address that it was signed with, if any."""
    if address is None:
        return [] if is_host_name(host) else [FieldProblem(("host",), "is no public host name")]
    problems = []
    # The name is never resolved, so it can be any: `nas`, `localhost`, or the address itself.
    if not _LOCAL_NAME.fullmatch(host):
        problems.append(FieldProblem(("host",), "must be a name in lower case, or the address"))
    elif host[-1].isdigit() and "." in host and host != address:
        problems.append(FieldProblem(("host",), "is another address than the one that was signed"))
    if not is_own(address):
        message = (
            "must be one exact address of your own network or of this machine, such as "
            "`192.168.1.20`; leave public addresses out"
        )
        problems.append(FieldProblem(("address",), message))
    return problems


class OAuthServer(Data):
    """An authorization server: its issuer and its endpoints, from its metadata or from a preset.

    At public addresses every endpoint is `https://`. With a signed `address`, every endpoint is at
    the issuer's own host and port.
    """

    issuer: _Url
    token_endpoint: _Url
    authorization_endpoint: _Url | None = None
    device_authorization_endpoint: _Url | None = None
    revocation_endpoint: _Url | None = None
    names_issuer: bool = False
    """It says in its redirects who it is (RFC 9207); one that does not is then refused."""
    address: str | None = None

    @model_validator(mode="after")
    def _endpoints_can_be_reached(self) -> Self:
        problems = []
        home = urlsplit(self.issuer)
        for name in _ENDPOINTS:
            url = getattr(self, name)
            if url is None:
                continue
            try:
                endpoint, _ = endpoint_of(url, address=self.address)
            except ValueError as error:
                problems.append(FieldProblem((name,), str(error)))
                continue
            if self.address and (endpoint.host, urlsplit(url).port) != (home.hostname, home.port):
                problems.append(FieldProblem((name,), "is not at the host that was signed"))
        refuse(problems)
        return self


_ENDPOINTS = (
    *("issuer", "token_endpoint", "authorization_endpoint"),
    *("device_authorization_endpoint", "revocation_endpoint"),
)


def endpoint_of(url: str, *, address: str | None = None) -> tuple[Endpoint, str]:
    """Where a URL leads, and the path that is asked for; raises `ValueError`."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or parts.username or parts.fragment or "\\" in url:
        raise ValueError("must be an address `https://HOST/…` without a user or a fragment")
    plain = parts.scheme == "http"
    endpoint = Endpoint(
        kind="http",
        host=parts.hostname or "",
        port=parts.port or (PLAIN_PORT if plain else TLS_PORT),
        tls="none" if plain else "tls",
        address=address,
    )
    return endpoint, (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


Scopes = Annotated[
    tuple[Annotated[str, text_like(r"[!#-\[\]-~]+", "is no scope")], ...], Field(max_length=50)
]


class OAuthRegistration(Data):
    """Silas at an authorization server: the client that the owner uses, and what it asks for."""

    server: OAuthServer
    client_id: Annotated[_Line, Field(min_length=1)]
    scopes: Scopes = ()
    client_secret_ref: VaultReference | None = None
    """Some servers give programs on people's machines a secret as well; it is in the vault."""
    later_scopes: Annotated[dict[str, Scopes], Field(max_length=50)] = Field(default_factory=dict)
    """What is asked for in addition when more is granted, by permission."""

    @model_serializer(mode="wrap")
    def _as_sealed_before(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without what is not there: registrations from before it are sealed without it."""
        fields: dict[str, Any] = dump(self)
        if not self.later_scopes:
            del fields["later_scopes"]
        return fields


class CredentialRef(Data):
    """Which secret signs in, and how (rule 5).

    `none`: nothing does; the server lets everybody in. `password`: with `username`. `bearer`: a
    token that the owner has pasted. `oauth`: tokens that the OAuth client keeps and renews;
    `username` is then the address that mail servers ask for.
    """

    kind: Literal["none", "password", "bearer", "oauth"]
    ref_id: VaultReference
    username: _Line = ""
    oauth: OAuthRegistration | None = None
    resource: _Url | None = None
    """The one server that a token is for (RFC 8707), where the sign-in has to name it."""

    @model_validator(mode="after")
    def _holds_together(self) -> Self:
        problems = []
        if (self.kind == "oauth") != (self.oauth is not None):
            problems.append(FieldProblem(("oauth",), "comes with the kind `oauth`, and only there"))
        if self.kind == "password" and not self.username:
            problems.append(FieldProblem(("username",), "a password needs a user name"))
        refuse(problems)
        return self


@dataclass(frozen=True)
class Credential:
    """A secret on its way from the vault to the server. Its text shows nothing of it."""

    kind: str
    username: str
    value: str = field(repr=False)

    @property
    def authorization(self) -> str:
        """The header of a request."""
        if self.kind == "password":
            return f"Basic {self._basic}"
        return f"Bearer {self.value}"

    @property
    def _basic(self) -> str:
        return base64.b64encode(f"{self.username}:{self.value}".encode()).decode()

    @property
    def needles(self) -> tuple[bytes, ...]:
        """The forms in which an answer could repeat it; short ones would be found by chance."""
        forms = (self.value, quote(self.value, safe=""), self._basic)
        return tuple({form.encode() for form in forms if len(form) >= _SHORTEST_NEEDLE})


class AllowedRequest(Data):
    """A request that a connection makes. A path that ends with `/` holds all that lies below it;
    a part in braces (`/repos/{owner}/issues`) holds any one part."""

    method: _Method
    path: _Path

    def holds(self, method: str, path: str) -> bool:
        if method != self.method:
            return False
        wanted, asked = self.path.split("/"), path.split("/")
        below = self.path.endswith("/")
        if below and len(asked) >= len(wanted):
            wanted, asked = wanted[:-1], asked[: len(wanted) - 1]
        return len(wanted) == len(asked) and all(
            part == said or (bool(said) and bool(_ANY_PART.fullmatch(part)))
            for part, said in zip(wanted, asked, strict=True)
        )


HttpRules = Annotated[tuple[AllowedRequest, ...], Field(max_length=MAX_RULES)]
ImapCommands = Annotated[tuple[ImapCommand, ...], Field(max_length=MAX_RULES)]


class Narrowing(Data):
    """What a connection does not use of its tier (rule 4). None: everything that the tier has."""

    http: HttpRules | None = None
    imap: ImapCommands | None = None
    recipients: Annotated[tuple[_Recipient, ...], Field(max_length=_MAX_RECIPIENTS)] | None = None
    """Mail goes to these addresses alone, such as those of the one mail that was approved."""
    messages: Annotated[int, Field(ge=0)] | None = None
    """So many mails are sent in one run, and no more."""


class BrokeredAccount(Data):
    """An account for one run. Code that runs with it sees none of its credential."""

    connection_id: Annotated[_Line, Field(min_length=1, max_length=100)]
    address: _Line = ""
    """The owner's own address there; often the name that they sign in with."""
    endpoints: Annotated[tuple[Endpoint, ...], Field(min_length=1, max_length=MAX_ENDPOINTS)]
    tier: Tier
    credential: CredentialRef
    narrowed: Narrowing = Narrowing()

    @model_validator(mode="after")
    def _one_of_each(self) -> Self:
        problems = [
            FieldProblem(("endpoints",), f"has more than one of {kind}")
            for kind in ("imap", "smtp")
            if sum(each.kind == kind for each in self.endpoints) > 1
        ]
        places = [each.at for each in self.endpoints]
        if len(set(places)) != len(places):
            problems.append(FieldProblem(("endpoints",), "names a host and port twice"))
        mail = any(not each.is_http for each in self.endpoints)
        if mail and not self.credential.username:
            problems.append(FieldProblem(("credential", "username"), "mail needs a user name"))
        refuse(problems)
        return self

    def mail_endpoint(self, kind: Literal["imap", "smtp"]) -> Endpoint | None:
        return next((each for each in self.endpoints if each.kind == kind), None)


_READING = frozenset({"GET", "HEAD"})
# The two are registered as safe: they read, and their question stands in the body.
_READING_CALENDARS = _READING | {"PROPFIND", "REPORT"}
_NEVER_BY_HTTP = frozenset({"CONNECT", "TRACE"})
HTTP_TIERS: dict[EndpointKind, dict[Tier, frozenset[str]]] = {
    "http": {Tier.OBSERVE: _READING},
    "caldav": {Tier.OBSERVE: _READING_CALENDARS},
}
"""The methods of each tier below `act`, by the endpoint's kind."""


def tier_of_method(kind: EndpointKind, method: str) -> Tier | None:
    """The tier that a request needs; None: no tier has it."""
    if method in _NEVER_BY_HTTP:
        return None
    tables = HTTP_TIERS[kind]
    return next((tier for tier in Tier if method in tables.get(tier, ())), Tier.ACT)


IMAP_TIERS: dict[Tier, frozenset[str]] = {
    Tier.OBSERVE: frozenset(
        {
            *("CAPABILITY", "NOOP", "LOGOUT", "ID", "NAMESPACE", "ENABLE", "LIST", "LSUB"),
            *("XLIST", "STATUS", "EXAMINE", "UNSELECT", "SEARCH", "SORT", "THREAD", "FETCH"),
            *("IDLE", "GETQUOTA", "GETQUOTAROOT"),
        }
    ),
    Tier.DRAFT: frozenset({"APPEND"}),
    Tier.MANAGE: frozenset(
        {
            *("DELETE", "RENAME", "SETACL", "DELETEACL", "SETQUOTA", "SETMETADATA"),
            *("SETANNOTATION", "RESETKEY", "GENURLAUTH"),
        }
    ),
}
"""The commands of each tier. `UID X` counts as `X`. Below `act`, a fetch marks nothing as read, and
`APPEND` is for the drafts folder alone."""

_NEVER_BY_IMAP = frozenset({"LOGIN", "AUTHENTICATE", "UNAUTHENTICATE", "STARTTLS", "COMPRESS"})


def tier_of_command(command: str) -> Tier | None:
    """The tier that an IMAP command needs; None: no tier has it."""
    if command in _NEVER_BY_IMAP:
        return None
    return next((tier for tier in Tier if command in IMAP_TIERS.get(tier, ())), Tier.ACT)
