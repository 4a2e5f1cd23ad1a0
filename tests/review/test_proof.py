"""One rule for proof: whatever is asked, a yes takes what its risk needs, and nothing else does."""

import ast
import base64
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import silas
from silas.approval import (
    ApprovalDecision,
    ApprovalScope,
    ApprovalStrength,
    ApprovalToken,
    ApprovalVerdict,
    Assertion,
    DecisionRefused,
)
from silas.approval.rules import digest
from silas.audit.models import ExaminedLog
from silas.gates.risk import RiskLevel
from silas.kernel import DatabaseError, SilasError, TaintLevel
from silas.review import (
    PROOF_FOR,
    Approval,
    DecisionNotSigned,
    ShownQuestion,
    StrongerProofNeeded,
)
from silas.review.decisions import QuestionKind
from silas.review.questions import answer_bytes
from silas.storage import Transaction
from silas.testing import FakePlan
from tests.approval.authenticator import ORIGIN
from tests.review.asking import (
    NO,
    PASSKEY,
    SLIDE,
    TAP,
    VAULT,
    WAYS,
    YES,
    Place,
    PlanWay,
    QuestionWay,
    ask_card,
    forge_row,
    open_place,
)

NOTHING = [0, 0, 0, 0, 0]
EVERY_KIND = pytest.mark.parametrize("kind", WAYS)
ALONE = pytest.mark.parametrize("kind", [kind for kind in WAYS if kind != "batch"])
"""What is risky is decided one by one, whatever the proof: never in a batch."""
KINDS_AND_RISKS = pytest.mark.parametrize(
    ("kind", "risk"),
    [
        (kind, risk)
        for kind in WAYS
        for risk in RiskLevel
        if kind != "batch" or risk in (RiskLevel.LOW, RiskLevel.MEDIUM)
    ],
)
TOKENS = {
    "plan": 1,
    "batch": 2,
    "call": 1,
    "companion": 1,
    "memory": 1,
    "autonomy": 1,
    "skill": 1,
    "skill_source": 1,
    "tool_server": 1,
    "grant": 1,
    "proposal": 1,
    "connection": 1,
    "permission": 1,
    "domain": 1,
    "items": 1,
    "teaching": 1,
}


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    place = await open_place(tmp_path / "silas.db")
    yield place
    await place.desk.database.close()


def test_the_table() -> None:
    needs = {risk.value: each.strength.value for risk, each in PROOF_FOR.items()}
    assert needs == {"low": "tap", "medium": "tap", "high": "slide", "irreversible": "passkey"}
    asked = {risk.value: (each.steps, each.details_expanded) for risk, each in PROOF_FOR.items()}
    assert asked == {
        "low": (("tap",), False),
        "medium": (("tap", "confirm"), False),
        "high": (("tap", "slide"), True),
        "irreversible": (("tap", "slide", "strong_auth"), True),
    }
    assert set(PROOF_FOR) == set(RiskLevel)
    ranks = [strength.rank for strength in (TAP, SLIDE, PASSKEY, VAULT)]
    assert ranks == sorted(set(ranks))


@KINDS_AND_RISKS
async def test_a_yes_takes_what_its_risk_needs(place: Place, kind: str, risk: RiskLevel) -> None:
    way, required = WAYS[kind], PROOF_FOR[risk].strength
    asked = await way.ask(place, risk)
    with pytest.raises(DecisionNotSigned):
        await way.decide(place, asked, YES, None)
    for strength in (TAP, SLIDE, PASSKEY, VAULT):
        if strength.rank < required.rank:
            with pytest.raises(StrongerProofNeeded):
                await way.decide(place, asked, YES, strength)
            assert await place.stored() == NOTHING
            continue
        await way.decide(place, asked, YES, strength)
        await assert_stored(place, kind, strength)
        break
    else:
        pytest.fail("nothing was enough")


