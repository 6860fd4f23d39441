"""What the records of an agent file name each other by, while it is read.

What may name things further down waits on disk: memories that were drawn from others that were not
yet there, and all edges.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from satchel.disk.databases.keyed import Keyed
from satchel.disk.spool import Spool
from satchel.errors import InputError, MalformedError
from satchel.formats._aletheia.branches import Branches
from satchel.formats._aletheia.rows import edge_of, entry_of
from satchel.formats._aletheia.shape import Row
from satchel.memory.entries import Entry
from satchel.memory.records import Edge, Model
from satchel.ports.format import Reading
from satchel.ports.linking.placeholders import placeholder

VECTORS, NODES, FILES = "v", "n", "f"
"""What an id can be that of; one may stand for several."""

_PREFIX = "blake3:"
_SHOWN = 80
_HERE = b"waits"
_PASSES = 64
"""How often what waits for its parents is gone through; a longer chain loses links, counted."""


class Links:
    """The ids of one file, and what waits for others to be known.

    Args:
        reading: Where what leads nowhere is counted, and what is bad goes.
        name: What to call the file in errors.
        branches: Know the events of conversations by their names.
    """

    def __init__(self, reading: Reading, name: str, branches: Branches) -> None:
        self._branches = branches
        self._reading = reading
        self._report = reading.report
        self._name = name
        self._names, self._waits = Keyed(), Keyed()
        self._derived, self._edges = Spool(), Spool()

    def close(self) -> None:
        """Give the space back."""
        for one in (self._names, self._waits, self._derived, self._edges):
            one.close()

    def is_new(self, path: str) -> bool:
        """Note the path of a file, and tell whether it was not there before."""
        return self._names.add(_key(FILES, path))

    def note(self, table: str, name: str, draft: Model) -> None:
        """Remember what stands for the id of what a file calls so."""
        origin, scope = getattr(draft, "origin", None), getattr(draft, "scope", None)
        assert origin is not None  # noqa: S101 - each record that is read has one
        tag = str(draft.__struct_config__.tag)
        raw = bytes.fromhex(placeholder(tag, scope, origin).removeprefix(_PREFIX))
        if not self._names.add(_key(table, name), raw):
            self.note_twice(name)

    def note_twice(self, name: str) -> None:
        """Tell of an id that several things have."""
        self._report.note(f"several records have the same ID, such as {name[:_SHOWN]!r}")

    def derived(self, row: Row, entry: Entry, parents: list[Any]) -> Entry | None:
        """Return a memory with its parents; None where it has to wait for one."""
        if all(self._is_out(one) for one in parents):
            return msgspec.structs.replace(entry, parent_ids=self._parents(parents))
        self._derived.write(msgspec.json.encode(row) + b"\n")
        self._waits.add(_key(VECTORS, row["id"]), _HERE)
        return None

    def edge(self, row: Row) -> None:
        """Let an edge wait for its ends."""
        self._edges.write(msgspec.json.encode(row) + b"\n")

    def waiting(self, agent: str) -> Iterator[Entry]:
        """Yield the memories that wait, parents first."""
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
        for row in _rows(self._derived):  # a ring, which no bank has
            self._report.lost("parent_ids", "its own ancestor", example=str(row["id"])[:_SHOWN])
            yield entry_of(row, agent)[0]

    def joined(self, agent: str) -> Iterator[Edge]:
        """Yield the edges; one whose end is not in the file is left out, and counted."""
        for row in _rows(self._edges):
            ends = [self._end(row[side]) for side in _ENDS]
            if ends[0] is None or ends[1] is None:
                side = _ENDS[0] if ends[0] is None else _ENDS[1]
                problem = f"its {side} is not in the file: {str(row[side])[:_SHOWN]!r}"
                field = f"memory/graph/edges/{side}"
                self._report.refuse(MalformedError(problem, file=self._name, field=field))
                continue
            try:
                yield edge_of(row, (ends[0], ends[1]), agent)
            except InputError as error:
                field = "memory/graph/edges"
                error.field = f"{field}/{error.field}" if error.field else field
                self._reading.refuse(error.located(file=self._name))  # type: ignore[arg-type]

    def _end(self, name: Any) -> str | None:
        """Return what stands for what is at an end of an edge."""
        found = self._standing(name, NODES + VECTORS)
        place = self._branches.named(name) if found is None else None
        return found if place is None else place.element

    def _is_out(self, name: Any) -> bool:
        """Tell whether a memory was given out already."""
        is_known = self._names.get(_key(VECTORS, name)) is not None
        return is_known and not self._is_waiting(name)

    def _is_waiting(self, name: Any) -> bool:
        return self._waits.get(_key(VECTORS, name)) == _HERE

    def _parents(self, names: list[Any]) -> tuple[str, ...]:
        found = dict.fromkeys(self._standing(one, VECTORS) for one in names)
        if None in found:
            self._report.lost("parent_ids", "a parent is not in the file")
        return tuple(one for one in found if one is not None)

    def _standing(self, name: Any, tables: str) -> str | None:
        for table in tables:
            found = self._names.get(_key(table, name))
            if found:
                return _PREFIX + found.hex()
        return None


_ENDS = ("source", "target")


def _rows(spool: Spool) -> Iterator[Row]:
    for line in spool.lines():
        yield msgspec.json.decode(line)


def _key(table: str, name: Any) -> bytes:
    return f"{table}/{name}".encode("utf-8", "surrogatepass")
