"""The guard `secrets`: every format of the kernel, also encoded; ordinary text stays."""

import base64

import pytest

from silas.gates.guards import GuardDecision, built_in_guards
from silas.gates.guards.secrets import (
    CERTAIN_RULES,
    MOST_CANDIDATES,
    RULES,
    SECRET_EXAMPLES,
    VAGUE_FORMATS,
    SecretRule,
)
from silas.kernel.redaction import SECRET_FORMATS

GUARDS = built_in_guards()
TOKEN = "ghp_" + "aB3" * 12


def test_every_format_of_the_kernel_has_examples() -> None:
    names = {each.name for each in SECRET_FORMATS}
    assert names == SECRET_EXAMPLES.keys()
    assert names > VAGUE_FORMATS


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_every_format_is_found_and_taken_out(rule: SecretRule) -> None:
    for secret in rule.match:
        for text in (secret, f"see: {secret}", f"a {secret}\nand more"):
            verdict = GUARDS.check("secrets", text)
            assert verdict.decision is GuardDecision.FIX, text
            again = GUARDS.check("secrets", verdict.fixed_text or "")
            assert again.decision is GuardDecision.PASS, verdict.fixed_text


@pytest.mark.parametrize("rule", CERTAIN_RULES, ids=lambda rule: rule.name)
def test_certain_formats_are_found_behind_base64(rule: SecretRule) -> None:
    for secret in rule.match:
        hidden = base64.b64encode(f"x {secret} y".encode()).decode()
        assert GUARDS.check("secrets", f"see {hidden}").decision is GuardDecision.FIX


def test_nothing_of_the_secret_is_in_the_verdict() -> None:
    verdict = GUARDS.check("secrets", f"the token {TOKEN} is mine")
    assert verdict.fixed_text == "the token [redacted] is mine"
    assert TOKEN[:10] not in str(verdict)


def test_what_tells_the_reader_stays() -> None:
    assert GUARDS.check("secrets", "password = hunter22!").fixed_text == "password = [redacted]"


@pytest.mark.parametrize(
    "text",
    [
        "password: str",
        "token = next(lexer)",
        "The secret: it is all in the timing.",
        "auth=None, pin=3",
        "export API_KEY=<your key>",
        "api_key=os.environ['KEY1']",
        "Authorization: see section 3",
        "a basic understanding of physics",
        "--token is required",
        "the commit 0123456789abcdef0123456789abcdef01234567",
        "uuid 123e4567-e89b-12d3-a456-426614174000",
    ],
)
def test_ordinary_text_stays(text: str) -> None:
    assert GUARDS.check("secrets", text).decision is GuardDecision.PASS


def test_many_secrets_are_all_taken_out() -> None:
    text = "\n".join(f"password=hunter{number}" for number in range(MOST_CANDIDATES))
    verdict = GUARDS.check("secrets", text)
    assert len(verdict.findings) == 100
    assert "hunter" not in (verdict.fixed_text or "hunter")


def test_more_secrets_than_can_be_examined_stop_the_text() -> None:
    text = "\n".join(f"password=hunter{number}" for number in range(MOST_CANDIDATES + 1))
    verdict = GUARDS.check("secrets", text)
    assert verdict.decision is GuardDecision.BLOCK
    assert [finding.rule for finding in verdict.findings] == ["too-many-secrets"]
