"""How good the jailbreak guard is: recall by source, false alarms by source, and what it got wrong.

`python -m silas.evals.guards --attacks FILE.jsonl --benign FILE.jsonl [--json]`; each line of a
file is an object with `text` and, if known, `source`.
"""

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
    for kind in ("attacks", "benign"):
        for source, counts in found[kind].items():
            lines.append(f"  {source}: stopped {counts['stopped']} of {counts['texts']}")
    for kind in ("missed", "false_alarms"):
        lines.append(f"{kind.replace('_', ' ')}: {len(found[kind])}")
        lines += [f"  {visible(' '.join(text.split()))[:_LENGTH]}" for text in found[kind][:_SHOWN]]
    return "\n".join(lines)


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(prog="silas.evals.guards", description=__doc__)
    parser.add_argument("--attacks", type=Path, required=True, help="texts that must be stopped")
    parser.add_argument("--benign", type=Path, required=True, help="texts that must pass")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    chosen = parser.parse_args()
    found = report(list(samples_in(chosen.attacks)), list(samples_in(chosen.benign)))
    print(json.dumps(found, ensure_ascii=False, indent=2) if chosen.json else in_words(found))


if __name__ == "__main__":
    main()
