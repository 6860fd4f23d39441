"""The value domain: what is no JSON is refused, never turned into something else."""

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


class Text(str):
    """A text that could say something else when asked again."""

    __slots__ = ()


class Number(enum.IntEnum):
    """An integer with a name."""

    ONE = 1


class Pair(NamedTuple):
    """A tuple with names."""

    left: int
    right: int


NO_JSON: list[Any] = [
    (1, 2),
    Pair(1, 2),
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
    Number.ONE,
    Text("text"),
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
    {Text("k"): "x"},
    {"\ud800": "x"},
    {(1, 2): "x"},
    {True: "x"},
]


def _names(values: list[Any]) -> list[str]:
    """Give names that are the same in every process; a repr may hold an address."""
    return [f"{number}-{type(value).__name__}" for number, value in enumerate(values)]


@pytest.mark.parametrize("value", NO_JSON, ids=_names(NO_JSON))
def test_a_value_that_is_no_json_is_refused_with_its_place(value: Any) -> None:
    """Nothing is coerced: the error points at the part, in user data however deep."""
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


@pytest.mark.parametrize("value", NO_JSON[:35], ids=_names(NO_JSON[:35]))
def test_a_member_of_any_json_takes_no_tuple_in_user_data(value: Any) -> None:
    """``data`` is the user's: what is inside a list there is looked at by exact type."""
    with pytest.raises(ValueRefusedError) as caught:
        plain(Semantic(data={"inside": [value]}))
    assert (caught.value.field or "").startswith("data/inside/0")


def test_the_models_own_tuples_and_structs_are_lists_and_objects() -> None:
    """Only user data is looked at by exact type; the model may hold its own kinds."""
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


def test_empty_members_are_omitted_at_the_top_and_kept_inside() -> None:
    """At the top an empty member says nothing; inside user data nothing is left out."""
    inside: Any = {"none": None, "list": [], "object": {}, "text": "", "no": False, "zero": 0}
    assert plain(Semantic(metadata=inside, data=None, text=None, tags=(), origin=Origin())) == {
        "type": "semantic",
        "metadata": inside,
    }
    assert plain(Semantic(text=""))["text"] == ""
    assert plain(Semantic(data=False))["data"] is False
    assert plain(Semantic(data=0))["data"] == 0


def test_the_numbers_of_a_vector_are_checked_too() -> None:
    """An embedding from a library may hold NaN; it is refused like any other."""
    target = "blake3:" + "0" * 64
    draft = Embedding(target=target, model="m", dimensions=2, vector=(0.5, float("nan")))
    with pytest.raises(ValueRefusedError):
        plain(draft)


@given(st.integers(-MAX_INTEGER, MAX_INTEGER))
def test_an_integral_float_becomes_the_integer_with_the_same_text(number: int) -> None:
    """One number, one canonical text, whichever way the program held it."""
    found = check_value(float(number))
    assert type(found) is int
    assert found == number
    assert canonical(float(number)) == canonical(number)


def test_booleans_stay_booleans() -> None:
    """A Boolean is an int to Python and never to us."""
    assert check_value({"a": [True, False]}) == {"a": [True, False]}
    assert canonical([True, 1, 1.0]) == b"[true,1,1]"


@pytest.mark.parametrize("make", [list, dict], ids=["list", "object"])
def test_a_value_that_holds_itself_is_refused(make: Callable[[], Any]) -> None:
    """A cycle has no end and no canonical form."""
    value = make()
    if isinstance(value, list):
        value.append(value)
    else:
        value["self"] = value
    with pytest.raises(ValueRefusedError, match="nesting"):
        canonical(value)
