"""How much the rules about injected instructions owe to the verbs that they know.

    python -m silas.evals.guard_verbs FILE.jsonl

Rules that were written with some texts in view know the verbs of these texts. So each text is tried
by rules that lack the verbs which it uses itself: what they still stop is what can be expected of
texts of the same kind with other verbs. Code in a text is left out, as no rule speaks of it.
"""

import argparse
from collections.abc import Iterable
from pathlib import Path

from silas.gates.guards.injection_rules import INJECTION_RULES
from silas.gates.guards.jailbreak_words import CONCEPTS
from silas.gates.guards.normalise import fold
from silas.gates.guards.phrases import Lexicon
from silas.kernel import strict_loads

VERBS = ("put", "twist", "see_to", "perform")
"""The concepts that are long lists of verbs."""


def stopped_without_own_verbs(text: str) -> bool:
    """Whether a rule for text from outside finds the text without knowing its verbs."""
    words = fold(text.partition("```")[0]).split()
    lexicon = Lexicon({name: _without(name, words) for name in CONCEPTS})
    symbols = lexicon.read([words])
    patterns = (pattern for rule in INJECTION_RULES for pattern in rule.patterns)
    return any(lexicon.phrase(pattern).search(symbols, set(symbols)) for pattern in patterns)


def _without(name: str, words: Iterable[str]) -> str:
    if name not in VERBS:
        return CONCEPTS[name]
    # A concept needs one word at least; this one occurs nowhere.
    return " ".join(["\0", *(word for word in CONCEPTS[name].split() if word not in set(words))])


def main() -> None:
    """Count, and print."""
    parser = argparse.ArgumentParser(prog="silas.evals.guard_verbs", description=__doc__)
    parser.add_argument("file", type=Path, help="injected instructions, one JSON object a line")
    lines = parser.parse_args().file.read_text("utf-8").splitlines()
    texts = [entry["text"] for entry in map(strict_loads, lines) if _is_injection(entry)]
    stopped = sum(map(stopped_without_own_verbs, texts))
    print(f"stopped by rules that do not know the text's own verbs: {stopped} of {len(texts)}")


def _is_injection(entry: dict[str, str]) -> bool:
    return entry.get("kind", "injection") == "injection"


if __name__ == "__main__":
    main()
