"""Receipts that are on this machine, in a bank or in a file: listed, shown, verified."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

import msgspec

from satchel.bank.connections import configured_store, has_store, store_exists, writer_key
from satchel.bank.open_bank import open_bank, open_bank_in
from satchel.bank.owner_rights import require_owner
from satchel.config.options import file_to_write
from satchel.config.settings import Settings
from satchel.crypto.keys import SigningKey
from satchel.crypto.sealed_records import Sealed, has_valid_id
from satchel.errors import SatchelError, ShortInputError, UnknownReceiptError, UsageError
from satchel.model.values import JsonObject, now
from satchel.ports.format import ReadContext
from satchel.ports.rows import Filter
from satchel.receipts.account import REFUSED, ReceiptBody, is_accepted
from satchel.receipts.receipt import account_in, receipts_in, signatures_of, write_receipts
from satchel.runtime.output import Outlet, refuse_existing
from satchel.runtime.private_files import private_folder

_DIGITS = 12


def tool_version() -> str:
    """Return this program's name and version, as receipts have it."""
    try:
        return f"satchel {version('satchel')}"
    except PackageNotFoundError:
        return "satchel"


def folder_of(settings: Settings) -> Path:
    """Return where receipts are kept."""
    return settings.home / "receipts"


def signer(settings: Settings, key: SigningKey | None) -> SigningKey | None:
    """Return who signs a receipt: whoever signs the output, else this machine's writer key.

    None where this machine can keep no key; a receipt nobody signed says so when it is verified.
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
    """Keep the receipts of one transfer, and return their ids, and notes on what went wrong.

    One that is neither kept here nor in the copy has no id that could be looked up.

    The transfer is done by then; that its receipt cannot be kept here does not undo it.

    Args:
        settings: Whose home.
        receipts: The receipts.
        copy: A file that they are to be in as well.

    Raises:
        TargetError: If the copy cannot be written.
    """
    found, notes, is_kept = list(receipts), list[str](), True
    if not found:
        return [], notes
    try:
        folder = private_folder(folder_of(settings))
        stamp = now().replace(":", "").replace("-", "").replace(".", "")
        name = f"{stamp}-{found[0].id.removeprefix('blake3:')[:_DIGITS]}.json"
        with Outlet.named(folder / name) as outlet:
            write_receipts(outlet, found)
    except (SatchelError, OSError) as error:
        notes.append(f"the receipt was not stored on this machine: {error}")
        is_kept = False
    if copy is not None:
        with file_to_write(settings, copy) as outlet:
            write_receipts(outlet, found)
    return [record.id for record in found] if is_kept or copy is not None else [], notes


def refuse_copy(settings: Settings, copy: Path | None, *others: Path) -> None:
    """Refuse a file for receipts that is there, or is to hold something else, before any work.

    Raises:
        PathRefusedError: If roots are set, and it is not in them.
        TargetExistsError: If it is there.
        UsageError: If it is one of the others.
    """
    if copy is not None:
        with file_to_write(settings, copy) as outlet:
            refuse_existing(outlet, overwrite=False)
        if any(copy.absolute() == other.absolute() for other in others):
            raise UsageError("the receipt and the output cannot be the same file", file=str(copy))


def require_whole(reading: ReadContext, accepted: Iterable[str], name: str) -> None:
    """Refuse an input that says itself that it lacks something, unless that was accepted.

    Args:
        reading: How it was read.
        accepted: What may be lost.
        name: The input.

    Raises:
        ShortInputError: If it does.
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
"""Receipts that are listed at most."""

_LEAST_DIGITS = 6
_ONLY_RECEIPTS = Filter(types=frozenset({"receipt"}))

Standing = Literal["good", "untrusted", "unsigned", "revoked", "tampered"]


class ReceiptLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One receipt in a listing."""

    id: str
    kind: str
    at: str
    input: str
    output: str
    records: int
    """Read back."""

    lost: int = 0
    unaccepted: int = 0
    unchanged: bool = False


class StoredReceipt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One receipt, and what became of its signatures."""

    id: str
    standing: Standing
    account: ReceiptBody | None
    """What became of a transfer; None for one of something else, which ``record`` tells of."""

    record: JsonObject
    """All of it, as the record that it is."""

    signed_by: list[str] = []
    problem: str | None = None
    others: list["StoredReceipt"] = []
    """The other receipts of a file that holds several."""

    @property
    def exit_status(self) -> int:
        """0 when somebody who is trusted signed it, and the others; 3 otherwise."""
        return 0 if all(one.standing == "good" for one in (self, *self.others)) else 3


def first_of(receipts: Sequence[StoredReceipt]) -> StoredReceipt:
    """Return the first of several receipts, which has the others."""
    return msgspec.structs.replace(receipts[0], others=list(receipts[1:]))


