"""Read an output back and compare it with the plan, field by field.

First, all records of both sides are added to a sum of keyed hashes, in any order; if the sums are
equal, so are the records. (If all records came from other providers, origins are not included, and
count as lost: a format cannot express them.) What the product of a format stores next to a memory
(``Info.beside``) is not compared. Only if the sums differ, both sides are read again, paired on
disk and compared. Memory is bounded.

Formats assign new IDs, so records are paired by content: by all of it, else by the ID at the origin
(or the record's own, which writers use if there is none), else by the words, else by the text
alone, else by their order among the rest.
"""

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from itertools import islice
from typing import Any, ClassVar, NamedTuple

import msgspec
from blake3 import blake3

from satchel.crypto.canonical import (
    ABSENT,
    Limits,
    canonical_checked,
    decode_foreign,
    encode_sorted,
    fingerprint,
    plain,
)
from satchel.crypto.sealed_records import Sealed
from satchel.errors import UsageError, ValueRefusedError
from satchel.model.records import Model
from satchel.model.values import Origin, is_id, resolved
from satchel.ports.drafts import read_records
from satchel.ports.format import (
    Connector,
    Format,
    Info,
    Location,
    ReadContext,
    Target,
    WriteContext,
    pages,
)
from satchel.ports.record_set import RecordSet, Report
from satchel.ports.vectors import VectorChecksum
from satchel.receipts.receipt import CARRIED, Tally, Trim, lines_of, unchanged
from satchel.runtime.scratch import Scratch

_TOGETHER = 500
_ITS_OWN = frozenset({"id", "nonce", "origin"})
_WORDS = ("text", "subject", "predicate", "object", "name")

MARK_BYTES = 16
"""Length of a fingerprint in bytes."""

# Grouped, not joined: SQLite would join numbered rows with a nested loop.
_PAIR = """
INSERT INTO pair (a, b)
SELECT max(n) FILTER (WHERE side = 0), max(n) FILTER (WHERE side = 1) FROM (
  SELECT side, n, {key} AS key, row_number() OVER (PARTITION BY side, {key} ORDER BY n) AS turn
  FROM record WHERE {key} IS NOT NULL AND CASE side
    WHEN 0 THEN n NOT IN (SELECT a FROM pair) ELSE n NOT IN (SELECT b FROM pair) END
)
GROUP BY key, turn HAVING count(*) = 2
"""

_EVEN = """
WITH rest AS (
  SELECT type, side, count(*) AS number FROM record
  WHERE (side = 0 AND n NOT IN (SELECT a FROM pair)) OR (side = 1 AND n NOT IN (SELECT b FROM pair))
  GROUP BY type, side
)
UPDATE record SET even = type WHERE type IN (
  SELECT one.type FROM rest AS one JOIN rest AS two ON one.type = two.type
  WHERE one.side = 0 AND two.side = 1 AND one.number = two.number
)
"""


class RecordIdentity(NamedTuple):
    """A record with its fingerprints."""

    type: str
    print: bytes
    """Of everything except ID and nonce."""

    bare: bytes | None
    """Without the origin, too; None if it has none."""

    key: bytes | None
    """Of the ID at its origin, or its own."""

    words: bytes | None
    """Without the type: some formats have only one."""

    body: bytes

    text: bytes | None = None
    """Of the text alone; not stored in sidecars."""


class Pair(NamedTuple):
    """One record of each side: its number and its bytes."""

    first: int
    one: bytes
    second: int
    other: bytes


