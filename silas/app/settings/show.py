"""The settings in force, fit to be shown: no secret is among them."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from pydantic import BaseModel, SecretStr

from silas.app.settings.load import LoadedSettings
from silas.app.settings.origin import KeyPath, Origin
from silas.kernel.field_problems import dotted
from silas.kernel.redaction import redact


class ShownSetting(NamedTuple):
    """One setting: its name, its value without secrets, and where it was written."""

    name: str
    value: Any
    origin: Origin


def shown_values(loaded: LoadedSettings) -> dict[str, Any]:
    """All settings, nested as in the file, in JSON's types."""
    values = loaded.settings.model_dump(mode="json", by_alias=True)
    shown: dict[str, Any] = redact(values, known=_secrets(loaded.settings))
    return shown


def shown_settings(loaded: LoadedSettings) -> Iterator[ShownSetting]:
    """All settings one by one, in the order of the file."""
    for key, value in _leaves(shown_values(loaded)):
        yield ShownSetting(dotted(key), value, loaded.origin_of(key))


def _leaves(value: Any, key: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    if isinstance(value, dict) and (value or not key):
        for name, item in value.items():
            yield from _leaves(item, (*key, name))
    else:
        yield key, value


def _secrets(value: Any) -> Iterator[str]:
    """Every secret in the settings: none may appear, not even where it was copied to."""
    if isinstance(value, SecretStr):
        yield value.get_secret_value()
    elif isinstance(value, BaseModel):
        for _, item in value:
            yield from _secrets(item)
