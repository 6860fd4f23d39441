"""Receipts on this machine, in banks and in files: store, list, show, verify."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from satchel.bank.connections import (
    configured_store,
    has_store,
    store_exists,
    writer_key,
)
from satchel.bank.machine_keys import require_owner
from satchel.bank.open_bank import open_bank, open_bank_in
from satchel.config.options import NOT_FOR_MODELS, file_to_write
from satchel.config.settings import Settings
from satchel.crypto.keys import SigningKey
from satchel.crypto.sealed_records import Sealed, has_valid_id
from satchel.errors import SatchelError, ShortInputError, UnknownReceiptError, UsageError
from satchel.model.values import (
    ID_PREFIX,
    JsonObject,
    id_digits,
    now,
    require_one,
)
from satchel.ports.format import ReadContext
from satchel.ports.operations import Option, Options, operation
from satchel.ports.rows import Filter
from satchel.receipts.receipt import (
    REFUSED,
    ReceiptBody,
    account_in,
    is_accepted,
    receipts_in,
    signatures_of,
    write_receipts,
)
from satchel.runtime.output import Outlet, refuse_existing
from satchel.runtime.private_files import private_folder

_DIGITS = 12


def folder_of(settings: Settings) -> Path:
    """Return the folder of stored receipts."""
    return settings.home / "receipts"


def signer(settings: Settings, key: SigningKey | None) -> SigningKey | None:
    """Return the key that signs a receipt: that of the output, else this machine's writer key.

    None if this machine cannot store a key; the receipt is unsigned then.
    """
    if key is not None:
        return key
    try:
        return writer_key(settings)
    except (SatchelError, OSError):
        return None


def save_receipts(
    settings: Settings, receipts: Iterable[Sealed], copy: Path | None = None
) -> tuple[list[str], list[str]]:
    """Store the receipts of one transfer; return their IDs, and the problem if there was one.

    No IDs are returned if the receipts could neither be stored nor copied. The transfer is already
    complete: a problem with its receipt does not undo it.

    Args:
        settings: Settings of the machine.
        receipts: The receipts.
        copy: File for a copy of them.

    Raises:
        TargetError: If the copy cannot be written.
    """
    records, notes, is_kept = list(receipts), list[str](), True
    if not records:
        return [], notes
    try:
        folder = private_folder(folder_of(settings))
        stamp = now().replace(":", "").replace("-", "").replace(".", "")
        name = f"{stamp}-{records[0].id.removeprefix('blake3:')[:_DIGITS]}.json"
        with Outlet.named(folder / name) as outlet:
            write_receipts(outlet, records)
    except (SatchelError, OSError) as error:
        notes.append(f"the receipt was not stored on this machine: {error}")
        is_kept = False
    if copy is not None:
        with file_to_write(settings, copy) as outlet:
            write_receipts(outlet, records)
    return [record.id for record in records] if is_kept or copy is not None else [], notes


def refuse_copy(settings: Settings, copy: Path | None, *others: Path) -> None:
    """Require, before any work, that the file for a copy of receipts can be created.

    Raises:
        PathRefusedError: If roots are set, and it is not in them.
        TargetExistsError: If it exists.
        UsageError: If it is one of the others.
    """
    if copy is not None:
        with file_to_write(settings, copy) as outlet:
            refuse_existing(outlet, overwrite=False)
        if any(copy.absolute() == other.absolute() for other in others):
            raise UsageError("the receipt and the output cannot be the same file", file=str(copy))


def require_whole(reading: ReadContext, accepted: Iterable[str], name: str) -> None:
    """Require that an input is complete by its own count, unless the loss was accepted.

    Args:
        reading: Context of reading it.
        accepted: Fields that may be lost.
        name: Name of the input.

    Raises:
        ShortInputError: If records are missing.
    """
    if not reading.missing:
        return
    if not is_accepted(REFUSED, accepted):
        raise ShortInputError(
            f"the file is incomplete: by its own count, at least {reading.missing:,} memories "
            "are missing",
            file=name,
            hint=f"Get the complete file, or accept the loss: --accept-loss {REFUSED}",
        )
    reason = "missing from the file, by its own count"
    reading.report.lost(REFUSED, reason, count=reading.missing)


MOST = 10_000
"""Maximum number of receipts in a listing."""

_ONLY_RECEIPTS = Filter(types=frozenset({"receipt"}))

ReceiptOutcome = Literal["good", "untrusted", "unsigned", "revoked", "tampered"]


class ReceiptLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One receipt in a listing."""

    id: str
    kind: str
    at: str
    input: str
    output: str
    records: int
    """Number of records read back."""

    lost: int = 0
    unaccepted: int = 0
    unchanged: bool = False


