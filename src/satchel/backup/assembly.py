"""Build a bank from a backup in a temporary store, from which it is copied like any other.

Columns are derived again from the bytes, and the tree is built again: only the bytes and times of
records are taken from the backup, and the signed head covers these.
"""

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from satchel.backup.catalog import Catalog, StoredBackup, read_erasures
from satchel.backup.contents import PackedRow, head_of, rows_in, segments_of, side_in, vectors_in
from satchel.backup.destinations import is_trusted_signer
from satchel.backup.manifests import BankBackup, BankIndex, read_index
from satchel.backup.storage import Packs
from satchel.bank.connections import witness_of, writer_key
from satchel.bank.keys import Owners
from satchel.bank.open_bank import bank_exists
from satchel.config.settings import Settings
from satchel.crypto.keys import SigningKey
from satchel.crypto.log import Frontier, Head, VerifiedTree, append_leaves, record_leaf, signed_head
from satchel.crypto.redaction import is_redacted_form, open_redacted_form
from satchel.crypto.sealed_records import PREFIX, Sealed, open_record, seal
from satchel.errors import (
    EncryptionError,
    InputError,
    SigningKeyError,
    UsageError,
    VerificationError,
)
from satchel.ledger.authority import Authority, apply_configs, founding_authority
from satchel.ledger.decisions import Decider
from satchel.ledger.heads import contains, verified_head
from satchel.ledger.ledger import Ledger
from satchel.ledger.projection import FOLDED, Fold, LogFact
from satchel.ledger.transaction import ERASABLE, finish_erasure
from satchel.ledger.witness import Witness
from satchel.model.records import Erasure, Model, Status
from satchel.model.values import now
from satchel.ports.rows import Filter
from satchel.ports.store import Commit, Store, StoredHead, verified_pieces
from satchel.replication.copies import load_replica, own_row

_TELLING = Filter(types=frozenset({"bank", "config"}), retired=True, held=True)

Forms = Callable[[str], str | None]
"""Returns the hash of a record's redacted form; None for a complete one."""

Tell = Callable[[int], None]
"""Called with the number of further records."""


class Cut(NamedTuple):
    """A cut of the log before the end of the backup's."""

    size: int
    """Number of records to keep."""

    writer: SigningKey
    """Signs the head at the cut; heads between backups are not stored."""


def size_at(part: BankBackup, packs: Packs, moment: str) -> int:
    """Return the number of records of a log at a time.

    Raises:
        VerificationError: If the backup cannot be read.
    """
    size = 0
    for segment in segments_of(part, read_index(packs, part.index, BankIndex)):
        rows = rows_in(segment, packs)
        if rows[0].at > moment:
            break
        size += sum(row.at <= moment for row in rows)
    return size


def assemble(
    part: BankBackup, packs: Packs, store: Store, tell: Tell, cut: Cut | None = None
) -> None:
    """Build a bank of a backup in a store that does not have it.

    Args:
        part: The bank.
        packs: Packs of the backup.
        store: A store without other users.
        tell: Called with the progress.
        cut: Where to cut the log.

    Raises:
        VerificationError: If the backup is not what was signed.
        SigningKeyError: If no key here can sign a cut log.
        TargetError, StoreError: If something cannot be read or written.
    """
    verified_head(part.bank, head_of(part))
    index = read_index(packs, part.index, BankIndex)
    size = part.size if cut is None else cut.size
    fold = Fold()
    fold.take(list(_facts(part, index, packs, size)), size)
    forms = partial(fold.redacted, size=size)
    frontier, counts = Frontier(), Counter[str]()
    for segment in segments_of(part, index):
        packed = [row for row in rows_in(segment, packs) if row.seq < size]
        if not packed:
            break
        rows = [own_row(row.row(), _open_row(row, forms), fold, size) for row in packed]
        leaves = [record_leaf(part.bank, row.seq, row.type, row.id, row.at) for row in rows]
        nodes = append_leaves(frontier, leaves)
        counts.update(row.type for row in rows)
        with store.writing() as writing:
            head = StoredHead(b"", b"".join(frontier.peaks))
            writing.append(part.bank, Commit(rows=rows, nodes=nodes, head=head))
        tell(len(rows))
    stored = head_of(part)
    if cut is not None and size < part.size:
        stored = _signed(part, store, frontier, counts, cut.writer)
    elif PREFIX + frontier.root.hex() != part.root:
        raise VerificationError("the log of the backup does not match the signed head")
    with store.writing() as writing:
        side = dict[str, bytes | None]()
        for ref in index.side:
            side |= side_in(ref, packs)
        writing.append(part.bank, Commit(rows=(), nodes=(), head=stored, side=side))
    _restore_side_data(part, index, packs, store)


