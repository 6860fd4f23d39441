"""Fragments of erased texts, and their search in raw bytes.

A fragment is 16 bytes of a text in UTF-8, JSON, UTF-16 or base64. There are several for each text,
so that a text that an engine splits is found by a fragment of either part. Fragments are only in
memory, and their number is bounded.

Bytes are scanned as words of 8 bytes at every fourth position. A fragment at any position contains
such a word within its first eleven bytes, so four words of each fragment are indexed; scanning
takes nanoseconds for a byte, for any number of fragments. Source: docs/spec/7, SEAL-7.17.
"""

import base64
import json
import tempfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, cast

from satchel.crypto.canonical import DEFAULT_LIMITS, Limits
from satchel.crypto.encryption import HEAD_BYTES, Unlocker, decrypt, is_encrypted
from satchel.errors import LimitError, MalformedError, SatchelError
from satchel.model.values import ID_PREFIX, is_canonical_time, is_hex
from satchel.ports.store import Extent
from satchel.runtime.scratch import CHUNK

LONG, LEAST = 16, 11
"""Size of a fragment in bytes; a shorter text is one fragment."""

MOST = 200_000
"""Maximum number of fragments; half of them are reserved for plain texts."""

_MOST_OF_TEXT = 32
_WORD, _STEP = 8, 4
_BLOCK = 1 << 20
_OWN = frozenset({"id", "nonce", "type", "parent_ids", "source_event_ids", "at", "path"})
_DIGEST = 32


