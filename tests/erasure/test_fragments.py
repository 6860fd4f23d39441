"""Pieces of erased texts: found wherever they stand, however they are written and cut."""

import base64
import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from satchel.erasure.fragments import LEAST, LONG, Fragments, spoken

WORDS = "Ada Lovelace wrote the first programme, for an engine that was never built"
ANY = st.text(st.characters(exclude_categories=["Cs"]), min_size=LONG, max_size=200)


def looking_for(*texts: str) -> Fragments:
    """Return what looks for some texts."""
    found = Fragments()
    for text in texts:
        found.add_text(text)
    return found


def places(fragments: Fragments, data: bytes, size: int = 1 << 20) -> list[int]:
    """Return where pieces are in bytes that come some at a time."""
    return list(fragments.places_in(data[at : at + size] for at in range(0, len(data), size)))


@given(text=ANY, before=st.binary(max_size=64), after=st.binary(max_size=64), cut=st.integers(1, 9))
def test_a_text_is_found_wherever_it_stands(
    text: str, before: bytes, after: bytes, cut: int
) -> None:
    """As UTF-8, in JSON either way, in UTF-16 and base64, at any place, cut anywhere."""
    data = text.encode()
    fragments = looking_for(text)
    forms = [data, json.dumps(text, ensure_ascii=False).encode(), json.dumps(text).encode()]
    forms += [text.encode("utf-16-le"), base64.b64encode(data)]
    for form in forms:
        whole = before + form + after
        assert places(fragments, whole, cut), form
        assert set(places(fragments, whole, cut)) == set(places(fragments, whole))


@given(text=ANY, at=st.integers(0, 200), length=st.integers(2 * LONG - 1, 200))
def test_any_31_bytes_of_a_text_are_enough(text: str, at: int, length: int) -> None:
    """An engine that keeps a text in two places keeps a piece of it in one of them."""
    data = text.encode()
    part = data[at : at + length]
    if len(part) >= 2 * LONG - 1:
        assert places(looking_for(text), b"\1" * 7 + part + b"\2" * 7)


def test_what_is_not_there_is_not_found() -> None:
    """Nothing in a mebibyte of noise, nor in a text that differs in each word."""
    chance = random.Random(7)  # noqa: S311 - the same in every run
    assert places(looking_for(WORDS), chance.randbytes(1 << 20)) == []
    assert places(looking_for(WORDS), WORDS.replace("e", "3").encode() * 9) == []
    assert places(Fragments(), WORDS.encode()) == []


def test_short_texts_are_looked_for_as_a_whole_and_shorter_ones_are_counted() -> None:
    """A name of eleven bytes is found; a word of ten tells nothing."""
    fragments = looking_for("Ada Lovelac", "ten bytes!", "no")
    assert (fragments.texts, fragments.too_short) == (1, 2)
    assert len(b"Ada Lovelac") == LEAST
    for shift in range(8):
        assert places(fragments, b"-" * shift + b"Ada Lovelac") == [shift]


def test_what_something_else_says_is_not_looked_for_any_more() -> None:
    """Only what is left is a remnant."""
    fragments = looking_for("common words of everybody here", WORDS)
    fragments.drop(fragments.in_bytes(b"...common words of everybody here..."))
    assert places(fragments, b"common words of everybody here") == []
    assert places(fragments, WORDS.encode())


def test_more_pieces_than_memory_is_meant_for_are_counted_not_kept() -> None:
    """Attack: erasing a million texts takes the machine down. What is left out is told."""
    fragments = Fragments(most=100)
    for number in range(1000):
        fragments.add_text(f"text {number:06} of very many that are all different")
    assert len(fragments) == 100
    assert fragments.left_out > 900
    assert places(fragments, b"text 000000 of very many that are all different")


def test_a_text_of_many_megabytes_has_few_fragments() -> None:
    """Attack: one huge text crowds out all others."""
    fragments = looking_for("".join(map(str, range(300_000))))
    assert 0 < len(fragments) < 100


@pytest.mark.parametrize(
    "value", ["2026-01-31T12:00:00.000000Z", "blake3:" + "0" * 64, "ab" * 32], ids=str
)
def test_times_and_digests_are_no_texts(value: str) -> None:
    """They stand in the log by right."""
    assert list(spoken({"text": value, "id": "x", "path": "a/b"})) == []
