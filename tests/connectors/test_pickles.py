"""Untrusted pickles are read as data; a pickle that does more is refused."""

import datetime as dt
import decimal
import pickle
import struct
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from satchel.connectors._qdrant import as_json, key_of, pickled
from satchel.errors import InputError, LimitError, MalformedError
from satchel.formats._pickles import unpickled

_ENDLESS = 100_000


class _Calling:
    """Calls a function when it is unpickled."""

    def __init__(self, *what: Any) -> None:
        self._what = what

    def __reduce__(self) -> Any:
        return self._what


def _refused(data: bytes) -> InputError:
    with pytest.raises(InputError) as refusal:
        as_json(unpickled(data))
    return refusal.value


@pytest.mark.parametrize(
    "call",
    [
        (eval, ("1/0",)),
        (exec, ("raise SystemExit",)),
        (getattr, ("", "join")),
        (__import__, ("os",)),
        (Path, ("gone",)),
    ],
    ids=lambda call: call[0].__name__,
)
@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_attack_a_pickle_that_calls_a_function_is_refused_by_name(
    call: tuple[Any, Any], protocol: int
) -> None:
    """The function is not run."""
    found = _refused(pickle.dumps({"data": _Calling(*call)}, protocol))
    assert call[0].__name__ in found.message
    assert "is not data" in found.message


def test_attack_os_system_is_not_run(tmp_path: Path) -> None:
    """In place of a memory."""
    witness = tmp_path / "ran"
    data = b"cos\nsystem\n(X" + struct.pack("<I", len(f"touch {witness}"))
    data += f"touch {witness}".encode() + b"tR."
    assert "os.system" in _refused(data).message
    assert not witness.exists()


@pytest.mark.parametrize(
    "operation", [b"i", b"o", b"Q", b"P", b"\x82", b"\x83", b"\x84", b"\x92", b"\x97", b"0", b"I"]
)
def test_attack_operations_beyond_plain_data_are_refused(operation: bytes) -> None:
    """Persistent IDs, extensions, old instances, buffers."""
    assert "does more than contain data" in _refused(b"\x80\x04" + operation + b"....").message


def test_attack_a_large_memo_index_allocates_nothing() -> None:
    """Python's unpickler allocates a list of that length: 16 GB for six bytes."""
    assert unpickled(b"\x80\x02K\x01r\xff\xff\xff\x7f.") == 1


@pytest.mark.parametrize(
    "size", [b"X\xff\xff\xff\x7f", b"\x8d" + b"\xff" * 8, b"B\xff\xff\xff\xff"]
)
def test_attack_a_length_beyond_the_end_is_refused(size: bytes) -> None:
    """Before memory is allocated."""
    assert isinstance(_refused(b"\x80\x04" + size + b"a."), MalformedError)


def test_attack_shared_references_are_bounded() -> None:
    """A billion laughs: each level refers to the one below ten times."""
    data = b"\x80\x04]\x94"
    for level in range(30):
        data += b"](" + b"h%c" % level * 10 + b"e\x94"
    assert isinstance(_refused(data + b"."), LimitError)


def test_attack_a_cyclic_list_is_refused() -> None:
    """JSON cannot represent it."""
    assert isinstance(_refused(b"\x80\x04]\x94h\x00a."), LimitError)


def test_attack_deep_nesting_is_refused() -> None:
    """Without reaching the recursion limit of Python."""
    assert isinstance(_refused(b"]" * _ENDLESS + b"a" * (_ENDLESS - 1) + b"."), LimitError)


@pytest.mark.parametrize("end", [b"K\x01s.", b"}s."])
def test_attack_deeply_nested_tuples_are_refused_as_keys(end: bytes) -> None:
    """Their hash would overflow the stack."""
    deep = b"}" + b")" + b"\x85" * _ENDLESS
    assert isinstance(_refused(deep + end), MalformedError)
    assert isinstance(_refused(b"\x8f(" + deep[1:] + b"\x90."), MalformedError)


@pytest.mark.parametrize(
    "value",
    [{"a": [1, 2.5, None, True, "x" * 300, b"y", 2**80, -5, 70_000]}, [1.5] * 40, "", "\U0001f680"],
    ids=["all", "vector", "empty", "rocket"],
)
@pytest.mark.parametrize("protocol", [3, 4, 5])
def test_a_truncated_pickle_is_refused(value: Any, protocol: int) -> None:
    """At every byte."""
    data = pickle.dumps(value, protocol)
    for end in range(len(data)):
        _refused(data[:end])


@given(st.binary(max_size=200))
def test_any_bytes_give_a_value_or_a_typed_error(data: bytes) -> None:
    """Up to 200 random bytes."""
    with suppress(InputError):
        as_json(unpickled(data))


_PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**100), 2**100)
    | st.floats(allow_nan=False)
    | st.text(max_size=300)
    | st.binary(max_size=300),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(_PLAIN, st.sampled_from([3, 4, 5]))
def test_plain_values_are_read_as_python_writes_them(value: Any, protocol: int) -> None:
    """With the same types."""
    assert repr(unpickled(pickle.dumps(value, protocol))) == repr(value)


@given(_PLAIN)
def test_plain_values_are_written_as_python_reads_them(value: Any) -> None:
    """By Python's unpickler and by ours."""
    assert repr(pickle.loads(pickled(value))) == repr(value)  # noqa: S301 - our own bytes
    assert repr(unpickled(pickled(value))) == repr(value)


@given(st.integers(0, 2**64 - 1) | st.uuids().map(str))
def test_keys_equal_those_of_qdrant(identity: int | str) -> None:
    """Byte for byte; otherwise a point would exist twice."""
    assert key_of(identity) == pickle.dumps(identity, 4)


def test_python_values_outside_json_are_converted_like_qdrant() -> None:
    """Times, UUIDs, decimals, tuples and sets in metadata."""
    moment = dt.datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=dt.UTC)
    name = uuid.uuid4()
    value = {
        "moment": moment,
        "day": moment.date(),
        "hour": moment.time(),
        "span": dt.timedelta(seconds=1.5),
        "name": name,
        "price": decimal.Decimal("1.50"),
        "pair": (1, 2),
        "set": {1},
        5: "five",
        None: 0,
        True: 1,
    }
    assert as_json(unpickled(pickle.dumps(value, 4))) == {
        "moment": "2026-01-02T03:04:05.000006+00:00",
        "day": "2026-01-02",
        "hour": "03:04:05.000006",
        "span": 1.5,
        "name": str(name),
        "price": "1.50",
        "pair": [1, 2],
        "set": [1],
        "5": "five",
        "None": 0,
        "true": 1,
    }
