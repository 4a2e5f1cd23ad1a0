"""Chooses the backend. A wish that cannot be met is an error, never a weaker sandbox.

1. A backend that is named is used, or the request fails with the reason.
2. `auto` means bubblewrap if it works here, found out by running something in it, else subprocess.
3. What is asked must be enforced: a backend that lacks a required boundary refuses (see `require`).
"""

from collections.abc import Mapping, Sequence

from silas.kernel import Clock
from silas.sandbox.bubblewrap import BubblewrapBackend
from silas.sandbox.docker import DEFAULT_IMAGE, DockerBackend
from silas.sandbox.errors import BackendUnavailable
from silas.sandbox.models import BackendReport
from silas.sandbox.ports import SandboxBackend
from silas.sandbox.subprocess_backend import SubprocessBackend

AUTO = "auto"
_AUTOMATIC = ("bubblewrap", "subprocess")
_HOW_TO_INSTALL = {
    "bubblewrap": "Install it: `apt install bubblewrap` or `dnf install bubblewrap`.",
    "subprocess": "It needs user namespaces, and `unshare` and `setpriv` from util-linux.",
    "docker": "It needs Docker or Podman listening on a Unix socket, and the image.",
}


def all_backends(
    *, clock: Clock | None = None, image: str = DEFAULT_IMAGE
) -> dict[str, SandboxBackend]:
    """Every backend by its name, in the order of preference."""
    backends: Sequence[SandboxBackend] = (
        BubblewrapBackend(clock=clock),
        SubprocessBackend(clock=clock),
        DockerBackend(clock=clock, image=image),
    )
    return {backend.name: backend for backend in backends}


class BackendChoice:
    """Finds the backend for a name, and remembers which ones work."""

    def __init__(self, backends: Mapping[str, SandboxBackend]) -> None:
        self._backends = backends
        self._reports: dict[str, BackendReport] = {}

    async def choose(self, name: str = AUTO) -> SandboxBackend:
        """The backend to use; raises `BackendUnavailable` with what to do about it."""
        if name != AUTO and name not in self._backends:
            known = ", ".join((AUTO, *self._backends))
            raise BackendUnavailable(f"There is no sandbox backend {name!r}. Known: {known}.")
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
            self._reports[name] = await self._backends[name].probe()
        return self._reports[name]

    async def describe(self, configured: str = AUTO) -> list[BackendReport]:
        """Every backend in words, and which one is in force."""
        try:
            in_force = (await self.choose(configured)).name
        except BackendUnavailable:
            in_force = None
        reports = [await self.report(name) for name in self._backends]
        return [
            report.model_copy(update={"in_force": report.name == in_force}) for report in reports
        ]


async def describe_backends(configured: str = AUTO) -> list[BackendReport]:
    """For `silas doctor`: what each backend does and does not contain on this machine."""
    return await BackendChoice(all_backends()).describe(configured)