def list_receipts(
    settings: Settings, bank: str | None = None, *, limit: int = 100
) -> list[ReceiptLine]:
    """Return the newest receipts first: those of this machine, or those of one bank.

    A bank has those of the imports into it, wherever they were made; this machine has those of what
    it read out of it.

    Raises:
        UnknownBankError: If there is no such bank.
        UsageError: If too many are wanted.
    """
    require_owner(settings, "receipts")
    if not 1 <= limit <= MOST:
        raise UsageError(f"the limit must be 1 to {MOST} receipts", field="limit")
    found = dict[str, ReceiptLine]()
    if bank is None:
        for record, account in _kept(settings):
            found.setdefault(record.id, _line(record, account))
            if len(found) >= limit:
                break
    else:
        with open_bank(settings, bank) as opened:
            here = opened.id
            with opened.ledger.reading() as view:
                logged = [one.record for one in view.scan(_ONLY_RECEIPTS)]
        for record in logged:
            told = account_in(record)
            if told is not None:
                found[record.id] = _line(record, told)
        for record, account in _kept(settings):
            if here in (account.input.bank, account.output.bank):
                found.setdefault(record.id, _line(record, account))
    return sorted(found.values(), key=lambda line: (line.at, line.id), reverse=True)[:limit]


def find_receipts(settings: Settings, wanted: str) -> list[StoredReceipt]:
    """Return the receipts of a file, or the one with an id.

    Args:
        settings: Whose keys count, and where receipts and banks are.
        wanted: A file; or an id, or the first six digits or more of one.

    Raises:
        UnknownReceiptError: If there is none, or several begin so.
        MalformedError: If the file holds something else.
    """
    require_owner(settings, "receipts")
    path = Path(wanted)
    if _is_file(path):
        return [_judged(settings, *one) for one in receipts_in(path)]
    return [find_receipt(settings, wanted)]


def find_receipt(settings: Settings, wanted: str) -> StoredReceipt:
    """Return the receipt with an id, or with six of its first digits or more.

    Raises:
        UnknownReceiptError: If there is none, or several begin so.
    """
    require_owner(settings, "receipts")
    digits = wanted.removeprefix("blake3:")
    found = dict[str, tuple[Sealed, ReceiptBody | None]]()
    if len(digits) >= _LEAST_DIGITS:
        for record, account in (*_kept(settings), *_logged(settings, digits)):
            if record.id.startswith(f"blake3:{digits}"):
                found[record.id] = record, account
    if not found:
        has_store(settings)  # it may be in one that vanished
    if len(found) != 1:
        raise UnknownReceiptError(
            f"no file or receipt matches {wanted!r}"
            if not found
            else f"{len(found)} receipts start with {wanted!r}",
            hint="See: satchel receipt list.",
        )
    return _judged(settings, *next(iter(found.values())))


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def _kept(settings: Settings) -> Iterator[tuple[Sealed, ReceiptBody]]:
    """Yield the receipts of this machine, the newest first; files that are damaged are left out."""
    folder = folder_of(settings)
    paths = sorted(folder.glob("*.json"), reverse=True) if folder.is_dir() else []
    for path in paths:
        with suppress(SatchelError):
            for record, account in receipts_in(path):
                if account is not None and has_valid_id(record):
                    yield record, account


def _logged(settings: Settings, digits: str) -> Iterator[tuple[Sealed, ReceiptBody | None]]:
    """Yield the receipts with an id in the banks of the store: of transfers, and signed ones."""
    if not store_exists(settings.store):
        return
    with configured_store(settings, read_only=True) as store:
        with store.reading() as reader:
            banks = reader.banks()
        for bank in banks:
            with open_bank_in(settings, store, bank).ledger.reading() as view:
                for one in view.starting(digits, limit=2):
                    if one.record.type != "receipt":
                        continue
                    account = account_in(one.record)
                    if account is not None or one.record.value.get("signatures"):
                        yield one.record, account


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


def _judged(settings: Settings, record: Sealed, account: ReceiptBody | None) -> StoredReceipt:
    problem = None if has_valid_id(record) else "the ID does not match the content"
    checks = signatures_of(record)
    standing = _standing(settings, [one.key for one in checks if one.valid])
    for one in checks:
        problem = problem or one.problem
    return StoredReceipt(
        id=record.id,
        standing="tampered" if problem else standing,
        account=account,
        record=record.value,
        signed_by=[one.key for one in checks if one.valid],
        problem=problem,
    )


def _standing(settings: Settings, keys: list[str]) -> Standing:
    """Return how far a receipt is to be believed that some keys signed."""
    if not keys:
        return "unsigned"
    known = [settings.registry.find(key) for key in keys]
    states = {one.state for one in known if one is not None}
    if "revoked" in states:
        return "revoked"
    return "good" if states else "untrusted"
