"""``satchel amplihack export``."""

from pathlib import Path
from typing import Annotated

import msgspec

from satchel.actions.amplihack.transfer.results import ExportResult
from satchel.actions.amplihack.transfer.transferring import TransferOptions, export_agent
from satchel.actions.moving.exported import ExportOptions
from satchel.surfaces.cli._console import line, message, print_json, size
from satchel.surfaces.cli._options import (
    AcceptLoss,
    FailOnLoss,
    Force,
    Json,
    ReceiptFile,
    Scrub,
    owner_key,
    show_losses,
    tell_receipts,
)
from satchel.surfaces.cli._stdout import NAME, output_file
from satchel.surfaces.cli._tree import Option
from satchel.surfaces.cli.amplihack._backend import Backend, settings_of
from satchel.surfaces.cli.amplihack._options import (
    Agent,
    AsShape,
    Shape,
    StoragePath,
    show_statistics,
)


def export_command(
    agent: Agent,
    output: Annotated[Path, Option("--output", "-o", help="File to write; - for stdout.")],
    format_: AsShape = Shape.JSON,
    backend: Backend = None,
    storage_path: StoragePath = None,
    force: Force = False,
    fail_on_loss: FailOnLoss = False,
    accept_loss: AcceptLoss = None,
    receipt: ReceiptFile = None,
    scrub: Scrub = False,
    as_json: Json = False,
) -> int:
    """Write an agent's facts, episodes and the edges between them to a file of amplihack.

    JSON is its format 1.1, as its strict reader takes it. The file is read again and compared; what
    it cannot hold is counted and named, and makes the exit status 1, unless `--accept-loss` names
    it. An agent that is not there is an error: nothing is written, and nothing made.

    Example: `satchel amplihack export --agent ops-agent --output ops-agent.json`
    """
    options = ExportOptions(
        overwrite=force,
        fail_on_loss=fail_on_loss,
        accept_loss=tuple(accept_loss or ()),
        receipt=receipt,
        scrub_secrets=scrub,
    )
    asked = TransferOptions(format=format_.value, storage_path=storage_path, output=options)
    with output_file(output) as path:
        found = export_agent(settings_of(backend), agent, path, lambda: owner_key(None), asked)
    if path != output:
        found = msgspec.structs.replace(found, output_path=NAME)
    if as_json:
        print_json(found)
    else:
        _show(found)
    return tell_receipts([found.receipt] if found.receipt else [], found.unaccepted)


def _show(found: ExportResult) -> None:
    line(f"Exported memory for agent '{found.agent_name}'")
    line(f"  Format: {found.format}")
    line(f"  Output: {found.output_path}")
    if found.file_size_bytes is not None:
        line(f"  Size: {size(found.file_size_bytes)}")
    show_statistics(found.statistics)
    for note in found.notes:
        message("note: ", note)
    show_losses(found.failed)