def identify_record(record: Sealed, *, draft: bool = False) -> RecordIdentity:
    """Return the fingerprints of a record.

    Args:
        record: The record.
        draft: Whether its ID was just assigned, and has no meaning.
    """
    value = record.value
    key = (value.get("origin") or {}).get("id") or (None if draft else record.id or None)
    last = str(key).rpartition("/")[2]
    key = last if is_id(last) else key  # a part is named by its whole and itself
    words = [value.get(name) for name in _WORDS]
    bare = {name: part for name, part in value.items() if name not in _ITS_OWN}
    text = value.get("text")
    return RecordIdentity(
        record.type,
        print_of(record.id, record.body),
        _mark(canonical_checked(bare)) if "origin" in value else None,
        None if key is None else _mark(str(key).encode()),
        _mark(canonical_checked(words)) if any(words) else None,
        record.body,
        _mark(text.encode()) if text else None,
    )


def print_of(identity: str, body: bytes) -> bytes:
    """Return a fingerprint of the content of a record."""
    return fingerprint(identity, body)[:MARK_BYTES]


def _mark(data: bytes) -> bytes:
    return blake3(data).digest(length=MARK_BYTES)


class Pairing(Scratch):
    """Two sides in a temporary database that spills to disk. A context manager."""

    def __init__(self) -> None:
        self._number = [0, 0]
        super().__init__(
            "CREATE TABLE record(side INTEGER, n INTEGER, type TEXT, print BLOB, bare BLOB,"
            " key BLOB, words BLOB, body BLOB, text BLOB, even TEXT, PRIMARY KEY (side, n))"
            " WITHOUT ROWID;"
            "CREATE TABLE pair(a INTEGER PRIMARY KEY, b INTEGER UNIQUE);",
            cache_kib=16384,
        )

    def add(self, side: int, records: Iterable[RecordIdentity]) -> None:
        """Add records of side 0 or 1, numbered from 0."""
        rows = (self._row(side, record) for record in records)
        while some := list(islice(rows, _TOGETHER)):
            self._db.executemany(
                "INSERT INTO record VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, NULL)", some
            )

    def pair(self, columns: Iterable[str]) -> None:
        """Pair records that are equal in a column, most specific column first."""
        for column in columns:
            self._db.execute(f"CREATE INDEX record_{column} ON record(side, {column})")
            self._db.execute(_PAIR.format(key=column))

    def pair_by_turn(self, *, surely: bool = False) -> None:
        """Pair the remaining records by type, in order.

        Args:
            surely: Only types with the same number of remaining records on both sides.
        """
        if surely:
            self._db.execute(_EVEN)
            self._db.execute(_PAIR.format(key="even"))
            return
        self._db.execute(_PAIR.format(key="type"))

    def pairs(self, *, differing: bool = False) -> Iterator[Pair]:
        """Yield the pairs in the order of the first side, optionally only those that differ."""
        rows = self._db.execute(
            "SELECT one.n, one.body, two.n, two.body FROM pair"
            " JOIN record AS one ON one.side = 0 AND one.n = pair.a"
            " JOIN record AS two ON two.side = 1 AND two.n = pair.b"
            " WHERE NOT (? AND one.print = two.print) ORDER BY one.n",
            [differing],
        )
        return (Pair(*row) for row in rows)

    def alone(self, side: int) -> Iterator[tuple[int, str, bytes]]:
        """Yield number, type and bytes of the unpaired records of a side."""
        return self._db.execute(
            "SELECT n, type, body FROM record WHERE side = ?"  # noqa: S608 - one of two letters
            f" AND n NOT IN (SELECT {'ab'[side]} FROM pair) ORDER BY n",
            [side],
        )

    def first_of(self, number: int) -> bytes | None:
        """Return the bytes of the first side's record in a pair."""
        row = self._db.execute(
            "SELECT body FROM pair JOIN record ON side = 0 AND n = a WHERE b = ?", [number]
        ).fetchone()
        return None if row is None else bytes(row[0])

    def _row(self, side: int, record: RecordIdentity) -> tuple[int | str | bytes | None, ...]:
        number = self._number[side]
        self._number[side] += 1
        return side, number, *record


