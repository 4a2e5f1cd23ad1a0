"""What the policy decided in the course of a run, written down as it happens, for the trace."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from silas.companions.errors import tool_code
from silas.companions.models import PolicyDecision
from silas.kernel import SilasError


class Decisions:
    """Collects decisions; a check that raises is a no, with its code."""

    def __init__(self) -> None:
        self._made: list[PolicyDecision] = []

    @property
    def made(self) -> tuple[PolicyDecision, ...]:
        return tuple(self._made)

    @asynccontextmanager
    async def deciding(self, check: str, subject: str) -> AsyncIterator[None]:
        """Write down how the checks in this block end; what they raise goes on."""
        try:
            yield
        except SilasError as error:
            self._made.append(
                PolicyDecision(
                    check=check,
                    subject=subject,
                    allowed=False,
                    error_code=tool_code(error),
                    detail=error.message,
                )
            )
            raise
        self._made.append(PolicyDecision(check=check, subject=subject, allowed=True))
