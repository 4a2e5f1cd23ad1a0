"""Whose words an action is made of: the owner's alone, or perhaps somebody else's.

1. If a model was asked, nobody knows which of the words that it was told had a part: external.
2. Fixed rules look at what woke the companion and at the records that the action names, with the
   checklists of the tasks among them. It is the owner's if each of these was only ever written by
   the owner on this device.
3. What names nothing and was woken by nothing that can be looked up is external, too.
"""

from collections.abc import Iterable

from silas.companions.actions import target_refs
from silas.companions.kinds.offline import OFFLINE_MODEL
from silas.companions.models import PlannedAction, WakeJob
from silas.journal import reading
from silas.journal.authors import taint_of
from silas.journal.store import Journal
from silas.kernel import TaintLevel
from silas.storage import Reader


async def taint_of_action(
    journal: Journal, job: WakeJob, planned: PlannedAction, *, model_id: str
) -> TaintLevel:
    """How far the words of this action can be trusted."""
    concerned = {*job.changed_entity_ids, *target_refs(planned.arguments)}
    if model_id != OFFLINE_MODEL or not concerned:
        return TaintLevel.EXTERNAL
    return await journal.read(lambda view: taint_of(view, _with_checklists(view, concerned)))


def _with_checklists(view: Reader, record_ids: Iterable[str]) -> set[str]:
    wanted = sorted(record_ids)
    found = set(wanted)
    for lists in reading.checklists_of_all(view, wanted).values():
        for checklist, items in lists:
            found |= {checklist.id, *(item.id for item in items)}
    return found
