"""Where memory is read from and written to: a file or a folder, not only a stream of bytes."""

import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, cast

from satchel.artifact.body import Progress
from satchel.artifact.reader import GZIP_MAGIC
from satchel.runtime.atomic_files import PRIVATE_FILE, atomic_write
from satchel.runtime.input import InputPath, OpenFile, open_input
from satchel.runtime.output import Outlet

BOM = b"\xef\xbb\xbf"
"""Byte order mark of UTF-8."""

HEAD_BYTES = 4096
"""How much of a file a format may look at to recognise it."""

MOST_WITHIN = 4 * 2**20
"""Bytes of a file of somebody's that memory is written into; an agent reads all of it."""


@dataclass(frozen=True)
class Place:
    """Something to read from."""

    path: Path
    on_progress: Progress | None = None
    held: OpenFile | None = None
    """The file, open already, so that all that is read is of one and the same."""

    @property
    def file(self) -> InputPath:
        """The file as it is to be opened."""
        return self.held or self.path

    @property
    def name(self) -> str:
        """What to call it in errors."""
        return str(self.path)

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder."""
        if self.held is not None:
            return False
        try:
            return self.path.is_dir()
        except OSError:  # such as a name that is too long; opening it says what is wrong
            return False

    @cached_property
    def head(self) -> bytes:
        """The first bytes of a file; empty for a folder."""
        if self.is_folder:
            return b""
        with self.open() as stream:
            return stream.read(HEAD_BYTES)

    @cached_property
    def unpacked_head(self) -> bytes:
        """The first bytes inside a gzip file, or of the file itself."""
        if not self.head.startswith(GZIP_MAGIC):
            return self.head
        try:
            return zlib.decompressobj(wbits=31).decompress(self.head, HEAD_BYTES)
        except zlib.error:
            return self.head

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """Open the file.

        Raises:
            UnreadableError: If it cannot be read.
        """
        with open_input(self.file) as stream:
            if self.on_progress is None:
                yield stream
            else:
                yield cast("BinaryIO", _ProgressStream(stream, self.on_progress))


class _ProgressStream:
    """A file that tells how far it was read."""

    def __init__(self, stream: BinaryIO, on_progress: Progress) -> None:
        self._stream = stream
        self._tell = on_progress
        self._size = os.fstat(stream.fileno()).st_size

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(size)
        self._tell(self._stream.tell(), self._size)
        return data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@dataclass(frozen=True)
class Target:
    """Something to write to; what is written appears whole or not at all.

    Only its owner may read it: it is somebody's memory.
    """

    path: Path
    overwrite: bool = False
    outlet: Outlet | None = None
    """The folder, open already, so that it cannot be exchanged before the end."""

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """Give a file to write that takes the target's name when the block ends well.

        Raises:
            TargetError: If it cannot be written.
        """
        if self.outlet is not None:
            with self.outlet.writing(overwrite=self.overwrite) as stream:
                yield stream
        else:
            with atomic_write(self.path, overwrite=self.overwrite, mode=PRIVATE_FILE) as stream:
                yield stream