async def assert_stored(place: Place, kind: str, strength: ApprovalStrength) -> None:
    """The proof, its strength in every place, and as many tokens as were approved."""
    rows = await place.desk.database.fetch_all(
        "SELECT statement, strength, key_id, signature, assertion FROM decisions"
    )
    assert len(rows) == (2 if kind == "batch" else 1)
    for statement, stored, key_id, signature, assertion in rows:
        assert stored == strength.value
        made = base64.b64decode(signature)
        if strength is VAULT:
            now = place.desk.clock.now()
            assert place.desk.keys.verify(key_id, statement.encode(), made, at=now)
        else:
            assert await place.devices.verify(key_id, statement.encode(), made)
        assert (assertion is not None) == (strength is PASSKEY)
    tokens = await place.desk.database.fetch_all("SELECT token FROM approval_tokens")
    assert len(tokens) == TOKENS.get(kind, 0)
    assert {json.loads(each)["approval_strength"] for (each,) in tokens} <= {strength.value}
    logged = [data["strength"] for _, data in place.desk.audit.entries if "strength" in data]
    assert logged
    assert set(logged) == {strength.value}


@ALONE
async def test_a_passkey_over_something_else_proves_nothing(place: Place, kind: str) -> None:
    way = WAYS[kind]
    asked = await way.ask(place, RiskLevel.IRREVERSIBLE)
    right = place.finger.assertion
    place.finger.assertion = lambda challenge: right(b"0" * 32)  # type: ignore[method-assign]
    with pytest.raises(DecisionRefused):
        await way.decide(place, asked, YES, PASSKEY)
    assert await place.stored() == NOTHING


@EVERY_KIND
async def test_a_no_takes_a_signature_alone(place: Place, kind: str) -> None:
    way = WAYS[kind]
    asked = await way.ask(place, RiskLevel.MEDIUM if kind == "batch" else RiskLevel.IRREVERSIBLE)
    with pytest.raises(DecisionNotSigned):
        await way.decide(place, asked, NO, None)
    assert await place.stored() == NOTHING
    await way.decide(place, asked, NO, TAP)
    rows, tokens, *_ = await place.stored()
    assert (rows, tokens) == (2 if kind == "batch" else 1, 0)


@pytest.mark.parametrize("kind", [name for name, way in WAYS.items() if way.table])
@pytest.mark.parametrize("strength", [TAP, PASSKEY, VAULT])
async def test_a_question_whose_row_was_changed_is_refused(
    place: Place, kind: str, strength: ApprovalStrength
) -> None:
    way = WAYS[kind]
    asked = await way.ask(place, RiskLevel.MEDIUM)
    await forge_row(place, way.table)
    with pytest.raises((DecisionRefused, DecisionNotSigned)):
        await way.decide(place, asked, YES, strength)
    assert await place.stored() == NOTHING


@EVERY_KIND
async def test_a_revoked_device_decides_nothing(place: Place, kind: str) -> None:
    way = WAYS[kind]
    asked = await way.ask(place, RiskLevel.LOW)
    await place.devices.revoke(place.key_id)
    with pytest.raises(DecisionNotSigned):
        await way.decide(place, asked, YES, PASSKEY)
    assert await place.stored() == NOTHING


@EVERY_KIND
@pytest.mark.parametrize("write", range(12))
async def test_a_decision_is_whole_or_not_there(place: Place, kind: str, write: int) -> None:
    """Each write of its transaction fails once."""
    way = WAYS[kind]
    asked = await way.ask(place, RiskLevel.MEDIUM)
    database, entries = place.desk.database, list(place.desk.audit.entries)
    whole, count = database.transaction, 0

    class Failing:
        def __init__(self, tx: Any) -> None:
            self._tx = tx

        def __getattr__(self, name: str) -> Any:
            return getattr(self._tx, name)

        def execute(self, *values: Any) -> Any:
            nonlocal count
            count += 1
            if count == write + 1:
                raise DatabaseError("The disk is full.")
            return self._tx.execute(*values)

    async def transaction(body: Any, **more: Any) -> Any:
        return await whole(lambda tx: body(Failing(tx)), **more)

    database.transaction = transaction  # type: ignore[method-assign]
    try:
        await way.decide(place, asked, YES, PASSKEY)
    except DatabaseError:
        place.desk.audit.entries = entries  # the real log is in the same transaction
        assert await place.stored() == NOTHING
        assert await place.passkeys.trusted(), "its use was not counted either"
        database.transaction = whole  # type: ignore[method-assign]
        await way.decide(place, asked, YES, PASSKEY)
    rows, tokens, *_ = await place.stored()
    assert (rows, tokens) == (2 if kind == "batch" else 1, TOKENS.get(kind, 0))


