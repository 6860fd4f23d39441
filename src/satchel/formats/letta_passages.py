"""The archival memory of a Letta agent: its passages, as the server's API returns them.

An agent file never has them. ``GET /v1/agents/ID/archival-memory`` returns a list; that, or an
object with the list as ``passages``, is read and written, with tags, metadata, times and vectors.
Each passage that is written can be sent to ``POST`` of the same address. Archives of such files are
read, too, since Letta's page creates one. Compared with Letta 0.16.8.
"""

from collections.abc import Generator, Iterator
from typing import Any, ClassVar, cast
from uuid import UUID

import msgspec

from satchel.artifact.body import TYPED_SECTIONS
from satchel.crypto.canonical import escape_keys
from satchel.crypto.json_reader import ForeignReader
from satchel.crypto.sealed_records import Sealed
from satchel.errors import EmptyInputError, MalformedError
from satchel.formats._archive import ZIP_MAGIC, ArchiveFile, ChatArchive, heads, open_archive
from satchel.formats._json import as_json, differences, json_members, parse_rows, settled, text_in
from satchel.formats._row_lists import sole_container
from satchel.model.records import Entry, Model, Semantic
from satchel.model.values import (
    Component,
    Origin,
    Scope,
    TrustClass,
    exact_time,
    iso_text,
    read_time,
)
from satchel.ports.format import (
    HEAD_BYTES,
    Info,
    Location,
    ReadContext,
    Signs,
    Target,
    Traits,
    WriteContext,
)
from satchel.ports.record_set import RecordSet, Report
from satchel.ports.vectors import text_mark

NAME = "letta_passages"
"""The format, and the provider in the origin of its entries."""

PASSAGE = "passage"
"""The kind of its entries, and the prefix of their IDs."""

_VECTOR, _OF = "embedding", "of"
_MEANS = {
    "text": "text",
    "tags": "tags",
    "metadata": "metadata",
    "created_at": "created_at",
    "updated_at": "updated_at",
    "agent_id": "scope",
}
_SUPPORTED = frozenset({"id", "nonce", "type", "kind", "origin", *_MEANS.values()})
_NO_FIELD = "a passage has no such field"

Row = dict[str, Any]


def entry_of(row: Any) -> Semantic:
    """Return a passage as an entry.

    Raises:
        MalformedError: If it has no text, naming the member.
    """
    if type(row) is not dict:
        raise MalformedError("not an object")
    text_in(row, "text")
    passage = Semantic(kind=PASSAGE, **_fields_of(row))
    as_written = differences({k: v for k, v in row.items() if k != "id"}, _written(passage))
    if isinstance(as_written.get(_VECTOR), list):
        as_written[_VECTOR] = {_OF: text_mark(row["text"]), _VECTOR: as_written[_VECTOR]}
    identity = row.get("id")
    if type(identity) is not str:
        identity = None
        as_written |= {"id": row["id"]} if "id" in row else {}
    trust = TrustClass.IMPORTED
    origin = Origin(provider=NAME, id=identity, as_written=as_written, trust=trust)
    return msgspec.structs.replace(passage, origin=origin)


def _fields_of(row: Row) -> Row:
    tags, metadata, agent = row.get("tags"), row.get("metadata"), row.get("agent_id")
    is_list = isinstance(tags, list) and all(type(one) is str for one in tags)
    return {
        "text": row.get("text"),
        "tags": tuple(tags) if is_list and tags else (),
        "metadata": metadata if type(metadata) is dict else {},
        "created_at": _time(row.get("created_at")),
        "updated_at": _time(row.get("updated_at")),
        "scope": Scope(agent=agent) if type(agent) is str and agent else None,
    }


def _time(value: Any) -> str | None:
    return read_time(value) if type(value) is str else None


def _written(entry: Entry) -> Row:
    row: Row = {
        "text": entry.text,
        "tags": list(entry.tags),
        "metadata": entry.metadata,
        "created_at": None if entry.created_at is None else _time_text(entry.created_at),
        "updated_at": None if entry.updated_at is None else _time_text(entry.updated_at),
        "agent_id": entry.scope.agent if entry.scope is not None else None,
    }
    return {name: part for name, part in row.items() if part is not None}


def _time_text(text: str) -> str:
    written = iso_text(text)
    return written if exact_time(written) is not None else text


def row_of(record: Sealed, entry: Entry) -> Row:
    """Return an entry as a passage; one of other origin gets an ID that Letta accepts."""
    origin = entry.origin
    is_ours = origin is not None and origin.provider == NAME
    as_written = dict(origin.as_written) if is_ours and origin is not None else {}
    now = {name: getattr(entry, name) for name in _MEANS.values()}
    row = settled(_written(entry), as_written, _fields_of, now, _MEANS)
    held = row.get(_VECTOR)
    if isinstance(held, dict):
        row[_VECTOR] = held.get(_VECTOR) if held.get(_OF) == text_mark(entry.text or "") else None
    if is_ours and origin is not None:
        return row if origin.id is None else {"id": origin.id, **row}
    raw = bytes.fromhex(record.id.removeprefix("blake3:"))[:16]
    return {"id": f"{PASSAGE}-{UUID(bytes=raw, version=5)}", **row}


