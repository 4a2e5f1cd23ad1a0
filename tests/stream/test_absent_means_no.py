"""What is left out of an object that carries policy is never a yes."""

import dataclasses
import inspect
from pathlib import Path

import pytest

from silas.app.companions import build_companions
from silas.companions.tools.executor import ToolExecutor
from silas.kernel import IdFactory, TaintLevel
from silas.review.cards import Card
from silas.review.questions import Question
from silas.storage import SqliteDatabase
from silas.stream.limits import RateLimit
from silas.stream.reading_tools import ReadingTool, ReadingToolbox, ReadingTools, Rules
from silas.stream.store import ConversationStore, WorkOrigin
from silas.stream.turn_context import TurnContext
from silas.testing import FakeClock, RecordingAudit
from silas.tools import RESEARCH_TOOLS, core_tools
from silas.tools.declaration import Tool
from silas.work.execution_context import ExecutionContext
from silas.work.models import WorkItem
from tests.stream.test_reading_tools import FakeSearch

CLOCK = FakeClock()


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (ExecutionContext, {"taint_of", "system_gates", "approvals", "audit"}),
        (TurnContext, {"system_gates", "memory_ops", "effect_of", "audit"}),
        (ReadingToolbox, {"searches"}),
        (ReadingTool, {"contained", "private"}),
        (Tool, {"contained", "effect"}),
        (ToolExecutor, {"gates", "audit"}),
    ],
)
def test_what_policy_needs_cannot_be_left_out(kind: type, names: set[str]) -> None:
    required = {
        each.name
        for each in dataclasses.fields(kind)
        if each.default is dataclasses.MISSING and each.default_factory is dataclasses.MISSING
    }
    assert names <= required


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (build_companions, {"gates", "audit", "approvals", "gateway", "secret_available"}),
        (ReadingTools, {"seen_private", "taint"}),
    ],
)
def test_no_parameter_leaves_policy_out(function: object, names: set[str]) -> None:
    parameters = inspect.signature(function).parameters  # type: ignore[arg-type]
    assert {name for name in names if parameters[name].default is not inspect.Parameter.empty} == (
        set()
    )


def test_a_card_is_not_sealed_because_nobody_looked() -> None:
    assert Card.model_fields["sealed"].default is False
    assert Question.model_fields["sealed"].default is False


async def test_a_follow_up_of_the_owners_work_is_not_the_owners_for_that(
    database: SqliteDatabase,
) -> None:
    store = ConversationStore(database, CLOCK)
    mine = WorkOrigin(work_item_id="mine", trace_id="t", scope_id="owner", taint=TaintLevel.OWNER)
    await database.transaction(lambda tx: store.note_work(tx, mine))
    item = WorkItem.model_validate({"id": "x", "type": "task", "title": "X", "body": "Do it."})
    claims = item.model_copy(update={"follow_up_of": "mine"})
    assert await store.taint_of(item) is TaintLevel.EXTERNAL
    assert await store.taint_of(claims) is TaintLevel.EXTERNAL
    spawned = item.model_copy(update={"spawned_by": "mine"})
    assert await store.taint_of(spawned) is TaintLevel.OWNER


async def test_what_research_read_in_the_owners_files_is_not_searched_for(tmp_path: Path) -> None:
    (tmp_path / "diary.txt").write_text("secret")
    searches = RateLimit(CLOCK, 100)
    tools = tuple(core_tools(None, search=FakeSearch()))  # type: ignore[arg-type]
    room = ReadingToolbox(ids=IdFactory(CLOCK), searches=searches, tools=tools, directory=tmp_path)
    reading = ReadingTools(
        room.for_research("owner"),
        Rules(None, (), RecordingAudit(), {}),
        allowed=RESEARCH_TOOLS,
        taint=TaintLevel.OWNER,
        seen_private=False,
        now=FakeClock().now,
    )
    assert (await reading.call("web_search", {"query": "weather"})).success
    assert (await reading.call("read_file", {"path": "diary.txt"})).return_value == "secret"
    assert not (await reading.call("web_search", {"query": "secret"})).success
