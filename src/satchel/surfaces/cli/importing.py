"""``satchel import`` and ``satchel undo``."""

from pathlib import Path
from typing import Annotated

from satchel.actions.agents.undoing import undo
from satchel.actions.importing.imported import BankImported, Imported, ImportOptions
from satchel.actions.importing.undoing import ImportLine, Undone, list_imports
from satchel.actions.inferring.duplicates import NearDuplicates
from satchel.actions.operating.providing import import_into
from satchel.seal.verify.verification import Outcome
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
from satchel.surfaces.cli._options import (
    Accept,
    AcceptLoss,
    DryRun,
    IgnoreSidecar,
    InBank,
    IncludeEmbeddings,
    Json,
    Owner,
    ReceiptFile,
    Scrub,
    SkipBad,
    TextMember,
    owner_key,
    show_plan,
    tell_receipts,
    tell_refused,
    tell_secrets,
)
from satchel.surfaces.cli._tree import Argument, Group, Option
from satchel.transfer.incoming.planned import OnConflict

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
    app.command("import")(import_command)
    app.command("undo")(undo_command)


def import_command(
    file: Annotated[
        str,
        Argument(
            metavar="[FILE]",
            help="What to read: a file, - for the standard input, or a live source: its folder,"
            " or its address.",
        ),
    ] = "-",
    bank: Annotated[
        str | None,
        Option(
            "--bank",
            help="Import everything into this bank; it is created if missing. Without it, each user"
            " or agent that the file names has a bank; a file that names none, or an export of your"
            " own chats, goes into the default bank.",
            values="bank",
        ),
    ] = None,
    given: Annotated[str | None, Option("--input", help="The file, as an option.")] = None,
    from_: Annotated[
        str | None,
        Option("--from", help="Format of the file; recognised otherwise.", values="format"),
    ] = None,
    include_deleted: Annotated[
        bool,
        Option("--include-deleted", help="Bring what was deleted at a live source, too."),
    ] = False,
    embeddings: IncludeEmbeddings = False,
    on_conflict: Annotated[
        OnConflict | None,
        Option(
            help="What to do with another version of what the bank has; skip, if its settings do"
            " not say otherwise."
        ),
    ] = None,
    mirror: Annotated[
        bool, Option("--mirror", help="Overwrite, and delete what the source has no longer.")
    ] = False,
    maps: Annotated[
        list[str] | None,
        Option("--map", help="An owner's bank, as user:ada=bank-ada. Repeatable."),
    ] = None,
    scrub: Scrub = False,
    skip_bad: SkipBad = False,
    text_member: TextMember = None,
    near: Annotated[
        NearDuplicates | None,
        Option(
            "--near-duplicates",
            help="What to do with memories that say what another one says in other words.",
        ),
    ] = None,
    re_embed: Annotated[
        bool, Option("--re-embed", help="Make vectors afterwards, as satchel embed does.")
    ] = False,
    re_extract: Annotated[
        bool,
        Option("--re-extract-entities", help="Find entities anew, in place of those in the file."),
    ] = False,
    dry_run: DryRun = False,
    accept_loss: AcceptLoss = None,
    sidecar: Annotated[
        Path | None,
        Option("--sidecar", help="The file's sidecar, where it is not beside it."),
    ] = None,
    ignore_sidecar: IgnoreSidecar = False,
    receipt: ReceiptFile = None,
    accept: Accept = None,
    trusted: Annotated[
        list[str] | None,
        Option("--trusted", help="Believe this key as well: did:key, hex or a file."),
    ] = None,
    key: Owner = None,
    as_json: Json = False,
) -> int:
    """Import memory from a file into a bank, or into one for each user in it.

    Everything is read and checked first, and becomes visible in one moment; an import that was
    killed goes on when it is run again. `satchel undo` takes it back. Exit status 1 when something
    was lost that `--accept-loss` does not name. What a file's format has no place for comes from
    its sidecar, FILE.satchel.jsonl, where `satchel export --sidecar` wrote one.

    Example: `satchel import mem0.json --bank assistant`
    """
    source = None if (given or file) == "-" else given or file
    size = 0 if source is None else bytes_in(Path(source))
    with (
        progress("reading", is_long(4 * size)) as reading,
        progress("logging", is_long(4 * size), records=True) as logging,
    ):
        found = import_into(
            state.settings,
            source,
            bank,
            lambda: owner_key(key),
            ImportOptions(
                source_format=from_,
                include_deleted=include_deleted,
                embeddings=embeddings,
                on_conflict=on_conflict,
                mirror=mirror,
                scrub_secrets=scrub,
                skip_bad=skip_bad,
                text_member=text_member,
                maps=tuple(maps or ()),
                near_duplicates=near,
                re_embed=re_embed,
                re_extract_entities=re_extract,
                dry_run=dry_run,
                accept_loss=tuple(accept_loss or ()),
                sidecar=sidecar,
                ignore_sidecar=ignore_sidecar,
                receipt=receipt,
                unsafe_accept=frozenset(Outcome(one.value) for one in accept or ()),
                trusted_keys=tuple(trusted or ()),
                on_reading=reading,
                on_logging=logging,
            ),
        )
    return show_import(found, as_json=as_json)


def show_import(found: Imported, *, as_json: bool) -> int:
    """Say what an import did, and return its exit status."""
    if as_json:
        print_json(found)
    else:
        _show(found)
    return tell_receipts(found.receipts, found.unaccepted)


def _show(found: Imported) -> None:
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
    listed: Annotated[bool, Option("--list", help="List the imports instead.")] = False,
    reason: Annotated[str | None, Option("--reason", help="For whoever reads the log.")] = None,
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
