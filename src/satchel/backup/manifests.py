"""Manifests and indexes of backups: signed, small, and strictly parsed.

A manifest names each bank by its signed head and by one pack with its index; the index names the
packs of the log, in order, and of unlogged data. With the manifest, all the rest can be verified.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta

from satchel.backup.storage import Packs, Ref
from satchel.crypto.canonical import canonical_checked, decode_canonical
from satchel.crypto.keys import PayloadType, SigningKey, check, parse_signatures, signature_of
from satchel.errors import InputError, VerificationError
from satchel.model.values import Id, is_canonical_time, resolved
from satchel.ports.vectors import Generation

FORMAT = "satchel-backup/1"

BEFORE_RESTORE = "before a restore"
"""Reason in a safety copy, which a restore creates of what it replaces."""

MOST_BYTES = 32 << 20
"""Maximum size of a manifest, a mark or an erasure list in bytes."""

NAME = r"^[0-9]{8}T[0-9]{12}Z-[0-9a-f]{8}$"
"""Pattern of IDs of backups: the time and some random digits."""

SERIES = r"^[0-9a-f]{16}$"

_Count = Annotated[int, Meta(ge=0, le=2**53 - 1)]
_T = TypeVar("_T", bound=msgspec.Struct)


class SegmentVectors(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The vectors of one generation for the records of a segment."""

    model: Annotated[str, Meta(min_length=1, max_length=1000)]
    dimensions: Annotated[int, Meta(ge=1, le=65_536)]
    number: _Count
    count: _Count
    packs: list[Ref]

    @property
    def generation(self) -> Generation:
        """Number of the generation."""
        return Generation(self.model, self.dimensions, self.number)


class LogSegment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A segment of a log."""

    first: _Count
    """Position of its first record."""

    count: Annotated[int, Meta(ge=1, le=2**53 - 1)]
    log: Ref
    vectors: list[SegmentVectors] = []


class BackupBlob(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A blob of a bank."""

    digest: Id
    size: _Count
    packs: list[Ref]


