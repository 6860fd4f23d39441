"""Nodes and edges as they come out of a file, given out so that what is linked to comes first.

Episodes are given out at once. Facts wait on disk until the edges are known, since an episode that
a fact derives from is its parent; edges wait until it is known what is at their ends. Whatever the
number of them, the memory that is taken is the same.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Self

import msgspec

from satchel.disk.databases.keyed import Keyed
from satchel.disk.spool import Strands
from satchel.errors import InputError, MalformedError
from satchel.formats._amplihack.rows import (
    checked_edge,
    edge_from_agent_core,
    edge_of,
    node_of,
    standing_for,
)
from satchel.formats._amplihack.shape import EPISODES, FACTS, NODES, Row
from satchel.memory.entries import Episodic, Semantic
from satchel.memory.parts import Scope
from satchel.memory.records import Edge
from satchel.ports.format import Reading
from satchel.type_info import resolved

_TOGETHER = 128
_RAW = 32
_PREFIX = "blake3:"
_SHOWN = 80


class Where(NamedTuple):
    """A place in the input: an array or table, and the position in it."""

    array: str
    place: int

    def __str__(self) -> str:
        return f"{self.array}/{self.place}"


Prepare = Callable[[Any], Row] | None
"""Gives a row as version 1.1 has it."""

_Fact = tuple[Where, Semantic]
_Joined = tuple[Where, str, Row, Scope | None]
_pack = msgspec.msgpack.Encoder().encode
_facts = msgspec.msgpack.Decoder(resolved(list[_Fact])).decode
_edges = msgspec.msgpack.Decoder(resolved(list[_Joined])).decode


class Gathering:
    """The nodes and edges of one input.

    Args:
        reading: Where bad ones go.
        file: What to call the input in errors.
    """

    def __init__(self, reading: Reading, file: str) -> None:
        self.counts = Counter[str]()
        """How many rows each array has, bad ones too."""

        self.nodes = 0
        """How many of them are nodes."""

        self.last: Where | None = None
        """Where the last record that was given out was."""

        self._reading = reading
        self._file = file
        self._strands = Strands()
        self._facts, self._edges = self._strands.strand(), self._strands.strand()
        self._facts_held, self._edges_held = list[_Fact](), list[_Joined]()
        self._names, self._parents = Keyed(), Keyed()
        self._twice, self._first_twice = 0, ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for one in (self._strands, self._names, self._parents):
            one.close()

    def node(
        self, where: Where, table: str, row: Any, scope: Scope | None, prepare: Prepare = None
    ) -> Iterator[Episodic]:
        """Take a node; one that is an episode is given out.

        Args:
            where: Its place.
            table: ``FACTS`` or ``EPISODES``.
            row: What is there.
            scope: Whose it is.
            prepare: Gives the row as version 1.1 has it, where it is another shape.

        Raises:
            MalformedError: If it is bad, and bad ones are not left out.
        """
        self.nodes += 1
        with self._refusing(where):
            draft = node_of(table, row if prepare is None else prepare(row), scope)
            self._note_name(where, draft.origin.id if draft.origin else None, table, scope)
            if isinstance(draft, Episodic):
                self.last = where
                yield draft
                return
            self._facts_held.append((where, draft))
            if len(self._facts_held) == _TOGETHER:
                self._facts.write_pack(_pack(self._facts_held))
                self._facts_held.clear()

    def edge(
        self,
        where: Where,
        kind: str | None,
        row: Any,
        scope: Scope | None,
        prepare: Prepare = None,
    ) -> None:
        """Take an edge; where its kind is not known, it is agent-core's own and says so itself.

        Args and Raises: as ``node``.
        """
        with self._refusing(where):
            row = row if prepare is None else prepare(row)
            if kind is None:
                kind, row = edge_from_agent_core(row)
            self._edges_held.append((where, kind, checked_edge(kind, row), scope))
            if len(self._edges_held) == _TOGETHER:
                self._edges.write_pack(_pack(self._edges_held))
                self._edges_held.clear()

    def rest(self) -> Iterator[Semantic | Edge]:
        """Yield the facts, then the edges whose ends are there; the others are counted."""
        self._find_parents()
        for where, draft in self._all_facts():
            self.last = where
            origin = draft.origin
            name = standing_for(FACTS, str(origin.id), draft.scope) if origin else ""
            found = self._parents.get(_raw(name)) or b""
            starts = range(0, len(found), _RAW)
            parents = dict.fromkeys(found[start : start + _RAW] for start in starts)
            ids = tuple(_PREFIX + one.hex() for one in parents)
            yield msgspec.structs.replace(draft, parent_ids=ids) if ids else draft
        for where, kind, row, scope in self._all_edges():
            self.last = where
            ends = [self._end(kind, row, scope, side) for side in ("source_id", "target_id")]
            if ends[0] is None or ends[1] is None:
                side = "source_id" if ends[0] is None else "target_id"
                self._dangling(where, side, row[side])
            else:
                yield edge_of(kind, row, scope, (ends[0], ends[1]))
        if self._twice:
            self._reading.report.note(
                f"nodes with the ID of another node: {self._twice:,},"
                f" the first of them is {self._first_twice}"
            )

    def _find_parents(self) -> None:
        most = self._reading.limits.parents * _RAW
        for _, kind, row, scope in self._all_edges():
            if kind != "derives_from":
                continue
            fact = standing_for(FACTS, row["source_id"], scope)
            episode = standing_for(EPISODES, row["target_id"], scope)
            if self._is_there(fact) and self._is_there(episode):
                self._parents.extend(_raw(fact), _raw(episode), most=most)

    def _end(self, kind: str, row: Row, scope: Scope | None, side: str) -> str | None:
        """Return what stands for the node at an end; None where there is none."""
        for table in tables_for(kind, side):
            name = standing_for(table, row[side], scope)
            if self._is_there(name):
                return name
        return None

    def _is_there(self, name: str) -> bool:
        return self._names.get(_raw(name)) is not None

    def _note_name(
        self, where: Where, identity: str | None, table: str, scope: Scope | None
    ) -> None:
        if not self._names.add(_raw(standing_for(table, str(identity), scope))):
            self._first_twice = self._first_twice or str(where)
            self._twice += 1

    def _dangling(self, where: Where, side: str, name: str) -> None:
        end = side.removesuffix("_id")
        problem = f"its {end} is not in the file: {name[:_SHOWN]!r}"
        error = MalformedError(problem, file=self._file, field=f"{where}/{side}")
        self._reading.report.refuse(error)

    def _all_facts(self) -> Iterator[_Fact]:
        for pack in self._facts.packs():
            yield from _facts(pack)
        yield from self._facts_held

    def _all_edges(self) -> Iterator[_Joined]:
        for pack in self._edges.packs():
            yield from _edges(pack)
        yield from self._edges_held

    @contextmanager
    def _refusing(self, where: Where) -> Iterator[None]:
        self.counts[where.array] += 1
        try:
            yield
        except InputError as error:
            error.field = f"{where}/{error.field}" if error.field else str(where)
            line = self._reading.line()
            self._reading.refuse(error.located(file=self._file, line=line))  # type: ignore[arg-type]


def tables_for(kind: str, side: str) -> tuple[str, str]:
    """Return in which tables the node at an end of an edge is looked for, the first one first."""
    tables = tuple(NODES)
    is_episode = kind == "derives_from" and side == "target_id"
    return (tables[1], tables[0]) if is_episode else (tables[0], tables[1])


def _raw(name: str) -> bytes:
    return bytes.fromhex(name.removeprefix(_PREFIX))
