"""The questions of one data directory, wired: who asks them, who follows them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from zoneinfo import ZoneInfo

from silas.app.core import Core
from silas.app.instance import holder_of
from silas.app.jobs import PeriodicJob
from silas.kernel import visible
from silas.proactive.autonomy import AutonomyService
from silas.proactive.batches import Batches, BatchLimits
from silas.proactive.calibrator import AutonomyCalibrator, AutonomyPolicy
from silas.proactive.grants import GrantPolicy, StandingGrants
from silas.proactive.lessons import Guesses
from silas.proactive.outcomes import OutcomeFeed, OutcomeStore
from silas.proactive.suggestions import (
    CONNECTIONS,
    SuggestionEngine,
    SuggestionPolicy,
    Warned,
)
from silas.proactive.triage import Bands, Reader
from silas.proposals.clients import ClientStore
from silas.proposals.service import ProposalService
from silas.queue import QueueStore
from silas.queue.inspection import QueueInspector
from silas.review.cards import CardStore
from silas.review.decisions import QuestionKind
from silas.review.questions import QuestionStore
from silas.review.unasked import UnaskedCards
from silas.scheduler.cron import CronSchedule, last_due
from silas.stream.review_service import GateQuestions, ReviewPolicy, ReviewService
from silas.work.models import WorkItemStatus

_LOOK = timedelta(seconds=3)
_TIDY = timedelta(minutes=1)
_OFTEN = timedelta(minutes=15)
_FORGED_LATELY = timedelta(days=7)
_MOST_DEAD = 100
_TIDIES = "mail.act"


def open_questions(core: Core, queue: QueueStore) -> QuestionStore:
    """The questions of this data directory."""
    return QuestionStore(
        core.database,
        queue,
        decisions=core.decisions,
        keys=core.keys,
        audit=core.audit,
        clock=core.clock,
    )


def open_autonomy(core: Core) -> AutonomyCalibrator:
    """What proposes how much is asked, and knows what is in force of it."""
    settings = core.settings
    autonomy, batch = settings.autonomy, settings.batch_review
    policy = AutonomyPolicy(
        enabled=autonomy.enabled,
        min_samples=autonomy.min_samples,
        window_actions=autonomy.window_actions,
        window_days=autonomy.window_days,
        widen_at_most=autonomy.widen_correction_rate_max,
        tighten_from=autonomy.tighten_correction_rate_min,
        hysteresis=autonomy.hysteresis_delta,
        batch_size=batch.default_size,
        batch_cap=autonomy.max_batch_review_size,
        high_min=batch.confidence.high_min,
        high_min_cap=autonomy.min_high_confidence,
        standing_cap=autonomy.max_standing_executions,
    )
    return AutonomyCalibrator(
        core.database,
        core.approvals,
        core.decisions,
        policy,
        OutcomeStore(core.database, core.clock),
        core.vault,
        core.audit,
        core.clock,
        core.ids,
    )


def open_grants(core: Core, questions: QuestionStore) -> StandingGrants:
    """What the owner allows for a while."""
    autonomy = core.settings.autonomy
    calibrator = open_autonomy(core)
    return StandingGrants(
        core.database,
        core.approvals,
        core.decisions,
        questions,
        calibrator.outcomes,
        calibrator,
        core.tools.effect_of,
        core.audit,
        core.clock,
        core.ids,
        ZoneInfo(core.settings.scheduler.timezone),
        core.settings.owner_id,
        GrantPolicy(
            enabled=autonomy.enabled,
            repeats=autonomy.grant_after,
            days=autonomy.grant_days,
            most_a_day=autonomy.grant_uses_per_day,
        ),
    )


def open_autonomy_service(core: Core) -> AutonomyService:
    """How much is asked, for the command line."""
    grants = open_grants(core, open_questions(core, core.queue))
    return AutonomyService(grants.calibrator, grants, core.settings.owner_id)


def open_unasked(core: Core, questions: QuestionStore) -> UnaskedCards:
    """The one budget of cards that nobody asked for."""
    return UnaskedCards(
        core.database,
        questions,
        core.clock,
        core.ids,
        ZoneInfo(core.settings.scheduler.timezone),
        core.settings.owner_id,
        core.settings.limits.unasked_cards_per_day,
    )


def open_suggestions(core: Core, cards: CardStore, questions: QuestionStore) -> SuggestionEngine:
    """What finds what could come next."""
    settings = core.settings
    return SuggestionEngine(
        core.database,
        core.work.items,
        cards,
        questions,
        core.clock,
        core.ids,
        SuggestionPolicy(
            enabled=settings.suggestions.enabled,
            window=timedelta(minutes=settings.suggestions.dedupe_window_minutes),
            between=timedelta(minutes=settings.suggestions.cooldown_minutes),
            most_waiting=settings.suggestions.max_pending_per_scope,
            an_hour=settings.limits.suggestions_per_hour_per_scope,
        ),
        core.conversations.taint_of,
        partial(_warnings, core),
    )


async def _warnings(core: Core) -> list[Warned]:
    """What is not as it should be: what nobody could handle, and what somebody forged."""
    found = []
    dead = await QueueInspector(core.database, clock=core.clock, record=core.audit.append).dead(
        limit=_MOST_DEAD
    )
    if dead:
        newest = max(each.message_id for each in dead)
        found.append(
            Warned(
                key=f"dead:{newest}",
                intent="Look at messages that nobody could handle",
                rationale=f"{len(dead)} lie there, and nothing follows from them by itself.",
                tells="`silas queue dead` lists them, with what went wrong. "
                "`silas queue requeue ID` tries one again.",
            )
        )
    since = core.clock.now() - _FORGED_LATELY
    forged = await core.audit.tail(_MOST_DEAD, event="*_forged", since=since)
    if forged:
        found.append(
            Warned(
                key=f"forged:{forged[-1].seq}",
                intent="Look at what somebody forged",
                rationale="A decision, an answer or a message was made to look like yours. "
                "I did not follow it.",
                tells="`silas audit tail` shows when it was. `silas doctor` says how this machine "
                "is, and Settings which devices may sign for you.",
            )
        )
    return [*found, *await _idle_mailboxes(core)]


async def _idle_mailboxes(core: Core) -> list[Warned]:
    """Mailboxes that may be tidied up, and that no approved goal looks at."""
    items = core.work.items
    goals = [await items.get(name) for name, _ in await items.approved_goals()]
    goals += await items.list_by_status(WorkItemStatus.RUNNING)
    policies = [goal.batch for goal in goals if goal is not None and goal.batch is not None]
    named = {str(policy.source.args.get("account") or "") for policy in policies}
    if "" in named:
        return []  # it looks at whichever there is
    return [
        Warned(
            source=CONNECTIONS,
            key=each.connection_id,
            intent=f"Have {visible(each.name, keep_newlines=False)} sorted in batches",
            rationale="You let me tidy it up, and no goal of yours looks at it.",
            tells="`plans/mail-triage.md` is a goal that does it, one card for ten mails: change "
            "its senders to yours, then `silas plan run plans/mail-triage.md`.",
        )
        for each in await core.connections.listed()
        if each.usable
        and _TIDIES in each.permissions_granted
        and not named & {each.connection_id, each.name, each.username}
    ]


def open_reviews(core: Core, cards: CardStore, questions: QuestionStore) -> ReviewService:
    """The service; it asks nothing before it is attached to a conversation."""
    settings, limits = core.settings, core.settings.limits
    grants = open_grants(core, questions)
    return ReviewService(
        questions=questions,
        cards=cards,
        autonomy=grants.calibrator,
        suggestions=open_suggestions(core, cards, questions),
        grants=grants,
        unasked=open_unasked(core, questions),
        images=core.work.images,
        policy=ReviewPolicy(
            proposals_per_week=limits.autonomy_proposals_per_week_per_scope,
            keep_before_images=timedelta(days=settings.undo.keep_days),
        ),
    )


def open_outcomes(core: Core, cards: CardStore, questions: QuestionStore) -> OutcomeFeed:
    """What collects what became of the owner's decisions."""
    return OutcomeFeed(
        core.database,
        cards,
        questions,
        core.work.items,
        core.work.undos,
        core.decisions,
        core.tools.effect_of,
        core.clock,
        core.settings.owner_id,
    )


