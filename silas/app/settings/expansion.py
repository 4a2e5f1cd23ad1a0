"""`${NAME}` in a value of the file is replaced by the variable; `$$` is a plain dollar sign."""

import re
from collections.abc import Mapping
from typing import Any

from silas.app.settings.draft import Draft
from silas.app.settings.keys import kind_at, typed
from silas.app.settings.origin import KeyPath, presentable

_DOLLAR = re.compile(r"\$(?:(?P<dollar>\$)|\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)\}|(?P<broken>\{))")


class _Unset(Exception):
    """A variable that the text names has no value."""


class _Broken(Exception):
    """A dollar sign and a brace that name no variable."""


def expand_variables(draft: Draft, environ: Mapping[str, str]) -> None:
    """Replace the variables in every text that the file sets."""
    draft.values = _expanded(draft, draft.values, (), environ)


def _expanded(draft: Draft, value: Any, key: KeyPath, environ: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {n: _expanded(draft, each, (*key, n), environ) for n, each in value.items()}
    if isinstance(value, list):
        return [_expanded(draft, each, (*key, i), environ) for i, each in enumerate(value)]
    if isinstance(value, str) and "$" in value and draft.origin_of(key).source == "file":
        return _expanded_text(draft, value, key, environ)
    return value


def _expanded_text(draft: Draft, text: str, key: KeyPath, environ: Mapping[str, str]) -> Any:
    kind = kind_at(key)
    draft.concealed.add(key)
    try:
        expanded = _DOLLAR.sub(lambda match: _replacement(match, environ), text)
    except _Unset as unset:
        if not (kind and kind.null_if_unset):
            name = presentable(str(unset))
            draft.complain(key, f"names the variable {name}, which is not set; set it first")
        return None
    except _Broken:
        draft.complain(key, "has `${` without a name; write `${NAME}`, or `$$` for a dollar sign")
        return None
    return typed(kind, expanded) if kind else expanded


def _replacement(match: re.Match[str], environ: Mapping[str, str]) -> str:
    if match["dollar"]:
        return "$"
    if match["broken"]:
        raise _Broken
    # A variable that is set to nothing is as good as none: that is how scripts unset one.
    if not environ.get(match["name"]):
        raise _Unset(match["name"])
    return environ[match["name"]]


def escape(text: str) -> str:
    """The text as it must be written in the file so that it means itself."""
    return text.replace("$", "$$")
