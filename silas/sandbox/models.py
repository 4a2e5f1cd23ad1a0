"""What is asked of a sandbox, and what came of it."""

import posixpath
from enum import StrEnum
from typing import Annotated, Self

from pydantic import AfterValidator, Field, field_validator, model_validator

from silas.kernel.models import Data

MEBIBYTE = 1024 * 1024
GIBIBYTE = 1024 * MEBIBYTE
TEMPORARY = "/tmp"  # noqa: S108 - a fresh file system inside the sandbox, not the host's


class Boundary(StrEnum):
    """A wall that a caller can insist on; a backend without it refuses to run."""

    NETWORK = "network"
    FILESYSTEM = "filesystem"
    SYSTEM_CALLS = "system_calls"


class Limit(StrEnum):
    """What stopped a command that did not end by itself."""

    WALL_CLOCK = "wall_clock"
    OUTPUT = "output"
    DISK = "disk"
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
    output_bytes: int = Field(default=100_000, ge=0)
    flood_bytes: int = Field(default=32 * MEBIBYTE, ge=0)


class SandboxRequest(Data):
    """One command and the whole of its world: what is not listed here is not there.

    `output_bytes` of each stream are kept and the rest is read and dropped; a command that writes
    more than `flood_bytes` is stopped.
    """

    argv: tuple[Text, ...] = Field(min_length=1)
    env: dict[Text, Text] = Field(default_factory=dict)
    cwd: CanonicalPath = TEMPORARY
    read: tuple[SharedPath, ...] = ()
    write: tuple[SharedPath, ...] = ()
    network: bool = False
    limits: SandboxLimits = SandboxLimits()
    stdin: bytes = Field(default=b"", max_length=64 * MEBIBYTE)
    require: frozenset[Boundary] = frozenset()

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

    @model_validator(mode="after")
    def _starts_where_it_can_be(self) -> Self:
        places = (*self.read, *self.write, TEMPORARY)
        if not any(is_within(self.cwd, place) for place in places):
            raise ValueError(f"the working directory {self.cwd} is not one of the paths given")
        return self


class SandboxResult(Data):
    """What a command did. `exit_code` is 128 + N for signal N, as in a shell.

    127 means that there is no such program and 126 that it cannot be executed. `limit` names what
    stopped the command; for `cpu` and `file_size` it is told from the exit code.
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

    @property
    def timed_out(self) -> bool:
        """Whether the wall clock stopped it; what it wrote until then is kept."""
        return self.limit is Limit.WALL_CLOCK


class SandboxConfig(Data):
    """The constraints of a sandbox, as plans and skills write them (sizes in MB and seconds)."""

    backend: str | None = None
    work_dir: str = "./data/sandbox/work"
    network_access: bool = False
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
