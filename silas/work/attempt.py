"""One attempt at a task, from its start to its end (steps 2a to 2f of `execution.py`).

a   the attempt is claimed in the store, and the owner's key vouches for it that it was begun
    first, the checks run on the untouched files (`delivery.py`)
b   the briefing: body, previous failures, the planner's guidance
c   the worker runs, within what is left of the budget (c1, c2: `tool_calls.py`)
c3  artifacts come from what the calls really gave
d   gates look at what a step has given (`tool_calls.py`); what they ask is decided when the worker
    has ended, and before anything is delivered
e   what was done is held against the plan and checked, in a sandbox of its own (`delivery.py`)
f   without checks: something was done, the last call worked, and a script came to its end

What passed its checks is taken over (`publication.py`). After a failure there may be another
attempt, with the planner's advice. An attempt ends with an outcome, whatever the worker does: it is
closed in the store, or waits there for the owner's decision. One that is stopped in the middle is
closed as well: none that nobody works on stays open.
"""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypeVar

from silas.approval import ApprovalVerdict
from silas.audit.models import AuditTrail, ExaminedLog
from silas.kernel import (
    ApprovalError,
    AuditError,
    Provenance,
    SilasError,
    TaintLevel,
    external,
    join_taint,
)
from silas.tools.declaration import Tool, ToolRegistry
from silas.tools.tree import FileRefused
from silas.work.admission import CHANGED, GATE_BLOCKED, NO_APPROVAL, Blocked, require_same
from silas.work.attempt_store import AttemptOutcome
from silas.work.authorisation import AFTER_STEP, decide_call_now, require_decided
from silas.work.binding import require_skills
from silas.work.control import StoppedByOwner
from silas.work.delivery import (
    CONFLICT,
    AttemptEnd,
    AttemptPaused,
    check_before,
    deliver,
    deliver_decided,
    is_take_over,
    judge,
)
from silas.work.errors import ArtifactRefused, BindingBroken, PublicationConflict, WorkItemConflict
from silas.work.execution_context import ExecutionContext
from silas.work.ledger import LedgerEntry, ToolLedger, collect_artifacts
from silas.work.models import (
    ENDED_WELL,
    STOPPED_BY_OWNER,
    BudgetUsed,
    VerificationResult,
    WorkItem,
    WorkItemStatus,
    add_used,
)
from silas.work.paused import KeptRun, Scene
from silas.work.plan import CONSULT_PLANNER
from silas.work.ports import (
    AgentLimits,
    AgentRun,
    Briefing,
    PausedCall,
    PausedRun,
    Planner,
    WaitingCall,
)
from silas.work.provenance import RunTaint, read_by, read_by_checks
from silas.work.publication import clear_files, keep_artifacts, log_files, log_left_out, publish
from silas.work.script import worker_for
from silas.work.spawning import describe_failures
from silas.work.store import require_item
from silas.work.tool_calls import AttemptTools
from silas.work.workspaces import AttemptWorkspace, TargetMoved

_CONSULT_AFTER = 3
_GUIDANCE_SECONDS = 90
_NOT_EXHAUSTING = {"max_planner_calls"}
_THE_PLAN = "what the plan was made from"
WAITS = "It waits for the owner's decision about"
_WAITING = frozenset({WorkItemStatus.PENDING})
_MAX_PUBLISH_TRIES = 20
"""More than there are attempts at once (`RunLimits.pool`): each may wait for all others."""
T = TypeVar("T")


@dataclass(frozen=True)
class Earlier:
    """What the next attempt is told about the ones before."""

    error: str | None = None
    failed: tuple[VerificationResult, ...] = ()
    guidance: str | None = None


@dataclass(frozen=True)
class AdmittedItem:
    """What was admitted: the item as it was approved, and the artifacts to start with."""

    item: WorkItem
    imported: dict[str, bytes]
    begun_at: datetime
    """When its approval had to be in force: now, or when the work was begun that goes on."""
    examined: ExaminedLog | None
    """How far the log was examined at the door; what came since is all that is left to examine."""


def exhausted(item: WorkItem) -> bool:
    """Step 1: reaching a limit means that the budget is used up."""
    return bool(set(item.budget_used.reached(item.budget)) - _NOT_EXHAUSTING) or (
        item.attempts >= item.budget.max_attempts
    )


