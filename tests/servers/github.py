"""GitHub as far as the tests need it, held to its published description in both directions.

Every request has to be one that GitHub's OpenAPI allows, and every answer one that it promises
(`github_openapi.json`, cut out of @octokit/openapi without its texts). What does not fit is noted
in `broken`, and the fixture fails the test with it. Objects begin as the description's examples.
"""

import base64
import copy
import hashlib
import http.server
import json
import re
import secrets
import threading
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import jsonschema_rs
import pytest

OWNER, REPO = "octo", "app"
_WAIT_SECONDS = 120
_NOW = "2026-03-05T10:{:02d}:00Z"


@cache
def description() -> dict[str, Any]:
    """GitHub's description of itself, with `nullable` as JSON Schema writes it."""
    text = (Path(__file__).parent / "github_openapi.json").read_text()
    found: dict[str, Any] = _as_json_schema(json.loads(text))
    return found


def _as_json_schema(value: Any) -> Any:
    if isinstance(value, list):
        return [_as_json_schema(each) for each in value]
    if not isinstance(value, dict):
        return value
    changed = {key: _as_json_schema(each) for key, each in value.items() if key != "nullable"}
    return {"anyOf": [changed, {"type": "null"}]} if value.get("nullable") is True else changed


def _resolved(value: Any) -> Any:
    while isinstance(value, dict) and "$ref" in value:
        found: Any = description()
        for part in value["$ref"].split("/")[1:]:
            found = found[part]
        value = found
    return value


@cache
def _validator(pointer: str) -> jsonschema_rs.Validator:
    schema: Any = description()
    for part in pointer.split("/"):
        schema = schema[part.replace("~1", "/").replace("~0", "~")]
    whole = {**schema, "components": description()["components"]}
    return jsonschema_rs.validator_for(whole, validate_formats=False)


def _pointer(*parts: str) -> str:
    return "/".join(each.replace("~", "~0").replace("/", "~1") for each in parts)


def example(name: str) -> Any:
    """An example of the description, to be changed."""
    return copy.deepcopy(description()["components"]["examples"][name]["value"])


