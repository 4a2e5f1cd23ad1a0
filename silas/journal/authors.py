"""Whose words a record holds: the owner's alone, or perhaps somebody else's."""

import json
from collections.abc import Collection

from silas.kernel import TaintLevel
from silas.storage import Reader

OWNER_ACTOR = "owner"
"""The actor of what the owner does himself."""

_OWN = """
SELECT h.record_id FROM json_each(?) AS wanted
JOIN history AS h ON h.record_id = wanted.value JOIN batches AS b ON b.cursor = h.batch
GROUP BY h.record_id HAVING min(b.actor = ? AND h.origin = 'local') = 1
"""


def taint_of(reader: Reader, record_ids: Collection[str]) -> TaintLevel:
    """Owner, if each of these records was only ever written by the owner on this device.

    A companion read whatever it read, and another device does not say who wrote there: what they
    have written is as foreign as a page. So is a record without a history.
    """
    wanted = set(record_ids)
    own = {row[0] for row in reader.fetch_all(_OWN, (json.dumps(sorted(wanted)), OWNER_ACTOR))}
    return TaintLevel.OWNER if wanted <= own else TaintLevel.EXTERNAL
