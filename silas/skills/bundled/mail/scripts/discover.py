"""Finds the servers of a mailbox by its address.

1. What the owner names is taken: `imap=HOST:PORT`, `smtp=HOST:PORT` (`providers.endpoint`).
2. Else the table of well-known providers.
3. Else two places on the network, as far as Silas lets this script reach them: the database of
   mail servers that Thunderbird uses, and the domain's own records, asked for by DNS over HTTPS:
   SRV (RFC 6186), and MX, by which a provider of the table is known that keeps its mail. Either is
   told the domain of the address, and nothing more.
4. Else the two usual names in the domain of the address. The card shows them; the owner decides.
"""

import http.client
import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import providers
from lifecycle import PROXY, answer, offered_sign_in

DATABASE = "autoconfig.thunderbird.net"
RESOLVER = "cloudflare-dns.com"
MAX_BYTES = 256 * 1024
SECONDS = 15
_OAUTH_ONLY = (
    "{name} lets programs sign in on its own page alone, and takes no app password. Register an "
    "application of your own there that may use device codes, and connect with "
    "`--option client_id=ID`."
)


def discover(request: Mapping[str, Any]) -> dict[str, Any]:
    hint = {name: str(value) for name, value in request.get("identity_hint", {}).items()}
    address = hint.get("identity", "").strip()
    domain = address.rpartition("@")[2].lower()
    if not re.fullmatch(r"[^\s@]+@[a-z0-9][a-z0-9.-]*\.[a-z0-9-]+", address.lower()):
        raise ValueError("Say which mailbox: `silas connect mail you@example.org`.")
    named = [key for key in ("imap", "smtp") if hint.get(key)]
    by_hand = len(named) == 2
    known = providers.by_domain(domain)
    servers, source = ({}, "owner") if by_hand else _servers(domain, known)
    user = servers.pop("user", "")
    servers.update({key: hint[key] for key in named})
    endpoints = [providers.endpoint(kind, text) for kind, text in servers.items()]
    known = known or providers.by_server(str(endpoints[0]["host"]))
    offered = offered_sign_in(hint, **(known.sign_in if known else {}))
    if known is not None and not known.takes_passwords and not named and not offered:
        raise ValueError(_OAUTH_ONLY.format(name=known.name))
    login = hint.get("user") or (user and address.rpartition("@")[0]) or address
    return {
        "auth_strategy": "secure_input",
        "provider": known.name if known else domain,
        "username": login,
        "address": address if login != address else "",
        "endpoints": endpoints,
        "identity_match": by_hand or source != "guess",
        "tenant_type": "consumer" if providers.by_domain(domain) else "unknown",
        "initial_permissions": ["mail.observe"],
        "setup_requirements": {
            "browser": False,
            "secure_input": True,
            "app_registration": False,
            "servers_from": source,
        },
        **offered,
    }


def _servers(domain: str, known: providers.Provider | None) -> tuple[dict[str, str], str]:
    if known is not None:
        return {"imap": known.imap, "smtp": known.smtp}, "provider"
    for source, look in (("autoconfig", _autoconfig), ("srv", _srv), ("mx", _mx)):
        try:
            found = look(domain)
        except (OSError, http.client.HTTPException, ET.ParseError, ValueError):
            continue  # not reachable, or not understood: the next place
        if found is not None:
            return found, source
    return {"imap": f"imap.{domain}:993", "smtp": f"smtp.{domain}:465"}, "guess"


def _autoconfig(domain: str) -> dict[str, str] | None:
    raw = _get(DATABASE, f"/v1.1/{quote(domain)}")
    # Entities are how a small file becomes a large one.
    if b"<!" in raw.replace(b"<!--", b""):
        raise ValueError("not understood")
    root = ET.fromstring(raw)  # noqa: S314 - it declares nothing, see above
    found, local = dict[str, str](), dict[str, str]()
    for kind, path in (("imap", "incomingServer"), ("smtp", "outgoingServer")):
        for server in root.iterfind(f".//{path}[@type='{kind}']"):
            tls = {"SSL": "tls", "STARTTLS": "starttls"}.get(server.findtext("socketType", ""))
            host = server.findtext("hostname", "").strip().replace("%EMAILDOMAIN%", domain)
            port = server.findtext("port", "").strip()
            if tls is not None and kind not in found:
                found[kind] = f"{host}:{port}/{tls}"
                if kind == "imap" and server.findtext("username") == "%EMAILLOCALPART%":
                    local = {"user": "%EMAILLOCALPART%"}
    return {**found, **local} if len(found) == 2 else None


def _srv(domain: str) -> dict[str, str] | None:
    found = {}
    for kind, service, tls in (
        ("imap", "_imaps._tcp", "tls"),
        ("smtp", "_submissions._tcp", "tls"),
        ("smtp", "_submission._tcp", "starttls"),
    ):
        if kind in found:
            continue
        records = _records("SRV", f"{service}.{domain}")
        usable = [each for each in records if len(each) == 4 and each[3] != "."]
        if usable:
            _, _, port, host = min(usable, key=lambda each: int(each[0]))
            found[kind] = f"{host.rstrip('.')}:{port}/{tls}"
    return found if len(found) == 2 else None


def _mx(domain: str) -> dict[str, str] | None:
    records = [each for each in _records("MX", domain) if len(each) == 2]
    first = min(records, key=lambda each: int(each[0]), default=["", ""])
    known = providers.by_receiver(first[1])
    return {"imap": known.imap, "smtp": known.smtp} if known else None


_TYPES = {"SRV": 33, "MX": 15}


def _records(kind: str, name: str) -> list[list[str]]:
    """The DNS records of a name, each in its words."""
    asked = f"/dns-query?type={kind}&name={quote(name)}"
    said = json.loads(_get(RESOLVER, asked, accept="application/dns-json"))
    answers = said.get("Answer", ())
    return [each["data"].split() for each in answers if each["type"] == _TYPES[kind]]


def _get(host: str, path: str, *, accept: str = "*/*") -> bytes:
    way = http.client.HTTPSConnection(PROXY[0], PROXY[1], timeout=SECONDS)
    way.set_tunnel(host, 443)
    try:
        way.request("GET", path, headers={"Accept": accept})
        answered = way.getresponse()
        if answered.status != 200:
            raise ValueError("not there")
        return answered.read(MAX_BYTES)
    finally:
        way.close()


if __name__ == "__main__":
    answer(discover)