class GitHub:
    """The running server: one repository, its issues, comments, runs, and the notifications."""

    def __init__(self) -> None:
        self.login, self.token = "owner", f"github_pat_{secrets.token_hex(16)}"
        self.broken: list[str] = []
        self.requests: list[tuple[str, str]] = []
        self.limited = False
        self.limited_secondly = False
        self.issues: dict[int, dict[str, Any]] = {}
        self.comments: dict[int, list[dict[str, Any]]] = {}
        self.notifications: list[dict[str, Any]] = []
        self.runs: list[dict[str, Any]] = []
        self.jobs: dict[int, list[dict[str, Any]]] = {}
        self._count = 0

    # What a test prepares.

    def add_issue(self, title: str, body: str = "", *, pull_request: bool = False) -> int:
        """An open issue; its number."""
        number = self._next()
        issue = example("issue")
        issue.update(
            number=number,
            title=title,
            body=body,
            state="open",
            state_reason=None,
            labels=[],
            comments=0,
            closed_at=None,
            closed_by=None,
            updated_at=_NOW.format(number % 60),
            user={**issue["user"], "login": "somebody"},
        )
        if not pull_request:
            issue.pop("pull_request", None)
        self.issues[number], self.comments[number] = issue, []
        return number

    def add_comment(self, number: int, body: str, login: str = "somebody") -> dict[str, Any]:
        """A comment of another person."""
        comment = example("issue-comment")
        comment.update(id=self._next(), body=body, user={**comment["user"], "login": login})
        comment.pop("performed_via_github_app", None)
        self.comments[number].append(comment)
        self._touch(number)
        return dict(comment)

    def add_notification(self, title: str, reason: str = "mention") -> None:
        """Something that the owner is told."""
        thread = example("thread-items")[0]
        thread.update(id=str(self._next()), reason=reason, unread=True)
        thread["subject"].update(title=title)
        thread["repository"].update(full_name=f"{OWNER}/{REPO}")
        self.notifications.insert(0, thread)

    def add_run(self, name: str, *, conclusion: str, step: str = "test") -> None:
        """A workflow that has run; one job with one step."""
        run = example("workflow-run-paginated")["workflow_runs"][0]
        run.update(id=self._next(), name=name, status="completed", conclusion=conclusion)
        self.runs.insert(0, run)
        job = example("job-paginated")["jobs"][0]
        job.update(id=self._next(), run_id=run["id"], name=f"{name} job", conclusion=conclusion)
        job.setdefault("created_at", job["started_at"])
        job["steps"] = [{**job["steps"][0], "name": step, "conclusion": conclusion}]
        self.jobs[run["id"]] = [job]

    def _next(self) -> int:
        self._count += 1
        return self._count

    def _touch(self, number: int) -> None:
        issue = self.issues[number]
        issue["comments"] = len(self.comments[number])
        issue["updated_at"] = _NOW.format(self._next() % 60)

    # What it answers.

    def answer(
        self, method: str, target: str, headers: Any, raw: bytes
    ) -> tuple[int, dict[str, str], Any]:
        """Status, headers and body for a request; each checked."""
        parts = urlsplit(target)
        self.requests.append((method, target))
        operation, pointer, names = self._operation(method, unquote(parts.path))
        if operation is None:
            self.broken.append(f"{method} {parts.path} is no operation of GitHub's")
            return 404, {}, {"message": "Not Found"}
        body = json.loads(raw) if raw else None
        self._check_request(operation, pointer, dict(parse_qsl(parts.query)), body)
        status, more, said = self._answered(
            method, headers, names, dict(parse_qsl(parts.query)), body
        )
        self._check_answer(operation, pointer, status, said)
        return status, more, said

    def _operation(self, method: str, path: str) -> tuple[Any, str, dict[str, str]]:
        for template, item in description()["paths"].items():
            pattern = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(template))
            found = re.fullmatch(pattern, path)
            if found and method.lower() in item:
                pointer = _pointer("paths", template, method.lower())
                return item[method.lower()], pointer, {"path": template, **found.groupdict()}
        return None, "", {}

    def _check_request(
        self, operation: Any, pointer: str, query: dict[str, str], body: Any
    ) -> None:
        known = {_resolved(each)["name"] for each in operation.get("parameters", ())}
        self.broken += [f"{pointer}: no parameter {each}" for each in query if each not in known]
        if "requestBody" in operation and body is not None:
            at = f"{pointer}/requestBody/content/application~1json/schema"
            if not _validator(at).is_valid(body):
                self.broken.append(f"{pointer}: GitHub does not take {body}")
        elif body is not None:
            self.broken.append(f"{pointer}: GitHub takes no body")

    def _check_answer(self, operation: Any, pointer: str, status: int, said: Any) -> None:
        if str(status) not in operation["responses"]:
            if status not in (401, 403, 429):  # every operation has them, said or not
                self.broken.append(f"{pointer}: GitHub does not answer with {status}")
            return
        answer = _resolved(operation["responses"][str(status)])
        if said is None or "content" not in answer:
            return
        at = f"{pointer}/responses/{status}"
        ref = operation["responses"][str(status)].get("$ref")
        at = ref.removeprefix("#/") if ref else at
        problems = list(_validator(f"{at}/content/application~1json/schema").iter_errors(said))
        self.broken += [
            f"{pointer}: answer {each.instance_path}: {each.message[:200]}" for each in problems
        ]

    def _answered(
        self, method: str, headers: Any, names: dict[str, str], query: dict[str, str], body: Any
    ) -> tuple[int, dict[str, str], Any]:
        word = base64.b64encode(f"{self.login}:{self.token}".encode()).decode()
        if headers.get("Authorization") not in (f"Basic {word}", f"Bearer {self.token}"):
            return 401, {}, {"message": "Bad credentials"}
        if self.limited:
            reset = {"X-RateLimit-Remaining": "0", "Retry-After": "60"}
            return 403, reset, {"message": "API rate limit exceeded"}
        if self.limited_secondly:
            words = "You have exceeded a secondary rate limit. Please wait a few minutes."
            return 403, {"X-RateLimit-Remaining": "4000"}, {"message": words}
        path = names["path"]
        if path == "/user":
            return 200, {}, {**self._private_user(), "login": self.login}
        if path == "/notifications":
            return self._with_etag(headers, self.notifications, {"X-Poll-Interval": "60"})
        if (names.get("owner"), names.get("repo")) != (OWNER, REPO):
            return 404, {}, {"message": "Not Found"}
        return self._in_repository(method, names, query, body)

    @staticmethod
    def _private_user() -> dict[str, Any]:
        answer = description()["paths"]["/user"]["get"]["responses"]["200"]
        examples = answer["content"]["application/json"]["examples"]
        first: dict[str, Any] = copy.deepcopy(_resolved(next(iter(examples.values())))["value"])
        return first

    def _with_etag(
        self, headers: Any, said: Any, more: dict[str, str]
    ) -> tuple[int, dict[str, str], Any]:
        etag = f'W/"{hashlib.sha256(json.dumps(said).encode()).hexdigest()}"'
        if headers.get("If-None-Match") == etag:
            return 304, {"ETag": etag, **more}, None
        return 200, {"ETag": etag, **more}, said

    def _in_repository(
        self, method: str, names: dict[str, str], query: dict[str, str], body: Any
    ) -> tuple[int, dict[str, str], Any]:
        path = names["path"].removeprefix("/repos/{owner}/{repo}")
        if path == "/issues":
            wanted = query.get("state", "open")
            found = [each for each in self.issues.values() if wanted in ("all", each["state"])]
            return 200, {}, found[::-1][: int(query.get("per_page", 30))]
        if path == "/actions/runs":
            found = [
                each
                for each in self.runs
                if query.get("status") in (None, each["status"], each["conclusion"])
            ]
            return 200, {}, {"total_count": len(found), "workflow_runs": found}
        if path == "/actions/runs/{run_id}/jobs":
            jobs = self.jobs.get(int(names["run_id"]), [])
            return 200, {}, {"total_count": len(jobs), "jobs": _page(jobs, query)}
        if path == "/issues/comments/{comment_id}":
            return self._delete_comment(int(names["comment_id"]))
        issue = self.issues.get(int(names.get("issue_number", 0)))
        if issue is None:
            return 404, {}, {"message": "Not Found"}
        if method == "GET" and path.endswith("/comments"):
            return 200, {}, _page(self.comments[int(issue["number"])], query)
        return self._of_issue(method, path, issue, names, body)

    def _of_issue(
        self, method: str, path: str, issue: dict[str, Any], names: dict[str, str], body: Any
    ) -> tuple[int, dict[str, str], Any]:
        number = int(issue["number"])
        if path.endswith("/comments"):
            return 201, {}, self.add_comment(number, body["body"], self.login)
        if path.endswith("/labels"):
            return 200, {}, self._label(issue, body["labels"])
        if path.endswith("/labels/{name}"):
            kept = [each for each in issue["labels"] if each["name"] != names["name"]]
            if len(kept) == len(issue["labels"]):
                return 404, {}, {"message": "Label does not exist"}
            issue["labels"] = kept
            return 200, {}, kept
        if method == "PATCH":
            issue.update(body)
            closed = issue["state"] == "closed"
            issue["closed_at"] = _NOW.format(59) if closed else None
            self._touch(number)
        return 200, {}, issue

    def _label(self, issue: dict[str, Any], names: list[str]) -> list[dict[str, Any]]:
        known = {each["name"].casefold() for each in issue["labels"]}
        shape = example("label-items")[0]
        issue["labels"] += [
            {**shape, "id": self._next(), "name": name}
            for name in names
            if name.casefold() not in known
        ]
        found: list[dict[str, Any]] = issue["labels"]
        return found

    def _delete_comment(self, identity: int) -> tuple[int, dict[str, str], Any]:
        for number, comments in self.comments.items():
            kept = [each for each in comments if each["id"] != identity]
            if len(kept) != len(comments):
                self.comments[number] = kept
                self._touch(number)
                return 204, {}, None
        return 404, {}, {"message": "Not Found"}


