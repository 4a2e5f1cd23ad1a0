"""The bundled GitHub connection, on a server that is held to GitHub's published description."""

import base64
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import silas.skills
from tests.servers.bridge import declared_uses, http_bridge, run_script
from tests.servers.github import GitHub, github

__all__ = ["github"]

SCRIPTS = Path(silas.skills.__file__).parent / "bundled" / "github" / "scripts"
HOST, REPOSITORY = "api.github.com", "octo/app"
ENVIRONMENT = {
    "SILAS_ACCOUNT": json.dumps(
        {"username": "owner", "endpoints": [{"kind": "http", "host": HOST, "port": 443}]}
    )
}
Call = Callable[..., dict[str, Any]]


@pytest.fixture
def hub(github: tuple[GitHub, int]) -> GitHub:
    return github[0]


@pytest.fixture
def asked() -> list[tuple[str, str]]:
    """The requests that were made, by method and path."""
    return []


@pytest.fixture
def proxy(github: tuple[GitHub, int], asked: list[tuple[str, str]]) -> Iterator[int]:
    hub, port = github
    word = base64.b64encode(f"{hub.login}:{hub.token}".encode()).decode()
    with http_bridge(f"{HOST}:443", port, f"Basic {word}", asked) as proxy:
        yield proxy


@pytest.fixture
def call(proxy: int, asked: list[tuple[str, str]]) -> Call:
    """Run one command of the connection, as its tool does."""

    def run(command: str, *, fails: bool = False, **args: Any) -> dict[str, Any]:
        asked.clear()
        ran = run_script(
            SCRIPTS / "github.py",
            command,
            stdin=json.dumps(args),
            ports={"rest.PROXY": proxy},
            environment=ENVIRONMENT,
        )
        assert ran.returncode == int(fails), ran.stdout + ran.stderr
        answer = json.loads(ran.stdout)
        assert ("error" in answer) == fails
        rules = declared_uses(SCRIPTS / "github.py", command).http
        for each in asked:
            assert rules is None or any(rule.holds(*each) for rule in rules), each
        return answer

    return run


def first(call: Call, **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = call("issues", repository=REPOSITORY, **more)["issues"][0]
    return found


def test_notifications_are_polled_by_their_etag(call: Call, hub: GitHub) -> None:
    hub.add_notification("Please look")
    told = call("notifications")
    assert [each["title"] for each in told["notifications"]] == ["Please look"]
    assert told["poll_after_seconds"] == 60
    assert call("notifications", etag=told["etag"])["unchanged"] is True
    hub.add_notification("More")
    assert len(call("notifications", etag=told["etag"])["notifications"]) == 2


def test_issues_are_listed_and_read(call: Call, hub: GitHub) -> None:
    hub.add_issue("It breaks", "Always.")
    hub.add_issue("A fix", pull_request=True)
    listed = call("issues", repository=REPOSITORY)["issues"]
    assert [(each["title"], each["kind"]) for each in listed] == [
        ("A fix", "pull request"),
        ("It breaks", "issue"),
    ]
    hub.add_comment(1, "Here too.")
    read = call("read", issue=listed[1]["id"])
    assert (read["text"], read["comment_list"]) == (
        "Always.",
        [{"by": "somebody", "text": "Here too."}],
    )
    assert read["id"] != listed[1]["id"]  # a comment makes it another version


def test_what_failed_in_ci_is_named_by_job_and_step(call: Call, hub: GitHub) -> None:
    hub.add_run("lint", conclusion="success")
    hub.add_run("tests", conclusion="failure", step="run pytest")
    [failed] = call("ci", repository=REPOSITORY)["failed"]
    assert (failed["workflow"], failed["jobs"]) == (
        "tests",
        [{"job": "tests job", "failed_steps": ["run pytest"]}],
    )


def test_a_comment_is_written_once_and_taken_back(call: Call, hub: GitHub) -> None:
    number = hub.add_issue("It breaks")
    args = {"issue": first(call)["id"], "text": "Fixed in main."}
    done = call("comment", **args)
    assert [each["body"] for each in hub.comments[number]] == ["Fixed in main."]
    assert call("comment", fails=True, **args)["kind"] == "conflict"
    call("uncomment", **done["undo"]["args"])
    assert hub.comments[number] == []
    hub.add_comment(number, "Fixed in main.", login="somebody")
    assert call("uncomment", fails=True, **args)["kind"] == "conflict"
    assert len(hub.comments[number]) == 1


def test_behind_many_comments_the_own_one_is_found_and_the_newest_are_read(
    call: Call, hub: GitHub
) -> None:
    number = hub.add_issue("It breaks")
    for count in range(130):
        hub.add_comment(number, f"Here too, {count}.")
    args = {"issue": first(call)["id"], "text": "Fixed in main."}
    done = call("comment", **args)
    assert call("comment", fails=True, **args)["kind"] == "conflict"
    read = call("read", issue=first(call)["id"])
    assert read["comment_list"][-1]["text"] == "Fixed in main."
    assert (len(read["comment_list"]), read["older_comments"]) == (100, 31)
    call("uncomment", **done["undo"]["args"])
    assert len(hub.comments[number]) == 130


def test_a_job_that_failed_behind_many_others_is_named(call: Call, hub: GitHub) -> None:
    hub.add_run("tests", conclusion="failure", step="run pytest")
    [job] = hub.jobs[hub.runs[0]["id"]]
    passed = [{**job, "conclusion": "success"} for _ in range(40)]
    hub.jobs[hub.runs[0]["id"]] = [*passed, {**job, "conclusion": "timed_out"}]
    [failed] = call("ci", repository=REPOSITORY)["failed"]
    assert failed["jobs"] == [{"job": "tests job", "failed_steps": ["run pytest"]}]


def test_an_issue_is_closed_and_reopened(call: Call, hub: GitHub) -> None:
    number = hub.add_issue("It breaks")
    issue = first(call)["id"]
    done = call("close", issue=issue)
    assert hub.issues[number]["state"] == "closed"
    assert call("close", issue=issue, fails=True)["kind"] == "conflict"
    assert done["undo"] == {"tool": "github_reopen", "args": {"issue": issue}}
    call("reopen", **done["undo"]["args"])
    assert hub.issues[number]["state"] == "open"


def test_what_was_changed_meanwhile_is_not_closed(call: Call, hub: GitHub) -> None:
    number = hub.add_issue("It breaks")
    issue = first(call)["id"]
    hub.add_comment(number, "Wait, it is worse.")
    assert call("close", issue=issue, fails=True)["kind"] == "conflict"
    assert hub.issues[number]["state"] == "open"


def test_labels_come_and_go(call: Call, hub: GitHub) -> None:
    number = hub.add_issue("It breaks")
    issue = first(call)["id"]
    call("label", issue=issue, labels=["bug"])
    done = call("label", issue=issue, labels=["bug", "good first issue"])
    assert done["changed"] == 1
    call("unlabel", **done["undo"]["args"])
    assert [each["name"] for each in hub.issues[number]["labels"]] == ["bug"]
    assert call("unlabel", issue=issue, labels=["other"])["undo"] is None
    assert call("label", issue=issue, labels=["Bug"])["undo"] is None, "GitHub knows no case"
    assert call("unlabel", issue=issue, labels=["BUG"])["undo"]["args"]["labels"] == ["bug"]
    assert hub.issues[number]["labels"] == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "octo/app#1",
        "octo/app#x.0123456789ab",
        "../app#1.0123456789ab",
        "octo/..#1.0123456789ab",
    ],
)
def test_nonsense_is_no_id(call: Call, text: str, hub: GitHub) -> None:
    assert call("read", issue=text, fails=True)["kind"] == "conflict"
    assert hub.requests == []