class SideMemberFilter:
    """Removes from records what a product stores next to them.

    Args:
        names: Members of ``origin.as_written``, from ``Info.beside``.
    """

    def __init__(self, names: frozenset[str]) -> None:
        self._names = names
        self._quoted = [b'"%b":' % name.encode() for name in names]

    def line(self, line: bytes) -> bytes:
        """Return the canonical bytes of a record without these members."""
        if not any(name in line for name in self._quoted):
            return line
        value = msgspec.json.decode(line)
        origin = value.get("origin")
        as_written = origin.get("as_written") if isinstance(origin, dict) else None
        if not isinstance(as_written, dict) or self._names.isdisjoint(as_written):
            return line
        del origin["as_written"]
        rest = {name: part for name, part in as_written.items() if name not in self._names}
        value["origin"] = origin | ({"as_written": rest} if rest else {})
        return canonical_checked(value)

    def draft(self, draft: Any) -> Any:
        """Return a draft without these members."""
        origin = getattr(draft, "origin", None)
        if origin is None or self._names.isdisjoint(origin.as_written):
            return draft
        as_written = {
            name: part for name, part in origin.as_written.items() if name not in self._names
        }
        return msgspec.structs.replace(
            draft, origin=msgspec.structs.replace(origin, as_written=as_written)
        )


GONE = "missing when read back"
OTHER = "different when read back"
_ORIGIN_GONE = f"where it came from is {GONE}"

_WRAP = (1 << 256) - 1
_IN_ALL = frozenset({"id", "nonce"})
_LINKS = frozenset({"parent_ids", "source_event_ids"})
_ENDS = frozenset({"source", "target", "session", "parent"})
_PLACE = frozenset({"number", "step", "state", "latest", "source", "checkpoint", "log", "as_of"})
"""Members with an event's position in its conversation and the log, which another log assigns."""

_INSIDE = frozenset({"scope", "origin"})
_NUMBERS = frozenset({"$int", "$float"})
_EXAMPLES = 3
_ODD_NUMBER = re.compile(rb"(?:\.0|e-?[0-9]+)[,}\]]")
"""Matches numbers that canonical bytes write differently than an encoder."""

_COLUMNS = ("print", "bare", "key", "words", "text")


class _Named(msgspec.Struct, gc=False):
    id: str = ""
    origin: msgspec.Raw = msgspec.Raw()


_named = msgspec.json.Decoder(resolved(_Named)).decode


class _Provided(msgspec.Struct, gc=False):
    provider: str | None = None


_provider = msgspec.json.Decoder(resolved(_Provided)).decode


class WrittenOutput(NamedTuple):
    """A written output: its format and position."""

    name: str
    """Name of the format, which is the provider of the records it reads."""

    adapter: Format
    place: Location
    limits: Limits
    trim: Trim = unchanged
    """Removes what was not requested from records."""

    vectors: VectorChecksum | None = None
    """Checksum of the exported vectors; None for none."""

    only_ours: bool = False
    """Whether it also has records of others, which were not written."""

    def reading(self, vectors: VectorChecksum) -> ReadContext:
        """Return the context for its reader."""
        return ReadContext(limits=self.limits, vectors=vectors, only_ours=self.only_ours)


class ReadBackResult(NamedTuple):
    """Result of reading an output back."""

    records: Counter[str]
    """Number of records by type."""

    differences: "Differences"


