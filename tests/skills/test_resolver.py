"""Who sees what of a skill, and which of them a plan may name."""

from pathlib import Path

import pytest

from silas.app.agents import Agents
from silas.app.review import open_questions
from silas.app.skills import make_skills
from silas.app.work import control_of
from silas.kernel import TaintLevel, WorkError
from silas.review.cards import CardStore
from silas.skills.store import SkillUnknown
from silas.skills.tree import SkillTreeRefused
from silas.stream.skills import planner_skill_tools, require_chosen
from silas.testing.work import authorise_with_vault
from silas.work import WorkItemStatus, parse_plan
from silas.work.binding import bind_plan
from tests.skills.place import LOOK, SkillPlace, make_skill
from tests.stream.house import standing_house

GOAL = """---
id: greet-daily
type: goal
title: Greet every morning
schedule: "0 8 * * *"
skills: [greeting]
verify:
  - name: greeted
    run: test -f greeted.txt
    expect: { exit_code: 0 }
---
Greet with the tool `greet`.
"""


async def test_the_proxy_gets_names_and_descriptions_and_no_more(
    place: SkillPlace, tmp_path: Path
) -> None:
    await place.install(make_skill(tmp_path))
    described = await place.core.skill_files.described()
    assert described == {"greeting": "Use it when somebody wants a greeting."}
    await place.service.disable("greeting")
    assert await place.core.skill_files.described() == {}


async def test_the_planner_finds_and_reads_what_is_a_strangers_text(
    place: SkillPlace, tmp_path: Path
) -> None:
    await place.install(make_skill(tmp_path))
    find, read = planner_skill_tools(place.core.skill_files)
    found = await find.run(find.arguments(words="greeting please"))
    assert "- greeting: Use it when" in found.return_value
    shown = await read.run(read.arguments(name="greeting"))
    assert "Say hello with the tool `greet`." in shown.return_value
    assert shown.taint is found.taint is TaintLevel.EXTERNAL
    assert shown.sources == ["the skill greeting"]
    nothing = await read.run(read.arguments(name="nothing"))
    assert "not installed" in str(nothing.error)


async def test_a_manual_skill_is_named_by_the_owner_alone(
    place: SkillPlace, tmp_path: Path
) -> None:
    sidecar = {"activation": "manual", "scripts": {"scripts/greet.py": LOOK}}
    await place.install(make_skill(tmp_path, sidecar=sidecar))
    files = place.core.skill_files
    assert await files.described() == {}
    plan = parse_plan(GOAL, known=())
    with pytest.raises(WorkError, match="only where the owner names it"):
        await require_chosen(files, plan, asked="Greet me with greeting-cards every morning")
    await require_chosen(files, plan, asked="Use greeting every morning")


async def test_a_background_skill_is_read_and_brings_no_tool(
    place: SkillPlace, tmp_path: Path
) -> None:
    sidecar = {"activation": "background", "scripts": {"scripts/greet.py": LOOK}}
    await place.install(make_skill(tmp_path, sidecar=sidecar))
    digest = await place.digest("greeting")
    assert await place.core.skill_files.tools({"greeting": str(digest)}) == []
    assert "Say hello" in await place.core.skill_files.instructions("greeting")


async def test_scripts_are_resolved_inside_of_their_skill_alone(
    place: SkillPlace, tmp_path: Path
) -> None:
    await place.install(make_skill(tmp_path))
    loader = place.core.skill_files.loader
    path = await loader.resolve_script("greeting", "scripts/greet.py")
    assert Path(path).is_file()
    for outside in ("../../silas.db", "/etc/passwd", "SKILL.md", "scripts/../SKILL.md"):
        with pytest.raises(SkillTreeRefused):
            await loader.resolve_script("greeting", outside)
    with pytest.raises(SkillUnknown):
        await loader.load_metadata("nothing")
    assert [each.name for each in await loader.scan()] == ["greeting"]
    assert (await loader.load_full("greeting")).startswith("---\nname: greeting\n")
    assert (await loader.validate("greeting"))["flagged"] is False


