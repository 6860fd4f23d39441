"""Rerankers: the configured one with its limits and failures, and the lexical one."""

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from import_kit import bring, opened, rows, write
from library_kit import libraries, score
from onnx_kit import write_cross_encoder, write_folder

from satchel.config.settings import load_settings
from satchel.errors import ConfigError, InferenceError, MissingExtraError, UsageError
from satchel.evaluation.recall import evaluate_recall
from satchel.inference.libraries import LibraryReranker
from satchel.inference.onnx import cross_encoder_from_folder
from satchel.ports.inference import Reranker
from satchel.recall import models
from satchel.recall.engine import FIRST
from satchel.recall.models import reranker_of
from satchel.recall.query import Query
from satchel.recall.rerankers import LexicalReranker, TimedReranker
from satchel.recall.search import Answer, recall_memories
from satchel.rehydrate.operations import rehydrate_memories

TEXTS = ("Ada likes tea", "Ada likes tea at the harbour with Bela", "rain all day")
NAMED = "sentence-transformers:some/model"


class LengthReranker:
    """Ranks the longest text first, and records its queries."""

    model = "backwards"

    def __init__(self) -> None:
        self.asked: list[tuple[str, list[str]]] = []

    def scores(self, question: str, texts: Sequence[str]) -> list[float]:
        """Score by length."""
        self.asked.append((question, list(texts)))
        return [float(len(text)) for text in texts]


class FailingReranker(LengthReranker):
    """Raises an error of a library."""

    def scores(self, question: str, texts: Sequence[str]) -> list[float]:
        """Fail."""
        raise ZeroDivisionError("weights are missing")


class NanReranker(LengthReranker):
    """Returns NaN."""

    def scores(self, question: str, texts: Sequence[str]) -> list[float]:
        """Return NaN."""
        return [float("nan")] * len(texts)


@pytest.fixture(autouse=True)
def empty_cache() -> Iterator[None]:
    """Clear the cache of rerankers around each test."""
    models._timed.cache_clear()
    yield
    models._timed.cache_clear()


@pytest.fixture
def configure_reranker(monkeypatch: pytest.MonkeyPatch) -> Callable[[Reranker], None]:
    """Return a function that configures a reranker."""

    def configure(reranker: Reranker) -> None:
        monkeypatch.setenv("SATCHEL_INFERENCE_RERANKER", NAMED)
        monkeypatch.setitem(models._RERANKERS, "sentence-transformers", lambda _: reranker)

    return configure


def fill(tmp_path: Path, texts: Sequence[str] = TEXTS) -> None:
    """Import texts into the bank ``b``."""
    named = rows(*((str(number), text) for number, text in enumerate(texts)))
    bring(write(tmp_path / "a.json", named))


def answer(text: str = "Ada tea", **more: Any) -> Answer:
    """Query the bank."""
    with opened() as bank:
        return recall_memories(bank, Query(text=text, **more), explain=True)


def texts_of(found: Answer) -> list[str]:
    """Return the texts of an answer."""
    return [memory.text for memory in found.memories]


def test_reranking_is_off_by_default(tmp_path: Path) -> None:
    """The plan has no reranker."""
    fill(tmp_path)

    found = answer()

    assert reranker_of(load_settings()) is None
    assert (found.plan.reranker, found.plan.reranker_note) == (None, "")


def test_results_are_ordered_by_the_reranker(
    tmp_path: Path, configure_reranker: Callable[[Reranker], None]
) -> None:
    """Scores follow the order, and each memory has the score of the reranker."""
    fill(tmp_path)
    before = texts_of(answer())
    configure_reranker(LengthReranker())

    found = answer()

    assert before[0] == TEXTS[0]
    assert texts_of(found)[0] == TEXTS[1]
    assert found.plan.reranker == NAMED
    assert [memory.why.reranked for memory in found.memories if memory.why] == [1.0, 0.0]
    scores = [memory.score or 0.0 for memory in found.memories]
    assert scores == sorted(scores, reverse=True)


