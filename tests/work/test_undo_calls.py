"""What takes back calls in accounts: written down, given a token, used once; a made-up account."""

import json
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from silas.gates import GateAction
from silas.gates.risk import ActionKind, DeclaredEffect, Reversibility
from silas.kernel.models import Data
from silas.storage import SqliteDatabase
from silas.testing.work import FakeGateRunner
from silas.tools.declaration import Tool, ToolRegistry
from silas.tools.execution import ExecutionEnvelope, ExecutionResult, failed, succeeded
from silas.work import WorkItem
from silas.work.authorisation import revoke_approvals
from silas.work.errors import WorkItemConflict
from silas.work.ledger import UndoState
from silas.work.undo_calls import MadeCall, record_after, record_before, undo_calls, undo_plan
from tests.stream.database_writer import OldRows
from tests.work.shop import Shop, task

TIDIES = DeclaredEffect(action=ActionKind.TIDY, reversibility=Reversibility.REVERSIBLE)
SENDS = DeclaredEffect(action=ActionKind.SEND, reversibility=Reversibility.IRREVERSIBLE)


class Move(Data):
    things: list[str]
    to: str
    account: str | None = None


class MoveBack(Data):
    things: list[str]
    to: str
    left: list[str] | None = None
    account: str | None = None


@dataclass
class Account:
    """Things in places, each with a number that changes whenever it is moved."""

    places: dict[str, str] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    answers: dict[str, Any] = field(default_factory=dict)
    """What `move` answers as its undo instead of the truth."""

    async def gate_context(self, args: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"connection_id": "conn_1", "required_permissions": ["things.act"]}

    def put(self, thing: str, place: str) -> None:
        self.places[thing] = place
        self.numbers[thing] = self.numbers.get(thing, 0) + 1

    def tools(self) -> list[Tool]:
        use: Any = {"contained": False, "account": self}
        return [
            Tool("move", Move, _Moving(self), effect=TIDIES, inverse="move_back", **use),
            Tool("move_back", MoveBack, _MovingBack(self), effect=TIDIES, inverse="move", **use),
            Tool("send", Move, _Sending(), effect=SENDS, **use),
        ]


@dataclass
class _Moving:
    account: Account

    async def execute(self, envelope: ExecutionEnvelope) -> ExecutionResult:
        args, account = envelope.args, self.account
        was = [f"{each}@{account.places[each]}" for each in args["things"]]
        for each in args["things"]:
            account.put(each, args["to"])
        left = [
            f"{old}#{account.numbers[each]}" for each, old in zip(args["things"], was, strict=True)
        ]
        undo = {"tool": "move_back", "args": {**args, "left": left}, **account.answers}
        return succeeded(envelope, json.dumps({"undo": undo}))


@dataclass
class _MovingBack:
    account: Account

    async def execute(self, envelope: ExecutionEnvelope) -> ExecutionResult:
        stayed = []
        for each in envelope.args["left"]:
            thing, _, rest = each.partition("@")
            place, _, number = rest.partition("#")
            if self.account.numbers[thing] == int(number):
                self.account.put(thing, place)
            else:
                stayed.append(thing)
        if len(stayed) == len(envelope.args["left"]):
            said = json.dumps({"error": f"Moved since: {stayed}", "kind": "conflict"})
            return failed(envelope, "exit code 1", return_value=said)
        return succeeded(envelope, json.dumps({"stayed": stayed}))


class _Sending:
    async def execute(self, envelope: ExecutionEnvelope) -> ExecutionResult:
        return succeeded(envelope, '{"sent": true}')


@pytest.fixture
def account() -> Account:
    account = Account()
    for each in "abcd":
        account.put(each, "inbox")
    return account


@pytest.fixture
def room(shop: Shop, account: Account) -> Shop:
    gates = FakeGateRunner({"connection_permission": GateAction.CONTINUE})
    return shop.having(registry=ToolRegistry(account.tools()), gates=gates)


