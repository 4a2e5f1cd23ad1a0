"""How well a guard tells attacks from ordinary text: recall, false alarms, precision, confusions.

    python -m silas.evals.guards --attacks ATTACKS.jsonl --benign BENIGN.jsonl [--json]

Each line is an object with a `text`; `source`, if given, groups the figures. An attack counts as
found if the guard does anything but let the text pass. `--guard` and `--options` choose another
guard and its options.
"""

import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import click

from silas.gates.guards import GuardOptions, GuardRegistry, GuardVerdict, built_in_guards
from silas.kernel import visible

_EXCERPT = 100


class Sample(NamedTuple):
    """A text, where it is from, and what the guard said about it."""

    text: str
    source: str
    verdict: GuardVerdict

    @property
    def is_found(self) -> bool:
        """Whether the guard objected."""
        return bool(self.verdict.findings)


class Rate(NamedTuple):
    """How many of the texts of one source were found."""

    source: str
    texts: int
    found: int

    @property
    def share(self) -> float:
        """Between 0 and 1."""
        return self.found / self.texts if self.texts else 0.0


class Scores(NamedTuple):
    """The figures of one run."""

    attacks: list[Rate]
    benign: list[Rate]
    precision: float
    recall: float
    f1: float
    false_alarms: float


def examine(
    registry: GuardRegistry, name: str, options: GuardOptions, *, files: Iterable[Path]
) -> list[Sample]:
    """Every text of the files, with the guard's verdict."""
    samples = []
    for path in files:
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                record = json.loads(line)
                found = registry.check(name, record["text"], options)
                samples.append(Sample(record["text"], record.get("source", path.name), found))
    return samples


def rates(samples: Iterable[Sample]) -> list[Rate]:
    """The share found, source by source."""
    by_source: dict[str, list[bool]] = defaultdict(list)
    for sample in samples:
        by_source[sample.source].append(sample.is_found)
    return [Rate(source, len(found), sum(found)) for source, found in by_source.items()]


def scores(attacks: list[Sample], benign: list[Sample]) -> Scores:
    """What the verdicts add up to."""
    hits = sum(sample.is_found for sample in attacks)
    alarms = sum(sample.is_found for sample in benign)
    precision = hits / (hits + alarms) if hits + alarms else 0.0
    recall = hits / len(attacks) if attacks else 0.0
    both = precision + recall
    return Scores(
        attacks=rates(attacks),
        benign=rates(benign),
        precision=precision,
        recall=recall,
        f1=2 * precision * recall / both if both else 0.0,
        false_alarms=alarms / len(benign) if benign else 0.0,
    )


def as_data(found: Scores, attacks: list[Sample], benign: list[Sample], *, show: int) -> Any:
    """The figures and the first confusions, for `--json`."""
    return {
        "attacks": [{**rate._asdict(), "recall": rate.share} for rate in found.attacks],
        "benign": [{**rate._asdict(), "false_alarms": rate.share} for rate in found.benign],
        "precision": found.precision,
        "recall": found.recall,
        "f1": found.f1,
        "false_alarms": found.false_alarms,
        "missed": [_excerpt(each) for each in attacks if not each.is_found][:show],
        "alarms": [
            {"rules": [finding.rule for finding in each.verdict.findings], "text": _excerpt(each)}
            for each in benign
            if each.is_found
        ][:show],
    }


def report(data: Any) -> Iterable[str]:
    """The same for people, line by line."""
    for title, key, word in (("attacks", "attacks", "found"), ("benign", "benign", "alarms")):
        yield f"{title:<30}{'texts':>8}{word:>8}"
        for rate in data[key]:
            share = rate["recall"] if key == "attacks" else rate["false_alarms"]
            yield f"  {rate['source']:<28}{rate['texts']:>8}{rate['found']:>8}{share:>9.2%}"
    yield (
        f"precision {data['precision']:.2%}   recall {data['recall']:.2%}   F1 {data['f1']:.2%}"
        f"   false alarms {data['false_alarms']:.2%}"
    )
    yield from (f"missed: {text}" for text in data["missed"])
    yield from (f"alarm ({', '.join(each['rules'])}): {each['text']}" for each in data["alarms"])


def _excerpt(sample: Sample) -> str:
    return visible(" ".join(sample.text.split())[:_EXCERPT])


_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.option("--attacks", "attack_files", type=_FILE, multiple=True, required=True)
@click.option("--benign", "benign_files", type=_FILE, multiple=True, required=True)
@click.option("--guard", default="jailbreak", show_default=True)
@click.option("--options", "config", default="{}", help="The guard's options as JSON.")
@click.option("--show", default=10, show_default=True, help="How many confusions to list.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
def main(
    *,
    attack_files: tuple[Path, ...],
    benign_files: tuple[Path, ...],
    guard: str,
    config: str,
    show: int,
    as_json: bool,
) -> None:
    """Measure a guard on attacks and on ordinary text."""
    registry = built_in_guards()
    options = registry.options(guard, json.loads(config))
    attacks = examine(registry, guard, options, files=attack_files)
    benign = examine(registry, guard, options, files=benign_files)
    data = as_data(scores(attacks, benign), attacks, benign, show=show)
    if as_json:
        print(json.dumps(data, ensure_ascii=False))
    else:
        print("\n".join(report(data)))


if __name__ == "__main__":
    main()
