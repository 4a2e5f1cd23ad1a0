"""No call goes around a wrapper, on whatever way it comes."""

from collections.abc import Iterator
from typing import Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.exceptions import ApprovalRequired, UnexpectedModelBehavior
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.tools import DeferredToolRequests, DeferredToolResults, ToolApproved, ToolDenied
from pydantic_ai.toolsets import (
    AbstractToolset,
    ApprovalRequiredToolset,
    CombinedToolset,
    FilteredToolset,
    FunctionToolset,
    PreparedToolset,
    ToolsetTool,
    WrapperToolset,
)

from silas.agents.toolsets import (
    MOST_CHARS,
    WAITS,
    CallsRevoked,
    GatedToolset,
    RevocationToolset,
    SkillToolset,
    ToolMode,
    cut,
    text_of,
)
from silas.testing.work import FakeTools, offer
from silas.tools import RESEARCH_TOOLS
from tests.agents.toolsets.runtime import (
    NAMES,
    Runtime,
    agent_of,
    answers,
    chain_of,
    context,
    says,
    view,
)

READ = ("read_file", {"path": "a"})
WRITE = ("write_file", {"path": "a", "content": "b"})
SEND = ("send", {"to": "a"})
RESEARCH = {"mode": ToolMode.RESEARCH, "allowed": RESEARCH_TOOLS}


@pytest.fixture
def runtime() -> Runtime:
    return Runtime()


def layers(chain: AbstractToolset[None]) -> Iterator[AbstractToolset[None]]:
    """The wrappers from the outside in."""
    yield chain
    while isinstance(chain, WrapperToolset):
        chain = chain.wrapped
        yield chain


async def any_tool(chain: AbstractToolset[None], name: str = "read_file") -> ToolsetTool[None]:
    innermost = list(layers(chain))[-1]
    return (await innermost.get_tools(context()))[name]


async def offered(chain: AbstractToolset[None]) -> set[str]:
    return set(await chain.get_tools(context()))


def test_the_order_is_the_specified_one(runtime: Runtime) -> None:
    assert [type(each) for each in layers(chain_of(runtime))] == [
        RevocationToolset,
        GatedToolset,
        ApprovalRequiredToolset,
        FilteredToolset,
        PreparedToolset,
        SkillToolset,
    ]


async def test_what_is_not_allowed_does_not_exist(runtime: Runtime) -> None:
    assert await offered(chain_of(runtime)) == NAMES
    assert await offered(chain_of(runtime, allowed=frozenset())) == set()
    assert await offered(chain_of(runtime, allowed=frozenset({"read_file", "rm"}))) == {"read_file"}


async def test_in_research_nothing_exists_that_could_change_anything(runtime: Runtime) -> None:
    every = chain_of(runtime, mode=ToolMode.RESEARCH)
    assert await offered(every) == {"read_file", "web_search"}
    # Not even under a name of the list, if it says of itself that it changes something.
    liar = Runtime(offer("web_search", changes_state=True))
    assert await offered(chain_of(liar, **RESEARCH)) == set()


async def test_a_tool_says_that_the_owner_may_be_asked(runtime: Runtime) -> None:
    tools = await chain_of(runtime).get_tools(context())
    asks = {name for name, tool in tools.items() if "owner" in (tool.tool_def.description or "")}
    assert asks == {"send", "web_search"}
    again = await chain_of(runtime).get_tools(context())
    assert [tool.tool_def for tool in again.values()] == [t.tool_def for t in tools.values()]


# Every way in which a call can come.


async def test_by_a_run(runtime: Runtime) -> None:
    ran = await agent_of([READ], [WRITE]).run("go", toolsets=[chain_of(runtime)])
    assert ran.output == "done"
    assert runtime.performed == runtime.reviewed == [READ, WRITE]
    assert answers(ran.all_messages()) == ["read_file was called", "write_file was called"]


async def test_by_calls_at_once(runtime: Runtime) -> None:
    await agent_of([READ, WRITE, READ]).run("go", toolsets=[chain_of(runtime)])
    assert sorted(runtime.performed) == sorted(runtime.reviewed) == [READ, READ, WRITE]


async def test_by_a_refused_call(runtime: Runtime) -> None:
    ran = await agent_of([("read_file", {"path": "/etc/passwd"})]).run(
        "go", toolsets=[chain_of(runtime)]
    )
    assert answers(ran.all_messages()) == ["Refused: Forbidden."]
    assert runtime.performed == []


@pytest.mark.parametrize("name", ["rm", "write_file", "WRITE_FILE", "read_file ", "", "silas"])
async def test_by_a_name_that_does_not_exist(runtime: Runtime, name: str) -> None:
    chain = chain_of(runtime, **RESEARCH)
    await agent_of([(name, {})]).run("go", toolsets=[chain])
    answer = await chain.call_tool(name, {}, context(), await any_tool(chain))
    assert "no tool" in answer
    assert runtime.reviewed == []


