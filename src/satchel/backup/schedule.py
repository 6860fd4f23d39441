"""``satchel backup schedule``: wait in the foreground, and run each backup when it is due."""

import plistlib
import shlex
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import product
from typing import Annotated, Any, Literal, NamedTuple, Protocol

import msgspec

from satchel.backup.destinations import destinations, read_status
from satchel.backup.options import BackupOptions
from satchel.backup.run import BackupRun, DestinationResult, run_backup
from satchel.bank.machine_keys import require_owner
from satchel.config.settings import Settings, Timer, invocation, secret_variables
from satchel.errors import ConfigError, MissingExtraError, SatchelError, shown_address
from satchel.ports.operations import Option, Options, operation

_FIELD = "backup.schedule"
_DAYS = ("Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat")
_FIVE = 5
_MOST_TIMES = 500


class Unit(NamedTuple):
    """Description of a recurring task for the system."""

    name: str
    service: str
    """Short description of the service."""

    timer: str
    """Short description of the timer."""


BACKUP = Unit("satchel-backup", "Satchel backup", "Scheduled Satchel backup")


def next_run(schedule: str, after: datetime) -> datetime:
    """Return the first time after another at which a backup is due, in UTC.

    Args:
        schedule: Five fields as in cron, in the local time of this machine.
        after: A time with a time zone.

    Raises:
        ConfigError: If the schedule is invalid, or never due.
        MissingExtraError: If its library is not installed.
    """
    # In local time: the system decides on hours that are repeated or skipped.
    for due in _simulated(schedule, after.astimezone().replace(tzinfo=None)):
        moment: datetime = due.astimezone(UTC)
        if moment > after:
            return moment
    raise ConfigError(f"the schedule {schedule!r} never occurs", field=_FIELD)


def _simulated(schedule: str, after: datetime) -> Any:
    try:
        from cronsim import CronSim, CronSimError
    except ModuleNotFoundError:
        raise MissingExtraError("schedules need cronsim", hint="Reinstall satchel.") from None
    if len(schedule.split()) != _FIVE:
        raise _wrong(schedule, "a schedule must have five fields")
    try:
        return CronSim(schedule, after)
    except CronSimError as error:
        raise _wrong(schedule, str(error)) from None


def require_schedule(schedule: str) -> None:
    """Require that a schedule is valid.

    Raises:
        ConfigError, MissingExtraError: As ``next_run``.
    """
    next_run(schedule, datetime.now(UTC))


def cron_line(schedule: str, command: Sequence[str]) -> str:
    """Return a line for ``crontab``."""
    require_schedule(schedule)
    return f"{schedule} {shlex.join(command).replace('%', chr(92) + '%')}\n"


Kind = Literal["systemd", "cron", "launchd"]


def timer_for(kind: Kind, schedule: str, command: Sequence[str], unit: Unit = BACKUP) -> str:
    """Return a timer that has the system start a command when it is due.

    Args:
        kind: Units of systemd, a line for cron, or a property list for launchd.
        schedule: Five fields as in cron.
        command: The words of the command.
        unit: Names and descriptions.

    Raises:
        ConfigError: If the schedule is invalid, or cannot be expressed there.
    """
    if kind == "cron":
        return cron_line(schedule, command)
    return (systemd_units if kind == "systemd" else launchd_plist)(schedule, command, unit)


def systemd_units(schedule: str, command: Sequence[str], unit: Unit = BACKUP) -> str:
    """Return a service and a timer for systemd, one after the other.

    Raises:
        ConfigError: If systemd cannot express the schedule.
    """
    times = "".join(f"OnCalendar={one}\n" for one in _on_calendar(schedule))
    words = " ".join(_quoted(word) for word in command)
    return f"""\
# ~/.config/systemd/user/{unit.name}.service
[Unit]
Description={unit.service}

[Service]
Type=oneshot
ExecStart={words}

# ~/.config/systemd/user/{unit.name}.timer
# then: systemctl --user enable --now {unit.name}.timer
[Unit]
Description={unit.timer}

[Timer]
{times}Persistent=true

[Install]
WantedBy=timers.target
"""


