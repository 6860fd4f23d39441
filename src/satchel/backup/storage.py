"""Packs: the pieces that a backup is made of, each named by a hash.

What two backups have in common is one pack, written once. A pack is a few bytes that say how it is
packed and how much is in it, then that, compressed or not. It is believed by its hash: whoever
reads one gets what was put there, or an error; never more than it says, and never more than a pack
may hold.

An encrypted pack is all of that as an age file. Its name is the hash of the encrypted bytes, which
are other ones each time: the name tells nothing of what is in it, and whoever can open nothing can
still tell whether it is what was written. What is in it is named by those alone who can open the
index.
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
"""Object stores; any other destination is a folder of this machine."""

TOPS = ("catalogue", "marks", "packs", "erased")
"""The folders of a destination."""

_DEEPEST = 4


class BackupStorage(Protocol):
    """Objects by name; names are parts of plain letters and digits, with ``/`` between them."""

    name: str
    """What to call it in messages."""

    def get(self, name: str, most: int) -> bytes | None:
        """Return an object; None where there is none.

        Raises:
            LimitError: If it has more bytes than ``most``.
            TargetError: If the place does not answer.
        """
        ...

    def size(self, name: str) -> int | None:
        """Return how many bytes an object has; None where there is none."""
        ...

    def put(self, name: str, data: bytes) -> None:
        """Write an object, whatever is there; when this returns, it is there for good.

        Raises:
            TargetError: If it cannot be written; what was there before is there still.
        """
        ...

    def remove(self, name: str) -> None:
        """Remove an object, if it is there."""
        ...

    def names(self, under: str) -> Iterator[str]:
        """Yield the names of the objects whose names start with ``under`` and a ``/``."""
        ...

    def tidy(self) -> None:
        """Remove what writers that were killed left; nobody else may be writing."""
        ...

    def close(self) -> None:
        """Give back what is held open."""
        ...


class FolderStorage:
    """A folder of this machine; what is made in it is its owner's alone.

    Args:
        path: The folder.
        create: Make it where there is none.

    Raises:
        UnreadableError: If it is not there.
        TargetError: If it cannot be made.
        PathRefusedError: If it is a link.
    """

    def __init__(self, path: Path, *, create: bool = False) -> None:
        self.name = str(path)
        self._folder = ContainedFolder(path, create=create)
        self._made = set[str]()

    def get(self, name: str, most: int) -> bytes | None:
        """See ``Shelf``."""
        try:
            return self._folder.read(name, limit=most)
        except UnreadableError as error:
            _unless_missing(error)
            return None

    def size(self, name: str) -> int | None:
        """See ``Shelf``."""
        try:
            with self._folder.open(name) as stream:
                return stream.seek(0, 2)
        except UnreadableError as error:
            _unless_missing(error)
            return None

    def put(self, name: str, data: bytes) -> None:
        """See ``Shelf``."""
        above, _, _ = name.rpartition("/")
        if above and above not in self._made:
            self._folder.make_folder(above)
            self._made.add(above)
        self._folder.write(name, data)

    def remove(self, name: str) -> None:
        """See ``Shelf``."""
        try:
            self._folder.remove(name)
        except (UnreadableError, TargetError) as error:
            _unless_missing(error)

    def names(self, under: str) -> Iterator[str]:
        """See ``Shelf``."""
        yield from (name for name in self._walk(under) if not _is_draft(name))

    def _walk(self, under: str) -> Iterator[str]:
        waiting = [under]
        while waiting:
            folder = waiting.pop()
            try:
                found = self._folder.listing(folder)
            except UnreadableError as error:
                _unless_missing(error)
                continue
            for one in found:
                name = f"{folder}/{one.name}"
                if one.kind == "folder" and name.count("/") < _DEEPEST:
                    waiting.append(name)
                elif one.kind == "file":
                    yield name

    def tidy(self) -> None:
        """See ``Shelf``."""
        for top in TOPS:
            for name in [name for name in self._walk(top) if _is_draft(name)]:
                self.remove(name)

    def close(self) -> None:
        """See ``Shelf``."""
        self._folder.close()


class ObjectStorage:
    """An object store.

    Args:
        address: Where, such as ``s3://BUCKET/PREFIX``.

    Raises:
        MissingExtraError: If what talks to it is not installed.
        TargetError: If the address cannot be one.
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
        """See ``Shelf``."""
        objects, rest = self._at(name)
        size = objects.size(rest)
        if size is None:
            return None
        if size > most:
            raise LimitError(f"the object has more than {most:,} bytes", file=f"{self.name}/{name}")
        # It may be another by now: no more than asked for is read.
        return objects.part(rest, 0, size)

    def size(self, name: str) -> int | None:
        """See ``Shelf``."""
        objects, rest = self._at(name)
        return objects.size(rest)

    def put(self, name: str, data: bytes) -> None:
        """See ``Shelf``."""
        objects, rest = self._at(name)
        objects.put(rest, data)

    def remove(self, name: str) -> None:
        """See ``Shelf``."""
        objects, rest = self._at(name)
        objects.remove(rest)

    def names(self, under: str) -> Iterator[str]:
        """See ``Shelf``."""
        objects, rest = self._at(under)
        top = under.partition("/")[0]
        for name in objects.names():
            if not rest or name.startswith(f"{rest}/"):
                yield f"{top}/{name}"

    def tidy(self) -> None:
        """See ``Shelf``; an object store keeps nothing by halves."""

    def close(self) -> None:
        """See ``Shelf``; nothing is held open."""


