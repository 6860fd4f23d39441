"""The streaming JSON reader: the same values as any parser, and nothing that is not JSON."""

import io
import json
import math
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from satchel.crypto import json_reader
from satchel.crypto.canonical import MAX_INTEGER, check_value, decode_foreign
from satchel.crypto.json_reader import JsonReader
from satchel.errors import LimitError, MalformedError, SatchelError, UnreadableError

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
numbers = st.integers(-MAX_INTEGER, MAX_INTEGER) | st.floats(
    allow_nan=False, allow_infinity=False
).filter(lambda value: not value.is_integer() or abs(value) <= MAX_INTEGER)
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=10,
)


def reader(data: bytes, *, carrying: bool = False, item_bytes: int = 1 << 24) -> JsonReader:
    """Return a reader of ``data``."""
    return JsonReader(io.BytesIO(data), "f.json", carrying=carrying, item_bytes=item_bytes)


def whole(data: bytes, *, carrying: bool = False) -> Any:
    """Read one document as one value."""
    found = reader(data, carrying=carrying)
    value = found.value()
    found.end()
    return value


def streamed(data: bytes, *, carrying: bool = False) -> Any:
    """Read one document member by member, two levels deep."""
    found = reader(data, carrying=carrying)
    value = _level(found, 2)
    found.end()
    return value


def _level(found: JsonReader, levels: int) -> Any:
    if levels and found.peek() == "{":
        return {key: _level(found, levels - 1) for key in found.members()}
    if levels and found.peek() == "[":
        return [_level(found, levels - 1) for _ in found.elements()]
    return found.value()


