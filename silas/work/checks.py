"""External checks: what is run to find out whether work is done, and what came of it.

The worker can neither change a check nor see these records before the verdict.
"""

from typing import Annotated

from pydantic import Field

from silas.gates import Expectation
from silas.kernel.models import Data, UtcDatetime

MAX_CHECK_OUTPUT = 1000
"""How many characters of a check's output are kept."""

_ONE_DAY = 86_400


class VerificationCheck(Data):
    """A command whose outcome decides; it runs outside the worker's sandbox."""

    name: Annotated[str, Field(min_length=1, max_length=200)]
    run: Annotated[str, Field(min_length=1)]
    expect: Expectation
    timeout: int = Field(default=60, gt=0, le=_ONE_DAY)
    network: bool = False


class VerificationResult(Data):
    """What one check gave. `exit_code` is None if the command never ended by itself."""

    name: str
    passed: bool
    reason: str
    output: str = Field(default="", max_length=MAX_CHECK_OUTPUT)
    exit_code: int | None = None


class VerificationReport(Data):
    """What all checks of one run gave."""

    results: list[VerificationResult]
    timestamp: UtcDatetime

    @property
    def all_passed(self) -> bool:
        """Whether every check passed. A run without any check has shown nothing: False."""
        return bool(self.results) and not self.failed

    @property
    def failed(self) -> list[VerificationResult]:
        """The results that did not pass."""
        return [result for result in self.results if not result.passed]
