"""The verification runner: finds out whether work is done. The worker has no part in it.

1. Every check runs in a sandbox of its own, started after the worker's last one has ended with all
   its processes.
2. It sees the work read-only, and a fresh private directory that is its home. It has a fixed,
   minimal environment: nothing of the worker's, of the owner's, or of Silas.
3. It reaches no host but those that the check lists; a sandbox that cannot keep to that runs
   nothing.
4. The command is the text that the owner approved, read by `/bin/sh`, beside the work. Programs
   come from the system's directories alone; Python does not look for modules in the working
   directory, and git obeys no configuration but its defaults (`silas.sandbox.environment`).
5. Files are looked for by descriptor, inside the work and the home alone, following no link.
6. Whatever goes wrong is a check that did not pass.
"""

import asyncio
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from silas.gates.models import judge_output
from silas.kernel import Clock, SandboxError
from silas.kernel.redaction import redact_text
from silas.sandbox.command_run import to_the_end
from silas.sandbox.environment import verification_request
from silas.sandbox.models import (
    MEBIBYTE,
    SandboxLimits,
    SandboxRequest,
    SandboxResult,
    SandboxRunner,
)
from silas.storage.files import make_private_directory
from silas.storage.trees import clear_name
from silas.tools.tree import FileRefused, Tree
from silas.work.models import VerificationCheck, VerificationReport, VerificationResult
from silas.work.output import ends_of

_SHELL = ("/bin/sh", "-c")
_MAX_OUTPUT_BYTES = MEBIBYTE
_JUDGES_OUTPUT = {"equals", "contains", "regex", "output_lt", "output_gt"}
_NO_MODULES = (
    "in a check, Python finds the folder's own modules only with `PYTHONPATH=.` before the command"
)


class VerificationRunner:
    """Runs checks; `verify_dir` is where the homes of the checks are made."""

    def __init__(
        self,
        sandbox: SandboxRunner,
        *,
        verify_dir: Path,
        clock: Clock,
        redact: Callable[[str], str] = redact_text,
        memory_mb: int = 512,
        cpu_seconds: int = 600,
    ) -> None:
        """`redact` takes secrets out of what checks print, before anybody keeps it."""
        self._sandbox = sandbox
        self._verify_dir = verify_dir
        self._clock = clock
        self._redact = redact
        self._memory_bytes = memory_mb * MEBIBYTE
        self._cpu_seconds = cpu_seconds

    async def run_checks(
        self, checks: Sequence[VerificationCheck], *, artifacts: Path | None = None
    ) -> VerificationReport:
        """Run all checks, one after the other, on the directory with the artifacts."""
        results = [await self._run(check, artifacts) for check in checks]
        return VerificationReport(results=results, timestamp=self._clock.now())

    async def _run(self, check: VerificationCheck, artifacts: Path | None) -> VerificationResult:
        try:
            # At once: nobody would remove one that is made after a cancellation.
            home = self._make_home()
        except OSError as error:
            return _failed(check, f"The verification directory cannot be used: {error.strerror}")
        try:
            ran = await self._sandbox.run(self._request(check, home, artifacts))
            judged = _judge(check, ran, artifacts or home, home)
            return judged.model_copy(update={"output": ends_of(self._redact(ran.text))})
        except SandboxError as error:
            return _failed(check, f"Not run: {error.message}")
        except ValueError as error:
            return _failed(check, f"Not run: {error}")
        finally:
            await to_the_end(asyncio.to_thread(clear_name, home))

    def _make_home(self) -> Path:
        make_private_directory(self._verify_dir)
        return Path(tempfile.mkdtemp(prefix="check-", dir=self._verify_dir.resolve()))

    def _request(
        self, check: VerificationCheck, home: Path, artifacts: Path | None
    ) -> SandboxRequest:
        return verification_request(
            (*_SHELL, check.run),
            artifacts=[str(artifacts)] if artifacts else [],
            scratch=str(home),
            cwd=str(artifacts or home),
            network=check.network,
            limits=SandboxLimits(
                wall_seconds=check.timeout,
                cpu_seconds=max(1, min(check.timeout, self._cpu_seconds)),
                memory_bytes=self._memory_bytes,
                output_bytes=_MAX_OUTPUT_BYTES,
            ),
        )


def _judge(
    check: VerificationCheck, ran: SandboxResult, artifacts: Path, home: Path
) -> VerificationResult:
    output = ran.stdout.decode(errors="replace")
    if ran.limit is not None:
        timeout = f"Timeout after {check.timeout}s"
        reason = (
            timeout if ran.timed_out else f"Stopped: the limit for {ran.limit.value} was reached"
        )
        return _failed(check, reason)
    named = check.expect.predicates[0]
    if ran.stdout_truncated and named in _JUDGES_OUTPUT:
        reason = f"There is more output than {_MAX_OUTPUT_BYTES} bytes, so it cannot be judged"
        return _failed(check, reason, exit_code=ran.exit_code)
    if named == "file_exists":
        passed, reason = _look_for(check.expect.file_exists or "", artifacts, home)
    else:
        passed, reason = judge_output(check.expect, output, ran.exit_code)
    if not passed and "No module named" in ran.text and "PYTHONPATH" not in check.run:
        reason = f"{reason}; {_NO_MODULES}"
    return VerificationResult(
        name=check.name,
        passed=passed,
        reason=reason,
        exit_code=ran.exit_code,
        network=list(ran.network),
    )


def _look_for(path: str, artifacts: Path, home: Path) -> tuple[bool, str]:
    """Whether a regular file is there, in a place where one may look."""
    for place in (artifacts, home):
        name = _below(path, place)
        if name is None:
            continue
        try:
            with Tree.open(place) as tree:
                if tree.exists(name):
                    return True, "the file is there"
        except FileRefused as error:
            return False, error.message
    if path.startswith("/") and not any(_below(path, place) for place in (artifacts, home)):
        return False, f"{path} is outside of the places where one may look"
    return False, f"there is no file {path}"


def _below(path: str, place: Path) -> str | None:
    """The path relative to the place, or None if it is not below it."""
    if not path.startswith("/"):
        return "/".join(part for part in path.split("/") if part not in ("", "."))
    prefix = f"{place}/"
    return path.removeprefix(prefix) if path.startswith(prefix) else None


def _failed(
    check: VerificationCheck, reason: str, *, exit_code: int | None = None
) -> VerificationResult:
    return VerificationResult(name=check.name, passed=False, reason=reason, exit_code=exit_code)
