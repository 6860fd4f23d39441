"""A bank out of a backup, in a store of the moment: from there it is copied like any other.

Columns are derived again from the bytes, and the tree is built again, so nothing of a backup is
believed but the bytes of records and the times at which they arrived; the signed head stands for
these.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from satchel.backup.logs import Kept, rows_in, vectors_in
from satchel.backup.manifests import BankPart, Index, read_index
from satchel.backup.pieces.packs import Packs
from satchel.backup.proving import head_of, segments_of, side_in
from satchel.errors import InputError, SigningKeyError, UsageError, VerificationError
from satchel.ledger.authority import Authority, founding, with_configs
from satchel.ledger.folding import FOLDED, Fact, Fold
from satchel.ledger.heads import believed_head
from satchel.memory.records import Model
from satchel.memory.times import now
from satchel.ports.blobs import verified
from satchel.ports.rows import Filter
from satchel.ports.store import Commit, Store, StoredHead
from satchel.seal.log import Head, leaf_of, signed_head
from satchel.seal.proved_tree import ProvedTree, grown
from satchel.seal.records import PREFIX, Sealed, open_record
from satchel.seal.redacted_forms import is_form, opened_form
from satchel.seal.signing.key import SigningKey
from satchel.seal.tree import Frontier
from satchel.transfer.copies import own_row

_TELLING = Filter(types=frozenset({"bank", "config"}), retired=True, held=True)

Forms = Callable[[str], str | None]
"""Gives the hash of the form in which a record stands; None for a whole one."""

Tell = Callable[[int], None]
"""Is told how many more records are there."""


class Cut(NamedTuple):
    """A log that is to end earlier than the backup's."""

    size: int
    """How many records it is to have."""

    writer: SigningKey
    """Signs the head that it had then; a head that is in between nobody kept."""


def size_at(part: BankPart, packs: Packs, moment: str) -> int:
    """Return how many records a log had at a moment.

    Raises:
        VerificationError: If the backup cannot be read.
    """
    size = 0
    for segment in segments_of(part, read_index(packs, part.index, Index)):
        rows = rows_in(segment, packs)
        if rows[0].at > moment:
            break
        size += sum(row.at <= moment for row in rows)
    return size


def assemble(
    part: BankPart, packs: Packs, store: Store, tell: Tell, cut: Cut | None = None
) -> None:
    """Make a bank of a backup in a store that does not have it.

    Args:
        part: The bank.
        packs: Where its packs are.
        store: A store that nobody else uses.
        tell: Told of the records.
        cut: Where the log is to end.

    Raises:
        VerificationError: If the backup is not what was signed.
        SigningKeyError: If a log that ends earlier cannot be signed here.
        TargetError, StoreError: If something cannot be read or written.
    """
    believed_head(part.bank, head_of(part))
    index = read_index(packs, part.index, Index)
    size = part.size if cut is None else cut.size
    fold = Fold()
    fold.take(list(_facts(part, index, packs, size)), size)
    forms = partial(fold.redacted, size=size)
    frontier, counts = Frontier(), Counter[str]()
    for segment in segments_of(part, index):
        kept = [one for one in rows_in(segment, packs) if one.seq < size]
        if not kept:
            break
        rows = [own_row(one.row(), _opened(one, forms), fold, size) for one in kept]
        leaves = [leaf_of(part.bank, row.seq, row.type, row.id, row.at) for row in rows]
        nodes = grown(frontier, leaves)
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
    _beside(part, index, packs, store)


def _facts(part: BankPart, index: Index, packs: Packs, size: int) -> Iterator[Fact]:
    for segment in segments_of(part, index):
        for one in rows_in(segment, packs):
            if one.seq < size and one.type in FOLDED:
                logged = _opened(one)
                if logged is None:
                    raise VerificationError(
                        f"record {one.seq} is empty, but its type is never erased"
                    )
                yield Fact(one.seq, one.id, logged[1])


def _opened(kept: Kept, forms: Forms | None = None) -> tuple[Sealed, Model] | None:
    if kept.body is None:
        return None
    result = None if forms is None else forms(kept.id)
    try:
        if result is None and is_form(kept.body):
            raise UsageError(
                f"record {kept.seq} was redacted after that time; the backup has only the "
                "redacted form",
                field="at",
                hint="Choose a time after the redaction, or an older backup.",
            )
        record, model = open_record(kept.body) if result is None else opened_form(kept.body, result)
    except InputError as error:
        raise VerificationError(f"record {kept.seq} of the backup: {error.message}") from None
    if record.id != kept.id or record.type != kept.type:
        raise VerificationError(f"record {kept.seq} of the backup is a different record")
    return record, model


def _signed(
    part: BankPart, store: Store, frontier: Frontier, counts: Counter[str], writer: SigningKey
) -> StoredHead:
    """Return the head of a log that ends earlier, signed by this machine as one that may."""
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


def _authority(part: BankPart, store: Store, frontier: Frontier) -> Authority:
    with store.reading() as reader:
        tree = ProvedTree(frontier, lambda places: reader.nodes(part.bank, places))
        configs = list[tuple[int, Sealed]]()
        authority = None
        for row in reader.scan(part.bank, _TELLING):
            record, _ = open_record(row.body or b"")
            if row.seq == 0:
                authority = founding(record)
            else:
                configs.append((row.seq, record))
        if authority is None:
            raise VerificationError("the first record of the log is missing")
        return with_configs(
            authority, part.bank, configs, lambda size: PREFIX + tree.root_at(size).hex()
        )


def _beside(part: BankPart, index: Index, packs: Packs, store: Store) -> None:
    for segment in index.segments:
        for held in segment.vectors:
            for vectors in vectors_in(held, packs):
                with store.writing() as writing:
                    there = {row.id for row in writing.get(part.bank, list(vectors))}
                    known = {one: vector for one, vector in vectors.items() if one in there}
                    if known:
                        writing.vectors.put(part.bank, held.generation, known)
    for blob in index.blobs:
        with store.writing() as writing:
            pieces = verified((packs.get(ref) for ref in blob.packs), blob.digest)
            writing.blobs.put(part.bank, pieces)
