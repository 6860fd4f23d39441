"""Receipts and plans of transfers: counts, bodies, the signed records, files of receipts."""

import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Literal, cast

import msgspec

from satchel.artifact.body import TYPED_SECTIONS
from satchel.crypto.canonical import DEFAULT_LIMITS, canonical_checked
from satchel.crypto.keys import (
    PayloadType,
    SignatureCheck,
    SigningKey,
    check,
    parse_signatures,
    sign,
    signed_part,
)
from satchel.crypto.sealed_records import Sealed, decode_record, open_shape, seal
from satchel.errors import InputError, LimitError, MalformedError
from satchel.model.records import Count, Entry, Model, Receipt
from satchel.model.text import estimated_tokens
from satchel.model.values import ENTRY_TYPES, ID_PREFIX, Origin, resolved
from satchel.ports.drafts import OF_ROWS, is_empty
from satchel.ports.format import Format, SelectiveFormat, WriteContext
from satchel.ports.record_set import RecordSet, Report
from satchel.ports.rows import Row
from satchel.runtime.files import open_input
from satchel.runtime.output import Outlet

VERSION: Literal[1] = 1
"""Version of receipt bodies."""

EVERYTHING = "all"
"""Value of ``--accept-loss`` that accepts any loss."""

REFUSED = "record"
"""Field name with which refused and missing records are accepted."""

_MOST_LINES, _MOST_NOTES, _MOST_REFUSALS = 200, 50, 100
_LONGEST = 200
_SHORT = len(ID_PREFIX) + 16

Kind = Literal["import", "export", "convert", "migrate", "copy", "erase", "restore", "drill"]
ReadBack = Literal["equal", "verified", "differs"]


