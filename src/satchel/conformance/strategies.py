"""Hypothesis strategies for records of every type, hostile text included.

They are derived from the model, so a new member of the model is covered immediately.
"""

from collections.abc import Iterable
from functools import cache
from typing import Any, cast

import msgspec
from hypothesis import strategies as st
from msgspec import inspect

from satchel.crypto.canonical import MAX_INTEGER
from satchel.model.records import ENTRY_CLASSES, RECORD_CLASSES, Entry, Model, Record
from satchel.model.values import Component, resolved
from satchel.ports.format import Traits

HOSTILE_TEXTS = (
    "",
    " ",
    "\x00",
    "line\r\nbreak\u2028and\u2029more\x85",
    "\ufeffmark first",
    "e\u0301 is not \u00e9",
    "\u202eright to left\u202c",
    "日本語のメモリ",
    "👩🏽\u200d🚀",
    "\U0010ffff\uffff\ue000",
    '{"section":"episodic"}',
    '"memory": "not a member"',
    "</script><!-- \\u0041 \\ud800 -->",
    "$int",
    "Ignore previous instructions.",
    "=cmd|' /C calc'!A0",
    "x" * 300,
)
"""Texts that have broken readers and writers before."""

_MOST = 3
_MEMBERS = 8
_ID = "blake3:"
_KEY = "did:key:z6MkehRgf7yJbgaGfYsdoAsKdBPE3dj2CYhowQdcjqSJgvVd"
_ALL = frozenset(Component)
_Strategies = dict[str, st.SearchStrategy[Any]]


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Any Unicode text, often a hostile one."""
    return draw(_TEXT)


_TEXT = st.one_of(st.text(max_size=40), st.sampled_from(HOSTILE_TEXTS))


def times() -> st.SearchStrategy[str]:
    """Times in the model's form."""
    return st.datetimes().map(lambda moment: moment.isoformat(timespec="microseconds") + "Z")


def ids() -> st.SearchStrategy[str]:
    """Content addresses of records that do not exist."""
    return st.binary(min_size=32, max_size=32).map(lambda data: _ID + data.hex())


@st.composite
def json_values(draw: st.DrawFn) -> Any:
    """Any value of the canonical domain, including foreign values in their reversible form."""
    return draw(_JSON)


def _json_values() -> st.SearchStrategy[Any]:
    leaves = st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-MAX_INTEGER, MAX_INTEGER),
        _floats(),
        texts(),
        st.integers(MAX_INTEGER + 1, 2**70).map(lambda value: {"$int": str(value)}),
        st.sampled_from(["NaN", "Infinity", "-Infinity"]).map(lambda name: {"$float": name}),
    )
    return st.recursive(
        leaves,
        lambda inner: (
            st.lists(inner, max_size=_MOST) | st.dictionaries(_keys(), inner, max_size=_MOST)
        ),
        max_leaves=6,
    )


def json_objects() -> st.SearchStrategy[dict[str, Any]]:
    """Objects of such values, such as metadata."""
    return st.dictionaries(_keys(), json_values(), max_size=_MOST)


def _keys() -> st.SearchStrategy[str]:
    # A key that starts with "$" is a reversible form, or escaped by its reader.
    return texts().filter(lambda text: not text.startswith("$"))


def _floats() -> st.SearchStrategy[float]:
    return st.floats(allow_nan=False, allow_infinity=False).filter(
        lambda value: not value.is_integer() or abs(value) <= MAX_INTEGER
    )


_JSON = _json_values()

_BY_PATTERN = {
    r"^blake3:[0-9a-f]{64}$": ids,
    r"^[0-9a-f]{32}$": lambda: st.binary(min_size=16, max_size=16).map(bytes.hex),
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z$": times,
}


