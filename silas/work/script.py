"""The blocks of a briefing that can be executed without a model.

    ```file path=src/hello.py
    print("hello")
    ```

    ```edit path=src/hello.py
    <<<<<<<
    print("hello")
    =======
    print("good morning")
    >>>>>>>
    ```

    ```append path=todo.txt
    buy milk
    ```

    ```run
    python3 src/hello.py
    ```

    ```restore path=photo.jpg sha256=0123…cdef executable=no
    ```

    ```attachment path=notes/report.pdf sha256=0123…cdef
    ```

    ```call tool=request_refund
    {"order_id": "SH-20260001", "refund_eur": 12}
    ```

A `restore` block puts back what a file held before Silas changed or removed it. An `attachment`
block writes a file that was attached to a message, byte by byte. A `call` block calls one tool with
exactly these arguments; envelopes, gates and approvals look at it as at any call.

What is executed is what a reader of the rendered text sees as a block of its own:

1. A block begins at the start of a line, with three or more backticks and its kind. It ends at a
   line with at least as many backticks. It is not inside of another block, whatever that one is.
2. Where renderers show such a block otherwise or not at all, the plan is refused, with the line: a
   block that is indented, quoted, in a list or fenced by `~~~`, and any block after HTML.
3. Lines that are indented as code are text.

Each line of a `run` block is one command: words with a shell's quotes, but without a shell. What
only a shell could understand (pipes, redirections, `$`, `;`) is refused before anything runs.

`ScriptWorker` is a worker without a model: it executes the blocks of its briefing, in order. It
stops at the first step that does not work, and says which one it was. What it says decides nothing:
the checks do. What stands in the briefing besides the plan (advice, what checks printed) was
approved by nobody, and is not executed.
"""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from silas.kernel import CanonicalError, WorkError, strict_loads
from silas.tools.execution import ModelView
from silas.work.models import WorkItem
from silas.work.ports import (
    AgentRun,
    AttemptWorker,
    Briefing,
    CallVerdict,
    ExecutorAgentOutput,
    PausedCall,
    PausedRun,
    ToolCaller,
    WaitingCall,
)

_OLD, _MIDDLE, _NEW = "<<<<<<<", "=======", ">>>>>>>"
_FIRST_MIDDLE = 2  # after the first mark and at least one line
_LINE_ENDS = re.compile(r"\r?\n")  # other line breaks of Unicode are characters like any
_AT_STEP = re.compile(r"script step (?P<step>\d{1,6})")
_LONE_RETURN = re.compile(r"\r(?!\n)")
_KINDS = "run|file|edit|append|restore|attachment|call"
_BLOCK = re.compile(rf"(?P<ticks>`{{3,}})(?P<kind>{_KINDS})(?:[ \t]+(?P<rest>[^`]*))?")
_FENCE = re.compile(r"(?P<indent> {0,3})(?P<marks>`{3,}(?=[^`]*$)|~{3,}).*")
_MEANT = re.compile(
    r"(?P<before>[ \t]*(?:(?:>|[-*+]|\d{1,9}[.)])[ \t]*)*)"
    rf"(?:`{{3,}}|~{{3,}})[ \t]*(?:{_KINDS})(?:[ \t].*)?"
)
_ITEM = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+")
_HTML = re.compile(r" {0,3}<(?![A-Za-z][A-Za-z0-9+.-]+:)[A-Za-z/!?]|.*<!--")
_CODE_INDENT = 4
_AT_THE_START = "a block must begin at the start of its line, outside of lists and quotes"
_QUOTED = re.compile(r"'[^']*'|\"(?:\\.|[^\"\\])*\"|\\.")
_QUOTED_WHOLLY = re.compile(r"'[^']*'|\\.")
_ACTIVE = re.compile(r"[|&;<>()$`*?\[\]{}~]")
_EXPANDING = re.compile(r"[$`]")
_CALL = re.compile(r"tool=(?P<tool>[a-z][a-z0-9_]{0,63})")
_RESTORE = re.compile(r"path=(?P<path>.+) sha256=(?P<sha256>[0-9a-f]{64}) executable=(?P<x>yes|no)")

_ATTACHMENT = re.compile(r"path=(?P<path>.+) sha256=(?P<sha256>[0-9a-f]{64})")


class ScriptInvalid(ValueError):
    """A block cannot be executed; the text says why."""


@dataclass(frozen=True)
class RunStep:
    """One command."""

    argv: tuple[str, ...]


@dataclass(frozen=True)
class FileStep:
    """One file to write."""

    path: str
    content: str


