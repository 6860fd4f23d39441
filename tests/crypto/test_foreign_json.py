"""Reading many values at once gives what reading them one by one gives, or is not done."""

import io
import itertools
import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from satchel.crypto import json_reader
from satchel.crypto.json_reader import ForeignReader, JsonReader, ordinary_values
from satchel.errors import SatchelError

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
    """Return the elements, the lines on which they start, and the error if one was met."""
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


def _many(data: bytes, monkeypatch: pytest.MonkeyPatch, window: int) -> Found:
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
def test_batches_equal_single_items(rows: list[Any], style: dict[str, Any], window: int) -> None:
    """For all arrays, however written: the same values, on the same lines, or the same error."""
    data = json.dumps(rows, **style).encode()
    with pytest.MonkeyPatch.context() as patch:
        assert repr(_many(data, patch, window)) == repr(_one_by_one(data))


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
def test_what_is_odd_among_ordinary_rows_is_read_with_care(
    odd: str, place: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key twice, NaN, large numbers, lone surrogates: refused or carried, on the right line."""
    rows = [*_GOOD[:place], odd, *_GOOD[place:]]
    data = ("[\n" + ",\n".join(rows) + "\n]").encode()
    expected = _one_by_one(data)
    for window in (64, 200, 1 << 17):
        assert repr(_many(data, monkeypatch, window)) == repr(expected)


def test_ordinary_rows_are_read_in_batches() -> None:
    """Otherwise the quick way could be left for good without anybody noticing."""
    found = ordinary_values(",\n".join([*_GOOD, '{"price": "5 $", "at": "12:30 : now", "n": 1.0}']))
    assert found is not None
    assert found[-1] == {"price": "5 $", "at": "12:30 : now", "n": 1}
    reader = ForeignReader(io.BytesIO(("[" + ", ".join(_GOOD) + "]").encode()), "f.json")
    rows = reader.values()
    assert next(rows) == next(rows) == {"a": 1, "b": ["x", {"c": 0.5}]}
    # The first shows how they are parted, and after the last there is something else.
    assert reader._several.count('"a"') == len(_GOOD) - 2
