"""Imperatives to a model: phrases that tell an assistant what to do instead of what is the case.

Advisory: words can be chosen otherwise. How much is caught, and how much of ordinary text is caught
wrongly, is measured (docs/guides/waking-up.md). Nothing rests on it but what is put aside for a
person to look at. The phrases stand in ``data/imperatives.txt``.
"""

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

_FILE = Path(__file__).parent / "data" / "imperatives.txt"
_HEADING = re.compile(r"\[([a-z ]+)\]")
_DEFINED = re.compile(r"([a-z]+) = (.+)")
_USED = re.compile(r"<([a-z]+)>")

_WORDS = re.compile(r"~ (.+)")
_WORDS_ONLY = bytes(one if chr(one).isalnum() else ord(" ") for one in range(256))
_KEY = 4
"""Characters of the beginning of a word by which phrases are found."""

STEMS = (
    *("ignor", "disregard", "forget", "instruc", "prompt", "reveal", "restrict", "system"),
    *("assistant", "api", "password", "secret", "send", "call ", "delete", "append", "from now"),
    "you are",
)
"""One of these is in whatever text is worth a closer look, if that may be nothing but noise."""


class Phrase(NamedTuple):
    """An expression, and words of which one is in whatever it matches."""

    says: str
    pattern: re.Pattern[str]
    words: tuple[str, ...]

    def is_in(self, seen: str) -> bool:
        """Tell whether a folded text has it."""
        if self.words and not any(map(seen.__contains__, self.words)):
            return False
        return self.pattern.search(seen) is not None


def imperatives_in(seen: str) -> list[str]:
    """Return what a folded text tells a model to do; empty for nothing."""
    some = list(range(len(phrases())))
    if seen.isascii():
        found = {word[:_KEY] for word in seen.encode().translate(_WORDS_ONLY).split()}
        begun = _begun()
        some = sorted({number for key in found & begun.keys() for number in begun[key]})
    return list(
        dict.fromkeys(one.says for one in map(phrases().__getitem__, some) if one.is_in(seen))
    )


def may_tell(seen: str) -> bool:
    """Tell whether a text that may be nothing but noise is worth a closer look."""
    return any(map(seen.__contains__, STEMS))


@cache
def phrases() -> tuple[Phrase, ...]:
    """Return all phrases, in the order of their headings."""
    defined, found = dict[str, str](), dict[str, list[Phrase]]()
    says, words = "", tuple[str, ...]()
    for row in _FILE.read_text("utf-8").splitlines():
        if not row or row.startswith("#"):
            continue
        if heading := _HEADING.fullmatch(row):
            says = heading[1]
            found.setdefault(says, [])
        elif not found and (definition := _DEFINED.fullmatch(row)):
            defined[definition[1]] = _filled(definition[2], defined)
        elif required := _WORDS.fullmatch(row):
            words = tuple(required[1].split("|"))
        else:
            found[says].append(Phrase(says, re.compile(_filled(row, defined)), words))
            words = ()
    return tuple(one for those in found.values() for one in those)


@cache
def _begun() -> dict[bytes, list[int]]:
    """Return which phrases a text may have by how a word in it begins.

    Phrases without words are of other scripts.
    """
    found = dict[bytes, list[int]]()
    for number, phrase in enumerate(phrases()):
        for word in phrase.words:
            if word.isascii():
                begins = word.encode().translate(_WORDS_ONLY).split()[0]
                found.setdefault(begins[:_KEY], []).append(number)
    return found


def _filled(text: str, defined: dict[str, str]) -> str:
    return _USED.sub(lambda one: defined.get(one[1], one[0]), text)
