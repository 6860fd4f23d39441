"""What one item of LangGraph's store says, as an entry, and back.

An item is any JSON object under a namespace and a key. LangMem keeps a memory as
``{"kind": "Memory", "content": {"content": "..."}}``; programs of one's own mostly as one text
among other members; a profile has no text at all. Compared with langgraph-checkpoint-sqlite 3 and
LangMem 0.0.30.
"""

from collections.abc import Callable
from typing import Any

from satchel.errors import MalformedError
from satchel.formats._as_written import differences, reproduce
from satchel.formats._frameworks.namespaces import (
    as_they_were,
    identity_of,
    joined,
    key_in,
    labels_of,
)
from satchel.memory.entries import Entry, Semantic
from satchel.memory.parts import Origin, Scope, TrustClass
from satchel.memory.times import iso_text, read_time
from satchel.ports.contents import TEXT_MEMBER
from satchel.ports.report import Report
from satchel.seal.encoding.carry import ABSENT
from satchel.seal.encoding.notation import NUMBERS, numbers_of, with_numbers
from satchel.seal.records import Sealed

NAME = "langgraph"
"""The provider that entries from LangGraph name, from whichever of its stores."""

VECTORS = "store_vectors"
"""The member of ``origin.as_written`` with the vectors that the store has of an item."""

NO_TIME = "1970-01-01T00:00:00.000000Z"
"""Written where nobody knows when: the library cannot show an item without a time."""

_CAMEL = {"created_at": "createdAt", "updated_at": "updatedAt"}
"""As LangGraph for JavaScript spells them."""

TEXTS = ("text", "content", "memory", "data", "page_content")
"""Members that programs keep the text of an item under, the likeliest first."""

_KIND, _CONTENT, _MEMORY = "kind", "content", "Memory"
_NO_FIELD = "an item has no such field"
_HELD = frozenset(
    {"id", "nonce", "type", "kind", "text", "data", "metadata", "scope", "origin"}
    | {"created_at", "updated_at", "expires_at"}
)

Row = dict[str, Any]
"""An item: namespace, key, value, times, and whatever else the store says of it."""

Shown = Callable[[str, str], str]
"""How a time is written that is the member of a name."""


def as_shown(_: str, time: str) -> str:
    """Return a time as the library shows it in an item."""
    return iso_text(time)


def entry_of(row: Row, shown: Shown = as_shown) -> Semantic:
    """Return an item as an entry.

    Args:
        row: The item.
        shown: How the store writes times.

    Raises:
        MalformedError: If it has no namespace, no key, or a value that is no object.
    """
    labels, key, value = _namespace(row), row.get("key"), row.get("value")
    if type(key) is not str:
        raise MalformedError("`key` is not text", field="key")
    if type(value) is not dict:
        raise MalformedError("`value` is not an object", field="value")
    said, named = _said(value)
    entry = Semantic(
        **said,
        created_at=_time(row.get("created_at", row.get(_CAMEL["created_at"]))),
        updated_at=_time(row.get("updated_at", row.get(_CAMEL["updated_at"]))),
        expires_at=_time(row.get("expires_at")),
        scope=Scope(namespace=labels),
    )
    kept = {} if named is None else {TEXT_MEMBER: named}
    kept |= differences({**row, "value": None}, {**_row(entry, labels, key, shown), "value": None})
    kept.pop(NUMBERS, None)
    kept |= numbers_of({"value": value})  # all else is a column, with a type of its own
    origin = Origin(
        provider=NAME,
        id=identity_of(joined(labels), key),
        as_written=kept,
        trust=TrustClass.IMPORTED,
    )
    return Semantic(
        **said,
        created_at=entry.created_at,
        updated_at=entry.updated_at,
        expires_at=entry.expires_at,
        scope=entry.scope,
        origin=origin,
    )


def _namespace(row: Row) -> tuple[str, ...]:
    labels = row.get("namespace")
    if type(labels) is not list or not all(type(one) is str for one in labels):
        raise MalformedError("`namespace` is not a list of texts", field="namespace")
    return tuple(labels)


def _said(value: Row) -> tuple[Row, str | None]:
    """Return the members of an entry that a value says, and the one its text has, if LangMem's not.

    What no text can be found in is kept as data.
    """
    kind, content = value.get(_KIND), value.get(_CONTENT)
    if type(kind) is str and type(content) is dict and type(content.get(_CONTENT)) is str:
        if len(content) == 1:
            rest = _rest(value, _KIND, _CONTENT)
            return {"text": content[_CONTENT], "kind": kind, "metadata": rest}, None
    else:
        found = [name for name in TEXTS if type(value.get(name)) is str]
        name = next((one for one in found if value[one].strip()), found[0] if found else None)
        if name is not None:
            own = (_KIND,) if type(kind) is str else ()
            rest = _rest(value, name, *own)
            return {"text": value[name], "kind": kind if own else None, "metadata": rest}, name
    return {"data": value}, None


