"""A companion with a model, down to the bytes on the wire: what is sent, where to, and when not."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from silas.app.agents import companion_gateway
from silas.app.companions import make_companions, open_companion_store
from silas.app.core import make_core
from silas.app.journal import open_journal
from silas.companions.messages import WakeRun
from silas.journal import operations
from silas.journal.models import OWNER
from silas.secrets import OnDemandVault
from silas.settings.load import load_settings
from silas.testing import MemoryVault
from silas.testing.model_server import ModelServer, answer, model_server

BY_OWNER: Any = {"scope": OWNER, "actor": "owner"}
KEY = "sk-test-0123456789abcdef0123456789"


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    said = json.dumps({"thought": "Nothing to do.", "actions": [], "report": None})
    async with model_server(answer(said)) as server:
        yield server


@pytest.fixture
async def core(tmp_path: Path, server: ModelServer) -> AsyncIterator[Any]:
    config = tmp_path / "silas.yaml"
    config.write_text(
        "silas:\n  models:\n    planner: openai:small\n"
        f"    base_url: {server.url}\n    api_keys: {{openai: secret:openai}}\n"
    )
    settings = load_settings(
        data_dir=str(tmp_path / "data"), config_file=str(config), environ={}, cwd=tmp_path
    )
    (tmp_path / "data").mkdir()
    vault = MemoryVault()
    vault.set("openai", KEY.encode())
    async with make_core(settings, OnDemandVault(lambda: vault)) as core:
        core.keys.generate_keypair()
        yield core


async def test_only_after_consent_and_only_the_allowlisted_fields_are_sent(
    core: Any, server: ModelServer
) -> None:
    async with (
        open_journal(core) as journal,
        open_companion_store(
            core.paths, clock=core.clock, ids=core.ids, host_id=journal.host_id
        ) as store,
    ):
        models = companion_gateway(core, environ={})
        room = make_companions(
            core,
            journal,
            store,
            queue=core.queue,
            environ={},
            models=models,
        )
        made = await operations.create_category(journal, name="gym", **BY_OWNER)
        gym = made.payload["category_id"]
        await operations.create_task(
            journal, title="Squats", category_id=gym, body="Private.", **BY_OWNER
        )
        agent = await room.service.new("planner", category_ids=[gym], model_id="openai:small")
        assert models.names() == ("openai:small",)

        async def run() -> WakeRun:
            woken = await room.lifecycle.wake(agent.id)
            ended = await room.worker.wake(woken)
            assert ended is not None
            return ended

        assert (await run()).error_code == "provider_not_allowed"
        assert server.requests == []
        shown = await room.service.disclosure(agent.id)
        assert shown is not None
        assert shown.host == urlsplit(server.url).netloc
        await room.service.consent(agent.id, policy_version=shown.policy_version)
        ended = await run()
        assert (ended.status, ended.error_code) == ("completed", None)
        (request,) = server.requests
        assert "Squats" in request.body.decode()
        assert "Private." not in request.body.decode()
        assert request.headers["authorization"] == f"Bearer {KEY}"
        trace = await room.service.trace(ended.run_key)
        assert trace.model_id == "openai:small"
        assert trace.usage.tokens == 18
        assert KEY not in trace.model_dump_json()
        rows = await store.database.fetch_all("SELECT body FROM agent_run_traces")
        assert all(KEY not in row[0] for row in rows)
        await models.close()
