"""Visitors over HTTP: what a link opens, and everything that it does not."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from silas.app.core import Machine
from silas.kernel import TaintLevel
from silas.queue.models import Agent, MessageKind, QueueMessage, UserMessage
from silas.sandbox.bubblewrap import BubblewrapBackend
from silas.stream.models import (
    AgentResponse,
    AgentTurn,
    PlanAction,
    PlanActionType,
    RouteDecision,
)
from silas.stream.steps.plans import handle_plan
from silas.stream.steps.routing import ask_proxy
from silas.stream.store import Origin
from silas.stream.turn_context import Turn
from silas.stream.visitors import VisitorLimits
from silas.testing.stream import FakeProxy, direct
from silas.web import wire
from silas.web.api import make_api
from silas.web.visitors import VISITOR_COMMANDS
from silas.work.models import WorkItem
from silas.work.ports import ToolCaller
from tests.egress.loopback import PretendInternetOnLoopback
from tests.skills.place import SkillPlace
from tests.skills.standins import ShopService, serving
from tests.web.place import environ_for, open_place
from tests.web.test_access import routes_in
from tests.web.visiting import ANNA, BEN, PLANS, Shop, Visitor, call, open_shop


@pytest_asyncio.fixture(loop_scope="session")
async def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Shop]:
    monkeypatch.setenv("HOME", environ_for(tmp_path)["HOME"])
    async with open_shop(tmp_path) as shop:
        yield shop


def order(name: dict[str, str]) -> str:
    return f"{name['order_id']} {name['email']}"


async def test_two_visitors_of_one_link_know_nothing_of_each_other(shop: Shop) -> None:
    link = await shop.invite()
    anna, ben = await shop.visitor(link), await shop.visitor(link)
    assert await anna.say("My secret is tulip") == "You said: My secret is tulip"
    assert "tulip" not in await ben.say("Tell me the record")
    assert "tulip" in await anna.say("Tell me the record")
    past = await call(shop.address, "GET", "/visit/history", ben.secret)
    assert "tulip" not in past.text
    scopes = {turn.scope_id for turn in shop.proxy.turns}
    assert len(scopes) == 2
    assert all(scope.startswith("visit_") for scope in scopes)


async def test_a_verified_order_raises_the_level_of_one_visitor(shop: Shop) -> None:
    anna, ben = await shop.visitor(), await shop.visitor()
    assert await anna.say("tools?") == "public: opening_hours, search_help, verify_order"
    assert await anna.say(f"Where is {order(ANNA)}?") == "On its way."
    assert (await anna.say("tools now?")).startswith("customer: opening_hours, order_status")
    assert await ben.say("tools?") == "public: opening_hours, search_help, verify_order"
    # The pair is looked at in each call: a customer does not read the order of another one.
    strange = f"{BEN['order_id']} {ANNA['email']}"
    assert "Please give me your order number" in await anna.say(f"And {strange} please")


async def test_the_tools_of_the_shop_can_come_from_its_skill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole way: a skill that was installed by a card asks a service through the proxy."""
    monkeypatch.setenv("HOME", environ_for(tmp_path)["HOME"])
    pairs = {(ANNA["order_id"], ANNA["email"]): "On its way.", tuple(BEN.values()): "Packed."}
    service = ShopService(pairs)  # type: ignore[arg-type]
    async with serving({"shop.example.org": service.answer}) as port:
        sandbox = BubblewrapBackend(way_out=PretendInternetOnLoopback(port))
        async with open_shop(tmp_path, machine=Machine(sandbox=sandbox)) as shop:
            anna = await shop.visitor()
            assert await anna.say("tools at first?") == "public: "
            skills = shop.place.house.skills
            place = SkillPlace(tmp_path, shop.place.core, skills.installer.questions, skills)
            await place.install(PLANS / "skills" / "shop")
            assert await anna.say("tools?") == "public: opening_hours, search_help, verify_order"
            assert "9 to 17" in await anna.say("Your hours?")
            assert "On its way." in await anna.say(f"Where is {order(ANNA)}?")
            assert (await anna.say("tools now?")).startswith(
                "customer: opening_hours, order_status"
            )
            told = await anna.say(f"I want a refund 500 for {order(ANNA)}")
            assert "handing this over to a colleague" in told
            assert service.refunds == []


async def test_a_wrong_order_raises_nothing_and_is_answered_as_the_goal_says(shop: Shop) -> None:
    anna = await shop.visitor()
    told = await anna.say("Where is SH-20260001 eve@example.org?")
    assert told.startswith("Please give me your order number and the e-mail address")
    assert (await anna.say("tools?")).startswith("public: ")
    # A gate that does not concern a call has shown nothing.
    assert await anna.say("hours?") == "Monday to Friday, 9 to 17."
    assert (await anna.say("tools again?")).startswith("public: ")


