"""``satchel disclose``."""

from pathlib import Path
from typing import Annotated

import msgspec

from satchel.actions.moving.disclosing import disclose
from satchel.actions.moving.exported import Export, ExportOptions
from satchel.actions.opened import opened_bank
from satchel.seal.artifact.statement import SourceAgent
from satchel.surfaces.cli._console import count, facts, line, message, print_json, size, state
from satchel.surfaces.cli._options import (
    AgentName,
    DryRun,
    EncryptPassphrase,
    EncryptTo,
    Force,
    InBank,
    Json,
    ReceiptFile,
    SignWith,
    lock_of,
    owner_key,
    show_plan,
    tell_receipts,
)
from satchel.surfaces.cli._stdout import NAME, output_file
from satchel.surfaces.cli._tree import Group, Option


def add_to(app: Group) -> None:
    """Add the command of this module."""
    app.command("disclose")(disclose_command)


def disclose_command(
    entry: Annotated[
        list[str], Option("--entry", help="Id of an entry, or the start of it. Repeatable.")
    ],
    output: Annotated[Path, Option("--output", "-o", help="File to write; - for stdout.")],
    withhold: Annotated[
        list[str] | None,
        Option("--withhold", help="Only name this ancestor, with its proof. Repeatable."),
    ] = None,
    bank: InBank = None,
    sign_with: SignWith = None,
    encrypt_to: EncryptTo = None,
    encrypt_passphrase: EncryptPassphrase = False,
    agent: AgentName = None,
    force: Force = False,
    receipt: ReceiptFile = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> int:
    """Write entries, and all that they were drawn from, each with the proof that it was logged.

    Whoever gets the file can check it without the bank: `satchel verify FILE --deep`. What was
    drawn from the entries is not in it, and a withheld ancestor says nothing but that it was there.

    Example: `satchel disclose --entry 3f9a2c --output evidence.pam.jsonl`
    """
    with opened_bank(state.settings, bank) as opened, output_file(output) as path:
        options = ExportOptions(
            key=None if dry_run else owner_key(sign_with),
            lock=lock_of(encrypt_to, encrypt_passphrase),
            overwrite=force,
            receipt=receipt,
            dry_run=dry_run,
            source_agent=SourceAgent(name=agent) if agent else None,
        )
        done = disclose(opened, entry, path, options, withhold=withhold or ())
    if path != output:
        done = msgspec.structs.replace(done, output=NAME)
    if as_json:
        print_json(done)
    else:
        _show(done)
    return tell_receipts([done.receipt] if done.receipt else [], done.unaccepted)


def _show(done: Export) -> None:
    line(f"{done.name or done.bank} -> {done.format}: ", count(done.entries, "memory"))
    rows: list[tuple[str, object]] = [
        ("records", ", ".join(f"{number:,} {name}" for name, number in done.records.items())),
        ("head", f"{count(done.size, 'record')}, epoch {done.epoch}"),
    ]
    if done.output_bytes is not None:
        rows.append(("written", f"{done.output}  {size(done.output_bytes)}"))
    if done.read_back:
        rows.append(("read back", done.read_back))
    facts(rows)
    for note in done.notes:
        message("note: ", note)
    if done.plan is not None:
        show_plan(done.plan)
