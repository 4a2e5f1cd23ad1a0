"""What is asked of a sandbox, what came of it, and who runs it."""

import posixpath
from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Any, Literal, Protocol, Self

from pydantic import AfterValidator, Field, ValidationError, field_validator, model_validator

from silas.egress import BrokeredAccount, Hosts, HostUse
from silas.kernel.models import Data, problem_text
from silas.sandbox.errors import CommandRefused

MEBIBYTE = 1024 * 1024
GIBIBYTE = 1024 * MEBIBYTE
TEMPORARY = "/tmp"  # noqa: S108 - a fresh file system inside the sandbox, not the host's


class Boundary(StrEnum):
    """A wall that a caller can insist on; a backend without it refuses to run."""

    NETWORK = "network"
    FILESYSTEM = "filesystem"
    SYSTEM_CALLS = "system_calls"


CONTAINED = frozenset({Boundary.NETWORK, Boundary.FILESYSTEM})
"""What a request insists on unless it says otherwise."""

UNSAFE_NO_BOUNDARY: frozenset[Boundary] = frozenset()
"""Runs a command also where its files or its network are not contained: for probes, and for tests
of weaker backends."""


class Limit(StrEnum):
    """What stopped a command that did not end by itself."""

    WALL_CLOCK = "wall_clock"
    OUTPUT = "output"
    DISK = "disk"
    INODES = "inodes"
    CPU = "cpu"
    FILE_SIZE = "file_size"
    MEMORY = "memory"
    PROCESSES = "processes"


def _without_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("a NUL byte would cut it short")
    return text


def _canonical(path: str) -> str:
    if not path.startswith("/") or posixpath.normpath(path) != path or path.startswith("//"):
        raise ValueError(f"{path!r} is not an absolute path without `.`, `..` or doubled slashes")
    return path


def _not_the_root(path: str) -> str:
    kernel = any(is_within(path, place) for place in ("/proc", "/dev", "/sys"))
    if kernel or path in {"/", TEMPORARY, "/etc"}:
        raise ValueError(f"{path} belongs to the sandbox itself and cannot be one of its paths")
    return path


Text = Annotated[str, AfterValidator(_without_nul)]
CanonicalPath = Annotated[str, AfterValidator(_without_nul), AfterValidator(_canonical)]
SharedPath = Annotated[CanonicalPath, AfterValidator(_not_the_root)]


LEFT_OUT = "\n[… more was printed here than is kept …]\n"
"""Where the middle of a long output was dropped."""


class SandboxLimits(Data):
    """How much a command may use. Sizes are bytes; below the minima the sandbox itself fails."""

    wall_seconds: float = Field(default=300.0, gt=0)
    cpu_seconds: int = Field(default=60, ge=1)
    memory_bytes: int = Field(default=512 * MEBIBYTE, ge=16 * MEBIBYTE)
    processes: int = Field(default=128, ge=1)
    open_files: int = Field(default=1024, ge=64)
    file_bytes: int = Field(default=256 * MEBIBYTE, ge=MEBIBYTE)
    temporary_bytes: int = Field(default=256 * MEBIBYTE, ge=MEBIBYTE)
    disk_bytes: int = Field(default=GIBIBYTE, ge=0)
    inodes: int = Field(default=100_000, ge=0)
    output_bytes: int = Field(default=100_000, ge=0)
    flood_bytes: int = Field(default=32 * MEBIBYTE, ge=0)


class SandboxRequest(Data):
    """One command and the whole of its world: what is not listed here is not there.

    `network` are the hosts that it reaches, through a proxy that is in its environment.
    `output_bytes` of each stream are kept, its first and its last half, and what is between is read
    and dropped; a command that writes more than `flood_bytes` is stopped.
    """

    argv: tuple[Text, ...] = Field(min_length=1)
    env: dict[Text, Text] = Field(default_factory=dict)
    cwd: CanonicalPath = TEMPORARY
    read: tuple[SharedPath, ...] = ()
    write: tuple[SharedPath, ...] = ()
    network: Hosts = ()
    accounts: Annotated[tuple[BrokeredAccount, ...], Field(max_length=1)] = ()
    """The account that it uses, through the broker; it sees nothing of the credential."""
    limits: SandboxLimits = SandboxLimits()
    stdin: bytes = Field(default=b"", max_length=64 * MEBIBYTE)
    stdin_pipe: int | None = Field(default=None, ge=0)
    """The reading end of a pipe of the caller's, for a command that is talked to while it runs;
    instead of `stdin`. The caller closes both ends."""
    one_stream: bool = False
    """Errors go where the output goes, in the order in which they were written, as at a terminal;
    all of it is the result's `stdout` then."""
    require: frozenset[Boundary] = CONTAINED
    """The boundaries without which the command is not run."""

    @field_validator("argv")
    @classmethod
    def _program_named(cls, argv: tuple[str, ...]) -> tuple[str, ...]:
        if not argv[0]:
            raise ValueError("the program has no name")
        return argv

    @field_validator("env")
    @classmethod
    def _names_are_names(cls, env: dict[str, str]) -> dict[str, str]:
        for name in env:
            if not name or "=" in name:
                raise ValueError(f"{name!r} cannot be the name of an environment variable")
        return env

    @property
    def reaches_out(self) -> bool:
        """Whether there is a way out of its sandbox at all."""
        return bool(self.network or self.accounts)

    @model_validator(mode="after")
    def _has_one_input(self) -> Self:
        if self.stdin and self.stdin_pipe is not None:
            raise ValueError("it has two inputs")
        return self

    @model_validator(mode="after")
    def _starts_where_it_can_be(self) -> Self:
        places = (*self.read, *self.write, TEMPORARY)
        if not any(is_within(self.cwd, place) for place in places):
            raise ValueError(f"the working directory {self.cwd} is not one of the paths given")
        return self


