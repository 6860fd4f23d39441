"""Rows of an agent file as records, and back: memories, nodes, edges, files."""

from collections.abc import Iterator
from typing import Any, cast

import msgspec
from blake3 import blake3

from satchel.crypto.canonical import encode_foreign, encode_sorted, unescape_keys
from satchel.crypto.json_reader import float_spellings
from satchel.crypto.sealed_records import Sealed, as_model
from satchel.errors import InputError, MalformedError, PathRefusedError
from satchel.formats._aletheia.branches import Branches
from satchel.formats._aletheia.schema import (
    BINARY,
    EMBEDDING,
    MINUS_ZEROS,
    NAME,
    PART,
    PARTS,
    RECORD,
    VECTOR_OF,
    Row,
    a_list,
    an_object,
    text_in,
)
from satchel.formats._own_vectors import Vector, minus_zeros, signed
from satchel.model.records import Edge, Entry, FileVersion, GraphNode, Model
from satchel.model.values import ID_PREFIX, Component, Origin, TrustClass, is_id, resolved
from satchel.ports.drafts import placeholder
from satchel.ports.format import ReadContext
from satchel.ports.vectors import Maker
from satchel.runtime.contained_folder import parts_of
from satchel.runtime.scratch import ScratchMap, Spool

PART_CHARS = 1 << 17
"""Largest number of characters of a file's text or base64 in one record."""

_MAPPED = frozenset({"id", "nonce", "type", "origin", "parent_ids", "text", "metadata"})
_VECTOR = ("id", "text", "metadata", RECORD)
_NODE = ("id", "labels", "properties", RECORD)
_EDGE = ("source", "target", "type", "properties", RECORD)
_CONTENTS = ("sizeBytes", "sha256", "contentsBase64")
_SEMANTIC = {"type": "semantic"}


def origin_of(identity: str, source: str, value: Any, as_written: Row) -> Origin:
    """Return the origin of a record: the file, unless it states another one.

    Args:
        identity: Its ID in the file.
        source: The agent and the section, since one ID may be used in several sections.
        value: The origin in the row's ``record``.
        as_written: Unknown members of the row.

    Raises:
        MalformedError: If its origin is not valid.
    """
    origin = an_object(value, f"{RECORD}/origin")
    if "provider" in origin:
        if "as_written" in origin:
            origin = {**origin, "as_written": unescape_keys(origin["as_written"])}
        # A record without an ID at its origin gets the file's, so that others can refer to it.
        return _converted(
            origin if "id" in origin else {"source": source, **origin, "id": identity}
        )
    more = {"trust": TrustClass.IMPORTED, "source": source, **origin}
    return _converted({**more, "provider": NAME, "id": identity, "as_written": as_written})


def _converted(value: Row) -> Origin:
    try:
        return msgspec.convert(value, resolved(Origin))
    except msgspec.ValidationError as error:
        raise MalformedError(f"not an origin: {error}", field=f"{RECORD}/origin") from None


def origin_member_of(origin: Origin | None, source: str, identity: str) -> tuple[Row, Row]:
    """Return the origin for a row's ``record``, and the unknown members.

    Args:
        origin: The origin.
        source: As for ``origin_of``, for a row of the file to write.
        identity: As for ``origin_of``.
    """
    if origin is None:
        return {}, {}
    value = msgspec.to_builtins(origin)
    if origin.provider != NAME:
        if origin.provider and origin.source is not None and origin.id == identity:
            del value["id"]
            if origin.source == source:
                del value["source"]
        if "as_written" in value:  # it has markers of other formats: it is not changed
            value["as_written"] = encode_foreign(value["as_written"])
        return value, {}
    as_written = value.pop("as_written", {})
    for name in ("provider", "id"):
        value.pop(name, None)
    if value.get("source") == source:
        del value["source"]
    if origin.trust is TrustClass.IMPORTED:
        del value["trust"]
    elif origin.trust is None:
        value["trust"] = None
    return value, as_written


