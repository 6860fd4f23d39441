"""An AMA file as lines: the header, then one memory each, read from one opened file.

Whatever is wrong with one line leaves the next one readable, and costs no more memory than a line
may have. The header's count is held against the lines: Astrocyte never does.
"""

from typing import Any, BinaryIO

import msgspec

from satchel.errors import EmptyInputError, InputError, LimitError, MalformedError
from satchel.formats._lines import Lines, json_object
from satchel.formats._unpacking import Unpacked
from satchel.seal.encoding.carry import restore
from satchel.seal.limits import Limits

VERSION = "_ama_version"
"""The member by which a header is known."""

HEADER = (VERSION, "bank_id", "exported_at", "provider", "memory_count")
"""The members of a header that Astrocyte knows."""

MOST_HEADER_TEXT = 1024
"""Characters in a text of the header: one megabyte there was one megabyte in each memory."""

Row = dict[str, Any]
"""One line, as JSON; what the value domain cannot hold is in its reversible form."""


class AmaHeader(msgspec.Struct, frozen=True, kw_only=True):
    """The first line of an archive."""

    bank_id: str
    exported_at: str
    provider: str
    memory_count: int
    """How many memories the file says it holds."""

    version: int = 1
    extra: dict[str, Any] = {}
    """Members that Astrocyte does not know."""


class Archive:
    """An archive that is being read, line by line.

    Args:
        stream: The file; read once, never closed.
        name: What to call it in errors.
        limits: The bounds.

    Raises:
        MalformedError: If the first line is not a header.
        EmptyInputError: If there is none.
        LimitError: If a bound is reached.
    """

    def __init__(self, stream: BinaryIO, name: str, limits: Limits) -> None:
        self._lines = Lines(Unpacked(stream, limits))
        self._name = name
        self._bound = limits.line_bytes
        self.count = 0
        """Lines behind the header so far, bad ones too."""

        # The header is kept in one record.
        first = self._read(min(limits.line_bytes, limits.entry_bytes // 2))
        if first is None:
            raise EmptyInputError("the file is empty", file=name)
        self.header_row = first
        try:
            self.header = _header(first)
        except InputError as error:
            raise error.located(file=name, line=self.line) from None

    @property
    def line(self) -> int:
        """The line, from 1, that was read last."""
        return self._lines.number

    def read(self) -> Row | None:
        """Return the next line; None at the end. After an error, the next call goes on behind it.

        Raises:
            MalformedError: If the line is not one JSON object, or the file is damaged there.
            LimitError: If it is too long, or the file expands too far.
        """
        try:
            row = self._read(self._bound)
        except InputError:
            self.count += not self._lines.broken
            raise
        self.count += row is not None
        return row

    def count_problem(self) -> MalformedError | None:
        """Return what is wrong with the header's count, once all lines were read."""
        said, found = self.header.memory_count, self.count
        if said == found:
            return None
        what = "cut" if found < said else "appended to, or two files in one"
        return MalformedError(
            f"the header counts {said} memories, and the file contains {found}",
            file=self._name,
            line=1,
            field="memory_count",
            hint=f"The file may have been {what}; to import what is there: --skip-bad.",
        )

    def _read(self, bound: int) -> Row | None:
        try:
            line = self._lines.next(bound)
            return None if line is None else json_object(line, bound)
        except InputError as error:
            error.file, error.line, error.byte = self._name, self.line, None
            raise


def _header(row: Row) -> AmaHeader:
    if VERSION not in row:
        raise MalformedError(f"the first line has no `{VERSION}`", field=VERSION)
    if type(row[VERSION]) is not int or row[VERSION] != 1:
        raise MalformedError("only version 1 of this format is supported", field=VERSION)
    for name in ("bank_id", "exported_at", "provider"):
        if type(row.get(name)) is not str:
            raise MalformedError(f"`{name}` is not text", field=name)
        if len(row[name]) > MOST_HEADER_TEXT:
            problem = f"more than {MOST_HEADER_TEXT} characters in a text of the header"
            raise LimitError(problem, field=name)
    count = row.get("memory_count")
    if type(count) is not int or count < 0:
        raise MalformedError("`memory_count` is not a number of memories", field="memory_count")
    return AmaHeader(
        bank_id=row["bank_id"],
        exported_at=row["exported_at"],
        provider=row["provider"],
        memory_count=count,
        extra={name: part for name, part in restore(row).items() if name not in HEADER},
    )
