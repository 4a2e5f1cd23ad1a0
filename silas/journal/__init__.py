"""The owner's own records: tasks, checklists, time, days, ratings, notes, in `journal.db`.

Every change is one transaction with its history, and tells listeners what it was about. No model,
no companion's state and no report is kept here. Whoever acts for the owner is held to a scope.
"""

from silas.journal.edit import Edit
from silas.journal.models import OWNER, AccessScope
from silas.journal.notifications import NotificationBatch
from silas.journal.store import Journal, Outcome

__all__ = ["OWNER", "AccessScope", "Edit", "Journal", "NotificationBatch", "Outcome"]