def test_reranking_can_be_disabled_for_one_query(
    tmp_path: Path, configure_reranker: Callable[[Reranker], None]
) -> None:
    """``rerank=True`` without a reranker is an error."""
    fill(tmp_path)
    with pytest.raises(UsageError, match="no reranker is configured"):
        answer(rerank=True)
    reranker = LengthReranker()
    configure_reranker(reranker)

    found = answer(rerank=False)

    assert texts_of(found)[0] == TEXTS[0]
    assert reranker.asked == []


def test_only_the_first_thirty_results_are_reranked(
    tmp_path: Path, configure_reranker: Callable[[Reranker], None]
) -> None:
    """The others follow in their order."""
    fill(tmp_path, [f"tea number {number} {'x' * number}" for number in range(50)])
    before = texts_of(answer("tea", limit=50))
    reranker = LengthReranker()
    configure_reranker(reranker)

    found = answer("tea", limit=50)

    [(question, texts)] = reranker.asked
    assert (question, len(texts)) == ("tea", FIRST)
    assert sorted(texts_of(found)[:FIRST]) == sorted(before[:FIRST])
    assert texts_of(found)[:FIRST] != before[:FIRST]
    assert texts_of(found)[FIRST:] == before[FIRST:]


def test_only_filtered_memories_are_reranked(
    tmp_path: Path, configure_reranker: Callable[[Reranker], None]
) -> None:
    """Hidden memories are not passed to the reranker."""
    fill(tmp_path)
    reranker = LengthReranker()
    configure_reranker(reranker)

    answer(user="bela")

    assert reranker.asked in ([], [("Ada tea", [])])


@pytest.mark.parametrize(
    ("reranker", "problem"),
    [
        (FailingReranker(), "weights are missing"),
        (NanReranker(), "did not return a number for each"),
    ],
)
def test_a_failure_of_the_reranker_keeps_the_order(
    tmp_path: Path,
    configure_reranker: Callable[[Reranker], None],
    reranker: Reranker,
    problem: str,
) -> None:
    """The plan has the error."""
    fill(tmp_path)
    before = texts_of(answer())
    configure_reranker(reranker)

    found = answer()

    assert texts_of(found) == before
    assert found.plan.reranker is None
    assert NAMED in found.plan.reranker_note
    assert problem in found.plan.reranker_note


