"""Fakes of every port, shipped with the package and used by the tests.

A fake keeps the promises of the production port; it differs only in being deterministic.
Nothing outside the tests may depend on this room.
"""

from silas.testing.approvals import FakePlan, RecordingAudit
from silas.testing.clock import FakeClock
from silas.testing.vault import MemoryVault

__all__ = ["FakeClock", "FakePlan", "MemoryVault", "RecordingAudit"]
