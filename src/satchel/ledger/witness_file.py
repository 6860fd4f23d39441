"""Lines of a witness file: one signed head each, framed so that torn lines are detected.

A line is the length of its JSON (4 hex digits), a checksum over it (16), and the canonical JSON of
a signed head, then LF. A crash during an append leaves a line that is shorter than its length and
has no LF, or, if the disk was behind, zero bytes in any part of it: the LF may exist without the
start. Any other line that does not match its checksum was changed later and is damaged. A last line
that lacks only its LF is complete: a head is recorded after its commit, so accepting it is never
too early.
"""

import errno
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, cast

import msgspec
from blake3 import blake3
from msgspec import Meta

from satchel.crypto.canonical import canonical, canonical_checked, decode_canonical
from satchel.crypto.log import Head, check_head, parse_head
from satchel.errors import MalformedError, PathRefusedError, SatchelError, TargetError, WitnessError
from satchel.model.values import Id, resolved
from satchel.runtime.files import PRIVATE_FILE, atomic_write, leftover_files, target_error
from satchel.runtime.private_files import open_unshared

MAX_LINE = 4096
"""Maximum bytes of a line with its LF; a head has about 600."""

DAMAGED = (
    "Keep a copy of the file as evidence. If the bank itself is correct, move the file away: the "
    "witness is recreated by the bank's next commit."
)
"""The hint for a damaged witness."""

_CHUNK = 1 << 16
_SECTOR = 512
_HEADER = re.compile(rb"([0-9a-f]{4}) ([0-9a-f]{16}) ")
_HEADER_BYTES = 22
_PARTIAL_HEADER = re.compile(rb"[0-9a-f]{0,4}|[0-9a-f]{4} [0-9a-f]{0,16}")


class WitnessedHead(msgspec.Struct, frozen=True, kw_only=True):
    """A head that was recorded, or is about to be; its signature is valid."""

    head: Head
    signed: bytes
    """Canonical JSON of the head with its signature."""

    @property
    def value(self) -> dict[str, Any]:
        """The same as a value."""
        return cast("dict[str, Any]", msgspec.json.decode(self.signed))

    @property
    def place(self) -> tuple[int, int]:
        """Epoch and size, which define the order of the heads of a bank."""
        return self.head.epoch, self.head.size


class Tail(NamedTuple):
    """The end of a witness file."""

    line: bytes
    """The last complete line without its LF; empty if there is none."""

    end: int
    """Bytes of the file up to the end of that line."""

    closed: bool
    """Whether the line has its LF."""

    size: int
    """Bytes of the file, including those that a crash left after that line."""


def format_line(value: dict[str, Any]) -> bytes:
    """Return the line, with its LF, of a signed head.

    Raises:
        WitnessError: If it would be too long.
    """
    return frame_line(canonical(value))


def frame_line(body: bytes) -> bytes:
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


@lru_cache(64)  # the newest line is read before every read of a store, by each witness of a program
def parse_line(line: bytes, bank: str) -> WitnessedHead:
    """Return the head in a line without its LF.

    Raises:
        WitnessError: If it is damaged, its signature is invalid, or it is of another bank.
    """
    try:
        return verify_signed_head(decode_canonical(line_json(line)), bank)
    except MalformedError as error:
        raise damage_error(f"what was recorded is not a head: {error.message}") from None


def verify_signed_head(value: dict[str, Any], bank: str | None = None) -> WitnessedHead:
    """Return a signed head whose signature is valid.

    Args:
        value: As ``sign_head`` returns it.
        bank: The required bank, if known.

    Raises:
        MalformedError: If it is not a signed head, the signature is invalid, or it is of another
            bank.
    """
    head = parse_head(value)
    verdict = check_head(value, head)
    if not verdict.valid:
        raise MalformedError(f"the head's signature is not valid: {verdict.problem}")
    if bank is not None and head.signed.bank != bank:
        raise MalformedError(f"the head belongs to another bank: {head.signed.bank}")
    return WitnessedHead(head=head.signed, signed=canonical(value))


def line_json(line: bytes) -> bytes:
    """Return the JSON of a line without its LF, as it was recorded.

    Raises:
        WitnessError: If length or checksum do not match.
    """
    header = _HEADER.match(line)
    body = line[_HEADER_BYTES:]
    if header is None or int(header[1], 16) != len(body) or _checksum(body) != header[2]:
        raise damage_error("a line was changed after it was recorded")
    return body


