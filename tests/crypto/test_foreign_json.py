"""Values of foreign JSON: batch reading, and the reversible form of values outside the domain."""

import base64
import io
import itertools
import json
import math
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from satchel.crypto import json_reader
from satchel.crypto.canonical import (
    canonical,
    check_value,
    decode_canonical,
    decode_foreign,
    encode_foreign,
)
from satchel.crypto.json_reader import ForeignReader, JsonReader, ordinary_values
from satchel.errors import SatchelError, ValueRefusedError

_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5) | st.sampled_from(
    ['"', '":', "}, {", "\\", '":1,"', " :", "$int", "},{", '"\n:']
)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=8,
)
_ROWS = st.lists(
    st.dictionaries(st.sampled_from(["id", "memory", "nested"]), _VALUES, max_size=3) | _VALUES,
    max_size=12,
)
_STYLES: list[dict[str, Any]] = [
    {},
    {"indent": 1},
    {"separators": (",", ":")},
    {"separators": (" ,\n", " :")},
    {"separators": (",", "\t\n:"), "ensure_ascii": False},
]

Found = tuple[list[Any], list[int], str | None]


def _one_by_one(data: bytes) -> Found:
    """Return the elements, the lines on which they start, and the error if one was raised."""
    values: list[Any] = []
    lines: list[int] = []
    reader = JsonReader(io.BytesIO(data), "f.json", carrying=True)
    try:
        for _ in reader.elements():
            reader.peek()
            lines.append(reader.line)
            values.append(reader.value())
        reader.end()
    except SatchelError as error:
        return values, lines[: len(values)], repr(error)
    return values, lines, None


def _in_batches(data: bytes, monkeypatch: pytest.MonkeyPatch, window: int) -> Found:
    values: list[Any] = []
    lines: list[int] = []
    monkeypatch.setattr(json_reader, "_MOST", window)
    monkeypatch.setattr(json_reader, "_LEAST", min(window, 16))
    monkeypatch.setattr(json_reader, "_FEW", 1)
    reader = ForeignReader(io.BytesIO(data), "f.json")
    try:
        for value in reader.values():
            values.append(value)
            lines.append(reader.value_line)
        reader.end()
    except SatchelError as error:
        return values, lines, repr(error)
    return values, lines, None


@given(_ROWS, st.sampled_from(_STYLES), st.sampled_from([16, 64, 300, 1 << 17]))
@example([{"a": 1}] * 9, {}, 64)
@example([{"a": 1}, {"a": 1.0}, {"a": 2**53}, {"$int": "1"}] * 4, {}, 300)
def test_batch_reading_equals_reading_one_by_one(
    rows: list[Any], style: dict[str, Any], window: int
) -> None:
    """For all arrays in all styles: the same values, on the same lines, or the same error."""
    data = json.dumps(rows, **style).encode()
    with pytest.MonkeyPatch.context() as patch:
        assert repr(_in_batches(data, patch, window)) == repr(_one_by_one(data))


_GOOD = ['{"a": 1, "b": ["x", {"c": 0.5}]}'] * 20


