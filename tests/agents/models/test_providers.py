"""The table of providers is what the library knows, and every sentence helps."""

import ast
import inspect
import os
import subprocess
import sys

import pytest
from pydantic import SecretStr
from pydantic_ai import providers as library
from pydantic_ai.models import Model

from silas.agents.models.choices import ModelChoice
from silas.agents.models.errors import ModelNotUsable, ModelPackageMissing
from silas.agents.models.factory import api_key_for, make_model
from silas.agents.models.providers import PROVIDERS, facts_of, package_missing, provider_problem
from silas.kernel.errors import LlmError

# The last one is a service that has ended; the library only keeps its name.
NO_CHAT_MODELS = {"elevenlabs", "openai-decisions", "sentence-transformers", "voyageai", "github"}
KEY = "sk-0123456789abcdef"


def known_to_the_library() -> set[str]:
    tree = ast.parse(inspect.getsource(library.infer_provider_class))
    values = [node.value for node in ast.walk(tree) if isinstance(node, ast.MatchValue)]
    return {value.value for value in values if isinstance(value, ast.Constant)}


def test_every_provider_of_the_library_that_has_chat_models() -> None:
    assert set(PROVIDERS) == known_to_the_library() - NO_CHAT_MODELS


@pytest.mark.parametrize("provider", sorted(PROVIDERS))
def test_a_provider_can_be_made_or_says_what_is_missing(provider: str) -> None:
    made = made_or_told(ModelChoice(name=f"{provider}:maker/model", api_key=SecretStr(KEY)))
    if isinstance(made, ModelPackageMissing):
        assert f"pydantic-ai-slim[{PROVIDERS[provider].extra}]" in made.message
    elif isinstance(made, ModelNotUsable):
        assert provider in made.message
        assert KEY not in made.message
    else:
        assert made.model_name == "maker/model"
    assert (package_missing(provider) is not None) == isinstance(made, ModelPackageMissing)


def made_or_told(choice: ModelChoice) -> Model | LlmError:
    try:
        return make_model(choice, {})
    except LlmError as error:
        return error


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("opnrouter:a/b", "does not exist"),
        ("openrouter:gpt-4o", "the maker"),
        ("gateway/:x", "does not exist"),
    ],
)
def test_a_name_that_cannot_be_reached(name: str, words: str) -> None:
    assert words in (provider_problem(name) or "")
    with pytest.raises(ModelNotUsable, match=words):
        make_model(ModelChoice(name=name), {})


def test_a_gateway_is_a_provider() -> None:
    assert provider_problem("gateway/openai:gpt-5") is None
    facts = facts_of("gateway/openai")
    assert facts is not None
    assert facts.key_variables == ("PYDANTIC_AI_GATEWAY_API_KEY",)


def test_without_a_key_the_sentence_says_where_to_put_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENROUTER_API_KEY", raising=False)
    with pytest.raises(ModelNotUsable, match=r"silas secrets set openrouter.*OPENROUTER_API_KEY"):
        make_model(ModelChoice(name="openrouter:a/b"), {})


@pytest.mark.parametrize(
    ("base_url", "sent"),
    [
        (None, KEY),
        ("https://models.example.org/v1", KEY),
        ("http://models.example.org/v1", "no-key"),
        ("http://127.0.0.1:8080/v1", "no-key"),
    ],
)
def test_a_key_of_the_environment_does_not_go_over_plain_http(
    base_url: str | None, sent: str
) -> None:
    choice = ModelChoice(name="openai:x", base_url=base_url)
    assert api_key_for(choice, {"OPENAI_API_KEY": KEY}) == sent


def test_a_key_that_was_chosen_goes_where_it_was_chosen_for() -> None:
    choice = ModelChoice(name="openai:x", base_url="http://10.0.0.1/v1", api_key=SecretStr(KEY))
    assert api_key_for(choice, {"OPENAI_API_KEY": "other"}) == KEY


def test_another_server_is_spoken_to_in_chat_completions() -> None:
    local = make_model(ModelChoice(name="openai:x", base_url="http://127.0.0.1:1/v1"), {})
    assert type(local).__name__ == "OpenAIChatModel"
    at_home = make_model(ModelChoice(name="openai:x"), {"OPENAI_API_KEY": KEY})
    assert type(at_home).__name__ == "OpenAIResponsesModel"


def test_nothing_that_only_looks_loads_the_library() -> None:
    modules = "silas.cli.models, silas.cli.init, silas.cli.doctor, silas.app.agents"
    script = f"import sys, {modules}; sys.exit('pydantic_ai' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", script], env=os.environ, check=False).returncode == 0
    )
