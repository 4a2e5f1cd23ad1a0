"""Makes requests from what callers say, with our errors for what cannot be asked."""

from typing import Any

from pydantic import ValidationError

from silas.sandbox.errors import CommandRefused
from silas.sandbox.models import SandboxRequest


def checked_request(**fields: Any) -> SandboxRequest:
    """The request, or `CommandRefused` with every reason in one sentence."""
    try:
        return SandboxRequest(**fields)
    except ValidationError as error:
        reasons = "; ".join(
            f"{'.'.join(str(part) for part in problem['loc']) or 'request'}: {problem['msg']}"
            for problem in error.errors(include_url=False, include_input=False)
        )
        raise CommandRefused(f"This cannot be run: {reasons}.") from error
