"""The value domain: what is not JSON is refused, never converted."""

import enum
import uuid
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from satchel.crypto.canonical import MAX_INTEGER, canonical, check_value, plain
from satchel.errors import ValueRefusedError
from satchel.model.records import Embedding, Semantic
from satchel.model.values import Entity, Origin, TrustClass


class TextSubclass(str):
    """A text that could change when it is read again."""

    __slots__ = ()


class IntegerSubclass(enum.IntEnum):
    """An integer with a name."""

    ONE = 1


class NamedTuplePair(NamedTuple):
    """A tuple with names."""

    left: int
    right: int


NO_JSON: list[Any] = [
    (1, 2),
    NamedTuplePair(1, 2),
    b"bytes",
    bytearray(b"bytes"),
    memoryview(b"bytes"),
    {1, 2},
    frozenset([1]),
    range(3),
    date(2025, 1, 2),
    datetime(2025, 1, 2, tzinfo=UTC),
    Decimal(1),
    Fraction(1, 2),
    uuid.UUID(int=1),
    TrustClass.USER,
    IntegerSubclass.ONE,
    TextSubclass("text"),
    1 + 2j,
    float("nan"),
    float("inf"),
    float("-inf"),
    MAX_INTEGER + 1,
    -MAX_INTEGER - 1,
    float(2**53),
    1e300,
    "\ud800",
    "a\udfffb",
    OrderedDict(a=1),
    defaultdict(list),
    Entity(name="x"),
    msgspec.UNSET,
    msgspec.Raw(b"1"),
    object(),
    PurePosixPath("x"),
    len,
    {1: "x"},
    {None: "x"},
    {b"k": "x"},
    {TextSubclass("k"): "x"},
    {"\ud800": "x"},
    {(1, 2): "x"},
    {True: "x"},
]


def _case_ids(values: list[Any]) -> list[str]:
    """Return names that are the same in every process; a repr may contain an address."""
    return [f"{number}-{type(value).__name__}" for number, value in enumerate(values)]


@pytest.mark.parametrize("value", NO_JSON, ids=_case_ids(NO_JSON))
def test_a_value_that_is_not_json_is_refused_with_its_path(value: Any) -> None:
    """Nothing is coerced: the error points at the part, at any depth of user data."""
    with pytest.raises(ValueRefusedError) as caught:
        canonical(value)
    top = caught.value.field
    with pytest.raises(ValueRefusedError) as caught:
        canonical({"a/b": [0, {"~": value}]})
    assert (caught.value.field or "").startswith("a~1b/1/~0")
    draft = Semantic(text="x", metadata={"list": [1, value]})
    with pytest.raises(ValueRefusedError) as caught:
        plain(draft)
    assert caught.value.field == "metadata/list/1" + (f"/{top}" if top else "")
    assert caught.value.exit_status == 4


@pytest.mark.parametrize("value", NO_JSON[:35], ids=_case_ids(NO_JSON[:35]))
def test_user_data_does_not_accept_tuples_and_other_subclasses(value: Any) -> None:
    """``data`` is the user's: inside lists the exact type is checked."""
    with pytest.raises(ValueRefusedError) as caught:
        plain(Semantic(data={"inside": [value]}))
    assert (caught.value.field or "").startswith("data/inside/0")


def test_tuples_and_structs_of_the_model_are_lists_and_objects() -> None:
    """Only user data is checked by exact type."""
    draft = Semantic(
        text="x",
        tags=("a", "b"),
        entities=(Entity(name="n", aliases=("m",)), Entity(name="o")),
        origin=Origin(provider="mem0", trust=TrustClass.USER),
        salience=1.0,
    )
    assert plain(draft) == {
        "type": "semantic",
        "text": "x",
        "tags": ["a", "b"],
        "entities": [{"name": "n", "aliases": ["m"]}, {"name": "o"}],
        "origin": {"provider": "mem0", "trust": "user"},
        "salience": 1,
    }
    assert type(plain(draft)["origin"]["trust"]) is str


def test_empty_members_are_omitted_at_the_top_and_preserved_inside() -> None:
    """At the top an empty member means absent; inside user data nothing is omitted."""
    inside: Any = {"none": None, "list": [], "object": {}, "text": "", "no": False, "zero": 0}
    assert plain(Semantic(metadata=inside, data=None, text=None, tags=(), origin=Origin())) == {
        "type": "semantic",
        "metadata": inside,
    }
    assert plain(Semantic(text=""))["text"] == ""
    assert plain(Semantic(data=False))["data"] is False
    assert plain(Semantic(data=0))["data"] == 0


def test_the_numbers_of_a_vector_are_checked() -> None:
    """An embedding from a library may contain NaN, which is refused."""
    target = "blake3:" + "0" * 64
    draft = Embedding(target=target, model="m", dimensions=2, vector=(0.5, float("nan")))
    with pytest.raises(ValueRefusedError):
        plain(draft)


@given(st.integers(-MAX_INTEGER, MAX_INTEGER))
def test_an_integral_float_becomes_the_integer_with_the_same_text(number: int) -> None:
    """A number has one canonical text, as int and as float."""
    found = check_value(float(number))
    assert type(found) is int
    assert found == number
    assert canonical(float(number)) == canonical(number)


def test_booleans_stay_booleans() -> None:
    """A bool is an int in Python, but never in a record."""
    assert check_value({"a": [True, False]}) == {"a": [True, False]}
    assert canonical([True, 1, 1.0]) == b"[true,1,1]"


@pytest.mark.parametrize("make", [list, dict], ids=["list", "object"])
def test_a_value_that_contains_itself_is_refused(make: Callable[[], Any]) -> None:
    """A cycle has no canonical form."""
    value = make()
    if isinstance(value, list):
        value.append(value)
    else:
        value["self"] = value
    with pytest.raises(ValueRefusedError, match="nesting"):
        canonical(value)
