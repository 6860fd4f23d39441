"""Contents of a backup: logs, memory files and files of agents, written, read and verified.

A log is stored in segments, so that unchanged ones are not written again. A row is stored as the
members of its leaf and its bytes; everything else is derived. If the log only grew, the segments of
the last backup are reused. Segments with a record that was erased or redacted since are written
again without its bytes; many short ones are combined.

Verification needs no key and no store: the tree, the signed head and every record are checked.
Whether the signer may sign is checked when a store is built. A pack that no identity here decrypts
is verified by the hash of its encrypted bytes: the run that wrote it verified each record.
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
    require_unique,
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
"""Maximum number of records in a segment."""

SHORT = 16
"""Number of short segments at the end that are combined into one."""

_ALL = Filter(retired=True, held=True)
_TAKING_AWAY = Filter(types=frozenset({"erasure", "redaction"}), retired=True, held=True)
_TOGETHER = 256
_ID_BYTES = 80


class PackedRow(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A row as stored in a backup."""

    seq: int
    id: str
    type: str
    at: str
    body: bytes | None

    def row(self) -> Row:
        """Return it as a row without derived columns."""
        return Row(seq=self.seq, id=self.id, type=self.type, at=self.at, body=self.body)


@dataclass(frozen=True, slots=True)
class PreviousBackup:
    """A bank in the last backup."""

    size: int
    root: str
    index: BankIndex


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(resolved(list[PackedRow])).decode
_decode_vectors = msgspec.msgpack.Decoder(
    resolved(tuple[list[str], Literal["f", "d"], bytes])
).decode


def put_log(source: Replica, before: PreviousBackup | None, packs: Packs) -> list[LogSegment]:
    """Write a log and the vectors of its records.

    Args:
        source: The bank, in one view of its store.
        before: The bank in the last backup.
        packs: Packs to write.

    Raises:
        TargetError: If it cannot be written.
    """
    segments, end = list[LogSegment](), 0
    for segment, is_reusable in _reusable_segments(source, before):
        end = segment.first + segment.count
        if is_reusable:
            segments.append(_with_vectors(source, segment, packs))
        else:
            segments += _cut(source, segment.first, end, packs)
    return [*segments, *_cut(source, end, source.size, packs)]


