"""An embedder without a model: texts that share words are near each other."""

import hashlib
import math
from collections.abc import Sequence


class FakeEmbedder:
    """`Embedder` that adds up one fixed direction for every word."""

    def __init__(self, model_id: str = "fake", *, dimensions: int = 32) -> None:
        self._model_id = model_id
        self._dimensions = dimensions
        self.embedded: list[str] = []

    @property
    def model_id(self) -> str:
        return self._model_id

    @property
    def dimensions(self) -> int:
        return self._dimensions

    def embed(self, text: str) -> list[float]:
        return self.embed_batch([text])[0]

    def embed_batch(self, texts: Sequence[str]) -> list[list[float]]:
        self.embedded += texts
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> list[float]:
        total = [0.0] * self._dimensions
        for word in text.lower().split():
            digest = hashlib.sha256(word.strip(".,?!:").encode()).digest()
            for place in range(self._dimensions):
                total[place] += digest[place % len(digest)] / 127.5 - 1
        length = math.sqrt(sum(value * value for value in total)) or 1.0
        return [value / length for value in total]
