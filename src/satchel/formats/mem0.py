"""Mem0: the result of ``get_all()``, as a dict or a list, a single memory, or a platform export.

``memory`` becomes the text of a semantic entry (procedural where Mem0 says so); user, agent, app
and run IDs become the scope; ``metadata``, ``categories`` and the times have their own members.
Other members of a record (``hash``, ``role``, ``actor_id``, ``score``, ``replaced_by``, ...) are
stored in ``origin.as_written`` and written again. The TypeScript SDKs spell the members in camel
case; that is read, and written again unchanged. A ``relations`` list (graph memory) becomes
semantic triples. Compared with mem0ai 2.2.1 and the platform API v3.

By default, ``get_all()`` returns 20 memories, and no expired ones: the reader cannot know what is
missing in the file, but reports it if the file shows that there is more.
"""

import hashlib
import re
from collections.abc import Callable, Generator, Iterable, Iterator
from datetime import timedelta
from functools import lru_cache
from itertools import chain, islice
from typing import Any, BinaryIO, ClassVar, cast

import msgspec

from satchel.artifact.body import TYPED_SECTIONS
from satchel.crypto.canonical import ABSENT, escape_keys
from satchel.crypto.json_reader import ForeignReader, float_spellings, has_odd_numbers
from satchel.crypto.sealed_records import Sealed
from satchel.errors import MalformedError
from satchel.formats._json import as_json, differences, json_members, parse_rows, reproduce, text_in
from satchel.formats._row_lists import container_of
from satchel.model.records import Entry, Model, PlainSemantic, Procedural, Semantic
from satchel.model.values import (
    Component,
    Origin,
    Scope,
    TrustClass,
    exact_time,
    format_time,
    iso_text,
    read_time,
    to_datetime,
)
from satchel.ports.format import (
    BOM,
    Info,
    Location,
    ReadContext,
    Signs,
    Target,
    Traits,
    WriteContext,
)
from satchel.ports.record_set import RecordSet, Report

NAME = "mem0"
"""The format, and the provider in the origin of its entries."""

RELATION = "relation"
"""The kind of an entry from a relation of the graph memory."""

HISTORY = "history.db"
"""The member of ``origin.as_written`` with the update history of a version."""

VECTOR = "qdrant.vector"
"""The member with the vector of a memory, and the hash of its text."""

OF_THE_STORE = frozenset({HISTORY, VECTOR})
"""Members for Mem0's own store, which exports do not have."""

_PROCEDURAL = "procedural_memory"
_TYPE = "memory_type"
_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_NO_FIELD = "Mem0 has no such field"
_MIDNIGHT = "T00:00:00.000000Z"

_FIELDS = {
    "memory": "text",
    "hash": "text",
    "text_lemmatized": "text",
    "metadata": "metadata",
    "categories": "tags",
    "created_at": "created_at",
    "updated_at": "updated_at",
    "expiration_date": "expires_at",
    "user_id": "scope",
    "agent_id": "scope",
    "app_id": "scope",
    "run_id": "scope",
    "session_id": "scope",
    "source": "subject",
    "relationship": "predicate",
    "target": "object",
    "destination": "object",
    "id": "origin",
}
"""Members of a Mem0 record, with the members of an entry that have the same meaning."""

_CAMEL = {name: re.sub("_(.)", lambda found: found[1].upper(), name) for name in _FIELDS}
_SNAKE = {camel: name for name, camel in _CAMEL.items()}

_USUAL_TEXTS = (
    *("id", "memory", "created_at", "updated_at"),
    *("user_id", "agent_id", "run_id", "app_id"),
)
_UNUSUAL = (_SNAKE.keys() - _FIELDS.keys()) | {"session_id"}

_NO_EXPIRY = object()
_UNUSUAL_MEMBERS = frozenset({_TYPE, *ABSENT})

_FIELD_NAMES = frozenset(_FIELDS.values())
_TRIPLE = frozenset({"subject", "predicate", "object"})
_COMMON_MEMBERS = frozenset({"id", "nonce", "type", "kind", "origin"})

