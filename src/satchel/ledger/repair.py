"""Repair of a store: derived data is derived again, damaged data is set aside.

Nothing is deleted. The damaged bytes of a record are moved to the side values as they are
(``damaged/POSITION``), and a signed erasure record in the log says that the memory is lost. A
missing record or an invalid head cannot be repaired: restore a backup.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from msgspec.structs import replace

from satchel.crypto.log import (
    Frontier,
    Head,
    VerifiedTree,
    append_leaves,
    leaf_position,
    record_leaf,
)
from satchel.crypto.sealed_records import open_record, seal
from satchel.errors import InputError, StoreDamagedError
from satchel.ledger.examination import (
    Examination,
    Flaw,
    Progress,
    derived_blocks,
    examine,
    has_leaf,
    open_body,
    row_blocks,
)
from satchel.ledger.heads import node_fetcher, verified_head
from satchel.ledger.ledger import Ledger
from satchel.ledger.projection import FOLDED, Fold, LogFact
from satchel.model.records import Erasure
from satchel.ports.rows import Row
from satchel.ports.store import Reader, Store, Writer

DAMAGED = "damaged/"
"""Prefix of the names of damaged bytes, beside the log."""

REASON = "damaged: the bytes no longer match the ID"


@dataclass(frozen=True, slots=True)
class BankRepair:
    """The result of a repair."""

    before: Examination
    after: Examination
    lost: tuple[int, ...]
    """Log positions of records whose bytes were set aside."""


def repair(
    store: Store, ledger: Ledger, *, at: str, progress: Progress | None = None
) -> BankRepair:
    """Repair what can be repaired, and report what is lost.

    Args:
        store: The store with the bank.
        ledger: The bank, with an admitted key.
        at: The current time.
        progress: Called with the progress of each examination.

    Raises:
        StoreDamagedError: If nothing can be repaired: the head is invalid, or a record that changes
            others is missing. Nothing was changed.
        ReadOnlyStoreError: If this machine has no admitted key.
    """
    before = examine(store, ledger.bank, progress=progress)
    if before.is_sound:
        return BankRepair(before, before, ())
    if before.counts[Flaw.HEAD] or before.counts[Flaw.MISSING]:
        raise _hopeless(store, before.shown[0].message)
    with store.writing() as writing:
        head, fold = _derive_again(store, writing, ledger.bank, before)
    if before.counts[Flaw.RETURNED]:
        store.scrub()
    lost = _set_aside(store, ledger, head, fold, at)
    return BankRepair(before, examine(store, ledger.bank, progress=progress), lost)


def _derive_again(
    store: Store, writing: Writer, bank: str, examination: Examination
) -> tuple[Head, Fold]:
    stored = writing.head(bank)
    if stored is None:
        raise _hopeless(store, "it is missing")
    head, frontier = verified_head(bank, stored)
    tree = VerifiedTree(frontier, node_fetcher(writing, bank))
    if examination.counts[Flaw.NODE]:
        _put_nodes(writing, head)
        tree = VerifiedTree(frontier, node_fetcher(writing, bank))
    if wrong := examination.places.get(Flaw.LEAF):
        logged = [row for seq in wrong for row in _as_logged(writing, tree, bank, seq)]
        writing.rewrite(bank, logged)
    facts = [
        LogFact(row.seq, row.id, opened[1])
        for _, rows in row_blocks(writing, bank, range(head.size))
        for row in (rows[seq] for seq in sorted(rows))
        if row.type in FOLDED and (opened := open_body(row)) is not None
    ]
    if len(facts) != sum(head.counts.get(name, 0) for name in FOLDED):
        raise _hopeless(store, "records about other records are missing")
    fold = Fold()
    fold.take(facts, head.size)
    writing.rewrite(bank, _wrong_rows(writing, head, fold))
    return head, fold


def _put_nodes(writing: Writer, head: Head) -> None:
    frontier = Frontier()
    for places, rows in row_blocks(writing, head.bank, range(head.size)):
        ordered = [rows[seq] for seq in places]
        leaves = [record_leaf(head.bank, row.seq, row.type, row.id, row.at) for row in ordered]
        writing.put_nodes(head.bank, leaf_position(places.start), append_leaves(frontier, leaves))


def _as_logged(reader: Reader, tree: VerifiedTree, bank: str, seq: int) -> Iterator[Row]:
    """Yield a row with the logged ID, type and time, if these can be found.

    The bytes contain ID and type; the time is the row's own or that of a neighbor in the same
    commit.
    """
    rows = {row.seq: row for row in reader.at(bank, [seq - 1, seq, seq + 1])}
    row = rows.get(seq)
    if row is None or row.body is None:
        return
    kind, identity = row.type, row.id
    with suppress(InputError):
        record, _ = open_record(row.body)
        kind, identity = record.type, record.id
    for place in (seq, seq - 1, seq + 1):
        at = rows[place].at if place in rows else row.at
        if has_leaf(tree, seq, record_leaf(bank, seq, kind, identity, at)):
            yield replace(row, id=identity, type=kind, at=at)
            return


def _wrong_rows(writing: Writer, head: Head, fold: Fold) -> Iterator[Row]:
    for pairs in derived_blocks(writing, head, fold, range(head.size)):
        by_id = {row.id: row.seq for row in writing.get(head.bank, [own.id for _, own in pairs])}
        for stored, own in pairs:
            if (
                stored.columns() != own.columns()
                or by_id.get(own.id) != own.seq
                or not writing.is_indexed(head.bank, own)
            ):
                yield own


def _set_aside(store: Store, ledger: Ledger, head: Head, fold: Fold, at: str) -> tuple[int, ...]:
    """Move damaged bytes beside the log, and then log that these records are lost."""
    bank, damaged = ledger.bank, list[Row]()
    with store.reading() as reader:
        for _, rows in row_blocks(reader, bank, range(head.size)):
            damaged += [
                rows[seq]
                for seq in sorted(rows)
                if open_body(rows[seq], fold.redacted(rows[seq].id, head.size)) is None
                and not _has_reason(rows[seq], fold, head)
            ]
    if not damaged:
        return ()
    # Copy the bytes first: an erasure removes them.
    kept = {f"{DAMAGED}{row.seq}": row.body for row in damaged if row.body is not None}
    with store.writing() as writing:
        writing.put_side(bank, kept)
    ledger.append([seal(Erasure(entry=row.id, reason=REASON, at=at)) for row in damaged])
    return tuple(row.seq for row in damaged)


def _has_reason(row: Row, fold: Fold, head: Head) -> bool:
    """Return whether the log gives a reason for an empty row."""
    return row.body is None and fold.is_erased(row.id, head.size)


def _hopeless(store: Store, why: str) -> StoreDamagedError:
    return StoreDamagedError(
        f"the bank cannot be repaired: {why}",
        file=store.name,
        hint="Nothing was changed. Restore a backup; keep this file as it is.",
    )
