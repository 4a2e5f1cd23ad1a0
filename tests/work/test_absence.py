"""What is left out of an object that carries policy is never a yes.

Every field with a default is listed here. A new one has to be shown to refuse, to be a limit, or to
carry no policy, or these tests fail.
"""

import dataclasses
import inspect
import math
from collections.abc import Awaitable, Callable

import pytest
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from silas.gates import GateTrigger
from silas.gates.risk import ActionKind, DeclaredEffect, Reversibility
from silas.kernel import TaintLevel
from silas.kernel.models import Data
from silas.kernel.redaction import redact_text
from silas.sandbox.models import CONTAINED, SandboxConfig, SandboxLimits, SandboxRequest
from silas.testing.work import DESTROYS, FakeApprover, FakeWorker, LaterApprover, PausingWorker
from silas.tools.declaration import Tool, ToolDeclaration, ToolRegistry
from silas.tools.execution import ExecutionEnvelope, ExecutionResult, succeeded
from silas.work import WorkItemStatus
from silas.work.attempt import AdmittedItem
from silas.work.control import WorkControl
from silas.work.effects import DeclaredChanges, FileChange, Workspace
from silas.work.execution_context import Authority, ExecutionContext, RunLimits, WorkRecords
from silas.work.models import VerificationCheck, VerificationResult, WorkItem
from silas.work.off_limits import OffLimits
from silas.work.paused import PausedRuns
from silas.work.provenance import RunTaint
from silas.work.tool_calls import AttemptTools
from silas.work.verification import VerificationRunner
from silas.work.workspaces import Workspaces
from tests.work.shop import Shop, calls, task


class Sends(Data):
    """To whom."""

    to: str


class Sender:
    def __init__(self) -> None:
        self.sent: list[str] = []

    async def execute(self, envelope: ExecutionEnvelope) -> ExecutionResult:
        self.sent.append(envelope.args["to"])
        return succeeded(envelope, "sent")


@pytest.fixture
def sender(shop: Shop) -> Sender:
    sender = Sender()
    send = Tool("send", Sends, sender, contained=False, effect=DESTROYS)
    shop.having(registry=ToolRegistry([*shop.bench.registry.tools.values(), send]))
    return sender


def optional(kind: type) -> set[str]:
    """The fields and parameters of a class that can be left out."""
    if issubclass(kind, BaseModel):
        return {
            name
            for name, field in kind.model_fields.items()
            if field.default is not PydanticUndefined or field.default_factory is not None
        }
    if dataclasses.is_dataclass(kind):
        missing = dataclasses.MISSING
        return {
            each.name
            for each in dataclasses.fields(kind)
            if each.init and (each.default, each.default_factory) != (missing, missing)
        }
    parameters = inspect.signature(kind).parameters.values()
    return {each.name for each in parameters if each.default is not inspect.Parameter.empty}


SEND = calls(("send", {"to": "a"}))


async def without_agent(shop: Shop, sender: Sender) -> None:
    result = await shop.having(agent=None).run(task())
    assert result.status is WorkItemStatus.BLOCKED


async def without_gates(shop: Shop, sender: Sender) -> None:
    gate = {
        "name": "g",
        "on": GateTrigger.ON_TOOL_CALL.value,
        "provider": "predicate",
        "type": "string_match",
        "extract": "tool_args.to",
        "allowed_values": ["a"],
    }
    item = task(gates=[gate], approvals=[{"tool": "send"}], budget={"max_attempts": 1})
    result = await shop.having(gates=None).run(item, FakeWorker(SEND))
    assert result.status is not WorkItemStatus.DONE


async def without_approver(shop: Shop, sender: Sender) -> None:
    shop.having(approver=None)
    await shop.run(task(budget={"max_attempts": 1}), FakeWorker(SEND))


async def without_a_place_to_wait(shop: Shop, sender: Sender) -> None:
    shop.having(approver=LaterApprover(), paused=None)
    worker = PausingWorker(("send", {"to": "a"}))
    result = await shop.run(task(budget={"max_attempts": 1}), worker)
    assert result.status is not WorkItemStatus.DONE