_COMPARED = ("id", "text", "created_at", "updated_at", "expires_at", "tags", "metadata", "scope")
_NOBODY = Scope()

Row = dict[str, Any]
"""An object of a Mem0 file."""


def entry_of(row: Row) -> Entry:
    """Return a memory as an entry.

    Raises:
        MalformedError: If it has no text, naming the member.
    """
    return _usual_entry(row) or _any_entry(row)


def decoded_entry_of(row: Row) -> Entry:
    """Return a memory that was decoded from JSON as an entry.

    Raises:
        MalformedError: As ``entry_of``.
    """
    return _usual_entry(row, is_decoded=True) or _any_entry(row)


def _usual_entry(row: Row, *, is_decoded: bool = False) -> Entry | None:
    """Return the result of ``_any_entry`` quickly, for a usual memory; None for another.

    A usual memory is one whose mapped members would all be written unchanged.

    Args:
        row: The memory.
        is_decoded: Whether everything in it was decoded from JSON.
    """
    texts, as_written = dict[str, Any].fromkeys(_USUAL_TEXTS), Row()
    for name, part in row.items():
        if name not in texts:
            as_written[name] = part
        elif type(part) is str:
            texts[name] = part
        else:
            return None
    metadata, tags = as_written.pop("metadata", ABSENT), as_written.pop("categories", ())
    day = as_written.pop("expiration_date", _NO_EXPIRY)
    expires_at = None if type(day) is not str else _exact_expiry(day)
    created, updated = texts["created_at"], texts["updated_at"]
    created_at, updated_at = created and exact_time(created), updated and exact_time(updated)
    if (
        texts["memory"] is None
        or texts["id"] is None
        or not (metadata is None or _is_usual(metadata))
        or not (tags == () or _tags(tags))
        or (created is not None and not created_at)
        or (updated is not None and not updated_at)
        or (day is not _NO_EXPIRY and expires_at is None)
        or not _UNUSUAL.isdisjoint(as_written)
    ):
        return None
    if as_written.setdefault("hash", ABSENT) == hash_of(texts["memory"]):
        del as_written["hash"]
    is_odd = has_odd_numbers(row.values())
    if is_odd:
        as_written |= float_spellings(row)
    make = PlainSemantic if is_decoded and not is_odd else Semantic
    return make(
        text=texts["memory"],
        created_at=created_at,
        updated_at=updated_at,
        expires_at=expires_at,
        tags=tuple(tags),
        metadata=metadata or {},
        scope=_scope_of(texts["user_id"], texts["agent_id"], texts["run_id"], texts["app_id"]),
        origin=Origin(
            provider=NAME, id=texts["id"], trust=TrustClass.IMPORTED, as_written=as_written
        ),
    )


def _is_usual(metadata: Any) -> bool:
    return type(metadata) is dict and bool(metadata) and _UNUSUAL_MEMBERS.isdisjoint(metadata)


def _any_entry(row: Row) -> Entry:
    """Return any memory as an entry."""
    members = _mapped_members(row)
    # An ID is always written; if the source has none, that difference is stored.
    written = _written_members(members, procedural=members["kind"] is not None)
    return _entry(members, differences(row, {"id": ABSENT, **written}))


def _mapped(row: Row) -> Entry:
    return _entry(_mapped_members(row), {})


def _entry(members: Row, as_written: Row) -> Entry:
    cls = Semantic if members["kind"] is None else Procedural
    identity = members.pop("id")
    origin = Origin(provider=NAME, id=identity, trust=TrustClass.IMPORTED, as_written=as_written)
    return cls(origin=origin, **members)


def _mapped_members(row: Row) -> Row:
    """Return the members of an entry by name; ``id`` is that of its origin."""
    text = text_in(row, "memory")
    metadata = row.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    procedural = metadata.get(_TYPE) == _PROCEDURAL
    if procedural:
        metadata = {name: part for name, part in metadata.items() if name != _TYPE}
    return {
        "id": _text(row.get("id")),
        "text": text,
        "kind": _PROCEDURAL if procedural else None,
        "created_at": _time(_get(row, "created_at")),
        "updated_at": _time(_get(row, "updated_at")),
        "expires_at": _expiry(_get(row, "expiration_date")),
        "tags": _tags(row.get("categories")),
        "metadata": metadata,
        "scope": _scope(row),
    }


