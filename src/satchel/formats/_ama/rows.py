"""What one line of an AMA file says, as an entry, and back.

``world`` is a fact, ``experience`` an episode of interaction, ``observation`` one of reflection
(what Astrocyte made of others). What Astrocyte does not know of an entry is in ``member``.
"""

from typing import Any

from blake3 import blake3
from msgspec.structs import replace

from satchel.errors import MalformedError
from satchel.formats._ama.lines import Row
from satchel.formats._as_written import differences, reproduce
from satchel.memory.entries import Entry, Episodic, Semantic
from satchel.memory.parts import Entity, Evidence, Origin, TrustClass
from satchel.memory.times import read_time
from satchel.seal.encoding.jcs import encode_sorted

NAME = "ama"
"""The format, and the provider that entries from it name."""

SATCHEL = "_satchel"
"""The member of a line with what Astrocyte has no place for."""

SOURCE = "source"
"""The kind of evidence that the member ``source`` is: the system a memory came from."""

WORLD, EXPERIENCE, OBSERVATION = "world", "experience", "observation"
_EVENTS = {EXPERIENCE: "interaction", OBSERVATION: "reflection"}

EMBEDDING = "embedding"
_OF_TEXT = "$embedding_of"
"""Which text the embedding is of. No member of a file has this name: a ``$`` gets another one."""

_TIMES = ("occurred_at", "created_at")
_TEXTS = ("fact_type", "source", "bank_id", *_TIMES)
_NOTHING_FINER = ".000000"
_MOST_WORDS = 4096


def entry_of(row: Row, bank: str, **seal: str | None) -> Entry:
    """Return a memory as an entry, without what is in its ``_satchel``.

    Args:
        row: The line.
        bank: The ``bank_id`` of the header.
        seal: Id and nonce, where it is sealed.

    Raises:
        MalformedError: If a member has another type than the format gives it, naming it.
    """
    said = _mapped(row, bank)
    found = {name: part for name, part in row.items() if name != SATCHEL}
    kept = differences(found, _written(said, bank))
    if kept.get(EMBEDDING) is not None:
        kept[_OF_TEXT] = _mark(said["text"])
    origin = Origin(
        provider=NAME,
        source=said["bank_id"],
        id=said["id"],
        trust=TrustClass.IMPORTED,
        as_written=kept,
    )
    members: Row = {
        "text": said["text"],
        "tags": said["tags"],
        "metadata": said["metadata"],
        "occurred_at": said["occurred_at"],
        "created_at": said["created_at"],
        "entities": said["entities"],
        "sources": () if said[SOURCE] is None else (Evidence(kind=SOURCE, id=said[SOURCE]),),
        "origin": origin,
        **seal,
    }
    event: Any = _EVENTS.get(said["fact_type"])
    return Semantic(**members) if event is None else Episodic(event_type=event, **members)


def row_of(entry: Entry, identity: str, bank: str) -> Row:
    """Return a memory for writing, as its source had it where it came from an AMA file.

    Args:
        entry: The memory.
        identity: What it is called, where it did not come from such a file.
        bank: The ``bank_id`` of the header.
    """
    said = _said(entry, identity)
    written = _written(said, bank)
    origin = entry.origin
    if origin is None or origin.provider != NAME or not origin.as_written:
        return written
    kept = _kept(origin)
    if has_embedding(entry) and origin.as_written.get(_OF_TEXT) != _mark(said["text"]):
        del kept[EMBEDDING]  # it is of another text, or nobody knows of which
    again = _mapped_of(written, kept, bank)
    stale = {name for name, part in said.items() if part != again[name]}
    return reproduce(written, {k: v for k, v in kept.items() if k not in stale})


def _mapped_of(written: Row, kept: Row, bank: str) -> Row:
    """Return what a line says with all that was kept; what has the wrong type is taken away."""
    while True:
        try:
            return _mapped(reproduce(written, kept), bank)
        except MalformedError as error:
            del kept[str(error.field).partition("/")[0]]


def likely_row_of(entry: Entry, bank: str) -> Row | None:
    """Return what ``row_of`` most likely does, for an entry from an AMA file: all that was kept."""
    origin = entry.origin
    if origin is None or origin.provider != NAME:
        return None
    return reproduce(_written(_said(entry, ""), bank), _kept(origin))


def _kept(origin: Origin) -> Row:
    return {k: v for k, v in origin.as_written.items() if k not in (SATCHEL, _OF_TEXT)}


def without_embedding(entry: Entry) -> Entry:
    """Return an entry without the embedding that an AMA file had for it."""
    return _without_kept(entry, EMBEDDING, _OF_TEXT)


def without_entities(entry: Entry) -> Entry:
    """Return an entry without entities, also those that an AMA file had in words of its own."""
    return replace(_without_kept(entry, "entities"), entities=())


def _without_kept(entry: Entry, *names: str) -> Entry:
    origin = entry.origin
    if origin is None or origin.provider != NAME:
        return entry
    kept = {name: part for name, part in origin.as_written.items() if name not in names}
    return replace(entry, origin=replace(origin, as_written=kept))


def has_embedding(entry: Entry) -> bool:
    """Tell whether an entry has the embedding that an AMA file had for it."""
    origin = entry.origin
    return (
        origin is not None
        and origin.provider == NAME
        and origin.as_written.get(EMBEDDING) is not None
    )


def _mark(text: str) -> str:
    return blake3(text.encode()).hexdigest(length=8)


# -- reading -------------------------------------------------------------------------------


