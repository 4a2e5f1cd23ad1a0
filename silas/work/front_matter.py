"""A plan's text taken apart: YAML between two lines `---`, and the prose below.

Line ends become `\\n`, and blank lines around the prose are left out, so that a plan has the same
hash on every machine and in every editor.
"""

import re
from dataclasses import dataclass

from silas.work.errors import PlanInvalid, PlanProblem

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
