"""Values that an encoder could change silently, and the fields of an entry for them."""

import collections
import datetime as dt
import decimal
import enum
import uuid
from collections.abc import Callable
from typing import Any

from satchel.crypto import sealed_records
from satchel.model.records import Entry, Episodic, Procedural, Semantic, Working
from satchel.model.values import Entity, Evidence, Origin, Scope, TrustClass


class Number(enum.IntEnum):
    """An enumeration of numbers."""

    ONE = 1


class Word(enum.StrEnum):
    """An enumeration of texts."""

    ONE = "one"


class Text(str):
    """A subclass of ``str``."""

    __slots__ = ()


class Object(dict[str, Any]):
    """A subclass of ``dict``."""


class Listed(list[Any]):
    """A subclass of ``list``."""


TRAPS: list[Any] = [
    *(float("nan"), float("inf"), -0.0, 0.0, 1.0, 1e-7, 1e-5, 1e15, 1e22, 0.5, 2.5),
    *(2**53 - 1, 2**53, -(2**53), 2**64, 2**70, True, None, "", "x", "\ud800", "\U0001f600"),
    *(b"x", bytearray(b"x"), (), (1,), [], {}, [[]], {"a": {}}, {1, 2}, object()),
    *(dt.datetime.now(dt.UTC), dt.date(2026, 1, 1), decimal.Decimal("1.5")),
    *(
        uuid.UUID(int=1),
        Number.ONE,
        Word.ONE,
        TrustClass.USER,
        Text("x"),
        Scope(),
        Scope(user="x"),
    ),
    *(Object(a=1), Listed([1]), collections.OrderedDict(a=1), {1: 2}, {Word.ONE: 1}),
    *({Text("k"): 1}, {"\U0001f600": 1, "\uffff": 2}, {"\ud800": 1}, {None: 1}),
    *(
        '"id":"' + sealed_records.STAND_IN + '",',
        {"id": sealed_records.STAND_IN[:-1] + "!", "z": 1},
    ),
]
LOOK_PLAIN = (Number, Word, Text, TrustClass, Object, Listed, collections.OrderedDict, dict)
"""Classes whose values may equal the plain value that is written."""

PLACES: dict[str, Callable[[Any], Entry]] = {
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
