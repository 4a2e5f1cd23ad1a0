"""What a test of a model found out is said in words that fit what was found."""

import pytest

from silas.agents.models import factory
from silas.agents.models.choices import OutputMode
from silas.agents.models.probe import ProbeReport
from silas.agents.models.providers import PROVIDERS
from silas.agents.models.words import (
    NO_FORM,
    install_command,
    label_of,
    what_it_can,
    what_it_cannot,
    why_it_failed,
)

ALL = (OutputMode.NATIVE, OutputMode.TOOL, OutputMode.PROMPTED)


def report(*working: OutputMode, local: bool = False, latency_ms: int = 1234) -> ProbeReport:
    modes = {mode: None if mode in working else "no" for mode in ALL}
    return ProbeReport(
        model="openai:m", ok=bool(working), modes=modes, local=local, latency_ms=latency_ms
    )


def test_what_works_is_said_and_nothing_else() -> None:
    assert what_it_can(report(*ALL)) == (
        "It answers: the first answer took 1.2 seconds.",
        "It answers in a given form.",
        "It calls tools.",
    )
    without = what_it_can(report(OutputMode.PROMPTED, latency_ms=20_400))
    assert without[0].endswith("20 seconds.")
    assert without[1:] == ("It answers in a given form.",)
    assert len(what_it_can(report())) == 1


@pytest.mark.parametrize(
    ("working", "local", "told"),
    [
        ((OutputMode.NATIVE, OutputMode.PROMPTED), True, "one step at a time"),
        ((OutputMode.NATIVE,), False, "out of its text"),
        ((OutputMode.PROMPTED,), True, "unfit"),
        ((OutputMode.PROMPTED,), False, "unfit"),
    ],
)
def test_a_worker_without_tool_calls_is_warned_about(
    working: tuple[OutputMode, ...], local: bool, told: str
) -> None:
    [warning] = what_it_cannot(report(*working, local=local))
    assert warning.startswith("Carrying out plans: ")
    assert told in warning


def test_whoever_calls_tools_is_not_warned_about() -> None:
    assert what_it_cannot(report(OutputMode.TOOL)) == ()
    assert what_it_cannot(report()) == ()  # it is not used at all


@pytest.mark.parametrize(
    ("code", "elsewhere", "own"),
    [
        ("E_LLM_UNREACHABLE", "connected to the internet", "Nothing answers at http://h/v1"),
        ("E_LLM_KEY", "OpenAI does not accept this key", "http://h/v1 does not accept this key"),
        ("E_LLM_UNKNOWN_MODEL", "no model of the name “gpt-9”", "does not know “gpt-9”"),
        ("E_LLM_CREDIT", "no credit left", "no credit left"),
    ],
)
def test_no_network_a_wrong_key_and_a_wrong_name_are_told_apart(
    code: str, elsewhere: str, own: str
) -> None:
    error = {"code": code, "message": "as the library has it"}
    far = why_it_failed(error, provider="openai", model="gpt-9", address=None)
    near = why_it_failed(error, provider="openai", model="gpt-9", address="http://h/v1")
    assert elsewhere in far
    assert own in near


def test_what_has_no_words_of_its_own_is_told_as_it_is() -> None:
    error = {"code": "E_LLM_CONFIG", "message": "Something particular."}
    assert why_it_failed(error, provider="x", model="m", address=None) == "Something particular."
    assert why_it_failed(None, provider="x", model="m", address=None) == NO_FORM


def test_every_provider_has_a_name_and_says_what_it_needs() -> None:
    for provider in PROVIDERS:
        assert label_of(provider)
        command = install_command(provider)
        assert command is None or "-m pip install 'pydantic-ai-slim[" in command
    assert label_of("openai") == "OpenAI"
    assert install_command("openai") is None


def test_no_library_prints_a_banner_of_its_own() -> None:
    assert factory.pydantic_ai.BANNER_ENABLED is False
