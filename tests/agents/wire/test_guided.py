"""Small models on this machine: short forms, steps held to a schema, and what is made of them.

The whole real stack is in front of a scripted server, and what went over the wire is looked at.
"""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from silas.agents.executor import ExecutorAgent
from silas.agents.models.choices import OutputMode, Role, RoleChoice
from silas.agents.models.factory import Models, RoleModel
from silas.agents.models.modes import KnownModes, ModeMemory
from silas.agents.planner import PlannerAgent
from silas.agents.proxy import ProxyAgent
from silas.gates.models import judge_output
from silas.kernel import IdFactory, TaintLevel
from silas.stream.models import AgentResponse, Answered, RequestKind, RouteDecision
from silas.stream.ports import Finding
from silas.testing.fakes import FakeClock
from silas.testing.model_server import ModelServer, Reply, answer, model_server, streamed
from silas.testing.work import FakeTools, offer
from silas.work.models import WorkItem, WorkItemType
from silas.work.plan import parse_plan
from silas.work.ports import AgentLimits, AgentRun, Briefing
from tests.agents.script import FakeTools as ReadingTools
from tests.agents.script import result
from tests.agents.test_proxy import turn
from tests.agents.wire.stack import choice

WORKSPACE = Path("/home/owner/files")
TASK = {
    "kind": "task",
    "title": "Save the number",
    "add": ["contacts/dentist.txt"],
    "change": [],
    "remove": [],
    "steps": ["Write `555-0142` to contacts/dentist.txt."],
    "checks": [{"file": "contacts/dentist.txt", "contains": "555-0142"}],
    "message": "I will save it.",
}


@asynccontextmanager
async def player(
    server: ModelServer, role: Role, *, memory: ModeMemory | None = None, **more: Any
) -> AsyncIterator[RoleModel]:
    chosen = RoleChoice(role=role, model=choice(server, **more))
    models = Models({role: chosen}, environ={}, clock=FakeClock(), memory=memory)
    async with models:
        yield models.for_role(role)


def says(fields: Any) -> Reply:
    return answer(json.dumps(fields))


async def planned(
    *replies: Any, findings: Sequence[Finding] = (), **more: Any
) -> tuple[Answered[AgentResponse], list[dict[str, Any]]]:
    """What comes of what a planner's model says, and what it was asked."""
    async with (
        model_server(*map(says, replies)) as server,
        player(server, Role.PLANNER) as model,
    ):
        agent = PlannerAgent(model, ids=IdFactory(FakeClock()), workspace=WORKSPACE)
        tools = ReadingTools({"request_research": result("asked", TaintLevel.OWNER)})
        told = turn("Do it.", **more)
        answered = await agent.plan(told, tools, findings=findings, final=False)
        return answered, [each.json for each in server.requests]


async def plan_of(**changes: Any) -> WorkItem:
    answered, _ = await planned({**TASK, **changes})
    assert answered.fallback is None
    assert answered.output.plan_action is not None
    return parse_plan(answered.output.plan_action.plan_markdown or "").root


def checks_of(item: WorkItem) -> list[tuple[str, dict[str, Any]]]:
    return [(each.run, each.expect.model_dump(exclude_none=True)) for each in item.verify]


def schema_of(request: dict[str, Any]) -> dict[str, Any]:
    schema: dict[str, Any] = request["response_format"]["json_schema"]["schema"]
    return schema