async def test_by_a_name_that_never_exists_until_the_run_ends(runtime: Runtime) -> None:
    with pytest.raises(UnexpectedModelBehavior):
        await agent_of(*[[("rm", {})]] * 9).run("go", toolsets=[chain_of(runtime)])
    assert runtime.reviewed == []


async def test_directly_with_a_tool_from_elsewhere_and_a_forged_approval(runtime: Runtime) -> None:
    chain = chain_of(runtime, **RESEARCH)
    writing = await any_tool(chain, "write_file")
    approved = context(tool_call_approved=True, tool_call_metadata={"approved": True})
    assert "no tool" in await chain.call_tool("write_file", {}, approved, writing)
    waiting = chain_of(runtime)
    with pytest.raises(ApprovalRequired):
        await waiting.call_tool(*SEND, approved, await any_tool(waiting, "send"))
    assert runtime.performed == []


@pytest.mark.parametrize("depth", range(2, 6))
async def test_directly_at_a_wrapper_further_inside(runtime: Runtime, depth: int) -> None:
    chain = chain_of(runtime)
    inner = list(layers(chain))[depth]
    for forged in (context(), context(tool_call_approved=True)):
        with pytest.raises(ApprovalRequired):
            await inner.call_tool(*READ, forged, await any_tool(chain))
    assert runtime.performed == runtime.reviewed == []


async def test_by_renaming_and_prefixing(runtime: Runtime) -> None:
    chain = chain_of(runtime, **RESEARCH)
    renamed = chain.renamed({"look": "read_file", "change": "write_file"}).prefixed("my")
    assert await offered(renamed) == {"my_look", "my_web_search"}
    calls = [("my_look", {"path": "a"}), ("my_change", {}), ("write_file", {})]
    ran = await agent_of(calls).run("go", toolsets=[renamed])
    assert runtime.performed == [READ]
    assert len(answers(ran.all_messages())) == 3


async def test_by_tool_search(runtime: Runtime) -> None:
    chain = chain_of(runtime, **RESEARCH).defer_loading()
    search = ("search_tools", {"queries": ["read file write"]})
    agent = agent_of([READ], [search], [READ, WRITE])
    ran = await agent.run("go", toolsets=[chain])
    # Before it was found it does not exist; and what was filtered is never found.
    assert runtime.performed == [READ]
    assert "write_file" not in answers(ran.all_messages())[1]


async def test_beside_other_toolsets_and_under_the_same_name(runtime: Runtime) -> None:
    other = FunctionToolset[None](id="other")
    other.add_function(lambda: "mine", name="mine")
    both = CombinedToolset([chain_of(runtime), other])
    ran = await agent_of([READ, ("mine", {})]).run("go", toolsets=[both])
    assert runtime.performed == [READ]
    assert "mine" in answers(ran.all_messages())


@pytest.mark.parametrize("args", ["{not json", "[1, 2]", '"text"', "null", "{}}"])
async def test_by_arguments_that_are_none(runtime: Runtime, args: str) -> None:
    await agent_of([("read_file", args)], [READ]).run("go", toolsets=[chain_of(runtime)])
    # The call was tried again with arguments; the runtime never saw the others.
    assert runtime.performed == runtime.reviewed == [READ]


async def test_by_override_of_the_agents_toolsets(runtime: Runtime) -> None:
    agent = agent_of([READ, SEND])
    with agent.override(toolsets=[chain_of(runtime)]):
        ran = await agent.run("go")
    assert isinstance(ran.output, DeferredToolRequests)
    assert runtime.performed == [READ]


# Calls that wait.


async def deferred(runtime: Runtime, agent: Agent[None, Any]) -> Any:
    ran = await agent.run("go", toolsets=[chain_of(runtime)])
    assert isinstance(ran.output, DeferredToolRequests)
    return ran


async def resumed(runtime: Runtime, agent: Agent[None, Any], ran: Any, **approvals: Any) -> Any:
    results = DeferredToolResults(
        approvals={key.strip("_").replace("_", "-"): value for key, value in approvals.items()}
    )
    return await agent.run(
        message_history=ran.all_messages(),
        deferred_tool_results=results,
        toolsets=[chain_of(runtime)],
    )


async def test_a_call_that_waits_ends_the_run_with_its_exact_arguments(runtime: Runtime) -> None:
    ran = await deferred(runtime, agent_of([READ, SEND]))
    (call,) = ran.output.approvals
    waits = ran.output.metadata[call.tool_call_id][WAITS]
    assert (waits.tool, waits.args) == SEND
    assert runtime.performed == [READ]


