"""The embedder that is carried along: the same as its authors', from a smaller table."""

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
def loaded_anew() -> Iterator[None]:
    """Forget the table that is loaded, before and after."""
    static_table._bundled_table.cache_clear()
    yield
    static_table._bundled_table.cache_clear()


@pytest.mark.parametrize("sample", _PIECES, ids=lambda sample: sample["text"][:20])
def test_a_text_is_cut_as_the_authors_of_the_table_cut_it(sample: dict[str, Any]) -> None:
    """Other pieces would have other vectors."""
    assert StaticVocabulary()(sample["text"], 1000) == sample["pieces"]


def test_a_text_cannot_name_pieces_that_only_a_program_may_use() -> None:
    """Attack: what looks like the end of a text is four letters like others."""
    assert set(StaticVocabulary()("<s> </s> <unk> <0x00>", 100)).isdisjoint({0, 1, 2, 3})


def test_the_smaller_table_has_the_cosines_of_the_original() -> None:
    """Eight bits a number instead of sixteen move no cosine by more than 0.003."""
    kept = json.loads((_DATA / "cosines.json").read_text("utf-8"))
    found = matrix(StaticTable().embed(kept["texts"]))

    assert np.abs(found @ found.T - np.array(kept["cosines"])).max() < 0.003


@settings(max_examples=40, deadline=None)
@given(st.lists(st.text(max_size=40), max_size=12), st.integers(1, 5))
def test_what_comes_of_a_text_does_not_depend_on_those_beside_it(
    texts: list[str], size: int
) -> None:
    """However texts are put together, each has the same vector to the last bit."""
    model = StaticTable()
    parts = [texts[at : at + size] for at in range(0, len(texts), size)]

    assert [one for part in parts for one in model.embed(part)] == model.embed(texts)


def test_a_vector_has_length_1_and_that_of_nothing_is_zeros() -> None:
    """A text that says nothing is like no other, instead of an error or a guess."""
    found = matrix(StaticTable().embed(["Ada likes tea", "", " \n\t"]))

    assert found.shape == (3, DIMENSIONS)
    assert np.linalg.norm(found[0]) == pytest.approx(1)
    assert not found[1:].any()
    assert StaticTable().embed([]) == []


@settings(max_examples=40, deadline=None)
@given(st.lists(st.text(max_size=60), max_size=6))
def test_few_texts_get_the_same_vectors_without_numpy(texts: list[str]) -> None:
    """A short command does not load numpy; to the last bit it makes no difference."""
    plain, weighted = StaticTable(), WeightedTable()
    for model in (plain, weighted, weighted.knowing(weighted.learn([*texts, "tea and rain"]))):
        with pytest.MonkeyPatch.context() as patch:
            patch.delitem(sys.modules, "numpy")
            by_hand = model.embed(texts)
            assert "numpy" not in sys.modules
        assert by_hand == model.embed(texts)


def test_rare_words_count_for_more_where_a_bank_was_learned() -> None:
    """What every memory says tells them apart no more."""
    texts = [f"the weekly report says {word}" for word in ("tea", "rain", "brass", "owl", "sand")]
    plain, model = StaticTable(), WeightedTable()
    weighted = model.knowing(model.learn(texts))

    plainly, rarely = (matrix(one.embed(texts)) for one in (plain, weighted))
    assert (rarely @ rarely.T).mean() < (plainly @ plainly.T).mean() - 0.1
    assert weighted.embed(texts) == model.knowing(model.learn(iter(texts))).embed(texts)


@pytest.mark.parametrize("damage", [b"", b"x", b"\x78\x9c" + b"\0" * 40])
def test_damaged_knowledge_of_a_bank_is_refused(damage: bytes) -> None:
    """What stands beside the log is proved by nothing."""
    with pytest.raises(ValueError, match="damaged"):
        WeightedTable().knowing(damage)


def test_a_bomb_in_the_place_of_knowledge_is_not_unpacked() -> None:
    """Attack: a few bytes beside the log that become gigabytes."""
    with pytest.raises(ValueError, match="damaged"):
        WeightedTable().knowing(zlib.compress(b"\0" * 50_000_000))


@pytest.mark.parametrize(
    "text", ["q" * 3_000_000, "😀" * 500_000, "qx zj " * 500_000, "\ud800", "a\x00b"]
)
def test_a_text_that_is_made_to_be_slow_is_cut_off(text: str) -> None:
    """Attack: endless words, characters of many pieces, halves of characters."""
    [vector] = StaticTable().embed([text])

    assert len(StaticVocabulary()(text[:65_536], 100)) <= 100
    assert len(vector) == 4 * DIMENSIONS


@pytest.mark.usefixtures("loaded_anew")
def test_a_damaged_table_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Vectors of another table would be compared with those of the real one."""
    raw = bytearray(static_table._FILE.read_bytes())
    raw[5_000_000] ^= 1
    (tmp_path / "table.int8").write_bytes(raw)
    monkeypatch.setattr(static_table, "_FILE", tmp_path / "table.int8")

    with pytest.raises(InferenceError, match="damaged"):
        StaticTable()


@pytest.mark.usefixtures("loaded_anew")
def test_without_numpy_the_error_names_the_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a dependency, so the installation is damaged."""
    monkeypatch.setitem(sys.modules, "numpy", None)

    with pytest.raises(MissingExtraError) as caught:
        StaticTable()
    assert "Reinstall satchel." in str(caught.value)


def test_nothing_of_it_is_imported_before_it_is_needed() -> None:
    """The commands that need no vectors do not pay for numpy."""
    code = (
        "import sys, satchel.cli.imports, satchel.cli.vectors;"
        "import satchel.recall.near_duplicates, satchel.inference.static_table;"
        "print('numpy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_the_license_of_the_table_is_kept_beside_it() -> None:
    """It asks for that."""
    text = (static_table._FILE.parent / "LICENSE-wordllama.txt").read_text()
    assert "MIT License" in text
    assert "Lee Miller" in text
