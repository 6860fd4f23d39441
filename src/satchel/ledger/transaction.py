"""Appends in one transaction of a store, read back before the commit; what erasures remove."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, NamedTuple, Protocol

from blake3 import blake3

from satchel.crypto.keys import SigningKey
from satchel.crypto.log import Frontier, VerifiedTree, append_leaves, leaf_position, record_leaf
from satchel.crypto.redaction import open_redacted_form, require_form_of
from satchel.crypto.sealed_records import Sealed, digest, open_many, open_record, seal
from satchel.errors import (
    ChangedError,
    ErasureRefusedError,
    MalformedError,
    ReadOnlyStoreError,
    RedactionRefusedError,
    SatchelError,
    UsageError,
)
from satchel.ledger.authority import Authority, starts_epoch
from satchel.ledger.examination import open_body
from satchel.ledger.heads import TrustedHead, require_leaves
from satchel.ledger.projection import (
    CLOSED,
    FOLDED,
    GROUP,
    MOST_IN_GROUP,
    Fold,
    LogFact,
    Precondition,
)
from satchel.model.records import Erasure, Model, Receipt, Redaction, SessionEvent, Status
from satchel.model.values import ENTRY_TYPES, Component
from satchel.ports.rows import ALL_RECORDS, PENDING, VISIBLE, Filter, Row, derive_row, unplaced_row
from satchel.ports.store import DigestReader, Reader, RowsDigest, Store, Writer
from satchel.ports.vectors import sketch_prefix

GROUP_RECORDS = 4096
"""Records in a group of an import that is named last, unless more are added at once."""

_TOGETHER = 1024
_HASH = 32
"""Bytes of a leaf."""


class LogTransaction(Protocol):
    """A transaction for several appends; see ``Ledger.transaction``."""

    def append(
        self, records: Sequence[Sealed], *, side: Mapping[str, bytes | None] | None = None
    ) -> list[int]:
        """Append records to the log and return their log positions; see ``Ledger.append``."""
        ...

    def append_rows(self, rows: Sequence[Row], *, batch: str, visible: bool = False) -> list[int]:
        """Append records of an import; see ``Ledger.append_rows``.

        Args:
            rows: Results of ``unplaced_row`` for records that were sealed or opened here.
            batch: ID of the import's source record.
            visible: Whether they are visible now, because the caller closes the import in this
                transaction.
        """
        ...

    def begin_import(self, size: int | None = None) -> None:
        """Begin an import whose source record is known only after its other records are logged.

        It must be the first call of the transaction. The source record, and the receipt before each
        group, get their log positions now and their bytes in ``name_import``.

        Args:
            size: Required number of records in the log; None for any.

        Raises:
            ChangedError: If the log has more records.
            ReadOnlyStoreError: If this machine has no admitted key.
        """
        ...

    def append_unnamed(self, rows: Sequence[Row]) -> None:
        """Append records to the import that was begun; they are visible now.

        Args:
            rows: Results of ``unplaced_row`` for records that were sealed or opened here.

        Raises:
            UsageError: If a record changes others.
        """
        ...

    def name_import(self, source: Sealed) -> int:
        """Insert the source record before the appended records, and return its log position."""
        ...

    def require_stored(self) -> None:
        """Read back the appended records and compare them with the intended ones.

        Leaves, bodies and tree nodes are compared by their digest. The IDs are the hashes of bodies
        that this process sealed or opened.

        Raises:
            StoreDamagedError: If the store has different ones.
        """
        ...


class StoredDigest:
    """A digest of the rows and tree nodes of a range of a log, computed as they are added."""

    def __init__(self) -> None:
        self._rows, self._nodes = RowsDigest(), blake3()

    def add(self, rows: Sequence[Row], nodes: Sequence[bytes]) -> None:
        """Add rows, and the tree nodes that they complete."""
        self._rows.add(list(map(_said, rows)))
        self._nodes.update(b"".join(nodes))

    @property
    def value(self) -> tuple[bytes, bytes]:
        """The digests of rows and of nodes."""
        return self._rows.value, self._nodes.digest()


class UnnamedImport:
    """An import in one transaction, while its source record is not known yet.

    Args:
        bank: ID of the bank.
        frontier: The frontier of its log.
        at: Arrival time of the source record.
    """

    def __init__(self, bank: str, frontier: Frontier, at: str) -> None:
        self._bank = bank
        self.frontier = frontier
        self._start = frontier.size
        self._open = [(frontier.size, 0, at)]
        """Reserved positions, each with the number of following records and the arrival time."""

        self._leaves = bytearray(_HASH)
        self._digests = list[RowsDigest]()
        """Digests of the rows of each group."""

        self._named = list[Row]()
        self._nodes = blake3()
        self.counts = Counter[str]()

    @property
    def size(self) -> int:
        """Number of records in the log, with the import."""
        return self._start + len(self._leaves) // _HASH

    def placed(self, rows: Sequence[Row], at: str) -> list[Row]:
        """Return rows as they are stored, after others of their group or the receipt of a new one.

        Raises:
            UsageError: If a record changes others.
        """
        if any(row.type in FOLDED for row in rows):
            raise UsageError("a record about other records needs a named import")
        place, count, arrived = self._open[-1]
        if self._digests and count + len(rows) <= GROUP_RECORDS:
            self._open[-1] = (place, count + len(rows), arrived)
        else:
            self._open.append((self.size, len(rows), at))
            self._digests.append(RowsDigest())
            self._leaves += bytes(_HASH)
        places = enumerate(rows, self.size)
        placed = [row.placed(seq, at, self._start, VISIBLE) for seq, row in places]
        leaves = [record_leaf(self._bank, row.seq, row.type, row.id, at) for row in placed]
        self._leaves += b"".join(leaves)
        self._digests[-1].add(list(map(_said, placed)))
        self.counts.update(row.type for row in rows)
        return placed

    def named(self, source: Sealed) -> tuple[list[Row], list[LogFact]]:
        """Return the rows of the reserved positions, and their facts."""
        facts = list[LogFact]()
        for seq, count, at in self._open:
            record = source if seq == self._start else _group(source.id, count, at)
            row = unplaced_row(record.model, record.id, record.body)
            self._named.append(row.placed(seq, at, 0, VISIBLE))
            start = (seq - self._start) * _HASH
            leaf = record_leaf(self._bank, seq, row.type, row.id, at)
            self._leaves[start : start + _HASH] = leaf
            facts.append(LogFact(seq, record.id, record.model))
        self.counts.update(row.type for row in self._named)
        return self._named, facts

    def put_nodes(self, writing: Writer) -> None:
        """Store the nodes of the tree, and extend the frontier."""
        for start in range(0, len(self._leaves), _HASH * _TOGETHER):
            some = memoryview(self._leaves)[start : start + _HASH * _TOGETHER]
            first = leaf_position(self.frontier.size)
            leaves = (bytes(some[at : at + _HASH]) for at in range(0, len(some), _HASH))
            nodes = append_leaves(self.frontier, leaves)
            self._nodes.update(b"".join(nodes))
            writing.put_nodes(self._bank, first, nodes)

    def is_stored(self, reader: Reader) -> bool:
        """Return whether a store reads back the intended rows."""
        none = leaf_position(self._start)
        groups = zip(self._open[1:], self._digests, strict=True)  # the first is the source record's
        spans = all(
            stored_digest(reader, self._bank, (seq + 1, seq + 1 + count), (none, none))[0]
            == digest.value
            for (seq, count, _), digest in groups
        )
        there = {row.seq: row for row in reader.at(self._bank, [row.seq for row in self._named])}
        said = ((there.get(row.seq), row) for row in self._named)
        named = all(one is not None and _said(one) == _said(row) for one, row in said)
        places = (none, leaf_position(self.size))
        nodes = stored_digest(reader, self._bank, (self._start, self._start), places)[1]
        return spans and named and nodes == self._nodes.digest()


_said = attrgetter("id", "type", "at", "body")


def _group(source: str, count: int, at: str) -> Sealed:
    return seal(Receipt(action=GROUP, result={"source": source, "records": count}, at=at))


def stored_digest(
    reader: Reader, bank: str, places: tuple[int, int], positions: tuple[int, int]
) -> tuple[bytes, bytes]:
    """Return the digests of the rows of a range of a log, and of the nodes of a range of its tree.

    Args:
        reader: The store.
        bank: ID of the bank.
        places: The first log position, and the one after the last.
        positions: The same for nodes.
    """
    if isinstance(reader, DigestReader):
        return reader.digest(bank, places, positions)
    rows, nodes = RowsDigest(), blake3()
    for some in _parts(*places):
        found = sorted(reader.at(bank, some), key=lambda row: row.seq)
        rows.add([_said(row) for row in found])
    for some in _parts(*positions):
        stored = reader.nodes(bank, some)
        nodes.update(b"".join(stored.get(position, b"") for position in some))
    return rows.value, nodes.digest()


def _parts(start: int, end: int) -> Iterator[range]:
    for at in range(start, end, _TOGETHER):
        yield range(at, min(at + _TOGETHER, end))


_NEVER_LOGGED = frozenset({"embedding", "blob"})


class PendingRecord(NamedTuple):
    """A record that is about to be logged."""

    row: Row
    """Without its position and time, which the commit sets."""

    record: Sealed | None
    model: Model | None
    """Its typed value. None, like the record, only for an entry: its row has all that is needed."""


@dataclass(slots=True)
class Ticket:
    """One append that waits for its commit."""

    records: Sequence[PendingRecord]
    batch: str | None = None
    """ID of the source record of their import."""

    side: Mapping[str, bytes | None] = field(default_factory=dict)
    given: Precondition | None = None
    forms: Mapping[str, bytes] = field(default_factory=dict)
    """The redacted forms of its redaction records, by ID."""

    visible: bool = False
    """Whether rows of an import are visible now, since it is closed in the same transaction."""

    places: list[int] = field(default_factory=list)
    emptied: list[int] = field(default_factory=list)
    """Log positions of the records that its commit erased."""

    error: SatchelError | None = None
    done: bool = False


def require_appendable(records: Sequence[Sealed], batch: str | None) -> None:
    """Require that records may be appended, to an import or to none.

    Raises:
        UsageError: If one belongs beside the log, decides about the whole bank, or is an erasure in
            an import.
    """
    wrong = next((record for record in records if record.type in _NEVER_LOGGED), None)
    if wrong is not None:
        raise UsageError(f"a record of type {wrong.type} is stored outside the log")
    if batch is not None and any(record.type == "erasure" for record in records):
        raise UsageError("an erasure cannot be part of an import")
    if any(map(starts_epoch, records)):
        raise UsageError("a decision about the whole bank cannot be appended like a record")


def require_precondition(trusted: TrustedHead, waiting: Sequence[Ticket], reader: Reader) -> None:
    """Refuse an append that is based on a changed state, also if changed in the same commit.

    Raises:
        ChangedError: If there is one.
    """
    changing, growing = set[str](), set[str]()
    for ticket in waiting:
        precondition = ticket.given
        if precondition is not None and not (
            trusted.fold.is_same(precondition, trusted.head.size, changing)
            and growing.isdisjoint(precondition.sessions)
            and not any(
                _has_grown(reader, trusted, name, precondition.size)
                for name in precondition.sessions
            )
        ):
            raise ChangedError("it was changed by another process", hint="Read it again.")
        models = [one.model for one in ticket.records]
        changing.update(model.target for model in models if isinstance(model, Status))
        growing.update(each.session or "" for each in models if isinstance(each, SessionEvent))


def _has_grown(reader: Reader, trusted: TrustedHead, session: str, size: int) -> bool:
    """Return whether a session has records beyond its first ``size``."""
    wanted = Filter(session=session, retired=True, held=True)
    new = reader.scan(trusted.head.bank, wanted, after=size - 1)
    return trusted.head.size > size and next(iter(new), None) is not None


def reopen_records(records: Sequence[Sealed], batch: str | None = None) -> list[PendingRecord]:
    """Return records as parsed from their own bytes, because a logged record is final.

    In an import some may be redacted forms, together with their redactions.

    Raises:
        MalformedError: If a reader would refuse a record.
        LimitError: If one is too large.
    """
    results = _redacted(records) if batch is not None else {}
    forms = {
        item.id: open_redacted_form(item.body, results[item.id])
        for item in records
        if item.id in results
    }
    whole = iter(open_many([item for item in records if item.id not in forms]))
    opened = [forms.get(item.id) or next(whole) for item in records]
    for (found, _), record in zip(opened, records, strict=True):
        if found.id != record.id or found.type != record.type:
            raise MalformedError("the bytes belong to another record", field="id")
    return [_logging(*item) for item in opened]


def pending_from_rows(rows: Sequence[Row]) -> list[PendingRecord]:
    """Return records whose rows this process derived from records that it sealed or opened.

    Raises:
        UsageError: If one may not be appended.
    """
    others = {position: row for position, row in enumerate(rows) if row.type not in ENTRY_TYPES}
    opened = {position: open_record(row.body or b"") for position, row in others.items()}
    require_appendable([record for record, _ in opened.values()], None)
    nothing = (None, None)
    return [PendingRecord(row, *opened.get(position, nothing)) for position, row in enumerate(rows)]


def _redacted(records: Sequence[Sealed]) -> dict[str, str]:
    """Return the hashes of the redacted forms that redaction records name, by ID."""
    models = (one.model for one in records if one.type == "redaction")
    return {model.entry: model.result for model in models if isinstance(model, Redaction)}


def _logging(record: Sealed, model: Model) -> PendingRecord:
    return PendingRecord(unplaced_row(model, record.id, record.body), record, model)


def with_models(records: Sequence[Sealed]) -> list[PendingRecord]:
    """Return records that were just made, with their values."""
    return [_logging(record, record.model) for record in records]


def read_only_error(authority: Authority, writer: SigningKey | None) -> ReadOnlyStoreError:
    """Return the error for a machine whose key may not sign heads of the bank."""
    if writer is not None and authority.keys.last_end(writer.did) is not None:
        return ReadOnlyStoreError(
            f"this machine's key may not add to the bank: {writer.did},"
            f" {authority.refusal_reason(writer.did)}",
            hint="It cannot be reinstated. Create a new writer key: satchel key rotate writer.",
        )
    return ReadOnlyStoreError(
        "this machine's key may not add to the bank",
        hint="An owner must admit it: satchel bank admit.",
    )


def group_receipt(fold: Fold, source: str, count: int, at: str) -> Sealed:
    """Return the receipt that starts a group of an import's records.

    Args:
        fold: The state of the log.
        source: ID of the import's source record.
        count: Number of records in the group.
        at: The current time.

    Raises:
        UsageError: If the import does not exist or is complete, or the group is too large.
    """
    if count > MOST_IN_GROUP:
        raise UsageError(f"{count} records in one batch exceed the limit of {MOST_IN_GROUP}")
    batch = fold.batch(source)
    if batch is None or batch.closed is not None:
        what = "no such import" if batch is None else "the import is complete:"
        raise UsageError(f"{what} {source}", hint="Append its source record first.")
    return seal(Receipt(action=GROUP, result={"source": source, "records": count}, at=at))


def closing_receipt(source: str, at: str, **result: Any) -> Sealed:
    """Return the receipt that makes the records of an import visible.

    Args:
        source: ID of the import's source record.
        at: The current time.
        **result: Further members of the receipt, such as counts.
    """
    return seal(Receipt(action=CLOSED, result={**result, "source": source}, at=at))


ERASABLE = frozenset({*Component, "edge", "graph_node", "session_event", "file_version"})
"""Types of memory records; other types are about the bank or about records."""

UNFINISHED = "erasing"
"""Name of the side value that exists while the store may still contain erased bytes."""

BLOB = f"{UNFINISHED}/"
"""Prefix of the names of blobs that an erased record named, until they are checked."""

FINGERPRINTS = "known/"
"""Prefix of the names of the fingerprints of imported records. They are hashes without a nonce,
from which erased text could be guessed, so they are computed again without it.
"""

SEALED = "redacted/"
"""Prefix of the names of originals of redacted entries, sealed for those who may recover them."""

DERIVED = "derived/"
"""Prefix of the names of values computed from the words of memories, which reveal some of them.
They are computed again from what is left.
"""

_DIGEST = re.compile(rb"blake3:[0-9a-f]{64}")


class ErasureEffect(NamedTuple):
    """The removals of a commit with erasures."""

    places: list[int]
    side: dict[str, bytes | None]
    """The work that is left after the commit; see ``finish_erasure``."""


def erasure_effect(
    writing: Writer,
    bank: str,
    tree: VerifiedTree | None,
    fold: Fold,
    records: Sequence[PendingRecord],
) -> ErasureEffect:
    """Return what erasure records remove, after all other records of the commit.

    Args:
        writing: The store, without the new records.
        bank: The bank.
        tree: The tree of the log; None for a new bank.
        fold: The state of the log with the new records.
        records: The new records and their values; other types are skipped.

    Raises:
        ErasureRefusedError: If a record is not memory or is current, or if a new record was erased
            before.
    """
    if fold.has_erasures:
        _require_unerased(fold, records)
    targets = {record.model.entry: None for record in records if isinstance(record.model, Erasure)}
    if not targets:
        return ErasureEffect([], {})
    if logged_now := targets.keys() & {record.row.id for record in records}:
        raise ErasureRefusedError(
            "a record cannot be erased while it is being logged", field=logged_now.pop()
        )
    rows = [] if tree is None else writing.get(bank, list(targets))
    if tree is not None:
        require_leaves(tree, bank, rows)
    for row in rows:
        _require_erasable(fold, row)
    if not rows:
        return ErasureEffect([], {})
    return ErasureEffect(sorted(row.seq for row in rows), cleanup_values(writing, bank, rows))


def cleanup_values(reader: Reader, bank: str, rows: Sequence[Row]) -> dict[str, bytes | None]:
    """Return the side values to set in the commit that removes rows.

    They name the work of ``finish_erasure``, and remove values from which the records could be
    guessed.
    """
    side: dict[str, bytes | None] = {UNFINISHED: b""}
    side |= {f"{FINGERPRINTS}{row.batch}": None for row in rows if row.batch}
    side |= {f"{SEALED}{row.seq}": None for row in rows}
    for sketched in {sketch_prefix(row.seq) for row in rows}:
        side |= dict.fromkeys(reader.side(bank, sketched), None)
    side |= dict.fromkeys(reader.side(bank, DERIVED))
    if next(iter(reader.blobs.listed(bank)), None) is not None:
        named = set[str]().union(*(blob_digests_in(row.body or b"") for row in rows))
        side |= {BLOB + digest: b"" for digest in named if reader.blobs.has(bank, digest)}
    return side


def _require_unerased(fold: Fold, records: Sequence[PendingRecord]) -> None:
    before = fold.size - len(records)
    for one in records:
        if fold.is_erased(one.row.id, before):
            raise ErasureRefusedError(
                "the record was erased, so it cannot be added again", field=one.row.id
            )


def blob_digests_in(body: bytes) -> set[str]:
    """Return possible digests of blobs in the bytes of a record."""
    return {found.decode() for found in _DIGEST.findall(body)}


def _require_erasable(fold: Fold, row: Row) -> None:
    if (
        open_body(row, fold.redacted(row.id, fold.size)) is None
    ):  # damaged or empty, so listing them loses nothing
        return
    if row.type not in ERASABLE:
        raise ErasureRefusedError(
            f"a record of type {row.type} is not a memory: the log could not be read without it",
            field=row.id,
        )
    retired, _ = fold.standing(row.id, row.seq, fold.size)
    if retired is None or retired == PENDING:
        raise ErasureRefusedError(
            "the record is current",
            field=row.id,
            hint="Only superseded or deleted records can be erased. Delete it first.",
        )


def is_unfinished(store: Store, bank: str) -> bool:
    """Return whether the store may still contain bytes that were erased from a bank."""
    with store.reading() as reader:
        return UNFINISHED in reader.side(bank, UNFINISHED)


def finish_erasure(store: Store, bank: str) -> int:
    """Drop blobs that only erased records named, and scrub the store's files.

    It can be repeated; nothing happens if no work is left.

    Returns:
        Number of dropped blobs.

    Raises:
        StoreError: If the store cannot be scrubbed now; the records are erased from the bank all
            the same.
    """
    if not is_unfinished(store, bank):
        return 0
    with store.writing() as writing:
        dropped = _drop_blobs(writing, bank)
    store.scrub()
    with store.writing() as writing:
        writing.put_side(bank, {UNFINISHED: None})
    return dropped


def _drop_blobs(writing: Writer, bank: str) -> int:
    """Drop blobs that erased records named and no other record names."""
    digests = {name.removeprefix(BLOB) for name in writing.side(bank, BLOB)}
    unnamed = set(digests)
    for row in writing.scan(bank, ALL_RECORDS) if digests else ():
        unnamed -= blob_digests_in(row.body or b"")
        if not unnamed:
            break
    for blob in sorted(unnamed):
        writing.blobs.drop(bank, blob)
    writing.put_side(bank, dict.fromkeys((BLOB + blob for blob in digests), None))
    return len(unnamed)


_REDACTABLE = frozenset(Component)


def redact_rows(  # noqa: PLR0913 - as targets.emptied_by, and the forms
    writing: Writer,
    bank: str,
    tree: VerifiedTree | None,
    fold: Fold,
    records: Sequence[PendingRecord],
    forms: Mapping[str, bytes],
    emptied: ErasureEffect,
) -> list[Row]:
    """Return rows with redacted forms in place of the entries that redaction records name.

    Args:
        writing: The store, without the new records.
        bank: The bank.
        tree: The tree of the log; None for a new bank.
        fold: The state of the log with the new records.
        records: The new records and their values; other types are skipped.
        forms: The canonical bytes of the redacted forms, by id.
        emptied: The removals of the commit; those of the redactions are added.

    Raises:
        RedactionRefusedError: If an entry does not exist or is erased, or a form is missing or
            differs from the record.
    """
    before = fold.size - len(records)
    redactions, brought = dict[str, Redaction](), list[str]()
    for place, pending in enumerate(records, before):
        if isinstance(pending.model, Redaction):
            if fold.batch_number(place):
                brought.append(pending.model.entry)
            else:
                redactions[pending.model.entry] = pending.model
    _require_imported(writing, bank, fold, records, brought)
    if redactions.keys() != forms.keys():
        raise RedactionRefusedError("a redaction must be logged with its redacted form")
    if not redactions:
        return []
    rows = [] if tree is None else writing.get(bank, list(redactions))
    if tree is None or len(rows) < len(redactions):
        raise RedactionRefusedError("the record to redact is not in the log")
    require_leaves(tree, bank, rows)
    for row in rows:
        if fold.is_erased(row.id, fold.size) or row.type not in _REDACTABLE:
            raise RedactionRefusedError(
                "only memories that are present can be redacted", field=row.id
            )
    emptied.places.extend(row.seq for row in rows)
    emptied.side.update(cleanup_values(writing, bank, rows))
    return [_redact_row(fold, row, forms[row.id], redactions[row.id], before) for row in rows]


def merge_side_values(
    requested: Iterable[tuple[str, bytes | None]], emptied: Mapping[str, bytes | None]
) -> dict[str, bytes | None]:
    """Return the side values to set: removals win, except over new sealed originals."""
    side = dict(requested)
    originals = {name: value for name, value in side.items() if name.startswith(SEALED)}
    return {**side, **emptied, **originals}


def _require_imported(
    writing: Writer, bank: str, fold: Fold, records: Sequence[PendingRecord], brought: Sequence[str]
) -> None:
    """Require that imported records redact nothing that exists here.

    And that an imported memory for which the log has a redaction is in its redacted form.
    """
    if brought and writing.get(bank, list(brought)):
        raise RedactionRefusedError("an import can redact only its own records")
    for row in (one.row for one in records if one.row.type in _REDACTABLE):
        result = fold.redacted(row.id, fold.size)
        if result is not None and digest(row.body or b"") != result:
            raise RedactionRefusedError(
                "the memory was imported redacted, and cannot be imported in another form",
                field=row.id,
            )


def _require_restorable(
    fold: Fold, row: Row, model: Model, redaction: Redaction, before: int
) -> None:
    """Require that a whole entry may replace its redacted form: only an imported one.

    Its ID shows that it is the logged entry. Entries that were redacted here stay redacted.
    """
    last = fold.redaction(row.id, before)
    if redaction.fields or last is None or not fold.batch_number(last[0]):
        raise RedactionRefusedError(
            "a full memory can replace a redacted one only if an import brought that one",
            field=row.id,
        )
    if (model.id, str(model.__struct_config__.tag)) != (row.id, row.type):
        raise RedactionRefusedError(
            "it was logged with another type, which cannot change", field=row.id
        )


def _redact_row(fold: Fold, row: Row, body: bytes, redaction: Redaction, before: int) -> Row:
    opened = open_body(row, fold.redacted(row.id, before))
    if opened is None:
        raise RedactionRefusedError("the bytes of the entry do not verify", field=row.id)
    try:
        _, model = open_redacted_form(body, redaction.result)
        if model.nonce is None:
            require_form_of(model, opened[1])
        else:
            _require_restorable(fold, row, model, redaction, before)
    except MalformedError as error:
        raise RedactionRefusedError(error.message, field=error.field) from None
    own = derive_row(model, seq=row.seq, at=row.at, body=body, batch=fold.batch_number(row.seq))
    return own.changed(fold.standing(row.id, row.seq, fold.size))
