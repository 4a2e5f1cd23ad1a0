"""The plan parser: what a plan means, and every way in which a text is not one."""

import itertools

import pytest

from silas.work import PlanInvalid, WorkItemType, decode_plan, parse, parse_plan
from silas.work.models import PLAN_FIELDS, WorkItem
from silas.work.plan_text import MAX_PLAN_BYTES, NOT_IN_PLANS, keys_at, split_plan

TASK = """---
id: fix-login
type: task
title: Fix the login
{extra}---

# What to do

Fix it.
"""
GOAL = """---
id: watch
type: goal
title: Watch it
schedule: "*/5 * * * *"
verify:
  - name: up
    run: "test -f up.txt"
    expect: {{ exit_code: 0 }}
{extra}---
"""
STREAM = """---
id: chat
type: goal
title: Chat
schedule: always_on
{extra}---
"""
PROJECT = """---
id: ship
type: project
title: Ship it
tasks:
  - id: build
    title: Build
    body: make build
  - id: deploy
    title: Deploy
    body: make deploy
    depends_on: [build]
{extra}---
"""


def task(extra: str = "") -> str:
    return TASK.format(extra=extra)


def problems(text: str, **options: object) -> list[tuple[int, str, str]]:
    with pytest.raises(PlanInvalid) as caught:
        parse_plan(text, **options)  # type: ignore[arg-type]
    return [(each.line, each.field, each.message) for each in caught.value.problems]


def test_the_format_of_the_planner_is_a_plan() -> None:
    item = parse(
        """---
id: task-0001
type: task
title: A descriptive title
interaction_mode: act_and_report
skills: [coding]
budget: { max_tokens: 200000, max_cost_usd: 2.00, max_wall_time_seconds: 1800 }
verify:
  - name: tests
    run: "pytest -q"
    expect: { exit_code: 0 }
on_stuck: consult_planner
---

# Context
Why.

# What to do
This.
"""
    )
    assert item.type is WorkItemType.TASK
    assert item.interaction_mode == "act_and_report"
    assert item.verify[0].expect.exit_code == 0
    assert item.body == "# Context\nWhy.\n\n# What to do\nThis."
    assert item.budget.max_cost_usd == 2.0
    assert item.created_at is None


def test_line_ends_and_blank_lines_around_the_prose_do_not_change_the_hash() -> None:
    plain = parse(task())
    for text in (
        task().replace("\n", "\r\n"),
        task().replace("\n", "\r"),
        task() + "\n \n\n",
        "\ufeff" + task(),
        task().replace("---\n\n#", "---\n#"),
        task().replace("---\n", "---  \n"),
    ):
        assert parse(text).plan_hash == plain.plan_hash


def test_inner_blank_lines_and_indentation_of_the_prose_stay() -> None:
    text = TASK.format(extra="").replace("Fix it.", "    code\n\n\n---\nmore")
    assert parse(text).body.endswith("    code\n\n\n---\nmore")


def test_on_is_a_word_and_not_a_boolean() -> None:
    gate = "gates:\n  - {name: ask, on: on_tool_call, type: approval_always}\n"
    assert parse(task(gate)).gates[0].on == "on_tool_call"


def test_a_project_brings_its_tasks_along() -> None:
    plan = parse_plan(PROJECT.format(extra=""))
    assert plan.root.tasks == ["build", "deploy"]
    assert [item.id for item in plan.items] == ["ship", "build", "deploy"]
    assert {item.parent for item in plan.tasks} == {"ship"}
    assert plan.tasks[1].depends_on == ["build"]
    assert plan.tasks[0].type is WorkItemType.TASK
    assert parse(PROJECT.format(extra="")) == plan.root


def test_a_project_may_name_tasks_that_exist() -> None:
    text = PROJECT.format(extra="").replace("depends_on: [build]", "depends_on: [stored-1]")
    text = text.replace("tasks:\n", "tasks:\n  - stored-1\n")
    assert parse_plan(text, known=["stored-1"]).root.tasks == ["stored-1", "build", "deploy"]
    assert problems(text, known=[]) == [(6, "tasks[0]", "there is no work item `stored-1`")]


