"""Counting tokens: never far below what a real tokenizer counts."""

import base64
import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silas.context.scope import HeuristicTokenCounter

COUNT = HeuristicTokenCounter().count
RANDOM = b"".join(hashlib.sha256(bytes([number])).digest() for number in range(20))

ENGLISH = "We looked at the report yesterday and found three things that nobody had expected. " * 5
PYTHON = "    for index, value in enumerate(self._items):\n        total += value * 2\n" * 8
CHINESE = "我们昨天看了报告\uff0c发现了三件没有人预料到的事情。" * 8
JAPANESE = "昨日レポートを確認したところ、誰も予想していなかった三つのことが見つかりました。" * 6
KOREAN = "어제 보고서를 살펴보니 아무도 예상하지 못한 세 가지가 있었습니다. " * 6
NUMBERS = json.dumps([{"id": 1000003 * n % 99991, "t": n * 1.375} for n in range(40)])
# How many tokens o200k_base makes of each.
MEASURED = {
    "english": (ENGLISH, 76),
    "python": (PYTHON, 152),
    "chinese": (CHINESE, 144),
    "japanese": (JAPANESE, 162),
    "korean": (KOREAN, 121),
    "numbers": (NUMBERS, 590),
    "hex": (RANDOM.hex(), 723),
    "base64": (base64.b64encode(RANDOM).decode(), 583),
    "emoji": ("👍🎉😀🚀🙏🔥" * 10, 80),
}


@pytest.mark.parametrize("name", MEASURED)
def test_it_is_near_a_real_tokenizer_and_rather_above(name: str) -> None:
    text, real = MEASURED[name]
    assert 0.9 * real <= COUNT(text) <= 2.2 * real


def test_nothing_is_nothing_and_a_word_is_something() -> None:
    assert COUNT("") == 0
    assert COUNT("a") == 1


@given(st.text(max_size=200))
def test_it_counts_whatever_there_is(text: str) -> None:
    assert len(text) / 3.5 <= COUNT(text) <= 8 * len(text) + 1


def test_half_a_character_is_counted_too() -> None:
    assert COUNT("\ud800") >= 1
