"""Words that are nothing but a call are that call; everything else stays words."""

import pytest
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart

from silas.agents.executor import with_spoken_calls

CALL = '{"name": "write_file", "arguments": {"path": "a", "content": "x"}}'
TOOLS = frozenset({"write_file"})


@pytest.mark.parametrize(
    "text",
    [
        CALL,
        f"  {CALL}\n",
        f"<response>\n{CALL}\n</response>",
        f"<tool_call>{CALL}</tool_call>",
        f"```json\n{CALL}\n```",
    ],
)
def test_a_spoken_call(text: str) -> None:
    [part] = with_spoken_calls(ModelResponse(parts=[TextPart(text)]), TOOLS).parts
    assert isinstance(part, ToolCallPart)
    assert (part.tool_name, part.args) == ("write_file", {"path": "a", "content": "x"})


@pytest.mark.parametrize(
    "text",
    [
        "I have written the file.",
        f"I would say {CALL}",
        f"{CALL} and then some",
        '{"name": "rm", "arguments": {}}',
        '{"name": "write_file"}',
        '{"name": "write_file", "arguments": {}, "approved": true}',
        '{"name": "write_file", "arguments": "x"}',
        "x" * 300_000,
        "",
    ],
    ids=[
        "words",
        "in between",
        "more",
        "unknown",
        "no arguments",
        "extra",
        "shape",
        "long",
        "none",
    ],
)
def test_words_stay_words(text: str) -> None:
    said = ModelResponse(parts=[TextPart(text)])
    assert with_spoken_calls(said, TOOLS) is said


def test_real_calls_are_left_alone() -> None:
    said = ModelResponse(parts=[TextPart(CALL), ToolCallPart("write_file", {})])
    assert with_spoken_calls(said, TOOLS) is said