def test_skills_and_domain_are_inherited_unless_they_are_written() -> None:
    extra = "skills: [ops]\ndomain: personal\n"
    text = PROJECT.format(extra=extra).replace("make build\n", "make build\n    skills: []\n")
    build, deploy = parse_plan(text).tasks
    assert (build.skills, deploy.skills) == ([], ["ops"])
    assert (build.domain, deploy.domain) == ("personal", "personal")


def test_gates_of_a_project_hold_for_its_tasks() -> None:
    extra = (
        "gates:\n  - {name: outer, on: on_tool_call, type: approval_always, on_block: stop}\n"
        "escalation:\n  stop: {action: escalate_human}\n"
    )
    inner = "make deploy\n    gates: [{name: inner, on: on_tool_call, type: approval_always}]\n"
    text = PROJECT.format(extra=extra).replace("make deploy\n", inner)
    build, deploy = parse_plan(text).tasks
    assert [gate.name for gate in build.gates] == ["outer"]
    assert [gate.name for gate in deploy.gates] == ["outer", "inner"]
    assert build.escalation["stop"].action == "escalate_human"


def test_a_plan_knows_what_it_refers_to_outside_of_itself() -> None:
    assert parse_plan(PROJECT.format(extra="parent: above\n")).outside_references == {"above"}
    assert parse_plan(task("follow_up_of: b\ndepends_on: [c]\n")).outside_references == {"b", "c"}


def test_references_are_checked_only_if_somebody_knows_the_ids() -> None:
    text = task("follow_up_of: earlier\ndepends_on: [other]\nparent: above\n")
    assert parse(text).follow_up_of == "earlier"
    assert [(line, field) for line, field, _ in problems(text, known={"other"})] == [
        (5, "follow_up_of"),
        (7, "parent"),
    ]
    assert parse_plan(text, known={"earlier", "other", "above"}).root.parent == "above"


NOT_A_PLAN = {
    "empty": ("", 1, "starts with a line `---`"),
    "prose only": ("# Do it\n", 1, "starts with a line `---`"),
    "blank line first": ("\n" + TASK, 1, "starts with a line `---`"),
    "not closed": ("---\nid: a\n", 1, "not closed"),
    "front matter is a list": ("---\n- a\n---\nx", 2, "must be a mapping"),
    "front matter is empty": ("---\n---\nx", 2, "must be a mapping"),
    "front matter is text": ("---\nhello\n---\nx", 2, "must be a mapping"),
    "bad YAML": ("---\nid: a\n  b: [\n---\n", 3, "not YAML"),
    "too large": ("---\nid: a\n---\n" + "x" * MAX_PLAN_BYTES, 1, "at most 1000000 bytes"),
    "NUL in the prose": (task() + "a\nb\x00", 11, "control character '\\x00'"),
    "escape in the prose": (task() + "\x1b[2J", 10, "control character '\\x1b'"),
    "lone surrogate": (task() + "\ud800", 10, "control character"),
    "NUL in the YAML": (task("domain: a\x00\n"), 5, "control character"),
    "duplicate key": (task("title: Another\n"), 5, "`title` appears twice (first in line 4)"),
    "alias": (task("domain: &a x\nbody_of: *a\n"), 6, "aliases"),
    "tag": (task("domain: !!python/name:os.system x\n"), 5, "tags"),
    "merge": (task("<<: {title: x}\n"), 5, "merge keys"),
    "deep": (task("skills: " + "[" * 40 + "]" * 40 + "\n"), 5, "nested deeper than 16"),
    "many values": (task("skills: [" + "a," * 30_000 + "]\n"), 5, "more than 20000 values"),
}


