"""Letters: which plans are one, what an edit of one changes, and how risky it is to send."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from silas.gates import ActionEnvelope
from silas.gates.envelopes import is_inside, still_good
from silas.gates.risk import RiskLevel
from silas.kernel import TaintLevel
from silas.storage import SqliteDatabase, Transaction
from silas.work.authorisation import plan_risk
from silas.work.letters import is_to_known, is_written_out, letter_of, with_letter
from silas.work.models import WorkItem

ARGS: dict[str, Any] = {
    "account": "Private",
    "to": ["Ann@Example.com"],
    "subject": "Re: Lunch?",
    "text": "Tuesday is fine.",
}
AS_WRITTEN = {"tool": "mail_send", "as_written": True, "most": 1}


def block(args: Any = ARGS, tool: str = "mail_send") -> str:
    return f"```call tool={tool}\n{json.dumps(args, indent=2)}\n```\n"


def plan(body: str | None = None, **keys: Any) -> WorkItem:
    said = {
        "id": "answer-1",
        "type": "task",
        "title": "Answer Ann",
        "script": True,
        "approvals": [AS_WRITTEN],
        "body": f"Send this mail.\n\n{block() if body is None else body}",
        **keys,
    }
    return WorkItem.model_validate(said)


def test_a_letter_is_read_from_the_text_that_is_signed() -> None:
    letter = letter_of(plan())
    assert letter is not None
    assert (letter.tool, letter.text) == ("mail_send", "Tuesday is fine.")
    assert letter.recipients == {"ann@example.com"}
    assert letter.heading == "To: Ann@Example.com\nSubject: Re: Lunch?\nFrom: Private"


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"script": False}, id="a model would carry it out"),
        pytest.param({"approvals": []}, id="nothing is covered"),
        pytest.param({"approvals": [AS_WRITTEN, {"tool": "mail_send"}]}, id="more is covered"),
        pytest.param({"workspace": {"network": ["evil.test"]}}, id="it reaches a host"),
        pytest.param({"body": block() + "\n```run\ndate\n```\n"}, id="it runs a command"),
        pytest.param({"body": block(tool="mail_delete")}, id="the call is not covered"),
    ],
)
def test_what_does_more_than_it_shows_is_no_letter(other: dict[str, Any]) -> None:
    item = plan(**other)
    assert not is_written_out(item)
    assert letter_of(item) is None
    assert with_letter(item, "Other words.") is None


@pytest.mark.parametrize("args", [{**ARGS, "to": []}, {"to": ["a@b.test"]}, {**ARGS, "text": 1}])
def test_what_has_no_recipient_or_no_text_is_no_letter(args: dict[str, Any]) -> None:
    assert letter_of(plan(block(args))) is None


def test_two_mails_are_no_letter() -> None:
    assert letter_of(plan(block() + "\n" + block({**ARGS, "text": "And more."}))) is None


@given(text=st.text(min_size=1, max_size=200))
def test_an_edit_changes_the_text_and_nothing_else_or_is_refused(text: str) -> None:
    before = plan()
    changed = with_letter(before, text)
    if changed is None:
        return
    after = letter_of(changed)
    assert after is not None
    assert after.text == text
    assert {**after.args, "text": ""} == {**ARGS, "text": ""}
    assert changed.model_copy(update={"body": before.body}) == before


@pytest.mark.parametrize("text", ["Yes.\n\nAnn", "```\nrun\n```", 'a "quote" \\ and ümläut', "{}"])
def test_ordinary_texts_can_be_written(text: str) -> None:
    assert with_letter(plan(), text) is not None


@pytest.mark.parametrize("text", ["", " \n "])
def test_an_empty_text_is_not_sent(text: str) -> None:
    assert with_letter(plan(), text) is None


# Who is known, and what a stranger may have put there.


async def known(
    database: SqliteDatabase,
    taint: TaintLevel = TaintLevel.OWNER,
    sent: tuple[str, ...] = ("ann@example.com",),
    result: str = '{"success": true}',
    **args: Any,
) -> bool:
    def look(tx: Transaction) -> bool:
        made = json.dumps({**ARGS, "to": list(sent)})
        tx.execute(
            "INSERT INTO work_ledger (work_item_id, attempt, seq, tool, args, started_at, result) "
            "VALUES ('w', 1, 1, 'mail_send', ?, '2026-01-01T00:00:00.000000Z', ?)",
            (made, result),
        )
        letter = letter_of(plan(block({**ARGS, **args})))
        assert letter is not None
        return is_to_known(tx, letter, taint)

    return await database.transaction(look)


async def test_somebody_who_got_a_mail_before_is_known(database: SqliteDatabase) -> None:
    assert await known(database, TaintLevel.EXTERNAL)


@pytest.mark.parametrize("field", ["to", "cc", "bcc"])
async def test_one_new_recipient_makes_it_high(database: SqliteDatabase, field: str) -> None:
    everybody: dict[str, Any] = {
        "to": ["ann@example.com"],
        field: ["ann@example.com", "eve@evil.test"],
    }
    assert not await known(database, **everybody)


@pytest.mark.parametrize("result", ['{"success": false}', "not JSON", '"success"'])
async def test_a_mail_that_was_not_sent_makes_nobody_known(
    database: SqliteDatabase, result: str
) -> None:
    assert not await known(database, result=result)


@pytest.mark.parametrize(
    "text",
    ["See https://evil.test", "evil.com/pay", "Pay 40 €", "40 EUR", "DE44 5001 0517 5407 3249 31"],
)
async def test_a_link_or_an_amount_counts_where_a_stranger_had_a_part(
    database: SqliteDatabase, text: str
) -> None:
    assert not await known(database, TaintLevel.EXTERNAL, text=text)


async def test_the_owners_own_link_counts_as_his(database: SqliteDatabase) -> None:
    assert await known(database, text="See https://example.org")


def test_a_letter_is_high_until_somebody_knows_its_recipients() -> None:
    # A tool that nobody has declared may do anything.
    risk = plan_risk(plan(), TaintLevel.OWNER, lambda _tool: None)
    assert risk in (RiskLevel.HIGH, RiskLevel.IRREVERSIBLE)


# The envelope that takes a call as it is written.


def test_as_written_covers_the_call_of_the_script_alone() -> None:
    envelope = ActionEnvelope.model_validate(AS_WRITTEN)
    assert is_inside([envelope], "mail_send", ARGS, written=True)
    assert not is_inside([envelope], "mail_send", ARGS)
    assert not is_inside([envelope], "mail_delete", ARGS, written=True)


def test_a_call_that_is_written_is_covered_by_nothing_else() -> None:
    described = ActionEnvelope.model_validate(
        {"tool": "mail_send", "constraints": {"to": {"equals": "ann@example.com"}}}
    )
    assert not is_inside([described], "mail_send", ARGS, written=True)


def test_as_written_is_used_up() -> None:
    envelope = ActionEnvelope.model_validate(AS_WRITTEN)
    assert still_good([envelope], []) == [envelope]
    assert still_good([envelope], [("mail_send", {"to": ["anybody"]})]) == []


def test_as_written_takes_no_constraints() -> None:
    with pytest.raises(ValidationError, match="leave the constraints out"):
        ActionEnvelope.model_validate({**AS_WRITTEN, "constraints": {"to": {"any": True}}})


def test_older_plans_keep_their_bytes() -> None:
    assert "as_written" not in ActionEnvelope(tool="send").model_dump(mode="json")