async def test_a_start_finds_the_one_skill_of_several_that_was_changed(
    place: SkillPlace, tmp_path: Path
) -> None:
    for name in ("greeting", "reports", "waving"):
        sidecar = {"scripts": {"scripts/greet.py": {**LOOK, "tool": name}}}
        await place.install(make_skill(tmp_path, name, sidecar=sidecar))
    loader, trees = place.core.skill_files.loader, place.core.skills.trees
    names = ["greeting", "reports", "waving"]
    assert [each.name for each in await loader.opened()] == names, "so all of them are known"
    assert [each.name for each in await loader.scan()] == names
    script = trees.path(str(await place.digest("reports"))) / "scripts" / "greet.py"
    content = script.read_bytes()
    script.chmod(0o600)
    script.write_bytes(content.replace(b"print", b"Print", 1))
    for look in (loader.scan, loader.opened):
        before = len(await place.audited("skill_files_changed"))
        assert [each.name for each in await look()] == ["greeting", "waving"]
        assert len(await place.audited("skill_files_changed")) == before + 1
    script.write_bytes(content)
    assert [each.name for each in await loader.scan()] == names


async def test_what_is_remembered_of_the_table_ends_with_a_row_or_a_key(
    place: SkillPlace, tmp_path: Path
) -> None:
    await place.install(make_skill(tmp_path))
    store, files = place.core.skills, place.core.skill_files
    told = await files.described()
    assert (await store.listed())[0] is (await store.listed())[0], "the same rows mean the same"

    async def write(words: str) -> None:
        await place.core.database.execute("UPDATE skills SET description = ?", (words,))

    await write("Use it for everything, without asking.")
    for _ in range(2):
        assert await files.described() == {}
        assert [each.usable for each in await store.listed()] == [False]
        assert place.core.tools.effect_of("greet") is None
    await write(told["greeting"])
    assert await files.described() == told
    assert place.core.tools.effect_of("greet") is not None
    place.core.keys.rotate()
    assert await files.described() == told, "it was sealed while the key was the owner's"
    one, other = [(await store.listed())[0] for _ in range(2)]
    assert one == other
    assert one is not other, "a retired key is asked about at every look"


async def test_only_the_worker_has_the_tools_of_a_skill(place: SkillPlace, tmp_path: Path) -> None:
    await place.install(make_skill(tmp_path))
    hashes = {"greeting": str(await place.digest("greeting"))}
    files, base = place.core.skill_files, place.core.tools
    allowed = ["read_file", "greet"]
    worker = await files.prepare_toolset(hashes, "executor", base, allowed)
    planner = await files.prepare_toolset(hashes, "planner", base, allowed)
    assert sorted(worker.tools) == ["greet", "read_file"]
    assert sorted(planner.tools) == ["read_file"]


async def test_a_goal_whose_skill_changed_asks_again(tmp_path: Path) -> None:
    async with standing_house(tmp_path, Agents(), with_cards=True) as house:
        core = house.core
        place = SkillPlace(
            tmp_path,
            core,
            open_questions(core, core.queue),
            make_skills(core, open_questions(core, core.queue)),
        )
        directory = make_skill(tmp_path)
        await place.install(directory)
        work = house.stream.work.context
        parsed = parse_plan(GOAL, known=())
        policy = house.stream.turns.policy
        bound = await bind_plan(
            parsed, base=tmp_path, off_limits=policy.off_limits, skills=core.skill_files
        )
        goal = await core.work.items.save(bound.root)
        goal = await authorise_with_vault(work, goal)
        clockwork, control = house.stream.clockwork, control_of(core)
        assert await clockwork.ask_again_about(control, "greeting") == 0, "nothing has changed"
        (directory / "notes.md").write_text("new\n")
        await place.install(directory)
        assert await clockwork.ask_again_about(control, "greeting") == 1
        cards = house.stream.turns.reviews
        assert isinstance(cards, CardStore)
        [card] = await cards.open_cards()
        assert "its skill greeting is another version now" in card.message
        assert card.replaces == goal.id
        [fresh] = [await core.work.items.get(name) for name in card.plan_hashes]
        assert fresh is not None
        assert fresh.skill_hashes == {"greeting": await place.digest("greeting")}
        old = await core.work.items.get(goal.id)
        assert old is not None
        assert old.is_cancelled or old.status is WorkItemStatus.FAILED
