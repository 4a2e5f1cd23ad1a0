"""What work printed: short for the conversation, whole for whoever opens it.

1. The words of a command are the command's. They travel beside Silas' own words and never among
   them, each with the taint of what it had read, and every surface shows them as a quotation.
2. Of what is long, the beginning and the end are shown with the number of lines between; of what
   failed, mostly the end: that is where the error stands.
3. In the conversation the checks that did not pass come first, then the last commands. All of them,
   whole, are in the ledger and are read from there (`every_output`).
4. Secrets are taken out before anything is kept (`ToolLedger`, `VerificationRunner`).
"""

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import Field

from silas.kernel import TaintLevel
from silas.kernel.models import Data
from silas.kernel.redaction import redact_text
from silas.queue.models import MAX_PRINTED_CHARS, PrintedOutput
from silas.work.ledger import LedgerEntry
from silas.work.models import MAX_CHECK_OUTPUT_CHARS, VerificationResult

MAX_SHOWN_OUTPUTS = 3
"""How many outputs the conversation shows; the others are one tap or command away."""
_COMMANDS = frozenset({"shell_exec", "python_exec"})
_LINES_OF_GOOD = (8, 4)
_LINES_OF_BAD = (2, 14)
_MAX_LINE_CHARS = 500
_MAX_TITLE_CHARS = 200
_COLOURS = re.compile(r"\x1b\[[0-9;]{0,30}m")
_GAP = "\n[…]\n"
_SHELL_WORDS = 3


class CallOutput(Data):
    """One call of an attempt and everything that it printed."""

    seq: int
    tool: str
    title: str
    """The command as a person would type it, or the tool and what it was about."""
    success: bool | None
    """None: it was begun, and nobody knows how it ended."""
    error: str | None = None
    text: str = ""
    taint: TaintLevel = TaintLevel.EXTERNAL
    seconds: float = Field(default=0.0, ge=0)


def ends_of(text: str, *, most: int = MAX_CHECK_OUTPUT_CHARS) -> str:
    """At most so many characters: some of the beginning, and more of the end."""
    if len(text) <= most:
        return text
    room = most - len(_GAP)
    first = room // 4
    return f"{text[:first]}{_GAP}{text[first - room :]}"


def readable(text: str) -> str:
    """What a command printed, as a terminal would leave it: without colours and overwritten lines.

    Every other control character stays, for whoever shows the text to write it out.
    """
    lines = _COLOURS.sub("", text).replace("\r\n", "\n").split("\n")
    return "\n".join(line.rstrip("\r").rpartition("\r")[2].expandtabs() for line in lines)


def every_output(entries: Iterable[LedgerEntry]) -> list[CallOutput]:
    """All calls of an attempt in their order, each with what it gave, whole."""
    return [_call_output(entry) for entry in entries]


def outputs_to_show(
    entries: Sequence[LedgerEntry], results: Sequence[VerificationResult] = ()
) -> list[PrintedOutput]:
    """What the conversation shows of work: of these calls, and of its last checks (rule 3)."""
    failed = [_of_check(result) for result in results if not result.passed and result.output]
    checks = failed[:MAX_SHOWN_OUTPUTS]
    ended = [each for each in entries if each.tool in _COMMANDS and each.result is not None]
    left = MAX_SHOWN_OUTPUTS - len(checks)
    shown = [*checks, *map(shortened, every_output(ended[-left:] if left else ()))]
    if shown and _has_more(shown, ended, results):
        shown[-1] = shown[-1].model_copy(update={"more": True})
    return shown


def _has_more(
    shown: Sequence[PrintedOutput],
    ended: Sequence[LedgerEntry],
    results: Sequence[VerificationResult],
) -> bool:
    """Whether these calls and checks printed anything that is not shown whole."""
    called = [call.text.rstrip() for call in every_output(ended)]
    seen = [each.first for each in shown if not each.is_check]
    # A check that reads what a command printed adds nothing to it.
    checked = {readable(result.output).rstrip() for result in results}
    return (
        any(each.left_out for each in shown)
        or sorted(filter(None, called)) != sorted(filter(None, seen))
        or not checked <= {"", *(each.first for each in shown)}
    )


def title_of(tool: str, args: Mapping[str, Any]) -> str:
    """A call as a person would write it, on one line."""
    if tool == "shell_exec":
        argv = [str(word) for word in args.get("argv") or ()]
        is_shell = argv[:2] in (["sh", "-c"], ["bash", "-c"]) and len(argv) == _SHELL_WORDS
        text = argv[2] if is_shell else shlex.join(argv)
    elif tool == "python_exec":
        words = [str(word) for word in (args.get("script"), *(args.get("args") or ())) if word]
        text = f"python {shlex.join(words)}" if args.get("script") else "python (its own lines)"
    else:
        about = args.get("path") or args.get("query") or args.get("pattern") or ""
        text = f"{tool} {about}".rstrip()
    return redact_text(" ".join(text.split()))[:_MAX_TITLE_CHARS]


def _call_output(entry: LedgerEntry) -> CallOutput:
    title = title_of(entry.tool, entry.args)
    if (result := entry.result) is None:
        return CallOutput(seq=entry.seq, tool=entry.tool, title=title, success=None)
    return CallOutput(
        seq=entry.seq,
        tool=entry.tool,
        title=title,
        success=result.success,
        error=result.error,
        text=readable(result.return_value),
        taint=result.taint,
        seconds=result.duration_seconds,
    )


def shortened(call: CallOutput) -> PrintedOutput:
    """One call as it is shown where there is little room (rule 2)."""
    failed = not call.success
    return PrintedOutput(
        title=call.title,
        failed=failed,
        error=(call.error or "")[:_MAX_LINE_CHARS],
        taint=call.taint,
        **_first_and_last(call.text, failed=failed),
    )


def _of_check(result: VerificationResult) -> PrintedOutput:
    # What a check prints comes from the checked system, and may hold anything.
    return PrintedOutput(
        title=result.name[:_MAX_TITLE_CHARS],
        is_check=True,
        failed=True,
        error=result.reason[:_MAX_LINE_CHARS],
        taint=TaintLevel.EXTERNAL,
        **_first_and_last(result.output, failed=True),
    )


def _first_and_last(text: str, *, failed: bool) -> dict[str, Any]:
    """The first and the last lines, and how many are between (rule 2)."""
    lines = [line[:_MAX_LINE_CHARS] for line in readable(text).rstrip().split("\n")]
    head, tail = _LINES_OF_BAD if failed else _LINES_OF_GOOD
    if len(lines) <= head + tail + 1:  # a sentence about one line is no shorter than the line
        return {"first": "\n".join(lines)[:MAX_PRINTED_CHARS]}
    return {
        "first": "\n".join(lines[:head])[:MAX_PRINTED_CHARS],
        "left_out": len(lines) - head - tail,
        "last": "\n".join(lines[-tail:])[-MAX_PRINTED_CHARS:],
    }


def shown_lines(printed: PrintedOutput) -> str:
    """The text of a shortened output; a line of Silas' own stands where some are left out."""
    if not printed.first and not printed.last:
        return "(it printed nothing)"
    if not printed.left_out:
        return printed.first
    return f"{printed.first}\n[… {printed.left_out} more lines …]\n{printed.last}"
