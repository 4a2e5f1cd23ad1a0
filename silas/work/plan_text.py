"""A plan's text taken apart: YAML between two lines `---`, and the prose below.

Line ends become `\\n`, and blank lines around the prose are left out, so that a plan has the same
hash on every machine and in every editor. The keys that a plan may have are found by walking the
models.
"""

import difflib
import re
import types
from dataclasses import dataclass
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel

from silas.kernel.models import FieldPath
from silas.work.errors import PlanInvalid, PlanProblem
from silas.work.models import RUNTIME_FIELDS, WorkItem

MAX_PLAN_BYTES = 1_000_000

_FENCE = "---"
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff]")


@dataclass(frozen=True)
class PlanText:
    """The two parts of a plan. The YAML starts in line 2."""

    yaml: str
    body: str
    body_line: int


def decode_plan(raw: bytes) -> str:
    """The bytes of a plan file as text; raises `PlanInvalid` if they are too many or not UTF-8."""
    if len(raw) > MAX_PLAN_BYTES:
        raise PlanInvalid([_too_large()])
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        message = "this is not UTF-8 text; save the file as UTF-8"
        raise PlanInvalid([PlanProblem(line, 1, "", message)]) from error


def split_plan(markdown: str) -> PlanText:
    """The front matter and the body; raises `PlanInvalid` if they cannot be told apart."""
    text = markdown.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    _check_text(text)
    lines = text.split("\n")
    if lines[0].rstrip() != _FENCE:
        message = "a plan starts with a line `---`, YAML below it, and another line `---`"
        raise PlanInvalid([PlanProblem(1, 1, "", message)])
    end = next((at for at, line in enumerate(lines[1:], 1) if line.rstrip() == _FENCE), None)
    if end is None:
        message = "the front matter that starts here is not closed by another line `---`"
        raise PlanInvalid([PlanProblem(1, 1, "", message)])
    blank = next((n for n, line in enumerate(lines[end + 1 :]) if line.strip()), 0)
    body = "\n".join(lines[end + 1 + blank :]).rstrip()
    return PlanText(yaml="\n".join(lines[1:end]) + "\n", body=body, body_line=end + 2 + blank)


def _check_text(text: str) -> None:
    if len(text.encode("utf-8", "surrogatepass")) > MAX_PLAN_BYTES:
        raise PlanInvalid([_too_large()])
    hidden = _CONTROL.search(text)
    if hidden:
        before = text[: hidden.start()]
        column = len(before) - before.rfind("\n")
        message = f"contains the control character {hidden[0]!a}; remove it"
        raise PlanInvalid([PlanProblem(before.count("\n") + 1, column, "", message)])


def _too_large() -> PlanProblem:
    return PlanProblem(1, 1, "", f"a plan may be at most {MAX_PLAN_BYTES} bytes long; shorten it")


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
