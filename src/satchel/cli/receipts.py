"""``satchel receipt``: receipts of transfers."""

from satchel.cli._console import count, line, message, print_text, short, short_time, table
from satchel.cli._operations import command
from satchel.cli._tree import Group
from satchel.receipts.archive import (
    ReceiptLine,
    StoredReceipt,
    list_receipts,
    show_receipt,
    verify_receipt,
)
from satchel.receipts.page import other_page, page_of
from satchel.transfer.verification import how_to_trust

_SIGNATURES = {
    "good": "Signed by a trusted key",
    "untrusted": "SIGNED BY AN UNTRUSTED KEY",
    "unsigned": "NOT SIGNED",
    "revoked": "SIGNED BY A REVOKED KEY",
    "tampered": "TAMPERED",
}
_FILES = {"files": True}

receipt = Group(help="List, show and verify receipts.")


def add_to(app: Group) -> None:
    """Add the commands of this module."""
    app.add(receipt, name="receipt")


def _show_list(receipts: list[ReceiptLine]) -> None:
    if not receipts:
        message("No receipts yet. Each import, export and conversion writes one.")
        return
    rows: list[list[object]] = []
    for receipt in receipts:
        result = "nothing new" if receipt.unchanged else count(receipt.records, "record")
        lost = f"{receipt.lost:,}" if receipt.lost else ""
        rows.append(
            [
                short(receipt.id),
                short_time(receipt.at, seconds=True),
                receipt.kind,
                result,
                lost,
                receipt.input,
                receipt.output,
            ]
        )
    table(["receipt", "when", "kind", "result", "lost", "from", "to"], rows)


def _show_pages(receipt: StoredReceipt) -> None:
    print_text("\n".join(map(_page, (receipt, *receipt.others))))


def _show_verified(verified: StoredReceipt) -> None:
    for receipt in (verified, *verified.others):
        line(f"{receipt.outcome}  {receipt.id}  {', '.join(receipt.signed_by)}")
        if receipt.problem:
            message(receipt.problem)
        if receipt.outcome == "untrusted":
            message(how_to_trust(receipt.signed_by[0]))


def _page(receipt: StoredReceipt) -> str:
    signers = f": {', '.join(receipt.signed_by)}" if receipt.signed_by else ""
    why = f" ({receipt.problem})" if receipt.problem else ""
    signed = f"{_SIGNATURES[receipt.outcome]}{signers}{why}"
    if receipt.account is None:
        return other_page(receipt.record, identity=receipt.id, signed=signed)
    return page_of(receipt.account, identity=receipt.id, signed=signed)


command(receipt, list_receipts, _show_list)
command(receipt, show_receipt, _show_pages, internal=lambda _: _FILES)
command(
    receipt,
    verify_receipt,
    _show_verified,
    internal=lambda _: _FILES,
    status=lambda found: found.exit_status,
)
