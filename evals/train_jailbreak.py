"""Train the classifier of the guard `jailbreak`, and say how well it does on texts not learned.

    make corpora && .venv/bin/python -m evals.train_jailbreak --packages .corpora --out FILE

`evals/guard_texts.py` says what is learned, and under which licences. The quality is first
measured by cross-validation: five models each learn four fifths of the attacks and are measured on
the rest, chosen by digest; then the model that is written learns all of them. `make eval` measures
it on families of texts of which nothing was learned. The same packages give the same file.

The method is logistic regression, learned with FTRL-proximal steps (McMahan and others, 2013),
whose L1 term leaves few words; weights are kept between zero and a cap, for the reasons that
`silas/gates/guards/jailbreak.py` gives.
"""

import hashlib
import json
import math
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import click

from evals.guard_texts import LEARNED_BENIGN, learned_attacks, learned_benign
from silas.gates.guards.jailbreak import LinearModel
from silas.gates.guards.normalise import fold

BLOCK = 35
ONE_WINDOW = 250
ON_AVERAGE = -300
ON_AVERAGE_OF_OWNER = -250
FOLDS = 5

_EPOCHS = 6
_SEED = 7
_RATE, _BETA, _L1, _L2 = 0.5, 1.0, 2.0, 1.0
_MAX_WEIGHT = 1.5
_LEAST_TEXTS = 4
_LONGEST_BENIGN = 20_000
_BIAS = "*"
# Left over from HTML in the collections, and told nothing about the text.
_NO_WORDS = frozenset({"amp", "gt", "lt", "nbsp"})


class Row(NamedTuple):
    """One window of a text: how often each word counts, whether it is an attack, its weight."""

    words: list[tuple[str, int]]
    is_attack: bool
    weight: float


def fold_of(text: str) -> int:
    """The part of the data to which a text belongs; decided by the text alone."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:4]) % FOLDS


def blocks_of(text: str) -> list[set[str]]:
    """The words of each block of the text."""
    words = fold(text).split()
    return [set(words[start : start + BLOCK]) for start in range(0, len(words), BLOCK)]


def windows_of(blocks: list[set[str]]) -> Iterator[Counter[str]]:
    """How often each word counts in each window."""
    if len(blocks) == 1:
        yield Counter(blocks[0])
    for left, right in pairwise(blocks):
        yield Counter(left) + Counter(right)


def vocabulary(attacks: Iterable[str]) -> set[str]:
    """The words that occur in several attacks, so that no single text teaches a word."""
    seen = Counter(word for text in attacks for word in set().union(*blocks_of(text)))
    return {
        word
        for word, times in seen.items()
        if times >= _LEAST_TEXTS and len(word) > 1 and word.isalpha() and word not in _NO_WORDS
    }


def rows_of(texts: Iterable[str], known: set[str], *, is_attack: bool) -> Iterator[Row]:
    """The windows of the texts; those of a long attack share its weight."""
    for text in texts:
        windows = list(windows_of([block & known for block in blocks_of(text[:_LONGEST_BENIGN])]))
        weight = max(1 / len(windows), 0.2) if is_attack and windows else 1.0
        for window in windows:
            if window or is_attack:
                yield Row([*sorted(window.items()), (_BIAS, 1)], is_attack, weight)


def learn(rows: list[Row]) -> dict[str, float]:
    """The weight of each word, and of the bias."""
    gradients: dict[str, float] = defaultdict(float)
    squares: dict[str, float] = defaultdict(float)
    weights: dict[str, float] = {}
    shuffle = random.Random(_SEED).shuffle
    for _ in range(_EPOCHS):
        shuffle(rows)
        for row in rows:
            error = _error(row, weights)
            if abs(error) > 1e-4:
                _step(row, error, weights, gradients, squares)
    return {word: weight for word, weight in weights.items() if weight}


def _error(row: Row, weights: dict[str, float]) -> float:
    score = sum(weights.get(word, 0.0) * times for word, times in row.words)
    expected = 1 / (1 + math.exp(-max(-30.0, min(30.0, score))))
    return (expected - row.is_attack) * row.weight


def _step(
    row: Row,
    error: float,
    weights: dict[str, float],
    gradients: dict[str, float],
    squares: dict[str, float],
) -> None:
    for word, times in row.words:
        gradient = error * times
        before = math.sqrt(squares[word])
        squares[word] += gradient * gradient
        after = math.sqrt(squares[word])
        gradients[word] += gradient - (after - before) / _RATE * weights.get(word, 0.0)
        pull = gradients[word]
        weight = 0.0
        if abs(pull) > _L1:
            weight = -(pull - math.copysign(_L1, pull)) / ((_BETA + after) / _RATE + _L2)
        weights[word] = weight if word == _BIAS else min(max(weight, 0.0), _MAX_WEIGHT)


def train(attacks: list[str], benign: list[str]) -> LinearModel:
    """A model of the attacks, against the benign texts."""
    known = vocabulary(attacks)
    rows = [*rows_of(attacks, known, is_attack=True), *rows_of(benign, known, is_attack=False)]
    learned = {word: round(weight * 100) for word, weight in learn(rows).items()}
    bias = learned.pop(_BIAS)
    return LinearModel(
        weights={word: learned[word] for word in sorted(learned) if learned[word]},
        bias=bias,
        block=BLOCK,
        one_window=ONE_WINDOW,
        on_average=ON_AVERAGE,
        on_average_of_owner=ON_AVERAGE_OF_OWNER,
    )


def found(model: LinearModel, text: str) -> bool:
    """Whether the model alone finds the text, if it comes from outside."""
    windows = windows_of(blocks_of(text))
    scores = [
        model.bias + sum(model.weights.get(word, 0) * times for word, times in window.items())
        for window in windows
    ]
    return model.finds(scores, is_owners=False)


def written(model: LinearModel) -> bytes:
    """The model as the bytes of its file."""
    return (json.dumps(vars(model), indent=0, sort_keys=True) + "\n").encode()


def cross_validated(attacks: list[str], benign: list[str]) -> int:
    """How many attacks are found by models that have not learned them."""
    hits = 0
    for part in range(FOLDS):
        model = train([text for text in attacks if fold_of(text) != part], benign)
        kept_back = [text for text in attacks if fold_of(text) == part]
        found_here = sum(found(model, text) for text in kept_back)
        print(f"part {part + 1}: {found_here} of {len(kept_back)} attacks found")
        hits += found_here
    return hits


@click.command()
@click.option("--packages", type=click.Path(exists=True, path_type=Path), required=True)
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), required=True)
def main(packages: Path, out: Path) -> None:
    """Train on the attacks and the benign texts in the packages, and write the model."""
    missing = [each.archive for each in LEARNED_BENIGN if not list(packages.glob(each.archive))]
    if missing:
        raise click.ClickException(f"{packages} lacks {', '.join(missing)}")
    attacks, benign = learned_attacks(packages), learned_benign(packages)
    print(f"{len(attacks)} attacks, {len(benign)} benign texts")
    hits = cross_validated(attacks, benign)
    print(f"cross-validated: {hits} of {len(attacks)} ({hits / len(attacks):.1%})")
    model = train(attacks, benign)
    raw = written(model)
    out.write_bytes(raw)
    print(f"{len(model.weights)} words, {len(raw)} bytes, sha256 {hashlib.sha256(raw).hexdigest()}")


if __name__ == "__main__":
    main()
