"""The risk ladder as a table, and its laws."""

import inspect

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from silas.approval import ApprovalScope
from silas.gates.risk import (
    ActionKind,
    Reversibility,
    RiskLevel,
    risk_of,
    riskiest,
)
from silas.kernel import TaintLevel
from silas.work import WorkItem

LADDER = list(RiskLevel)
STEP, PLAN = ApprovalScope.SINGLE_STEP, ApprovalScope.FULL_PLAN


def risk(
    scope: ApprovalScope,
    action: ActionKind | None,
    reversibility: Reversibility | None,
    *,
    taint: TaintLevel = TaintLevel.OWNER,
    inside: bool = True,
) -> str:
    return risk_of(
        scope, action, reversibility=reversibility, taint=taint, inside_envelope=inside
    ).value


@pytest.mark.parametrize(
    ("what", "scope", "action", "reversibility", "wanted"),
    [
        ("acknowledge status", STEP, "observe", "reversible", "low"),
        ("formatting fix", STEP, "tidy", "reversible", "low"),
        ("archive an item", ApprovalScope.CONNECTION_ACT, "tidy", "reversible", "low"),
        ("send a draft", ApprovalScope.CONNECTION_ACT, "send", "irreversible", "medium"),
        ("install a skill", ApprovalScope.SKILL_INSTALL, "change", "reversible", "medium"),
        ("a plan", PLAN, "change", "reversible", "medium"),
        ("permissions", ApprovalScope.CONNECTION_MANAGE, "grant", "reversible", "high"),
        ("migration", PLAN, "change", "hard", "high"),
        ("self-update", ApprovalScope.SELF_UPDATE, "observe", "reversible", "high"),
        ("credential", ApprovalScope.CREDENTIAL_USE, "observe", "reversible", "high"),
        ("drop data", PLAN, "destroy", "irreversible", "irreversible"),
        ("revoke", ApprovalScope.CONNECTION_MANAGE, "destroy", "hard", "irreversible"),
        ("hard delete", STEP, "destroy", "irreversible", "irreversible"),
        ("unsubscribe with undo", STEP, "destroy", "reversible", "high"),
    ],
)
def test_the_examples_of_the_ladder(
    what: str, scope: ApprovalScope, action: str, reversibility: str, wanted: str
) -> None:
    assert risk(scope, ActionKind(action), Reversibility(reversibility)) == wanted, what


def test_what_is_not_known_is_the_worst() -> None:
    assert risk(STEP, None, None) == "irreversible"
    assert risk(STEP, None, Reversibility.REVERSIBLE) == "high"
    assert risk(STEP, ActionKind.CHANGE, None) == "irreversible"


def test_outside_of_the_envelope_it_is_at_least_medium() -> None:
    tidy = (STEP, ActionKind.TIDY, Reversibility.REVERSIBLE)
    assert risk(*tidy) == "low"
    assert risk(*tidy, inside=False) == "medium"
    assert risk(STEP, ActionKind.OBSERVE, Reversibility.REVERSIBLE, inside=False) == "low"


def test_foreign_content_raises_what_the_envelope_does_not_cover() -> None:
    send = (STEP, ActionKind.SEND, Reversibility.IRREVERSIBLE)
    external = TaintLevel.EXTERNAL
    assert risk(*send, taint=external) == "medium"
    assert risk(*send, taint=external, inside=False) == "high"
    assert risk(*send, taint=TaintLevel.AUTH, inside=False) == "medium"
    assert risk(STEP, ActionKind.OBSERVE, None, taint=external, inside=False) == "medium"
    grant = (STEP, ActionKind.GRANT, Reversibility.REVERSIBLE)
    assert risk(*grant, taint=external, inside=False) == "high"


@given(
    st.sampled_from(ApprovalScope),
    st.sampled_from(ActionKind),
    st.sampled_from(Reversibility),
    st.sampled_from(TaintLevel),
    st.booleans(),
)
def test_more_doubt_never_means_less_risk(
    scope: ApprovalScope,
    action: ActionKind,
    reversibility: Reversibility,
    taint: TaintLevel,
    inside: bool,
) -> None:
    level = LADDER.index(
        risk_of(scope, action, reversibility=reversibility, taint=taint, inside_envelope=inside)
    )
    doubts = [
        risk(scope, action, reversibility, taint=taint, inside=False),
        risk(scope, action, reversibility, taint=TaintLevel.EXTERNAL, inside=inside),
        risk(scope, action, Reversibility.IRREVERSIBLE, taint=taint, inside=inside),
        risk(scope, action, None, taint=taint, inside=inside),
        risk(scope, None, reversibility, taint=taint, inside=inside),
    ]
    assert all(LADDER.index(RiskLevel(each)) >= level for each in doubts)


def test_every_scope_has_a_level() -> None:
    for scope in ApprovalScope:
        assert risk(scope, ActionKind.OBSERVE, Reversibility.REVERSIBLE) in {
            "low",
            "medium",
            "high",
        }


def test_nobody_can_hand_a_level_in() -> None:
    parameters = set(inspect.signature(risk_of).parameters)
    assert parameters == {"scope", "action", "reversibility", "taint", "inside_envelope"}
    for key in ("risk", "risk_level"):
        with pytest.raises(ValidationError):
            WorkItem.model_validate({"id": "a", "type": "task", "title": "T", key: "low"})


def test_of_no_level_the_riskiest_is_assumed() -> None:
    assert riskiest() is RiskLevel.IRREVERSIBLE
