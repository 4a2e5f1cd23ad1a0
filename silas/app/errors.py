"""What can go wrong with a data directory, in words."""

from silas.kernel import ConfigError


class NotInitialised(ConfigError):
    """There is no Silas in this directory yet. Run `silas init`, or name another `--data-dir`."""

    code = "E_CFG_NOT_INITIALISED"
    exit_code = 11
