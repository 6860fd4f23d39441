"""Sealing drafts: the fast path and the batch equal sealing each record with the slow path."""

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from traps_kit import LOOK_PLAIN, PLACES, TRAPS

from satchel.conformance import strategies
from satchel.crypto import sealed_records
from satchel.crypto.canonical import DEFAULT_LIMITS
from satchel.crypto.sealed_records import Nonces, Sealed, seal, seal_many, seeded_nonces
from satchel.errors import SatchelError, ValueRefusedError
from satchel.model.records import Entry, Episodic, Model, Semantic, Status, Working
from satchel.model.values import Entity, Evidence, Origin, Scope, TrustClass

_NONCE = "0123456789abcdef" * 2


def _sealed_fast(draft: Entry) -> Sealed | None:
    return sealed_records._sealed_quickly(draft, _NONCE, DEFAULT_LIMITS)


def _sealed_slowly(draft: Entry) -> Sealed | str:
    try:
        return sealed_records._sealed_carefully(draft, _NONCE, None, DEFAULT_LIMITS)
    except SatchelError as error:
        return str(error)


@given(strategies.entries())
def test_fast_sealing_equals_slow_sealing(entry: Entry) -> None:
    """For all entries."""
    record = _sealed_fast(entry)
    assert record is None or record == _sealed_slowly(entry)


@pytest.mark.parametrize("place", PLACES)
def test_values_that_an_encoder_would_change_are_not_sealed_on_the_fast_path(place: str) -> None:
    """NaN, dates, tuples, subclasses, odd numbers, empty members: the slow path decides."""
    for trap in TRAPS:
        draft = PLACES[place](trap)
        record = _sealed_fast(draft)
        assert record is None or record == _sealed_slowly(draft), trap


@pytest.mark.parametrize("levels", range(55, 70))
def test_both_sealing_paths_have_the_same_depth_limit(levels: int) -> None:
    """Nesting around the limit of 64 levels."""
    value: Any = "x"
    for _ in range(levels):
        value = {"a": value}
    draft = Semantic(text="x", metadata=value)
    record = _sealed_fast(draft)
    assert record is None or record == _sealed_slowly(draft)


def test_ordinary_memories_are_sealed_on_the_fast_path() -> None:
    """Otherwise the fast path could be lost without a failing test."""
    everyday = Semantic(
        text="Prefers window seats",
        created_at="2026-03-01T09:30:00.414003Z",
        tags=("travel", "seats"),
        metadata={"nested": {"turn": 3, "score": 0.46, "list": ["家", None, True]}},
        confidence=0.9,
        entities=(Entity(name="Ada", aliases=("A.",)),),
        scope=Scope(user="ada"),
        sources=(Evidence(kind="message", id="m1"),),
        origin=Origin(provider="mem0", id="1", trust=TrustClass.IMPORTED, as_written={"a": 1}),
    )
    for draft in (
        everyday,
        Episodic(event_type="outcome", context={"a": "b"}),
        Working(goals=("x", {"a": 1})),
    ):
        assert _sealed_fast(draft) == _sealed_slowly(draft)


@pytest.mark.parametrize("nonce", ["", "00", "G" * 32, "A" * 32, "0" * 30 + " 0", "0" * 34])
def test_an_invalid_nonce_is_refused(nonce: str) -> None:
    """The output of a custom nonce source is checked."""
    with pytest.raises(SatchelError, match="nonce"):
        sealed_records.seal(Semantic(text="x"), nonces=lambda: nonce)


_ORDINARY = [
    Semantic(
        text=f"memory {number}",
        created_at="2026-03-01T09:30:00.414003Z",
        metadata={"turn": number, "score": 0.25} if number % 3 else {},
        scope=Scope(user="ada"),
        origin=Origin(provider="mem0", id=str(number)),
    )
    for number in range(20)
]


def _nonces() -> Nonces:
    return seeded_nonces(b"many at once")


def _sealed_one_by_one(drafts: list[Any]) -> Iterator[Sealed]:
    nonces = _nonces()
    return (seal(draft, nonces=nonces) for draft in drafts)


def _records_and_error(records: Iterator[Sealed]) -> list[Sealed | str]:
    found: list[Sealed | str] = []
    try:
        found.extend(records)
    except SatchelError as error:
        found.append(str(error))
    return found


