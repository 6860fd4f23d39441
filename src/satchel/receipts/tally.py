"""Counting records by type, and the members that they have."""

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
"""The types of records that are memory; the others tell of a log or of a transfer."""

_MOST_MEMBERS = 100

_IN_ALL = ("id", "nonce", "type")


_decoder = msgspec.json.Decoder(resolved(dict[str, msgspec.Raw]))


_members, _many = _decoder.decode, _decoder.decode_lines


class Tally:
    """How many records there are of each type, and how many have each member."""

    def __init__(self) -> None:
        self.records = Counter[str]()
        self.members = Counter[str]()
        """Of records that are memory."""

    def add(self, record_type: str, body: bytes) -> None:
        """Count a record, given its canonical bytes."""
        self.records[record_type] += 1
        if record_type in CARRIED:
            self.members.update(_members(body).keys())

    def add_many(self, rows: Sequence[Row]) -> None:
        """Count records, as ``add`` does one by one."""
        self.records.update(row.type for row in rows)
        lines = [row.body or b"" for row in rows if row.type in CARRIED]
        for names, number in Counter(map(tuple, _many(b"\n".join(lines)))).items():
            for name in names:  # most records have the same
                self.members[name] += number

    @property
    def kept(self) -> dict[str, int]:
        """The members by name, the most frequent ones where a file makes up its own."""
        found = [one for one in self.members.most_common() if one[0] not in _IN_ALL]
        return {receipt_text(name): number for name, number in sorted(found[:_MOST_MEMBERS])}


def by_type(records: RecordSet, types: Iterable[str] | None = None) -> dict[str, int]:
    """Return how many records of each type a set has."""
    wanted = None if types is None else frozenset(types)
    found = {TYPED_SECTIONS.get(name): number for name, number in records.counts.items()}
    return {
        name: number
        for name, number in found.items()
        if name is not None and (wanted is None or name in wanted)
    }


_ENTRIES = frozenset(map(str, Component))


class _TextMembers(msgspec.Struct, gc=False):
    text: str | None = None
    subject: str | None = None
    predicate: str | None = None
    object: str | None = None


_decode = msgspec.json.Decoder(resolved(_TextMembers)).decode


class RecordCounter:
    """Counts what goes past.

    Args:
        texts: Whether to look at texts as well.
    """

    def __init__(self, *, texts: bool) -> None:
        self._texts = texts
        self._since: float | None = None
        self.begin()

    def begin(self) -> None:
        """Forget what was counted; it is going to be read again."""
        self.types = Counter[str]()
        self.size = 0
        """Bytes of records."""

        self._before, self._since = 0.0, None
        self._records = self._characters = self._tokens = 0

    def add(self, lines: Iterable[tuple[str, bytes]]) -> None:
        """Count records, given type and canonical bytes."""
        for record_type, body in lines:
            self.types[record_type] += 1
            self.size += len(body)
            if self._texts and record_type in _ENTRIES:
                self._add_text(body)

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Add the time that a block takes, or has taken so far."""
        self._since = perf_counter()
        try:
            yield
        finally:
            self._before, self._since = self.spent, None

    @property
    def spent(self) -> float:
        """Seconds that were spent."""
        return self._before + (0.0 if self._since is None else perf_counter() - self._since)

    @property
    def embedding(self) -> EmbeddingCost:
        """What embedding all of it would take."""
        return EmbeddingCost(
            records=self._records, characters=self._characters, tokens=self._tokens
        )

    def seconds_for(self, passes: float) -> float:
        """Return how long so many such passes take, to the hundredth."""
        return round(self.spent * passes, 2)

    def rate(self, size: int) -> int:
        """Return bytes a second, of an input of so many bytes."""
        spent = self.spent
        return int(size / spent) if spent > 0 else 0

    def _add_text(self, body: bytes) -> None:
        said = _decode(body)
        triple = (said.subject, said.predicate, said.object)
        text = said.text or " ".join(part for part in triple if part)
        if text:
            self._records += 1
            self._characters += len(text)
            self._tokens += estimated_tokens(text)


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
