"""Rerankers: one that compares words, and a time limit for those that run a model.

The lexical reranker needs no model. It scores a text by three parts of equal weight, each from 0 to
1. Words are weighted by how rare they are in general: by their rank in the vocabulary of the
built-in table.

- **coverage**: BM25 of the text alone, as a part of its maximum; in longer texts, a word must occur
  more often for the same score.
- **passage**: the words in the best passage of 30 words.
- **phrases**: neighboring words of the query that are neighbors in the text, too.

docs/decisions/0125 has its gain and its cost.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from math import log
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Final

from satchel.errors import InferenceError, SatchelError
from satchel.inference.models import LEXICAL
from satchel.inference.static_table import StaticVocabulary
from satchel.ports.inference import Reranker
from satchel.recall.order import BRIEF, LEAST_RARITY, SHORT, is_near
from satchel.recall.order import round_score as rounded
from satchel.stores.text_search import CorpusTotals, Term, bm25, terms_of, tokens_of

_LONGEST = 1 << 13
"""Maximum characters of a text that are read, from its start."""

_BM25_LIMIT = 2.2
"""Maximum BM25 of a word, relative to its weight."""

_FIRST_RANKED, _PIECES = 259, 32_000
"""Piece numbers of the vocabulary: bytes first, then the others, most frequent first."""


class LexicalReranker:
    """Scores texts by the words of a query. See ``satchel.ports.inference``."""

    def __init__(self) -> None:
        self.model: Final = LEXICAL

    def scores(self, question: str, texts: Sequence[str]) -> list[float]:
        """Return a score from 0 to 1 for each text; 0 if the query has no words."""
        terms = terms_of(question)
        weights = [self._rarity(term) for term in terms]
        return [_score(terms, weights, tokens_of(text[:_LONGEST])) for text in texts]

    @cached_property
    def _pieces(self) -> StaticVocabulary:
        return StaticVocabulary()

    def _rarity(self, term: Term) -> float:
        """Return how rare a term is, up to 1; 1 for words that are not in the vocabulary."""
        pieces = self._pieces(term.words, 2)
        if len(pieces) != 1 or pieces[0] < _FIRST_RANKED:
            return 1.0
        rank = pieces[0] - _FIRST_RANKED + 1
        return max(log(rank) / log(_PIECES - _FIRST_RANKED), LEAST_RARITY)


def _score(terms: Sequence[Term], weights: Sequence[float], tokens: Sequence[str]) -> float:
    found_at = defaultdict[str, list[int]](list)
    for position, token in enumerate(tokens):
        found_at[token].append(position)
    positions = [_positions(term, tokens, found_at) for term in terms]
    if not any(positions):
        return 0.0
    parts = (
        _coverage(weights, positions, len(tokens)),
        _passage(weights, positions),
        _phrases(terms, weights, positions),
    )
    return rounded(sum(parts) / len(parts))


def _positions(
    term: Term, tokens: Sequence[str], found_at: Mapping[str, Sequence[int]]
) -> Sequence[int]:
    """Return the positions at which a term ends in a text, ascending."""
    *first, last = term.tokens
    if not term.prefix:
        ends = found_at.get(last, ())
    else:
        ends = [position for position, token in enumerate(tokens) if token.startswith(last)]
    if not first:
        return ends
    size = len(first)
    return [end for end in ends if end >= size and [*tokens[end - size : end]] == first]


def _coverage(weights: Sequence[float], positions: Sequence[Sequence[int]], length: int) -> float:
    times = {number: len(ends) for number, ends in enumerate(positions) if ends}
    score: float = bm25(times, weights, length, CorpusTotals(1, SHORT))
    return score / (_BM25_LIMIT * sum(weights))


def _passage(weights: Sequence[float], positions: Sequence[Sequence[int]]) -> float:
    """Return how much of the query the best passage has."""
    every = sorted((position, number) for number, ends in enumerate(positions) for position in ends)
    inside, start, best, held = Counter[int](), 0, 0.0, 0.0
    for position, number in every:
        held += 0.0 if inside[number] else weights[number]
        inside[number] += 1
        while every[start][0] <= position - BRIEF:
            left = every[start][1]
            inside[left] -= 1
            held -= 0.0 if inside[left] else weights[left]
            start += 1
        best = max(best, held)
    return best / sum(weights)


def _phrases(
    terms: Sequence[Term], weights: Sequence[float], positions: Sequence[Sequence[int]]
) -> float:
    """Return how many pairs of neighboring terms are close together in the text, weighted."""
    pairs = [(a, b) for a, b in pairwise(range(len(terms))) if terms[a].tokens != terms[b].tokens]
    whole = sum(weights[a] + weights[b] for a, b in pairs)
    near = sum(weights[a] + weights[b] for a, b in pairs if is_near(positions[a], positions[b]))
    return near / whole if whole else 0.0


class TimedReranker:
    """A reranker with a time limit, loaded on first use.

    A running model cannot be stopped, so a call that takes too long continues in its thread. Until
    it has ended, other queries wait for it up to the time limit, and start no second call.

    Args:
        model: Its name.
        load: Returns the reranker.
        timeout: Time limit in seconds, including loading.
    """

    def __init__(self, model: str, load: Callable[[], Reranker], timeout: float) -> None:
        self.model: Final = model
        self._load, self._timeout = load, timeout
        self._loaded: Reranker | None = None
        self._free = Lock()

    def scores(self, question: str, texts: Sequence[str]) -> list[float]:
        """Return a score for each text; see ``Reranker``.

        Raises:
            InferenceError: Also if there is no answer in time.
        """
        end = time.monotonic() + self._timeout
        if not self._free.acquire(timeout=self._timeout):
            raise InferenceError(f"{self.model} is busy with another question")
        answers = SimpleQueue[list[float] | SatchelError]()
        try:
            Thread(target=self._work, args=(question, texts, answers), daemon=True).start()
        except RuntimeError as error:  # no more threads
            self._free.release()
            raise InferenceError(f"{self.model} cannot be run: {error}") from error
        try:
            answer = answers.get(timeout=max(0.0, end - time.monotonic()))
        except Empty:
            raise InferenceError(
                f"{self.model} took more than {self._timeout:g} s",
                hint="Use a smaller model, or a longer inference.reranker_timeout.",
            ) from None
        if isinstance(answer, SatchelError):
            raise answer
        return answer

    def _work(
        self, question: str, texts: Sequence[str], answers: SimpleQueue[list[float] | SatchelError]
    ) -> None:
        answer: list[float] | SatchelError
        try:
            if self._loaded is None:
                self._loaded = self._load()
            answer = self._loaded.scores(question, texts)
        except SatchelError as error:
            answer = error
        except Exception as error:  # noqa: BLE001 - an error of a model must not end a query
            answer = InferenceError(f"{self.model} failed: {error}")
        self._free.release()
        answers.put(answer)
