"""The roles that models play, and which model was chosen for each: data, without a client."""

from enum import StrEnum

from pydantic import Field, SecretStr

from silas.kernel.models import Data


class Role(StrEnum):
    """What a model is asked to be."""

    PROXY = "proxy"
    PLANNER = "planner"
    EXECUTOR = "executor"
    SCORER = "scorer"
    GATE = "gate"


class OutputMode(StrEnum):
    """How a model is made to answer in a given form, from the firmest way to the loosest.

    `native`: the server holds the model to a JSON schema. `tool`: the answer is the arguments of a
    tool call. `prompted`: the schema stands in the prompt, and the answer is hoped for.
    """

    NATIVE = "native"
    TOOL = "tool"
    PROMPTED = "prompted"


class ModelChoice(Data):
    """One model, as `provider:model`, with what is needed to reach it."""

    name: str
    base_url: str | None = None
    api_key: SecretStr | None = None
    output_mode: OutputMode | None = None
    """What the owner decided; None leaves it to what is known about the model."""

    @property
    def provider(self) -> str:
        """The provider's part of the name."""
        return self.name.partition(":")[0]

    @property
    def model(self) -> str:
        """The model's part of the name."""
        return self.name.partition(":")[2]


class Patience(Data):
    """How long Silas waits, how often it tries again, and when it stops trying for a while."""

    timeout_seconds: float = Field(300.0, gt=0)
    max_retries: int = Field(2, ge=0)
    backoff_seconds: float = Field(1.0, ge=0)
    longest_wait_seconds: float = Field(30.0, ge=0)
    breaker_failures: int = Field(5, ge=1)
    breaker_seconds: float = Field(60.0, ge=0)


class RoleChoice(Data):
    """Who plays a role: a model and the one that steps in for it; without a model, nobody does."""

    role: Role
    model: ModelChoice | None = None
    fallback: ModelChoice | None = None
    patience: Patience = Patience()
