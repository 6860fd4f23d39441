"""Canonical bytes: one spelling for each value, equal to that of an independent RFC 8785 writer."""

import json
import math
from typing import Any

import pytest
import rfc8785
from hypothesis import example, given
from hypothesis import strategies as st

from satchel.crypto import canonical as canonical_module
from satchel.crypto.canonical import MAX_DEPTH, MAX_INTEGER, canonical, decode_canonical
from satchel.errors import MalformedError, ValueRefusedError

EDGES = [1e-7, 1e-6, 1e-5, 9.7e-06, 1e-4, 0.1, 1.0, 1e15, 2.0**52, 2.0**53 - 1, 5e-324, 0.0, 2e-308]


@st.composite
def floats_near_notation_limits(draw: st.DrawFn) -> float:
    """Return a float a few steps from where writers change the notation of numbers."""
    value = draw(st.sampled_from(EDGES))
    for _ in range(draw(st.integers(0, 3))):
        value = math.nextafter(value, draw(st.sampled_from([-math.inf, math.inf])))
    return value * draw(st.sampled_from([1, -1]))


def is_in_value_domain(value: float) -> bool:
    """Return whether the value domain contains a finite float."""
    return not value.is_integer() or abs(value) <= MAX_INTEGER


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    ["", "\u0000\u001f\u007f", "\U0001f600", "\ufb33", "\uffff", "e\u0301", "blake3:1e5", '"\\/']
)
numbers = (
    st.integers(-MAX_INTEGER, MAX_INTEGER)
    | floats_near_notation_limits().filter(is_in_value_domain)
    | st.floats(allow_nan=False, allow_infinity=False).filter(is_in_value_domain)
)
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


@given(values)
@example({"\U0001f600": 1, "\ufb33": 2, "\uffff": 3, "z": 4})
@example(9.7e-06)
@example([1e-7, 1e-6, 9.999999999999999e-06, 1e-5, -0.0, 1.0])
@example({"a": {"\U00010000": 1e-7, "\ue000": [{"\U0001f600": 1, "\ufb33": 2}]}})
def test_canonical_bytes_equal_those_of_an_independent_writer(value: Any) -> None:
    """For all values of the domain, Satchel and the ``rfc8785`` package write the same bytes."""
    assert canonical(value) == rfc8785.dumps(value)


@given(values)
def test_canonical_bytes_round_trip(value: Any) -> None:
    """For all values, reading the canonical bytes and writing them again changes nothing."""
    data = canonical(value)
    assert canonical(decode_canonical(data)) == data
    assert json.loads(data) == value


@given(values, st.data())
def test_only_the_canonical_spelling_of_a_value_is_read(value: Any, data: st.DataObject) -> None:
    """Spaces, escapes, another order and another notation of numbers are refused."""
    spelled = json.dumps(
        value,
        indent=data.draw(st.sampled_from([None, 1])),
        ensure_ascii=data.draw(st.booleans()),
        separators=data.draw(st.sampled_from([(",", ":"), (", ", ":")])),
        sort_keys=data.draw(st.booleans()),
    ).encode()
    if spelled == canonical(value):
        assert canonical(decode_canonical(spelled)) == spelled
    else:
        with pytest.raises(MalformedError):
            decode_canonical(spelled)


@given(values, st.data())
def test_edited_canonical_bytes_are_refused_or_canonical_again(
    value: Any, data: st.DataObject
) -> None:
    """A value that is read has exactly one spelling: the one that was read."""
    good = canonical(value)
    place = data.draw(st.integers(0, len(good)))
    cut = data.draw(st.integers(0, 3))
    put = data.draw(
        st.sampled_from([b"", b"0", b"1", b"e5", b".0", b"-", b" ", b'"', b",", b"\xf0"])
    )
    edited = good[:place] + put + good[place + cut :]
    try:
        read = decode_canonical(edited)
    except MalformedError:
        return
    assert rfc8785.dumps(read) == edited


