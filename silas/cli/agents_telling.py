"""Companions in lines that people read."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from silas.companions.words import CHECKS, spoken_tool
from silas.kernel import visible

_REASONS = {
    "subscription": "something changed",
    "timer": "its timer",
    "user_initiated": "you spoke to it",
    "recovery_catchup": "catching up",
    "manual": "you woke it",
}
_STATUSES = {
    "queued": "waits",
    "running": "works",
    "completed": "done",
    "failed_terminal": "failed",
    "cancelled": "called off",
}
_PERSONA = {
    "voice_directives": "voice",
    "tone_bounds": "tone",
    "coaching_style": "style",
    "anti_sycophancy_policy": "honesty",
}
_HEALTH = {"idle": "ready", "sleeping": "asleep", "out_of_budget": "budget used up"}
_SUBJECTS = {"model": "asking for a proposal", "offline": "the fixed rules"}
_RESULTS = {
    "confirmation_required": "it waits for your decision",
    "success": "done",
    "partial": "looked at",
    "declined": "you said no",
}
_OFFLINE = "offline:brain"
_WAITS = {"blocked": "for your answer", "waiting": "for your decision", "approved": "to be done"}
_UNITS = {"tokens": " tokens", "cost_micro_usd": "", "runtime_ms": " min", "tool_calls": " calls"}
_RUNS_SHOWN = 5


def companion_line(each: Mapping[str, Any]) -> str:
    """One companion in one line."""
    extra = [
        _HEALTH.get(each["health"], each["health"]),
        ", ".join(category["name"] for category in each["categories"]),
        each["model_id"] or "no model: fixed rules",
        *(["needs your consent"] if each["needs_consent"] else []),
        *([f"{each['open_questions']} to answer"] if each["open_questions"] else []),
        *([f"{each['waiting_actions']} to decide"] if each["waiting_actions"] else []),
        *(["report is stale"] if each["report_fresh"] is False else []),
    ]
    return f"{visible(each['display_name'])}  {visible(' · '.join(extra))}"


def detail_lines(found: Mapping[str, Any], zone: ZoneInfo) -> Iterable[str]:
    """Everything about one."""
    companion = found["companion"]
    yield companion_line(companion)
    yield visible(found["summary"])
    yield f"  Id        {companion['id']}"
    yield f"  Wakes     {visible(', '.join(found['wakes_on']) or 'only when you wake it')}"
    yield f"  May       {visible(', '.join(found['may']))}"
    yield f"  Asks you  from {found['confirm_from']} risk on"
    yield f"  Today     {budget_line(companion['budget'])}"
    for each in found["questions"]:
        yield f"  Question  {visible(each['prompt_text'])}"
    for each in found["waiting"]:
        yield f"  Waits     {waiting_line(each)}"
    for each in found["runs"][:_RUNS_SHOWN]:
        yield f"  Run       {run_line(each, zone)}"


def budget_line(budget: Mapping[str, Any]) -> str:
    """What is used of today's budget, in the units that it is set in."""
    told = [
        f"{_amount(name, budget['used'].get(name, 0))} of {_amount(name, most)}{unit}"
        for name, unit in _UNITS.items()
        if (most := budget["limits"].get(name)) is not None
    ]
    return ", ".join(told) or "no limits"


def _amount(measure: str, amount: int) -> str:
    if measure == "cost_micro_usd":
        return f"${amount / 1_000_000:.2f}"
    return f"{amount / 60_000:.0f}" if measure == "runtime_ms" else str(amount)


def _used(usage: Mapping[str, int]) -> str:
    told = {
        "tokens": f"{usage.get('tokens', 0)} tokens",
        "cost_micro_usd": f"${usage.get('cost_micro_usd', 0) / 1_000_000:.4f}",
        "runtime_ms": f"{usage.get('runtime_ms', 0) / 1000:.1f} s",
        "tool_calls": f"{usage.get('tool_calls', 0)} calls",
    }
    return ", ".join(told[name] for name in told if usage.get(name)) or "nothing"


def waiting_line(each: Mapping[str, Any]) -> str:
    """An action that waits."""
    waits = _WAITS.get(each["status"], each["status"])
    return f"{visible(each['what'])} ({waits}): {visible(each['reason'])}"


def report_lines(told: Mapping[str, Any]) -> Iterable[str]:
    """A report; every claim begins with the number that `--why` takes."""
    content = told["report"]["content"]
    yield visible(content["headline"])
    yield told["freshness"]["sentence"]
    for section in content["sections"]:
        if section["claims"]:
            yield f"\n{visible(section['title'])}"
        for claim in section["claims"]:
            guess = " (inferred)" if claim.get("inference_flag") == "inferred" else ""
            yield f"  {claim['id']:<14} {visible(claim['text'])}{guess}"


