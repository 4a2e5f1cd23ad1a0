"""`silas models`: list, test, detect."""

import asyncio
import json

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
    assert tested.returncode == 118
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


@pytest.mark.parametrize(("status", "exit_code"), [(401, 111), (402, 112)])
async def test_a_failure_is_told_and_ends_with_its_own_code(
    owner: Machine, status: int, exit_code: int
) -> None:
    async with model_server(failure(status)) as server:
        machine = configured(owner, server.url, SILAS_MODELS__PROXY="openai:small")
        answered = await asyncio.to_thread(machine.run, "models", "test")
    assert answered.returncode == exit_code
    assert b"openai:small: failed." in answered.stdout


def test_detection_answers_in_json(owner: Machine) -> None:
    found = json.loads(output_of(owner.run("models", "detect", "--json")))
    assert isinstance(found["servers"], list)
