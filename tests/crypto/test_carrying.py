"""The reversible form: what JSON memory cannot hold travels, and comes back as it was."""

import base64
import json
import math
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from satchel.crypto.canonical import (
    canonical,
    check_value,
    decode_canonical,
    decode_foreign,
    encode_foreign,
)
from satchel.errors import ValueRefusedError

keys = st.text(max_size=4) | st.sampled_from(
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
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            keys.filter(lambda key: all(not 0xD800 <= ord(char) < 0xE000 for char in key)),
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


@given(values)
@example({"$int": "5"})
@example({"$int": "5", "$$int": 2**70, "$": {"$bytes": b"x"}})
@example([float("nan"), -math.inf, 2**53, 1e300, -(10**30), b""])
def test_every_foreign_value_survives_the_canonical_form(value: Any) -> None:
    """For all values: carried, sealed as canonical bytes, read and restored, they are the same."""
    carried = encode_foreign(value)
    assert check_value(carried) == carried
    assert same(value, decode_foreign(decode_canonical(canonical(carried))))


def test_a_foreign_object_that_looks_carried_stays_an_object() -> None:
    """A real key that starts with ``$`` is never taken for ours."""
    foreign = {"$int": "5"}
    assert encode_foreign(foreign) == {"$$int": "5"}
    assert decode_foreign(encode_foreign(foreign)) == foreign
    assert decode_foreign(encode_foreign(encode_foreign(foreign))) == encode_foreign(foreign)


def test_a_value_that_needs_no_other_form_is_unchanged() -> None:
    """What JSON memory can hold is carried as itself."""
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
def test_a_carried_form_that_carry_never_makes_is_refused(form: dict[str, Any]) -> None:
    """A sealed file from elsewhere cannot smuggle another spelling through the writer."""
    with pytest.raises(ValueRefusedError):
        decode_foreign({"a": [form]})


def test_an_integer_too_long_to_print_is_refused_with_a_typed_error() -> None:
    """Python refuses to print more than 4,300 digits; that is an error of ours, not a crash."""
    with pytest.raises(ValueRefusedError):
        encode_foreign({"n": 10**5000})


def test_bytes_are_carried_as_padded_base64() -> None:
    """The one text of some bytes."""
    assert encode_foreign(bytearray(b"\xff\xfe")) == {
        "$bytes": base64.b64encode(b"\xff\xfe").decode()
    }
