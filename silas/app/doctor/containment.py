"""What contains the commands that run here."""

from silas.app.doctor.findings import Finding, ok, problem, warning
from silas.app.settings import Settings
from silas.sandbox import describe_backends

STRONGEST = "bubblewrap"


async def sandbox(settings: Settings) -> Finding:
    """Which backend is in force, and what it does not contain."""
    reports = await describe_backends(settings.sandbox.backend)
    in_force = next((report for report in reports if report.in_force), None)
    if in_force is None:
        reasons = " ".join(f"{report.name}: {report.reason}" for report in reports)
        return problem(
            "sandbox",
            f"Nothing here can contain a command. {reasons}",
            fix="apt-get install bubblewrap",
        )
    words = (
        f"{in_force.name} is in force. It contains {'; '.join(in_force.contains)}. "
        f"It does not contain {'; '.join(in_force.does_not_contain)}."
    )
    if in_force.name == STRONGEST:
        return ok("sandbox", words)
    return warning("sandbox", words, fix="apt-get install bubblewrap")
