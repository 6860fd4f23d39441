"""Lines of a witness file: one signed head each, framed so that a torn one can be told.

A line is the length of its JSON (4 hex digits), a checksum over it (16), and the canonical JSON
of a signed head, then LF. A crash while a line is appended leaves less than the length says and no
LF, or, where the disk had not caught up, zero bytes in any part of it: its LF may be there without
its beginning. Anything else that does not match its checksum was changed later, and is damage. A
last line that lacks its LF alone is whole: a head
reaches the witness after its commit, so believing it is never too early.
"""

import os
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple, cast

import msgspec
from blake3 import blake3

from satchel.errors import MalformedError, WitnessError
from satchel.seal.encoding.jcs import canonical, decode_canonical
from satchel.seal.log import Head, check_head, parse_head

MAX_LINE = 4096
"""Bytes of a line with its LF; a head has about 600."""

DAMAGED = (
    "Keep a copy of the file as evidence. If the bank itself is correct, move the file away: the "
    "witness is recreated by the bank's next commit."
)
"""What to do about a damaged witness."""

_CHUNK = 1 << 16
_SECTOR = 512
_HEADER = re.compile(rb"([0-9a-f]{4}) ([0-9a-f]{16}) ")
_HEADER_BYTES = 22
_PARTIAL_HEADER = re.compile(rb"[0-9a-f]{0,4}|[0-9a-f]{4} [0-9a-f]{0,16}")


class Witnessed(msgspec.Struct, frozen=True, kw_only=True):
    """A head that was recorded, or is to be; its signature holds."""

    head: Head
    signed: bytes
    """Canonical JSON of the head with its signature."""

    @property
    def value(self) -> dict[str, Any]:
        """The same as a value."""
        return cast("dict[str, Any]", msgspec.json.decode(self.signed))

    @property
    def place(self) -> tuple[int, int]:
        """Epoch and size: what orders the heads of a bank."""
        return self.head.epoch, self.head.size


class Tail(NamedTuple):
    """The end of a witness file."""

    line: bytes
    """The last whole line without its LF; empty when there is none."""

    end: int
    """Bytes of the file up to the end of that line."""

    closed: bool
    """Whether the line has its LF."""

    size: int
    """Bytes of the file, with what a crash left after that line."""


def line_of(value: dict[str, Any]) -> bytes:
    """Return the line, with its LF, of a signed head.

    Raises:
        WitnessError: If it would be too long.
    """
    return framed(canonical(value))


def framed(body: bytes) -> bytes:
    """Return the line, with its LF, of the canonical JSON of a signed head.

    Raises:
        WitnessError: As ``line_of``.
    """
    if _HEADER_BYTES + len(body) >= MAX_LINE:
        raise WitnessError(
            f"a head of {len(body)} bytes is too long to be witnessed",
            field="head.counts",
            hint="Was it written by another program?",
        )
    return b"%04x %b %b\n" % (len(body), _checksum(body), body)


@lru_cache(64)  # the newest line is looked at before every read, by each witness of a program
def witnessed(line: bytes, bank: str) -> Witnessed:
    """Return what a line without its LF says.

    Raises:
        WitnessError: If it is damaged, its signature does not hold, or it is of another bank.
    """
    try:
        return checked_head(decode_canonical(json_of(line)), bank)
    except MalformedError as error:
        raise damage(f"what was recorded is not a head: {error.message}") from None


def checked_head(value: dict[str, Any], bank: str | None = None) -> Witnessed:
    """Return a signed head whose signature holds.

    Args:
        value: As ``sign_head`` returns it.
        bank: The bank it has to be of, when that is known.

    Raises:
        MalformedError: If it has another shape, the signature does not hold, or the head is of
            another bank.
    """
    found = parse_head(value)
    verdict = check_head(value, found)
    if not verdict.valid:
        raise MalformedError(f"the head's signature is not valid: {verdict.problem}")
    if bank is not None and found.signed.bank != bank:
        raise MalformedError(f"the head belongs to another bank: {found.signed.bank}")
    return Witnessed(head=found.signed, signed=canonical(value))


def json_of(line: bytes) -> bytes:
    """Return the JSON of a line without its LF, as it was when it was recorded.

    Raises:
        WitnessError: If length or checksum do not match.
    """
    header = _HEADER.match(line)
    body = line[_HEADER_BYTES:]
    if header is None or int(header[1], 16) != len(body) or _checksum(body) != header[2]:
        raise damage("a line was changed after it was recorded")
    return body


def tail_of(handle: int) -> Tail:
    """Find the newest line, whatever the length of the file.

    Raises:
        WitnessError: If the file's end is neither whole nor torn by a crash.
    """
    size = os.fstat(handle).st_size
    start = max(0, size - 2 * MAX_LINE)
    data = os.pread(handle, size - start, start)
    before, _, rest = data.rpartition(b"\n")
    if not rest:
        line = before.rpartition(b"\n")[2]
        if _has_hole(line, start + len(before) - len(line)):
            before, rest = before[: -len(line) - 1], line + b"\n"
    end = start + len(data) - len(rest)
    if rest:
        body = rest.partition(b"\0")[0]
        if _is_whole(body):
            return Tail(body, end + len(body), closed=False, size=size)
        if not _is_torn(rest):
            raise damage("the last line was changed after it was recorded", byte=end)
    line = before.rpartition(b"\n")[2]
    if end and not line:
        raise damage("the last line is missing", byte=end)
    return Tail(line, end, closed=True, size=size)


def all_lines(handle: int) -> list[bytes]:
    """Return the lines of a file without their LF, oldest first.

    Raises:
        WitnessError: As ``tail_of``.
    """
    tail = tail_of(handle)
    return os.pread(handle, tail.end - tail.closed, 0).split(b"\n") if tail.line else []


def backwards(handle: int, tail: Tail) -> Iterator[bytes]:
    """Yield the lines of a file without their LF, newest first."""
    end, rest = tail.end - tail.closed, b""
    while end > 0:
        start = max(0, end - _CHUNK)
        rest, *lines = (os.pread(handle, end - start, start) + rest).split(b"\n")
        yield from reversed(lines)
        end = start
    yield rest


def damage(message: str, *, byte: int | None = None) -> WitnessError:
    """Return the error for a file that is not as it was written."""
    return WitnessError(message, byte=byte, hint=DAMAGED)


def _checksum(body: bytes) -> bytes:
    return blake3(body).hexdigest(8).encode()


def _is_whole(line: bytes) -> bool:
    try:
        json_of(line)
    except WitnessError:
        return False
    return True


def _has_hole(line: bytes, place: int) -> bool:
    """Tell whether part of a line, at a place of the file, never reached the disk.

    One zero byte may as well be a change; it is a hole where a sector ends with it.
    """
    return line.count(b"\0") > 1 or (line.startswith(b"\0") and (place + 1) % _SECTOR == 0)


def _is_torn(rest: bytes) -> bool:
    """Tell whether bytes without LF are what a crash leaves of a line."""
    if b"\0" in rest:  # canonical JSON has none: the disk had not caught up
        return True
    header = _HEADER.match(rest)
    if header is None:
        return _PARTIAL_HEADER.fullmatch(rest) is not None
    return len(rest) - _HEADER_BYTES < int(header[1], 16)