class TestWhoIsGuided:
    async def test_a_server_here_of_which_nothing_is_known(self) -> None:
        async with model_server() as server, player(server, Role.PLANNER) as model:
            assert model.guided
            assert model.settings.get("temperature") == 0.0

    @pytest.mark.parametrize("mode", [OutputMode.TOOL, OutputMode.PROMPTED])
    async def test_not_if_the_owner_chose_another_mode(self, mode: OutputMode) -> None:
        async with (
            model_server() as server,
            player(server, Role.PLANNER, output_mode=mode) as model,
        ):
            assert not model.guided
            assert "temperature" not in model.settings

    @pytest.mark.parametrize(
        ("working", "guided"),
        [((OutputMode.NATIVE,), True), ((OutputMode.NATIVE, OutputMode.TOOL), False)],
    )
    async def test_not_if_a_test_has_seen_it_call_a_tool(
        self, tmp_path: Path, working: tuple[OutputMode, ...], guided: bool
    ) -> None:
        async with model_server() as server:
            memory = ModeMemory(tmp_path / "modes.json")
            known = KnownModes(working=working, tested_at=FakeClock().now())
            memory.remember(choice(server), known)
            async with player(server, Role.PLANNER, memory=memory) as model:
                assert (model.output_mode, model.guided) == (OutputMode.NATIVE, guided)

    async def test_not_elsewhere(self) -> None:
        async with player("https://models.example/v1", Role.PLANNER) as model:  # type: ignore[arg-type]
            assert not model.guided


