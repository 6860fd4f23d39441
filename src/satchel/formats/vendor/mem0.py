"""Mem0: what ``get_all()`` returns, as a dict or a list, one memory, or a platform export.

``memory`` becomes the text of a semantic entry (procedural where Mem0 says so); user, agent, app
and run ids become the scope; ``metadata``, ``categories`` and the times have their own members.
Everything else a record holds (``hash``, ``role``, ``actor_id``, ``score``, ``replaced_by``, ...)
is kept in ``origin.as_written`` and written back. A ``relations`` list (graph memory) becomes
semantic triples. Compared with mem0ai 2.2.1 and the platform API v3.

``get_all()`` returns 20 memories unless told otherwise, and hides expired ones: the reader cannot
see what is not in the file.
"""

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from typing import Any, BinaryIO, ClassVar

import msgspec

from satchel.errors import MalformedError
from satchel.formats._as_written import differences, reproduce
from satchel.memory.entries import Entry, Procedural, Semantic
from satchel.memory.parts import Component, Origin, Scope, TrustClass
from satchel.memory.records import Model
from satchel.memory.times import read_time, to_datetime
from satchel.ports.format import Info, Reading, Traits, Writing
from satchel.ports.place import Place, Target
from satchel.ports.records import RecordSet
from satchel.ports.report import Report
from satchel.seal.encoding.carry import ABSENT, restore
from satchel.seal.encoding.strict_json import JsonReader
from satchel.seal.records import Sealed

NAME = "mem0"
_PROCEDURAL = "procedural_memory"
_RELATION = "relation"
_SNIFF = re.compile(rb'\s*(?:\{[^{}\[\]]*"results"\s*:\s*\[\s*|\[\s*)?\{')
_RECORD = re.compile(rb'"memory"\s*:\s*"')
_EMPTY_RESULTS = re.compile(rb'\s*\{[^{}\[\]]*"results"\s*:\s*\[\s*\]')
_TIMES = {
    "created_at": "created_at",
    "updated_at": "updated_at",
    "expiration_date": "expires_at",
}
_MIDNIGHT = "T00:00:00.000000Z"
_HELD = {*_TIMES.values(), "id", "nonce", "type", "text", "tags", "metadata", "scope", "origin"}
"""Members of an entry that a Mem0 record has a place for."""

_SCOPE = (("user", "user_id"), ("agent", "agent_id"), ("app", "app_id"))


class Mem0:
    """Memories as Mem0 hands them out."""

    info: ClassVar[Info] = Info(
        title="Mem0 export",
        suffixes=(".mem0.json",),
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
    )

    def recognises(self, place: Place) -> bool:
        head = place.head
        if _EMPTY_RESULTS.match(head):
            return True
        return bool(_SNIFF.match(head) and _RECORD.search(head))

    def read(self, place: Place, reading: Reading) -> Iterator[Model | Sealed]:
        with place.open() as stream:
            document = JsonReader(
                stream, place.name, carrying=True, item_bytes=reading.limits.line_bytes
            )
            start = document.peek()
            if start == "[":
                reading.container["shape"] = "list"
                yield from _records(document, place.name)
            elif start == "{":
                yield from _document(document, place.name, reading)
            else:
                raise MalformedError("not a Mem0 export: no object and no list", file=place.name)
            document.end()

    def write(self, records: RecordSet, target: Target, writing: Writing) -> None:
        container, report = _container(records), writing.report
        shape = container.get("shape", "results")
        with target.open() as sink:
            if shape == "results":
                _write_results(sink, records, container, report)
                return
            if any(True for _ in _triple_rows(records)):
                report.lost("relations", "a bare list or a single memory has no place for them")
            if shape == "one" and records.count("semantic") + records.count("procedural") == 1:
                sink.writelines(_json(row, report) for row in _rows(records, report))
            else:
                _write_array(sink, _rows(records, report), report)
            sink.write(b"\n")


# -- reading -------------------------------------------------------------------------------


