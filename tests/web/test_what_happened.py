"""The context carries what happened: results of tools and work, also after a restart."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from evals.firsthour.model import PLAN_IT, Call, Heard, Script, Turn, direct, no_plan, read
from silas.context.models import ContextKind, ContextZone
from tests.web.test_ordinary_requests import Owner, noted, put, with_model

FOUND = {"results": [{"title": "Hours", "url": "https://shop.test/h", "content": "9 to 5"}]}


@asynccontextmanager
async def searching() -> AsyncIterator[dict[str, str]]:
    """A search engine on loopback; yields the settings that use it."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        body = json.dumps(FOUND).encode()
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + body)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        yield {
            "SILAS_SEARCH__PROVIDER": "searxng",
            "SILAS_SEARCH__API_KEY": f"http://127.0.0.1:{port}",
        }


def items(owner: Owner, zone: ContextZone, kind: ContextKind) -> list[str]:
    context = owner.place.house.stream.turns.context
    assert context is not None
    found = context.manager.get_zone("owner", zone)
    return [item.content for item in found if item.kind is kind]


async def raw_records(owner: Owner) -> dict[str, str]:
    rows = await owner.place.core.database.fetch_all(
        "SELECT source_kind, content FROM raw_records WHERE scope_id = 'owner' ORDER BY number"
    )
    return dict(rows)  # type: ignore[arg-type]


async def test_what_a_tool_gave_is_in_the_context_masked_later_and_kept_raw(tmp_path: Path) -> None:
    def remembers(heard: Heard) -> str:
        assert "tool_result" in heard.text
        assert "9 to 5" in heard.text
        return direct("As I said, from 9 to 5.")

    script = Script(
        proxy=[
            Call("web_search", {"query": "opening hours"}),
            direct("From 9 to 5."),
            remembers,
            *[direct(f"Answer {number}.") for number in range(8)],
        ]
    )
    async with searching() as environ, with_model(tmp_path, script, **environ) as owner:
        await owner.ask("When are they open?")
        (output,) = items(owner, ContextZone.CHRONICLE, ContextKind.TOOL_RESULT)
        assert "https://shop.test/h" in output
        await owner.ask("Are you sure?")
        kept = await raw_records(owner)
        assert "https://shop.test/h" in kept["tool_output_raw"]
        for number in range(7):
            await owner.ask(f"And then {number}?")
        (masked,) = items(owner, ContextZone.CHRONICLE, ContextKind.TOOL_RESULT)
        assert masked.startswith("[Result of web_search (SUCCEEDED)")
        assert "shop.test" not in masked


async def test_research_is_in_the_context_and_kept_raw(tmp_path: Path) -> None:
    put(tmp_path / "files" / "hours.txt", "9 to 5\n")
    planned, work = noted("copy.txt", "9 to 5")
    script = Script(
        proxy=[PLAN_IT],
        planner=[
            Call("request_research", {"question": "What does hours.txt say?"}),
            no_plan("I wait."),
            planned,
        ],
        research=[
            read("hours.txt"),
            json.dumps({"ok": True, "text": "It says 9 to 5.", "sources": ["hours.txt"]}),
        ],
        executor=work,
    )
    async with with_model(
        tmp_path, script, SILAS_PLANNER__RESEARCH_DIR=str(tmp_path / "files")
    ) as owner:
        card = await owner.ask("Copy the hours")
        assert card is not None
        assert (card["risk_level"], card["taint"]) == ("medium", "owner")
        (found,) = items(owner, ContextZone.CHRONICLE, ContextKind.TOOL_RESULT)
        assert found == "What does hours.txt say?\nIt says 9 to 5."
        assert (await raw_records(owner))["research_query_raw"] == found


async def test_results_and_plans_are_in_the_workspace_also_after_a_restart(tmp_path: Path) -> None:
    planned, work = noted("a.txt", "one")
    script = Script(proxy=[PLAN_IT, direct("Gladly.")], planner=[planned], executor=work)
    async with with_model(tmp_path, script) as owner:
        card = await owner.ask("Write one to a.txt")
        await owner.ask("Thanks")
        assert card is not None
        name = card["items"][0]["id"]
        (result,) = items(owner, ContextZone.WORKSPACE, ContextKind.EXECUTION_RESULT)
        assert "Write a.txt" in result
        assert "a.txt" in result

    def goes_on(heard: Heard) -> str:
        assert name in heard.text, "the id of what was planned is gone"
        return direct("I know it.")

    async with with_model(tmp_path, Script(proxy=[goes_on])) as owner:
        await owner.ask("What did we plan?")
        (plan,) = items(owner, ContextZone.WORKSPACE, ContextKind.PLAN)
        assert plan.startswith(f"id: {name}\n")
        (result,) = items(owner, ContextZone.WORKSPACE, ContextKind.EXECUTION_RESULT)
        assert result == "Write a.txt: done."


async def test_planner_and_worker_are_told_how_to_proceed(tmp_path: Path) -> None:
    planned, work = noted("a.txt", "one")
    heard: dict[str, str] = {}

    def remembering(turn: Turn) -> Turn:
        def say(told: Heard) -> str | Call:
            heard.setdefault(told.role, told.text)
            return turn(told) if callable(turn) else turn

        return say

    script = Script(
        proxy=[PLAN_IT], planner=[remembering(planned)], executor=[remembering(work[0]), *work[1:]]
    )
    async with with_model(tmp_path, script) as owner:
        await owner.ask("Write one to a.txt")
    assert "Register: execution" in heard["planner"]
    assert "Mode: act_and_report (do all of it at once" in heard["planner"]
    assert "Mode: act_and_report (do all of it at once" in heard["executor"]