class TestTheSettings:
    """`approval.scope_min_strength`."""

    @pytest.fixture
    async def strict(self, tmp_path: Path) -> AsyncIterator[Place]:
        minimum = {
            ApprovalScope.FULL_PLAN: ApprovalStrength.PASSKEY,
            ApprovalScope.SINGLE_STEP: ApprovalStrength.BIOMETRIC,
            ApprovalScope.AUTONOMY_THRESHOLD: ApprovalStrength.VAULT,
            ApprovalScope.SKILL_INSTALL: ApprovalStrength.PASSKEY,
            ApprovalScope.CONNECTION_MANAGE: ApprovalStrength.PASSKEY,
            ApprovalScope.CONNECTION_ACT: ApprovalStrength.PASSKEY,
            ApprovalScope.TOOL_TYPE: ApprovalStrength.PASSKEY,
        }
        place = await open_place(tmp_path / "silas.db", scope_min_strength=minimum)
        yield place
        await place.desk.database.close()

    @pytest.mark.parametrize("kind", TOKENS)
    async def test_what_is_weaker_than_the_scopes_minimum_is_refused(
        self, strict: Place, kind: str
    ) -> None:
        way, enough = WAYS[kind], VAULT if kind == "autonomy" else PASSKEY
        asked = await way.ask(strict, RiskLevel.LOW)
        for weak in (TAP, SLIDE):
            with pytest.raises(StrongerProofNeeded):
                await way.decide(strict, asked, YES, weak)
        assert await strict.stored() == NOTHING
        await way.decide(strict, asked, YES, enough)
        await assert_stored(strict, kind, enough)

    async def test_the_page_is_told_what_it_takes(self, strict: Place) -> None:
        needs = strict.decisions.requirement
        assert needs(RiskLevel.LOW, ApprovalScope.FULL_PLAN).steps[-1] == "strong_auth"
        assert needs(RiskLevel.LOW, ApprovalScope.STANDING).steps == ("tap",)
        assert needs(RiskLevel.LOW, None).steps == ("tap",)
        vault = needs(RiskLevel.LOW, ApprovalScope.AUTONOMY_THRESHOLD)
        assert (vault.strength, vault.steps[-1]) == (VAULT, "strong_auth")

    async def test_it_only_ever_asks_for_more(self, tmp_path: Path) -> None:
        minimum = {ApprovalScope.FULL_PLAN: TAP}
        place = await open_place(tmp_path / "other.db", scope_min_strength=minimum)
        asked = await PlanWay().ask(place, RiskLevel.IRREVERSIBLE)
        with pytest.raises(StrongerProofNeeded):
            await PlanWay().decide(place, asked, YES, SLIDE)
        await place.desk.database.close()