class TestPlans:
    async def test_a_few_fields_are_a_whole_plan(self) -> None:
        item = await plan_of()
        assert (item.title, item.type) == ("Save the number", WorkItemType.TASK)
        assert item.workspace is not None
        assert item.workspace.changes.add == ["contacts/dentist.txt"]
        assert "1. Write `555-0142` to contacts/dentist.txt." in item.body
        assert checks_of(item) == [("cat contacts/dentist.txt", {"contains": "555-0142"})]

    async def test_it_is_asked_for_no_more_and_offered_no_tool_that_it_cannot_call(self) -> None:
        _, (request,) = await planned(TASK)
        assert not request.get("tools")
        forms = request["response_format"]["json_schema"]["schema"]["anyOf"]
        kinds = {each["properties"]["kind"]["const"]: list(each["properties"]) for each in forms}
        assert kinds["task"] == list(TASK)
        assert kinds["answer"] == ["kind", "message"]
        assert len(request["messages"][0]["content"]) < 6_000

    @pytest.mark.parametrize(
        ("asked", "found", "possible"),
        [
            (None, True, ["task", "goal", "answer"]),
            (RequestKind.TASK, True, ["task", "answer"]),
            (RequestKind.GOAL, False, ["goal", "answer"]),
            (RequestKind.QUESTION, True, ["answer"]),
            (RequestKind.QUESTION, False, ["task", "goal", "answer"]),
        ],
    )
    async def test_what_the_front_door_takes_it_for_limits_what_can_be_said(
        self, asked: RequestKind | None, found: bool, possible: list[str]
    ) -> None:
        seen = Finding(question="What?", answer="This.", ok=found, sources=["a.txt"])
        answer = {"kind": "answer", "message": "This."}
        _, (request,) = await planned(answer, findings=[seen], request_kind=asked)
        forms = schema_of(request)["anyOf"]
        assert [each["properties"]["kind"]["const"] for each in forms] == possible

    async def test_an_answer_is_no_plan(self) -> None:
        answered, _ = await planned({"kind": "answer", "message": "It is J. Moor."})
        assert (answered.output.message, answered.output.plan_action) == ("It is J. Moor.", None)

    async def test_a_whole_plan_file_is_taken_too(self) -> None:
        text = "---\ntype: task\ntitle: T\nwithout_proof: true\n---\nDo it.\n"
        said = {"plan_action": {"action": "propose", "plan_markdown": text}, "message": "So."}
        answered, _ = await planned(said)
        assert answered.output.plan_action is not None
        assert answered.fallback is None

    @pytest.mark.parametrize(
        ("said", "place", "path"),
        [
            ("./notes.txt", None, "notes.txt"),
            ("a/../notes.txt", None, "notes.txt"),
            ("/home/owner/files/a/notes.txt", "/home/owner/files", "a/notes.txt"),
            ("~/shop/notes.txt", "~/shop", "notes.txt"),
            ("/srv/it's here/notes.txt", "/srv/it's here", "notes.txt"),
        ],
    )
    async def test_paths_are_below_the_folder(self, said: str, place: Any, path: str) -> None:
        item = await plan_of(add=[said], checks=[{"file": said, "contains": "x"}])
        assert item.workspace is not None
        assert (item.workspace.path, item.workspace.changes.add) == (place, [path])
        assert checks_of(item)[0][0] == f"cat {path}"

    async def test_a_folder_that_is_named_beside_its_files_is_no_file(self) -> None:
        item = await plan_of(add=["~/shop", "."], change=["~/shop/total.py"], checks=[])
        assert item.workspace is not None
        assert item.workspace.path == "~/shop"
        assert (item.workspace.changes.add, item.workspace.changes.change) == ([], ["total.py"])

    async def test_what_must_not_be_there_is_counted(self) -> None:
        item = await plan_of(checks=[{"file": "a b.log", "lacks": "it's -x"}])
        ((run, expect),) = checks_of(item)
        assert run == """grep -c -i -F -e 'it'"'"'s -x' 'a b.log'"""
        assert expect == {"equals": "0\n"}

    @pytest.mark.parametrize("said", ["volume: 7", "volume = 7", '"volume": 7', '"volume": "7",'])
    async def test_a_setting_is_looked_for_in_the_notation_of_its_file(self, said: str) -> None:
        item = await plan_of(
            add=[], change=["player.json"], checks=[{"file": "player.json", "contains": said}]
        )
        (check,) = item.verify
        assert check.run == "cat player.json"
        for there in ('{"volume": 7}', "volume = 7\n", "a: 1\nvolume: '7'\n", "volume:7"):
            assert judge_output(check.expect, there, 0)[0]
        for other in ('{"volume": 3}', "volume = 70\n", "top_volume: 7\n", "7 volume"):
            assert not judge_output(check.expect, other, 0)[0]

    async def test_a_python_test_is_told_where_the_modules_are(self) -> None:
        command = "python3 -m unittest test_dates"
        item = await plan_of(add=[], change=["dates.py"], checks=[{"run": command}])
        assert checks_of(item) == [(f"PYTHONPATH=. {command}", {"exit_code": 0})]

    async def test_forgotten_checks_are_written(self) -> None:
        item = await plan_of(add=["new file"], remove=["old"], checks=[])
        assert checks_of(item) == [
            ("cat 'new file'", {"not_empty": True}),
            ("test ! -e old", {"exit_code": 0}),
        ]

    async def test_where_nothing_can_be_checked_the_plan_says_so(self) -> None:
        item = await plan_of(add=[], checks=[])
        assert (item.verify, item.without_proof) == ([], True)
        changed = await plan_of(add=[], change=["x"], checks=[])
        assert (changed.verify, changed.without_proof) == ([], False)

    async def test_a_goal_has_its_times(self) -> None:
        goal = {
            "kind": "goal",
            "title": "No warning",
            "schedule": "0 18 * * 1",
            "steps": ["Look."],
            "checks": [{"file": "backup.log", "lacks": "warning"}],
            "message": "Every Monday.",
        }
        answered, _ = await planned(goal)
        assert answered.output.plan_action is not None
        item = parse_plan(answered.output.plan_action.plan_markdown or "").root
        assert (item.type, item.schedule) == (WorkItemType.GOAL, "0 18 * * 1")

    async def test_a_check_that_writes_goes_back_with_the_reason(self) -> None:
        writes = {**TASK, "checks": [{"run": "touch contacts/dentist.txt"}]}
        answered, requests = await planned(writes, TASK)
        assert answered.fallback is None
        assert len(requests) == 2
        assert "a check only reads" in requests[1]["messages"][-1]["content"]

    @pytest.mark.parametrize("nonsense", [{"kind": "miracle"}, {"kind": "task", "steps": 7}])
    async def test_nonsense_goes_back_and_is_refused(self, nonsense: Any) -> None:
        answered, requests = await planned(nonsense)
        assert (len(requests), answered.output.plan_action) == (2, None)
        assert answered.fallback is not None


async def routed(fields: Any) -> tuple[Answered[RouteDecision], str, dict[str, Any]]:
    """What comes of what a proxy's model says, what was heard of it, and what it was asked."""
    heard: list[str] = []
    text = json.dumps(fields)
    async with (
        model_server(streamed(*[text[at : at + 5] for at in range(0, len(text), 5)])) as server,
        player(server, Role.PROXY) as model,
    ):
        agent = ProxyAgent(model, profiles=("talk", "code"), default_profile="talk")
        answered = await agent.route(turn("Hello."), ReadingTools(), on_text=heard.append)
        return answered, heard[-1] if heard else "", server.requests[0].json


