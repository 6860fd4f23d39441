"""Many entries at once: nothing gets through together that is refused alone."""

from typing import Any

import msgspec
import pytest
import rfc8785
from blake3 import blake3
from hypothesis import example, given
from hypothesis import strategies as st

from satchel.crypto.canonical import DEFAULT_LIMITS, Limits, encode_sorted
from satchel.crypto.sealed_records import seal, verify_entries
from satchel.model.records import Semantic
from satchel.model.values import Origin

_NUMBERS = st.one_of(
    st.integers(-(2**53) + 1, 2**53 - 1),
    st.floats(allow_nan=False, allow_infinity=False, min_value=-9e15, max_value=9e15),
    st.sampled_from([0.0, -0.0, 1.0, 1e-5, 9.9e-6, 1e-6, 1e-7, 5e-324]),
)
_TEXTS = st.one_of(st.text(max_size=6), st.sampled_from(["\U0001f600", "\ue000", '"id":"x"']))
_JSON: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), _NUMBERS, _TEXTS),
    lambda parts: st.one_of(
        st.lists(parts, max_size=3), st.dictionaries(_TEXTS, parts, max_size=3)
    ),
    max_leaves=8,
)
_UNIT = st.one_of(st.none(), st.sampled_from([0.0, 1e-7, 1e-5, 0.5, 1.0]))
_TIME = "2026-03-01T09:30:00.000001Z"


def _proved(*lines: bytes, limits: Limits = DEFAULT_LIMITS) -> list[int]:
    """Return the places of the lines that are proved together."""
    found = verify_entries("semantic", list(lines), b"\n".join(lines) + b"\n", limits)
    return [place for _, _, place in found.proved]


def _hash(data: bytes) -> str:
    return f"blake3:{blake3(data).hexdigest()}"


def _with_own_id(line: bytes, identity: str) -> bytes:
    """Return other bytes of a record under the id that these bytes would have."""
    rest = line.replace(b'"id":"%b",' % identity.encode(), b"", 1)
    return line.replace(identity.encode(), _hash(rest).encode(), 1)


@given(_JSON, _UNIT, st.sampled_from(["metadata", "origin"]))
@example({"\U0001f600": 1, "\uffff": 2}, None, "metadata")
@example(1e-6, 1.0, "origin")
def test_only_canonical_bytes_are_verified_together(
    value: Any, unit: float | None, where: str
) -> None:
    """For all values: what msgspec writes in its own way is left to the careful reader."""
    draft = Semantic(
        text="x",
        metadata={"a": value} if where == "metadata" else {},
        data=value,
        salience=unit,
        origin=Origin(provider="p", as_written={"b": value}) if where == "origin" else None,
    )
    record = seal(draft)
    assert record.body == rfc8785.dumps(record.value)
    line = _with_own_id(encode_sorted(record.model), record.id)
    if _proved(line):
        assert line == rfc8785.dumps(msgspec.json.decode(line))


def test_an_id_inside_the_data_does_not_stand_for_the_entrys_own() -> None:
    """Attack: the hash of the rest is in ``data``, before an id that is made up."""
    made_up = "blake3:" + "0" * 64
    draft: Any = {
        "data": {"z": 1},
        "id": made_up,
        "nonce": "0" * 32,
        "text": "x",
        "type": "semantic",
    }
    rest = rfc8785.dumps(draft)
    inner = b'"data":{"id":"%b",' % _hash(rest).encode()
    assert _proved(rest.replace(b'"data":{', inner)) == []


def test_a_common_record_has_a_short_proof() -> None:
    """Were it not, everything would still work, three times slower."""
    entry = Semantic(text="x", created_at=_TIME, salience=0.5, tags=("a",), metadata={"n": 1})
    assert _proved(seal(entry).body) == [0]


def test_odd_entries_are_left_to_the_careful_way() -> None:
    """Another id, shape, section, order or spelling, and a bound that is reached."""
    good = seal(Semantic(text="x", tags=("a", "b"), created_at=_TIME)).body
    assert _proved(good) == [0]
    assert _proved(good.replace(b'"x"', b'"y"')) == []
    assert _proved(good.replace(b"semantic", b"episodic")) == []
    assert _proved(good.replace(b'"x"', b'"x","new":1')) == []
    assert _proved(good.replace(b'":"', b'": "', 1)) == []
    assert _proved(good, limits=Limits(tags=1)) == []
    assert _proved(good, limits=Limits(entry_bytes=100)) == []
    assert _proved(b"", b"[" * 100_000, good) == [2]


@pytest.mark.parametrize("wrong", ["2026-02-30T", "2026-03-01t", "0000-03-01T", "2026-W09-1T"])
def test_a_wrong_time_among_right_ones_is_seen(wrong: str) -> None:
    """The whole batch then goes the careful way, which names the line."""
    record = seal(Semantic(text="x", created_at=_TIME))
    odd = _with_own_id(record.body.replace(b"2026-03-01T", wrong.encode()), record.id)
    assert _proved(record.body, odd, record.body) == []


def test_a_nonce_of_upper_case_among_right_ones_is_seen() -> None:
    """As a wrong time is."""
    record = seal(Semantic(text="x"))
    nonce = str(record.value["nonce"])
    odd = _with_own_id(record.body.replace(nonce.encode(), b"A" + nonce[1:].encode()), record.id)
    assert _proved(record.body, odd, record.body) == []
