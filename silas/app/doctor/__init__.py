"""What state this machine is in: one finding per line, each with the command that mends it."""

from silas.app.doctor.examine import examine
from silas.app.doctor.findings import Finding, Status, worst
from silas.app.doctor.installation import failed

__all__ = ["Finding", "Status", "examine", "failed", "worst"]