async def start_attempt(ctx: ExecutionContext, item: WorkItem, kept: KeptRun | None) -> WorkItem:
    """Step 2a; raises `StoppedByOwner` if the owner was faster."""
    try:
        if kept is not None and ctx.paused is not None:
            item = await ctx.paused.claim(kept, runner=ctx.runner)
            approved = [each.id for each in kept.approved()]
            await ctx.audit.log("work_goes_on", work_item_id=item.id, approved=approved)
        else:
            item = await ctx.attempts.start(
                item.id, runner=ctx.runner, only_from=_WAITING, record=ctx.on_start
            )
    except WorkItemConflict:
        now = await require_item(ctx.items, item.id)
        if now.status in STOPPED_BY_OWNER:
            raise StoppedByOwner(now.status) from None
        raise
    what = "attempt" if kept is None else "goes on"
    ctx.progress(item.id, what, f"{item.attempts} of {item.budget.max_attempts}")
    return item


async def one_attempt(
    ctx: ExecutionContext,
    item: WorkItem,
    entry: AdmittedItem,
    earlier: Earlier,
    kept: KeptRun | None,
) -> tuple[AttemptEnd, WorkItem]:
    """One attempt, closed in the store unless it waits; returns the item as it then is."""
    outcome = AttemptEnd(AttemptOutcome.STOPPED, item.budget_used, error="It was stopped.")
    status = WorkItemStatus.PENDING
    paused: AttemptPaused | None = None
    try:
        outcome, status = await _tried(ctx, item, entry, earlier, kept)
    except AttemptPaused as waits:
        paused, outcome = waits, replace(outcome, error=f"{WAITS} {waits}")
    except Blocked as blocked:
        await ctx.audit.log(blocked.event, work_item_id=item.id, reason=blocked.reason)
        outcome = replace(
            outcome, outcome=AttemptOutcome.BLOCKED, error=blocked.reason, cause=blocked.event
        )
        status = WorkItemStatus.BLOCKED
    finally:
        # Also when it was cancelled: an attempt that nobody works on must not stay open.
        ending = _close(ctx, item, outcome, status) if paused is None else _wait(ctx, item, paused)
        item = await asyncio.shield(ending)
    return outcome, item


async def _tried(
    ctx: ExecutionContext,
    item: WorkItem,
    entry: AdmittedItem,
    earlier: Earlier,
    kept: KeptRun | None,
) -> tuple[AttemptEnd, WorkItemStatus]:
    started, places = ctx.clock.monotonic(), ctx.workspaces
    require_same(entry.item, item)
    ctx = await _with_skills(ctx, item)
    await _vouch_for_beginning(ctx.audit, entry.examined)
    try:
        if kept is None:
            number, imported = item.attempts, entry.imported
            files = await places.open_attempt(item, number, imported)
        else:
            files = await asyncio.to_thread(places.reopen, item, item.attempts)
    except (BindingBroken, FileRefused) as error:
        raise Blocked(CHANGED, error.message) from error
    await log_left_out(ctx.progress, ctx.audit, files)
    try:
        if kept is None:
            outcome = await run_attempt(ctx, files, earlier, started, begun_at=entry.begun_at)
        else:
            outcome = await resume_attempt(ctx, files, kept, started)
    except AttemptPaused:
        await asyncio.to_thread(places.keep, files)
        raise
    if outcome.outcome is AttemptOutcome.PASSED:
        return await _to_the_end(_take_over(ctx, files, outcome))
    return await after_failure(ctx.planner, ctx.audit, item, outcome)


async def _with_skills(ctx: ExecutionContext, item: WorkItem) -> ExecutionContext:
    """The same with the tools of the item's skills; they exist in this attempt alone."""
    if not item.skill_hashes:
        return ctx
    try:
        await require_skills(item, ctx.skills)
        more = await ctx.skills.tools(item.skill_hashes) if ctx.skills else ()
        return replace(ctx, registry=ctx.registry.with_tools(more))
    except BindingBroken as error:
        raise Blocked(CHANGED, error.message) from error
    except ValueError as error:
        raise Blocked(CHANGED, f"Two skills of this plan do not go together: {error}") from error


async def _require_same_skills(ctx: ExecutionContext, item: WorkItem) -> None:
    """Raise `Blocked` if a skill was changed while the worker used it: nothing is taken over."""
    try:
        await require_skills(item, ctx.skills)
    except BindingBroken as error:
        raise Blocked(CHANGED, error.message) from error


