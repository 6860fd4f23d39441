"""Storage of backups: objects at a destination, and the packs that backups consist of.

A destination is a folder or an object store whose objects are written atomically. Its contents are
untrusted: no link is followed, no name leads out of a folder, and reads are bounded.

What two backups have in common is one pack, written once. A pack has a short header with its
compression and size, then the data, compressed or not. It is verified by its hash: a reader gets
what was written, or an error, and never more than the header says or a pack may hold.

An encrypted pack is an age file of that. Its name is the hash of the encrypted bytes, which differ
each time, so the name does not reveal the contents, and the pack can be verified without decrypting
it. Only those who can decrypt the index know the hash of the contents.
"""

import gzip
import re
import struct
import zlib
from base64 import b64decode, b64encode
from binascii import Error as BadBase64
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Protocol, Self

import msgspec
from blake3 import blake3
from msgspec import Meta

from satchel.crypto.encryption import Unlocker, decrypt_bytes, encrypt_bytes, new_identity
from satchel.errors import (
    EncryptionError,
    LimitError,
    MissingExtraError,
    PathRefusedError,
    SatchelError,
    TargetError,
    UnreadableError,
    VerificationError,
)
from satchel.files.remote.objects import MemoryObjects, Objects
from satchel.runtime.contained_folder import ContainedFolder

SCHEMES = ("s3", "gs", "az", "memory")
"""Schemes of object stores; any other destination is a folder of this machine."""

TOPS = ("catalogue", "marks", "packs", "erased")
"""The folders of a destination."""

_DEEPEST = 4


class BackupStorage(Protocol):
    """Objects by name; names are parts of ASCII letters and digits, separated by ``/``."""

    name: str
    """Name for messages."""

    def get(self, name: str, most: int) -> bytes | None:
        """Return an object; None if there is none.

        Raises:
            LimitError: If it has more bytes than ``most``.
            TargetError: If the storage does not answer.
        """
        ...

    def size(self, name: str) -> int | None:
        """Return the size of an object in bytes; None if there is none."""
        ...

    def put(self, name: str, data: bytes) -> None:
        """Write or replace an object durably.

        Raises:
            TargetError: If it cannot be written; an existing object is kept.
        """
        ...

    def remove(self, name: str) -> None:
        """Remove an object if it exists."""
        ...

    def names(self, under: str) -> Iterator[str]:
        """Yield the names of the objects whose names start with ``under`` and a ``/``."""
        ...

    def tidy(self) -> None:
        """Remove the temporary files of killed writers; no other writer may be active."""
        ...

    def close(self) -> None:
        """Close it."""
        ...


class FolderStorage:
    """A folder of this machine; new files have mode 0600.

    Args:
        path: The folder.
        create: Create it if it is missing.

    Raises:
        UnreadableError: If it does not exist.
        TargetError: If it cannot be created.
        PathRefusedError: If it is a link.
    """

    def __init__(self, path: Path, *, create: bool = False) -> None:
        self.name = str(path)
        self._folder = ContainedFolder(path, create=create)
        self._folders = set[str]()

    def get(self, name: str, most: int) -> bytes | None:
        """See ``BackupStorage``."""
        try:
            return self._folder.read(name, limit=most)
        except UnreadableError as error:
            _unless_missing(error)
            return None

    def size(self, name: str) -> int | None:
        """See ``BackupStorage``."""
        try:
            with self._folder.open(name) as stream:
                return stream.seek(0, 2)
        except UnreadableError as error:
            _unless_missing(error)
            return None

    def put(self, name: str, data: bytes) -> None:
        """See ``BackupStorage``."""
        above, _, _ = name.rpartition("/")
        if above and above not in self._folders:
            self._folder.make_folder(above)
            self._folders.add(above)
        self._folder.write(name, data)

    def remove(self, name: str) -> None:
        """See ``BackupStorage``."""
        try:
            self._folder.remove(name)
        except (UnreadableError, TargetError) as error:
            _unless_missing(error)

    def names(self, under: str) -> Iterator[str]:
        """See ``BackupStorage``."""
        yield from (name for name in self._walk(under) if not _is_draft(name))

    def _walk(self, under: str) -> Iterator[str]:
        waiting = [under]
        while waiting:
            folder = waiting.pop()
            try:
                entries = self._folder.listing(folder)
            except UnreadableError as error:
                _unless_missing(error)
                continue
            for entry in entries:
                name = f"{folder}/{entry.name}"
                if entry.kind == "folder" and name.count("/") < _DEEPEST:
                    waiting.append(name)
                elif entry.kind == "file":
                    yield name

    def tidy(self) -> None:
        """See ``BackupStorage``."""
        for top in TOPS:
            for name in [name for name in self._walk(top) if _is_draft(name)]:
                self.remove(name)

    def close(self) -> None:
        """See ``BackupStorage``."""
        self._folder.close()