def _document(document: JsonReader, name: str, reading: Reading) -> Iterator[Model]:
    """Read an object: a result list with fields around it, or one memory."""
    around: dict[str, Any] = {}
    lists = 0
    for key in document.members():
        if key == "results" and document.peek() == "[":
            lists += 1
            yield from _records(document, name)
        elif key == "relations" and document.peek() == "[":
            lists += 1
            reading.container["relations"] = True
            yield from _triples(document, name)
        else:
            around[key] = document.value()
    if lists:
        reading.container.update({"shape": "results"} | ({"fields": around} if around else {}))
    elif "memory" in around:
        reading.container["shape"] = "one"
        yield _entry(around)
    else:
        raise MalformedError(
            "not a Mem0 export: neither `results` nor `memory`",
            file=name,
            hint="Save what get_all() returns as JSON.",
        )


def _records(document: JsonReader, name: str) -> Iterator[Model]:
    for index in document.elements():
        row = document.value()
        try:
            entry = _entry(row)
        except MalformedError as error:
            error.field = f"results/{index}" + (f"/{error.field}" if error.field else "")
            raise error.located(file=name, line=document.line) from None
        yield entry


def _entry(row: Any) -> Entry:
    if not isinstance(row, dict):
        raise MalformedError("a memory is not an object")
    text = row.get("memory")
    if not isinstance(text, str):
        problem = "is missing" if "memory" not in row else "is not text"
        raise MalformedError(f"`memory` {problem}", field="memory")
    metadata = row.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    cls = Procedural if metadata.get("memory_type") == _PROCEDURAL else Semantic
    entry = cls(
        text=text,
        kind=_PROCEDURAL if cls is Procedural else None,
        created_at=_time(row.get("created_at")),
        updated_at=_time(row.get("updated_at")),
        expires_at=_time(row.get("expiration_date")),
        tags=_tags(row.get("categories")),
        metadata=metadata,
        scope=_scope(row),
        origin=Origin(provider=NAME, id=_text(row.get("id")), trust=TrustClass.IMPORTED),
    )
    kept = differences(row, _row(entry))
    if not kept or entry.origin is None:
        return entry
    return msgspec.structs.replace(
        entry, origin=msgspec.structs.replace(entry.origin, as_written=kept)
    )


def _time(value: Any) -> str | None:
    return read_time(value) if isinstance(value, str) else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _tags(value: Any) -> tuple[str, ...]:
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return tuple(value)
    return ()


def _scope(row: dict[str, Any]) -> Scope | None:
    found: dict[str, Any] = {
        ours: part for ours, theirs in _SCOPE if (part := _text(row.get(theirs)))
    }
    # The platform calls the same thing session_id.
    run = _text(row.get("run_id")) or _text(row.get("session_id"))
    if run:
        found["run"] = run
    return Scope(**found) if found else None


def _triples(document: JsonReader, name: str) -> Iterator[Model]:
    for index in document.elements():
        row = document.value()
        if not isinstance(row, dict):
            raise MalformedError(
                "a relation is not an object",
                file=name,
                line=document.line,
                field=f"relations/{index}",
            )
        target = "target" if "target" in row else "destination"
        entry = Semantic(
            kind=_RELATION,
            subject=_text(row.get("source")),
            predicate=_text(row.get("relationship")),
            object=_text(row.get(target)),
            origin=Origin(provider=NAME, trust=TrustClass.IMPORTED),
        )
        kept = differences(row, _triple_row(entry))
        origin = Origin(provider=NAME, trust=TrustClass.IMPORTED, as_written=kept)
        yield msgspec.structs.replace(entry, origin=origin)


# -- writing -------------------------------------------------------------------------------


def _container(records: RecordSet) -> dict[str, Any]:
    """Return the fields around the records, when one Mem0 file was the only source."""
    found = [source.value for source in records.of("source")]
    if len(found) == 1 and found[0].get("format") == NAME:
        return dict(found[0].get("container", {}))
    return {}


def _rows(records: RecordSet, report: Report) -> Iterator[dict[str, Any]]:
    """Yield the memories, and count what has no place among them."""
    for record in records:
        entry = record.model
        if not isinstance(entry, Semantic | Procedural):
            if record.type not in ("source", "receipt"):
                report.lost(record.type, "Mem0 has no such records", example=record.id)
        elif entry.kind == _RELATION and entry.text is None:
            continue
        elif entry.text is None:
            report.lost(record.type, "Mem0 keeps text only", example=record.id)
        else:
            _count_losses(record, report)
            yield _reproduced(entry, _row(entry))