def open_storage(destination: str, *, create: bool = False) -> BackupStorage:
    """Open a destination: the path of a folder, or the address of an object store.

    Raises:
        UnreadableError: If there is no such folder, and it is not to be made.
        TargetError: If it cannot be opened or made.
        PathRefusedError: If it is none.
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
    """Tell whether a file is what a writer that was killed left, or one writes now."""
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
"""That an encrypted backup names: some hundred gigabytes."""

_PIECE = struct.Struct(">32sQ")


class PackEncryption:
    """How what goes to a destination is encrypted, and opened again.

    Args:
        unlocking: Where identities are.
        recipients: For whom new things are encrypted, as age writes them; nobody for plain.
        own: The recipient of the machine, for what is an index.
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
        """Whether new things are encrypted."""
        return bool(self.recipients)

    def ready(self) -> None:
        """Find the identities of this machine.

        Raises:
            UnreadableError, MalformedError, EncryptionError: If one that somebody named is none.
        """
        if self._identities is None:
            self._identities = list(dict.fromkeys(self._unlocking.identities()))

    def closed(self, data: bytes, *, is_index: bool) -> bytes:
        """Return bytes encrypted.

        They open for one more identity, which is thrown away with this object: so what was just
        written is read again, whoever else may.

        Args:
            data: The bytes.
            is_index: Whether they say where things are, and open for the machine as well.

        Raises:
            MissingExtraError: If what encrypts is not installed.
        """
        if self._reader is None:
            self._reader = new_identity()
        own = [self._own] if is_index and self._own is not None else []
        return encrypt_bytes(data, [*self.recipients, self._reader[1], *own])

    def opened(self, stored: bytes) -> bytes:
        """Return what is in encrypted bytes.

        Raises:
            EncryptionError: If nothing here opens them.
            VerificationError: If they were altered, or are none.
            UnreadableError, MalformedError: If an identity that somebody named is none.
        """
        self.ready()
        just = [self._reader[0]] if self._reader is not None else []
        try:
            found = decrypt_bytes(stored, [*just, *(self._identities or ())])
        except EncryptionError as error:
            raise VerificationError(f"encrypted data of a backup: {error.message}") from None
        if found is None:
            raise EncryptionError(
                "no identity here decrypts the backup",
                hint="Pass an identity it was encrypted to: satchel --identity FILE.",
            )
        return found


PLAIN = PackEncryption(Unlocker())
"""Nothing is encrypted, and what the environment names opens what is."""


def pieces_told(pieces: Mapping[str, int]) -> str:
    """Return names of packs and how much each takes, as a text.

    Raises:
        LimitError: If there are more than one backup may have.
    """
    if len(pieces) > MOST_PIECES:
        raise LimitError(f"an encrypted backup can have at most {MOST_PIECES:,} pieces")
    told = (_PIECE.pack(bytes.fromhex(name), size) for name, size in sorted(pieces.items()))
    return b64encode(b"".join(told)).decode()


def pieces_in(text: str) -> Iterator[tuple[str, int]]:
    """Yield the names of packs that a text tells of, and how much each takes.

    Raises:
        VerificationError: If it is no such text.
    """
    raw = unbased(text)
    if len(raw) % _PIECE.size:
        raise VerificationError("the list of the pieces of a backup is truncated")
    for name, size in _PIECE.iter_unpack(raw):
        yield name.hex(), size


def unbased(text: str) -> bytes:
    """Return the bytes that base64 stands for.

    Raises:
        VerificationError: If it is none.
    """
    try:
        return b64decode(text, validate=True)
    except (BadBase64, ValueError):
        raise VerificationError("a backup contains bytes that cannot be read") from None


_GZIP_LEVEL, _ZSTD_LEVEL = 6, 9
_AS_GZIP = 31
_WINDOW = 27
"""Of zstd, as a power of two: what reading a piece may take in memory, whatever it asks for."""


class Compression(StrEnum):
    """How a piece is compressed."""

    GZIP = "gzip"
    ZSTD = "zstd"
    NONE = "none"

    @property
    def letter(self) -> bytes:
        """What stands for it in a piece."""
        return _LETTERS[self]

    @classmethod
    def of(cls, letter: bytes) -> Self | None:
        """Return what a letter stands for."""
        return next((one for one in cls if _LETTERS[one] == letter), None)


_LETTERS = {Compression.GZIP: b"g", Compression.ZSTD: b"z", Compression.NONE: b"p"}


def require_compression(how: Compression) -> None:
    """Require that one can compress so here.

    Raises:
        MissingExtraError: If what does it is not installed.
    """
    if how is Compression.ZSTD:
        _zstd()