@dataclass(frozen=True)
class EditStep:
    """One passage of a file to replace; it must be there exactly once."""

    path: str
    old: str
    new: str


@dataclass(frozen=True)
class AppendStep:
    """Lines to add at the end of a file."""

    path: str
    content: str


@dataclass(frozen=True)
class RestoreStep:
    """One file that is to be again what it was, by the SHA-256 of what is kept of it."""

    path: str
    sha256: str
    executable: bool


@dataclass(frozen=True)
class AttachmentStep:
    """One file to write that was attached to a message, by the SHA-256 of its bytes."""

    path: str
    sha256: str


@dataclass(frozen=True)
class CallStep:
    """One call of a tool; its arguments as they stand in the plan, in JSON."""

    tool: str
    arguments: str


Step = RunStep | FileStep | EditStep | AppendStep | RestoreStep | AttachmentStep | CallStep


_NO_MODELS = (RestoreStep, AttachmentStep, CallStep)
"""What a model is never given to do."""


def call_of(step: Step) -> tuple[str, dict[str, object]]:
    """The tool call that a step is."""
    if isinstance(step, CallStep):
        return step.tool, dict(strict_loads(step.arguments.encode()))
    if isinstance(step, RunStep):
        return "shell_exec", {"argv": list(step.argv)}
    return _file_call(step)


def _file_call(
    step: FileStep | EditStep | AppendStep | RestoreStep | AttachmentStep,
) -> tuple[str, dict[str, object]]:
    match step:
        case FileStep(path, content):
            return "write_file", {"path": path, "content": content}
        case EditStep(path, old, new):
            return "edit_file", {"path": path, "old": old, "new": new}
        case AppendStep(path, content):
            return "shell_exec", {"argv": ["tee", "-a", "--", path], "stdin": content}
        case RestoreStep(path, sha256, executable):
            return "restore_file", {"path": path, "sha256": sha256, "executable": executable}
        case AttachmentStep(path, sha256):
            return "write_attachment", {"path": path, "sha256": sha256}


def read_script(body: str) -> list[Step]:
    """All steps of a briefing, in order; raises `ScriptInvalid`."""
    steps: list[Step] = []
    for block in _blocks(body):
        steps += _steps(block.kind, block.rest, block.lines)
    return steps


def executable_lines(body: str) -> frozenset[int]:
    """The numbers of the lines, from 1, that belong to blocks; none of a text that is refused."""
    try:
        blocks = _blocks(body)
    except ScriptInvalid:
        return frozenset()
    return frozenset(
        number
        for block in blocks
        for number in range(block.number, block.number + len(block.lines) + 2)
    )


def would_execute(template: str, placeholder: str) -> bool:
    """Whether what is put in place of the placeholder would become part of a block.

    So does everything in a template that cannot be read.
    """
    if placeholder not in template:
        return False
    if any(placeholder in line and _has_marks(line) for line in _LINE_ENDS.split(template)):
        return True
    try:
        blocks = list(_blocks(template))
    except ScriptInvalid:
        return True
    return any(placeholder in line for block in blocks for line in (block.rest, *block.lines))


def _has_marks(line: str) -> bool:
    return "```" in line or "~~~" in line or "<" in line


def _steps(kind: str, rest: str, lines: list[str]) -> list[Step]:
    if kind == "run":
        if rest:
            raise ScriptInvalid("a `run` block takes nothing on its first line")
        return [RunStep(_words(line)) for line in lines if line.strip()]
    return [_step(kind, rest, lines)]


def _step(kind: str, rest: str, lines: list[str]) -> Step:
    match kind:
        case "file":
            return FileStep(_path_of(kind, rest), _joined(lines))
        case "append":
            return AppendStep(_path_of(kind, rest), _joined(lines))
        case "edit":
            return EditStep(_path_of(kind, rest), *_passages(lines))
        case "restore":
            return _restore(rest, lines)
        case "attachment":
            return _attachment(rest, lines)
    return _call(rest, lines)


def _restore(rest: str, lines: list[str]) -> RestoreStep:
    found = _RESTORE.fullmatch(rest)
    if found is None or lines:
        shape = "path=NAME sha256=HASH executable=yes|no"
        raise ScriptInvalid(f"a `restore` block is empty and starts with ```restore {shape}")
    return RestoreStep(found["path"], found["sha256"], found["x"] == "yes")


def _attachment(rest: str, lines: list[str]) -> AttachmentStep:
    found = _ATTACHMENT.fullmatch(rest)
    if found is None or lines:
        shape = "path=NAME sha256=HASH"
        raise ScriptInvalid(f"an `attachment` block is empty and starts with ```attachment {shape}")
    return AttachmentStep(found["path"], found["sha256"])