def test_a_limit_and_a_missing_repository_are_said_to_be_so(call: Call, hub: GitHub) -> None:
    assert call("issues", repository="octo/other", fails=True)["kind"] == "conflict"
    hub.limited = True
    limited = call("issues", repository=REPOSITORY, fails=True)
    assert limited["kind"] == "rate_limited"
    assert "60 seconds" in limited["error"]
    hub.limited, hub.limited_secondly = False, True
    assert call("issues", repository=REPOSITORY, fails=True)["kind"] == "rate_limited"


def ask(script: str, proxy: int, *lines: dict[str, Any]) -> list[dict[str, Any]]:
    ran = run_script(
        SCRIPTS / script,
        stdin="".join(json.dumps(each) + "\n" for each in lines),
        ports={"rest.PROXY": proxy},
        environment=ENVIRONMENT,
    )
    assert ran.returncode == 0, ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines()]


START = {
    "type": "start",
    "auth_strategy": "secure_input",
    "initial_permissions": ["github.observe"],
    "identity_hint": {},
}
STORED = {"type": "step_result", "step_id": "token", "payload": {"success": True}}


def test_setup_probe_and_health_ask_whose_token_it_is(proxy: int, hub: GitHub) -> None:
    step, wait, _, done = ask("setup.py", proxy, START, STORED)
    assert (step["step"]["type"], wait["type"]) == ("secure_input", "await_input")
    assert done["connection_payload"]["summary"] == "Signed in as owner."
    assert ask("probe.py", proxy, {"type": "probe"}) == [{"summary": "Signed in as owner."}]
    assert ask("health_check.py", proxy, {"type": "health_check"})[0]["healthy"] is True
    assert ask("recover.py", proxy, {"type": "recover"}) == [{"success": True}]
    hub.token = "another"
    failed = ask("setup.py", proxy, START, STORED)[-1]
    assert failed["failure"]["failure_type"] == "token_revoked"


def test_the_server_is_known_or_named() -> None:
    [found] = ask("discover.py", 9, {"type": "discover", "identity_hint": {"identity": "octo"}})
    assert found["endpoints"] == [
        {"kind": "http", "host": HOST, "port": 443, "tls": "tls", "address": None}
    ]
    for hint in ({}, {"identity": "a b"}, {"identity": "octo", "api": "a b"}):
        [answer] = ask("discover.py", 9, {"type": "discover", "identity_hint": hint})
        assert answer["failure"]["message"]
