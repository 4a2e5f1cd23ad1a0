"""What a plan would say to somebody, shown whole: the letter in it, and how risky it is to send.

1. A plan is *written out* if it is nothing but calls as they are written: a script of calls, each
   covered by an envelope `as_written`, without a host to reach. Everything that it does outside is
   then what the owner reads.
2. A letter is the one call of such a plan that has recipients (`to`) and a text.
3. A letter to people to whom the owner has sent one before is a medium risk. If a recipient is new,
   or if the plan was derived from a stranger's text and the letter holds a link or an amount, it is
   a high one: the stranger may have put it there.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from silas.kernel import CanonicalError, TaintLevel, strict_loads
from silas.storage import Transaction
from silas.work.models import WorkItem
from silas.work.script import CallStep, ScriptInvalid, call_of, read_script

_ADDRESSEES = ("to", "cc", "bcc")
_LINK = re.compile(
    r"[a-z][a-z0-9+.-]*://|\bwww\.|\b[\w-]+\.(?:com|org|net|io|[a-z]{2})/", re.IGNORECASE
)
_AMOUNT = re.compile(
    r"[€$£¥]|\b(?:eur|usd|gbp|chf|btc)\b|\b[a-z]{2}\d{2}(?: ?[a-z0-9]{4}){3,}", re.IGNORECASE
)
_SENT = "SELECT args, result FROM work_ledger WHERE tool = ? AND result IS NOT NULL"


@dataclass(frozen=True)
class Letter:
    """What would be sent, and to whom."""

    tool: str
    args: Mapping[str, Any]
    text: str

    @property
    def recipients(self) -> frozenset[str]:
        """Everybody who gets it."""
        named = [each for name in _ADDRESSEES for each in _listed(self.args.get(name))]
        return frozenset(each.strip().casefold() for each in named)

    @property
    def heading(self) -> str:
        """To whom, about what, from which account: what stands above the text."""
        lines = [
            f"{name.capitalize()}: {', '.join(_listed(self.args[name]))}"
            for name in _ADDRESSEES
            if self.args.get(name)
        ]
        lines += [f"Subject: {self.args['subject']}"] if self.args.get("subject") else []
        lines += [f"From: {self.args['account']}"] if self.args.get("account") else []
        return "\n".join(lines)

    @property
    def may_carry(self) -> bool:
        """Whether it holds a link or an amount."""
        said = f"{self.args.get('subject') or ''}\n{self.text}"
        return _LINK.search(said) is not None or _AMOUNT.search(said) is not None


def is_written_out(item: WorkItem) -> bool:
    """Rule 1."""
    if not item.script or not item.approvals or item.reaches_network:
        return False
    if not all(each.as_written for each in item.approvals):
        return False
    return bool(_calls(item))


def letter_of(item: WorkItem) -> Letter | None:
    """The letter of a plan (rule 2)."""
    calls = _calls(item) if is_written_out(item) else []
    if len(calls) != 1:
        return None
    tool, args = call_of(calls[0])
    text = args.get("text")
    if not isinstance(text, str) or not _listed(args.get("to")):
        return None
    return Letter(tool, args, text)


def with_letter(item: WorkItem, text: str) -> WorkItem | None:
    """The plan with another text in its letter; None if that cannot be written down."""
    old = letter_of(item)
    if old is None or not text.strip():
        return None
    [call] = _calls(item)
    written = json.dumps({**old.args, "text": text}, ensure_ascii=False, indent=2)
    if item.body.count(call.arguments) != 1:
        return None
    changed = item.model_copy(update={"body": item.body.replace(call.arguments, written)})
    new = letter_of(changed)
    same = (
        new is not None
        and new.text == text
        and {**new.args, "text": ""}
        == {
            **old.args,
            "text": "",
        }
    )
    return changed if same else None


def is_to_known(tx: Transaction, letter: Letter, taint: TaintLevel) -> bool:
    """Rule 3: whether nobody in it is new, and nothing in it can have been put there."""
    if taint is TaintLevel.EXTERNAL and letter.may_carry:
        return False
    known: set[str] = set()
    for args, result in tx.fetch_all(_SENT, (letter.tool,)):
        if _was_sent(str(result)):
            known |= _recipients(str(args))
    return bool(letter.recipients) and letter.recipients <= known


def _recipients(args: str) -> frozenset[str]:
    try:
        said = strict_loads(args.encode())
    except CanonicalError:
        return frozenset()
    return Letter("", said, "").recipients if isinstance(said, dict) else frozenset()


def _was_sent(result: str) -> bool:
    try:
        said = json.loads(result)
    except ValueError:
        return False
    return isinstance(said, dict) and said.get("success") is True


def _calls(item: WorkItem) -> list[CallStep]:
    """The calls of a script that is nothing else, all of them covered; empty if it is not."""
    try:
        steps = read_script(item.body)
    except ScriptInvalid:
        return []
    calls = [each for each in steps if isinstance(each, CallStep)]
    covered = {each.tool for each in item.approvals}
    whole = len(calls) == len(steps) and {each.tool for each in calls} <= covered
    return calls if whole else []


def _listed(value: object) -> list[str]:
    found: Iterable[object] = value if isinstance(value, list) else ()
    return [str(each) for each in found]
