"""A collection of Qdrant's local mode: the folder of a ``QdrantClient(path=...)``.

Each point is a memory, mapped like a point of a server (``formats.qdrant_points``), whichever
program wrote it. The client's own files are read and written; no code in them is run. Compared with
qdrant-client 1.20.0.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from satchel.connectors._address import Kind
from satchel.connectors._qdrant import Identity, Points, QdrantFolder, QdrantPoint, as_json
from satchel.crypto.canonical import decode_foreign, encode_foreign
from satchel.crypto.sealed_records import Sealed
from satchel.errors import MalformedError, UnreadableError, UsageError
from satchel.formats._pickles import POINTS, Global, Model
from satchel.formats._points import KINDS, VECTOR, entry_of, row_of
from satchel.model.records import Entry
from satchel.model.values import Component
from satchel.ports.format import ConnectorOptions, Info, Page, ReadContext, Traits, WriteResult
from satchel.ports.record_set import Report

_SPARSE = Global(POINTS, "SparseVector")
_PARTS = ("indices", "values")
_ALONE = ""
_SIZE, _DISTANCE, _MULTI = "size", "distance", "multivector_config"
_COMPARED = (_DISTANCE, _MULTI)
DISTANCES = ("Cosine", "Dot", "Euclid", "Manhattan")
"""Distances by which a collection can compare vectors."""

USUAL_VECTOR = DISTANCES[0]
"""The default distance."""


Row = dict[str, Any]


def shown(vectors: Any) -> Any:
    """Return the vectors of a point in the reversible form for foreign values; None if empty."""
    if isinstance(vectors, Model):
        return {name: shown(vectors.members.get(name)) for name in _PARTS}
    if isinstance(vectors, dict):
        named = {name: shown(one) for name, one in vectors.items()}
        return (
            named.get(_ALONE) if [*named] == [_ALONE] else encode_foreign(named) if named else None
        )
    return None if vectors is None else encode_foreign(as_json(vectors))


def stored(vectors: Any, config: Row, report: Report, example: str) -> Any:
    """Return vectors to write to a collection; those that it cannot hold are counted as lost.

    Args:
        vectors: As ``shown`` returns them.
        config: The collection's configuration.
        report: Where losses go.
        example: The record's ID.
    """
    value = decode_foreign(vectors)
    named = value if _is_named(value) else {} if value is None else {_ALONE: value}
    fitting = {}
    for name, vector in named.items():
        declared = _place(name, config)
        if _fits(vector, declared):
            fitting[name] = _sparse(vector) if isinstance(vector, dict) else vector
        else:
            has = "the collection has no such vector"
            report.lost(f"vector/{name}" if name else "vector", has, example=example)
    return fitting


def _is_named(value: Any) -> bool:
    return isinstance(value, dict) and {*value} != {*_PARTS}


def _place(name: str, config: Row) -> Any:
    """Return a collection's configuration of a vector name: its size, or that it is sparse."""
    sparse = config.get("sparse_vectors") or {}
    if name in sparse:
        return _SPARSE
    vectors = config.get("vectors") or {}
    if name == _ALONE:
        return vectors.get(_SIZE)
    named = vectors.get(name)
    return named.get(_SIZE) if isinstance(named, dict) else None


def _fits(vector: Any, declared: Any) -> bool:
    if isinstance(vector, dict):
        return bool(declared == _SPARSE)
    if not isinstance(vector, list) or type(declared) is not int:
        return False
    rows = vector if vector and isinstance(vector[0], list) else [vector]
    return all(len(row) == declared and _are_numbers(row) for row in rows)


def _are_numbers(row: Any) -> bool:
    return isinstance(row, list) and all(type(one) in (int, float) for one in row)


def _sparse(parts: Row) -> Model:
    model = Model(_SPARSE)
    model.members = {name: parts.get(name) for name in _PARTS}
    return model


def kinds_of(config: Any) -> Row:
    """Return the distances of a collection's vectors, by name, other than cosine.

    ``""`` is the name of a single vector. A sparse vector has its settings other than the index.
    """
    config = config if isinstance(config, dict) else {}
    vectors, sparse = config.get("vectors"), config.get("sparse_vectors")
    vectors = vectors if isinstance(vectors, dict) else {}
    dense = {_ALONE: vectors} if _SIZE in vectors else vectors
    kinds = {
        str(name): {key: part for key, part in settings.items() if key in _COMPARED and part}
        for name, settings in dense.items()
        if isinstance(settings, dict)
    }
    kinds = {
        name: settings
        for name, settings in kinds.items()
        if settings not in ({}, {_DISTANCE: USUAL_VECTOR})
    }
    for name, settings in (sparse if isinstance(sparse, dict) else {}).items():
        if isinstance(settings, dict) and settings.get("modifier"):
            kinds[str(name)] = {"modifier": settings["modifier"]}
    return carried(kinds)


def carried(kinds: Row) -> Row:
    """Return the settings of vectors in the reversible form for foreign values."""
    found = encode_foreign(as_json(kinds))
    return found if isinstance(found, dict) else {}