def _call(rest: str, lines: list[str]) -> CallStep:
    found, text = _CALL.fullmatch(rest), "\n".join(lines)
    try:
        arguments = strict_loads(text.encode())
    except CanonicalError:
        arguments = None
    if found is None or not isinstance(arguments, dict):
        shape = "starts with ```call tool=NAME and holds a JSON object with the arguments"
        raise ScriptInvalid(f"a `call` block {shape}")
    return CallStep(found["tool"], text)


def _joined(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _passages(lines: list[str]) -> tuple[str, str]:
    """What stands there, and what shall: between the three marks, each alone on its line."""
    middle = lines.index(_MIDDLE) if _MIDDLE in lines else 0
    if middle < _FIRST_MIDDLE or (lines[0], lines[-1]) != (_OLD, _NEW):
        shape = f"{_OLD}, what stands there, {_MIDDLE}, what shall stand there, {_NEW}"
        raise ScriptInvalid(f"an `edit` block is: {shape}")
    return "\n".join(lines[1:middle]), "\n".join(lines[middle + 1 : -1])


@dataclass(frozen=True)
class _Block:
    number: int
    """Of its first line, from 1."""
    kind: str
    rest: str
    lines: list[str]


def _blocks(body: str) -> list[_Block]:
    """Rules 1 to 3; raises `ScriptInvalid` where two readers could see different blocks."""
    lines = _LINE_ENDS.split(body)
    found: list[_Block] = []
    doubts: list[tuple[int, str, bool]] = []
    offsets: list[int] = []
    at = 0
    while at < len(lines):
        line, number = lines[at].rstrip(" \t"), at + 1
        fence = _FENCE.fullmatch(line)
        if fence is None or fence["indent"]:
            offsets = _list_offsets(offsets, line)
            doubt = _doubt(line, offsets, is_fence=fence is not None)
            doubts += [(number, *doubt)] if doubt else []
            at += 1
            continue
        end = _end_of(lines, at, fence["marks"])
        start = _BLOCK.fullmatch(line)
        if start is not None:
            if end == len(lines):
                raise ScriptInvalid(f"line {number}: the block `{start['kind']}` is not closed")
            inside = lines[at + 1 : end]
            if _LONE_RETURN.search(body):
                raise ScriptInvalid(f"line {number}: the text has line ends that can hide a block")
            found.append(_Block(number, start["kind"], start["rest"] or "", inside))
        elif _MEANT.fullmatch(line):
            doubts.append(
                (number, "a block begins with backticks and its kind, nothing else", True)
            )
        offsets, at = [], end + 1
    last = found[-1].number if found else 0
    for number, why, names_a_block in doubts:
        # What stands behind the last block, or where there is none, hides nothing.
        if names_a_block or number < last:
            raise ScriptInvalid(f"line {number}: {why}")
    return found


def _end_of(lines: list[str], start: int, marks: str) -> int:
    """The line that closes the fence; the end of the text if none does."""
    closing = re.compile(rf" {{0,3}}{re.escape(marks)}{re.escape(marks[0])}*[ \t]*")
    for at in range(start + 1, len(lines)):
        if closing.fullmatch(lines[at]):
            return at
    return len(lines)


def _list_offsets(offsets: list[int], line: str) -> list[int]:
    """Where the text of each list item begins that is open after this line."""
    wide = line.expandtabs(_CODE_INDENT)
    item = _ITEM.match(wide)
    if item is not None:
        return [*offsets, item.end()]
    ends = bool(wide) and not wide.startswith(" ")
    return [] if ends else offsets


def _doubt(line: str, offsets: list[int], *, is_fence: bool) -> tuple[str, bool] | None:
    """Why it is uncertain what a reader sees at this line, and whether it names a block itself."""
    if _HTML.match(line):
        return "HTML can hide the blocks that follow", False
    meant = _MEANT.fullmatch(line)
    if meant is None:
        return (_AT_THE_START, False) if is_fence else None
    before = meant["before"].expandtabs(_CODE_INDENT)
    indented = len(before) - max((each for each in offsets if each <= len(before)), default=0)
    if before.strip() or indented < _CODE_INDENT:
        return _AT_THE_START, True
    return None


def _path_of(kind: str, rest: str) -> str:
    name, _, path = rest.strip().partition("=")
    if name != "path" or not path:
        raise ScriptInvalid(f"a `{kind}` block starts with ```{kind} path=NAME")
    return path


def _words(line: str) -> tuple[str, ...]:
    """The words of a command line. An operator that is not quoted is refused, not passed on."""
    try:
        words = shlex.split(line, comments=False)
    except ValueError as error:
        raise ScriptInvalid(f"{line.strip()!a} cannot be read: {error}") from error
    if _has_shell_syntax(line):
        raise ScriptInvalid(
            f"{line.strip()!a} needs a shell, and there is none. Quote the character, or write a "
            "script in a `file` block and run that."
        )
    return tuple(words)


def _has_shell_syntax(line: str) -> bool:
    """Whether something stands outside of quotes that a shell would act on."""
    outside = _QUOTED.sub("", line)
    # Between double quotes a shell still expands these two.
    return bool(_ACTIVE.search(outside) or _EXPANDING.search(_QUOTED_WHOLLY.sub("", line)))


class ScriptWorker:
    """`AttemptWorker` for plans that say exactly what is to be done.

    Where the owner has to decide about a step, it waits there; its history is the step's number.
    """

    pauses = True

    async def run(self, briefing: Briefing, tools: ToolCaller) -> AgentRun | PausedRun:
        return await _execute_from(1, briefing, tools)

    async def resume(
        self,
        briefing: Briefing,
        tools: ToolCaller,
        *,
        paused: PausedRun,
        verdicts: Sequence[CallVerdict],
    ) -> AgentRun | PausedRun:
        step = step_of(paused)
        if step is None:
            raise WorkError("Another worker has begun this run, and is not here to go on with it.")
        declined = [verdict.reason for verdict in verdicts if not verdict.approved]
        if declined:
            return _ended(f"Step {step} was not made. {declined[0]}", [])
        return await _execute_from(step, briefing, tools)


def step_of(paused: PausedRun) -> int | None:
    """The step that a script waits at; None if it was no script that was paused."""
    found = _AT_STEP.fullmatch(paused.history)
    return int(found["step"]) if found else None


async def _execute_from(first: int, briefing: Briefing, tools: ToolCaller) -> AgentRun | PausedRun:
    """Make the steps in their order, beginning with this one."""
    steps = _steps_of(briefing)
    made: list[str] = []
    for number, step in enumerate(steps, 1):
        if number >= first:
            answer = await _make(tools, step)
            if isinstance(answer, PausedCall):
                waits = WaitingCall(call_id=f"step.{number}", call=answer)
                return PausedRun(history=f"script step {number}", calls=(waits,))
            if not answer.success:
                why = f"Step {number} of {len(steps)} did not work: {answer.error}"
                return _ended(why, made).model_copy(update={"unfinished": why})
        if isinstance(step, FileStep | RestoreStep | AttachmentStep):
            made.append(step.path)
    done = "1 step" if len(steps) == 1 else f"All {len(steps)} steps"
    return _ended(f"{done} ran.", made)


async def _make(tools: ToolCaller, step: Step) -> ModelView | PausedCall:
    """Make one call; or what the owner has to decide first."""
    if tools.reviewer is None:
        return await tools.call(*call_of(step))
    review = await tools.reviewer.review(*call_of(step))
    return review.waits or await tools.reviewer.perform(review)


def _steps_of(briefing: Briefing) -> list[Step]:
    try:
        steps = read_script(_approved(briefing))
    except ScriptInvalid as error:
        raise WorkError(f"The briefing cannot be executed: {error}.") from error
    if not steps:
        raise WorkError(
            "The briefing has no block that can be executed, and there is no model here."
        )
    return steps


def _ended(summary: str, made: list[str]) -> AgentRun:
    return AgentRun(output=ExecutorAgentOutput(summary=summary, artifact_refs=made))


def can_go_on(agent: AttemptWorker | None, paused: PausedRun) -> bool:
    """Whether whoever has begun this run, or one like it, is here."""
    if step_of(paused) is not None:
        return True
    return agent is not None and agent.pauses and not isinstance(agent, ScriptWorker)


def worker_for(
    item: WorkItem, agent: AttemptWorker, paused: PausedRun | None = None
) -> AttemptWorker:
    """Who does what a plan says: a script is executed as it is written, and no model plays it.

    A plan that puts files back, writes attached ones or calls tools by name is one, whatever it
    says. Whoever has begun a run goes on with it.
    """
    if paused is not None:
        return ScriptWorker() if step_of(paused) is not None else agent
    try:
        exact = any(isinstance(step, _NO_MODELS) for step in read_script(item.body))
    except ScriptInvalid:
        exact = False
    return ScriptWorker() if item.script or exact else agent


def _approved(briefing: Briefing) -> str:
    return briefing.instructions if briefing.approved is None else briefing.approved
