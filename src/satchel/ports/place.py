"""Where memory is read from and written to: a file or a folder, not only a stream of bytes."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, cast

from satchel.disk.reading import reading
from satchel.disk.writing import PRIVATE_FILE, writing
from satchel.seal.artifact.body import Progress

HEAD_BYTES = 4096
"""How much of a file a format may look at to recognise it."""


@dataclass(frozen=True)
class Place:
    """Something to read from."""

    path: Path
    on_progress: Progress | None = None

    @property
    def name(self) -> str:
        """What to call it in errors."""
        return str(self.path)

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder."""
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

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """Open the file.

        Raises:
            UnreadableError: If it cannot be read.
        """
        with reading(self.path) as stream:
            if self.on_progress is None:
                yield stream
            else:
                yield cast("BinaryIO", _Told(stream, self.on_progress))


class _Told:
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
    """Something to write to; what is written appears whole or not at all."""

    path: Path
    overwrite: bool = False

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """Give a file to write that takes the target's name when the block ends well.

        Raises:
            TargetError: If it cannot be written.
        """
        # It is somebody's memory: for its owner only, until he says otherwise.
        with writing(self.path, overwrite=self.overwrite, mode=PRIVATE_FILE) as stream:
            yield stream
