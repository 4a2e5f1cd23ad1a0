"""Settings of the models: which one plays which role, and how Silas reaches it.

An API key is never written here: a setting names the secret or the variable that holds it.
"""

from collections.abc import Mapping
from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from silas.agents.models.providers import provider_problem
from silas.app.settings.fields import HttpAddress, ModelName, Seconds, Section, Whole
from silas.kernel.field_problems import text_like

PROVIDER_ERROR = "model_provider"


def _check_provider(value: str) -> str:
    if problem := provider_problem(value):
        raise PydanticCustomError(PROVIDER_ERROR, problem)
    return value


UsableModel = Annotated[ModelName, AfterValidator(_check_provider)]
"""A model of a provider that exists."""
KeyReference = Annotated[
    str,
    text_like(
        r"secret:[A-Za-z0-9._/-]{1,200}|env:[A-Za-z_][A-Za-z0-9_]{0,199}",
        "must say where the key is, not the key itself: `secret:NAME` for one that "
        "`silas secrets set NAME` has stored, or `env:NAME` for a variable",
    ),
]
Mode: TypeAlias = Literal["auto", "native", "tool", "prompted"]


class RoleModelSettings(Section):
    """What is different for one role; what is null is as for all roles."""

    base_url: HttpAddress | None = Field(None, description="Address of the server of this role.")
    api_key: KeyReference | None = Field(None, description="Where this role's key is.")
    fallback: UsableModel | None = Field(None, description="Who steps in if the model fails.")
    timeout_seconds: Seconds | None = Field(None, description="How long an answer may take.")
    max_retries: Whole | None = Field(None, ge=0, le=10, description="Further tries.")
    output_mode: Mode | None = Field(None, description="How a structured answer is asked for.")


class PerRoleSettings(Section):
    """Details for single roles."""

    proxy: RoleModelSettings = Field(default_factory=RoleModelSettings)
    planner: RoleModelSettings = Field(default_factory=RoleModelSettings)
    executor: RoleModelSettings = Field(default_factory=RoleModelSettings)
    scorer: RoleModelSettings = Field(default_factory=RoleModelSettings)
    gate: RoleModelSettings = Field(default_factory=RoleModelSettings)


class ModelSettings(Section):
    """Which model plays which role. Without one, the offline brain does: no network, no account."""

    proxy: UsableModel | None = Field(
        None, description="Answers and routes, as `provider:model`; null is the offline brain."
    )
    planner: UsableModel | None = Field(
        None, description="Writes plans, as `provider:model`; null is the offline brain."
    )
    executor: UsableModel | None = Field(
        None, description="Carries out approved plans; null is the offline brain."
    )
    scorer: UsableModel | None = Field(
        None, description="Judges what may leave the context; null is the offline brain."
    )
    gate: UsableModel | None = Field(
        None,
        description="Judges texts for gates; null is gates.llm_defaults.model, else the scorer.",
    )
    base_url: HttpAddress | None = Field(
        None, description="Address of an OpenAI-compatible server for `openai:` models."
    )
    api_keys: Mapping[str, KeyReference] = Field(
        default_factory=dict,
        description="Where each provider's key is: `openrouter: secret:openrouter`. "
        "A provider that is not named here takes its usual variable.",
    )
    fallback: UsableModel | None = Field(
        None, description="The model that steps in when the one of a role fails."
    )
    timeout_seconds: Seconds = Field(
        300, description="How long one answer may take, with all tries."
    )
    max_retries: Whole = Field(
        2, ge=0, le=10, description="How often a failed request is tried again."
    )
    breaker_failures: Whole = Field(
        5, ge=1, le=1000, description="After so many failures in a row a model is left alone."
    )
    breaker_seconds: Seconds = Field(60, description="How long it is left alone.")
    output_mode: Mode = Field(
        "auto",
        description="How structured answers are asked for: by a native schema, a tool call or in "
        "the prompt; auto is what `silas models test` found best.",
    )
    per_role: PerRoleSettings = Field(default_factory=PerRoleSettings)
