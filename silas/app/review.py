"""The questions of one data directory, wired: who asks them, who follows them."""

from collections.abc import Callable
from datetime import timedelta

from silas.app.core import Core
from silas.app.instance import holder_of
from silas.app.jobs import PeriodicJob
from silas.approval.keys import EndedUntil
from silas.queue import QueueStore
from silas.review.cards import CardStore
from silas.review.questions import QuestionStore
from silas.stream.autonomy import Autonomy, AutonomyPolicy
from silas.stream.review_service import GateQuestions, ReviewPolicy, ReviewService

ENDED_AUTONOMY_REF = "silas/ended-autonomy"
_LOOK = timedelta(seconds=3)
_TIDY = timedelta(minutes=1)
_HEARTBEAT = timedelta(minutes=15)


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


def open_reviews(core: Core, cards: CardStore, questions: QuestionStore) -> ReviewService:
    """The service; it asks nothing before it is attached to a conversation."""
    settings, clock = core.settings, core.clock
    autonomy, batch, limits = settings.autonomy, settings.batch_review, settings.limits
    return ReviewService(
        questions=questions,
        cards=cards,
        autonomy=Autonomy(
            core.database,
            core.approvals,
            core.decisions,
            AutonomyPolicy(
                enabled=autonomy.enabled,
                min_samples=autonomy.min_samples,
                window_actions=autonomy.window_actions,
                window_days=autonomy.window_days,
                widen_at_most=autonomy.widen_correction_rate_max,
                tighten_from=autonomy.tighten_correction_rate_min,
                batch_size=batch.default_size,
                batch_cap=autonomy.max_batch_review_size,
            ),
            clock,
            EndedUntil(core.vault, ENDED_AUTONOMY_REF),
            core.audit,
        ),
        images=core.work.images,
        policy=ReviewPolicy(
            suggestions=settings.suggestions.enabled,
            cooldown=timedelta(minutes=settings.suggestions.dedupe_window_minutes),
            between=timedelta(minutes=settings.suggestions.cooldown_minutes),
            most_waiting=settings.suggestions.max_pending_per_scope,
            suggestions_per_hour=limits.suggestions_per_hour_per_scope,
            proposals_per_week=limits.autonomy_proposals_per_week_per_scope,
            keep_before_images=timedelta(days=settings.undo.keep_days),
        ),
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


def review_jobs(reviews: ReviewService) -> list[PeriodicJob]:
    """The jobs that the service does again and again."""
    return [
        PeriodicJob("look what can be decided together", _LOOK, reviews.look),
        PeriodicJob("put away old questions", _TIDY, reviews.questions.end_expired),
        PeriodicJob("look for something to suggest", _HEARTBEAT, reviews.heartbeat),
    ]