@given(st.lists(strategies.entries(), max_size=40))
def test_batch_sealing_equals_sealing_one_by_one(drafts: list[Entry]) -> None:
    """For all entries, of several types: the same bytes in the same order."""
    assert _records_and_error(seal_many(drafts, nonces=_nonces())) == _records_and_error(
        _sealed_one_by_one(drafts)
    )


@pytest.mark.parametrize("place", PLACES)
def test_values_that_an_encoder_would_change_are_detected_in_a_batch(place: str) -> None:
    """NaN, dates, tuples, odd numbers, empty members: as one by one, preceding records included."""
    for trap in TRAPS:
        drafts = [*_ORDINARY[:12], PLACES[place](trap), *_ORDINARY[12:]]
        found = _records_and_error(seal_many(drafts, nonces=_nonces()))
        expected = _records_and_error(_sealed_one_by_one(drafts))
        if isinstance(trap, LOOK_PLAIN) and found != expected:
            plain = [*_ORDINARY[:12], PLACES[place](trap), *_ORDINARY[12:]]
            assert [record.value for record in found if isinstance(record, Sealed)] == [
                record.value for record in seal_many(plain, nonces=_nonces())
            ], trap
        else:
            assert found == expected, trap


def test_ordinary_memories_are_sealed_in_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the fast path could be lost without a failing test."""
    expected = list(_sealed_one_by_one(_ORDINARY))
    monkeypatch.setattr(sealed_records, "seal", None)
    assert list(seal_many(_ORDINARY, nonces=_nonces())) == expected


@pytest.mark.parametrize(
    "odd",
    [
        Semantic(text="x", origin=Origin(as_written={"categories": []})),
        Semantic(text="x", metadata={"score": 1.0}),
        Semantic(text="x", metadata={"scores": [0.5, {"zero": 0.0}]}),
        Semantic(text="x", metadata={"tiny": 1e-9}),
        Semantic(text="x", salience=1.0),
        Semantic(text="x", confidence=0.0),
    ],
    ids=repr,
)
def test_only_unusual_memories_of_a_batch_are_sealed_one_by_one(
    odd: Semantic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty list, or a 1.0, in one memory does not slow down the others."""
    drafts = [*_ORDINARY, odd]
    expected = list(_sealed_one_by_one(drafts))
    asked = itertools.count()

    def counted(draft: Entry, **more: Any) -> Sealed:
        next(asked)
        return seal(draft, **more)

    monkeypatch.setattr(sealed_records, "seal", counted)
    assert list(seal_many(drafts, nonces=_nonces())) == expected
    assert next(asked) == 1


def test_records_that_are_not_entries_are_sealed_in_order() -> None:
    """At their positions, with nonces in the order of all records."""
    status = Status(target="blake3:" + "0" * 64, state="deleted")
    drafts: list[Model] = [status, *_ORDINARY, status]
    assert list(seal_many(drafts, nonces=_nonces())) == list(_sealed_one_by_one(drafts))


def test_an_entry_with_a_nonce_keeps_its_nonce() -> None:
    """Sealing a sealed record again gives the same record."""
    (first,) = seal_many(_ORDINARY[:1], nonces=_nonces())
    again = list(seal_many([first.model, *_ORDINARY[1:]], nonces=_nonces()))
    assert again[0] == first


@pytest.mark.parametrize("nonce", ["", "00", "G" * 32, "A" * 32, "0" * 30 + " 0", "0" * 34])
def test_an_invalid_nonce_is_refused_in_a_batch(nonce: str) -> None:
    """The output of a custom nonce source is checked."""
    with pytest.raises(ValueRefusedError, match="nonce"):
        list(seal_many(_ORDINARY, nonces=lambda: nonce))


def test_records_before_a_refused_draft_are_returned() -> None:
    """The caller can tell which draft was refused."""
    drafts = [*_ORDINARY[:15], Semantic(text="x" * 2**20), *_ORDINARY[15:]]
    found = _records_and_error(seal_many(drafts, nonces=_nonces()))
    assert found[:-1] == list(_sealed_one_by_one(drafts[:15]))
    assert "over the limit" in str(found[-1])