def triple_of(row: Row) -> Entry:
    """Return a relation of the graph memory as a fact."""
    entry = _mapped_triple(row)
    return _with_as_written(entry, differences(row, _written_triple(entry)))


def _mapped_triple(row: Row) -> Semantic:
    return Semantic(
        kind=RELATION,
        subject=_text(row.get("source")),
        predicate=_text(row.get("relationship")),
        object=_text(row.get("target" if "target" in row else "destination")),
        origin=Origin(provider=NAME, trust=TrustClass.IMPORTED),
    )


def _with_as_written(entry: Entry, as_written: Row) -> Entry:
    if not as_written or entry.origin is None:
        return entry
    origin = msgspec.structs.replace(entry.origin, as_written=as_written)
    return msgspec.structs.replace(entry, origin=origin)


def _get(row: Row, name: str) -> Any:
    """Return a member by its name in Python, or else in TypeScript."""
    return row[name] if name in row else row.get(_CAMEL[name])


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _time(value: Any) -> str | None:
    return read_time(value) if isinstance(value, str) else None


def _expiry(value: Any) -> str | None:
    """Return the expiry: Mem0 shows a memory until its last day (UTC) is over."""
    first = _time(value)
    if first is None or not _DAY.fullmatch(value):
        return first
    try:
        return format_time(to_datetime(first) + timedelta(days=1))
    except OverflowError:
        return None


@lru_cache(512)
def _exact_expiry(day: str) -> str | None:
    """Return the expiry if its last day would be written as the same text."""
    expires_at = _expiry(day)
    return expires_at if expires_at is not None and _last_day(expires_at) == day else None


def _tags(value: Any) -> tuple[str, ...]:
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return tuple(value)
    return ()


def _scope(row: Row) -> Scope | None:
    run = _text(_get(row, "run_id"))
    # The platform calls the same thing session_id.
    run = _text(_get(row, "session_id")) if run is None else run
    user, agent = _text(_get(row, "user_id")), _text(_get(row, "agent_id"))
    return _scope_of(user, agent, run, _text(_get(row, "app_id")))


def _scope_of(
    user: str | None, agent: str | None, run: str | None, app: str | None
) -> Scope | None:
    scope = Scope(user=user, agent=agent, run=run, app=app)
    return None if scope == _NOBODY else scope


def row_of(entry: Entry) -> Row:
    """Return a memory as a row, as in its source if that was Mem0."""
    return _reproduced(entry, _written(entry), _mapped)


def triple_row_of(entry: Semantic) -> Row:
    """Return a relation as a row."""
    return _reproduced(entry, _written_triple(entry), _mapped_triple)


def _reproduced(entry: Entry, written: Row, read: Callable[[Row], Entry]) -> Row:
    """Restore the stored members, except those that contradict the entry."""
    origin = entry.origin
    if origin is None or origin.provider != NAME or not origin.as_written:
        return written
    as_written = {
        name: part for name, part in origin.as_written.items() if name not in OF_THE_STORE
    }
    row = reproduce(written, as_written)
    try:
        again = read(row)
    except MalformedError:
        return written
    current, restored_members = _fields_of(entry), _fields_of(again)
    stale = {field for field, part in current.items() if part != restored_members[field]}
    if not stale:
        return row
    fresh = {k: v for k, v in as_written.items() if _FIELDS.get(_SNAKE.get(k, k)) not in stale}
    return reproduce(written, fresh)


def _fields_of(entry: Entry) -> Row:
    """Return the members of an entry that a Mem0 record can hold."""
    fields = {field: getattr(entry, field, None) for field in _FIELD_NAMES}
    fields["metadata"] = (fields["metadata"], type(entry))
    fields["origin"] = entry.origin.id if entry.origin else None
    return fields


def _written(entry: Entry) -> Row:
    """Return a memory in the form of ``get_all()`` of mem0ai 2.2.1."""
    members = {name: getattr(entry, name) for name in _COMPARED}
    if entry.origin is not None and entry.origin.id is not None:
        members["id"] = entry.origin.id
    return _written_members(members, procedural=isinstance(entry, Procedural))


