"""The records that an output is going to have: all of them, as far as somebody asked for them."""

from collections.abc import Callable, Iterator
from typing import cast

import msgspec

from satchel.artifact.body import TYPED_SECTIONS
from satchel.crypto.canonical import canonical_checked
from satchel.crypto.sealed_records import decode_record
from satchel.model.records import Entry
from satchel.ports.format import Format, SelectiveFormat, WriteContext
from satchel.ports.record_set import RecordSet
from satchel.receipts.tally import CARRIED, Tally

Trim = Callable[[bytes], bytes]
"""Takes the canonical bytes of a record, and returns them without what nobody asked for."""


def unchanged(line: bytes) -> bytes:
    """Return a line as it is."""
    return line


def trim_of(adapter: Format, writing: WriteContext) -> Trim:
    """Return what a format does to records where not all of them was asked for."""
    if not isinstance(adapter, SelectiveFormat) or (writing.entities and writing.embeddings):
        return unchanged
    choosing: SelectiveFormat = adapter
    signs = [] if writing.entities else [b'"entities":']
    signs += [] if writing.embeddings else [b'"embedding":']

    def trim(line: bytes) -> bytes:
        if not any(sign in line for sign in signs):
            return line
        model = decode_record(line)
        if not isinstance(model, Entry):
            return line
        left = choosing.as_asked(model, writing)
        if left is model:
            return line
        return canonical_checked(cast("object", msgspec.to_builtins(left)))

    return trim


def lines_of(records: RecordSet, trim: Trim = unchanged) -> Iterator[tuple[str, bytes]]:
    """Yield type and canonical bytes of each record that is memory."""
    for section, span in records.body.spans().items():
        record_type = TYPED_SECTIONS.get(section)
        if record_type in CARRIED:
            for line in records.body.within(span):
                yield str(record_type), trim(line)


def tallied(records: RecordSet, trim: Trim = unchanged) -> Tally:
    """Count a set of records, without looking into them."""
    found = Tally()
    for section, span in records.body.spans().items():
        record_type = TYPED_SECTIONS.get(section)
        if record_type is not None:
            for line in records.body.within(span):
                found.add(record_type, trim(line))
    return found
