"""Rows of an agent file as records, and back: memories, nodes, edges, files."""

from typing import Any, cast

import msgspec
from blake3 import blake3

from satchel.disk.contained import parts_of
from satchel.errors import MalformedError, PathRefusedError
from satchel.formats._aletheia.shape import (
    BINARY,
    NAME,
    PART,
    PARTS,
    RECORD,
    Row,
    a_list,
    an_object,
    text_in,
)
from satchel.memory.entries import Entry
from satchel.memory.parts import Component, Origin, TrustClass, is_id
from satchel.memory.records import Edge, FileVersion, GraphNode, Model
from satchel.seal.encoding.carry import carry, unescape_keys
from satchel.seal.encoding.jcs import encode_sorted
from satchel.seal.encoding.notation import numbers_of
from satchel.seal.records import Sealed, as_model
from satchel.type_info import resolved

PART_CHARS = 1 << 17
"""Characters of a file's text, or of its bytes in base64, that one record has."""

_OWN = frozenset({"id", "nonce", "type", "origin", "parent_ids", "text", "metadata"})
_VECTOR = ("id", "text", "metadata", RECORD)
_NODE = ("id", "labels", "properties", RECORD)
_EDGE = ("source", "target", "type", "properties", RECORD)
_CONTENTS = ("sizeBytes", "sha256", "contentsBase64")
_SEMANTIC = {"type": "semantic"}


def origin_of(identity: str, source: str, said: Any, kept: Row) -> Origin:
    """Return where a record was: in the file, unless it says that it came from elsewhere.

    Args:
        identity: Its id in the file.
        source: Whose file it is, and which part of it: one id may stand for several things.
        said: What the row's ``record`` says of its origin.
        kept: Members of the row that nobody knows.

    Raises:
        MalformedError: If what it says is no origin.
    """
    found = an_object(said, f"{RECORD}/origin")
    if "provider" in found:
        if "as_written" in found:
            found = {**found, "as_written": unescape_keys(found["as_written"])}
        # What had no id where it came from has the file's, so that others can name it.
        return _converted(found if "id" in found else {"source": source, **found, "id": identity})
    more = {"trust": TrustClass.IMPORTED, "source": source, **found}
    return _converted({**more, "provider": NAME, "id": identity, "as_written": kept})


def _converted(value: Row) -> Origin:
    try:
        return msgspec.convert(value, resolved(Origin))
    except msgspec.ValidationError as error:
        raise MalformedError(f"not an origin: {error}", field=f"{RECORD}/origin") from None


def said_of_origin(origin: Origin | None, source: str, identity: str) -> tuple[Row, Row]:
    """Return what a row's ``record`` says of an origin, and the members that nobody knows.

    Args:
        origin: The origin.
        source: As ``origin_of`` takes it, for a row of the file that is written.
        identity: Likewise.
    """
    if origin is None:
        return {}, {}
    value = msgspec.to_builtins(origin)
    if origin.provider != NAME:
        if origin.provider and origin.source is not None and origin.id == identity:
            del value["id"]
            if origin.source == source:
                del value["source"]
        if "as_written" in value:  # marks of other formats are in it: it stays as it is
            value["as_written"] = carry(value["as_written"])
        return value, {}
    kept = value.pop("as_written", {})
    for name in ("provider", "id"):
        value.pop(name, None)
    if value.get("source") == source:
        del value["source"]
    if origin.trust is TrustClass.IMPORTED:
        del value["trust"]
    elif origin.trust is None:
        value["trust"] = None
    return value, kept


def identity_of(record: Sealed, model: Model) -> str:
    """Return what a record is called in a file: by its id in the one it came in, or its own."""
    origin = getattr(model, "origin", None)
    found = None if origin is None else origin.id
    if found and origin is not None and (origin.provider == NAME or is_id(found)):
        return str(found)
    return record.id