async def without_skills(shop: Shop, sender: Sender) -> None:
    item = task(skills=["mail"], skill_hashes={"mail": "0" * 64}, approvals=[{"tool": "send"}])
    approved = await shop.approve(await shop.bench.items.save(item))
    result = await shop.having(skills=None, agent=FakeWorker(SEND)).execute(approved)
    assert result.status is WorkItemStatus.BLOCKED


async def without_grants(shop: Shop, sender: Sender) -> None:
    """Nothing is granted beforehand, so that the call waits for a yes that nobody gives."""
    shop.having(grants=None, approver=None)
    await shop.run(task(budget={"max_attempts": 1}), FakeWorker(SEND))


Case = Callable[[Shop, Sender], Awaitable[None]]
REFUSES: dict[str, Case] = {
    "agent": without_agent,
    "gates": without_gates,
    "approver": without_approver,
    "paused": without_a_place_to_wait,
    "skills": without_skills,
    "grants": without_grants,
}
LIMITS = {"memory_mb", "cpu_seconds", "call_seconds", "per_scope", "pool"}
NO_POLICY = {
    "planner": "its advice is one more text",
    "progress": "it only hears",
    "on_start": "it only writes that somebody is told",
    "propose": "it only puts questions before the owner",
}


@pytest.mark.parametrize("name", REFUSES)
async def test_an_execution_without_it_does_nothing_that_needs_it(
    shop: Shop, sender: Sender, name: str
) -> None:
    await REFUSES[name](shop, sender)
    assert sender.sent == []


async def test_with_everything_there_the_same_call_is_made(shop: Shop, sender: Sender) -> None:
    """The cases above refuse for want of one thing, not for another reason."""
    await shop.having(approver=FakeApprover()).run(task(), FakeWorker(SEND))
    assert sender.sent == ["a"]


def test_every_optional_field_of_an_execution_is_accounted_for() -> None:
    assert optional(ExecutionContext) == {*REFUSES, *NO_POLICY}
    assert optional(RunLimits) == LIMITS
    assert optional(Authority) | optional(WorkRecords) <= {*REFUSES, *NO_POLICY}


@pytest.mark.parametrize(
    "kind",
    [AdmittedItem, AttemptTools, RunTaint, WorkControl, Workspaces, PausedRuns, OffLimits],
)
def test_what_a_run_is_judged_by_cannot_be_left_out(kind: type) -> None:
    allowed = {
        AttemptTools: {
            # What a run begins with nothing of: approvals that were given meanwhile, what waits.
            *("decided", "waiting", "asked_after", "broken", "stopped", "over", "reported"),
            *("_steps", "_reviews", "_passed", "_granted", "_once", "_turn", "_foreign"),
            "_made_from",  # what it was made from is looked up at the first call
        },
        PausedRuns: {"seconds"},  # how long something waits at most
        Workspaces: {"author"},  # whose name a commit bears: without one, Silas' own
    }
    assert optional(kind) == allowed.get(kind, set())


class TestTools:
    FINAL = DeclaredEffect(action=ActionKind.CHANGE, reversibility=Reversibility.REVERSIBLE)

    def test_every_optional_field_is_accounted_for(self) -> None:
        strict = {"inverse", "stays_offline", "own_account"}
        no_policy = {"offered", "description"}
        # With it, more is asked. Servers that reach hosts say it: tests/mcp/test_registry.py.
        no_policy |= {"tells_more"}
        # With it, less is done: a call whose answer was lost is not made again.
        no_policy |= {"made_once"}
        assert optional(ToolDeclaration) == strict | no_policy
        # Without `account`, none is given: tests/connections/test_use.py.
        assert optional(Tool) == strict | no_policy | {"account", "release"}

    def test_without_an_inverse_it_is_not_reversible(self) -> None:
        with pytest.raises(ValueError, match="undone"):
            ToolDeclaration("x", Sends, contained=True, effect=self.FINAL)

    def test_without_a_word_about_the_network_it_is_not_contained_there(self) -> None:
        tool = ToolDeclaration("x", Sends, contained=True, effect=DESTROYS)
        assert tool.is_contained(())
        assert not tool.is_contained(("example.org",))

    def test_without_a_word_about_the_account_its_arguments_reach_somebody(self) -> None:
        tool = ToolDeclaration("x", Sends, contained=False, effect=DESTROYS)
        run = RunTaint(task("Do it."), TaintLevel.EXTERNAL, [])
        assert not run.tells_nobody(tool, {"to": "somebody-else"})

    async def test_a_tool_that_is_offered_is_reviewed_all_the_same(
        self, shop: Shop, sender: Sender
    ) -> None:
        await shop.run(task(budget={"max_attempts": 1}), FakeWorker(SEND))
        assert sender.sent == []