def _rest(value: Row, *names: str) -> Row:
    return {name: part for name, part in value.items() if name not in names}


def row_of(record: Sealed, entry: Entry, report: Report, shown: Shown = as_shown) -> Row:
    """Return an entry as an item; what has no place in one is counted.

    Args:
        record: The entry's record.
        entry: The entry; it has a text, or data.
        report: Where losses go.
        shown: How the store writes times.
    """
    scope, origin = entry.scope, entry.origin
    labels = scope.namespace if scope is not None and _only_namespace(scope) else ()
    if not as_they_were(labels):
        labels = labels_of(scope)
    own = origin is not None and origin.provider == NAME
    key = key_in(joined(labels), origin.id) if own and origin and origin.id else None
    row = _row(entry, labels, _key(record, origin) if key is None else key, shown)
    _count(record, entry, labels, report)
    if own and origin is not None:
        kept = {
            k: v for k, v in origin.as_written.items() if k not in (TEXT_MEMBER, "value", "key")
        }
        return _reproduced(entry, row, kept)
    return row


def _only_namespace(scope: Scope) -> bool:
    return scope == Scope(namespace=scope.namespace)


def _key(record: Sealed, origin: Origin | None) -> str:
    if origin is None or origin.id is None:
        return record.id.partition(":")[2][:32]
    return origin.id


def _reproduced(entry: Entry, row: Row, kept: Row) -> Row:
    """Put back what was kept, except for times that the entry has others of by now."""
    for name in ("created_at", "updated_at", "expires_at"):
        camel = kept.get(_CAMEL.get(name, name))
        said = camel if kept.get(name, ABSENT) == ABSENT and camel is not None else kept.get(name)
        if name in kept and _time(_there(said)) != getattr(entry, name):
            del kept[name]
            kept.pop(_CAMEL.get(name, name), None)
    numbers = kept.pop(NUMBERS, None)
    whole = reproduce(row, kept) | {"namespace": row["namespace"], "value": row["value"]}
    return with_numbers(whole, numbers)


def _there(part: Any) -> Any:
    return None if part == ABSENT else part


def _row(entry: Entry, labels: tuple[str, ...], key: str, shown: Shown) -> Row:
    created = entry.created_at or entry.updated_at or NO_TIME
    row: Row = {
        "namespace": list(labels),
        "key": key,
        "value": _value(entry),
        "created_at": shown("created_at", created),
        "updated_at": shown("updated_at", entry.updated_at or created),
    }
    if entry.expires_at is not None:
        row["expires_at"] = shown("expires_at", entry.expires_at)
    return row


def _value(entry: Entry) -> Row:
    if entry.text is None:
        return entry.data if type(entry.data) is dict else {"data": entry.data}
    origin = entry.origin
    named = origin.as_written.get(TEXT_MEMBER) if origin and origin.provider == NAME else None
    if named in TEXTS:
        said = {} if entry.kind is None else {_KIND: entry.kind}
        return {**entry.metadata, **said, str(named): entry.text}
    whole = {_KIND: entry.kind or _MEMORY, _CONTENT: {_CONTENT: entry.text}}
    return {**entry.metadata, **whole}


def _count(record: Sealed, entry: Entry, labels: tuple[str, ...], report: Report) -> None:
    value = record.value
    lost = dict.fromkeys(sorted(value.keys() - _HELD), _NO_FIELD)
    if record.type != "semantic":
        lost["type"] = "an item cannot store the memory type"
    if entry.text is not None and entry.data is not None:
        lost["data"] = "an item must be a text or data"
    if entry.text is None:
        lost |= dict.fromkeys(
            ("kind", "metadata") & value.keys(), "an item of data cannot have other members"
        )
    again, _ = _said(_value(entry))
    if entry.text is not None and again.get("metadata", {}) != entry.metadata:
        lost["metadata"] = "an item uses that member itself"
    if entry.scope is not None and entry.scope != Scope(namespace=labels):
        lost["scope"] = "a namespace has only labels"
    origin = value.get("origin", {"provider": NAME})
    if origin.get("provider") != NAME or origin.keys() & {"source", "revision"}:
        lost["origin"] = "an item cannot store provenance"
    for name, reason in lost.items():
        report.lost(name, reason, example=record.id)


def _time(value: Any) -> str | None:
    found = read_time(value) if type(value) is str else None
    return None if found == NO_TIME else found