class Differences:
    """Differences from the plan, counted by field."""

    def __init__(self) -> None:
        self.counts = Counter[tuple[str, str]]()
        """Losses by field and reason."""

        self.examples = dict[tuple[str, str], list[str]]()
        self.members = Counter[str]()
        """Number of missing or different members, by name."""

        self.added = Counter[str]()
        """Number of members that the format added, by name."""

    def __bool__(self) -> bool:
        return bool(self.counts)

    def add(self, field: str, reason: str, example: str) -> None:
        """Count a difference in one record."""
        self.counts[field, reason] += 1
        self.members[field.partition("/")[0]] += 1
        examples = self.examples.setdefault((field, reason), [])
        if len(examples) < _EXAMPLES:
            examples.append(example)

    def clear(self) -> None:
        """Remove all differences."""
        for one in (self.counts, self.examples, self.members, self.added):
            one.clear()

    def into(self, report: Report) -> None:
        """Add the losses that a report does not have yet.

        What a writer reported as lost is also missing when it is read back; it counts once.
        ``scope`` and ``scope/namespace`` overlap: a lost member includes its own members.
        """
        whole, parts = Counter[str](), Counter[str]()
        for (name, _), loss in report.losses.items():
            (parts if "/" in name else whole)[name.partition("/")[0]] += loss.count
        for name in sorted({name for name, _ in self.counts}, key=lambda name: "/" in name):
            top = name.partition("/")[0]
            known = min(whole[top], self._count_of(name))
            if name == top:
                whole[top] -= known
            for (field, reason), count in self.counts.items():
                if field != name:
                    continue
                here = min(count, known)
                known -= here
                part = min(count - here, parts[top])
                parts[top] -= part
                if count > here + part:
                    for example in self.examples.get((field, reason), ()):
                        report.lost(field, reason, example=example, count=0)
                    report.lost(field, reason, count=count - here - part)

    def _count_of(self, name: str) -> int:
        return sum(count for (field, _), count in self.counts.items() if field == name)


def read_again(written: WrittenOutput, planned: RecordSet) -> ReadBackResult:
    """Read an output back and compare it with the plan.

    Raises:
        InputError: If it cannot be read.
    """
    key, tally, vectors = os.urandom(32), Tally(), VectorChecksum()
    apart = SideMemberFilter(written.adapter.info.beside)
    expected = _planned(planned, apart, key, written)
    whole = bare = named = 0
    for record_type, print_, without in _prints(written, apart, vectors):
        tally.records[record_type] += 1
        named += print_ != without
        whole += _weight(print_, key)
        bare += _weight(without, key)
    if (whole - expected.whole) & _WRAP == 0:
        differences = Differences()
    elif (bare - expected.bare) & _WRAP == 0 and not expected.some_stay:
        differences = expected.origins
        differences.added.update({"origin": named} if named else {})
    else:
        differences = Differences()
        with Pairing() as pairing:
            lines = ((kind, apart.line(body)) for kind, body in lines_of(planned, written.trim))
            pairing.add(
                0, (identify_record(Sealed(_named(body).id, kind, body)) for kind, body in lines)
            )
            pairing.add(1, map(identify_record, _sealed(written, apart)))
            _compare(pairing, differences)
    if written.vectors is not None and written.vectors.total != vectors.total:
        differences.counts["embedding", OTHER] += max(1, written.vectors.count - vectors.count)
    return ReadBackResult(tally.records, differences)


class _ExpectedSums(NamedTuple):
    """Expected sums over an output."""

    whole: int
    bare: int
    """Sum without origins, which another provider's format replaces."""

    origins: Differences
    """Losses if only the second sum is equal."""

    some_stay: bool
    """Whether some records are of the provider itself, whose origins are not replaced."""


def _planned(
    records: RecordSet, apart: SideMemberFilter, key: bytes, written: WrittenOutput
) -> _ExpectedSums:
    whole, bare, origins, stay = 0, 0, Differences(), False
    for _, body in lines_of(records, written.trim):
        line = apart.line(body)
        identity = _named(line)
        weight = _weight(fingerprint(identity.id, line), key)
        whole += weight
        origin = bytes(identity.origin)
        if origin:
            origins.add("origin", _ORIGIN_GONE, identity.id)
            stay = stay or _provider(origin).provider == written.name
            rest = _without(line, origin)
            weight = _weight(fingerprint(identity.id, rest), key)
        bare += weight
    return _ExpectedSums(whole, bare, origins, stay)


