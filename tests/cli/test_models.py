"""`silas models`: list, test, detect; and `silas usage`."""

import asyncio
import json
from contextlib import closing
from datetime import UTC, datetime, timedelta

import apsw
import pytest

from silas.testing.model_server import Reply, Request, answer, failure, model_server, tool_call
from tests.cli.machine import Machine, output_of

RIGHT = '{"word": "sum", "number": 7}'


def able(request: Request) -> Reply:
    tools = request.json.get("tools")
    return tool_call(tools[0]["function"]["name"], RIGHT) if tools else answer(RIGHT)


def configured(machine: Machine, url: str, **more: str) -> Machine:
    environ = {**machine.environ, "SILAS_MODELS__BASE_URL": url, **more}
    return Machine(machine.data_dir, environ)


def test_without_a_model_the_offline_brain_plays_all_roles(owner: Machine) -> None:
    listed = json.loads(output_of(owner.run("models", "list", "--json")))
    assert {each["model"] for each in listed["roles"]} == {None}
    assert len(listed["roles"]) == 5
    tested = owner.run("models", "test")
    assert tested.returncode == 0
    assert b"there is nothing to test" in tested.stdout


def test_a_misspelt_provider_is_told_with_the_right_one(owner: Machine) -> None:
    machine = Machine(owner.data_dir, {**owner.environ, "SILAS_MODELS__PROXY": "opnrouter:a/b"})
    refused = machine.run("models", "list")
    assert refused.returncode == 10
    assert b"did you mean `openrouter`?" in refused.stderr


def test_a_key_itself_is_refused_in_the_settings(owner: Machine) -> None:
    key = "sk-or-v1-0123456789abcdef"
    keys = json.dumps({"openrouter": key})
    machine = Machine(owner.data_dir, {**owner.environ, "SILAS_MODELS__API_KEYS": keys})
    refused = machine.run("models", "list")
    assert refused.returncode == 10
    assert b"secret:NAME" in refused.stderr
    assert key.encode() not in refused.stderr + refused.stdout


def test_a_missing_key_is_shown(owner: Machine) -> None:
    machine = Machine(owner.data_dir, {**owner.environ, "SILAS_MODELS__PROXY": "openrouter:a/b"})
    assert "(no key)" in output_of(machine.run("models", "list"))
    tested = machine.run("models", "test", "--role", "proxy")
    assert tested.returncode == 110
    assert b"OPENROUTER_API_KEY" in tested.stdout


async def test_a_model_with_a_key_of_the_vault_is_tested(owner: Machine) -> None:
    async with model_server(able) as server:
        machine = configured(
            owner,
            server.url,
            SILAS_MODELS__PROXY="openai:small",
            SILAS_MODELS__PLANNER="openai:small",
            SILAS_MODELS__API_KEYS='{"openai": "secret:local-key"}',
        )
        await asyncio.to_thread(
            lambda: machine.run(
                "secrets", "set", "local-key", "--stdin", stdin=b"sk-from-the-vault"
            )
        )
        answered = await asyncio.to_thread(machine.run, "models", "test", "--json")
    roles = {each["role"]: each["report"] for each in json.loads(output_of(answered))["roles"]}
    assert roles["proxy"]["ok"]
    assert roles["proxy"]["best_mode"] == "native"
    assert roles["executor"] is None
    assert len(server.chats) == 4, "one model that plays two roles is asked once"
    assert server.chats[0].headers["authorization"] == "Bearer sk-from-the-vault"
    assert "sk-from-the-vault" not in output_of(answered)
    assert (owner.data_dir / "model_modes.json").stat().st_mode & 0o077 == 0
    used = json.loads(output_of(await asyncio.to_thread(owner.run, "usage", "--json")))
    [line] = used["report"]["lines"]
    assert (line["does"], line["model"], line["answers"]) == ("Trying a model", "openai:small", 4)


@pytest.mark.parametrize("status", [401, 402])
async def test_a_failure_is_told_and_ends_with_the_code_of_its_family(
    owner: Machine, status: int
) -> None:
    async with model_server(failure(status)) as server:
        machine = configured(owner, server.url, SILAS_MODELS__PROXY="openai:small")
        answered = await asyncio.to_thread(machine.run, "models", "test")
    assert answered.returncode == 110
    assert b"openai:small: failed." in answered.stdout


def test_detection_answers_in_json(owner: Machine) -> None:
    found = json.loads(output_of(owner.run("models", "detect", "--json")))
    assert isinstance(found["servers"], list)


class TestUsage:
    """`silas usage`: what was used, for people and for scripts, with and without a server."""

    def used(self, owner: Machine, *rows: tuple[str, int, float | None]) -> None:
        owner.run("usage")  # the schema is there then
        with closing(apsw.Connection(str(owner.data_dir / "silas.db"))) as database:
            for number, (role, ago, cost) in enumerate(rows):
                day = (datetime.now(UTC) - timedelta(days=ago)).date().isoformat()
                values = (f"use_{number}", day, role, "openai:gpt-4o", 1200, 34, cost)
                database.execute("INSERT INTO model_usage VALUES (?, ?, ?, ?, ?, ?, ?)", values)

    def test_without_a_model_nothing_costs_anything(self, owner: Machine) -> None:
        told = output_of(owner.run("usage"))
        assert told.strip() == (
            "Silas answers without a model: nothing is used, and nothing costs anything."
        )
        found = json.loads(output_of(owner.run("usage", "--json", "--days", "3")))
        assert len(found["report"]["days"]) == 3
        assert found["report"]["lines"] == []

    def test_by_day_role_and_model(self, owner: Machine) -> None:
        self.used(owner, ("proxy", 0, 0.25), ("planner", 1, None), ("proxy", 20, 5.0))
        told = output_of(owner.run("usage"))
        assert "The last 14 days:" in told
        assert "1,234 tokens  $0.25" in told
        assert "1,234 tokens  unknown" in told
        assert "Answering, openai:gpt-4o: 1 answer, 1,200 tokens read, 34 written, $0.25" in told
        assert "The price of one answer is not known; dollars are of the rest." in told
        assert "$5" not in told
        found = json.loads(output_of(owner.run("usage", "--json", "--days", "30")))
        assert sum(day["cost_usd"] for day in found["report"]["days"]) == 5.25

    def test_days_that_nobody_has_are_refused(self, owner: Machine) -> None:
        assert owner.run("usage", "--days", "0").returncode == 2
        assert owner.run("usage", "--days", "401").returncode == 2