@pytest.fixture
def chunk(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Set how many bytes are read at a time."""

    def size(number: int) -> None:
        monkeypatch.setattr(json_reader, "_CHUNK", number)

    return size


def read_in_all_chunk_sizes(data: bytes, expected: Any) -> None:
    """Read ``data`` with every small buffer, whole and as a stream."""
    kept = json_reader._CHUNK
    try:
        for size in (1, 2, 3, 5, 7, 11, 64):
            json_reader._CHUNK = size
            assert whole(data) == expected
            assert streamed(data) == expected
    finally:
        json_reader._CHUNK = kept


@given(values, st.integers(0, 1), st.sampled_from([None, 1]))
@example([12345, -1.5, 1e-7, 100, 0.25, [1.5e-10, -2e-8]], 0, None)
@example({"a": 1.5e-7, "b": -12, "c": [True, None, 3]}, 1, 1)
def test_reading_in_chunks_equals_reading_the_whole(
    value: Any, ascii_only: int, indent: int | None
) -> None:
    """For all documents and all buffer boundaries, the value is that of json.loads."""
    data = json.dumps(value, ensure_ascii=bool(ascii_only), indent=indent).encode()
    read_in_all_chunk_sizes(data, json.loads(data))


@pytest.mark.parametrize(
    "text",
    ["[1.5,25e2,1E+3,-0.5e-3,1e-10,12]", '{"a":1.25,"b":1e2,"c":-7}', "[0.1 , 1e1\n]", "3.25e2"],
)
def test_a_number_cut_at_the_end_of_the_buffer_is_read_whole(text: str) -> None:
    """``1e`` at the boundary is the start of ``1e5``, not a 1 and a stray letter."""
    read_in_all_chunk_sizes(text.encode(), json.loads(text))


def test_a_large_fraction_cut_before_its_point_is_not_refused() -> None:
    """Twenty digits at the boundary may continue as a fraction."""
    text = b"[" + b" " * 40 + b"0.00012345678901234567890e-3, 12345678901234567890e-19]"
    kept = json_reader._CHUNK
    try:
        for size in range(32, 90):
            json_reader._CHUNK = size
            assert streamed(text) == whole(text) == json.loads(text)
    finally:
        json_reader._CHUNK = kept


@pytest.mark.parametrize("read", [whole, streamed])
@pytest.mark.parametrize(
    "text",
    [
        '{"a":1,"a":2}',
        '{"a":1,"\\u0061":2}',
        '{"x":{"a":1,"a":2}}',
        '[{"a":[{"b":{"c":1,"c":1}}]}]',
        '{"":1,"":2}',
    ],
)
def test_a_duplicate_key_is_refused_at_every_level(read: Any, text: str) -> None:
    """Of two values under one key, one would be signed and the other be shown."""
    with pytest.raises(MalformedError, match="twice"):
        read(text.encode())


@pytest.mark.parametrize("read", [whole, streamed])
@pytest.mark.parametrize(
    "text",
    [
        "NaN",
        "[NaN]",
        '{"a":-Infinity}',
        "1e400",
        "[-1e400]",
        "9007199254740992",
        '{"a":9007199254740992.0}',
        "[1e16]",
        "[" + "9" * 5000 + "]",
        "[" + "9" * 5000 + ".5]",
        "01",
        "[1,]",
        '{"a":1,}',
        "[1 2]",
        "{1:2}",
        "'a'",
        "tru",
        "[tru",
        '"abc',
        '"\n"',
        '"\\x41"',
        "[1",
        '{"a"',
        '{"a":',
        '{"a" 1}',
        "{}{}",
        "[] 1",
        "",
        " ",
        "]",
        '"\\ud800"',
        '{"\\udc00":1}',
        '["\\udc00\\ud800"]',
        "\u00a0[]",
        "\ufeff{}",
        "[1],",
    ],
)
def test_data_that_is_not_strict_json_is_refused_with_its_line(read: Any, text: str) -> None:
    """Never a repaired value or another kind of error, and the file is named."""
    with pytest.raises(MalformedError) as caught:
        read(b"\n\n" * (text != "\ufeff{}") + text.encode())
    assert caught.value.file == "f.json"
    assert caught.value.line is not None


@pytest.mark.parametrize("opening", [b"[", b'{"a":'], ids=["lists", "objects"])
@pytest.mark.parametrize("carrying", [0, 1])
def test_a_hundred_thousand_levels_are_refused_by_the_json_reader(
    opening: bytes, carrying: int
) -> None:
    """Deep nesting does not exhaust the stack, closed or not."""
    closing = b"]" if opening == b"[" else b"}"
    for data in (opening * 100_000, opening * 100_000 + b"1" + closing * 100_000):
        with pytest.raises(MalformedError):
            whole(data, carrying=bool(carrying))
        with pytest.raises(MalformedError):
            streamed(data, carrying=bool(carrying))


def test_the_error_for_a_duplicate_key_has_its_line_and_key() -> None:
    """The position can be found in the file."""
    text = '{"items": [\n{"a": 1},\n{"b": 1, "b": 2}\n]}'
    with pytest.raises(MalformedError) as caught:
        streamed(text.encode())
    assert caught.value.line == 3
    assert caught.value.field == "b"


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 6, 7, 8, 100])
@pytest.mark.parametrize(
    ("data", "place"),
    [
        (b'"abc\xff"', 4),
        (b'"ab\xe3\x81"', 3),
        (b'["\xe3\x81\x82", "\xf0\x9f\x98"]', 9),
        (b'"abc\xed\xa0\x80"', 4),
        (b'"abcdef\xe3', 7),
    ],
)
def test_invalid_utf8_is_refused_with_its_byte_offset(
    data: bytes, place: int, size: int, chunk: Any
) -> None:
    """The offset of the first invalid byte, wherever the buffer ended."""
    chunk(size)
    with pytest.raises(MalformedError, match="UTF-8") as caught:
        whole(data)
    assert caught.value.byte == place


def test_a_value_over_the_limit_is_refused_before_it_is_read_into_memory() -> None:
    """Each value is limited; their number is not."""
    data = b'["' + b"x" * 2_000_000 + b'"]'
    with pytest.raises(LimitError):
        list(read_all(reader(data, item_bytes=1000)))
    endless = reader(b'["' + b"x" * 2_000_000, item_bytes=1000)
    with pytest.raises(LimitError):
        list(read_all(endless))
    many = b"[" + b",".join([b'"0123456789"'] * 1000) + b"]"
    assert len(list(read_all(reader(many, item_bytes=100)))) == 1000


def read_all(found: JsonReader) -> Iterator[Any]:
    """Read an array element by element."""
    for _ in found.elements():
        yield found.value()


def test_numbers_of_foreign_files_outside_the_domain_are_encoded() -> None:
    """An import does not round: they take the reversible form."""
    text = "[NaN, -Infinity, 1e400, 9007199254740993, 1e16, 9007199254740992.0, 1.0, 0.5]"
    value = whole(text.encode(), carrying=True)
    check_value(value)
    assert value[2:] == [
        {"$float": "1e400"},
        {"$int": "9007199254740993"},
        {"$float": "1e16"},
        {"$float": "9007199254740992.0"},
        1,
        0.5,
    ]
    restored = decode_foreign(value)
    assert math.isnan(restored[0])
    assert restored[1:] == [-math.inf, math.inf, 9007199254740993, 1e16, 2.0**53, 1, 0.5]


@pytest.mark.parametrize("read", [whole, streamed])
@pytest.mark.parametrize("key", ['"$int"', '"\\u0024int"', '"$\\u0069nt"'])
def test_a_foreign_key_that_looks_encoded_is_escaped_in_every_spelling(read: Any, key: str) -> None:
    """A provider's own ``$int`` never becomes a number when it is exported."""
    document = f'[[{{"a": {{{key}: "5"}}, "n": 9007199254740993}}]]'
    value = read(document.encode(), carrying=True)
    assert value == [[{"a": {"$$int": "5"}, "n": {"$int": "9007199254740993"}}]]
    assert decode_foreign(value) == json.loads(document)


@given(
    st.recursive(
        st.integers() | st.floats() | texts,
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["$int", "$$int", "a", "$"]), inner, max_size=3)
        ),
        max_leaves=6,
    )
)
def test_every_foreign_document_round_trips_through_the_reversible_form(value: Any) -> None:
    """For all documents, encoding and decoding equals json.loads."""
    text = json.dumps(value)
    carried = whole(text.encode(), carrying=True)
    check_value(carried)
    assert repr(numbers_as_floats(decode_foreign(carried))) == repr(
        numbers_as_floats(json.loads(text))
    )


