"""How many tokens a text takes, estimated: rather too many than too few.

No tokenizer is needed. Each kind of character counts as much as it takes in the byte-pair
vocabularies in use where it takes much; a text of ordinary words takes a third less.
"""

import re
from collections import Counter

_KINDS = (
    (re.compile(r"[A-Za-z]+"), 3.0),  # characters a token; the last token of a word counts whole
    (re.compile(r"[0-9]+"), 2.0),
    (re.compile(r"[^\S\n]+"), 8.0),
    (re.compile(r"[\u00c0-\u058f]+"), 1.5),  # Latin with accents, Greek, Cyrillic, Armenian
    (re.compile(r"[\U00010000-\U0010ffff]"), 1 / 4),  # emoji, rare Han: each of its bytes
)
_ASCII_KINDS = _KINDS[:3]
_OTHERS = re.compile(r"[^A-Za-z0-9\s\u00c0-\u058f\U00010000-\U0010ffff]|\n")
_WIDE = 1.25


def estimated_tokens(text: str) -> int:
    """Return about how many tokens a model's vocabulary cuts a text into; an overestimate.

    A character of Chinese, Japanese, Thai or Korean counts as one token and a quarter, one of
    English as a third, one of an emoji as each of its bytes.
    """
    total = 0.0
    for kind, each in _ASCII_KINDS if text.isascii() else _KINDS:
        runs = Counter(map(len, kind.findall(text)))  # a long text has few lengths of words
        total += sum(number * -(-length // each) for length, number in runs.items())
    others = _OTHERS.findall(text)
    narrow = len(others) if text.isascii() else sum(map(str.isascii, others))
    return int(total + narrow + _WIDE * (len(others) - narrow)) + 1


class Estimate:
    """An overestimate for any model: see ``estimated_tokens``."""

    name = "estimate"
    exact = False

    def count(self, text: str) -> int:
        """Return about how many tokens a text takes."""
        return estimated_tokens(text)