def entry_of(row: Row, agent: str) -> tuple[Entry, list[Any]]:
    """Return a memory of an agent, and what the file calls its parents.

    Raises:
        MalformedError: If the row is no memory, naming the member.
    """
    identity, said = text_in(row, "id"), dict(an_object(row.get(RECORD), RECORD))
    metadata = an_object(row.get("metadata"), "metadata")
    if row.get("text") is not None and type(row["text"]) is not str:
        raise MalformedError("`text` is not text", field="text")
    parents = a_list(said.pop("parent_ids", None), f"{RECORD}/parent_ids")
    kind = said.pop("type", "semantic")
    if kind not in tuple(map(str, Component)):
        raise MalformedError("not a memory", field=f"{RECORD}/type")
    origin = origin_of(identity, agent, said.pop("origin", None), _unknown(row, _VECTOR))
    value = {k: v for k, v in said.items() if k not in _OWN}
    text = {} if row.get("text") is None else {"text": row["text"]}
    model = _model({**value, **text, "type": kind, "metadata": metadata}, kind)
    return cast("Entry", msgspec.structs.replace(model, origin=origin)), parents


def row_of_entry(record: Sealed, identity: str, parents: list[str], agent: str) -> Row:
    """Return a memory as a row.

    Args:
        record: The memory.
        identity: What the file calls it.
        parents: What the file calls those of its parents that are in it.
        agent: Whose file it is.
    """
    entry = cast("Entry", record.model)
    value, (origin, kept) = _more_of(record), said_of_origin(entry.origin, agent, identity)
    value |= {"parent_ids": parents} if parents else {}
    value |= {"origin": origin} if origin else {}
    row: Row = {"id": identity, "text": entry.text, "metadata": entry.metadata, **kept}
    return row if value == _SEMANTIC else {**row, RECORD: value}


def node_of(row: Row, agent: str) -> GraphNode:
    """Return a node of the graph.

    Raises:
        MalformedError: If the row is none, naming the member.
    """
    identity, said = text_in(row, "id"), dict(an_object(row.get(RECORD), RECORD))
    properties = an_object(row.get("properties"), "properties")
    labels = a_list(row.get("labels"), "labels")
    source = f"{agent}/nodes"
    origin = origin_of(identity, source, said.pop("origin", None), _unknown(row, _NODE))
    if "name" not in said and type(properties.get("name")) is str:
        said["name"] = properties["name"]
    value = {k: v for k, v in said.items() if k not in ("id", "nonce", "type")}
    value |= {"type": "graph_node", "labels": labels, "properties": properties}
    return cast("GraphNode", msgspec.structs.replace(_model(value, "graph_node"), origin=origin))


def row_of_node(record: Sealed, identity: str, agent: str) -> Row:
    """Return a node as a row."""
    node = cast("GraphNode", record.model)
    value, (origin, kept) = (
        _value_of(record),
        said_of_origin(node.origin, f"{agent}/nodes", identity),
    )
    for name in ("id", "nonce", "type", "labels", "properties", "origin"):
        value.pop(name, None)
    if "name" in value and value["name"] == node.properties.get("name"):
        del value["name"]
    value |= {"origin": origin} if origin else {}
    row: Row = {"id": identity, "labels": list(node.labels), "properties": node.properties, **kept}
    return {**row, RECORD: value} if value else row


def edge_of(row: Row, ends: tuple[str, str], agent: str) -> Edge:
    """Return an edge of the graph.

    Args:
        row: The edge.
        ends: What stands for the ids at its ends.
        agent: Whose file it is.

    Raises:
        MalformedError: If the row is none, naming the member.
    """
    kind, said = text_in(row, "type"), dict(an_object(row.get(RECORD), RECORD))
    properties = an_object(row.get("properties"), "properties")
    # Two links between the same two things are two; one that comes again is the same.
    before = an_object(said.pop("origin", None), f"{RECORD}/origin")
    identity = before.get("id") or _identity_of(row)
    origin = origin_of(identity, f"{agent}/edges", before, _unknown(row, _EDGE))
    value = {k: v for k, v in said.items() if k not in ("id", "nonce", "type")}
    value |= {"type": "edge", "kind": kind, "properties": properties}
    value |= {"source": ends[0], "target": ends[1]}
    return cast("Edge", msgspec.structs.replace(_model(value, "edge"), origin=origin))


