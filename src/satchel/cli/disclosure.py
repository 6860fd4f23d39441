"""``satchel disclose``."""

from contextlib import AbstractContextManager
from typing import Any

from satchel.bank.open_bank import OpenBank, open_bank
from satchel.cli._console import count, line, message, print_facts, size, state
from satchel.cli._encryption import Encryption, read_passphrase
from satchel.cli._operations import command
from satchel.cli._options import report_receipts, show_plan
from satchel.cli._tree import Group
from satchel.transfer.disclosure import disclose_memories
from satchel.transfer.export_records import Export


def add_to(app: Group) -> None:
    """Add the command of this module."""
    command(
        app,
        disclose_memories,
        _show,
        bank=_to_read,
        extra=Encryption,
        prepare=read_passphrase,
        status=lambda done: int(bool(done.unaccepted)),
    )


def _to_read(bank: str | None, *_: Any) -> AbstractContextManager[OpenBank]:
    return open_bank(state.settings, bank)


def _show(done: Export, _: Encryption) -> None:
    line(f"{done.name or done.bank} -> {done.format}: ", count(done.entries, "memory"))
    rows: list[tuple[str, object]] = [
        ("records", ", ".join(f"{number:,} {name}" for name, number in done.records.items())),
        ("head", f"{count(done.size, 'record')}, epoch {done.epoch}"),
    ]
    if done.output_bytes is not None:
        rows.append(("written", f"{done.output}  {size(done.output_bytes)}"))
    if done.read_back:
        rows.append(("verified", done.read_back))
    print_facts(rows)
    for note in done.notes:
        message("note: ", note)
    if done.plan is not None:
        show_plan(done.plan)
    report_receipts([done.receipt] if done.receipt else [], done.unaccepted)
