"""A private and a business account: nothing crosses but by a policy that the owner signed."""

import hashlib
from pathlib import Path

import pytest

from silas.connections.domains import DomainPolicies, account_source, domains_in
from silas.connections.models import ConnectionRefused
from silas.kernel.taint import MAX_SOURCES
from silas.testing.work import FakeApprover
from silas.work.effects import FileChange
from silas.work.models import ENDED_WELL, WorkItemResult
from silas.work.origins import made_from_words
from tests.connections.place import ConnectionPlace, open_place
from tests.connections.test_use import PLAN, accounts_given, named, run
from tests.stream.database_writer import OldRows

OFFICE = "business:acme"
LOOKS_PRIVATE, LOOKS_OFFICE = named("letters_look", "Private"), named("letters_look", "Office")

WITHOUT_ACCOUNTS = "```run\ntrue\n```"


@pytest.fixture
async def place(tmp_path: Path):
    async with open_place(tmp_path) as place:
        await place.install(tmp_path / "written")
        await place.connect(name="Private")
        await place.connect("ada@acme.example", name="Office", domain=OFFICE)
        yield place


async def allow(place: ConnectionPlace, source: str, target: str, answer: str = "approve") -> None:
    asked = await place.service.cross(source, target)
    assert asked.card_id is not None
    questions = place.manager.cards.questions
    await questions.answer_with_vault(asked.card_id, {"selected_value": answer})
    await place.service.domains.answered((await questions.get(asked.card_id)).about)


async def crossings(place: ConnectionPlace) -> list[tuple[str, str, bool]]:
    found = (await place.service.list_connections()).crossings
    return [(each.source, each.target, each.intact) for each in found]


async def follow_up(place: ConnectionPlace, of: str, call: str) -> tuple[WorkItemResult, str]:
    """Run a plan that follows up another one; returns its result, and what its calls gave."""
    name = place.skills.core.ids.new("task")
    text = PLAN.format(name=name, calls=call)
    follows = f"follow_up_of: {of}\naccepts_unchecked: true\n"
    result = await place.skills.run_plan(
        text.replace("skills: [letters]\n", f"skills: [letters]\n{follows}"),
        approver=FakeApprover(),
        known=[of],
    )
    rows = await place.skills.core.database.fetch_all(
        "SELECT * FROM work_ledger WHERE work_item_id = ? ORDER BY seq", (name,)
    )
    return result, "\n".join(map(str, rows))


async def test_without_a_policy_work_uses_one_domain(place: ConnectionPlace) -> None:
    given = accounts_given(place)
    both, said = await run(place, LOOKS_PRIVATE, LOOKS_OFFICE)
    assert both.status not in ENDED_WELL
    assert "nothing crosses without your policy" in said
    assert "silas connections cross personal business:acme" in said
    assert {each.credential.username for each in given} == {"ada@example.org"}


async def test_a_signed_policy_lets_it_cross_in_its_direction_alone(place: ConnectionPlace) -> None:
    await allow(place, "personal", OFFICE)
    assert await crossings(place) == [("personal", OFFICE, True)]
    both, said = await run(place, LOOKS_PRIVATE, LOOKS_OFFICE)
    assert both.status in ENDED_WELL, (both, said)
    back, said = await run(place, LOOKS_OFFICE, LOOKS_PRIVATE)
    assert back.status not in ENDED_WELL, "the other way is another policy"
    assert "has read of business:acme" in said
    around, said = await run(place, LOOKS_PRIVATE, LOOKS_OFFICE, LOOKS_PRIVATE)
    assert around.status not in ENDED_WELL, "what was read of the office does not come home"
    assert (await place.service.cross("personal", OFFICE)).card_id is None
    events = await place.events()
    assert "domain_crossing_allowed" in events


async def test_a_no_is_no_policy(place: ConnectionPlace) -> None:
    await allow(place, "personal", OFFICE, answer="decline")
    assert await crossings(place) == []
    both, said = await run(place, LOOKS_PRIVATE, LOOKS_OFFICE)
    assert both.status not in ENDED_WELL, (both, said)


async def test_taken_back_nothing_crosses_any_more(place: ConnectionPlace) -> None:
    await allow(place, "personal", OFFICE)
    await place.service.uncross("personal", OFFICE)
    assert await crossings(place) == []
    both, said = await run(place, LOOKS_PRIVATE, LOOKS_OFFICE)
    assert both.status not in ENDED_WELL, (both, said)
    assert "domain_crossing_taken_back" in await place.events()
    with pytest.raises(ConnectionRefused, match="Nothing may cross"):
        await place.service.uncross("personal", OFFICE)


FORGERIES = {
    "turned round": "UPDATE domain_crossings SET source = 'business:acme', target = 'personal'",
    "widened": "UPDATE domain_crossings SET target = 'business:other'",
    "written by hand": "UPDATE domain_crossings SET seal = 'x'",
    "without a seal": "UPDATE domain_crossings SET seal = NULL, seal_key_id = NULL",
}


@pytest.mark.parametrize("forged", FORGERIES.values(), ids=FORGERIES)
async def test_a_row_that_somebody_else_wrote_is_no_policy(
    place: ConnectionPlace, forged: str
) -> None:
    await allow(place, "personal", OFFICE)
    await place.skills.core.database.execute(forged)
    [(_, _, intact)] = await crossings(place)
    assert not intact
    for calls in ((LOOKS_PRIVATE, LOOKS_OFFICE), (LOOKS_OFFICE, LOOKS_PRIVATE)):
        result, said = await run(place, *calls)
        assert result.status not in ENDED_WELL, (result, said)