def _facts(part: BankBackup, index: BankIndex, packs: Packs, size: int) -> Iterator[LogFact]:
    for segment in segments_of(part, index):
        for row in rows_in(segment, packs):
            if row.seq < size and row.type in FOLDED:
                logged = _open_row(row)
                if logged is None:
                    raise VerificationError(
                        f"record {row.seq} is empty, but its type is never erased"
                    )
                yield LogFact(row.seq, row.id, logged[1])


def _open_row(row: PackedRow, forms: Forms | None = None) -> tuple[Sealed, Model] | None:
    if row.body is None:
        return None
    result = None if forms is None else forms(row.id)
    try:
        if result is None and is_redacted_form(row.body):
            raise UsageError(
                f"record {row.seq} was redacted after that time; the backup has only the "
                "redacted form",
                field="at",
                hint="Choose a time after the redaction, or an older backup.",
            )
        record, model = (
            open_record(row.body) if result is None else open_redacted_form(row.body, result)
        )
    except InputError as error:
        raise VerificationError(f"record {row.seq} of the backup: {error.message}") from None
    if record.id != row.id or record.type != row.type:
        raise VerificationError(f"record {row.seq} of the backup is a different record")
    return record, model


def _signed(
    part: BankBackup, store: Store, frontier: Frontier, counts: Counter[str], writer: SigningKey
) -> StoredHead:
    """Return the head of a cut log, signed by this machine as an authorized writer."""
    if not frontier.size:
        raise UsageError("the bank did not exist yet at that time", field="at")
    authority = _authority(part, store, frontier)
    if not authority.admits(writer.did):
        raise SigningKeyError(
            "this machine's key may not sign for the bank, and no signed head of that time is "
            "stored",
            hint="Restore a whole backup: satchel backup restore ID.",
        )
    head = Head(
        v=1,
        bank=part.bank,
        epoch=authority.epoch,
        size=frontier.size,
        root=PREFIX + frontier.root.hex(),
        counts=dict(sorted(counts.items())),
        at=now(),
        key=writer.did,
    )
    return StoredHead(signed_head(head, writer), b"".join(frontier.peaks))


def _authority(part: BankBackup, store: Store, frontier: Frontier) -> Authority:
    with store.reading() as reader:
        tree = VerifiedTree(frontier, lambda places: reader.nodes(part.bank, places))
        configs = list[tuple[int, Sealed]]()
        authority = None
        for row in reader.scan(part.bank, _TELLING):
            record, _ = open_record(row.body or b"")
            if row.seq == 0:
                authority = founding_authority(record)
            else:
                configs.append((row.seq, record))
        if authority is None:
            raise VerificationError("the first record of the log is missing")
        return apply_configs(
            authority, part.bank, configs, lambda size: PREFIX + tree.root_at(size).hex()
        )


def _restore_side_data(part: BankBackup, index: BankIndex, packs: Packs, store: Store) -> None:
    for segment in index.segments:
        for held in segment.vectors:
            for vectors in vectors_in(held, packs):
                with store.writing() as writing:
                    existing = {row.id for row in writing.get(part.bank, list(vectors))}
                    known = {name: vector for name, vector in vectors.items() if name in existing}
                    if known:
                        writing.vectors.put(part.bank, held.generation, known)
    for blob in index.blobs:
        with store.writing() as writing:
            pieces = verified_pieces((packs.get(ref) for ref in blob.packs), blob.digest)
            writing.blobs.put(part.bank, pieces)


_TOGETHER = 500
_REASON = "erased after the backup it was restored from"


def make_bank(  # noqa: PLR0913 - what is made, of what, and where
    settings: Settings,
    catalog: Catalog,
    backup: StoredBackup,
    part: BankBackup,
    at: str | None,
    store: Store,
    tell: Callable[[int], None],
) -> bool:
    """Build a bank of a backup; return whether it existed at the given time.

    Args:
        settings: Settings of the machine.
        catalog: Catalog of the destination.
        backup: The backup.
        part: The bank.
        at: The time; None for that of the backup.
        store: A store that does not have the bank.
        tell: Called with the progress.

    Raises:
        VerificationError: If the backup is not what was signed.
        SigningKeyError: If no key here can sign a log that is cut between two heads.
    """
    packs, cut = catalog.packs(backup), None
    if at is not None and at < backup.manifest.at:
        size = size_at(part, packs, at)
        if not size:
            return False
        cut = Cut(size, writer_key(settings)) if size < part.size else None
    assemble(part, packs, store, tell, cut)
    return True


