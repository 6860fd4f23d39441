"""An agent without a model: it reads what it is given, and answers with the sentence that fits.

It sees the framed text and the question, never what is expected, and gives the same answer in
every run. How well it does measures the text that it reads: what is not there, it cannot find.
"""

import re
import sys
from collections import Counter
from collections.abc import Sequence
from math import log

from satchel.actions.evaluating.agents.agent import Asked
from satchel.actions.evaluating.probes.judging import says, without_article

_ESCAPED = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))")
_SHORT = {"n": "\n", "r": "\n", "t": " ", "(": "[", ")": "]", "{": "<", "}": ">", "/": "|"}
_SHORT |= {"+": "&", "_": " ", ".": ":", "-": "", "v": "", "j": "", "z": ""}
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n")
_CLAUSE = re.compile(r"[,;:]\s|\band\b|\bbut\b|\bafter\b|\bsince\b|\bbecause\b|\bto\b|\bfrom\b")
_CHOICES = re.compile(r":\s*([^:?]+?)\s+or\s+([^:?]+)\?\s*$")
_WORD = re.compile(r"[^\W_]+")
_MARK = re.compile(r"^\w{1,12}\|")
"""What our frame puts before each record."""

_LONGEST = 40
"""Words of an answer."""

_ENOUGH = 0.3
"""The share of what a question asks for that a sentence must have to be an answer."""

_SMALL = (
    "a an and are as at be been by can did do does for from had has have how in into is it its "
    "many much now of on or than that the then there they this to was were what when where which "
    "who whom whose why will with would"
)
_PLAIN = frozenset(_SMALL.split())
_ENDINGS = ("ings", "ing", "edly", "ed", "ies", "es", "s", "e", "y")
_SHORTEST = 3


class Reader:
    """Answers by extraction.

    Args:
        name: What it is called in reports.
    """

    def __init__(self, name: str = "reader") -> None:
        self.name = name

    def answer(self, asked: Asked) -> str:
        """Return the sentence that goes best with a question, or the choice that it names.

        Without a sentence that goes with it, the first choice; else nothing.
        """
        ranked = self._ranked(asked)
        if choices := choices_of(asked.question):
            return _chosen(choices, ranked, asked.question)
        if not ranked or ranked[0][0] < _ENOUGH:
            return ""
        return " ".join(ranked[0][1].split()[:_LONGEST])

    def _ranked(self, asked: Asked) -> list[tuple[float, str]]:
        """Return sentences with the share of the question that each has, best first."""
        sentences = _sentences(asked.memory)
        terms = [frozenset(terms_of(sentence)) for sentence in sentences]
        common = Counter(term for some in terms for term in some)
        wanted = {
            term: log(1 + len(sentences) / (1 + common[term])) + 0.1
            for term in dict.fromkeys(terms_of(asked.question))
        }
        whole = sum(wanted.values()) or 1.0
        shares = (sum(wanted.get(term, 0.0) for term in some) / whole for some in terms)
        found = [one for one in zip(shares, sentences, strict=True) if one[0]]
        return sorted(found, key=lambda one: -one[0])


def choices_of(question: str) -> list[str]:
    """Return what a question offers: ``...: tea, coffee or milk?``."""
    found = _CHOICES.search(question)
    return [*re.split(r",\s*", found[1]), found[2].strip()] if found else []


def terms_of(text: str) -> list[str]:
    """Return the words of a text that say something, without their endings."""
    words = (word.casefold() for word in _WORD.findall(text))
    return [_stem(word) for word in words if word not in _PLAIN]


def _stem(word: str) -> str:
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST:
            return word[: -len(ending)]
    return word


def _sentences(memory: str) -> list[str]:
    """Return what stands in a text, with what was escaped as it was."""
    lines = (_unescaped(_MARK.sub("", line)) for line in memory.splitlines())
    found = (one.strip() for line in lines for one in _SENTENCE.split(line))
    return [one for one in found if one]


def _unescaped(line: str) -> str:
    """Return a record as it was remembered, where its escapes are those of our frame."""
    return _ESCAPED.sub(_character, line)


def _character(found: re.Match[str]) -> str:
    if number := found[1] or found[2]:
        code = int(number, 16)
        return chr(code) if code <= sys.maxunicode else found[0]
    return _SHORT.get(found[3], found[3])


def _chosen(choices: Sequence[str], ranked: Sequence[tuple[float, str]], question: str) -> str:
    """Return the choice that stands in the sentence that goes best with the question.

    Where several stand in it, it is that of the part of the sentence that has most of the question.
    """
    wanted = frozenset(terms_of(question[: question.rfind(":")]))
    for share, sentence in ranked:
        if share < _ENOUGH:
            break
        there = _named(choices, sentence)
        if len(there) > 1:
            parts = sorted(
                (part for part in _CLAUSE.split(sentence) if len(_named(choices, part)) == 1),
                key=lambda part: -len(wanted.intersection(terms_of(part))),
            )
            there = _named(choices, parts[0]) if parts else []
        if len(there) == 1:
            return there[0]
    return choices[0]


def _named(choices: Sequence[str], text: str) -> list[str]:
    return [one for one in choices if says(text, [without_article(one)])]
