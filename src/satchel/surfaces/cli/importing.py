"""``satchel import`` and ``satchel undo``."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from satchel.actions.agents.undoing import undo
from satchel.actions.importing.imported import BankImported, Imported
from satchel.actions.importing.undoing import ImportLine, Undone, list_imports
from satchel.actions.operating.imports import STDIN, ImportRequest, ImportTarget, import_
from satchel.actions.paths.permission import OWN
from satchel.ports.operations import Option, Options, PathText
from satchel.surfaces.cli._console import (
    bytes_in,
    count,
    facts,
    gist,
    is_long,
    line,
    message,
    print_json,
    progress,
    state,
    table,
)
from satchel.surfaces.cli._operations import command
from satchel.surfaces.cli._options import (
    DryRun,
    InBank,
    Json,
    owner_key,
    show_plan,
    tell_receipts,
    tell_refused,
    tell_secrets,
)
from satchel.surfaces.cli._tree import Argument, Group
from satchel.surfaces.cli._tree import Option as Flag

_PAIRS = 20

_WORDS = {
    "added": "new",
    "known": "known already, left as they are",
    "forgotten": "forgotten here, and stay so (--on-conflict overwrite brings them back)",
    "redacted": "of these are redacted here, and stay so",
    "returned": "of these came redacted before, and are whole again",
    "twice": "twice in the file",
    "skipped": "other versions, left out (--on-conflict overwrite takes them)",
    "overwritten": "took the place of others",
    "renamed": "kept beside others, renamed",
    "restored": "current again",
    "near": "said already in other words, left out",
    "merged": "took the place of others that say the same",
    "vanished": "no longer at the source, deleted",
    "past": "older versions and deleted ones, for the history",
    "conversations": "conversations",
    "messages": "messages",
    "beside": "edges, nodes, sources and the like",
    "others_known": "edges and the like known already",
    "others_twice": "edges and the like twice in the file",
    "others_skipped": "other versions of edges and the like, left out",
    "others_overwritten": "edges and the like took the place of others",
    "others_renamed": "edges and the like kept beside others, renamed",
    "others_vanished": "edges and the like no longer at the source, deleted",
    "unjoined": "edges to what is not there any more, left out",
}


def add_to(app: Group) -> None:
    """Add the commands of this module."""
    command(
        app,
        import_,
        _show,
        bank=_target,
        bank_help="Bank that everything goes into; created if there is none.",
        label="logging",
        extra=Input,
        prepare=_prepare,
        status=lambda result: int(bool(result.unaccepted)),
    )
    app.command("undo")(undo_command)


@dataclass(frozen=True, slots=True, kw_only=True)
class Input(Options):
    """Another way to name the file."""

    input: Annotated[PathText | None, Option("The file, as an option.", metavar="FILE")] = None


def _prepare(given: dict[str, Any], other: Input) -> None:
    given["path"] = other.input or given["path"]


@contextmanager
def _target(bank: str | None, options: ImportRequest, _: Input) -> Iterator[ImportTarget]:
    path = str(options.path)
    size = 0 if path == STDIN else bytes_in(Path(path))
    with progress("reading", is_long(4 * size)) as reading:
        yield ImportTarget(
            settings=state.settings,
            bank=bank,
            owner=owner_key,
            permission=OWN,
            reads_stdin=True,
            on_reading=reading,
        )


def show_import(found: Imported, *, as_json: bool) -> int:
    """Say what an import did, and return its exit status."""
    if as_json:
        print_json(found)
        return int(bool(found.unaccepted))
    return _show(found)


def _show(found: Imported, _: Input | None = None) -> int:
    would = "would import" if found.dry_run else "imported" if found.changed else "read"
    read = sum(one.done.read for one in found.banks)
    line(f"{would} {count(read, 'record')} from {found.input} ({found.source_format})")
    for one in found.banks:
        _show_bank(one)
    created = sum(one.made for one in found.banks)
    if created > 1:
        message(
            f"created {created:,} banks; the default bank is as before. To change it: satchel bank"
            " use NAME"
        )
    for loss in found.losses:
        message(f"lost: {loss.name}, {loss.count:,}: {loss.reason}")
    tell_refused(found.refused)
    _show_near(found)
    tell_secrets(found.secrets, found.secrets_kept)
    for note in found.notes:
        message("note: ", note)
    if found.advice is not None:
        message(found.advice)
    if found.plan is not None:
        show_plan(found.plan)
    elif not found.changed:
        line("nothing changed")
    return tell_receipts(found.receipts, found.unaccepted)


def _show_near(found: Imported) -> None:
    if found.near_found:
        message(f"said in other words already: {found.near_found:,}")
    for pair in found.near[:_PAIRS]:
        message(f"  {pair.similarity:.3f}  ", gist(pair.text), "  like  ", gist(pair.like_text))
    if len(found.near) > _PAIRS:
        message("  and more: --json has them")


def _show_bank(one: BankImported) -> None:
    made = " (new)" if one.made or one.bank is None else ""
    rows: list[tuple[str, object]] = [("bank", f"{one.name or one.bank}{made}")]
    for name, words in _WORDS.items():
        number = getattr(one.done, name)
        if number:
            rows.append(("", f"{number:,} {words}"))
    for name, number in one.done.left.items():
        rows.append(("", f"{number:,} {name} records stay with the log they come from"))
    if one.resumed:
        rows.append(("", f"gone on with: {count(one.resumed, 'record')} had been logged before"))
    if one.reused is not None and one.reused.reused:
        rows.append(("vectors", f"{one.reused.reused:,} came along ({one.reused.model})"))
    if one.embedded is not None:
        told = one.embedded
        rows.append(("vectors", f"{told.made:,} made, {told.kept:,} there ({told.model})"))
    if one.source is not None:
        rows.append(("undo", f"satchel undo {one.source[:23]}"))
    facts(rows)


def undo_command(
    wanted: Annotated[
        str | None, Argument(metavar="[IMPORT]", help="Its id or the start; else the last.")
    ] = None,
    bank: InBank = None,
    listed: Annotated[bool, Flag("--list", help="List the imports instead.")] = False,
    reason: Annotated[str | None, Flag("--reason", help="For whoever reads the log.")] = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Take an import back: what came with it goes, what it replaced is there again.

    Nothing is cut from the log: `satchel history` still tells.

    Example: `satchel undo --bank assistant`
    """
    if listed:
        lines = list_imports(state.settings, bank)
        if as_json:
            print_json(lines)
        else:
            _show_imports(lines)
        return
    done = undo(state.settings, bank, wanted, reason=reason, dry_run=dry_run)
    if as_json:
        print_json(done)
    else:
        _show_undone(done)


def _show_imports(lines: list[ImportLine]) -> None:
    if not lines:
        message("No imports yet: satchel import FILE")
        return
    rows: list[list[object]] = [
        [one.at or "", one.format, count(one.records, "record"), one.state, one.source]
        for one in lines
    ]
    table(["began", "format", "", "", "import"], rows)


def _show_undone(done: Undone) -> None:
    if done.already:
        message("it was undone before")
        return
    would = "would take back" if done.dry_run else "took back"
    line(f"{would} {count(done.records, 'record')} of {done.source}")
    if done.agent:
        message(f"with it, the files and settings of the agent {done.agent}")
    for name in done.stays:
        message("stays, as it was changed since: ", name)
    if done.replaced:
        message(f"stays replaced, by what came later: {len(done.replaced):,}")
