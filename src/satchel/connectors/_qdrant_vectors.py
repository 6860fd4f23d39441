"""Vectors of Qdrant's points: one alone or several by name, of numbers or of a few of many places.

As JSON has them, and as the pickles of its local mode do.
"""

from typing import Any

from satchel.connectors._values import as_json
from satchel.formats._unpickling import POINTS, Global, Model
from satchel.ports.report import Report
from satchel.seal.encoding.carry import carry, restore

_SPARSE = Global(POINTS, "SparseVector")
_PARTS = ("indices", "values")
_ALONE = ""
_SIZE, _DISTANCE, _MULTI = "size", "distance", "multivector_config"
_COMPARED = (_DISTANCE, _MULTI)
DISTANCES = ("Cosine", "Dot", "Euclid", "Manhattan")
"""How a collection can compare vectors."""

USUAL = DISTANCES[0]
"""What is taken where nobody says it."""


Row = dict[str, Any]


def shown(vectors: Any) -> Any:
    """Return the vectors of a point in the reversible form for foreign values; None for none."""
    if isinstance(vectors, Model):
        return {name: shown(vectors.members.get(name)) for name in _PARTS}
    if isinstance(vectors, dict):
        found = {name: shown(one) for name, one in vectors.items()}
        return found.get(_ALONE) if [*found] == [_ALONE] else carry(found) if found else None
    return None if vectors is None else carry(as_json(vectors))


def stored(vectors: Any, config: Row, report: Report, example: str) -> Any:
    """Return vectors to write into a collection; what it has no place for is counted.

    Args:
        vectors: As ``shown`` gives them.
        config: Of the collection.
        report: Where losses go.
        example: The record's id.
    """
    value = restore(vectors)
    found = value if _is_named(value) else {} if value is None else {_ALONE: value}
    kept = {}
    for name, one in found.items():
        place = _place(name, config)
        if _fits(one, place):
            kept[name] = _sparse(one) if isinstance(one, dict) else one
        else:
            has = "the collection has no such vector"
            report.lost(f"vector/{name}" if name else "vector", has, example=example)
    return kept


def _is_named(value: Any) -> bool:
    return isinstance(value, dict) and {*value} != {*_PARTS}


def _place(name: str, config: Row) -> Any:
    """Return what a collection says of the vectors of a name; its size, or that it is sparse."""
    sparse = config.get("sparse_vectors") or {}
    if name in sparse:
        return _SPARSE
    vectors = config.get("vectors") or {}
    if name == _ALONE:
        return vectors.get(_SIZE)
    named = vectors.get(name)
    return named.get(_SIZE) if isinstance(named, dict) else None


def _fits(vector: Any, place: Any) -> bool:
    if isinstance(vector, dict):
        return bool(place == _SPARSE)
    if not isinstance(vector, list) or type(place) is not int:
        return False
    rows = vector if vector and isinstance(vector[0], list) else [vector]
    return all(len(row) == place and _are_numbers(row) for row in rows)


def _are_numbers(row: Any) -> bool:
    return isinstance(row, list) and all(type(one) in (int, float) for one in row)


def _sparse(parts: Row) -> Model:
    found = Model(_SPARSE)
    found.members = {name: parts.get(name) for name in _PARTS}
    return found


def kinds_of(config: Any) -> Row:
    """Return how the vectors of a collection are compared, by name, where not by angle.

    ``""`` is the name of one that is alone. Of sparse vectors it is what is said beside the index.
    """
    config = config if isinstance(config, dict) else {}
    vectors, sparse = config.get("vectors"), config.get("sparse_vectors")
    vectors = vectors if isinstance(vectors, dict) else {}
    dense = {_ALONE: vectors} if _SIZE in vectors else vectors
    found = {
        str(name): {key: part for key, part in one.items() if key in _COMPARED and part}
        for name, one in dense.items()
        if isinstance(one, dict)
    }
    found = {name: one for name, one in found.items() if one not in ({}, {_DISTANCE: USUAL})}
    for name, one in (sparse if isinstance(sparse, dict) else {}).items():
        if isinstance(one, dict) and one.get("modifier"):
            found[str(name)] = {"modifier": one["modifier"]}
    return carried(found)


def carried(kinds: Row) -> Row:
    """Return what is said of vectors in the reversible form for foreign values."""
    found = carry(as_json(kinds))
    return found if isinstance(found, dict) else {}


def config_for(vectors: Any, distance: str | None, kinds: Any = None) -> Row:
    """Return what to make a collection with, for vectors as a first point has them.

    Args:
        vectors: The vectors.
        distance: How all of them are compared, where somebody said it.
        kinds: As ``kinds_of`` gave it of the collection that they are from.
    """
    said = restore(kinds) if isinstance(kinds, dict) else {}
    said = said if isinstance(said, dict) else {}
    value = restore(vectors)
    if value is None:
        return {"vectors": {}, "sparse_vectors": None}
    found = value if _is_named(value) else {_ALONE: value}
    dense = {
        name: {_SIZE: _size(one), **_compared(said.get(name), distance)}
        for name, one in found.items()
        if isinstance(one, list)
    }
    words: Row = {
        name: _modifier(said.get(name)) for name, one in found.items() if isinstance(one, dict)
    }
    alone = dense.get(_ALONE)
    return {"vectors": alone if alone is not None else dense, "sparse_vectors": words or None}


def _compared(kind: Any, distance: str | None) -> Row:
    kind = kind if isinstance(kind, dict) else {}
    known = kind.get(_DISTANCE) if kind.get(_DISTANCE) in DISTANCES else USUAL
    more = kind.get(_MULTI)
    multi = {_MULTI: {"comparator": "max_sim"}} if isinstance(more, dict) else {}
    return {_DISTANCE: distance or known, **multi}


def _modifier(kind: Any) -> Row:
    is_idf = isinstance(kind, dict) and kind.get("modifier") == "idf"
    return {"modifier": "idf"} if is_idf else {}


def widened(config: Row | None, more: Row) -> Row:
    """Return what to make a collection with that has place for other vectors as well.

    A collection has one vector alone, or several by name; of two kinds the first stays.
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
