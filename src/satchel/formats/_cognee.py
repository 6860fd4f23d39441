"""A row of a COGX archive as a record, and back.

A memory, a document and a fact are semantic entries; a block is one, too, or the agent's identity;
entities and raw nodes are nodes. Other members of a row are stored with its record.
"""

import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, NamedTuple, Protocol, TypeVar

import msgspec

from satchel.crypto.json_reader import NUMBERS, float_spellings, with_numbers
from satchel.errors import LimitError, MalformedError, PathRefusedError
from satchel.formats._archive import ZIP_MAGIC, open_archive
from satchel.formats._json import (
    CHUNK,
    Decompressor,
    differences,
    json_members,
    reproduce,
    settled,
    text_in,
)
from satchel.model.records import Entry, GraphNode, Identity, Semantic, SessionEvent
from satchel.model.values import Origin, Scope, TrustClass, read_time
from satchel.ports.format import Location, ReadContext
from satchel.runtime.contained_folder import parts_of

NAME = "cognee"
"""The format, and the provider in the origin of its records."""

VERSION = "0.1"
"""The version of COGX that is written, and the newest one that is read."""

DOCUMENT, EPISODE, ENTITY, FACT = "document", "episode", "entity", "fact"
MEMORY, BLOCK, RAW = "memory", "memory_block", "raw_node"

FILES = {
    DOCUMENT: "documents.jsonl",
    EPISODE: "episodes.jsonl",
    ENTITY: "entities.jsonl",
    FACT: "facts.jsonl",
    MEMORY: "memories.jsonl",
    BLOCK: "memory_blocks.jsonl",
    RAW: "nodes.jsonl",
}
"""Kinds of rows, in the order of Cognee's reader, with their files."""

KINDS = {file: kind for kind, file in FILES.items()}
"""Kinds of rows, by file."""

MANIFEST, PERMISSIONS = "manifest.json", "permissions.json"

Row = dict[str, Any]


def require_version(manifest: Row, *, any_version: bool) -> None:
    """Refuse an archive of a newer version.

    Raises:
        MalformedError: If it is newer, or has no version.
    """
    version = manifest.get("cogx_version")
    major = str(version).partition(".")[0] if type(version) is str else ""
    if not major.isdecimal() or not (any_version or int(major[:9]) == 0):
        problem = f"version {str(version)[:40]!r} is not supported; supported: {VERSION}"
        raise MalformedError(problem, field=f"{MANIFEST}/cogx_version")


PERSONA = "persona"
"""The label of the block with the agent's identity."""

_NOBODY = Scope()
_SYSTEM = "satchel"
_TEXTS = {MEMORY: "content", DOCUMENT: "content", BLOCK: "value", FACT: "fact_text"}
_SCOPES = (("user_id", "user"), ("agent_id", "agent"), ("run_id", "run"))

_MEANS = {
    "content": "text",
    "value": "text",
    "fact_text": "text",
    "description": "summary",
    "name": "name",
    "attributes": "properties",
    "entity_type": "labels",
    "categories": "tags",
    "created_at": "created_at",
    "updated_at": "updated_at",
    "valid_at": "valid_from",
    "invalid_at": "valid_until",
    "confidence": "confidence",
    "metadata": "metadata",
    "scope": "scope",
    "predicate": "predicate",
    "label": "kind",
}
"""Members of a row, with the members of a record that have the same meaning."""

_T = TypeVar("_T", Semantic, Identity, GraphNode, SessionEvent)


class CogneeEnd(NamedTuple):
    """An end of a fact."""

    ref: str
    """Its ID in the archive, or its name."""

    name: str | None


def time_text(text: str | None) -> str | None:
    """Return a time in the form of Cognee."""
    return None if text is None else text[:19] + text[19:26].removesuffix(".000000") + "Z"


def _time(value: Any) -> str | None:
    return read_time(value) if type(value) is str else None


def _object(value: Any) -> Row:
    return value if type(value) is dict else {}


def _scope_of(row: Row) -> Scope | None:
    members = _object(row.get("scope"))
    owners = {ours: members[name] for name, ours in _SCOPES if type(members.get(name)) is str}
    return Scope(**owners) if owners else None


