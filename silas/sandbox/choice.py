"""Chooses the backend. A wish that cannot be met is an error, never a weaker sandbox.

1. A backend that is named is used, or the request fails with the reason.
2. `auto` means bubblewrap if it works here, found out by running something in it, else subprocess.
3. What is asked must be enforced: a backend that lacks a required boundary refuses (see `require`).
4. All of them need Linux. Elsewhere nothing is run, and the reason says what works all the same.
"""

import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from silas.kernel import Clock
from silas.kernel.models import Data
from silas.sandbox.bubblewrap import BubblewrapBackend, SubprocessBackend
from silas.sandbox.docker import DEFAULT_IMAGE, DockerBackend
from silas.sandbox.errors import BackendUnavailable
from silas.sandbox.models import (
    BackendReport,
    OutputListener,
    SandboxBackend,
    SandboxRequest,
    SandboxResult,
)

if TYPE_CHECKING:  # most commands of the command line use no account
    from silas.egress.broker import CredentialBroker

AUTO = "auto"
NEEDS_LINUX = (
    "Commands can be contained on Linux alone, so nothing is run here. The conversation, memory, "
    "journal, companions and approvals work; for work with commands and checks, run Silas in a "
    "Linux machine or virtual machine."
)
_AUTOMATIC = ("bubblewrap", "subprocess")
_HOW_TO_INSTALL = {
    "bubblewrap": "Install it: `apt install bubblewrap` or `dnf install bubblewrap`.",
    "subprocess": "It needs Linux 5.12 or later, and a kernel that lets you make user namespaces.",
    "docker": "It needs Docker or Podman listening on a Unix socket, and the image.",
}


def all_backends(
    *,
    clock: Clock | None = None,
    image: str = DEFAULT_IMAGE,
    hidden: Sequence[str] = (),
    broker: "CredentialBroker | None" = None,
) -> dict[str, SandboxBackend]:
    """Every backend by its name, in the order of preference; local ones cover what is `hidden`.

    Without a `broker`, commands that use an account are refused.
    """
    backends: Sequence[SandboxBackend] = (
        BubblewrapBackend(clock=clock, hidden=hidden, broker=broker),
        SubprocessBackend(clock=clock, hidden=hidden, broker=broker),
        DockerBackend(clock=clock, image=image),
    )
    return {backend.name: backend for backend in backends}


class BackendChoice:
    """`SandboxRunner` of the backend with this name, found when it is first needed."""

    def __init__(self, backends: Mapping[str, SandboxBackend], name: str = AUTO) -> None:
        self._backends = backends
        self._name = name
        self._reports: dict[str, BackendReport] = {}

    async def run(
        self, request: SandboxRequest, *, on_output: OutputListener | None = None
    ) -> SandboxResult:
        return await (await self.choose()).run(request, on_output=on_output)

    async def choose(self) -> SandboxBackend:
        """The backend to use; raises `BackendUnavailable` with what to do about it."""
        name = self._name
        if name != AUTO and name not in self._backends:
            known = ", ".join((AUTO, *self._backends))
            raise BackendUnavailable(f"There is no sandbox backend {name!r}. Known: {known}.")
        if sys.platform != "linux":
            raise BackendUnavailable(NEEDS_LINUX)
        reasons = []
        for candidate in _AUTOMATIC if name == AUTO else (name,):
            report = await self.report(candidate)
            if report.available:
                return self._backends[candidate]
            reasons.append(f"{candidate}: {report.reason} {_HOW_TO_INSTALL.get(candidate, '')}")
        raise BackendUnavailable("No sandbox works here. " + " ".join(reasons))

    async def report(self, name: str) -> BackendReport:
        """What this backend can do here; found out once."""
        if name not in self._reports:
            self._reports[name] = (
                await self._backends[name].probe()
                if sys.platform == "linux"
                else BackendReport(name=name, available=False, reason=NEEDS_LINUX)
            )
        return self._reports[name]

    async def describe(self) -> list[BackendReport]:
        """Every backend in words, and which one is in force."""
        try:
            in_force = (await self.choose()).name
        except BackendUnavailable:
            in_force = None
        reports = [await self.report(name) for name in self._backends]
        return [
            report.model_copy(update={"in_force": report.name == in_force}) for report in reports
        ]


async def describe_backends(configured: str = AUTO) -> list[BackendReport]:
    """For `silas doctor`: what each backend does and does not contain on this machine."""
    return await BackendChoice(all_backends(), configured).describe()


class Containment(Data):
    """Whether commands can be run here, in a sentence, and the one command that would help."""

    backend: str | None
    sentence: str
    fix: str | None = None


async def containment(configured: str = AUTO) -> Containment:
    """What set-up says before the first task does."""
    if sys.platform != "linux":
        return Containment(backend=None, sentence=NEEDS_LINUX, fix="docs/sandbox.md says more.")
    reports = await describe_backends(configured)
    in_force = next((report for report in reports if report.in_force), None)
    if in_force is None:
        wanted = _AUTOMATIC if configured == AUTO else (configured,)
        reasons = " ".join(
            f"{report.name}: {report.reason}" for report in reports if report.name in wanted
        )
        return Containment(
            backend=None,
            sentence="Nothing here can contain a command, so no plan and no check can run. "
            f"{reasons} Install bubblewrap:",
            fix=install_command(),
        )
    if in_force.name == "subprocess" and configured == AUTO:
        return Containment(
            backend=in_force.name,
            sentence="bubblewrap is not installed. Commands and checks run in Silas's own sandbox, "
            "which contains the same; bubblewrap is used more widely and starts faster:",
            fix=install_command(),
        )
    return Containment(backend=in_force.name, sentence=f"{in_force.name} contains commands here.")


def install_command() -> str:
    """The command that installs bubblewrap with this system's own installer."""
    known = {
        "apt-get": "sudo apt-get install bubblewrap",
        "dnf": "sudo dnf install bubblewrap",
        "pacman": "sudo pacman -S bubblewrap",
        "zypper": "sudo zypper install bubblewrap",
        "apk": "sudo apk add bubblewrap",
    }
    return next((text for name, text in known.items() if shutil.which(name)), known["apt-get"])