class TestRoutes:
    async def test_an_answer_is_heard_while_it_grows(self) -> None:
        answered, heard, request = await routed({"kind": "answer", "message": "Good morning!"})
        decision = answered.output
        assert (decision.route, decision.context_profile) == ("direct", "talk")
        assert decision.response is not None
        assert decision.response.message == heard == "Good morning!"
        schema = request["response_format"]["json_schema"]["schema"]
        assert [each["properties"]["kind"]["const"] for each in schema["anyOf"]] == [
            "answer",
            "remember",
            "journal",
            "work",
            "repeat",
            "look",
        ]

    @pytest.mark.parametrize(
        ("word", "kind"), [("work", "task"), ("repeat", "goal"), ("look", "question")]
    )
    async def test_one_word_asks_for_a_plan(self, word: str, kind: str) -> None:
        answered, heard, _ = await routed({"kind": word})
        assert (answered.output.route, answered.output.response, heard) == ("planner", None, "")
        assert answered.output.interaction_register == "execution"
        assert answered.output.request_kind == kind

    async def test_what_is_to_be_remembered_is_in_the_owners_words(self) -> None:
        answered, _, _ = await routed({"kind": "remember", "content": "The key is at Ann's."})
        assert answered.output.response is not None
        (op,) = answered.output.response.memory_ops
        assert (op.op, op.content, op.memory_type) == ("store", "The key is at Ann's.", "fact")

    async def test_an_entry_for_the_journal(self) -> None:
        entry = {"op": "add_task", "title": "Renew the passport", "due": "Friday"}
        answered, _, _ = await routed({"kind": "journal", "entry": entry})
        assert answered.output.response is not None
        (op,) = answered.output.response.journal_ops
        assert (op.op, op.title, op.due, op.category) == (
            "add_task",
            "Renew the passport",
            "Friday",
            None,
        )

    async def test_an_entry_that_cannot_be_is_refused(self) -> None:
        answered, _, _ = await routed({"kind": "journal", "entry": {"op": "add_task"}})
        assert answered.fallback is not None


READ = {"tool": "read_file", "arguments": {"path": "theme.ini"}}
WRITE = {"tool": "write_file", "arguments": {"path": "a.txt", "content": "one\n"}}
END = {"tool": "done", "arguments": {"summary": "It is written."}}


async def worked(
    *replies: Any, tools: FakeTools | None = None
) -> tuple[AgentRun, FakeTools, list[dict[str, Any]]]:
    """What comes of the steps of a worker's model, and what it was asked."""
    tools = tools or FakeTools(offer("read_file"), offer("write_file"))
    async with (
        model_server(*map(says, replies)) as server,
        player(server, Role.EXECUTOR) as model,
    ):
        limits = AgentLimits(tokens=100_000, cost_usd=1.0, seconds=60.0)
        briefing = Briefing(
            work_item_id="t1", attempt=1, instructions="Write `one` to a.txt.", limits=limits
        )
        run = await ExecutorAgent(model).run(briefing, tools)
        assert isinstance(run, AgentRun)
        return run, tools, [each.json for each in server.requests]


def told(request: dict[str, Any]) -> Sequence[tuple[str, str]]:
    return [(each["role"], each["content"]) for each in request["messages"]]