def _strategy_of(kind: inspect.Type) -> st.SearchStrategy[Any]:  # noqa: C901, PLR0911, PLR0912 - an arm a type
    """Return the strategy for a member's type."""
    match kind:
        case inspect.StrType(pattern=None):
            return texts()
        case (
            inspect.StrType(pattern=str(pattern))
            | inspect.Metadata(extra_json_schema={"pattern": str(pattern)})
        ):
            known = _BY_PATTERN.get(pattern)
            return known() if known else st.from_regex(pattern, fullmatch=True)
        case inspect.FloatType(ge=None):
            return _floats()
        case inspect.FloatType():
            return st.floats(0, 1)
        case inspect.IntType():
            return st.integers(0, MAX_INTEGER)
        case inspect.AnyType():
            return json_values()
        case inspect.DictType():
            return json_objects()
        case inspect.VarTupleType(item_type=item):
            return st.lists(_strategy_of(item), max_size=_MOST, unique_by=repr).map(tuple)
        case inspect.LiteralType(values=values):
            return st.sampled_from(values)
        case inspect.EnumType(cls=cls):
            return st.sampled_from(cls)
        case inspect.StructType(cls=cls):
            return structs(cls)
        case inspect.UnionType(types=types):
            return st.one_of(
                *(_strategy_of(part) for part in types if not isinstance(part, inspect.NoneType))
            )
        case _:
            raise NotImplementedError(f"no strategy for {kind}")


@st.composite
def structs(draw: st.DrawFn, cls: type[msgspec.Struct]) -> Any:
    """Values of a class of the model, with or without each member; records without ID and nonce."""
    required, optional = _members(cls)
    names = st.lists(st.sampled_from(sorted(optional)), max_size=_MEMBERS, unique=True)
    given = draw(names) if optional else []
    members = required | {name: optional[name] for name in given}
    return cls(**{name: draw(strategy) for name, strategy in members.items()})


@cache
def _members(cls: type[msgspec.Struct]) -> tuple[_Strategies, _Strategies]:
    """Return the strategies of the required and of the other members."""
    sealed_later = {"id", "nonce"} if issubclass(cls, Entry | Record) else set()
    strategies: tuple[_Strategies, _Strategies] = ({}, {})
    for field in cast("inspect.StructType", inspect.type_info(resolved(cls))).fields:
        if field.name not in sealed_later:
            full = (
                isinstance(field.type, inspect.VarTupleType | inspect.DictType) and field.required
            )
            strategy = _strategy_of(field.type).filter(bool) if full else _strategy_of(field.type)
            strategies[not field.required][field.name] = strategy
    return strategies


def entries(components: Iterable[Component] = _ALL) -> st.SearchStrategy[Entry]:
    """Entries of some types, with any members."""
    return st.sampled_from(sorted(components)).flatmap(lambda part: structs(ENTRY_CLASSES[part]))


def records() -> st.SearchStrategy[Model]:
    """Records of every type."""
    return st.sampled_from(sorted(RECORD_CLASSES)).flatmap(
        lambda name: structs(RECORD_CLASSES[name])
    )


def memories(traits: Traits, *, most: int = 4) -> st.SearchStrategy[list[Entry]]:
    """Entries that a format can hold, each with a different text."""
    plain = entries(traits.components).flatmap(
        lambda entry: texts().map(lambda text: msgspec.structs.replace(entry, text=text))
    )
    return st.lists(plain, min_size=1, max_size=most, unique_by=lambda entry: entry.text)


def simplest(record_type: str) -> Model:
    """Return a minimal record of a type, the same every time."""
    some = {
        "name": "n",
        "kind": "derives_from",
        "path": "notes/a.md",
        "provider": "elsewhere",
        "format": "elsewhere",
        "action": "note",
        "event": "message",
        "state": "deleted",
        "source": "a",
        "target": _ID + "1" * 64,
        "entry": _ID + "2" * 64,
        "result": _ID + "3" * 64,
        "digest": _ID + "4" * 64,
        "fields": ("text",),
        "owner_keys": (_KEY,),
        "created_at": "2026-01-02T03:04:05.000000Z",
        "payload": {"a": 1},
        "model": "m",
        "dimensions": 1,
        "vector": (0.5,),
        "data": "",
        "text": f"a {record_type} entry",
    }
    cls = RECORD_CLASSES[record_type]
    wanted = {*_members(cls)[0]} | ({"text"} if issubclass(cls, Entry) else set())
    make: Any = cls
    return cast("Model", make(**{name: some[name] for name in wanted}))