def config_for(vectors: Any, distance: str | None, kinds: Any = None) -> Row:
    """Return the configuration of a new collection, for the vectors of its first point.

    Args:
        vectors: The vectors.
        distance: The distance for all of them, if stated.
        kinds: The result of ``kinds_of`` for the collection that they are from.
    """
    settings = decode_foreign(kinds) if isinstance(kinds, dict) else {}
    settings = settings if isinstance(settings, dict) else {}
    value = decode_foreign(vectors)
    if value is None:
        return {"vectors": {}, "sparse_vectors": None}
    named = value if _is_named(value) else {_ALONE: value}
    dense = {
        name: {_SIZE: _size(vector), **_compared(settings.get(name), distance)}
        for name, vector in named.items()
        if isinstance(vector, list)
    }
    words: Row = {
        name: _modifier(settings.get(name))
        for name, vector in named.items()
        if isinstance(vector, dict)
    }
    alone = dense.get(_ALONE)
    return {"vectors": alone if alone is not None else dense, "sparse_vectors": words or None}


def _compared(kind: Any, distance: str | None) -> Row:
    kind = kind if isinstance(kind, dict) else {}
    known = kind.get(_DISTANCE) if kind.get(_DISTANCE) in DISTANCES else USUAL_VECTOR
    more = kind.get(_MULTI)
    multi = {_MULTI: {"comparator": "max_sim"}} if isinstance(more, dict) else {}
    return {_DISTANCE: distance or known, **multi}


def _modifier(kind: Any) -> Row:
    is_idf = isinstance(kind, dict) and kind.get("modifier") == "idf"
    return {"modifier": "idf"} if is_idf else {}


def widened(config: Row | None, more: Row) -> Row:
    """Return the configuration of a new collection, extended for other vectors.

    A collection has a single vector or named ones; of two kinds the first is used.
    """
    if config is None:
        return more
    dense, words = config["vectors"], config["sparse_vectors"]
    new = more["vectors"]
    if not dense:
        dense = new
    elif _SIZE not in dense and _SIZE not in new:
        dense = {**new, **dense}
    sparse = {**(more["sparse_vectors"] or {}), **(words or {})}
    return {"vectors": dense, "sparse_vectors": sparse or None}


def _size(vector: list[Any]) -> int:
    return len(vector[0]) if vector and isinstance(vector[0], list) else len(vector)


SCHEME = "qdrant:"
USUAL = "memories"
"""The default name of a new collection."""

_KIND = Kind(
    SCHEME,
    "Qdrant folder",
    frozenset({"collection", "distance"}),
    "qdrant:///path/to/folder?collection=NAME",
)
_TOGETHER = 256
_CURSOR = re.compile("points/([0-9]{1,18})", re.ASCII)
_OTHER_VERSION = "another version exists there; --overwrite replaces it"


@dataclass(frozen=True, slots=True, kw_only=True)
class QdrantAddress:
    """The address of a collection, ``qdrant:///path/to/folder?collection=NAME``, or a path."""

    folder: Path
    collection: str | None = None
    distance: str | None = None
    """Distance for all vectors of a new collection; None for that of their source."""

    @classmethod
    def read(cls, text: str) -> "QdrantAddress":
        """Parse an address.

        Raises:
            UsageError: If it is not valid.
        """
        folder, members = _KIND.read(text)
        distance = members.get("distance")
        if distance is not None and distance not in DISTANCES:
            raise _KIND.refused(f"the distance must be one of {', '.join(DISTANCES)}")
        return cls(folder=folder, collection=members.get("collection") or None, distance=distance)