@pytest.mark.parametrize("case", NOT_A_PLAN)
def test_what_cannot_be_read_is_refused_with_its_line(case: str) -> None:
    text, line, words = NOT_A_PLAN[case]
    found = problems(text)
    assert any(each[0] == line and words in each[2] for each in found), found


CHECK = "verify:\n  - name: c\n    run: 'test -f c'\n    expect: {%s}\n"
WRONG = {
    # the plan, the line, the field, and words of the sentence
    "unknown key": (task("verfy: []\n"), 5, "verfy", "did you mean `verify`?"),
    "unknown key deep down": (
        task("budget: {max_token: 1}\n"),
        5,
        "budget.max_token",
        "did you mean `max_tokens`?",
    ),
    "unknown key in a list": (
        task("gates:\n  - {name: g, on: on_tool_call, typ: regex}\n"),
        6,
        "gates[0].typ",
        "did you mean `type`?",
    ),
    "unknown key far from any": (task("zzzzz: 1\n"), 5, "zzzzz", "is not a known key"),
    "missing title": (task().replace("title: Fix the login\n", ""), 2, "title", "is missing"),
    "wrong type": (task("budget: {max_tokens: many}\n"), 5, "budget.max_tokens", "not text"),
    "number in quotes": (task("budget: {max_tokens: '5'}\n"), 5, "budget.max_tokens", "not text"),
    "fraction": (task("budget: {max_attempts: 1.5}\n"), 5, "budget.max_attempts", "whole number"),
    "boolean as a number": (
        task("budget: {max_attempts: true}\n"),
        5,
        "budget.max_attempts",
        "not",
    ),
    "the whole network": (
        task((CHECK % "exit_code: 0") + "    network: true\n"),
        9,
        "verify[0].network",
        "must be a list of hosts",
    ),
    "the whole network of the work": (
        task("workspace: {network: true}\n"),
        5,
        "workspace.network",
        "must be a list of hosts",
    ),
    "an address instead of a host": (
        task("workspace: {network: [127.0.0.1]}\n"),
        5,
        "workspace.network[0]",
        "must be a host name",
    ),
    "word as a boolean": (task("needs_approval: yes\n"), 5, "needs_approval", "must be true"),
    "number as text": (task("domain: 5\n"), 5, "domain", "must be text, not a whole number"),
    "mapping for a list": (task("verify: {a: b}\n"), 5, "verify", "must be a list, not a mapping"),
    "text for a list": (task("skills: coding\n"), 5, "skills", "must be a list, not text"),
    "nothing for a list": (task("verify:\n"), 5, "verify", "must be a list, not nothing"),
    "list for a mapping": (task("budget: [1]\n"), 5, "budget", "must be a mapping, not a list"),
    "unknown type": (task().replace("type: task", "type: job"), 3, "type", "task, project, goal"),
    "unknown mode": (task("interaction_mode: loud\n"), 5, "interaction_mode", "act_and_report"),
    "bad id": (task().replace("id: fix-login", "id: ../x"), 2, "id", "letters, digits"),
    "two predicates": (task(CHECK % "exit_code: 0, contains: x"), 8, "verify[0].expect", "exactly"),
    "no predicate": (task(CHECK % ""), 8, "verify[0].expect", "exactly one"),
    "regex that does not compile": (
        task(CHECK % "regex: '('"),
        8,
        "verify[0].expect.regex",
        "not a regular expression",
    ),
    "regex that takes for ever": (
        task(CHECK % "regex: '(?=a)b'"),
        8,
        "verify[0].expect.regex",
        "for ever",
    ),
    "regex that always matches": (
        task(CHECK % "regex: '.*'"),
        8,
        "verify[0].expect.regex",
        "able to fail",
    ),
    "file outside": (
        task(CHECK % "file_exists: ../../etc/shadow"),
        8,
        "verify[0].expect.file_exists",
        "`..`",
    ),
    "no briefing": (TASK.partition("# What")[0].format(extra=""), 6, "body", "is empty"),
    "body in the front matter": (task("body: x\n"), 5, "body", "below the front matter"),
    "status": (task("status: done\n"), 5, "status", "kept by Silas itself"),
    "token": (task("approval_token: {}\n"), 5, "approval_token", "kept by Silas itself"),
    "budget used": (task("budget_used: {}\n"), 5, "budget_used", "kept by Silas itself"),
    "spawned": (task("spawned_by: goal-1\n"), 5, "spawned_by", "kept by Silas itself"),
    "waived approval": (task("needs_approval: false\n"), 5, "needs_approval", "cannot waive"),
    "schedule of a task": (task("schedule: always_on\n"), 5, "schedule", "goals only"),
    "tasks of a task": (task("tasks: [a]\n"), 5, "tasks", "projects only"),
    "stream task": (task("agent: stream\n"), 5, "agent", "must be ephemeral"),
    "bad cron": (GOAL.format(extra="").replace("*/5", "61"), 5, "schedule", "minute"),
    "cron that is never due": (
        GOAL.format(extra="").replace("*/5 * * * *", "0 0 30 2 *"),
        5,
        "schedule",
        "never be due",
    ),
    "goal without checks": (STREAM.format(extra="agent: ephemeral\n"), 2, "verify", "is missing"),
    "spawning without a briefing": (
        GOAL.format(extra="on_failure: spawn_task\n"),
        2,
        "failure_context",
        "is missing",
    ),
    "failure context of a task": (task("failure_context: x\n"), 5, "failure_context", "goals only"),
    "unknown escalation": (task("on_failure: reprot\n"), 5, "on_failure", "did you mean `report`?"),
    "escalation that needs details": (
        task("on_failure: transfer_to_queue\n"),
        5,
        "on_failure",
        "is not defined",
    ),
    "unknown escalation of a gate": (
        task("gates:\n  - {name: g, on: on_tool_call, type: approval_always, on_block: x1}\n"),
        6,
        "gates[0].on_block",
        "`x1` is not defined",
    ),
    "consulting about a failure": (
        task("on_failure: consult_planner\n"),
        5,
        "on_failure",
        "is not defined",
    ),
    "fallback in a circle": (
        task("escalation:\n  a: {action: retry, fallback: b}\n  b: {action: retry, fallback: a}\n"),
        6,
        "escalation.a.fallback",
        "leads back to itself",
    ),
    "fallback into a circle": (
        task(
            "escalation:\n  a: {action: retry, fallback: b}\n"
            "  b: {action: retry, fallback: c}\n  c: {action: retry, fallback: b}\n"
        ),
        7,
        "escalation.b.fallback",
        "leads back to itself",
    ),
    "gate that nobody asks": (
        task("gates:\n  - {name: g, on: every_user_message, allowed_values: [x]}\n"),
        6,
        "gates[0].on",
        "never happens here",
    ),
    "step on the stream": (
        STREAM.format(
            extra="gates:\n  - {name: g, on: after_step, after_step: 1, allowed_values: [x]}\n"
        ),
        7,
        "gates[0].on",
        "never happens here",
    ),
    "levels without a start": (
        STREAM.format(extra="access_levels:\n  vip: {description: x, requires: [g]}\n"),
        6,
        "access_levels",
        "needs a level `public`",
    ),
    "level open to all": (
        STREAM.format(
            extra="access_levels:\n  public: {description: x}\n  vip: {description: y}\n"
        ),
        8,
        "access_levels.vip.requires",
        "open to everybody",
    ),
    "public behind a gate": (
        STREAM.format(extra="access_levels:\n  public: {description: x, requires: [g]}\n"),
        7,
        "access_levels.public.requires",
        "must be empty",
    ),
    "level behind an unknown gate": (
        STREAM.format(
            extra="access_levels:\n  public: {description: x}\n"
            "  vip: {description: y, requires: [nobody]}\n"
        ),
        8,
        "access_levels.vip.requires[0]",
        "not a gate of this plan",
    ),
    "levels of a task": (
        task("access_levels: {public: {description: x}}\n"),
        5,
        "access_levels",
        "goals only",
    ),
    "artifacts from nowhere": (
        task("input_artifacts_from: [a]\n"),
        5,
        "input_artifacts_from",
        "needs `follow_up_of`",
    ),
    "follow-up of itself": (task("follow_up_of: fix-login\n"), 5, "follow_up_of", "itself"),
    "waiting for itself": (task("depends_on: [fix-login]\n"), 5, "depends_on", "itself"),
    "constraint without content": (
        task("approvals:\n  - tool: send\n    constraints: {to: {}}\n"),
        7,
        "approvals[0].constraints.to",
        "says nothing",
    ),
    "envelope for every tool": (
        task("approvals: [{tool: '*'}]\n"),
        5,
        "approvals[0].tool",
        "exact",
    ),
    "project without tasks": (
        "---\nid: p\ntype: project\ntitle: P\n---\n",
        2,
        "tasks",
        "is missing",
    ),
    "project with an envelope": (
        PROJECT.format(extra="approvals: [{tool: send}]\n"),
        13,
        "approvals",
        "belongs to the task",
    ),
    "task that is no task": (
        PROJECT.format(extra="").replace("  - id: build", "  - 7\n  - id: build"),
        6,
        "tasks[0]",
        "must be the id of a task",
    ),
    "goal in a project": (
        PROJECT.format(extra="").replace("make build", "make build\n    type: goal"),
        9,
        "tasks[0].type",
        "must be `task`",
    ),
    "task of another project": (
        PROJECT.format(extra="").replace("make build", "make build\n    parent: other"),
        9,
        "tasks[0].parent",
        "must be `ship`",
    ),
    "project in a project": (
        PROJECT.format(extra="").replace("make build", "make build\n    tasks: [x]"),
        9,
        "tasks[0].tasks",
        "has no tasks itself",
    ),
    "task without a body": (
        PROJECT.format(extra="").replace("    body: make build\n", ""),
        6,
        "tasks[0].body",
        "is empty",
    ),
    "unknown key in a task": (
        PROJECT.format(extra="").replace("depends_on:", "dependson:"),
        12,
        "tasks[1].dependson",
        "did you mean `depends_on`?",
    ),
    "unknown task": (
        PROJECT.format(extra="").replace("[build]", "[biuld]"),
        12,
        "tasks[1].depends_on[0]",
        "did you mean `build`?",
    ),
    "the same id twice": (
        PROJECT.format(extra="").replace("id: deploy", "id: build").replace("[build]", "[]"),
        9,
        "tasks[1].id",
        "is there already",
    ),
    "the id of the project": (
        PROJECT.format(extra="").replace("id: build", "id: ship").replace("[build]", "[]"),
        6,
        "tasks[0].id",
        "is the id of the project",
    ),
    "circle": (
        PROJECT.format(extra="").replace("make build", "make build\n    depends_on: [deploy]"),
        9,
        "tasks[0].depends_on",
        "goes in a circle",
    ),
    "gate of the project again": (
        PROJECT.format(
            extra="gates: [{name: g, on: on_tool_call, type: approval_always}]\n"
        ).replace(
            "make build",
            "make build\n    gates: [{name: g, on: on_tool_call, type: approval_always}]",
        ),
        9,
        "tasks[0].gates[0].name",
        "is the name of a gate of the project",
    ),
    "invisible name": (task("\u202egnp: 1\n"), 5, "\\u202egnp", "is not a known key"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_named_with_line_field_and_remedy(case: str) -> None:
    text, line, field, words = WRONG[case]
    found = problems(text)
    assert any(each[:2] == (line, field) and words in each[2] for each in found), found


def test_every_problem_is_told_at_once_and_in_order() -> None:
    text = (
        task(
            "titel: x\n"
            "budget: {max_tokens: x}\n"
            "schedule: always_on\n"
            "status: done\n"
            "needs_approval: false\n"
            "on_failure: nowhere\n"
        )
        .replace("Fix it.", "")
        .replace("# What to do", "")
    )
    assert [(line, field) for line, field, _ in problems(text)] == [
        (5, "titel"),
        (6, "budget.max_tokens"),
        (7, "schedule"),
        (8, "status"),
        (9, "needs_approval"),
        (10, "on_failure"),
        (12, "body"),
    ]


def test_what_is_missing_is_told_once() -> None:
    assert problems("---\nid: a\n---\nx") == [
        (2, "title", "is missing"),
        (2, "type", "is missing"),
    ]


def test_a_longer_circle_is_shown_as_it_runs() -> None:
    tasks = "".join(
        f"  - {{id: {a}, title: T, body: b, depends_on: [{b}]}}\n"
        for a, b in (("a", "b"), ("b", "c"), ("c", "a"), ("d", "a"))
    )
    (found,) = problems(f"---\nid: p\ntype: project\ntitle: P\ntasks:\n{tasks}---\n")
    circle = found[2].removeprefix("goes in a circle: ").replace("`", "").split(" waits for ")
    assert circle[0] == circle[-1]
    edges = set(itertools.pairwise(circle))
    assert edges == {("a", "b"), ("b", "c"), ("c", "a")}


def test_the_error_explains_itself_as_data_and_as_text() -> None:
    with pytest.raises(PlanInvalid) as caught:
        parse(task("verfy: []\n"))
    assert caught.value.message == (
        "The plan has a problem:\n  line 5, verfy: is not a known key; did you mean `verify`?"
    )
    assert caught.value.explain()["details"]["problems"] == [
        {
            "line": 5,
            "column": 1,
            "field": "verfy",
            "message": "is not a known key; did you mean `verify`?",
        }
    ]


def test_a_value_is_not_repeated_in_a_problem() -> None:
    for line in ("skills: hunter2-secret\n", "budget: {max_tokens: hunter2-secret}\n"):
        assert "hunter2" not in str(problems(task(line)))


@pytest.mark.parametrize(
    ("raw", "line"),
    [(b"---\nid: \xff\n", 2), (b"---\nid: a\n---\n\xc3", 4), (b"\xed\xa0\x80", 1)],
)
def test_bytes_that_are_not_utf_8_are_refused_with_their_line(raw: bytes, line: int) -> None:
    with pytest.raises(PlanInvalid, match="not UTF-8") as caught:
        decode_plan(raw)
    assert caught.value.problems[0].line == line


def test_a_huge_file_is_refused_before_it_is_read() -> None:
    with pytest.raises(PlanInvalid, match="1000000 bytes"):
        decode_plan(b"x" * (MAX_PLAN_BYTES + 1))
    assert decode_plan(b"x" * MAX_PLAN_BYTES)


def test_the_body_knows_its_line() -> None:
    assert split_plan("---\na: 1\n---\n\n\nhello\n").body_line == 6
    assert split_plan("---\na: 1\n---\nhello").body_line == 4
    assert split_plan("---\na: 1\n---").body == ""


def test_the_keys_of_a_plan_are_those_of_a_work_item() -> None:
    assert set(keys_at(())) == set(WorkItem.model_fields) - NOT_IN_PLANS
    assert set(keys_at(())) == (PLAN_FIELDS - {"spawned_by", "skill_hashes"}) | {"needs_approval"}
    assert "regex" in keys_at(("verify", 0, "expect"))
    assert "from" in keys_at(("approvals", 0, "constraints", "to"))
    assert "regex" in keys_at(("gates", 0, "check_expect"))
    assert keys_at(("gates", 0, "auto_approve")) == ["min", "max"]
    assert keys_at(("approvals", 0, "constraints", "to", "one_of", 0)) == []
    assert keys_at(("title",)) == []
    assert keys_at(("nonsense", 3)) == []
