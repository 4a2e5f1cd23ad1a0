"""Skills that Silas makes, through the whole server and with a model that plays a script."""

from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, expect

from evals.firsthour.model import (
    PLAN_IT,
    Script,
    check,
    done,
    edit,
    plan,
    run,
    write,
)
from silas.app.review import open_questions
from silas.review.questions import Question
from tests.skills.place import GREET
from tests.web.browsing import BEYOND_THE_EDGE, DESK, PHONE, Person
from tests.web.test_accessibility import violations_by_day_and_night
from tests.web.test_planned_work import Talk, talking
from tests.web.test_skills_browser import slide_yes

SUM = "import sys\nprint('total', sum(map(int, open('numbers.txt'))))\n"
REPORT = plan(
    "Make the weekly report",
    "Write numbers.txt and sum.py, and run it.",
    add=["numbers.txt", "sum.py", "report.txt"],
    verify=[check("the report has a total", "cat report.txt", contains="total")],
)
WORK = [
    write("numbers.txt", "20\n22\n"),
    write("sum.py", SUM),
    run("python3", "sum.py"),
    write("report.txt", "total 42\n"),
    done("The report is made."),
]
SKILL_TEXT = (
    "---\nname: greeting\ndescription: Use it when somebody wants a greeting.\n---\n\n# Greeting\n"
    "\nSay hello with the tool `greet`.\n"
)
SIDECAR = """scripts:
  scripts/greet.py:
    description: Says hello to somebody.
    arguments:
      name: {type: string, max_length: 20}
    action: observe
    reversibility: reversible
    contained: true
    examples:
      - {name: Ada}
"""
MAKING = plan(
    "Make a greeting skill",
    "Make the skill greeting.",
    add=["greeting/SKILL.md", "greeting/silas.yaml", "greeting/scripts/greet.py"],
    verify=[check("it says when", "cat greeting/SKILL.md", contains="Use it when")],
    skills=["skill-maker"],
)


async def waiting(talk: Talk, kind: str) -> list[Question]:
    questions = open_questions(talk.place.core, talk.place.core.queue)
    return [each for each in await questions.open() if each.content.kind == kind]


async def asked(talk: Talk, kind: str) -> Question:
    """The question of this kind that the page is told of."""
    frame = "suggestion" if kind == "suggestion" else "decision"
    while not (found := await waiting(talk, kind)):
        await talk.line.until(frame)
    return found[0]


async def answer(talk: Talk, question: Question, value: str) -> None:
    questions = open_questions(talk.place.core, talk.place.core.queue)
    await questions.answer_with_vault(question.question_id, {"selected_value": value})


async def do(talk: Talk, text: str) -> None:
    card = await talk.ask(text)
    await talk.decide(card, "approved")
    await talk.done()
    # The card that undoes it is written in one transaction with everything that comes after work.
    await talk.line.until("approval_request", kind="result")


async def test_work_that_was_checked_is_offered_once_and_becomes_a_skill_by_two_signed_yes(
    tmp_path: Path,
) -> None:
    script = Script(proxy=[PLAN_IT, PLAN_IT], planner=[REPORT, REPORT], executor=[*WORK, *WORK])
    async with talking(tmp_path, script) as talk:
        await do(talk, "Make the weekly report")
        offer = await asked(talk, "suggestion")
        assert offer.content.intent == "Keep “Make the weekly report” as a skill"
        assert await talk.place.core.skills.get("make-the-weekly-report") is None
        await answer(talk, offer, "do_it")
        card = await asked(talk, "skill")
        assert card.content.intent == "Install the skill make-the-weekly-report?"
        assert await talk.place.core.skill_files.digest("make-the-weekly-report") is None
        await answer(talk, card, "approve")
        await talk.line.until("skills_changed")
        digest = await talk.place.core.skill_files.digest("make-the-weekly-report")
        assert digest is not None
        version = await talk.place.core.skills.version("make-the-weekly-report", digest)
        assert version is not None
        assert version.trial[0]["exit_code"] == 0, version.trial
        assert "total 42" in version.trial[0]["printed"]


