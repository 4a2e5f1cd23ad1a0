"""git, contained: in the sandbox, on a GIT_DIR that Silas makes for each use and then removes.

1. The GIT_DIR holds nothing but Silas' configuration, an index, and, where a caller gives one, the
   place of further objects. No configuration of anybody else, no hook, filter, driver, attribute,
   replaced object or credential has a say.
2. git reaches nothing. A caller that has the owner's yes to a fetch names one host and the one
   protocol for it; the way there is the egress proxy's.
3. `hash_object` says what an object is called: whoever takes objects out of git compares.
"""

import asyncio
import hashlib
import json
import os
import re
import shlex
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from silas.kernel import SandboxError
from silas.sandbox.command_run import to_the_end
from silas.sandbox.environment import HARDENED_ENVIRONMENT
from silas.sandbox.models import (
    MEBIBYTE,
    Boundary,
    SandboxLimits,
    SandboxRequest,
    SandboxResult,
    SandboxRunner,
)
from silas.storage.files import make_private_directory
from silas.storage.trees import clear_name
from silas.tools.tree import FileRefused

OBJECT_ID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
GIT_LIMITS = SandboxLimits(
    wall_seconds=60,
    cpu_seconds=60,
    memory_bytes=1024 * MEBIBYTE,
    output_bytes=16 * MEBIBYTE,
)
_CONFIGURATION = """\
[core]
\trepositoryFormatVersion = 1
\tbare = false
\thooksPath = /dev/null
\tfsmonitor = false
\tattributesFile = /dev/null
\texcludesFile = /dev/null
\tuntrackedCache = false
\tcommitGraph = false
\tmultiPackIndex = false
\tautocrlf = false
\tpager = cat
\teditor = false
\taskPass = false
\tpackedGitWindowSize = 16m
\tpackedGitLimit = 256m
[index]
\tthreads = 1
[gc]
\tauto = 0
[maintenance]
\tauto = false
[submodule]
\trecurse = false
[credential]
\thelper =
[http]
\tfollowRedirects = false
\tversion = HTTP/1.1
\tsslVerify = true
\tlowSpeedLimit = 1000
\tlowSpeedTime = 30
[transfer]
\tfsckObjects = true
\tbundleURI = false
[fetch]
\tunpackLimit = 1
\trecurseSubmodules = false
\twriteCommitGraph = false
[pack]
\tthreads = 1
"""
_PROTOCOLS = ("ext", "file", "ssh", "git", "http", "https")
_ENVIRONMENT = {
    **HARDENED_ENVIRONMENT,
    "HOME": "/nonexistent",
    "XDG_CONFIG_HOME": "/nonexistent",
    "LC_ALL": "C",
    "GIT_ALLOW_PROTOCOL": "",
    "GIT_ASKPASS": "/bin/false",
    "GIT_EDITOR": "/bin/false",
    "GIT_LFS_SKIP_SMUDGE": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_PAGER": "cat",
    "GIT_SSH_COMMAND": "/bin/false",
    "SSH_ASKPASS": "/bin/false",
}
_NO_SUCH_PROGRAM = 127


@dataclass(frozen=True)
class GitRemote:
    """The one host that git may reach for one run (rule 2)."""

    protocol: Literal["https", "http"]
    host: str
    """As a list of hosts names it."""


