"""Banks whose vectors a network on this machine makes: MiniLM, or a model in a folder."""

from dataclasses import replace
from pathlib import Path

import pytest
from bank_kit import keep
from onnx_kit import VOCABULARY, network, write_folder

from satchel.bank.open_bank import OpenBank
from satchel.config.settings import load_settings
from satchel.errors import ConfigError
from satchel.evaluation.recall import evaluate_recall
from satchel.inference import onnx
from satchel.inference.onnx import Network, WordPieces
from satchel.recall.models import embedder_of
from satchel.recall.order import DEFAULT_WEIGHTS, weights_of
from satchel.recall.query import Query
from satchel.recall.search import recall_memories
from satchel.recall.vector_index import current_generation
from satchel.recall.vector_updates import STEP, embed_bank, keep_up

_GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "recalling.md"

TABLE = [
    [float(row == column and row > 3) for column in range(len(VOCABULARY))]
    for row in range(len(VOCABULARY))
]
"""Each word means itself; what stands around a text, nothing."""

SIMILAR = [*TABLE[:-3], TABLE[4], *TABLE[-2:]]
"""In which "red" means what "tea" means."""


def configured(bank: OpenBank, patch: pytest.MonkeyPatch, **settings: object) -> OpenBank:
    """Return a bank under settings of ``[inference]``."""
    for name, value in settings.items():
        patch.setenv(f"SATCHEL_INFERENCE_{name.upper()}", str(value))
    return replace(bank, settings=load_settings())


@pytest.fixture
def by_minilm(bank: OpenBank, monkeypatch: pytest.MonkeyPatch) -> OpenBank:
    """A bank for which MiniLM is configured, a tiny network in its place."""
    pieces = WordPieces({name: at for at, name in enumerate(VOCABULARY)})
    tiny = Network(network(SIMILAR), pieces, onnx.MINILM)
    monkeypatch.setattr(onnx, "minilm", lambda: tiny)
    return configured(bank, monkeypatch, embedder="minilm")


def test_a_model_in_a_folder_finds_what_words_do_not(
    bank: OpenBank, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Made by ``embed`` and asked by questions, as long as it is what is configured."""
    folder = write_folder(tmp_path / "own", SIMILAR)
    wanted, _ = keep(bank, "tea"), keep(bank, "van")
    here = configured(bank, monkeypatch, embedder="onnx", folder=folder)
    done = embed_bank(here)
    assert (done.model, done.dimensions, done.made) == ("onnx:own", len(VOCABULARY), 2)
    found = recall_memories(here, Query(text="red"))
    assert ([one.id for one in found.memories], found.plan.vectors) == ([wanted], "onnx:own")
    elsewhere = configured(bank, monkeypatch, embedder="static")
    plan = recall_memories(elsewhere, Query(text="red")).plan
    assert "queries are not sent to onnx:own" in plan.note


def test_another_file_in_the_folder_makes_another_generation(
    bank: OpenBank, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its vectors are never compared with those that are there, though both have one name."""
    keep(bank, "tea")
    first, second = (
        configured(
            bank, monkeypatch, embedder="onnx", folder=write_folder(tmp_path / name / "own", table)
        )
        for name, table in (("a", TABLE), ("b", SIMILAR))
    )
    generation = embed_bank(first).generation
    assert "queries are not sent" in recall_memories(second, Query(text="tea")).plan.note
    done = embed_bank(second)
    assert (done.generation > generation, done.made, done.dropped) == (True, 1, 1)
    assert embed_bank(second).kept == 1


def test_minilm_keeps_up_unasked_in_small_steps(by_minilm: OpenBank) -> None:
    """A question waits for some tenths of a second at most; an edit of the settings ends it."""
    for number in range(5):
        keep(by_minilm, f"tea {number}")
    most = embedder_of(by_minilm.settings).cost * 2  # type: ignore[attr-defined]
    assert (STEP, keep_up(by_minilm, most)) == (512, 2)
    assert keep_up(by_minilm, most) == 2
    assert keep_up(by_minilm) == 1
    with by_minilm.ledger.reading() as view:
        made = current_generation(view)
    assert made is not None
    assert (made.model, made.asked) == (onnx.MINILM, False)


def test_minilm_that_is_not_installed_hinders_nobody(
    by_minilm: OpenBank, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is remembered is found by its words, and the plan says what is missing."""
    wanted = keep(by_minilm, "tea")
    keep_up(by_minilm)
    monkeypatch.undo()
    monkeypatch.setattr("satchel.inference.onnx.find_spec", lambda _name: None)
    onnx.minilm.cache_clear()
    later = keep(by_minilm, "rain")
    assert keep_up(by_minilm) == 0
    found = recall_memories(by_minilm, Query(text="tea rain"))
    assert {one.id for one in found.memories} == {wanted, later}
    assert "MiniLM" in found.plan.note


@pytest.mark.parametrize("folder", ["", "nowhere"])
def test_a_folder_that_is_not_there_is_an_error_of_the_settings(
    bank: OpenBank, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    """Named as such, before anything is made."""
    with pytest.raises(ConfigError) as caught:
        embed_bank(configured(bank, monkeypatch, embedder="onnx", folder=folder))
    assert caught.value.field == "inference.folder"


def test_signals_weigh_by_the_model_of_the_vectors() -> None:
    """Better vectors count for more; the names are those of the models."""
    assert weights_of(onnx.MINILM).meaning > DEFAULT_WEIGHTS.meaning
    assert weights_of("wordllama-l2-256-int8-idf") == weights_of(None) == DEFAULT_WEIGHTS


def _promised(row: str) -> list[str]:
    """Return the figures of a row of the guide's table: LoCoMo, BEAM, QMSum."""
    (line,) = (one for one in _GUIDE.read_text("utf-8").splitlines() if one.startswith(row))
    return [cell.strip() for cell in line.split("|")[2:-1]]


@pytest.mark.shared
@pytest.mark.prove
@pytest.mark.timeout(1500)
@pytest.mark.parametrize(
    ("column", "name", "questions", "least"),
    [
        pytest.param(0, "locomo/locomo-first6.json", 883, 0.78, id="locomo"),
        pytest.param(1, "beam", 72, 0.58, id="beam"),
        pytest.param(2, "qmsum/Product.jsonl", 129, 0, id="qmsum"),
    ],
)
def test_recall_with_minilm_and_by_default_is_as_the_guide_says(
    shared_data: Path, column: int, name: str, questions: int, least: float
) -> None:
    """MiniLM changes little on short talk and finds much more in long assistant chats.

    The figures of the guide are those of R@10, to the last digit it gives, give or take one.
    """
    measured = dict[str, float]()
    for model, row in (
        ("static-idf", "| recall by default |"),
        ("minilm", "| recall with [MiniLM]"),
    ):
        said = _promised(row)[column]
        found = evaluate_recall(load_settings(), shared_data / name, model=model).main
        assert found.questions == questions
        measured[model] = found.recall["10"]
        assert measured[model] == pytest.approx(float(said), abs=10.0 ** -len(said[1:]))
    gain = measured["minilm"] - measured["static-idf"]
    assert measured["minilm"] >= least
    assert (abs(gain) < 0.02, gain > 0.03, gain > 0)[column]