class TestFollowing:
    async def test_a_decision_leads_to_one_token_and_only_for_a_while(self, place: Place) -> None:
        card = await ask_card(place, RiskLevel.LOW)
        await PlanWay().decide(place, card, YES, TAP)
        found = await place.cards.decision("card_1")
        assert found is not None
        assert list(found.tokens) == list(card.plan_hashes)
        assert found.decided_at == place.desk.clock.now()
        token = (await place.desk.engine.tokens.load(found.tokens["plan_card_1"])).token
        plan = place.plans["plan_card_1"]
        assert await place.desk.engine.verify(token, plan) == (True, "Valid")
        with pytest.raises(SilasError):
            await PlanWay().decide(place, card, YES, TAP)

    async def test_the_token_of_an_answer(self, place: Place) -> None:
        way = WAYS["memory"]
        await way.decide(place, await way.ask(place, RiskLevel.LOW), YES, TAP)
        found = await place.questions.answered("question_1")
        assert found is not None
        assert (found.value, found.decision.strength) == ("approve", TAP)
        token = await place.decisions.token_of(found.decision, "mem_1")
        assert token is not None
        assert await place.decisions.token_of(found.decision, "mem_2") is None
        place.desk.clock.advance(seconds=place.desk.policy.default_ttl.total_seconds())
        assert await place.decisions.token_of(found.decision, "mem_1") is None, "too long ago"

    async def test_an_answer_that_says_two_things_decides_nothing(self, place: Place) -> None:
        question = await WAYS["memory"].ask(place, RiskLevel.LOW)
        with pytest.raises(DecisionRefused, match="two things"):
            await place.questions.answer_with_vault(
                question.question_id, {"verdict": "approve", "selected_value": "decline"}
            )
        assert (await place.questions.get(question.question_id)).state == "open"

    async def test_an_answer_that_asks_for_no_token_gets_none(self, place: Place) -> None:
        way = WAYS["memory"]
        await way.decide(place, await way.ask(place, RiskLevel.LOW), NO, TAP)
        found = await place.questions.answered("question_1")
        assert found is not None
        assert found.decision.tokens == {}

    @pytest.mark.parametrize(
        "change",
        [
            "strength = 'tap', assertion = NULL",
            "assertion = '{}'",
            "signature = ''",
            "key_id = 'key_0000000000000000'",
            "statement = replace(statement, 'passkey', 'vault')",
        ],
    )
    @pytest.mark.parametrize("kind", ["plan", "companion", "gate"])
    async def test_a_stored_proof_that_was_changed_is_none(
        self, place: Place, kind: str, change: str
    ) -> None:
        way = WAYS[kind]
        await way.decide(place, await way.ask(place, RiskLevel.IRREVERSIBLE), YES, PASSKEY)
        await place.desk.database.execute(f"UPDATE decisions SET {change}")
        if kind == "plan":
            assert await place.cards.decision("card_1") is None
        else:
            assert await place.questions.answered("question_1") is None

    async def test_a_receipt_that_was_changed_vouches_for_nothing(self, place: Place) -> None:
        way = WAYS["memory"]
        await way.decide(place, await way.ask(place, RiskLevel.LOW), YES, TAP)
        later = (place.desk.clock.now() + timedelta(days=1)).isoformat()
        for change in (f"decided_at = '{later}'", "receipt = NULL", "decided_at = NULL"):
            await place.desk.database.execute(f"UPDATE decisions SET {change}")
            found = await place.questions.answered("question_1")
            assert found is not None
            assert found.decision.decided_at is None
            assert await place.decisions.token_of(found.decision, "mem_1") is None

    async def test_where_there_are_no_passkeys_they_prove_nothing(self, place: Place) -> None:
        way = WAYS["plan"]
        await way.decide(place, await way.ask(place, RiskLevel.IRREVERSIBLE), YES, PASSKEY)
        place.decisions._passkeys = None
        assert await place.cards.decision("card_1") is None


async def test_the_proof_of_a_call_can_be_checked_later(place: Place) -> None:
    """Who approved it, by which device and passkey, from what is stored and the public keys."""
    way = WAYS["call"]
    asked = await way.ask(place, RiskLevel.IRREVERSIBLE)
    await way.decide(place, asked, YES, PASSKEY)
    row = await place.decisions.row("call_1")
    assert row is not None
    assert row.statement is not None
    assert row.fields()["plan_hashes"] == asked[0].hashes
    assert row.fields()["decision"]["verdict"] == "approved"
    signature = base64.b64decode(row.signature)
    assert await place.devices.verify(row.key_id, row.statement.encode(), signature)
    assertion = Assertion.model_validate(json.loads(row.assertion or "")["assertion"])
    challenge = bytes.fromhex(asked[0].hashes["call_1"])
    use = await place.passkeys.verify(assertion, challenge, origins=(ORIGIN,))
    assert use.count == place.finger.count


@pytest.mark.parametrize(
    "answer", [{"verdict": "tighten_now"}, {"verdict": "no"}, {"selected_value": "no"}]
)
async def test_what_takes_rights_away_needs_no_more_than_a_signature(
    place: Place, answer: dict[str, str]
) -> None:
    question = await QuestionWay(QuestionKind.AUTONOMY).ask(place, RiskLevel.HIGH)
    statement = answer_bytes(question, answer)
    await place.questions.answer("question_1", answer, place.proof(statement, b"", TAP))
    assert await place.questions.answered("question_1") is not None


