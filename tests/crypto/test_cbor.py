"""Deterministic CBOR: one item for each value, everything else is refused."""

import io
import json
from typing import Any

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from satchel.crypto.canonical import MAX_INTEGER, check_value
from satchel.crypto.cbor import CborReader, array_head, encode, map_head
from satchel.errors import MalformedError, SatchelError, UnreadableError, ValueRefusedError

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
numbers = st.integers(-MAX_INTEGER, MAX_INTEGER) | st.floats(
    allow_nan=False, allow_infinity=False
).filter(lambda value: not value.is_integer() or abs(value) <= MAX_INTEGER)
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


def reader(data: bytes) -> CborReader:
    """Return a reader of ``data``."""
    return CborReader(io.BytesIO(data), "f.cbor", again=io.BytesIO(data))


def whole(data: bytes) -> Any:
    """Read one item as one value."""
    found = reader(data)
    value = found.value()
    found.end()
    return value


def members(data: bytes) -> dict[str, Any]:
    """Read a map member by member."""
    found = reader(data)
    value = {key: found.value() for key in found.members()}
    found.end()
    return value


def elements(data: bytes) -> list[Any]:
    """Read an array element by element."""
    found = reader(data)
    value = [found.value() for _ in found.elements()]
    found.end()
    return value


@given(values)
def test_every_value_round_trips_as_one_item(value: Any) -> None:
    """For all values, writing and reading give the same value and the same bytes."""
    data = encode(check_value(value))
    assert whole(data) == value
    assert encode(whole(data)) == data


@given(st.dictionaries(texts, values, max_size=30), st.lists(values, max_size=30))
def test_reading_a_stream_in_parts_equals_reading_it_whole(
    object_: dict[str, Any], list_: list[Any]
) -> None:
    """A stream of members or elements is the same value in the same bytes."""
    assert members(encode(check_value(object_))) == object_
    assert elements(encode(check_value(list_))) == list_


@given(st.binary(max_size=24))
def test_any_bytes_are_a_value_or_a_typed_error_in_cbor(data: bytes) -> None:
    """A value that is read has exactly one spelling: the one that was read."""
    for read in (whole, members, elements):
        try:
            value = read(data)
        except MalformedError:
            continue
        assert encode(value) == data


@given(values, st.data())
def test_an_edited_item_is_refused_or_a_different_value(value: Any, data: st.DataObject) -> None:
    """No edit gives a second spelling of the same value."""
    good = encode(check_value(value))
    place = data.draw(st.integers(0, len(good) - 1))
    edited = good[:place] + data.draw(st.binary(max_size=2)) + good[place + 1 :]
    try:
        read = whole(edited)
    except MalformedError:
        return
    assert encode(read) == edited


@pytest.mark.parametrize("count", [0, 1, 23, 24, 255, 256, 65535, 65536, 2**32 - 1, 2**32])
def test_lengths_are_written_in_the_shortest_form(count: int) -> None:
    """The heads that a stream writes are those of a whole writer."""
    first = cbor2.dumps(count, canonical=True)
    assert array_head(count) == bytes([first[0] | 0x80]) + first[1:]
    assert map_head(count) == bytes([first[0] | 0xA0]) + first[1:]


def test_a_length_beyond_64_bits_is_refused() -> None:
    """CBOR has no head for it."""
    with pytest.raises(ValueRefusedError):
        array_head(2**64)


REFUSED = {
    "a byte string": "4161",
    "an empty byte string": "40",
    "the value undefined": "f7",
    "a tag on text": "c06161",
    "an unknown tag": "d8ff00",
    "a shared reference": "d81c81d81d00",
    "the self-describing tag": "d9d9f700",
    "a bignum": "c249010000000000000000",
    "a decimal fraction": "c48221196ab3",
    "an integer key": "a10102",
    "a byte string key": "a1416101",
    "a duplicate key": "a2616101616102",
    "keys out of order": "a2616201616102",
    "keys in text order": "a262616101616202",
    "a long integer head": "1817",
    "a long text head": "780161",
    "a long float": "fb3ff8000000000000",
    "an integral float": "f93c00",
    "minus zero": "f98000",
    "not a number": "f97e00",
    "infinity": "f97c00",
    "an indefinite list": "9f01ff",
    "an indefinite map": "bf616101ff",
    "an indefinite text": "7f6161ff",
    "a simple value": "e0",
    "two to the 53": "1b0020000000000000",
    "invalid UTF-8": "61ff",
    "a surrogate": "63eda080",
    "a truncated item": "8201",
    "a length without items": "9a3b9aca00",
    "a text of maximum length": "7bffffffffffffffff",
    "a reserved head": "1c",
    "no data": "",
    "two items": "0101",
    "a byte string in a map": "a161614161",
}


@pytest.mark.parametrize("read", [whole, members, elements])
@pytest.mark.parametrize("item", REFUSED.values(), ids=REFUSED.keys())
def test_cbor_that_is_not_deterministic_is_refused(read: Any, item: str) -> None:
    """Bytes, tags, other lengths, other orders: each bypassed the checks of the reference."""
    for data in (bytes.fromhex(item), bytes.fromhex("81" + item), bytes.fromhex("a16178" + item)):
        with pytest.raises(MalformedError) as caught:
            read(data)
        assert caught.value.file == "f.cbor"
        assert caught.value.byte is not None


def test_a_list_that_contains_itself_is_refused_in_cbor() -> None:
    """A shared reference made 350 bytes take twenty minutes in another reader."""
    bomb = bytes.fromhex("d81c") + bytes.fromhex("82d81d00d81d00")
    with pytest.raises(MalformedError):
        whole(bomb)


@pytest.mark.parametrize("head", ["81", "a16161"])
def test_nesting_of_a_hundred_thousand_levels_is_refused_in_cbor(head: str) -> None:
    """Deep nesting does not exhaust the stack."""
    with pytest.raises(MalformedError):
        whole(bytes.fromhex(head) * 100_000)
    with pytest.raises(MalformedError):
        whole(bytes.fromhex(head) * 100_000 + b"\x00")


def test_a_cbor_value_has_at_most_64_levels() -> None:
    """The same depth as in JSON, also inside a stream."""
    item = b"\x81" * 63 + b"\x80"
    assert json.dumps(whole(item)) == "[" * 64 + "]" * 64
    assert elements(b"\x81" + item) == [whole(item)]
    with pytest.raises(MalformedError):
        whole(b"\x81" + item)
    with pytest.raises(MalformedError):
        elements(b"\x81\x81" + item)


class FailingStream(io.RawIOBase):
    """A stream whose reads fail."""

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the start position."""
        return 0

    def read(self, size: int = -1) -> bytes:
        """Raise an error of the disk."""
        raise OSError(5, "Input/output error")


def test_a_disk_error_is_a_typed_error_in_cbor() -> None:
    """The message of the system is in an error of Satchel's own class."""
    with pytest.raises(UnreadableError):
        CborReader(FailingStream(), "f.cbor").value()  # type: ignore[arg-type]
    assert issubclass(UnreadableError, SatchelError)
