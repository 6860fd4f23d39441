"""Temporary bytes on disk: private, gone with the process; nameless where nobody needs a name."""

import struct
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain, starmap
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Self, cast

from blake3 import blake3

from satchel.errors import TargetError

CHUNK = 1 << 20
"""Bytes moved at a time."""

_NAME = "body"
_LONGEST_SUFFIX = 32
_HOLD = 1 << 16
_CHECK = 16
_framing = struct.Struct(f">I{_CHECK}s")
_FRAME, _frame, _unframe = _framing.size, _framing.pack, _framing.unpack_from


class Spool:
    """An append-then-read temporary file.

    Held in memory up to ``memory_bytes``, then in a nameless file in the system's temporary
    folder (``TMPDIR``).
    """

    def __init__(self, memory_bytes: int = 1 << 20) -> None:
        self._file = tempfile.SpooledTemporaryFile(max_size=memory_bytes)  # noqa: SIM115
        self._held = bytearray()

    def write(self, data: bytes) -> None:
        """Append ``data``.

        Raises:
            TargetError: If the temporary folder is full.
        """
        # Records are small; a write each to the file would cost more than making them.
        self._held += data
        if len(self._held) >= _HOLD:
            self._flush()

    @property
    def size(self) -> int:
        """Bytes written so far."""
        self._flush()
        return self._file.tell()

    def chunks(self) -> Iterator[bytes]:
        """Yield everything written, from the start."""
        self._flush()
        self._file.seek(0)
        while chunk := self._file.read(CHUNK):
            yield chunk

    def lines(self) -> Iterator[bytes]:
        """Yield everything written, line by line, each with its LF."""
        self._flush()
        self._file.seek(0)
        yield from self._file

    def handle(self) -> BinaryIO:
        """Return a file object at the start; it lives as long as the spool."""
        self._flush()
        self._file.seek(0)
        # A SpooledTemporaryFile is a BinaryIO in all but its declared name.
        return cast("BinaryIO", self._file)

    def close(self) -> None:
        """Give the space back."""
        self._held.clear()
        self._file.close()

    def _flush(self) -> None:
        if self._held:
            _guarded(self._file.write, bytes(self._held))
            self._held.clear()


class SpoolStreams:
    """Many streams of bytes in one temporary file, each appended to and read by itself."""

    _MOST_HELD = 1 << 21

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(max_size=1 << 20)  # noqa: SIM115
        self._end = 0
        self._all: list[SpoolStream] = []
        self._held = 0

    def strand(self) -> "SpoolStream":
        """Return a new stream."""
        made = SpoolStream(self)
        self._all.append(made)
        return made

    def close(self) -> None:
        """Give the space back."""
        self._file.close()

    def hold(self, size: int) -> None:
        """Count bytes that a stream holds in memory; when they are many, all go to the file."""
        self._held += size
        if self._held > self._MOST_HELD:
            for one in self._all:
                one.flush()
            self._held = 0

    def append(self, data: bytes) -> tuple[int, int]:
        """Write to the end of the file, and return where it starts and ends there."""
        start, self._end = self._end, self._end + len(data)
        self._file.seek(start)
        _guarded(self._file.write, data)
        return start, self._end

    def between(self, start: int, end: int) -> Iterator[bytes]:
        """Yield a stretch of the file."""
        for at in range(start, end, CHUNK):
            self._file.seek(at)  # others may have read in between
            yield self._file.read(min(CHUNK, end - at))


class SpoolStream:
    """One of the streams; made by ``Strands``."""

    def __init__(self, strands: SpoolStreams) -> None:
        self._strands = strands
        self._spans: list[tuple[int, int]] = []
        self._held = bytearray()

    def write(self, data: bytes) -> None:
        """Append ``data``.

        Raises:
            TargetError: If the temporary folder is full.
        """
        self._held += data
        self._strands.hold(len(data))

    def lines(self) -> Iterator[bytes]:
        """Yield everything written so far, line by line, without their LF."""
        kept = chain.from_iterable(starmap(self._strands.between, list(self._spans)))
        rest = b""
        for found in chain(kept, [bytes(self._held)]):
            *lines, rest = (rest + found).split(b"\n")
            yield from lines
        if rest:
            yield rest

    def write_pack(self, data: bytes) -> None:
        """Append ``data`` as one pack; a strand of packs has nothing else in it.

        Raises:
            TargetError: If the temporary folder is full.
        """
        self.write(_frame(len(data), blake3(data).digest(_CHECK)) + data)

    def packs(self) -> Iterator[bytes]:
        """Yield the packs written so far.

        Raises:
            TargetError: If one is not what was written: the temporary folder lost it.
        """
        kept = chain.from_iterable(starmap(self._strands.between, list(self._spans)))
        rest = bytearray()
        for found in chain(kept, [bytes(self._held)]):
            rest += found
            while len(rest) >= _FRAME:
                size, check = _unframe(rest)
                if len(rest) < _FRAME + size:
                    break
                pack = bytes(rest[_FRAME : _FRAME + size])
                del rest[: _FRAME + size]
                if blake3(pack).digest(_CHECK) != check:
                    raise TargetError("temporary data was damaged", file=tempfile.gettempdir())
                yield pack

    def flush(self) -> None:
        """Move what is held in memory to the file."""
        if self._held:
            self._spans.append(self._strands.append(bytes(self._held)))
            self._held.clear()


class PrivateFolder:
    """A folder that only this process can read, with a file in it. A context manager.

    Args:
        name: What somebody called the file; only what its suffix says is kept of it.
    """

    def __init__(self, name: str = "") -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="satchel-")
        self.folder = Path(self._folder.name)
        suffix = "".join(PurePosixPath(name).suffixes)[-_LONGEST_SUFFIX:]
        plain = suffix.isascii() and suffix.replace(".", "").replace("_", "").isalnum()
        self.file = self.folder / (_NAME + (suffix if plain else ""))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove it, with what is in it."""
        self._folder.cleanup()


@contextmanager
def making_temporary() -> Iterator[None]:
    """Say what is wrong where temporary bytes cannot be written.

    Raises:
        TargetError: If the temporary folder is full.
    """
    try:
        yield
    except OSError as error:
        raise TargetError(
            f"cannot write temporary data: {error.strerror or error}",
            file=tempfile.gettempdir(),
            hint="Free disk space there, or set TMPDIR to a larger folder.",
        ) from error


def _guarded(call: Callable[[bytes], Any], data: bytes) -> None:
    with making_temporary():
        call(data)