def read_tail(handle: int) -> Tail:
    """Return the end of the file, which is read from its last bytes.

    Raises:
        WitnessError: If the end is neither complete nor torn by a crash.
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
            raise damage_error("the last line was changed after it was recorded", byte=end)
    line = before.rpartition(b"\n")[2]
    if end and not line:
        raise damage_error("the last line is missing", byte=end)
    return Tail(line, end, closed=True, size=size)


def all_lines(handle: int) -> list[bytes]:
    """Return the lines of a file without their LF, oldest first.

    Raises:
        WitnessError: As ``tail_of``.
    """
    tail = read_tail(handle)
    return os.pread(handle, tail.end - tail.closed, 0).split(b"\n") if tail.line else []


def read_backwards(handle: int, tail: Tail) -> Iterator[bytes]:
    """Yield the lines of a file without their LF, newest first."""
    end, rest = tail.end - tail.closed, b""
    while end > 0:
        start = max(0, end - _CHUNK)
        rest, *lines = (os.pread(handle, end - start, start) + rest).split(b"\n")
        yield from reversed(lines)
        end = start
    yield rest


def damage_error(message: str, *, byte: int | None = None) -> WitnessError:
    """Return the error for a file that was changed or damaged."""
    return WitnessError(message, byte=byte, hint=DAMAGED)


def _checksum(body: bytes) -> bytes:
    return blake3(body).hexdigest(8).encode()


def _is_whole(line: bytes) -> bool:
    try:
        line_json(line)
    except WitnessError:
        return False
    return True


def _has_hole(line: bytes, position: int) -> bool:
    """Return whether part of a line at a file position never reached the disk.

    A single zero byte may also be a change; it is a hole if a sector ends with it.
    """
    return line.count(b"\0") > 1 or (line.startswith(b"\0") and (position + 1) % _SECTOR == 0)


def _is_torn(rest: bytes) -> bool:
    """Return whether bytes without LF are a line torn by a crash."""
    if b"\0" in rest:  # canonical JSON has none: the disk was behind
        return True
    header = _HEADER.match(rest)
    if header is None:
        return _PARTIAL_HEADER.fullmatch(rest) is not None
    return len(rest) - _HEADER_BYTES < int(header[1], 16)


def covers(handle: int, newest: Tail, last: WitnessedHead | None, new: WitnessedHead) -> bool:
    """Return whether a file needs no line for a head.

    Args:
        handle: Descriptor of the file.
        newest: Its end.
        last: The head in its newest line; None if there is none.
        new: The head.

    Raises:
        WitnessError: If the head contradicts the file, or a line is damaged.
    """
    if last is None or new.place > last.place:
        return False
    epoch, bank = new.head.epoch, new.head.bank
    if epoch < last.head.epoch:
        raise WitnessError(
            f"this head is of epoch {epoch}, and epoch {last.head.epoch} was witnessed",
            hint="The bank was rolled back or restored by another process: open it again.",
        )
    for line in read_backwards(handle, newest):
        head = parse_line(line, bank)
        if head.place < new.place:
            break
        if head.place == new.place and head.head.root != new.head.root:
            raise WitnessError(
                f"another head of epoch {epoch} and size {new.head.size} was witnessed: the bank"
                f" was forked; {head.head.root} was seen, {new.head.root} is new",
                hint="Keep both copies of the store, and find out which one is yours.",
            )
    return True


def parse_lines(lines: Sequence[bytes], bank: str) -> list[WitnessedHead]:
    """Return the heads in the lines of a complete file.

    Raises:
        WitnessError: If one is damaged, or they do not grow.
    """
    heads: list[WitnessedHead] = []
    for number, line in enumerate(lines, 1):
        try:
            heads.append(parse_line(line, bank))
        except WitnessError as error:
            raise error.located(line=number) from None
        if number > 1 and heads[-1].place <= heads[-2].place:
            raise WitnessError("the heads do not grow", line=number, hint=DAMAGED)
    return heads


COMPACT_BYTES = 1 << 20
"""Each time a file grows past a multiple of this it is compacted to at most half of it."""


def append(handle: int, after: Tail, line: bytes) -> None:
    """Write a line after the newest one, over the rest of a crash, and force it to disk.

    Raises:
        OSError: If the system refuses; the file ends at the newest line.
    """
    rest = line if after.closed else b"\n" + line
    position = after.end
    try:
        if after.size != after.end:
            os.ftruncate(handle, after.end)
        while rest:
            written = os.pwrite(handle, rest, position)
            position, rest = position + written, rest[written:]
        os.fdatasync(handle)
    except BaseException:
        # Also a complete line that could not be forced: its pages count as written, so only writing
        # it again makes it durable.
        with suppress(OSError):
            os.ftruncate(handle, after.end)
        raise


def compact(path: Path, bank: str) -> None:
    """Rewrite a file with fewer old heads, in one step.

    The newest head stays, the first, the last of each epoch, and every 2^k-th of the others. A
    rollback is still detected, by the newest head alone, since every valid state of the store has
    that head as a prefix. Older ones only help to locate the start of a fork, to within 2^k
    commits.

    Raises:
        OSError: If the system refuses; the file is unchanged.
        TargetError: The same.
        WitnessError: If a line is damaged; the file is unchanged, so that nothing is hidden.
    """
    for stale in leftover_files(path):
        stale.unlink()  # left by a crash; the holder of the lock is the only writer
    with open_unshared(path, os.O_RDONLY) as handle:
        lines = all_lines(handle)
    epochs = [found.head.epoch for found in parse_lines(lines, bank)]
    kept = _retained_lines(lines, epochs)
    if len(kept) < len(lines):
        with atomic_write(path, mode=PRIVATE_FILE) as stream:
            stream.writelines(lines[n] + b"\n" for n in kept)


def _retained_lines(lines: Sequence[bytes], epochs: Sequence[int]) -> list[int]:
    last = len(lines) - 1
    marks = {0, last} | {n for n in range(last) if epochs[n] != epochs[n + 1]}
    step = 1
    while step <= last:
        kept = [n for n in range(len(lines)) if n in marks or n % step == 0]
        if sum(len(lines[n]) + 1 for n in kept) <= COMPACT_BYTES // 2:
            return kept
        step *= 2
    return sorted(marks & set(range(len(lines))))


_NOT_OURS_TO_WRITE = {errno.EROFS, errno.EACCES, errno.EPERM}


def is_shut(error: OSError | TargetError) -> bool:
    """Return whether the medium is read-only, instead of failing."""
    cause = error.__cause__ if isinstance(error, TargetError) else error
    return isinstance(cause, OSError) and cause.errno in _NOT_OURS_TO_WRITE


def read_errors(path: Path) -> AbstractContextManager[None]:
    """Convert errors in a block that reads to errors that name the file."""
    return _ErrorContext(path, _unreadable)


def write_errors(path: Path) -> AbstractContextManager[None]:
    """Convert errors in a block that writes to errors that name the file."""
    return _ErrorContext(path, target_error)


class _ErrorContext:
    """Adds the file to errors, and refuses files that are no witness of this user."""

    __slots__ = ("_say", "path")

    def __init__(self, path: Path, say: Callable[[Path, OSError], SatchelError]) -> None:
        self.path = path
        self._say = say

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, PathRefusedError):
            raise WitnessError(error.message, file=error.file, hint=error.hint) from error
        if isinstance(error, SatchelError):
            error.located(file=str(self.path))  # raised again after the block
        elif isinstance(error, OSError):
            raise self._say(self.path, error) from error


def _unreadable(path: Path, error: OSError) -> WitnessError:
    return WitnessError(
        f"cannot read: {error.strerror}", file=str(path), hint="Check its permissions."
    )


class AcceptedRollback(NamedTuple):
    """The position at which a log resumes before the witnessed head, by an owner's decision.

    From there on it has other records, which were never removed.
    """

    epoch: int
    """Epoch of the witnessed head."""

    size: int
    """Log size from which it resumes."""


class _Removed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    format: Literal["satchel-removed/1"]
    bank: Id
    positions: list[Annotated[int, Meta(ge=0)]]


def read_removed(path: Path, bank: str) -> tuple[tuple[int, ...], os.stat_result]:
    """Return the sorted log positions in a file, and its status when they were read.

    Raises:
        OSError: If it cannot be read; ``FileNotFoundError`` if it does not exist.
        PathRefusedError: If it is not a regular file of this user.
        WitnessError: If it is damaged.
    """
    with open_unshared(path, os.O_RDONLY) as handle:
        status = os.fstat(handle)
        with os.fdopen(os.dup(handle), "rb") as stream:
            data = stream.read(status.st_size)
    body, _, checksum = data.removesuffix(b"\n").rpartition(b"\n")
    if not data.endswith(b"\n") or _removed_checksum(body) != checksum:
        raise damage_error("the positions of removed records were changed after they were noted")
    try:
        removed = msgspec.convert(decode_canonical(body), resolved(_Removed))
    except (MalformedError, msgspec.ValidationError) as error:
        raise damage_error(f"not the positions of removed records: {error}") from None
    if removed.bank != bank:
        raise damage_error(f"the positions are of another bank: {removed.bank}")
    return tuple(removed.positions), status


def write_removed(path: Path, bank: str, positions: set[int]) -> None:
    """Replace the log positions in a file.

    Raises:
        TargetError: If the system refuses; the file is unchanged.
    """
    removed = _Removed(format="satchel-removed/1", bank=bank, positions=sorted(positions))
    body = canonical_checked(msgspec.to_builtins(removed))
    with atomic_write(path, mode=PRIVATE_FILE) as stream:
        stream.write(body + b"\n" + _removed_checksum(body) + b"\n")


def _removed_checksum(body: bytes) -> bytes:
    return blake3(body).hexdigest().encode()
