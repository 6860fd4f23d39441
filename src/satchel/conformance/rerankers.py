"""What every reranker promises, one test function a promise.

Use it on your own reranker: import everything from here in a test module of yours and define a
fixture ``subject`` that returns a ``RerankerSubject``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite

from satchel.conformance.strategies import HOSTILE_TEXTS
from satchel.ports.inference import Reranker

__all__ = ["RerankerSubject"]  # and every promise: see the end

_QUESTION = "What does Ada eat on long flights?"
_TEXTS = (
    "Ada eats no peanuts.",
    "The train was late again, and the harbour was closed.",
    "On long flights Ada eats noodles.",
    "Bela drives a red van.",
)
_LONGEST_NAME = 1000
_LONG = "rain over the harbour " * 2000


@dataclass(frozen=True, slots=True)
class RerankerSubject:
    """A reranker under test.

    Args:
        make: Returns a new instance.
    """

    make: Callable[[], Reranker]


def test_it_has_a_name(subject: RerankerSubject) -> None:
    """Results name the reranker that ordered them."""
    reranker = subject.make()

    assert isinstance(reranker, Reranker)
    assert 1 <= len(reranker.model) <= _LONGEST_NAME
    assert reranker.model == subject.make().model


def test_each_text_gets_one_finite_number(subject: RerankerSubject) -> None:
    """There are as many scores as texts, and none for no texts."""
    reranker = subject.make()

    scores = reranker.scores(_QUESTION, _TEXTS)

    assert len(scores) == len(_TEXTS)
    assert all(map(isfinite, scores))
    assert reranker.scores(_QUESTION, []) == []


def test_the_same_is_scored_the_same(subject: RerankerSubject) -> None:
    """Every time, and by another instance: results are reproducible."""
    reranker = subject.make()
    once = reranker.scores(_QUESTION, _TEXTS)

    assert reranker.scores(_QUESTION, _TEXTS) == once
    assert subject.make().scores(_QUESTION, _TEXTS) == once


def test_a_score_depends_on_its_text_alone(subject: RerankerSubject) -> None:
    """It does not depend on the other texts or their order."""
    reranker = subject.make()
    together = reranker.scores(_QUESTION, _TEXTS)

    assert [reranker.scores(_QUESTION, [text])[0] for text in _TEXTS] == together
    assert reranker.scores(_QUESTION, _TEXTS[::-1]) == together[::-1]


def test_any_text_is_scored(subject: RerankerSubject) -> None:
    """Including empty, hostile and very long ones, also as a question."""
    texts = (*HOSTILE_TEXTS, _LONG)
    reranker = subject.make()

    for question in ("", _QUESTION, *HOSTILE_TEXTS, _LONG):
        scores = reranker.scores(question, texts)
        assert len(scores) == len(texts)
        assert all(map(isfinite, scores))


__all__ += [name for name in globals() if name.startswith("test_")]
