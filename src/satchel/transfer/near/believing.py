"""What a cosine cannot tell: whether two texts that sound alike speak of the same thing.

A vector hardly moves when 101 becomes 102, when a "not" is put in or when Ada becomes Bob. So two
texts are believed to be near-duplicates only if they agree in their numbers, their negations and
their names. Where that cannot be told they do not: a near-duplicate that is missed is another
line, one that is none is a memory lost.
"""

import re
from collections import Counter
from functools import lru_cache
from typing import NamedTuple

from satchel.transfer.near._words import BEGINNINGS, NEGATIONS, NUMBERS, OPPOSITES, PERSONS

_DIGITS = re.compile(r"\d+")
_AROUND = " \t\n.,;:!?\"'()[]{}<>*_`~…„“”‚‘’«»‹›—–-。、！？「」『』（）"  # noqa: RUF001 - quotes of all languages
_ENDS = ".!?:;…\"'“”«»„。！？\n"  # noqa: RUF001 - idem
_APOSTROPHES = str.maketrans({"’": "'", "ʼ": "'", "`": "'"})  # noqa: RUF001 - idem

_LONG, _REMEMBERED = 1000, 64
"""Digits of a number that is not read as one; characters of a word that is looked at each time."""


class Telling(NamedTuple):
    """What tells a text apart from others that sound like it."""

    numbers: tuple[str, ...]
    """In their order."""

    negations: int
    names: tuple[str, ...]
    """Names that stand where only names are capitalised, in their order."""

    words: tuple[str, ...]
    """All words, folded, in their order."""

    odd: frozenset[str]
    """Words that must be in both texts: perhaps names, opposites, and those in scripts that show
    neither where words end nor what is a name."""

    persons: frozenset[str]
    """Words such as "she"; no other may stand in their place."""

    @property
    def key(self) -> tuple[object, ...]:
        """What two texts must have in common; those with different ones need no comparison."""
        return self.numbers, self.negations


class _Word(NamedTuple):
    """What one word says, wherever it stands."""

    folded: str
    numbers: tuple[str, ...]
    negates: bool
    odd: bool
    """For other reasons than a capital at its start."""

    capital: bool
    person: bool
    ends: bool
    """Whether a sentence ends with it."""


def telling(text: str) -> Telling:
    """Return what tells a text apart."""
    found = [_word(raw) for raw in text.translate(_APOSTROPHES).split()]
    names, odd = list[str](), set[str]()
    fresh = True
    for word in found:
        if word.odd:
            odd.add(word.folded)
        if word.capital:
            if not fresh:
                names.append(word.folded)
            if not fresh or word.folded not in BEGINNINGS:
                odd.add(word.folded)
        fresh = word.ends or (fresh and not word.folded)
    return Telling(
        numbers=tuple(number for word in found for number in word.numbers),
        negations=sum(word.negates for word in found),
        names=tuple(names),
        words=tuple(word.folded for word in found if word.folded),
        odd=frozenset(odd),
        persons=frozenset(word.folded for word in found if word.person),
    )


def may_be_same(one: Telling, other: Telling) -> bool:
    """Tell whether nothing speaks against two texts being near-duplicates."""
    if one.key != other.key:
        return False
    if Counter(one.words) == Counter(other.words):
        return one.words == other.words  # a mean does not know who paid whom
    mine, theirs = set(one.words), set(other.words)
    if (one.odd - theirs) or (other.odd - mine):
        return False
    if (one.persons - theirs) and (other.persons - mine):
        return False
    both = frozenset(one.names) | frozenset(other.names)
    return _in_order(one.words, both) == _in_order(other.words, both)


def _in_order(words: tuple[str, ...], names: frozenset[str]) -> list[str]:
    return [word for word in words if word in names]


@lru_cache(1 << 16)
def _known(raw: str) -> _Word:
    word = raw.strip(_AROUND)
    folded = word.casefold().removesuffix("'s")
    numbers = [str(int(each)) if len(each) < _LONG else each for each in _DIGITS.findall(raw)]
    negates = folded in NEGATIONS or folded.endswith("n't")
    person = folded in PERSONS
    return _Word(
        folded=folded,
        numbers=(*numbers, folded) if folded in NUMBERS else tuple(numbers),
        negates=negates,
        odd=bool(folded) and not negates and _is_odd(word, folded),
        capital=word[:1].isupper() and not person,
        person=person,
        ends=raw[-1] in _ENDS,
    )


def _word(raw: str) -> _Word:
    """Return what a word says; of very long ones nothing is remembered."""
    return _known(raw) if len(raw) <= _REMEMBERED else _known.__wrapped__(raw)


def _is_odd(word: str, folded: str) -> bool:
    if folded in OPPOSITES:
        return True
    if any(map(str.isupper, word[1:])):
        return True
    if folded in PERSONS:
        return False
    plain = word.replace("'", "").replace("-", "")
    if not plain.isalpha():
        return True  # an address, a path, a version, a sign
    return not plain.isascii() and any(letter.lower() == letter.upper() for letter in plain)
