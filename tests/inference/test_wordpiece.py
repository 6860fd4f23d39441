"""The pieces that texts are cut into for networks of BERT's family: those of their authors."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx_kit import VOCABULARY

from satchel.errors import InferenceError
from satchel.inference.onnx import UNCASED, WordPieces, read_tokenizer, read_vocabulary

_FILE = Path(__file__).parent.parent / "data" / "inference" / "wordpieces.json"
_SAMPLES = json.loads(_FILE.read_text("utf-8"))["samples"]


@pytest.fixture(scope="module")
def uncased() -> WordPieces:
    """The vocabulary that comes along."""
    return read_vocabulary(UNCASED)


@pytest.mark.parametrize("sample", _SAMPLES, ids=lambda sample: ascii(sample["text"][:20]))
def test_a_text_is_cut_as_the_tokenizer_of_the_model_cuts_it(
    uncased: WordPieces, sample: dict[str, Any]
) -> None:
    """Other pieces would have other vectors."""
    assert uncased(sample["text"], 1000) == sample["pieces"]


def test_a_text_cannot_name_pieces_that_only_a_program_may_use(uncased: WordPieces) -> None:
    """Attack: what looks like the end of a text is a word in brackets."""
    found = set(uncased("[CLS] [SEP] [MASK] [PAD] tea", 100))

    assert found.isdisjoint({0, 100, 101, 102, 103})


@settings(max_examples=50, deadline=None)
@given(st.text(max_size=80), st.integers(0, 30))
def test_every_text_is_cut_and_no_further_than_asked(text: str, most: int) -> None:
    """Whatever it holds; the first pieces are the same however many are asked for."""
    pieces = WordPieces({name: at for at, name in enumerate(VOCABULARY)})

    assert pieces(text, most) == pieces(text, 1000)[:most]


@pytest.mark.parametrize("text", ["q" * 500_000, "\U0001f600" * 200_000, "\ud800", "a\x00b"])
def test_a_text_that_is_made_to_be_slow_or_broken_is_cut(uncased: WordPieces, text: str) -> None:
    """Attack: endless words, and halves of characters."""
    assert len(uncased(text, 8)) <= 8


def test_a_tokenizer_of_the_same_vocabulary_cuts_alike_and_keeps_capitals(tmp_path: Path) -> None:
    """In the form of today's exports; one that keeps capitals knows other words."""
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
    ids=["unigram", "bpe", "without pieces that programs use", "no normalizer", "list", "text"],
)
def test_a_tokenizer_of_another_kind_is_refused_by_name(
    tmp_path: Path, told: object, message: str
) -> None:
    """Rather than vectors of other words."""
    file = tmp_path / "tokenizer.json"
    file.write_text(json.dumps(told), "utf-8")

    with pytest.raises(InferenceError, match=message) as caught:
        read_tokenizer(file)
    assert "tokenizer.json" in str(caught.value)


def test_numbers_out_of_range_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    """What a network is asked for has to be a row that it can have."""
    file = tmp_path / "tokenizer.json"
    numbers = {name: at for at, name in enumerate(VOCABULARY)} | {"tea": 1 << 40}
    told = {"model": {"vocab": numbers}, "normalizer": {"type": "BertNormalizer"}}
    file.write_text(json.dumps(told), "utf-8")
    for read, name in ((read_tokenizer, "tokenizer.json"), (read_vocabulary, "vocab.txt")):
        with pytest.raises(InferenceError, match=r"vocabulary|cannot be read"):
            read(tmp_path / name)
