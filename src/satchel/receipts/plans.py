"""What a transfer would do, as a value: what a dry run gives."""

from collections.abc import Callable, Iterator
from typing import Literal, cast

import msgspec

from satchel.artifact.body import TYPED_SECTIONS
from satchel.crypto.canonical import canonical_checked
from satchel.crypto.sealed_records import shape_of
from satchel.model.entries import Entry
from satchel.model.records import Count
from satchel.ports.format import Choosing, Format, Writing
from satchel.ports.record_set import RecordSet
from satchel.receipts.account import End, Kind, Lost, Refused
from satchel.receipts.tally import CARRIED, Tally


class Tenant(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Whose memory something is, and where it goes."""

    sort: Literal["user", "agent", "run", "nobody"]
    name: str
    records: Count
    bank: str | None = None
    """The bank's name; None where nothing goes into a bank."""

    mapped: bool = False
    """Whether a person said that it goes there."""


class Target(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What would become of one bank, or of the file that is written."""

    name: str
    bank: str | None = None
    """Id of the bank, where it is there."""

    makes: bool = False
    """Whether it would be made."""

    created: Count = 0
    """Records that would be new."""

    changed: Count = 0
    """Memories that would be superseded, deleted, or current again."""

    left_alone: Count = 0
    """Records of the input that are there already, or are left out."""

    conflicts: Count = 0
    """Other versions of what is there."""

    conflict_examples: list[str] = []
    """The things of which there is another version, by their ids at their origin."""


class NearDuplicate(msgspec.Struct, frozen=True, kw_only=True):
    """Two memories that say almost the same, by their ids."""

    one: str
    other: str
    similarity: float


class EmbeddingCost(msgspec.Struct, frozen=True, kw_only=True):
    """What embedding the new memories would take."""

    records: Count
    characters: Count
    tokens: Count
    """An estimate, rather too high."""


class TransferPlan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a transfer would do; nothing was changed to find it out."""

    version: Literal[1]
    kind: Kind
    tool: str
    input: End
    output: End
    read: dict[str, Count]
    """Records by type."""

    targets: list[Target]
    embedding: EmbeddingCost
    seconds: float
    """How long it would take, from the time that reading took here and now."""

    bytes_per_second: Count
    tenants: list[Tenant] = []
    tenants_left: Count = 0
    """How many more owners there are than are named."""

    cannot_hold: list[Lost] = []
    """What would not make it, field by field."""

    refused: Count = 0
    refusals: list[Refused] = []
    near_duplicates: Count | None = None
    """Memories that say almost what another one says; None where nobody looked for them."""

    near_examples: list[NearDuplicate] = []
    """The first of them, each with the one that it is most like: in the bank, or before it."""

    secrets: dict[str, Count] = {}
    notes: list[str] = []

    @property
    def unaccepted(self) -> int:
        """How much would be lost that nobody said may be lost."""
        return sum(one.count for one in self.cannot_hold if not one.accepted)


Trim = Callable[[bytes], bytes]
"""Takes the canonical bytes of a record, and returns them without what nobody asked for."""


def unchanged(line: bytes) -> bytes:
    """Return a line as it is."""
    return line


def trim_of(adapter: Format, writing: Writing) -> Trim:
    """Return what a format does to records where not all of them was asked for."""
    if not isinstance(adapter, Choosing) or (writing.entities and writing.embeddings):
        return unchanged
    choosing: Choosing = adapter
    signs = [] if writing.entities else [b'"entities":']
    signs += [] if writing.embeddings else [b'"embedding":']

    def trim(line: bytes) -> bytes:
        if not any(sign in line for sign in signs):
            return line
        model = shape_of(line)
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
