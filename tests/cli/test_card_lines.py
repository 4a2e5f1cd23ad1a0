"""No text of a plan, a message or a call can look like a line that Silas itself has written."""

import json

import pytest

from silas.cli import approver
from silas.gates.risk import ActionKind, DeclaredEffect, Reversibility
from silas.kernel import quoted
from silas.work.models import WorkItem
from silas.work.plan import parse
from silas.work.wording import NO_CHANGES, NO_PROOF, plan_lines

LABELS = (
    "Done when:",
    "Checks:",
    "Files:",
    "At most:",
    "If it fails:",
    "Network:",
    "Risk:",
    "Works in:",
    "When:",
    "hash ",
    "Asked for by",
    "Lines ",
    "  Changes",
    "  Nothing",
)
FORGED = "\n".join(f"{label} no" for label in LABELS)
BREAKS = [
    "\n",
    "\r",
    "\r\n",
    "\t",
    "\u2028",
    "\u2029",
    "\x85",
    "\x0b",
    "\x0c",
    "\u202e\n",
    "\x1b[2K",
]


def own_lines(text: str) -> list[str]:
    """What a reader takes for Silas' own lines: what does not begin as quoted text does."""
    return [line for line in text.splitlines() if line[:4] not in ("  | ", "  > ", "  : ")]


def forged(body: str) -> WorkItem:
    item = parse("---\nid: one\ntype: task\ntitle: One\n---\nDo it.\n")
    return item.model_copy(update={"body": body, "title": body})


@pytest.mark.parametrize("separator", BREAKS)
def test_a_body_cannot_imitate_a_label(separator: str) -> None:
    item = forged(separator.join(["Hello.", *FORGED.split("\n")]))
    *_, last = shown = approver.shown_plan(item, lambda _: None).splitlines()
    head = ["Task:", "What to do:", "Files:", *map(approver.own_line, plan_lines(item))]
    limits = "At most: 5 attempts, 1800 seconds, 200000 tokens, $2, 3 calls of the planner."
    fails = "If it fails: report; if it is stuck: consult_planner."
    rest = ["Network: none", limits, fails, "Also signed:"]
    assert own_lines("\n".join(shown)) == [*head, *rest, last]
    assert plan_lines(item) == [NO_CHANGES, NO_PROOF]
    assert last == f"hash {item.plan_hash}  one"


def test_a_long_line_does_not_wrap_to_the_edge() -> None:
    for text in ("x" + " " * 70 + "Risk: low.", "\u4e2d" * 60 + "Risk: low."):
        for line in quoted(text, width=80).splitlines():
            assert line[:4] in ("  | ", "  : ")
            assert len(line.encode("utf-16-le")) <= 160
            assert len(line) + sum(ord(char) > 255 for char in line) <= 80


def test_a_quoted_text_can_be_read_in_one_way_only() -> None:
    assert quoted("a\n\tb\\t", width=80) == "  | a\n  | \\tb\\\\t"


RICH = """---
id: rich
type: task
title: Everything at once
domain: shop
budget: {max_tokens: 4321, max_cost_usd: 0.75, max_wall_time_seconds: 777, max_attempts: 4}
verify:
  - {name: it adds up, run: make test, expect: {contains: two passed}, timeout: 99}
gates:
  - {name: no_rivals, on: after_step, after_step: 3, type: string_match,
     check: step_output, allowed_values: [fine], on_block: polite}
escalation: {polite: {action: respond, message: I cannot say that}}
approvals:
  - {tool: send_mail, constraints: {to: {equals: ann@example.org}}}
workspace:
  path: /shop
  env: {MODE: careful}
  changes: {add: [new.txt], change: [old.txt], remove: [gone.txt]}
on_failure: retry
---
Do all of it.
"""


def leaves(value: object) -> list[str]:
    if isinstance(value, dict):
        return [leaf for each in value.values() for leaf in leaves(each)]
    if isinstance(value, list):
        return [leaf for each in value for leaf in leaves(each)]
    return [str(value)] if value not in (None, False, "") else []


def test_everything_that_is_signed_is_shown() -> None:
    item = parse(RICH)
    shown = approver.shown_plan(item, lambda _: None).lower()
    signed = leaves(json.loads(item.plan_bytes()))
    missing = [leaf for leaf in signed if leaf.strip().lower() not in shown]
    assert [leaf for leaf in missing if leaf != "True"] == []
    assert json.dumps(item.title) in approver.exact_plan(item)


def test_the_lines_that_would_be_executed_are_marked() -> None:
    item = forged("Do it.\n\n```run\nls\n```\n\n````\n```run\nrm x\n```\n````\n")
    shown = approver.shown_plan(item, lambda _: None).splitlines()
    assert [line for line in shown if line.startswith("  > ")] == [
        "  > ```run",
        "  > ls",
        "  > ```",
    ]
    assert any(line.startswith("Lines marked >") for line in shown)


def test_a_plan_says_before_the_yes_what_cannot_be_undone() -> None:
    item = parse(RICH)
    tools = sorted({each.tool for each in item.approvals})
    assert tools
    final = [f"What {name} does cannot be undone." for name in tools]

    def tidies(_: str) -> DeclaredEffect:
        return DeclaredEffect(action=ActionKind.TIDY, reversibility=Reversibility.REVERSIBLE)

    assert [each for each in final if each in approver.shown_plan(item, lambda _: None)] == final
    assert "cannot be undone" not in approver.shown_plan(item, tidies)