async def _vouch_for_beginning(audit: AuditTrail, examined: ExaminedLog | None) -> None:
    """Before anything is done, the owner's key vouches for it that this was begun."""
    try:
        await audit.write_checkpoint(examined)
    except AuditError as error:
        raise Blocked(NO_APPROVAL, error.message) from error


async def run_attempt(
    ctx: ExecutionContext,
    files: AttemptWorkspace,
    earlier: Earlier,
    started: float,
    *,
    begun_at: datetime,
) -> AttemptEnd:
    """Steps b to f; raises `Blocked` or `AttemptPaused`."""
    found = await _begins_with(ctx, files, earlier)
    scene = Scene(
        briefing=await _brief(ctx, files, earlier),
        taint=found.taint,
        taint_sources=list(found.sources),
        guidance=earlier.guidance,
        begun_at=begun_at,
        before=await check_before(ctx.progress, ctx.verification, files),
    )
    tools = await _tools(ctx, files, scene, started)
    return await _concluded(tools, scene, await _work(ctx, scene.briefing, tools))


async def resume_attempt(
    ctx: ExecutionContext, files: AttemptWorkspace, kept: KeptRun, started: float
) -> AttemptEnd:
    """The same from where the attempt was paused, with what the owner has decided meanwhile."""
    item, scene = files.item, kept.scene
    if worker_has_ended(kept):
        return await _taken_up(ctx, files, kept)
    tools = await _tools(ctx, files, scene, started)
    tools.decided.extend(kept.approved())
    tools.remember(await ctx.ledger.entries(item.id, files.attempt))
    briefing = scene.briefing.model_copy(update={"limits": _limits(item)})
    return await _concluded(tools, scene, await _work(ctx, briefing, tools, kept))


async def _begins_with(
    ctx: ExecutionContext, files: AttemptWorkspace, earlier: Earlier
) -> Provenance:
    """What the briefing is made from: the plan, and what earlier runs and checks have read.

    What checks print is in the briefing of the next attempt, behind the planner's advice, and in
    the body of a task that a goal spawns.
    """
    item = files.item
    names = [name for name in (item.id, item.parent, item.spawned_by, item.follow_up_of) if name]
    found = await read_by(ctx, names)
    # A skill is a stranger's text for ever: the owner has approved that it is used, not written it.
    if item.skill_hashes:
        found = found.joined(external(*(f"the skill {name}" for name in item.skill_hashes)))
    taint = await ctx.taint_of(item)
    if taint is not TaintLevel.OWNER and not found.sources:
        found = found.joined(Provenance(taint, (_THE_PLAN,)))
    if earlier.error is not None or item.spawned_by is not None:
        found = found.joined(await read_by_checks(ctx, files))
    return Provenance(join_taint(taint, found.taint), found.sources)


async def _brief(ctx: ExecutionContext, files: AttemptWorkspace, earlier: Earlier) -> Briefing:
    """Step b."""
    item = files.item
    parts = [item.body]
    if earlier.error is not None:
        parts.append(f"# Previous attempt {files.attempt - 1} failed\n\n{earlier.error}")
        if earlier.failed:
            parts.append(describe_failures(list(earlier.failed)))
    if earlier.guidance:
        parts.append(f"# Planner guidance\n\n{earlier.guidance}")
    await _require_same_skills(ctx, item)
    skills = {}
    for name in item.skill_hashes:
        skills[name] = await ctx.skills.instructions(name) if ctx.skills else ""
    return Briefing(
        work_item_id=item.id,
        attempt=files.attempt,
        instructions="\n\n".join(parts),
        approved=item.body,
        limits=_limits(item),
        skills=skills,
        interaction_mode=item.interaction_mode,
    )


def _limits(item: WorkItem) -> AgentLimits:
    budget, used = item.budget, item.budget_used
    return AgentLimits(
        tokens=budget.max_tokens - used.tokens,
        cost_usd=budget.max_cost_usd - used.cost_usd,
        seconds=max(0.0, budget.max_wall_time_seconds - used.wall_time_seconds),
    )


