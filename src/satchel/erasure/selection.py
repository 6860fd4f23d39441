"""Which records a person wants erased: by id, or by what they say of themselves."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

from satchel.bank.memory import key_of
from satchel.errors import UnknownMemoryError, UsageError
from satchel.ledger.erasure import ERASABLE
from satchel.ledger.projection import VerifiedRecord
from satchel.ledger.view import View
from satchel.model.records import Edge, Entry, FileVersion, Model, Semantic, SessionEvent, Source
from satchel.model.values import is_id
from satchel.runtime.scratch import Scratch

_LEAST_DIGITS, _MOST_SHOWN = 6, 5
_DIGITS = frozenset("0123456789abcdef")
_PREFIX = "blake3:"


def _member(path: str) -> Callable[[VerifiedRecord], Iterable[Any]]:
    """Return what reads one member of a record; without it on the way, there is none."""
    names = path.split(".")

    def read(logged: VerifiedRecord) -> Iterable[Any]:
        value: Any = logged.model
        for name in names:
            value = getattr(value, name, None)
        return () if value is None else (value,)

    return read


def _tags(logged: VerifiedRecord) -> Iterable[Any]:
    return getattr(logged.model, "tags", ())


def _key(logged: VerifiedRecord) -> Iterable[Any]:
    key = key_of(logged.model) if isinstance(logged.model, Entry) else None
    return () if key is None else (key,)


CONDITIONS: dict[str, Callable[[VerifiedRecord], Iterable[Any]]] = {
    "user": _member("scope.user"),
    "agent": _member("scope.agent"),
    "run": _member("scope.run"),
    "app": _member("scope.app"),
    "session": _member("session"),
    "type": lambda logged: (logged.record.type,),
    "kind": _member("kind"),
    "tag": _tags,
    "key": _key,
    "actor": _member("actor"),
    "path": _member("path"),
    "provider": _member("origin.provider"),
    "account": _member("origin.source"),
    "origin": _member("origin.id"),
}
"""What a condition can be on, and how a record is asked; ``import`` is told by the log."""

IMPORT = "import"


def conditions_of(said: Sequence[str]) -> dict[str, list[str]]:
    """Return conditions from ``NAME=VALUE``; one name twice wants any of its values.

    Raises:
        UsageError: If one is not of that form, or on what records do not say.
    """
    found = dict[str, list[str]]()
    for one in said:
        name, equals, value = one.partition("=")
        if not equals or not value or name not in {*CONDITIONS, IMPORT}:
            raise UsageError(
                f"not a condition: {one[:80]!r}",
                field="where",
                hint=f"Write NAME=VALUE, with one of {', '.join([*CONDITIONS, IMPORT])}.",
            )
        found.setdefault(name, []).append(value)
    return found


class EraseSelection:
    """What is asked for.

    Args:
        view: Of the bank.
        ids: Ids, or the first digits of them.
        where: Conditions by name, all of which have to hold; one of the values each.

    Raises:
        UsageError: If nothing is asked for, or an id could be that of several, or of no memory.
        UnknownMemoryError: If there is no such record.
    """

    def __init__(self, view: View, ids: Sequence[str], where: Mapping[str, Sequence[str]]) -> None:
        if not ids and not where:
            raise UsageError(
                "nothing to erase is given",
                field="id",
                hint="Pass IDs, or add --where user=NAME.",
            )
        self.ids = frozenset(_named(view, one) for one in ids)
        self._asked = {name: frozenset(values) for name, values in where.items()}
        self._imports = self._asked.pop(IMPORT, None)
        self._sources = dict[int, str | None]()
        self._view = view
        types = self._asked.get("type", frozenset())
        if unknown := types - ERASABLE:
            raise UsageError(
                f"records of type {min(unknown)!r} are not erased",
                field="where",
                hint=f"Only these can be erased: {', '.join(sorted(ERASABLE))}.",
            )

    def takes(self, logged: VerifiedRecord) -> bool:
        """Tell whether a record is asked for."""
        if logged.record.id in self.ids:
            return True
        if not self._asked and self._imports is None:
            return False
        if any(values.isdisjoint(CONDITIONS[name](logged)) for name, values in self._asked.items()):
            return False
        return self._imports is None or self._came_with(logged)

    def _came_with(self, logged: VerifiedRecord) -> bool:
        batch = logged.row.batch
        if batch not in self._sources:
            source = self._view.source_of(logged)
            is_one = source is not None and isinstance(source.model, Source)
            self._sources[batch] = source.record.id if is_one and source is not None else None
        identity = self._sources[batch]
        wanted = self._imports or ()
        return identity is not None and any(
            identity.removeprefix(_PREFIX).startswith(one.removeprefix(_PREFIX)) for one in wanted
        )


def _named(view: View, wanted: str) -> str:
    """Return the id that a person means, also of what is erased already."""
    digits = wanted.removeprefix(_PREFIX).lower()
    if is_id(_PREFIX + digits):
        found = [_PREFIX + digits]
    elif len(digits) < _LEAST_DIGITS or not _DIGITS.issuperset(digits):
        raise UsageError(
            f"not a record ID: {wanted[:80]!r}",
            field="id",
            hint=f"Pass the ID, or a prefix of at least {_LEAST_DIGITS} digits.",
        )
    else:
        found = view.nominated(digits, limit=_MOST_SHOWN)
    places = view.places(found)
    if len(places) > 1:
        raise UsageError(
            f"several IDs start with {wanted!r}",
            field="id",
            hint=f"Choose one: {', '.join(sorted(places))}",
        )
    if not places:
        raise UnknownMemoryError(
            f"there is no record {wanted[:80]!r} in this bank",
            field="id",
            hint="See: satchel list --all. To use another bank: --bank NAME.",
        )
    (row,) = view.rows(list(places.values()))
    if row.type not in ERASABLE:
        raise UsageError(
            f"this is the id of a {row.type} record, not of a memory",
            field="id",
            hint="The log could not be read without it.",
        )
    return row.id


_TOGETHER = 1_000
_DERIVES = "derives_from"
_REFERENCE = "blake3:"


class EraseReason(StrEnum):
    """Why a record goes."""

    CHOSEN = "chosen"
    VERSION = "version"
    """It took the place of one that goes, or the other way round."""

    JOINS = "joins"
    """It is a link, and an end of it goes."""

    DERIVED = "derived"
    """It was drawn from one that goes, or is part of it."""


class DerivedRecords(Scratch):
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
        wanted = (
            EraseReason.JOINS,
            EraseReason.VERSION,
            EraseReason.DERIVED if cascade else EraseReason.VERSION,
        )
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

    def counts(self) -> dict[EraseReason, int]:
        """Return how many records go that are there, by why."""
        sql = "SELECT why, count(*) FROM gone JOIN record USING (id) GROUP BY why"
        return {EraseReason(why): number for why, number in self._db.execute(sql)}

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


def _links(model: Model, identity: str) -> Iterator[tuple[str, str, EraseReason]]:
    """Yield what a record hangs on: the end, what hangs on it, and how."""
    if isinstance(model, Entry):
        events = model.source_event_ids if isinstance(model, Semantic) else ()
        sources = [source.id for source in model.sources]
        for end in (*model.parent_ids, *events, *_records(sources)):
            yield end, identity, EraseReason.DERIVED
    elif isinstance(model, Edge):
        for end in _records((model.source, model.target)):
            yield end, identity, EraseReason.JOINS
        if model.kind == _DERIVES and len(_records((model.source, model.target))) > 1:
            yield model.target, model.source, EraseReason.DERIVED
    elif isinstance(model, SessionEvent):
        for end in _records((model.session, model.parent)):
            yield end, identity, EraseReason.DERIVED
    elif isinstance(model, FileVersion) and model.previous is not None:
        yield model.previous, identity, EraseReason.VERSION
        yield identity, model.previous, EraseReason.VERSION


def _records(ends: Sequence[str | None]) -> list[str]:
    return [end for end in ends if end is not None and end.startswith(_REFERENCE)]