class BankIndex(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Index of one bank."""

    segments: list[LogSegment]
    blobs: list[BackupBlob] = []
    side: list[Ref] = []
    """Unlogged values."""

    def refs(self) -> Iterator[Ref]:
        """Yield the packs that it names."""
        for segment in self.segments:
            yield segment.log
            for vectors in segment.vectors:
                yield from vectors.packs
        for blob in self.blobs:
            yield from blob.packs
        yield from self.side


class BankBackup(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One bank in a backup."""

    bank: Id
    name: str | None = None
    size: Annotated[int, Meta(ge=1, le=2**53 - 1)]
    """Number of records in its log."""

    root: Id
    head: Annotated[str, Meta(max_length=1 << 20)]
    """The signed head in canonical JSON."""

    peaks: Annotated[str, Meta(pattern="^([0-9a-f]{64})*$", max_length=64 * 64)]
    """The roots of the perfect subtrees of its tree, in hex, largest first."""

    index: Ref


class FilesBackup(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The memory files of one key in a backup."""

    key: Annotated[str, Meta(min_length=1, max_length=255)]
    size: _Count
    index: Ref
    """Pack with the list of packs of the manifest of the files."""


class AgentBackup(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings and files of one agent."""

    id: Annotated[str, Meta(min_length=1, max_length=64)]
    bank: Id | None = None
    """ID of the bank with its memory; None if there was none."""

    files: _Count
    size: _Count
    """Size of all files in bytes."""

    index: Ref


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A backup."""

    format: Literal["satchel-backup/1"] = "satchel-backup/1"
    id: Annotated[str, Meta(pattern=NAME)]
    series: Annotated[str, Meta(pattern=SERIES)]
    """Identifies the machine and the store."""

    at: str
    """Time of the backup, in UTC."""

    tool: str
    store: str
    """Address of the store, for display."""

    host: str = ""
    reason: str = ""
    """Reason for an automatic backup: ``before a restore``."""

    banks: list[BankBackup]
    files: list[FilesBackup] = []
    agents: list[AgentBackup] = []
    missing: list[str] = []
    """What is missing, with reasons; such a backup never counts as complete."""

    recipients: list[str] = []
    """Recipients that it is encrypted to."""

    def __post_init__(self) -> None:
        if not is_canonical_time(self.at):
            raise ValueError("`at` is not a time")


class Cover(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The unencrypted cover of an encrypted backup."""

    format: Literal["satchel-backup-cover/1"] = "satchel-backup-cover/1"
    id: Annotated[str, Meta(pattern=NAME)]
    series: Annotated[str, Meta(pattern=SERIES)]
    manifest: str
    """The signed manifest as an age file, in base64."""

    pieces: str
    """The packs, each with the 32 bytes of its name and 8 bytes of its size, in base64."""


class Mark(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Mark of a verified backup."""

    format: Literal["satchel-backup-mark/1"] = "satchel-backup-mark/1"
    id: Annotated[str, Meta(pattern=NAME)]
    series: Annotated[str, Meta(pattern=SERIES)]
    manifest: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
    """BLAKE3 of the manifest as stored."""

    at: str
    packs: _Count
    """Number of packs read."""

    unopened: _Count = 0
    """Number of packs that could only be verified by the hash of their encrypted bytes."""


class SignedValue(msgspec.Struct, frozen=True, kw_only=True):
    """A signed value with its signer."""

    value: Any
    key: str


class FilesIndex(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The packs of a file, in order."""

    packs: list[Ref]

    def refs(self) -> Iterator[Ref]:
        """Yield the packs that it names."""
        yield from self.packs


class AgentIndex(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Index of the files of an agent."""

    contents: Ref = msgspec.field(name="told")
    """Pack with their names, which only the recipients can decrypt."""

    packs: list[Ref]
    """The files, concatenated."""

    def refs(self) -> Iterator[Ref]:
        """Yield the packs that it names."""
        yield self.contents
        yield from self.packs


def signed(value: msgspec.Struct, key: SigningKey) -> bytes:
    """Return a value with one signature, as stored."""
    payload = canonical_checked(msgspec.to_builtins(value))
    signature = signature_of(PayloadType.BACKUP, payload, key)
    return b'{"signatures":[%b],"signed":%b}' % (msgspec.json.encode(signature), payload)


def opened(data: bytes, kind: type[_T]) -> tuple[_T, str]:
    """Return a signed value with its signer, who need not be trusted.

    Raises:
        VerificationError: If it cannot be parsed, or the signature is invalid.
    """
    try:
        found = decode_canonical(data)
        payload = found["signed"]
        signatures = parse_signatures(found["signatures"], 1)
        value = msgspec.convert(payload, resolved(kind))
        (checked,) = check(PayloadType.BACKUP, payload, signatures)
    except (InputError, msgspec.ValidationError, KeyError, TypeError, ValueError) as error:
        raise VerificationError(f"not a backup {kind.__name__.lower()}: {error}") from None
    if not checked.valid:
        raise VerificationError(f"the signature of a backup: {checked.problem}")
    return value, checked.key


def opened_backup(data: bytes) -> tuple[Manifest | Cover, str]:
    """Return the manifest or cover of a backup with its signer; see ``opened``."""
    is_cover = data.find(b'"format":"satchel-backup-cover/1"') > 0
    if is_cover:
        with suppress(VerificationError):
            return opened(data, Cover)
    return opened(data, Manifest)


def read_index(packs: Packs, ref: Ref, kind: type[_T]) -> _T:
    """Return the index that a pack holds.

    Raises:
        VerificationError: If it is not an index.
    """
    try:
        return msgspec.json.decode(packs.get(ref), type=resolved(kind))
    except msgspec.DecodeError as error:
        raise VerificationError(f"an index of the backup cannot be read: {error}") from None


def put_index(packs: Packs, index: msgspec.Struct) -> Ref:
    """Write an index."""
    return packs.put(msgspec.json.encode(index), is_index=True)


def refs_of(manifest: Manifest, packs: Packs) -> Iterator[Ref]:
    """Yield the packs of a backup; some may be repeated.

    Raises:
        VerificationError: If an index cannot be read.
    """
    for ref, kind in _indexes(manifest):
        yield ref
        yield from read_index(packs, ref, kind).refs()


def readable_refs(manifest: Manifest, packs: Packs) -> Iterator[Ref]:
    """Yield the packs of a backup, as far as its indexes can be read."""
    for ref, kind in _indexes(manifest):
        yield ref
        with suppress(VerificationError):
            yield from read_index(packs, ref, kind).refs()


def _indexes(
    manifest: Manifest,
) -> Iterator[tuple[Ref, type[BankIndex] | type[FilesIndex] | type[AgentIndex]]]:
    yield from ((part.index, BankIndex) for part in manifest.banks)
    yield from ((part.index, FilesIndex) for part in manifest.files)
    yield from ((part.index, AgentIndex) for part in manifest.agents)


def require_unique(values: Sequence[str], noun: str) -> None:
    """Require that names are unique.

    Raises:
        VerificationError: If they are not.
    """
    if len(set(values)) != len(values):
        raise VerificationError(f"a backup lists a {noun} twice")