async def _tools(
    ctx: ExecutionContext, files: AttemptWorkspace, scene: Scene, started: float
) -> AttemptTools:
    """What the worker does things with, in a run that has the taint of this scene."""
    item = files.item
    return AttemptTools(
        ctx,
        files,
        [*ctx.system_gates, *item.gates],
        item.budget_used,
        started,
        RunTaint(item, scene.taint, list(scene.taint_sources)),
        made=await _made(ctx.ledger, item, files.attempt),
    )


async def _made(
    ledger: ToolLedger, item: WorkItem, attempt: int
) -> list[tuple[str, dict[str, Any]]]:
    """Every call that was begun so far, in all attempts; nobody knows that one had no effect."""
    if all(each.most is None for each in item.approvals):
        return []
    tried = [await ledger.entries(item.id, number) for number in range(1, attempt + 1)]
    return [(entry.tool, entry.args) for entries in tried for entry in entries]


async def _work(
    ctx: ExecutionContext, briefing: Briefing, tools: AttemptTools, kept: KeptRun | None = None
) -> tuple[AgentRun | PausedRun | None, str | None]:
    """Step c: what the worker says, or why it said nothing."""
    if ctx.agent is None:
        raise Blocked("execution_blocked_no_worker", "There is nobody here who could do the work.")
    agent = worker_for(tools.files.item, ctx.agent, kept.run if kept else None)
    try:
        async with asyncio.timeout(briefing.limits.seconds):
            if kept is None:
                return await agent.run(briefing, tools), None
            return await agent.resume(
                briefing, tools, paused=kept.run, verdicts=kept.verdicts()
            ), None
    except TimeoutError:
        return None, "The time that the budget allows is used up."
    except SilasError as error:
        return None, error.message
    except Exception as error:  # noqa: BLE001 - whatever a worker throws is a failed attempt
        return None, f"The worker failed: {type(error).__name__}: {error}"


async def _concluded(
    tools: AttemptTools, scene: Scene, worked: tuple[AgentRun | PausedRun | None, str | None]
) -> AttemptEnd:
    """Steps c3 to f, or the pause."""
    (ran, error), ctx, files = worked, tools.ctx, tools.files
    await tools.close()
    await _require_same_skills(ctx, files.item)
    used = _charged(tools, ran)
    if tools.broken is not None:
        raise Blocked(CHANGED, tools.broken.message)
    if isinstance(ran, PausedRun):
        if any(each.call not in tools.waiting for each in ran.calls):
            return AttemptEnd(AttemptOutcome.FAILED, used, error="It waits for what nobody asked.")
        seen = {"taint": tools.seen.taint, "taint_sources": tools.seen.taint_sources}
        raise AttemptPaused(ran, scene.model_copy(update=seen), used)
    if ran is None or ran.error is not None:
        return AttemptEnd(AttemptOutcome.FAILED, used, error=error or (ran.error if ran else None))
    entries = await ctx.ledger.entries(files.item.id, files.attempt)
    artifacts = collect_artifacts(entries)
    await _compare_claims(ctx.audit, files, ran, artifacts)
    if tools.stopped is not None:
        raise tools.stopped
    outcome = AttemptEnd(
        AttemptOutcome.FAILED,
        _charged(tools, ran),
        summary=tools.seen.foreign.without_echoes(ran.output.summary),
        artifacts=artifacts,
        next_steps=[tools.seen.foreign.without_echoes(each) for each in ran.output.next_steps],
        acted_outside=any(_acts_outside(ctx.registry, files, entry) for entry in entries),
        read=tools.seen.provenance,
    )
    shown = tools.seen.provenance.joined(await read_by_checks(ctx, files))
    await ctx.origins.note_work(files.item.id, shown)
    if not files.item.verify and (error := _nothing_done(entries) or ran.unfinished):
        return replace(outcome, error=error)
    seen = {"taint": tools.seen.taint, "taint_sources": tools.seen.taint_sources}
    ended = scene.model_copy(update={**seen, "summary": outcome.summary})
    await _ask_about_steps(tools, ended, ran)
    return await deliver(ctx, files, outcome, ended)


def _charged(tools: AttemptTools, ran: AgentRun | PausedRun | None) -> BudgetUsed:
    """What was used by now; of a run that was cut off, what it had said."""
    tokens, cost = (ran.tokens, ran.cost_usd) if ran else tools.reported
    return add_used(tools.used_now(), tokens, cost)