class QdrantLocal:
    """A collection, in a folder that is locked while open.

    Args:
        address: Its address.
        options: How to open it.

    Raises:
        UnreadableError: If it does not exist.
        LockedError: If another process has it open.
        MalformedError: If it is damaged.
        UsageError: If the collection is ambiguous.
    """

    info: ClassVar[Info] = Info(
        title="Qdrant on this machine",
        suffixes=(),
        spec="qdrant-client 1.20.0, local mode: QdrantClient(path=...)",
        checked="2026-11-22",
        traits=Traits(components=frozenset({Component.SEMANTIC}), exact=True, streams=True),
        lost_on_writing=(
            "Memory types, its kind and times, entities, provenance, salience,"
            " validity, edges and namespaces."
        ),
        beside=frozenset({VECTOR}),
    )

    def __init__(self, address: QdrantAddress, options: ConnectorOptions) -> None:
        self.address = address
        self._options = options
        self._folder: QdrantFolder | None = None
        self._points: Points | None = None
        self._made: dict[str, Any] | None = None
        self.collection = address.collection or USUAL
        if options.dry_run and not (address.folder / "meta.json").exists():
            return
        really = options.writes and not options.dry_run
        self._folder = QdrantFolder(address.folder, writes=really)
        try:
            self.collection = _chosen(self._folder, address, writes=options.writes)
            path = self._folder.storage(self.collection)
            if really or path.exists():
                self._points = Points(path, most_bytes=options.limits.line_bytes, writes=really)
        except BaseException:
            self.close()
            raise

    def page(self, cursor: str | None, report: Report) -> Page:
        """List points from ``cursor``."""
        after = None
        if cursor is not None:
            match = _CURSOR.fullmatch(cursor)
            if match is None or self._points is None:
                raise MalformedError("no page starts at this cursor", field="cursor")
            after = int(match[1])
        if self._points is None:
            return Page([], None)
        refuse = ReadContext(report=report, skip_bad=self._options.skip_bad).refuse
        points, following = self._points.page(after, _TOGETHER, refuse)
        items = list[Entry]()
        for point in points:
            try:
                items.append(entry_of(_row(point), self.collection, self._kinds))
            except MalformedError as error:
                error.field = f"points/{point.place}/{error.field}"
                refuse(error.located(file=str(self.address.folder)))
        return Page(items, None if following is None else f"points/{following}")

    def take(self, batch: Sequence[Sealed], report: Report) -> Sequence[WriteResult]:
        """Write points; durable when this returns."""
        results, points = list[WriteResult](), dict[Identity, tuple[Any, Any]]()
        for record in batch:
            results.append(self._plan_write(record, points, report))
        if points and self._points is not None:
            self._points.put([(name, *parts) for name, parts in points.items()])
        return results

    def _plan_write(
        self, record: Sealed, points: dict[Identity, tuple[Any, Any]], report: Report
    ) -> WriteResult:
        """Decide on a memory, and add it to what is written."""
        entry = record.model
        if not isinstance(entry, Entry) or not _says_something(entry):
            return WriteResult(record.id, None, "a Qdrant point must be a text or data")
        row = row_of(record, entry, report)
        name, payload = decode_foreign(row["id"]), decode_foreign(row.get("payload") or {})
        existing = None if self._points is None else self._points.get(name)
        same = existing is not None and _same(existing.payload, payload)
        if name in points or (existing is not None and not same and not self._options.overwrite):
            return WriteResult(record.id, None, _OTHER_VERSION)
        origin_vector = entry.origin.as_written.get(VECTOR) if entry.origin is not None else None
        kinds = origin_vector.get(KINDS) if isinstance(origin_vector, dict) else None
        config = self._config(row.get("vector"), kinds)
        if self._made is None and row.get("vector") is not None:
            compared = kinds_of(config)
            if any(compared.get(name) != kind for name, kind in (kinds or {}).items()):
                reason = "the existing collection uses another distance"
                report.lost("vector/distance", reason, example=record.id)
        vectors = stored(row.get("vector"), config, report, record.id)
        if existing is not None and not vectors:
            vectors = existing.vectors if same else {}
        if existing is not None and same and shown(vectors) == shown(existing.vectors):
            return WriteResult(record.id, str(name), known=True)
        points[name] = (vectors, payload)
        return WriteResult(record.id, str(name))

    @cached_property
    def _kinds(self) -> dict[str, Any]:
        """The distances of the collection."""
        if self._folder is None:
            return {}
        return kinds_of(self._folder.collections.get(self.collection))

    def _config(self, vectors: Any, kinds: Any) -> dict[str, Any]:
        """Return the configuration of the collection; a new one is made for all vectors."""
        existing = None if self._folder is None else self._folder.collections.get(self.collection)
        if isinstance(existing, dict) and self._made is None:
            return existing
        config = widened(self._made, config_for(vectors, self.address.distance, kinds))
        if config != self._made and self._folder is not None and self._points is not None:
            self._folder.make_with(self.collection, config)
        self._made = config
        return config

    def close(self) -> None:
        """Close the files."""
        for one in (self._points, self._folder):
            if one is not None:
                one.close()


def _chosen(folder: QdrantFolder, address: QdrantAddress, *, writes: bool) -> str:
    """Return the name of the collection to use."""
    names, collection = sorted(folder.collections), address.collection
    if writes:
        return collection or (names[0] if len(names) == 1 else USUAL)
    if collection is None and len(names) == 1:
        return names[0]
    if collection is None and len(names) > 1:
        raise UsageError(
            f"several collections exist: {', '.join(names)}",
            file=str(folder.path),
            hint=f"Choose one: qdrant:///folder?collection={names[0]}",
        )
    if collection not in folder.collections:
        raise UnreadableError(
            "there is no collection"
            if collection is None
            else f"no collection named {collection!r}",
            file=str(folder.path),
            hint=f"Choose from: {', '.join(names)}." if names else None,
        )
    return collection


def _row(point: QdrantPoint) -> dict[str, Any]:
    row: dict[str, Any] = {"id": encode_foreign(point.id), "payload": encode_foreign(point.payload)}
    vectors = shown(point.vectors)
    return row if vectors is None else {**row, "vector": vectors}


def _says_something(entry: Entry) -> bool:
    own = entry.origin is not None and entry.origin.provider == "qdrant"
    return own or entry.text is not None or entry.data is not None


def _same(one: Any, other: Any) -> bool:
    """Return whether two payloads are equal; NaN equals itself."""
    return json.dumps(one, sort_keys=True, default=repr) == json.dumps(
        other, sort_keys=True, default=repr
    )