class SandboxResult(Data):
    """What a command did. `exit_code` is 128 + N for signal N, as in a shell.

    127 means that there is no such program and 126 that it cannot be executed. `limit` names what
    stopped the command; for `cpu` and `file_size` it is told from the exit code. `network` says
    which hosts were reached or refused.
    """

    backend: str
    exit_code: int
    stdout: bytes
    stderr: bytes
    stdout_truncated: bool = False
    stderr_truncated: bool = False
    limit: Limit | None = None
    duration_seconds: float = Field(ge=0)
    not_enforced: tuple[str, ...] = ()
    network: tuple[HostUse, ...] = ()

    @property
    def timed_out(self) -> bool:
        """Whether the wall clock stopped it; what it wrote until then is kept."""
        return self.limit is Limit.WALL_CLOCK

    @property
    def text(self) -> str:
        """What it printed, for people; of two streams, what went to stdout, then to stderr."""
        streams = ((self.stdout, self.stdout_truncated), (self.stderr, self.stderr_truncated))
        first, second = (_printed(kept, whole=not cut) for kept, cut in streams)
        apart = "\n" if first and second and not first.endswith("\n") else ""
        return f"{first}{apart}{second}"


def _printed(stream: bytes, *, whole: bool) -> str:
    if whole:
        return stream.decode(errors="replace")
    first, last = stream[: len(stream) // 2], stream[len(stream) // 2 :]
    return f"{first.decode(errors='replace')}{LEFT_OUT}{last.decode(errors='replace')}"


class SandboxConfig(Data):
    """The constraints of a sandbox, as plans and skills write them (sizes in MB and seconds)."""

    backend: str | None = None
    work_dir: str = "./data/sandbox/work"
    network_hosts: Hosts = ()
    accounts: tuple[BrokeredAccount, ...] = Field(default=(), max_length=1)
    filesystem_read: list[str] = Field(default_factory=list)
    filesystem_write: list[str] = Field(default_factory=list)
    max_memory_mb: int = Field(default=512, ge=16)
    max_cpu_seconds: int = Field(default=60, ge=1)
    env: dict[str, str] = Field(default_factory=dict)


class BackendReport(Data):
    """What a backend can do on this machine, in words."""

    name: str
    available: bool
    reason: str
    in_force: bool = False
    contains: tuple[str, ...] = ()
    does_not_contain: tuple[str, ...] = ()


def is_within(path: str, directory: str) -> bool:
    """Whether one canonical path is the other or lies below it."""
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def checked_request(**fields: Any) -> SandboxRequest:
    """The request, or `CommandRefused` with every reason in one sentence."""
    try:
        return SandboxRequest(**fields)
    except ValidationError as error:
        raise CommandRefused(f"This cannot be run: {problem_text(error)}.") from error


OutputListener = Callable[[Literal["stdout", "stderr"], bytes], None]


class SandboxRunner(Protocol):
    """Runs commands contained.

    It never runs what it cannot contain: it raises `CannotContain` or `SandboxNotStarted`. When
    `run` returns, raises or is cancelled, no process of the command is left.
    """

    async def run(
        self, request: SandboxRequest, *, on_output: OutputListener | None = None
    ) -> SandboxResult:
        """Run one command to its end; `on_output` hears the output as it comes."""
        ...


class SandboxBackend(SandboxRunner, Protocol):
    """One way to run a command contained."""

    @property
    def name(self) -> str:
        """How configuration and reports call it."""
        ...

    async def probe(self) -> BackendReport:
        """Whether it works here, found out by using it, and what it contains."""
        ...
