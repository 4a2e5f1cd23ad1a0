"""The owner's accounts of one data directory, wired: who connects, watches and uses them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from zoneinfo import ZoneInfo

from silas.app.core import Core
from silas.app.jobs import PeriodicJob
from silas.app.review import open_unasked
from silas.connections.cards import ConnectionCards
from silas.connections.domains import DomainCards, DomainPolicies
from silas.connections.manager import ConnectionManager, ConnectionPolicy
from silas.connections.scripts import ConnectionScripts
from silas.connections.service import ConnectionService
from silas.connections.sign_ins import SignIns
from silas.review.decisions import QuestionKind
from silas.review.questions import QuestionStore
from silas.stream.review_service import ReviewService
from silas.web.pending_secrets import PendingSecrets

_LOOK = timedelta(minutes=1)


@asynccontextmanager
async def open_connections(
    core: Core, questions: QuestionStore, reviews: ReviewService, secrets: PendingSecrets
) -> AsyncIterator[ConnectionService]:
    """The connections; what a crash has left half-way is put in order, and nothing is left."""
    service = make_connections(core, questions, secrets)
    manager = service.manager
    for kind in (
        QuestionKind.CONNECTION,
        QuestionKind.PERMISSION,
        QuestionKind.CONNECTION_FAILURE,
    ):
        reviews.on_answer(kind, manager.answered)
    reviews.on_answer(QuestionKind.DOMAIN, service.domains.answered)
    await manager.take_up()
    try:
        yield service
    finally:
        await manager.close()


def make_connections(
    core: Core, questions: QuestionStore, secrets: PendingSecrets
) -> ConnectionService:
    """The same, following no answers."""
    settings = core.settings
    cards = ConnectionCards(
        questions=questions,
        unasked=open_unasked(core, questions),
        decisions=core.decisions,
        approvals=core.approvals,
        audit=core.audit,
        clock=core.clock,
        ids=core.ids,
        owner_id=settings.owner_id,
    )
    manager = ConnectionManager(
        store=core.connections,
        scripts=ConnectionScripts(core.sandbox, core.skill_files.loader),
        cards=cards,
        secrets=secrets,
        sign_ins=SignIns(core.broker, core.connections, secrets, core.audit),
        audit=core.audit,
        clock=core.clock,
        ids=core.ids,
        policy=ConnectionPolicy(
            health_check=settings.connections.health_check_default,
            auto_recovery=settings.connections.auto_recovery_enabled,
            recoveries=min(1, settings.connections.recovery_max_attempts),
            zone=ZoneInfo(settings.scheduler.timezone),
        ),
    )
    domains = DomainCards(DomainPolicies(core.connections), cards, manager.changed)
    return ConnectionService(manager, core.audit, domains)


def connection_jobs(connections: ConnectionService) -> list[PeriodicJob]:
    """What is done again and again."""
    return [PeriodicJob("check connections", _LOOK, connections.manager.look)]
