"""Asks the service that this skill is about. In the examples a stand-in answers on loopback."""

import json
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

ADDRESS = "http://ops.example.org"


def ask(path: str, **query: str) -> Any:
    """Get something."""
    return _answer(urllib.request.Request(f"{ADDRESS}{path}?{urllib.parse.urlencode(query)}"))


def tell(path: str, **values: Any) -> Any:
    """Have something done."""
    body = json.dumps(values).encode()
    headers = {"Content-Type": "application/json"}
    return _answer(urllib.request.Request(f"{ADDRESS}{path}", data=body, headers=headers))


def _answer(request: urllib.request.Request) -> Any:
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        raise SystemExit(f"The service refused: {error.code} {error.reason}.") from error
    except (OSError, ValueError) as error:
        raise SystemExit(f"The service did not answer usefully: {error}") from error
