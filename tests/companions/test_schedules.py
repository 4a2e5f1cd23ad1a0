"""When a companion wakes by the clock, as its owner sets it."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silas.companions.errors import CompanionInvalid, CompanionUnknown
from silas.companions.messages import WakeRun
from silas.companions.models import AgentTimer, TimerKind, WakeReason
from silas.companions.timers import TimerDraft, TimerWish, Weekly, intent, weekly
from silas.companions.views import TimerView
from silas.kernel.errors import TimeNotUnderstood
from silas.kernel.when import DAYS, parse_days
from silas.testing.companions import CompanionDevice

WORKDAYS = ("mon", "tue", "wed", "thu", "fri")


async def set_to(
    device: CompanionDevice, agent: str, *wishes: dict[str, object]
) -> tuple[TimerView, ...]:
    return await device.service.set_timers(
        agent, [TimerWish.model_validate(each) for each in wishes]
    )


async def ringing(device: CompanionDevice, agent: str) -> list[tuple[str, bool]]:
    return [(each.words, each.active) for each in await device.service.timers(agent)]


async def test_timers_of_the_kind_are_seen_and_every_part_of_them_can_be_set(
    device: CompanionDevice, agent: str
) -> None:
    (morning,) = await device.service.timers(agent)
    assert (morning.at, morning.days, morning.active) == ("07:00", DAYS, True)
    assert morning.time_zone == "Europe/Berlin"
    assert morning.next_run_at == datetime(2026, 1, 2, 6, tzinfo=UTC)

    (later,) = await set_to(device, agent, {"id": morning.id, "at": "8:30", "days": WORKDAYS})
    assert later.words == "every Monday to Friday at 08:30"
    assert (later.id, later.next_run_at) == (morning.id, datetime(2026, 1, 2, 7, 30, tzinfo=UTC))
    (off,) = await set_to(device, agent, {"id": morning.id, "active": False})
    assert (off.words, off.active, off.next_run_at) == (later.words, False, None)
    assert (await device.service.show(agent)).wakes_on == ("when a task is done",)

    added = await set_to(
        device, agent, {"at": "18:00", "days": ("sun",)}, {"id": morning.id, "active": True}
    )
    assert [each.words for each in added] == [later.words, "every Sunday at 18:00"]
    (left,) = await set_to(device, agent, {"id": morning.id, "remove": True})
    assert left.words == "every Sunday at 18:00"
    assert ("companion_configured", agent, "timers") in [
        (event, data.get("agent_id"), data.get("what")) for event, data in device.audit.entries
    ]


async def test_what_is_set_is_what_rings(device: CompanionDevice, agent: str) -> None:
    (morning,) = await device.service.timers(agent)
    await set_to(device, agent, {"id": morning.id, "active": False}, {"at": "13:30"})
    device.clock.advance(days=1)
    await device.companions.alarms.tick()
    # At the time that was set, and not at the one that is off; what is switched on again rings
    # from then on, and makes up for nothing.
    (wake,) = await device.store.find(WakeRun, {"agent_id": agent})
    assert wake.job.scheduled_at == datetime(2026, 1, 1, 12, 30, tzinfo=UTC)
    await set_to(device, agent, {"id": morning.id, "active": True})
    nearest = await device.companions.alarms.tick()
    assert nearest == datetime(2026, 1, 2, 12, 30, tzinfo=UTC)
    assert len(await device.store.find(WakeRun, {"agent_id": agent})) == 1
    device.clock.set(nearest + timedelta(seconds=1))
    await device.companions.alarms.tick()
    reasons = {each.job.reason for each in await device.store.find(WakeRun, {"agent_id": agent})}
    assert reasons == {WakeReason.RECOVERY_CATCHUP, WakeReason.TIMER}


@pytest.mark.parametrize(
    ("wish", "told"),
    [
        ({"at": "25:00"}, "'25:00' is not a time of day, such as 07:00"),
        ({"at": "soon"}, "'soon' is not a time of day"),
        ({"at": "07:00:30"}, "is not a time of day"),
        ({"at": " "}, "Say at what time it wakes"),
        ({"days": ("mon",)}, "Say at what time it wakes"),
        ({"at": "07:00", "days": ()}, "Choose at least one day"),
        ({"at": "07:00", "days": ("m",)}, "'m' is no day of the week. Say mon, tue"),
        ({"at": "07:00", "cron": "0 7 * * *"}, "not both"),
        ({"cron": "0 0 31 2 *"}, "it would never be due"),
        ({"cron": "now and then"}, "five fields"),
        ({"cron": "0 6 * * *"}, "It wakes every day at 06:00 already"),
    ],
)
async def test_what_cannot_be_is_a_sentence_and_changes_nothing(
    device: CompanionDevice, agent: str, wish: dict[str, object], told: str
) -> None:
    before = await device.service.timers(agent)
    with pytest.raises(CompanionInvalid) as refused:
        await set_to(device, agent, {"id": before[0].id, "at": "05:00"}, {"at": "06:00"}, wish)
    assert told in refused.value.message
    assert await device.service.timers(agent) == before


async def test_a_timer_of_somebody_else_or_of_nobody_is_not_touched(
    device: CompanionDevice, agent: str
) -> None:
    other = await device.service.new("planner", category_ids=[device.categories["gym"]])
    (theirs,) = await device.service.timers(other.id)
    for wish in ({"id": theirs.id, "remove": True}, {"id": "timer-nowhere", "active": False}):
        with pytest.raises(CompanionUnknown, match="not there any more"):
            await set_to(device, agent, {"at": "06:00"}, wish)
    with pytest.raises(CompanionInvalid, match="named twice"):
        await set_to(device, other.id, {"id": theirs.id, "at": "06:00"}, {"id": theirs.id})
    assert await device.service.timers(other.id) == (theirs,)
    assert len(await device.service.timers(agent)) == 1
    with pytest.raises(CompanionInvalid, match="at most 20"):
        await set_to(device, agent, *({"at": f"08:{minute:02}"} for minute in range(20)))


async def test_a_single_moment_is_seen_until_it_has_passed(
    device: CompanionDevice, agent: str
) -> None:
    moment = TimerDraft(TimerKind.ONCE, "2026-01-01T13:00:00.000000Z")
    alarm = await device.lifecycle.timers.add(agent, moment)
    assert ("once at 2026-01-01 13:00 UTC", True) in await ringing(device, agent)
    await set_to(device, agent, {"id": alarm.id, "active": False})
    assert ("once at 2026-01-01 13:00 UTC", False) in await ringing(device, agent)
    device.clock.advance(hours=2)
    assert len(await ringing(device, agent)) == 1
    with pytest.raises(CompanionInvalid, match="has passed"):
        await set_to(device, agent, {"id": alarm.id, "active": True})


async def test_a_timer_that_makes_no_sense_is_shown_as_silent_and_can_be_mended(
    device: CompanionDevice, agent: str
) -> None:
    (known,) = await device.store.find(AgentTimer, {"agent_id": agent})
    await device.store.put(known.model_copy(update={"expression": "at dawn"}))
    assert await ringing(device, agent) == [("every day at at dawn", False)]
    (mended,) = await set_to(device, agent, {"id": known.id, "at": "06:00"})
    assert (mended.words, mended.active) == ("every day at 06:00", True)


@given(st.integers(0, 23), st.integers(0, 59), st.sets(st.sampled_from(DAYS), min_size=1))
def test_what_was_said_is_what_is_shown(hour: int, minute: int, days: set[str]) -> None:
    at, in_order = f"{hour:02}:{minute:02}", tuple(each for each in DAYS if each in days)
    kind, expression = intent(TimerWish(at=at, days=tuple(days)), None)
    timer = AgentTimer.model_construct(kind=kind, expression=expression)
    assert weekly(timer) == Weekly(at, in_order)
    assert intent(TimerWish(active=False), timer) == (kind, expression)


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("mon-fri", WORKDAYS),
        ("Sat, sunday", ("sat", "sun")),
        ("fri-mon", ("mon", "fri", "sat", "sun")),
        ("mon-sun", DAYS),
    ],
)
def test_days_as_they_are_typed(text: str, days: tuple[str, ...]) -> None:
    assert parse_days(text) == days


@pytest.mark.parametrize("text", ["", "mon-", "t", "montag", "mon-fri-sun", "1-5"])
def test_days_that_are_none(text: str) -> None:
    with pytest.raises(TimeNotUnderstood, match="is no day of the week"):
        parse_days(text)