def rows_in(segment: LogSegment, packs: Packs) -> list[PackedRow]:
    """Return the rows of a segment, with verified positions.

    Raises:
        VerificationError: If they differ from the manifest.
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


def vectors_in(
    segment_vectors: SegmentVectors, packs: Packs
) -> Iterator[dict[str, tuple[float, ...]]]:
    """Yield the vectors of a segment in batches.

    Raises:
        VerificationError: If they differ from the manifest.
    """
    number = 0
    for ref in segment_vectors.packs:
        vectors = _unpacked(packs.get(ref), segment_vectors.dimensions)
        number += len(vectors)
        yield vectors
    if number != segment_vectors.count:
        raise VerificationError("the number of vectors differs from the manifest")


def _reusable_segments(
    source: Replica, before: PreviousBackup | None
) -> Iterator[tuple[LogSegment, bool]]:
    """Yield the segments of the last backup, and whether they are still valid."""
    if before is None or before.size > source.size:
        return
    if PREFIX + source.tree.root_at(before.size).hex() != before.root:
        return  # restored from another history
    segments = before.index.segments
    short = _short(segments)
    if short >= SHORT:
        segments = segments[:-short]
    touched = _erased_since(source, before.size)
    for segment in segments:
        positions = range(segment.first, segment.first + segment.count)
        yield segment, not any(position in positions for position in touched)


def _short(segments: Sequence[LogSegment]) -> int:
    """Return the number of short segments at the end."""
    number = 0
    for segment in reversed(segments):
        if segment.count >= ROWS or segment.log.bytes >= PIECE_BYTES:
            break
        number += 1
    return number


def _erased_since(source: Replica, size: int) -> set[int]:
    """Return the positions of records erased or redacted by records from a position on."""
    reader, bank, positions = source.reader, source.bank, set[int]()
    rows = reader.scan(bank, _TAKING_AWAY, after=size - 1)
    while page := list(islice(rows, _TOGETHER)):
        logged = require_logged(source.tree, bank, page)
        models = [record[1] for record in logged if record is not None]
        names = [model.entry for model in models if isinstance(model, Erasure | Redaction)]
        positions.update(row.seq for row in reader.get(bank, names))
    return positions


def _cut(source: Replica, first: int, end: int, packs: Packs) -> Iterator[LogSegment]:
    """Write the records from a position on, and yield their segments."""
    batch, size = list[Row](), 0
    rows = islice(source.reader.scan(source.bank, _ALL, after=first - 1), end - first)
    for row in rows:
        batch.append(row)
        size += len(row.body or b"") + len(row.id)
        if len(batch) == ROWS or size >= PIECE_BYTES:
            yield _pack_rows(source, batch, packs)
            batch, size = [], 0
    if batch:
        yield _pack_rows(source, batch, packs)


def _pack_rows(source: Replica, rows: list[Row], packs: Packs) -> LogSegment:
    """Write verified records as one segment.

    Raises:
        VerificationError: If one is not what was logged, or is empty without being erased.
    """
    logged = require_logged(source.tree, source.bank, rows, redacted_in(source))
    for row, record in zip(rows, logged, strict=True):
        if record is None and not source.trusted.fold.is_erased(row.id, source.size):
            raise VerificationError(f"record {row.seq} is empty, but no erasure is logged")
    log = packs.put(
        _encode([PackedRow(row.seq, row.id, row.type, row.at, row.body) for row in rows])
    )
    segment = LogSegment(first=rows[0].seq, count=len(rows), log=log)
    return _vectored(source.reader, source.bank, segment, [row.id for row in rows], packs)


def _with_vectors(source: Replica, segment: LogSegment, packs: Packs) -> LogSegment:
    """Return a reused segment with the current vectors of its records."""
    if not source.reader.vectors.generations(source.bank):
        return msgspec.structs.replace(segment, vectors=[])
    rows = source.reader.scan(source.bank, _ALL, after=segment.first - 1)
    ids = [row.id for row in islice(rows, segment.count)]
    return _vectored(source.reader, source.bank, segment, ids, packs)


def _vectored(
    reader: Reader, bank: str, segment: LogSegment, ids: list[str], packs: Packs
) -> LogSegment:
    packed = list[SegmentVectors]()
    for generation in sorted(reader.vectors.generations(bank), key=repr):
        step = max(1, PIECE_BYTES // (8 * generation.dimensions + _ID_BYTES))
        refs, count = list[Ref](), 0
        for start in range(0, len(ids), step):
            part = ids[start : start + step]
            vectors = reader.vectors.get(bank, generation, part)
            if vectors:
                in_order = {name: vectors[name] for name in part if name in vectors}
                refs.append(packs.put(_packed(in_order)))
                count += len(vectors)
        if refs:
            packed.append(
                SegmentVectors(
                    model=generation.model,
                    dimensions=generation.dimensions,
                    number=generation.number,
                    count=count,
                    packs=refs,
                )
            )
    return msgspec.structs.replace(segment, vectors=packed)


def _packed(vectors: Mapping[str, Sequence[float]]) -> bytes:
    """Return packed vectors, in 32 bits if that is lossless."""
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
    """Yield the keys with memory files below a folder, sorted."""
    if folder.is_dir():
        for entry in sorted(folder.iterdir()):
            if (entry / OWN / FILE_NAME).is_file():
                yield entry.name


def take_files(folder: Path, key: str, packs: Packs) -> FilesBackup:
    """Back up a consistent copy of the memory files of a key; others may write concurrently.

    The manifest has the contents, versions and audit. The folder that users see is a copy of it,
    created again when the files are opened.

    Args:
        folder: Folder of the keys.
        key: The key.
        packs: Packs to write.

    Raises:
        StoreError: If they cannot be read.
        TargetError: If they cannot be written.
    """
    path = folder / key / OWN / FILE_NAME
    refs, size = [], 0
    with tempfile.TemporaryDirectory(prefix="satchel-backup-") as held:
        copy = Path(held) / FILE_NAME
        source = open_for_reading(path, busy_ms=_BUSY_MS, vfs=None).connection
        with closing(source), translated(str(path), source), deferred(source):
            copy_database(source, copy, progress=None, vfs=None)
        with copy.open("rb") as stream:
            # Pages keep their positions, so unchanged pieces are already known.
            while piece := stream.read(PIECE_BYTES // 4):
                refs.append(packs.put(piece))
                size += len(piece)
    return FilesBackup(key=key, size=size, index=put_index(packs, FilesIndex(packs=refs)))


def require_free(part: FilesBackup, folder: Path, *, overwrite: bool) -> None:
    """Require that memory files can be restored below a folder.

    Raises:
        VerificationError: If their key is not a valid name of a folder.
        TargetExistsError: If files of the key exist, and may not be replaced.
    """
    if "/" in part.key or "\0" in part.key or part.key.startswith("."):
        raise VerificationError(f"the backup has files of an invalid key: {part.key!r}")
    target = folder / part.key
    if os.path.lexists(target) and not overwrite:
        raise TargetExistsError(
            f"memory files of {part.key!r} already exist",
            file=str(target),
            hint="To replace them (they are renamed, not deleted): --overwrite.",
        )


def put_files(part: FilesBackup, packs: Packs, folder: Path, *, overwrite: bool) -> Path | None:
    """Restore memory files atomically.

    Args:
        part: The files of a key.
        packs: Packs of the backup.
        folder: Folder of the keys.
        overwrite: Replace existing files.

    Returns:
        Where the existing files were moved to; None if there were none.

    Raises:
        TargetExistsError: If files of the key exist, and may not be replaced.
        VerificationError: If the data does not verify.
        TargetError: If they cannot be written.
    """
    require_free(part, folder, overwrite=overwrite)
    target = folder / part.key
    private_folder(folder)
    with tempfile.TemporaryDirectory(prefix=".restoring-", dir=folder.parent) as temporary:
        staged = Path(temporary) / "files"
        own = private_folder(staged / OWN)
        with atomic_write(own / FILE_NAME, overwrite=False, mode=PRIVATE_FILE) as stream:
            for ref in read_index(packs, part.index, FilesIndex).packs:
                stream.write(packs.get(ref))
        with MemoryStore(root=staged) as store:  # writes the files in the manifest
            audit = store.verify_audit()
            if not audit.ok:
                problem = "; ".join(audit.problems[:3])
                raise VerificationError(
                    f"the memory files of {part.key!r} do not verify: {problem}"
                )
        aside = None
        if os.path.lexists(target):
            beside = private_folder(folder.parent / ".before-restore")
            aside = beside / f"{part.key[:64]}-{secrets.token_hex(4)}"
            target.rename(aside)
        staged.rename(target)
    return aside


_FULL = 1 << 20
"""Size in bytes from which a piece ends with the current file."""

_ONE_OF = 32
"""Average number of small files in a piece."""


class PackedFile(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A file in a backup."""

    path: str
    size: Annotated[int, Meta(ge=0, le=MOST_BYTES)]
    digest: Digest
    """BLAKE3 of its content."""