async def _compare_claims(
    audit: AuditTrail, files: AttemptWorkspace, ran: AgentRun, artifacts: dict[str, str]
) -> None:
    """Step c3: what the worker says it made is written down if it did not make it."""
    invented = sorted(set(ran.output.artifact_refs) - set(artifacts))
    if invented:
        await audit.log(
            "artifact_ref_mismatch",
            work_item_id=files.item.id,
            attempt=files.attempt,
            claimed=invented,
        )


def _nothing_done(entries: list[LedgerEntry]) -> str | None:
    """Step f: why it cannot be said that something was done."""
    last = entries[-1].result if entries else None
    if last is not None and last.success:
        return None
    error = "The last call did not work." if entries else "The worker did nothing."
    return f"{error} {last.error}" if last and last.error else error


def _acts_outside(
    registry: ToolRegistry[Tool], files: AttemptWorkspace, entry: LedgerEntry
) -> bool:
    tool = registry.get(entry.tool)
    return tool is None or not tool.is_contained(files.workspace.network)


async def _taken_up(ctx: ExecutionContext, files: AttemptWorkspace, kept: KeptRun) -> AttemptEnd:
    """The worker had ended: the owner has decided about its steps, or about its changes."""
    refused = [each for each in kept.calls if each.verdict is not ApprovalVerdict.APPROVED]
    if _waits_after_step(kept) and refused:
        raise Blocked(GATE_BLOCKED, _refused_step(refused[0].call))
    for decided in kept.approved() if _waits_after_step(kept) else ():
        try:
            await require_decided(ctx, decided)
        except ApprovalError as error:
            raise Blocked(GATE_BLOCKED, error.message) from error
    entries = await ctx.ledger.entries(files.item.id, files.attempt)
    outcome = AttemptEnd(
        AttemptOutcome.FAILED,
        files.item.budget_used,
        summary=kept.scene.summary,
        artifacts=collect_artifacts(entries),
        acted_outside=any(_acts_outside(ctx.registry, files, entry) for entry in entries),
        read=Provenance(kept.scene.taint, tuple(kept.scene.taint_sources)),
    )
    if _waits_after_step(kept):
        return await deliver(ctx, files, outcome, kept.scene)
    return await deliver_decided(ctx, files, outcome, kept)


async def _ask_about_steps(tools: AttemptTools, scene: Scene, ran: AgentRun) -> None:
    """Step d: what the gates after steps ask is decided now, or the attempt waits for it."""
    for call in tools.asked_after:
        try:
            verdict = await decide_call_now(tools.ctx, call)
        except ApprovalError as error:
            raise Blocked(GATE_BLOCKED, error.message) from error
        if verdict is None and tools.ctx.paused is not None:
            waits = tuple(
                WaitingCall(call_id=f"{AFTER_STEP}.{number}", call=each)
                for number, each in enumerate(tools.asked_after, 1)
            )
            raise AttemptPaused(PausedRun(history="", calls=waits), scene, _charged(tools, ran))
        if verdict is not ApprovalVerdict.APPROVED:
            raise Blocked(GATE_BLOCKED, _refused_step(call))


def _refused_step(call: PausedCall) -> str:
    return f"The owner did not let the result of a step stand: {call.reasons[0]}"


def worker_has_ended(kept: KeptRun) -> bool:
    """Whether it waits for a decision about what was done, so that no worker has to go on."""
    return is_take_over(kept) or _waits_after_step(kept)


def _waits_after_step(kept: KeptRun) -> bool:
    return kept.calls[0].call.tool == AFTER_STEP


async def _take_over(
    ctx: ExecutionContext, files: AttemptWorkspace, outcome: AttemptEnd
) -> tuple[AttemptEnd, WorkItemStatus]:
    """What passed the checks becomes the result; until it is written down, nothing is done."""
    try:
        for _ in range(_MAX_PUBLISH_TRIES):
            with suppress(TargetMoved):
                await keep_artifacts(ctx, files, outcome)
                await publish(ctx, files, outcome)
                return outcome, outcome.ends_as
            # The owner has changed files meanwhile: what will be published is checked once more.
            outcome = await judge(ctx, files, outcome)
            if outcome.outcome is not AttemptOutcome.PASSED:
                return await after_failure(ctx.planner, ctx.audit, files.item, outcome)
        raise Blocked(CONFLICT, "The files of the workspace are being changed all the time.")
    except PublicationConflict as error:
        raise Blocked(CONFLICT, error.message) from error
    except (FileRefused, ArtifactRefused) as error:
        if ctx.workspaces.pending(files.item, files.attempt):
            raise Blocked(CONFLICT, f"It could not be taken over: {error.message}") from error
        failed = replace(outcome, outcome=AttemptOutcome.FAILED, error=error.message)
        return await after_failure(ctx.planner, ctx.audit, files.item, failed)


