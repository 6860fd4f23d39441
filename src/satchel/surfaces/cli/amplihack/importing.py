"""``satchel amplihack import``."""

from pathlib import Path
from typing import Annotated

from satchel.actions.amplihack.transfer.results import ImportResult
from satchel.actions.amplihack.transfer.transferring import TransferOptions, import_agent
from satchel.actions.importing.imported import ImportOptions
from satchel.surfaces.cli._console import line, message, print_json
from satchel.surfaces.cli._options import (
    AcceptLoss,
    DryRun,
    Json,
    Owner,
    ReceiptFile,
    Scrub,
    SkipBad,
    owner_key,
    tell_receipts,
    tell_refused,
)
from satchel.surfaces.cli._tree import Option
from satchel.surfaces.cli.amplihack._backend import Backend, settings_of
from satchel.surfaces.cli.amplihack._options import (
    Agent,
    AsShape,
    Shape,
    StoragePath,
    show_statistics,
)
from satchel.transfer.incoming.planned import OnConflict


def import_command(
    agent: Agent,
    source: Annotated[Path, Option("--input", "-i", help="File to read.")],
    format_: AsShape = Shape.JSON,
    merge: Annotated[
        bool, Option("--merge", help="Add what is new; otherwise what there is is replaced.")
    ] = False,
    storage_path: StoragePath = None,
    backend: Backend = None,
    on_conflict: Annotated[
        OnConflict | None,
        Option(help="With --merge: what to do with another version of what is there."),
    ] = None,
    any_version: Annotated[
        bool,
        Option("--unknown-version", help="Read a version that is not known as if it were 1.1."),
    ] = False,
    skip_bad: SkipBad = False,
    scrub: Scrub = False,
    dry_run: DryRun = False,
    accept_loss: AcceptLoss = None,
    receipt: ReceiptFile = None,
    key: Owner = None,
    as_json: Json = False,
) -> int:
    """Read an agent's facts, episodes and the edges between them from a file of amplihack.

    Versions 1.0 and 1.1 of its JSON are read, agent-core's own, and its SQLite database. Whatever
    agent the file names, it becomes this agent's. Merging the same file again changes nothing;
    another version of a node or an edge is a conflict, and is told. Edges that lead nowhere are
    left out and named.

    Example: `satchel amplihack import --agent ops-agent --input ops-agent.json --merge`
    """
    options = ImportOptions(
        on_conflict=on_conflict,
        any_version=any_version,
        skip_bad=skip_bad,
        scrub_secrets=scrub,
        dry_run=dry_run,
        accept_loss=tuple(accept_loss or ()),
        receipt=receipt,
    )
    asked = TransferOptions(
        format=format_.value, storage_path=storage_path, merge=merge, options=options
    )
    found = import_agent(settings_of(backend), agent, source, lambda: owner_key(key), asked)
    if as_json:
        print_json(found)
    else:
        _show(found, dry_run=dry_run)
    return tell_receipts(found.receipts, found.unaccepted)


def _show(found: ImportResult, *, dry_run: bool) -> None:
    line("Would import memory into agent" if dry_run else "Imported memory into agent")
    line(f"  Agent: {found.agent_name}")
    line(f"  Format: {found.format}")
    if found.source_agent is not None:
        line(f"  Source agent: {found.source_agent}")
    line(f"  Merge mode: {found.merge}")
    show_statistics(found.statistics)
    if found.conflicts:
        message(f"other versions of what was there: {found.conflicts:,}")
    for one in found.conflict_examples:
        message("  ", one)
    for loss in found.losses:
        message(f"lost: {loss.name}, {loss.count:,}: {loss.reason}")
    tell_refused(found.failed)
    for note in found.notes:
        message("note: ", note)