class AgentContents(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Files and settings of an agent in a backup."""

    said: dict[str, Any] = {}
    """Its settings, with secrets replaced."""

    files: list[PackedFile] = []
    """In the order in the packs."""

    links: dict[str, str] = {}
    """Symbolic links and their targets; they are not restored."""

    left: dict[str, str] = {}
    """Omitted files, with reasons."""


def write_agent(
    packs: Packs,
    identity: str,
    bank: str | None,
    files: Iterable[tuple[str, bytes]],
    describe: Callable[[], AgentContents],
) -> AgentBackup:
    """Write the files of an agent, and return its part of the manifest.

    Args:
        packs: Packs to write.
        identity: ID of the agent.
        bank: ID of the bank with its memory.
        files: Paths and contents, always in the same order.
        describe: Returns the rest of the contents, after all files have been read.

    Raises:
        TargetError: If something cannot be written.
    """
    packed_files, refs, pending = list[PackedFile](), [], bytearray()
    for path, data in files:
        if pending and len(data) >= _FULL:
            refs.append(packs.put(bytes(pending)))
            pending.clear()
        packed_files.append(PackedFile(path, len(data), blake3(data).hexdigest()))
        pending += data
        if len(pending) >= _FULL or (pending and _ends_a_piece(path)):
            refs.append(packs.put(bytes(pending)))
            pending.clear()
    if pending:
        refs.append(packs.put(bytes(pending)))
    contents = msgspec.structs.replace(describe(), files=packed_files)
    index = AgentIndex(contents=packs.put(msgspec.json.encode(contents)), packs=refs)
    return AgentBackup(
        id=identity,
        bank=bank,
        files=len(packed_files),
        size=sum(file.size for file in packed_files),
        index=put_index(packs, index),
    )


def read_agent_contents(part: AgentBackup, packs: Packs) -> AgentContents:
    """Return the contents that a backup has of an agent.

    Raises:
        VerificationError: If they do not verify, or a path leads out of a folder.
        EncryptionError: If no identity here decrypts them.
    """
    data = packs.get(read_index(packs, part.index, AgentIndex).contents)
    try:
        contents = msgspec.json.decode(data, type=resolved(AgentContents))
        for file in contents.files:
            parts_of(file.path)
    except (msgspec.DecodeError, PathRefusedError) as error:
        raise VerificationError(f"the files of the agent {part.id}: {error}") from None
    sizes, paths = [file.size for file in contents.files], {file.path for file in contents.files}
    if not len(sizes) == len(paths) == part.files or sum(sizes) != part.size:
        raise VerificationError(f"the files of the agent {part.id} differ from those of the backup")
    return contents


def files_of(
    part: AgentBackup, contents: AgentContents, packs: Packs
) -> Iterator[tuple[str, bytes]]:
    """Yield the files of an agent, each verified by its hash.

    Raises:
        VerificationError: If one does not verify.
        EncryptionError: If no identity here decrypts them.
    """
    refs = iter(read_index(packs, part.index, AgentIndex).packs)
    piece, offset = b"", 0
    for file in contents.files:
        if file.size and offset == len(piece):
            ref = next(refs, None)
            piece, offset = b"" if ref is None else packs.get(ref), 0
        data = piece[offset : offset + file.size]
        offset += file.size
        if len(data) != file.size or blake3(data).hexdigest() != file.digest:
            raise VerificationError(f"a file of the agent {part.id} does not match its digest")
        yield file.path, data
    if offset != len(piece) or next(refs, None) is not None:
        raise VerificationError(f"the backup has unexpected data for the agent {part.id}")


def _ends_a_piece(path: str) -> bool:
    return blake3(path.encode()).digest()[0] % _ONE_OF == 0


Tell = Callable[[int, int], None]
"""Called with the number of verified records and the total."""


class VerificationCounts(NamedTuple):
    """Counts of verified packs."""

    packs: int
    """Number of distinct packs."""

    unopened: int = 0
    """Number of packs that no identity here decrypts."""


def verify_contents(
    manifest: Manifest, packs: Packs, tell: Tell | None = None
) -> VerificationCounts:
    """Read a backup back completely, and verify it.

    Raises:
        VerificationError: If something does not verify.
        TargetError: If the destination does not answer.
    """
    verifier, done = _ContentVerifier(packs), 0
    total = sum(part.size for part in manifest.banks)
    require_unique([part.bank for part in manifest.banks], "bank")
    require_unique([part.key for part in manifest.files], "key of memory files")
    for part in manifest.banks:
        for number in verifier.bank(part):
            done += number
            if tell is not None:
                tell(done, total)
    require_unique([part.id for part in manifest.agents], "agent")
    for agent in manifest.agents:
        verifier.agent(agent)
    for files in manifest.files:
        refs = read_index(packs, files.index, FilesIndex).packs
        if sum(ref.bytes for ref in refs) != files.size:
            raise VerificationError(f"the memory files of {files.key} have a different size")
        verifier.read(*refs)
        verifier.seen.update(ref.name for ref in (files.index, *refs))
    return VerificationCounts(len(verifier.seen), len(verifier.unopened))


def head_of(part: BankBackup) -> StoredHead:
    """Return the head of a bank as stores hold it."""
    return StoredHead(part.head.encode(), bytes.fromhex(part.peaks))


def segments_of(part: BankBackup, index: BankIndex) -> list[LogSegment]:
    """Return the segments of a log, which must be contiguous and complete.

    Raises:
        VerificationError: If they are not.
    """
    position = 0
    for segment in index.segments:
        if segment.first != position:
            break
        position += segment.count
    else:
        if position == part.size:
            return index.segments
    raise VerificationError(f"records after {position} of the log are not in the backup")


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
    """Verification of one backup, with the packs seen so far."""

    def __init__(self, packs: Packs) -> None:
        self._packs = packs
        self.seen, self.unopened = set[str](), set[str]()

    def read(self, *refs: Ref) -> None:
        """Read packs; undecryptable ones are verified by the hash of their bytes."""
        for ref in refs:
            try:
                self._packs.get(ref)
            except EncryptionError:
                self.unopened.add(ref.name)

    def agent(self, part: AgentBackup) -> None:
        """Verify an agent: each file matches, and there is no other data."""
        index = read_index(self._packs, part.index, AgentIndex)
        self.seen.update(ref.name for ref in (part.index, *index.refs()))
        try:
            for _ in files_of(part, read_agent_contents(part, self._packs), self._packs):
                pass
        except EncryptionError:
            self.read(*index.refs())

    def bank(self, part: BankBackup) -> Iterator[int]:
        """Verify a bank, and yield the numbers of verified records."""
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
        self._side_data(index)
        self.seen.update(ref.name for ref in (part.index, *index.refs()))

    def _vectors(self, held: SegmentVectors) -> None:
        try:
            for _ in vectors_in(held, self._packs):
                pass
        except EncryptionError:
            self.read(*held.packs)

    def _side_data(self, index: BankIndex) -> None:
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
    """Verification of a log, record by record."""

    def __init__(self, bank: str) -> None:
        self._bank = bank
        self._frontier, self._counts = Frontier(), Counter[str]()
        self._empty, self._erased = set[str](), set[str]()
        self._forms, self._redacted = dict[str, str](), dict[str, str]()
        self._returned = set[str]()
        """IDs of entries that were restored after a redaction."""

    def take(self, rows: list[PackedRow]) -> int:
        """Add records, and return their number."""
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
        """Require that the log matches the signed head."""
        if PREFIX + self._frontier.root.hex() != head.root or self._counts != head.counts:
            raise VerificationError("the log of the backup does not match the signed head")
        if self._empty - self._erased:
            identity = min(self._empty - self._erased)
            raise VerificationError(f"the record {identity} is empty, but no erasure is logged")
        for identity, result in self._redacted.items():
            # Restored, and its ID matches.
            returned = identity in self._returned and identity not in self._forms
            if identity not in self._empty and not returned and self._forms.get(identity) != result:
                raise VerificationError(f"the record {identity} is not in its logged form")
        if self._forms.keys() - self._redacted.keys():
            identity = min(self._forms.keys() - self._redacted.keys())
            raise VerificationError(
                f"the record {identity} is redacted, but no redaction is logged"
            )

    def _require_own(self, row: PackedRow, body: bytes) -> None:
        try:
            record, model = open_shape(body)
            if isinstance(model, Entry) and model.nonce is None:
                self._forms[row.id] = digest(body)
            elif not has_valid_id(record):
                open_record(body)  # raises the error
        except InputError as error:
            raise VerificationError(f"record {row.seq} of the backup: {error.message}") from None
        if record.id != row.id or record.type != row.type:
            raise VerificationError(f"record {row.seq} of the backup is a different record")
        if isinstance(model, Erasure):
            self._erased.add(model.entry)
        if isinstance(model, Redaction):
            self._redacted[model.entry] = model.result
            (self._returned.discard if model.fields else self._returned.add)(model.entry)