class TestPlans:
    def test_a_workspace_that_says_nothing_gives_nothing(self) -> None:
        workspace = Workspace()
        assert optional(Workspace) == {"path", "identity", "files", "env", "network", "changes"}
        assert (workspace.path, workspace.network, workspace.env) == (None, (), {})
        changed = FileChange(path="a", before=None, after="0" * 64)
        assert not workspace.changes.covers(changed)

    def test_a_declaration_that_says_nothing_covers_nothing(self) -> None:
        assert optional(DeclaredChanges) == {"add", "change", "remove", "executable"}
        for before, after in ((None, "0" * 64), ("0" * 64, "1" * 64), ("0" * 64, None)):
            assert not DeclaredChanges().covers(FileChange(path="a", before=before, after=after))

    def test_an_item_that_says_nothing_needs_approval_and_may_do_nothing(self) -> None:
        item = WorkItem.model_validate({"id": "t", "type": "task", "title": "T"})
        assert item.needs_approval
        assert item.approval_token is None
        assert item.approvals == []
        assert not item.accepts_unchecked
        assert not item.without_proof

    def test_a_check_that_says_nothing_reaches_nobody_and_proves_nothing(self) -> None:
        assert VerificationCheck.model_fields["network"].default == ()
        said_nothing = VerificationResult(name="c", passed=True, reason="")
        assert not said_nothing.proves


class TestSandbox:
    def test_a_request_that_says_nothing_sees_nothing_and_insists(self) -> None:
        request = SandboxRequest(argv=("true",))
        assert (request.read, request.write, request.network, request.env) == ((), (), (), {})
        assert request.require == CONTAINED
        assert (SandboxConfig().network_hosts, SandboxConfig().filesystem_write) == ((), [])

    @pytest.mark.parametrize("name", sorted(SandboxLimits.model_fields))
    def test_a_limit_that_is_not_given_is_a_limit(self, name: str) -> None:
        assert 0 < getattr(SandboxLimits(), name) < math.inf

    def test_a_verification_without_limits_has_some(self) -> None:
        # Without `redact`, what looks like a secret is taken out all the same.
        assert optional(VerificationRunner) <= {"memory_mb", "cpu_seconds", "redact"}
        default = inspect.signature(VerificationRunner).parameters["redact"].default
        assert default is redact_text


def test_a_result_that_says_nothing_of_its_origin_is_foreign() -> None:
    result = ExecutionResult(execution_id="e", step_index=0, success=True)
    assert result.taint is TaintLevel.EXTERNAL


async def test_a_worker_that_does_not_say_whether_it_can_wait_is_an_error_not_a_no(
    shop: Shop, sender: Sender
) -> None:
    class SaysNothing(PausingWorker):
        @property
        def pauses(self) -> bool:  # type: ignore[override]
            raise AttributeError("pauses")

    shop.having(approver=LaterApprover())
    worker = SaysNothing(("send", {"to": "a"}))
    result = await shop.run(task(budget={"max_attempts": 1}), worker)
    assert result.status is not WorkItemStatus.DONE
    assert "AttributeError" in (result.last_error or "")
    assert sender.sent == []