def _prints(
    written: WrittenOutput, apart: SideMemberFilter, vectors: VectorChecksum
) -> Iterator[tuple[str, bytes, bytes]]:
    """Yield type and fingerprints, with and without origin, of each record of an output.

    Records without plain bytes get unique fingerprints, so that they are compared in full.
    """
    reading = written.reading(vectors)
    for item in written.adapter.read(written.place, reading):
        if isinstance(item, Sealed):
            if item.type in CARRIED:
                print_ = fingerprint(item.id, item.body)
                yield item.type, print_, print_
            continue
        record_type = str(item.__struct_config__.tag)
        if record_type in CARRIED:
            yield record_type, *_plain_prints(apart.draft(item))


def _plain_prints(draft: Model) -> tuple[bytes, bytes]:
    if draft.id is not None or draft.nonce is not None:
        draft = msgspec.structs.replace(draft, id=None, nonce=None)
    origin = getattr(draft, "origin", None)
    try:
        line = encode_sorted(draft)
        if _ODD_NUMBER.search(line):
            line = canonical_checked(plain(draft))
        rest = line if origin is None else _without(line, bytes(_named(line).origin))
        without = blake3(rest).digest()
        if origin is None or _is_ours(origin):
            return without, without
        return blake3(line).digest(), without
    except (msgspec.MsgspecError, ValueError, TypeError, ValueRefusedError):
        return os.urandom(32), os.urandom(32)


def _without(line: bytes, origin: bytes) -> bytes:
    """Return a canonical line without its origin, which is never the last member."""
    return line.replace(b'"origin":%b,' % origin, b"", 1)


def _is_ours(origin: Origin) -> bool:
    """Return whether an origin only holds our own ID, which a writer filled in."""
    return origin.id is not None and is_id(origin.id) and not origin.as_written


def _sealed(written: WrittenOutput, apart: SideMemberFilter) -> Iterator[Sealed]:
    reading = written.reading(VectorChecksum())
    for record in read_records(written.adapter, written.place, reading):
        if record.type in CARRIED:
            line = apart.line(record.body)
            yield record if line is record.body else Sealed(record.id, record.type, line)


def _weight(print_: bytes, key: bytes) -> int:
    return int.from_bytes(blake3(print_, key=key).digest())


def _compare(pairing: Pairing, differences: Differences) -> None:
    """Pair the records, and count differences."""
    pairing.pair(_COLUMNS)
    pairing.pair_by_turn()
    for pair in pairing.pairs(differing=True):
        count_differences(
            msgspec.json.decode(pair.one), msgspec.json.decode(pair.other), differences
        )
    for side, reason in ((0, GONE), (1, "unexpected when read back")):
        for _, record_type, body in pairing.alone(side):
            differences.add(record_type, reason, _named(body).id)
            if side == 0:
                differences.members.update(msgspec.json.decode(body).keys())


def count_differences(
    planned: dict[str, Any], read_back: dict[str, Any], differences: Differences
) -> None:
    """Count the members in which a planned record and the one read back differ.

    Args:
        planned: The planned record.
        read_back: The record read back.
        differences: Receives the differences.
    """
    where = str(planned.get("id", ""))
    for name, part in planned.items():
        if name in _IN_ALL:
            continue
        if name in _INSIDE and isinstance(part, dict):
            _compared_inside(name, part, read_back.get(name), differences, where)
        elif name not in read_back:
            differences.add(name, GONE, where)
        elif not _same(name, part, read_back[name]):
            differences.add(name, OTHER, where)
    differences.added.update(read_back.keys() - planned.keys())


def _compared_inside(
    name: str, part: dict[str, Any], other: Any, differences: Differences, where: str
) -> None:
    members = other if isinstance(other, dict) else {}
    if name == "origin" and part.get("provider") != members.get("provider"):
        differences.add("origin", _ORIGIN_GONE, where)
        return
    for inner, value in part.items():
        if inner not in members:
            differences.add(f"{name}/{inner}", GONE, where)
        elif not _same(inner, value, members[inner]):
            differences.add(f"{name}/{inner}", OTHER, where)


