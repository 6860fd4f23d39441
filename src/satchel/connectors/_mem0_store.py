"""Mem0's own store on this machine: its address, and what its points hold."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, UUID, uuid5

from satchel.connectors._address import Kind
from satchel.connectors._qdrant import QdrantFolder
from satchel.crypto.canonical import decode_foreign, encode_foreign, escape_keys
from satchel.errors import UnreadableError, UsageError
from satchel.formats.mem0 import NAME, Row
from satchel.model.records import Entry
from satchel.ports.record_set import Report

SCHEME = "mem0:"

USUAL = "mem0"
"""Mem0's default collection."""

_KIND = Kind(
    SCHEME,
    "Mem0 store",
    frozenset({"collection", "history", "dimensions"}),
    "mem0:///path/to/folder?collection=NAME&history=FILE",
)
_MOST_DIMENSIONS = 65_536
_OTHERS = re.compile("_entities$|-entities$|^mem0migrations$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mem0Address:
    """The address of a local Mem0.

    ``mem0:///path/to/folder?collection=NAME&history=FILE&dimensions=N``, or a plain path.
    """

    folder: Path
    """It contains Qdrant's files, or ``qdrant`` in it does."""

    collection: str | None = None
    history: Path | None = None
    dimensions: int | None = None
    """Dimensions of the vectors of a new collection."""

    @classmethod
    def read(cls, text: str) -> "Mem0Address":
        """Parse an address.

        Raises:
            UsageError: If it is not valid.
        """
        folder, members = _KIND.read(text)
        return cls(
            folder=folder,
            collection=members.get("collection"),
            history=Path(members["history"]).expanduser() if members.get("history") else None,
            dimensions=_dimensions(members.get("dimensions")),
        )

    @property
    def qdrant(self) -> Path:
        """The folder with Qdrant's files."""
        if (self.folder / "meta.json").exists():
            return self.folder
        return self.folder / "qdrant"

    def found_history(self) -> Path | None:
        """Return the file with the history: the stated one, or the usual one if it exists."""
        if self.history is not None:
            return self.history
        near = (self.folder / "history.db", self.qdrant.parent / "history.db")
        return next((path for path in near if path.is_file()), None)


def _dimensions(text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and 0 < int(text[:9]) <= _MOST_DIMENSIONS):
        raise UsageError(
            f"vectors must have 1 to {_MOST_DIMENSIONS} dimensions", field="dimensions"
        )
    return int(text)


def chosen(folder: QdrantFolder, address: Mem0Address, *, writes: bool) -> str:
    """Return the name of the collection to use."""
    names = sorted(name for name in folder.collections if not _OTHERS.search(name))
    collection = address.collection
    if collection is not None:
        if collection not in folder.collections and not writes:
            raise UnreadableError(
                f"no collection named {collection!r}",
                file=str(folder.path),
                hint=f"Choose from: {', '.join(names)}." if names else "None exist.",
            )
        return collection
    if USUAL in names or not names:
        return USUAL
    if len(names) > 1:
        raise UsageError(
            f"several collections exist: {', '.join(names)}",
            file=str(folder.path),
            hint=f"Choose one: mem0:///folder?collection={names[0]}",
        )
    return names[0]


_PYTHON = {
    "data": "memory",
    **{
        name: name
        for name in (
            *("hash", "created_at", "updated_at", "text_lemmatized", "attributed_to"),
            *("user_id", "agent_id", "run_id", "actor_id", "role", "expiration_date"),
        )
    },
}
"""Members of a point, with the members of a row that have the same meaning."""

_TYPESCRIPT = {
    **{name: part for name, part in _PYTHON.items() if not name.endswith(("_at", "_to", "zed"))},
    **{name: name for name in ("createdAt", "updatedAt", "textLemmatized", "attributedTo")},
}
_CASES = {"text_lemmatized", "textLemmatized"}

_NO_PLACE = "Mem0's own store cannot hold it"
_SPACE = uuid5(NAMESPACE_URL, "mem0-local")
_MOST_INTEGER = 2**64 - 1

Payload = dict[str, Any]
"""The payload of a point."""


def row_of_payload(identity: str | int, payload: Payload) -> Row:
    """Return a point as one memory of ``get_all()``, in the reversible form for foreign values.

    Args:
        identity: The point's id.
        payload: Its payload.
    """
    names = _TYPESCRIPT if _is_typescript(payload) else _PYTHON
    row: Row = {"id": str(identity)}
    metadata: list[tuple[str, Any]] = []
    for name, part in payload.items():
        if name in names:
            row[names[name]] = encode_foreign(part)
        else:
            metadata.append((name, encode_foreign(part)))
    for name in _CASES & row.keys():
        if row[name] == row.get("memory"):
            del row[name]  # without a lemmatizer Mem0 repeats the text
    row["metadata"] = dict(escape_keys(metadata)) or None
    return row


def _is_typescript(payload: Payload) -> bool:
    return "createdAt" in payload and "created_at" not in payload


def payload_of_row(row: Row, report: Report, example: str) -> Payload:
    """Return the payload for a memory; members that it cannot hold are counted as lost.

    Args:
        row: A memory, in the form of an export.
        report: Where losses go.
        example: The record's id, for the report.
    """
    names = _TYPESCRIPT if _is_typescript(row) else _PYTHON
    payload: Payload = {}
    for name, part in row.items():
        if name in ("id", "metadata"):
            continue
        target = next((there for there, here in names.items() if here == name), None)
        if target is not None:
            payload[target] = decode_foreign(part)
        elif part is not None:
            report.lost(_field_name(name), _NO_PLACE, example=example)
    lemmas = "textLemmatized" if names is _TYPESCRIPT else "text_lemmatized"
    payload.setdefault(lemmas, payload.get("data"))
    metadata = decode_foreign(row.get("metadata") or {})
    if not isinstance(metadata, dict):
        report.lost("metadata", "Mem0's own store flattens its members", example=example)
        metadata = {}
    for name, part in metadata.items():
        if name in names:
            report.lost(f"metadata/{name}", "Mem0 uses that member itself", example=example)
        else:
            payload[name] = part
    return payload


def _field_name(name: str) -> str:
    return {"categories": "tags", "app_id": "scope/app"}.get(name, name)


def point_id(entry: Entry, oldest: str) -> tuple[str | int, bool]:
    """Return the ID of the point for a memory, and whether the memory had that ID at Mem0.

    Args:
        entry: The memory.
        oldest: Our ID of its first version.
    """
    origin = entry.origin
    if origin is None or origin.id is None:
        return str(uuid5(_SPACE, oldest)), True
    if origin.provider == NAME:
        identity = _own_id(origin.id)
        if identity is not None:
            return identity, True
    parts = (origin.provider, origin.source, origin.id)
    return str(uuid5(_SPACE, repr(parts))), origin.provider != NAME


def _own_id(text: str) -> str | int | None:
    if text.isascii() and text.isdecimal() and str(int(text[:21])) == text:
        return int(text) if int(text) <= _MOST_INTEGER else None
    try:
        return text if str(UUID(text)) == text else None
    except ValueError:
        return None


def derived_id(*parts: object) -> str:
    """Return a deterministic ID for some parts."""
    return str(uuid5(_SPACE, repr(parts)))
