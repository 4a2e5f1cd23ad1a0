"""The keys that a plan may have, found by walking the models; and which one was probably meant."""

import difflib
import types
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel

from silas.kernel.field_problems import FieldPath
from silas.work.models import WorkItem
from silas.work.plan_hash import RUNTIME_FIELDS

# What a plan may say although it is not part of what is approved: that it wants to be approved.
_WRITABLE = {"needs_approval"}
NOT_IN_PLANS = (RUNTIME_FIELDS - _WRITABLE) | {"spawned_by", "skill_hashes"}
"""Fields of a work item that the runtime keeps; a plan that sets them is refused."""


def keys_at(path: FieldPath) -> list[str]:
    """The keys that may stand in the mapping at this path of a work item."""
    kind: Any = WorkItem
    for part in path:
        kind = _inside(kind, part)
    if not _is_model(kind):
        return []
    names = [field.alias or name for name, field in kind.model_fields.items()]
    return [name for name in names if kind is not WorkItem or name not in NOT_IN_PLANS]


def meant_instead(name: str, known: list[str]) -> str:
    """A hint such as "; did you mean `verify`?", or nothing."""
    close = difflib.get_close_matches(name[:100], known, n=1)
    return f"; did you mean `{close[0]}`?" if close else ""


def _inside(kind: Any, part: str | int) -> Any:
    if _is_model(kind):
        fields = {field.alias or name: field for name, field in kind.model_fields.items()}
        return _plain(fields[part].annotation) if part in fields else None
    arguments = get_args(kind)
    return _plain(arguments[-1]) if arguments else None


def _plain(annotation: Any) -> Any:
    """The annotation without `Annotated` and `| None`."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return _plain(get_args(annotation)[0])
    if origin in (Union, types.UnionType):
        return _plain(next(each for each in get_args(annotation) if each is not types.NoneType))
    return annotation


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)
