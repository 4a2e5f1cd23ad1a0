"""Mail providers by the domain of an address: their servers, and how one signs in there."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Provider:
    """One provider. `authserv` are the servers whose `Authentication-Results` it vouches for; a
    name that begins with a dot stands for every server below it."""

    name: str
    domains: tuple[str, ...]
    imap: str
    smtp: str
    takes_passwords: bool = True
    """False: programs sign in by OAuth alone."""
    guidance: str = "Make an app password in the settings of your account, under security."
    help_url: str | None = None
    authserv: tuple[str, ...] = ()
    mx: tuple[str, ...] = ()
    """How the servers end that take the mail of other domains that are kept here."""
    sign_in: Mapping[str, Any] = field(default_factory=dict)
    """How one signs in at its own page, with a client of one's own (`offered_sign_in`)."""


PROVIDERS = (
    Provider(
        "Gmail",
        ("gmail.com", "googlemail.com"),
        "imap.gmail.com:993",
        "smtp.gmail.com:465",
        guidance="Turn on 2-step verification, then make an app password for Silas.",
        help_url="https://myaccount.google.com/apppasswords",
        authserv=("mx.google.com",),
        mx=(".google.com", ".googlemail.com"),
        sign_in={
            "issuer": "https://accounts.google.com",
            "scopes": "https://mail.google.com/",
            "flow": "browser_redirect",
            "client_secret": True,
        },
    ),
    Provider(
        "Fastmail",
        ("fastmail.com", "fastmail.fm", "sent.com", "messagingengine.com"),
        "imap.fastmail.com:993",
        "smtp.fastmail.com:465",
        guidance="Settings, Privacy & Security, Manage app passwords: one for IMAP and SMTP.",
        help_url="https://app.fastmail.com/settings/security/apps",
        authserv=(".messagingengine.com",),
        mx=(".messagingengine.com",),
    ),
    Provider(
        "iCloud",
        ("icloud.com", "me.com", "mac.com"),
        "imap.mail.me.com:993",
        "smtp.mail.me.com:587/starttls",
        guidance="Sign in at account.apple.com and make an app-specific password.",
        help_url="https://account.apple.com/account/manage",
        mx=(".mail.icloud.com",),
    ),
    Provider(
        "Yahoo",
        ("yahoo.com", "yahoo.de", "yahoo.co.uk", "yahoo.fr", "ymail.com"),
        "imap.mail.yahoo.com:993",
        "smtp.mail.yahoo.com:465",
        help_url="https://login.yahoo.com/account/security",
    ),
    Provider(
        "GMX",
        ("gmx.de", "gmx.net", "gmx.at", "gmx.ch"),
        "imap.gmx.net:993",
        "mail.gmx.net:465",
        guidance="Allow IMAP in the settings of your mailbox, and make an application password.",
    ),
    Provider("WEB.DE", ("web.de",), "imap.web.de:993", "smtp.web.de:587/starttls"),
    Provider("Posteo", ("posteo.de", "posteo.net"), "posteo.de:993", "posteo.de:465"),
    Provider(
        "mailbox.org",
        ("mailbox.org",),
        "imap.mailbox.org:993",
        "smtp.mailbox.org:465",
        mx=(".mailbox.org",),
    ),
    Provider(
        "Microsoft",
        ("outlook.com", "hotmail.com", "live.com", "msn.com", "outlook.de"),
        "outlook.office365.com:993",
        "smtp.office365.com:587/starttls",
        takes_passwords=False,
        mx=(".protection.outlook.com", ".mx.microsoft"),
        sign_in={
            "issuer": "https://login.microsoftonline.com/common/v2.0",
            "scopes": "https://outlook.office.com/IMAP.AccessAsUser.All "
            "https://outlook.office.com/SMTP.Send offline_access",
        },
    ),
)


def by_domain(domain: str) -> Provider | None:
    """The provider of addresses in this domain."""
    return next((each for each in PROVIDERS if domain.casefold() in each.domains), None)


def by_server(imap_host: str) -> Provider | None:
    """The provider whose mail server this is."""
    return next((each for each in PROVIDERS if each.imap.partition(":")[0] == imap_host), None)


def by_receiver(host: str) -> Provider | None:
    """The provider whose server takes the mail of a domain (its MX record)."""
    name = host.casefold().rstrip(".")
    return next((each for each in PROVIDERS if each.mx and name.endswith(each.mx)), None)


def trusted_servers(imap_host: str) -> tuple[str, ...]:
    """Whose `Authentication-Results` count for a mailbox on this server; none: nobody's."""
    found = by_server(imap_host)
    return found.authserv if found else ()


_SERVER = re.compile(
    r"(?P<host>[A-Za-z0-9][A-Za-z0-9.-]{0,252})(?::(?P<port>\d{1,5}))?"
    r"(?:/(?P<tls>tls|starttls|none))?(?:@(?P<address>[0-9a-fA-F.:]{2,45}))?"
)
_STARTTLS_PORTS = (143, 587)


def endpoint(kind: str, text: str) -> dict[str, object]:
    """A server as it is written, `HOST:PORT/tls@ADDRESS`; raises `ValueError`.

    What is left out follows: port 993 or 465 with TLS, 143 and 587 with STARTTLS. The address is
    for a server at home or on this machine, and no other server is reached there.
    """
    found = _SERVER.fullmatch(text.strip())
    if found is None or not 0 < int(found["port"] or 1) < 65_536:
        raise ValueError(
            f"{kind}={text[:100]} names no server. Write `{kind}=HOST:PORT`, such as "
            f"`{kind}={kind}.example.org:{993 if kind == 'imap' else 465}`."
        )
    port = int(found["port"] or (993 if kind == "imap" else 465))
    tls = found["tls"] or ("starttls" if port in _STARTTLS_PORTS else "tls")
    return {
        "kind": kind,
        "host": found["host"].lower(),
        "port": port,
        "tls": tls,
        "address": found["address"],
    }
