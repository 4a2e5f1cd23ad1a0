"""The owner at the terminal, for commands that execute work: plans shown, decisions asked, results.

What would be signed is shown whole and quoted, so that no line of it can be taken for one of Silas'
own. Only a typed yes or the full hashes approve it.
"""

import asyncio
import json
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

import click

from silas.app.core import Core
from silas.app.work import open_executor
from silas.approval import ApprovalDecision, ApprovalVerdict
from silas.channels.replies import WHICH_CHANGES, TextReply, choices_for, reply_of
from silas.cli.commands import CliContext, on_terminal, screen_width
from silas.egress import in_words
from silas.gates.risk import EffectOf, RiskLevel
from silas.kernel import prefixed, quoted, strict_loads, visible, visible_json
from silas.review import Decisions, OwnersWord, ShownQuestion
from silas.review.cards import MAX_CHANGES_CHARS, asking_for
from silas.work import WorkItem, WorkItemResult, WorkItemStatus
from silas.work.authorisation import TAKE_OVER, plan_finals
from silas.work.batch_policy import policy_lines
from silas.work.errors import WorkNotDone
from silas.work.executor import WorkItemExecutor
from silas.work.models import ENDED_WELL
from silas.work.ports import AttemptWorker, PausedCall
from silas.work.script import executable_lines
from silas.work.wording import (
    beyond_line,
    check_line,
    file_lines,
    has_proof,
    kept_lines,
    plan_lines,
    status_words,
)

_YES = ApprovalDecision(verdict=ApprovalVerdict.APPROVED)
_NO = ApprovalDecision(verdict=ApprovalVerdict.DECLINED)
_GOOD = {*ENDED_WELL, WorkItemStatus.HEALTHY}
_MAX_DETAIL_CHARS = 160


@dataclass(frozen=True)
class TerminalApprover:
    """`Approver` at a terminal: shows exactly what would be signed, and takes only a typed yes.

    Its proof is the vault: the owner's own key signs what was decided.
    """

    decisions: Decisions
    effect_of: EffectOf

    async def decide_call(self, call: PausedCall, question: ShownQuestion) -> OwnersWord:
        reasons = "\n".join(in_quotes(reason) for reason in call.reasons)
        shown = shown_file(call) or prefixed(
            visible_json(call.model_dump(mode="json")), width=screen_width()
        )
        exact = visible_json(call.model_dump(mode="json"))
        return await self._ask(f"{reasons}\n{shown}\n{question_about(call)}", question, exact)

    async def decide_item(self, item: WorkItem, question: ShownQuestion) -> OwnersWord:
        text = f"{shown_plan(item, self.effect_of)}\nApprove exactly this?"
        return await self._ask(text, question, exact_plan(item))

    async def _ask(self, text: str, question: ShownQuestion, exact: str) -> OwnersWord:
        decision = await asyncio.to_thread(ask_owner, text, exact=lambda: exact)
        return await asyncio.to_thread(self.decisions.owners_word, question, decision)


class LiveView:
    """`Progress` on the terminal: one line for everything that happens."""

    def __init__(self, cli: CliContext) -> None:
        self._cli = cli

    def __call__(self, work_item_id: str, what: str, detail: str = "") -> None:
        text = visible(" ".join(detail.split()), keep_newlines=False)
        shown = text if len(text) <= _MAX_DETAIL_CHARS else f"{text[:_MAX_DETAIL_CHARS]}…"
        self._cli.say(f"  {work_item_id}  {what}{': ' if shown else ''}{shown}")


def executor_of(
    core: Core, cli: CliContext, *, agent: AttemptWorker | None = None
) -> WorkItemExecutor:
    """The executor for this call; it asks in between only if somebody is there to answer."""
    approver = (
        TerminalApprover(core.decisions, core.tools.effect_of)
        if on_terminal() and not cli.as_json
        else None
    )
    return open_executor(core, agent=agent, approver=approver, progress=LiveView(cli))