def _written_members(members: Row, *, procedural: bool) -> Row:
    """Return a memory in the form of ``get_all()``, from members by name."""
    scope, text, metadata = members["scope"] or _NOBODY, members["text"], members["metadata"]
    if procedural and _TYPE not in metadata:
        metadata = {**metadata, _TYPE: _PROCEDURAL}
    row: Row = {
        "id": members["id"],
        "memory": text,
        "hash": hash_of(text or ""),
        "created_at": _written_time(members["created_at"]),
        "updated_at": _written_time(members["updated_at"]),
        "user_id": scope.user,
        "agent_id": scope.agent,
        "run_id": scope.run,
        "app_id": scope.app,
        "categories": list(members["tags"]) or None,
        "expiration_date": _last_day(members["expires_at"]),
    }
    row = {name: part for name, part in row.items() if part is not None}
    row["metadata"] = metadata or None  # always present; null if there is none
    return row


def hash_of(text: str) -> str:
    """Return the hash that Mem0 stores of a text."""
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def _written_triple(entry: Semantic) -> Row:
    row = {"source": entry.subject, "relationship": entry.predicate, "target": entry.object}
    return {name: part for name, part in row.items() if part is not None}


def _written_time(text: str | None) -> str | None:
    return None if text is None else iso_text(text)


def _last_day(expires_at: str | None) -> str | None:
    if expires_at is None or not expires_at.endswith(_MIDNIGHT):
        return expires_at and expires_at[:10]
    try:
        return (to_datetime(expires_at) - timedelta(days=1)).date().isoformat()
    except OverflowError:
        return expires_at[:10]


def losses_of(value: Row, row: Row) -> dict[str, str]:
    """Return the members of a record that are not in its row, with the reason."""
    held = _COMMON_MEMBERS | (_FIELD_NAMES - _TRIPLE if "text" in value else _TRIPLE)
    lost = dict.fromkeys(sorted(value.keys() - held), _NO_FIELD)
    procedural = value["type"] == "procedural"
    if value.get("kind") not in (None, RELATION, *([_PROCEDURAL] if procedural else [])):
        lost["kind"] = _NO_FIELD
    written = value.get("metadata", {}).get(_TYPE)
    if written is not None and procedural != (written == _PROCEDURAL):
        lost["type"] = "its metadata has another memory_type"
    if "namespace" in value.get("scope", {}):
        lost["scope/namespace"] = _NO_FIELD
    if _expiry(_get(row, "expiration_date")) != value.get("expires_at"):
        lost["expires_at"] = "Mem0 stores the day only"
    origin = value.get("origin", {"provider": NAME})
    if origin.get("provider") != NAME or origin.keys() & {"source", "revision"}:
        lost["origin"] = "Mem0 does not record provenance"
    return lost


_DEFAULT_PAGE = 20
_MEMORY = {(b"memory",), (0, b"memory"), (b"results", 0, b"memory")}
_EMPTY_RESULTS = re.compile(rb'\s*\{[^{}\[\]]*"results"\s*:\s*\[\s*\]')
_MEMORY_TYPES = ("semantic", "procedural")
_TRANSFER_RECORDS = ("source", "receipt")
_MOST_RUNS = 10_000
_NOT_EXPORTED = "a Mem0 export does not include the history and vectors of Mem0's own store"

_Rows = Generator[Model, None, int]
_Map = Callable[[Row], Entry]


