"""Proving a backup from its packs alone: the tree, the signed head, every record, all beside it.

No key and no store is needed for that. Who may sign the log is judged when a store is made of it.
A pack that nothing here opens is held to the hash of its encrypted bytes: so it is what was written
by a run that opened it then, and held each of its records to the log.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from satchel.backup.files import files_of, read_agent_contents
from satchel.backup.logs import PackedRow, rows_in, vectors_in
from satchel.backup.manifests import (
    AgentBackup,
    AgentIndex,
    BankBackup,
    BankIndex,
    FilesIndex,
    LogSegment,
    Manifest,
    SegmentVectors,
    read_index,
    require_one_each,
)
from satchel.backup.packs import Packs, Ref
from satchel.crypto.log import Frontier, Head, append_leaves, record_leaf
from satchel.crypto.sealed_records import PREFIX, digest, has_valid_id, open_record, open_shape
from satchel.errors import EncryptionError, InputError, VerificationError
from satchel.ledger.heads import verified_head
from satchel.model.records import Entry, Erasure, Redaction
from satchel.ports.store import StoredHead, verified_pieces

Tell = Callable[[int, int], None]
"""Is told of the records that were proved, and how many there are."""


class VerificationCounts(NamedTuple):
    """How much of a backup was read again."""

    packs: int
    """Different packs."""

    unopened: int = 0
    """Those of them that nothing here opens."""


def prove(manifest: Manifest, packs: Packs, tell: Tell | None = None) -> VerificationCounts:
    """Read all of a backup again, and require that it is what it says.

    Raises:
        VerificationError: Naming what does not hold.
        TargetError: If the destination does not answer.
    """
    proving, done = _Proving(packs), 0
    total = sum(part.size for part in manifest.banks)
    require_one_each([part.bank for part in manifest.banks], "bank")
    require_one_each([part.key for part in manifest.files], "key of memory files")
    for part in manifest.banks:
        for number in proving.bank(part):
            done += number
            if tell is not None:
                tell(done, total)
    require_one_each([part.id for part in manifest.agents], "agent")
    for agent in manifest.agents:
        proving.agent(agent)
    for one in manifest.files:
        found = read_index(packs, one.index, FilesIndex).packs
        if sum(ref.bytes for ref in found) != one.size:
            raise VerificationError(f"the memory files of {one.key} have a different size")
        proving.read(*found)
        proving.seen.update(ref.name for ref in (one.index, *found))
    return VerificationCounts(len(proving.seen), len(proving.unopened))


def head_of(part: BankBackup) -> StoredHead:
    """Return the head of a bank as a store keeps it."""
    return StoredHead(part.head.encode(), bytes.fromhex(part.peaks))


def segments_of(part: BankBackup, index: BankIndex) -> list[LogSegment]:
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


class _Proving:
    """What was seen so far."""

    def __init__(self, packs: Packs) -> None:
        self._packs = packs
        self.seen, self.unopened = set[str](), set[str]()

    def read(self, *refs: Ref) -> None:
        """Read packs; those that nothing here opens are held to the hash of their bytes."""
        for ref in refs:
            try:
                self._packs.get(ref)
            except EncryptionError:
                self.unopened.add(ref.name)

    def agent(self, part: AgentBackup) -> None:
        """Prove what is kept of an agent: each file is what was named, and nothing is between."""
        index = read_index(self._packs, part.index, AgentIndex)
        self.seen.update(ref.name for ref in (part.index, *index.refs()))
        try:
            for _ in files_of(part, read_agent_contents(part, self._packs), self._packs):
                pass
        except EncryptionError:
            self.read(*index.refs())

    def bank(self, part: BankBackup) -> Iterator[int]:
        """Prove a bank, and yield the numbers of records that were."""
        head, _ = verified_head(part.bank, head_of(part))
        if (head.size, head.root) != (part.size, part.root):
            raise VerificationError("the signed head does not belong to the bank of the backup")
        packs = self._packs
        index = read_index(packs, part.index, BankIndex)
        walk, is_whole = _Walk(part.bank), True
        for segment in segments_of(part, index):
            try:
                yield walk.take(rows_in(segment, packs))
            except EncryptionError:
                is_whole = False
                self.unopened.add(segment.log.name)
                yield segment.count
            for held in segment.vectors:
                self._vectors(held)
        if is_whole:
            walk.require(head)
        self._beside(index)
        self.seen.update(ref.name for ref in (part.index, *index.refs()))

    def _vectors(self, held: SegmentVectors) -> None:
        try:
            for _ in vectors_in(held, self._packs):
                pass
        except EncryptionError:
            self.read(*held.packs)

    def _beside(self, index: BankIndex) -> None:
        for blob in index.blobs:
            try:
                pieces = verified_pieces((self._packs.get(ref) for ref in blob.packs), blob.digest)
                size = sum(map(len, pieces))
            except EncryptionError:
                self.read(*blob.packs)
                continue
            if size != blob.size:
                raise VerificationError(f"the blob {blob.digest} has a different size")
        for ref in index.side:
            try:
                side_in(ref, self._packs)
            except EncryptionError:
                self.unopened.add(ref.name)


class _Walk:
    """The way along a log, record by record."""

    def __init__(self, bank: str) -> None:
        self._bank = bank
        self._frontier, self._counts = Frontier(), Counter[str]()
        self._empty, self._erased = set[str](), set[str]()
        self._forms, self._redacted = dict[str, str](), dict[str, str]()
        self._returned = set[str]()
        """Of entries that are whole again."""

    def take(self, rows: list[PackedRow]) -> int:
        """Take some records, and return how many."""
        for row in rows:
            self._counts[row.type] += 1
            if row.body is None:
                self._empty.add(row.id)
            else:
                self._require_own(row, row.body)
        leaves = [record_leaf(self._bank, row.seq, row.type, row.id, row.at) for row in rows]
        append_leaves(self._frontier, leaves)
        return len(rows)

    def require(self, head: Head) -> None:
        """Require that this was the log that was signed."""
        if PREFIX + self._frontier.root.hex() != head.root or self._counts != head.counts:
            raise VerificationError("the log of the backup does not match the signed head")
        if self._empty - self._erased:
            one = min(self._empty - self._erased)
            raise VerificationError(f"the record {one} is empty, but no erasure is logged")
        for one, result in self._redacted.items():
            returned = one in self._returned and one not in self._forms  # and its id holds
            if one not in self._empty and not returned and self._forms.get(one) != result:
                raise VerificationError(f"the record {one} is not in its logged form")
        if self._forms.keys() - self._redacted.keys():
            one = min(self._forms.keys() - self._redacted.keys())
            raise VerificationError(f"the record {one} is redacted, but no redaction is logged")

    def _require_own(self, row: PackedRow, body: bytes) -> None:
        try:
            record, model = open_shape(body)
            if isinstance(model, Entry) and model.nonce is None:
                self._forms[row.id] = digest(body)
            elif not has_valid_id(record):
                open_record(body)  # refuses, in words
        except InputError as error:
            raise VerificationError(f"record {row.seq} of the backup: {error.message}") from None
        if record.id != row.id or record.type != row.type:
            raise VerificationError(f"record {row.seq} of the backup is a different record")
        if isinstance(model, Erasure):
            self._erased.add(model.entry)
        if isinstance(model, Redaction):
            self._redacted[model.entry] = model.result
            (self._returned.discard if model.fields else self._returned.add)(model.entry)
