"""What a test of a model found out, in words: what it can do, what it is unfit for, why it failed.

The page and `silas models test` say the same. Nothing here loads the library of the models.
"""

import shlex
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from silas.agents.models.choices import OutputMode
from silas.agents.models.providers import package_missing
from silas.kernel import visible

if TYPE_CHECKING:
    from silas.agents.models.probe import ProbeReport

_LABELS = {
    "alibaba": "Alibaba Cloud",
    "deepseek": "DeepSeek",
    "github-copilot": "GitHub Copilot",
    "huggingface": "Hugging Face",
    "litellm": "LiteLLM",
    "moonshotai": "Moonshot AI",
    "openai": "OpenAI",
    "openai-chat": "OpenAI (chat completions)",
    "openai-responses": "OpenAI (responses)",
    "openrouter": "OpenRouter",
    "ovhcloud": "OVHcloud",
    "sambanova": "SambaNova",
    "xai": "xAI",
    "zai": "Z.ai",
}
_ELSEWHERE = {
    "E_LLM_KEY": "{who} does not accept this key. Copy it again from your account there.",
    "E_LLM_UNKNOWN_MODEL": "{who} has no model of the name {model}. Check how it is spelt there.",
    "E_LLM_CREDIT": "Your account at {who} has no credit left. Top it up there, then try again.",
    "E_LLM_BUSY": "{who} takes no more requests for now. Wait a minute, then try again.",
    "E_LLM_SERVER": "The server of {who} failed. Try again later, or choose another model.",
    "E_LLM_TIMEOUT": "{who} took too long to answer. Try again, or choose a smaller model.",
    "E_LLM_UNREACHABLE": "{who} cannot be reached. Is this machine connected to the internet?",
    "E_LLM_TLS": "The certificate of {who} cannot be trusted. Is this machine's clock right?",
    "E_LLM_REFUSED": "{who} refuses this request. Choose another model.",
}
_OWN_SERVER = {
    **_ELSEWHERE,
    "E_LLM_KEY": "The server at {who} does not accept this key, or it wants one.",
    "E_LLM_UNREACHABLE": "Nothing answers at {who}. Does the server run, and is that its address?",
    "E_LLM_UNKNOWN_MODEL": "The server at {who} does not know {model}. Is its address right?",
}
NO_FORM = (
    "It answers, but it neither keeps to a form nor calls tools, so Silas cannot work with it. "
    "Choose another model."
)
_UNFIT_WORKER = (
    "Carrying out plans: this model is unfit. It does not call tools, and its server "
    "does not hold it to a form. Plans that only run commands still work; for the rest, choose a "
    "model that calls tools."
)
_STEPWISE_WORKER = (
    "Carrying out plans: this model does not call tools, so Silas asks it for one "
    "step at a time, in a fixed form. That is slower, and suits small tasks."
)
_SPOKEN_WORKER = (
    "Carrying out plans: this model does not call tools, so Silas reads the calls out "
    "of its text. Expect that some plans need several tries."
)


def label_of(provider: str) -> str:
    """What people call a provider."""
    return _LABELS.get(provider) or provider.replace("-", " ").title()


def install_command(provider: str) -> str | None:
    """The one command that brings what this provider needs; None if it is there."""
    missing = package_missing(provider)
    if missing is None:
        return None
    return shlex.join([sys.executable, "-m", "pip", "install", missing])


def what_it_can(report: "ProbeReport") -> tuple[str, ...]:
    """What a model did in a test, a sentence each; what it did not do is a warning."""
    worked = {mode for mode, why in report.modes.items() if why is None}
    return (
        f"It answers: the first answer took {_seconds(report.latency_ms)}.",
        *(["It answers in a given form."] if worked else []),
        *(["It calls tools."] if OutputMode.TOOL in worked else []),
    )


def what_it_cannot(report: "ProbeReport") -> tuple[str, ...]:
    """A warning for each role that needs more than this model can do."""
    worked = {mode for mode, why in report.modes.items() if why is None}
    if not worked or OutputMode.TOOL in worked or OutputMode.TOOL not in report.modes:
        return ()
    if OutputMode.NATIVE not in worked:
        return (_UNFIT_WORKER,)
    return (_STEPWISE_WORKER if report.local else _SPOKEN_WORKER,)


def why_it_failed(
    error: Mapping[str, Any] | None, *, provider: str, model: str, address: str | None
) -> str:
    """Why a model cannot be used, in a sentence that fits where it is: a provider, or a server."""
    if error is None:
        return NO_FORM
    table = _ELSEWHERE if address is None else _OWN_SERVER
    sentence = table.get(str(error.get("code")))
    if sentence is None:
        return str(error.get("message", ""))
    named = {"who": address or label_of(provider), "model": f"“{model}”"}
    return visible(sentence.format_map(named), keep_newlines=False)


def _seconds(milliseconds: int) -> str:
    seconds = milliseconds / 1000
    return f"{seconds:.0f} seconds" if seconds >= 10 else f"{seconds:.1f} seconds"
