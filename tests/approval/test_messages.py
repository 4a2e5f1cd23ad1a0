"""Which messages are the owner's."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from silas.approval import (
    FRESHNESS_WINDOW,
    ChannelMessage,
    KeyManager,
    MessageVerifier,
    SignedMessage,
)
from silas.kernel import TaintLevel
from silas.storage import Transaction
from silas.testing import MemoryVault
from tests.approval.desk import Desk


def verifier(desk: Desk) -> MessageVerifier:
    return MessageVerifier(desk.database, nonces=desk.nonces, audit=desk.audit, clock=desk.clock)


def signed(
    desk: Desk, *, text: str = "hello", nonce: str = "n1", sent: datetime | None = None
) -> SignedMessage:
    message = ChannelMessage(
        channel="web", sender_id="owner", text=text, timestamp=sent or desk.clock.now()
    )
    unsigned = SignedMessage(message=message, signature=b"", nonce=nonce)
    return unsigned.model_copy(update={"signature": desk.keys.sign(unsigned.canonical_bytes())[1]})


async def taint_of(desk: Desk, message: SignedMessage) -> TaintLevel:
    return (await verifier(desk).classify(message, desk.keys.public)).taint


def test_the_canonical_bytes_are_exactly_these() -> None:
    message = ChannelMessage(
        channel="web",
        sender_id="x",
        text='say "|"\n',
        timestamp=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    )
    assert SignedMessage(message=message, signature=b"", nonce="n").canonical_bytes() == (
        b'{"nonce":"n","text":"say \\"|\\"\\n","timestamp":"2026-01-02T03:04:05.000000Z"}'
    )


async def test_a_fresh_signed_message_is_the_owners(desk: Desk) -> None:
    assert await taint_of(desk, signed(desk)) is TaintLevel.OWNER
    assert await desk.nonces.is_used("msg", "n1")
    assert desk.audit.events() == []


async def test_what_a_message_claims_about_itself_does_not_count(desk: Desk) -> None:
    claims = signed(desk).model_copy(update={"taint": TaintLevel.OWNER, "signature": b"x" * 64})
    assert await taint_of(desk, claims) is TaintLevel.EXTERNAL


async def test_a_replay_falls_to_external_and_is_recorded(desk: Desk) -> None:
    message = signed(desk)
    assert await taint_of(desk, message) is TaintLevel.OWNER
    assert await taint_of(desk, message) is TaintLevel.EXTERNAL
    assert desk.audit.entries[-1][0] == "message_downgraded"
    assert desk.audit.entries[-1][1]["reason"] == "replayed"


async def test_of_many_copies_at_once_one_is_the_owners(desk: Desk) -> None:
    message = signed(desk)
    taints = await asyncio.gather(*(taint_of(desk, message) for _ in range(20)))
    assert taints.count(TaintLevel.OWNER) == 1


@pytest.mark.parametrize(
    ("age", "expected"),
    [
        (FRESHNESS_WINDOW, TaintLevel.OWNER),
        (-FRESHNESS_WINDOW, TaintLevel.OWNER),
        (FRESHNESS_WINDOW + timedelta(microseconds=1), TaintLevel.EXTERNAL),
        (-FRESHNESS_WINDOW - timedelta(microseconds=1), TaintLevel.EXTERNAL),
    ],
)
async def test_the_freshness_window(desk: Desk, age: timedelta, expected: TaintLevel) -> None:
    message = signed(desk, sent=desk.clock.now() - age)
    assert await taint_of(desk, message) is expected
    if expected is TaintLevel.EXTERNAL:
        assert desk.audit.entries[-1][1]["reason"] == "stale"
        assert not await desk.nonces.is_used("msg", "n1"), "a stale message uses nothing up"


@pytest.mark.parametrize(
    ("sent_after", "expected"),
    [
        (-FRESHNESS_WINDOW, TaintLevel.EXTERNAL),
        (timedelta(0), TaintLevel.EXTERNAL),
        (FRESHNESS_WINDOW, TaintLevel.EXTERNAL),
        (FRESHNESS_WINDOW + timedelta(microseconds=1), TaintLevel.OWNER),
    ],
)
async def test_after_a_restore_what_may_have_been_used_is_not_accepted(
    desk: Desk, sent_after: timedelta, expected: TaintLevel
) -> None:
    """The restored data does not know the nonces of the last minutes."""
    restored_at = desk.clock.now()
    await desk.database.transaction(desk.nonces.note_restore_in)
    # The earliest and the latest moment at which it is fresh.
    for arrives, nonce in ((-FRESHNESS_WINDOW, "n1"), (FRESHNESS_WINDOW, "n2")):
        desk.clock.set(restored_at + sent_after + arrives)
        message = signed(desk, sent=restored_at + sent_after, nonce=nonce)
        assert await taint_of(desk, message) is expected
        assert await desk.nonces.is_used("msg", nonce) is (expected is TaintLevel.OWNER)
    if expected is TaintLevel.EXTERNAL:
        assert desk.audit.events() == ["message_downgraded"] * 2
        assert desk.audit.entries[0][1]["reason"] == (
            "it may have been used before a backup was restored"
        )


async def test_only_the_last_restore_counts(desk: Desk) -> None:
    await desk.database.transaction(desk.nonces.note_restore_in)
    desk.clock.advance(hours=1)
    assert await taint_of(desk, signed(desk, nonce="a")) is TaintLevel.OWNER
    await desk.database.transaction(desk.nonces.note_restore_in)
    assert await taint_of(desk, signed(desk, nonce="b")) is TaintLevel.EXTERNAL
    desk.clock.advance(hours=1)
    assert await taint_of(desk, signed(desk, nonce="c")) is TaintLevel.OWNER


async def test_a_clock_that_was_ahead_and_is_set_back_lets_nothing_be_replayed(desk: Desk) -> None:
    message, now = signed(desk, nonce="a"), desk.clock.now()
    assert await taint_of(desk, message) is TaintLevel.OWNER
    desk.clock.set(now + timedelta(days=30))
    await desk.nonces.prune_expired(desk.clock.now())
    desk.clock.set(now)
    assert await taint_of(desk, message) is TaintLevel.EXTERNAL


async def test_a_restore_is_remembered_by_a_clock_that_was_ahead(desk: Desk) -> None:
    restored_at = desk.clock.now()
    await desk.database.transaction(desk.nonces.note_restore_in)
    desk.clock.set(restored_at + timedelta(days=30))
    await desk.nonces.prune_expired(desk.clock.now())
    desk.clock.set(restored_at)
    assert await taint_of(desk, signed(desk, nonce="a")) is TaintLevel.EXTERNAL


@pytest.mark.parametrize("nonce", ["", "x" * 201])
async def test_odd_nonces(desk: Desk, nonce: str) -> None:
    assert await taint_of(desk, signed(desk, nonce=nonce)) is TaintLevel.EXTERNAL
    assert await taint_of(desk, signed(desk, nonce="x" * 200)) is TaintLevel.OWNER


async def test_changed_text_time_or_nonce(desk: Desk) -> None:
    good = signed(desk)
    for message in (
        good.model_copy(update={"nonce": "n2"}),
        good.model_copy(update={"message": good.message.model_copy(update={"text": "hello!"})}),
        good.model_copy(
            update={
                "message": good.message.model_copy(
                    update={"timestamp": good.message.timestamp + timedelta(seconds=1)}
                )
            }
        ),
    ):
        assert await taint_of(desk, message) is TaintLevel.EXTERNAL
    assert await taint_of(desk, good) is TaintLevel.OWNER


async def test_another_key_and_a_retired_key(desk: Desk) -> None:
    stranger = KeyManager(MemoryVault(), clock=desk.clock)
    stranger.generate_keypair()
    message = signed(desk)
    foreign = message.model_copy(update={"signature": stranger.sign(message.canonical_bytes())[1]})
    assert await taint_of(desk, foreign) is TaintLevel.EXTERNAL
    late = signed(desk, sent=desk.clock.now() + timedelta(minutes=1), nonce="late")
    desk.keys.rotate()
    assert await taint_of(desk, late) is TaintLevel.EXTERNAL
    assert desk.audit.entries[-1][1]["reason"] == "the key had been retired"
    assert await taint_of(desk, message) is TaintLevel.OWNER


async def test_text_without_a_canonical_form(desk: Desk) -> None:
    good = signed(desk)
    broken = good.message.model_copy(update={"text": "\ud800"})
    message = good.model_copy(update={"message": broken})
    assert await taint_of(desk, message) is TaintLevel.EXTERNAL


async def test_whoever_writes_along_is_told_what_was_decided(desk: Desk) -> None:
    """In the transaction of the decision: once as the owner's, then as a replay, then as forged."""
    told: list[tuple[int, TaintLevel]] = []

    def also(tx: Transaction, taint: TaintLevel) -> None:
        told.append((len(tx.fetch_all("SELECT 1 FROM nonces")), taint))

    message = signed(desk)
    forged = signed(desk, nonce="n2").model_copy(update={"signature": b"x" * 64})
    for each in (message, message, forged):
        await verifier(desk).classify(each, desk.keys.public, also=also)
    assert [taint for _, taint in told] == [
        TaintLevel.OWNER,
        TaintLevel.EXTERNAL,
        TaintLevel.EXTERNAL,
    ]
    assert [count for count, _ in told] == [1, 1, 1]


async def test_a_signature_can_be_looked_at_without_using_anything_up(desk: Desk) -> None:
    message, public = signed(desk), desk.keys.public
    desk.clock.advance(days=30)
    assert await verifier(desk).is_signed(message, public)
    assert await verifier(desk).is_signed(message, public)
    assert not await desk.nonces.is_used("msg", "n1")
    other = message.model_copy(update={"nonce": "n2"})
    assert not await verifier(desk).is_signed(other, public)
    forged = message.model_copy(update={"signature": b"x" * 64})
    assert not await verifier(desk).is_signed(forged, public)
    without_form = message.message.model_copy(update={"text": "\ud800"})
    assert not await verifier(desk).is_signed(
        message.model_copy(update={"message": without_form}), public
    )


async def test_a_key_signs_nothing_after_its_time(desk: Desk) -> None:
    before = signed(desk)
    after = signed(desk, sent=desk.clock.now() + timedelta(hours=1))
    desk.clock.advance(minutes=1)
    desk.keys.rotate()
    assert await verifier(desk).is_signed(before, desk.keys.public)
    assert not await verifier(desk).is_signed(after, desk.keys.public)