def row_of_edge(record: Sealed, ends: tuple[str, str], agent: str) -> Row:
    """Return an edge as a row."""
    edge = cast("Edge", record.model)
    value, (origin, kept) = _value_of(record), said_of_origin(edge.origin, f"{agent}/edges", "")
    for name in ("id", "nonce", "type", "kind", "source", "target", "properties", "origin"):
        value.pop(name, None)
    value |= {"origin": origin} if origin else {}
    row: Row = {"source": ends[0], "target": ends[1], "type": edge.kind}
    row |= {"properties": edge.properties, **kept}
    made = {**row, RECORD: value} if value else row
    first = edge.origin.id if edge.origin is not None and edge.origin.provider == NAME else None
    if first is None or first == _identity_of(made):
        return made
    return {**row, RECORD: {**value, "origin": {**origin, "id": first}}}


def _identity_of(row: Row) -> str:
    """Return what an edge is known by that nobody gave an id."""
    return blake3(encode_sorted(row)).hexdigest(length=16)


# -- files ---------------------------------------------------------------------------------


def require_path(path: str, field: str) -> str:
    """Return the path of a file inside a workspace.

    Raises:
        MalformedError: If it leads out of it, or no file can have it.
    """
    try:
        parts_of(path)
    except PathRefusedError as error:
        problem = f"not a path inside a workspace: {error.message}"
        raise MalformedError(problem, field=field) from None
    return path


def is_path(path: str) -> bool:
    """Tell whether a file inside a workspace can have a path."""
    try:
        parts_of(path)
    except PathRefusedError:
        return False
    return True


def text_files(path: str, text: str, agent: str) -> list[FileVersion]:
    """Return a file with text, as one record or several."""
    chunks = [text[at : at + PART_CHARS] for at in range(0, len(text), PART_CHARS)] or [""]
    origin = _at(path, agent)
    return [
        FileVersion(path=path, text=chunk, metadata=_part(number, len(chunks)), origin=origin)
        for number, chunk in enumerate(chunks)
    ]


def binary_files(row: Row, path: str, agent: str) -> list[FileVersion]:
    """Return a file that is not text, as one record or several; its name alone where that is all.

    Raises:
        MalformedError: If a member is not what it has to be.
    """
    more = {name: part for name, part in row.items() if name not in ("path", *_CONTENTS)}
    contents = row.get("contentsBase64", "")
    if type(contents) is not str:
        raise MalformedError("this is not text", field="contentsBase64")
    chunks = [contents[at : at + PART_CHARS] for at in range(0, len(contents), PART_CHARS)]
    said = {name: row[name] for name in _CONTENTS if name in row}
    origin = msgspec.structs.replace(_at(path, agent), as_written=more)
    found = []
    for number, chunk in enumerate(chunks or [contents]):
        of_it = {**said, "contentsBase64": chunk} if "contentsBase64" in said else said
        metadata = {BINARY: True, **_part(number, len(chunks)), **of_it}
        found.append(FileVersion(path=path, metadata=metadata, origin=origin))
    return found


def _part(number: int, count: int) -> Row:
    return {PART: number, PARTS: count} if count > 1 else {}


def _at(path: str, agent: str) -> Origin:
    source = f"{agent}/workspace"
    return Origin(provider=NAME, source=source, id=path, trust=TrustClass.IMPORTED)


# -- all -----------------------------------------------------------------------------------


def _unknown(row: Row, known: tuple[str, ...]) -> Row:
    rest = {name: part for name, part in row.items() if name not in known}
    # A vector, and what stands beside a record of ours, are no notation of the source.
    free: Row = {name: row[name] for name in ("properties", "metadata") if name in row}
    return rest | numbers_of(free)


def _model(value: Row, kind: str) -> Model:
    try:
        return as_model(value)
    except MalformedError as error:
        raise MalformedError(f"not a {kind}: {error.message}", field=error.field) from None


def _value_of(record: Sealed) -> Row:
    return dict(msgspec.json.decode(record.body))


def _more_of(record: Sealed) -> Row:
    """Return what the ``record`` of a memory's row says, but for its links."""
    value = _value_of(record)
    for name in _OWN - {"type"}:
        value.pop(name, None)
    return {"type": value.pop("type"), **value}
