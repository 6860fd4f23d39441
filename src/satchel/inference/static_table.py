"""The built-in embedder: a table with a vector for each piece of a word; a text is their mean.

The plain mean weighs all pieces equally. The weighted one weighs a piece by how few texts of the
bank have it: ``log((n + 1) / (with it + 1/2))``, at least 0.05. For that, the texts of the bank are
counted first.
"""

import mmap
import re
import sys
import zlib
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, cached_property, lru_cache
from importlib.util import find_spec
from itertools import count, pairwise
from math import hypot, log
from operator import add
from pathlib import Path
from typing import Any, NamedTuple

from blake3 import blake3

from satchel.errors import InferenceError, MissingExtraError
from satchel.ports.inference import Embedder
from satchel.runtime.arrays import numpy

_PIECES_FILE = Path(__file__).parent / "data" / "pieces.txt"
_START = "\u2581"
"""Marks the start of a word."""

_FIRST_BYTE = 3
"""Number of the piece for byte 0; those of the other bytes follow."""

_FIRST_JOINED = 259
_LONGEST_WORD = 64
"""Maximum characters that are split together; the time grows with its square."""

_REMEMBERED = 1 << 16


class StaticVocabulary:
    """The vocabulary of the built-in embedder.

    Args:
        file: Its pieces, one per line, in the order of their numbers.
    """

    def __init__(self, file: Path = _PIECES_FILE) -> None:
        pieces = file.read_text("utf-8").split("\n")[_FIRST_JOINED:]
        self._numbers = dict(zip(pieces, count(_FIRST_JOINED), strict=False))
        self._pieces = pieces
        self._cached_cut = lru_cache(_REMEMBERED)(self._cut)
        self._cached_telling = lru_cache(_REMEMBERED)(self._telling)

    def __call__(self, text: str, most: int) -> list[int]:
        """Return the numbers of the first pieces of a text, in order."""
        return _first(self._cached_cut, text, most)

    def telling(self, text: str, most: int) -> list[int]:
        """Return the numbers of the first meaningful pieces of a text.

        Bytes, and single letters of most scripts, are skipped: texts that consist of them (Thai)
        would all be similar.
        """
        return _first(self._cached_telling, text, most)

    def _telling(self, word: str, before: str) -> list[int]:
        pieces = self._cached_cut(word, before)
        joined = (piece for piece in pieces if piece >= _FIRST_JOINED)
        return [piece for piece in joined if not _is_mute(self._pieces[piece - _FIRST_JOINED])]

    def _cut(self, word: str, before: str) -> list[int]:
        parts = [*before, *word]
        while len(parts) > 1:
            rank, at = min(
                (self._numbers.get(first + second, _NEVER), index)
                for index, (first, second) in enumerate(pairwise(parts))
            )
            if rank == _NEVER:
                break
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
        pieces: list[int] = []
        for part in parts:
            if part in self._numbers:
                pieces.append(self._numbers[part])
            else:
                raw = part.encode("utf-8", "surrogatepass")
                pieces += [_FIRST_BYTE + byte for byte in raw]
        return pieces


def _first(cut: Callable[[str, str], list[int]], text: str, most: int) -> list[int]:
    pieces: list[int] = []
    for word in text.split():
        pieces += cut(word[:_LONGEST_WORD], _START)
        for start in range(_LONGEST_WORD, len(word), _LONGEST_WORD):
            if len(pieces) >= most:
                break
            pieces += cut(word[start : start + _LONGEST_WORD], "")
        if len(pieces) >= most:
            break
    return pieces[:most]


def _is_mute(piece: str) -> bool:
    """Return whether a piece is a single letter that is neither ASCII, Han nor Hangul."""
    letter = piece.removeprefix(_START)
    return not letter or (len(letter) == 1 and not letter.isascii() and not _WORD(letter))


_WORD = re.compile("[\u3400-\u9fff\uac00-\ud7a3]").match
_NEVER = 1 << 30


MODEL = "wordllama-l2-256-int8"
"""Name of the plain mean."""

WEIGHTED = f"{MODEL}-idf"
DIMENSIONS = 256
PIECES = 32_000