class ObjectStorage:
    """An object store.

    Args:
        address: Address, such as ``s3://BUCKET/PREFIX``.

    Raises:
        MissingExtraError: If its library is not installed.
        TargetError: If the address is invalid.
    """

    def __init__(self, address: str) -> None:
        self.name = address
        self._address = address.rstrip("/")
        self._parts = dict[str, Objects]()

    def _at(self, name: str) -> tuple[Objects, str]:
        """Return the objects below the first part of a name, and the rest of it."""
        top, _, rest = name.partition("/")
        if top not in self._parts:
            self._parts[top] = _objects(f"{self._address}/{top}")
        return self._parts[top], rest

    def get(self, name: str, most: int) -> bytes | None:
        """See ``BackupStorage``."""
        objects, rest = self._at(name)
        size = objects.size(rest)
        if size is None:
            return None
        if size > most:
            raise LimitError(f"the object has more than {most:,} bytes", file=f"{self.name}/{name}")
        # It may have been replaced by now: no more than this size is read.
        return objects.part(rest, 0, size)

    def size(self, name: str) -> int | None:
        """See ``BackupStorage``."""
        objects, rest = self._at(name)
        return objects.size(rest)

    def put(self, name: str, data: bytes) -> None:
        """See ``BackupStorage``."""
        objects, rest = self._at(name)
        objects.put(rest, data)

    def remove(self, name: str) -> None:
        """See ``BackupStorage``."""
        objects, rest = self._at(name)
        objects.remove(rest)

    def names(self, under: str) -> Iterator[str]:
        """See ``BackupStorage``."""
        objects, rest = self._at(under)
        top = under.partition("/")[0]
        for name in objects.names():
            if not rest or name.startswith(f"{rest}/"):
                yield f"{top}/{name}"

    def tidy(self) -> None:
        """See ``BackupStorage``; object stores have no partial objects."""

    def close(self) -> None:
        """See ``BackupStorage``; nothing is open."""


def open_storage(destination: str, *, create: bool = False) -> BackupStorage:
    """Open a destination: the path of a folder, or the address of an object store.

    Raises:
        UnreadableError: If there is no such folder, and it is not to be created.
        TargetError: If it cannot be opened or created.
        PathRefusedError: If it is not a destination.
    """
    scheme, is_address, _ = destination.partition("://")
    if not is_address:
        return FolderStorage(Path(destination).expanduser().absolute(), create=create)
    if scheme == "file":
        path = destination.removeprefix("file://")
        if not path.startswith("/"):
            raise PathRefusedError(
                "not a backup destination: file:// needs an absolute path",
                file=destination,
                hint="Write it as file:///absolute/folder.",
            )
        return FolderStorage(Path(path), create=create)
    if scheme not in SCHEMES:
        raise PathRefusedError(
            f"not a backup destination: {scheme}://",
            file=destination,
            hint=f"Use a folder, or an address that starts with one of {', '.join(SCHEMES)}.",
        )
    return ObjectStorage(destination)


def _is_draft(name: str) -> bool:
    """Return whether a file is the temporary file of a killed or active writer."""
    last = name.rpartition("/")[2]
    return last.startswith(".") and last.endswith(".tmp")


def _unless_missing(error: SatchelError) -> None:
    if not isinstance(error.__cause__, FileNotFoundError):
        raise error