class StoredReceipt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One receipt, and the result of verifying it."""

    id: str
    outcome: ReceiptOutcome
    account: ReceiptBody | None
    """Body of the receipt of a transfer; None for other receipts, see ``record``."""

    record: JsonObject
    """The whole record."""

    signed_by: list[str] = []
    problem: str | None = None
    others: list["StoredReceipt"] = []
    """The other receipts of the same file."""

    @property
    def exit_status(self) -> int:
        """0 if a trusted key signed it and the others, 3 otherwise."""
        return 0 if all(one.outcome == "good" for one in (self, *self.others)) else 3


def first_of(receipts: Sequence[StoredReceipt]) -> StoredReceipt:
    """Return the first of several receipts, with the others as its ``others``."""
    return msgspec.structs.replace(receipts[0], others=list(receipts[1:]))


def recent_receipts(
    settings: Settings, bank: str | None = None, *, limit: int = 100
) -> list[ReceiptLine]:
    """Return receipts of this machine or of one bank, newest first.

    Those of a bank are in its log, for imports into it on any machine, or stored here, for exports.

    Raises:
        UnknownBankError: If there is no such bank.
        UsageError: If the limit is too large.
    """
    require_owner(settings, "receipts")
    if not 1 <= limit <= MOST:
        raise UsageError(f"the limit must be 1 to {MOST} receipts", field="limit")
    lines = dict[str, ReceiptLine]()
    if bank is None:
        for record, account in _stored_receipts(settings):
            lines.setdefault(record.id, _line(record, account))
            if len(lines) >= limit:
                break
    else:
        with open_bank(settings, bank) as opened:
            here = opened.id
            with opened.ledger.reading() as view:
                logged = [one.record for one in view.scan(_ONLY_RECEIPTS)]
        for record in logged:
            body = account_in(record)
            if body is not None:
                lines[record.id] = _line(record, body)
        for record, account in _stored_receipts(settings):
            if here in (account.input.bank, account.output.bank):
                lines.setdefault(record.id, _line(record, account))
    return sorted(lines.values(), key=lambda line: (line.at, line.id), reverse=True)[:limit]


def find_receipts(settings: Settings, reference: str) -> list[StoredReceipt]:
    """Return the receipts of a file, or the one with an ID.

    Args:
        settings: Settings with the trusted keys, the receipts and the store.
        reference: A file, an ID, or a prefix of at least six digits.

    Raises:
        UnknownReceiptError: If there is none, or several match.
        MalformedError: If the file is not a file of receipts.
    """
    require_owner(settings, "receipts")
    path = Path(reference)
    if _is_file(path):
        return [_verified_receipt(settings, *receipt) for receipt in receipts_in(path)]
    return [find_receipt(settings, reference)]


def find_receipt(settings: Settings, reference: str) -> StoredReceipt:
    """Return the receipt with an ID or a prefix of at least six digits.

    Raises:
        UnknownReceiptError: If there is none, or several match.
    """
    require_owner(settings, "receipts")
    digits = id_digits(reference)
    matches = dict[str, tuple[Sealed, ReceiptBody | None]]()
    if digits is not None:
        for record, account in (*_stored_receipts(settings), *_logged_receipts(settings, digits)):
            if record.id.startswith(ID_PREFIX + digits):
                matches[record.id] = record, account
    if not matches:
        has_store(settings)  # raises an error if the store is missing
        raise UnknownReceiptError(
            f"no file or receipt matches {reference!r}",
            field="receipt",
            hint="See: satchel receipt list.",
        )
    require_one(matches, reference, "receipt", noun="receipts", error=UnknownReceiptError)
    return _verified_receipt(settings, *next(iter(matches.values())))


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def _stored_receipts(settings: Settings) -> Iterator[tuple[Sealed, ReceiptBody]]:
    """Yield the receipts of this machine, newest first; damaged files are skipped."""
    folder = folder_of(settings)
    paths = sorted(folder.glob("*.json"), reverse=True) if folder.is_dir() else []
    for path in paths:
        with suppress(SatchelError):
            for record, account in receipts_in(path):
                if account is not None and has_valid_id(record):
                    yield record, account


def _logged_receipts(
    settings: Settings, digits: str
) -> Iterator[tuple[Sealed, ReceiptBody | None]]:
    """Yield receipts with an ID prefix in the banks of the store: of transfers, and signed ones."""
    if not store_exists(settings.store):
        return
    with configured_store(settings, read_only=True) as store:
        with store.reading() as reader:
            banks = reader.banks()
        for bank in banks:
            with open_bank_in(settings, store, bank).ledger.reading() as view:
                for logged in view.with_prefix(digits, limit=2):
                    if logged.record.type != "receipt":
                        continue
                    account = account_in(logged.record)
                    if account is not None or logged.record.value.get("signatures"):
                        yield logged.record, account


def _line(record: Sealed, account: ReceiptBody) -> ReceiptLine:
    return ReceiptLine(
        id=record.id,
        kind=account.kind,
        at=account.ended,
        input=account.input.name,
        output=account.output.name,
        records=account.total.read_back,
        lost=account.losses,
        unaccepted=account.unaccepted,
        unchanged=account.unchanged,
    )


def _verified_receipt(
    settings: Settings, record: Sealed, account: ReceiptBody | None
) -> StoredReceipt:
    problem = None if has_valid_id(record) else "the ID does not match the content"
    checks = signatures_of(record)
    outcome = _outcome_of(settings, [check.key for check in checks if check.valid])
    for check in checks:
        problem = problem or check.problem
    return StoredReceipt(
        id=record.id,
        outcome="tampered" if problem else outcome,
        account=account,
        record=record.value,
        signed_by=[check.key for check in checks if check.valid],
        problem=problem,
    )


def _outcome_of(settings: Settings, keys: list[str]) -> ReceiptOutcome:
    """Return the outcome for a receipt that the given keys signed."""
    if not keys:
        return "unsigned"
    known = [settings.registry.find(key) for key in keys]
    states = {one.state for one in known if one is not None}
    if "revoked" in states:
        return "revoked"
    return "good" if states else "untrusted"


BY_ID = "ID, or a prefix of at least six digits"


@dataclass(frozen=True, slots=True)
class ReceiptListOptions(Options):
    """Which receipts to list."""

    bank: Annotated[
        str | None,
        Option("Only receipts of this bank, including those in its log.", values="bank"),
    ] = None
    _: KW_ONLY
    limit: Annotated[int, Option("Maximum number of receipts.", minimum=1, maximum=MOST)] = 100


@dataclass(frozen=True, slots=True)
class ReceiptOptions(Options):
    """Which receipt to show."""

    receipt: Annotated[
        str,
        Option(
            f"Receipt: {BY_ID}. On the command line also a file.",
            argument=True,
            metavar="ID|FILE",
        ),
    ]


@operation(
    ReceiptListOptions,
    name="receipt list",
    example="satchel receipt list --bank assistant",
    items="receipts",
    absent=NOT_FOR_MODELS,
)
def list_receipts(settings: Settings, options: ReceiptListOptions) -> list[ReceiptLine]:
    """List the receipts of imports, exports and conversions, newest first.

    Raises:
        UnknownBankError: If there is no such bank.
    """
    return recent_receipts(settings, options.bank, limit=options.limit)


@operation(
    ReceiptOptions,
    name="receipt show",
    example="satchel receipt show ours.receipt.json",
    absent=NOT_FOR_MODELS,
)
def show_receipt(
    settings: Settings, options: ReceiptOptions, *, files: bool = False
) -> StoredReceipt:
    """Show a receipt, and whether its signature verifies.

    Raises:
        UnknownReceiptError: If there is none.
        MalformedError: If a file holds something else.
    """
    require_owner(settings, "receipts")
    if not files:
        return find_receipt(settings, options.receipt)
    return first_of(find_receipts(settings, options.receipt))


@operation(
    ReceiptOptions,
    name="receipt verify",
    example="satchel receipt verify ours.receipt.json",
    absent=NOT_FOR_MODELS
    | {
        "python": "`Satchel.receipt` reports it as the receipt's outcome.",
        "http": "`GET /v1/receipts/{receipt}` reports it as the receipt's outcome.",
    },
)
def verify_receipt(
    settings: Settings, options: ReceiptOptions, *, files: bool = False
) -> StoredReceipt:
    """Verify that a receipt is unchanged and signed by a trusted key.

    Exit status: 0 good, 3 unsigned, untrusted, revoked or tampered, 4 malformed.

    Raises:
        UnknownReceiptError: If there is none.
        MalformedError: If a file holds something else.
    """
    return show_receipt.run(settings, options, files=files)
