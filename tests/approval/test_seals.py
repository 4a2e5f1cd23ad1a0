"""Seals: what the owner's key has signed of a row, and nothing else."""

import base64
from datetime import timedelta

import pytest

from silas.approval.keys import (
    ProvenRows,
    Seal,
    Seals,
    decode_signature,
    encode_signature,
    sealed_bytes,
)
from silas.kernel import CanonicalError
from tests.approval.desk import Desk

FIELDS = {"id": "a", "number": 1}


@pytest.fixture
def seals(desk: Desk) -> Seals:
    return Seals(desk.keys)


def test_a_seal_holds_for_its_kind_and_its_fields(desk: Desk, seals: Seals) -> None:
    seal, now = seals.sign("row", FIELDS), desk.clock.now()
    assert seals.holds(seal, "row", FIELDS, at=now)
    assert seals.holds_now(seal, "row", FIELDS)
    for kind, fields in (
        ("other", FIELDS),
        ("row", {"id": "b", "number": 1}),
        ("row", {"id": "a"}),
        ("row", {**FIELDS, "more": None}),
    ):
        assert not seals.holds(seal, kind, fields, at=now)
        assert not seals.holds_now(seal, kind, fields)


@pytest.mark.parametrize("signature", [None, "", "no base64!", "QUJD", "A" * 88, "f" * 128, 7])
def test_what_is_no_signature_verifies_nothing(desk: Desk, seals: Seals, signature: object) -> None:
    key_id = seals.sign("row", FIELDS).key_id
    seal = Seal(key_id, signature)  # type: ignore[arg-type]
    assert not seals.holds(seal, "row", FIELDS, at=desk.clock.now())
    assert not seals.holds_now(seal, "row", FIELDS)


@pytest.mark.parametrize("key_id", [None, "", "key_0000000000000000"])
def test_the_key_has_to_be_the_owners(desk: Desk, seals: Seals, key_id: str | None) -> None:
    seal = Seal(key_id, seals.sign("row", FIELDS).signature)
    assert not seals.holds(seal, "row", FIELDS, at=desk.clock.now())
    assert not seals.holds_now(seal, "row", FIELDS)


def test_after_a_rotation_a_seal_holds_for_its_time_alone(desk: Desk, seals: Seals) -> None:
    seal, then = seals.sign("row", FIELDS), desk.clock.now()
    desk.clock.advance(hours=1)
    desk.keys.rotate()
    assert seals.holds(seal, "row", FIELDS, at=then)
    assert not seals.holds(seal, "row", FIELDS, at=then + timedelta(days=1))
    assert not seals.holds_now(seal, "row", FIELDS)


def test_fields_without_a_canonical_form_are_neither_sealed_nor_verified(
    desk: Desk, seals: Seals
) -> None:
    odd = {"name": "\ud800"}
    with pytest.raises(CanonicalError):
        seals.sign("row", odd)
    empty = Seal(*_signed(desk, b""))
    assert not seals.holds(empty, "row", odd, at=desk.clock.now())
    assert not seals.holds_now(empty, "row", odd)


def _signed(desk: Desk, payload: bytes) -> tuple[str, str]:
    key_id, signature = desk.keys.sign(payload)
    return key_id, encode_signature(signature)


def test_the_signed_bytes_stay_what_they_are() -> None:
    assert sealed_bytes("row", FIELDS) == b'{"id":"a","number":1,"type":"row"}'
    assert sealed_bytes("silas-row-v1", FIELDS) == b'{"format":"silas-row-v1","id":"a","number":1}'


def test_signatures_are_read_in_both_spellings() -> None:
    made = bytes(range(64))
    assert decode_signature(encode_signature(made)) == made
    assert decode_signature(made.hex()) == made
    assert decode_signature(base64.b64encode(made).decode() + "!") == b""


class TestProvenRows:
    """A row that is read again and again is asked about once."""

    @pytest.fixture
    def asked(self) -> list[str]:
        return []

    def holds(self, rows: ProvenRows, seal: Seal, asked: list[str], row: str = "a") -> bool:
        def ask() -> bool:
            asked.append(row)
            return row != "forged"

        return rows.holds(row, seal, ask)

    def test_the_same_row_is_asked_about_once(
        self, desk: Desk, seals: Seals, asked: list[str]
    ) -> None:
        rows, seal = ProvenRows(desk.keys), seals.sign("row", FIELDS)
        assert all(self.holds(rows, seal, asked) for _ in range(3))
        assert asked == ["a"]
        assert self.holds(rows, seal, asked, "b")
        assert asked == ["a", "b"], "another row is another question"

    def test_a_row_whose_seal_does_not_hold_is_asked_about_again(
        self, desk: Desk, seals: Seals, asked: list[str]
    ) -> None:
        rows, seal = ProvenRows(desk.keys), seals.sign("row", FIELDS)
        assert not self.holds(rows, seal, asked, "forged")
        assert not self.holds(rows, seal, asked, "forged")
        assert asked == ["forged", "forged"]

    def test_with_another_key_everything_is_asked_about_again(
        self, desk: Desk, seals: Seals, asked: list[str]
    ) -> None:
        rows, seal = ProvenRows(desk.keys), seals.sign("row", FIELDS)
        assert self.holds(rows, seal, asked)
        desk.keys.rotate()
        assert self.holds(rows, seal, asked)
        assert self.holds(rows, seal, asked)
        assert asked == ["a", "a", "a"], "what a retired key has sealed is never remembered"

    @pytest.mark.parametrize("key_id", [None, "key_nobodys"])
    def test_a_key_that_is_not_the_owners_is_not_remembered(
        self, desk: Desk, asked: list[str], key_id: str | None
    ) -> None:
        rows = ProvenRows(desk.keys)
        for _ in range(2):
            assert self.holds(rows, Seal(key_id, "x"), asked)
        assert asked == ["a", "a"]

    def test_not_more_is_remembered_than_fits(
        self, desk: Desk, seals: Seals, asked: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("silas.approval.keys._MOST_ROWS", 2)
        rows, seal = ProvenRows(desk.keys), seals.sign("row", FIELDS)
        for row in ("a", "b", "c", "c", "a"):
            assert self.holds(rows, seal, asked, row)
        assert asked == ["a", "b", "c", "a"]