class Mem0:
    """The format."""

    info: ClassVar[Info] = Info(
        title="Mem0 export",
        suffixes=(".mem0.json",),
        signs=Signs(texts=((b"memory",), (b'"results"',))),
        spec="mem0ai 2.2.1 get_all(); Mem0 platform API v3 memories",
        checked="2026-11-21",
        traits=Traits(
            components=frozenset({Component.SEMANTIC, Component.PROCEDURAL}),
            exact=True,
            streams=True,
        ),
        lost_on_writing=(
            "Episodic, working and identity memory, edges, provenance, salience and validity; "
            "times of day of an expiry."
        ),
        beside=OF_THE_STORE,
    )

    def recognizes(self, location: Location) -> bool:
        head = location.head
        if _EMPTY_RESULTS.match(head.removeprefix(BOM)):
            return True
        return any(path in _MEMORY and start == b'"' for path, start in json_members(head))

    def read(self, location: Location, reading: ReadContext) -> Iterator[Model | Sealed]:
        with location.open() as stream:
            document = ForeignReader(stream, location.name, item_bytes=reading.limits.line_bytes)
            reading.line = lambda: document.value_line
            start = document.peek()
            if start == "[":
                reading.container["shape"] = "list"
                count = yield from _array(document, reading, "", decoded_entry_of)
            elif start == "{":
                count = yield from _object(document, reading)
            else:
                problem = "not a Mem0 export: neither an object nor a list"
                raise MalformedError(problem, line=document.line)
            document.end()
            _note_missing(reading, count)

    def write(self, records: RecordSet, target: Target, writing: WriteContext) -> None:
        report = writing.report
        container = _container(records, report)
        shape = container.get("shape", "results")
        runs = container.get("runs", [])
        _count_other_records(records, report)
        with target.open() as sink:
            if shape == "results":
                _write_results(sink, records, container, report)
                return
            for record, _ in _triples(records):
                reason = "a bare list or a single memory cannot hold relations"
                report.lost(RELATION, reason, example=record.id)
            if shape == "one" and records.count("semantic") + records.count("procedural") == 1:
                sink.writelines(_json(row, report) for row in _rows(records, runs, report))
            else:
                _write_array(sink, _rows(records, runs, report), report)
            sink.write(b"\n")


# -- reading -------------------------------------------------------------------------------


def _object(document: ForeignReader, reading: ReadContext) -> _Rows:
    """Read an object, a result list with members around it or a memory; return their number.

    After a memory, others may follow, each on a line.
    """
    around: Row = {}
    count, listed = 0, False
    for key in document.members():
        if key == "results" and document.peek() == "[":
            listed = True
            count = yield from _array(document, reading, "results", decoded_entry_of)
        elif key == "relations" and document.peek() == "[":
            reading.container["relations"] = True
            yield from _array(document, reading, "relations", triple_of)
        else:
            around.update(escape_keys([(key, document.value())]))
    if listed:
        reading.container.update({"shape": "results"} | ({"fields": around} if around else {}))
        return count
    if "memory" not in around or "relations" in reading.container:
        problem = MalformedError(
            "not a Mem0 export: neither a `results` list nor a `memory`",
            hint="Save what get_all() returns as JSON.",
        )
        raise problem.located(line=document.line)
    if document.peek() == "{":
        reading.container["shape"] = "list"
        lines = chain((around,), document.following())
        return (yield from _parse_rows(lines, document, reading, "", decoded_entry_of))
    reading.container["shape"] = "one"
    try:
        entry = decoded_entry_of(around)
    except MalformedError as error:
        raise error.located(line=document.line) from None
    yield entry
    return 1


def _array(document: ForeignReader, reading: ReadContext, path: str, make: _Map) -> _Rows:
    """Read a list of rows; return their number, including skipped bad ones."""
    return _parse_rows(document.values(), document, reading, path, make)


def _parse_rows(
    rows: Iterable[Any], document: ForeignReader, reading: ReadContext, path: str, make: _Map
) -> _Rows:
    order = _Order()

    def parse(row: Row) -> tuple[Entry]:
        entry = make(row)
        order.add(entry)
        return (entry,)

    count = yield from parse_rows(rows, document, reading, parse, path)
    order.store(reading)
    return count


class _Order:
    """Records the order of the two types of memory, which have separate sections in an artifact."""

    def __init__(self) -> None:
        self._runs = [0]

    def add(self, entry: Entry) -> None:
        if isinstance(entry, Procedural) is (len(self._runs) % 2 == 1):
            self._runs.append(0)
        self._runs[-1] += 1

    def store(self, reading: ReadContext) -> None:
        if len(self._runs) > _MOST_RUNS:
            reading.report.note("procedural memories will be written after the others")
        elif len(self._runs) > 1:
            reading.container["runs"] = self._runs