def _same(name: str, first: Any, second: Any) -> bool:
    """Return whether two values are equal; IDs of other records may differ."""
    if name in _LINKS and isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second)
    if name in _ENDS and isinstance(first, str) and is_id(first):
        return isinstance(second, str)
    if name == "state" and isinstance(first, dict) and isinstance(second, dict):
        first, second = (
            {k: v for k, v in value.items() if k not in _PLACE} for value in (first, second)
        )
    if canonical_checked(first) == canonical_checked(second):
        return True
    try:
        return canonical_checked(_spelled(first)) == canonical_checked(_spelled(second))
    except (ValueError, TypeError):
        return False


def _spelled(value: Any) -> Any:
    """Return a value with each large number in one spelling, such as 1e22 for 1e+22."""
    if isinstance(value, list):
        return [_spelled(part) for part in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1 and not _NUMBERS.isdisjoint(value):
        return repr(decode_foreign(value))
    return {name: _spelled(part) for name, part in value.items()}


class DeliveredRecords(Scratch):
    """The records that were written to a product, as a format whose file is the product.

    Args:
        opening: Opens the product for reading.
    """

    info: ClassVar[Info]

    def __init__(self, opening: Callable[[], Connector]) -> None:
        self._opening = opening
        super().__init__(
            "CREATE TABLE handed(there TEXT PRIMARY KEY, origin BLOB) WITHOUT ROWID;",
            cache_kib=4096,
        )

    def describe(self, connector: Connector) -> None:
        """Set the description of the product."""
        # Each product has its own; the protocol declares a class variable.
        self.info = connector.info  # type: ignore[misc]

    def add(self, product_id: str, record: Sealed) -> None:
        """Add a record with the ID that the product gave it."""
        origin = getattr(record.model, "origin", None)
        row = (product_id, None if origin is None else msgspec.json.encode(origin))
        self._db.execute("INSERT OR REPLACE INTO handed VALUES (?, ?)", row)

    def recognizes(self, location: Location) -> bool:
        """Return False: no file is one."""
        del location
        return False

    def read(self, location: Location, reading: ReadContext) -> Iterator[Model | Sealed]:
        """Yield the written records as the product has them now."""
        del location, reading
        with closing(self._opening()) as connector:
            for page in pages(connector, Report()):
                for item in page.items:
                    record = self._as_handed(item.model if isinstance(item, Sealed) else item)
                    if record is not None:
                        yield record

    def write(self, records: RecordSet, target: Target, writing: WriteContext) -> None:
        """Raise an error: it has already been written."""
        del records, target, writing
        raise UsageError("a product that received records is only read")

    def _as_handed(self, item: Model) -> Model | None:
        """Return a record with its original origin, if the product stored that."""
        origin = getattr(item, "origin", None)
        if origin is None or origin.id is None:
            return None
        sql = "SELECT origin FROM handed WHERE there = ?"
        row = self._db.execute(sql, [origin.id]).fetchone()
        if row is None:
            return None
        before = None if row[0] is None else _decode(row[0])
        if before is not None and before.provider != origin.provider:
            return item
        back = None if before is None else _as_before(origin, before)
        return msgspec.structs.replace(item, origin=back)


_decode = msgspec.json.Decoder(resolved(Origin)).decode


def _as_before(origin: Origin, before: Origin) -> Origin:
    """Return an origin with its original ID; what the product filled in is no difference."""
    members = {name: part for name, part in origin.as_written.items() if part != ABSENT}
    members |= {
        name: part
        for name, part in before.as_written.items()
        if part == ABSENT and name not in members
    }
    return msgspec.structs.replace(origin, id=before.id, as_written=members)
