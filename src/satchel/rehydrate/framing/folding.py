"""Folding: a text as somebody takes it who does not look closely.

Compatibility forms and letters of other scripts become the ones that they look like, what cannot be
seen is left out. It only finds things; nothing that is shown was folded.
"""
# ruff: noqa: RUF001 - lookalikes are what it is about

import re
import unicodedata
from functools import lru_cache

_LIKE = {
    "а": "a", "ɑ": "a", "α": "a", "Α": "a", "А": "a", "Ꭺ": "a", "@": "a", "4": "a",
    "В": "b", "Β": "b", "Ᏼ": "b", "в": "b",
    "с": "c", "С": "c", "ϲ": "c", "Ꮯ": "c",
    "ԁ": "d", "Ꭰ": "d", "ɗ": "d",
    "е": "e", "Е": "e", "Ε": "e", "ε": "e", "є": "e", "Ꭼ": "e", "3": "e", "ё": "e",
    "ɡ": "g", "Ԍ": "g", "Ꮐ": "g",
    "һ": "h", "Н": "h", "Η": "h", "Ꮋ": "h", "н": "h",
    "і": "i", "І": "i", "Ι": "i", "ι": "i", "ı": "i", "Ꭵ": "i", "1": "i", "!": "i",
    "ј": "j", "Ј": "j", "Ꭻ": "j",
    "К": "k", "Κ": "k", "κ": "k", "к": "k", "Ꮶ": "k",
    "ӏ": "l", "Ӏ": "l", "ⅼ": "l", "Ꮮ": "l",
    "М": "m", "Μ": "m", "м": "m", "Ꮇ": "m",
    "Ν": "n", "п": "n", "ո": "n",
    "о": "o", "О": "o", "Ο": "o", "ο": "o", "σ": "o", "օ": "o", "0": "o", "Ꮎ": "o",
    "р": "p", "Р": "p", "Ρ": "p", "ρ": "p", "Ꮲ": "p",
    "ԛ": "q",
    "г": "r", "Ꭱ": "r", "Ꮢ": "r",
    "ѕ": "s", "Ѕ": "s", "Ꮪ": "s", "5": "s", "$": "s",
    "т": "t", "Т": "t", "Τ": "t", "τ": "t", "Ꭲ": "t", "7": "t",
    "ս": "u", "υ": "u", "μ": "u",
    "ν": "v", "ѵ": "v", "Ꮩ": "v",
    "ԝ": "w", "ѡ": "w", "Ꮃ": "w",
    "х": "x", "Х": "x", "Χ": "x", "χ": "x",
    "у": "y", "У": "y", "Υ": "y", "γ": "y", "Ү": "y", "ү": "y",
    "Ζ": "z", "Ꮓ": "z",
}  # fmt: skip
_CHEROKEE = "\u13a0"
_CYRILLIC_AND_SO_ON = {
    ord(form): other
    for one, other in _LIKE.items()
    if not one.isascii()
    # Small letters of Cherokee look like its large ones, and folding turns them into those.
    for form in ((one, one.lower()) if one >= _CHEROKEE else (one,))
}
_DIGITS_TOO = {ord(one): other for one, other in _LIKE.items() if one.isascii()}
_UNSEEN = frozenset({"Cf", "Cc", "Mn", "Me", "Co", "Cn"})
_KEPT = "\n\t\r"


@lru_cache(maxsize=1 << 14)
def is_unseen(character: str) -> bool:
    """Tell whether a character shows nothing of its own; line ends and tabs do."""
    if character.isascii():
        return character not in _KEPT and not character.isprintable()
    return unicodedata.category(character) in _UNSEEN or character in _FILLERS


_FILLERS = frozenset("\u115f\u1160\u3164\uffa0\u2800\u17b4\u17b5")


def folded(text: str) -> str:
    """Return a text folded to plain small letters where it looks like them."""
    if not text.isascii():
        seen = "".join(one for one in text if not is_unseen(one))
        text = unicodedata.normalize("NFKD", seen).translate(_CYRILLIC_AND_SO_ON)
        text = "".join(one for one in text if unicodedata.category(one) != "Mn")
    return text.casefold()


_RUN = re.compile(r"(.)\1{7,}")
_LEAST_RUN = 8


def looked_through(text: str) -> str:
    """Return a text folded, for patterns to be looked for in: spaces single, no long runs.

    So that no text makes a pattern try very long.
    """
    rows = (" ".join(row.split()) for row in folded(text).splitlines())
    return _without_runs("\n".join(row for row in rows if row))


def letters_for_digits(seen: str) -> str:
    """Return a folded text with digits and signs as the letters they stand for."""
    return _without_runs(seen.translate(_DIGITS_TOO))


def _without_runs(text: str) -> str:
    if text.isascii():  # much faster than the pattern: neighbours that are equal give 0
        number = int.from_bytes(text.encode())
        differences = (number ^ (number >> 8)).to_bytes(len(text))
        if bytes(_LEAST_RUN - 1) not in differences:
            return text
    return _RUN.sub(r"\1\1\1\1\1\1", text)