_FILE = Path(__file__).parent / "data" / "table.int8"
_SCALE_BYTES = 4
_REVISION = "9d4a557c0f6376b5"
_MAKE = 2
"""Version of the computation; since 2, only meaningful pieces count."""

_LONGEST = 1 << 16
"""Maximum characters of a text that are read, from its start."""

_MOST = 1 << 13
"""Maximum pieces of a text, from its start, and of the texts of one step."""

_LEAST_WEIGHT = 0.05
_COUNT = "I"

_FEW = 256
"""Maximum pieces that are weighted one by one; a query has few."""

_BY_HAND = 32
"""Maximum texts that are computed without numpy, if it is not loaded; loading it takes longer."""


class _MappedTable(NamedTuple):
    """The table, mapped from disk: parts that are not read take no memory."""

    whole: memoryview
    scales: "array[float]"
    revision: str

    def row(self, piece: int) -> memoryview:
        """Return the numbers of a piece, from -127 to 127."""
        start = _SCALE_BYTES * PIECES + DIMENSIONS * piece
        return self.whole[start : start + DIMENSIONS]


class StaticTable:
    """The mean of the vectors of a text's pieces, as a unit vector.

    Raises:
        MissingExtraError: If numpy is not installed.
        InferenceError: If the table is damaged.
    """

    model = MODEL
    dimensions = DIMENSIONS

    def __init__(self) -> None:
        self._table = _bundled_table()
        self.revision = f"{self._table.revision}-{_MAKE}"
        self._pieces = _pieces()

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        """Return a vector for each text; see ``Embedder``.

        Results are the same to the last bit with and without numpy.
        """
        cut = (self._pieces.telling(text[:_LONGEST], _MOST) for text in texts)
        if len(texts) <= _BY_HAND and sys.modules.get("numpy") is None:
            return [self._mean(pieces) for pieces in cut]
        return [vector for group in _bounded(cut) for vector in self._means(group)]

    def _means(self, cut: list[list[int]]) -> list[bytes]:
        np = numpy()

        flat = np.array([piece for pieces in cut for piece in pieces], dtype=np.intp)
        table = np.frombuffer(self._table.whole, np.int8, offset=_SCALE_BYTES * PIECES)
        rows = table.reshape(PIECES, DIMENSIONS)[flat].astype(np.float32)
        rows *= self._factors_of(flat)[:, None]
        means, start = np.zeros((len(cut), DIMENSIONS)), 0
        for mean, pieces in zip(means, cut, strict=True):
            # In 64 bits, piece by piece, so that other texts do not affect the result.
            end = start + len(pieces)
            np.add.reduce(rows[start:end], axis=0, dtype=np.float64, out=mean)
            start = end
        lengths = np.array([hypot(*row) for row in means.tolist()])[:, None]
        unit = np.divide(means, lengths, out=np.zeros_like(means), where=lengths > 0)
        return [row.tobytes() for row in unit.astype("<f4")]

    def _mean(self, pieces: list[int]) -> bytes:
        """Return the same as ``_means`` for one text, without numpy."""
        total = [0.0] * DIMENSIONS
        for piece in pieces:
            factor = self._factor(piece)
            row = array("f", [factor * number for number in self._table.row(piece)])
            total = list(map(add, total, row))
        length = hypot(*total)
        return _little(array("f", [number / length for number in total] if length else total))

    def _factors_of(self, flat: Any) -> Any:
        """Return the factors of the rows of pieces; for few pieces, only theirs are computed."""
        np = numpy()

        if len(flat) > _FEW or "_factors" in self.__dict__:
            return self._factors[flat]
        known = self._factors_of_few
        known.update((piece, self._factor(piece)) for piece in {*flat.tolist()} - known.keys())
        return np.array([known[piece] for piece in flat.tolist()], dtype=np.float32)

    @cached_property
    def _factors_of_few(self) -> dict[int, float]:
        return {}

    @cached_property
    def _factors(self) -> Any:
        """Factor of the row of each piece."""
        np = numpy()

        return np.array(self._table.scales, dtype=np.float32)

    def _factor(self, piece: int) -> float:
        return self._table.scales[piece]


