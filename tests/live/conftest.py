"""A real model, if there is one: any server that speaks OpenAI's protocol."""

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr
from pydantic_ai.models import override_allow_model_requests

from silas.agents.models.choices import ModelChoice, Patience, Role, RoleChoice
from silas.agents.models.factory import Models
from silas.kernel import SystemClock
from silas.storage import SqliteDatabase, load_migrations, migrate
from tests.work.shop import Shop


@pytest.fixture(scope="session")
def choice() -> ModelChoice:
    address = os.environ.get("SILAS_LIVE_BASE_URL")
    if not address:
        pytest.skip("Set SILAS_LIVE_BASE_URL (and SILAS_LIVE_MODEL) to try a real model.")
    return ModelChoice(
        name=f"openai:{os.environ.get('SILAS_LIVE_MODEL', 'local')}",
        base_url=address,
        api_key=SecretStr(os.environ.get("SILAS_LIVE_API_KEY", "none")),
    )


@pytest.fixture(autouse=True)
def really() -> Iterator[None]:
    """Here, and nowhere else, a model may be asked."""
    with override_allow_model_requests(True):
        yield


@pytest.fixture
async def models(choice: ModelChoice) -> AsyncIterator[Models]:
    patience = Patience(timeout_seconds=600)
    choices = {role: RoleChoice(role=role, model=choice, patience=patience) for role in Role}
    async with Models(choices, environ={}, clock=SystemClock()) as opened:
        yield opened


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    clock = SystemClock()
    database = SqliteDatabase.open(tmp_path / "silas.db")
    await migrate(database, load_migrations("runtime"), clock=clock)
    yield Shop(database, clock, tmp_path)
    await database.close()
