"""The scripts of skills as tools: run in the sandbox, as exactly the version that was approved.

1. Only what `silas.yaml` declares becomes a tool. Its arguments are checked before the sandbox.
2. The files are compared with their digest before and after each call. What was changed meanwhile
   has given nothing.
3. A script sees its own skill, read-only, and the copy of the workspace. It sees no other skill,
   nothing of what Silas keeps, and none of the variables of this process or of the plan. A script
   of a connection sees in `SILAS_ACCOUNT` whose account it works with, and no credential.
4. It reaches the hosts that its skill lists, and no others: neither those of the plan, nor those of
   another skill. With a host to reach it is not contained, whatever it declares. With an account
   it reaches the servers of that account alone: what it reads there is told to nobody else.
5. What it prints is a stranger's text.
"""

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from silas.egress.accounts import BrokeredAccount
from silas.kernel import TaintLevel
from silas.sandbox.environment import python_executable
from silas.sandbox.models import SandboxRunner
from silas.skills.format import Skill
from silas.skills.sidecar import ScriptDeclaration, script_parts
from silas.skills.tree import SkillChanged
from silas.tools.commands import run_command
from silas.tools.declaration import ArgumentsRefused, Tool
from silas.tools.execution import ExecutionEnvelope, ExecutionResult, failed

Unchanged = Callable[[str], Awaitable[None]]
"""Raises `SkillChanged` unless the version with this digest lies there as it was approved."""

ACCOUNT_VARIABLE = "SILAS_ACCOUNT"
# The folder of the script is where its own modules are; nothing of the user's or of a variable is.
_PYTHON = ("-E", "-s", "-B", "-u", "-X", "utf8")
_SHELLS = {".sh": "sh", ".bash": "bash"}
CHANGED_MEANWHILE = (
    "The skill was changed while its script ran. What the script gave does not count, and nothing "
    "more is done with this skill: `silas skills show` says what is installed."
)


def script_command(directory: Path, script: str) -> tuple[str, ...]:
    """How a script of a skill in this directory is started, with the word that chooses, if any."""
    file, word = script_parts(script)
    words = (str(directory / file), *([word] if word else []))
    suffix = PurePosixPath(file).suffix
    if suffix == ".py":
        return (python_executable(), *_PYTHON, *words)
    return (_SHELLS[suffix], *words) if suffix in _SHELLS else words


@dataclass(frozen=True)
class ScriptExecutor:
    """Runs one script of one version of a skill."""

    sandbox: SandboxRunner
    directory: Path
    digest: str
    hosts: tuple[str, ...]
    script: str
    declared: ScriptDeclaration
    require_unchanged: Unchanged

    async def execute(self, envelope: ExecutionEnvelope) -> ExecutionResult:
        """Rules 1 to 5."""
        try:
            call = self.declared.call(envelope.args)
            await self.require_unchanged(self.digest)
        except (ArgumentsRefused, SkillChanged) as error:
            return failed(envelope, str(error), taint=TaintLevel.EXTERNAL)
        argv = (*script_command(self.directory, self.script), *call.words)
        with _workplace(envelope.sandbox_config.work_dir) as place:
            inside = self._envelope(envelope, place)
            ran = await run_command(self.sandbox, inside, argv, stdin=call.stdin.encode())
        try:
            await self.require_unchanged(self.digest)
        except SkillChanged:
            return failed(envelope, CHANGED_MEANWHILE, taint=TaintLevel.EXTERNAL)
        return ran.model_copy(update={"taint": TaintLevel.EXTERNAL})

    def _envelope(self, envelope: ExecutionEnvelope, place: str) -> ExecutionEnvelope:
        """The same with the world of this script: see rules 3 and 4."""
        config = envelope.sandbox_config
        inside = [each for each in config.filesystem_read if each.startswith(place)]
        own = {
            "work_dir": place,
            "network_hosts": () if config.accounts else self.hosts,
            "filesystem_read": [*inside, str(self.directory)],
            "env": account_variables(config.accounts),
        }
        return envelope.model_copy(update={"sandbox_config": config.model_copy(update=own)})


@contextlib.contextmanager
def _workplace(work_dir: str) -> Iterator[str]:
    """The copy of the workspace; a call in a conversation has none, and gets an empty directory."""
    if Path(work_dir).is_absolute():
        yield work_dir
        return
    with TemporaryDirectory(prefix="silas-skill-") as empty:
        yield str(Path(empty).resolve())


def account_variables(accounts: Sequence[BrokeredAccount]) -> dict[str, str]:
    """What a script may know of the account that it works with: who and where, in JSON."""
    if not accounts:
        return {}
    account = accounts[0]
    known = {
        "connection_id": account.connection_id,
        "username": account.credential.username,
        "address": account.address or account.credential.username,
        "endpoints": [each.model_dump(mode="json") for each in account.endpoints],
    }
    return {ACCOUNT_VARIABLE: json.dumps(known)}


def skill_tools(
    skill: Skill, directory: Path, *, sandbox: SandboxRunner, require_unchanged: Unchanged
) -> list[Tool]:
    """The tools that one version of a skill brings."""
    hosts = skill.sidecar.hosts
    reaches_out = skill.reaches_out
    return [
        Tool(
            declared.tool_name(path),
            declared.arguments_model,
            ScriptExecutor(
                sandbox, directory, skill.digest, hosts, path, declared, require_unchanged
            ),
            contained=declared.contained and not reaches_out,
            # Its hosts are its skill's, and not those of the workspace.
            stays_offline=not reaches_out,
            effect=declared.effect,
            inverse=declared.inverse,
            description=declared.description,
        )
        for path, declared in sorted(skill.sidecar.scripts.items())
    ]


async def unchanged(read: Callable[[str], object], digest: str) -> None:
    """Read a version off the event loop; raises `SkillChanged` if it is another one by now."""
    await asyncio.to_thread(read, digest)
