"""How Silas talks to the scripts of a connection: in lines of JSON, in and out of the sandbox.

1. One JSON object in a line, in UTF-8, of at most `MAX_LINE_BYTES`. Anything else on standard
   output ends the conversation: a script that cannot be understood is not guessed at.
2. What a script writes to standard error is not read.
3. A script sees its own skill, read-only, and nothing of what Silas keeps. With an account it
   reaches the servers of that account, by the broker; without one, the hosts of its skill.
4. When a conversation ends, in whatever way, no process and no pipe of it is left.
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from silas.connections.models import ConnectionRefused, FailureReport
from silas.egress.accounts import BrokeredAccount
from silas.kernel import CanonicalError, SandboxError, strict_loads
from silas.kernel.tasks import end_task
from silas.sandbox.models import SandboxLimits, SandboxRequest, SandboxRunner, checked_request
from silas.skills.format import Skill
from silas.skills.loading import SkillLoader
from silas.skills.tools import account_variables, script_command

DISCOVER, SETUP = "scripts/discover.py", "scripts/setup.py"
PROBE, HEALTH_CHECK, RECOVER = (
    "scripts/probe.py",
    "scripts/health_check.py",
    "scripts/recover.py",
)
MAX_LINE_BYTES = 64 * 1024
_MAX_LINES = 1000
_ANSWER_SECONDS = 60.0
_TALK_SECONDS = 45 * 60.0
_GOODBYE_SECONDS = 5.0


class ScriptMisbehaved(ConnectionRefused):
    """A script of the connection said something that Silas does not understand."""

    code = "E_CONNECTION_SCRIPT"


class AccountFailed(ConnectionRefused):
    """The account cannot be used; the report says why."""

    code = "E_CONNECTION_ACCOUNT"

    def __init__(self, report: FailureReport) -> None:
        super().__init__(report.message)
        self.report = report


def read_line(line: bytes) -> dict[str, Any]:
    """One object; raises `ScriptMisbehaved` (rule 1)."""
    try:
        said = strict_loads(line.decode("utf-8"))
    except (UnicodeDecodeError, CanonicalError) as error:
        raise ScriptMisbehaved(
            "A script of the connection wrote a line that is no JSON."
        ) from error
    if not isinstance(said, dict):
        raise ScriptMisbehaved("A script of the connection wrote a line that is no object.")
    return said


def failure_in(said: Mapping[str, Any]) -> FailureReport | None:
    """The failure that an answer reports, if it does."""
    found = said.get("failure", said if "failure_type" in said else None)
    if found is None:
        return None
    try:
        return FailureReport.model_validate(found)
    except ValueError:
        return FailureReport(message="The connection failed, and its script did not say why.")


@dataclass
class _LineReader:
    """Puts the chunks of a stream together into lines (rule 1)."""

    rest: bytes = b""
    count: int = 0

    def take(self, chunk: bytes) -> list[bytes]:
        *lines, self.rest = (self.rest + chunk).split(b"\n")
        self.count += len(lines)
        if self.count > _MAX_LINES:
            raise ScriptMisbehaved("A script of the connection says more than anyone should read.")
        if any(len(each) > MAX_LINE_BYTES for each in (*lines, self.rest)):
            raise ScriptMisbehaved(
                f"A script of the connection wrote a line of more than {MAX_LINE_BYTES} bytes."
            )
        return [each for each in lines if each.strip()]


@dataclass
class ScriptConversation:
    """One script that runs and is talked to."""

    writing: int
    _heard: asyncio.Queue[bytes | ScriptMisbehaved | None] = field(default_factory=asyncio.Queue)
    _lines: _LineReader = field(default_factory=_LineReader)

    def hear(self, stream: Literal["stdout", "stderr"], chunk: bytes) -> None:
        """`OutputListener` of the sandbox (rule 2)."""
        if stream != "stdout":
            return
        try:
            for line in self._lines.take(chunk):
                self._heard.put_nowait(line)
        except ScriptMisbehaved as problem:
            self._heard.put_nowait(problem)

    def end(self) -> None:
        """The script has ended."""
        self._heard.put_nowait(None)

    async def next(self) -> dict[str, Any] | None:
        """What it says next; None once it has ended. Raises `ScriptMisbehaved`."""
        said = await self._heard.get()
        if isinstance(said, ScriptMisbehaved):
            raise said
        return None if said is None else read_line(said)

    def send(self, **event: Any) -> None:
        """Tell it something."""
        line = json.dumps(event, ensure_ascii=False).encode() + b"\n"
        try:
            os.write(self.writing, line)
        except BlockingIOError as error:
            raise ScriptMisbehaved("A script of the connection does not listen.") from error
        except OSError:
            return  # it has ended, and what it said until then is still to be heard


@dataclass(frozen=True)
class ConnectionScripts:
    """Runs the scripts of connections."""

    sandbox: SandboxRunner
    loader: SkillLoader

    async def ask(
        self,
        skill: Skill,
        script: str,
        request: Mapping[str, Any],
        *,
        account: BrokeredAccount | None = None,
    ) -> dict[str, Any]:
        """One line in, one line out; raises `ScriptMisbehaved` or `AccountFailed`."""
        line = json.dumps(dict(request), ensure_ascii=False).encode() + b"\n"
        wanted = self._request(skill, script, account, seconds=_ANSWER_SECONDS, stdin=line)
        ran = await self._run(wanted)
        lines = _LineReader().take(ran.stdout + b"\n")
        if len(lines) != 1:
            ended = "took too long" if ran.timed_out else f"ended with {ran.exit_code}"
            raise ScriptMisbehaved(
                f"{Path(script).name} of {skill.name} {ended} and gave {len(lines)} answers, "
                "not one."
            )
        said = read_line(lines[0])
        failure = failure_in(said)
        if failure is not None:
            raise AccountFailed(failure)
        return said

    @asynccontextmanager
    async def talk(
        self, skill: Skill, script: str, *, account: BrokeredAccount
    ) -> AsyncIterator[ScriptConversation]:
        """A script that is talked to while it runs (rule 4)."""
        reading, writing = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(writing, False)
        talk = ScriptConversation(writing)
        request = self._request(skill, script, account, seconds=_TALK_SECONDS, pipe=reading)

        async def run() -> None:
            try:
                await self.sandbox.run(request, on_output=talk.hear)
            finally:
                talk.end()

        running = asyncio.create_task(run())
        try:
            yield talk
            os.close(writing)
            writing = -1
            # It was told everything: a moment to end by itself.
            await asyncio.wait({running}, timeout=_GOODBYE_SECONDS)
        finally:
            await end_task(running)
            for end in (reading, writing):
                with suppress(OSError):
                    os.close(end)

    async def _run(self, request: SandboxRequest) -> Any:
        try:
            return await self.sandbox.run(request)
        except SandboxError as error:
            raise ConnectionRefused(
                f"The connection's script was not run: {error.message}"
            ) from error

    def _request(
        self,
        skill: Skill,
        script: str,
        account: BrokeredAccount | None,
        *,
        seconds: float,
        stdin: bytes = b"",
        pipe: int | None = None,
    ) -> SandboxRequest:
        """Rule 3; raises `ConnectionRefused` if the skill has no such script."""
        if script not in skill.tree.by_path:
            raise ConnectionRefused(f"{skill.name} has no {script}, so it cannot be connected.")
        directory = self.loader.store.trees.path(skill.digest)
        accounts = () if account is None else (account,)
        return checked_request(
            argv=script_command(directory, script),
            env={"PYTHONUNBUFFERED": "1", **account_variables(accounts)},
            read=(str(directory),),
            network=skill.sidecar.hosts if account is None else (),
            accounts=accounts,
            limits=SandboxLimits(wall_seconds=seconds, flood_bytes=4 * 1024 * 1024),
            stdin=stdin,
            stdin_pipe=pipe,
        )
