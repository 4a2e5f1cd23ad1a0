"""What the offline brain does next: one more tool call, or the answer."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Call:
    """Use a tool."""

    tool: str
    args: Mapping[str, Any]


@dataclass(frozen=True)
class Answer:
    """The answer, as the fields that were asked for."""

    fields: Mapping[str, Any]


Move = Call | Answer
