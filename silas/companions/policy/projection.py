"""NEED_TO_KNOW: what may cross a boundary, field by field.

1. A boundary has an allowlist of paths (`facts[].title`); an empty one lets nothing through.
2. `project` builds what crosses from the allowlist: every other field is left out.
3. `require_projected` looks at what is about to cross, however it was built. A field that is not on
   the list stops the whole request (`overshared_payload_blocked`): somebody tried to add it.
4. A path allows that value alone. `facts[].tags[]` allows texts in a list, `slots.*` the plain
   values of a mapping; nothing allows a whole subtree unseen.
5. Text is cut to a length and secrets are taken out of it, whatever the list says.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from silas.companions.errors import OversharedPayloadBlocked
from silas.kernel.redaction import Redactor

MAX_TEXT = 2_000
MAX_ITEMS = 200
_PLAIN = (str, int, float, bool, type(None))
_REDACTOR = Redactor()


def project(source: Mapping[str, Any], allowed_fields: frozenset[str]) -> dict[str, Any]:
    """The part of `source` that the list allows."""
    result = _projected(source, "", allowed_fields)
    return result if isinstance(result, dict) else {}


def require_projected(payload: Mapping[str, Any], allowed_fields: frozenset[str]) -> None:
    """Raise `OversharedPayloadBlocked` if the payload holds what the list does not name."""
    excess = sorted({path for path in _paths(payload, "") if not _allows(path, allowed_fields)})
    if excess or not allowed_fields:
        named = ", ".join(excess[:5]) or "everything"
        raise OversharedPayloadBlocked(
            f"More was to be sent than is needed ({named}), so nothing was sent.", fields=excess
        )
    if payload != _REDACTOR.value(payload):
        raise OversharedPayloadBlocked(
            "What was to be sent holds something that looks like a secret, so nothing was sent."
        )


def _projected(value: Any, path: str, allowed: frozenset[str]) -> Any:
    if isinstance(value, Mapping):
        found = {
            str(key): _projected(each, _join(path, str(key)), allowed)
            for key, each in value.items()
            if _leads_on(_join(path, str(key)), allowed)
        }
        return {key: each for key, each in found.items() if each is not _NOTHING}
    if isinstance(value, list | tuple):
        items = (_projected(each, f"{path}[]", allowed) for each in value[:MAX_ITEMS])
        return [each for each in items if each is not _NOTHING]
    if not _allows(path, allowed) or not isinstance(value, _PLAIN):
        return _NOTHING
    return _REDACTOR.text(value)[:MAX_TEXT] if isinstance(value, str) else value


class _Nothing:
    """What is left of a value that may not cross."""


_NOTHING = _Nothing()


def _paths(value: Any, path: str) -> Iterator[str]:
    """The path of every plain value; what is no JSON has the path `?`, which nothing allows."""
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from _paths(each, _join(path, str(key)))
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _paths(each, f"{path}[]")
    else:
        yield path if isinstance(value, _PLAIN) else "?"


def _allows(path: str, allowed: frozenset[str]) -> bool:
    return path in allowed or f"{path.rpartition('.')[0]}.*" in allowed


def _leads_on(path: str, allowed: frozenset[str]) -> bool:
    """Whether anything at this path or below it is allowed."""
    return _allows(path, allowed) or any(
        each.startswith((f"{path}.", f"{path}[]")) for each in allowed
    )


def _join(path: str, key: str) -> str:
    # A key that looks like a path would otherwise be read as one.
    safe = key if key.isidentifier() or key.replace("-", "_").isidentifier() else f"<{key[:20]}>"
    return f"{path}.{safe}" if path else safe