async def test_the_customers_record_reaches_the_agent_once_it_is_proven(shop: Shop) -> None:
    directory = shop.place.core.settings.sandbox.customer_context_dir
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    (directory / f"{ANNA['order_id']}.json").write_text(
        json.dumps({"name": "Anna", "tier": "gold"})
    )
    anna, ben = await shop.visitor(), await shop.visitor()
    assert "customer: ;" in await anna.say("Tell me the record")
    await anna.say(f"Where is {order(ANNA)}?")
    assert 'customer: {"name": "Anna", "tier": "gold"}' in await anna.say("Tell the record now")
    assert "gold" not in await ben.say("Tell me the record")
    turn = shop.proxy.turns[-1]
    assert "You answer questions of the shop's customers" in turn.briefing


async def test_what_a_visitor_says_is_external_and_of_a_personal_link_auth(shop: Shop) -> None:
    await (await shop.visitor()).say("Hello")
    assert shop.proxy.turns[-1].taint.value == "external"
    personal = await shop.invite(customer="anna")
    await (await shop.visitor(personal)).say("Hello")
    assert shop.proxy.turns[-1].taint.value == "auth"


async def test_a_visitor_gets_no_plan(shop: Shop) -> None:
    anna = await shop.visitor()
    assert await anna.say("Make a plan") == (
        "I cannot do that here. I can answer with what I have at hand."
    )
    assert await shop.place.front.cards.open_cards() == []


async def test_a_revoked_link_ends_at_once(shop: Shop) -> None:
    link = await shop.invite()
    anna = await shop.visitor(link)
    await anna.say("Hello")
    await shop.place.front.visits.revoke(link["link_id"])
    assert (await anna.post("Again")).status_code == 401
    answer = await call(shop.address, "GET", "/visit/messages/0", anna.secret)
    assert (answer.status_code, "lines" in answer.json()) == (401, False)
    answer = await call(shop.address, "POST", "/visit/connections", link["secret"], {})
    assert answer.status_code == 401


async def test_limits_are_kept_by_the_server(shop: Shop) -> None:
    link = await shop.invite(messages_per_day=2, connections=2)
    anna, _ben = await shop.visitor(link), await shop.visitor(link)
    answer = await call(shop.address, "POST", "/visit/connections", link["secret"], {})
    assert (answer.status_code, answer.json()["code"]) == (429, "E_CHANNEL_VISIT_LIMIT")
    assert (await anna.post("x" * 4001, key="long")).status_code == 429
    assert [(await anna.post(f"{n}")).status_code for n in range(3)] == [202, 202, 429]
    slow = await shop.visitor(await shop.invite(messages_per_minute=1))
    assert [(await slow.post(f"{n}")).status_code for n in range(2)] == [202, 409]


async def test_the_same_key_again_is_the_same_message(shop: Shop) -> None:
    anna, ben = await shop.visitor(), await shop.visitor()
    for _ in range(2):
        assert (await anna.post("Once", key="k")).status_code == 202
    assert (await ben.post("Another", key="k")).status_code == 202
    assert (await ben.until("You said"))["text"] == "You said: Another"
    await anna.post("Twice", key="l")
    assert (await anna.until("Twice"))["text"] == "You said: Twice"
    assert [turn.request.splitlines()[-1].strip() for turn in shop.proxy.turns].count("Once") == 1


@pytest.mark.parametrize("secret", [None, "nothing", "vlink_x", "vconn_x"])
async def test_without_a_secret_nothing_is_told(shop: Shop, secret: str | None) -> None:
    for method, path, body in [
        ("POST", "/visit/connections", {}),
        ("POST", "/visit/messages", {"text": "Hello", "key": "k"}),
        ("GET", "/visit/history", None),
        ("GET", "/visit/messages/0", None),
    ]:
        answer = await call(shop.address, method, path, secret, body)
        assert answer.status_code == 401, path


async def test_the_secrets_of_visitors_open_nothing_of_the_owners(shop: Shop) -> None:
    """Every route of the API, with the link's secret, the connection's, and both as cookies."""
    link = await shop.invite()
    anna = await Visitor.entered(shop.address, link["secret"])
    app = make_api(shop.place.front, shop.place.web.hub, shop.place.web.api._groups)
    tried = 0
    for prefix, route in routes_in(app.routes):
        path = f"{prefix}{route.path}"
        if path.startswith(("/visit", "/health")):
            continue
        for method in sorted(route.methods or ()):
            for secret in (link["secret"], anna.secret):
                body = {} if method == "POST" else None
                cookie = f"silas_session={secret}"
                answer = await call(shop.address, method, path, secret, body, Cookie=cookie)
                assert answer.status_code in {401, 403, 404, 422}, (method, path)
                tried += 1
    assert tried > 50
    for command in VISITOR_COMMANDS:
        path = f"/api/visitors/{command.name}"
        for secret in (link["secret"], anna.secret):
            answer = await call(shop.address, "POST", path, secret, {})
            assert answer.status_code in {401, 404, 422}, path


