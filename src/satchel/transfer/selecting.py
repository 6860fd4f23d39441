"""Which memory of a bank is meant, and the records that it needs to be whole."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from satchel.disk.databases.scratch import Scratch
from satchel.ledger.logged import Logged
from satchel.memory.entries import Entry

_TOGETHER = 256
_BESIDE_ENTRIES = frozenset({"graph_node", "session_event", "file_version"})


class Selection(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which memory is meant; an absent member wants all.

    What is not current, and what is in quarantine, is never meant. What is past its expiry is: it
    goes with its expiry, and whoever reads it there decides.
    """

    components: tuple[str, ...] = ()
    """Any of these."""

    tags: tuple[str, ...] = ()
    """Any of these."""

    since: str | None = None
    """First moment, included; of what happened then, or else was made then."""

    until: str | None = None
    """Last moment, not included."""

    owner: str | None = None
    """The user that it belongs to, or the agent where there is no user."""

    as_of: int | None = None
    """How the bank was when its log had this many records."""

    ids: tuple[str, ...] = ()
    """Of memories, in full and sorted; nothing else is meant then."""

    @property
    def is_whole(self) -> bool:
        """Whether it leaves nothing out that is current."""
        return self == WHOLE

    def wants(self, logged: Logged) -> bool:
        """Tell whether a record that is memory is meant; edges are judged by their ends."""
        model, row = logged.model, logged.row
        if isinstance(model, Entry):
            if self.ids and not self._has(row.id):
                return False
            if self.components and row.type not in self.components:
                return False
            if self.tags and not set(self.tags) & set(model.tags):
                return False
        elif row.type not in _BESIDE_ENTRIES or self.components or self.tags or self.ids:
            return False
        if self.owner is not None and (row.agent if row.user is None else row.user) != self.owner:
            return False
        if self.since is not None and (row.moment is None or row.moment < self.since):
            return False
        return self.until is None or (row.moment is not None and row.moment < self.until)

    def _has(self, identity: str) -> bool:
        at = bisect_left(self.ids, identity)
        return at < len(self.ids) and self.ids[at] == identity


WHOLE = Selection()
"""All that is current."""


class Chosen(Scratch):
    """The ids of what is taken along, and of the parents that it names; on disk when many.

    SQLite's temporary database keeps small sets in memory and spills large ones by itself.
    """

    def __init__(self) -> None:
        super().__init__(
            "CREATE TABLE chosen(id BLOB PRIMARY KEY) WITHOUT ROWID;"
            "CREATE TABLE parent(id BLOB PRIMARY KEY) WITHOUT ROWID;",
            cache_kib=4096,
        )

    def add(self, identity: str, parents: Iterable[str] = ()) -> None:
        """Note a record, and the parents that it names."""
        self._db.execute("INSERT OR IGNORE INTO chosen VALUES (?)", [_raw(identity)])
        for parent in parents:
            self._db.execute("INSERT OR IGNORE INTO parent VALUES (?)", [_raw(parent)])

    def __contains__(self, identity: object) -> bool:
        raw = _raw(str(identity))
        return self._one("SELECT 1 FROM chosen WHERE id = ?", [raw]) is not None

    def absent_parents(self) -> Iterator[list[str]]:
        """Yield the ids of parents that were not chosen, some hundred at a time."""
        last: Any = b""
        sql = (
            "SELECT id FROM parent WHERE id > ? AND NOT EXISTS"
            " (SELECT 1 FROM chosen WHERE chosen.id = parent.id) ORDER BY id LIMIT ?"
        )
        while found := self._db.execute(sql, [last, _TOGETHER]).fetchall():
            last = found[-1][0]
            yield [f"blake3:{raw.hex()}" for (raw,) in found]

    def _one(self, sql: str, values: list[Any]) -> Any:
        return self._db.execute(sql, values).fetchone()


def _raw(identity: str) -> bytes:
    try:
        return bytes.fromhex(identity.removeprefix("blake3:"))
    except ValueError:  # an end of an edge may be any text
        return identity.encode("utf-8", "surrogatepass")
