"""Chips: what the owner could say next is offered to tap, unless strangers had a part in it."""

from pathlib import Path
from typing import Any

import pytest

from silas.queue.models import AgentReply
from silas.stream.models import AgentResponse, InteractionRegister
from silas.work.models import InteractionMode
from tests.stream.test_turn import replies, saying, standing, take


@pytest.mark.parametrize("signed", [True, False])
async def test_a_stranger_puts_no_words_under_the_owners_thumb(
    tmp_path: Path, *, signed: bool
) -> None:
    async with standing(tmp_path, saying("Which one?", chips=["The red one", "None"])) as house:
        said = await house.say("paint it", signed=signed)
        [reply] = replies(await take(house.stream.turns, said))
    assert isinstance(reply.payload, AgentReply)
    assert reply.payload.chips == (["The red one", "None"] if signed else [])


@pytest.mark.parametrize("signed", [True, False])
async def test_whoever_shows_an_answer_knows_its_register_and_mode(
    tmp_path: Path, *, signed: bool
) -> None:
    async with standing(tmp_path, saying("Which one?", chips=["The red one"])) as house:
        said = await house.say("paint it", signed=signed)
        [reply] = replies(await take(house.stream.turns, said))
    assert isinstance(reply.payload, AgentReply)
    register, mode = reply.payload.interaction_register, reply.payload.interaction_mode
    assert register in set(InteractionRegister)
    assert mode in set(InteractionMode)
    # What a stranger's text had a part in asks first, whatever the proxy chose.
    assert signed or mode == InteractionMode.CONFIRM_ONLY_WHEN_REQUIRED


@pytest.mark.parametrize(
    ("chips", "kept"),
    [
        (["a", " b ", "", 7, "c" * 121], ["a", "b"]),
        ([str(each) for each in range(9)], ["0", "1", "2", "3"]),
        ("not a list", []),
    ],
)
def test_an_answer_is_not_refused_for_its_chips(chips: Any, kept: list[str]) -> None:
    assert AgentResponse.model_validate({"message": "Hm?", "chips": chips}).chips == kept