def launchd_plist(schedule: str, command: Sequence[str], unit: Unit = BACKUP) -> str:
    """Return a property list for launchd.

    Raises:
        ConfigError: If the schedule has too many separate times for launchd.
    """
    times = list(_intervals(schedule))
    document = {
        "Label": unit.name.replace("-", "."),
        "ProgramArguments": list(command),
        "StartCalendarInterval": times,
    }
    return plistlib.dumps(document).decode()


def _on_calendar(schedule: str) -> Iterator[str]:
    fields = _plain(schedule)
    time = f"{_listed(fields.hours, 24)}:{_listed(fields.minutes, 60)}:00"
    months = _listed(fields.months, 12, first=1)
    days, weekdays = _listed(fields.days, 31, first=1), _week(fields.weekdays)
    if fields.day_and:
        yield f"{weekdays}*-{months}-{days} {time}"
        return
    yield f"*-{months}-{days} {time}"  # cron matches either of the two
    yield f"{weekdays}*-{months}-* {time}"


def _listed(numbers: set[int], every: int, *, first: int = 0) -> str:
    if numbers >= set(range(first, first + every)):
        return "*"
    return ",".join(f"{number:02}" for number in sorted(numbers))


def _week(numbers: set[int]) -> str:
    days = sorted({number % 7 for number in numbers})
    if len(days) == len(_DAYS):
        return ""
    return ",".join(_DAYS[day] for day in days) + " "


def _intervals(schedule: str) -> Iterator[dict[str, int]]:
    fields = _plain(schedule)
    names = {
        "Minute": (fields.minutes, range(60)),
        "Hour": (fields.hours, range(24)),
        "Month": (fields.months, range(1, 13)),
    }
    chosen = {
        name: sorted(numbers) for name, (numbers, every) in names.items() if numbers < set(every)
    }
    days = {"Day": sorted(fields.days)} if fields.days < set(range(1, 32)) else {}
    week = sorted({number % 7 for number in fields.weekdays})
    weekdays = {"Weekday": week} if len(week) < len(_DAYS) else {}
    sets = [chosen | days | weekdays] if fields.day_and else [chosen | days, chosen | weekdays]
    times = [
        dict(zip(values, numbers, strict=True))
        for values in sets
        for numbers in product(*values.values())
    ]
    if len(times) > _MOST_TIMES:
        raise _wrong(schedule, f"this is {len(times):,} times for launchd")
    yield from times


def _plain(schedule: str) -> Any:
    """Return a schedule as sets of numbers.

    Raises:
        ConfigError: If it uses more: a last day, an n-th weekday.
    """
    require_schedule(schedule)
    fields = _simulated(schedule, datetime(2026, 1, 1))  # noqa: DTZ001 - a wall clock
    every = [*fields.days, *fields.weekdays]
    if not all(isinstance(number, int) and number >= 0 for number in every):
        raise _wrong(schedule, "only cron can express this")
    return fields


def _quoted(word: str) -> str:
    """Return a word quoted for systemd."""
    plain = word.replace("%", "%%").replace("$", "$$")
    if plain and not set(plain) & set(" \t\"'\\;"):
        return plain
    escaped = plain.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _wrong(schedule: str, why: str) -> ConfigError:
    return ConfigError(
        f"{why}: {schedule!r}", field=_FIELD, hint='Such as "0 4 * * *": daily at four.'
    )


_LONGEST_NAP = 600.0
"""Seconds between readings of the clock: it may be set, or the machine may sleep."""


class Clock(Protocol):
    """A clock that can wait."""

    def now(self) -> datetime:
        """Return the current time, with a time zone."""
        ...

    def wait(self, until: datetime) -> None:
        """Wait until a time; may return earlier."""
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


