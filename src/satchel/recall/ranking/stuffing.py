"""Texts that are made to be found: a heap of the words of questions, which is hardly a sentence."""

from collections.abc import Sequence

from satchel.stores._stop_words import STOP_WORDS
from satchel.stores.matching import Term, tokens_of

_LEAST_WORDS, _LEAST_TIMES = 12, 6
_MOST_SHARE = 0.12
"""Of its words that are the question's; in sentences it is less."""

_LEAST_PLAIN = 0.22
"""Share of common words, such as "the" and "of", that sentences have at least."""

_LEAST_REPEATED = 4
_LONGEST = 1 << 12


def is_stuffed(text: str, terms: Sequence[Term]) -> bool:
    """Tell whether a text repeats the words of a question far beyond what sentences do.

    Args:
        text: The text.
        terms: Of the question.
    """
    words = text[:_LONGEST].casefold().split() if terms else []
    if len(words) - len(set(words)) < _LEAST_REPEATED:
        return False
    tokens = tokens_of(text[:_LONGEST])
    if len(tokens) < _LEAST_WORDS:
        return False
    times = sum(term.times(tokens) for term in terms)
    if times < _LEAST_TIMES or times / len(tokens) < _MOST_SHARE:
        return False
    return sum(token in STOP_WORDS for token in tokens) / len(tokens) < _LEAST_PLAIN
