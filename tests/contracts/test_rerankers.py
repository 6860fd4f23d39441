"""A reranker that is honest keeps every promise; each promise catches one that is not."""

from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from library_kit import libraries
from onnx_kit import write_cross_encoder

from satchel.conformance import rerankers as promises
from satchel.conformance.rerankers import *  # noqa: F403
from satchel.conformance.rerankers import RerankerSubject
from satchel.inference.libraries import LibraryReranker
from satchel.inference.onnx import cross_encoder_from_folder
from satchel.ports.inference import Reranker
from satchel.recall.rerankers import LexicalReranker, TimedReranker


class Plain:
    """Counts the letters that a text has of the question."""

    model = "letters"

    def scores(self, question: str, texts: Sequence[str]) -> list[float]:
        """Score each alone."""
        return [float(sum(map(text.count, set(question)))) for text in texts]


class Nameless(Plain):
    """Cannot be told in an answer."""

    model = ""


class Forgetful(Plain):
    """Gives no score for the last text."""

    def scores(self, question: str, texts: Sequence[str]) -> list[float]:
        """Score all but one."""
        return super().scores(question, texts)[:-1]


class Moody(Plain):
    """Scores the same text higher each time."""

    def __init__(self) -> None:
        self._moods = count()

    def scores(self, question: str, texts: Sequence[str]) -> list[float]:
        """Score on a scale that moves."""
        mood = next(self._moods)
        return [score + mood for score in super().scores(question, texts)]


class Comparing(Plain):
    """Scores a text by how it stands among the others."""

    def scores(self, question: str, texts: Sequence[str]) -> list[float]:
        """Divide by the best."""
        scores = super().scores(question, texts)
        return [score / max(scores) for score in scores]


class Fastidious(Plain):
    """Has no number for an empty text."""

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
    """Give each reranker; what needs a model or a library has a stand-in for it."""
    libraries(monkeypatch)
    folder = write_cross_encoder(tmp_path / "tiny")
    made: dict[str, Callable[[], Reranker]] = {
        "plain": Plain,
        "timed": lambda: TimedReranker("letters", Plain, 60.0),
        "lexical": LexicalReranker,
        "onnx": lambda: cross_encoder_from_folder(folder),
    }
    name: str = request.param
    return RerankerSubject(made.get(name, lambda: LibraryReranker(name, "tiny")))


@pytest.mark.parametrize(
    ("broken", "promise"),
    [
        (Nameless, "test_it_has_a_name"),
        (Forgetful, "test_each_text_gets_one_finite_number"),
        (Moody, "test_the_same_is_scored_the_same"),
        (Comparing, "test_a_score_depends_on_its_text_alone"),
        (Fastidious, "test_any_text_is_scored"),
    ],
)
def test_a_promise_that_is_broken_is_caught(broken: Callable[[], Reranker], promise: str) -> None:
    """Each promise fails for a reranker that breaks it."""
    check: Any = getattr(promises, promise)

    with pytest.raises(AssertionError):
        check(RerankerSubject(broken))
