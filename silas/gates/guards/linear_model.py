"""A small trained classifier: how much a passage reads like the texts that it was trained on.

1. Each word that the model knows has a weight, never a negative one, so that no added words can
   make a text look better. No single weight is enough.
2. A text is cut into blocks of words; a word counts once in each block. A window is two neighbours.
3. A text is found if one window scores high (an attack inside a long text), or if its windows
   score fairly high on average (a text that is an attack from beginning to end). What the owner
   writes gets the benefit of the doubt there.

Weights are whole hundredths, so that the result is the same on every machine. `silas/evals/
train_jailbreak.py` makes the file, and its digest is pinned here: another file does not load.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from itertools import pairwise, repeat

from silas.gates.guards.errors import GuardRuleBroken

FILE = "jailbreak_model.json"
SHA256 = "b3bb8a75f60620f72440580fcb9dbe824c2f67f77723345f14df2c8181f6e05b"


@dataclass(frozen=True)
class LinearModel:
    """Weights of words, and the scores from which on a text is found."""

    weights: Mapping[str, int]
    bias: int
    block: int
    one_window: int
    on_average: int
    on_average_of_owner: int

    def windows(self, symbols: str, weight_of: Mapping[str, int]) -> list[int]:
        """The score of each window of a text that was read into symbols."""
        get: Callable[[str, int], int] = weight_of.get
        size = self.block
        blocks = [
            sum(map(get, set(symbols[start : start + size]), repeat(0)))
            for start in range(0, len(symbols), size)
        ]
        if len(blocks) < 2:
            return [self.bias + score for score in blocks]
        return [self.bias + left + right for left, right in pairwise(blocks)]

    def can_find(self, weights: Iterable[int]) -> bool:
        """Whether a text could be found in which only words of these weights occur."""
        highest = self.bias + 2 * sum(weights)
        return highest > min(self.one_window, self.on_average, self.on_average_of_owner)

    def finds(self, scores: list[int], *, is_owners: bool) -> bool:
        """Whether windows with these scores make a finding."""
        if not scores:
            return False
        limit = self.on_average_of_owner if is_owners else self.on_average
        return max(scores) > self.one_window or sum(scores) > limit * len(scores)


def load_model() -> LinearModel:
    """The shipped model, if it is the file that was reviewed."""
    raw = resources.files(__package__).joinpath(FILE).read_bytes()
    if hashlib.sha256(raw).hexdigest() != SHA256:
        raise GuardRuleBroken(
            "The classifier of the guard `jailbreak` was changed. Reinstall Silas."
        )
    return LinearModel(**json.loads(raw))
