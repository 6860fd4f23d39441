"""The words of each record in the index, as one number for each record.

FTS5 stores its index by word, so the words of one record are only known after reading all of it.
That is done once, in order: for each record, the sum over its words of a secret number of the word
times a secret number of its position. The secrets are drawn whenever the index is read, so other
words with the same sum cannot be prepared.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from operator import mul

from blake3 import blake3
from nacl.bindings import randombytes

from satchel.stores.vectors import SEQ_BITS

VOCABULARY = """
CREATE VIRTUAL TABLE IF NOT EXISTS temp.words_listed USING fts5vocab(main, words, instance)"""
INSTANCES = 'SELECT term, doc, "offset" FROM temp.words_listed'
"""Every word of every record, with its position; sorted by the word, as FTS5 has them."""

TOTALS = "SELECT block FROM words_data WHERE id = 1"
"""The number of records and of words in the index, from which scores are computed."""

FTS5_VERSION = 4
"""The version of its tables; later ones are for settings that are not used here."""

_KEY_BYTES, _SEVEN_BITS = 32, 0x7F
_SECRET = (1 << 30) - 1  # the product of two of them is quickly computed
_MASK = (1 << 64) - 1


class WordIndex:
    """The index of words of a store at one moment.

    Args:
        instances: The rows of ``INSTANCES``.
    """

    def __init__(self, instances: Iterable[tuple[str, int, int]]) -> None:
        self._keys = randombytes(_KEY_BYTES), randombytes(_KEY_BYTES)
        numbers, positions = self._secrets()
        sums, last, number = dict[int, int](), None, 0
        for term, rowid, offset in instances:
            if term != last:
                last, number = term, numbers[term]
            sums[rowid] = sums.get(rowid, 0) + number * positions[offset]
        self._rowids = array("q", sorted(sums))
        self._sums = array("Q", (sums[rowid] & _MASK for rowid in self._rowids))

    def comparing(self) -> "WordSums":
        """Return the sums for comparisons of records with the index."""
        return WordSums(self, *self._secrets())

    def at(self, rowid: int) -> int:
        """Return the sum of the words of a record; 0 for one without words."""
        index = bisect_left(self._rowids, rowid)
        is_there = index < len(self._rowids) and self._rowids[index] == rowid
        return self._sums[index] if is_there else 0

    def between(self, first: int, last: int) -> Sequence[int]:
        """Return the row keys in a range that have words."""
        return self._rowids[bisect_left(self._rowids, first) : bisect_left(self._rowids, last + 1)]

    def banks(self) -> list[int]:
        """Return the numbers of the banks that have words."""
        numbers, start = list[int](), 0
        while start < len(self._rowids):
            numbers.append(self._rowids[start] >> SEQ_BITS)
            start = bisect_left(self._rowids, (numbers[-1] + 1) << SEQ_BITS)
        return numbers

    def _secrets(self) -> "tuple[_Secrets, _Secrets]":
        return _Secrets(self._keys[0]), _Secrets(self._keys[1])


class WordSums:
    """Compares the words of records with those in the index.

    Args:
        index: The index.
        numbers: Secret numbers of words.
        positions: Secret numbers of positions.
    """

    def __init__(self, index: WordIndex, numbers: "_Secrets", positions: "_Secrets") -> None:
        self._index = index
        self._numbers = numbers
        self._positions = positions

    def is_of(self, index: WordIndex) -> bool:
        """Return whether the sums are of an index."""
        return self._index is index

    def are(self, rowid: int, words: Sequence[str]) -> bool:
        """Return whether the index has exactly these words of a record, in this order."""
        numbers = map(self._numbers.__getitem__, words)
        positions = map(self._positions.__getitem__, range(len(words)))
        total: int = sum(map(mul, numbers, positions))
        return self._index.at(rowid) == total & _MASK


class _Secrets(dict[str | int, int]):
    """Secret numbers of words or positions."""

    def __init__(self, key: bytes) -> None:
        super().__init__()
        self._key = key

    def __missing__(self, name: str | int) -> int:
        """Draw the number of a new key."""
        digest = blake3(str(name).encode(), key=self._key).digest(length=4)
        number = self[name] = int.from_bytes(digest) & _SECRET
        return number


def varints(block: bytes) -> list[int]:
    """Return the numbers in a block, as SQLite encodes them: seven bits to a byte."""
    numbers, partial = list[int](), 0
    for byte in block:
        partial = partial << 7 | byte & _SEVEN_BITS
        if byte <= _SEVEN_BITS:
            numbers.append(partial)
            partial = 0
    return numbers


WordIndexes = dict[tuple[int, int], WordIndex]
"""The last index that was read, by a stamp that changes with every write."""
