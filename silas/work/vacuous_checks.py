"""Finds checks that pass, or fail, whatever was done.

1. Nothing in the command looks at anything: `true`, `echo ok`, `test 1 = 1`.
2. The last command decides, and it always ends alike: `x; true`, `x || :`, `x | tee log`, `x &`.
3. What is expected of the output is printed in any case: `x; echo ok` contains ok.
4. The output is a number of lines or a status, and every such number is as expected.
5. Any output is expected of a command that always prints: `ls`, `date`, `git status`.
6. It does nothing but write to the folder, which a check cannot: `touch x`, `chmod +x x`.

A command that cannot be read is not judged, nor one that may end early (`set -e`, `exec`, `eval`):
this refuses mistakes and idle plans. What a check is worth is found out by running it before the
work.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from silas.gates.models import Expectation, judge_output
from silas.work.models import VerificationCheck
from silas.work.shell_commands import (
    LAST_STATUS,
    Pipeline,
    ShellCommand,
    Unreadable,
    Word,
    names,
    read_list,
)

_INSTEAD = "let it read what the work is to produce"
_SAME = f"comes out the same whatever was done; {_INSTEAD}"
_DECIDED = f"is decided by its last command, which always ends alike; {_INSTEAD}"
_PRINTED = f"passes whatever was done, because it prints that itself; {_INSTEAD}"
_ANY_NUMBER = f"passes for every number that the command can print; {_INSTEAD}"
_ALWAYS_PRINTS = f"passes whatever was done, because this command always prints; {_INSTEAD}"

_ONLY_WRITES = (
    "can never pass: a check only reads, and this command writes. Let it read what the work is to "
    "produce, such as with `cat`, `grep` or `test -f`"
)

_SILENT_ZERO = names("true : sleep export unset umask set")
_INDEPENDENT = _SILENT_ZERO | names("false echo printf exit pwd date seq yes whoami hostname")
_TESTS = names("test [")
_FILE_TESTS = {f"-{letter}" for letter in "bcdefgGhkLNOprsStuwx"} | {"-nt", "-ot", "-ef"}
_ENDS_EARLY = names(". source eval exec trap return break continue kill builtin")
_WRAPPERS = names("command env nice nohup time")
_SHELLS = names("sh bash dash /bin/sh /bin/bash")
# Filters that end with 0 and keep output that is there; the number is how many operands they take.
_FILTERS = {"cat": 0, "head": 0, "tail": 0, "sort": 0, "tee": 99, "wc": 0, "nl": 0, "uniq": 0}
_CHANGING_FILTERS = {"tr": 2, "cut": 0, "grep": 1, "sed": 1, "awk": 1, "rev": 0}
_QUIET = _TESTS | names("cd mkdir rm cp mv touch chmod ln")
_WRITERS = names("touch mkdir rmdir rm cp mv ln chmod chown truncate install")
_ALWAYS_PRINTS_ALONE = names("ls find du df stat ps tree")
_ALWAYS_PRINTS_ANYHOW = names("date pwd env printenv id uname whoami hostname uptime who free")
_HERE = {".", "./"}
_COUNTS = ("0", "1", "2", "13", "987654321")
_STATUSES = ("0", "1", "2", "127", "255")
_UNKNOWN = "\ue000"
_MAX_DEPTH = 5


def vacuous(check: VerificationCheck) -> str | None:
    """Why this check would pass, or fail, whatever was done; None if it may depend on the work."""
    if check.expect.file_exists is not None:
        return None  # The file is looked for, whatever the command does.
    try:
        pipelines = read_list(check.run)
        return _judge(pipelines, check.expect, depth=0) if pipelines else _SAME
    except Unreadable:
        return None


def _judge(pipelines: Sequence[Pipeline], expect: Expectation, *, depth: int) -> str | None:
    inner = _given_to_a_shell(pipelines)
    if inner is not None and depth < _MAX_DEPTH:
        return _judge(read_list(inner), expect, depth=depth + 1)
    if all(_is_independent(pipeline) for pipeline in pipelines):
        return _SAME
    if all(_writes_here(each) for pipeline in pipelines for each in pipeline.commands):
        return _ONLY_WRITES
    if any(_may_end_early(each) for pipeline in pipelines for each in pipeline.commands):
        return None
    if expect.exit_code is not None:
        status = _status(pipelines)
        decided = status is not None and judge_output(expect, "", status)[0]
        return _DECIDED if decided else None
    return _judge_output(pipelines, expect)


def _given_to_a_shell(pipelines: Sequence[Pipeline]) -> str | None:
    """The text in `sh -c TEXT`, if that is all there is."""
    if len(pipelines) != 1 or len(pipelines[0].commands) != 1 or pipelines[0].is_negated:
        return None
    command = _unwrapped(pipelines[0].commands[0])
    match command.words:
        case (Word(shell), Word("-c" | "-ec" | "-lc"), script) if shell in _SHELLS:
            return script.text if script.is_constant else None
    return None


def _unwrapped(command: ShellCommand) -> ShellCommand:
    words = command.words
    while words and words[0].text in _WRAPPERS:
        words = words[1:]
        while words and "=" in words[0].text:
            words = words[1:]
    if len(words) > 1 and words[0].text == "timeout":
        return _unwrapped(ShellCommand(words[2:], command.assignments, command.redirections))
    return ShellCommand(words, command.assignments, command.redirections)


def _is_independent(pipeline: Pipeline) -> bool:
    """Rule 1."""
    first, *rest = (_unwrapped(command) for command in pipeline.commands)
    return _looks_at_nothing(first) and all(
        _looks_at_nothing(each) or _only_filters(each, {**_FILTERS, **_CHANGING_FILTERS})
        for each in rest
    )


def _looks_at_nothing(command: ShellCommand) -> bool:
    words = (*command.words, *command.assignments)
    if any(word.substitutions or word.has_wildcards for word in words) or _reads(command):
        return False
    if not command.words:
        return True
    name, *arguments = command.texts
    if name in _TESTS:
        return not _FILE_TESTS.intersection(arguments)
    if name == "date" and any(each.startswith(("-r", "-f", "--")) for each in arguments):
        return False
    return name in _INDEPENDENT


def _writes_here(command: ShellCommand) -> bool:
    """Rule 6: only of paths in the folder can it be told that they cannot be written."""
    name, *arguments = _unwrapped(command).texts or [""]
    constant = all(word.is_constant and not word.substitutions for word in command.words)
    outside = any(each.startswith(("/", "~", "..")) for each in arguments)
    return name in _WRITERS and constant and not outside


def _reads(command: ShellCommand) -> bool:
    return any("<" in operator for operator, _ in command.redirections)


def _only_filters(command: ShellCommand, filters: dict[str, int]) -> bool:
    """Whether this works on its input alone."""
    if not command.words or not all(word.is_constant for word in command.words) or _reads(command):
        return False
    name, *arguments = command.texts
    operands = [each for each in arguments if not each.startswith("-") and not each.isdigit()]
    return name in filters and len(operands) <= filters[name]


def _may_end_early(command: ShellCommand) -> bool:
    """Whether what follows may not be reached, or may not be what it seems."""
    name, *arguments = command.texts or [""]
    if name == "set":
        return any((each.startswith("-") and "e" in each) or "fail" in each for each in arguments)
    # A failed redirection of a special built-in ends the shell.
    special = name in _SILENT_ZERO and bool(command.redirections)
    return name in _ENDS_EARLY or "(" in name or special


def _status(pipelines: Sequence[Pipeline]) -> int | None:
    """Rule 2: how the list ends, whatever the other commands do; None if it depends on them."""
    status: int | None = 0
    for pipeline in pipelines:
        own = _pipeline_status(pipeline)
        if pipeline.joined == ";":
            status = own
        elif pipeline.joined == "&&":
            # Without knowing the left side: if it fails, its own status is that of the list.
            status = own if status == 0 else status
        else:
            status = 0 if status == 0 or (status is None and own == 0) else own if status else None
        if _exits(pipeline) and pipeline is not pipelines[-1]:
            return status if pipeline.joined == ";" else None
    return status


def _pipeline_status(pipeline: Pipeline) -> int | None:
    if pipeline.is_background:
        return 0
    status = _command_status(_unwrapped(pipeline.commands[-1]), piped=len(pipeline.commands) > 1)
    if pipeline.is_negated and status is not None:
        return int(not status)
    return status


def _command_status(command: ShellCommand, *, piped: bool) -> int | None:
    if piped and _only_filters(command, _FILTERS):
        return 0
    if not command.words or _reads(command):
        return None
    name, *arguments = texts = command.texts
    if name == "exit":
        known = len(arguments) == 1 and arguments[0].isdigit()
        return int(arguments[0]) % 256 if known else None
    if name in ("echo", "printf", "date", "pwd") or name in _SILENT_ZERO or texts == ["wait"]:
        return 0
    if name in ("ls", "find") and _HERE.issuperset(_operands(arguments)):
        return 0 if name == "ls" or set(arguments) <= _HERE else None
    return 1 if name == "false" else None


def _exits(pipeline: Pipeline) -> bool:
    return pipeline.commands[-1].texts[:1] == ["exit"] and len(pipeline.commands) == 1


def _operands(arguments: Sequence[str]) -> list[str]:
    return [each for each in arguments if not each.startswith("-")]


@dataclass(frozen=True)
class _Output:
    """What is printed in any case; `is_all` says that there is nothing else."""

    text: str
    is_all: bool


def _judge_output(pipelines: Sequence[Pipeline], expect: Expectation) -> str | None:
    """Rules 3 to 5."""
    printed = _printed(pipelines)
    variants = [printed.text]
    if not printed.is_all:
        variants += [_UNKNOWN + printed.text, printed.text + _UNKNOWN, f"x\n{printed.text}x\n"]
    if printed.text and all(judge_output(expect, each, 0)[0] for each in variants):
        return _PRINTED
    last = pipelines[-1]
    if last.joined != ";" or last.is_background:
        return None
    numbers = _numbers(last)
    if numbers and all(judge_output(expect, f"{each}\n", 0)[0] for each in numbers):
        return _ANY_NUMBER
    always = any(each.joined == ";" and _always_prints(each) for each in pipelines)
    return _ALWAYS_PRINTS if expect.not_empty and always else None


def _printed(pipelines: Sequence[Pipeline]) -> _Output:
    text, is_all = "", True
    for pipeline in pipelines:
        last = _unwrapped(pipeline.commands[-1])
        constant = _constant_output(last)
        if constant is not None and pipeline.joined == ";":
            text += constant
        elif not _is_silent(last):
            is_all = False
        if _exits(pipeline) and pipeline.joined == ";":
            break
    return _Output(text, is_all)


def _constant_output(command: ShellCommand) -> str | None:
    texts = command.texts
    plain = all(word.is_constant for word in command.words)
    if not texts or texts[0] not in ("echo", "printf") or command.redirections or not plain:
        return None
    name, *arguments = texts
    if name == "printf":
        return arguments[0].replace("\\n", "\n") if arguments and "%" not in arguments[0] else None
    if arguments[:1] == ["-n"]:
        return " ".join(arguments[1:])
    return " ".join(arguments) + "\n"


def _is_silent(command: ShellCommand) -> bool:
    to_file = any(
        operator in (">", ">>", "1>", "1>>", ">|") for operator, _ in command.redirections
    )
    name, *arguments = command.texts or ["true"]
    quiet = any(each in ("-q", "-s", "--quiet", "--silent") for each in arguments)
    return (
        to_file
        or name in _QUIET
        or name in _SILENT_ZERO | {"false", "exit"}
        or (name in ("grep", "cmp") and quiet)
    )


def _numbers(pipeline: Pipeline) -> Sequence[str]:
    """Rule 4: examples of the numbers that this prints."""
    name, *arguments = _unwrapped(pipeline.commands[-1]).texts or [""]
    flags = "".join(each[1:] for each in arguments if each.startswith("-") and each[1:2] != "-")
    if name == "wc" and not _operands(arguments):
        return _COUNTS
    if name in ("grep", "egrep") and ("c" in flags or "--count" in arguments):
        return _COUNTS
    return _STATUSES if name == "echo" and arguments == [LAST_STATUS] else ()


def _always_prints(pipeline: Pipeline) -> bool:
    """Rule 5."""
    commands = [_unwrapped(command) for command in pipeline.commands]
    last = commands[-1].texts or [""]
    if last[0] == "wc":
        return True
    while len(commands) > 1 and _only_filters(commands[-1], _FILTERS):
        commands.pop()
    name, *arguments = commands[0].texts or [""]
    if len(commands) > 1 or any(">" in operator for operator, _ in commands[0].redirections):
        return False
    if name == "git" and arguments[:1] in (["status"], ["branch"]):
        return not any(each.startswith(("-s", "--short", "--porc")) for each in arguments)
    if name == "find":
        return _HERE.issuperset(arguments)
    alone = name in _ALWAYS_PRINTS_ALONE and _HERE.issuperset(_operands(arguments))
    return alone or name in _ALWAYS_PRINTS_ANYHOW
