"""The conformance suite of rerankers: it passes for every reranker and fails for broken ones."""

from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from library_kit import libraries
from onnx_kit import write_cross_encoder

from satchel.conformance import rerankers as suite
from satchel.conformance.rerankers import *  # noqa: F403
from satchel.conformance.rerankers import RerankerSubject
from satchel.inference.libraries import LibraryReranker
from satchel.inference.onnx import cross_encoder_from_folder
from satchel.ports.inference import Reranker
from satchel.recall.rerankers import LexicalReranker, TimedReranker


class LetterCount:
    """Counts the letters of the question in a text."""

    model = "letters"

    def scores(self, question: str, texts: Sequence[str]) -> list[float]:
        """Score each text."""
        return [float(sum(map(text.count, set(question)))) for text in texts]


class Nameless(LetterCount):
    """Has no name."""

    model = ""


class _OmittingLast(LetterCount):
    """Returns no score for the last text."""

    def scores(self, question: str, texts: Sequence[str]) -> list[float]:
        """Score all but one."""
        return super().scores(question, texts)[:-1]


class _Drifting(LetterCount):
    """Returns a higher score each time."""

    def __init__(self) -> None:
        self._offsets = count()

    def scores(self, question: str, texts: Sequence[str]) -> list[float]:
        """Score with an increasing offset."""
        offset = next(self._offsets)
        return [score + offset for score in super().scores(question, texts)]


class _Relative(LetterCount):
    """Returns scores relative to the other texts."""

    def scores(self, question: str, texts: Sequence[str]) -> list[float]:
        """Divide by the best."""
        scores = super().scores(question, texts)
        return [score / max(scores) for score in scores]


class _NanForEmpty(LetterCount):
    """Returns NaN for an empty text."""

    def scores(self, question: str, texts: Sequence[str]) -> list[float]:
        """Divide by the length."""
        return [
            score / len(text) if text else float("nan")
            for score, text in zip(super().scores(question, texts), texts, strict=True)
        ]


@pytest.fixture(params=["plain", "timed", "lexical", "onnx", "sentence-transformers", "fastembed"])
def subject(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> RerankerSubject:
    """Each reranker; models and libraries are replaced."""
    libraries(monkeypatch)
    folder = write_cross_encoder(tmp_path / "tiny")
    made: dict[str, Callable[[], Reranker]] = {
        "plain": LetterCount,
        "timed": lambda: TimedReranker("letters", LetterCount, 60.0),
        "lexical": LexicalReranker,
        "onnx": lambda: cross_encoder_from_folder(folder),
    }
    name: str = request.param
    return RerankerSubject(made.get(name, lambda: LibraryReranker(name, "tiny")))


@pytest.mark.parametrize(
    ("broken", "test_name"),
    [
        (Nameless, "test_it_has_a_name"),
        (_OmittingLast, "test_each_text_gets_one_finite_number"),
        (_Drifting, "test_the_same_is_scored_the_same"),
        (_Relative, "test_a_score_depends_on_its_text_alone"),
        (_NanForEmpty, "test_any_text_is_scored"),
    ],
)
def test_the_suite_detects_each_broken_reranker(
    broken: Callable[[], Reranker], test_name: str
) -> None:
    """By the test for the broken property."""
    check: Any = getattr(suite, test_name)

    with pytest.raises(AssertionError):
        check(RerankerSubject(broken))
