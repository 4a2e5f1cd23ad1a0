"""Gates that look at an answer while it is written: what is shown stays, whatever comes."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from silas.gates import Gate, GateTrigger
from silas.gates.guards.registry import built_in_guards
from silas.gates.models import GateProvider
from silas.gates.providers import PredicateProvider
from silas.gates.providers.guardrails_ai import AllValidators, GuardrailsAiProvider
from silas.gates.runner import GateRunner, GrowingGates
from silas.testing import RecordingAudit

TRIGGER = GateTrigger.EVERY_AGENT_RESPONSE
GUARDS = built_in_guards()
LETTERS = "AbCdEfGhIjKlMnOpQrStUvWxYz0123456789"
BEGIN = "-----BEGIN RSA PRIVATE" + " KEY-----\n"
# Put together from pieces, so that scanners of source code do not take them for leaks.
PIECES = [
    "Hello there. ", "This is it.\n", "\n", "\n\n", " ", ". ", "! ", ", ", "; ", "\r\n",
    "password: ", "password=", "hunter22", '"my pass word1', "token: 'a1 b2. ccc d3'", "key: ",
    "Bearer ", "bearer\n", "abc12345def", "--password ", "--password\n", "--api-key\n",
    "Authorization: Token ", "Cookie: session=", "sk-" + LETTERS, "ghp_" + LETTERS,
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0." + LETTERS, BEGIN,
    "MIIBOgIBAAJBAKj34GkxFhD90vc\n", "-----END RSA PRIVATE" + " KEY-----", "Private-Lines: 8\n",
    "b3BlbnNzaC1rZXktdjE" + "AAAABG5vbmU", "4111 1111 1111 1111", "4111 1111\n1111 1111",
    "536-90-4399", "my id ", "tax id ", "12345678901", "phone ", "415 555 2671",
    "+49 170 1234567", "DE89 3704 0044 0532 0130 00", " this word", "anna@mail.example.com",
    "![logo](", "![x][1] ", "[1]: ", "https://evil.example/x.png", ")", '<img src="',
    "https://anna:pw@example.com/", "https://evil.example/?q=TXkgcGFzc3dvcmQgaXMgaHVudGVyMg",
    "x" * 60, "word. " * 5, "a long line without an end " * 25,
]  # fmt: skip


def guard(check: str, mode: str = "fix", **more: Any) -> Gate:
    return Gate.model_validate(
        {
            "name": check,
            "on": TRIGGER,
            "provider": "guardrails_ai",
            "check": check,
            "config": {"mode": mode},
            **more,
        }
    )


SCRUBBING = [guard("pii"), guard("urls"), guard("secrets")]


def runner() -> GateRunner:
    validators = AllValidators(GUARDS, names=GUARDS.names, library=None)
    providers = {
        GateProvider.GUARDRAILS_AI.value: GuardrailsAiProvider(validators),
        GateProvider.PREDICATE.value: PredicateProvider(),
    }
    return GateRunner(providers, RecordingAudit())


async def growing(*gates: Gate) -> GrowingGates:
    return await runner().growing(gates, TRIGGER)


async def whole(gates: list[Gate], text: str) -> str:
    """What the gates let through of the whole text."""
    _, _, context = await runner().check_gates(gates, TRIGGER, {"response": text})
    return str(context["response"])


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=12))
async def test_what_is_shown_of_every_beginning_begins_the_answer(pieces: list[str]) -> None:
    text = "".join(pieces)
    gates = await growing(*SCRUBBING)
    passed = await whole(SCRUBBING, text)
    for size in range(len(text) + 1):
        shown = gates.passed(text[:size])
        assert shown is not None
        assert passed.startswith(shown), (size, shown)


@settings(max_examples=20, deadline=None)
@given(st.text(alphabet=st.sampled_from(" \n.!:=-@/[]()<>\"'aB1٣é…"), max_size=120))
async def test_the_same_with_any_signs(text: str) -> None:
    gates = await growing(*SCRUBBING)
    passed = await whole(SCRUBBING, text)
    for size in range(len(text) + 1):
        shown = gates.passed(text[:size])
        assert shown is not None
        assert passed.startswith(shown), (size, shown)


@pytest.mark.parametrize(
    "secret",
    [
        "sk-" + LETTERS,
        "password: hunter22",
        "4111 1111 1111 1111",
        "https://evil.example/?q=TXkgcGFzc3dvcmQgaXMgaHVudGVyMg",
        f"{BEGIN}MIIBOgIBAAJBAKj3\n-----END RSA PRIVATE KEY-----",
    ],
)
async def test_nothing_of_a_secret_is_ever_shown(secret: str) -> None:
    gates = await growing(*SCRUBBING)
    value = secret.rpartition(": ")[2].rpartition("?q=")[2]
    text = f"Here is what you asked for, all of it. It is {secret} and no more. Good bye.\n"
    for size in range(len(text) + 1):
        shown = gates.passed(text[:size]) or ""
        assert not any(value[: end + 1] in shown for end in range(5, len(value))), shown


async def test_whole_sentences_are_shown_before_the_answer_ends() -> None:
    gates = await growing(*SCRUBBING)
    assert gates.holding == ()
    said = "The first sentence says a lot of things. The second is being wri"
    assert gates.passed(said) == "The first sentence says a lot of things. "


async def test_a_guard_that_blocks_shows_nothing_more() -> None:
    gates = await growing(guard("secrets", mode="block"))
    good = "This sentence is harmless and is shown. "
    assert gates.passed(good) == good
    assert gates.passed(f"{good}The password: hunter22\n") is None


@pytest.mark.parametrize(
    "gate",
    [
        guard("toxicity"),
        guard("jailbreak", mode="block"),
        guard("secrets", extract="message"),
        guard("secrets", match=["nothing that a guard would find"]),
        guard("no-such-guard"),
        Gate(name="tone", on=TRIGGER, provider="llm", check="Is it kind?", promote_to_policy=True),
        Gate(name="tone", on=TRIGGER, provider="script", check="true"),
        Gate(name="tone", on=TRIGGER, type="approval_always"),
        Gate(name="tone", on=TRIGGER, type="regex", config={"pattern": "[a-z ]*"}),
    ],
    ids=lambda gate: f"{gate.provider.value} {gate.check or gate.type.value}",
)
async def test_a_gate_that_wants_the_whole_answer_holds_it(gate: Gate) -> None:
    gates = await growing(*SCRUBBING, gate)
    assert gates.holding == (gate,)
    assert gates.passed("Much. " * 50) == ""


async def test_advice_holds_nothing() -> None:
    advice = Gate(name="style", on=TRIGGER, provider="llm", check="Is it short?")
    run = runner()
    asked = GateRunner({**run.providers, "llm": PredicateProvider()}, RecordingAudit())
    gates = await asked.growing([advice, *SCRUBBING], TRIGGER)
    assert gates.holding == ()


async def test_a_gate_of_another_trigger_is_not_asked() -> None:
    script = Gate(name="in", on=GateTrigger.EVERY_USER_MESSAGE, provider="script", check="true")
    assert (await growing(script)) == GrowingGates()


async def test_whoever_watches_is_told_which_gate_is_asked() -> None:
    asked: list[str] = []
    watched = runner().for_turn(lambda gate: asked.append(gate.name))
    await watched.check_gates(SCRUBBING, TRIGGER, {"response": "Hello."})
    assert asked == ["pii", "urls", "secrets"]