def identity_of(record: Sealed, model: Model) -> str:
    """Return the ID of a record for a file: that of its source file, or its own."""
    origin = getattr(model, "origin", None)
    origin_id = None if origin is None else origin.id
    if origin_id and origin is not None and (origin.provider == NAME or is_id(origin_id)):
        return str(origin_id)
    return record.id


def entry_of(row: Row, agent: str) -> tuple[Entry, list[Any]]:
    """Return a memory of an agent, and the IDs of its parents in the file.

    Raises:
        MalformedError: If the row is not a memory, naming the member.
    """
    identity, record = text_in(row, "id"), dict(an_object(row.get(RECORD), RECORD))
    metadata = an_object(row.get("metadata"), "metadata")
    if row.get("text") is not None and type(row["text"]) is not str:
        raise MalformedError("`text` is not text", field="text")
    parents = a_list(record.pop("parent_ids", None), f"{RECORD}/parent_ids")
    kind = record.pop("type", "semantic")
    if kind not in tuple(map(str, Component)):
        raise MalformedError("not a memory", field=f"{RECORD}/type")
    origin = origin_of(identity, agent, record.pop("origin", None), _unknown(row, _VECTOR))
    value = {k: v for k, v in record.items() if k not in _MAPPED}
    text = {} if row.get("text") is None else {"text": row["text"]}
    model = _model({**value, **text, "type": kind, "metadata": metadata}, kind)
    return cast("Entry", msgspec.structs.replace(model, origin=origin)), parents


def row_of_entry(record: Sealed, identity: str, parents: list[str], agent: str) -> Row:
    """Return a memory as a row.

    Args:
        record: The memory.
        identity: Its ID in the file.
        parents: The IDs of those of its parents that are in the file.
        agent: The agent of the file.
    """
    entry = cast("Entry", record.model)
    value, (origin, as_written) = _more_of(record), origin_member_of(entry.origin, agent, identity)
    value |= {"parent_ids": parents} if parents else {}
    value |= {"origin": origin} if origin else {}
    row: Row = {"id": identity, "text": entry.text, "metadata": entry.metadata, **as_written}
    return row if value == _SEMANTIC else {**row, RECORD: value}


def node_of(row: Row, agent: str) -> GraphNode:
    """Return a node of the graph.

    Raises:
        MalformedError: If the row is not valid, naming the member.
    """
    identity, record = text_in(row, "id"), dict(an_object(row.get(RECORD), RECORD))
    properties = an_object(row.get("properties"), "properties")
    labels = a_list(row.get("labels"), "labels")
    source = f"{agent}/nodes"
    origin = origin_of(identity, source, record.pop("origin", None), _unknown(row, _NODE))
    if "name" not in record and type(properties.get("name")) is str:
        record["name"] = properties["name"]
    value = {k: v for k, v in record.items() if k not in ("id", "nonce", "type")}
    value |= {"type": "graph_node", "labels": labels, "properties": properties}
    return cast("GraphNode", msgspec.structs.replace(_model(value, "graph_node"), origin=origin))


def row_of_node(record: Sealed, identity: str, agent: str) -> Row:
    """Return a node as a row."""
    node = cast("GraphNode", record.model)
    value, (origin, as_written) = (
        _value_of(record),
        origin_member_of(node.origin, f"{agent}/nodes", identity),
    )
    for name in ("id", "nonce", "type", "labels", "properties", "origin"):
        value.pop(name, None)
    if "name" in value and value["name"] == node.properties.get("name"):
        del value["name"]
    value |= {"origin": origin} if origin else {}
    row: Row = {
        "id": identity,
        "labels": list(node.labels),
        "properties": node.properties,
        **as_written,
    }
    return {**row, RECORD: value} if value else row