def _note_missing(reading: ReadContext, count: int) -> None:
    around = reading.container.get("fields", {})
    total = around.get("count")
    if isinstance(total, int) and total > count:
        reading.report.note(f"the file declares {total} memories and contains {count}")
        reading.missing = total - count
    elif around.get("next"):
        reading.missing = 1
        reading.report.note("this is one page of several; export the next pages too")
    elif total is None and count == _DEFAULT_PAGE:
        reading.report.note(
            "exactly 20 memories, the default limit of get_all(); the export may be incomplete"
        )


# -- writing -------------------------------------------------------------------------------


def _container(records: RecordSet, report: Report) -> Row:
    """Return the members around the records, if one Mem0 file was the only source."""
    if records.count("source") == 1:
        return container_of(records, NAME)
    for source in records.of("source"):
        container = source.value.get("container", {})
        if source.value.get("format") == NAME and "fields" in container:
            reason = "the members around the memories of several files cannot all be kept"
            report.lost("container", reason, example=source.id)
    return {}


def _count_other_records(records: RecordSet, report: Report) -> None:
    for section, count in records.counts.items():
        kind = TYPED_SECTIONS.get(section)
        if kind is None:
            report.lost(section, "Mem0 has no such section", count=count)
        elif kind not in _MEMORY_TYPES and kind not in _TRANSFER_RECORDS:
            for record in records.of(kind):
                report.lost(kind, "Mem0 has no such records", example=record.id)


def _rows(records: RecordSet, runs: list[int], report: Report) -> Iterator[Row]:
    """Yield the memories, in reading order."""
    kinds = [_rows_of(kind, records, report) for kind in _MEMORY_TYPES]
    for turn, length in enumerate(runs):
        yield from islice(kinds[turn % len(kinds)], length)
    for kind in kinds:
        yield from kind


def _rows_of(kind: str, records: RecordSet, report: Report) -> Iterator[Row]:
    for record in records.of(kind):
        entry = cast("Entry", record.model)
        if entry.text is not None:
            row = row_of(entry)
            _count_losses(record, row, report)
            if entry.origin is not None and not OF_THE_STORE.isdisjoint(entry.origin.as_written):
                report.note(_NOT_EXPORTED)
            yield row
        elif not _is_relation(entry):
            report.lost(record.type, "Mem0 stores text only", example=record.id)


def _triples(records: RecordSet) -> Iterator[tuple[Sealed, Semantic]]:
    for record in records.of("semantic"):
        entry = record.model
        if isinstance(entry, Semantic) and _is_relation(entry):
            yield record, entry


def _is_relation(entry: Entry) -> bool:
    return entry.kind == RELATION and entry.text is None


def _triple_rows(records: RecordSet, report: Report) -> Iterator[Row]:
    for record, entry in _triples(records):
        row = triple_row_of(entry)
        _count_losses(record, row, report)
        yield row


def _count_losses(record: Sealed, row: Row, report: Report) -> None:
    for name, reason in losses_of(record.value, row).items():
        report.lost(name, reason, example=record.id)


def _json(value: Any, report: Report) -> bytes:
    """Encode as Python's ``json`` does, including NaN and large integers."""
    return as_json(value, report)


def _write_results(sink: BinaryIO, records: RecordSet, container: Row, report: Report) -> None:
    sink.write(b"{")
    for name, part in container.get("fields", {}).items():
        sink.writelines((_json({name: part}, report)[1:-1], b",\n"))
    sink.write(b'"results": ')
    _write_array(sink, _rows(records, container.get("runs", []), report), report)
    if "relations" in container or any(True for _ in _triples(records)):
        sink.write(b',\n"relations": ')
        _write_array(sink, _triple_rows(records, report), report)
    sink.write(b"}\n")


def _write_array(sink: BinaryIO, rows: Iterator[Row], report: Report) -> None:
    sink.write(b"[")
    for index, row in enumerate(rows):
        sink.writelines((b",\n" if index else b"\n", _json(row, report)))
    sink.write(b"\n]")


FORMAT = Mem0()
