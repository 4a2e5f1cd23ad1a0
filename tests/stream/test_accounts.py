"""Looking into accounts: what is said of answers, of events that move, and of a briefing."""

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast
from zoneinfo import ZoneInfo

import pytest

from silas.connections.models import Connection, ConnectionStatus
from silas.connections.registry import ConnectionStore
from silas.kernel import IdFactory, TaintLevel
from silas.skills.loading import SkillResolver
from silas.stream.accounts import AccountReading
from silas.testing import FakeClock
from silas.tools.execution import ExecutionEnvelope, ExecutionResult, ModelView

# A Wednesday.
NOW = datetime(2026, 10, 21, 8, 0, tzinfo=UTC)
BERLIN = ZoneInfo("Europe/Berlin")
MAIL = {
    "id": "1",
    "from": "Ann <ann@example.com>",
    "subject": "Lunch?",
    "date": "Wed, 21 Oct 2026 07:00:00 +0000",
    "sender_verified": False,
    "unread": True,
    "text": "Is Tuesday fine?",
    "text_goes_on_at": None,
    "attachments": [],
    "not_read": 0,
}


@dataclass
class Accounts:
    """Accounts whose tools give what a test says."""

    gives: dict[str, Any]
    working: dict[str, ConnectionStatus] = field(
        default_factory=lambda: {"Private": ConnectionStatus.ACTIVE}
    )
    skill: str = "mail"
    asked: list[ExecutionEnvelope] = field(default_factory=list)

    async def listed(self) -> list[Connection]:
        return [
            Connection.model_validate(
                {
                    "connection_id": f"conn_{name}",
                    "name": name,
                    "skill_name": self.skill,
                    "auth_strategy": "secure_input",
                    "ref_id": "r",
                    "status": status,
                    "health_check": "*/30 * * * *",
                    "created_at": NOW,
                    "changed_at": NOW,
                    "sealed": True,
                }
            )
            for name, status in self.working.items()
        ]

    async def digest(self, name: str) -> str:
        return name

    async def tools(self, _pinned: dict[str, str]) -> list[Any]:
        return [
            SimpleNamespace(name=name, only_observes=True, check=lambda _args: None, executor=self)
            for name in self.gives
        ]

    async def execute(self, envelope: ExecutionEnvelope) -> ExecutionResult:
        self.asked.append(envelope)
        return ExecutionResult(
            execution_id=envelope.execution_id,
            step_index=0,
            success=True,
            return_value=json.dumps(self.gives[envelope.action]),
        )

    def reading(self) -> AccountReading:
        return AccountReading(
            cast(SkillResolver, self),
            cast(ConnectionStore, self),
            FakeClock(NOW),
            IdFactory(FakeClock(NOW)),
            BERLIN,
        )

    async def call(self, name: str, **args: Any) -> ModelView:
        reading = self.reading()
        every = [*reading.for_proxy("owner"), *reading.for_planner("owner")]
        [tool] = [each for each in every if each.name == name]
        return await tool.run(tool.arguments.model_validate(args))


def event(start: str, end: str, title: str = "Dentist", **more: Any) -> dict[str, Any]:
    said = {"id": start, "start": start, "end": end, "title": title, "location": ""}
    return {**said, "repeats": False, "status": "CONFIRMED", **more}


async def moved(to: str, *events: dict[str, Any], what: str = "dentist") -> ModelView:
    accounts = Accounts({"calendar_list": {"events": list(events)}}, skill="calendar")
    return await accounts.call("event_to_move", what=what, to=to)


@pytest.mark.parametrize(
    ("start", "end", "becomes"),
    [
        # Clocks change on 25 October: the hour of the owner's clocks stays.
        (
            "2026-10-22T10:00:00+02:00",
            "2026-10-22T11:00:00+02:00",
            ("2026-10-29T10:00:00+01:00", "2026-10-29T11:00:00+01:00"),
        ),
        ("2026-10-21", "2026-10-22", ("2026-10-28", "2026-10-29")),
        # From further ahead it comes nearer.
        (
            "2026-11-03T09:00:00+01:00",
            "2026-11-03T09:30:00+01:00",
            ("2026-10-27T09:00:00+01:00", "2026-10-27T09:30:00+01:00"),
        ),
    ],
)
async def test_next_week_is_the_same_day_of_the_next_week(
    start: str, end: str, becomes: tuple[str, str]
) -> None:
    facts = json.loads((await moved("next week", event(start, end))).return_value)
    assert (facts["start"], facts["end"]) == becomes


