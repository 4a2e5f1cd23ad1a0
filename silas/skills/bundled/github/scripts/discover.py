"""Says where GitHub is: api.github.com, or what the owner says (`api=HOST:PORT/tls@ADDRESS`)."""

import re
from collections.abc import Mapping
from typing import Any

from lifecycle import SERVICE, answer, offered_sign_in

ISSUER, SCOPES = "https://github.com/login/oauth", "repo notifications"
_SERVER = re.compile(
    r"(?P<host>[A-Za-z0-9][A-Za-z0-9.-]{0,252})(?::(?P<port>\d{1,5}))?"
    r"(?:/(?P<tls>tls|none))?(?:@(?P<address>[0-9a-fA-F.:]{2,45}))?"
)


def discover(request: Mapping[str, Any]) -> dict[str, Any]:
    hint = {name: str(value) for name, value in request.get("identity_hint", {}).items()}
    login = hint.get("identity", "").strip()
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9-]{0,38}", login):
        raise ValueError("Say whose account: `silas connect github YOUR-LOGIN`.")
    return {
        "auth_strategy": "secure_input",
        "provider": SERVICE,
        "username": login,
        "credential": "bearer",
        "endpoints": [_endpoint(hint.get("api", "api.github.com"))],
        "identity_match": True,
        "tenant_type": "consumer",
        "initial_permissions": ["github.observe"],
        "setup_requirements": {"browser": False, "secure_input": True, "app_registration": False},
        **offered_sign_in(hint, issuer=ISSUER, scopes=SCOPES),
    }


def _endpoint(text: str) -> dict[str, object]:
    found = _SERVER.fullmatch(text.strip())
    if found is None or not 0 < int(found["port"] or 1) < 65_536:
        raise ValueError(f"api={text[:100]} names no server. Write `api=HOST`.")
    tls = found["tls"] or "tls"
    return {
        "kind": "http",
        "host": found["host"].lower(),
        "port": int(found["port"] or (443 if tls == "tls" else 80)),
        "tls": tls,
        "address": found["address"],
    }


if __name__ == "__main__":
    answer(discover)
