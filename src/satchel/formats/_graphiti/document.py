"""A graph that is being read: nodes and episodes as they come, facts and links at the end.

Facts and links wait on disk until it is known what is at their ends, wherever in the file that is.
So the memory that is taken is the same, however many there are.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Self

import msgspec

from satchel.disk.databases.keyed import Keyed
from satchel.disk.spool import Strands
from satchel.errors import EmptyInputError, InputError, MalformedError
from satchel.formats._graphiti.nodes import label_of, link_of, node_of, own_node
from satchel.formats._graphiti.rows import End, episode_of, fact_of
from satchel.formats._graphiti.shape import (
    EPISODES,
    FACTS,
    LINKS,
    NAME,
    SOURCE,
    TARGET,
    THINGS,
    Row,
    id_in,
    texts,
)
from satchel.formats._members import text_in
from satchel.memory.entries import Episodic, Semantic
from satchel.memory.parts import Origin, TrustClass
from satchel.memory.records import Edge, GraphNode
from satchel.ports.format import Reading
from satchel.ports.linking.placeholders import placeholder
from satchel.type_info import resolved

SUBJECT, OBJECT = "subject", "object"
"""The kinds of the links from a fact to what it joins."""

_ENDS = ((SOURCE, SUBJECT), (TARGET, OBJECT))
_SHOWN = 80


class Known(NamedTuple):
    """A node or an episode that is in the file."""

    standing: str
    """What stands for its id; empty for an entity that only has a name that facts give as well."""

    name: str
    label: str | None
    is_episode: bool


_pack = msgspec.msgpack.Encoder().encode
_known = msgspec.msgpack.Decoder(resolved(Known)).decode


class Graph:
    """The nodes, facts and links of one input; a context manager.

    Args:
        reading: Where bad ones go.
        file: What to call the input in errors.
    """

    def __init__(self, reading: Reading, file: str) -> None:
        self._counts = Counter[str]()
        self._reading = reading
        self._file = file
        self._names = Keyed()
        self._strands = Strands()
        self._open_ends = 0
        self._waiting = {name: self._strands.strand() for name in (FACTS, *LINKS)}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._names.close()
        self._strands.close()

    def rows(self, table: str, where: str, rows: Iterable[Any]) -> Iterator[GraphNode | Episodic]:
        """Take the rows of a table; nodes and episodes are given out.

        Args:
            table: The table.
            where: What the file calls it.
            rows: What is in it.

        Raises:
            MalformedError: If one is bad, and bad ones are not left out.
        """
        for row in rows:
            place = f"{where}/{self._counts[where]}"
            self._counts[where] += 1
            with self._refusing(place):
                if type(row) is not dict:
                    raise MalformedError("not an object")
                if table in self._waiting:
                    self._keep(table, place, row)
                elif table == EPISODES:
                    episode = episode_of(row)
                    self._note(episode, Known(_standing(episode), "", None, is_episode=True))
                    yield episode
                else:
                    node = node_of(table, row)
                    label = label_of(node.labels)
                    is_made = row == own_node(str(node.name), label, row.get("group_id"))
                    standing = "" if is_made else _standing(node)
                    self._note(node, Known(standing, node.name or "", label, is_episode=False))
                    if not is_made:
                        yield node

    def rest(self) -> Iterator[Semantic | Edge]:
        """Yield the facts, then the links of both kinds.

        Raises:
            EmptyInputError: If there was nothing at all.
        """
        if not self._counts:
            raise EmptyInputError("the graph contains no memories", file=self._file)
        for place, row in self._kept(FACTS):
            with self._refusing(place):
                yield self._fact(row)
        for place, row in self._kept(FACTS):
            with self._refusing(place):
                yield from self._joints(row)
        if self._open_ends:
            what = "ends of facts are not in the file; their IDs are kept"
            self._reading.report.note(f"{self._open_ends:,} {what}")
        for table in LINKS:
            for place, row in self._kept(table):
                with self._refusing(place):
                    yield from self._link(table, row)

    # -- rows ------------------------------------------------------------------------------

    def _keep(self, table: str, place: str, row: Row) -> None:
        id_in(row)
        if table == FACTS:
            text_in(row, "fact")
        else:
            text_in(row, SOURCE)
            text_in(row, TARGET)
        self._waiting[table].write(msgspec.json.encode([place, row]) + b"\n")

    def _kept(self, table: str) -> Iterator[tuple[str, Row]]:
        for line in self._waiting[table].lines():
            place, row = msgspec.json.decode(line)
            yield place, row

    def _note(self, record: GraphNode | Episodic, known: Known) -> None:
        identity = _identity(record)
        if not self._names.add(identity.encode(), _pack(known)):
            self._reading.report.note(
                f"several records have the same ID, such as {identity[:_SHOWN]!r}"
            )

    def _found(self, identity: Any) -> Known | None:
        found = self._names.get(identity.encode()) if type(identity) is str else None
        return None if found is None else _known(found)

    def _end(self, row: Row, side: str) -> End | None:
        found = self._found(row.get(side))
        return None if found is None else End(row[side], found.name, found.label)

    def _fact(self, row: Row) -> Semantic:
        episodes = dict[str, str]()
        for one in texts(row.get("episodes")):
            known = self._found(one)
            if known is not None and known.is_episode:
                episodes[one] = known.standing
        return fact_of(row, (self._end(row, SOURCE), self._end(row, TARGET)), episodes)

    def _joints(self, row: Row) -> Iterator[Edge]:
        """Yield the links from a fact to what it joins, as far as that is in the file."""
        fact = _standing(self._fact(row))
        for side, kind in _ENDS:
            known = self._found(row.get(side))
            if known is None:
                self._open_ends += 1
            elif known.standing:
                name = f"{id_in(row)}/{kind}"
                origin = Origin(provider=NAME, id=name, trust=TrustClass.IMPORTED)
                yield Edge(source=fact, target=known.standing, kind=kind, origin=origin)

    def _link(self, table: str, row: Row) -> Iterator[Edge]:
        start, end = self._found(row[SOURCE]), self._found(row[TARGET])
        if start is None or end is None or not (start.standing and end.standing):
            reason = "its ends are not in the file"
            self._reading.report.lost(table, reason, example=id_in(row)[:_SHOWN])
        else:
            yield link_of(table, row, (start.standing, end.standing))

    @contextmanager
    def _refusing(self, where: str) -> Iterator[None]:
        try:
            yield
        except InputError as error:
            error.field = f"{where}/{error.field}" if error.field else where
            line = self._reading.line()
            self._reading.refuse(error.located(file=self._file, line=line))  # type: ignore[arg-type]


def _identity(record: GraphNode | Episodic) -> str:
    """Return what links of the file call a record."""
    origin = record.origin
    assert origin is not None  # noqa: S101 - each record that is read has one
    assert origin.id is not None  # noqa: S101 - so has each origin
    for start in filter(None, THINGS.values()):
        if isinstance(record, GraphNode) and origin.id.startswith(start):
            return origin.id.removeprefix(start)
    return origin.id


def _standing(record: GraphNode | Episodic | Semantic) -> str:
    assert record.origin is not None  # noqa: S101 - each record that is read has one
    return placeholder(str(record.__struct_config__.tag), record.scope, record.origin)
