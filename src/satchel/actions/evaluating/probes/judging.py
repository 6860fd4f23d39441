"""Judging an answer without a model: what it says, what it must not say, and how long it is.

That a phrase occurs is not enough: "certainly not 5433" does not say 5433, and an answer that
repeats all it was given says nothing. Words are compared without case, accents and punctuation.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence

from satchel.actions.evaluating.probes.sets import Probe

MOST_WORDS = 60
"""Of an answer; a longer one is wrong, however much it holds."""

_DENIALS = "not no never neither nor without isnt wasnt dont doesnt didnt cannot"
_NEGATIONS = frozenset(_DENIALS.split())
_REACH = 4
"""Words after a negation that it may speak of."""

_CLAUSE = re.compile(r"[;:!?]|,(?!\d)|\.(?=\s|$)|\bbut\b|\n", re.IGNORECASE)
_WORD = re.compile(r"[^\W_]+")
_ARTICLES = frozenset({"a", "an", "the"})


def is_right(probe: Probe, answer: str) -> bool:
    """Tell whether an answer is right."""
    if len(answer.split()) > MOST_WORDS:
        return False
    wrong = probe.never + tuple(_others(probe))
    return says(answer, probe.expect) and not says(answer, wrong)


def says(answer: str, phrases: Iterable[str]) -> bool:
    """Tell whether a text says one of the phrases, and does not deny it."""
    clauses = [_words(clause) for clause in _CLAUSE.split(_joined(answer))]
    wanted = [words for phrase in phrases if (words := _words(_joined(phrase)))]
    return any(_states(clause, words) for clause in clauses for words in wanted)


def without_article(choice: str) -> str:
    """Return a choice as it is found in other words: "the desks" as "desks"."""
    first, _, rest = choice.strip().partition(" ")
    return rest if rest and first.lower() in _ARTICLES else choice.strip()


def _others(probe: Probe) -> list[str]:
    """Return the choices that are not right."""
    choices = map(without_article, probe.choices)
    return [one for one in choices if not any(_overlap(one, right) for right in probe.expect)]


def _overlap(one: str, other: str) -> bool:
    first, second = _words(one), _words(other)
    return _at(first, second) >= 0 or _at(second, first) >= 0


def _joined(text: str) -> str:
    """Return a text whose apostrophes part no words."""
    return text.replace("'", "").replace("\N{RIGHT SINGLE QUOTATION MARK}", "")


def _words(text: str) -> list[str]:
    plain = unicodedata.normalize("NFKD", text.casefold())
    # A comma between digits groups them: 55,000 and 55000 are one number.
    plain = re.sub(r"(?<=\d),(?=\d{3}\b)", "", plain)
    return _WORD.findall("".join(c for c in plain if not unicodedata.combining(c)))


def _states(clause: Sequence[str], words: Sequence[str]) -> bool:
    """Tell whether words occur in a clause with no negation shortly before them."""
    start = 0
    while (at := _at(clause[start:], words)) >= 0:
        place = start + at
        if _NEGATIONS.isdisjoint(clause[max(place - _REACH, 0) : place]):
            return True
        start = place + 1
    return False


def _at(words: Sequence[str], wanted: Sequence[str]) -> int:
    """Return where some words stand together among others; -1 if nowhere."""
    size = len(wanted)
    last = len(words) - size
    return next((at for at in range(last + 1) if [*words[at : at + size]] == [*wanted]), -1)
