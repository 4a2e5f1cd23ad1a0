"""A skill is installed by the owner's signed yes to exactly its bytes, and by nothing else."""

from dataclasses import replace
from pathlib import Path

import pytest

from silas.skills.installing import SkillRefused
from silas.skills.store import SkillState, SkillUnknown, VersionState
from silas.testing import FakeClock
from tests.skills.place import SkillPlace, make_skill, open_place


async def test_a_yes_installs_what_the_card_showed(place: SkillPlace, tmp_path: Path) -> None:
    question = await place.propose(make_skill(tmp_path))
    shown = question.content.body["skill"]
    assert question.content.risk == "high"
    assert question.content.taint == "external"
    assert [each["path"] for each in shown["files"]] == [
        "SKILL.md",
        "scripts/greet.py",
        "silas.yaml",
    ]
    assert await place.digest("greeting") is None, "nothing before the yes"
    await place.decide(question)
    assert await place.digest("greeting") == shown["digest"]
    version = await place.core.skills.version("greeting", shown["digest"])
    assert version is not None
    assert version.state is VersionState.INSTALLED
    assert version.trial[0]["printed"] == "hello Ada\n"
    [entry] = await place.audited("skill_installed")
    assert shown["digest"] in entry
    [(token,)] = await place.core.database.fetch_all("SELECT token FROM approval_tokens")
    assert '"skill_install"' in token


async def test_a_no_leaves_nothing(place: SkillPlace, tmp_path: Path) -> None:
    question = await place.propose(make_skill(tmp_path))
    await place.decide(question, "decline")
    assert await place.digest("greeting") is None
    assert list(place.core.paths.skills.iterdir()) == []
    assert await place.audited("skill_declined")


async def test_what_was_decided_and_not_followed_yet_does_not_wait_for_the_owner(
    tmp_path: Path,
) -> None:
    clock = FakeClock()
    async with open_place(tmp_path, clock=clock) as place:

        async def standing() -> tuple[str | None, bool]:
            [found] = (await place.service.list_skills()).waiting
            return found.answer, found.follow_until is not None

        question = await place.propose(make_skill(tmp_path))
        assert await standing() == (None, False)
        answer = place.questions.answer_with_vault
        await answer(question.question_id, {"selected_value": "approve"})
        assert await standing() == ("approve", True)
        clock.advance(minutes=31)
        assert await standing() == ("approve", False)
        await place.follow(question)
        assert await place.digest("greeting") is None, "it is too late, as the list said"
        question = await place.propose(tmp_path / "greeting")
        await answer(question.question_id, {"selected_value": "decline"})
        assert await standing() == ("decline", False)
        await place.follow(question)
        await place.propose(tmp_path / "greeting")
        clock.advance(days=8)
        assert await standing() == ("expired", False)


async def test_the_same_version_is_not_asked_for_twice(place: SkillPlace, tmp_path: Path) -> None:
    directory = make_skill(tmp_path)
    await place.install(directory)
    with pytest.raises(SkillRefused, match="installed already"):
        await place.propose(directory)


async def test_a_changed_byte_is_another_version_with_its_own_card(
    place: SkillPlace, tmp_path: Path
) -> None:
    directory = make_skill(tmp_path)
    await place.install(directory)
    first = await place.digest("greeting")
    (directory / "scripts" / "greet.py").write_text("print('hi')\n")
    question = await place.propose(directory)
    assert question.content.intent == "Update the skill greeting?"
    assert question.content.body["skill"]["changes"]["changed"] == ["scripts/greet.py"]
    assert await place.digest("greeting") == first, "until the yes, the old one is in force"
    await place.decide(question)
    versions = {each.state: each.reason for each in await place.core.skills.versions("greeting")}
    assert set(versions) == {VersionState.INSTALLED}, versions
    second = await place.digest("greeting")
    assert second not in (None, first)
    back = await place.service.rollback("greeting")
    assert back.digest == first
    assert await place.digest("greeting") == first


async def test_what_is_disabled_is_not_there_until_it_is_enabled(
    place: SkillPlace, tmp_path: Path
) -> None:
    await place.install(make_skill(tmp_path))
    await place.service.disable("greeting")
    assert await place.digest("greeting") is None
    with pytest.raises(SkillRefused, match="disabled already"):
        await place.service.disable("greeting")
    await place.service.enable("greeting")
    assert await place.digest("greeting") is not None


async def test_what_is_removed_is_erased(place: SkillPlace, tmp_path: Path) -> None:
    directory = make_skill(tmp_path)
    await place.install(directory)
    removed = await place.service.remove("greeting")
    assert removed.state is SkillState.REMOVED
    assert list(place.core.paths.skills.iterdir()) == []
    assert await place.core.database.fetch_all("SELECT * FROM skill_versions") == []
    with pytest.raises(SkillUnknown):
        await place.service.show("greeting")
    await place.install(directory)
    assert await place.digest("greeting") is not None


async def test_a_newer_proposal_takes_the_place_of_an_older_one(
    place: SkillPlace, tmp_path: Path
) -> None:
    directory = make_skill(tmp_path)
    older = await place.propose(directory)
    (directory / "notes.md").write_text("more\n")
    newer = await place.propose(directory)
    assert (await place.questions.get(older.question_id)).state == "outdated"
    await place.decide(newer)
    assert await place.digest("greeting") == newer.content.body["skill"]["digest"]


async def test_the_name_of_a_tool_is_one_skills_alone(place: SkillPlace, tmp_path: Path) -> None:
    await place.install(make_skill(tmp_path))
    with pytest.raises(SkillRefused, match="The tool greet is the skill greeting's"):
        await place.propose(make_skill(tmp_path, "other"))


async def test_no_skill_takes_the_name_of_a_tool_of_silas(
    place: SkillPlace, tmp_path: Path
) -> None:
    tool = {"description": "Not this.", "tool": "shell_exec"}
    sidecar = {"scripts": {"scripts/greet.py": tool}}
    with pytest.raises(SkillRefused, match="shell_exec is Silas' own"):
        await place.propose(make_skill(tmp_path, sidecar=sidecar))


async def test_a_description_that_lists_steps_is_refused_and_a_strangers_is_told(
    place: SkillPlace, tmp_path: Path
) -> None:
    steps = "First open the file, then read it, then write it, finally close it and report."
    own, foreign = make_skill(tmp_path / "own"), make_skill(tmp_path / "foreign")
    for directory, more in ((own, ""), (foreign, "context: fork\n")):
        text = (directory / "SKILL.md").read_text()
        front = f"---\nname: greeting\ndescription: {steps}\n{more}---\n"
        (directory / "SKILL.md").write_text(front + text.split("---\n", 2)[2])
    with pytest.raises(SkillRefused, match="lists steps"):
        await place.propose(own)
    question = await place.propose(foreign)
    shown = question.content.body["skill"]
    assert any("lists steps" in each["message"] for each in shown["findings"])
    assert any("context" in each for each in shown["not_granted"])


async def test_skills_of_others_stay_out_where_the_settings_say_so(
    place: SkillPlace, tmp_path: Path
) -> None:
    directory = make_skill(tmp_path, sidecar={})
    text = (directory / "SKILL.md").read_text()
    (directory / "SKILL.md").write_text(text.replace("\n---\n", "\ncontext: fork\n---\n", 1))
    service = replace(place.service, policy=replace(place.service.policy, may_import=False))
    with pytest.raises(SkillRefused, match="not taken in from there"):
        await service.install(str(directory))