@pytest.mark.parametrize(
    "odd",
    [
        '{"a": 1, "a": 2}',
        '{"a": {"b": 1, "b": 1}}',
        '{"a": 1, "a" : 2, "b" : "\\": "}',
        '{"a": 1, "a": 2, "b"\n:3}',
        '{"a": 1, "\\u0061": 2}',
        '{"a": NaN}',
        '{"a": -Infinity}',
        '{"a": 1e400}',
        '{"a": 9007199254740993}',
        '{"a":\t-9007199254740993}',
        '{"a": [1, 12345678901234567890]}',
        '{"a": 1e16}',
        '{"$int": "5"}',
        '{"\\u0024int": "5"}',
        '{"a": "\\ud800"}',
        '{"a": "\x01"}',
        '{"a": 01}',
        '{"a": 1,}',
        '{"a": 1}}',
        '{"a": "' + "[" * 100 + '"}',
        '{"a": ' + "[" * 64 + "]" * 64 + "}",
        '{"a": ' + "[" * 62 + "]" * 62 + "}",
        '{"a": ' + "[" * 5000 + "]" * 5000 + "}",
        "7",
        "{",
        '"x"',
        "[1]",
        "",
    ],
    ids=itertools.count(),
)
@pytest.mark.parametrize("place", [1, 10, 19])
def test_unusual_rows_in_a_batch_are_refused_or_encoded(
    odd: str, place: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Duplicate keys, NaN, large numbers, lone surrogates: reported on the right line."""
    rows = [*_GOOD[:place], odd, *_GOOD[place:]]
    data = ("[\n" + ",\n".join(rows) + "\n]").encode()
    expected = _one_by_one(data)
    for window in (64, 200, 1 << 17):
        assert repr(_in_batches(data, monkeypatch, window)) == repr(expected)


def test_ordinary_rows_are_read_in_batches() -> None:
    """Otherwise the fast path could be lost without a failing test."""
    found = ordinary_values(",\n".join([*_GOOD, '{"price": "5 $", "at": "12:30 : now", "n": 1.0}']))
    assert found is not None
    assert found[-1] == {"price": "5 $", "at": "12:30 : now", "n": 1}
    reader = ForeignReader(io.BytesIO(("[" + ", ".join(_GOOD) + "]").encode()), "f.json")
    rows = reader.values()
    assert next(rows) == next(rows) == {"a": 1, "b": ["x", {"c": 0.5}]}
    # The first shows how they are parted, and after the last there is something else.
    assert reader._several.count('"a"') == len(_GOOD) - 2


foreign_keys = st.text(max_size=4) | st.sampled_from(
    ["$int", "$$int", "$float", "$bytes", "$", "$$", "$absent", "$$$int", "int"]
)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**80), 2**80)
    | st.floats()
    | st.binary(max_size=8)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
)
foreign_values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            foreign_keys.filter(lambda key: all(not 0xD800 <= ord(char) < 0xE000 for char in key)),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)


def same(left: Any, right: Any) -> bool:
    """Compare with NaN equal to itself and numbers by value."""
    if isinstance(left, float) and math.isnan(left):
        return isinstance(right, float) and math.isnan(right)
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[k], right[k]) for k in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, bool | bytes | str) or left is None:
        return type(left) is type(right) and left == right
    return isinstance(right, int | float) and not isinstance(right, bool) and left == right


@given(foreign_values)
@example({"$int": "5"})
@example({"$int": "5", "$$int": 2**70, "$": {"$bytes": b"x"}})
@example([float("nan"), -math.inf, 2**53, 1e300, -(10**30), b""])
def test_every_foreign_value_round_trips_through_the_canonical_form(value: Any) -> None:
    """For all values: encoded, written as canonical bytes, read and decoded, they are equal."""
    carried = encode_foreign(value)
    assert check_value(carried) == carried
    assert same(value, decode_foreign(decode_canonical(canonical(carried))))


def test_a_foreign_object_that_looks_encoded_stays_an_object() -> None:
    """A foreign key that starts with ``$`` is never taken for an encoded value."""
    foreign = {"$int": "5"}
    assert encode_foreign(foreign) == {"$$int": "5"}
    assert decode_foreign(encode_foreign(foreign)) == foreign
    assert decode_foreign(encode_foreign(encode_foreign(foreign))) == encode_foreign(foreign)


def test_a_value_in_the_json_domain_is_not_encoded() -> None:
    """What JSON memory can contain is encoded as itself."""
    value: Any = {"a": [1, 2.5, None, True, "$int", {"b": {}}]}
    assert encode_foreign(value) == value


@pytest.mark.parametrize(
    "form",
    [
        {"$int": "1_000"},
        {"$int": " 5"},
        {"$int": "+5"},
        {"$int": "\u0665"},
        {"$int": 5},
        {"$int": ""},
        {"$int": "1e5"},
        {"$int": True},
        {"$int": None},
        {"$int": "9" * 5000},
        {"$float": "x"},
        {"$float": "infinity"},
        {"$float": "1_0.5"},
        {"$float": " 1e400"},
        {"$float": 1.5},
        {"$bytes": "!"},
        {"$bytes": "YQ"},
        {"$bytes": "YR=="},
        {"$bytes": " YQ=="},
        {"$bytes": ["YQ=="]},
    ],
    ids=json.dumps,
)
def test_an_encoded_form_that_the_encoder_never_writes_is_refused(form: dict[str, Any]) -> None:
    """A sealed file cannot smuggle another spelling through the writer."""
    with pytest.raises(ValueRefusedError):
        decode_foreign({"a": [form]})


def test_an_integer_too_long_to_print_is_refused_with_a_typed_error() -> None:
    """Python refuses to print more than 4,300 digits; that raises a typed error."""
    with pytest.raises(ValueRefusedError):
        encode_foreign({"n": 10**5000})


def test_bytes_are_encoded_as_padded_base64() -> None:
    """There is one spelling of a byte string."""
    assert encode_foreign(bytearray(b"\xff\xfe")) == {
        "$bytes": base64.b64encode(b"\xff\xfe").decode()
    }
