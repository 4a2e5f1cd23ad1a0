"""What fits which item, how surely, and what is ticked beforehand."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from silas.proactive.triage import (
    Band,
    Bands,
    Basis,
    ItemChoice,
    ItemEvidence,
    Knowledge,
    SeenItem,
    Sorter,
    SourceNotUnderstood,
    TaughtRule,
    calibrated,
    candidates_of,
    chunks,
)
from silas.work.batch_policy import BatchPolicy, ItemCondition, policy_lines

NOW = datetime(2026, 5, 4, 7, tzinfo=UTC)
POLICY = BatchPolicy.model_validate(
    {
        "source": {"tool": "mail_search", "args": {"folder": "INBOX"}},
        "actions": {
            "archive": {"tool": "mail_archive", "label": "Archive"},
            "invoice": {"tool": "mail_label", "args": {"label": "invoice"}},
        },
        "rules": [
            {"name": "family", "when": {"sender": ["@family.example"]}, "then": "leave"},
            {
                "name": "lists",
                "when": {"sender": ["@news.example"], "mailing_list": True, "older_than_days": 2},
                "then": "archive",
            },
            {"name": "bills", "when": {"subject": ["invoice"]}, "then": "invoice"},
        ],
    }
)


def mail(number: int = 1, sender: str = "hello@news.example", **changes: Any) -> SeenItem:
    given: dict[str, Any] = {
        "item_id": f"1.{number}<m{number}@x>INBOX",
        "title": "This week",
        "actor": sender,
        "address": sender,
        "occurred_at": NOW - timedelta(days=3),
        "verified": True,
        "mailing_list": True,
        "unread": True,
    }
    return SeenItem.model_validate({**given, **changes})


def sort(*items: SeenItem, **more: Any) -> list[ItemChoice]:
    return Sorter(POLICY, Bands(), **more).choices(items, NOW)


def test_a_rule_on_what_can_be_trusted_is_ticked_beforehand() -> None:
    [found] = sort(mail())
    assert (found.action, found.basis, found.band) == ("archive", Basis.RULE, Band.HIGH)
    assert found.trusted
    assert found.ticked


def test_what_a_stranger_wrote_is_never_ticked_beforehand() -> None:
    sure = Knowledge(by_key={"rule:bills": ItemEvidence(40, 0)})
    item = mail(sender="a@b.example", title="Your INVOICE", mailing_list=False)
    [first], [later] = sort(item), sort(item, known=sure)
    assert (first.action, first.band) == ("invoice", Band.MEDIUM)
    assert later.band is Band.HIGH
    assert not first.ticked
    assert not later.ticked


@pytest.mark.parametrize("when", [{"mailing_list": True}, {"older_than_days": 2}, {"unread": True}])
def test_whoever_no_rule_names_does_not_tick_his_own_item(when: dict[str, Any]) -> None:
    """A header that says "mailing list", and a date, are written by whoever sends the mail."""
    rule = {"name": "all", "when": when, "then": "archive"}
    policy = BatchPolicy.model_validate({**POLICY.model_dump(), "rules": [rule]})
    sure = Knowledge(by_key={"rule:all": ItemEvidence(40, 0)})
    [found] = Sorter(policy, Bands(), known=sure).choices([mail(sender="x@bad.example")], NOW)
    assert (found.action, found.band, found.ticked) == ("archive", Band.HIGH, False)


def test_whoever_claims_to_be_a_sender_and_is_not_vouched_for_is_flagged() -> None:
    [found] = sort(mail(verified=False))
    assert (found.band, found.ticked) == (Band.LOW, False)
    assert (
        found.anomaly == "It says that it is from hello@news.example, and nobody vouches for that."
    )


def test_a_name_in_front_of_another_address_is_not_that_sender() -> None:
    raw = {
        "id": "1.1<a@x>INBOX",
        "subject": "Act now",
        "from": '"hello@news.example" <evil@bad.example>',
        "date": "Fri, 01 May 2026 08:00:00 +0000",
        "sender_verified": True,
        "mailing_list": True,
    }
    [item] = candidates_of(POLICY.source, {"mails": [raw]})
    assert item.address == "evil@bad.example"
    [found] = sort(item)
    assert found.band is Band.NOVEL
    assert found.action is None


def test_the_first_rule_counts_and_one_that_was_taught_comes_before_the_policy() -> None:
    taught = TaughtRule("r1", ItemCondition(sender=["hello@news.example"]), "leave")
    [found] = sort(mail(), taught=[taught])
    assert (found.action, found.basis, found.key) == ("leave", Basis.TAUGHT, "taught:r1")
    [family] = sort(mail(sender="mum@family.example"))
    assert family.action == "leave"


def test_a_rule_that_leads_nowhere_any_more_is_passed_over() -> None:
    taught = TaughtRule("r1", ItemCondition(sender=["hello@news.example"]), "delete")
    assert sort(mail(), taught=[taught])[0].key == "rule:lists"


def test_habit_grows_with_decisions_and_is_not_ticked() -> None:
    known, item = Knowledge(), mail(sender="bob@work.example", mailing_list=False)
    bands = []
    for _ in range(7):
        [found] = sort(item, known=known)
        bands.append(found.band)
        assert not found.ticked
        known.right("novel", "bob@work.example", "archive", verified=True)
    assert bands[0] is Band.NOVEL
    assert bands[1] is Band.MEDIUM
    assert bands[-1] is Band.HIGH


def test_nothing_is_learnt_about_a_sender_whom_nobody_vouches_for() -> None:
    known = Knowledge()
    known.right("novel", "bob@work.example", "archive", verified=False)
    assert known.habit_of("bob@work.example") is None
    [spoofed] = sort(mail(sender="bob@work.example", verified=False), known=known)
    assert spoofed.band is Band.NOVEL


def test_corrections_take_the_tick_away() -> None:
    known = Knowledge()
    for _ in range(3):
        known.wrong("rule:lists", "hello@news.example", "archive", verified=True)
    [found] = sort(mail(), known=known)
    assert found.band is Band.MEDIUM
    assert not found.ticked


def test_what_differs_from_the_others_of_its_rule_is_flagged_and_not_ticked() -> None:
    found = sort(*(mail(number) for number in range(4)), mail(9, title="Re: our contract"))
    assert [each.ticked for each in found] == [True] * 4 + [False]
    assert found[-1].anomaly == "It is unlike the others of this rule: it answers something."


def test_a_reader_chooses_only_what_the_policy_has_and_is_not_ticked() -> None:
    item = mail(sender="x@y.example", mailing_list=False)
    [chosen] = sort(item, guessed={item.item_id: "archive"})
    assert (chosen.basis, chosen.action, chosen.ticked) == (Basis.READER, "archive", False)
    assert chosen.band is Band.MEDIUM
    for name in ("mail_send", "leave"):
        [other] = sort(item, guessed={item.item_id: name})
        assert other.band is Band.NOVEL, "what is no action is asked about"


@pytest.mark.parametrize(
    "answer", [{}, {"mails": "none"}, {"error": "It did not work.", "kind": "refused"}]
)
def test_an_answer_without_items_is_said_to_be_one(answer: dict[str, Any]) -> None:
    with pytest.raises(SourceNotUnderstood):
        candidates_of(POLICY.source, answer)


def test_items_that_nobody_could_name_are_left_out() -> None:
    raw: Sequence[Any] = [
        {"subject": "no id"},
        7,
        {"id": ""},
        {"id": "1.1<a@x>INBOX"},
        {"id": None},
    ]
    assert [each.item_id for each in candidates_of(POLICY.source, {"mails": raw})] == [
        "1.1<a@x>INBOX"
    ]


def test_texts_of_strangers_are_one_visible_line() -> None:
    raw = {"id": "1", "subject": "a\n\u202egnp.exe" + "x" * 500, "from": "A <a@b.example>"}
    [item] = candidates_of(POLICY.source, {"mails": [raw]})
    assert "\n" not in item.title
    assert "\u202e" not in item.title
    assert len(item.title) <= 165


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"actions": {}}, "at least 1"),
        ({"rules": [{"name": "a", "when": {}, "then": "archive"}]}, "says nothing"),
        ({"rules": [{"name": "a", "when": {"unread": True}, "then": "delete"}]}, "is not one of"),
        ({"actions": {"leave": {"tool": "mail_archive"}}}, "does nothing"),
        ({"actions": {"a": {"tool": "mail_archive", "args": {"mails": "x"}}}}, "takes the ids"),
    ],
)
def test_a_policy_that_would_not_work_is_refused(change: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        BatchPolicy.model_validate({**POLICY.model_dump(mode="json"), **change})


def test_a_policy_is_said_in_words() -> None:
    assert policy_lines(POLICY) == [
        "Looks with mail_search (folder INBOX)",
        "May propose “Archive” (with mail_archive)",
        "May propose “Invoice” (with mail_label (label invoice))",
        "Rule family: from @family.example, vouched for → Leave it where it is",
        (
            "Rule lists: from @news.example, vouched for, of a mailing list, older than 2 days"
            " → Archive"
        ),
        "Rule bills: with 'invoice' in the subject → Invoice",
    ]


@settings(max_examples=60)
@given(
    st.lists(st.booleans(), max_size=200),
    st.sampled_from(["trusted", "text", Basis.HABIT, Basis.READER]),
)
def test_confidence_comes_to_what_the_owner_decides(decided: list[bool], kind: str) -> None:
    right, wrong = decided.count(True), decided.count(False)
    sure = calibrated(ItemEvidence(right, wrong), kind)
    assert 0 < sure < 1
    if len(decided) >= 100:
        assert abs(sure - right / len(decided)) < 0.12
    assert calibrated(ItemEvidence(right + 1, wrong), kind) >= sure
    assert calibrated(ItemEvidence(right, wrong + 1), kind) <= sure


@settings(max_examples=40)
@given(st.lists(st.integers(0, 3), max_size=60), st.integers(1, 20))
def test_chunks_hold_every_item_once_and_never_more_than_their_size(
    senders: list[int], size: int
) -> None:
    names = ["hello@news.example", "mum@family.example", "x@y.example", "z@news.example"]
    found = sort(*(mail(at, sender=names[each]) for at, each in enumerate(senders)))
    portions = chunks(found, size)
    assert all(0 < len(each) <= size for each in portions)
    ids = sorted(choice.item.item_id for portion in portions for choice in portion)
    assert ids == sorted({choice.item.item_id for choice in found})
