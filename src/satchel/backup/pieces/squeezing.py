"""How a piece of a backup is compressed: gzip, zstd, or not at all; never more comes out than said.

Zstandard is of Python itself from 3.14 on, before that of a package with the same names.
"""

import gzip
import zlib
from enum import StrEnum
from typing import Any, Self

from satchel.errors import MissingExtraError

_GZIP_LEVEL, _ZSTD_LEVEL = 6, 9
_AS_GZIP = 31
_WINDOW = 27
"""Of zstd, as a power of two: what reading a piece may take in memory, whatever it asks for."""


class Squeeze(StrEnum):
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


_LETTERS = {Squeeze.GZIP: b"g", Squeeze.ZSTD: b"z", Squeeze.NONE: b"p"}


def require_squeeze(how: Squeeze) -> None:
    """Require that one can compress so here.

    Raises:
        MissingExtraError: If what does it is not installed.
    """
    if how is Squeeze.ZSTD:
        _zstd()


def squeezed(data: bytes, how: Squeeze) -> bytes:
    """Return bytes compressed; the same bytes give the same.

    Raises:
        MissingExtraError: If what compresses is not installed.
    """
    if how is Squeeze.GZIP:
        return gzip.compress(data, _GZIP_LEVEL, mtime=0)
    return bytes(_zstd().compress(data, _ZSTD_LEVEL)) if how is Squeeze.ZSTD else data


def unsqueezed(body: memoryview, how: Squeeze, size: int) -> bytes | None:
    """Return what is in compressed bytes; None where that is not all of so many bytes.

    Args:
        body: The bytes.
        how: How they are compressed.
        size: How many come out; no more than one above that are made.

    Raises:
        MissingExtraError: If what it was compressed with is not installed.
    """
    if how is Squeeze.NONE:
        return bytes(body) if len(body) == size else None
    unpacking, broken = _unpacking(how)
    try:
        data = bytes(unpacking.decompress(body, size + 1))
    except broken:
        return None
    return data if unpacking.eof and not unpacking.unused_data and len(data) == size else None


def _unpacking(how: Squeeze) -> tuple[Any, type[Exception]]:
    if how is Squeeze.GZIP:
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
                hint="Install it: pip install 'satchel[backup]'. Or set: compress = \"gzip\".",
            ) from None
    return zstd