def numbers_as_floats(value: Any) -> Any:
    """Convert integral floats: that they were written as floats is not preserved."""
    if isinstance(value, dict):
        return {key: numbers_as_floats(part) for key, part in value.items()}
    if isinstance(value, list):
        return [numbers_as_floats(part) for part in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def test_one_byte_order_mark_at_the_start_of_a_foreign_file_is_skipped() -> None:
    """Some editors write one; a second one is refused."""
    assert whole(b"\xef\xbb\xbf{}", carrying=True) == {}
    with pytest.raises(MalformedError):
        whole(b"\xef\xbb\xbf\xef\xbb\xbf{}", carrying=True)


class FailingStream(io.RawIOBase):
    """A stream that fails after some bytes."""

    def read(self, size: int = -1) -> bytes:
        """Return some bytes, then raise an error of the disk."""
        raise OSError(5, "Input/output error")


def test_a_disk_error_is_a_typed_error_in_json() -> None:
    """The message of the system is in an error of Satchel's own class."""
    with pytest.raises(UnreadableError):
        JsonReader(FailingStream(), "f.json")  # type: ignore[arg-type]


@given(st.binary(max_size=40))
def test_any_bytes_are_a_value_or_a_typed_error_in_json(data: bytes) -> None:
    """The reader raises no other exception for any input."""
    for read in (whole, streamed):
        try:
            value = read(data)
        except SatchelError:
            continue
        assert value == json.loads(data)
