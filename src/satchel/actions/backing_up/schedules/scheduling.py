"""``satchel backup schedule``: waits in the foreground, and makes each backup when it is due."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Protocol

import msgspec

from satchel.actions.backing_up.destinations import destinations
from satchel.actions.backing_up.kept.standing import standing_of
from satchel.actions.backing_up.options import BackupOptions
from satchel.actions.backing_up.running import BackupRun, Made, run_backup
from satchel.actions.backing_up.schedules.timing import Kind, next_run, timer_for
from satchel.actions.config import Settings
from satchel.actions.invocation import Timer, invocation, unwritten
from satchel.actions.permitted.owning import require_owner
from satchel.actions.wiring import shown_address
from satchel.errors import ConfigError, SatchelError
from satchel.ports.operations import Option, Options, operation

_LONGEST_NAP = 600.0
"""Seconds after which the clock is looked at again: it may have been set, the machine asleep."""


class Clock(Protocol):
    """What time it is, and waiting for another."""

    def now(self) -> datetime:
        """Return the moment, with a time zone."""
        ...

    def wait(self, until: datetime) -> None:
        """Return at that moment, or earlier."""
        ...


class SystemClock:
    """The clock of this machine."""

    def now(self) -> datetime:
        """See ``Clock``."""
        return datetime.now(UTC)

    def wait(self, until: datetime) -> None:
        """See ``Clock``."""
        left = (until - self.now()).total_seconds()
        threading.Event().wait(min(max(left, 0.0), _LONGEST_NAP))


Told = Callable[[BackupRun], None]
Waiting = Callable[[datetime], None]


class Scheduled(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule that was kept until it was interrupted."""

    exit_status: int
    """That of the last run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleOptions(Options):
    """How backups are scheduled."""

    print: Annotated[
        Kind | None, Option("Print a timer for this scheduler of the system, and exit.")
    ] = None


@operation(
    ScheduleOptions,
    name="backup schedule",
    example="satchel backup schedule --print systemd",
    absent={
        "python": "It runs until interrupted; a program calls `Backups().run()`.",
        "http": "It runs until it is interrupted.",
        "mcp": "A person decides about backups, not a model.",
    },
)
def schedule_backups(
    settings: Settings,
    options: ScheduleOptions,
    *,
    told: Told | None = None,
    waiting: Waiting | None = None,
) -> Scheduled | Timer:
    """Make backups when they are due, until interrupted; or print a timer that does.

    A printed timer names this home, store and configuration.

    Args:
        settings: The surroundings.
        options: Whether to print a timer.
        told: Called with each run.
        waiting: Called with the time that is waited for.

    Raises:
        ConfigError: If backups are not enabled, the schedule is invalid, or there is no
            destination.
    """
    if options.print is None:
        return Scheduled(exit_status=keep_schedule(settings, told=told, waiting=waiting))
    text = schedule_for(settings, options.print, ["backup", "run"])
    return Timer(kind=options.print, text=text, missing=unwritten(settings))


def keep_schedule(
    settings: Settings,
    *,
    clock: Clock | None = None,
    runs: int | None = None,
    told: Told | None = None,
    waiting: Waiting | None = None,
) -> int:
    """Make a backup each time that one is due, until the program is ended.

    One that was due while nobody waited is made at once. One that fails is told of, and the next
    one is waited for.

    Args:
        settings: The surroundings.
        clock: What time it is; that of the machine by default.
        runs: After how many runs to end; None for never.
        told: Told of each run.
        waiting: Told of the moment that is waited for.

    Returns:
        The exit status of the last run; 0 when there was none.

    Raises:
        ConfigError: If backups are not enabled, the schedule is none, or there is no destination.
    """
    require_owner(settings, "backup")
    wanted = settings.options.backup
    if not wanted.enabled:
        raise ConfigError(
            "backups are not enabled",
            field="backup.enabled",
            hint="Set it: [backup] enabled = true",
        )
    where, time = destinations(settings), clock or SystemClock()
    due, status = _first(settings, where, time.now()), 0
    while runs is None or runs > 0:
        if waiting is not None:
            waiting(due)
        while time.now() < due:
            time.wait(due)
        moment = time.now()
        run = _tried(settings, where, moment)
        status = run.exit_status
        if told is not None:
            told(run)
        runs = None if runs is None else runs - 1
        due = next_run(wanted.schedule, moment)
    return status


def schedule_for(
    settings: Settings, kind: Kind, arguments: Sequence[str], schedule: str | None = None
) -> str:
    """Return what has the system make the backups: systemd's units, a cron line, launchd's plist.

    Args:
        settings: The surroundings.
        kind: Which.
        arguments: What the program is given.
        schedule: The schedule; the configured one by default.

    Raises:
        ConfigError: If the schedule is none, or cannot be said there.
    """
    require_owner(settings, "backup")
    wanted = schedule or settings.options.backup.schedule
    return timer_for(kind, wanted, invocation(settings, arguments))


def _first(settings: Settings, where: Sequence[str], moment: datetime) -> datetime:
    """Return when the first one is due: at once, where one was missed."""
    schedule = settings.options.backup.schedule
    due = next_run(schedule, moment)
    for destination in where:
        at = standing_of(settings, destination).at
        if at is None:
            return moment
        due = min(due, next_run(schedule, datetime.fromisoformat(at)))
    return due


def _tried(settings: Settings, where: Sequence[str], moment: datetime) -> BackupRun:
    """Run a backup; what cannot even begin is told as having failed everywhere."""
    try:
        return run_backup.run(settings, BackupOptions(), moment=moment)
    except SatchelError as error:
        made = [
            Made(
                destination=shown_address(one),
                error=str(error),
                code=error.code,
                exit_status=error.exit_status,
            )
            for one in where
        ]
        return BackupRun(store=shown_address(settings.store), made=made)
