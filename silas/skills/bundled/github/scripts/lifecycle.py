"""How Silas talks to the scripts of this connection: one JSON object in a line."""

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

import rest
from rest import Conflict, Unavailable

SERVICE = "GitHub"


def tell(**event: Any) -> None:
    """Say one thing to Silas."""
    print(json.dumps(event, ensure_ascii=False), flush=True)


def heard() -> dict[str, Any]:
    """What Silas says next; an end of the input is a cancellation."""
    line = sys.stdin.readline()
    return json.loads(line) if line.strip() else {"type": "cancel"}


def failure(kind: str, message: str) -> dict[str, Any]:
    """Why the account cannot be used."""
    return {"failure_type": kind, "service": SERVICE, "message": message}


def look_inside() -> str:
    """Whose token it is, in words."""
    return f"Signed in as {rest.request('GET', '/user').body['login']}."


_CLIENT_SECRET = {
    "type": "secure_input",
    "request": {
        "ref_id": "client_secret",
        "label": "Secret of your client",
        "input_hint": None,
        "guidance": {
            "instructions": "Type the secret that the provider shows for the client that you "
            "registered there. It is not the password of your account.",
            "help_url": None,
        },
    },
}


def offered_sign_in(
    hint: Mapping[str, str],
    *,
    issuer: str = "",
    scopes: str = "",
    flow: str = "device_code",
    client_secret: bool = False,
) -> dict[str, Any]:
    """Where the owner signs in, if they name a client of theirs; raises `ValueError`.

    `client_id=ID`, `issuer=https://HOST`, `scopes=A,B`, `flow=device_code` or `browser_redirect`,
    `client_secret=yes` if the client has one. Silas asks for the secret itself later.
    """
    if not hint.get("client_id"):
        if hint.get("issuer"):
            raise ValueError("Name the client that you registered there: `--option client_id=ID`.")
        return {}
    where, _, address = hint.get("issuer", issuer).partition("@")
    if not where:
        raise ValueError("Say where you sign in: `--option issuer=https://HOST`.")
    how = hint.get("flow", flow)
    if how not in ("device_code", "browser_redirect"):
        raise ValueError("`flow` is `device_code` or `browser_redirect`.")
    has_one = hint.get("client_secret", "yes" if client_secret else "no")
    if has_one not in ("yes", "no"):
        raise ValueError("Write `client_secret=yes`. Silas asks for it where nothing is shown.")
    return {
        "auth_strategy": how,
        "oauth": {
            "issuer": where,
            "address": address or None,
            "client_id": hint["client_id"],
            "client_secret": has_one == "yes",
            "scopes": hint.get("scopes", scopes).replace(",", " ").split(),
        },
        "setup_requirements": {
            "browser": True,
            "secure_input": has_one == "yes",
            "app_registration": True,
        },
    }


def signed_in(start: Mapping[str, Any], password: Mapping[str, Any]) -> bool:
    """Let the owner type the password or sign in at the provider; whether that was done."""
    how = start.get("auth_strategy")
    steps: list[tuple[str, dict[str, Any]]] = [
        ("password", {"type": "secure_input", "request": password})
    ]
    if how != "secure_input":
        steps = [("client_secret", _CLIENT_SECRET)] if start.get("client_secret") else []
        steps.append(("sign_in", {"type": how}))
    for name, step in steps:
        tell(type="setup_step", step_id=name, step=step)
        tell(type="await_input", step_id=name)
        if heard()["type"] != "step_result":
            return False
    return True


def answer(work: Callable[[Mapping[str, Any]], dict[str, Any]]) -> None:
    """Read the one request and give the one answer."""
    try:
        said = work(heard())
    except Unavailable as error:
        said = {"failure": failure(error.kind, str(error))}
    except (Conflict, ValueError) as error:
        said = {"failure": failure("unknown", str(error))}
    tell(**said)
