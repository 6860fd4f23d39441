"""The bundled embedder: equal to the original model, from a smaller table."""

import json
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from satchel.errors import InferenceError, MissingExtraError
from satchel.inference import static_table
from satchel.inference.static_table import DIMENSIONS, StaticTable, StaticVocabulary, WeightedTable

_DATA = Path(__file__).parent.parent / "data" / "inference"
_PIECES = json.loads((_DATA / "pieces.json").read_text("utf-8"))["pieces"]


def matrix(vectors: list[bytes]) -> Any:
    """Return vectors as rows of numbers."""
    return np.frombuffer(b"".join(vectors), "<f4").reshape(len(vectors), -1).astype(float)


@pytest.fixture
def reset_cache() -> Iterator[None]:
    """Clear the cached table, before and after."""
    static_table._bundled_table.cache_clear()
    yield
    static_table._bundled_table.cache_clear()


@pytest.mark.parametrize("sample", _PIECES, ids=lambda sample: sample["text"][:20])
def test_tokens_equal_those_of_the_original_tokenizer(sample: dict[str, Any]) -> None:
    """Other tokens would have other vectors."""
    assert StaticVocabulary()(sample["text"], 1000) == sample["pieces"]


def test_attack_a_text_contains_special_tokens() -> None:
    """They are tokenized as ordinary text."""
    assert set(StaticVocabulary()("<s> </s> <unk> <0x00>", 100)).isdisjoint({0, 1, 2, 3})


def test_the_smaller_table_has_the_cosines_of_the_original() -> None:
    """Eight bits a number instead of sixteen change no cosine by more than 0.003."""
    kept = json.loads((_DATA / "cosines.json").read_text("utf-8"))
    found = matrix(StaticTable().embed(kept["texts"]))

    assert np.abs(found @ found.T - np.array(kept["cosines"])).max() < 0.003


@settings(max_examples=40, deadline=None)
@given(st.lists(st.text(max_size=40), max_size=12), st.integers(1, 5))
def test_a_vector_does_not_depend_on_its_batch(texts: list[str], size: int) -> None:
    """Each text has the same vector to the last bit in any batch."""
    model = StaticTable()
    parts = [texts[at : at + size] for at in range(0, len(texts), size)]

    assert [one for part in parts for one in model.embed(part)] == model.embed(texts)


def test_a_vector_has_length_1_or_is_zero_for_blank_text() -> None:
    """Blank text is similar to nothing, and not an error."""
    found = matrix(StaticTable().embed(["Ada likes tea", "", " \n\t"]))

    assert found.shape == (3, DIMENSIONS)
    assert np.linalg.norm(found[0]) == pytest.approx(1)
    assert not found[1:].any()
    assert StaticTable().embed([]) == []


@settings(max_examples=40, deadline=None)
@given(st.lists(st.text(max_size=60), max_size=6))
def test_few_texts_get_the_same_vectors_without_numpy(texts: list[str]) -> None:
    """Short commands do not load numpy; the vectors are equal to the last bit."""
    plain, weighted = StaticTable(), WeightedTable()
    for model in (plain, weighted, weighted.knowing(weighted.learn([*texts, "tea and rain"]))):
        with pytest.MonkeyPatch.context() as patch:
            patch.delitem(sys.modules, "numpy")
            by_hand = model.embed(texts)
            assert "numpy" not in sys.modules
        assert by_hand == model.embed(texts)


def test_learned_weights_emphasize_rare_words() -> None:
    """Words of every memory distinguish them less."""
    texts = [f"the weekly report says {word}" for word in ("tea", "rain", "brass", "owl", "sand")]
    plain, model = StaticTable(), WeightedTable()
    weighted = model.knowing(model.learn(texts))

    plainly, rarely = (matrix(one.embed(texts)) for one in (plain, weighted))
    assert (rarely @ rarely.T).mean() < (plainly @ plainly.T).mean() - 0.1
    assert weighted.embed(texts) == model.knowing(model.learn(iter(texts))).embed(texts)


@pytest.mark.parametrize("damage", [b"", b"x", b"\x78\x9c" + b"\0" * 40])
def test_damaged_weights_of_a_bank_are_refused(damage: bytes) -> None:
    """They are stored beside the log, without signature."""
    with pytest.raises(ValueError, match="damaged"):
        WeightedTable().knowing(damage)


def test_attack_learned_weights_are_a_compression_bomb() -> None:
    """A few bytes that expand to gigabytes are refused."""
    with pytest.raises(ValueError, match="damaged"):
        WeightedTable().knowing(zlib.compress(b"\0" * 50_000_000))


@pytest.mark.parametrize(
    "text", ["q" * 3_000_000, "😀" * 500_000, "qx zj " * 500_000, "\ud800", "a\x00b"]
)
def test_attack_a_text_slows_down_the_tokenizer(text: str) -> None:
    """Endless words, characters of many tokens, lone surrogates: it is truncated."""
    [vector] = StaticTable().embed([text])

    assert len(StaticVocabulary()(text[:65_536], 100)) <= 100
    assert len(vector) == 4 * DIMENSIONS


@pytest.mark.usefixtures("reset_cache")
def test_a_damaged_table_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Otherwise its vectors would be compared with correct ones."""
    raw = bytearray(static_table._FILE.read_bytes())
    raw[5_000_000] ^= 1
    (tmp_path / "table.int8").write_bytes(raw)
    monkeypatch.setattr(static_table, "_FILE", tmp_path / "table.int8")

    with pytest.raises(InferenceError, match="damaged"):
        StaticTable()


@pytest.mark.usefixtures("reset_cache")
def test_without_numpy_the_error_names_the_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a dependency, so the installation is damaged."""
    monkeypatch.setitem(sys.modules, "numpy", None)

    with pytest.raises(MissingExtraError) as caught:
        StaticTable()
    assert "Reinstall satchel." in str(caught.value)


def test_numpy_is_imported_only_when_needed() -> None:
    """Commands without vectors do not load it."""
    code = (
        "import sys, satchel.cli.imports, satchel.cli.vectors;"
        "import satchel.recall.near_duplicates, satchel.inference.static_table;"
        "print('numpy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_the_license_of_the_table_is_beside_it() -> None:
    """The license requires it."""
    text = (static_table._FILE.parent / "LICENSE-wordllama.txt").read_text()
    assert "MIT License" in text
    assert "Lee Miller" in text
