"""What was revoked, kept in the vault: neither a changed row nor an old backup brings it back."""

from dataclasses import dataclass

from silas.approval.errors import DeviceUnknown
from silas.approval.ports import KeyVault
from silas.kernel import canonical_bytes, strict_loads


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
        document = strict_loads(stored)
        if document.get("format") != self._format:
            raise DeviceUnknown(
                f"The list of revoked {self.kind} cannot be read. None of them is trusted."
            )
        return frozenset(document[self.kind])

    def add(self, name: str) -> None:
        """From now on, not this one."""
        gone = sorted({*self.ids(), name})
        self.vault.set(self.ref_id, canonical_bytes({"format": self._format, self.kind: gone}))

    @property
    def _format(self) -> str:
        return f"silas-revoked-{self.kind}-v1"
