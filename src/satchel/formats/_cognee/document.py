"""A COGX archive that is being read: facts at the end, when it is known what they are about."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from typing import cast

import msgspec

from satchel.disk.databases.keyed import Keyed
from satchel.disk.spool import Spool
from satchel.errors import EmptyInputError, InputError, MalformedError
from satchel.formats._cognee.archive import Chunks, files_in
from satchel.formats._cognee.episodes import events_of
from satchel.formats._cognee.rows import entry_of, node_of
from satchel.formats._cognee.shape import (
    ENTITY,
    EPISODE,
    FACT,
    KINDS,
    MANIFEST,
    NAME,
    PERMISSIONS,
    RAW,
    Row,
    require_version,
)
from satchel.formats._lines import Lines, json_object
from satchel.formats._members import text_in
from satchel.formats._order import Order
from satchel.formats._unpacking import Unpacked
from satchel.memory.entries import Entry, Semantic
from satchel.memory.parts import Origin, TrustClass
from satchel.memory.records import Edge, GraphNode, Model
from satchel.ports.format import Reading
from satchel.ports.linking.placeholders import placeholder
from satchel.ports.place import Place
from satchel.type_info import resolved

SUBJECT, OBJECT = "subject", "object"
"""The kinds of the links from a fact to what it is about."""

REFS = {SUBJECT: "subject_ref", OBJECT: "object_ref"}
"""What a fact says of each."""

_Known = tuple[str, str | None]
_SHOWN = 80
_pack, _known = msgspec.msgpack.encode, msgspec.msgpack.Decoder(resolved(_Known)).decode


class Document:
    """One archive.

    Args:
        place: Where it is.
        reading: The bounds, and where what is not a record goes.
    """

    def __init__(self, place: Place, reading: Reading) -> None:
        self._place = place
        self._reading = reading
        self._names, self._facts = Keyed(), Spool()
        self._order, self._count = Order(), 0
        self._manifest: Row | None = None

    def records(self) -> Iterator[Model]:
        """Yield what is in it, what is named before what names it.

        Raises:
            InputError: If it is no such archive, or something in it is bad.
        """
        self._reading.linked = True
        with closing(self._names), closing(self._facts):
            for path, chunks in self._files():
                name = path.rpartition("/")[2]
                if name == MANIFEST:
                    self._take_manifest(chunks)
                elif name in KINDS:
                    yield from self._rows(KINDS[name], path, chunks)
                elif name == PERMISSIONS:
                    reason = "users and password hashes are not exported"
                    self._reading.report.lost(PERMISSIONS, reason)
                else:
                    self._reading.report.lost(path[:_SHOWN], "an unexpected file")
            self._require_whole()
            for where, line, row in self._waiting():
                with self._refusing(where, line):
                    fact = self._fact(row)
                    self._order.add(fact)
                    yield fact
            self._order.keep(self._reading)
            for where, line, row in self._waiting():
                with self._refusing(where, line):
                    yield from self._joints(row)

    def _files(self) -> Iterator[tuple[str, Chunks]]:
        try:
            yield from files_in(self._place, self._reading)
        except InputError as error:
            raise error.located(file=self._place.name) from None

    def _take_manifest(self, chunks: Chunks) -> None:
        lines, whole = Lines(cast("Unpacked", chunks)), list[bytes]()
        bound = self._reading.limits.entry_bytes // 2
        while (line := lines.next(bound)) is not None and sum(map(len, whole)) <= bound:
            whole.append(line)
        try:
            self._manifest = json_object(b"\n".join(whole), bound)
            require_version(self._manifest, any_version=self._reading.any_version)
        except InputError as error:
            error.field = error.field or MANIFEST
            raise error.located(file=self._place.name) from None
        self._reading.container["manifest"] = self._manifest

    def _require_whole(self) -> None:
        if self._manifest is None:
            problem = f"not a COGX archive: `{MANIFEST}` is missing"
            raise MalformedError(problem, file=self._place.name, field=MANIFEST)
        if not self._count:
            raise EmptyInputError("the archive contains no memories", file=self._place.name)
        counts = self._manifest.get("counts")
        found = counts.values() if isinstance(counts, dict) else ()
        told = sum(one for one in found if type(one) is int)
        if told > self._count:
            self._reading.missing = told - self._count

    # -- rows ------------------------------------------------------------------------------

    def _rows(self, kind: str, where: str, chunks: Chunks) -> Iterator[Model]:
        lines = Lines(cast("Unpacked", chunks))
        bound = self._reading.limits.line_bytes
        while True:
            with self._refusing(where, lambda: lines.number):
                line = lines.next(bound)
                if line is None:
                    return
                self._count += 1
                yield from self._row(kind, where, lines.number, json_object(line, bound))
            if lines.broken:
                return

    def _row(self, kind: str, where: str, number: int, row: Row) -> Iterable[Model]:
        if kind == FACT:
            for name in ("external_id", "predicate", *REFS.values()):
                text_in(row, name)
            self._facts.write(msgspec.json.encode([where, number, row]) + b"\n")
            return ()
        if kind == EPISODE:
            return list(events_of(row))
        if kind in (ENTITY, RAW):
            node = node_of(kind, row)
            identity = text_in(row, "id" if kind == RAW else "external_id")
            self._names.add(identity.encode(), _pack((_standing(node), node.name)))
            return (node,)
        entry = entry_of(kind, row)
        self._order.add(entry)
        return (entry,)

    def _waiting(self) -> Iterator[tuple[str, Callable[[], int], Row]]:
        for packed in self._facts.lines():
            where, number, row = msgspec.json.decode(packed)
            yield where, lambda number=number: number, row  # type: ignore[misc]

    def _about(self, row: Row, side: str) -> _Known:
        found = self._names.get(row[REFS[side]].encode())
        return ("", row[REFS[side]]) if found is None else _known(found)

    def _fact(self, row: Row) -> Entry:
        return entry_of(FACT, row, (self._about(row, SUBJECT)[1], self._about(row, OBJECT)[1]))

    def _joints(self, row: Row) -> Iterator[Edge]:
        fact = self._fact(row)
        assert isinstance(fact, Semantic)  # noqa: S101 - all facts are
        for side in REFS:
            standing, _ = self._about(row, side)
            if standing:
                name = f"{row['external_id']}/{side}"
                origin = Origin(provider=NAME, id=name, trust=TrustClass.IMPORTED)
                yield Edge(source=_standing(fact), target=standing, kind=side, origin=origin)

    @contextmanager
    def _refusing(self, where: str, line: Callable[[], int]) -> Iterator[None]:
        try:
            yield
        except InputError as error:
            error.line, error.byte = line(), None
            error.field = f"{where}/{error.field}" if error.field else where
            self._reading.refuse(error.located(file=self._place.name))  # type: ignore[arg-type]


def _standing(record: GraphNode | Semantic) -> str:
    assert record.origin is not None  # noqa: S101 - each record that is read has one
    return placeholder(str(record.__struct_config__.tag), record.scope, record.origin)
