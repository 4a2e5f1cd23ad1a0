"""A finding: how it stands with one thing, and what to do about it."""

from collections.abc import Iterable
from enum import StrEnum

from silas.kernel.models import Data


class Status(StrEnum):
    """How bad it is, from nothing to do to must be mended."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


class Finding(Data):
    """One line of `silas doctor`."""

    topic: str
    status: Status
    sentence: str
    fix: str | None = None


def ok(topic: str, sentence: str) -> Finding:
    """Nothing to do."""
    return Finding(topic=topic, status=Status.OK, sentence=sentence)


def warning(topic: str, sentence: str, *, fix: str) -> Finding:
    """Silas works, but not as well or as safely as it could."""
    return Finding(topic=topic, status=Status.WARNING, sentence=sentence, fix=fix)


def problem(topic: str, sentence: str, *, fix: str) -> Finding:
    """Silas cannot do its work until this is mended."""
    return Finding(topic=topic, status=Status.PROBLEM, sentence=sentence, fix=fix)


def worst(findings: Iterable[Finding]) -> Status:
    """The status of the whole: that of its worst part."""
    order = list(Status)
    return max((finding.status for finding in findings), key=order.index, default=Status.OK)
