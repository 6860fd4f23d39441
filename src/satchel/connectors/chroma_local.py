"""One collection of Chroma's own database: ``chroma:///path/to/folder?collection=NAME``.

The folder of a ``PersistentClient`` is a file format, too (``formats.chroma``), which reads all of
its collections. This reads one of them, so that each can have its own bank.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import ClassVar

from satchel.connectors._address import Kind
from satchel.crypto.sealed_records import Sealed
from satchel.errors import MalformedError, UnreadableError, UsageError
from satchel.formats._chroma import ChromaSegment, collections_in, segments_in
from satchel.formats._database import open_database_copy
from satchel.formats.chroma import FILE, entries_in
from satchel.formats.chroma import FORMAT as CHROMA
from satchel.model.records import Model
from satchel.ports.format import ConnectorOptions, Info, Location, Page, ReadContext, WriteResult
from satchel.ports.record_set import Report

_KIND = Kind(
    "chroma:",
    "Chroma folder",
    frozenset({"collection"}),
    "chroma:///path/to/folder?collection=NAME",
)
_TOGETHER = 256
_CURSOR = re.compile("records/([0-9]{1,18})", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChromaAddress:
    """The address of a collection."""

    folder: Path
    collection: str | None = None

    @classmethod
    def read(cls, text: str) -> "ChromaAddress":
        """Parse an address.

        Raises:
            UsageError: If it is not valid.
        """
        folder, members = _KIND.read(text)
        return cls(folder=folder, collection=members.get("collection") or None)


class ChromaLocal:
    """A collection, which is only read; nothing should write to it during the run.

    Args:
        address: Its address.
        options: How to open it.

    Raises:
        UnreadableError: If it does not exist.
        MalformedError: If it is damaged.
        UsageError: If the collection is ambiguous, or it would be written to.
    """

    info: ClassVar[Info] = CHROMA.info

    def __init__(self, address: ChromaAddress, options: ConnectorOptions) -> None:
        if options.writes:
            raise UsageError(
                "Chroma's own database is read-only",
                field="output",
                hint="To write what a collection accepts: --to chroma_get.",
            )
        folder = address.folder
        self._source = Location(folder / FILE if folder.is_dir() else folder)
        self._reading = ReadContext(limits=options.limits, skip_bad=options.skip_bad)
        self._stack = ExitStack()
        self._items: Iterator[Model] = iter(())
        self._at = 0
        try:
            self._database = self._stack.enter_context(
                open_database_copy(self._source, self._reading)
            )
            found = collections_in(self._database, self._source.name)
            self._segment = _chosen(list(segments_in(self._database, found)), address)
        except BaseException:
            self.close()
            raise

    def page(self, cursor: str | None, report: Report) -> Page:
        """List records from ``cursor``."""
        start = _start(cursor)
        if start == 0 or start != self._at:
            self._reading.report = report
            found = entries_in(self._database, self._segment, self._source, self._reading)
            self._items, self._at = islice(found, start, None), start
        items = list(islice(self._items, _TOGETHER))
        self._at += len(items)
        return Page(items, f"records/{self._at}" if len(items) == _TOGETHER else None)

    def take(self, batch: Sequence[Sealed], report: Report) -> Sequence[WriteResult]:
        """Raise an error: Chroma is only read."""
        del report
        return [WriteResult(one.id, None, "Chroma's own database is read-only") for one in batch]

    def close(self) -> None:
        """Close the files."""
        self._stack.close()


def _start(cursor: str | None) -> int:
    if cursor is None:
        return 0
    match = _CURSOR.fullmatch(cursor)
    if match is None:
        raise MalformedError("no page starts at this cursor", field="cursor")
    return int(match[1])


def _chosen(segments: Sequence[ChromaSegment], address: ChromaAddress) -> ChromaSegment:
    """Return the collection to read."""
    names = sorted(segment.name for segment in segments)
    collection = address.collection
    if collection is None and len(segments) == 1:
        return segments[0]
    if collection is None and len(segments) > 1:
        raise UsageError(
            f"several collections exist: {', '.join(names)}",
            file=str(address.folder),
            hint=f"Choose one at the end of the address: ?collection={names[0]}",
        )
    for segment in segments:
        if segment.name == collection:
            return segment
    raise UnreadableError(
        "there is no collection" if collection is None else f"no collection named {collection!r}",
        file=str(address.folder),
        hint=f"Choose from: {', '.join(names)}." if names else None,
    )
