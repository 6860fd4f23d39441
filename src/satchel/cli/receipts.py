"""``satchel receipt``: receipts of transfers."""

from satchel.cli._console import count, line, message, print_text, short, table
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

_SAID = {
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


def _show_list(found: list[ReceiptLine]) -> None:
    if not found:
        message("No receipts yet. Each import, export and conversion writes one.")
        return
    rows: list[list[object]] = []
    for one in found:
        result = "nothing new" if one.unchanged else count(one.records, "record")
        lost = f"{one.lost:,}" if one.lost else ""
        rows.append([short(one.id), one.at[:19], one.kind, result, lost, one.input, one.output])
    table(["receipt", "when", "kind", "result", "lost", "from", "to"], rows)


def _show_pages(found: StoredReceipt) -> None:
    print_text("\n".join(map(_page, (found, *found.others))))


def _show_verified(found: StoredReceipt) -> None:
    for one in (found, *found.others):
        line(f"{one.outcome}  {one.id}  {', '.join(one.signed_by)}")
        if one.problem:
            message(one.problem)
        if one.outcome == "untrusted":
            message(how_to_trust(one.signed_by[0]))


def _page(one: StoredReceipt) -> str:
    who = f": {', '.join(one.signed_by)}" if one.signed_by else ""
    why = f" ({one.problem})" if one.problem else ""
    signed = f"{_SAID[one.outcome]}{who}{why}"
    if one.account is None:
        return other_page(one.record, identity=one.id, signed=signed)
    return page_of(one.account, identity=one.id, signed=signed)


command(receipt, list_receipts, _show_list)
command(receipt, show_receipt, _show_pages, internal=lambda _: _FILES)
command(
    receipt,
    verify_receipt,
    _show_verified,
    internal=lambda _: _FILES,
    status=lambda found: found.exit_status,
)