def edge_of(row: Row, ends: tuple[str, str], agent: str) -> Edge:
    """Return an edge of the graph.

    Args:
        row: The edge.
        ends: The placeholders of the IDs at its ends.
        agent: The agent of the file.

    Raises:
        MalformedError: If the row is not valid, naming the member.
    """
    kind, record = text_in(row, "type"), dict(an_object(row.get(RECORD), RECORD))
    properties = an_object(row.get("properties"), "properties")
    # Two links of the same ends are different; a repeated one is the same.
    written_origin = an_object(record.pop("origin", None), f"{RECORD}/origin")
    identity = written_origin.get("id") or _identity_of(row)
    origin = origin_of(identity, f"{agent}/edges", written_origin, _unknown(row, _EDGE))
    value = {k: v for k, v in record.items() if k not in ("id", "nonce", "type")}
    value |= {"type": "edge", "kind": kind, "properties": properties}
    value |= {"source": ends[0], "target": ends[1]}
    return cast("Edge", msgspec.structs.replace(_model(value, "edge"), origin=origin))


def row_of_edge(record: Sealed, ends: tuple[str, str], agent: str) -> Row:
    """Return an edge as a row."""
    edge = cast("Edge", record.model)
    value, (origin, as_written) = (
        _value_of(record),
        origin_member_of(edge.origin, f"{agent}/edges", ""),
    )
    for name in ("id", "nonce", "type", "kind", "source", "target", "properties", "origin"):
        value.pop(name, None)
    value |= {"origin": origin} if origin else {}
    row: Row = {"source": ends[0], "target": ends[1], "type": edge.kind}
    row |= {"properties": edge.properties, **as_written}
    edge_row = {**row, RECORD: value} if value else row
    first = edge.origin.id if edge.origin is not None and edge.origin.provider == NAME else None
    if first is None or first == _identity_of(edge_row):
        return edge_row
    return {**row, RECORD: {**value, "origin": {**origin, "id": first}}}


def _identity_of(row: Row) -> str:
    """Return the ID of an edge that has none."""
    return blake3(encode_sorted(row)).hexdigest(length=16)


# -- files ---------------------------------------------------------------------------------


def require_path(path: str, field: str) -> str:
    """Return the path of a file inside a workspace.

    Raises:
        MalformedError: If it leads out of the workspace, or is not valid.
    """
    try:
        parts_of(path)
    except PathRefusedError as error:
        problem = f"not a path inside a workspace: {error.message}"
        raise MalformedError(problem, field=field) from None
    return path


def is_path(path: str) -> bool:
    """Return whether a path is valid for a file inside a workspace."""
    try:
        parts_of(path)
    except PathRefusedError:
        return False
    return True


def text_files(path: str, text: str, agent: str) -> list[FileVersion]:
    """Return a text file as one or several records."""
    chunks = [text[at : at + PART_CHARS] for at in range(0, len(text), PART_CHARS)] or [""]
    origin = _file_origin(path, agent)
    return [
        FileVersion(path=path, text=chunk, metadata=_part(number, len(chunks)), origin=origin)
        for number, chunk in enumerate(chunks)
    ]


def binary_files(row: Row, path: str, agent: str) -> list[FileVersion]:
    """Return a binary file as one or several records; without contents, only its name.

    Raises:
        MalformedError: If a member is not valid.
    """
    more = {name: part for name, part in row.items() if name not in ("path", *_CONTENTS)}
    contents = row.get("contentsBase64", "")
    if type(contents) is not str:
        raise MalformedError("this is not text", field="contentsBase64")
    chunks = [contents[at : at + PART_CHARS] for at in range(0, len(contents), PART_CHARS)]
    contents_members = {name: row[name] for name in _CONTENTS if name in row}
    origin = msgspec.structs.replace(_file_origin(path, agent), as_written=more)
    versions = []
    for number, chunk in enumerate(chunks or [contents]):
        members = (
            {**contents_members, "contentsBase64": chunk}
            if "contentsBase64" in contents_members
            else contents_members
        )
        metadata = {BINARY: True, **_part(number, len(chunks)), **members}
        versions.append(FileVersion(path=path, metadata=metadata, origin=origin))
    return versions


def _part(number: int, count: int) -> Row:
    return {PART: number, PARTS: count} if count > 1 else {}