async def test_a_policy_that_was_taken_back_stays_so_if_its_row_is_put_back(
    place: ConnectionPlace,
) -> None:
    await allow(place, "personal", OFFICE)
    held = await OldRows.of(place.skills.core.database)
    await place.service.uncross("personal", OFFICE)
    await held.put_back(place.skills.core.database)
    assert await crossings(place) == [("personal", OFFICE, False)]
    await place.service.uncross("personal", OFFICE)
    await allow(place, "personal", OFFICE)
    assert await crossings(place) == [("personal", OFFICE, True)], "signed anew, it holds"


async def test_an_old_yes_opens_nothing_again(place: ConnectionPlace) -> None:
    asked = await place.service.cross("personal", OFFICE)
    questions = place.manager.cards.questions
    await questions.answer_with_vault(str(asked.card_id), {"selected_value": "approve"})
    about = (await questions.get(str(asked.card_id))).about
    await place.service.domains.answered(about)
    await place.service.uncross("personal", OFFICE)
    await place.service.domains.answered(about)
    assert await crossings(place) == [], "the yes was used up"


@pytest.mark.parametrize(
    ("source", "target", "why"),
    [
        ("personal", "personal", "one domain"),
        ("personal", "business:nobody", "No account belongs to business:nobody"),
    ],
)
async def test_what_makes_no_sense_is_not_asked(
    place: ConnectionPlace, source: str, target: str, why: str
) -> None:
    with pytest.raises(ConnectionRefused, match=why):
        await place.service.cross(source, target)


async def test_work_that_follows_keeps_what_was_read(place: ConnectionPlace) -> None:
    first, said = await run(place, LOOKS_PRIVATE)
    assert first.status in ENDED_WELL, said
    other, said = await run(place, LOOKS_OFFICE)
    assert other.status in ENDED_WELL, "other work is its own"
    _, said = await follow_up(place, first.work_item_id, LOOKS_OFFICE)
    assert "has read of personal: nothing crosses" in said
    between, said = await follow_up(place, first.work_item_id, WITHOUT_ACCOUNTS)
    assert between.status in ENDED_WELL, between.last_error
    _, said = await follow_up(place, between.work_item_id, LOOKS_OFFICE)
    assert "has read of personal: nothing crosses" in said, "also by way of work without accounts"
    _, said = await follow_up(place, first.work_item_id, LOOKS_PRIVATE)
    assert "ada@example.org" in said, "in its own domain it goes on"


async def test_what_a_plan_was_made_from_keeps_its_domain(place: ConnectionPlace) -> None:
    """A conversation that has heard of one domain makes plans with its sources."""
    core = place.skills.core
    name = core.ids.new("task")
    result, _ = await run(place, LOOKS_PRIVATE)
    read = await core.work.origins.of_work([result.work_item_id])
    assert any(each.startswith("account of personal: Private") for each in read.sources)
    await core.work.origins.note_work(name, read)
    text = PLAN.format(name=name, calls=LOOKS_OFFICE)
    crossed = await place.skills.run_plan(text, approver=FakeApprover())
    assert crossed.status not in ENDED_WELL


def test_sources_that_were_cut_could_be_of_any_domain() -> None:
    every = ("personal", OFFICE)
    few = [account_source("Private", "personal"), "https://a.test/account of x: y"]
    assert domains_in(few, every) == {"personal"}
    many = [f"https://a.test/{number}" for number in range(MAX_SOURCES)]
    assert domains_in(many, every) == {*every}


def test_a_file_keeps_the_domains_of_every_account_that_it_was_made_from() -> None:
    read = [
        "https://a.test/",
        account_source("Private", "personal"),
        account_source("Post", OFFICE),
    ]
    made = f"the file a.txt ({made_from_words(read)})"
    assert domains_in([made], ()) == {"personal", OFFICE}
    again = f"the file b.txt ({made_from_words(['https://b.test/', made])})"
    assert domains_in([again], ()) == {"personal", OFFICE}


async def test_what_was_written_into_a_file_keeps_its_domain(place: ConnectionPlace) -> None:
    core = place.skills.core
    result, _ = await run(place, LOOKS_PRIVATE)
    read = await core.work.origins.of_work([result.work_item_id])
    content = b"what the letters said"
    folder = place.skills.root / "notes"
    folder.mkdir()
    (folder / "a.txt").write_bytes(content)
    change = FileChange(path="a.txt", before=None, after=hashlib.sha256(content).hexdigest())
    await core.work.origins.note_files(
        str(folder), [change], read, work_item_id=result.work_item_id
    )
    found = await core.work.origins.of_content(folder, "a.txt", content)
    assert domains_in(found.sources, ()) == {"personal"}


async def test_an_account_alone_needs_no_policy(tmp_path: Path) -> None:
    async with open_place(tmp_path) as place:
        await place.install(tmp_path / "written")
        await place.connect()
        policies = DomainPolicies(place.manager.store)
        many = [f"https://a.test/{number}" for number in range(MAX_SOURCES)]
        assert await policies.refused("personal", work=["task_1"], sources=many) == []