OnRun = Callable[[BackupRun], None]
OnWait = Callable[[datetime], None]


class ScheduleResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a schedule that ran until it was interrupted."""

    exit_status: int
    """Exit status of the last run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleOptions(Options):
    """Options of a schedule."""

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
    on_run: OnRun | None = None,
    waiting: OnWait | None = None,
) -> ScheduleResult | Timer:
    """Run backups when they are due, until interrupted; or print a timer that does.

    A printed timer names this home, store and configuration.

    Args:
        settings: Settings of the machine.
        options: Whether to print a timer.
        on_run: Called with each run.
        waiting: Called with the time of the next run.

    Raises:
        ConfigError: If backups are not enabled, the schedule is invalid, or there is no
            destination.
    """
    if options.print is None:
        return ScheduleResult(exit_status=keep_schedule(settings, on_run=on_run, waiting=waiting))
    text = schedule_for(settings, options.print, ["backup", "run"])
    return Timer(kind=options.print, text=text, missing=secret_variables(settings))


def keep_schedule(
    settings: Settings,
    *,
    clock: Clock | None = None,
    runs: int | None = None,
    on_run: OnRun | None = None,
    waiting: OnWait | None = None,
) -> int:
    """Run a backup whenever one is due, until the program ends.

    A missed backup is run immediately. A failed run is reported, and the schedule continues.

    Args:
        settings: Settings of the machine.
        clock: The clock; by default that of the machine.
        runs: Number of runs after which to end; None for no limit.
        on_run: Called with each run.
        waiting: Called with the time of the next run.

    Returns:
        The exit status of the last run; 0 if there was none.

    Raises:
        ConfigError: If backups are not enabled, the schedule is invalid, or there is no
            destination.
    """
    require_owner(settings, "backup")
    configured = settings.options.backup
    if not configured.enabled:
        raise ConfigError(
            "backups are not enabled",
            field="backup.enabled",
            hint="Set it: [backup] enabled = true",
        )
    addresses, time = destinations(settings), clock or SystemClock()
    due, status = _first(settings, addresses, time.now()), 0
    while runs is None or runs > 0:
        if waiting is not None:
            waiting(due)
        while time.now() < due:
            time.wait(due)
        moment = time.now()
        run = _run_due(settings, addresses, moment)
        status = run.exit_status
        if on_run is not None:
            on_run(run)
        runs = None if runs is None else runs - 1
        due = next_run(configured.schedule, moment)
    return status


def schedule_for(
    settings: Settings, kind: Kind, arguments: Sequence[str], schedule: str | None = None
) -> str:
    """Return a timer for backups, for systemd, cron or launchd.

    Args:
        settings: Settings of the machine.
        kind: Kind of the timer.
        arguments: Arguments of the program.
        schedule: The schedule; the configured one by default.

    Raises:
        ConfigError: If the schedule is invalid, or cannot be expressed there.
    """
    require_owner(settings, "backup")
    wanted = schedule or settings.options.backup.schedule
    return timer_for(kind, wanted, invocation(settings, arguments))


def _first(settings: Settings, addresses: Sequence[str], moment: datetime) -> datetime:
    """Return when the first backup is due: now, if one was missed."""
    schedule = settings.options.backup.schedule
    due = next_run(schedule, moment)
    for destination in addresses:
        at = read_status(settings, destination).at
        if at is None:
            return moment
        due = min(due, next_run(schedule, datetime.fromisoformat(at)))
    return due


def _run_due(settings: Settings, addresses: Sequence[str], moment: datetime) -> BackupRun:
    """Run a backup; if it cannot start, all destinations are reported as failed."""
    try:
        return run_backup.run(settings, BackupOptions(), moment=moment)
    except SatchelError as error:
        results = [
            DestinationResult(
                destination=shown_address(destination),
                error=str(error),
                code=error.code,
                exit_status=error.exit_status,
            )
            for destination in addresses
        ]
        return BackupRun(store=shown_address(settings.store), made=results)