async def make(
    shop: Shop,
    item: WorkItem,
    seq: int,
    tool: str,
    args: dict[str, Any],
    *,
    attempt: int = 1,
    ends: bool = True,
) -> None:
    """A call as an attempt makes it; without `ends`, the process is killed after it."""
    found = shop.bench.registry.get(tool)
    assert found is not None
    call = MadeCall(attempt, seq, args, "conn_1")
    undo = await record_before(shop.bench, item, found, call)
    assert undo is not None
    envelope = ExecutionEnvelope(
        execution_id=f"{item.id}.{attempt}.{seq}",
        step_index=0,
        task_description="",
        action=tool,
        args=args,
    )
    result = await found.executor.execute(envelope)
    if ends:
        await record_after(shop.bench, item, undo, result)


def move(*things: str, to: str = "archive") -> dict[str, Any]:
    return {"things": list(things), "to": to}


async def things_of(shop: Shop, item: WorkItem, seq: int) -> list[str]:
    [undo] = [each for each in await shop.bench.undos.of(item.id) if each.seq == seq]
    return list(undo.args["things"])


async def test_undo_after_any_prefix_restores_the_state_or_says_what_it_could_not(
    room: Shop, account: Account
) -> None:
    for seed in range(25):
        chance = random.Random(seed)
        item = await room.approve(task(id=f"walk{seed}"))
        before, touched, moves = dict(account.places), set(), Counter[str]()
        last = chance.randint(1, 5)
        for seq in range(1, last + 1):
            things = chance.sample("abcd", chance.randint(1, 3))
            killed = seq == last and chance.random() < 0.3
            moves.update(things * 2 if killed else things)  # nobody knows what that one did
            await make(
                room, item, seq, "move", move(*things, to=chance.choice("xyz")), ends=not killed
            )
        if chance.random() < 0.5:
            thing = chance.choice("abcd")
            touched.add(thing)
            account.put(thing, "where the owner wants it")
        done = await undo_calls(room.bench, item.id)
        said = " ".join(each.told for each in done)
        assert [each.seq for each in done] == list(range(last, 0, -1))
        assert all(each.told for each in done)
        unknown = [each for each in done if "Nobody knows" in each.told]
        assert len(unknown) == killed
        lost = {name for each in unknown for name in await things_of(room, item, each.seq)}
        for thing, place in before.items():
            if thing in touched:
                assert account.places[thing] == "where the owner wants it"
                moved = any(
                    thing in each.args["things"] for each in await room.bench.undos.of(item.id)
                )
                assert not moved or thing in said
            elif account.places[thing] != place:
                # The same work has moved it twice, or nobody knows: that is said, too.
                assert moves[thing] > 1, (seed, thing)
                assert thing in said or thing in lost, (seed, thing, said)


async def test_killed_between_the_call_and_its_completion_nothing_is_guessed(
    room: Shop, account: Account
) -> None:
    item = await room.approve(task())
    await make(room, item, 1, "move", move("a"), ends=False)
    [undo] = await room.bench.undos.of(item.id)
    assert undo.state is UndoState.BEGUN
    assert undo.inverse == "move_back"
    [told] = await undo_calls(room.bench, item.id)
    assert "Nobody knows whether it was done" in told.told
    assert account.places["a"] == "archive"


async def test_the_answer_of_a_tool_cannot_turn_its_undo_against_something_else(
    room: Shop, account: Account
) -> None:
    item = await room.approve(task())
    for seq, answer in enumerate(
        (
            {"args": {**move("b"), "left": ["b@trash#1"]}},
            {"tool": "send", "args": move("a")},
            {"args": {**move("a"), "unknown": 1}},
        ),
        1,
    ):
        account.answers = answer
        await make(room, item, seq, "move", move("a"))
    assert all(each.token is None for each in await room.bench.undos.of(item.id))
    assert not any(each.undone for each in await undo_calls(room.bench, item.id))
    assert account.places["b"] == "inbox"