async def after_failure(
    planner: Planner | None, audit: AuditTrail, item: WorkItem, outcome: AttemptEnd
) -> tuple[AttemptEnd, WorkItemStatus]:
    """Whether there will be another attempt, with guidance if the plan wants it."""
    if item.attempts >= _CONSULT_AFTER and item.on_stuck == CONSULT_PLANNER:
        outcome = await _consult(planner, audit, item, outcome)
    left = not exhausted(item.model_copy(update={"budget_used": outcome.used}))
    return outcome, WorkItemStatus.PENDING if left else WorkItemStatus.STUCK


async def _consult(
    planner: Planner | None, audit: AuditTrail, item: WorkItem, outcome: AttemptEnd
) -> AttemptEnd:
    used = outcome.used
    if planner is None or used.planner_calls >= item.budget.max_planner_calls:
        return outcome
    failures = [result for result in outcome.results if not result.passed]
    try:
        async with asyncio.timeout(_GUIDANCE_SECONDS):
            guidance = await planner.consult(item, failures, reason=outcome.error or "")
    except (TimeoutError, SilasError) as error:
        await audit.log("planner_silent", work_item_id=item.id, reason=str(error))
        return replace(outcome, used=_charge_planner(used, 0, 0.0))
    charged = _charge_planner(used, guidance.tokens, guidance.cost_usd)
    return replace(outcome, used=charged, guidance=guidance.text)


def _charge_planner(used: BudgetUsed, tokens: int, cost: float) -> BudgetUsed:
    return used.model_copy(
        update={
            "planner_calls": used.planner_calls + 1,
            "tokens": used.tokens + tokens,
            "cost_usd": used.cost_usd + cost,
        }
    )


async def _wait(ctx: ExecutionContext, item: WorkItem, paused: AttemptPaused) -> WorkItem:
    """Keep the run until the owner has decided."""
    if ctx.paused is None:
        raise WorkItemConflict("Nothing can wait for a decision here.")
    item = await ctx.paused.keep(
        item, paused.run, scene=paused.scene, runner=ctx.runner, used=paused.used
    )
    tools = [each.call.tool for each in paused.run.calls]
    await ctx.audit.log("work_waits", work_item_id=item.id, attempt=item.attempts, tools=tools)
    ctx.progress(item.id, "waits", ", ".join(tools))
    return item


async def _close(
    ctx: ExecutionContext, item: WorkItem, outcome: AttemptEnd, status: WorkItemStatus
) -> WorkItem:
    item = await ctx.attempts.finish(
        item.id,
        item.attempts,
        outcome=outcome.outcome,
        status=status,
        budget_used=outcome.used,
        detail=outcome.error or "",
        results=outcome.results,
    )
    return await closed(ctx, item, outcome)


async def closed(ctx: ExecutionContext, item: WorkItem, outcome: AttemptEnd) -> WorkItem:
    """After an attempt was closed: its files are removed, and its end is logged."""
    ended_well = item.status in ENDED_WELL
    passed = outcome.outcome is AttemptOutcome.PASSED
    ended = await asyncio.gather(
        clear_files(ctx, item, passed=passed),
        log_files(
            ctx.audit,
            item,
            "work_done" if ended_well else "work_attempt_ended",
            outcome.taken if passed else [],  # also if the owner stopped it in the middle
            outcome.left,
            outcome=outcome.outcome.value,
            status=item.status.value,
            reason=outcome.error,
        ),
        # Whoever hears of an error may begin the next attempt: nothing is still being removed then.
        return_exceptions=True,
    )
    for error in filter(None, ended):
        raise error
    ctx.progress(item.id, item.status.value, outcome.error or "")
    return item


async def _to_the_end(work: Coroutine[Any, Any, T]) -> T:
    """Do the work even if it is cancelled in the middle: half of it would be worse than late."""
    task = asyncio.ensure_future(work)
    while not task.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait({task})
    return task.result()
