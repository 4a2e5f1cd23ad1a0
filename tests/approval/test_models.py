"""Tokens as data: canonical bytes, base64, strengths."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from silas.approval import (
    ApprovalScope,
    ApprovalStrength,
    ApprovalToken,
    ApprovalVerdict,
    Base64Bytes,
)

NOW = datetime(2026, 3, 4, 5, 6, 7, 8, tzinfo=UTC)
SIGNED = {
    "plan_hash": "ff" * 32,
    "work_item_id": "wi_2",
    "scope": ApprovalScope.BUDGET,
    "verdict": ApprovalVerdict.CONDITIONAL,
    "nonce": "tok_1.01",
    "approval_strength": ApprovalStrength.BIOMETRIC,
    "issued_at": NOW + timedelta(microseconds=1),
    "expires_at": NOW + timedelta(hours=2),
    "max_executions": 2,
    "conditions": {"a": [1, {"b": None}]},
}
UNSIGNED = {
    "token_id": "tok_2",
    "signature": b"other",
    "executions_used": 1,
    "execution_nonces": ["x"],
}

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def token(**changes: Any) -> ApprovalToken:
    fields: dict[str, Any] = {
        "token_id": "tok_1",
        "plan_hash": "00" * 32,
        "work_item_id": "wi_1",
        "scope": ApprovalScope.FULL_PLAN,
        "verdict": ApprovalVerdict.APPROVED,
        "signature": b"signature",
        "issued_at": NOW,
        "expires_at": NOW + timedelta(hours=1),
        "nonce": "tok_1.00",
        "approval_strength": ApprovalStrength.TAP,
    }
    return ApprovalToken(**{**fields, **changes})


def test_the_canonical_bytes_are_exactly_these() -> None:
    assert token().canonical_bytes() == (
        b'{"approval_strength":"tap","conditions":{},"expires_at":"2026-03-04T06:06:07.000008Z",'
        b'"issued_at":"2026-03-04T05:06:07.000008Z","max_executions":1,"nonce":"tok_1.00",'
        b'"plan_hash":"' + b"00" * 32 + b'","scope":"full_plan","verdict":"approved",'
        b'"work_item_id":"wi_1"}'
    )


@pytest.mark.parametrize("field", SIGNED)
def test_every_signed_field_changes_the_bytes(field: str) -> None:
    assert token(**{field: SIGNED[field]}).canonical_bytes() != token().canonical_bytes()


@pytest.mark.parametrize("field", UNSIGNED)
def test_no_other_field_does(field: str) -> None:
    assert token(**{field: UNSIGNED[field]}).canonical_bytes() == token().canonical_bytes()


def test_each_field_is_either_signed_or_known_not_to_be() -> None:
    assert set(ApprovalToken.model_fields) == {*SIGNED, *UNSIGNED}


@given(conditions=st.dictionaries(st.text(), json_values, max_size=4))
def test_a_token_survives_json(conditions: dict[str, Any]) -> None:
    try:
        original = token(conditions=conditions)
        original.canonical_bytes()
    except (ValidationError, ValueError):
        return
    copy = ApprovalToken.model_validate_json(original.model_dump_json())
    assert copy == original
    assert copy.canonical_bytes() == original.canonical_bytes()


def test_moments_are_kept_in_utc_and_naive_ones_are_refused() -> None:
    vienna = timezone(timedelta(hours=1))
    assert token(issued_at=NOW.astimezone(vienna)).canonical_bytes() == token().canonical_bytes()
    with pytest.raises(ValidationError):
        token(issued_at=NOW.replace(tzinfo=None))


@pytest.mark.parametrize("change", [{"max_executions": 0}, {"executions_used": -1}, {"odd": 1}])
def test_impossible_tokens(change: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        token(**change)


def test_strengths_are_ordered() -> None:
    ranks = [
        strength.rank
        for strength in ("tap", "biometric", "biometric_confirm")
        for strength in [ApprovalStrength(strength)]
    ]
    assert ranks == sorted(set(ranks))


class TestBase64Bytes:
    adapter: TypeAdapter[bytes] = TypeAdapter(Base64Bytes)

    @given(st.binary())
    def test_round_trip(self, raw: bytes) -> None:
        assert self.adapter.validate_json(self.adapter.dump_json(raw)) == raw

    @pytest.mark.parametrize("text", ["a", "ab==ab", "YW=", "YWI", "YR==", "Y W I=", "ÿ", 7, None])
    def test_only_the_one_spelling(self, text: object) -> None:
        with pytest.raises(ValidationError):
            self.adapter.validate_python(text)

    @pytest.mark.parametrize(
        ("given", "told"),
        [
            (7, "Value error, expected base64 text"),
            ("AA!A", "Value error, not base64: Only base64 data is allowed"),
            ("AB==", "Value error, not canonical base64: unused bits are set"),
        ],
    )
    def test_what_is_wrong_is_said(self, given: object, told: str) -> None:
        with pytest.raises(ValidationError) as wrong:
            self.adapter.validate_python(given)
        assert [each["msg"] for each in wrong.value.errors()] == [told]
