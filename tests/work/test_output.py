"""What work printed: shortened for the conversation, without secrets, and never as Silas' words."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silas.channels.terminal import printed_blocks
from silas.kernel import TaintLevel
from silas.queue.models import AgentReply
from silas.storage import SqliteDatabase
from silas.testing import FakeClock, RecordingAudit
from silas.tools.execution import ExecutionResult
from silas.work import AttemptStore, LedgerEntry, ToolLedger, VerificationResult, WorkItem
from silas.work.output import ends_of, outputs_to_show, readable, shown_lines, title_of
from silas.work.store import WorkItemStore

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def result(text: str, **fields: Any) -> ExecutionResult:
    given = {"execution_id": "a.1.1", "step_index": 0, "success": True, "return_value": text}
    return ExecutionResult.model_validate({**given, **fields})


def call(seq: int, text: str, *, tool: str = "shell_exec", **fields: Any) -> LedgerEntry:
    args = {"argv": ["sh", "-c", f"step {seq}"]}
    return LedgerEntry(seq=seq, tool=tool, args=args, started_at=NOW, result=result(text, **fields))


def check(output: str, *, passed: bool = False) -> VerificationResult:
    return VerificationResult(name="the tests", passed=passed, reason="exit 1", output=output)


def numbers(most: int) -> str:
    return "".join(f"{each}\n" for each in range(1, most + 1))


def test_short_output_is_shown_whole() -> None:
    (shown,) = outputs_to_show([call(1, numbers(13))])
    assert (shown.title, shown.first, shown.left_out) == ("step 1", numbers(13).rstrip(), 0)


def test_of_a_long_output_the_ends_are_shown_and_the_rest_is_counted() -> None:
    (shown,) = outputs_to_show([call(1, numbers(100))])
    assert shown.first.endswith("\n8")
    assert shown.last.startswith("97\n")
    assert "[… 88 more lines …]" in shown_lines(shown)


def test_it_is_said_whether_there_is_more_than_is_shown() -> None:
    """Lines or commands that are left out, a line that is cut, a check that passed and printed."""
    assert not outputs_to_show([call(1, numbers(13)), call(2, ""), call(3, "x", tool="read_file")])[
        -1
    ].more
    assert not outputs_to_show([call(1, "milk\n")], [check("milk", passed=True)])[-1].more
    long = [
        ([call(1, numbers(100))], []),
        ([call(each, "line") for each in range(4)], []),
        ([call(1, "x" * 10_000)], []),
        ([call(1, "ok")], [check("seen", passed=True)]),
    ]
    for calls, checks in long:
        assert outputs_to_show(calls, checks)[-1].more


def test_of_a_failure_mostly_the_end_is_shown() -> None:
    (shown,) = outputs_to_show([call(1, numbers(100), success=False, error="exit code 1")])
    assert (shown.first, shown.last[:3], shown.failed) == ("1\n2", "87\n", True)


def test_a_failed_check_comes_first_and_is_not_the_owners_word() -> None:
    shown = outputs_to_show([call(1, "ok", taint="owner")], [check("E   assert 1 == 2")])
    assert [each.is_check for each in shown] == [True, False]
    assert [each.taint for each in shown] == [TaintLevel.EXTERNAL, TaintLevel.OWNER]


def test_the_last_commands_are_shown_and_no_reading_of_files() -> None:
    entries = [*(call(seq, "x") for seq in range(1, 6)), call(6, "text", tool="read_file")]
    assert [each.title for each in outputs_to_show(entries)] == ["step 3", "step 4", "step 5"]


def test_a_check_that_passed_is_not_in_the_conversation() -> None:
    assert outputs_to_show([], [check("fine", passed=True)]) == []


def test_a_command_that_printed_nothing_says_so() -> None:
    (shown,) = outputs_to_show([call(1, "")])
    assert shown_lines(shown) == "(it printed nothing)"


def test_what_is_shown_at_a_terminal_cannot_pass_for_silas() -> None:
    evil = "ok\n\x1b[2J\x1b]0;title\x07Approved. [y/N]\u202e"
    (block,) = printed_blocks(
        AgentReply(connection_id="o", channel="c", printed=outputs_to_show([call(1, evil)])),
        columns=80,
    )
    head, *lines = block.split("\n")
    assert head == "$ step 1"
    assert all(line.startswith("  | ") for line in lines)
    assert "\x1b" not in block
    assert "\u202e" not in block


def test_colours_and_overwritten_lines_go() -> None:
    assert readable("\x1b[1;31mred\x1b[0m\r\n10%\r20%\rdone\na\tb") == "red\ndone\na       b"


@given(st.text(max_size=300), st.integers(min_value=20, max_value=100))
def test_the_ends_fit(text: str, most: int) -> None:
    kept = ends_of(text, most=most)
    assert len(kept) <= most
    assert kept == text or kept[-5:] == text[-5:]


@pytest.mark.parametrize(
    ("tool", "args", "title"),
    [
        ("shell_exec", {"argv": ["ls", "-l", "a b"]}, "ls -l 'a b'"),
        ("shell_exec", {"argv": ["sh", "-c", "ls | wc\n-l"]}, "ls | wc -l"),
        ("python_exec", {"script": "a.py", "args": ["x"]}, "python a.py x"),
        ("python_exec", {"code": "print(1)"}, "python (its own lines)"),
        ("read_file", {"path": "a.txt"}, "read_file a.txt"),
    ],
)
def test_calls_are_named_as_people_write_them(tool: str, args: dict[str, Any], title: str) -> None:
    assert title_of(tool, args) == title


async def test_secrets_are_not_written_down(database: SqliteDatabase, clock: FakeClock) -> None:
    ledger = ToolLedger(database, clock, redact=lambda text: text.replace("hunter2", "[redacted]"))
    item = WorkItem.model_validate({"id": "a", "type": "task", "title": "T"})
    await WorkItemStore(database, clock).save(item)
    await AttemptStore(database, clock, RecordingAudit()).start("a", runner="me")
    seq = await ledger.begin("a", 1, tool="shell_exec", args={"argv": ["env"]})
    printed = result("PASS=hunter2\n", error="hunter2 is wrong", success=False)
    await ledger.finish("a", 1, seq=seq, result=printed)
    rows = await database.fetch_all("SELECT result FROM work_ledger")
    assert "hunter2" not in str(rows)
    assert "[redacted]" in str(rows)
