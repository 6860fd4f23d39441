"""Many records sealed at once are those that are sealed one by one."""

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from traps_kit import LOOK_PLAIN, PLACES, TRAPS

from satchel.conformance import strategies
from satchel.crypto import sealed_records
from satchel.crypto.sealed_records import Nonces, Sealed, seal, seal_many, seeded_nonces
from satchel.errors import SatchelError, ValueRefusedError
from satchel.model.records import Entry, Model, Semantic, Status
from satchel.model.values import Origin, Scope

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


def _singly(drafts: list[Any]) -> Iterator[Sealed]:
    nonces = _nonces()
    return (seal(draft, nonces=nonces) for draft in drafts)


def _outcome(records: Iterator[Sealed]) -> list[Sealed | str]:
    found: list[Sealed | str] = []
    try:
        found.extend(records)
    except SatchelError as error:
        found.append(str(error))
    return found


@given(st.lists(strategies.entries(), max_size=40))
def test_the_records_are_those_that_are_made_one_by_one(drafts: list[Entry]) -> None:
    """For all entries, of several components: the same bytes in the same order."""
    assert _outcome(seal_many(drafts, nonces=_nonces())) == _outcome(_singly(drafts))


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("trap", range(len(TRAPS)))
def test_what_an_encoder_changes_in_silence_is_seen_among_many(place: str, trap: int) -> None:
    """NaN, dates, tuples, odd numbers, empty members: as one by one, the ones before included."""
    drafts = [*_ORDINARY[:12], PLACES[place](TRAPS[trap]), *_ORDINARY[12:]]
    found = _outcome(seal_many(drafts, nonces=_nonces()))
    expected = _outcome(_singly(drafts))
    if isinstance(TRAPS[trap], LOOK_PLAIN) and found != expected:
        plain = [*_ORDINARY[:12], PLACES[place](TRAPS[trap]), *_ORDINARY[12:]]
        assert [record.value for record in found if isinstance(record, Sealed)] == [
            record.value for record in seal_many(plain, nonces=_nonces())
        ]
        return
    assert found == expected


def test_the_memories_of_everyday_are_sealed_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the quick way could be left for good without anybody noticing."""
    expected = list(_singly(_ORDINARY))
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
def test_only_the_odd_ones_are_sealed_by_themselves(
    odd: Semantic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty list, or a 1.0, in one memory does not make the others slow."""
    drafts = [*_ORDINARY, odd]
    expected = list(_singly(drafts))
    asked = itertools.count()

    def counted(draft: Entry, **more: Any) -> Sealed:
        next(asked)
        return seal(draft, **more)

    monkeypatch.setattr(sealed_records, "seal", counted)
    assert list(seal_many(drafts, nonces=_nonces())) == expected
    assert next(asked) == 1


def test_records_that_are_no_entries_are_sealed_among_them() -> None:
    """In their places, with nonces in the order of all."""
    status = Status(target="blake3:" + "0" * 64, state="deleted")
    drafts: list[Model] = [status, *_ORDINARY, status]
    assert list(seal_many(drafts, nonces=_nonces())) == list(_singly(drafts))


def test_an_entry_that_has_its_nonce_keeps_it() -> None:
    """Sealing again what was sealed gives the same record."""
    (first,) = seal_many(_ORDINARY[:1], nonces=_nonces())
    again = list(seal_many([first.model, *_ORDINARY[1:]], nonces=_nonces()))
    assert again[0] == first


@pytest.mark.parametrize("nonce", ["", "00", "G" * 32, "A" * 32, "0" * 30 + " 0", "0" * 34])
def test_a_nonce_that_is_none_is_not_sealed_among_many(nonce: str) -> None:
    """A source of nonces that is not ours is not believed."""
    with pytest.raises(ValueRefusedError, match="nonce"):
        list(seal_many(_ORDINARY, nonces=lambda: nonce))


def test_items_before_a_refused_one_are_returned() -> None:
    """So whoever asked knows which one it was."""
    drafts = [*_ORDINARY[:15], Semantic(text="x" * 2**20), *_ORDINARY[15:]]
    found = _outcome(seal_many(drafts, nonces=_nonces()))
    assert found[:-1] == list(_singly(drafts[:15]))
    assert "over the limit" in str(found[-1])
