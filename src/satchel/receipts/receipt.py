"""What an account of a transfer says, and what becomes of the losses that a person accepted."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal

import msgspec

from satchel.crypto.canonical import DEFAULT_LIMITS
from satchel.crypto.keys import (
    PayloadType,
    SignatureCheck,
    SigningKey,
    check,
    parse_signatures,
    sign,
    signed_part,
)
from satchel.crypto.sealed_records import Sealed, open_shape, seal
from satchel.errors import InputError, LimitError, MalformedError
from satchel.model.records import Count, Model, Receipt
from satchel.model.values import Origin, resolved
from satchel.ports.drafts import OF_ROWS, is_empty
from satchel.ports.losses import Report
from satchel.runtime.files import open_input
from satchel.runtime.output import Outlet

VERSION: Literal[1] = 1
"""Of the form of accounts."""

EVERYTHING = "all"
"""What ``--accept-loss`` takes in place of a field, to accept whatever there is."""

REFUSED = "record"
"""The field by which refused records, and those that a file lacks, are accepted."""

_MOST_LINES, _MOST_NOTES, _MOST_REFUSALS = 200, 50, 100
_LONGEST = 200

Kind = Literal["import", "export", "convert", "migrate", "copy", "erase", "restore", "drill"]
ReadBack = Literal["equal", "verified", "differs"]


class TransferEnd(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One end of a transfer: a file, or a bank."""

    name: str
    """The file, or the name of the bank."""

    format: str | None = None
    digest: str | None = None
    """``blake3:`` and 64 hex digits of the file's bytes."""

    bytes: Count | None = None
    bank: str | None = None
    """Its id."""

    store: str | None = None
    """Address of the store that the bank is in; of migrations."""

    size: Count | None = None
    """Records in the bank's log, where it was read."""

    root: str | None = None
    """Root hash of the log then."""

    records: Count | None = None
    """How many records there were to take, or how many are there now."""


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """How many records of one type came how far."""

    read: Count = 0
    planned: Count = 0
    written: Count = 0
    read_back: Count = 0


