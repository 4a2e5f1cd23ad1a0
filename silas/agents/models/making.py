"""From a choice to the library's model: the right provider, with its key and its address."""

import inspect
from collections.abc import Mapping
from typing import Any

from pydantic_ai.exceptions import UserError
from pydantic_ai.models import Model, infer_model
from pydantic_ai.providers import Provider, infer_provider, infer_provider_class

from silas.agents.models.choices import ModelChoice
from silas.agents.models.errors import ModelNotUsable, ModelPackageMissing
from silas.agents.models.providers import (
    ProviderFacts,
    facts_of,
    key_from_environment,
    provider_problem,
)
from silas.kernel.redaction import Redactor

_NO_KEY = "no-key"
"""Servers without keys still want a header; and the client must not look for a key by itself."""
_LONGEST_SENTENCE = 300
_KEY_PARAMETERS = ("api_key", "token")
_ADDRESS_PARAMETERS = ("base_url", "api_base", "azure_endpoint")


def make_model(choice: ModelChoice, environ: Mapping[str, str]) -> Model:
    """The library's model for this choice; raises an error that says what is missing."""
    if problem := provider_problem(choice.name):
        raise ModelNotUsable(f"`{choice.name}` {problem}.")
    try:
        return infer_model(_name_for(choice), lambda _: _make_provider(choice, environ))
    except ImportError:
        extra = _facts(choice).extra
        raise ModelPackageMissing(
            f"`{choice.provider}` needs a package that is not installed. "
            f'Run `pip install "pydantic-ai-slim[{extra}]"`.'
        ) from None
    except UserError as error:
        key = api_key_for(choice, environ)
        if key is None and _facts(choice).key_variables:
            raise ModelNotUsable(_no_key(choice)) from None
        said = Redactor([key] if key else []).text(str(error))[:_LONGEST_SENTENCE]
        raise ModelNotUsable(f"`{choice.name}` cannot be used as it is: {said}") from None


def _facts(choice: ModelChoice) -> ProviderFacts:
    return facts_of(choice.provider) or ProviderFacts()


def _name_for(choice: ModelChoice) -> str:
    """Other servers speak chat completions; OpenAI's newer protocol is OpenAI's own."""
    if choice.base_url is not None and choice.provider == "openai":
        return f"openai-chat:{choice.model}"
    return choice.name


def _make_provider(choice: ModelChoice, environ: Mapping[str, str]) -> Provider[Any]:
    if choice.provider.startswith("gateway/"):
        return infer_provider(choice.provider)
    provider_class = infer_provider_class(choice.provider)
    takes = inspect.signature(provider_class.__init__).parameters
    arguments: dict[str, Any] = {}
    parameter = next((name for name in _KEY_PARAMETERS if name in takes), None)
    if parameter and (key := api_key_for(choice, environ)) is not None:
        arguments[parameter] = key
    address = choice.base_url or _facts(choice).default_url
    named = next((name for name in _ADDRESS_PARAMETERS if name in takes), None)
    if address is None:
        return provider_class(**arguments) if arguments else infer_provider(choice.provider)
    if named:
        return provider_class(**arguments, **{named: address})
    return _at(provider_class(**arguments), choice, address)


def _at(provider: Provider[Any], choice: ModelChoice, address: str) -> Provider[Any]:
    """A provider with one fixed address, sent to another one that speaks the same protocol."""
    if not hasattr(provider.client, "base_url"):
        raise ModelNotUsable(f"`{choice.provider}` has one address only; remove its base_url.")
    provider.client.base_url = address
    return provider


def api_key_for(choice: ModelChoice, environ: Mapping[str, str]) -> str | None:
    """The key that goes with the requests; None leaves it to the provider's own ways.

    A key from the environment is meant for the provider itself: it never goes to another address
    over plain http, nor to a server on this machine.
    """
    if choice.api_key is not None:
        return choice.api_key.get_secret_value()
    key = key_from_environment(choice.provider, environ)
    if key is not None and (choice.base_url or "https://").startswith("https://"):
        return key
    elsewhere = choice.base_url is not None or _facts(choice).default_url is not None
    return _NO_KEY if elsewhere else None


def _no_key(choice: ModelChoice) -> str:
    return (
        f"There is no key for `{choice.provider}`. Run `silas secrets set {choice.provider}` and "
        f"set models.api_keys.{choice.provider} to `secret:{choice.provider}`, "
        f"or set {_facts(choice).key_variables[0]}."
    )