def _file_origin(path: str, agent: str) -> Origin:
    source = f"{agent}/workspace"
    return Origin(provider=NAME, source=source, id=path, trust=TrustClass.IMPORTED)


# -- all -----------------------------------------------------------------------------------


def _unknown(row: Row, known: tuple[str, ...]) -> Row:
    rest = {name: part for name, part in row.items() if name not in known}
    # A vector and the ``record`` member are not part of the source's notation.
    free: Row = {name: row[name] for name in ("properties", "metadata") if name in row}
    return rest | float_spellings(free)


def _model(value: Row, kind: str) -> Model:
    try:
        return as_model(value)
    except MalformedError as error:
        raise MalformedError(f"not a {kind}: {error.message}", field=error.field) from None


def _value_of(record: Sealed) -> Row:
    return dict(msgspec.json.decode(record.body))


def _more_of(record: Sealed) -> Row:
    """Return the ``record`` of a memory's row, without its links."""
    value = _value_of(record)
    for name in _MAPPED - {"type"}:
        value.pop(name, None)
    return {"type": value.pop("type"), **value}


VECTORS, NODES, FILES = "v", "n", "f"
"""Sections of IDs; one ID may be used in several."""

_SHOWN_CHARS = 80
_WAITS = b"waits"
_PASSES = 64
"""Largest number of passes over waiting memories; a longer chain loses links, counted."""


class AletheiaLinks:
    """The IDs of a file, and the records that wait for others.

    Args:
        reading: Takes bad records, and counts links that lead nowhere.
        name: The name of the file in errors.
        branches: Resolves the names of events of conversations.
    """

    def __init__(self, reading: ReadContext, name: str, branches: Branches) -> None:
        self._branches = branches
        self._reading = reading
        self._report = reading.report
        self._name = name
        self._names, self._waits = ScratchMap(), ScratchMap()
        self._derived, self._edges = Spool(), Spool()

    def close(self) -> None:
        """Free the temporary space."""
        for resource in (self._names, self._waits, self._derived, self._edges):
            resource.close()

    def is_new(self, path: str) -> bool:
        """Store the path of a file; return whether it is new."""
        return self._names.add(_key(FILES, path))

    def note(self, table: str, name: str, draft: Model) -> None:
        """Store the placeholder of an ID of the file."""
        origin, scope = getattr(draft, "origin", None), getattr(draft, "scope", None)
        assert origin is not None  # noqa: S101 - each record that is read has one
        tag = str(draft.__struct_config__.tag)
        raw = bytes.fromhex(placeholder(tag, scope, origin).removeprefix(ID_PREFIX))
        if not self._names.add(_key(table, name), raw):
            self.note_twice(name)

    def note_twice(self, name: str) -> None:
        """Note that several records have an ID."""
        self._report.note(f"several records have the same ID, such as {name[:_SHOWN_CHARS]!r}")

    def derived(self, row: Row, entry: Entry, parents: list[Any]) -> Entry | None:
        """Return a memory with its parents; None if it has to wait for one."""
        if all(self._is_out(one) for one in parents):
            return msgspec.structs.replace(entry, parent_ids=self._parents(parents))
        self._derived.write(msgspec.json.encode(row) + b"\n")
        self._waits.add(_key(VECTORS, row["id"]), _WAITS)
        return None

    def edge(self, row: Row) -> None:
        """Store an edge until its ends are known."""
        self._edges.write(msgspec.json.encode(row) + b"\n")

    def waiting(self, agent: str) -> Iterator[Entry]:
        """Yield the waiting memories, parents first."""
        for _ in range(_PASSES):
            later, moved = Spool(), False
            for row in _rows(self._derived):
                entry, names = entry_of(row, agent)
                if any(one != row["id"] and self._is_waiting(one) for one in names):
                    later.write(msgspec.json.encode(row) + b"\n")
                    continue
                moved = True
                self._waits.put(_key(VECTORS, row["id"]), b"")
                yield msgspec.structs.replace(entry, parent_ids=self._parents(names))
            self._derived.close()
            self._derived = later
            if not later.size or not moved:
                break
        for row in _rows(self._derived):  # a cycle, which a bank cannot have
            self._report.lost(
                "parent_ids", "its own ancestor", example=str(row["id"])[:_SHOWN_CHARS]
            )
            yield entry_of(row, agent)[0]

    def joined(self, agent: str) -> Iterator[Edge]:
        """Yield the edges; one with an end outside the file is skipped, and counted."""
        for row in _rows(self._edges):
            ends = [self._end(row[side]) for side in _ENDS]
            if ends[0] is None or ends[1] is None:
                side = _ENDS[0] if ends[0] is None else _ENDS[1]
                problem = f"its {side} is not in the file: {str(row[side])[:_SHOWN_CHARS]!r}"
                field = f"memory/graph/edges/{side}"
                self._report.refuse(MalformedError(problem, file=self._name, field=field))
                continue
            try:
                yield edge_of(row, (ends[0], ends[1]), agent)
            except InputError as error:
                error.within("memory/graph/edges")
                self._reading.refuse(error.located(file=self._name))

    def _end(self, name: Any) -> str | None:
        """Return the placeholder of the record at an end of an edge."""
        node = self._placeholder(name, NODES + VECTORS)
        point = self._branches.named(name) if node is None else None
        return node if point is None else point.element

    def _is_out(self, name: Any) -> bool:
        """Return whether a memory was yielded already."""
        is_known = self._names.get(_key(VECTORS, name)) is not None
        return is_known and not self._is_waiting(name)

    def _is_waiting(self, name: Any) -> bool:
        return self._waits.get(_key(VECTORS, name)) == _WAITS

    def _parents(self, names: list[Any]) -> tuple[str, ...]:
        parents = dict.fromkeys(self._placeholder(parent, VECTORS) for parent in names)
        if None in parents:
            self._report.lost("parent_ids", "a parent is not in the file")
        return tuple(parent for parent in parents if parent is not None)

    def _placeholder(self, name: Any, tables: str) -> str | None:
        for table in tables:
            raw = self._names.get(_key(table, name))
            if raw:
                return ID_PREFIX + raw.hex()
        return None