async def test_the_token_ends_with_the_window_and_with_the_approval(
    room: Shop, account: Account
) -> None:
    item = await room.approve(task(id="t1"))
    await make(room, item, 1, "move", move("a"))
    other = await room.approve(task(id="t2"))
    await make(room, other, 1, "move", move("b"))
    bench = room.bench
    await revoke_approvals(bench.approvals, bench.items, bench.control, "t2")
    [revoked] = await undo_calls(bench, "t2")
    assert not revoked.undone
    await make(room, other, 2, "move", move("c"))  # a call that was under way meanwhile
    assert (await bench.undos.of("t2"))[1].token is None
    room.clock.advance(minutes=5)
    [late] = await undo_calls(bench, "t1")
    assert not late.undone
    assert late.needs_plan
    assert account.places == {"a": "archive", "b": "archive", "c": "archive", "d": "inbox"}
    plan = await undo_plan(bench, "t1")
    assert plan is not None
    assert "call tool=move_back" in plan


async def test_rows_that_are_put_back_take_nothing_back_twice(
    room: Shop, account: Account, database: SqliteDatabase
) -> None:
    item = await room.approve(task())
    await make(room, item, 1, "move", move("a"))
    unused = await OldRows.of(database)
    [first] = await undo_calls(room.bench, item.id)
    assert first.undone
    # Things are as the call has left them, so that the tool itself would not object.
    account.places["a"], account.numbers["a"] = "archive", account.numbers["a"] - 1
    await unused.put_back(database)
    [again] = await undo_calls(room.bench, item.id)
    assert not again.undone
    assert account.places["a"] == "archive"


async def test_an_undo_whose_approval_was_taken_back_stays_so_whatever_its_row_says(
    room: Shop, account: Account, database: SqliteDatabase
) -> None:
    item = await room.approve(task())
    await make(room, item, 1, "move", move("a"))
    unused, bench = await OldRows.of(database), room.bench
    await revoke_approvals(bench.approvals, bench.items, bench.control, item.id)
    await unused.put_back(database)
    [told] = await undo_calls(bench, item.id)
    assert not told.undone
    assert account.places["a"] == "archive"


async def test_what_cannot_be_undone_is_written_down_as_such(room: Shop) -> None:
    item = await room.approve(task())
    await make(room, item, 1, "send", move("a"))
    [told] = await undo_calls(room.bench, item.id)
    assert told.told == "Nothing takes this back."
    assert not told.needs_plan


async def test_a_number_that_two_attempts_have_is_asked_about(room: Shop, account: Account) -> None:
    """Numbers begin anew after a crash: the call that is meant may be the other one."""
    item = await room.approve(task())
    await make(room, item, 1, "move", move("a"))
    await make(room, item, 1, "move", move("b"), attempt=2)
    unclear = await undo_calls(room.bench, item.id, [1])
    assert not any(each.undone for each in unclear)
    assert "`--attempt 1`" in unclear[-1].told
    [one] = await undo_calls(room.bench, item.id, [1], attempt=1)
    assert one.undone, one
    assert (account.places["a"], account.places["b"]) == ("inbox", "archive")
    assert [each.attempt for each in await undo_calls(room.bench, item.id)] == [2, 1]


async def test_work_that_did_nothing_in_accounts_says_so(room: Shop) -> None:
    item = await room.approve(task())
    assert await undo_calls(room.bench, item.id) == []
    assert await undo_plan(room.bench, item.id) is None


async def test_a_row_is_completed_once(room: Shop) -> None:
    item = await room.approve(task())
    await make(room, item, 1, "move", move("a"))
    [undo] = await room.bench.undos.of(item.id)
    with pytest.raises(WorkItemConflict):
        await room.bench.undos.write(undo.model_copy(update={"undo_args": {}}))