@dataclass(frozen=True)
class ContainedGit:
    """git on one GIT_DIR of Silas' own."""

    sandbox: SandboxRunner
    place: Path
    objects: Path | None = None

    @property
    def work(self) -> Path:
        """An empty working directory."""
        return self.place / "work"

    async def run(
        self,
        *commands: Sequence[str],
        stdin: bytes = b"",
        work_tree: Path | None = None,
        read: tuple[Path, ...] = (),
        ok: tuple[int, ...] = (0,),
        limits: SandboxLimits = GIT_LIMITS,
        remote: GitRemote | None = None,
    ) -> bytes:
        """Run the commands one after the other, and return what they wrote."""
        seen = (*read, *((self.objects,) if self.objects else ()))
        directory = str(work_tree or self.work)
        script = " && ".join(shlex.join(("git", *command)) for command in commands)
        env = {
            **_ENVIRONMENT,
            "GIT_DIR": str(self.place / "git"),
            "GIT_WORK_TREE": directory,
            "TMPDIR": str(self.place),
            **({"GIT_ALLOW_PROTOCOL": remote.protocol} if remote else {}),
        }
        try:
            ran = await self.sandbox.run(
                SandboxRequest(
                    argv=("/bin/sh", "-c", script),
                    env=env,
                    cwd=directory,
                    read=tuple(map(str, seen)),
                    write=(str(self.place),),
                    network=(remote.host,) if remote else (),
                    limits=limits,
                    stdin=stdin,
                    require=frozenset(Boundary),
                )
            )
        except SandboxError as error:
            raise FileRefused(f"git could not run in the sandbox: {error.message}") from error
        except ValueError as error:
            raise FileRefused("The repository's path cannot be shown to a sandbox.") from error
        # Without a `.gitignore` that it may not read, git would go on and list what is ignored.
        unread = b"Permission denied" in ran.stderr
        if ran.exit_code not in ok or ran.limit is not None or ran.stdout_truncated or unread:
            raise FileRefused(_complaint(commands, ran))
        return ran.stdout


@asynccontextmanager
async def contained_git(
    sandbox: SandboxRunner,
    scratch: Path,
    *,
    sha256: bool = False,
    exclude: bytes = b"",
    objects: Path | None = None,
) -> AsyncIterator[ContainedGit]:
    """A GIT_DIR below `scratch`; `exclude` are patterns, `objects` a place of further objects."""
    place = await asyncio.to_thread(
        _make_place, scratch, sha256=sha256, exclude=exclude, objects=objects
    )
    try:
        yield ContainedGit(sandbox, place, objects)
    finally:
        await to_the_end(asyncio.to_thread(clear_name, place))


def _make_place(scratch: Path, *, sha256: bool, exclude: bytes, objects: Path | None) -> Path:
    """A fresh directory with a GIT_DIR that holds nothing but what Silas writes into it."""
    make_private_directory(scratch)
    place = Path(tempfile.mkdtemp(prefix="git-", dir=scratch.resolve()))
    for name in ("work", "git/objects/info", "git/refs", "git/info"):
        (place / name).mkdir(parents=True)
    kind = "sha256" if sha256 else "sha1"
    never = "".join(f'[protocol "{each}"]\n\tallow = never\n' for each in _PROTOCOLS)
    extension = f"[extensions]\n\tobjectFormat = {kind}\n"
    (place / "git/config").write_text(_CONFIGURATION + never + extension)
    (place / "git/HEAD").write_text("ref: refs/heads/none\n")
    (place / "git/info/exclude").write_bytes(exclude)
    if objects is not None:
        # In quotes, because a line may end inside the name of a directory.
        line = json.dumps(str(objects), ensure_ascii=False) + "\n"
        (place / "git/objects/info/alternates").write_bytes(os.fsencode(line))
    return place


def hash_object(kind: str, content: bytes, *, sha256: bool) -> tuple[str, bytes]:
    """The id of an object, and what git hashes: the content behind its kind and length."""
    framed = f"{kind} {len(content)}\0".encode() + content
    algorithm = hashlib.sha256 if sha256 else hashlib.sha1
    return algorithm(framed, usedforsecurity=False).hexdigest(), framed


def _complaint(commands: Sequence[Sequence[str]], ran: SandboxResult) -> str:
    if ran.exit_code == _NO_SUCH_PROGRAM:
        return "git is not installed where the sandbox sees it. Install git."
    doing = "git " + ", ".join(command[0] for command in commands)
    if ran.limit is not None or ran.stdout_truncated:
        return f"{doing} was stopped: it took too much {ran.limit or 'output'}."
    said = ran.stderr.decode(errors="replace").strip().rpartition("\n")[2]
    readable = "".join(each if each.isprintable() else "?" for each in said[:300])
    return f"{doing} did not work (exit code {ran.exit_code}): {readable}"
