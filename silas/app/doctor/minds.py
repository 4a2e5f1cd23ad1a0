"""Who thinks here: configured models, or the offline brain."""

from collections.abc import Mapping

from silas.agents.models.choices import ModelChoice
from silas.agents.models.providers import facts_of, package_missing
from silas.app.doctor.findings import Finding, ok, warning
from silas.app.model_choices import lacks_key, model_choices, without_reading
from silas.app.settings import Settings
from silas.kernel.loopback import is_loopback_url


def model(settings: Settings, environ: Mapping[str, str]) -> Finding:
    """Whether the configured models have what they need; nothing is sent to them."""
    roles = model_choices(settings, without_reading).values()
    chosen = [each for role in roles for each in (role.model, role.fallback) if role.model and each]
    if not chosen:
        return ok("model", "None is configured: the offline brain is in charge, nothing leaves.")
    problems = (_problem(choice, environ) for choice in chosen)
    names = ", ".join(sorted({choice.name for choice in chosen}))
    return next((each for each in problems if each), ok("model", f"{names}."))


def _problem(choice: ModelChoice, environ: Mapping[str, str]) -> Finding | None:
    if package := package_missing(choice.provider):
        words = f"{choice.name} needs a package that is not installed."
        return warning("model", words, fix=f'pip install "{package}"')
    if lacks_key(choice, environ):
        facts = facts_of(choice.provider)
        variable = facts.key_variables[0] if facts and facts.key_variables else "its key"
        words = f"{choice.name} needs a key, and {variable} is not set."
        return warning("model", words, fix=f"export {variable}=…")
    if choice.base_url and choice.base_url.startswith("http://") and choice.api_key:
        return _in_the_open(choice)
    return None


def _in_the_open(choice: ModelChoice) -> Finding | None:
    if is_loopback_url(choice.base_url or ""):
        return None
    words = f"The key of {choice.name} and all that is said go over the network unencrypted."
    return warning("model", words, fix="use an https:// address in models")
