"""Kinds: three that come with Silas, and one YAML file for your own, with problems by line."""

from datetime import timedelta
from pathlib import Path

import pytest

from silas.companions.errors import CompanionInvalid
from silas.companions.kinds.library import BUILT_IN, KindLibrary, parse_definition
from silas.companions.messages import AgentOperation
from silas.companions.models import AgentSubscription, AgentTimer
from silas.companions.tools.catalogue import companion_tools
from silas.testing.companions import opened_device

REGISTRY = companion_tools()

OWN = """
kind: gardener
display_name: Gardener
summary: Looks after plants.
instructions: Remind of watering.
capabilities: [task_read, task_write]
tools: [list_tasks_in_scope, create_task]
reads:
  - {tool: list_tasks_in_scope, arguments: {limit: 10}}
timers:
  - {name: morning, expression: "06:30"}
report:
  headline: The garden
  sections:
    - {id: open, title: Open, shows: open_tasks}
persona: {voice: Patient.}
"""


@pytest.mark.parametrize("kind", BUILT_IN)
def test_the_three_that_come_with_silas_are_in_order(kind: str) -> None:
    definition = KindLibrary(REGISTRY).get(kind)
    assert definition.kind == kind
    assert definition.report.sections
    assert definition.persona.anti_sycophancy_policy
    for name in definition.tools:
        tool = REGISTRY.get(name)
        assert tool is not None
        assert definition.profile.allows(name, tool.capabilities)


def test_your_own_is_one_file() -> None:
    definition = parse_definition(OWN, registry=REGISTRY)
    assert definition.kind == "gardener"
    assert definition.confirm_from == "medium"
    assert definition.offline == "report_only"


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("display_name", "dispaly_name", "line 3: dispaly_name is not a known key; did you mean "),
        (
            "create_task]",
            "create_tsk]",
            "no tool `create_tsk`; did you mean `create_task`",
        ),
        ("[task_read, task_write]", "[task_read]", "`create_task` needs the capability task_write"),
        ("[task_read, task_write]", "[task_reed]", "line 6: capabilities"),
        ("{limit: 10}", "{limit: 0}", "line 9: reads[0].arguments.limit must be at least 1"),
        ("{tool: list_tasks", "{tool: create_task, x: list_tasks", "line 9"),
        ('"06:30"', '"6.30"', "line 11: timers[0].expression must be a time of day"),
        ("shows: open_tasks", "shows: opentasks", "line 15"),
        ("headline:", "headlin:", "line 13: report.headlin is not a known key; did you mean `head"),
        ("kind: gardener", "kind: Gardener!", "line 2: kind must be small letters"),
        ("kind: gardener", "kind: [", "line"),
        (
            "persona: {voice: Patient.}",
            "provider_fields: [diary]\npersona: {voice: x}",
            "can never",
        ),
    ],
)
def test_a_problem_is_told_with_its_line(old: str, new: str, told: str) -> None:
    with pytest.raises(CompanionInvalid) as caught:
        parse_definition(OWN.replace(old, new, 1), registry=REGISTRY)
    assert told in caught.value.message


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(CompanionInvalid) as caught:
        parse_definition(
            OWN.replace("06:30", "x").replace("limit: 10", "limit: 0"), registry=REGISTRY
        )
    assert len(caught.value.details["problems"]) == 2


def test_a_file_cannot_take_the_place_of_a_kind_that_comes_with_silas(tmp_path: Path) -> None:
    (tmp_path / "planner.yaml").write_text(OWN.replace("kind: gardener", "kind: planner"))
    library = KindLibrary(REGISTRY, tmp_path)
    assert library.get("planner") == KindLibrary(REGISTRY).get("planner")
    with pytest.raises(CompanionInvalid):
        library.read(tmp_path / "planner.yaml")


def test_an_unknown_kind_is_told_what_was_probably_meant() -> None:
    with pytest.raises(CompanionInvalid, match="did you mean `planner`"):
        KindLibrary(REGISTRY).get("planer")


async def test_a_file_that_is_wrong_is_listed_with_what_is_wrong(tmp_path: Path) -> None:
    kinds = tmp_path / "kinds"
    kinds.mkdir()
    (kinds / "gardener.yaml").write_text(OWN)
    (kinds / "broken.yaml").write_text("kind: broken")
    async with opened_device(tmp_path, kinds=kinds) as device:
        shown = {each.kind: each for each in device.service.kinds()}
        assert list(shown)[: len(BUILT_IN)] == list(BUILT_IN)
        assert shown["gardener"].problem is None
        assert "line 1" in (shown["broken"].problem or "")


async def test_a_companion_keeps_what_it_was_made_from(tmp_path: Path) -> None:
    file = tmp_path / "gardener.yaml"
    file.write_text(OWN)
    async with opened_device(tmp_path) as device:
        made = await device.service.new(
            "gardener", category_ids=[device.categories["gym"]], file=file
        )
        file.write_text(
            OWN.replace("[task_read, task_write]", "[task_read, task_write, time_write]")
        )
        detail = await device.service.show(made.id)
        assert detail.capabilities == ("task_read", "task_write")
        (timer,) = await device.store.find(AgentTimer, {"agent_id": made.id})
        assert timer.expression == "06:30"


async def test_subscriptions_are_limited_to_the_companion_s_categories(tmp_path: Path) -> None:
    async with opened_device(tmp_path) as device:
        made = await device.service.new("planner", category_ids=[device.categories["gym"]])
        (before,) = await device.store.find(AgentSubscription, {"agent_id": made.id})
        assert before.predicate.category_ids == (device.categories["gym"],)
        await device.service.configure(made.id, category_ids=[device.categories["work"]])
        (after,) = await device.store.find(AgentSubscription, {"agent_id": made.id})
        assert after.predicate.category_ids == (device.categories["work"],)


@pytest.mark.parametrize("categories", [(), ("nowhere",)])
async def test_a_companion_needs_categories_that_there_are(
    tmp_path: Path, categories: tuple[str, ...]
) -> None:
    async with opened_device(tmp_path) as device:
        with pytest.raises(CompanionInvalid):
            await device.service.new("planner", category_ids=categories)


def test_a_budget_that_names_one_limit_keeps_the_others() -> None:
    """Two companions that wake each other must come to an end, whatever the file forgets."""
    budget = parse_definition(f"{OWN}budget: {{tokens: 5}}\n", registry=REGISTRY).budget
    assert (budget.tokens, budget.tool_calls, budget.runtime_ms) == (5, 500, 600_000)
    assert (
        parse_definition(
            f"{OWN}budget: {{tool_calls: null}}\n", registry=REGISTRY
        ).budget.tool_calls
        is None
    )


async def test_the_strategist_asks_before_it_moves_anything_whatever_else_was_said(
    tmp_path: Path,
) -> None:
    """The choice of a task is no yes to other due dates."""
    async with opened_device(tmp_path) as device:
        agent = await device.service.new("strategist", category_ids=[device.categories["gym"]])
        for title in ("Squats light", "Squats heavy"):
            await device.task(title, due_at=device.clock.now() - timedelta(days=3))
        await device.service.wake(agent.id, said="log 45 minutes on Squats")
        await device.work()
        asked = {each.id: each.prompt_text for each in await device.service.questions(agent.id)}
        blocked = await device.store.find(AgentOperation, {"agent_id": agent.id})
        assert blocked
        for each in blocked:
            (question,) = each.prompt_item_ids
            assert "Move them by a week" in asked[question]
