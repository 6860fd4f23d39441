"""``pull`` and ``push``."""

from functools import partial

from satchel.cli._console import count, line, message, print_facts
from satchel.cli._operations import command
from satchel.cli._tree import Group
from satchel.replication.copies import Relation
from satchel.replication.merge import MergeResult
from satchel.replication.operations import Exchange
from satchel.replication.store_operations import pull, push

_OPEN = 1


def add_to(app: Group) -> None:
    """Add the commands of this module."""
    command(
        app,
        pull,
        partial(_shown, where=("there", "here")),
        label="pulling",
        status=_status,
    )
    command(
        app,
        push,
        partial(_shown, where=("here", "there")),
        label="pushing",
        status=_status,
    )


def _status(found: Exchange) -> int:
    return _OPEN if found.is_open else 0


def _shown(found: Exchange, where: tuple[str, str]) -> None:
    source, target = where
    line(f"{found.name or found.bank}: ", _sentence(found, source, target))
    print_facts([("from", found.source), ("to", found.target)])
    if found.merged is not None:
        _show_merge(found.merged, target)
    if found.emptied:
        message(f"{count(found.emptied, 'record')} emptied: erased {source}")
    if found.standing == "untrusted":
        message(
            "the bank's owner is untrusted on this machine, so it is read-only; see: satchel bank"
            " admit, satchel bank adopt"
        )
    if found.is_open:
        message(f"nothing was changed; to merge what is new {source}: --merge", style="yellow")
    for note in found.notes:
        message("note: ", note)


def _sentence(found: Exchange, source: str, target: str) -> str:
    size, beyond = found.source_size, found.source_size - found.common
    would = "would be " if found.dry_run else ""
    if found.relation is Relation.SAME:
        return f"the copies are the same, {count(size, 'record')}"
    if found.relation is Relation.BEHIND:
        more = found.target_size - found.common
        return f"nothing new {source}; {count(more, 'record')} only {target}"
    if found.relation is Relation.NEW:
        return f"{would}copied, {count(size, 'record')}"
    if found.relation is Relation.AHEAD:
        return f"{would}copied, {count(beyond, 'record')} from {found.common:,} on"
    here = count(found.target_size - found.common, "record")
    only = f"{here} only {target}, {beyond:,} only {source}"
    new = found.new if found.merged is None else found.merged.records
    verb = "not merged" if found.merged is None else "merged"
    return f"diverged at {found.common:,}: {only}; {new:,} of them {verb}"


def _show_merge(done: MergeResult, target: str) -> None:
    taken = ", ".join(f"{number:,} {name}" for name, number in sorted(done.taken.items()))
    rows: list[tuple[str, object]] = [("merged", taken or "nothing")]
    if done.known:
        rows.append((f"{target} already", f"{done.known:,}"))
    if done.conflicts:
        rows.append(("changed in both", f"{done.conflicts:,}"))
    print_facts(rows)
    for conflict in done.first_conflicts:
        line(f"  {conflict.kept[7:19]} stays, {conflict.superseded[7:19]} is superseded")
