"""Sealing in few steps gives what the careful way gives, and takes nothing that it refuses."""

import collections
import datetime as dt
import decimal
import enum
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given

from satchel.conformance import strategies
from satchel.errors import SatchelError
from satchel.memory.entries import Entry, Episodic, Procedural, Semantic, Working
from satchel.memory.parts import Entity, Evidence, Origin, Scope, TrustClass
from satchel.seal import sealing
from satchel.seal.limits import DEFAULT_LIMITS
from satchel.seal.records import Sealed

_NONCE = "0123456789abcdef" * 2


class _Number(enum.IntEnum):
    ONE = 1


class _Word(enum.StrEnum):
    ONE = "one"


class _Text(str):
    __slots__ = ()


class _Object(dict[str, Any]):
    pass


class _List(list[Any]):
    pass


def _quickly(draft: Entry) -> Sealed | None:
    return sealing._sealed_quickly(draft, _NONCE, DEFAULT_LIMITS)


def _carefully(draft: Entry) -> Sealed | str:
    try:
        return sealing._sealed_carefully(draft, _NONCE, None, DEFAULT_LIMITS)
    except SatchelError as error:
        return str(error)


@given(strategies.entries())
def test_both_ways_give_the_same_bytes(entry: Entry) -> None:
    """For all entries: what is sealed in few steps is what the careful way makes."""
    record = _quickly(entry)
    assert record is None or record == _carefully(entry)


_TRAPS: list[Any] = [
    *(float("nan"), float("inf"), -0.0, 0.0, 1.0, 1e-7, 1e-5, 1e15, 1e22, 0.5, 2.5),
    *(2**53 - 1, 2**53, -(2**53), 2**64, 2**70, True, None, "", "x", "\ud800", "\U0001f600"),
    *(b"x", bytearray(b"x"), (), (1,), [], {}, [[]], {"a": {}}, {1, 2}, object()),
    *(dt.datetime.now(dt.UTC), dt.date(2026, 1, 1), decimal.Decimal("1.5")),
    *(
        uuid.UUID(int=1),
        _Number.ONE,
        _Word.ONE,
        TrustClass.USER,
        _Text("x"),
        Scope(),
        Scope(user="x"),
    ),
    *(_Object(a=1), _List([1]), collections.OrderedDict(a=1), {1: 2}, {_Word.ONE: 1}),
    *({_Text("k"): 1}, {"\U0001f600": 1, "\uffff": 2}, {"\ud800": 1}, {None: 1}),
    *('"id":"' + sealing._STAND_IN + '",', {"id": sealing._STAND_IN[:-1] + "!", "z": 1}),
]
_PLACES: dict[str, Callable[[Any], Entry]] = {
    "metadata": lambda value: Semantic(text="x", metadata={"a": value}),
    "deep": lambda value: Semantic(text="x", metadata={"a": [{"b": [value]}]}),
    "data": lambda value: Semantic(data=value),
    "as_written": lambda value: Semantic(text="x", origin=Origin(as_written={"a": value})),
    "provider": lambda value: Semantic(text="x", origin=Origin(provider=value)),
    "trust": lambda value: Semantic(text="x", origin=Origin(trust=value)),
    "scope": lambda value: Semantic(text="x", scope=value),
    "user": lambda value: Semantic(text="x", scope=Scope(user=value)),
    "text": lambda value: Semantic(text=value),
    "kind": lambda value: Semantic(text="x", kind=value),
    "tags": lambda value: Semantic(text="x", tags=(value,)),
    "all tags": lambda value: Semantic(text="x", tags=value),
    "salience": lambda value: Semantic(text="x", salience=value),
    "confidence": lambda value: Semantic(text="x", confidence=value),
    "entity": lambda value: Semantic(text="x", entities=(Entity(name=value),)),
    "alias": lambda value: Semantic(text="x", entities=(Entity(name="x", aliases=(value,)),)),
    "entities": lambda value: Semantic(text="x", entities=(value,)),
    "evidence": lambda value: Semantic(text="x", sources=(Evidence(kind="m", id=value),)),
    "events": lambda value: Semantic(text="x", source_event_ids=(value,)),
    "event_type": lambda value: Episodic(text="x", event_type=value),
    "scratch": lambda value: Working(scratch=value),
    "goals": lambda value: Working(goals=(value,)),
    "parameters": lambda value: Procedural(parameters=(value, "x")),
}


@pytest.mark.parametrize("place", _PLACES)
@pytest.mark.parametrize("trap", range(len(_TRAPS)))
def test_what_an_encoder_changes_in_silence_is_not_sealed_in_few_steps(
    place: str, trap: int
) -> None:
    """NaN, dates, tuples, subclasses, odd numbers, empty members: as the careful way has it."""
    draft = _PLACES[place](_TRAPS[trap])
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
        sealing.seal(Semantic(text="x"), nonces=lambda: nonce)
