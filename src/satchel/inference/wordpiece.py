"""Cutting text into the pieces that BERT's family of models has numbers for.

Text is decomposed, freed of accents and of what is not seen, and made small; punctuation and
Chinese characters stand alone. In a word, the longest piece of the vocabulary that it begins with
is taken, then the longest that what is left begins with, and so on. A word without such pieces is
one unknown piece. Checked against the tokenizer that the models' authors ship:
tests/inference/test_wordpiece.py.
"""

import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final
from unicodedata import category, normalize

from satchel.errors import InferenceError

UNCASED = Path(__file__).parent / "data" / "bert-uncased.txt"
"""The vocabulary of bert-base-uncased, which MiniLM and most small English models share."""

_START, _END, _UNKNOWN = "[CLS]", "[SEP]", "[UNK]"
_INSIDE = "##"
_LONGEST = 100
"""Characters of a word that is cut; a longer one is unknown."""

_REMEMBERED = 1 << 16
_FURTHER = 1 << 16
"""Characters that are remembered, of the million that there are."""

_MOST_BYTES = 1 << 24
_UNSEEN = frozenset({"Cc", "Cf", "Co", "Cs"})

_IDEOGRAPHS = (
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B81F),  # as the authors' own list, which leaves a gap behind it
    (0x2B920, 0x2CEAF),
    (0x2F800, 0x2FA1F),
)


class WordPieces:
    """A vocabulary.

    Args:
        numbers: The number of each piece.
        small: Whether capitals and accents make no difference.
    """

    def __init__(self, numbers: Mapping[str, int], *, small: bool = True) -> None:
        self._numbers = numbers
        self._small = small
        self._letters = _Letters(small=small)
        self.start: Final = numbers[_START]
        self.end: Final = numbers[_END]
        self.unknown: Final = numbers[_UNKNOWN]
        self._known = lru_cache(_REMEMBERED)(self._cut)

    def __call__(self, text: str, most: int) -> list[int]:
        """Return the numbers of the first pieces of a text, in its order, without start and end.

        No text can name the pieces that only programs use.
        """
        found: list[int] = []
        for word in (
            normalize("NFD" if self._small else "NFC", text).translate(self._letters).split()
        ):
            found += self._known(word)
            if len(found) >= most:
                break
        return found[:most]

    def _cut(self, word: str) -> tuple[int, ...]:
        if len(word) > _LONGEST:
            return (self.unknown,)
        found, at = list[int](), 0
        while at < len(word):
            end, before = len(word), _INSIDE if at else ""
            while end > at and before + word[at:end] not in self._numbers:
                end -= 1
            if end == at:
                return (self.unknown,)
            found.append(self._numbers[before + word[at:end]])
            at = end
        return tuple(found)


class _Letters(dict[int, str]):
    """What becomes of each character."""

    def __init__(self, *, small: bool) -> None:
        super().__init__()
        self._small = small

    def __missing__(self, code: int) -> str:
        found = self._found(chr(code))
        if len(self) < _FURTHER:
            self[code] = found
        return found

    def _found(self, letter: str) -> str:
        kind = category(letter)
        if letter in "\t\n\r" or kind.startswith("Z"):
            return " "
        if kind in _UNSEEN or letter == "\ufffd" or (self._small and kind == "Mn"):
            return ""
        marks = letter.isascii() and not letter.isalnum()
        if marks or kind.startswith("P") or _is_ideograph(ord(letter)):
            return f" {letter} "
        return letter.lower() if self._small else letter


def _is_ideograph(code: int) -> bool:
    return any(first <= code <= last for first, last in _IDEOGRAPHS)


def read_list(file: Path) -> WordPieces:
    """Read a ``vocab.txt``: a piece a line, in the order of their numbers.

    Raises:
        InferenceError: If it is no vocabulary.
    """
    lines = _text(file).split("\n")
    return _vocabulary({piece: at for at, piece in enumerate(lines) if piece}, file, small=True)


def read_tokenizer(file: Path) -> WordPieces:
    """Read a ``tokenizer.json`` whose model is WordPiece.

    Raises:
        InferenceError: If it is of another kind.
    """
    try:
        told: dict[str, Any] = json.loads(_text(file))
        model, normal = told["model"], told.get("normalizer") or {}
        numbers = dict[str, int](model["vocab"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InferenceError("not a tokenizer", file=file.name) from error
    kinds = model.get("type", "WordPiece"), normal.get("type")
    if kinds != ("WordPiece", "BertNormalizer"):
        raise InferenceError(
            f"a tokenizer of the kind {kinds[0]}, {kinds[1]} is not known",
            file=file.name,
            hint="Use a model with a BERT tokenizer, such as MiniLM, BGE or GTE for English.",
        )
    return _vocabulary(numbers, file, small=bool(normal.get("lowercase", True)))


def _vocabulary(numbers: dict[str, int], file: Path, *, small: bool) -> WordPieces:
    whole = all(
        type(each) is int and 0 <= each < len(numbers) + _FURTHER for each in numbers.values()
    )
    if not whole or not {_START, _END, _UNKNOWN} <= numbers.keys():
        raise InferenceError(
            f"a vocabulary must have {_START}, {_END} and {_UNKNOWN}", file=file.name
        )
    return WordPieces(numbers, small=small)


def _text(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            raw = opened.read(_MOST_BYTES + 1)
    except OSError as error:
        raise InferenceError(f"it cannot be read: {error.strerror}", file=file.name) from error
    if len(raw) > _MOST_BYTES:
        raise InferenceError(f"it has more than {_MOST_BYTES:,} bytes", file=file.name)
    return raw.decode("utf-8", "replace")