def _objects(address: str) -> Objects:
    if address.startswith("memory://"):
        return MemoryObjects(address)
    from satchel.files.remote.objects import ObstoreObjects

    return ObstoreObjects(address)


MOST_PIECES = 500_000
"""Maximum number of packs of an encrypted backup: some hundred gigabytes."""

_PIECE = struct.Struct(">32sQ")


class PackEncryption:
    """Encryption and decryption of packs at a destination.

    Args:
        unlocking: Identities of this machine.
        recipients: Recipients of new packs, as in age; none for unencrypted.
        own: Recipient of this machine, for indexes.
    """

    def __init__(
        self, unlocking: Unlocker, recipients: Iterable[str] = (), own: str | None = None
    ) -> None:
        self.recipients = tuple(sorted(set(recipients)))
        self._unlocking, self._own = unlocking, own
        self._identities: list[str] | None = None
        self._reader: tuple[str, str] | None = None

    @property
    def locks(self) -> bool:
        """Whether new packs are encrypted."""
        return bool(self.recipients)

    def ready(self) -> None:
        """Find the identities of this machine.

        Raises:
            UnreadableError, MalformedError, EncryptionError: If a named one is invalid.
        """
        if self._identities is None:
            self._identities = list(dict.fromkeys(self._unlocking.identities()))

    def closed(self, data: bytes, *, is_index: bool) -> bytes:
        """Return bytes encrypted.

        They are also encrypted to a temporary identity of this object, so that they can be read
        back for verification.

        Args:
            data: The bytes.
            is_index: Whether they are an index, which this machine can decrypt, too.

        Raises:
            MissingExtraError: If the extra for encryption is not installed.
        """
        if self._reader is None:
            self._reader = new_identity()
        own = [self._own] if is_index and self._own is not None else []
        return encrypt_bytes(data, [*self.recipients, self._reader[1], *own])

    def opened(self, stored: bytes) -> bytes:
        """Return bytes decrypted.

        Raises:
            EncryptionError: If no identity here decrypts them.
            VerificationError: If they were altered, or are not encrypted.
            UnreadableError, MalformedError: If a named identity is invalid.
        """
        self.ready()
        temporary = [self._reader[0]] if self._reader is not None else []
        try:
            decrypted = decrypt_bytes(stored, [*temporary, *(self._identities or ())])
        except EncryptionError as error:
            raise VerificationError(f"encrypted data of a backup: {error.message}") from None
        if decrypted is None:
            raise EncryptionError(
                "no identity here decrypts the backup",
                hint="Pass an identity it was encrypted to: satchel --identity FILE.",
            )
        return decrypted


PLAIN = PackEncryption(Unlocker())
"""New packs are unencrypted; existing ones are decrypted with identities in the environment."""


def encode_pieces(pieces: Mapping[str, int]) -> str:
    """Return names and sizes of packs as a text.

    Raises:
        LimitError: If there are more than a backup may have.
    """
    if len(pieces) > MOST_PIECES:
        raise LimitError(f"an encrypted backup can have at most {MOST_PIECES:,} pieces")
    packed = (_PIECE.pack(bytes.fromhex(name), size) for name, size in sorted(pieces.items()))
    return b64encode(b"".join(packed)).decode()


def decode_pieces(text: str) -> Iterator[tuple[str, int]]:
    """Yield the names and sizes of packs in a text.

    Raises:
        VerificationError: If it cannot be parsed.
    """
    raw = unbased(text)
    if len(raw) % _PIECE.size:
        raise VerificationError("the list of the pieces of a backup is truncated")
    for name, size in _PIECE.iter_unpack(raw):
        yield name.hex(), size


def unbased(text: str) -> bytes:
    """Return bytes decoded from base64.

    Raises:
        VerificationError: If it is invalid.
    """
    try:
        return b64decode(text, validate=True)
    except (BadBase64, ValueError):
        raise VerificationError("a backup contains bytes that cannot be read") from None


_GZIP_LEVEL, _ZSTD_LEVEL = 6, 9
_AS_GZIP = 31
_WINDOW = 27
"""Maximum window of zstd as a power of two, which bounds the memory for reading a pack."""