def losses_of(record: Sealed, entry: Entry) -> dict[str, str]:
    """Return the members of an entry that are not in its row, with the reason."""
    lost = dict.fromkeys(sorted(record.value.keys() - _SUPPORTED), _NO_FIELD)
    if entry.kind not in (None, PASSAGE):
        lost["kind"] = _NO_FIELD
    scope = entry.scope
    if scope is not None and not (scope.agent and scope == Scope(agent=scope.agent)):
        lost["scope"] = "a passage has an agent and no other owner"
    if entry.origin is not None and entry.origin.provider != NAME:
        lost["origin"] = "a passage cannot store provenance"
    if record.type != "semantic":
        lost[record.type] = "it becomes a plain passage"
    return lost


_SIGNS = (b"embedding_config", b"archive_id")
_EACH_MEMBER, _ID = frozenset({b"id", b"tags", b"metadata"}), b'"passage-'
"""Members and ID prefix of passages that we write, without embedding and archive."""

_LIST = "passages"
_WRITTEN = ("semantic", "episodic")
_WRITTEN_TYPES = (*_WRITTEN, "source", "receipt")


class LettaPassages:
    """The format."""

    info: ClassVar[Info] = Info(
        title="Letta archival memory",
        suffixes=(".passages.json",),
        signs=Signs(
            starts=(ZIP_MAGIC,),
            texts=(*((b"text", sign) for sign in _SIGNS), (b"text", *sorted(_EACH_MEMBER), _ID)),
        ),
        spec="Letta server 0.16.8, GET /v1/agents/ID/archival-memory",
        checked="2026-11-22",
        traits=Traits(components=frozenset({Component.SEMANTIC}), exact=True, streams=True),
        lost_on_writing=(
            "Procedural, working and identity memory, validity, edges, provenance, salience and"
            " users. Episodic memory becomes plain."
        ),
    )

    def recognizes(self, location: Location) -> bool:
        return any(map(_has_passages, heads(location)))

    def read(self, location: Location, reading: ReadContext) -> Iterator[Model | Sealed]:
        count = 0
        with open_archive(location, reading.limits) as archive:
            for file in archive.files:
                if file.info is None or _is_one(archive, file):
                    with archive.document(file, reading, mends=False) as document:
                        count += yield from _document(document, reading)
                else:
                    reading.report.lost(file.name, "a file without passages")
        if not count:
            raise EmptyInputError("the file contains no passages", file=location.name)

    def write(self, records: RecordSet, target: Target, writing: WriteContext) -> None:
        report, container = writing.report, _container(records)
        for section, number in records.counts.items():
            kind = TYPED_SECTIONS.get(section, section)
            if kind not in _WRITTEN_TYPES:
                report.lost(kind, "archival memory consists of passages only", count=number)
        is_list = writing.bank is not None or container.get("shape", "list") == "list"
        with target.open() as sink:
            sink.write(b"[" if is_list else b'{"passages": [')
            for number, row in enumerate(_rows(records, report)):
                sink.writelines((b",\n" if number else b"\n", _json(row, report)))
            sink.write(b"\n]")
            if not is_list:
                for name, part in container.get("fields", {}).items():
                    sink.writelines((b",\n", _json({name: part}, report)[1:-1]))
                sink.write(b"}")
            sink.write(b"\n")


FORMAT = LettaPassages()
"""The instance that the registry loads."""


def _is_one(archive: ChatArchive, file: ArchiveFile) -> bool:
    if not file.ends(".json"):
        return False
    with archive.stream(file) as stream:
        return _has_passages(stream.read(HEAD_BYTES))


def _has_passages(head: bytes) -> bool:
    rows = dict[bool, set[bytes | int]]()
    for path, _ in json_members(head):
        if path[:-1] in ((0,), (_LIST.encode(), 0)):
            rows.setdefault(len(path) == 2, set()).add(path[-1])  # noqa: PLR2004 - in a list
    named = _ID in head
    return any(
        b"text" in names
        and ((named and names.issuperset(_EACH_MEMBER)) or not names.isdisjoint(_SIGNS))
        for names in rows.values()
    )


def _document(document: ForeignReader, reading: ReadContext) -> Any:
    """Yield the passages of a file; return their number."""
    around, count, start = Row(), 0, document.peek()
    if start == "[":
        reading.container["shape"] = "list"
        count = yield from _passages(document, reading)
    elif start == "{":
        for key in document.members():
            if key == _LIST and document.peek() == "[":
                count = yield from _passages(document, reading)
            else:
                around.update(escape_keys([(key, document.value())]))
    else:
        raise MalformedError("not passages: neither a list nor an object", line=document.line)
    document.end()
    if around:
        reading.container["fields"] = around
    return count


def _passages(document: ForeignReader, reading: ReadContext) -> Generator[Semantic, None, int]:
    """Yield the passages of the next list; return their number."""
    return parse_rows(document.values(), document, reading, lambda row: (entry_of(row),))


def _rows(records: RecordSet, report: Report) -> Iterator[Row]:
    for kind in _WRITTEN:
        for record in records.of(kind):
            entry = cast("Entry", record.model)
            if entry.text is None:
                report.lost(kind, f"a {PASSAGE} must be text", example=record.id)
                continue
            for name, reason in losses_of(record, entry).items():
                report.lost(name, reason, example=record.id)
            yield row_of(record, entry)


def _container(records: RecordSet) -> Row:
    """Return the members around the records, if all came from one file."""
    container = sole_container(records, NAME)
    return {"shape": "object", **container} if container else {}


def _json(value: Any, report: Report) -> bytes:
    return as_json(value, report)