def shown_plan(item: WorkItem, effect_of: EffectOf) -> str:
    """The card of a plan: everything that is signed, in words; at its end the hash.

    It is read from the very bytes, and nothing in it is invisible. A field that is empty is left
    out; every other one is here, also one that this function has no words for.
    """
    plan = strict_loads(item.plan_bytes())
    workspace = plan.pop("workspace", None) or {}
    body, executable = plan.pop("body"), executable_lines(item.body)
    lines = [f"{plan.pop('type').capitalize()}:", in_quotes(plan.pop("title"))]
    lines += ["What to do:", in_quotes(body, marked=executable)] if body else []
    if executable:
        lines.append("Lines marked > are executed as they stand where no model does the work.")
    lines += ["Files:", *map(own_line, plan_lines(item))]
    if path := workspace.pop("path", None):
        lines += ["Works in:", in_quotes(path)]
    if schedule := plan.pop("schedule"):
        lines += ["When:", in_quotes(schedule)]
    if plan.pop("batch", None) and item.batch is not None:
        lines += ["Proposes:", in_quotes("\n".join(policy_lines(item.batch)))]
    checks = plan.pop("verify")
    if checks:
        lines.append("Done when:" if has_proof(item) else "Checks:")
        lines += [in_quotes(_check_in_words(check)) for check in checks]
    lines.append(f"Network: {in_words(workspace.pop('network', None) or ())}")
    lines += map(own_line, plan_finals([item], effect_of))
    lines.append(f"At most: {_limits_in_words(plan.pop('budget', None) or {})}")
    lines.append(f"If it fails: {plan.pop('on_failure')}; if it is stuck: {plan.pop('on_stuck')}.")
    workspace.pop("changes", None)  # each of them is a line of its own above
    rest = {name: value for name, value in {**plan, **workspace}.items() if value}
    rest.pop("id")
    if rest:
        lines += ["Also signed:", in_quotes("\n".join(_rest_in_words(rest)))]
    return "\n".join([*lines, f"hash {item.plan_hash}  {item.id}"])


_LIMITS = {
    "max_attempts": "{} attempts",
    "max_wall_time_seconds": "{} seconds",
    "max_tokens": "{} tokens",
    "max_cost_usd": "${}",
    "max_planner_calls": "{} calls of the planner",
}


def _limits_in_words(budget: dict[str, Any]) -> str:
    known = [
        words.format(_figure(budget.pop(name))) for name, words in _LIMITS.items() if name in budget
    ]
    return f"{', '.join([*known, *(f'{name} {_json(budget[name])}' for name in budget)])}."


def _figure(value: object) -> str:
    """Exactly this number, with two places if it is a fraction that has no more."""
    return f"{value:.2f}" if isinstance(value, float) and round(value, 2) == value else str(value)


def _rest_in_words(rest: dict[str, Any]) -> Iterator[str]:
    """Single values side by side, everything with an inside on a line of its own."""
    single = {name: value for name, value in rest.items() if not isinstance(value, dict | list)}
    if single:
        yield ", ".join(f"{name} {_json(single[name])}" for name in sorted(single))
    yield from (f"{name}: {_json(rest[name])}" for name in sorted(rest) if name not in single)


def exact_plan(item: WorkItem) -> str:
    """The very bytes that are signed, as JSON."""
    return f"{as_quoted_json(item.plan_bytes())}\nhash {item.plan_hash}  {item.id}"


_EXPECTED = {
    "equals": "prints exactly {}",
    "contains": "prints {}, among other things",
    "regex": "prints what matches {}",
    "exit_code": "ends with exit code {}",
    "file_exists": "the file {} is there",
    "not_empty": "prints something",
    "output_gt": "prints a number above {}",
    "output_lt": "prints a number below {}",
}


def _check_in_words(check: dict[str, Any]) -> str:
    expected = {name: value for name, value in check.pop("expect").items() if value is not None}
    wanted = " and ".join(
        _EXPECTED.get(key, f"{key} {{}}").format(_json(value)) for key, value in expected.items()
    )
    hosts = check.pop("network", None)
    reaches = f"; reaches {in_words(hosts)}" if hosts else ""
    name, run = check.pop("name"), check.pop("run")
    more = "".join(f"; {key} {_json(value)}" for key, value in check.items() if value)
    return f"{name}: {run}\n{wanted}{more}{reaches}"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def own_line(text: str) -> str:
    """A line of Silas' own with names in it that are not; one too long is quoted like them."""
    shown = visible(text, keep_newlines=False)
    fits = len(shown) + 2 <= screen_width() and shown.isascii()
    return f"  {shown}" if fits else prefixed(shown, width=screen_width())


