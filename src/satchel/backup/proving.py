"""Proving a backup from its packs alone: the tree, the signed head, every record, all beside it.

No key and no store is needed for that. Who may sign the log is judged when a store is made of it.
"""

from collections import Counter
from collections.abc import Callable, Iterator

import msgspec

from satchel.backup.logs import Kept, rows_in, vectors_in
from satchel.backup.manifests import (
    BankPart,
    FilesIndex,
    Index,
    Manifest,
    Segment,
    read_index,
    require_one_each,
)
from satchel.backup.packs import Packs, Ref
from satchel.errors import InputError, VerificationError
from satchel.ledger.heads import believed_head
from satchel.memory.entries import Entry
from satchel.memory.records import Erasure, Redaction
from satchel.ports.blobs import verified
from satchel.ports.store import StoredHead
from satchel.seal.log import Head, leaf_of
from satchel.seal.proved_tree import grown
from satchel.seal.records import PREFIX, digest, id_holds, open_record, open_shape
from satchel.seal.tree import Frontier

Tell = Callable[[int, int], None]
"""Is told of the records that were proved, and how many there are."""


def prove(manifest: Manifest, packs: Packs, tell: Tell | None = None) -> int:
    """Read all of a backup again, and require that it is what it says.

    Returns:
        How many different packs were read.

    Raises:
        VerificationError: Naming what does not hold.
        TargetError: If the destination does not answer.
    """
    seen, done = set[str](), 0
    total = sum(part.size for part in manifest.banks)
    require_one_each([part.bank for part in manifest.banks], "bank")
    require_one_each([part.key for part in manifest.files], "key of memory files")
    for part in manifest.banks:
        for number in _prove_bank(part, packs, seen):
            done += number
            if tell is not None:
                tell(done, total)
    for one in manifest.files:
        found = read_index(packs, one.index, FilesIndex).packs
        if sum(ref.bytes for ref in found) != one.size:
            raise VerificationError(f"the memory files of {one.key} have another size")
        for ref in found:
            packs.get(ref)
        seen.update(ref.digest for ref in (one.index, *found))
    return len(seen)


def head_of(part: BankPart) -> StoredHead:
    """Return the head of a bank as a store keeps it."""
    return StoredHead(part.head.encode(), bytes.fromhex(part.peaks))


def segments_of(part: BankPart, index: Index) -> list[Segment]:
    """Return the stretches of a log, which follow each other from the first record to the last.

    Raises:
        VerificationError: If they do not.
    """
    place = 0
    for segment in index.segments:
        if segment.first != place:
            break
        place += segment.count
    else:
        if place == part.size:
            return index.segments
    raise VerificationError(f"records after {place} of the log are not in the backup")


def side_in(ref: Ref, packs: Packs) -> dict[str, bytes]:
    """Return unlogged values.

    Raises:
        VerificationError: If they cannot be read.
    """
    try:
        return msgspec.msgpack.decode(packs.get(ref), type=dict[str, bytes])
    except msgspec.DecodeError as error:
        raise VerificationError(f"unlogged values cannot be read: {error}") from None


def _prove_bank(part: BankPart, packs: Packs, seen: set[str]) -> Iterator[int]:
    head, _ = believed_head(part.bank, head_of(part))
    if (head.size, head.root) != (part.size, part.root):
        raise VerificationError("the signed head is not that of the bank of the backup")
    index = read_index(packs, part.index, Index)
    walk = _Walk(part.bank)
    for segment in segments_of(part, index):
        yield walk.take(rows_in(segment, packs))
        for held in segment.vectors:
            for _ in vectors_in(held, packs):
                pass
    walk.require(head)
    _prove_beside(index, packs)
    seen.update(ref.digest for ref in (part.index, *index.refs()))


class _Walk:
    """The way along a log, record by record."""

    def __init__(self, bank: str) -> None:
        self._bank = bank
        self._frontier, self._counts = Frontier(), Counter[str]()
        self._empty, self._erased = set[str](), set[str]()
        self._forms, self._redacted = dict[str, str](), dict[str, str]()

    def take(self, rows: list[Kept]) -> int:
        """Take some records, and return how many."""
        for row in rows:
            self._counts[row.type] += 1
            if row.body is None:
                self._empty.add(row.id)
            else:
                self._require_own(row, row.body)
        leaves = [leaf_of(self._bank, row.seq, row.type, row.id, row.at) for row in rows]
        grown(self._frontier, leaves)
        return len(rows)

    def require(self, head: Head) -> None:
        """Require that this was the log that was signed."""
        if PREFIX + self._frontier.root.hex() != head.root or self._counts != head.counts:
            raise VerificationError("the log of the backup is not the one that was signed")
        if self._empty - self._erased:
            one = min(self._empty - self._erased)
            raise VerificationError(f"the record {one} is empty, and nobody erased it")
        for one, result in self._redacted.items():
            if one not in self._empty and self._forms.get(one) != result:
                raise VerificationError(f"the record {one} is not in the form that was logged")
        if self._forms.keys() - self._redacted.keys():
            one = min(self._forms.keys() - self._redacted.keys())
            raise VerificationError(f"the record {one} is redacted, and nobody logged that")

    def _require_own(self, row: Kept, body: bytes) -> None:
        try:
            record, model = open_shape(body)
            if isinstance(model, Entry) and model.nonce is None:
                self._forms[row.id] = digest(body)
            elif not id_holds(record):
                open_record(body)  # refuses, in words
        except InputError as error:
            raise VerificationError(f"record {row.seq} of the backup: {error.message}") from None
        if record.id != row.id or record.type != row.type:
            raise VerificationError(f"record {row.seq} of the backup is another one")
        if isinstance(model, Erasure):
            self._erased.add(model.entry)
        if isinstance(model, Redaction):
            self._redacted[model.entry] = model.result


def _prove_beside(index: Index, packs: Packs) -> None:
    for blob in index.blobs:
        pieces = verified((packs.get(ref) for ref in blob.packs), blob.digest)
        if sum(map(len, pieces)) != blob.size:
            raise VerificationError(f"the blob {blob.digest} has another size")
    for ref in index.side:
        side_in(ref, packs)
