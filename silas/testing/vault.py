"""A vault in memory, for tests that are about something else."""


class MemoryVault:
    """`KeyVault` without a disk."""

    def __init__(self) -> None:
        self.entries: dict[str, bytes] = {}

    def get(self, ref_id: str) -> bytes | None:
        return self.entries.get(ref_id)

    def set(self, ref_id: str, value: bytes) -> None:
        self.entries[ref_id] = value