def test_nothing_but_the_review_issues_tokens() -> None:
    """No other module turns a decision into a token: there is one place that asks for the proof.

    The token of an undo rests on the approval of the call that it takes back (ADR 17).
    """
    issuing = {"issue_token", "prepare", "issue_in", "use_in"}
    allowed = {
        Path("approval/engine.py"),
        Path("review/decisions.py"),
        Path("work/undo_calls.py"),
    }
    root = Path(silas.__file__).parent
    found = set()
    for path in root.rglob("*.py"):
        if "testing" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Attribute) and node.attr in issuing:
                owner = ast.unparse(node.value)
                if "approvals" in owner or "engine" in owner or node.attr == "issue_token":
                    found.add(path.relative_to(root))
    assert found <= allowed


class TestOneTransaction:
    """The token of a plan is issued, used up and attached with the decision, or not at all."""

    @pytest.fixture
    def checkpoints(self, place: Place, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        made: list[str] = []

        async def write(examined: ExaminedLog | None = None) -> str:
            made.append("ckp")
            return "ckp"

        monkeypatch.setattr(place.desk.audit, "write_checkpoint", write)
        return made

    async def decide(self, place: Place, *approve: Approval) -> None:
        plan = FakePlan(spawn_policy={"verify": ["df"]})
        hashes = {plan.id: digest(plan.plan_bytes())}
        question = ShownQuestion(
            kind=QuestionKind.PLAN,
            question_id="card_1",
            hashes=hashes,
            risk=RiskLevel.LOW,
            taint=TaintLevel.OWNER,
            scope=ApprovalScope.FULL_PLAN,
            intact=True,
        )
        yes = ApprovalDecision(verdict=YES, approval_strength=VAULT)
        word = place.decisions.owners_word(question, yes)
        await place.decisions.decide(
            question.asked(word.decision),
            word.proof,
            record=lambda _tx, _tokens: None,
            entries=[],
            approve=[replace(each, payload=plan) for each in approve],
        )

    async def test_work_that_begins_is_vouched_for_when_it_begins(
        self, place: Place, checkpoints: list[str]
    ) -> None:
        attached: list[str] = []
        begins = Approval(
            FakePlan(),
            ApprovalScope.FULL_PLAN,
            use_at_once=True,
            attach=lambda _tx, token: attached.append(token.token_id),
        )
        assert begins.begins_work
        await self.decide(place, begins)
        assert checkpoints == []
        assert len(attached) == 1
        assert (await place.stored())[:3] == [1, 1, 1], "decided, issued and used up"

    @pytest.mark.parametrize(
        ("scope", "more"),
        [
            (ApprovalScope.STANDING, {"attach": lambda _tx, _token: None}),
            (ApprovalScope.SINGLE_STEP, {"use_at_once": True}),
            (ApprovalScope.FULL_PLAN, {}),
        ],
    )
    async def test_everything_else_is_vouched_for_at_once(
        self, place: Place, checkpoints: list[str], scope: ApprovalScope, more: dict[str, Any]
    ) -> None:
        await self.decide(place, Approval(FakePlan(), scope, **more))
        assert checkpoints == ["ckp"]

    async def test_what_cannot_be_attached_is_not_decided(
        self, place: Place, checkpoints: list[str]
    ) -> None:
        def refuse(_tx: Transaction, _token: ApprovalToken) -> None:
            raise DecisionRefused("The plan was changed meanwhile.")

        begins = Approval(FakePlan(), ApprovalScope.FULL_PLAN, use_at_once=True, attach=refuse)
        with pytest.raises(DecisionRefused, match="meanwhile"):
            await self.decide(place, begins)
        assert await place.stored() == NOTHING
        assert checkpoints == []


@pytest.mark.parametrize("kind", ["plan", "batch", "call"])
async def test_a_yes_with_conditions_is_not_offered(place: Place, kind: str) -> None:
    way = WAYS[kind]
    asked = await way.ask(place, RiskLevel.LOW)
    with pytest.raises(DecisionRefused, match="is not offered"):
        await way.decide(place, asked, ApprovalVerdict.CONDITIONAL, VAULT)
    assert await place.stored() == NOTHING