def _page(found: list[Any], query: dict[str, str]) -> list[Any]:
    """One page, as GitHub cuts them: of thirty unless told otherwise, and of a hundred at most."""
    size = min(100, int(query.get("per_page", 30)))
    start = size * (int(query.get("page", 1)) - 1)
    return found[start : start + size]


class GitHubServer:
    """Serves a `GitHub` on loopback."""

    def __init__(self, hub: GitHub) -> None:
        class Handler(http.server.BaseHTTPRequestHandler):
            def respond(self) -> None:
                raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                status, more, said = hub.answer(self.command, self.path, self.headers, raw)
                content = b"" if said is None else json.dumps(said).encode()
                self.send_response_only(status)
                for name, value in more.items():
                    self.send_header(name, value)
                self.send_header("Content-Type", "application/json; charset=utf-8")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: Any) -> None:
                pass

        for method in ("GET", "POST", "PATCH", "DELETE", "PUT"):
            setattr(Handler, f"do_{method}", Handler.respond)
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(_WAIT_SECONDS)


@pytest.fixture
def github() -> Iterator[tuple[GitHub, int]]:
    """GitHub and its port. Whatever its description does not allow fails the test."""
    hub = GitHub()
    server = GitHubServer(hub)
    try:
        yield hub, server.port
        assert hub.broken == []
    finally:
        server.close()
