"""What a typed line decides about a card: only these words, only as a whole line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silas.channels.replies import TextReply, question_for, reply_of
from silas.gates.risk import RiskLevel


@pytest.mark.parametrize("text", ["yes", "Y", " OK ", "approve", "Do it!"])
def test_yes(text: str) -> None:
    assert reply_of(text, risk=RiskLevel.MEDIUM) is TextReply.YES


@pytest.mark.parametrize("text", ["no", "N.", "decline", "block", "STOP"])
@pytest.mark.parametrize("risk", list(RiskLevel))
def test_no_is_no_at_every_risk(text: str, risk: RiskLevel) -> None:
    assert reply_of(text, risk=risk) is TextReply.NO


@pytest.mark.parametrize("risk", [RiskLevel.HIGH, RiskLevel.IRREVERSIBLE])
def test_where_it_matters_a_yes_is_too_little(risk: RiskLevel) -> None:
    assert reply_of("yes", risk=risk) is None
    assert reply_of("approve", risk=risk) is TextReply.YES
    assert "approve" in question_for(risk)


@pytest.mark.parametrize(
    "text", ["", "yes but", "yes\nno", "not yes", "y e s", "ye\u200bs", "approve all", "1"]
)
def test_whatever_else_is_said_decides_nothing(text: str) -> None:
    assert reply_of(text, risk=RiskLevel.LOW) is None


@given(st.text())
def test_long_texts_never_approve(text: str) -> None:
    if len(text.strip()) > 12:
        assert reply_of(text, risk=RiskLevel.LOW) is not TextReply.YES
