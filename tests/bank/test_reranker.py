"""A reranker that a line of configuration names, on every interface."""

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
from satchel.recall.rerankers import TimedReranker
from satchel.recall.search import Answer, recall_memories
from satchel.rehydrate.operations import rehydrate_memories

TEXTS = ("Ada likes tea", "Ada likes tea at the harbour with Bela", "rain all day")
NAMED = "sentence-transformers:some/model"


class Backwards:
    """Finds that the longest text answers best, and remembers what it was asked."""

    model = "backwards"

    def __init__(self) -> None:
        self.asked: list[tuple[str, list[str]]] = []

    def scores(self, question: str, texts: Sequence[str]) -> list[float]:
        """Score by length."""
        self.asked.append((question, list(texts)))
        return [float(len(text)) for text in texts]


class Broken(Backwards):
    """Raises what is no error of ours."""

    def scores(self, question: str, texts: Sequence[str]) -> list[float]:
        """Fail."""
        raise ZeroDivisionError("weights are missing")


class Numberless(Backwards):
    """Gives what is no number."""

    def scores(self, question: str, texts: Sequence[str]) -> list[float]:
        """Give NaN."""
        return [float("nan")] * len(texts)


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """Keep no reranker from one test to the next."""
    models._timed.cache_clear()
    yield
    models._timed.cache_clear()


@pytest.fixture
def configured(monkeypatch: pytest.MonkeyPatch) -> Callable[[Reranker], None]:
    """Give what makes a reranker the one that is configured."""

    def configure(reranker: Reranker) -> None:
        monkeypatch.setenv("SATCHEL_INFERENCE_RERANKER", NAMED)
        monkeypatch.setitem(models._RERANKERS, "sentence-transformers", lambda _: reranker)

    return configure


def filled(tmp_path: Path, texts: Sequence[str] = TEXTS) -> None:
    """Fill the bank ``b``."""
    named = rows(*((str(number), text) for number, text in enumerate(texts)))
    bring(write(tmp_path / "a.json", named))


def answer(text: str = "Ada tea", **more: Any) -> Answer:
    """Ask the bank."""
    with opened() as bank:
        return recall_memories(bank, Query(text=text, **more), explain=True)


def said(found: Answer) -> list[str]:
    """Return the texts of an answer."""
    return [memory.text for memory in found.memories]


def test_without_a_line_of_configuration_nothing_is_reranked(tmp_path: Path) -> None:
    """It is off by default."""
    filled(tmp_path)

    found = answer()

    assert reranker_of(load_settings()) is None
    assert (found.plan.reranker, found.plan.reranker_note) == (None, "")


def test_the_best_are_put_in_its_order(
    tmp_path: Path, configured: Callable[[Reranker], None]
) -> None:
    """Scores go with the order, and each memory says what the reranker found."""
    filled(tmp_path)
    before = said(answer())
    configured(Backwards())

    found = answer()

    assert before[0] == TEXTS[0]
    assert said(found)[0] == TEXTS[1]
    assert found.plan.reranker == NAMED
    assert [memory.why.reranked for memory in found.memories if memory.why] == [1.0, 0.0]
    scores = [memory.score or 0.0 for memory in found.memories]
    assert scores == sorted(scores, reverse=True)


def test_it_can_be_disabled_for_one_query(
    tmp_path: Path, configured: Callable[[Reranker], None]
) -> None:
    """``rerank=False`` asks without it; ``rerank=True`` where there is none is an error."""
    filled(tmp_path)
    with pytest.raises(UsageError, match="no reranker is configured"):
        answer(rerank=True)
    reranker = Backwards()
    configured(reranker)

    found = answer(rerank=False)

    assert said(found)[0] == TEXTS[0]
    assert reranker.asked == []


def test_no_more_than_the_first_thirty_are_read(
    tmp_path: Path, configured: Callable[[Reranker], None]
) -> None:
    """What follows keeps its place, behind them."""
    filled(tmp_path, [f"tea number {number} {'x' * number}" for number in range(50)])
    before = said(answer("tea", limit=50))
    reranker = Backwards()
    configured(reranker)

    found = answer("tea", limit=50)

    [(question, texts)] = reranker.asked
    assert (question, len(texts)) == ("tea", FIRST)
    assert sorted(said(found)[:FIRST]) == sorted(before[:FIRST])
    assert said(found)[:FIRST] != before[:FIRST]
    assert said(found)[FIRST:] == before[FIRST:]


