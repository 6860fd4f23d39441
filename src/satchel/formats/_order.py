"""The order of the kinds of memory in a file; in an artifact each kind has its own section."""

import base64
import binascii
import zlib
from collections.abc import Iterator
from typing import Any

from satchel.artifact.body import COMPONENTS
from satchel.crypto.sealed_records import ENTRY_TAGS, Sealed
from satchel.model.records import Entry
from satchel.ports.format import ReadContext
from satchel.ports.record_set import RecordSet

_MOST = 1 << 18
_KINDS = tuple(COMPONENTS)
_PLACE = {kind: place for place, kind in enumerate(_KINDS)}
_MEMBER = "order"


class Order:
    """Remembers how kinds of memory follow each other: a byte each, packed at the end."""

    def __init__(self) -> None:
        self._kinds = bytearray()

    def add(self, entry: Entry) -> None:
        """Take the next memory."""
        self._kinds.append(_PLACE[ENTRY_TAGS[type(entry)]])

    def keep(self, reading: ReadContext) -> None:
        """Put the order beside the records, where the sections do not give it."""
        if bytes(self._kinds) == bytes(sorted(self._kinds)):
            return
        packed = base64.b64encode(zlib.compress(self._kinds, 9)).decode()
        if len(packed) > _MOST:
            reading.report.note("memories will be written grouped by kind")
        else:
            reading.container[_MEMBER] = packed


def in_order(records: RecordSet, container: dict[str, Any]) -> Iterator[Sealed]:
    """Yield the entries, in the order in which they were read as far as it is known."""
    waiting = [records.of(kind) for kind in _KINDS]
    count = sum(records.count(kind) for kind in _KINDS)
    for kind in _unpacked(container.get(_MEMBER), count):
        if kind < len(waiting) and (record := next(waiting[kind], None)) is not None:
            yield record
    for rest in waiting:
        yield from rest


def _unpacked(packed: object, count: int) -> bytes:
    """Return at most so many kinds; none from what is no order."""
    if not isinstance(packed, str):
        return b""
    try:
        return zlib.decompressobj().decompress(base64.b64decode(packed, validate=True), count or 1)
    except (binascii.Error, ValueError, zlib.error):
        return b""