class TestSteps:
    async def test_each_answer_is_one_step(self) -> None:
        run, tools, requests = await worked(READ, WRITE, END)
        assert (run.error, run.output.summary) == (None, "It is written.")
        assert tools.calls == [
            ("read_file", READ["arguments"]),
            ("write_file", WRITE["arguments"]),
        ]
        assert len(requests) == 3

    async def test_the_schema_knows_the_tools_and_no_tool_is_offered_besides(self) -> None:
        _, _, requests = await worked(END)
        assert not requests[0].get("tools")
        forms = schema_of(requests[0])["anyOf"]
        names = [each["properties"]["tool"]["const"] for each in forms]
        assert names == ["read_file", "write_file", "done"]

    async def test_the_tools_stand_before_the_briefing(self) -> None:
        _, _, requests = await worked(END)
        (_, text) = told(requests[0])[-1]
        assert text.index("- write_file: ") < text.index("Write `one` to a.txt.")

    async def test_what_came_of_a_step_is_told_in_words(self) -> None:
        tools = FakeTools(offer("read_file"), answers={"read_file": "colour = red"})
        _, _, requests = await worked(READ, END, tools=tools)
        *_, said, heard = told(requests[1])
        assert said[0] == "assistant"
        assert json.loads(said[1]) == READ
        assert heard == ("user", "read_file: colour = red")
        assert "tool_calls" not in json.dumps(requests[1]["messages"])

    async def test_the_same_step_twice_is_the_end(self) -> None:
        run, tools, requests = await worked(WRITE)
        assert run.error is None
        assert (len(tools.calls), len(requests)) == (1, 2)

    async def test_what_a_step_gave_is_not_asked_for_again(self) -> None:
        other = {"tool": "read_file", "arguments": {"path": "b"}}
        _, tools, requests = await worked(READ, other, READ, WRITE, END)
        assert [name for name, _ in tools.calls] == ["read_file", "read_file", "write_file"]
        names = [
            [form["properties"]["tool"]["const"] for form in schema_of(each)["anyOf"]]
            for each in requests
        ]
        assert names[3] == ["write_file", "done"]
        assert names[4] == ["read_file", "write_file", "done"]

    async def test_a_tool_that_fails_twice_cannot_be_chosen_until_another_way_was_taken(
        self,
    ) -> None:
        def edit(old: str) -> dict[str, Any]:
            return {"tool": "edit_file", "arguments": {"path": "a", "old": old, "new": "x"}}

        class Unmoved(FakeTools):
            async def call(self, tool: str, args: Any) -> Any:
                view = await super().call(tool, args)
                failed = {"success": False, "return_value": "", "error": "It is there 0 times."}
                return view.model_copy(update=failed) if tool == "edit_file" else view

        tools = Unmoved(offer("edit_file"), offer("write_file"))
        _, _, requests = await worked(edit("1"), edit("2"), WRITE, END, tools=tools)
        names = [form["properties"]["tool"]["const"] for form in schema_of(requests[2])["anyOf"]]
        assert names == ["write_file", "done"]
        assert [name for name, _ in tools.calls] == ["edit_file", "edit_file", "write_file"]

    async def test_a_step_again_after_another_one_is_made(self) -> None:
        _, tools, _ = await worked(READ, WRITE, READ, END)
        assert [name for name, _ in tools.calls] == ["read_file", "write_file", "read_file"]

    @pytest.mark.parametrize(
        ("tool", "given", "meant"),
        [
            ("shell_exec", {"argv": ["uname -r"]}, {"argv": ["uname", "-r"]}),
            ("shell_exec", {"argv": ["ls", "a b"]}, {"argv": ["ls", "a b"]}),
            ("shell_exec", {"argv": ["it's"]}, {"argv": ["it's"]}),
            ("python_exec", {"script": "print(1)"}, {"script": None, "code": "print(1)"}),
            ("python_exec", {"script": "tools/run.py"}, {"script": "tools/run.py"}),
        ],
    )
    async def test_what_has_one_meaning_is_put_right(
        self, tool: str, given: dict[str, Any], meant: dict[str, Any]
    ) -> None:
        tools = FakeTools(offer(tool))
        await worked({"tool": tool, "arguments": given}, END, tools=tools)
        assert tools.calls == [(tool, meant)]

    async def test_a_tool_that_is_not_there_is_never_called(self) -> None:
        run, tools, _ = await worked({"tool": "send_mail", "arguments": {}})
        assert tools.calls == []
        assert run.error is not None

    async def test_words_are_the_summary(self) -> None:
        run, tools, _ = await worked("I cannot do that.")
        assert (run.error, tools.calls) == (None, [])