class Compression(StrEnum):
    """Compression of a pack."""

    GZIP = "gzip"
    ZSTD = "zstd"
    NONE = "none"

    @property
    def letter(self) -> bytes:
        """Letter in the header of a pack."""
        return _LETTERS[self]

    @classmethod
    def of(cls, letter: bytes) -> Self | None:
        """Return the compression for a letter."""
        return next((one for one in cls if _LETTERS[one] == letter), None)


_LETTERS = {Compression.GZIP: b"g", Compression.ZSTD: b"z", Compression.NONE: b"p"}


def require_compression(how: Compression) -> None:
    """Require that a compression is available.

    Raises:
        MissingExtraError: If its library is not installed.
    """
    if how is Compression.ZSTD:
        _zstd()


def compress(data: bytes, how: Compression) -> bytes:
    """Return bytes compressed, deterministically.

    Raises:
        MissingExtraError: If its library is not installed.
    """
    if how is Compression.GZIP:
        return gzip.compress(data, _GZIP_LEVEL, mtime=0)
    return bytes(_zstd().compress(data, _ZSTD_LEVEL)) if how is Compression.ZSTD else data


def decompress(body: memoryview, how: Compression, size: int) -> bytes | None:
    """Return bytes decompressed; None if they do not have exactly the given size.

    Args:
        body: The bytes.
        how: Their compression.
        size: Expected size; at most one byte more is decompressed.

    Raises:
        MissingExtraError: If the library is not installed.
    """
    if how is Compression.NONE:
        return bytes(body) if len(body) == size else None
    unpacking, broken = _unpacking(how)
    try:
        data = bytes(unpacking.decompress(body, size + 1))
    except broken:
        return None
    return data if unpacking.eof and not unpacking.unused_data and len(data) == size else None


def _unpacking(how: Compression) -> tuple[Any, type[Exception]]:
    if how is Compression.GZIP:
        return zlib.decompressobj(_AS_GZIP), zlib.error
    zstd = _zstd()
    options = {zstd.DecompressionParameter.window_log_max: _WINDOW}
    return zstd.ZstdDecompressor(options=options), zstd.ZstdError


def _zstd() -> Any:
    try:
        from compression import zstd  # part of Python
    except ImportError:
        try:
            from backports import zstd
        except ImportError:
            raise MissingExtraError(
                "compressing with zstd needs a library that is not installed",
                hint='Reinstall satchel. Or set: compress = "gzip".',
            ) from None
    return zstd


MOST_BYTES = 64 << 20
"""Maximum size of the contents of a pack in bytes."""

PIECE_BYTES = 4 << 20
"""Size in bytes at which larger data is split."""

_HEADER = struct.Struct(">4scQ")
_MAGIC = b"SBP1"
_MOST_STORED = MOST_BYTES + (MOST_BYTES >> 6) + 65_536
_DIGEST = re.compile(r"[0-9a-f]{64}")

Digest = Annotated[str, Meta(pattern="^[0-9a-f]{64}$", max_length=64)]


