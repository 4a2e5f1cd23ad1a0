"""From the settings to the choice of each role; keys are looked up where the settings say.

Nothing here loads pydantic_ai: `silas doctor` and `silas models list` only look.
"""

from collections.abc import Callable, Mapping

from pydantic import SecretStr

from silas.agents.models.choices import ModelChoice, Patience, RoleChoice
from silas.agents.models.errors import ModelNotUsable
from silas.agents.models.providers import OPENAI_COMPATIBLE, facts_of, key_from_environment
from silas.agents.models.roles import OutputMode, Role
from silas.app.settings import Settings
from silas.app.settings.model_roles import ModelSettings, RoleModelSettings

SecretReader = Callable[[str], bytes | None]
"""Reads a secret of the vault by its name; None if there is none."""
KeyReader = Callable[[str], SecretStr]
"""Turns a reference such as `secret:openrouter` into the key."""


def key_reader(read_secret: SecretReader, environ: Mapping[str, str]) -> KeyReader:
    """Read keys from the vault and from the environment; a missing one is an error that says so."""

    def read(reference: str) -> SecretStr:
        kind, _, name = reference.partition(":")
        if kind == "env":
            if not environ.get(name):
                raise ModelNotUsable(f"A key is said to be in {name}, which is not set. Set it.")
            return SecretStr(environ[name])
        value = read_secret(name)
        if value is None:
            raise ModelNotUsable(
                f"There is no secret `{name}` in the vault. Run `silas secrets set {name}`."
            )
        return SecretStr(value.decode("utf-8", "replace").strip())

    return read


def without_reading(reference: str) -> SecretStr:
    """Stand in for a key where it is not needed: the vault stays closed."""
    return SecretStr(reference)


def model_choices(settings: Settings, read_key: KeyReader) -> dict[Role, RoleChoice]:
    """Who plays each role, with keys."""
    return {role: _role_choice(settings, role, read_key) for role in Role}


def model_name(settings: Settings, role: Role) -> str | None:
    """The model that the settings name for a role."""
    models = settings.models
    named: str | None = getattr(models, role.value)
    if named is None and role is Role.GATE:
        return settings.gates.llm_defaults.model or models.scorer
    return named


def _role_choice(settings: Settings, role: Role, read_key: KeyReader) -> RoleChoice:
    models = settings.models
    details: RoleModelSettings = getattr(models.per_role, role.value)
    name, fallback = model_name(settings, role), details.fallback or models.fallback
    if name is None:
        return RoleChoice(role=role, patience=_patience(models, details))
    return RoleChoice(
        role=role,
        model=_choice(models, name, details=details, read_key=read_key),
        fallback=_choice(models, fallback, details=None, read_key=read_key) if fallback else None,
        patience=_patience(models, details),
    )


def _choice(
    models: ModelSettings, name: str, *, details: RoleModelSettings | None, read_key: KeyReader
) -> ModelChoice:
    """A role's own address and key belong to its model alone: a fallback never gets them."""
    provider = name.partition(":")[0]
    base_url = models.base_url if provider in OPENAI_COMPATIBLE else None
    reference = models.api_keys.get(provider)
    mode = models.output_mode
    if details is not None:
        base_url = details.base_url or base_url
        reference = details.api_key or reference
        mode = details.output_mode or mode
    return ModelChoice(
        name=name,
        base_url=base_url,
        api_key=read_key(reference) if reference else None,
        output_mode=None if mode == "auto" else OutputMode(mode),
    )


def _patience(models: ModelSettings, details: RoleModelSettings) -> Patience:
    retries = details.max_retries
    return Patience(
        timeout_seconds=details.timeout_seconds or models.timeout_seconds,
        max_retries=models.max_retries if retries is None else retries,
        breaker_failures=models.breaker_failures,
        breaker_seconds=models.breaker_seconds,
    )


def lacks_key(choice: ModelChoice, environ: Mapping[str, str]) -> bool:
    """Whether requests would be refused for want of a key, as far as can be told from here."""
    facts = facts_of(choice.provider)
    if facts is None or facts.keyless or choice.api_key is not None or choice.base_url:
        return False
    return key_from_environment(choice.provider, environ) is None