_ENDS = ("source", "target")


def _rows(spool: Spool) -> Iterator[Row]:
    for line in spool.lines():
        yield msgspec.json.decode(line)


def _key(table: str, name: Any) -> bytes:
    return f"{table}/{name}".encode("utf-8", "surrogatepass")


_VECTOR_MEMBERS = frozenset({EMBEDDING, VECTOR_OF, MINUS_ZEROS})


def maker_in(value: Any) -> Maker | None:
    """Return the maker of the bank's own vectors in a file; None if it is not valid."""
    try:
        return msgspec.convert(value, resolved(Maker))
    except msgspec.ValidationError:
        return None


def with_vector(row: Row, vector: Vector) -> Row:
    """Return the row of a memory with a vector of the bank added."""
    mark, numbers = vector
    members: Row = {**row.get(RECORD, {}), VECTOR_OF: mark}
    if EMBEDDING in row:
        members[EMBEDDING] = row[EMBEDDING]
    zeros = minus_zeros(numbers)
    members |= {MINUS_ZEROS: zeros} if zeros else {}
    return {**row, EMBEDDING: list(numbers), RECORD: members}


def without_vector(row: Row) -> tuple[Row, Vector | None]:
    """Return the row of a memory without its vector of the bank, and the vector, None for none."""
    record = an_object(row.get(RECORD), RECORD)
    mark = record.get(VECTOR_OF)
    if type(mark) is not str:
        return row, None
    vector = mark, signed(row.get(EMBEDDING), record.get(MINUS_ZEROS))
    rest = {name: part for name, part in record.items() if name not in _VECTOR_MEMBERS}
    bare = {name: part for name, part in row.items() if name not in (EMBEDDING, RECORD)}
    bare |= {EMBEDDING: record[EMBEDDING]} if EMBEDDING in record else {}
    return {**bare, RECORD: rest} if rest else bare, vector
