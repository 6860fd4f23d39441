"""What one line of the MCP memory server says, as entries, and the lines that entries become."""

import struct
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec
from blake3 import blake3

from satchel.disk.databases.keyed import Keyed
from satchel.errors import MalformedError
from satchel.formats._members import text_in
from satchel.memory.entries import Entry, Semantic
from satchel.memory.parts import Entity, Origin, TrustClass
from satchel.ports.report import Report
from satchel.seal.encoding.notation import numbers_of
from satchel.seal.records import Sealed

NAME = "mcp_memory"
"""The format, and the provider that entries from it name."""

ENTITY, OBSERVATION, RELATION = "entity", "observation", "relation"
"""The kinds of its entries."""

NOBODY, NOTHING = "memory", "memory"
"""The entity that a memory about nobody in particular is an observation of, and its type."""

_IS_A = "is a"
_OF_AN_ENTITY = ("name", "entityType", "observations")
_OF_A_RELATION = ("from", "relationType", "to")
_NO_FIELD = "the server has no such field"
_ALWAYS = frozenset({"id", "nonce", "type", "kind", "origin", "text"})
_TRIPLE = frozenset({"subject", "predicate", "object"})
_NUMBER = struct.Struct(">QQ")
_pack, _unpack = msgspec.json.encode, msgspec.json.Decoder().decode

Row = dict[str, Any]
"""One object of a file, without its ``type``."""


class Types:
    """Tells entities of one name apart by their types; on disk where there are many."""

    def __init__(self) -> None:
        self._first = Keyed()

    def close(self) -> None:
        """Give the space back."""
        self._first.close()

    def entries_of(self, row: Row) -> Iterator[Semantic]:
        """Yield what an entity says, as ``entries_of`` does; the second type of a name counts."""
        name, kind = row.get("name"), row.get("entityType")
        if type(name) is not str:
            yield from entries_of(row)
            return
        said = _pack(kind if type(kind) is str else None)
        first = self._first.get(name.encode())
        if first is None:
            self._first.put(name.encode(), said)
        yield from entries_of(row, is_second=first not in (None, said))


def entries_of(row: Row, *, is_second: bool = False) -> Iterator[Semantic]:
    """Yield what an entity says: one entry for each observation, and the entity where need be.

    The type of one is part of what it is known by where another entity has its name.

    The entity has an entry of its own where nothing is observed of it, or where the file says
    more about it than its name and type. Files that were written by hand, or by older servers,
    may not say the type, or that nothing is observed.

    Raises:
        MalformedError: If it has no name, or a type or observations that are no texts.
    """
    name, kind = text_in(row, "name"), row.get("entityType")
    if kind is not None:
        kind = text_in(row, "entityType")
    found = row.get("observations")
    found = [] if found is None else found
    if type(found) is not list or not all(type(one) is str for one in found):
        raise MalformedError("`observations` is not a list of texts", field="observations")
    about = (Entity(name=name, entity_type=kind),)
    apart = ("type", kind or "") if is_second else ()
    kept = {key: part for key, part in row.items() if key not in _OF_AN_ENTITY}
    if kept or not found:
        yield Semantic(
            kind=ENTITY,
            subject=name,
            predicate=_IS_A,
            object=NOTHING if kind is None else kind,
            entities=about,
            origin=_origin(kept, ENTITY, name, *apart),
        )
    seen = Counter[str]()
    for text in found:
        seen[text] += 1
        yield Semantic(
            kind=OBSERVATION,
            text=text,
            subject=name,
            entities=about,
            origin=_origin(
                {}, OBSERVATION, name, text, *([seen[text]] if seen[text] > 1 else []), *apart
            ),
        )


def relation_of(row: Row) -> Semantic:
    """Return a relation as a fact.

    Raises:
        MalformedError: If one of its three texts is missing.
    """
    start, kind, end = (text_in(row, name) for name in _OF_A_RELATION)
    kept = {key: part for key, part in row.items() if key not in _OF_A_RELATION}
    return Semantic(
        kind=RELATION,
        subject=start,
        predicate=kind,
        object=end,
        origin=_origin(kept, RELATION, start, kind, end),
    )


def _origin(kept: Row, kind: str, *parts: str | int) -> Origin:
    """Return where an entry was; the server knows its things by what they say, so we do."""
    known = blake3(_pack(parts)).hexdigest(16)
    return Origin(
        provider=NAME,
        id=f"{kind}:{known}",
        as_written=kept | numbers_of(kept),
        trust=TrustClass.IMPORTED,
    )