def open_batches(
    core: Core, questions: QuestionStore, reviews: ReviewService, reader: Reader | None = None
) -> Batches:
    """What is proposed about the items of the owner's accounts; it executes nothing yet."""
    batch = core.settings.batch_review
    batches = Batches(
        database=core.database,
        questions=questions,
        decisions=core.decisions,
        audit=core.audit,
        clock=core.clock,
        ids=core.ids,
        owner_id=core.settings.owner_id,
        enqueue=core.queue.enqueue,
        limits=BatchLimits(
            bands=Bands(high_min=batch.confidence.high_min, medium_min=batch.confidence.medium_min)
        ),
        size=reviews.autonomy.batch_size,
        high_min=reviews.autonomy.high_min,
        unasked=reviews.unasked,
        guesses=Guesses(reader, core.audit),
    )
    for kind in (QuestionKind.ITEMS, QuestionKind.TEACHING, QuestionKind.RULE):
        reviews.on_answer(kind, batches.answered)
    return batches


def open_proposals(core: Core, questions: QuestionStore) -> ProposalService:
    """What other programs ask the owner."""
    return ProposalService(
        database=core.database,
        clients=ClientStore(
            core.database, core.keys, audit=core.audit, clock=core.clock, ids=core.ids
        ),
        questions=questions,
        decisions=core.decisions,
        approvals=core.approvals,
        keys=core.keys,
        nonces=core.nonces,
        devices=core.devices,
        passkeys=core.passkeys,
        audit=core.audit,
        clock=core.clock,
        ids=core.ids,
        owner_id=core.settings.owner_id,
    )


