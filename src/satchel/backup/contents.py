"""A log in packs: stretches of it, cut so that what was backed up before is not again.

A row is kept as what its leaf is made of and its bytes; everything else follows from these and
from the rest of the log. Where the log only grew, the stretches of the last backup stand as they
are. Those of which a record was erased or redacted since are made again without its bytes; many
short ones are put into one.
"""

import os
import secrets
import sys
import tempfile
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from blake3 import blake3
from msgspec import Meta

from satchel.backup.manifests import (
    AgentBackup,
    AgentIndex,
    BankBackup,
    BankIndex,
    FilesBackup,
    FilesIndex,
    LogSegment,
    Manifest,
    SegmentVectors,
    put_index,
    read_index,
    require_one_each,
)
from satchel.backup.storage import MOST_BYTES, PIECE_BYTES, Digest, Packs, Ref
from satchel.crypto.canonical import DEFAULT_LIMITS
from satchel.crypto.log import Frontier, Head, append_leaves, record_leaf
from satchel.crypto.sealed_records import PREFIX, digest, has_valid_id, open_record, open_shape
from satchel.errors import (
    EncryptionError,
    InputError,
    PathRefusedError,
    TargetExistsError,
    VerificationError,
)
from satchel.files.manifest import FILE_NAME
from satchel.files.memory_store import MemoryStore
from satchel.files.paths import OWN
from satchel.ledger.heads import require_logged, verified_head
from satchel.model.records import Entry, Erasure, Redaction
from satchel.model.values import resolved
from satchel.ports.rows import Filter, Row
from satchel.ports.store import Reader, StoredHead, verified_pieces
from satchel.replication.copies import Replica, redacted_in
from satchel.runtime.contained_folder import parts_of
from satchel.runtime.files import PRIVATE_FILE, atomic_write
from satchel.runtime.private_files import private_folder
from satchel.stores.sqlite.connection import copy_database, deferred, open_for_reading
from satchel.stores.sqlite.statements import translated

ROWS = 4096
"""Records in a stretch, at most."""

SHORT = 16
"""How many stretches that are not full may stand at the end, until they are put into one."""

_ALL = Filter(retired=True, held=True)
_TAKING_AWAY = Filter(types=frozenset({"erasure", "redaction"}), retired=True, held=True)
_TOGETHER = 256
_ID_BYTES = 80


