"""What is left out of an object that carries policy is never a yes."""

import dataclasses
import inspect
from pathlib import Path

import pytest
from pydantic import BaseModel

from silas.app.companions import build_companions
from silas.approval.devices import MessageVerifier, SignedMessage
from silas.companions.tools.executor import ToolExecutor
from silas.connections.domains import DomainCrossing
from silas.connections.models import Connection
from silas.gates.access import AccessController
from silas.kernel import IdFactory, TaintLevel
from silas.mcp.tools import ServerTool
from silas.mcp.toolset import PinnedServer
from silas.proactive.suggestions import SuggestionProposal
from silas.proposals.permissions import ClientRules
from silas.review import Decisions, DecisionSubject, OwnersProof, ShownQuestion
from silas.review.cards import Card
from silas.review.questions import Question, QuestionContent
from silas.sandbox.models import CONTAINED, SandboxRequest
from silas.storage import SqliteDatabase
from silas.stream.limits import RateLimit
from silas.stream.reading_tools import ReadingTool, ReadingToolbox, ReadingTools, Rules
from silas.stream.store import ConversationStore, WorkOrigin
from silas.stream.turn_context import TurnContext
from silas.testing import FakeClock, RecordingAudit
from silas.tools import RESEARCH_TOOLS, core_tools
from silas.tools.declaration import Tool, ToolDeclaration
from silas.work.execution_context import ExecutionContext, RunLimits, no_grants, silent
from silas.work.models import WorkItem
from silas.work.output import CallOutput
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


def left_out(kind: type) -> dict[str, object]:
    """What every field is that can be left out, by its name."""
    if issubclass(kind, BaseModel):
        fields = kind.model_fields.items()
        return {
            name: each.get_default(
                call_default_factory=not each.default_factory_takes_validated_data
            )
            for name, each in fields
            if not each.is_required()
        }
    if dataclasses.is_dataclass(kind):
        made = dataclasses.MISSING
        return {
            each.name: each.default if each.default_factory is made else each.default_factory()
            for each in dataclasses.fields(kind)
            if (each.default, each.default_factory) != (made, made)
        }
    parameters = inspect.signature(kind).parameters.values()
    return {each.name: each.default for each in parameters if each.default is not each.empty}


_UNDECLARED = {
    "inverse": None,
    "stays_offline": False,
    "own_account": False,
    "tells_more": False,
    "made_once": False,
    "offered": True,  # to a worker, whose calls are all looked at
    "description": "",
}


@pytest.mark.parametrize(
    ("kind", "refusing"),
    [
        (DecisionSubject, {}),
        (ShownQuestion, {}),
        (OwnersProof, {"passkey": None, "origins": ()}),
        (Decisions, {"devices": None, "passkeys": None}),
        (MessageVerifier, {"devices": None}),
        (SignedMessage, {"taint": TaintLevel.EXTERNAL}),
        (QuestionContent, {"body": {}}),
        (Question, {"state": "open", "sealed": False}),
        (Card, {"sources": (), "sealed": False}),
        (DomainCrossing, {"intact": False}),
        (
            ClientRules,
            {"taint": TaintLevel.EXTERNAL, "folder": None, "waiting": 5, "per_minute": 20},
        ),
        (ToolDeclaration, _UNDECLARED),
        (Tool, {**_UNDECLARED, "account": None, "release": None}),
        (ServerTool, {**_UNDECLARED, "account": None, "release": None}),
        (CallOutput, {"error": None, "text": "", "taint": TaintLevel.EXTERNAL, "seconds": 0.0}),
        (
            AccessController,
            {"owner": False, "all_tools": (), "customers": None, "customer_id": None},
        ),
        (
            ExecutionContext,
            {
                "paused": None,
                "progress": silent,
                "on_start": None,
                "approver": None,
                "agent": None,
                "grants": no_grants,
                "gates": None,
                "planner": None,
                "skills": None,
                "propose": None,
            },
        ),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_every_field_that_can_be_left_out_is_then_a_no(
    kind: type, refusing: dict[str, object]
) -> None:
    """A new field of these is required, or it stands here: what it is when nobody says it."""
    assert left_out(kind) == refusing


@pytest.mark.parametrize(
    ("kind", "refusing"),
    [
        (
            SandboxRequest,
            {"network": (), "accounts": (), "read": (), "write": (), "require": CONTAINED},
        ),
        (Connection, {"permissions_granted": (), "permissions_once": (), "sealed": False}),
        (WorkItem, {"needs_approval": True, "approval_token": None}),
        (PinnedServer, {"launch": None, "remote": None}),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_what_allows_something_is_left_out_as_a_no(kind: type, refusing: dict[str, object]) -> None:
    """Of objects with many other fields: the ones that allow something."""
    found = left_out(kind)
    assert {name: found[name] for name in refusing} == refusing


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (QuestionContent, {"taint", "risk"}),
        (SuggestionProposal, {"taint"}),
        (RunLimits, {"too_often"}),
        (ExecutionContext, {"limits"}),
    ],
)
def test_nobody_is_trusted_and_nothing_unlimited_by_default(kind: type, names: set[str]) -> None:
    assert not names & left_out(kind).keys()


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
