"""Model servers on this machine: those that are known, and what one that answered offers."""

from collections.abc import Mapping
from dataclasses import dataclass

from silas.kernel.models import Data


@dataclass(frozen=True)
class LocalServer:
    """A kind of model server, where it usually listens, and what its models are called in Silas."""

    kind: str
    port: int
    path: str = "/v1/models"
    provider: str = "openai"


KNOWN_SERVERS = (
    LocalServer("Ollama", 11434, path="/api/tags", provider="ollama"),
    LocalServer("llama.cpp", 8080),
    LocalServer("LM Studio", 1234),
    LocalServer("vLLM", 8000),
)


class FoundServer(Data):
    """A model server that answered."""

    kind: str
    base_url: str
    provider: str
    models: tuple[str, ...]

    @property
    def settings(self) -> Mapping[str, str]:
        """What to set so that all roles use the first model of this server."""
        name = f"{self.provider}:{self.models[0]}"
        roles = {f"models.{role}": name for role in ("proxy", "planner", "executor", "scorer")}
        return roles if self.provider == "ollama" else {**roles, "models.base_url": self.base_url}
