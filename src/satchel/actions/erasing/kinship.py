"""Which records hang together, on disk when they are many: what goes along with what is erased.

Everything is by id, since what was erased before still holds others together. Linear: each record
and each link is looked at once, however long a chain is.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum

from satchel.disk.databases.scratch import Scratch
from satchel.memory.entries import Entry, Semantic
from satchel.memory.records import Edge, FileVersion, Model, SessionEvent

_TOGETHER = 1_000
_DERIVES = "derives_from"
_REFERENCE = "blake3:"


class Why(StrEnum):
    """Why a record goes."""

    CHOSEN = "chosen"
    VERSION = "version"
    """It took the place of one that goes, or the other way round."""

    JOINS = "joins"
    """It is a link, and an end of it goes."""

    DERIVED = "derived"
    """It was drawn from one that goes, or is part of it."""


class Kinship(Scratch):
    """What is chosen, and what hangs on it. SQLite's temporary database keeps it."""

    def __init__(self) -> None:
        super().__init__(
            "CREATE TABLE record(id TEXT PRIMARY KEY, type TEXT) WITHOUT ROWID;"
            "CREATE TABLE link(end TEXT, id TEXT, why TEXT, PRIMARY KEY (end, id)) WITHOUT ROWID;"
            "CREATE TABLE gone(id TEXT PRIMARY KEY, why TEXT, depth INTEGER) WITHOUT ROWID;"
            "CREATE INDEX gone_depth ON gone(depth);",
            cache_kib=8192,
        )

    def add(self, model: Model) -> None:
        """Take note of a record that is there, and of what it hangs on."""
        identity = model.id or ""
        type_ = str(model.__struct_config__.tag)
        self._db.execute("INSERT OR IGNORE INTO record VALUES (?, ?)", (identity, type_))
        links = [(end, one, why) for end, one, why in _links(model, identity) if end != one]
        if links:
            self._db.executemany("INSERT OR IGNORE INTO link VALUES (?, ?, ?)", links)

    def choose(self, ids: Iterable[str]) -> None:
        """Have records go, erased before or not."""
        self._db.executemany(
            "INSERT OR IGNORE INTO gone VALUES (?, 'chosen', 0)", ((identity,) for identity in ids)
        )

    def spread(self, versions: Callable[[str], Iterable[str]], *, cascade: bool) -> None:
        """Have everything go that hangs on what is chosen.

        Args:
            versions: Returns the ids of all versions of a memory.
            cascade: Whether what was drawn from it goes, too.
        """
        depth = 0
        wanted = (Why.JOINS, Why.VERSION, Why.DERIVED if cascade else Why.VERSION)
        while True:
            wave = self._ids("SELECT id FROM gone WHERE depth = ?", depth)
            depth, found = depth + 1, False
            for ids in wave:
                found = True
                others = {one for identity in ids for one in versions(identity)}.difference(ids)
                self._db.executemany(
                    "INSERT OR IGNORE INTO gone VALUES (?, 'version', ?)",
                    ((one, depth) for one in sorted(others)),
                )
            if not found:
                return
            self._db.execute(
                "INSERT OR IGNORE INTO gone SELECT link.id, link.why, ? FROM gone"
                " JOIN link ON link.end = gone.id WHERE gone.depth = ? AND link.why IN (?, ?, ?)",
                (depth, depth - 1, *wanted),
            )

    def counts(self) -> dict[Why, int]:
        """Return how many records go that are there, by why."""
        sql = "SELECT why, count(*) FROM gone JOIN record USING (id) GROUP BY why"
        return {Why(why): number for why, number in self._db.execute(sql)}

    def types(self) -> dict[str, int]:
        """Return how many records go that are there, by type."""
        sql = "SELECT type, count(*) FROM gone JOIN record USING (id) GROUP BY type ORDER BY type"
        return dict(self._db.execute(sql).fetchall())

    def left(self, most: int) -> tuple[int, list[str]]:
        """Return what was drawn from what goes, and stays: how many, and the first ids."""
        sql = (
            "SELECT DISTINCT link.id FROM gone JOIN link ON link.end = gone.id"
            " JOIN record ON record.id = link.id"
            " WHERE link.why = 'derived' AND link.id NOT IN (SELECT id FROM gone)"
        )
        ids, number = list[str](), 0
        for (identity,) in self._db.execute(f"{sql} ORDER BY 1"):
            number += 1
            if len(ids) < most:
                ids.append(identity)
        return number, ids

    def going(self) -> Iterator[list[str]]:
        """Yield the ids of what goes and is there, what hangs on others first.

        So when it is cut short, all that is left still hangs on something that is left.
        """
        return self._ids("SELECT id FROM gone JOIN record USING (id) ORDER BY depth DESC, id")

    def _ids(self, sql: str, *values: object) -> Iterator[list[str]]:
        rows = self._db.cursor().execute(sql, values)
        while some := rows.fetchmany(_TOGETHER):
            yield [identity for (identity,) in some]


def _links(model: Model, identity: str) -> Iterator[tuple[str, str, Why]]:
    """Yield what a record hangs on: the end, what hangs on it, and how."""
    if isinstance(model, Entry):
        events = model.source_event_ids if isinstance(model, Semantic) else ()
        sources = [source.id for source in model.sources]
        for end in (*model.parent_ids, *events, *_records(sources)):
            yield end, identity, Why.DERIVED
    elif isinstance(model, Edge):
        for end in _records((model.source, model.target)):
            yield end, identity, Why.JOINS
        if model.kind == _DERIVES and len(_records((model.source, model.target))) > 1:
            yield model.target, model.source, Why.DERIVED
    elif isinstance(model, SessionEvent):
        for end in _records((model.session, model.parent)):
            yield end, identity, Why.DERIVED
    elif isinstance(model, FileVersion) and model.previous is not None:
        yield model.previous, identity, Why.VERSION
        yield identity, model.previous, Why.VERSION


def _records(ends: Sequence[str | None]) -> list[str]:
    return [end for end in ends if end is not None and end.startswith(_REFERENCE)]
