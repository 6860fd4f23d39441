"""Undo, as every interface offers it: an import, and the agent that came with it."""

from dataclasses import KW_ONLY, dataclass
from typing import Annotated

from satchel.agents.imports import undo_agent_in
from satchel.bank.open_bank import OpenBank
from satchel.config.options import NOT_FOR_MODELS, OnProgress
from satchel.ports.operations import Option, Options, operation
from satchel.receipts.archive import BY_ID
from satchel.transfer.import_operations import Reason
from satchel.transfer.imports import UndoResult


@dataclass(frozen=True, slots=True)
class UndoOptions(Options):
    """Which import to undo."""

    source: Annotated[
        str | None,
        Option(
            f"Import: {BY_ID}. Default: the last one.",
            argument=True,
            metavar="IMPORT",
            max_length=100,
        ),
    ] = None
    _: KW_ONLY
    reason: Reason = None
    dry_run: Annotated[bool, Option("Report what would be undone, and change nothing.")] = False
    progress: OnProgress = None


@operation(UndoOptions, name="undo", example="satchel undo --bank assistant", absent=NOT_FOR_MODELS)
def undo(bank: OpenBank, options: UndoOptions) -> UndoResult:
    """Undo an import: remove what it added and restore what it replaced.

    Nothing is removed from the log: `satchel history` still shows it. If it was the import of an
    agent, the agent's files and settings are restored, too.

    Raises:
        UnknownImportError: If there is no such import.
    """
    return undo_agent_in(
        bank,
        options.source,
        reason=options.reason,
        dry_run=options.dry_run,
        progress=options.progress,
    )
