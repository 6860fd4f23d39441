"""Temporary bytes on disk: nameless, private, gone with the process."""

import tempfile
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, cast

from satchel.errors import TargetError

CHUNK = 1 << 20
"""Bytes moved at a time."""

_HOLD = 1 << 16


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


def _guarded(call: Callable[[bytes], Any], data: bytes) -> None:
    try:
        call(data)
    except OSError as error:
        raise TargetError(
            f"cannot write temporary data: {error.strerror or error}",
            file=tempfile.gettempdir(),
            hint="Free some space there, or set TMPDIR to a larger folder.",
        ) from error