class Leaving:
    """The entities and relations that entries become.

    Observations wait on disk until it is known what else is observed of their entity.

    Args:
        report: Where losses go.
    """

    def __init__(self, report: Report) -> None:
        self._report = report
        self._numbers, self._heads, self._observed = Keyed(), Keyed(), Keyed()
        self._count = 0
        self._relations = Keyed()

    def close(self) -> None:
        """Give the space back."""
        for one in (self._numbers, self._heads, self._observed, self._relations):
            one.close()

    def take(self, record: Sealed, entry: Semantic) -> None:
        """Take an entry in, and count what of it has no place."""
        self._count += 1
        if entry.text is not None:
            self._observation(record, entry, entry.text)
        elif _is_entity(entry):
            self._entity(record, entry)
        elif None not in (entry.subject, entry.predicate, entry.object):
            self._lost(record, _TRIPLE, (RELATION,))
            row = {"from": entry.subject, "to": entry.object, "relationType": entry.predicate}
            self._relations.put(_NUMBER.pack(self._count, 0), _pack(_with_kept(row, entry)))
        else:
            self._report.lost(
                record.type, "the server stores texts and relations only", example=record.id
            )

    def entities(self) -> Iterator[Row]:
        """Yield the entities, in the order in which they were first named."""
        head: Row | None = None
        observed = iter(self._observed)
        for key in observed:
            number, place = _NUMBER.unpack(key)
            if place == 0:
                if head is not None:
                    yield head
                head = _unpack(self._heads.get(_NUMBER.pack(number, 0)) or b"{}")
            elif head is not None:
                head["observations"].append(_unpack(self._observed.get(key) or b'""'))
        if head is not None:
            yield head

    def relations(self) -> Iterator[Row]:
        """Yield the relations, in their order."""
        for key in self._relations:
            yield _unpack(self._relations.get(key) or b"{}")

    def _observation(self, record: Sealed, entry: Semantic, text: str) -> None:
        about = entry.entities[0] if entry.entities else None
        name = about.name if about is not None else entry.subject
        kind = about.entity_type if about is not None else None
        number = self._number(record, NOBODY if name is None else name, kind)
        self._observed.put(_NUMBER.pack(number, self._count), _pack(text))
        held = {"entities"} | ({"subject"} if entry.subject == name else set())
        self._lost(record, held, (OBSERVATION,))
        if len(entry.entities) > 1:
            reason = "an observation belongs to one entity"
            self._report.lost("entities", reason, example=record.id)
        elif about is not None and about.aliases:
            self._report.lost("entities/aliases", _NO_FIELD, example=record.id)

    def _entity(self, record: Sealed, entry: Semantic) -> None:
        name = entry.subject or ""
        number = self._number(record, name, entry.object)
        key = _NUMBER.pack(number, 0)
        head: Row = _unpack(self._heads.get(key) or b"{}")
        self._heads.put(key, _pack(_with_kept(head, entry)))
        held = set(_TRIPLE)
        if entry.entities in ((), (Entity(name=name, entity_type=entry.object),)):
            held.add("entities")
        self._lost(record, held, (ENTITY,))

    def _number(self, record: Sealed, name: str, kind: str | None) -> int:
        """Return the number of an entity, from 1; it is written where it was first named."""
        key, typed = blake3(name.encode()).digest(), blake3(_pack((name, kind))).digest()
        known = self._numbers.get(typed) or (self._numbers.get(key) if kind is None else None)
        known = known or self._untyped(key, kind)
        if known is None:
            number = self._count
            self._numbers.put(typed, _NUMBER.pack(number, 0))
            if self._numbers.get(key) is None:
                self._numbers.put(key, _NUMBER.pack(number, 0))
            self._observed.put(_NUMBER.pack(number, 0), b"")
            made: Row = {"name": name, "entityType": kind, "observations": []}
            self._heads.put(_NUMBER.pack(number, 0), _pack(made))
            return number
        number, _ = _NUMBER.unpack(known)
        return int(number)

    def _untyped(self, key: bytes, kind: str | None) -> bytes | None:
        """Return the entity of a name whose type nobody has said yet, which has this one now."""
        found = self._numbers.get(key)
        row: Row = _unpack(self._heads.get(found) or b"{}") if found is not None else {}
        if found is None or row.get("entityType") is not None:
            return None
        self._heads.put(found, _pack({**row, "entityType": kind}))
        self._numbers.put(blake3(_pack((row["name"], kind))).digest(), found)
        return found

    def _lost(
        self, record: Sealed, held: frozenset[str] | set[str], kinds: tuple[str, ...]
    ) -> None:
        value = record.value
        for name in sorted(value.keys() - _ALWAYS - held):
            self._report.lost(name, _NO_FIELD, example=record.id)
        if value.get("kind") not in (None, *kinds):
            self._report.lost("kind", _NO_FIELD, example=record.id)
        origin = value.get("origin", {"provider": NAME})
        if origin.get("provider") != NAME or origin.keys() & {"source", "revision"}:
            reason = "the server does not record provenance"
            self._report.lost("origin", reason, example=record.id)


def _is_entity(entry: Entry) -> bool:
    return (
        isinstance(entry, Semantic)
        and entry.kind == ENTITY
        and entry.subject is not None
        and entry.predicate == _IS_A
        and entry.object is not None
    )


def _with_kept(row: Row, entry: Entry) -> Row:
    """Put back what the source's line said beside what is known; that is never replaced."""
    origin = entry.origin
    if origin is None or origin.provider != NAME:
        return row
    return {**row, **{k: v for k, v in origin.as_written.items() if k not in row}}