@pytest.mark.parametrize("silent", ["declined", "edited", "off"])
async def test_no_offer_where_none_is_wanted(tmp_path: Path, silent: str) -> None:
    """Not twice, not for what fits once, and not if suggestions are off."""
    work = list(WORK)
    if silent == "edited":
        work.insert(4, edit("report.txt", "total 42", "total: 42"))
    script = Script(proxy=[PLAN_IT, PLAN_IT], planner=[REPORT, REPORT], executor=[*work, *work])
    more = {"SILAS_SUGGESTIONS__ENABLED": "false"} if silent == "off" else {}
    async with talking(tmp_path, script, **more) as talk:
        await do(talk, "Make the weekly report")
        if silent == "declined":
            await answer(talk, await asked(talk, "suggestion"), "not_now")
            (talk.files / "report.txt").unlink()
            await do(talk, "Make the weekly report")
        assert await waiting(talk, "suggestion") == []


async def test_files_that_were_made_are_removed_again_without_the_model(tmp_path: Path) -> None:
    """The script has nothing more for the executor: what was signed is run as it is."""
    script = Script(proxy=[PLAN_IT], planner=[REPORT], executor=list(WORK))
    async with talking(tmp_path, script) as talk:
        await talk.decide(await talk.ask("Make the weekly report"), "approved")
        await talk.done()
        undo = await talk.line.until("approval_request", kind="result")
        offer = await asked(talk, "suggestion")
        await talk.decide(undo, "approved")
        said = ""
        while "Done, and checked" not in said:
            said = (await talk.line.until("message", work_item_id=undo["items"][0]["id"]))["text"]
        assert not (talk.files / "report.txt").exists()
        assert await waiting(talk, "suggestion") == [offer]


async def test_a_skill_that_is_asked_for_is_made_in_the_sandbox_and_put_before_the_owner(
    tmp_path: Path,
) -> None:
    script = Script(
        proxy=[PLAN_IT],
        planner=[MAKING],
        executor=[
            write("greeting/SKILL.md", SKILL_TEXT),
            write("greeting/silas.yaml", SIDECAR),
            write("greeting/scripts/greet.py", GREET),
            done("The skill is made."),
        ],
    )
    async with talking(tmp_path, script) as talk:
        await do(talk, "Make a skill that greets people")
        assert "skill-maker" in talk.heard("planner")[0].text
        card = await asked(talk, "skill")
        assert card.content.intent == "Install the skill greeting?"
        assert await talk.place.core.skill_files.digest("greeting") is None
        assert [each["path"] for each in card.content.body["skill"]["files"]] == [
            "SKILL.md",
            "scripts/greet.py",
            "silas.yaml",
        ]
        assert await waiting(talk, "suggestion") == []


async def test_a_made_skill_that_cannot_be_offered_is_told(tmp_path: Path) -> None:
    script = Script(
        proxy=[PLAN_IT],
        planner=[MAKING],
        executor=[
            write(
                "greeting/SKILL.md", "---\nname: greeting\ndescription: Use it when.\n---\n\nx\n"
            ),
            write("greeting/silas.yaml", SIDECAR),
            write("greeting/scripts/greet.py", GREET),
            done("The skill is made."),
        ],
    )
    async with talking(tmp_path, script) as talk:
        await do(talk, "Make a skill that greets people")
        assert await waiting(talk, "skill") == []
        rows = await talk.place.core.database.fetch_all("SELECT body FROM audit_log")
        [told] = [body for (body,) in rows if '"skill_not_proposed"' in body]
        assert "Mend the description first" in told


@pytest.mark.slow
@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
async def test_the_offer_is_read_and_taken_up_in_the_page(
    tmp_path: Path, browser: Browser, size: Any
) -> None:
    script = Script(proxy=[PLAN_IT], planner=[REPORT], executor=list(WORK))
    async with talking(tmp_path, script) as talk:
        await do(talk, "Make the weekly report")
        await asked(talk, "suggestion")
        person = await Person.at(browser, size)
        page = person.page
        await page.emulate_media(color_scheme="light", reduced_motion="reduce")
        await person.pair(talk.place.web.link())
        if size is PHONE:
            await page.locator("[data-tab=review]:visible").click()
        offer = page.locator(".card-of-suggestion")
        await expect(offer).to_contain_text("Keep “Make the weekly report” as a skill")
        await expect(offer).to_contain_text("show you all of it before anything uses it")
        assert await page.evaluate(BEYOND_THE_EDGE) == []
        assert await violations_by_day_and_night(person) == []
        await person.card_is_awake()
        await offer.get_by_role("button", name="Draft it").click()
        card = page.locator(".card-of-skill")
        await expect(card).to_contain_text(
            "Install the skill make-the-weekly-report?", timeout=90_000
        )
        await card.get_by_text("scripts/make_the_weekly_report.py (").click()
        await expect(card).to_contain_text("sum.py")
        await slide_yes(person, card, "Install make-the-weekly-report")
        assert person.complaints == []