def _mapped(row: Row, bank: str) -> Row:
    """Return what a line says that an entry says, by the names of the line."""
    for name in ("id", "text"):
        if type(row.get(name)) is not str:
            problem = "is not text" if name in row else "is missing"
            raise MalformedError(f"`{name}` {problem}", field=name)
    for name in _TEXTS:
        if type(row.get(name)) not in (str, type(None)):
            raise MalformedError(f"`{name}` is not text", field=name)
    _check_embedding(row.get(EMBEDDING))
    fact = row.get("fact_type")
    found = row.get("bank_id")
    said = {name: row[name] and read_time(row[name]) if row.get(name) else None for name in _TIMES}
    return {
        "id": row["id"] or None,
        "text": row["text"],
        "fact_type": fact if fact in _EVENTS else WORLD,
        "tags": _texts(row.get("tags"), "tags"),
        "metadata": _object(row.get("metadata"), "metadata"),
        **said,
        SOURCE: row.get(SOURCE),
        "bank_id": bank if found is None else found,
        "entities": _entities(row.get("entities")),
    }


def _texts(value: Any, field: str) -> tuple[str, ...]:
    if value is None:
        return ()
    if type(value) is not list or not all(type(part) is str for part in value):
        raise MalformedError(f"`{field}` is not a list of texts", field=field)
    return tuple(value)


def _object(value: Any, field: str) -> Row:
    if value is None:
        return {}
    if type(value) is not dict:
        raise MalformedError(f"`{field}` is not an object", field=field)
    return value


def _entities(value: Any) -> tuple[Entity, ...]:
    if value is None:
        return ()
    if type(value) is not list:
        raise MalformedError("`entities` is not a list", field="entities")
    return tuple(_entity(one, f"entities/{place}") for place, one in enumerate(value))


def _entity(value: Any, field: str) -> Entity:
    if type(value) is not dict or type(value.get("name")) is not str:
        raise MalformedError("an entity is not an object with a `name`", field=field)
    sort = value.get("entity_type")
    if type(sort) not in (str, type(None)):
        raise MalformedError("`entity_type` is not text", field=f"{field}/entity_type")
    aliases = _texts(value.get("aliases"), f"{field}/aliases")
    return Entity(name=value["name"], entity_type=sort, aliases=aliases)


def _check_embedding(value: Any) -> None:
    if value is None:
        return
    if type(value) is not list or not all(map(_is_number, value)):
        raise MalformedError("`embedding` is not a list of numbers", field=EMBEDDING)


def _is_number(part: Any) -> bool:
    if type(part) is dict:
        return len(part) == 1 and next(iter(part)) in ("$int", "$float")
    # Strict writers have null for what is not a number.
    return type(part) is float or type(part) is int or part is None


# -- writing -------------------------------------------------------------------------------


def _said(entry: Entry, identity: str) -> Row:
    """Return what an entry says that a line can say, by the names of the line."""
    origin = entry.origin
    ours = origin if origin is not None and origin.provider == NAME else None
    return {
        "id": identity if ours is None else ours.id,
        "text": _words(entry) if entry.text is None else entry.text,
        "fact_type": _fact(entry),
        "tags": entry.tags,
        "metadata": entry.metadata,
        "occurred_at": entry.occurred_at,
        "created_at": entry.created_at,
        SOURCE: _system(entry.sources),
        "bank_id": None if ours is None else ours.source,
        "entities": entry.entities,
    }


def _written(said: Row, bank: str) -> Row:
    """Return a line as it is written when nothing else is known of it."""
    there = said["bank_id"]
    row = {
        "id": said["id"],
        "text": said["text"],
        "fact_type": said["fact_type"],
        "tags": list(said["tags"]) or None,
        "metadata": said["metadata"] or None,
        "occurred_at": _iso(said["occurred_at"]),
        "created_at": _iso(said["created_at"]),
        SOURCE: said[SOURCE],
        "bank_id": None if there == bank else there,
        "entities": [_entity_row(one) for one in said["entities"]] or None,
    }
    return {name: part for name, part in row.items() if part is not None}


def _fact(entry: Entry) -> str:
    if not isinstance(entry, Episodic):
        return WORLD
    return OBSERVATION if entry.event_type == _EVENTS[OBSERVATION] else EXPERIENCE


def _system(sources: tuple[Evidence, ...]) -> str | None:
    if len(sources) == 1 and sources[0].kind == SOURCE:
        return sources[0].id
    return None


def _entity_row(entity: Entity) -> Row:
    """Return an entity with all three members that the format gives it, where they are known."""
    if entity.entity_type is None:
        return {"name": entity.name, "aliases": [*entity.aliases]}
    return {
        "name": entity.name,
        "entity_type": entity.entity_type,
        "aliases": [*entity.aliases],
    }


def _iso(text: str | None) -> str | None:
    """Return a time as the format's own example has it: no fraction where there is none."""
    return None if text is None else text.replace(_NOTHING_FINER, "")


def _words(entry: Entry) -> str:
    """Return what stands for the text of an entry that has none: the line must have one."""
    said = [_joined(entry, " ", "subject", "predicate", "object")]
    said.append(_joined(entry, "\n", "observation", "name", "description", "body"))
    if any(said):
        return "\n".join(filter(None, said))
    value = entry.data
    if value is None:
        value = {name: getattr(entry, name) for name in entry.__struct_fields__[_OWN:]}
        value = {name: part for name, part in value.items() if part}
    return encode_sorted(value).decode()[:_MOST_WORDS]


def _joined(entry: Entry, by: str, *names: str) -> str:
    parts = [getattr(entry, name, None) for name in names]
    return by.join(part for part in parts if part)


_OWN = len(Entry.__struct_fields__)
