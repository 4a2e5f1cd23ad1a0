"""The kinds of values that settings have, each with its own check.

A message of a check never repeats the value: it may be a secret that was written in a wrong place.
"""

import re
import zoneinfo
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    SecretStr,
    Strict,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError

from silas.kernel.models import Data, text_like
from silas.kernel.redaction import REDACTED
from silas.scheduler import CronSchedule

_NOT_TEXT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_MAX_PATH = 4096
TIME_ZONE_ERROR = "time_zone"


class Section(Data):
    """One section of the settings: frozen, and without tolerance for unknown keys."""

    # A section's validator is built as a part of the whole: building each one alone as well would
    # slow the start of every command.
    model_config = ConfigDict(allow_inf_nan=False, hide_input_in_errors=True, defer_build=True)


class NullIfUnset:
    """Marks a setting that becomes null if it names an environment variable that is not set."""


def _is_text(value: str) -> bool:
    return bool(value.strip()) and not _NOT_TEXT.search(value)


def _check_text(value: str) -> str:
    if not _is_text(value):
        raise ValueError("must be text that is not empty")
    return value


def _check_path(value: Any) -> Any:
    if isinstance(value, str) and (not _is_text(value) or "\n" in value or len(value) > _MAX_PATH):
        raise ValueError("must be the path of a file or directory")
    return value


def _check_secret(value: SecretStr) -> SecretStr:
    text = value.get_secret_value()
    if not text:
        raise ValueError("must not be empty; write null if there is none")
    if text != text.strip() or not text.isprintable():
        raise ValueError("must not contain line breaks, or spaces at its ends")
    return value


def _check_http_address(value: str) -> str:
    try:
        parts = urlsplit(value)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and not parts.username
        usable = usable and parts.port != 0  # what is no port at all raises
    except ValueError:
        usable = False
    if not usable or not value.isprintable() or " " in value:
        raise ValueError("must be an address such as `http://localhost:11434/v1`, without a user")
    return value


def _check_postgres(value: SecretStr) -> SecretStr:
    if not value.get_secret_value().startswith(("postgresql://", "postgres://")):
        raise ValueError("must be an address such as `postgresql://user@host/silas`")
    return value


def _check_cron(value: str) -> str:
    CronSchedule.parse(value)
    return value


def _check_time_zone(value: str) -> str:
    if not is_time_zone(value) and zoneinfo.available_timezones():
        raise PydanticCustomError(TIME_ZONE_ERROR, "must be a time zone such as `Europe/Vienna`")
    return value


def is_time_zone(name: str) -> bool:
    """Whether this machine's time zone database has the zone; slim containers have no database."""
    try:
        zoneinfo.ZoneInfo(name)
    except (OSError, ValueError, zoneinfo.ZoneInfoNotFoundError):
        return False
    return True


# Strict, because `port: true` would otherwise be port 1.
Whole = Annotated[int, Strict()]
Number = Annotated[float, Strict()]
Count = Annotated[Whole, Field(ge=1, le=1_000_000_000)]
Seconds = Annotated[Whole, Field(ge=1, le=86_400)]
Minutes = Annotated[Whole, Field(ge=1, le=5_256_000)]
Days = Annotated[Whole, Field(ge=1, le=36_500)]
Share = Annotated[Number, Field(ge=0.0, le=1.0)]
"""A part of a whole, from 0 to 1."""
Delta = Annotated[Number, Field(ge=-1.0, le=1.0)]
"""How far something moves, in either direction."""
Text = Annotated[str, AfterValidator(_check_text), Field(max_length=2000)]
Word = Annotated[
    str,
    text_like(
        r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}", "must be one word of letters, digits, `_`, `-` and `.`"
    ),
]
FilePath = Annotated[Path, BeforeValidator(_check_path)]
ModelName = Annotated[
    str,
    text_like(
        r"[a-z][a-z0-9_/-]*:[!-~]+", "must name a provider and a model, such as `ollama:llama3.2`"
    ),
]
Cron = Annotated[str, AfterValidator(_check_cron)]
TimeZone = Annotated[str, AfterValidator(_check_time_zone)]
Domain = Annotated[
    str,
    text_like(
        r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)+[A-Za-z0-9-]{2,63}",
        "must be a domain such as `example.org`, without `https://` or a path",
    ),
]
Host = Annotated[
    str,
    text_like(
        r"[A-Za-z0-9][A-Za-z0-9.-]{0,252}|[0-9A-Fa-f:.]{2,45}",
        "must be an address such as `127.0.0.1` or `::1`, or the name of a machine",
    ),
]
HttpAddress = Annotated[str, AfterValidator(_check_http_address)]
Secret = Annotated[
    SecretStr,
    AfterValidator(_check_secret),
    NullIfUnset(),
    PlainSerializer(lambda _: REDACTED, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "format": "password"}),
]
"""A value that is never shown. Its variable may be unset: then it is null."""
DatabaseUrl = Annotated[Secret, AfterValidator(_check_postgres)]