def compress(data: bytes, how: Compression) -> bytes:
    """Return bytes compressed; the same bytes give the same.

    Raises:
        MissingExtraError: If what compresses is not installed.
    """
    if how is Compression.GZIP:
        return gzip.compress(data, _GZIP_LEVEL, mtime=0)
    return bytes(_zstd().compress(data, _ZSTD_LEVEL)) if how is Compression.ZSTD else data


def decompress(body: memoryview, how: Compression, size: int) -> bytes | None:
    """Return what is in compressed bytes; None where that is not all of so many bytes.

    Args:
        body: The bytes.
        how: How they are compressed.
        size: How many come out; no more than one above that are made.

    Raises:
        MissingExtraError: If what it was compressed with is not installed.
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
        from compression import zstd  # of Python itself
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
"""What a pack may hold."""

PIECE_BYTES = 4 << 20
"""Where what is larger is cut."""

_HEADER = struct.Struct(">4scQ")
_MAGIC = b"SBP1"
_MOST_STORED = MOST_BYTES + (MOST_BYTES >> 6) + 65_536
_DIGEST = re.compile(r"[0-9a-f]{64}")

Digest = Annotated[str, Meta(pattern="^[0-9a-f]{64}$", max_length=64)]


class Ref(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A pack, as a backup names it."""

    digest: Digest
    """BLAKE3 of what is in it."""

    bytes: Annotated[int, Meta(ge=0, le=MOST_BYTES)]
    """How much is in it."""

    stored: Annotated[int, Meta(ge=0, le=_MOST_STORED)]
    """How much it takes."""

    locked: Digest | None = None
    """BLAKE3 of the encrypted bytes, where it is encrypted."""

    @property
    def name(self) -> str:
        """What it is called on a shelf: the hash of what anybody may know."""
        return self.locked or self.digest


def place_of(series: str, name: str) -> str:
    """Return the name of a pack on a shelf."""
    return f"packs/{series}/{name[:2]}/{name}"


def digest_in(place: str) -> str | None:
    """Return which pack is at a place on a shelf; None where it is no pack's."""
    name = place.rsplit("/", 1)[-1]
    return name if _DIGEST.fullmatch(name) else None


def packed(data: bytes, how: Compression) -> bytes:
    """Return a pack with some bytes; the same bytes give the same pack.

    Raises:
        MissingExtraError: If what compresses is not installed.
    """
    return _HEADER.pack(_MAGIC, how.letter, len(data)) + compress(data, how)


def unpacked(stored: bytes, digest: str) -> bytes:
    """Return what is in a pack.

    Raises:
        VerificationError: If it is not what its hash says, however it came about.
        MissingExtraError: If what it was compressed with is not installed.
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
    """The packs of one series on a shelf.

    Args:
        shelf: Where they are.
        series: Whose they are.
        how: How new ones are compressed.
        known: Packs that are there for sure: not written again.
        locking: For whom new ones are encrypted, and what opens those that are.
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
        """Packs that were written."""

        self.bytes_written = 0
        self.watch: Callable[[int], None] | None = None
        """Is told of the bytes of each pack that is read or written."""

    def put(self, data: bytes, *, is_index: bool = False) -> Ref:
        """Keep bytes, unless they are there, and return what names them.

        Args:
            data: The bytes.
            is_index: Whether they say where things are, not what these are: that opens for the
                machine that goes on with it as well.

        Raises:
            TargetError: If they cannot be written.
        """
        digest = blake3(data).hexdigest()
        found = self._known.get(digest)
        if found is None:
            stored, locked = packed(data, self._how), None
            if self._locking.locks:
                stored = self._locking.closed(stored, is_index=is_index)
                locked = blake3(stored).hexdigest()
            found = self._known[digest] = Ref(digest, len(data), len(stored), locked)
            self._shelf.put(place_of(self._series, found.name), stored)
            self.written += 1
            self.bytes_written += len(stored)
        self._tell(found)
        return found

    def get(self, ref: Ref) -> bytes:
        """Return what was kept.

        Raises:
            VerificationError: If it is gone, or is not what was kept.
            EncryptionError: If it is what was written, and nothing here opens it.
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
        """Return a pack as it is kept.

        Args:
            name: What it is called.
            size: How many bytes it takes.
            is_hash: Whether its name is the hash of these bytes, which are held to it.

        Raises:
            VerificationError: If it is gone, or is not what was written.
        """
        stored = self._shelf.get(place_of(self._series, name), _MOST_STORED)
        if stored is None:
            raise VerificationError(f"the pack {name[:16]} of the backup is missing")
        if len(stored) != size or (is_hash and blake3(stored).hexdigest() != name):
            raise _damaged(name)
        return stored

    def require(self, ref: Ref) -> None:
        """Require that a pack is there in its size; it is not read.

        Raises:
            VerificationError: If it is not.
        """
        if self._shelf.size(place_of(self._series, ref.name)) != ref.stored:
            raise VerificationError(
                f"the pack {ref.name[:16]} of the backup is missing or truncated"
            )

    def _tell(self, ref: Ref) -> None:
        if self.watch is not None:
            self.watch(ref.bytes)


def _damaged(digest: str) -> VerificationError:
    return VerificationError(f"the pack {digest[:16]} of the backup does not match its digest")
