"""An embedder without weights: hashed character n-grams. For tests; it knows spelling only."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence

import numpy as np

from adapters.embeddings.unit import unit_rows

SIZES = (3, 4, 5)


class HashingEmbedder:
    """Equal texts have equal vectors, in every process; texts that share words are near."""

    def __init__(self, dim: int = 384) -> None:
        self.dim = dim
        self.id = f"hashing-char-{SIZES[0]}-{SIZES[-1]}-{dim}"

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Unit vectors, in order."""
        rows = np.zeros((len(texts), self.dim))
        for row, text in zip(rows, texts, strict=True):
            for gram in _grams(text):
                digest = zlib.crc32(gram.encode())
                row[digest % self.dim] += 1.0 if digest >> 31 else -1.0
        return unit_rows(rows).tolist() if texts else []


def _grams(text: str) -> Iterator[str]:
    for word in text.lower().split():
        padded = f" {word} "
        for size in SIZES:
            for start in range(max(1, len(padded) - size + 1)):
                yield padded[start : start + size]
