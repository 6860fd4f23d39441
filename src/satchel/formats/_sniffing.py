"""Recognising a file by its first bytes: what is in them, without a whole document."""

import re
import zlib
from collections.abc import Iterator

from satchel.ports.place import HEAD_BYTES
from satchel.seal.artifact.opening import GZIP_MAGIC

BOM = b"\xef\xbb\xbf"

_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*(?:"|\\?\Z)|[\[\]{},:]|[^\s\[\]{},:"]+', re.DOTALL)

Step = bytes | int
"""A key as it is spelled in the file, or a position in an array."""


def unpacked(head: bytes) -> bytes:
    """Return the first bytes of what is inside a gzip file, or of the file itself."""
    if not head.startswith(GZIP_MAGIC):
        return head
    try:
        return zlib.decompressobj(wbits=31).decompress(head, HEAD_BYTES)
    except zlib.error:
        return head


def members(head: bytes) -> Iterator[tuple[tuple[Step, ...], bytes]]:
    """Yield the path of every value that starts in ``head``, with the byte that it starts with.

    Lenient: it tells formats apart and validates nothing. Text inside strings is never taken for
    structure, so what a memory says cannot make its file look like another product's. What does not
    begin as JSON, such as an archive with JSON in it, has none.
    """
    path: list[Step] = []
    naming, plain = False, head.removeprefix(BOM)
    if plain.lstrip()[:1] not in (b"{", b"["):
        return
    for token in _TOKEN.findall(plain):
        if token in b"[{":
            yield tuple(path), token
            path.append(b"" if token == b"{" else 0)
            naming = token == b"{"
        elif token in b"]}":
            path = path[:-1]
        elif token == b",":
            naming = not _step(path)
        elif token == b":":
            naming = False
        elif naming and path:
            path[-1] = token.strip(b'"')
        else:
            yield tuple(path), token[:1]


def says_nothing(head: bytes, others: frozenset[bytes]) -> bool:
    """Tell whether a file has something in it, and nothing by which another product is known.

    Args:
        head: Its first bytes.
        others: Members of the other product's rows.
    """
    if head.removeprefix(BOM).strip() in (b"", b"[]", b"{}"):
        return False
    return not any(path and path[-1] in others for path, _ in members(head))


def _step(path: list[Step]) -> bool:
    """Go to the next element, where this is inside an array."""
    if not path or not isinstance(path[-1], int):
        return False
    path[-1] += 1
    return True