def test_a_reranker_that_hangs_does_not_delay_an_answer(
    tmp_path: Path, configure_reranker: Callable[[Reranker], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the time-out the order is unchanged; no second call is started."""
    done, started = threading.Event(), list[str]()

    class Hanging(LengthReranker):
        def scores(self, question: str, texts: Sequence[str]) -> list[float]:
            started.append(question)
            done.wait()
            return super().scores(question, texts)

    fill(tmp_path)
    before = texts_of(answer())
    configure_reranker(Hanging())
    monkeypatch.setenv("SATCHEL_INFERENCE_RERANKER_TIMEOUT", "0.05")

    first, second = answer(), answer()

    assert texts_of(first) == texts_of(second) == before
    assert "took more than 0.05 s" in first.plan.reranker_note
    assert "busy" in second.plan.reranker_note
    assert started == ["Ada tea"]
    done.set()


def test_the_next_query_is_reranked_after_a_slow_one_ended() -> None:
    """A time-out does not disable the reranker."""
    hold, reranker = threading.Event(), LengthReranker()

    def load() -> Reranker:
        hold.wait()
        return reranker

    timed = TimedReranker("slow", load, 0.05)
    with pytest.raises(InferenceError, match="took more than"):
        timed.scores("q", ["a"])
    hold.set()
    patient = TimedReranker("slow", load, 60.0)

    assert patient.scores("q", ["a", "bb"]) == [1.0, 2.0]
    while not timed._free.acquire(timeout=60):
        pytest.fail("it has not ended")
    timed._free.release()
    assert timed._loaded is reranker


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("lexic", "unknown reranker 'lexic'"),
        ("lexical:x", "unknown reranker 'lexical:x'"),
        ("openai:x", "unknown reranker"),
        ("onnx:", "unknown reranker"),
    ],
)
def test_an_unknown_reranker_is_a_configuration_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, problem: str
) -> None:
    """It is not treated as a failing one."""
    fill(tmp_path)
    monkeypatch.setenv("SATCHEL_INFERENCE_RERANKER", name)

    with pytest.raises(ConfigError, match=problem) as caught:
        answer()

    assert caught.value.field == "inference.reranker"
    assert "lexical, " in (caught.value.hint or "")
    assert "onnx:MODEL" in (caught.value.hint or "")


def test_the_lexical_reranker_needs_one_line_of_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is part of Satchel, and ranks memories with adjacent query words first."""
    texts = ["peanuts and, weeks later, long talks about a few cheap flights", "rain all day"]
    fill(tmp_path, [*texts, "she ate peanuts on long flights"])
    monkeypatch.setenv("SATCHEL_INFERENCE_RERANKER", "lexical")

    found = answer("peanuts on long flights")

    assert found.plan.reranker == "lexical"
    assert texts_of(found)[0] == "she ate peanuts on long flights"
    assert [memory.why.reranked for memory in found.memories if memory.why][:2] == [1.0, 0.0]


def test_a_time_out_of_zero_is_refused(
    configure_reranker: Callable[[Reranker], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would always skip the reranker."""
    configure_reranker(LengthReranker())
    monkeypatch.setenv("SATCHEL_INFERENCE_RERANKER_TIMEOUT", "0")

    with pytest.raises(ConfigError, match="more than 0"):
        reranker_of(load_settings())


@pytest.mark.parametrize("library", ["sentence-transformers", "fastembed"])
def test_a_library_cross_encoder_is_loaded_from_local_files_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: str
) -> None:
    """Nothing is downloaded, and no code of a model runs."""
    calls = libraries(monkeypatch)
    fill(tmp_path)
    monkeypatch.setenv("SATCHEL_INFERENCE_RERANKER", f"{library}:some/model")

    found = answer("Ada Bela tea")

    [(name, how)] = calls
    assert name == "some/model"
    assert how["local_files_only"] is True
    assert how.get("trust_remote_code", False) is False
    assert texts_of(found)[0] == max(TEXTS, key=lambda text: score("Ada Bela tea", text))
    assert found.plan.reranker == f"{library}:some/model"


def test_a_missing_reranker_library_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The query is answered without it; a direct call is an error."""
    fill(tmp_path)
    monkeypatch.setenv("SATCHEL_INFERENCE_RERANKER", "fastembed:some/model")

    assert "not installed" in answer().plan.reranker_note
    with pytest.raises(MissingExtraError):
        LibraryReranker("fastembed", "some/model")


def test_a_missing_cross_encoder_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not downloaded."""
    libraries(monkeypatch)
    fill(tmp_path)
    monkeypatch.setenv("SATCHEL_INFERENCE_RERANKER", "fastembed:absent")

    assert "cannot be loaded" in answer().plan.reranker_note


def test_a_cross_encoder_folder_scores_pairs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Query and memory are truncated to the input length."""
    folder = write_cross_encoder(tmp_path / "tiny")
    encoder = cross_encoder_from_folder(folder)

    # [CLS] tea [SEP] rain [SEP]: the numbers of the pieces are 2 4 3 5 3.
    assert encoder.scores("tea", ["rain", ""]) == pytest.approx([17 / 5, 12 / 4])
    # Sixteen pieces: eight of the question at most, and what is left of the memory.
    long = encoder.scores("tea " * 100, ["rain " * 100])
    assert long == pytest.approx([(2 + 8 * 4 + 3 + 5 * 5 + 3) / 16])
    fill(tmp_path, ["tea", "tea van"])
    monkeypatch.setenv("SATCHEL_INFERENCE_RERANKER", f"onnx:{folder}")
    assert answer("tea").plan.reranker == "onnx:tiny"


def test_an_embedding_model_is_refused_as_a_reranker(tmp_path: Path) -> None:
    """As are a folder without a model and an input length that is too short."""
    embedder = write_folder(tmp_path / "e", [[1.0, 2.0]] * 10)
    with pytest.raises(InferenceError, match=r"one number for (?:a|each) pair"):
        cross_encoder_from_folder(embedder)
    with pytest.raises(ConfigError, match=r"there is no model\.onnx"):
        cross_encoder_from_folder(tmp_path)
    folder = write_cross_encoder(tmp_path / "c")
    (folder / "config.json").write_text('{"max_position_embeddings": 3}')
    with pytest.raises(InferenceError, match="max_position_embeddings"):
        cross_encoder_from_folder(folder)


def test_rehydration_uses_the_configured_reranker(
    tmp_path: Path, configure_reranker: Callable[[Reranker], None]
) -> None:
    """A failure is reported."""
    fill(tmp_path)
    configure_reranker(LengthReranker())
    with opened() as bank:
        found = rehydrate_memories(bank, task="Ada tea", budget=1000)
    assert f"reranked by {NAMED}" in str(found)

    configure_reranker(FailingReranker())
    models._timed.cache_clear()
    with opened() as bank:
        found = rehydrate_memories(bank, task="Ada tea", budget=1000)
    assert "weights are missing" in str(found)


def test_an_evaluation_fails_if_the_reranker_fails(
    tmp_path: Path, configure_reranker: Callable[[Reranker], None]
) -> None:
    """It measures the reranker or nothing."""
    turns = [{"id": 1, "session": "s", "speaker": "Ada", "text": "I had tea"}]
    questions = [{"question": "Who had tea?", "kind": "easy", "evidence": [1]}]
    conversation = {"turns": turns, "questions": questions}
    data = tmp_path / "q.json"
    data.write_text(json.dumps({"conversations": [conversation]}))
    configure_reranker(LengthReranker())

    found = evaluate_recall(load_settings(), data, vectors=False, reranker=NAMED)

    assert found.reranker == NAMED
    assert evaluate_recall(load_settings(), data, vectors=False).reranker is None
    configure_reranker(FailingReranker())
    models._timed.cache_clear()
    with pytest.raises(InferenceError, match="weights are missing"):
        evaluate_recall(load_settings(), data, vectors=False, reranker=NAMED)


FILLER = "and then it was so late that nobody knew where to go"


def scores(question: str, *texts: str) -> list[float]:
    """Score texts for a question."""
    return LexicalReranker().scores(question, texts)


def test_a_text_with_all_of_the_words_scores_above_one_with_some() -> None:
    """A text with none of them scores zero."""
    every, some, none = scores(
        "Which ferry goes to the harbour?",
        "The ferry goes to the harbour.",
        "The ferry was late again.",
        "It rained all day.",
    )

    assert 1 >= every > some > none == 0


@pytest.mark.parametrize(("rare", "usual"), [("harbour", "people"), ("Melanie", "time")])
def test_a_rare_word_counts_more_than_a_common_one(rare: str, usual: str) -> None:
    """The rarity of a word does not depend on the other texts."""
    with_rare, with_usual = scores(f"{usual} {rare}", f"a {rare} here", f"a {usual} here")

    assert with_rare > with_usual


def test_adjacent_words_of_the_question_count_more_when_adjacent() -> None:
    """Both texts have the same words within one passage."""
    close, apart = scores("harbour ferry", f"harbour ferry {FILLER}", f"harbour {FILLER} ferry")

    assert close > apart


def test_words_in_one_passage_count_more_than_words_far_apart() -> None:
    """Both texts have the same words, none adjacent, and the same length."""
    passage, far = scores(
        "harbour ferry",
        f"harbour {FILLER} ferry {FILLER} {FILLER} {FILLER}",
        f"harbour {FILLER} {FILLER} {FILLER} {FILLER} ferry",
    )

    assert passage > far


def test_the_shorter_of_two_texts_with_the_same_words_scores_higher() -> None:
    """A long text has some of any question's words."""
    brief, long = scores("harbour ferry", "harbour ferry", f"harbour ferry {FILLER * 20}")

    assert brief > long


def test_words_of_scripts_without_spaces_are_found() -> None:
    """They are compared as pairs of characters, as in the index."""
    found, other = scores("金曜日の会議", "次の金曜日に会議があります", "雨が降っています")

    assert found > other


def test_a_question_without_words_scores_zero() -> None:
    """Punctuation alone ranks nothing."""
    assert scores("?!", "harbour", "") == [0.0, 0.0]


def test_a_bounded_length_of_each_text_is_read() -> None:
    """At most 8,192 characters are read, and at most 64 terms are searched."""
    text = "harbour ferry " * 600
    question = " ".join(f"word{number}" for number in range(63)) + " harbour ferry"

    assert scores(question, text) == scores(question, text + "ferry " * 100_000)
