"""The work room, wired: the stores of plans and of what came of them."""

from dataclasses import dataclass

from silas.app.ground import Ground
from silas.work import ArtifactStore, AttemptStore, ToolLedger, WorkItemStore


@dataclass(frozen=True)
class WorkStores:
    """Where work is written down."""

    items: WorkItemStore
    attempts: AttemptStore
    ledger: ToolLedger
    artifacts: ArtifactStore


def work_stores(ground: Ground) -> WorkStores:
    """The stores on this ground floor."""
    database, clock = ground.database, ground.clock
    return WorkStores(
        items=WorkItemStore(database, clock),
        attempts=AttemptStore(database, clock, ground.audit),
        ledger=ToolLedger(database, clock),
        artifacts=ArtifactStore(database, ground.paths.artifacts, clock=clock),
    )