def test_only_what_the_filters_leave_is_read(
    tmp_path: Path, configured: Callable[[Reranker], None]
) -> None:
    """What may not be shown is not handed on either."""
    filled(tmp_path)
    reranker = Backwards()
    configured(reranker)

    answer(user="bela")

    assert reranker.asked in ([], [("Ada tea", [])])


@pytest.mark.parametrize(
    ("reranker", "problem"),
    [(Broken(), "weights are missing"), (Numberless(), "did not return a number for each")],
)
def test_a_failure_leaves_the_order_and_is_named(
    tmp_path: Path,
    configured: Callable[[Reranker], None],
    reranker: Reranker,
    problem: str,
) -> None:
    """A question is answered without it, and the plan says why."""
    filled(tmp_path)
    before = said(answer())
    configured(reranker)

    found = answer()

    assert said(found) == before
    assert found.plan.reranker is None
    assert NAMED in found.plan.reranker_note
    assert problem in found.plan.reranker_note


def test_a_reranker_that_hangs_does_not_delay_an_answer(
    tmp_path: Path, configured: Callable[[Reranker], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the time-out the order is as it was; nothing is started beside what still runs."""
    done, started = threading.Event(), list[str]()

    class Hanging(Backwards):
        def scores(self, question: str, texts: Sequence[str]) -> list[float]:
            started.append(question)
            done.wait()
            return super().scores(question, texts)

    filled(tmp_path)
    before = said(answer())
    configured(Hanging())
    monkeypatch.setenv("SATCHEL_INFERENCE_RERANKER_TIMEOUT", "0.05")

    first, second = answer(), answer()

    assert said(first) == said(second) == before
    assert "took more than 0.05 s" in first.plan.reranker_note
    assert "busy" in second.plan.reranker_note
    assert started == ["Ada tea"]
    done.set()


def test_after_it_has_ended_the_next_question_is_reranked() -> None:
    """What took too long does not switch it off."""
    hold, reranker = threading.Event(), Backwards()

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
def test_a_name_that_nothing_has_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, problem: str
) -> None:
    """A misspelled line does not pass for a reranker that fails."""
    filled(tmp_path)
    monkeypatch.setenv("SATCHEL_INFERENCE_RERANKER", name)

    with pytest.raises(ConfigError, match=problem) as caught:
        answer()

    assert caught.value.field == "inference.reranker"
    assert "lexical, " in (caught.value.hint or "")
    assert "onnx:MODEL" in (caught.value.hint or "")


def test_the_lexical_reranker_needs_one_line_of_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes with Satchel; the memory that has the question's words together is first."""
    texts = ["peanuts and, weeks later, long talks about a few cheap flights", "rain all day"]
    filled(tmp_path, [*texts, "she ate peanuts on long flights"])
    monkeypatch.setenv("SATCHEL_INFERENCE_RERANKER", "lexical")

    found = answer("peanuts on long flights")

    assert found.plan.reranker == "lexical"
    assert said(found)[0] == "she ate peanuts on long flights"
    assert [memory.why.reranked for memory in found.memories if memory.why][:2] == [1.0, 0.0]


def test_a_time_out_is_more_than_nothing(
    configured: Callable[[Reranker], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Zero would always leave the reranker out."""
    configured(Backwards())
    monkeypatch.setenv("SATCHEL_INFERENCE_RERANKER_TIMEOUT", "0")

    with pytest.raises(ConfigError, match="more than 0"):
        reranker_of(load_settings())


@pytest.mark.parametrize("library", ["sentence-transformers", "fastembed"])
def test_a_cross_encoder_of_a_library_is_loaded_from_this_machine_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: str
) -> None:
    """Nothing is downloaded, and no code of a model is run."""
    calls = libraries(monkeypatch)
    filled(tmp_path)
    monkeypatch.setenv("SATCHEL_INFERENCE_RERANKER", f"{library}:some/model")

    found = answer("Ada Bela tea")

    [(name, how)] = calls
    assert name == "some/model"
    assert how["local_files_only"] is True
    assert how.get("trust_remote_code", False) is False
    assert said(found)[0] == max(TEXTS, key=lambda text: score("Ada Bela tea", text))
    assert found.plan.reranker == f"{library}:some/model"


def test_a_library_that_is_not_installed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The question is answered without it; asked for by itself it is an error."""
    filled(tmp_path)
    monkeypatch.setenv("SATCHEL_INFERENCE_RERANKER", "fastembed:some/model")

    assert "not installed" in answer().plan.reranker_note
    with pytest.raises(MissingExtraError):
        LibraryReranker("fastembed", "some/model")


def test_a_cross_encoder_that_is_not_on_this_machine_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not downloaded."""
    libraries(monkeypatch)
    filled(tmp_path)
    monkeypatch.setenv("SATCHEL_INFERENCE_RERANKER", "fastembed:absent")

    assert "cannot be loaded" in answer().plan.reranker_note


def test_a_cross_encoder_in_a_folder_reads_both_texts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Question and memory are cut to what it takes, and stand in one row of pieces."""
    folder = write_cross_encoder(tmp_path / "tiny")
    encoder = cross_encoder_from_folder(folder)

    # [CLS] tea [SEP] rain [SEP]: the numbers of the pieces are 2 4 3 5 3.
    assert encoder.scores("tea", ["rain", ""]) == pytest.approx([17 / 5, 12 / 4])
    # Sixteen pieces: eight of the question at most, and what is left of the memory.
    long = encoder.scores("tea " * 100, ["rain " * 100])
    assert long == pytest.approx([(2 + 8 * 4 + 3 + 5 * 5 + 3) / 16])
    filled(tmp_path, ["tea", "tea van"])
    monkeypatch.setenv("SATCHEL_INFERENCE_RERANKER", f"onnx:{folder}")
    assert answer("tea").plan.reranker == "onnx:tiny"


def test_a_network_that_makes_vectors_is_no_reranker(tmp_path: Path) -> None:
    """Nor is a folder without one, or one that takes no two texts."""
    embedder = write_folder(tmp_path / "e", [[1.0, 2.0]] * 10)
    with pytest.raises(InferenceError, match=r"one number for (?:a|each) pair"):
        cross_encoder_from_folder(embedder)
    with pytest.raises(ConfigError, match=r"there is no model\.onnx"):
        cross_encoder_from_folder(tmp_path)
    folder = write_cross_encoder(tmp_path / "c")
    (folder / "config.json").write_text('{"max_position_embeddings": 3}')
    with pytest.raises(InferenceError, match="max_position_embeddings"):
        cross_encoder_from_folder(folder)


def test_a_text_for_a_model_is_reranked_as_configured(
    tmp_path: Path, configured: Callable[[Reranker], None]
) -> None:
    """Rehydration, and so MCP, follow the configuration; a failure is named there too."""
    filled(tmp_path)
    configured(Backwards())
    with opened() as bank:
        found = rehydrate_memories(bank, task="Ada tea", budget=1000)
    assert f"reranked by {NAMED}" in str(found)

    configured(Broken())
    models._timed.cache_clear()
    with opened() as bank:
        found = rehydrate_memories(bank, task="Ada tea", budget=1000)
    assert "weights are missing" in str(found)


def test_an_evaluation_does_not_pass_over_a_failure(
    tmp_path: Path, configured: Callable[[Reranker], None]
) -> None:
    """What is measured is the reranker, or nothing."""
    turns = [{"id": 1, "session": "s", "speaker": "Ada", "text": "I had tea"}]
    questions = [{"question": "Who had tea?", "kind": "easy", "evidence": [1]}]
    conversation = {"turns": turns, "questions": questions}
    data = tmp_path / "q.json"
    data.write_text(json.dumps({"conversations": [conversation]}))
    configured(Backwards())

    found = evaluate_recall(load_settings(), data, vectors=False, reranker=NAMED)

    assert found.reranker == NAMED
    assert evaluate_recall(load_settings(), data, vectors=False).reranker is None
    configured(Broken())
    models._timed.cache_clear()
    with pytest.raises(InferenceError, match="weights are missing"):
        evaluate_recall(load_settings(), data, vectors=False, reranker=NAMED)
