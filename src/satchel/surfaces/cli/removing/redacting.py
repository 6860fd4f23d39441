"""``satchel redact`` and ``satchel recover``: personal data out of memories, and back for some."""

from pathlib import Path
from typing import Annotated

from satchel.actions.erasing.choosing import conditions_of
from satchel.actions.erasing.recovering import kept_age_file, recover, recover_by_identity
from satchel.actions.erasing.redacting import Redacted, RedactOptions, redact
from satchel.actions.opened import opened_bank
from satchel.errors import UsageError
from satchel.screen.redacting import KINDS
from satchel.surfaces.cli._console import count, line, message, print_json, progress, short, state
from satchel.surfaces.cli._options import DryRun, Force, InBank, Json, Owner, owner_key
from satchel.surfaces.cli._stdout import file_or_none
from satchel.surfaces.cli._tree import Argument, Group, Option

_SHOWN = 20


def add_to(app: Group) -> None:
    """Add the commands of this module."""
    app.command("redact")(redact_command)
    app.command("recover")(recover_command)


def redact_command(
    ids: Annotated[
        list[str] | None, Argument(metavar="[ID]...", help="Ids, or the start of them.")
    ] = None,
    where: Annotated[
        list[str] | None,
        Option(
            "--where", metavar="NAME=VALUE", help="What the memories say, as for erase. Repeatable."
        ),
    ] = None,
    kind: Annotated[
        list[str] | None,
        Option("--kind", help=f"Only this: {', '.join(KINDS)}. Repeatable."),
    ] = None,
    text: Annotated[
        list[str] | None,
        Option("--text", help="These words, wherever they stand. Repeatable."),
    ] = None,
    field: Annotated[
        list[str] | None,
        Option("--field", help="This member as a whole, such as /metadata/phone. Repeatable."),
    ] = None,
    detector: Annotated[
        str | None,
        Option("--detector", help="Look with this as well: presidio."),
    ] = None,
    recover_for: Annotated[
        list[str] | None,
        Option("--recover-for", help="Keep the original, sealed for this key: a name or did:key."),
    ] = None,
    recover_to: Annotated[
        list[str] | None,
        Option(
            "--recover-to",
            help="Keep the original as an age file for age1..., a file with recipients, or an"
            " identity here. Repeatable.",
        ),
    ] = None,
    bank: InBank = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> int:
    """Replace personal data and secrets in memories by tokens that name their kind.

    The memory stays where it is, with its id, parents and times, and what was proved stays proved.
    All its versions are redacted. What tells whose it is stays, unless --field names it.

    Example: `satchel redact --where user=ada --dry-run`
    """
    options = RedactOptions(
        ids=ids or (),
        where=conditions_of(where or ()),
        kinds=kind or (),
        texts=text or (),
        fields=field or (),
        detector=detector,
        recover_for=recover_for or (),
        recover_to=recover_to or (),
        dry_run=dry_run,
    )
    with (
        opened_bank(state.settings, bank, writes=not dry_run) as opened,
        progress("redacting", True, records=True) as tell,
    ):
        done = redact(opened, options, progress=tell)
    if as_json:
        print_json(done)
    else:
        _show(done)
    return done.exit_status


def _show(done: Redacted) -> None:
    verb = "would be redacted" if done.dry_run else "redacted"
    line(f"{count(done.redacted, 'memory')} {verb}, of {done.looked_at:,} looked at")
    for name, number in done.kinds.items():
        line(f"  {number:,} {name}")
    for entry in done.entries[:_SHOWN]:
        line(f"{short(entry.id)}  {', '.join(entry.fields)}")
    if done.redacted > _SHOWN:
        line(f"and {done.redacted - _SHOWN:,} more")
    if done.kept:
        message(
            f"{count(done.kept, 'value')} kept: they tell which memory it is, or whose; --field"
        )
    if done.recoverable_by and not done.dry_run:
        message(f"the originals can be recovered by {', '.join(done.recoverable_by)}")
    for note in done.notes:
        message("note: ", note)


def recover_command(
    memory: Annotated[str, Argument(metavar="ID", help="Id of the memory, or its start.")],
    output: Annotated[
        Path | None, Option("--output", "-o", help="A new private file; else stdout.")
    ] = None,
    key: Owner = None,
    sealed: Annotated[
        bool,
        Option("--sealed", help="Write the age file, for whoever has its identity."),
    ] = False,
    force: Force = False,
    bank: InBank = None,
    as_json: Json = False,
) -> None:
    """Show the original of a redacted memory, to who has a key that it was sealed for.

    Nothing is put back: in the bank stays the redacted form. Its id is checked against the bytes.
    Where it is an age file, an identity opens it: one that is here, or --identity before the verb.

    Example: `satchel recover 3f9a2c --output original.json`
    """
    from satchel.actions.paths.permission import file_to_write
    from satchel.seal.encoding.jcs import canonical_checked

    output = file_or_none(output)
    if sealed and output is None:
        raise UsageError("an age file goes to a file: --output", field="--sealed")
    with opened_bank(state.settings, bank) as opened:
        if sealed:
            identity, content = kept_age_file(opened, memory)
        else:
            found = None if key is not None else recover_by_identity(opened, memory)
            found = found or recover(opened, memory, owner_key(key))
            identity, content = found.id, canonical_checked(found.record) + b"\n"
            if output is None:
                print_json(found.record)
                return
    assert output is not None  # noqa: S101 - looked at above
    with (
        file_to_write(state.settings, output) as outlet,
        outlet.writing(overwrite=force) as stream,
    ):
        stream.write(content)
    if as_json:
        print_json({"output": str(output), "id": identity})
    else:
        line(f"{identity} in {output}")
