"""One attempt at a task: steps 2b to 2f. It ends with an outcome, whatever the worker does.

b   the briefing: body, previous failures, the planner's guidance
c   the worker runs, within what is left of the budget (c1, c2: `toolcalls.py`)
c3  artifacts come from what the calls really gave
d   the gates after steps (`step_gates.py`)
e   the checks, in a sandbox of their own
f   without checks: something was done, and the last call worked
"""

import asyncio
from dataclasses import dataclass, field, replace
from typing import Any

from silas.kernel import SilasError, TaintLevel
from silas.work.attempts import AttemptOutcome
from silas.work.binding import require_skills
from silas.work.budget import BudgetUsed, add_used
from silas.work.checks import VerificationResult
from silas.work.door import CHANGED, Blocked
from silas.work.errors import BindingBroken
from silas.work.ledger import LedgerEntry, collect_artifacts
from silas.work.models import WorkItem
from silas.work.paused import KeptRun, Scene
from silas.work.ports import (
    AgentLimits,
    AgentRun,
    Briefing,
    PausedRun,
    PausingAgent,
)
from silas.work.seen import Seen
from silas.work.spawning import describe_failures
from silas.work.step_gates import pass_gates_after_steps
from silas.work.toolcalls import AttemptTools
from silas.work.workbench import Workbench
from silas.work.workspaces import AttemptWorkspace

_THE_PLAN = "what the plan was made from"
_FAILURES = "what failed checks and earlier attempts printed"


@dataclass(frozen=True)
class Earlier:
    """What the next attempt is told about the ones before."""

    error: str | None = None
    failed: tuple[VerificationResult, ...] = ()
    guidance: str | None = None


@dataclass(frozen=True)
class Outcome:
    """How an attempt ended, before anything of it is taken over."""

    outcome: AttemptOutcome
    used: BudgetUsed
    summary: str = ""
    error: str | None = None
    results: list[VerificationResult] = field(default_factory=list)
    artifacts: dict[str, str] = field(default_factory=dict)
    next_steps: list[str] = field(default_factory=list)
    acted_outside: bool = False
    """Whether a call had effects beyond the attempt's own files."""
    guidance: str | None = None


class Paused(Exception):
    """The run waits for the owner; carries everything to go on with it."""

    def __init__(self, run: PausedRun, scene: Scene, used: BudgetUsed) -> None:
        super().__init__(run.calls[0].call.reasons[0])
        self.run = run
        self.scene = scene
        self.used = used


async def run_attempt(
    bench: Workbench, files: AttemptWorkspace, earlier: Earlier, started: float
) -> Outcome:
    """Steps b to f; raises `Blocked` or `Paused`."""
    taint, sources = await _begins_with(bench, files.item, earlier)
    scene = Scene(
        briefing=await _brief(bench, files, earlier),
        taint=taint,
        taint_sources=sources,
        guidance=earlier.guidance,
    )
    tools = await _tools(bench, files, scene, started)
    return await _concluded(tools, scene, await _work(bench, scene.briefing, tools))


async def resume_attempt(
    bench: Workbench, files: AttemptWorkspace, kept: KeptRun, started: float
) -> Outcome:
    """The same from where the attempt was paused, with what the owner has decided meanwhile."""
    item, scene = files.item, kept.scene
    tools = await _tools(bench, files, scene, started)
    tools.decided.extend(kept.approved())
    tools.remember(await bench.ledger.entries(item.id, files.attempt))
    briefing = scene.briefing.model_copy(update={"limits": _limits(item)})
    return await _concluded(tools, scene, await _work(bench, briefing, tools, kept))


async def _tools(
    bench: Workbench, files: AttemptWorkspace, scene: Scene, started: float
) -> AttemptTools:
    """What the worker does things with, in a run that has the taint of this scene."""
    item = files.item
    return AttemptTools(
        bench,
        files,
        [*bench.system_gates, *item.gates],
        item.budget_used,
        started,
        Seen(item, scene.taint, list(scene.taint_sources)),
        made=await _made(bench, item, files.attempt),
    )


async def _begins_with(
    bench: Workbench, item: WorkItem, earlier: Earlier
) -> tuple[TaintLevel, list[str]]:
    """The taint of the briefing, and where it comes from.

    What checks print comes from the checked system and may hold anything. It is in the briefing of
    the next attempt, behind the planner's advice, and in the body of a task that a goal spawns.
    """
    taint = await bench.taint_of(item)
    sources = [] if taint is TaintLevel.OWNER else [_THE_PLAN]
    if earlier.error is None and item.spawned_by is None:
        return taint, sources
    return TaintLevel.EXTERNAL, [*sources, _FAILURES]


async def _made(bench: Workbench, item: WorkItem, attempt: int) -> list[tuple[str, dict[str, Any]]]:
    """Every call that was begun so far, in all attempts; nobody knows that one had no effect."""
    if all(each.most is None for each in item.approvals):
        return []
    tried = [await bench.ledger.entries(item.id, number) for number in range(1, attempt + 1)]
    return [(entry.tool, entry.args) for entries in tried for entry in entries]


