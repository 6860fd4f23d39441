"""A file in which this machine remembers what it verified, outside the store.

A cache: where it is missing, damaged or cannot be written, the same is verified again.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec
from blake3 import blake3

from satchel.disk.kept import opened
from satchel.disk.writing import PRIVATE_FILE, writing
from satchel.errors import SatchelError
from satchel.type_info import resolved

_SEAL = 32
_T = TypeVar("_T")


class CacheFile:
    """One file.

    Args:
        path: Where; None for remembering nothing.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def read(self, type_: type[_T]) -> _T | None:
        """Return what was written last; None where it cannot be read."""
        if self._path is None:
            return None
        with suppress(OSError, SatchelError, msgspec.DecodeError):
            with opened(self._path, os.O_RDONLY) as handle, os.fdopen(os.dup(handle), "rb") as file:
                data = file.read()
            seal, body = data[:_SEAL], data[_SEAL:]
            if blake3(body).digest() == seal:
                return msgspec.msgpack.decode(body, type=resolved(type_))
        return None

    def write(self, value: object) -> None:
        """Remember a value instead of the one before."""
        if self._path is None:
            return
        body = msgspec.msgpack.encode(value)
        with suppress(OSError, SatchelError), writing(self._path, mode=PRIVATE_FILE) as stream:
            stream.write(blake3(body).digest() + body)