async def test_what_is_next_week_stays_there() -> None:
    view = await moved("next week", event("2026-10-27", "2026-10-28"))
    assert not view.success
    assert view.error is not None
    assert view.error.startswith("It is next week already: Tuesday 27 October 2026")
    assert view.taint is TaintLevel.EXTERNAL


async def test_of_several_with_one_name_the_next_is_meant() -> None:
    first, second = event("2026-10-22", "2026-10-23"), event("2026-10-23", "2026-10-24")
    assert (
        json.loads((await moved("next week", first, second)).return_value)["event"] == first["id"]
    )
    other = event("2026-10-23", "2026-10-24", title="Dentist, bill")
    asked = await moved("next week", first, other)
    assert asked.error is not None
    assert asked.error.startswith("Which one? Say more of its title:")


@pytest.mark.parametrize("answer", [{}, {"found": 1, "mails": [{}]}, {"found": 1, "mails": [3]}])
async def test_an_answer_of_another_form_is_not_understood(answer: dict[str, Any]) -> None:
    accounts = Accounts({"mail_search": answer})
    view = await accounts.call("find_mail")
    assert view.error == "The account answered, and I do not understand its answer."
    assert view.error in await accounts.reading().brief()


async def test_a_tool_that_is_gone_is_said_to_be() -> None:
    view = await Accounts({}).call("find_mail")
    assert view.error == "Private has no `mail_search`: its skill was changed."


@pytest.mark.parametrize(("more", "goes_on"), [({}, False), ({"text": "x" * 12_001}, True)])
async def test_a_mail_is_said_to_go_on_only_if_it_does(
    more: dict[str, Any], *, goes_on: bool
) -> None:
    listed = {"found": 1, "mails": [MAIL]}
    accounts = Accounts({"mail_search": listed, "mail_read": {**MAIL, **more}})
    read = await accounts.call("read_mail", sender="Ann")
    assert ("The mail goes on; this is its beginning." in read.return_value) is goes_on


async def test_a_briefing_says_what_it_could_not_look_at() -> None:
    accounts = Accounts(
        {"mail_search": {"found": 1, "mails": [MAIL]}},
        {"Private": ConnectionStatus.ACTIVE, "Office": ConnectionStatus.PAUSED},
    )
    text = await accounts.reading().brief()
    assert "- Lunch?, from Ann at example.com" in text
    assert "Nothing unread." not in text
    assert "Office is paused, so I cannot look into it" in text
    assert "I have no calendar yet: connect one" in text


@pytest.mark.parametrize(("status", "said"), [("CONFIRMED", "Dentist"), ("CANCELLED", "Nothing")])
async def test_a_briefing_says_what_happens_today(status: str, said: str) -> None:
    today = event("2026-10-21", "2026-10-22", status=status)
    accounts = Accounts({"calendar_list": {"events": [today]}}, skill="calendar")
    text = await accounts.reading().brief()
    assert said in text
    assert ("Nothing today." in text) is (status == "CANCELLED")


async def test_a_day_begins_and_ends_by_the_clock_of_the_owner() -> None:
    accounts = Accounts({"calendar_list": {"events": []}}, skill="calendar")
    await accounts.call("look_at_calendar", when="2026-10-25")
    [asked] = accounts.asked
    # The day on which clocks change.
    assert asked.args["start"] == "2026-10-25T00:00:00+02:00"
    assert asked.args["end"] == "2026-10-26T00:00:00+01:00"


async def test_a_calendar_says_what_takes_place_and_when() -> None:
    listed = [
        event("2026-10-20", "2026-10-23", title="Fair"),
        event("2026-10-21T22:00:00+02:00", "2026-10-22T02:00:00+02:00", title="Party"),
        event("2026-10-21T09:00", "2026-10-21T09:30", title="No zone"),
        event("2026-10-21", "2026-10-22", title="Declined", your_answer="DECLINED"),
        event("2026-10-21", "2026-10-22", title="Asked", your_answer="NEEDS-ACTION"),
    ]
    given = {"events": listed, "found": 7, "unclear": ["Odd"]}
    accounts = Accounts({"calendar_list": given}, skill="calendar")
    said = (await accounts.call("look_at_calendar", when="today")).return_value.splitlines()[1:]
    assert said == [
        "- Tuesday 20 October 2026 to Thursday 22 October 2026, all day: Fair",
        "- Wednesday 21 October 2026, 22:00 to Thursday 22 October 2026, 02:00: Party",
        "- Wednesday 21 October 2026, 09:00 to 09:30: No zone",
        "- Wednesday 21 October 2026, all day: Asked (you have not answered the invitation)",
        "… and 2 more.",
        "I cannot tell whether these are then: Odd.",
    ]