def _written_scope(scope: Scope | None) -> Row:
    members = scope or _NOBODY
    return {name: part for name, ours in _SCOPES if (part := getattr(members, ours)) is not None}


def _common(row: Row) -> Row:
    """Return the members that all entries from rows have."""
    return {
        "created_at": _time(row.get("created_at")),
        "updated_at": _time(row.get("updated_at")),
        "metadata": _object(row.get("metadata")),
        "scope": _scope_of(row),
    }


def _written_common(kind: str, record: Entry | GraphNode) -> Row:
    row: Row = {"external_system": NAME, "scope": _written_scope(record.scope)}
    if isinstance(record, Entry):
        row |= {"created_at": time_text(record.created_at)}
        row |= {"updated_at": time_text(record.updated_at)}
    return {**row, "metadata": record.metadata, "kind": kind}


def _without_nothing(row: Row) -> Row:
    return {name: part for name, part in row.items() if part is not None}


# -- entries -------------------------------------------------------------------------------


def entry_of(kind: str, row: Row, ends: tuple[str | None, str | None] = (None, None)) -> Entry:
    """Return a memory, a document, a block or a fact as an entry.

    Args:
        kind: The kind of the row.
        row: The row.
        ends: The source and target of a fact, by member.

    Raises:
        MalformedError: If it is not valid, naming the member.
    """
    identity = text_in(row, "external_id")
    if kind == FACT:
        text_in(row, "predicate")
    else:
        text_in(row, _TEXTS[kind])
    if kind == BLOCK:
        text_in(row, "label")
    fields = {**_entry_fields(kind, row), "subject": ends[0], "object": ends[1]}
    if kind == BLOCK and row["label"] == PERSONA:
        names = Identity.__struct_fields__
        identity_entry = Identity(**{name: part for name, part in fields.items() if name in names})
        return with_origin(identity_entry, identity, row, written_entry(kind, identity_entry))
    entry = Semantic(**fields)
    return with_origin(entry, identity, row, written_entry(kind, entry))


def _entry_fields(kind: str, row: Row) -> Row:
    text, tags, confidence = row.get(_TEXTS[kind]), row.get("categories"), row.get("confidence")
    is_list = type(tags) is list and all(type(one) is str for one in tags)
    is_part = isinstance(confidence, int | float) and 0 <= confidence <= 1
    fields = _common(row) | {"text": text if type(text) is str else None}
    fields["kind"] = None if kind == MEMORY else kind
    if kind == MEMORY:
        fields["tags"] = tuple(tags) if is_list and tags else ()
    if kind == FACT:
        predicate = row.get("predicate")
        fields["predicate"] = predicate if type(predicate) is str else None
        fields["valid_from"] = _time(row.get("valid_at"))
        fields["valid_until"] = _time(row.get("invalid_at"))
        fields["confidence"] = confidence if is_part and confidence is not True else None
    return fields


def written_entry(kind: str, entry: Entry) -> Row:
    """Return an entry as a row, without an ID and without the ends of a fact."""
    row = _written_common(kind, entry) | {_TEXTS[kind]: entry.text}
    if kind == MEMORY:
        row["categories"] = list(entry.tags)
    if kind == FACT and isinstance(entry, Semantic):
        row |= {
            "predicate": entry.predicate,
            "valid_at": time_text(entry.valid_from),
            "invalid_at": time_text(entry.valid_until),
            "confidence": entry.confidence,
            "provenance": [],
        }
    if kind == BLOCK:
        row["label"] = PERSONA if isinstance(entry, Identity) else BLOCK
    return _without_nothing(row)


def row_of_entry(kind: str, entry: Entry, identity: str) -> Row:
    """Return an entry as a row."""
    now = {name: getattr(entry, name, None) for name in {*_MEANS.values()}}
    now["kind"] = None if kind == MEMORY else kind
    written, as_written = written_entry(kind, entry), as_written_of(entry.origin)
    row = settled(written, as_written, lambda row: _entry_fields(kind, row), now, _MEANS)
    return _with_identity(row, identity, kind, entry.origin)


# -- nodes ---------------------------------------------------------------------------------


