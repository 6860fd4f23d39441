"""What the commands about backups say to people."""

from collections.abc import Iterator, Sequence

from satchel.actions.backing_up.drilling import Drill, DrilledBank
from satchel.actions.backing_up.listing import BackupLine
from satchel.actions.backing_up.restored import (
    Restored,
    RestoredAgent,
    RestoredBank,
    RestoredSession,
)
from satchel.actions.backing_up.running import BackupRun, Made
from satchel.surfaces.cli._console import count, line, message
from satchel.surfaces.cli._options import tell_receipts
from satchel.transfer.copies import Relation


def show_run(found: BackupRun) -> None:
    """Say what became of a backup at each destination."""
    for one in found.made:
        if one.id is not None:
            line(_sentence(one))
        for note in one.notes:
            message(f"{one.destination}: note: ", note)
        for name in one.missing:
            message(f"{one.destination}: not in it: ", name)
        if one.error is not None:
            message(f"{one.destination}: failed: ", one.error, style="bold red")


def _sentence(one: Made) -> str:
    parts = [count(one.banks, "bank"), count(one.records, "record")]
    parts += [f"files of {count(one.files, 'key')}"] if one.files else []
    parts += [count(one.agents, "agent")] if one.agents else []
    new = f"{one.written:,} of {one.packs:,} pieces new, {one.bytes_written:,} bytes"
    done = "not whole"
    if one.verified:
        done = "read again, all of it holds"
    if one.verified and one.unopened:
        done = f"read again, holds; {count(one.unopened, 'piece')} by the hash alone, unopened"
    gone = f"; {count(len(one.dropped), 'older one')} gone" if one.dropped else ""
    return f"{one.id}: {', '.join(parts)}; {new}; {done}{gone}"


def listed(one: BackupLine) -> Iterator[str]:
    """Yield what is to be said of a backup in a listing."""
    if one.reason:
        yield one.reason
    if one.agents:
        yield f"agents {', '.join(one.agents)}"
    if one.encrypted:
        yield "encrypted, and nothing here opens it" if one.closed else "encrypted"
    if not one.own:
        yield "of another store"
    if not one.believed:
        yield "signed by nobody known"
    if one.holds_erased:
        yield f"holds {one.holds_erased:,} erased"


def show_restored(found: Restored) -> None:
    """Say what was put back."""
    for one in found.banks:
        line(f"{one.name or one.bank}: {_restored(one, dry_run=found.dry_run)}")
        _notes(one.name or one.bank, one.notes)
        if one.safety:
            message(f"what was there is kept: {one.safety}")
    if found.session is not None:
        line(f"session {found.session.name or found.session.session}: {_session(found.session)}")
        _notes("session", found.session.notes)
    for part in found.files:
        line(f"files of {part.key}: {'would be put back' if found.dry_run else 'put back'}")
        if part.aside:
            message(f"what was there is in {part.aside}")
    for agent in found.agents:
        line(f"agent {agent.id}: {_agent(agent, dry_run=found.dry_run)}")
        _notes(agent.id, agent.notes)
        if agent.aside:
            message(f"what was there is in {agent.aside}")
    _notes("backup", found.notes)
    line(f"{found.backup} of {found.taken} -> {found.target}")
    tell_receipts(found.receipts, 0)


def _agent(one: RestoredAgent, *, dry_run: bool) -> str:
    what = "would be put back" if dry_run else "put back"
    parts = ["no files"] if not one.folder else []
    if one.folder:
        did = "there already" if one.same else what
        parts.append(f"{count(one.files, 'file')} {did}, in {one.folder}")
    parts += ["the configuration names it now"] if one.configured and not dry_run else []
    return "; ".join(parts)


def _session(one: RestoredSession) -> str:
    parts = [count(one.messages, "message"), f"{count(one.added, 'record')} added"]
    parts += [f"{one.returned:,} that were deleted are back"] if one.returned else []
    parts += [f"{one.there:,} were there"] if one.there else []
    where = one.bank_name or one.bank or "a new bank"
    return f"{', '.join(parts)}, in {where}{' (made for it)' if one.made else ''}"


_STANDS = {
    Relation.NEW: "is not there",
    Relation.SAME: "is there already",
    Relation.AHEAD: "what is there lacks some of it",
    Relation.BEHIND: "what is there has more",
    Relation.DIVERGED: "what is there went another way",
}


def _restored(one: RestoredBank, *, dry_run: bool) -> str:
    parts = [count(one.size, "record")]
    parts.append(_STANDS[one.relation] if dry_run else f"{one.carried:,} put back")
    parts += [f"{one.erased_again:,} erased again"] if one.erased_again else []
    parts += ["what this machine saw beyond it is given up"] if one.given_up else []
    return ", ".join(parts)


def show_drill(found: Drill) -> None:
    """Say how a backup did."""
    for one in found.banks:
        line(f"{one.name or one.bank}: {_drilled(one)}")
        _notes(one.name or one.bank, one.notes)
        for problem in one.problems:
            message(f"{one.name or one.bank}: ", problem, style="bold red")
    for agent in found.agents:
        since = f", {agent.changed:,} other ones by now" if agent.changed else ""
        line(f"agent {agent.agent}: {count(agent.files, 'file')}{since}")
        for problem in agent.problems:
            message(f"agent {agent.agent}: ", problem, style="bold red")
    for name in found.missing:
        message("not in the backup: ", name, style="bold red")
    line(f"{found.backup}: {'would do' if found.is_good else 'would NOT do'}")
    _notes("drill", found.notes)
    tell_receipts(found.receipts, 0)


def _drilled(one: DrilledBank) -> str:
    parts = [count(one.size, "record")]
    parts += [f"{one.behind:,} added since"] if one.behind else []
    parts += [f"{one.erased_again:,} erased again"] if one.erased_again else []
    if one.questions:
        parts.append(f"{one.same_answers:,} of {one.questions:,} questions answered alike")
    return ", ".join(parts)


def _notes(name: str, notes: Sequence[str]) -> None:
    for note in notes:
        message(f"{name}: note: ", note)