def require_lists(catalog: Catalog, backup: StoredBackup) -> None:
    """Require that the erasure lists of a backup's machine can be read.

    Raises:
        EncryptionError: If no identity here decrypts them.
    """
    if backup.manifest.series in catalog.lists.unopened():
        raise EncryptionError(
            "the list of later erasures is encrypted, and no identity here decrypts it",
            file=catalog.name,
            hint="Pass an identity it was encrypted to: satchel --identity FILE.",
        )


def erased_since(
    settings: Settings,
    catalog: Catalog,
    bank: str,
    stores: Sequence[Store],
    signers: Sequence[str] = (),
) -> list[str]:
    """Return the erased records of a bank, from the lists at the destination and from stores.

    Lists by untrusted signers, and copies that do not verify, are ignored.

    Args:
        settings: Settings of the machine.
        catalog: Catalog of the destination.
        bank: The bank.
        stores: Stores that may have a newer state: the one in use and the target.
        signers: Keys to trust for this call.
    """
    ids = dict[str, None]()
    for erased, key in catalog.lists.of(bank):
        if is_trusted_signer(settings, key, signers):
            ids |= dict.fromkeys(erased.records)
    for store in stores:
        with store.reading() as reader, suppress(VerificationError):
            copy = load_replica(reader, bank) if bank_exists(reader, bank) else None
            if copy is not None:
                ids |= dict.fromkeys(read_erasures(copy))
    return list(ids)


def erased_here(settings: Settings, store: Store, bank: str) -> list[str]:
    """Return what this machine's witness recorded as erased, for a bank that was just built.

    The witness records positions in the log. They are valid up to its newest head that is also in
    this log.
    """
    witness = witness_of(settings)
    positions = witness.positions(bank)
    if not positions:
        return []
    with store.reading() as reader:
        copy = load_replica(reader, bank)
        if copy is None:
            return []
        heads = (witnessed.head for witnessed in witness.heads(bank))
        common = max((head.size for head in heads if contains(copy.tree, head)), default=0)
        rows = reader.at(bank, [position for position in positions if position < common])
        return [
            row.id
            for row in rows
            if row.type in ERASABLE and copy.trusted.fold.redacted(row.id, copy.size) is None
        ]


def reapply_erasures(
    settings: Settings,
    store: Store,
    bank: str,
    erased: Sequence[str],
    owners: Callable[[], Owners] | None,
) -> int:
    """Erase records of a bank that was just built from a backup; return their number.

    Args:
        settings: Settings of the machine.
        store: The temporary store.
        bank: The bank.
        erased: Records erased since the backup; missing ones are ignored.
        owners: Returns the keys of owners, if this machine may not write to the bank yet.

    Raises:
        SigningKeyError: If no key here may write to the bank.
        ThresholdError: If more owners must admit this machine.
        StoreError: If it cannot be written.
    """
    remaining = _not_erased(store, bank, erased)
    if not remaining:
        return 0
    with tempfile.TemporaryDirectory(prefix="satchel-restore-") as folder:
        witness, writer = Witness(Path(folder) / "banks"), writer_key(settings)
        ledger = Ledger(store, bank, writer=writer, witness=witness)
        with store.reading() as reader:
            copy = load_replica(reader, bank)
            is_admitted = copy is not None and copy.trusted.authority.admits(writer.did)
        if not is_admitted:
            if owners is None:
                raise SigningKeyError(
                    "records were erased since, and no key here may write that to the bank",
                    hint="Its owner can: pass the key with --signing-key.",
                )
            first, *co_signers = owners()
            Decider(
                store=store,
                bank=bank,
                owner=first,
                also=tuple(co_signers),
                writer=writer,
                witness=witness,
            ).admit()
        for start in range(0, len(remaining), _TOGETHER):
            names, at = remaining[start : start + _TOGETHER], now()
            deletions = [
                seal(Status(target=name, state="deleted", reason=_REASON, at=at)) for name in names
            ]
            erasures = [
                seal(Erasure(entry=name, reason=_REASON, by=writer.did, at=at)) for name in names
            ]
            ledger.append([*deletions, *erasures])
        finish_erasure(store, bank)
    return len(remaining)


def _not_erased(store: Store, bank: str, erased: Sequence[str]) -> list[str]:
    """Return which of these records exist and are not erased in the log."""
    remaining = list[str]()
    with store.reading() as reader:
        copy = load_replica(reader, bank)
        for start in range(0, len(erased) if copy is not None else 0, _TOGETHER):
            rows = reader.get(bank, list(erased[start : start + _TOGETHER]))
            remaining += [
                row.id
                for row in sorted(rows, key=lambda row: row.seq)
                if row.type in ERASABLE
                and copy is not None
                and not copy.trusted.fold.is_erased(row.id, copy.size)
            ]
    return remaining
