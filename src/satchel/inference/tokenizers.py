"""Counting tokens: exactly for GPT models, else by an estimate that is rather too high.

The estimate needs no vocabulary. Each kind of character counts as many tokens as in byte-pair
vocabularies that need many for it; a text of ordinary words takes a third less.
"""

import re
import warnings
from collections import Counter
from typing import Any

from satchel.errors import MissingExtraError

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
    """Return an estimate of the tokens of a text; an overestimate.

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
    """An estimate for any model; see ``estimated_tokens``."""

    name = "estimate"
    exact = False

    def count(self, text: str) -> int:
        """Return the estimated number of tokens of a text."""
        return estimated_tokens(text)


O200K, CL100K = "o200k_base", "cl100k_base"

_VOCABULARIES = {
    "gpt-3.5": CL100K,
    "gpt-35": CL100K,
    "gpt-4o": O200K,
    "gpt-4.": O200K,
    "gpt-4-": CL100K,
    "gpt-": O200K,
    "chatgpt": O200K,
    "o1": O200K,
    "o3": O200K,
    "o4": O200K,
    "gpt": O200K,
}
"""Vocabularies by the prefix of a model's name; the first that matches. Unknown ones are new."""


def vocabulary_of(model: str) -> str | None:
    """Return the vocabulary of a model by its name; None if it is not a GPT model."""
    name = model.strip().lower().rpartition("/")[2]
    if name in ("gpt-4", O200K, CL100K):
        return CL100K if name != O200K else O200K
    return next(
        (vocabulary for prefix, vocabulary in _VOCABULARIES.items() if name.startswith(prefix)),
        None,
    )


class GptTokens:
    """Counts tokens with a GPT vocabulary.

    Args:
        vocabulary: ``o200k_base`` or ``cl100k_base``.

    Raises:
        MissingExtraError: If the package is not installed.
    """

    exact = True

    def __init__(self, vocabulary: str = O200K) -> None:
        try:
            with warnings.catch_warnings():
                # It reads its data in a way that Python is going to give up.
                warnings.simplefilter("ignore", DeprecationWarning)
                from bpe_openai._bindings import tokenizer_for_encoding
        except ImportError as error:
            raise MissingExtraError(
                "counting GPT tokens needs its vocabulary",
                hint="pip install 'satchel[models]'; without it they are estimated.",
            ) from error
        self.name = vocabulary
        self._pieces: Any = tokenizer_for_encoding(vocabulary)

    def count(self, text: str) -> int:
        """Return the number of tokens of a text."""
        return int(self._pieces.count(text.encode("utf-8", "replace").decode()))


PER_MEMORY = 8
"""Tokens around a memory: its type, its date, the end of the line."""

__all__ = ["PER_MEMORY", "estimated_tokens"]