def node_of(kind: str, row: Row) -> GraphNode:
    """Return an entity or a raw node as a node.

    Raises:
        MalformedError: If it is not valid, naming the member.
    """
    if kind == RAW:
        identity, name, label = text_in(row, "id"), row.get("name"), row.get("type")
        origin = Origin(
            provider=NAME,
            id=f"{RAW}:{identity}",
            as_written=float_spellings(row),
            trust=TrustClass.IMPORTED,
        )
        return GraphNode(
            name=name if type(name) is str else None,
            labels=(label,) if type(label) is str else (),
            properties=row,
            origin=origin,
        )
    identity = text_in(row, "external_id")
    text_in(row, "name")
    node = GraphNode(**_node_fields(row))
    return with_origin(node, identity, row, _written_node(node))


def _node_fields(row: Row) -> Row:
    label, summary, name = row.get("entity_type"), row.get("description"), row.get("name")
    return {
        "name": name if type(name) is str else None,
        "labels": (label,) if type(label) is str else (),
        "summary": summary if type(summary) is str else None,
        "properties": _object(row.get("attributes")),
        "metadata": _object(row.get("metadata")),
        "scope": _scope_of(row),
    }


def _written_node(node: GraphNode) -> Row:
    row = _written_common(ENTITY, node)
    row |= {
        "name": node.name,
        "entity_type": node.labels[0] if node.labels else None,
        "description": node.summary,
        "aliases": [],
        "attributes": node.properties,
    }
    return _without_nothing(row)


def row_of_node(node: GraphNode, identity: str) -> Row:
    """Return a node as an entity, or as a raw node if it was one."""
    if is_raw(node):
        as_written = node.origin.as_written if node.origin is not None else {}
        return with_numbers(dict(node.properties), as_written.get(NUMBERS))
    fields = {name: getattr(node, name) for name in _node_fields({})}
    row = settled(_written_node(node), as_written_of(node.origin), _node_fields, fields, _MEANS)
    return _with_identity(row, identity, ENTITY, node.origin)


def is_raw(node: GraphNode) -> bool:
    """Return whether a node was a raw one."""
    origin = node.origin
    is_ours = origin is not None and origin.provider == NAME
    return is_ours and origin is not None and (origin.id or "").startswith(f"{RAW}:")


# -- all of them ---------------------------------------------------------------------------


def as_written_of(origin: Origin | None) -> Row:
    """Return the members of a row that its record does not reproduce."""
    return dict(origin.as_written) if origin is not None and origin.provider == NAME else {}


def with_origin(record: _T, identity: str, row: Row, written: Row) -> _T:
    """Return a record with the members of its row that it does not reproduce."""
    as_written = differences({k: v for k, v in row.items() if k != "external_id"}, written)
    origin = Origin(provider=NAME, id=identity, as_written=as_written, trust=TrustClass.IMPORTED)
    return msgspec.structs.replace(record, origin=origin)


def _with_identity(row: Row, identity: str, kind: str, origin: Origin | None) -> Row:
    if origin is None or origin.provider != NAME:
        row["external_system"] = origin.provider if origin and origin.provider else _SYSTEM
    return {"external_id": identity, **row, "kind": kind} if "kind" in row else row


TAR_BLOCK = 512
_MOST_FILES, _DEEPEST = 1000, 4
_MORE_BYTES = 1 << 16
_MAGIC = b"ustar"
_SHOWN_CHARS = 80
_KNOWN = {*KINDS, MANIFEST, PERMISSIONS}


class Chunks(Protocol):
    """The bytes of a file."""

    def read(self) -> bytes:
        """Return the next bytes; empty at the end."""
        ...


