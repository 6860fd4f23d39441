"""``export`` and ``diff``."""

from typing import Annotated

import msgspec
from rich.text import Text

from satchel.actions.moving.comparing import diff
from satchel.actions.moving.exported import Export, ExportOptions, is_signed, selection
from satchel.actions.operating.providing import export_bank
from satchel.errors import UsageError
from satchel.seal.artifact.statement import SourceAgent
from satchel.surfaces.cli._console import (
    count,
    facts,
    line,
    message,
    print_json,
    progress,
    safe,
    size,
    state,
)
from satchel.surfaces.cli._operations import command
from satchel.surfaces.cli._options import (
    AcceptLoss,
    AgentName,
    EncryptPassphrase,
    EncryptTo,
    FailOnLoss,
    Force,
    InBank,
    IncludeEmbeddings,
    Json,
    ReceiptFile,
    Scrub,
    SignWith,
    Unsigned,
    WithSidecar,
    lock_of,
    owner_key,
    show_losses,
    show_plan,
    tell_receipts,
    tell_secrets,
)
from satchel.surfaces.cli._stdout import NAME, output_file, path_or_address
from satchel.surfaces.cli._tree import Group, Option
from satchel.transfer.comparing import Comparison, Only

_DIFFERENT = 1


def add_to(app: Group) -> None:
    """Add the commands of this module."""
    app.command("export")(export_command)
    command(app, diff, _show_comparison, status=lambda found: 0 if found.is_same else _DIFFERENT)


