"""In a real Chromium: a skill of each foreign dialect is read, approved, installed and used.

All forty go the same way at the command line (`cli/test_skills.py`).
"""

import json
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from evals.firsthour.model import PLAN_IT, Script, plan
from tests.skills.dialects import DIALECTS
from tests.web.browsing import BEYOND_THE_EDGE, PHONE, Person
from tests.web.test_ordinary_requests import with_model
from tests.web.test_skills_browser import ask_for, item, open_skills, slide_yes

pytestmark = pytest.mark.slow
# Which of the ten, a call of its tool, and what that must say.
USED = {
    "claude": (0, "word_count_claude", {"file": "note.txt", "lines": True}, "2"),
    "codex": (3, "json_check_codex", {"words": ["good.json"]}, "valid"),
    "openclaw": (4, "date_maths_openclaw", {"start": "2026-01-01", "end": "2026-01-31"}, "30"),
    "hermes": (6, "line_sort_hermes", {"word_1": "note.txt"}, "one two"),
}
NOT_GRANTED = {
    "claude": "allowed-tools",
    "codex": "mcp",
    "openclaw": "install",
    "hermes": "HERMES_TOKEN",
}


async def test_a_skill_of_each_dialect_is_installed_and_used_in_the_page(
    tmp_path: Path, browser: Browser
) -> None:
    names = {}
    for dialect, (number, *_) in USED.items():
        name, files = DIALECTS[dialect](number, f"-{dialect}")
        names[dialect] = name
        for path, text in files.items():
            target = tmp_path / "foreign" / name / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
    calls = [
        "```file path=note.txt\nthree four\none two\n```\n\n```file path=good.json\n{}\n```",
        *(f"```call tool={tool}\n{json.dumps(args)}\n```" for _, tool, args, _ in USED.values()),
    ]
    using = plan(
        "Use four skills",
        "\n\n".join(calls),
        add=["note.txt", "good.json"],
        skills=list(names.values()),
        script=True,
        without_proof=True,
    )
    script = Script(proxy=[PLAN_IT], planner=[using], executor=[])
    async with with_model(tmp_path, script) as owner:
        person = await Person.at(browser, PHONE)
        page = person.page
        await page.emulate_media(color_scheme="light", reduced_motion="reduce")
        await person.pair(owner.place.web.link())
        for dialect, name in names.items():
            await open_skills(page, PHONE)
            card = await ask_for(page, tmp_path / "foreign" / name)
            await expect(card).to_contain_text(f"Install the skill {name}?")
            await expect(card).to_contain_text(NOT_GRANTED[dialect])
            assert await page.evaluate(BEYOND_THE_EDGE) == []
            await slide_yes(person, card, f"Install {name}")
            await open_skills(page, PHONE)
            await expect(item(page, name)).to_contain_text("Never used")
        await person.go("stream")
        await person.say(f"Use {', '.join(names.values())}")
        await person.look_at_plan()
        card = page.locator(".card-plan, .card").first
        for name in names.values():
            await expect(card).to_contain_text(name)
        await person.approve()
        ended = page.get_by_role("group", name="Work").last
        await expect(ended).to_contain_text("Done, not checked")
        rows = await owner.place.core.database.fetch_all("SELECT result FROM work_ledger")
        said = "\n".join(str(row[0]) for row in rows)
        for _, tool, _, told in USED.values():
            assert told in said, tool
        await open_skills(page, PHONE)
        for name in names.values():
            await expect(item(page, name)).not_to_contain_text("Never used")
        assert person.complaints == []