def is_archive(location: Location) -> bool:
    """Return whether a place is a COGX archive, by the names and first bytes of its files."""
    if location.is_folder:
        return False
    head = location.head
    if head.startswith(ZIP_MAGIC):
        with _has_manifest(location) as is_ours:
            return is_ours
    head = location.unpacked_head
    while head[257:262] == _MAGIC and head[156:157] in b"xg5":
        size = _octal(head[124:136]) or 0
        head = head[TAR_BLOCK + -(-size // TAR_BLOCK) * TAR_BLOCK :]
    name, is_tar = _name_in(head[:TAR_BLOCK]), head[257:262] == _MAGIC
    return is_tar and _is_known_file(name.rpartition("/")[2], head[TAR_BLOCK:].rstrip(b"\0"))


def _is_known_file(name: str, start: bytes) -> bool:
    paths = {path for path, _ in json_members(start.partition(b"\n{")[0])}
    if name == MANIFEST:
        return (b"cogx_version",) in paths
    if name == FILES["raw_node"]:
        return {(b"id",), (b"type",)} <= paths
    return name in KINDS and {(b"external_id",), (b"kind",)} <= paths


@contextmanager
def _has_manifest(location: Location) -> Iterator[bool]:
    is_ours = False
    try:
        with open_archive(location) as archive:
            for file in archive.files:
                if file.name == MANIFEST:
                    with archive.stream(file) as stream:
                        is_ours = is_ours or _is_known_file(MANIFEST, stream.read(CHUNK))
    except (MalformedError, LimitError, PathRefusedError):
        is_ours = False
    yield is_ours


def files_in(location: Location, reading: ReadContext) -> Iterator[tuple[str, Chunks]]:
    """Yield the files of an archive with their bytes; read each before the next one.

    Raises:
        MalformedError: If it is not an archive, truncated or damaged.
        LimitError: If it exceeds a limit.
        PathRefusedError: If a path leads out of it.
    """
    if location.head.startswith(ZIP_MAGIC):
        with open_archive(location, reading.limits) as archive:
            for file in archive.files:
                with archive.stream(file) as stream:
                    yield file.path, _Stream(stream)
        return
    with location.open() as stream:
        yield from _Tar(Decompressor(stream, reading.limits)).files()


class _Stream:
    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def read(self) -> bytes:
        return self._stream.read(CHUNK)


class _Tar:
    """A tar archive that is streamed."""

    def __init__(self, source: Decompressor) -> None:
        self._source = source
        self._held = b""

    def files(self) -> Iterator[tuple[str, Chunks]]:
        """Yield its files."""
        seen = set[str]()
        while (header := self._read(TAR_BLOCK)).strip(b"\0"):
            size = self._checked(header)
            kind, name = header[156:157], _name_in(header)
            if kind in b"xg" and size <= _MORE_BYTES:  # extended headers of the next file
                more = self._read(size + -size % TAR_BLOCK)
                if b" path=" in more or b" size=" in more:
                    raise MalformedError("an unexpected file name", field=name[:_SHOWN_CHARS])
                continue
            if kind == b"5" and size == 0:
                continue
            if kind not in (b"0", b"\0"):
                raise MalformedError("not a regular file", field=name[:_SHOWN_CHARS])
            if _depth_of(name) > _DEEPEST or name in seen or len(seen) == _MOST_FILES:
                raise MalformedError("an unexpected file", field=name[:_SHOWN_CHARS])
            seen.add(name)
            file = _File(self, size)
            yield name, file
            file.skip()
            self._read(-size % TAR_BLOCK)
        while self.some(CHUNK):
            pass

    def some(self, most: int) -> bytes:
        """Return at most this many bytes; empty at the end."""
        data = self._held or self._source.read()
        self._held = data[most:]
        return data[:most]

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self.some(size - len(data))
            if not more:
                raise MalformedError("the archive is truncated", byte=0)
            data += more
        return data

    def _checked(self, header: bytes) -> int:
        size, declared = _octal(header[124:136]), _octal(header[148:156])
        plain = header[:148] + b" " * 8 + header[156:]
        if size is None or declared != sum(plain) or header[257:262] != _MAGIC:
            raise MalformedError("not a tar archive, or damaged", byte=0)
        return size


class _File:
    """A file of a tar archive."""

    def __init__(self, tar: _Tar, size: int) -> None:
        self._tar = tar
        self._left = size

    def read(self) -> bytes:
        """Return the next bytes; empty at the end."""
        if not self._left:
            return b""
        data = self._tar.some(min(CHUNK, self._left))
        if not data:
            raise MalformedError("the archive is truncated", byte=0)
        self._left -= len(data)
        return data

    def skip(self) -> None:
        """Skip the rest."""
        while self.read():
            pass


def _depth_of(name: str) -> int:
    try:
        return len(parts_of(name))
    except PathRefusedError as error:
        error.field = name[:_SHOWN_CHARS]
        raise


def _octal(digits: bytes) -> int | None:
    plain = digits.strip(b" \0")
    return int(plain, 8) if plain.isdigit() and not set(plain) & set(b"89") else None


def _name_in(header: bytes) -> str:
    name, start = header[:100].partition(b"\0")[0], header[345:500].partition(b"\0")[0]
    whole = (start + b"/" if start else b"") + name
    return whole.decode("utf-8", "replace").removeprefix("./")


def put_file(sink: BinaryIO, name: str, size: int, chunks: Iterator[bytes]) -> None:
    """Write a file of a tar archive, without owner and time, so that its bytes are reproducible."""
    about = tarfile.TarInfo(name)
    about.size = size
    sink.write(about.tobuf(tarfile.USTAR_FORMAT))
    sink.writelines(chunks)
    sink.write(b"\0" * (-size % TAR_BLOCK))


def put_end(sink: BinaryIO) -> None:
    """Write the end of a tar archive."""
    sink.write(b"\0" * (2 * TAR_BLOCK))


_TURN = ("role", "content", "occurred_at")


def events_of(row: Row) -> Iterator[SessionEvent]:
    """Yield an episode: its start, then its turns.

    Raises:
        MalformedError: If it is not valid, naming the member.
    """
    identity, turns, title = text_in(row, "external_id"), row.get("turns", []), row.get("title")
    if type(turns) is not list:
        raise MalformedError("`turns` is not a list", field="turns")
    name, created = title if type(title) is str else None, _time(row.get("created_at"))
    session = f"{EPISODE}:{identity}"
    written = _start(name, created)
    known = ("external_id", "turns")
    as_written = differences({k: v for k, v in row.items() if k not in known}, written)
    if "turns" not in row:
        as_written["turns"] = None
    origin = Origin(provider=NAME, id=session, as_written=as_written, trust=TrustClass.IMPORTED)
    yield SessionEvent(event="session", name=name, created_at=created, origin=origin)
    for number, turn in enumerate(turns):
        try:
            yield _turn(turn, session, number)
        except MalformedError as error:
            error.within(f"turns/{number}")
            raise


def _turn(turn: Any, session: str, number: int) -> SessionEvent:
    if type(turn) is not dict:
        raise MalformedError("not an object")
    role, text = text_in(turn, "role"), text_in(turn, "content")
    created = _time(turn.get("occurred_at"))
    as_written = differences(turn, _written_turn(role, text, created))
    name = f"{session}/{number}"
    origin = Origin(provider=NAME, id=name, as_written=as_written, trust=TrustClass.IMPORTED)
    return SessionEvent(
        event="message", session=session, role=role, text=text, created_at=created, origin=origin
    )


def row_of_start(event: SessionEvent | None, identity: str) -> Row:
    """Return the start of a conversation as an episode without turns."""
    if event is None:
        return {"external_id": identity, **_start(None, None)}
    as_written = as_written_of(event.origin)
    as_written.pop("turns", None)
    created, title = event.created_at, event.name
    row = reproduce(_start(title, created), as_written)
    if _time(row.get("created_at")) != created or row.get("title") != title:
        row |= _start(title, created)
    return {"external_id": identity, **row}


def row_of_turn(event: SessionEvent) -> Row:
    """Return a message as a turn."""
    role, text, created = event.role or "user", event.text or "", event.created_at
    as_written = {
        k: v for k, v in as_written_of(event.origin).items() if k not in ("role", "content")
    }
    written = _written_turn(role, text, created)
    row = reproduce(written, as_written)
    return row if _time(row.get("occurred_at")) == created else {**row, **written}


def has_turns(event: SessionEvent | None) -> bool:
    """Return whether an episode has a list of turns, even an empty one."""
    return event is None or "turns" not in as_written_of(event.origin)


def _start(title: str | None, created: str | None) -> Row:
    row: Row = {"external_system": NAME, "scope": {}}
    row |= {} if created is None else {"created_at": time_text(created)}
    row |= {"metadata": {}, "kind": EPISODE}
    return row if title is None else {**row, "title": title}


def _written_turn(role: str, text: str, created: str | None) -> Row:
    row: Row = {"role": role, "content": text}
    return row if created is None else {**row, "occurred_at": time_text(created)}
