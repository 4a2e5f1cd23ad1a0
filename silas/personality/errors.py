"""What can go wrong with the manner."""

from silas.kernel import ConfigError


class PresetUnknown(ConfigError):
    """There is no such preset. Choose one of `personality.presets` in the configuration."""

    code = "E_CFG_PRESET_UNKNOWN"
    exit_code = 18
