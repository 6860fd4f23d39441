"""The file that a sidecar is: a head that says which output it is of, and a line for each record.

The head names the output by its digest, and the lines by theirs, so one that was changed, or is of
another output, shows. A line says by what its record is known in the output, and what is to be
changed to have it back; or it holds a record that is not there at all; or it says that the format
made up a record by itself, which goes again.
"""

from collections.abc import Iterator
from typing import Any, BinaryIO, Literal

import msgspec
from blake3 import blake3

from satchel.disk.reading import ToRead, reading
from satchel.disk.spool import Spool
from satchel.errors import LimitError, MalformedError
from satchel.memory.records import Count
from satchel.seal.encoding.jcs import canonical_checked
from satchel.seal.limits import Limits
from satchel.transfer.receipts.pairing import MARK_BYTES, Said
from satchel.transfer.sidecars.changes import Change
from satchel.type_info import resolved

VERSION: Literal[1] = 1
"""Of the form of sidecars."""

SUFFIX = ".satchel.jsonl"
"""What stands behind the name of an output in that of its sidecar."""

WITHOUT = "Put the right sidecar next to the file, or continue without it: --ignore-sidecar."

_HEAD_BYTES = 4096
_ROOM = 4
"""How much longer a line may be than a record: a change holds a part of it, and marks."""


class Output(msgspec.Struct, frozen=True, kw_only=True):
    """Of which file it is."""

    digest: str
    """``blake3:`` and 64 hex digits of its plain bytes; of a folder, of its files put together."""

    bytes: Count


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """The first line."""

    satchel_sidecar: int
    """Version of the form."""

    format: str
    """Of the output."""

    output: Output
    lines: Count
    digest: str
    """``blake3:`` and 64 hex digits of all lines behind this one."""


class Line(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line behind the head."""

    known: tuple[str, str | None, str | None, str | None] | None = None
    """By what a record of the output is known, hexadecimal: all of it, all but its origin, the id
    that it has there, its words."""

    type: str | None = None
    """Of the record in the output."""

    id: str | None = None
    """Of the record that it was; none for one that the format made up."""

    nonce: str | None = None
    change: Change = Change()
    record: dict[str, Any] | None = None
    """All of a record that is not in the output."""

    @property
    def said(self) -> tuple[bytes | None, ...]:
        """The marks as bytes."""
        return tuple(None if one is None else bytes.fromhex(one) for one in self.known or ())


_decode_head = msgspec.json.Decoder(resolved(Head)).decode
_decode_line = msgspec.json.Decoder(resolved(Line)).decode
_encode = msgspec.json.Encoder(order="sorted").encode


def marks_of(said: Said) -> tuple[str, str | None, str | None, str | None]:
    """Return by what a record is known, as a line has it."""
    return said.print.hex(), _hex(said.bare), _hex(said.key), _hex(said.words)


def _hex(mark: bytes | None) -> str | None:
    return None if mark is None else mark.hex()


def line_of(body: bytes) -> Line:
    """Return a line that was checked before."""
    return _decode_line(body)


class Lines:
    """The lines of a sidecar that is being made. They wait until all of them are known."""

    def __init__(self) -> None:
        self._spool = Spool()
        self._sum = blake3()
        self.count = 0

    def add(self, line: Line) -> None:
        """Add one."""
        body = _encode(line) + b"\n"
        self._sum.update(body)
        self._spool.write(body)
        self.count += 1

    def write(self, sink: BinaryIO, format_: str, output: Output) -> None:
        """Write the sidecar."""
        head = Head(
            satchel_sidecar=VERSION,
            format=format_,
            output=output,
            lines=self.count,
            digest=f"blake3:{self._sum.hexdigest()}",
        )
        sink.write(canonical_checked(msgspec.to_builtins(head)) + b"\n")
        sink.writelines(self._spool.chunks())

    def close(self) -> None:
        """Give the space back."""
        self._spool.close()


def head_of(file: ToRead) -> Head:
    """Return the first line of a sidecar.

    Raises:
        MalformedError: If it is none, or of a version that is not known here.
        UnreadableError: If it cannot be read.
    """
    with reading(file) as stream:
        return _head(stream)


def _head(stream: BinaryIO) -> Head:
    line = stream.readline(_HEAD_BYTES)
    try:
        head = _decode_head(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise MalformedError("not a sidecar", line=1, hint=WITHOUT) from None
    if head.satchel_sidecar != VERSION:
        raise MalformedError(
            f"a sidecar of version {head.satchel_sidecar}",
            line=1,
            field="satchel_sidecar",
            hint="It was written by a newer version of Satchel; upgrade.",
        )
    return head


def read_lines(file: ToRead, limits: Limits) -> Iterator[tuple[Line, bytes]]:
    """Yield the lines of a sidecar behind the head, each with its bytes.

    Believe none of them before the last came: only then it is known that nothing was changed.

    Raises:
        MalformedError: If a line is none, or they are not those that were written.
        LimitError: If a line is too long, or these are too many.
        UnreadableError: If it cannot be read.
    """
    most, found, count = _ROOM * limits.entry_bytes, blake3(), 0
    with reading(file) as stream:
        head = _head(stream)
        while body := stream.readline(most + 1):
            count += 1
            if len(body) > most or count > limits.records:
                raise LimitError("too large for a sidecar", line=count + 1)
            found.update(body)
            yield _line(body, count + 1), body
        if count != head.lines or head.digest != f"blake3:{found.hexdigest()}":
            raise MalformedError(
                "the sidecar was changed or truncated", line=count + 1, field="digest", hint=WITHOUT
            )


def _line(body: bytes, number: int) -> Line:
    try:
        line = _decode_line(body)
        marks = line.said
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise MalformedError(
            f"not a line of a sidecar: {error}", line=number, hint=WITHOUT
        ) from None
    whole = line.record is not None
    if whole == bool(marks) or bool(marks) != (line.type is not None):
        raise MalformedError("not a line of a sidecar", line=number, hint=WITHOUT)
    if any(one is not None and len(one) != MARK_BYTES for one in marks) or (
        (line.id is None) != (line.nonce is None)
    ):
        raise MalformedError("not a line of a sidecar", line=number, hint=WITHOUT)
    return line
