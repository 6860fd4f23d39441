"""Counts of records: by type and member, of a pass over a source, of a set for an output."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter
from typing import cast

import msgspec

from satchel.artifact.body import TYPED_SECTIONS
from satchel.crypto.canonical import canonical_checked
from satchel.crypto.sealed_records import decode_record
from satchel.inference.tokenizers import estimated_tokens
from satchel.model.records import Entry
from satchel.model.values import Component, resolved
from satchel.ports.format import Format, SelectiveFormat, WriteContext
from satchel.ports.record_set import RecordSet
from satchel.ports.rows import Row
from satchel.receipts.receipt import EmbeddingCost, receipt_text

CARRIED = frozenset(
    {
        *("episodic", "semantic", "procedural", "working", "identity"),
        *("edge", "graph_node", "session_event", "file_version"),
    }
)
"""Types of records that are memory; others are about a log or a transfer."""

_MOST_MEMBERS = 100

_IN_ALL = ("id", "nonce", "type")


_decoder = msgspec.json.Decoder(resolved(dict[str, msgspec.Raw]))


_members, _many = _decoder.decode, _decoder.decode_lines


class Tally:
    """Counts records by type and by member."""

    def __init__(self) -> None:
        self.records = Counter[str]()
        self.members = Counter[str]()
        """Counts of members, for records that are memory."""

    def add(self, record_type: str, body: bytes) -> None:
        """Count a record, given its canonical bytes."""
        self.records[record_type] += 1
        if record_type in CARRIED:
            self.members.update(_members(body).keys())

    def add_many(self, rows: Sequence[Row]) -> None:
        """Count many records."""
        self.records.update(row.type for row in rows)
        lines = [row.body or b"" for row in rows if row.type in CARRIED]
        for names, number in Counter(map(tuple, _many(b"\n".join(lines)))).items():
            for name in names:  # most records have the same members
                self.members[name] += number

    @property
    def kept(self) -> dict[str, int]:
        """Counts by member name; only the most frequent if there are many."""
        found = [one for one in self.members.most_common() if one[0] not in _IN_ALL]
        return {receipt_text(name): number for name, number in sorted(found[:_MOST_MEMBERS])}


def by_type(records: RecordSet, types: Iterable[str] | None = None) -> dict[str, int]:
    """Return the number of records of each type in a set."""
    selected = None if types is None else frozenset(types)
    counted = {TYPED_SECTIONS.get(name): number for name, number in records.counts.items()}
    return {
        name: number
        for name, number in counted.items()
        if name is not None and (selected is None or name in selected)
    }


_ENTRIES = frozenset(map(str, Component))


class _TextMembers(msgspec.Struct, gc=False):
    text: str | None = None
    subject: str | None = None
    predicate: str | None = None
    object: str | None = None


_decode = msgspec.json.Decoder(resolved(_TextMembers)).decode


class RecordCounter:
    """Counts records and texts in one pass over a source, with the time spent.

    Args:
        texts: Whether to count texts, too.
    """

    def __init__(self, *, texts: bool) -> None:
        self._texts = texts
        self._since: float | None = None
        self.begin()

    def begin(self) -> None:
        """Reset the counts before the source is read again."""
        self.types = Counter[str]()
        self.size = 0
        """Size of the records in bytes."""

        self._before, self._since = 0.0, None
        self._records = self._characters = self._tokens = 0

    def add(self, lines: Iterable[tuple[str, bytes]]) -> None:
        """Count records, given their types and canonical bytes."""
        for record_type, body in lines:
            self.types[record_type] += 1
            self.size += len(body)
            if self._texts and record_type in _ENTRIES:
                self._add_text(body)

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Add the duration of a block."""
        self._since = perf_counter()
        try:
            yield
        finally:
            self._before, self._since = self.spent, None

    @property
    def spent(self) -> float:
        """Seconds spent so far."""
        return self._before + (0.0 if self._since is None else perf_counter() - self._since)

    @property
    def embedding(self) -> EmbeddingCost:
        """Estimated cost of embedding all memories."""
        return EmbeddingCost(
            records=self._records, characters=self._characters, tokens=self._tokens
        )

    def seconds_for(self, passes: float) -> float:
        """Return the duration of a number of passes in seconds, rounded to 0.01."""
        return round(self.spent * passes, 2)

    def rate(self, size: int) -> int:
        """Return bytes per second for an input of a size in bytes."""
        spent = self.spent
        return int(size / spent) if spent > 0 else 0

    def _add_text(self, body: bytes) -> None:
        members = _decode(body)
        triple = (members.subject, members.predicate, members.object)
        text = members.text or " ".join(part for part in triple if part)
        if text:
            self._records += 1
            self._characters += len(text)
            self._tokens += estimated_tokens(text)


Trim = Callable[[bytes], bytes]
"""Returns the canonical bytes of a record without what was not requested."""


def unchanged(line: bytes) -> bytes:
    """Return the line."""
    return line


def trim_of(adapter: Format, writing: WriteContext) -> Trim:
    """Return a function that removes what was not requested, as the format does."""
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
    """Count the records of a set."""
    tally = Tally()
    for section, span in records.body.spans().items():
        record_type = TYPED_SECTIONS.get(section)
        if record_type is not None:
            for line in records.body.within(span):
                tally.add(record_type, trim(line))
    return tally
