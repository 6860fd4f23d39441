"""Sealing in few steps gives what the careful way gives, and takes nothing that it refuses."""

from typing import Any

import pytest
from hypothesis import given
from traps_kit import PLACES, TRAPS

from satchel.conformance import strategies
from satchel.crypto import sealed_records
from satchel.crypto.canonical import DEFAULT_LIMITS
from satchel.crypto.sealed_records import Sealed
from satchel.errors import SatchelError
from satchel.model.records import Entry, Episodic, Semantic, Working
from satchel.model.values import Entity, Evidence, Origin, Scope, TrustClass

_NONCE = "0123456789abcdef" * 2


def _quickly(draft: Entry) -> Sealed | None:
    return sealed_records._sealed_quickly(draft, _NONCE, DEFAULT_LIMITS)


def _carefully(draft: Entry) -> Sealed | str:
    try:
        return sealed_records._sealed_carefully(draft, _NONCE, None, DEFAULT_LIMITS)
    except SatchelError as error:
        return str(error)


@given(strategies.entries())
def test_both_encodings_give_the_same_bytes(entry: Entry) -> None:
    """For all entries: what is sealed in few steps is what the careful way makes."""
    record = _quickly(entry)
    assert record is None or record == _carefully(entry)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("trap", range(len(TRAPS)))
def test_what_an_encoder_changes_in_silence_is_not_sealed_in_few_steps(
    place: str, trap: int
) -> None:
    """NaN, dates, tuples, subclasses, odd numbers, empty members: as the careful way has it."""
    draft = PLACES[place](TRAPS[trap])
    record = _quickly(draft)
    assert record is None or record == _carefully(draft)


@pytest.mark.parametrize("levels", range(55, 70))
def test_nesting_up_to_the_bound_is_sealed_and_no_deeper(levels: int) -> None:
    """The two ways do not disagree about depth."""
    value: Any = "x"
    for _ in range(levels):
        value = {"a": value}
    draft = Semantic(text="x", metadata=value)
    record = _quickly(draft)
    assert record is None or record == _carefully(draft)


def test_the_memory_of_everyday_takes_few_steps() -> None:
    """Otherwise the quick way could be left for good without anybody noticing."""
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
        assert _quickly(draft) == _carefully(draft)


@pytest.mark.parametrize("nonce", ["", "00", "G" * 32, "A" * 32, "0" * 30 + " 0", "0" * 34])
def test_a_nonce_that_is_none_is_not_sealed(nonce: str) -> None:
    """A source of nonces that is not ours is not believed."""
    with pytest.raises(SatchelError, match="nonce"):
        sealed_records.seal(Semantic(text="x"), nonces=lambda: nonce)