class Fragments:
    """The fragments to search.

    Args:
        most: Maximum number of fragments.
    """

    def __init__(self, most: int = MOST) -> None:
        self.texts = 0
        """Number of texts that are searched."""

        self.too_short = 0
        """Number of texts that are too short: common words."""

        self.left_out = 0
        """Number of fragments that are not searched, since there are too many."""

        self._most = most
        self._pieces = set[bytes]()
        self._words = set[int]()
        self._fresh = True

    def __len__(self) -> int:
        return len(self._pieces)

    def add(self, value: dict[str, Any]) -> None:
        """Add the texts of a record that is about to be erased."""
        for text in spoken(value):
            self.add_text(text)

    def add_text(self, text: str) -> None:
        """Add a text."""
        data = text.encode("utf-8", "surrogatepass")
        if len(data) < LEAST:
            self.too_short += 1
            return
        self.texts += 1
        self._take(_cut(data), self._most)
        self._take(_otherwise(text, data), self._most // 2)

    def in_bytes(self, data: bytes) -> set[bytes]:
        """Return the fragments in some bytes."""
        return {piece for piece, _ in self._hits(data)}

    def drop(self, pieces: Iterable[bytes]) -> None:
        """Remove fragments that remaining records also contain."""
        dropped = self._pieces.intersection(pieces)
        if dropped:
            self._pieces -= dropped
            self._fresh = False

    def places_in(self, pieces: Iterable[bytes]) -> Iterator[int]:
        """Yield the positions of fragments in a stream of bytes, in order.

        Args:
            pieces: The stream, split anywhere.
        """
        before, start = b"", 0  # the last bytes may be the start of a fragment
        for piece in _in_blocks(pieces):
            data, held = before + piece, len(before)
            hits = self._hits(data)
            yield from sorted({start + at for fragment, at in hits if at + len(fragment) > held})
            before = data[-(LONG - 1) :]
            start += len(data) - len(before)

    def _take(self, pieces: Iterable[bytes], most: int) -> None:
        for piece in pieces:
            if len(self._pieces) >= most:
                self.left_out += piece not in self._pieces
            elif piece not in self._pieces:
                self._pieces.add(piece)
                self._words.update(_words_of(piece))

    def _hits(self, data: bytes) -> Iterator[tuple[bytes, int]]:
        """Yield fragments and their positions; a position may be repeated."""
        if not self._fresh:  # remove the words that no fragment has any more
            self._words = {word for piece in self._pieces for word in _words_of(piece)}
            self._fresh = True
        for shift in (0, _STEP):
            size = (len(data) - shift) // _WORD * _WORD
            if size <= 0:
                continue
            words = memoryview(data)[shift : shift + size].cast("Q")
            known = self._words.intersection(words)
            if known:
                offsets = [at for at, word in enumerate(words) if word in known]
                for at in offsets:
                    yield from self._around(data, shift + at * _WORD)

    def _around(self, data: bytes, position: int) -> Iterator[tuple[bytes, int]]:
        """Yield the fragments whose first bytes contain the word at a position."""
        for start in range(max(0, position - _STEP + 1), position + 1):
            for length in range(LEAST, LONG + 1):
                piece = data[start : start + length]
                if piece in self._pieces and len(piece) == length:
                    yield piece, start


def spoken(value: Any) -> Iterator[str]:
    """Yield the texts of a record or a part of one, without derived values.

    Times and digests are omitted, and paths, which the audit of memory files retains.
    """
    if isinstance(value, str):
        if not (value.startswith(ID_PREFIX) or is_canonical_time(value) or _is_digest(value)):
            yield value
    elif isinstance(value, list):
        for part in value:
            yield from spoken(part)
    elif isinstance(value, dict):
        for name, part in value.items():
            if name not in _OWN:
                yield from spoken(part)


def _is_digest(text: str) -> bool:
    return len(text) >= _DIGEST and is_hex(text)


def _words_of(piece: bytes) -> list[int]:
    return [memoryview(piece[at : at + _WORD]).cast("Q")[0] for at in range(_STEP)]


def _otherwise(text: str, data: bytes) -> Iterator[bytes]:
    """Yield fragments of a text in other encodings."""
    if len(data) < LONG:
        return
    written = json.dumps(text, ensure_ascii=False)[1:-1].encode("utf-8", "surrogatepass")
    if written != data:
        yield from _cut(written)
    ascii_only = json.dumps(text)[1:-1].encode()
    if ascii_only != written:
        yield _middle(ascii_only)
    yield _middle(text.encode("utf-16-le", "surrogatepass"))
    for shift in range(
        3
    ):  # base64 encodes groups of three bytes, and the text may start anywhere in a group
        rest = data[shift:]
        coded = base64.b64encode(rest[: len(rest) - len(rest) % 3])
        if len(coded) >= LONG:
            yield _middle(coded)


def _cut(data: bytes) -> Iterator[bytes]:
    """Yield adjacent fragments; for a long text, some spread over its length."""
    last = max(0, len(data) - LONG)
    step = max(LONG, -(-last // _MOST_OF_TEXT))
    yield from (data[at : at + LONG] for at in range(0, last, step))
    yield data[last:]


def _middle(data: bytes) -> bytes:
    at = (len(data) - LONG) // 2
    return data[at : at + LONG]


def _in_blocks(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the same bytes in parts of bounded size."""
    for piece in pieces:
        for start in range(0, len(piece), _BLOCK):
            yield piece[start : start + _BLOCK]


_GZIP, _ZIP, _ZSTANDARD = b"\x1f\x8b", b"PK\x03\x04", b"\x28\xb5\x2f\xfd"
_MOST_DEEP = 3
_MOST_MEMBERS = 10_000


class NestedFileScanner:
    """Opens packed and encrypted files for a scan.

    Args:
        unlocking: Identities for decryption, without prompting for a passphrase.
        limits: Limits of expansion.
    """

    def __init__(self, unlocking: Unlocker, limits: Limits = DEFAULT_LIMITS) -> None:
        self._unlocking, self._limits = unlocking, limits
        self.closed = list[str]()
        """Descriptions of what could not be opened."""

    def within(self, extent: Extent, deep: int = 0) -> Iterator[Extent]:
        """Yield the contents of an extent, recursively; each is closed when the next is requested.

        What cannot be opened is noted, with the reason.
        """
        try:
            head = next(iter(extent.pieces()), b"")[:HEAD_BYTES]
            kind = _kind(head)
            if kind is None:
                return
            if deep == _MOST_DEEP:
                self.closed.append(f"contents of {extent.name}: nested in too many archives")
            elif kind == "zip":
                yield from self._members(extent, deep)
            else:
                with _temporary() as plain:
                    self._unpack(kind, extent, plain)
                    inner = Extent(f"{extent.name} ({kind})", lambda: _pieces(plain))
                    yield inner
                    yield from self.within(inner, deep + 1)
        except (SatchelError, OSError, zipfile.BadZipFile, zlib.error) as error:
            why = error.message if isinstance(error, SatchelError) else str(error)
            self.closed.append(f"contents of {extent.name}: {why}")

    def _unpack(self, kind: str, extent: Extent, plain: BinaryIO) -> None:
        if kind == "gzip":
            self._gunzip(extent, plain)
        elif kind == "age":
            with _temporary() as encrypted:
                _copy(extent, encrypted)
                decrypt(encrypted, plain, self._unlocking)
        else:
            raise MalformedError("this kind of file cannot be unpacked")
        plain.flush()

    def _gunzip(self, extent: Extent, plain: BinaryIO) -> None:
        inflate, packed_size, size = zlib.decompressobj(wbits=31), 0, 0
        for piece in extent.pieces():
            packed_size += len(piece)
            data = piece
            while data:
                expanded = inflate.decompress(data, CHUNK)
                plain.write(expanded)
                size += len(expanded)
                self._require_fits(size, packed_size)
                data = inflate.unconsumed_tail
                if inflate.eof:  # another member may follow, and zero padding
                    data = inflate.unused_data.lstrip(b"\0")
                    inflate = zlib.decompressobj(wbits=31)

    def _members(self, extent: Extent, deep: int) -> Iterator[Extent]:
        with _temporary() as packed:
            packed_size = _copy(extent, packed)
            with zipfile.ZipFile(packed) as archive:
                members = archive.infolist()
                if len(members) > _MOST_MEMBERS:
                    raise LimitError(f"it has more than {_MOST_MEMBERS} members")
                size = 0
                for number, member in enumerate(members):
                    if member.is_dir():
                        continue
                    with _temporary() as plain, archive.open(member) as stream:
                        while piece := stream.read(CHUNK):
                            plain.write(piece)
                            size += len(piece)
                            self._require_fits(size, packed_size)
                        # Not its name, which may be erased content.
                        name = f"{extent.name} (member {number})"
                        inner = Extent(name, lambda plain=plain: _pieces(plain))  # type: ignore[misc]
                        yield inner
                        yield from self.within(inner, deep + 1)

    def _require_fits(self, size: int, packed_size: int) -> None:
        most = max(self._limits.expansion_free_bytes, self._limits.expansion * packed_size)
        if size > most:
            raise LimitError(f"it expands to more than {self._limits.expansion} times its size")


def _kind(head: bytes) -> str | None:
    if head.startswith(_GZIP):
        return "gzip"
    if head.startswith(_ZIP):
        return "zip"
    if head.startswith(_ZSTANDARD):
        return "zstd"
    return "age" if is_encrypted(head) else None


def _copy(extent: Extent, sink: BinaryIO) -> int:
    size = sum(sink.write(piece) for piece in extent.pieces())
    sink.seek(0)
    return size


def _pieces(plain: BinaryIO) -> Iterator[bytes]:
    plain.seek(0)
    while piece := plain.read(CHUNK):
        yield piece


@contextmanager
def _temporary() -> Iterator[BinaryIO]:
    with tempfile.TemporaryFile() as plain:
        yield cast("BinaryIO", plain)
