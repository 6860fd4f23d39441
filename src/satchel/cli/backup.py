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


def show_run(run: BackupRun) -> None:
    """Print the result of a backup at each destination."""
    for copy in run.made:
        if copy.id is not None:
            line(_sentence(copy))
        for note in copy.notes:
            message(f"{copy.destination}: note: ", note)
        for name in copy.missing:
            message(f"{copy.destination}: missing: ", name)
        if copy.error is not None:
            message(f"{copy.destination}: failed: ", copy.error, style="bold red")


def _sentence(copy: DestinationResult) -> str:
    parts = [count(copy.banks, "bank"), count(copy.records, "record")]
    parts += [f"files of {count(copy.files, 'key')}"] if copy.files else []
    parts += [count(copy.agents, "agent")] if copy.agents else []
    new = f"{copy.written:,} of {copy.packs:,} packs new, {copy.bytes_written:,} bytes"
    status = "incomplete"
    if copy.verified:
        status = "verified"
    if copy.verified and copy.unopened:
        status = f"verified; {count(copy.unopened, 'encrypted pack')} by hash only"
    removed = f"; {count(len(copy.dropped), 'older backup')} removed" if copy.dropped else ""
    return f"{copy.id}: {', '.join(parts)}; {new}; {status}{removed}"


def backup_notes(backup: BackupLine) -> Iterator[str]:
    """Yield the notes on a backup in a listing."""
    if backup.reason:
        yield backup.reason
    if backup.agents:
        yield f"agents {', '.join(backup.agents)}"
    if backup.encrypted:
        yield "encrypted, no identity here decrypts it" if backup.closed else "encrypted"
    if not backup.own:
        yield "of another store"
    if not backup.believed:
        yield "untrusted signer"
    if backup.holds_erased:
        yield f"holds {count(backup.holds_erased, 'erased record')}"


def show_restored(result: RestoreResult) -> None:
    """Print the result of a restore."""
    for bank in result.banks:
        line(f"{bank.name or bank.bank}: {_restored(bank, dry_run=result.dry_run)}")
        _notes(bank.name or bank.bank, bank.notes)
        if bank.safety:
            message(f"what was replaced is in the backup {bank.safety}")
    if result.session is not None:
        line(f"session {result.session.name or result.session.session}: {_session(result.session)}")
        _notes("session", result.session.notes)
    for part in result.files:
        line(f"files of {part.key}: {'would be restored' if result.dry_run else 'restored'}")
        if part.aside:
            message(f"what was replaced is in {part.aside}")
    for agent in result.agents:
        line(f"agent {agent.id}: {_agent(agent, dry_run=result.dry_run)}")
        _notes(agent.id, agent.notes)
        if agent.aside:
            message(f"what was replaced is in {agent.aside}")
    _notes("backup", result.notes)
    line(f"{result.backup} of {result.taken} -> {result.target}")
    report_receipts(result.receipts, 0)


def _agent(agent: RestoredAgent, *, dry_run: bool) -> str:
    what = "would be restored" if dry_run else "restored"
    parts = ["no files"] if not agent.folder else []
    if agent.folder:
        did = "unchanged" if agent.same else what
        parts.append(f"{count(agent.files, 'file')} {did}, in {agent.folder}")
    parts += ["added to the configuration"] if agent.configured and not dry_run else []
    return "; ".join(parts)


def _session(session: RestoredSession) -> str:
    parts = [count(session.messages, "message"), f"{count(session.added, 'record')} added"]
    parts += [f"{count(session.returned, 'deleted record')} restored"] if session.returned else []
    parts += [f"{session.there:,} unchanged"] if session.there else []
    where = session.bank_name or session.bank or "a new bank"
    return f"{', '.join(parts)}, in {where}{' (created)' if session.made else ''}"


_STANDS = {
    Relation.NEW: "not in the store",
    Relation.SAME: "the same is in the store",
    Relation.AHEAD: "the store has less of it",
    Relation.BEHIND: "the store has more of it",
    Relation.DIVERGED: "the store has another history of it",
}


def _restored(bank: RestoredBank, *, dry_run: bool) -> str:
    parts = [count(bank.size, "record")]
    parts.append(_STANDS[bank.relation] if dry_run else f"{bank.carried:,} restored")
    parts += [f"{bank.erased_again:,} erased again"] if bank.erased_again else []
    parts += ["newer records that this machine has seen are given up"] if bank.given_up else []
    return ", ".join(parts)


def show_drill(drill: Drill) -> None:
    """Print the result of a test restore."""
    for bank in drill.banks:
        line(f"{bank.name or bank.bank}: {_drilled(bank)}")
        _notes(bank.name or bank.bank, bank.notes)
        for problem in bank.problems:
            message(f"{bank.name or bank.bank}: ", problem, style="bold red")
    for agent in drill.agents:
        since = f", {agent.changed:,} changed since" if agent.changed else ""
        line(f"agent {agent.agent}: {count(agent.files, 'file')}{since}")
        for problem in agent.problems:
            message(f"agent {agent.agent}: ", problem, style="bold red")
    for name in drill.missing:
        message("missing from the backup: ", name, style="bold red")
    line(f"{drill.backup}: {'restorable' if drill.is_good else 'NOT restorable'}")
    _notes("drill", drill.notes)
    report_receipts(drill.receipts, 0)


def _drilled(bank: DrilledBank) -> str:
    parts = [count(bank.size, "record")]
    parts += [f"{bank.behind:,} added since"] if bank.behind else []
    parts += [f"{bank.erased_again:,} erased again"] if bank.erased_again else []
    if bank.questions:
        parts.append(f"{bank.same_answers:,} of {bank.questions:,} queries with the same results")
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
                    "; ".join(backup_notes(each)),
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
