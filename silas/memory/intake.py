"""What happens to a memory's text before it is kept, whoever hands it in.

Secrets are taken out of everything. What is not the owner's own is scrubbed as well: a text, its
tags, its entities. What was taken out is told by name in `scrubbed`.
"""

from collections.abc import Callable, Iterable

from silas.kernel import TaintLevel
from silas.kernel.redaction import Redactor
from silas.memory.errors import MemoryInvalid
from silas.memory.models import MemoryItem
from silas.memory.scrub import scrub

LONGEST_CONTENT = 1_000_000
"""Characters of one memory. Longer text belongs into a file."""

_LONGEST_TAG = 200
_MOST_TAGS = 100
_SECRET = "secret"  # noqa: S105 - the name of what was taken out

KnownSecrets = Callable[[], Iterable[str]]


class Intake:
    """Makes memories fit to be kept."""

    def __init__(self, known_secrets: KnownSecrets | None = None) -> None:
        self._known_secrets = known_secrets
        self._redactor = Redactor()

    def prepared(self, item: MemoryItem) -> MemoryItem:
        """The memory as it may be written down; raises if it cannot be at all."""
        _require_storable(item)
        removed = dict.fromkeys(item.scrubbed)
        content = self._without_secrets(item.content)
        if content != item.content:
            removed[_SECRET] = None
        if item.taint is not TaintLevel.OWNER:
            cleaned = scrub(content)
            content = cleaned.text
            removed.update(dict.fromkeys(cleaned.removed))
            item = _with_clean_lists(item)
        if content == item.content and list(removed) == item.scrubbed:
            return item
        return item.model_copy(update={"content": content, "scrubbed": list(removed)})

    def _without_secrets(self, text: str) -> str:
        if self._known_secrets is None:
            return self._redactor.text(text)
        return Redactor(self._known_secrets()).text(text)


def _with_clean_lists(item: MemoryItem) -> MemoryItem:
    """Tags and entities are shown to models too: one that is not clean goes."""
    tags = [tag for tag in item.semantic_tags if not scrub(tag).removed]
    entities = [name for name in item.entity_refs if not scrub(name).removed]
    if len(tags) + len(entities) == len(item.semantic_tags) + len(item.entity_refs):
        return item
    return item.model_copy(update={"semantic_tags": tags, "entity_refs": entities})


def _require_storable(item: MemoryItem) -> None:
    if not item.memory_id or not item.scope_id:
        raise MemoryInvalid("A memory needs an id and a scope.")
    if not item.content.strip():
        raise MemoryInvalid("A memory without content cannot be kept.")
    if len(item.content) > LONGEST_CONTENT:
        raise MemoryInvalid(f"A memory has at most {LONGEST_CONTENT} characters.")
    for values in (item.semantic_tags, item.entity_refs, item.causal_refs):
        if values and (len(values) > _MOST_TAGS or max(map(len, values)) > _LONGEST_TAG):
            most = f"at most {_MOST_TAGS}, of {_LONGEST_TAG} characters each"
            raise MemoryInvalid(f"Tags, entities and links: {most}.")
    _require_text(item)


def _require_text(item: MemoryItem) -> None:
    lists = (*item.semantic_tags, *item.entity_refs, *item.causal_refs)
    names = (item.memory_id, item.scope_id, item.session_id or "", item.source_kind)
    try:
        # Together, as one look at a long text is cheaper than many at short ones.
        if b"\0" in " ".join((item.content, *names, *lists)).encode():
            raise MemoryInvalid("A memory cannot hold the character NUL.")
    except UnicodeEncodeError as error:
        raise MemoryInvalid("A memory cannot hold half of a character.") from error
