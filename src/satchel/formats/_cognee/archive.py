"""The files of a COGX archive: a tar as Cognee sends it, or a folder that was put together.

A tar is read by few rules of our own, as it comes: its headers are of fixed size, whatever a name
or a length in one of them says, nothing is ever written where it says.
"""

import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, Protocol

from satchel.disk.contained import parts_of
from satchel.errors import LimitError, MalformedError, PathRefusedError
from satchel.formats._chats.archive import ZIP_MAGIC, opened
from satchel.formats._cognee.shape import FILES, KINDS, MANIFEST, PERMISSIONS
from satchel.formats._sniffing import members, unpacked
from satchel.formats._unpacking import CHUNK, Unpacked
from satchel.ports.format import Reading
from satchel.ports.place import Place

BLOCK = 512
_MOST_FILES, _DEEPEST = 1000, 4
_MORE_BYTES = 1 << 16
_MAGIC = b"ustar"
_SHOWN = 80
_KNOWN = {*KINDS, MANIFEST, PERMISSIONS}


class Chunks(Protocol):
    """The bytes of one file."""

    def read(self) -> bytes:
        """Return some bytes more; none at the end."""
        ...


def is_archive(place: Place) -> bool:
    """Tell whether a place is such an archive, by the names and first bytes of its files."""
    if place.is_folder:
        return False
    head = place.head
    if head.startswith(ZIP_MAGIC):
        with _quietly(place) as found:
            return found
    head = unpacked(head)
    while head[257:262] == _MAGIC and head[156:157] in b"xg5":
        size = _octal(head[124:136]) or 0
        head = head[BLOCK + -(-size // BLOCK) * BLOCK :]
    name, is_tar = _name_in(head[:BLOCK]), head[257:262] == _MAGIC
    return is_tar and _is_ours(name.rpartition("/")[2], head[BLOCK:].rstrip(b"\0"))


def _is_ours(name: str, start: bytes) -> bool:
    found = {path for path, _ in members(start.partition(b"\n{")[0])}
    if name == MANIFEST:
        return (b"cogx_version",) in found
    if name == FILES["raw_node"]:
        return {(b"id",), (b"type",)} <= found
    return name in KINDS and {(b"external_id",), (b"kind",)} <= found


@contextmanager
def _quietly(place: Place) -> Iterator[bool]:
    found = False
    try:
        with opened(place) as archive:
            for file in archive.files:
                if file.name == MANIFEST:
                    with archive.stream(file) as stream:
                        found = found or _is_ours(MANIFEST, stream.read(CHUNK))
    except (MalformedError, LimitError, PathRefusedError):
        found = False
    yield found


def files_in(place: Place, reading: Reading) -> Iterator[tuple[str, Chunks]]:
    """Yield the files of an archive, each with its bytes, to be read before the next one.

    Raises:
        MalformedError: If it is none, cut or damaged.
        LimitError: If there is too much in it.
        PathRefusedError: If a name leads out of it.
    """
    if place.head.startswith(ZIP_MAGIC):
        with opened(place, reading.limits) as archive:
            for file in archive.files:
                with archive.stream(file) as stream:
                    yield file.path, _Stream(stream)
        return
    with place.open() as stream:
        yield from _Tar(Unpacked(stream, reading.limits)).files()


class _Stream:
    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def read(self) -> bytes:
        return self._stream.read(CHUNK)


class _Tar:
    """A tar that is read as it comes."""

    def __init__(self, source: Unpacked) -> None:
        self._source = source
        self._held = b""

    def files(self) -> Iterator[tuple[str, Chunks]]:
        """Yield its files."""
        seen = set[str]()
        while (header := self._taken(BLOCK)).strip(b"\0"):
            size = self._checked(header)
            kind, name = header[156:157], _name_in(header)
            if kind in b"xg" and size <= _MORE_BYTES:  # more about the next file, such as its time
                more = self._taken(size + -size % BLOCK)
                if b" path=" in more or b" size=" in more:
                    raise MalformedError("an unexpected file name", field=name[:_SHOWN])
                continue
            if kind == b"5" and size == 0:
                continue
            if kind not in (b"0", b"\0"):
                raise MalformedError("not a regular file", field=name[:_SHOWN])
            if _depth_of(name) > _DEEPEST or name in seen or len(seen) == _MOST_FILES:
                raise MalformedError("an unexpected file", field=name[:_SHOWN])
            seen.add(name)
            file = _File(self, size)
            yield name, file
            file.skip()
            self._taken(-size % BLOCK)
        while self.some(CHUNK):
            pass

    def some(self, most: int) -> bytes:
        """Return at most so many bytes more; none at the end."""
        data = self._held or self._source.read()
        self._held = data[most:]
        return data[:most]

    def _taken(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            more = self.some(size - len(found))
            if not more:
                raise MalformedError("the archive is truncated", byte=0)
            found += more
        return found

    def _checked(self, header: bytes) -> int:
        size, told = _octal(header[124:136]), _octal(header[148:156])
        plain = header[:148] + b" " * 8 + header[156:]
        if size is None or told != sum(plain) or header[257:262] != _MAGIC:
            raise MalformedError("not a tar archive, or damaged", byte=0)
        return size


class _File:
    """One file of a tar."""

    def __init__(self, tar: _Tar, size: int) -> None:
        self._tar = tar
        self._left = size

    def read(self) -> bytes:
        """Return some bytes more; none at the end."""
        if not self._left:
            return b""
        data = self._tar.some(min(CHUNK, self._left))
        if not data:
            raise MalformedError("the archive is truncated", byte=0)
        self._left -= len(data)
        return data

    def skip(self) -> None:
        """Read what is left."""
        while self.read():
            pass


def _depth_of(name: str) -> int:
    try:
        return len(parts_of(name))
    except PathRefusedError as error:
        error.field = name[:_SHOWN]
        raise


def _octal(digits: bytes) -> int | None:
    plain = digits.strip(b" \0")
    return int(plain, 8) if plain.isdigit() and not set(plain) & set(b"89") else None


def _name_in(header: bytes) -> str:
    name, start = header[:100].partition(b"\0")[0], header[345:500].partition(b"\0")[0]
    whole = (start + b"/" if start else b"") + name
    return whole.decode("utf-8", "replace").removeprefix("./")


def put_file(sink: BinaryIO, name: str, size: int, chunks: Iterator[bytes]) -> None:
    """Write a file of a tar: no owner, no time, the same bytes each run."""
    about = tarfile.TarInfo(name)
    about.size = size
    sink.write(about.tobuf(tarfile.USTAR_FORMAT))
    sink.writelines(chunks)
    sink.write(b"\0" * (-size % BLOCK))


def put_end(sink: BinaryIO) -> None:
    """Write the end of a tar."""
    sink.write(b"\0" * (2 * BLOCK))
