"""Nobody reads a name of the code: everything that is shown has words."""

from pathlib import Path

import pytest

from silas.companions.models import AgentTimer
from silas.companions.projection import PROVIDER_FIELDS
from silas.companions.timers import spoken_timer
from silas.companions.tools.catalogue import companion_tools
from silas.companions.words import (
    CHECKS,
    TOOLS,
    sent_in_words,
    spoken_change,
    spoken_token,
)
from silas.journal.notifications import entity, semantic, subtype
from silas.testing.companions import opened_device

REGISTRY = companion_tools()


def test_every_tool_has_words_and_no_words_are_left_over() -> None:
    assert set(TOOLS) == set(REGISTRY.names)


async def test_every_check_of_a_run_has_words(tmp_path: Path) -> None:
    async with opened_device(tmp_path) as device:
        await device.service.new("planner", category_ids=[device.categories["gym"]])
        await device.finish(await device.task("Squats", checklist_items=("Warm up",)))
        (key,) = await device.work()
        made = {each.check for each in (await device.service.trace(key)).policy_decisions}
        assert {"scope", "approval"} <= made <= set(CHECKS)


def test_everything_that_is_sent_is_told_in_words() -> None:
    told = sent_in_words(PROVIDER_FIELDS)
    assert not [each for each in told if "[]" in each or "_" in each]
    assert "what you said to it" in told
    assert "open steps" in told[-1]


def test_what_has_no_words_is_shown_by_its_name() -> None:
    assert sent_in_words({"now", "diary.secret"}) == ("the time and your time zone", "diary.secret")


@pytest.mark.parametrize(
    ("kind", "label", "what", "told"),
    [
        ("task", "Stretch", "created", "task “Stretch” added"),
        ("checklist_item", "Warm up", "updated", "step “Warm up” changed"),
        ("checklist_item", "Warm up", "moved", "step “Warm up” moved"),
        ("checklist", "Checklist", "created", "checklist added"),
        ("link", "link", "deleted", "link deleted"),
        ("thing", "x", "twisted", "thing “x” twisted"),
        ("time_entry", "time_entry", "created", "time added"),
    ],
)
def test_a_change_is_told_by_its_name(kind: str, label: str, what: str, told: str) -> None:
    assert spoken_change({"kind": kind, "label": label, "what": what}) == told


@pytest.mark.parametrize(
    ("token", "told"),
    [
        (subtype("task.status_changed", "done"), "when a task is done"),
        (subtype("task.status_changed", "in_progress"), "when a task is begun"),
        (subtype("change", "task.created"), "when a task is added"),
        (semantic("RATING"), "when a rating changes"),
        (entity("task-1"), "when the record task-1 changes"),
    ],
)
def test_what_wakes_it_is_a_sentence(token: object, told: str) -> None:
    assert spoken_token(token) == told  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "expression", "told"),
    [
        ("daily", "07:00", "every day at 07:00"),
        ("cron", "0 18 * * 0", "every Sunday at 18:00"),
        ("cron", "5 6 * * *", "every day at 06:05"),
        ("cron", "0 7 * * mon-fri", "every Monday to Friday at 07:00"),
        ("cron", "0 7 * * 6,0", "every Saturday and Sunday at 07:00"),
        ("cron", "30 7 * * mon,wed,fri", "every Monday, Wednesday and Friday at 07:30"),
        ("cron", "*/5 * * * *", "cron */5 * * * *"),
        ("cron", "0 7 1 * *", "cron 0 7 1 * *"),
        ("once", "2026-01-01T13:00:00.000000Z", "once at 2026-01-01 13:00 UTC"),
    ],
)
def test_a_timer_is_a_sentence(kind: str, expression: str, told: str) -> None:
    timer = AgentTimer.model_construct(kind=kind, expression=expression)
    assert spoken_timer(timer) == told