class PackedRow(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A row as it is kept."""

    seq: int
    id: str
    type: str
    at: str
    body: bytes | None

    def row(self) -> Row:
        """Return it without what follows from the rest."""
        return Row(seq=self.seq, id=self.id, type=self.type, at=self.at, body=self.body)


@dataclass(frozen=True, slots=True)
class PreviousBackup:
    """What the last backup has of a bank."""

    size: int
    root: str
    index: BankIndex


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(resolved(list[PackedRow])).decode
_decode_vectors = msgspec.msgpack.Decoder(
    resolved(tuple[list[str], Literal["f", "d"], bytes])
).decode


def put_log(source: Replica, before: PreviousBackup | None, packs: Packs) -> list[LogSegment]:
    """Keep a log, and the vectors of its records.

    Args:
        source: The bank, in one view of its store.
        before: What is kept already.
        packs: Where to.

    Raises:
        TargetError: If it cannot be written.
    """
    found, place = list[LogSegment](), 0
    for segment, stands in _reusable_segments(source, before):
        place = segment.first + segment.count
        if stands:
            found.append(_with_vectors(source, segment, packs))
        else:
            found += _cut(source, segment.first, place, packs)
    return [*found, *_cut(source, place, source.size, packs)]


def rows_in(segment: LogSegment, packs: Packs) -> list[PackedRow]:
    """Return the rows of a stretch, which are those that it says.

    Raises:
        VerificationError: If they are not.
    """
    try:
        rows = _decode(packs.get(segment.log))
    except msgspec.DecodeError as error:
        raise VerificationError(f"part of the log cannot be read: {error}") from None
    if [row.seq for row in rows] != list(range(segment.first, segment.first + segment.count)):
        raise VerificationError(f"records after {segment.first} of the log are out of order")
    for row in rows:
        if len(row.body or b"") > DEFAULT_LIMITS.entry_bytes:
            raise VerificationError(f"record {row.seq} exceeds the size limit")
    return rows


def vectors_in(held: SegmentVectors, packs: Packs) -> Iterator[dict[str, tuple[float, ...]]]:
    """Yield the vectors of a stretch, some at a time.

    Raises:
        VerificationError: If they are not what is said of them.
    """
    number = 0
    for ref in held.packs:
        found = _unpacked(packs.get(ref), held.dimensions)
        number += len(found)
        yield found
    if number != held.count:
        raise VerificationError("the number of vectors differs from the manifest")


def _reusable_segments(
    source: Replica, before: PreviousBackup | None
) -> Iterator[tuple[LogSegment, bool]]:
    """Yield the stretches of the last backup, and whether they still hold what the log has."""
    if before is None or before.size > source.size:
        return
    if PREFIX + source.tree.root_at(before.size).hex() != before.root:
        return  # put back from elsewhere
    segments = before.index.segments
    short = _short(segments)
    if short >= SHORT:
        segments = segments[:-short]
    touched = _erased_since(source, before.size)
    for one in segments:
        places = range(one.first, one.first + one.count)
        yield one, not any(place in places for place in touched)


def _short(segments: Sequence[LogSegment]) -> int:
    """Return how many stretches at the end are not full."""
    number = 0
    for segment in reversed(segments):
        if segment.count >= ROWS or segment.log.bytes >= PIECE_BYTES:
            break
        number += 1
    return number


def _erased_since(source: Replica, size: int) -> set[int]:
    """Return the places of what was erased or redacted by records from a place on."""
    reader, bank, places = source.reader, source.bank, set[int]()
    rows = reader.scan(bank, _TAKING_AWAY, after=size - 1)
    while some := list(islice(rows, _TOGETHER)):
        logged = [one[1] for one in require_logged(source.tree, bank, some) if one is not None]
        names = [model.entry for model in logged if isinstance(model, Erasure | Redaction)]
        places.update(row.seq for row in reader.get(bank, names))
    return places


def _cut(source: Replica, first: int, end: int, packs: Packs) -> Iterator[LogSegment]:
    """Keep the records from a place on, and yield the stretches that they became."""
    held, size = list[Row](), 0
    rows = islice(source.reader.scan(source.bank, _ALL, after=first - 1), end - first)
    for row in rows:
        held.append(row)
        size += len(row.body or b"") + len(row.id)
        if len(held) == ROWS or size >= PIECE_BYTES:
            yield _pack_rows(source, held, packs)
            held, size = [], 0
    if held:
        yield _pack_rows(source, held, packs)


def _pack_rows(source: Replica, rows: list[Row], packs: Packs) -> LogSegment:
    """Keep some records, each of which is the one that was logged.

    Raises:
        VerificationError: If one is not, or is empty and was not erased.
    """
    logged = require_logged(source.tree, source.bank, rows, redacted_in(source))
    for row, one in zip(rows, logged, strict=True):
        if one is None and not source.found.fold.is_erased(row.id, source.size):
            raise VerificationError(f"record {row.seq} is empty, but no erasure is logged")
    log = packs.put(
        _encode([PackedRow(row.seq, row.id, row.type, row.at, row.body) for row in rows])
    )
    segment = LogSegment(first=rows[0].seq, count=len(rows), log=log)
    return _vectored(source.reader, source.bank, segment, [row.id for row in rows], packs)


def _with_vectors(source: Replica, segment: LogSegment, packs: Packs) -> LogSegment:
    """Return a stretch that stands with the vectors that its records have now."""
    if not source.reader.vectors.generations(source.bank):
        return msgspec.structs.replace(segment, vectors=[])
    rows = source.reader.scan(source.bank, _ALL, after=segment.first - 1)
    ids = [row.id for row in islice(rows, segment.count)]
    return _vectored(source.reader, source.bank, segment, ids, packs)


def _vectored(
    reader: Reader, bank: str, segment: LogSegment, ids: list[str], packs: Packs
) -> LogSegment:
    held = list[SegmentVectors]()
    for generation in sorted(reader.vectors.generations(bank), key=repr):
        some = max(1, PIECE_BYTES // (8 * generation.dimensions + _ID_BYTES))
        refs, count = list[Ref](), 0
        for start in range(0, len(ids), some):
            part = ids[start : start + some]
            found = reader.vectors.get(bank, generation, part)
            if found:
                refs.append(packs.put(_packed({one: found[one] for one in part if one in found})))
                count += len(found)
        if refs:
            held.append(
                SegmentVectors(
                    model=generation.model,
                    dimensions=generation.dimensions,
                    number=generation.number,
                    count=count,
                    packs=refs,
                )
            )
    return msgspec.structs.replace(segment, vectors=held)


def _packed(vectors: Mapping[str, Sequence[float]]) -> bytes:
    """Return vectors in half the bytes where that loses nothing, as a rule."""
    numbers = array("d")
    for vector in vectors.values():
        numbers.extend(vector)
    halved = array("f", numbers)
    kind, kept = ("f", halved) if array("d", halved) == numbers else ("d", numbers)
    if sys.byteorder == "big":
        kept.byteswap()
    return _encode((list(vectors), kind, kept.tobytes()))


def _unpacked(data: bytes, dimensions: int) -> dict[str, tuple[float, ...]]:
    try:
        ids, kind, raw = _decode_vectors(data)
        numbers = array(kind)
        numbers.frombytes(raw)
    except (msgspec.DecodeError, ValueError) as error:
        raise VerificationError(f"vectors of the backup cannot be read: {error}") from None
    if sys.byteorder == "big":
        numbers.byteswap()
    if len(numbers) != dimensions * len(ids):
        raise VerificationError("vectors of the backup are truncated")
    starts = range(0, len(numbers), dimensions)
    return {one: tuple(numbers[at : at + dimensions]) for one, at in zip(ids, starts, strict=True)}


_BUSY_MS = 30_000


def keys_in(folder: Path) -> Iterator[str]:
    """Yield the keys that have memory files below a folder, sorted."""
    if folder.is_dir():
        for one in sorted(folder.iterdir()):
            if (one / OWN / FILE_NAME).is_file():
                yield one.name


def take_files(folder: Path, key: str, packs: Packs) -> FilesBackup:
    """Keep the memory files of a key as they are at one moment; others may write meanwhile.

    Args:
        folder: Where the keys are.
        key: Which.
        packs: Where to.

    Raises:
        StoreError: If they cannot be read.
        TargetError: If they cannot be kept.
    """
    path = folder / key / OWN / FILE_NAME
    refs, size = [], 0
    with tempfile.TemporaryDirectory(prefix="satchel-backup-") as held:
        copy = Path(held) / FILE_NAME
        source = open_for_reading(path, busy_ms=_BUSY_MS, vfs=None).connection
        with closing(source), translated(str(path), source), deferred(source):
            copy_database(source, copy, progress=None, vfs=None)
        with copy.open("rb") as stream:
            # Pages keep their places, so pieces that no change touched are known already.
            while piece := stream.read(PIECE_BYTES // 4):
                refs.append(packs.put(piece))
                size += len(piece)
    return FilesBackup(key=key, size=size, index=put_index(packs, FilesIndex(packs=refs)))


def require_free(part: FilesBackup, folder: Path, *, over: bool) -> None:
    """Require that memory files can be put back below a folder.

    Raises:
        VerificationError: If their key can be no name of a folder.
        TargetExistsError: If there are files of the key, and they are not to give way.
    """
    if "/" in part.key or "\0" in part.key or part.key.startswith("."):
        raise VerificationError(f"the backup has files of an invalid key: {part.key!r}")
    place = folder / part.key
    if os.path.lexists(place) and not over:
        raise TargetExistsError(
            f"memory files of {part.key!r} already exist",
            file=str(place),
            hint="To replace them (they are renamed, not deleted): --overwrite.",
        )


def put_files(part: FilesBackup, packs: Packs, folder: Path, *, over: bool) -> Path | None:
    """Put memory files back; they appear whole, or not at all.

    Args:
        part: The files of a key.
        packs: Where they are kept.
        folder: Where the keys are.
        over: Whether files that are there give way to them.

    Returns:
        Where what was there is now; None where nothing was.

    Raises:
        TargetExistsError: If there are files of the key, and they are not to give way.
        VerificationError: If what was kept does not hold.
        TargetError: If they cannot be written.
    """
    require_free(part, folder, over=over)
    place = folder / part.key
    private_folder(folder)
    with tempfile.TemporaryDirectory(prefix=".restoring-", dir=folder.parent) as held:
        staged = Path(held) / "files"
        own = private_folder(staged / OWN)
        with atomic_write(own / FILE_NAME, overwrite=False, mode=PRIVATE_FILE) as stream:
            for ref in read_index(packs, part.index, FilesIndex).packs:
                stream.write(packs.get(ref))
        with MemoryStore(root=staged) as store:  # copies out what the manifest says
            found = store.verify_audit()
            if not found.ok:
                problem = "; ".join(found.problems[:3])
                raise VerificationError(
                    f"the memory files of {part.key!r} do not verify: {problem}"
                )
        aside = None
        if os.path.lexists(place):
            beside = private_folder(folder.parent / ".before-restore")
            aside = beside / f"{part.key[:64]}-{secrets.token_hex(4)}"
            place.rename(aside)
        staged.rename(place)
    return aside


_FULL = 1 << 20
"""Bytes after which a piece ends with the file that it is in."""

_ONE_OF = 32
"""Of so many small files one ends its piece, on average."""


class KeptFile(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A file in a backup."""

    path: str
    size: Annotated[int, Meta(ge=0, le=MOST_BYTES)]
    digest: Digest
    """BLAKE3 of what is in it."""


class AgentContents(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is kept of an agent besides its memory."""

    said: dict[str, Any] = {}
    """What the configuration says of it, secrets replaced."""

    files: list[KeptFile] = []
    """In the order in which they stand in the packs."""

    links: dict[str, str] = {}
    """Symbolic links, and what they lead to; they are not put back."""

    left: dict[str, str] = {}
    """Files that are not in it, and why."""


def keep_agent(
    packs: Packs,
    identity: str,
    bank: str | None,
    files: Iterable[tuple[str, bytes]],
    around: Callable[[], AgentContents],
) -> AgentBackup:
    """Keep the files of an agent, and return what names them.

    Args:
        packs: Where to.
        identity: Its id.
        bank: Id of the bank with its memory.
        files: Paths, and what is in them; always in the same order.
        around: Gives what else is to be kept, once all files were taken.

    Raises:
        TargetError: If something cannot be written.
    """
    kept, refs, held = list[KeptFile](), [], bytearray()
    for path, data in files:
        if held and len(data) >= _FULL:
            refs.append(packs.put(bytes(held)))
            held.clear()
        kept.append(KeptFile(path, len(data), blake3(data).hexdigest()))
        held += data
        if len(held) >= _FULL or (held and _ends_a_piece(path)):
            refs.append(packs.put(bytes(held)))
            held.clear()
    if held:
        refs.append(packs.put(bytes(held)))
    told = packs.put(msgspec.json.encode(msgspec.structs.replace(around(), files=kept)))
    return AgentBackup(
        id=identity,
        bank=bank,
        files=len(kept),
        size=sum(one.size for one in kept),
        index=put_index(packs, AgentIndex(told=told, packs=refs)),
    )


def read_agent_contents(part: AgentBackup, packs: Packs) -> AgentContents:
    """Return what a backup keeps of an agent.

    Raises:
        VerificationError: If it is not what was kept, or a path leads out of a folder.
        EncryptionError: If nothing here opens it.
    """
    data = packs.get(read_index(packs, part.index, AgentIndex).told)
    try:
        told = msgspec.json.decode(data, type=resolved(AgentContents))
        for one in told.files:
            parts_of(one.path)
    except (msgspec.DecodeError, PathRefusedError) as error:
        raise VerificationError(f"the files of the agent {part.id}: {error}") from None
    is_it = (len(told.files), sum(one.size for one in told.files)) == (part.files, part.size)
    if not is_it or len({one.path for one in told.files}) != part.files:
        raise VerificationError(f"the files of the agent {part.id} differ from those of the backup")
    return told


def files_of(part: AgentBackup, told: AgentContents, packs: Packs) -> Iterator[tuple[str, bytes]]:
    """Yield the files of an agent; each is held to its hash.

    Raises:
        VerificationError: If one is not what was kept.
        EncryptionError: If nothing here opens them.
    """
    refs = iter(read_index(packs, part.index, AgentIndex).packs)
    held, place = b"", 0
    for one in told.files:
        if one.size and place == len(held):
            ref = next(refs, None)
            held, place = b"" if ref is None else packs.get(ref), 0
        data = held[place : place + one.size]
        place += one.size
        if len(data) != one.size or blake3(data).hexdigest() != one.digest:
            raise VerificationError(f"a file of the agent {part.id} does not match its digest")
        yield one.path, data
    if place != len(held) or next(refs, None) is not None:
        raise VerificationError(f"the backup has unexpected data for the agent {part.id}")


def _ends_a_piece(path: str) -> bool:
    return blake3(path.encode()).digest()[0] % _ONE_OF == 0


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
    proving, done = _ContentVerifier(packs), 0
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


class _ContentVerifier:
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
        walk, is_whole = _LogVerifier(part.bank), True
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


class _LogVerifier:
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
