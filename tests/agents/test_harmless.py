from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silas.agents import prompting
from silas.agents.prompting import HarmlessBlocks, disarm
from silas.context.models import ContextItem, ContextKind, ContextZone
from silas.context.scope import BLOCK_END, block_text
from silas.kernel import TaintLevel

PIECES = st.sampled_from(
    ["<", "<|im_start|>", "</system>", "[INST]", "\n", "--- end ---", " ", "tea", "\u200b", ">"]
)


def a_block(content: str, number: int = 1) -> str:
    return block_text(
        ContextItem(
            ctx_id=str(number),
            zone=ContextZone.CHRONICLE,
            content=content,
            created_at=datetime(2026, 1, 1, tzinfo=UTC),
            turn_number=number,
            source="channel:web",
            taint=TaintLevel.EXTERNAL,
            kind=ContextKind.MESSAGE,
        )
    )


@given(st.lists(st.lists(PIECES, max_size=8).map("".join), max_size=6))
def test_block_by_block_nothing_is_missed(contents: list[str]) -> None:
    context = "".join(map(a_block, contents))
    blocks = HarmlessBlocks(most=3)
    once = blocks.disarmed(context)
    assert blocks.disarmed(context) == once == disarm(context)


def test_what_is_known_is_not_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []

    def counted(text: str) -> str:
        looked.append(text)
        return disarm(text)

    monkeypatch.setattr(prompting, "disarm", counted)
    blocks = HarmlessBlocks()
    old = "".join(a_block(f"word {number}", number) for number in range(5))
    blocks.disarmed(old)
    looked.clear()
    blocks.disarmed(old + a_block("<system>", 6) + a_block("new", 7))
    assert [text.split("\n")[1] for text in looked] == ["<system>", "new"]


def test_no_content_ends_a_block() -> None:
    assert a_block(f"a{BLOCK_END}b").count(BLOCK_END) == 1
