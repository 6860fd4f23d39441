"""``pull`` and ``push``."""

from typing import Annotated

from satchel.actions.moving.copies import Exchange, ExchangeOptions, pull, push
from satchel.surfaces.cli._console import count, facts, line, message, print_json, progress, state
from satchel.surfaces.cli._options import InBank, Json
from satchel.surfaces.cli._tree import Argument, Group, Option
from satchel.transfer.copies import Relation
from satchel.transfer.merging import OnConflict
from satchel.transfer.unmerged import Merged

_OPEN = 1

Merge = Annotated[bool, Option("--merge", help="Take in what is new, where both copies went on.")]
Conflict = Annotated[
    OnConflict,
    Option("--on-conflict", help="Which stays, where both copies changed the same thing."),
]
DryRun = Annotated[bool, Option("--dry-run", help="Say how the copies stand, and stop.")]
_OnLater = OnConflict.LATER


def add_to(app: Group) -> None:
    """Add the commands of this module."""
    app.command("pull")(pull_command)
    app.command("push")(push_command)


def pull_command(
    source: Annotated[str, Argument(metavar="STORE", help="The other store, as for --store.")],
    bank: InBank = None,
    merge: Merge = False,
    on_conflict: Conflict = _OnLater,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> int:
    """Bring what another store has of a bank into this one.

    What the other copy has beyond this one is carried as it is: places, times and signed head,
    each record proved. Where both went on since they parted, that is shown, and --merge takes in
    what only the other has. Exit status: 0 all is here, 1 they diverged.

    Example: `satchel pull /media/stick/satchel.db`
    """
    with progress("pulling", True, records=True) as tell:
        options = ExchangeOptions(
            bank=bank, merge=merge, on_conflict=on_conflict, dry_run=dry_run, progress=tell
        )
        found = pull(state.settings, source, options)
    return _shown(found, as_json=as_json, where=("there", "here"))


def push_command(
    target: Annotated[str, Argument(metavar="STORE", help="The other store, as for --store.")],
    bank: InBank = None,
    merge: Merge = False,
    on_conflict: Conflict = _OnLater,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> int:
    """Bring what this store has of a bank to another one, which is made if it is not there.

    Exit status: 0 all is there, 1 they diverged.

    Example: `satchel push /media/stick/satchel.db`
    """
    with progress("pushing", True, records=True) as tell:
        options = ExchangeOptions(
            bank=bank, merge=merge, on_conflict=on_conflict, dry_run=dry_run, progress=tell
        )
        found = push(state.settings, target, options)
    return _shown(found, as_json=as_json, where=("here", "there"))


def _shown(found: Exchange, *, as_json: bool, where: tuple[str, str]) -> int:
    if as_json:
        print_json(found)
    else:
        source, target = where
        line(f"{found.name or found.bank}: ", _sentence(found, source, target))
        facts([("from", found.source), ("to", found.target)])
        if found.merged is not None:
            _show_merge(found.merged, target)
        if found.emptied:
            message(f"{count(found.emptied, 'record')} emptied: erased {source}")
        if found.standing == "stranger":
            message(
                "the bank is a stranger's on this machine, to be read only; see: satchel bank"
                " admit, satchel bank adopt"
            )
        if found.is_open:
            message(
                f"nothing was changed; to take in what is new {source}: --merge", style="yellow"
            )
        for note in found.notes:
            message("note: ", note)
    return _OPEN if found.is_open else 0


def _sentence(found: Exchange, source: str, target: str) -> str:
    size, beyond = found.source_size, found.source_size - found.common
    would = "would be " if found.dry_run else ""
    if found.relation is Relation.SAME:
        return f"the copies are the same, {count(size, 'record')}"
    if found.relation is Relation.BEHIND:
        more = found.target_size - found.common
        return f"nothing new {source}; {count(more, 'record')} only {target}"
    if found.relation is Relation.NEW:
        return f"{would}carried whole, {count(size, 'record')}"
    if found.relation is Relation.AHEAD:
        return f"{would}carried, {count(beyond, 'record')} from {found.common:,} on"
    here = count(found.target_size - found.common, "record")
    only = f"{here} only {target}, {beyond:,} only {source}"
    new = found.new if found.merged is None else found.merged.records
    verb = "not taken in yet" if found.merged is None else "taken in now"
    return f"diverged at {found.common:,}: {only}; {new:,} of them {verb}"


def _show_merge(done: Merged, target: str) -> None:
    taken = ", ".join(f"{number:,} {name}" for name, number in sorted(done.taken.items()))
    rows: list[tuple[str, object]] = [("taken in", taken or "nothing")]
    if done.known:
        rows.append((f"{target} already", f"{done.known:,}"))
    if done.conflicts:
        rows.append(("changed in both", f"{done.conflicts:,}"))
    facts(rows)
    for conflict in done.first_conflicts:
        line(f"  {conflict.kept[7:19]} stays, {conflict.superseded[7:19]} is superseded")