def open_gate_questions(
    core: Core, questions: QuestionStore, is_watched: Callable[[], bool]
) -> GateQuestions:
    """Who asks the owner about a gate, where somebody looks: at a page, or at a terminal."""
    return GateQuestions(
        questions=questions,
        audit=core.audit,
        clock=core.clock,
        ids=core.ids,
        owner_id=core.settings.owner_id,
        is_watched=lambda: is_watched() or at_terminal(core),
    )


def at_terminal(core: Core) -> bool:
    """Whether a person talks to Silas in a terminal now, in whichever process."""
    return holder_of(core.paths.terminal_lock) is not None


def review_jobs(core: Core, reviews: ReviewService, outcomes: OutcomeFeed) -> list[PeriodicJob]:
    """The jobs that the service does again and again, and before them, what it learns from."""
    heartbeat = Heartbeat(core, reviews)
    return [
        PeriodicJob("collect what was decided", _OFTEN, outcomes.gather),
        PeriodicJob("look what can be decided together", _LOOK, reviews.look),
        PeriodicJob("put away old questions", _TIDY, reviews.questions.end_expired),
        PeriodicJob("look for something to suggest", _TIDY, heartbeat.beat),
    ]


@dataclass
class Heartbeat:
    """Lets the service look by itself when `suggestions.heartbeat_cron` says so."""

    core: Core
    reviews: ReviewService
    _looked_at: datetime | None = field(default=None, init=False)

    async def beat(self) -> None:
        """Look, if the time has come since the last look; at the start, once."""
        settings, now = self.core.settings, self.core.clock.now()
        schedule = CronSchedule.parse(settings.suggestions.heartbeat_cron)
        due = last_due(schedule, now, zone=ZoneInfo(settings.scheduler.timezone))
        if self._looked_at is None or (due is not None and due > self._looked_at):
            self._looked_at = now
            await self.reviews.heartbeat()
