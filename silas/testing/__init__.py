"""Fakes of every port, shipped with the package and used by the tests.

A fake keeps the promises of the production port; it differs only in being deterministic.
Nothing outside the tests may depend on this package.
"""

from silas.testing.fakes import FakeClock, FakePlan, MemoryVault, RecordingAudit

__all__ = ["FakeClock", "FakePlan", "MemoryVault", "RecordingAudit"]
