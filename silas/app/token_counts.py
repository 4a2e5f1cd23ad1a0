"""Who counts tokens exactly, from the settings: nobody, or the server of the proxy's model."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from silas.agents.models.errors import ModelNotUsable
from silas.agents.models.making import api_key_for
from silas.agents.models.roles import Role
from silas.agents.models.token_counts import AnthropicTokens, LlamaCppTokens, counting_client
from silas.app.ground import Ground
from silas.app.model_choices import key_reader, model_choices
from silas.context.ports import ExactTokens


@asynccontextmanager
async def open_token_counts(
    ground: Ground, *, environ: Mapping[str, str]
) -> AsyncIterator[ExactTokens | None]:
    """The server that counts, or None if tokens are estimated."""
    kind = ground.settings.context.token_counter
    if kind == "estimate":
        yield None
        return
    choices = model_choices(ground.settings, key_reader(ground.vault.get, environ))
    choice = choices[Role.PROXY].model
    async with counting_client() as client:
        if kind == "anthropic" and choice is not None and choice.provider == "anthropic":
            yield AnthropicTokens(client, choice, key=api_key_for(choice, environ))
        elif kind == "llamacpp" and choice is not None and choice.base_url:
            yield LlamaCppTokens(client, choice)
        else:
            raise ModelNotUsable(
                f"context.token_counter is `{kind}`, which the model of models.proxy is not. "
                "Set it to `estimate`."
            )