class WeightedTable(StaticTable):
    """The weighted mean; before it has learned from a bank, all pieces count the same."""

    model = WEIGHTED

    def __init__(self, learned: bytes | None = None) -> None:
        super().__init__()
        self._counts, self._texts = None if learned is None else _unpacked_counts(learned), 0
        if self._counts is not None:
            self._texts = self._counts.pop(0)

    def learn(self, texts: Iterable[str]) -> bytes:
        """Return the number of texts that have each piece, encoded; see ``TrainableEmbedder``."""
        counts, number = Counter[int](), 0
        for number, text in enumerate(texts, 1):  # noqa: B007 - how many there were
            counts.update(set(self._pieces.telling(text[:_LONGEST], _MOST)))
        numbers = array(_COUNT, bytes(4 * (PIECES + 1)))
        numbers[0] = min(number, 2**32 - 1)
        for piece, texts_with_it in counts.items():
            numbers[piece + 1] = min(texts_with_it, 2**32 - 1)
        return zlib.compress(_little(numbers), 9)

    def knowing(self, learned: bytes) -> Embedder:
        """Return the embedder with learned weights; see ``TrainableEmbedder``."""
        return _knowing(learned)

    def _weight(self, piece: int) -> float:
        count = 0 if self._counts is None else self._counts[piece]
        return max(log((self._texts + 1) / (count + 0.5)), _LEAST_WEIGHT)

    @cached_property
    def _factors(self) -> Any:
        np = numpy()

        weights = np.array([self._weight(piece) for piece in range(PIECES)], dtype=np.float32)
        return np.array(self._table.scales, dtype=np.float32) * weights

    def _factor(self, piece: int) -> float:
        [weight] = array("f", [self._weight(piece)])
        [factor] = array("f", [self._table.scales[piece] * weight])
        return factor


def _unpacked_counts(learned: bytes) -> "array[int]":
    """Return the number of texts, followed by the number of texts that have each piece."""
    size = 4 * (PIECES + 1)
    opener = zlib.decompressobj()
    try:
        counts = opener.decompress(learned, size + 1)
    except zlib.error as error:
        raise ValueError("the learned word weights of a bank are damaged") from error
    if len(counts) != size:
        raise ValueError("the learned word weights of a bank are damaged")
    return _read(_COUNT, counts)


def _little(numbers: "array[Any]") -> bytes:
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()


def _read(kind: str, raw: bytes | memoryview) -> "array[Any]":
    numbers = array(kind)
    numbers.frombytes(raw)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


@lru_cache(8)  # queries may alternate between banks
def _knowing(learned: bytes) -> WeightedTable:
    return WeightedTable(learned)


def _bounded(cut: Iterable[list[int]]) -> Iterator[list[list[int]]]:
    """Yield texts in batches of a maximum number of pieces."""
    group: list[list[int]] = []
    size = 0
    for pieces in cut:
        if group and size + len(pieces) > _MOST:
            yield group
            group, size = [], 0
        group.append(pieces)
        size += len(pieces)
    if group:
        yield group


@cache
def _pieces() -> StaticVocabulary:
    return StaticVocabulary()


@cache
def _bundled_table() -> _MappedTable:
    """Return the table, mapped into memory, with its revision."""
    if find_spec("numpy") is None:
        raise MissingExtraError(
            "the built-in embedder needs numpy",
            hint="Reinstall satchel.",
        )
    with _FILE.open("rb") as file:
        size = file.seek(0, 2)
        whole = memoryview(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) if size else b"")
    revision = blake3(whole).hexdigest()[: len(_REVISION)]
    if revision != _REVISION or len(whole) != PIECES * (DIMENSIONS + _SCALE_BYTES):
        raise InferenceError(
            "the table of the built-in embedder is damaged",
            file=_FILE.name,
            hint="Reinstall satchel.",
        )
    scales = _read("f", whole[: _SCALE_BYTES * PIECES])
    return _MappedTable(whole.cast("b"), scales, revision)
