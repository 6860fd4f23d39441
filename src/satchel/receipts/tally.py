"""Counting records by type, and the members that they have."""

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from satchel.artifact.body import TYPED_SECTIONS
from satchel.model.values import resolved
from satchel.ports.record_set import RecordSet
from satchel.ports.rows import Row
from satchel.receipts.account import receipt_text

CARRIED = frozenset(
    {
        *("episodic", "semantic", "procedural", "working", "identity"),
        *("edge", "graph_node", "session_event", "file_version"),
    }
)
"""The types of records that are memory; the others tell of a log or of a transfer."""

_MOST_MEMBERS = 100

_IN_ALL = ("id", "nonce", "type")


_decoder = msgspec.json.Decoder(resolved(dict[str, msgspec.Raw]))


_members, _many = _decoder.decode, _decoder.decode_lines


class Tally:
    """How many records there are of each type, and how many have each member."""

    def __init__(self) -> None:
        self.records = Counter[str]()
        self.members = Counter[str]()
        """Of records that are memory."""

    def add(self, record_type: str, body: bytes) -> None:
        """Count a record, given its canonical bytes."""
        self.records[record_type] += 1
        if record_type in CARRIED:
            self.members.update(_members(body).keys())

    def add_many(self, rows: Sequence[Row]) -> None:
        """Count records, as ``add`` does one by one."""
        self.records.update(row.type for row in rows)
        lines = [row.body or b"" for row in rows if row.type in CARRIED]
        for names, number in Counter(map(tuple, _many(b"\n".join(lines)))).items():
            for name in names:  # most records have the same
                self.members[name] += number

    @property
    def kept(self) -> dict[str, int]:
        """The members by name, the most frequent ones where a file makes up its own."""
        found = [one for one in self.members.most_common() if one[0] not in _IN_ALL]
        return {receipt_text(name): number for name, number in sorted(found[:_MOST_MEMBERS])}


def by_type(records: RecordSet, types: Iterable[str] | None = None) -> dict[str, int]:
    """Return how many records of each type a set has."""
    wanted = None if types is None else frozenset(types)
    found = {TYPED_SECTIONS.get(name): number for name, number in records.counts.items()}
    return {
        name: number
        for name, number in found.items()
        if name is not None and (wanted is None or name in wanted)
    }
