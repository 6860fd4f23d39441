"""A vector for each piece of a word, and what becomes of them in a text: their mean.

The plain mean takes every piece alike. Weighted, a piece counts by how few texts of the bank have
it: ``log((n + 1) / (with it + 1/2))``, never below 0.05. For that the bank is counted first.
"""

import zlib
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from blake3 import blake3

from satchel.errors import InferenceError, MissingExtraError
from satchel.inference.static_table.pieces import Pieces
from satchel.ports.inference.embedder import Embedder

MODEL = "wordllama-l2-256-int8"
"""The name of the plain mean; that of the weighted one has more to it."""

WEIGHTED = f"{MODEL}-idf"
DIMENSIONS = 256
PIECES = 32_000

_FILE = Path(__file__).parent / "data" / "table.int8"
_SCALE_BYTES = 4
_REVISION = "9d4a557c0f6376b5"
_LONGEST = 1 << 16
"""Characters of a text that are looked at, from its start."""

_MOST = 1 << 13
"""Pieces of a text that count, from its start; and of texts that are added up in one step."""

_LEAST_WEIGHT = 0.05
_COUNT = "<u4"


class StaticTable:
    """The plain mean of the vectors of a text's pieces, of length 1.

    Raises:
        MissingExtraError: If numpy is not installed.
        InferenceError: If the table is damaged.
    """

    model = MODEL
    dimensions = DIMENSIONS

    def __init__(self) -> None:
        self._np, self._rows, self._scales, self.revision = _loaded()
        self._pieces = _pieces()

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        """Return a vector for each text; see ``Embedder``."""
        cut = (self._pieces(text[:_LONGEST], _MOST) for text in texts)
        return [vector for some in _bounded(cut) for vector in self._means(some)]

    def _means(self, cut: list[list[int]]) -> list[bytes]:
        np = self._np
        flat = np.array([piece for pieces in cut for piece in pieces], dtype=np.intp)
        rows = self._rows[flat].astype(np.float32) * self._factors(flat)[:, None]
        found, start = np.zeros((len(cut), DIMENSIONS)), 0
        for mean, pieces in zip(found, cut, strict=True):
            # In 64 bits, piece after piece: what is beside a text makes no difference to it.
            end = start + len(pieces)
            np.add.reduce(rows[start:end], axis=0, dtype=np.float64, out=mean)
            start = end
        lengths = np.sqrt(np.square(found).sum(axis=1, keepdims=True))
        unit = np.divide(found, lengths, out=np.zeros_like(found), where=lengths > 0)
        return [row.tobytes() for row in unit.astype("<f4")]

    def _factors(self, flat: Any) -> Any:
        return self._scales[flat]


class WeightedTable(StaticTable):
    """The mean with rare pieces counting for more; of what it has not learnt, all are as rare."""

    model = WEIGHTED

    def __init__(self, learnt: bytes | None = None) -> None:
        super().__init__()
        np = self._np
        counts, texts = np.zeros(PIECES), 0.0
        if learnt is not None:
            counts, texts = self._opened(learnt)
        self._weights = self._scales * np.maximum(
            np.log((texts + 1) / (counts + 0.5)), _LEAST_WEIGHT
        ).astype(np.float32)

    def learn(self, texts: Iterable[str]) -> bytes:
        """Return in how many of some texts each piece is; see ``Learning``."""
        np = self._np
        counts, number = np.zeros(PIECES, dtype=np.int64), 0
        for number, text in enumerate(texts, 1):  # noqa: B007 - how many there were
            counts[list(set(self._pieces(text[:_LONGEST], _MOST)))] += 1
        told = np.concatenate([[number], counts]).clip(0, 2**32 - 1).astype(_COUNT)
        return zlib.compress(told.tobytes(), 9)

    def knowing(self, learnt: bytes) -> Embedder:
        """Return the embedder that weighs by what was learnt; see ``Learning``."""
        return _knowing(learnt)

    def _opened(self, learnt: bytes) -> tuple[Any, float]:
        size = 4 * (PIECES + 1)
        opener = zlib.decompressobj()
        try:
            told = opener.decompress(learnt, size + 1)
        except zlib.error as error:
            raise ValueError("what was learnt of a bank is damaged") from error
        if len(told) != size:
            raise ValueError("what was learnt of a bank is damaged")
        numbers = self._np.frombuffer(told, _COUNT).astype(float)
        return numbers[1:], float(numbers[0])

    def _factors(self, flat: Any) -> Any:
        return self._weights[flat]


@lru_cache(8)  # a question is asked of a bank after another
def _knowing(learnt: bytes) -> WeightedTable:
    return WeightedTable(learnt)


def _bounded(cut: Iterable[list[int]]) -> Iterator[list[list[int]]]:
    """Yield texts together, no more pieces at a time than are added up in one step."""
    some: list[list[int]] = []
    size = 0
    for pieces in cut:
        if some and size + len(pieces) > _MOST:
            yield some
            some, size = [], 0
        some.append(pieces)
        size += len(pieces)
    if some:
        yield some


@cache
def _pieces() -> Pieces:
    return Pieces()


@cache
def _loaded() -> tuple[Any, Any, Any, str]:
    """Return numpy, the rows, what each is to be multiplied by, and what the table is known by."""
    try:
        import numpy as np
    except ImportError as error:
        raise MissingExtraError(
            "the built-in embedder needs numpy",
            hint='Install it: python -m pip install "satchel[recall]"',
        ) from error
    kept = _FILE.read_bytes()
    revision = blake3(kept).hexdigest()[: len(_REVISION)]
    if revision != _REVISION or len(kept) != PIECES * (DIMENSIONS + _SCALE_BYTES):
        raise InferenceError(
            "the table of the built-in embedder is damaged",
            file=_FILE.name,
            hint="Install satchel again.",
        )
    scales = np.frombuffer(kept, "<f4", PIECES)
    rows = np.frombuffer(kept, np.int8, offset=_SCALE_BYTES * PIECES).reshape(PIECES, DIMENSIONS)
    return np, rows, scales, revision