async def _concluded(
    tools: AttemptTools, scene: Scene, worked: tuple[AgentRun | PausedRun | None, str | None]
) -> Outcome:
    """Steps c3 to f, or the pause."""
    (ran, error), bench, files = worked, tools.bench, tools.files
    await tools.close()
    used = _charged(tools, ran)
    if tools.broken is not None:
        raise Blocked(CHANGED, tools.broken.message)
    if isinstance(ran, PausedRun):
        if any(each.call not in tools.waiting for each in ran.calls):
            return Outcome(AttemptOutcome.FAILED, used, error="It waits for what nobody asked.")
        seen = {"taint": tools.seen.taint, "taint_sources": tools.seen.taint_sources}
        raise Paused(ran, scene.model_copy(update=seen), used)
    if ran is None or ran.error is not None:
        return Outcome(AttemptOutcome.FAILED, used, error=error or (ran.error if ran else None))
    entries = await bench.ledger.entries(files.item.id, files.attempt)
    artifacts = collect_artifacts(entries)
    await _compare_claims(bench, files, ran, artifacts)
    await pass_gates_after_steps(tools, entries)
    outcome = Outcome(
        AttemptOutcome.FAILED,
        _charged(tools, ran),
        summary=tools.seen.foreign.without_echoes(ran.output.summary),
        artifacts=artifacts,
        next_steps=[tools.seen.foreign.without_echoes(each) for each in ran.output.next_steps],
        acted_outside=any(_acts_outside(bench, entry) for entry in entries),
    )
    if not files.item.verify:
        return _without_checks(outcome, entries)
    return await _verify(bench, files, outcome)


def _acts_outside(bench: Workbench, entry: LedgerEntry) -> bool:
    tool = bench.registry.get(entry.tool)
    return tool is None or not tool.contained


async def _brief(bench: Workbench, files: AttemptWorkspace, earlier: Earlier) -> Briefing:
    """Step b."""
    item = files.item
    parts = [item.body]
    if earlier.error is not None:
        parts.append(f"# Previous attempt {files.attempt - 1} failed\n\n{earlier.error}")
        if earlier.failed:
            parts.append(describe_failures(list(earlier.failed)))
    if earlier.guidance:
        parts.append(f"# Planner guidance\n\n{earlier.guidance}")
    try:
        await require_skills(item, bench.skills)
    except BindingBroken as error:
        raise Blocked(CHANGED, error.message) from error
    skills = {}
    for name in item.skill_hashes:
        skills[name] = await bench.skills.instructions(name) if bench.skills else ""
    return Briefing(
        work_item_id=item.id,
        attempt=files.attempt,
        instructions="\n\n".join(parts),
        approved=item.body,
        limits=_limits(item),
        skills=skills,
    )


def _limits(item: WorkItem) -> AgentLimits:
    budget, used = item.budget, item.budget_used
    return AgentLimits(
        tokens=budget.max_tokens - used.tokens,
        cost_usd=budget.max_cost_usd - used.cost_usd,
        seconds=max(0.0, budget.max_wall_time_seconds - used.wall_time_seconds),
    )


async def _work(
    bench: Workbench, briefing: Briefing, tools: AttemptTools, kept: KeptRun | None = None
) -> tuple[AgentRun | PausedRun | None, str | None]:
    """Step c: what the worker says, or why it said nothing."""
    if bench.agent is None:
        raise Blocked("execution_blocked_no_worker", "There is nobody here who could do the work.")
    try:
        async with asyncio.timeout(briefing.limits.seconds):
            if kept is None:
                return await bench.agent.run(briefing, tools), None
            if not isinstance(bench.agent, PausingAgent):
                return None, "This worker cannot go on with a run that was paused."
            return await bench.agent.resume(
                briefing, tools, paused=kept.run, verdicts=kept.verdicts()
            ), None
    except TimeoutError:
        return None, "The time that the budget allows is used up."
    except SilasError as error:
        return None, error.message
    except Exception as error:  # noqa: BLE001 - whatever a worker throws is a failed attempt
        return None, f"The worker failed: {type(error).__name__}: {error}"


def _charged(tools: AttemptTools, ran: AgentRun | PausedRun | None) -> BudgetUsed:
    """What was used by now; of a run that was cut off, what it had said."""
    tokens, cost = (ran.tokens, ran.cost_usd) if ran else tools.reported
    return add_used(tools.used_now(), tokens, cost)


async def _compare_claims(
    bench: Workbench, files: AttemptWorkspace, ran: AgentRun, artifacts: dict[str, str]
) -> None:
    """Step c3: what the worker says it made is written down if it did not make it."""
    invented = sorted(set(ran.output.artifact_refs) - set(artifacts))
    if invented:
        await bench.audit.log(
            "artifact_ref_mismatch",
            work_item_id=files.item.id,
            attempt=files.attempt,
            claimed=invented,
        )


async def _verify(bench: Workbench, files: AttemptWorkspace, outcome: Outcome) -> Outcome:
    """Step e."""
    try:
        await files.require_unchanged()
    except BindingBroken as error:
        raise Blocked(CHANGED, error.message) from error
    bench.progress(files.item.id, "verifying")
    report = await bench.verification.run_checks(files.item.verify, artifacts=files.directory)
    for result in report.results:
        what = "passed" if result.passed else "failed"
        bench.progress(files.item.id, what, f"{result.name}: {result.reason}")
    if report.all_passed:
        return replace(outcome, outcome=AttemptOutcome.PASSED, results=report.results)
    return replace(outcome, error="The checks did not pass.", results=report.results)


def _without_checks(outcome: Outcome, entries: list[LedgerEntry]) -> Outcome:
    """Step f."""
    last = entries[-1].result if entries else None
    if last is not None and last.success:
        return replace(outcome, outcome=AttemptOutcome.PASSED)
    error = "The last call did not work." if entries else "Nothing was done."
    return replace(outcome, error=f"{error} {last.error}" if last and last.error else error)
