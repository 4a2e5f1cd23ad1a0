"""The providers that the library knows: what each one needs, without loading the library.

A test proves this table against the library itself.
"""

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass

from silas.agents.models.choices import ModelChoice
from silas.kernel.loopback import is_loopback_url


@dataclass(frozen=True)
class ProviderFacts:
    """What a provider needs before it can be used."""

    key_variables: tuple[str, ...] = ()
    """Environment variables that may hold the key; the first one is the one to recommend."""
    extra: str = "openai"
    """The part of pydantic-ai-slim that brings the provider's client."""
    default_url: str | None = None
    """Where a server of this kind listens on one's own machine."""
    keyless: bool = False
    """Whether the provider works without a key, or finds its credentials by itself."""


_OPENAI = ProviderFacts(("OPENAI_API_KEY",))

PROVIDERS: Mapping[str, ProviderFacts] = {
    "alibaba": ProviderFacts(("ALIBABA_API_KEY", "DASHSCOPE_API_KEY")),
    "anthropic": ProviderFacts(("ANTHROPIC_API_KEY",), extra="anthropic"),
    "azure": ProviderFacts(("AZURE_OPENAI_API_KEY",)),
    "azure-responses": ProviderFacts(("AZURE_OPENAI_API_KEY",)),
    "bedrock": ProviderFacts(("AWS_BEARER_TOKEN_BEDROCK",), extra="bedrock", keyless=True),
    "bedrock-mantle": ProviderFacts(("AWS_BEARER_TOKEN_BEDROCK",), keyless=True),
    "cerebras": ProviderFacts(("CEREBRAS_API_KEY",)),
    "cohere": ProviderFacts(("CO_API_KEY",), extra="cohere"),
    "crusoe": ProviderFacts(("CRUSOE_API_KEY",)),
    "deepseek": ProviderFacts(("DEEPSEEK_API_KEY",)),
    "fireworks": ProviderFacts(("FIREWORKS_API_KEY",)),
    "github-copilot": ProviderFacts(("GITHUB_COPILOT_API_KEY",), keyless=True),
    "google": ProviderFacts(("GOOGLE_API_KEY", "GEMINI_API_KEY"), extra="google"),
    "google-cloud": ProviderFacts(("GOOGLE_API_KEY",), extra="google", keyless=True),
    "groq": ProviderFacts(("GROQ_API_KEY",), extra="groq"),
    "heroku": ProviderFacts(("HEROKU_INFERENCE_KEY",)),
    "huggingface": ProviderFacts(("HF_TOKEN",), extra="huggingface"),
    "litellm": ProviderFacts(keyless=True),
    "meta": ProviderFacts(("META_API_KEY",)),
    "mistral": ProviderFacts(("MISTRAL_API_KEY",), extra="mistral"),
    "moonshotai": ProviderFacts(("MOONSHOTAI_API_KEY",)),
    "nebius": ProviderFacts(("NEBIUS_API_KEY",)),
    "ollama": ProviderFacts(
        ("OLLAMA_API_KEY",), keyless=True, default_url="http://127.0.0.1:11434/v1"
    ),
    "openai": _OPENAI,
    "openai-chatgpt": ProviderFacts(keyless=True),
    "openai-codex": ProviderFacts(keyless=True),
    "openai-chat": _OPENAI,
    "openai-responses": _OPENAI,
    "openrouter": ProviderFacts(("OPENROUTER_API_KEY",)),
    "ovhcloud": ProviderFacts(("OVHCLOUD_API_KEY",)),
    "sambanova": ProviderFacts(("SAMBANOVA_API_KEY",)),
    "snowflake": ProviderFacts(("SNOWFLAKE_TOKEN",)),
    "system-one": ProviderFacts(("SYSTEM_ONE_API_KEY",)),
    "together": ProviderFacts(("TOGETHER_API_KEY",)),
    "typesafe": ProviderFacts(("TYPESAFE_API_KEY",), extra="typesafe"),
    "vercel": ProviderFacts(("VERCEL_AI_GATEWAY_API_KEY", "VERCEL_OIDC_TOKEN")),
    "vllm": ProviderFacts(("VLLM_API_KEY",), keyless=True, default_url="http://127.0.0.1:8000/v1"),
    "xai": ProviderFacts(("XAI_API_KEY",), extra="xai"),
    "zai": ProviderFacts(("ZAI_API_KEY",)),
}

NEEDS_MORE = frozenset(
    {
        "azure",
        "azure-responses",
        "bedrock",
        "bedrock-mantle",
        "github-copilot",
        "google-cloud",
        "litellm",
        "ollama",
        "openai-chatgpt",
        "openai-codex",
        "snowflake",
        "system-one",
        "vllm",
    }
)
"""Providers that want more than a key, or another thing: an address, an account, a region."""

_GATEWAY = "gateway/"
_GATEWAY_FACTS = ProviderFacts(("PYDANTIC_AI_GATEWAY_API_KEY",))

_MODULES = {
    "bedrock": "boto3",
    "google": "google.genai",
    "huggingface": "huggingface_hub",
    "mistral": "mistralai",
    "typesafe": "typesafe_sdk",
    "xai": "xai_sdk",
}
"""The module that a part of the library needs, where it has another name than the part."""

OPENAI_COMPATIBLE = ("openai", "openai-chat", "openai-responses")
"""The providers that a general `base_url` is meant for."""


def facts_of(provider: str) -> ProviderFacts | None:
    """What is known about a provider; None if there is none of this name."""
    if provider.startswith(_GATEWAY):
        return _GATEWAY_FACTS if provider.removeprefix(_GATEWAY) else None
    return PROVIDERS.get(provider)


def is_local(choice: ModelChoice) -> bool:
    """Whether the model runs on this machine."""
    facts = facts_of(choice.provider)
    address = choice.base_url or (facts.default_url if facts else None)
    return address is not None and is_loopback_url(address)


def provider_problem(name: str) -> str | None:
    """Why no model of this name can be reached, as the end of a sentence; None if one may be."""
    provider, _, model = name.partition(":")
    if facts_of(provider) is None:
        return "names a provider that does not exist"
    if provider == "openrouter" and "/" not in model:
        return "must name the maker as well, such as `openrouter:anthropic/claude-haiku-4-5`"
    return None


def package_missing(provider: str) -> str | None:
    """What to install for this provider; None if everything is there."""
    facts = facts_of(provider) or ProviderFacts()
    module = _MODULES.get(facts.extra, facts.extra)
    try:
        found = importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # the package around it is not there either
        found = False
    if found:
        return None
    return f"pydantic-ai-slim[{facts.extra}]"


def key_from_environment(provider: str, environ: Mapping[str, str]) -> str | None:
    """The provider's key, if one of its usual variables is set."""
    facts = facts_of(provider) or ProviderFacts()
    return next((environ[name] for name in facts.key_variables if environ.get(name)), None)
