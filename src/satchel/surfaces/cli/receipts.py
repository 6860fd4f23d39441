"""``satchel receipt list`` and ``satchel receipt``: what became of each transfer."""

from typing import Annotated

from satchel.actions.receipts import finding
from satchel.actions.receipts.finding import Receipt
from satchel.surfaces.cli._console import (
    count,
    line,
    message,
    print_json,
    print_text,
    short,
    state,
    table,
)
from satchel.surfaces.cli._options import Json
from satchel.surfaces.cli._tree import Argument, Group, Option
from satchel.transfer.receipts.page import other_page, page_of

Wanted = Annotated[
    str, Argument(metavar="ID|FILE", help="A receipt's id, the start of it, or a file.")
]
_SAID = {
    "good": "Signed by a key that is trusted here",
    "stranger": "SIGNED BY A KEY THAT IS NOT KNOWN HERE",
    "unsigned": "NOT SIGNED",
    "revoked": "SIGNED BY A KEY THAT WAS REVOKED",
    "tampered": "TAMPERED WITH",
}

receipt = Group(help="List, show and verify receipts.")


def add_to(app: Group) -> None:
    """Add the commands of this module."""
    app.add(receipt, name="receipt")


@receipt.command("list")
def list_command(
    bank: Annotated[
        str | None,
        Option("--bank", help="Only those of this bank, from its log as well.", values="bank"),
    ] = None,
    limit: Annotated[int, Option(help="How many at most.")] = 100,
    as_json: Json = False,
) -> None:
    """List the receipts of imports, exports and conversions, newest first.

    Example: `satchel receipt list --bank assistant`
    """
    found = finding.list_receipts(state.settings, bank, limit=limit)
    if as_json:
        print_json(found)
    elif not found:
        message("No receipts yet; each import, export and conversion leaves one.")
    else:
        rows: list[list[object]] = []
        for one in found:
            what = f"{one.input} -> {one.output}"
            went = "nothing new" if one.unchanged else count(one.records, "record")
            lost = f"{one.lost:,} lost" if one.lost else ""
            rows.append([short(one.id), one.at[:19], one.kind, went, lost, what])
        table(["receipt", "when", "", "", "", "from, to"], rows)


@receipt.command("show")
def show_command(wanted: Wanted, as_json: Json = False) -> None:
    """Print a receipt as a page.

    Example: `satchel receipt show ours.receipt.json`
    """
    found = finding.find_receipts(state.settings, wanted)
    if as_json:
        print_json(found[0] if len(found) == 1 else found)
    else:
        print_text("\n".join(_page(one) for one in found))


@receipt.command("verify")
def verify_command(wanted: Wanted, as_json: Json = False) -> int:
    """Prove that a receipt is as whoever signed it left it.

    Exit status: 0 good, 3 unsigned, stranger, revoked or tampered, 4 malformed.

    Example: `satchel receipt verify ours.receipt.json`
    """
    found = finding.find_receipts(state.settings, wanted)
    if as_json:
        print_json(found[0] if len(found) == 1 else found)
    else:
        for one in found:
            line(f"{one.standing}  {one.id}  {', '.join(one.signed_by)}")
            if one.problem:
                message(one.problem)
    return max(one.exit_status for one in found)


def _page(one: Receipt) -> str:
    who = f": {', '.join(one.signed_by)}" if one.signed_by else ""
    why = f" ({one.problem})" if one.problem else ""
    signed = f"{_SAID[one.standing]}{who}{why}"
    if one.account is None:
        return other_page(one.record, identity=one.id, signed=signed)
    return page_of(one.account, identity=one.id, signed=signed)
