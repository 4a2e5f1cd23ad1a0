"""What was revoked, kept in the vault: neither a changed row nor an old backup brings it back."""

from dataclasses import dataclass
from datetime import UTC, datetime

from silas.approval.errors import DeviceUnknown
from silas.approval.ports import KeyVault
from silas.kernel import (
    CanonicalError,
    canonical_bytes,
    format_timestamp,
    parse_timestamp,
    strict_loads,
)

_ENDED_FORMAT = "silas-ended-until-v1"


@dataclass(frozen=True)
class RevokedList:
    """The ids of one kind that are no longer trusted, and never will be again."""

    vault: KeyVault
    ref_id: str
    kind: str
    """What they are, such as `devices`; part of the format."""

    def ids(self) -> frozenset[str]:
        """All of them; raises `DeviceUnknown` if the list cannot be read: then none is trusted."""
        stored = self.vault.get(self.ref_id)
        if stored is None:
            return frozenset()
        try:
            document = strict_loads(stored)
            if document["format"] == self._format:
                return frozenset(document[self.kind])
        except (CanonicalError, KeyError, TypeError):
            pass
        raise DeviceUnknown(
            f"The list of revoked {self.kind} cannot be read. None of them is trusted."
        )

    def add(self, name: str) -> None:
        """From now on, not this one."""
        gone = sorted({*self.ids(), name})
        self.vault.set(self.ref_id, canonical_bytes({"format": self._format, self.kind: gone}))

    @property
    def _format(self) -> str:
        return f"silas-revoked-{self.kind}-v1"


@dataclass(frozen=True)
class EndedUntil:
    """A moment: what was approved up to it, of one kind, is not in force any more."""

    vault: KeyVault
    ref_id: str

    def covers(self, issued_at: datetime) -> bool:
        """Whether an approval of that time has ended."""
        until = self._until()
        return until is not None and issued_at <= until

    def end(self, moment: datetime) -> None:
        """From now on, nothing up to this moment is in force; it is never taken back."""
        if not self.covers(moment):
            said = {"format": _ENDED_FORMAT, "until": format_timestamp(moment)}
            self.vault.set(self.ref_id, canonical_bytes(said))

    def _until(self) -> datetime | None:
        stored = self.vault.get(self.ref_id)
        if stored is None:
            return None
        try:
            document = strict_loads(stored)
            if document["format"] == _ENDED_FORMAT:
                return parse_timestamp(document["until"])
        except (CanonicalError, KeyError, TypeError, ValueError):
            pass
        return datetime.max.replace(tzinfo=UTC)  # it cannot be read: everything has ended
