"""How Silas talks to the scripts of this connection: one JSON object in a line."""

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

from dav import Conflict, Unavailable, calendars

SERVICE = "Calendar"


def tell(**event: Any) -> None:
    """Say one thing to Silas."""
    print(json.dumps(event, ensure_ascii=False), flush=True)


def heard() -> dict[str, Any]:
    """What Silas says next; an end of the input is a cancellation."""
    line = sys.stdin.readline()
    return json.loads(line) if line.strip() else {"type": "cancel"}


def failure(kind: str, message: str, service: str = SERVICE) -> dict[str, Any]:
    """Why the account cannot be used."""
    return {"failure_type": kind, "service": service, "message": message}


def look_inside() -> str:
    """Which calendars there are, in words."""
    names = [each.name for each in calendars()]
    if not names:
        raise Unavailable("unknown", "The account has no calendar.")
    return f"Calendars: {', '.join(names[:20])}."


def answer(work: Callable[[Mapping[str, Any]], dict[str, Any]]) -> None:
    """Read the one request and give the one answer."""
    try:
        said = work(heard())
    except Unavailable as error:
        said = {"failure": failure(error.kind, str(error))}
    except (Conflict, ValueError) as error:
        said = {"failure": failure("unknown", str(error))}
    tell(**said)
