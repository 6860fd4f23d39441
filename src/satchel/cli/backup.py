"""``satchel backup``."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any

from satchel.backup.agents import RestoredAgent
from satchel.backup.destinations import BackupSetup, backup_setup
from satchel.backup.drill import Drill, DrilledBank, drill_backup
from satchel.backup.inventory import (
    BackupLine,
    BackupList,
    VerifiedBackup,
    list_backups,
    verify_backups,
)
from satchel.backup.prune import BackupPruneResult, prune_backups
from satchel.backup.restore import restore_backup
from satchel.backup.restore_targets import RestoredBank, RestoredSession, RestoreResult
from satchel.backup.run import BackupRun, DestinationResult, run_backup
from satchel.backup.schedule import ScheduleResult, schedule_backups
from satchel.cli._console import (
    count,
    line,
    message,
    print_json,
    print_text,
    show_timer,
    state,
    table,
)
from satchel.cli._operations import command
from satchel.cli._options import report_receipts
from satchel.cli._tree import Group
from satchel.config.settings import Timer
from satchel.replication.copies import Relation


def show_setup(setup: BackupSetup) -> None:
    """Print the configuration lines for backups, and their purpose on standard error."""
    for destination in setup.destinations:
        message("configured: ", destination)
    if setup.problem is not None:
        message("problem: ", setup.problem, style="bold red")
    where = f"under {setup.under} of {setup.file}" if setup.under else f"to {setup.file}"
    message(f"To back up on a schedule, add these lines {where}:")
    print_text(setup.lines.rstrip("\n"))
    message("Then: satchel backup run, and satchel backup schedule")


def show_run(found: BackupRun) -> None:
    """Print the result of a backup at each destination."""
    for one in found.made:
        if one.id is not None:
            line(_sentence(one))
        for note in one.notes:
            message(f"{one.destination}: note: ", note)
        for name in one.missing:
            message(f"{one.destination}: missing: ", name)
        if one.error is not None:
            message(f"{one.destination}: failed: ", one.error, style="bold red")


def _sentence(one: DestinationResult) -> str:
    parts = [count(one.banks, "bank"), count(one.records, "record")]
    parts += [f"files of {count(one.files, 'key')}"] if one.files else []
    parts += [count(one.agents, "agent")] if one.agents else []
    new = f"{one.written:,} of {one.packs:,} packs new, {one.bytes_written:,} bytes"
    done = "incomplete"
    if one.verified:
        done = "verified"
    if one.verified and one.unopened:
        done = f"verified; {count(one.unopened, 'encrypted pack')} by hash only"
    gone = f"; {count(len(one.dropped), 'older backup')} removed" if one.dropped else ""
    return f"{one.id}: {', '.join(parts)}; {new}; {done}{gone}"


def listed(one: BackupLine) -> Iterator[str]:
    """Yield the notes on a backup in a listing."""
    if one.reason:
        yield one.reason
    if one.agents:
        yield f"agents {', '.join(one.agents)}"
    if one.encrypted:
        yield "encrypted, no identity here decrypts it" if one.closed else "encrypted"
    if not one.own:
        yield "of another store"
    if not one.believed:
        yield "untrusted signer"
    if one.holds_erased:
        yield f"holds {count(one.holds_erased, 'erased record')}"


def show_restored(found: RestoreResult) -> None:
    """Print the result of a restore."""
    for one in found.banks:
        line(f"{one.name or one.bank}: {_restored(one, dry_run=found.dry_run)}")
        _notes(one.name or one.bank, one.notes)
        if one.safety:
            message(f"what was replaced is in the backup {one.safety}")
    if found.session is not None:
        line(f"session {found.session.name or found.session.session}: {_session(found.session)}")
        _notes("session", found.session.notes)
    for part in found.files:
        line(f"files of {part.key}: {'would be restored' if found.dry_run else 'restored'}")
        if part.aside:
            message(f"what was replaced is in {part.aside}")
    for agent in found.agents:
        line(f"agent {agent.id}: {_agent(agent, dry_run=found.dry_run)}")
        _notes(agent.id, agent.notes)
        if agent.aside:
            message(f"what was replaced is in {agent.aside}")
    _notes("backup", found.notes)
    line(f"{found.backup} of {found.taken} -> {found.target}")
    report_receipts(found.receipts, 0)


def _agent(one: RestoredAgent, *, dry_run: bool) -> str:
    what = "would be restored" if dry_run else "restored"
    parts = ["no files"] if not one.folder else []
    if one.folder:
        did = "unchanged" if one.same else what
        parts.append(f"{count(one.files, 'file')} {did}, in {one.folder}")
    parts += ["added to the configuration"] if one.configured and not dry_run else []
    return "; ".join(parts)


def _session(one: RestoredSession) -> str:
    parts = [count(one.messages, "message"), f"{count(one.added, 'record')} added"]
    parts += [f"{count(one.returned, 'deleted record')} restored"] if one.returned else []
    parts += [f"{one.there:,} unchanged"] if one.there else []
    where = one.bank_name or one.bank or "a new bank"
    return f"{', '.join(parts)}, in {where}{' (created)' if one.made else ''}"


_STANDS = {
    Relation.NEW: "not in the store",
    Relation.SAME: "the same is in the store",
    Relation.AHEAD: "the store has less of it",
    Relation.BEHIND: "the store has more of it",
    Relation.DIVERGED: "the store has another history of it",
}


def _restored(one: RestoredBank, *, dry_run: bool) -> str:
    parts = [count(one.size, "record")]
    parts.append(_STANDS[one.relation] if dry_run else f"{one.carried:,} restored")
    parts += [f"{one.erased_again:,} erased again"] if one.erased_again else []
    parts += ["newer records that this machine has seen are given up"] if one.given_up else []
    return ", ".join(parts)


def show_drill(found: Drill) -> None:
    """Print the result of a test restore."""
    for one in found.banks:
        line(f"{one.name or one.bank}: {_drilled(one)}")
        _notes(one.name or one.bank, one.notes)
        for problem in one.problems:
            message(f"{one.name or one.bank}: ", problem, style="bold red")
    for agent in found.agents:
        since = f", {agent.changed:,} changed since" if agent.changed else ""
        line(f"agent {agent.agent}: {count(agent.files, 'file')}{since}")
        for problem in agent.problems:
            message(f"agent {agent.agent}: ", problem, style="bold red")
    for name in found.missing:
        message("missing from the backup: ", name, style="bold red")
    line(f"{found.backup}: {'restorable' if found.is_good else 'NOT restorable'}")
    _notes("drill", found.notes)
    report_receipts(found.receipts, 0)


def _drilled(one: DrilledBank) -> str:
    parts = [count(one.size, "record")]
    parts += [f"{one.behind:,} added since"] if one.behind else []
    parts += [f"{one.erased_again:,} erased again"] if one.erased_again else []
    if one.questions:
        parts.append(f"{one.same_answers:,} of {one.questions:,} queries with the same results")
    return ", ".join(parts)


def _notes(name: str, notes: Sequence[str]) -> None:
    for note in notes:
        message(f"{name}: note: ", note)


def show_backups(result: BackupList) -> None:
    """Print the backups as a table."""
    if result.backups:
        table(
            ["backup", "banks", "records", "files", "verified", "notes"],
            [
                [
                    each.id,
                    ", ".join(each.banks),
                    f"{each.records:,}",
                    str(len(each.files)),
                    "yes" if each.verified else "NO",
                    "; ".join(listed(each)),
                ]
                for each in result.backups
            ],
        )
    else:
        message("no backups yet: satchel backup run")
    for problem in result.problems:
        message("not a backup: ", problem)


def show_verified(result: Sequence[VerifiedBackup]) -> None:
    """Print whether each backup is sound."""
    for each in result:
        size = f"{count(each.records, 'record')}, {count(each.packs, 'pack')} verified"
        line(f"{each.id}: ", each.error or size)
        _notes(each.id, each.notes)


def show_pruned(result: Sequence[BackupPruneResult]) -> None:
    """Print what was removed at each destination."""
    for each in result:
        verb = "would be removed" if each.dry_run else "removed"
        number = count(len(each.dropped), "backup")
        line(f"{each.destination}: {number} {verb}, {each.kept:,} kept")
        for name in each.dropped:
            line(f"  {name}")
        _notes(each.destination, each.notes)


_REFUSED = 3

backup = Group(help="Back up the store and its memory files.")


def add_to(app: Group) -> None:
    """Add the commands of this module."""
    app.add(backup, name="backup")


command(backup, run_backup, show_run, label="verifying", status=lambda run: run.exit_status)
command(backup, list_backups, show_backups)
command(
    backup,
    verify_backups,
    show_verified,
    label="verifying",
    status=lambda result: _REFUSED if any(each.error for each in result) else 0,
)
command(
    backup,
    restore_backup,
    show_restored,
    label="restoring",
)
command(backup, prune_backups, show_pruned)
command(backup, backup_setup, show_setup)
command(
    backup,
    drill_backup,
    show_drill,
    label="restoring",
    status=lambda drill: 0 if drill.is_good else _REFUSED,
)


def _report(_: Any) -> dict[str, Callable[[Any], None]]:
    def waiting(due: datetime) -> None:
        message(f"the next backup is due at {due.astimezone():%Y-%m-%d %H:%M}")

    return {"on_run": print_json if state.json else show_run, "waiting": waiting}


def _show_scheduled(result: ScheduleResult | Timer) -> None:
    if isinstance(result, Timer):
        show_timer(result)


command(
    backup,
    schedule_backups,
    _show_scheduled,
    label=None,
    internal=_report,
    status=lambda result: 0 if isinstance(result, Timer) else result.exit_status,
)
