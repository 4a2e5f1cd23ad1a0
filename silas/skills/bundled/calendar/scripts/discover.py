"""Finds the calendar server of an account: the owner names it, or the provider is well known.

A server is written as `HOST:PORT/tls@ADDRESS`. The address is for a server at home or on this
machine, and no other server is reached there. Without encryption (`/none`) only such a server.
"""

import re
from collections.abc import Mapping
from typing import Any

from lifecycle import answer, offered_sign_in

# Provider, the domains of its addresses, its calendar server.
PROVIDERS = (
    ("Fastmail", ("fastmail.com", "fastmail.fm", "sent.com"), "caldav.fastmail.com"),
    ("iCloud", ("icloud.com", "me.com", "mac.com"), "caldav.icloud.com"),
    ("GMX", ("gmx.de", "gmx.net", "gmx.at", "gmx.ch"), "caldav.gmx.net"),
    ("WEB.DE", ("web.de",), "caldav.web.de"),
    ("Posteo", ("posteo.de", "posteo.net"), "posteo.de:8443"),
    ("mailbox.org", ("mailbox.org",), "dav.mailbox.org"),
    ("Google", ("gmail.com", "googlemail.com"), "apidata.googleusercontent.com"),
)
GOOGLE = ("gmail.com", "googlemail.com")
GOOGLE_SIGN_IN: dict[str, Any] = {
    "issuer": "https://accounts.google.com",
    "scopes": "https://www.googleapis.com/auth/calendar",
    "flow": "browser_redirect",
    "client_secret": True,
}
MICROSOFT = ("outlook.com", "hotmail.com", "live.com", "msn.com", "outlook.de")
_SERVER = re.compile(
    r"(?P<host>[A-Za-z0-9][A-Za-z0-9.-]{0,252})(?::(?P<port>\d{1,5}))?"
    r"(?:/(?P<tls>tls|none))?(?:@(?P<address>[0-9a-fA-F.:]{2,45}))?"
)


def discover(request: Mapping[str, Any]) -> dict[str, Any]:
    hint = {name: str(value) for name, value in request.get("identity_hint", {}).items()}
    own = hint.get("identity", "").strip()
    user = (hint.get("user") or own).strip()
    if not user or re.search(r"\s", user):
        raise ValueError("Say whose calendars: `silas connect calendar you@example.org`.")
    domain = (own or user).rpartition("@")[2].lower()
    named = hint.get("caldav")
    if named is None and domain in MICROSOFT:
        raise ValueError("Microsoft's calendars speak no CalDAV, so Silas cannot connect them.")
    offered = offered_sign_in(hint, **(GOOGLE_SIGN_IN if domain in GOOGLE else {}))
    if named is None and domain in GOOGLE and not offered:
        raise ValueError(
            "Google lets no program sign in to its calendars with a password. Register a client of "
            "your own there, and connect with `--option client_id=ID`."
        )
    provider, server = next(
        ((name, at) for name, domains, at in PROVIDERS if domain in domains), (domain, None)
    )
    if named is None and server is None:
        raise ValueError(
            "Say where the calendars are, such as `caldav=cloud.example.org`: among the servers in "
            "the page, or with `--option` at the terminal."
        )
    return {
        "auth_strategy": "secure_input",
        "provider": provider,
        "username": user,
        "address": own if own != user and "@" in own else "",
        "endpoints": [endpoint(named or server or "")],
        "identity_match": True,
        "tenant_type": "unknown",
        "initial_permissions": ["calendar.observe"],
        "setup_requirements": {"browser": False, "secure_input": True, "app_registration": False},
        **offered,
    }


def endpoint(text: str) -> dict[str, object]:
    """A server as it is written; raises `ValueError`."""
    found = _SERVER.fullmatch(text.strip())
    if found is None or not 0 < int(found["port"] or 1) < 65_536:
        raise ValueError(
            f"caldav={text[:100]} names no server. Write `caldav=HOST`, such as "
            "`caldav=cloud.example.org`."
        )
    tls = found["tls"] or "tls"
    return {
        "kind": "caldav",
        "host": found["host"].lower(),
        "port": int(found["port"] or (443 if tls == "tls" else 80)),
        "tls": tls,
        "address": found["address"],
    }


if __name__ == "__main__":
    answer(discover)