@pytest.mark.parametrize(
    "text",
    ["9007199254740992", "-9007199254740992", "9007199254740991.0", "1.0", "1e-6", "1E-7", "-0"],
)
@pytest.mark.parametrize("around", ["{}", "[{}]", '{{"a":{}}}', "[0,{}]"])
def test_a_number_in_another_notation_is_refused_at_any_position(text: str, around: str) -> None:
    """Two notations of a number would be two byte strings of one value."""
    with pytest.raises(MalformedError):
        decode_canonical(around.format(text).encode())


def slow_path_calls(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return a list that grows with each value that takes the slow path."""
    calls: list[Any] = []
    slow = canonical_module._slow

    def counted(value: Any) -> str:
        calls.append(value)
        return slow(value)

    monkeypatch.setattr(canonical_module, "_slow", counted)
    return calls


def test_a_record_full_of_hex_takes_the_fast_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Digits and ``e`` inside hashes are not numbers; they used to slow down 97 % of records."""
    calls = slow_path_calls(monkeypatch)
    for number in range(200):
        digits = f"{number}e{number}" + "1e5" * 20
        value = {"id": f"blake3:{digits}", "list": [digits, "1e9"], "1e-7": "2.5e7", "n": number}
        data = canonical(value)
        decode_canonical(data)
    assert not calls
    canonical({"n": 1e-7})
    assert calls


def test_text_beyond_the_bmp_takes_the_fast_path_unless_it_is_a_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An emoji in a text is common and does not affect the order of keys."""
    calls = slow_path_calls(monkeypatch)
    decode_canonical(canonical({"text": "\U0001f600", "tags": ["\U0001f9f3"]}))
    assert not calls
    decode_canonical(canonical({"\U0001f600": "text"}))
    assert calls


def nested(depth: int) -> Any:
    """Return lists and objects in turn, ``depth`` levels deep."""
    value: Any = []
    for level in range(depth - 1):
        value = [value] if level % 2 else {"a": value}
    return value


def test_nesting_is_bounded_for_writing_and_reading() -> None:
    """64 levels are accepted, 65 are refused, in both directions."""
    good = canonical(nested(MAX_DEPTH))
    assert canonical(decode_canonical(good)) == good
    with pytest.raises(ValueRefusedError, match="nesting"):
        canonical(nested(MAX_DEPTH + 1))
    with pytest.raises(MalformedError, match="nesting"):
        decode_canonical(b"[" * 65 + b"]" * 65)


def test_nesting_of_a_hundred_thousand_levels_raises_a_typed_error() -> None:
    """Deep nesting does not exhaust the stack."""
    for opening, closing in ((b"[", b"]"), (b'{"a":', b"}")):
        with pytest.raises(MalformedError):
            decode_canonical(opening * 100_000 + b"1" + closing * 100_000)
        with pytest.raises(MalformedError):
            decode_canonical(opening * 100_000)
    value: Any = []
    for _ in range(100_000):
        value = [value]
    with pytest.raises(ValueRefusedError, match="nesting"):
        canonical(value)


def test_levels_around_a_value_do_not_count_as_its_depth() -> None:
    """A container does not reduce the depth that the value may have."""
    held = b'{"statement":' + canonical(nested(MAX_DEPTH)) + b"}"
    assert decode_canonical(held, around=1)["statement"] == nested(MAX_DEPTH)
    with pytest.raises(MalformedError, match="nesting"):
        decode_canonical(held)
    with pytest.raises(MalformedError, match="nesting"):
        decode_canonical(b"[" + held + b"]", around=1)


@pytest.mark.parametrize(
    "data",
    [
        b'{"a":1,"a":1}',
        b'{"a":1,"a":2}',
        b'[{"x":{"a":1,"a":1}}]',
        b'"\\ud800"',
        b'"\xed\xa0\x80"',
        b"\xef\xbb\xbf{}",
        b"{}\n",
        b"{}{}",
        b"NaN",
        b"[1e400]",
        b"[123456789012345678901234567890]",
        b'{"\xff":1}',
        b"",
    ],
)
def test_bytes_that_are_not_strict_json_are_refused(data: bytes) -> None:
    """Duplicate keys, surrogates, marks, trailing bytes and huge numbers never become a value."""
    with pytest.raises(MalformedError):
        decode_canonical(data)
