"""What the sandbox room needs from its backends."""

from collections.abc import Callable
from typing import Literal, Protocol

from silas.sandbox.models import BackendReport, SandboxRequest, SandboxResult

OutputListener = Callable[[Literal["stdout", "stderr"], bytes], None]


class SandboxBackend(Protocol):
    """One way to run a command contained.

    A backend never runs what it cannot contain: it raises `CannotContain` or `SandboxNotStarted`.
    When `run` returns, raises or is cancelled, no process of the command is left.
    """

    @property
    def name(self) -> str:
        """How configuration and reports call it."""
        ...

    async def probe(self) -> BackendReport:
        """Whether it works here, found out by using it, and what it contains."""
        ...

    async def run(
        self, request: SandboxRequest, *, on_output: OutputListener | None = None
    ) -> SandboxResult:
        """Run one command to its end; `on_output` hears the output as it comes."""
        ...
