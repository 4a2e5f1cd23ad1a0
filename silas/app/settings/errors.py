"""What can go wrong with the configuration, in words."""

from collections.abc import Iterable

from silas.app.settings.origin import Problem, in_order
from silas.kernel.errors import ConfigError, ServerError


def invalid_settings(problems: Iterable[Problem], warnings: Iterable[str]) -> ConfigError:
    """All problems as one error: a line each in its message, and as data in its details.

    Warnings are told too: a variable that sets nothing may be what the missing value was meant for.
    """
    ordered = in_order(problems)
    count = "a problem" if len(ordered) == 1 else f"{len(ordered)} problems"
    lines = "".join(f"\n  {problem}" for problem in ordered)
    notes = "".join(f"\n  Note: {warning}" for warning in warnings)
    return ConfigError(
        f"The configuration has {count}:{lines}{notes}\n"
        "Correct this, and run `silas config check` to see whether it is right.",
        problems=[problem.as_json() for problem in ordered],
    )


class ConfigSyntax(ConfigError):
    """The configuration file is not valid YAML. Correct the line that is named."""

    code = "E_CFG_SYNTAX"
    exit_code = 12


class ConfigMissing(ConfigError):
    """This configuration file does not exist. Check its name, or run `silas init` to make one."""

    code = "E_CFG_MISSING"
    exit_code = 13


class ConfigNotAFile(ConfigError):
    """A directory stands where the configuration file should be. Name a file, or move it away."""

    code = "E_CFG_NOT_A_FILE"
    exit_code = 14


class ConfigUnreadable(ConfigError):
    """The configuration file cannot be read. Check its permissions and who owns it."""

    code = "E_CFG_UNREADABLE"
    exit_code = 15


class ConfigEncoding(ConfigError):
    """The configuration file is not UTF-8 text. Save it as UTF-8 in your editor."""

    code = "E_CFG_ENCODING"
    exit_code = 16


class ConfigTooLarge(ConfigError):
    """The configuration file is larger than 1 MB. Check that it is the right file."""

    code = "E_CFG_TOO_LARGE"
    exit_code = 17


class ConfigBinary(ConfigError):
    """The configuration file contains NUL bytes, so it is not text. Restore it or write it anew."""

    code = "E_CFG_BINARY"
    exit_code = 19


class SettingsNotChanged(ServerError):
    """This cannot be changed from here. Write it into the configuration file, and start again."""

    code = "E_SERVER_SETTINGS"
    exit_code = 219
