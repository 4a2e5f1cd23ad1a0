"""Requests to GitHub's REST API, by the broker, which adds encryption and the token."""

import http.client
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

PROXY = ("127.0.0.1", 3128)
SECONDS = 60
MAX_BYTES = 8 * 1024 * 1024


class Conflict(Exception):
    """Something was changed meanwhile, or is not there. Nothing was done."""


class UnknownOutcome(Exception):
    """Nobody knows whether it was done."""


class Unavailable(Exception):
    """The account cannot be used; `kind` is the type of a `ConnectionFailure`."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True)
class Answer:
    """What GitHub said."""

    status: int
    headers: Mapping[str, str]
    body: Any


def _server() -> str:
    known = json.loads(os.environ.get("SILAS_ACCOUNT") or "{}")
    for each in known.get("endpoints", ()):
        if each["kind"] == "http":
            return f"{each['host']}:{each['port']}"
    raise Unavailable("unknown", "The account has no server.")


def path_of(*parts: str) -> str:
    """A path of these parts, none of which can lead elsewhere."""
    return "".join(f"/{quote(each, safe='')}" for each in parts)


def request(
    method: str,
    path: str,
    body: Any = None,
    *,
    etag: str | None = None,
    **query: str | int,
) -> Answer:
    """One request; raises `Conflict`, `Unavailable`, or `UnknownOutcome` if the answer was lost."""
    asked = f"?{urlencode(query)}" if query else ""
    headers = {
        "Accept": "application/vnd.github+json",
        "X-GitHub-Api-Version": "2022-11-28",
        "User-Agent": "Silas",
        **({"If-None-Match": etag} if etag else {}),
        **({"Content-Type": "application/json"} if body is not None else {}),
    }
    way = http.client.HTTPConnection(*PROXY, timeout=SECONDS)
    try:
        sent = None if body is None else json.dumps(body).encode()
        way.request(method, f"http://{_server()}{path}{asked}", sent, headers)
        answer = way.getresponse()
        content = answer.read(MAX_BYTES + 1)
    except (OSError, http.client.HTTPException) as error:
        if method not in ("GET", "HEAD"):
            raise UnknownOutcome(
                "The connection broke before GitHub answered. Look whether it was done."
            ) from error
        raise Unavailable("service_unavailable", "GitHub does not answer.") from error
    finally:
        way.close()
    found = {name.lower(): value for name, value in answer.getheaders()}
    return _usable(answer.status, found, content)


def _usable(status: int, headers: Mapping[str, str], content: bytes) -> Answer:
    if len(content) > MAX_BYTES:
        raise Unavailable("unknown", "GitHub answers with more than anyone can read.")
    try:
        body = json.loads(content) if content else None
    except ValueError:
        body = None
    said = str(body.get("message", ""))[:200] if isinstance(body, dict) else ""
    if status == 401:
        raise Unavailable("token_revoked", "GitHub does not take the token.")
    if status == 429 or (status == 403 and _is_limit(headers, said)):
        wait = headers.get("retry-after", "")
        after = f" Try again in {wait} seconds." if wait.isdigit() else ""
        raise Unavailable("rate_limited", f"GitHub takes no more requests for now.{after}")
    if status == 403 and "x-github-sso" in headers:
        raise Unavailable("enterprise_policy_block", "The organisation wants its own sign-in.")
    if status in (502, 503, 504):
        raise Unavailable("service_unavailable", "GitHub cannot be reached.")
    if status in (403, 404, 410):
        raise Conflict(f"It is not there, or the token may not do this: {said or status}.")
    if status == 422:
        raise Conflict(f"GitHub refused it: {said or status}.")
    if status not in (200, 201, 204, 304):
        raise Unavailable("unknown", f"GitHub answered with {status}. {said}".strip())
    return Answer(status, headers, body)


def _is_limit(headers: Mapping[str, str], said: str) -> bool:
    """GitHub has two limits; of the second one only its words and the time to wait tell."""
    spent = headers.get("x-ratelimit-remaining") == "0"
    return spent or "retry-after" in headers or "rate limit" in said.lower()