async def test_what_was_decided_is_made(runtime: Runtime) -> None:
    agent = agent_of([SEND])
    ran = await deferred(runtime, agent)
    runtime.decided.append(SEND[1])
    again = await resumed(runtime, agent, ran, _0_0=ToolApproved())
    assert again.output == "done"
    assert runtime.performed == [SEND]


async def test_the_librarys_yes_is_not_the_owners(runtime: Runtime) -> None:
    agent = agent_of([SEND])
    ran = await deferred(runtime, agent)
    for yes in (True, ToolApproved()):
        again = await resumed(runtime, agent, ran, _0_0=yes)
        assert isinstance(again.output, DeferredToolRequests)
    assert runtime.performed == []


async def test_arguments_changed_at_approval_are_reviewed_again(runtime: Runtime) -> None:
    agent = agent_of([SEND])
    ran = await deferred(runtime, agent)
    runtime.decided.append(SEND[1])
    thief = ToolApproved(override_args={"to": "thief"})
    again = await resumed(runtime, agent, ran, _0_0=thief)
    assert isinstance(again.output, DeferredToolRequests)
    assert again.output.metadata["0-0"][WAITS].args == {"to": "thief"}
    assert runtime.performed == []


async def test_a_declined_call_gives_its_reason_and_the_run_goes_on(runtime: Runtime) -> None:
    agent = agent_of([SEND], [READ])
    ran = await deferred(runtime, agent)
    again = await resumed(runtime, agent, ran, _0_0=ToolDenied("The owner said no."))
    assert again.output == "done"
    assert answers(again.all_messages())[0] == "The owner said no."
    assert runtime.performed == [READ]


async def test_a_result_from_elsewhere_is_not_a_call(runtime: Runtime) -> None:
    agent = agent_of([SEND])
    ran = await deferred(runtime, agent)
    await agent.run(
        message_history=ran.all_messages(),
        deferred_tool_results=DeferredToolResults(calls={"0-0": "sent, I swear"}),
        toolsets=[chain_of(runtime)],
    )
    assert runtime.performed == []


async def test_a_tool_that_vanished_meanwhile_is_not_called(runtime: Runtime) -> None:
    agent = agent_of([SEND])
    ran = await deferred(runtime, agent)
    runtime.decided.append(SEND[1])
    await agent.run(
        message_history=ran.all_messages(),
        deferred_tool_results=DeferredToolResults(approvals={"0-0": True}),
        toolsets=[chain_of(runtime, **RESEARCH)],
    )
    assert runtime.performed == []


# The end of a run, other runtimes, and what a model sees.


async def test_a_revoked_run_ends_at_its_next_call(runtime: Runtime) -> None:
    runtime.reason = "The attempt is over."
    with pytest.raises(CallsRevoked, match="over"):
        await agent_of([READ]).run("go", toolsets=[chain_of(runtime)])
    runtime.reason = None
    with pytest.raises(CallsRevoked, match="spent"):
        await agent_of([READ]).run("go", toolsets=[chain_of(runtime, revoked=lambda _ctx: "spent")])
    assert runtime.reviewed == []


async def test_a_runtime_that_reviews_nothing_is_called_whole() -> None:
    tools = FakeTools(offer("read_file"), offer("write_file"), answers={"read_file": "text"})
    chain = chain_of(tools, **RESEARCH)
    ran = await agent_of([READ, WRITE]).run("go", toolsets=[chain])
    assert tools.calls == [READ]
    assert answers(ran.all_messages())[0] == "text"
    innermost = list(layers(chain))[-1]
    with pytest.raises(ApprovalRequired):
        await innermost.call_tool(*READ, context(), await any_tool(chain))
    assert tools.calls == [READ]


async def test_the_model_is_shown_only_what_exists(runtime: Runtime) -> None:
    shown: list[str] = []

    def look(messages: Any, info: Any) -> Any:
        shown.extend(tool.name for tool in info.function_tools)
        return says()(messages, info)

    await Agent(FunctionModel(look)).run("go", toolsets=[chain_of(runtime, **RESEARCH)])
    assert shown == ["read_file", "web_search"]


def test_what_a_result_says() -> None:
    assert text_of(view("text")) == "text"
    assert text_of(view()) == "Done. There was no output."
    assert text_of(view(content=[{"a": 1}])) == '[{"a":1}]'
    failed = view("output", success=False, error="exit code 1")
    assert text_of(failed) == "Did not work: exit code 1\noutput"
    assert "why" in text_of(view(success=False))


def test_long_results_keep_their_ends() -> None:
    text = "a" * MOST_CHARS + "the error"
    assert cut(text).endswith("the error")
    assert "9 characters left out" in cut(text)
    assert cut("short") == "short"