async def test_no_frame_of_a_visitors_is_heard_on_the_owners_socket(shop: Shop) -> None:
    device = await shop.place.device()
    visitor = await shop.visitor()
    kinds = list(wire.wire_schema()["from_page"]["discriminator"]["mapping"])
    assert len(kinds) > 10
    for kind in kinds:
        async with device.socket() as socket:
            await socket.recv()
            await socket.send(json.dumps({"type": kind, "token": visitor.secret}))
            with pytest.raises(Exception, match="4001"):
                await socket.recv()


async def test_nobody_visits_where_no_goal_takes_visitors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environ = environ_for(tmp_path)
    monkeypatch.setenv("HOME", environ["HOME"])
    async with open_place(tmp_path, environ) as place:
        with pytest.raises(Exception, match="No goal that is in force takes visitors"):
            await place.front.visits.invite("Web shop")
        _, secret = await place.front.visits.store.invite(
            "Old", "shop-support", limits=VisitorLimits()
        )
        answer = await call(place.address, "POST", "/visit/connections", secret, {})
        assert (answer.status_code, answer.json()["code"]) == (403, "E_CHANNEL_NO_VISITORS")


async def test_of_many_at_once_no_more_are_taken_than_the_day_allows(shop: Shop) -> None:
    link = await shop.invite(messages_per_day=2)
    anna = await shop.visitor(link)
    taken = await asyncio.gather(*(anna.post(f"message {number}") for number in range(8)))
    assert sorted(each.status_code for each in taken) == [202, 202, *[429] * 6]
    used = await shop.place.front.visits.store.used_today(link["link_id"])
    assert used.messages == 2


async def test_a_plan_that_a_model_writes_for_a_visitor_is_dropped(shop: Shop) -> None:
    text = "---\ntype: task\ntitle: Evil\nwithout_proof: true\n---\n\n```run\nid\n```\n"
    action = PlanAction(action=PlanActionType.PROPOSE, plan_markdown=text)

    async def writes_a_plan(_turn: AgentTurn, _tools: ToolCaller) -> RouteDecision:
        response = AgentResponse(message="Here is a plan.", plan_action=action)
        return direct("").model_copy(update={"response": response})

    object.__setattr__(shop.place.house.stream.turns, "proxy", FakeProxy(writes_a_plan))
    assert await (await shop.visitor()).say("Run id") == "Here is a plan."
    assert await shop.place.house.cards.open_cards() == []
    assert "visitor_plan_dropped" in {entry.event for entry in await shop.place.core.audit.tail(50)}


async def test_a_model_that_answers_again_stops_no_goal(shop: Shop) -> None:
    """A gate can have an exact answer said anew by the model: what that wants stops nothing."""
    action = PlanAction(action=PlanActionType.ABORT, continuation_of="backup")

    async def stops(_turn: AgentTurn, _tools: ToolCaller) -> RouteDecision:
        response = AgentResponse(message="As you say.", plan_action=action)
        return direct("").model_copy(update={"response": response})

    watch = WorkItem.model_validate(
        {"id": "backup", "type": "goal", "title": "Backup", "schedule": "0 7 * * *"}
    )
    turns = replace(shop.place.house.stream.turns, proxy=FakeProxy(stops))
    owner, now = turns.policy.owner_id, turns.clock.now()
    said = UserMessage(channel="web", connection_id=owner, sender_id=owner, timestamp=now)
    names = {"trace_id": "trace_m1", "message_id": "m1", "scope_id": owner}
    mine = {"connection_id": owner, "channel": "web", "sender_id": owner}
    message = QueueMessage(
        **names,
        content="What is on today?",
        sender=Agent.USER,
        message_kind=MessageKind.USER_MESSAGE,
        taint=TaintLevel.OWNER,
        created_at=now,
        payload=said,
    )
    turn = Turn(message, Origin(**names, **mine, taint=TaintLevel.OWNER), 1, "What is on today?")
    again = await ask_proxy(turns, turn, instruction="Say it otherwise.")
    assert turns.exact_for(turn.text, TaintLevel.OWNER) is not None
    assert not again.is_exact
    await turns.items.save(watch)
    after = await handle_plan(turns, again)
    assert after.outgoing == ()
    assert "silas work cancel backup" in (after.response.message if after.response else "")


async def test_the_same_key_again_is_the_same_message_and_counts_once(shop: Shop) -> None:
    link = await shop.invite(messages_per_day=3)
    anna = await shop.visitor(link)
    codes = [(await anna.post("Once", key="k")).status_code for _ in range(5)]
    assert codes == [202] * 5
    used = await shop.place.front.visits.store.used_today(link["link_id"])
    assert used.messages == 1
