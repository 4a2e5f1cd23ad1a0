"""The review desk, wired: the questions of one data directory, who asks them, who follows them."""

from datetime import timedelta
from typing import Protocol, runtime_checkable

from silas.app.ground import Ground
from silas.app.housekeeping import PeriodicJob
from silas.approval.revoked import EndedUntil
from silas.queue import QueueStore
from silas.stream.cards import CardStore
from silas.stream.review.autonomy import Autonomy, AutonomyPolicy
from silas.stream.review.desk import DeskPolicy, ReviewDesk
from silas.stream.review.gate_desk import QuestionGateDesk
from silas.stream.review.store import QuestionStore
from silas.work.before_images import BeforeImages

ENDED_AUTONOMY_REF = "silas/ended-autonomy"
_LOOK = timedelta(seconds=3)
_TIDY = timedelta(minutes=1)
_HEARTBEAT = timedelta(minutes=15)


def open_questions(ground: Ground, queue: QueueStore) -> QuestionStore:
    """The questions of this ground floor."""
    return QuestionStore(
        ground.database,
        queue,
        signer=ground.keys,
        devices=ground.devices,
        audit=ground.audit,
        clock=ground.clock,
    )


def open_desk(ground: Ground, cards: CardStore, questions: QuestionStore) -> ReviewDesk:
    """The desk; it asks nothing before it is attached to a conversation."""
    settings, clock = ground.settings, ground.clock
    autonomy, batch, limits = settings.autonomy, settings.batch_review, settings.limits
    return ReviewDesk(
        questions=questions,
        cards=cards,
        autonomy=Autonomy(
            ground.database,
            ground.approvals,
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
            EndedUntil(ground.vault, ENDED_AUTONOMY_REF),
        ),
        images=BeforeImages(ground.database, clock),
        policy=DeskPolicy(
            suggestions=settings.suggestions.enabled,
            cooldown=timedelta(minutes=settings.suggestions.dedupe_window_minutes),
            most_waiting=settings.suggestions.max_pending_per_scope,
            suggestions_per_hour=limits.suggestions_per_hour_per_scope,
            proposals_per_week=limits.autonomy_proposals_per_week_per_scope,
        ),
    )


@runtime_checkable
class Watched(Protocol):
    """A front that knows whether anybody looks at it."""

    @property
    def watched(self) -> bool:
        """Whether somebody does."""
        ...


def open_gate_desk(
    ground: Ground, questions: QuestionStore, front: object | None
) -> QuestionGateDesk:
    """Who asks the owner about a gate, on a front that somebody looks at."""
    return QuestionGateDesk(
        questions=questions,
        audit=ground.audit,
        clock=ground.clock,
        ids=ground.ids,
        owner_id=ground.settings.owner_id,
        is_watched=lambda: isinstance(front, Watched) and front.watched,
    )


def desk_jobs(desk: ReviewDesk) -> list[PeriodicJob]:
    """What the desk does again and again."""
    return [
        PeriodicJob("look what can be decided together", _LOOK, desk.look),
        PeriodicJob("put away old questions", _TIDY, desk.questions.end_expired),
        PeriodicJob("look for something to suggest", _HEARTBEAT, desk.heartbeat),
    ]
