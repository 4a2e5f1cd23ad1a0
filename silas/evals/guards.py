"""How good the guards are, and how fast.

    python -m silas.evals.guards --packages DIR [--json]
    python -m silas.evals.guards --attacks FILE.jsonl --benign FILE.jsonl [--json]

1. The guard `jailbreak` is measured on the texts of packages (`silas/evals/guard_corpora.py`), or
   of files: recall by source, false alarms by source, precision, and what it got wrong. Each line
   of a file is an object with `text` and, if known, `source`.
2. With packages, also whether the other guards find every number and format, and how long all of
   them take.
"""

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from silas.evals import guard_numbers, guard_speed
from silas.evals.guard_corpora import Kind, measured
from silas.gates.guards.models import Decision
from silas.gates.guards.registry import built_in_guards
from silas.kernel import strict_loads, visible

_SHOWN = 10
_LENGTH = 90


@dataclass(frozen=True)
class Sample:
    """One text and what the guard did with it."""

    source: str
    text: str
    stopped: bool


def samples_in(path: Path) -> Iterator[Sample]:
    """The texts of a file, each judged as text from outside."""
    guards = built_in_guards()
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            entry = strict_loads(line)
            verdict = guards.check("jailbreak", entry["text"])
            stopped = verdict.decision is not Decision.PASS
            yield Sample(str(entry.get("source", path.name)), entry["text"], stopped)


def samples_of(packages: Path) -> dict[Kind, list[Sample]]:
    """The texts that are measured, by kind: prompts judged as the owner's, others as foreign."""
    guards = built_in_guards()
    samples: dict[Kind, list[Sample]] = {}
    for kind, name, texts in measured(packages):
        origin = "owner" if kind == "prompt" else "external"
        options = guards.options("jailbreak", {"origin": origin})
        verdicts = (guards.check("jailbreak", text, options) for text in texts)
        samples.setdefault(kind, []).extend(
            Sample(name, text, each.decision is not Decision.PASS)
            for text, each in zip(texts, verdicts, strict=True)
        )
    return samples


def by_source(samples: list[Sample]) -> dict[str, dict[str, Any]]:
    """How many texts of each source there are, and how many were stopped."""
    sources = sorted({sample.source for sample in samples})
    grouped = {name: [each for each in samples if each.source == name] for name in sources}
    return {
        name: {
            "texts": len(group),
            "stopped": sum(each.stopped for each in group),
            "share": sum(each.stopped for each in group) / len(group),
        }
        for name, group in grouped.items()
    }


def report(attacks: list[Sample], benign: list[Sample]) -> dict[str, Any]:
    """Recall, false alarms and precision, and the texts that were judged wrongly."""
    caught = sum(each.stopped for each in attacks)
    alarms = sum(each.stopped for each in benign)
    return {
        "recall": caught / len(attacks) if attacks else None,
        "false_alarm_rate": alarms / len(benign) if benign else None,
        "precision": caught / (caught + alarms) if caught + alarms else None,
        "attacks": by_source(attacks),
        "benign": by_source(benign),
        "missed": [each.text for each in attacks if not each.stopped],
        "false_alarms": [each.text for each in benign if each.stopped],
    }


def in_words(found: dict[str, Any]) -> str:
    """The report for people."""
    lines = []
    for name in ("recall", "false_alarm_rate", "precision"):
        share = found[name]
        lines.append(f"{name.replace('_', ' ')}: {'-' if share is None else f'{share:.2%}'}")
    for kind in ("attacks", "injection", "benign", "prompt"):
        lines += [f"{kind}:"] if kind in found else []
        for source, counts in found.get(kind, {}).items():
            told = f"stopped {counts['stopped']} of {counts['texts']} ({counts['share']:.2%})"
            lines.append(f"  {source}: {told}")
    for kind in ("missed", "false_alarms"):
        lines.append(f"{kind.replace('_', ' ')}: {len(found[kind])}")
        lines += [f"  {visible(' '.join(text.split()))[:_LENGTH]}" for text in found[kind][:_SHOWN]]
    return "\n".join(lines)


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(prog="silas.evals.guards", description=__doc__)
    parser.add_argument("--attacks", type=Path, help="texts that must be stopped")
    parser.add_argument("--benign", type=Path, help="texts that must pass")
    parser.add_argument("--packages", type=Path, help="folder of packages with texts")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    chosen = parser.parse_args()
    if chosen.packages:
        found = of_packages(samples_of(chosen.packages))
    elif chosen.attacks and chosen.benign:
        found = report(list(samples_in(chosen.attacks)), list(samples_in(chosen.benign)))
    else:
        parser.error("name a folder of packages, or a file of attacks and one of benign texts")
    print(json.dumps(found, ensure_ascii=False, indent=2) if chosen.json else in_words(found))
    if chosen.packages and not chosen.json:
        _print_the_rest()


def of_packages(samples: dict[Kind, list[Sample]]) -> dict[str, Any]:
    """The report on jailbreaks against benign texts, with the other kinds apart."""
    found = report(samples["jailbreak"], samples["benign"])
    return {**found, **{kind: by_source(samples[kind]) for kind in ("injection", "prompt")}}


def _print_the_rest() -> None:
    guards = built_in_guards()
    counts = list(guard_numbers.counted(guards, many=200))
    print(*guard_numbers.in_words(counts, guard_numbers.secrets_found(guards)), sep="\n")
    print(*guard_speed.in_words(list(guard_speed.timings(guards))), sep="\n")


if __name__ == "__main__":
    main()
