"""The text of an answer while it is still being written.

The answer is JSON that grows. Its text is `response.message`, and it is shown only once everything
before it says that it will be one: the route is `direct`, and the fields that can be refused are
valid. The schema puts them first, and `response` last.

What was shown is a preview until the call returns: the answer that is returned replaces it. If an
answer is refused after its text was shown, the repair is not shown while it grows, so that the two
never run together.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pydantic_ai.messages import (
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
)
from pydantic_core import from_json

from silas.agents.outputs import MAX_ANSWER_CHARS, OUTPUT_TOOL, OutputInvalid
from silas.stream.ports import TextListener

Finder = Callable[[dict[str, Any]], str | None]
"""Finds the text in an answer that is not complete yet; None as long as there is none."""

_LEAST_GROWTH = 12
_GROWTH_SHARE = 64


@dataclass
class GrowingAnswer:
    """Hears the events of one response, and tells the listener what is new in its text."""

    find: Finder
    listener: TextListener
    _written: list[str] = field(default_factory=list)
    _size: int = 0
    _read: int = 0
    _told: str = ""
    _answering: set[int] = field(default_factory=set)

    def hear(self, event: ModelResponseStreamEvent) -> None:
        """Take one event in; raises `OutputInvalid` when the answer does not end."""
        piece = self._piece(event)
        if not piece:
            return
        self._written.append(piece)
        self._size += len(piece)
        if self._size > MAX_ANSWER_CHARS:
            raise OutputInvalid(f"- the answer is longer than {MAX_ANSWER_CHARS} characters")
        # To read it anew for every piece would take quadratic time.
        if self._size - self._read >= max(_LEAST_GROWTH, self._size // _GROWTH_SHARE):
            self.flush()

    def flush(self) -> None:
        """Tell what has not been told yet."""
        self._read = self._size
        whole = "".join(self._written)
        self._written = [whole]
        try:
            value = from_json(whole[whole.find("{") :], allow_partial="trailing-strings")
        except ValueError:
            return
        text = self.find(value) if isinstance(value, dict) else None
        # A text that does not go on from what was told is another one; that is not told.
        if text and text.startswith(self._told) and len(text) > len(self._told):
            self.listener(text[len(self._told) :])
            self._told = text

    def _piece(self, event: ModelResponseStreamEvent) -> str:
        if isinstance(event, PartStartEvent):
            return self._start(event)
        if isinstance(event, PartDeltaEvent) and event.index in self._answering:
            match event.delta:
                case TextPartDelta(content_delta=text):
                    return text
                case ToolCallPartDelta(args_delta=str(args)):
                    return args
        return ""

    def _start(self, event: PartStartEvent) -> str:
        match event.part:
            case TextPart(content=text):
                self._answering.add(event.index)
                return text
            case ToolCallPart(tool_name=name, args=args) if name == OUTPUT_TOOL:
                self._answering.add(event.index)
                return args if isinstance(args, str) else ""
        return ""