class Ref(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Reference to a pack in a backup."""

    digest: Digest
    """BLAKE3 of its contents."""

    bytes: Annotated[int, Meta(ge=0, le=MOST_BYTES)]
    """Size of its contents in bytes."""

    stored: Annotated[int, Meta(ge=0, le=_MOST_STORED)]
    """Stored size in bytes."""

    locked: Digest | None = None
    """BLAKE3 of the encrypted bytes, if it is encrypted."""

    @property
    def name(self) -> str:
        """Its name in the storage: the hash of the encrypted bytes, or of the contents."""
        return self.locked or self.digest


def pack_path(series: str, name: str) -> str:
    """Return the object name of a pack."""
    return f"packs/{series}/{name[:2]}/{name}"


def digest_in(place: str) -> str | None:
    """Return the pack with an object name; None if it is not one of a pack."""
    name = place.rsplit("/", 1)[-1]
    return name if _DIGEST.fullmatch(name) else None


def packed(data: bytes, how: Compression) -> bytes:
    """Return a pack with the given contents, deterministically.

    Raises:
        MissingExtraError: If the library for compression is not installed.
    """
    return _HEADER.pack(_MAGIC, how.letter, len(data)) + compress(data, how)


def unpacked(stored: bytes, digest: str) -> bytes:
    """Return the contents of a pack.

    Raises:
        VerificationError: If they do not match the hash.
        MissingExtraError: If the library for its compression is not installed.
    """
    try:
        magic, letter, size = _HEADER.unpack_from(stored)
    except struct.error:
        raise _damaged(digest) from None
    how = Compression.of(letter)
    if magic != _MAGIC or how is None or size > MOST_BYTES:
        raise _damaged(digest)
    data = decompress(memoryview(stored)[_HEADER.size :], how, size)
    if data is None or blake3(data).hexdigest() != digest:
        raise _damaged(digest)
    return data


class Packs:
    """The packs of one series in a storage.

    Args:
        shelf: The storage.
        series: The series.
        how: Compression of new packs.
        known: Existing packs, which are not written again.
        locking: Encrypts new packs, and decrypts existing ones.
    """

    def __init__(
        self,
        shelf: BackupStorage,
        series: str,
        *,
        how: Compression = Compression.GZIP,
        known: Collection[Ref] = (),
        locking: PackEncryption = PLAIN,
    ) -> None:
        self._shelf, self._series, self._how, self._locking = shelf, series, how, locking
        self._known = {ref.digest: ref for ref in known}
        self.written = 0
        """Number of packs written."""

        self.bytes_written = 0
        self.watch: Callable[[int], None] | None = None
        """Called with the size of each pack that is read or written."""

    def put(self, data: bytes, *, is_index: bool = False) -> Ref:
        """Write bytes as a pack, unless it exists, and return its reference.

        Args:
            data: The bytes.
            is_index: Whether they are an index, which this machine can decrypt, too.

        Raises:
            TargetError: If they cannot be written.
        """
        digest = blake3(data).hexdigest()
        ref = self._known.get(digest)
        if ref is None:
            stored, locked = packed(data, self._how), None
            if self._locking.locks:
                stored = self._locking.closed(stored, is_index=is_index)
                locked = blake3(stored).hexdigest()
            ref = self._known[digest] = Ref(digest, len(data), len(stored), locked)
            self._shelf.put(pack_path(self._series, ref.name), stored)
            self.written += 1
            self.bytes_written += len(stored)
        self._tell(ref)
        return ref

    def get(self, ref: Ref) -> bytes:
        """Return the contents of a pack.

        Raises:
            VerificationError: If it is missing or altered.
            EncryptionError: If it is intact, but no identity here decrypts it.
            TargetError: If it cannot be read.
        """
        stored = self.stored(ref.name, ref.stored, is_hash=ref.locked is not None)
        if ref.locked is not None:
            stored = self._locking.opened(stored)
        data = unpacked(stored, ref.digest)
        if len(data) != ref.bytes:
            raise _damaged(ref.digest)
        self._tell(ref)
        return data

    def stored(self, name: str, size: int, *, is_hash: bool = True) -> bytes:
        """Return the stored bytes of a pack.

        Args:
            name: Name of the pack.
            size: Stored size in bytes.
            is_hash: Whether its name is the hash of these bytes, which is verified then.

        Raises:
            VerificationError: If it is missing or altered.
        """
        stored = self._shelf.get(pack_path(self._series, name), _MOST_STORED)
        if stored is None:
            raise VerificationError(f"the pack {name[:16]} of the backup is missing")
        if len(stored) != size or (is_hash and blake3(stored).hexdigest() != name):
            raise _damaged(name)
        return stored

    def require(self, ref: Ref) -> None:
        """Require that a pack exists with the right size; it is not read.

        Raises:
            VerificationError: If it does not.
        """
        if self._shelf.size(pack_path(self._series, ref.name)) != ref.stored:
            raise VerificationError(
                f"the pack {ref.name[:16]} of the backup is missing or truncated"
            )

    def _tell(self, ref: Ref) -> None:
        if self.watch is not None:
            self.watch(ref.bytes)


def _damaged(digest: str) -> VerificationError:
    return VerificationError(f"the pack {digest[:16]} of the backup does not match its digest")
