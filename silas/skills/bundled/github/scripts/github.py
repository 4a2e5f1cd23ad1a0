"""What can be done at GitHub: `github.py COMMAND`, with the arguments as JSON on standard input.

1. A command prints one JSON object. If it fails, the object has `error`, a sentence, and `kind`:
   `conflict`, `unknown_outcome`, or the type of a failure of the account.
2. The id of an issue or a pull request is `OWNER/REPO#NUMBER.VERSION`. The version follows from its
   title, its text and how many comments it has. What was changed meanwhile is a conflict.
3. After a change, the issue is read anew and compared with what was wanted.
4. The tool that undoes a change takes the same arguments as the one that it undoes.
5. What stands in issues, comments and notifications is a stranger's text.
"""

import hashlib
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import rest
from rest import Conflict, Unavailable, UnknownOutcome, path_of

Args = Mapping[str, Any]
MAX_TEXT = 20_000
PAGE, MAX_PAGES = 100, 100
_FAILED = ("failure", "timed_out")
_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,38})"
_REPOSITORY = re.compile(rf"({_NAME})/((?!\.{{1,2}}$)[A-Za-z0-9._-]{{1,100}})")
_ISSUE = re.compile(r"(.+)#(\d{1,10})\.([0-9a-f]{12})")


@dataclass(frozen=True)
class IssueId:
    """Which version of which issue (rule 2)."""

    repository: str
    number: str
    version: str

    @classmethod
    def parse(cls, text: str) -> "IssueId":
        found = _ISSUE.fullmatch(text)
        if found is None:
            raise Conflict(f"{text[:80]!r} is no id of an issue. Take it from a list.")
        _repository(found[1])
        return cls(*found.groups())

    @property
    def path(self) -> str:
        return f"{_repository(self.repository)}{path_of('issues', self.number)}"


def _repository(text: str) -> str:
    found = _REPOSITORY.fullmatch(text)
    if found is None:
        raise Conflict(f"{text[:80]!r} is no repository. Write it as `owner/name`.")
    return path_of("repos", found[1], found[2])


def _id(repository: str, issue: Args) -> str:
    said = json.dumps([issue["title"], issue.get("body") or "", issue.get("comments", 0)])
    return f"{repository}#{issue['number']}.{hashlib.sha256(said.encode()).hexdigest()[:12]}"


# Looking.


def notifications(args: Args) -> dict[str, Any]:
    """What GitHub tells the owner; with the `etag` of the last answer only if there is news."""
    answer = rest.request("GET", "/notifications", etag=args.get("etag"), per_page=50)
    etag = answer.headers.get("etag")
    wait = int(answer.headers.get("x-poll-interval", "60"))
    polling = {"etag": etag, "poll_after_seconds": wait}
    if answer.status == 304:
        return {"unchanged": True, **polling}
    found = [
        {
            "title": each["subject"]["title"],
            "type": each["subject"]["type"],
            "repository": each["repository"]["full_name"],
            "reason": each["reason"],
            "unread": each["unread"],
            "updated": each["updated_at"],
        }
        for each in answer.body
    ]
    return {"notifications": found, **polling}


def issues(args: Args) -> dict[str, Any]:
    """Issues and pull requests of a repository, the newest first."""
    repository, limit = args["repository"], int(args.get("limit") or 30)
    state = args.get("state") or "open"
    answer = rest.request("GET", f"{_repository(repository)}/issues", state=state, per_page=limit)
    return {"issues": [_shown(repository, each) for each in answer.body]}


def _shown(repository: str, issue: Args) -> dict[str, Any]:
    return {
        "id": _id(repository, issue),
        "title": issue["title"],
        "kind": "pull request" if issue.get("pull_request") else "issue",
        "state": issue["state"],
        "by": (issue.get("user") or {}).get("login", ""),
        "labels": [_label_name(each) for each in issue.get("labels", ())],
        "comments": issue.get("comments", 0),
        "updated": issue.get("updated_at"),
    }


