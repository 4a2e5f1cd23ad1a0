"""What happened: the activity list, and news of the journal."""

from typing import Annotated, Literal

from pydantic import Field

from silas.kernel.models import Data


class ActivityRequest(Data):
    """Show what happened last, the newest first."""

    type: Literal["activity_request"] = "activity_request"
    count: Annotated[int, Field(ge=1, le=200)] = 60


class ActivityEntry(Data):
    """One thing that happened, in words."""

    seq: int
    at: str
    event: str
    text: str


class Activity(Data):
    """What happened, the newest first."""

    type: Literal["activity"] = "activity"
    entries: list[ActivityEntry]


class JournalChanged(Data):
    """Something in the journal has changed, here or elsewhere."""

    type: Literal["journal_changed"] = "journal_changed"
    cursor: int
