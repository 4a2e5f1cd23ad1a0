"""Real servers of PyPI and npm, in both eras of the protocol: added, shown, used in the sandbox."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from silas.app.work import open_executor
from silas.approval import ApprovalVerdict
from silas.mcp.session import McpMissing
from silas.testing.work import FakeApprover
from silas.work.undo_calls import undo_calls
from tests.mcp.places import (
    ECHO,
    LEGACY,
    MODERN,
    PLAN,
    REGISTRY,
    open_servers,
    require_registry,
    used,
    write_server,
)
from tests.mcp.remote_server import remote_server


@pytest.mark.parametrize(
    ("name", "era", "some"),
    [
        ("time", MODERN, {"get_current_time", "convert_time"}),
        ("git", MODERN, {"git_status", "git_commit"}),
        ("fetch", MODERN, {"fetch"}),
        ("everything", LEGACY, {"echo", "get-env", "trigger-elicitation-request"}),
        ("filesystem", LEGACY, {"read_text_file", "write_file"}),
        ("memory", LEGACY, {"create_entities", "delete_entities"}),
        ("sqlite", LEGACY, {"read_query", "write_query"}),
    ],
)
async def test_a_server_of_the_registries_is_shown_whole_and_its_claims_grant_nothing(
    tmp_path: Path, name: str, era: str, some: set[str]
) -> None:
    require_registry(name)
    program, arguments = REGISTRY[name]
    async with open_servers(tmp_path) as place:
        asked = await place.servers.add(name, program, tuple(arguments))
        start = await place.decide(asked.card_id)
        launch = start.content.body["server"]["launch"]
        assert launch["programs"][0]["path"] == program
        assert launch["trees"], "what it loads is pinned"
        shown = await place.shown(name)
        tools = {each["served"]: each for each in shown.content.body["tools"]}
        assert some <= tools.keys()
        assert {each["effect"] for each in tools.values()} == {None}
        assert any(f"the revision {era}" in each for each in shown.content.body["summary"])
        assert await place.core.skill_files.digest(name) is None, "before the second yes"
        await place.decide(shown.question_id)
        for tool in (await place.tools(name)).values():
            assert tool.effect is None, "annotations are a claim"
            assert not tool.contained
            assert tool.changes_state


async def test_two_eras_answer_and_what_they_answer_is_a_strangers(tmp_path: Path) -> None:
    require_registry("time", "everything")
    async with open_servers(tmp_path) as place:
        for name in ("time", "everything"):
            await place.add(name, *REGISTRY[name])
        async with used({**await place.tools("time"), **await place.tools("everything")}) as tools:
            told = await place.call(tools, "time_get_current_time", {"timezone": "UTC"})
            assert (told.success, told.taint) == (True, "external")
            assert json.loads(told.return_value)["timezone"] == "UTC"
            summed = await place.call(tools, "everything_get_sum", {"a": 2, "b": 40})
            assert "42" in summed.return_value


async def test_a_filesystem_server_works_in_the_copy_of_the_workspace_alone(tmp_path: Path) -> None:
    require_registry("filesystem")
    folder = tmp_path / "copy"
    folder.mkdir()
    (folder / "in.txt").write_text("inside")
    (tmp_path / "secret.txt").write_text("hidden words")
    (folder / "way_out").symlink_to(tmp_path / "secret.txt")
    async with open_servers(tmp_path) as place:
        await place.add("filesystem", *REGISTRY["filesystem"])
        async with used(await place.tools("filesystem")) as tools:
            read = await place.call(
                tools, "filesystem_read_text_file", {"path": str(folder / "in.txt")}, folder
            )
            assert "inside" in read.return_value
            written = await place.call(
                tools,
                "filesystem_write_file",
                {"path": str(folder / "out.txt"), "content": "new"},
                folder,
            )
            assert set(written.artifacts) == {"out.txt"}
            for path in ("way_out", "../secret.txt"):
                refused = await place.call(
                    tools, "filesystem_read_text_file", {"path": str(folder / path)}, folder
                )
                assert not refused.success
                assert "hidden words" not in refused.return_value


async def test_a_git_server_works_on_the_copy(tmp_path: Path) -> None:
    require_registry("git")
    folder = tmp_path / "copy"
    make = ["git", "init", "-q", str(folder)]
    await asyncio.to_thread(subprocess.run, make, check=True, env={"PATH": "/usr/bin:/bin"})
    (folder / "new.txt").write_text("x")
    async with open_servers(tmp_path) as place:
        await place.add("git", *REGISTRY["git"], workspace="read")
        async with used(await place.tools("git")) as tools:
            status = await place.call(tools, "git_git_status", {"repo_path": str(folder)}, folder)
            assert "new.txt" in status.return_value


async def test_a_sqlite_server_of_the_first_sdk_keeps_its_database_in_the_copy(
    tmp_path: Path,
) -> None:
    require_registry("sqlite")
    folder = tmp_path / "copy"
    folder.mkdir()
    async with open_servers(tmp_path) as place:
        await place.add("sqlite", *REGISTRY["sqlite"])
        async with used(await place.tools("sqlite")) as tools:
            for query in ("CREATE TABLE tea (kind TEXT)", "INSERT INTO tea VALUES ('green')"):
                name = "create_table" if query.startswith("CREATE") else "write_query"
                done = await place.call(tools, f"sqlite_{name}", {"query": query}, folder)
                assert done.success, done.error
            assert "shop.db" in done.artifacts
            read = await place.call(
                tools, "sqlite_read_query", {"query": "SELECT kind FROM tea"}, folder
            )
            assert "green" in read.return_value
        claims = {tool.pinned.claims for tool in tools.values()}
        assert claims == {""}, "a third way to annotate: not at all"


async def test_one_instance_keeps_what_it_knows_for_one_run_and_no_longer(tmp_path: Path) -> None:
    require_registry("memory")
    entity = {"name": "Ada", "entityType": "person", "observations": ["writes programs"]}
    async with open_servers(tmp_path) as place:
        variables = {"MEMORY_FILE_PATH": "/tmp/memory.jsonl"}
        await place.add("memory", *REGISTRY["memory"], variables=variables)
        async with used(await place.tools("memory")) as tools:
            await place.call(tools, "memory_create_entities", {"entities": [entity]})
            known = await place.call(tools, "memory_read_graph", {})
            assert "Ada" in known.return_value
        async with used(await place.tools("memory")) as tools:
            again = await place.call(tools, "memory_read_graph", {})
            assert "Ada" not in again.return_value


async def test_fetch_reaches_no_host_although_it_claims_to_only_read(tmp_path: Path) -> None:
    require_registry("fetch")
    async with open_servers(tmp_path) as place:
        await place.add("fetch", *REGISTRY["fetch"])
        async with used(await place.tools("fetch")) as tools:
            url = "http://127.0.0.1:9/?q=secret"
            told = await place.call(tools, "fetch_fetch", {"url": url})
            assert not told.success


async def test_a_tool_without_an_effect_asks_every_time_and_a_no_calls_nothing(
    tmp_path: Path,
) -> None:
    said = (
        "with open('/tmp/calls', 'a') as file:\n        file.write('x')\n"
        "    return open('/tmp/calls').read()"
    )
    async with open_servers(tmp_path) as place:
        await place.add("written", *write_server(tmp_path / "server", call=said))
        plan = PLAN.format(server="written", tool="written_echo", args="{}")
        no = FakeApprover(ApprovalVerdict.DECLINED)
        await place.skills.run_plan(plan, approver=no)
        assert [each.tool for each in no.calls][:1] == ["written_echo"]
        yes = FakeApprover()
        twice = plan.replace("ask-the-time", "ask-again") + "\n```call tool=written_echo\n{}\n```\n"
        result = await place.skills.run_plan(twice, approver=yes)
        assert result.status == "unchecked", result.last_error
        assert len(yes.calls) == 2


async def test_who_reaches_hosts_and_sees_the_workspace_is_asked_about_after_a_strangers_text(
    tmp_path: Path,
) -> None:
    async with open_servers(tmp_path) as place:
        await place.add("written", *write_server(tmp_path / "server"), workspace="read")
        asked = await place.servers.assign(
            "written", {"echo": "read"}, hosts={"echo": ("example.org",)}
        )
        await place.decide(asked.card_id)
        plan = PLAN.format(server="written", tool="written_echo", args="{}")
        approver = FakeApprover()
        await place.skills.run_plan(
            plan + "\n```call tool=written_echo\n{}\n```\n", approver=approver
        )
        assert len(approver.calls) == 2, "each time: its card is a stranger's text"


async def test_what_undoes_a_change_is_written_down_before_it_and_takes_it_back(
    tmp_path: Path,
) -> None:
    tools = f"return [dict({ECHO!r}, name='add'), dict({ECHO!r}, name='take_away')]"
    async with open_servers(tmp_path) as place:
        await place.add("written", *write_server(tmp_path / "server", tools=tools))
        asked = await place.servers.assign(
            "written",
            {"add": "change", "take_away": "change"},
            {"add": "take_away"},
            {"add": ["example.org"]},
        )
        await place.decide(asked.card_id)
        plan = PLAN.format(server="written", tool="written_add", args='{"what": "tea"}')
        result = await place.skills.run_plan(plan, approver=FakeApprover())
        assert result.status == "unchecked", result.last_error
        (undo,) = await place.core.work.undos.of(result.work_item_id)
        assert (undo.inverse, undo.account) == ("written_take_away", "written")
        executor = open_executor(place.core)
        (told,) = await undo_calls(executor.context, result.work_item_id)
        assert told.undone, told.told


async def test_a_tool_reaches_the_hosts_that_its_owner_has_listed_and_no_others(
    tmp_path: Path,
) -> None:
    require_registry("fetch")
    with remote_server() as (url, door), remote_server() as (other, elsewhere):
        port, wrong = (each.rpartition(":")[2].partition("/")[0] for each in (url, other))
        async with open_servers(tmp_path) as place:
            await place.add("fetch", *REGISTRY["fetch"])
            hosts = {"fetch": [f"site.test:{port}@127.0.0.1"]}
            asked = await place.servers.assign("fetch", {"fetch": "read"}, hosts=hosts)
            await place.decide(asked.card_id)
            async with used(await place.tools("fetch")) as tools:
                for place_of in (f"http://site.test:{port}/page", f"http://site.test:{wrong}/page"):
                    await place.call(tools, "fetch_fetch", {"url": place_of})
            assert not tools["fetch_fetch"].contained
        assert {path for _, path, _ in door.seen} & {"/page", "/robots.txt"}
        assert elsewhere.seen == []


async def test_without_the_extra_one_sentence_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_servers(tmp_path) as place:
        monkeypatch.setitem(sys.modules, "mcp", None)
        with pytest.raises(McpMissing, match="pip install 'silas\\[mcp\\]'"):
            await place.servers.add("time", *REGISTRY["time"])


async def test_a_plan_that_names_a_server_uses_its_tools_and_no_other_plan_does(
    tmp_path: Path,
) -> None:
    require_registry("time")
    async with open_servers(tmp_path) as place:
        await place.add("time", *REGISTRY["time"])
        asked = await place.servers.assign("time", {"get_current_time": "read"})
        await place.decide(asked.card_id)
        plan = PLAN.format(server="time", tool="time_get_current_time", args='{"timezone": "UTC"}')
        result = await place.skills.run_plan(plan)
        assert result.status == "unchecked", result
        assert "time_get_current_time" not in place.core.tools.names