class TransferEnd(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One end of a transfer: a file, or a bank."""

    name: str
    """Name of the file or of the bank."""

    format: str | None = None
    digest: str | None = None
    """``blake3:`` and 64 hex digits of the file's bytes."""

    bytes: Count | None = None
    bank: str | None = None
    """ID of the bank."""

    store: str | None = None
    """Address of the store of the bank; of migrations."""

    size: Count | None = None
    """Number of records in the bank's log when it was read."""

    root: str | None = None
    """Root hash of the log at that size."""

    records: Count | None = None
    """Number of records read, or present now."""


def undo_command(source: str, bank: str | None, name: str | None) -> str:
    """Return the command that undoes an import.

    Args:
        source: ID of the import.
        bank: ID of the bank.
        name: Its name, which is used if a terminal can show it.
    """
    words = ["satchel", "undo", source[:_SHORT]]
    if name and name.isprintable() and not name.startswith("-"):
        words += ["--bank", name]
    elif bank:
        words += ["--bank", bank[:_SHORT]]
    return shlex.join(words)


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """Number of records of one type in each step."""

    read: Count = 0
    planned: Count = 0
    written: Count = 0
    read_back: Count = 0

    @classmethod
    def complete(cls, number: int) -> "Counts":
        """Return the counts of a copy in which every record was read back."""
        return cls(read=number, planned=number, written=number, read_back=number)


class FieldLoss(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Losses of one field for one reason."""

    field: str
    """Path of the member, or type of record."""

    count: Count
    reason: str
    examples: list[str] = []
    """IDs or positions of some records, never their content."""

    accepted: bool = False
    """Whether the loss was accepted beforehand."""


class ScanResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Raw bytes that were scanned for erased content."""

    name: str
    bytes: Count
    found: Count = 0
    """Number of positions with a fragment."""

    at: list[Count] = []
    """The first of them."""


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """A record that was refused."""

    place: str
    """Position in the input."""

    reason: str


class ReceiptBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Result of a transfer, as stored in a receipt."""

    version: Literal[1]
    kind: Kind
    tool: str
    began: str
    ended: str
    input: TransferEnd
    output: TransferEnd
    counts: dict[str, Counts]
    """Counts by type of record."""

    source: str | None = None
    """ID of the source record, by which an import is undone."""

    unchanged: bool = False
    """Whether everything was already present."""

    done: dict[str, Count] = {}
    """Counts of an import: added, known, skipped, overwritten and so on."""

    left: dict[str, Count] = {}
    """Records of types that are not imported, by type."""

    resumed: Count = 0
    """Number of records that an earlier attempt wrote."""

    verdict: str | None = None
    """Outcome of the verification of a sealed input."""

    read_back: ReadBack | None = None
    """``verified``: the seal of the output is valid. ``equal``: each record is as planned."""

    kept: dict[str, Count] = {}
    """Number of records with each member, as planned and read back."""

    sidecar: TransferEnd | None = None
    """The file next to the output or input with what the format cannot hold."""

    beside: list[FieldLoss] = []
    """What only the sidecar holds; none of it is lost."""

    added: dict[str, Count] = {}
    """Members that the format of the output added to records."""

    lost: list[FieldLoss] = []
    refused: Count = 0
    refusals: list[Refusal] = []
    """The first of them."""

    accepted: list[str] = []
    """Fields whose loss was accepted."""

    secrets: dict[str, Count] = {}
    """Number of likely keys, tokens, passwords and card numbers, by kind."""

    secrets_kept: Count = 0
    signed_by: str | None = None
    """Key that signed the output, if it is sealed."""

    scanned: list[ScanResult] = []
    """Of an erasure: what was scanned afterwards."""

    unreached: list[str] = []
    """Of an erasure: where copies may be that cannot be scanned here."""

    notes: list[str] = []

    @property
    def losses(self) -> int:
        """Number of values lost, accepted or not."""
        return sum(one.count for one in self.lost)

    @property
    def unaccepted(self) -> int:
        """Number of values lost without being accepted."""
        return sum(one.count for one in self.lost if not one.accepted)

    @property
    def total(self) -> Counts:
        """Sum of the counts of all types."""
        parts = self.counts.values()
        return Counts(
            read=sum(part.read for part in parts),
            planned=sum(part.planned for part in parts),
            written=sum(part.written for part in parts),
            read_back=sum(part.read_back for part in parts),
        )


def is_accepted(field: str, accepted: Iterable[str]) -> bool:
    """Return whether the loss of a field was accepted; a field includes its members."""
    return any(
        one in (EVERYTHING, field) or field.startswith(one.rstrip("/") + "/") for one in accepted
    )


def unaccepted(report: Report, accepted: Iterable[str]) -> int:
    """Return the number of values lost without being accepted."""
    return sum(one.count for one in lost_in(report, accepted) if not one.accepted)


def lost_in(report: Report, accepted: Iterable[str]) -> list[FieldLoss]:
    """Return the losses in a report, refused records included; excess ones are combined."""
    named = tuple(accepted)
    lines = list(_lines(report, named))
    rest = lines[_MOST_LINES:]
    if rest:
        count = sum(loss.count for loss in rest)
        field, reason = f"{len(rest)} more fields", "for different reasons"
        is_accepted = all(loss.accepted for loss in rest)
        lines[_MOST_LINES:] = [
            FieldLoss(field=field, count=count, reason=reason, accepted=is_accepted)
        ]
    return lines


def _lines(report: Report, accepted: tuple[str, ...]) -> Iterator[FieldLoss]:
    for loss in report.losses.values():
        yield FieldLoss(
            field=receipt_text(loss.name),
            count=loss.count,
            reason=receipt_text(loss.reason),
            examples=[receipt_text(one) for one in loss.examples],
            accepted=is_accepted(loss.name, accepted),
        )


def refusals_in(report: Report) -> list[Refusal]:
    """Return the first refused records."""
    first = report.refused[:_MOST_REFUSALS]
    return [
        Refusal(place=receipt_text(one.place), reason=receipt_text(one.message)) for one in first
    ]


def notes_in(report: Report) -> list[str]:
    """Return the first notes."""
    return [receipt_text(note) for note in report.notes[:_MOST_NOTES]]


def receipt_text(text: str) -> str:
    """Return a text for a receipt: bounded in length, and valid Unicode.

    A file name need not be UTF-8, and a name in a foreign file may contain a lone surrogate.
    """
    whole = text.encode("utf-8", "backslashreplace").decode()
    return whole if len(whole) <= _LONGEST else whole[: _LONGEST - 1] + "…"


def combine_counts(
    read: Mapping[str, int],
    planned: Mapping[str, int],
    written: Mapping[str, int],
    read_back: Mapping[str, int],
) -> dict[str, Counts]:
    """Return counts by type from the counts of four steps."""
    types = sorted({*read, *planned, *written, *read_back})
    return {
        name: Counts(
            read=read.get(name, 0),
            planned=planned.get(name, 0),
            written=written.get(name, 0),
            read_back=read_back.get(name, 0),
        )
        for name in types
    }


_MOST_NAMED = 3


class EmptyTexts:
    """Counts memories without text in one pass over a source.

    An empty text of a row may mean that the wrong member was used: it is a loss. Others are
    imported, and counted in a note.

    Args:
        report: Receives the losses and the note.
    """

    def __init__(self, report: Report) -> None:
        self._report = report
        self._count = 0
        self._examples = list[str]()

    def see(self, identity: str, draft: Model) -> None:
        """Count a memory if its text is empty."""
        if not is_empty(draft):
            return
        origin = getattr(draft, "origin", None) or Origin()
        example = origin.id or identity
        if origin.provider in OF_ROWS:
            reason = "its text is empty; another member may contain it (--text-member)"
            self._report.lost("text", reason, example=example)
        else:
            self._count += 1
            self._examples += [receipt_text(example)] * (self._count <= _MOST_NAMED)

    def end(self) -> None:
        """Add the note to the report."""
        if self._count:
            named = ", ".join(self._examples)
            self._report.note(f"memories without text at their source: {self._count:,} ({named})")


_MOST_SIGNATURES = 16
_MOST_IN_FILE = 100_000


def receipt_of(
    account: ReceiptBody, key: SigningKey | None, *, action: str | None = None
) -> Sealed:
    """Return the receipt with a body.

    Args:
        account: The body.
        key: The signing key; None for no signature.
        action: Action of the record; the kind of transfer by default.
    """
    result = msgspec.to_builtins(account)
    return signed_receipt(
        Receipt(action=action or account.kind, result=result, at=account.ended), key
    )


def signed_receipt(draft: Receipt, key: SigningKey | None) -> Sealed:
    """Return a signed receipt, which can be verified outside of the log.

    Args:
        draft: The receipt without signatures.
        key: The signing key; None for no signature.
    """
    unsigned = seal(draft)
    if key is None:
        return unsigned
    signatures = sign(PayloadType.RECEIPT, signed_part(unsigned.value), [key])
    whole = msgspec.structs.replace(
        draft,
        nonce=unsigned.value["nonce"],
        signatures=tuple(msgspec.to_builtins(signature) for signature in signatures),
    )
    return seal(whole)


def account_in(record: Sealed) -> ReceiptBody | None:
    """Return the body of a receipt; None if it is not of a transfer.

    Raises:
        MalformedError: If the record is not a receipt.
    """
    model = record.model
    if not isinstance(model, Receipt):
        raise MalformedError("not a receipt", field="type")
    try:
        return msgspec.convert(model.result, resolved(ReceiptBody))
    except msgspec.ValidationError:
        return None


def signatures_of(record: Sealed) -> list[SignatureCheck]:
    """Verify the signatures of a receipt; an invalid one is not an error.

    Raises:
        MalformedError: If the signatures cannot be parsed.
    """
    found = parse_signatures(record.value.get("signatures", []), _MOST_SIGNATURES)
    return check(PayloadType.RECEIPT, signed_part(record.value), found)


def receipts_in(path: Path) -> Iterator[tuple[Sealed, ReceiptBody | None]]:
    """Yield the receipts of a file; the caller verifies IDs and signatures.

    Raises:
        MalformedError: If one is neither of a transfer nor signed.
        LimitError: If one is too large, or there are too many.
        UnreadableError: If the file cannot be read.
    """
    longest = DEFAULT_LIMITS.entry_bytes
    with open_input(path) as stream:
        number = 0
        while line := stream.readline(longest + 2):
            number += 1
            try:
                yield _receipt(line, number, longest)
            except InputError as error:
                raise error.located(file=str(path), line=number) from None
    if not number:
        raise MalformedError("the file is empty", file=str(path))


def _receipt(line: bytes, number: int, longest: int) -> tuple[Sealed, ReceiptBody | None]:
    if len(line) > longest + 1 or number > _MOST_IN_FILE:
        raise LimitError("too large for a receipt")
    record, _ = open_shape(line.removesuffix(b"\n"))
    account = account_in(record)
    if account is None and not record.value.get("signatures"):
        raise MalformedError("not a report of a transfer", field="result")
    return record, account


def write_receipts(output: Outlet, receipts: list[Sealed]) -> None:
    """Write receipts to a file atomically.

    Raises:
        TargetError: If it cannot be written.
    """
    with output.writing(overwrite=False) as stream:
        stream.writelines(record.body + b"\n" for record in receipts)


class Tenant(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An owner of memories in a transfer, and the bank for them."""

    sort: Literal["user", "agent", "run", "nobody"]
    name: str
    records: Count
    bank: str | None = None
    """Name of the bank; None if nothing goes into a bank."""

    mapped: bool = False
    """Whether the owner was mapped to the bank."""


class TargetPlan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Plan for one bank, or for the output file."""

    name: str
    bank: str | None = None
    """ID of the bank, if it exists."""

    makes: bool = False
    """Whether it would be created."""

    created: Count = 0
    """Number of new records."""

    changed: Count = 0
    """Number of memories that would be superseded, deleted or restored."""

    left_alone: Count = 0
    """Number of records of the input that exist already, or are skipped."""

    conflicts: Count = 0
    """Number of other versions of existing records."""

    conflict_examples: list[str] = []
    """Some of the records with another version, by their IDs at their origin."""


class NearDuplicate(msgspec.Struct, frozen=True, kw_only=True):
    """Two memories with nearly the same content, by ID."""

    one: str
    other: str
    similarity: float


class EmbeddingCost(msgspec.Struct, frozen=True, kw_only=True):
    """Estimated cost of embedding the new memories."""

    records: Count
    characters: Count
    tokens: Count
    """A high estimate."""


class TransferPlan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Plan of a transfer: the result of a dry run."""

    version: Literal[1]
    kind: Kind
    tool: str
    input: TransferEnd
    output: TransferEnd
    read: dict[str, Count]
    """Number of records by type."""

    targets: list[TargetPlan]
    embedding: EmbeddingCost
    seconds: float
    """Estimated duration, from the time that reading took."""

    bytes_per_second: Count
    tenants: list[Tenant] = []
    tenants_left: Count = 0
    """Number of further owners."""

    cannot_hold: list[FieldLoss] = []
    """Losses by field."""

    refused: Count = 0
    refusals: list[Refusal] = []
    near_duplicates: Count | None = None
    """Number of near-duplicates; None if they were not searched."""

    near_examples: list[NearDuplicate] = []
    """The first of them, each with its nearest other memory, in the bank or the input."""

    secrets: dict[str, Count] = {}
    notes: list[str] = []

    @property
    def unaccepted(self) -> int:
        """Number of values that would be lost without being accepted."""
        return sum(one.count for one in self.cannot_hold if not one.accepted)


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
            if self._texts and record_type in ENTRY_TYPES:
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