class FieldLoss(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What did not make it, of one field and for one reason."""

    field: str
    """Path of the member, or the kind of record."""

    count: Count
    reason: str
    examples: list[str] = []
    """Ids or places of some records, never what is in them."""

    accepted: bool = False
    """Whether a person said beforehand that this may be lost."""


class ScanResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Raw bytes that were searched for erased text."""

    name: str
    bytes: Count
    found: Count = 0
    """Places in which there is a piece of it."""

    at: list[Count] = []
    """The first of them."""


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """A record that was not taken."""

    place: str
    """Where in the input."""

    reason: str


class ReceiptBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of a transfer, as a receipt holds it."""

    version: Literal[1]
    kind: Kind
    tool: str
    began: str
    ended: str
    input: TransferEnd
    output: TransferEnd
    counts: dict[str, Counts]
    """By type of record."""

    source: str | None = None
    """Id of the source record, by which an import is undone."""

    unchanged: bool = False
    """Whether there was nothing to do: all of it was there."""

    done: dict[str, Count] = {}
    """What an import did to the bank: added, known, skipped, overwritten and so on."""

    left: dict[str, Count] = {}
    """Records of kinds that stay with the log they come from."""

    resumed: Count = 0
    """Records that an earlier attempt had written."""

    verdict: str | None = None
    """On a sealed input."""

    read_back: ReadBack | None = None
    """``verified``: the seal over the whole output holds. ``equal``: each record is as planned."""

    kept: dict[str, Count] = {}
    """How many records have each member, as planned and as read back."""

    sidecar: TransferEnd | None = None
    """The file beside the output that holds what its format cannot, or from which that came."""

    beside: list[FieldLoss] = []
    """What is only in the sidecar: nothing of it is lost."""

    added: dict[str, Count] = {}
    """Members that the output's format gave to records by itself."""

    lost: list[FieldLoss] = []
    refused: Count = 0
    refusals: list[Refusal] = []
    """The first of them."""

    accepted: list[str] = []
    """What a person said may be lost."""

    secrets: dict[str, Count] = {}
    """What looks like keys, tokens, passwords and cards, by kind."""

    secrets_kept: Count = 0
    signed_by: str | None = None
    """Who signed the output, where it is sealed."""

    scanned: list[ScanResult] = []
    """Of an erasure: what was searched afterwards."""

    unreached: list[str] = []
    """Of an erasure: places that may have copies and cannot be searched from here."""

    notes: list[str] = []

    @property
    def losses(self) -> int:
        """How many things did not make it, accepted or not."""
        return sum(one.count for one in self.lost)

    @property
    def unaccepted(self) -> int:
        """How many things did not make it that nobody said may be lost."""
        return sum(one.count for one in self.lost if not one.accepted)

    @property
    def total(self) -> Counts:
        """How many records of all types came how far."""
        found = self.counts.values()
        return Counts(
            read=sum(one.read for one in found),
            planned=sum(one.planned for one in found),
            written=sum(one.written for one in found),
            read_back=sum(one.read_back for one in found),
        )


def is_accepted(field: str, accepted: Iterable[str]) -> bool:
    """Tell whether somebody said that a field may be lost; a field stands for what is in it."""
    return any(
        one in (EVERYTHING, field) or field.startswith(one.rstrip("/") + "/") for one in accepted
    )


def unaccepted(report: Report, accepted: Iterable[str]) -> int:
    """Return how much of what a report counts nobody said may be lost."""
    return sum(one.count for one in lost_in(report, accepted) if not one.accepted)


def lost_in(report: Report, accepted: Iterable[str]) -> list[FieldLoss]:
    """Return what a report counts as lost, refused records included; the rest of many as one."""
    named = tuple(accepted)
    found = list(_lines(report, named))
    rest = found[_MOST_LINES:]
    if rest:
        count = sum(one.count for one in rest)
        field, reason = f"{len(rest)} more fields", "for different reasons"
        said = all(one.accepted for one in rest)
        found[_MOST_LINES:] = [FieldLoss(field=field, count=count, reason=reason, accepted=said)]
    return found


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
    """Return the first records that were refused."""
    first = report.refused[:_MOST_REFUSALS]
    return [
        Refusal(place=receipt_text(one.place), reason=receipt_text(one.message)) for one in first
    ]


def notes_in(report: Report) -> list[str]:
    """Return the first notes."""
    return [receipt_text(note) for note in report.notes[:_MOST_NOTES]]


def receipt_text(text: str) -> str:
    """Return a text as a receipt can hold it: bounded, and without what is no character.

    A file name need not be UTF-8, and a name in a foreign file may hold half a character.
    """
    whole = text.encode("utf-8", "backslashreplace").decode()
    return whole if len(whole) <= _LONGEST else whole[: _LONGEST - 1] + "…"


def combine_counts(
    read: Mapping[str, int],
    planned: Mapping[str, int],
    written: Mapping[str, int],
    read_back: Mapping[str, int],
) -> dict[str, Counts]:
    """Return counts by type from four tallies."""
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
    """What of one pass over a source says nothing.

    Where the text of a row was looked for, an empty one may be the wrong one: that is a loss. All
    else arrives as it is, and a note counts it.

    Args:
        report: Takes the loss and the note.
    """

    def __init__(self, report: Report) -> None:
        self._report = report
        self._count = 0
        self._examples = list[str]()

    def see(self, identity: str, draft: Model) -> None:
        """Look at a memory on its way."""
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
        """Report what was counted."""
        if self._count:
            named = ", ".join(self._examples)
            self._report.note(f"memories without text at their source: {self._count:,} ({named})")


_MOST_SIGNATURES = 16
_MOST_IN_FILE = 100_000


def receipt_of(
    account: ReceiptBody, key: SigningKey | None, *, action: str | None = None
) -> Sealed:
    """Return the receipt of an account.

    Args:
        account: What happened.
        key: Who signs; None for nobody.
        action: The record's action, where it is not the kind of transfer.
    """
    result = msgspec.to_builtins(account)
    return signed_receipt(
        Receipt(action=action or account.kind, result=result, at=account.ended), key
    )


def signed_receipt(draft: Receipt, key: SigningKey | None) -> Sealed:
    """Return a receipt that stands for itself, away from the log as well.

    Args:
        draft: What it says, without signatures.
        key: Who signs; None for nobody.
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
    """Return the account that a record holds; None where it is another kind of receipt.

    Raises:
        MalformedError: If it is no receipt.
    """
    model = record.model
    if not isinstance(model, Receipt):
        raise MalformedError("not a receipt", field="type")
    try:
        return msgspec.convert(model.result, resolved(ReceiptBody))
    except msgspec.ValidationError:
        return None


def signatures_of(record: Sealed) -> list[SignatureCheck]:
    """Check the signatures of a receipt; nothing is raised for a bad one.

    Raises:
        MalformedError: If what stands there are no signatures.
    """
    found = parse_signatures(record.value.get("signatures", []), _MOST_SIGNATURES)
    return check(PayloadType.RECEIPT, signed_part(record.value), found)


def receipts_in(path: Path) -> Iterator[tuple[Sealed, ReceiptBody | None]]:
    """Yield the receipts of a file; ids and signatures are left to the caller.

    Raises:
        MalformedError: If one is no account of a transfer, and nobody signed it either.
        LimitError: If one is too large, or these are too many.
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
    """Write receipts to a file, whole or not at all.

    Raises:
        TargetError: If it cannot be written.
    """
    with output.writing(overwrite=False) as stream:
        stream.writelines(record.body + b"\n" for record in receipts)


class Tenant(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Whose memory something is, and where it goes."""

    sort: Literal["user", "agent", "run", "nobody"]
    name: str
    records: Count
    bank: str | None = None
    """The bank's name; None where nothing goes into a bank."""

    mapped: bool = False
    """Whether a person said that it goes there."""


class TargetPlan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
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
    """Records of the input that the target has, or that are skipped."""

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
    """The plan of a transfer. Nothing was changed."""

    version: Literal[1]
    kind: Kind
    tool: str
    input: TransferEnd
    output: TransferEnd
    read: dict[str, Count]
    """Records by type."""

    targets: list[TargetPlan]
    embedding: EmbeddingCost
    seconds: float
    """How long it would take, from the time that reading took here and now."""

    bytes_per_second: Count
    tenants: list[Tenant] = []
    tenants_left: Count = 0
    """How many more owners there are than are named."""

    cannot_hold: list[FieldLoss] = []
    """What would not make it, field by field."""

    refused: Count = 0
    refusals: list[Refusal] = []
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