def export_command(
    file: Annotated[
        str,
        Option(
            "--output",
            "-o",
            metavar="PATH",
            help="File to write, or the address of a live product; - for stdout.",
        ),
    ] = NAME,
    bank: InBank = None,
    format_: Annotated[
        str | None,
        Option(
            "--format", help="Its format; from its name by default, or else pam.", values="format"
        ),
    ] = None,
    component: Annotated[
        list[str] | None, Option("--component", help="Only this component. Repeatable.")
    ] = None,
    tag: Annotated[
        list[str] | None, Option("--tag", help="Only what has this tag. Repeatable.")
    ] = None,
    since: Annotated[
        str | None, Option(help="Only what happened, or was made, from this date or time.")
    ] = None,
    until: Annotated[
        str | None, Option(help="Only what happened, or was made, before this.")
    ] = None,
    owner: Annotated[
        str | None, Option(help="Only what belongs to this user, or to this agent.")
    ] = None,
    as_of: Annotated[
        int | None, Option("--as-of", help="As the bank was with so many records.")
    ] = None,
    sign_with: SignWith = None,
    encrypt_to: EncryptTo = None,
    encrypt_passphrase: EncryptPassphrase = False,
    unsigned: Unsigned = False,
    agent: AgentName = None,
    force: Force = False,
    fail_on_loss: FailOnLoss = False,
    accept_loss: AcceptLoss = None,
    sidecar: WithSidecar = False,
    receipt: ReceiptFile = None,
    scrub: Scrub = False,
    entities: Annotated[
        bool,
        Option(
            "--include-entities/--no-include-entities",
            help="Whether an AMA archive has the entities of memories.",
        ),
    ] = True,
    embeddings: IncludeEmbeddings = False,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Say what would be written and lost, and stop.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Write a bank's current memory to a file, in any format that can be written.

    An artifact (.pam.jsonl, .pam, .pam.cbor, each also as .gz) is signed, and shows that it came
    out of the bank's log. The file is read again and compared. What the format cannot hold is
    counted and named, and makes the exit status 1, unless `--accept-loss` names it. With
    `--sidecar` it is in a file beside it, and nothing is lost. The bank is not changed.

    Example: `satchel export --output memory.pam.jsonl --tag travel`
    """
    output = path_or_address(file)
    wanted = selection(
        components=tuple(component or ()),
        tags=tuple(tag or ()),
        since=since,
        until=until,
        owner=owner,
        as_of=as_of,
    )
    signs = is_signed(output, format_) and not unsigned and not dry_run
    with (
        progress("exporting", True, records=True) as tell,
        output_file(output, format_) as path,
    ):
        if path != output and sidecar:
            raise UsageError(
                "a sidecar is beside a file, and standard output is none", field="output"
            )
        options = ExportOptions(
            format=format_,
            selection=wanted,
            key=owner_key(sign_with) if signs else None,
            lock=lock_of(encrypt_to, encrypt_passphrase),
            overwrite=force,
            fail_on_loss=fail_on_loss,
            accept_loss=tuple(accept_loss or ()),
            sidecar=sidecar,
            receipt=receipt,
            scrub_secrets=scrub,
            entities=entities,
            embeddings=embeddings,
            dry_run=dry_run,
            source_agent=SourceAgent(name=agent) if agent else None,
            progress=None if tell is None else lambda done, total, _: tell(done, total),
        )
        done = export_bank(state.settings, bank, lambda: owner_key(None), (path, options))
    if path != output:
        done = msgspec.structs.replace(done, output=NAME)
    if as_json:
        print_json(done)
    else:
        _show_export(done)
    return tell_receipts([done.receipt] if done.receipt else [], done.unaccepted)


def _show_export(done: Export) -> None:
    what = "would write " if done.dry_run else ""
    line(f"{done.name or done.bank} -> {done.format}: {what}", count(done.entries, "memory"))
    rows: list[tuple[str, object]] = [
        ("bank", f"{done.bank}  {count(done.size, 'record')}, epoch {done.epoch}"),
        ("records", ", ".join(f"{number:,} {name}" for name, number in done.records.items())),
    ]
    if done.written is not None:
        rows.append(("written", f"{done.written:,} to {done.output}"))
    if done.known:
        rows.append(("", f"{done.known:,} were there already, saying the same"))
    if done.output_bytes is not None:
        written = f"{done.output}  {size(done.output_bytes)}  {done.output_digest}"
        rows.append(("written", written))
    if done.sidecar:
        rows.append(("sidecar", done.sidecar))
    if done.signed_by:
        rows.append(("signed by", done.signed_by))
    if done.read_back:
        rows.append(("read back", done.read_back))
    facts(rows)
    tell_secrets(done.secrets, done.secrets_kept)
    for note in done.notes:
        message("note: ", note)
    show_losses(done.losses, dry_run=done.dry_run)
    if done.plan is not None:
        show_plan(done.plan)


def _show_comparison(found: Comparison) -> None:
    line(
        "the same: " if found.is_same else "different: ",
        f"{found.same:,} the same, {found.only_a:,} only in A, {found.only_b:,} only in B, ",
        f"{found.changed:,} changed",
    )
    facts(
        [
            ("A", f"{found.a}  {count(found.a_entries, 'memory')}"),
            ("B", f"{found.b}  {count(found.b_entries, 'memory')}"),
        ]
    )
    for one in found.first_only_a:
        line(Text("- ", "red"), _shown(one))
    _more(found.only_a, len(found.first_only_a), "only in A")
    for one in found.first_only_b:
        line(Text("+ ", "green"), _shown(one))
    _more(found.only_b, len(found.first_only_b), "only in B")
    for pair in found.first_changed:
        line(Text("~ ", "yellow"), ", ".join(pair.fields))
        line(Text("  - ", "red"), _shown(pair.a))
        line(Text("  + ", "green"), _shown(pair.b))
    _more(found.changed, len(found.first_changed), "changed")
    for note in found.notes:
        message("note: ", note)


def _more(number: int, shown: int, what: str) -> None:
    if number > shown:
        message(f"  and {number - shown:,} more {what}: --limit")


def _shown(one: Only) -> Text:
    named = f"  [{one.origin}]" if one.origin else ""
    return safe(f"{one.id[7:19]} {one.type}{named}  {one.text or ''}".rstrip())
