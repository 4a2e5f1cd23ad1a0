"""What can go wrong with a sandbox, in words. Whatever is not contained is not run."""

from silas.kernel import SandboxError


class BackendUnavailable(SandboxError):
    """This sandbox backend does not work here. Run `silas doctor` to see which one does."""

    code = "E_SANDBOX_UNAVAILABLE"


class CannotContain(SandboxError):
    """The sandbox cannot enforce what was asked, so nothing was run. Install bubblewrap."""

    code = "E_SANDBOX_CANNOT_CONTAIN"


class PathRefused(SandboxError):
    """A path cannot be shown to the sandbox. Give the real, absolute path of something there is."""

    code = "E_SANDBOX_PATH"


class CommandRefused(SandboxError):
    """The command cannot be started as written. Shorten its arguments or its environment."""

    code = "E_SANDBOX_COMMAND"


class SandboxNotStarted(SandboxError):
    """The sandbox could not be built, so nothing was run. Run `silas doctor` to see why."""

    code = "E_SANDBOX_NOT_STARTED"


class ContainerEngineFailed(SandboxError):
    """The container engine refused. Check that Docker or Podman runs and has the image."""

    code = "E_SANDBOX_ENGINE"