def shown_file(call: PausedCall) -> str:
    """A file that work changed beyond its plan, with its difference; empty for other calls."""
    if call.tool != TAKE_OVER:
        return ""
    diff = str(call.args.get("diff", "")).rstrip("\n")
    digests = " -> ".join(str(call.args.get(each) or "nothing") for each in ("before", "after"))
    head = [own_line(beyond_line(call.args)), own_line(f"SHA-256: {digests}")]
    return "\n".join([*head, *([in_quotes(diff)] if diff else [])])


def question_about(call: PausedCall) -> str:
    """What a yes to this call means."""
    return "Take this file?" if call.tool == TAKE_OVER else "Let this one call happen?"


def as_quoted_json(signed: bytes) -> str:
    """What is signed, so that no line of it can be taken for a line of Silas' own."""
    return prefixed(visible_json(strict_loads(signed)), width=screen_width())


def in_quotes(text: str, *, marked: Collection[int] = ()) -> str:
    """Words that are not Silas' own, likewise."""
    return quoted(text, width=screen_width(), marked=marked)


def decide(
    cli: CliContext,
    items: list[WorkItem],
    hashes: tuple[str, ...],
    *,
    effect_of: EffectOf,
    option: str = "--approve",
    shows: str = "silas plan hash",
    question: str = "Approve exactly this, and execute it?",
    risk: RiskLevel = RiskLevel.LOW,
    changes: bool = False,
) -> ApprovalDecision:
    """Show the items whole, and take the owner's decision about exactly them.

    It is typed at the terminal, or it is the full hash of every item. There is no third way:
    without either, nothing is approved. `option` takes the hashes that the command `shows`.
    """
    cli.say("\n\n".join(shown_plan(item, effect_of) for item in items))
    if hashes:
        if set(hashes) != {item.plan_hash for item in items}:
            raise click.UsageError(
                f"{option} must name the full hash of every item, and nothing else. This is "
                f"another plan than the one that you looked at: see `{shows}`."
            )
        return _YES
    if not on_terminal() or cli.as_json:
        raise click.UsageError(
            f"Nobody can be asked here. Read the plan, and say {option} with the hash that "
            f"`{shows}` shows."
        )
    return ask_owner(
        question,
        exact=lambda: "\n\n".join(map(exact_plan, items)),
        risk=risk,
        changes=changes,
    )


def tell_result(cli: CliContext, result: WorkItemResult, items: list[WorkItem]) -> None:
    """Show what is so, and end with 0 only if the work was carried out."""
    cli.show(
        {
            "result": result.model_dump(mode="json"),
            "items": [{"id": item.id, "status": item.status.value} for item in items],
        },
        "\n".join(_lines(result, items)),
    )
    if result.status not in _GOOD:
        raise click.exceptions.Exit(WorkNotDone.exit_code)


def _lines(result: WorkItemResult, items: list[WorkItem]) -> list[str]:
    lines = [f"{result.work_item_id} is {status_words(result.status)}. {visible(result.summary)}"]
    if result.last_error:
        lines.append(f"  {visible(result.last_error)}")
    lines += [f"  {visible(check_line(each))}" for each in result.verification_results]
    lines += [f"  {item.id}: {status_words(item.status)}" for item in items[1:]]
    lines += [f"  {visible(each)}" for each in file_lines(result.changes, result.left)]
    lines += [f"  {visible(each)}" for each in kept_lines(result)]
    lines += [f"  next: {visible(step)}" for step in result.next_steps]
    return lines


def ask_owner(
    question: str,
    *,
    exact: Callable[[], str] | None = None,
    risk: RiskLevel = RiskLevel.LOW,
    changes: bool = False,
) -> ApprovalDecision:
    """The owner's answer, typed; an empty line is a no.

    `exact` gives what `?` shows. With `changes`, a plan can be sent back with words.
    """
    choices = choices_for(risk, exact=exact is not None, changes=changes)
    while True:
        typed = str(click.prompt(f"{question} {choices}", default="", show_default=False, err=True))
        reply = reply_of(typed, risk=risk)
        if exact is not None and reply is TextReply.EXACT:
            click.echo(exact())
        elif changes and reply is TextReply.CHANGES:
            words = str(click.prompt(WHICH_CHANGES, default="", show_default=False, err=True))
            if words.strip():
                return asking_for(words.strip()[:MAX_CHANGES_CHARS])
        elif reply is TextReply.YES:
            return _YES
        elif reply is TextReply.NO or not typed.strip():
            return _NO
        question = "Please answer."
