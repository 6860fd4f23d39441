"""Cutting words into the pieces that the table has vectors for.

The vocabulary is the one that the table was trained with (32,000 pieces, a later one joined of two
earlier ones). In a word, the two neighbours whose joint piece comes first are joined, until no two
have one; what has no piece is spelled by its bytes. Words are cut at white space. Checked against
the tokenizer that the table's authors ship: tests/inference/test_pieces.py.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from itertools import count, pairwise
from pathlib import Path

_FILE = Path(__file__).parent / "data" / "pieces.txt"
_START = "\u2581"
"""Stands before the first letter of a word."""

_FIRST_BYTE = 3
"""The piece for the byte 0; those of the other bytes follow."""

_FIRST_JOINED = 259
_LONGEST = 64
"""Characters of a word that are cut together; the time grows with the square of it."""

_REMEMBERED = 1 << 16


class Pieces:
    """A vocabulary.

    Args:
        file: Its pieces, one a line, in the order of their numbers.
    """

    def __init__(self, file: Path = _FILE) -> None:
        pieces = file.read_text("utf-8").split("\n")[_FIRST_JOINED:]
        self._numbers = dict(zip(pieces, count(_FIRST_JOINED), strict=False))
        self._pieces = pieces
        self._known = lru_cache(_REMEMBERED)(self._cut)
        self._told = lru_cache(_REMEMBERED)(self._telling)

    def __call__(self, text: str, most: int) -> list[int]:
        """Return the numbers of the first pieces of a text, in its order."""
        return _first(self._known, text, most)

    def telling(self, text: str, most: int) -> list[int]:
        """Return the numbers of the first pieces of a text that mean something.

        Bytes, and single letters of most scripts, do not: a text that is spelled with them (Thai)
        would be like any other one that is.
        """
        return _first(self._told, text, most)

    def _telling(self, word: str, before: str) -> list[int]:
        found = self._known(word, before)
        means = (one for one in found if one >= _FIRST_JOINED)
        return [one for one in means if not _is_mute(self._pieces[one - _FIRST_JOINED])]

    def _cut(self, word: str, before: str) -> list[int]:
        parts = [*before, *word]
        while len(parts) > 1:
            rank, at = min(
                (self._numbers.get(one + other, _NEVER), place)
                for place, (one, other) in enumerate(pairwise(parts))
            )
            if rank == _NEVER:
                break
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
        found: list[int] = []
        for part in parts:
            if part in self._numbers:
                found.append(self._numbers[part])
            else:
                raw = part.encode("utf-8", "surrogatepass")
                found += [_FIRST_BYTE + byte for byte in raw]
        return found


def _first(cut: Callable[[str, str], list[int]], text: str, most: int) -> list[int]:
    found: list[int] = []
    for word in text.split():
        found += cut(word[:_LONGEST], _START)
        for start in range(_LONGEST, len(word), _LONGEST):
            if len(found) >= most:
                break
            found += cut(word[start : start + _LONGEST], "")
        if len(found) >= most:
            break
    return found[:most]


def _is_mute(piece: str) -> bool:
    """Tell whether a piece is a letter that is no word: single, neither ASCII, Han nor Hangul."""
    letter = piece.removeprefix(_START)
    return not letter or (len(letter) == 1 and not letter.isascii() and not _WORD(letter))


_WORD = re.compile("[\u3400-\u9fff\uac00-\ud7a3]").match
_NEVER = 1 << 30