def source_line(each: Mapping[str, Any], zone: ZoneInfo) -> str:
    """One source of a claim."""
    gone = "" if each["exists"] else "  (it is not there any more)"
    how = "inferred from" if each["inferred"] else "from"
    read = f"read {when(each['captured_at'], zone)}"
    return f"{how} {visible(each['label'])}  [{visible(each['source_locator'])}], {read}{gone}"


def run_line(each: Mapping[str, Any], zone: ZoneInfo) -> str:
    """One run in one line."""
    said = visible(each["error_message"] or each["error_code"] or "")
    problem = f": {said} [{each['error_code']}]" if each["error_code"] else ""
    cause, came = _REASONS.get(each["reason"], each["reason"]), run_status(each["status"])
    return f"{each['run_key'][:12]}  {when(each['queued_at'], zone)}  {cause}, {came}{problem}"


def run_status(status: str) -> str:
    """What came of a run."""
    return _STATUSES.get(status, status.replace("_", ": ", 1).replace("_", " "))


def trace_lines(found: Mapping[str, Any], zone: ZoneInfo) -> Iterable[str]:
    """A run, explained."""
    cause = _REASONS.get(found["reason"], found["reason"])
    yield f"{found['run_key'][:12]}  {when(found['started_at'], zone)}  {cause}, " + run_status(
        found["status"]
    )
    model = found["model_id"] if found["model_id"] != _OFFLINE else None
    yield f"  Model     {visible(model or 'none: fixed rules')}"
    yield f"  Prompt    {found['prompt_id']}, version {found['prompt_version']}"
    yield f"  Persona   {(found['persona_version_id'] or 'none')[:12]}"
    yield f"  Took      {found['latency_ms']} ms, {found['retries']} retries"
    yield f"  Used      {_used(found['usage'])}"
    for checks, subjects in _alike(_by_subject(found["policy_decisions"])).items():
        yield f"  Checked   {', '.join(subjects)}: {checks}"
    for each in found["tool_calls"]:
        name = spoken_tool(str(each.get("tool_name", "")))
        code = str(each.get("error_code") or each.get("status") or "")
        came = _RESULTS.get(code, code)
        yield f"  Call      {visible(name)}: {visible(str(came))}"
    if found["error_code"]:
        yield f"  Problem   {visible(found['error_message'] or '')} [{found['error_code']}]"


def _by_subject(decisions: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    """What was checked, once for each subject; a no says why."""
    found: dict[str, dict[str, None]] = {}
    for each in decisions:
        told = CHECKS.get(each["check"], each["check"])
        if not each["allowed"]:
            why = visible(str(each.get("detail") or each.get("error_code") or ""))
            told = f"NOT {told} ({why})"
        found.setdefault(str(each["subject"]), {})[told] = None
    return {subject: list(told) for subject, told in found.items()}


def _alike(by_subject: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """The subjects that had the same answers, told together."""
    found: dict[str, list[str]] = {}
    for subject, checks in by_subject.items():
        name = _SUBJECTS.get(subject) or spoken_tool(subject)
        found.setdefault(", ".join(checks), []).append(visible(name))
    return found


def persona_lines(versions: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    """Every version of a persona, each with what it changes."""
    for each in versions:
        version = each["version"]
        state = "in use" if each["in_use"] else persona_state(version)
        author = {"user": "you", "agent": "the companion"}.get(
            version["authored_by"], "the kind that it was made from"
        )
        yield f"Version {version['version']} ({state}), by {author}"
        for change in each["changes"]:
            yield f"  {_PERSONA.get(change['field'], change['field'])}"
            if change["before"] is not None:
                yield f"    - {visible(plain(change['before']))}"
            yield f"    + {visible(plain(change['after']))}"


def persona_state(version: Mapping[str, Any]) -> str:
    """How a version stands that is not in use."""
    if version["status"] == "archived" and version.get("approved_at") is None:
        return "declined"
    return str({"archived": "was in use", "draft": "proposed"}.get(version["status"], "unknown"))


def plain(value: Any) -> str:
    """A value of a persona without its brackets."""
    if isinstance(value, Mapping):
        return "; ".join(f"{name.replace('_', ' ')}: {plain(each)}" for name, each in value.items())
    return " ".join(map(plain, value)) if isinstance(value, list | tuple) else str(value)


def switch_line(each: Mapping[str, Any]) -> str:
    """A stop switch that is on."""
    why = f" ({visible(each['reason'])})" if each["reason"] else ""
    what = {
        "global": "all companions",
        "companion": visible(each["target_name"] or str(each["target"])),
        "tool_class": f"calls of the class {each['target']}",
    }[each["scope"]]
    return f"Stopped: {what}{why}. Release: silas agents go"


def when(moment: str, zone: ZoneInfo) -> str:
    """A moment on the owner's clock."""
    return f"{datetime.fromisoformat(moment).astimezone(zone):%Y-%m-%d %H:%M}"