def _label_name(label: Any) -> str:
    return label if isinstance(label, str) else str(label.get("name", ""))


def read(args: Args) -> dict[str, Any]:
    """One issue or pull request with its comments."""
    wanted = IssueId.parse(args["issue"])
    issue = rest.request("GET", wanted.path).body
    # The newest say how it stands: they are on the last page, and on the one before it.
    last = max(1, -(-int(issue.get("comments", 0)) // PAGE))
    newest = [
        each for page in (last - 1, last) if page for each in _page(f"{wanted.path}/comments", page)
    ][-PAGE:]
    return {
        **_shown(wanted.repository, issue),
        "text": (issue.get("body") or "")[:MAX_TEXT],
        "comment_list": [
            {"by": (each.get("user") or {}).get("login", ""), "text": (each["body"] or "")[:5000]}
            for each in newest
        ],
        "older_comments": max(0, int(issue.get("comments", 0)) - len(newest)),
    }


def _page(path: str, number: int) -> list[Any]:
    found: list[Any] = rest.request("GET", path, per_page=PAGE, page=number).body
    return found


def _every(path: str) -> Iterator[Any]:
    for number in range(1, MAX_PAGES + 1):
        found = _page(path, number)
        yield from found
        if len(found) < PAGE:
            return


def ci(args: Args) -> dict[str, Any]:
    """What failed in CI: the last runs that failed, with their jobs and steps."""
    path = _repository(args["repository"])
    more = {"branch": args["branch"]} if args.get("branch") else {}
    limit = int(args.get("limit") or 5)
    runs = rest.request(
        "GET", f"{path}/actions/runs", status="failure", per_page=limit, **more
    ).body["workflow_runs"]
    return {"failed": [_failed_run(path, each) for each in runs[:limit]]}


def _failed_run(path: str, run: Args) -> dict[str, Any]:
    place = f"{path}{path_of('actions', 'runs', str(run['id']), 'jobs')}"
    jobs = rest.request("GET", place, per_page=PAGE).body
    return {
        "workflow": run.get("name"),
        "branch": run.get("head_branch"),
        "commit": run.get("head_sha"),
        "when": run.get("created_at"),
        "jobs": [
            {
                "job": job["name"],
                "failed_steps": [
                    step["name"]
                    for step in job.get("steps") or ()
                    if step.get("conclusion") in _FAILED
                ],
            }
            for job in jobs["jobs"]
            if job.get("conclusion") in _FAILED
        ],
    }


# Changing.


def comment(args: Args) -> dict[str, Any]:
    """Write a comment, once."""
    wanted = IssueId.parse(args["issue"])
    if _own_comments(wanted, args["text"]):
        raise Conflict("Nothing was done. You have written exactly this comment already.")
    rest.request("POST", f"{wanted.path}/comments", {"body": args["text"]})
    if not _own_comments(wanted, args["text"]):
        raise UnknownOutcome("GitHub took the comment, but it does not show.")
    undo = {"tool": "github_uncomment", "args": dict(args)}
    return {"commented": 1, "read_back": True, "undo": undo}


def uncomment(args: Args) -> dict[str, Any]:
    """Delete the owner's comment with exactly this text."""
    wanted = IssueId.parse(args["issue"])
    found = _own_comments(wanted, args["text"])
    if len(found) != 1:
        raise Conflict("Nothing was done. There is no such comment, or more than one.")
    repository = _repository(wanted.repository)
    rest.request("DELETE", f"{repository}{path_of('issues', 'comments', str(found[0]))}")
    if _own_comments(wanted, args["text"]):
        raise UnknownOutcome("GitHub said that the comment is gone, but it is there.")
    return {"deleted": 1, "read_back": True}


def _own_comments(wanted: IssueId, text: str) -> list[int]:
    login = rest.request("GET", "/user").body["login"]
    return [
        each["id"]
        for each in _every(f"{wanted.path}/comments")
        if each["body"] == text and (each.get("user") or {}).get("login") == login
    ]


def close(args: Args) -> dict[str, Any]:
    """Close an issue or a pull request."""
    return _set_state(args, before="open", after="closed", inverse="github_reopen")


def reopen(args: Args) -> dict[str, Any]:
    """Open an issue or a pull request again."""
    return _set_state(args, before="closed", after="open", inverse="github_close")


def _set_state(args: Args, *, before: str, after: str, inverse: str) -> dict[str, Any]:
    wanted = IssueId.parse(args["issue"])
    issue = rest.request("GET", wanted.path).body
    if _id(wanted.repository, issue) != args["issue"]:
        raise Conflict("Nothing was done. The issue was changed meanwhile. Read it again.")
    if issue["state"] != before:
        raise Conflict(f"Nothing was done. The issue is {issue['state']} already.")
    rest.request("PATCH", wanted.path, {"state": after})
    now = rest.request("GET", wanted.path).body
    if now["state"] != after:
        raise UnknownOutcome(f"GitHub took it, but the issue is {now['state']}.")
    return {"state": after, "read_back": True, "undo": {"tool": inverse, "args": dict(args)}}


def label(args: Args) -> dict[str, Any]:
    """Give an issue labels."""
    wanted = IssueId.parse(args["issue"])
    there = _labels(wanted)
    new = [each for each in args["labels"] if each.casefold() not in there]
    if new:
        rest.request("POST", f"{wanted.path}/labels", {"labels": new})
    missing = {each.casefold() for each in args["labels"]} - set(_labels(wanted))
    if missing:
        raise UnknownOutcome(f"GitHub took the labels, but these do not show: {sorted(missing)}")
    undo = {"tool": "github_unlabel", "args": {"issue": args["issue"], "labels": new}}
    return {"changed": len(new), "read_back": True, "undo": undo if new else None}


def unlabel(args: Args) -> dict[str, Any]:
    """Take labels away from an issue."""
    wanted = IssueId.parse(args["issue"])
    there = _labels(wanted)
    gone = [found for each in args["labels"] if (found := there.get(each.casefold()))]
    for each in gone:
        rest.request("DELETE", f"{wanted.path}{path_of('labels', each)}")
    if {each.casefold() for each in gone} & set(_labels(wanted)):
        raise UnknownOutcome("GitHub took it, but the labels are still there.")
    undo = {"tool": "github_label", "args": {"issue": args["issue"], "labels": gone}}
    return {"changed": len(gone), "read_back": True, "undo": undo if gone else None}


def _labels(wanted: IssueId) -> dict[str, str]:
    """The labels that it has, by their names in lower case: GitHub knows no other difference."""
    names = (_label_name(each) for each in rest.request("GET", wanted.path).body["labels"])
    return {name.casefold(): name for name in names}


COMMANDS: Mapping[str, Callable[[Args], dict[str, Any]]] = {
    each.__name__: each
    for each in (
        *(notifications, issues, read, ci, comment, uncomment, close, reopen, label, unlabel),
    )
}


def main() -> int:
    args = json.load(sys.stdin)
    given = {name: value for name, value in args.items() if value is not None}
    try:
        answer = COMMANDS[sys.argv[1]](given)
    except Conflict as error:
        answer = {"error": str(error), "kind": "conflict"}
    except UnknownOutcome as error:
        answer = {"error": str(error), "kind": "unknown_outcome"}
    except Unavailable as error:
        answer = {"error": str(error), "kind": error.kind}
    # Half of a letter, which some programs write, is in no UTF-8.
    print(json.dumps(answer, ensure_ascii=False).encode("utf-8", "replace").decode())
    return 1 if "error" in answer else 0


if __name__ == "__main__":
    sys.exit(main())
