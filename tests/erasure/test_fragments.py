"""Fragments of erased texts are found at any offset, in any encoding."""

import base64
import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from satchel.erasure.fragments import LEAST, LONG, Fragments, spoken

WORDS = "Ada Lovelace wrote the first programme, for an engine that was never built"
ANY = st.text(st.characters(exclude_categories=["Cs"]), min_size=LONG, max_size=200)


def fragments_of(*texts: str) -> Fragments:
    """Return the fragments of some texts."""
    found = Fragments()
    for text in texts:
        found.add_text(text)
    return found


def offsets_of(fragments: Fragments, data: bytes, size: int = 1 << 20) -> list[int]:
    """Return the offsets of fragments in bytes that are read in blocks."""
    return list(fragments.places_in(data[at : at + size] for at in range(0, len(data), size)))


@given(text=ANY, before=st.binary(max_size=64), after=st.binary(max_size=64), cut=st.integers(1, 9))
def test_a_text_is_found_at_any_offset_in_any_encoding(
    text: str, before: bytes, after: bytes, cut: int
) -> None:
    """As UTF-8, in JSON with and without escapes, in UTF-16 and base64, across block boundaries."""
    data = text.encode()
    fragments = fragments_of(text)
    forms = [data, json.dumps(text, ensure_ascii=False).encode(), json.dumps(text).encode()]
    forms += [text.encode("utf-16-le"), base64.b64encode(data)]
    for form in forms:
        whole = before + form + after
        assert offsets_of(fragments, whole, cut), form
        assert set(offsets_of(fragments, whole, cut)) == set(offsets_of(fragments, whole))


@given(text=ANY, at=st.integers(0, 200), length=st.integers(2 * LONG - 1, 200))
def test_any_31_bytes_of_a_text_are_found(text: str, at: int, length: int) -> None:
    """A database that splits a text keeps a part of it in each page."""
    data = text.encode()
    part = data[at : at + length]
    if len(part) >= 2 * LONG - 1:
        assert offsets_of(fragments_of(text), b"\1" * 7 + part + b"\2" * 7)


def test_an_absent_text_is_not_found() -> None:
    """In a mebibyte of noise, or in a text that differs in each word."""
    chance = random.Random(7)  # noqa: S311 - the same in every run
    assert offsets_of(fragments_of(WORDS), chance.randbytes(1 << 20)) == []
    assert offsets_of(fragments_of(WORDS), WORDS.replace("e", "3").encode() * 9) == []
    assert offsets_of(Fragments(), WORDS.encode()) == []


def test_short_texts_are_searched_whole_and_shorter_ones_are_counted() -> None:
    """A name of eleven bytes is found; a word of ten is not distinctive."""
    fragments = fragments_of("Ada Lovelac", "ten bytes!", "no")
    assert (fragments.texts, fragments.too_short) == (1, 2)
    assert len(b"Ada Lovelac") == LEAST
    for shift in range(8):
        assert offsets_of(fragments, b"-" * shift + b"Ada Lovelac") == [shift]


def test_texts_that_other_records_contain_are_not_searched_for() -> None:
    """Only the other fragments are remnants."""
    fragments = fragments_of("common words of everybody here", WORDS)
    fragments.drop(fragments.in_bytes(b"...common words of everybody here..."))
    assert offsets_of(fragments, b"common words of everybody here") == []
    assert offsets_of(fragments, WORDS.encode())


def test_attack_fragments_over_the_memory_limit_are_counted_not_stored() -> None:
    """Erasing a million texts must not exhaust memory; the omitted ones are reported."""
    fragments = Fragments(most=100)
    for number in range(1000):
        fragments.add_text(f"text {number:06} of very many that are all different")
    assert len(fragments) == 100
    assert fragments.left_out > 900
    assert offsets_of(fragments, b"text 000000 of very many that are all different")


def test_attack_a_text_of_many_megabytes_has_few_fragments() -> None:
    """One huge text must not displace all others."""
    fragments = fragments_of("".join(map(str, range(300_000))))
    assert 0 < len(fragments) < 100


@pytest.mark.parametrize(
    "value", ["2026-01-31T12:00:00.000000Z", "blake3:" + "0" * 64, "ab" * 32], ids=str
)
def test_times_and_digests_are_not_searched_for(value: str) -> None:
    """They legitimately stay in the log."""
    assert list(spoken({"text": value, "id": "x", "path": "a/b"})) == []
