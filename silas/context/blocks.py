"""How an item reads: a tag that says what it is and where it came from, its content, an end.

No content can close its block or open another: a line that looks like a tag gets a backslash in
front. No name in a tag can end it.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from silas.context.models import ContextItem, ContextKind
from silas.kernel import TaintLevel

BLOCK_END = "\n--- end ---\n\n"
"""What ends every block; no content holds it."""

_BREAKS = r"\n\r\v\f\x1c-\x1e\x85\u2028\u2029"
_POSING = re.compile(rf"(?:(?<=[{_BREAKS}])|\A)(?=[^\S{_BREAKS}]*---[^{_BREAKS}]*---)")
_NOT_IN_A_TAG = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029|]+|-{3,}")
_LONGEST_NAME = 200
_EXTERNAL = TaintLevel.EXTERNAL  # looked up once: this is the hottest line of a render


class Block(NamedTuple):
    """An item as it is rendered, and what that costs."""

    item: ContextItem
    text: str
    tokens: int

    @property
    def counted(self) -> ContextItem:
        """The item, with its tokens."""
        if self.item.token_count == self.tokens:
            return self.item
        return self.item.model_copy(update={"token_count": self.tokens})


def block_text(item: ContextItem, *, status: str = "live") -> str:
    """The item with its tag; `status` is `live` unless there is something better to say."""
    content = item.content
    # Most texts have no dash at all, and one character is found far quicker than three.
    if "-" in content and "---" in content:
        content = _POSING.sub(r"\\", content)
    if item.masked:
        status = "masked"
    if item.taint is _EXTERNAL:
        status = f"{status} | external"
    return f"--- {_TAGS[item.kind](item, status)} ---\n{content}{BLOCK_END}"


def _message(item: ContextItem, status: str) -> str:
    return f"turn {item.turn_number} | {_speaker(item.source)} | {status}"


def _memory(item: ContextItem, status: str) -> str:
    day = item.created_at.date().isoformat()
    name = in_tag(item.source.removeprefix("memory:"))
    return f'memory | {day} | "{name}"{_unless_live(status)}'


def _subscription(item: ContextItem, status: str) -> str:
    kind, _, target = item.source.partition(":")
    return f"subscription:{in_tag(kind)} | {in_tag(target)} | {status}"


def _system(item: ContextItem, status: str) -> str:
    return f"system | {in_tag(item.source)}{_unless_live(status)}"


def _work(item: ContextItem, status: str) -> str:
    return f"{item.kind} | turn {item.turn_number} | {in_tag(item.source)} | {status}"


_TAGS: dict[ContextKind, Callable[[ContextItem, str], str]] = {
    ContextKind.MESSAGE: _message,
    ContextKind.MEMORY: _memory,
    ContextKind.SUBSCRIPTION: _subscription,
    ContextKind.SYSTEM: _system,
    ContextKind.TOOL_RESULT: _work,
    ContextKind.PLAN: _work,
    ContextKind.EXECUTION_RESULT: _work,
}


@lru_cache(maxsize=256)
def _speaker(source: str) -> str:
    if source.startswith("channel:"):
        return "user"
    return "silas" if source.startswith("agent:") else in_tag(source)


def _unless_live(status: str) -> str:
    if status == "live":
        return ""
    shown = status.removeprefix("live").removeprefix(" | ")
    return f" | {shown}" if shown else ""


@lru_cache(maxsize=1024)
def in_tag(name: str) -> str:
    """A name as it may stand in a tag: on one line, and without what separates its parts."""
    if not _NOT_IN_A_TAG.search(name) and len(name) <= _LONGEST_NAME:
        return name
    return _NOT_IN_A_TAG.sub(" ", name)[:_LONGEST_NAME]


def masked_item(block: Block) -> ContextItem:
    """The item with a short note in place of its content."""
    item = block.item
    _, _, tool = item.source.partition(":")
    name, _, outcome = tool.partition(":")
    status = "FAILED" if outcome == "failed" else "SUCCEEDED"
    note = (
        f"[Result of {in_tag(name) or 'a tool'} ({status}) — {block.tokens} tokens — "
        "see memory for details]"
    )
    return item.model_copy(update={"content": note, "masked": True})