def _triple_rows(records: RecordSet) -> Iterator[dict[str, Any]]:
    for record in records.of("semantic"):
        entry = record.model
        if isinstance(entry, Semantic) and entry.kind == _RELATION and entry.text is None:
            yield _reproduced(entry, _triple_row(entry))


def _reproduced(entry: Entry, written: dict[str, Any]) -> dict[str, Any]:
    origin = entry.origin
    if origin is None or origin.provider != NAME:
        return written
    return reproduce(written, {k: v for k, v in origin.as_written.items() if _still(entry, k, v)})


def _still(entry: Entry, name: str, kept: Any) -> bool:
    """Tell whether a kept member still says what the entry says; a changed entry wins."""
    if kept == ABSENT or name not in _TIMES:
        return True
    return bool(_time(kept) == getattr(entry, _TIMES[name]))


def _row(entry: Entry) -> dict[str, Any]:
    """Return a memory as ``get_all()`` of mem0ai 2.2.1 shows it."""
    scope = entry.scope or Scope()
    origin = entry.origin or Origin()
    row: dict[str, Any] = {
        "id": origin.id or entry.id,
        "memory": entry.text,
        "hash": hashlib.md5((entry.text or "").encode(), usedforsecurity=False).hexdigest(),
        "created_at": _written_time(entry.created_at),
        "updated_at": _written_time(entry.updated_at),
        "user_id": scope.user,
        "agent_id": scope.agent,
        "run_id": scope.run,
        "app_id": scope.app,
        "categories": list(entry.tags) or None,
        "expiration_date": entry.expires_at[:10] if entry.expires_at else None,
    }
    row = {name: part for name, part in row.items() if part is not None}
    row["metadata"] = entry.metadata or None  # always there, null when there is none
    return row


def _triple_row(entry: Semantic) -> dict[str, Any]:
    row = {"source": entry.subject, "relationship": entry.predicate, "target": entry.object}
    return {name: part for name, part in row.items() if part is not None}


def _written_time(text: str | None) -> str | None:
    return None if text is None else to_datetime(text).isoformat()


def _count_losses(record: Sealed, report: Report) -> None:
    value = record.value
    for name in value.keys() - _HELD:
        if name != "kind" or value["type"] != "procedural":
            report.lost(name, "Mem0 has no such field", example=record.id)
    for name in value.get("scope", {}).keys() - {"user", "agent", "run", "app"}:
        report.lost(f"scope/{name}", "Mem0 has no such field", example=record.id)
    if value.get("expires_at", _MIDNIGHT).endswith(_MIDNIGHT) is False:
        report.lost("expires_at", "Mem0 keeps the day only", example=record.id)
    if value.get("origin", {}).get("provider", NAME) != NAME:
        report.lost("origin", "Mem0 does not say where a memory came from", example=record.id)


def _json(value: Any, report: Report) -> bytes:
    """Encode as Python's own JSON does, NaN and large integers included."""

    def other(part: object) -> str:
        if isinstance(part, bytes):
            report.lost("metadata", "bytes become base64 text")
            return base64.b64encode(part).decode()
        raise TypeError(type(part).__name__)

    return json.dumps(restore(value), ensure_ascii=False, default=other).encode()


def _write_results(
    sink: BinaryIO, records: RecordSet, container: dict[str, Any], report: Report
) -> None:
    relations = "relations" in container or any(True for _ in _triple_rows(records))
    sink.write(b"{")
    for name, part in container.get("fields", {}).items():
        sink.writelines((_json(name, report), b": ", _json(part, report), b",\n"))
    sink.write(b'"results": ')
    _write_array(sink, _rows(records, report), report)
    if relations:
        sink.write(b',\n"relations": ')
        _write_array(sink, _triple_rows(records), report)
    sink.write(b"}\n")


def _write_array(sink: BinaryIO, rows: Iterator[dict[str, Any]], report: Report) -> None:
    sink.write(b"[")
    for index, row in enumerate(rows):
        sink.writelines((b",\n" if index else b"\n", _json(row, report)))
    sink.write(b"\n]")


FORMAT = Mem0()
