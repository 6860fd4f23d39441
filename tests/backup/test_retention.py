"""Which backups are kept, for any backups and any rules; and thirty days of a schedule."""

from __future__ import annotations

import calendar
import plistlib
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from backup_kit import added, cataloged, own_bank
from hypothesis import given
from hypothesis import strategies as st

from satchel.backup.destinations import read_status
from satchel.backup.prune import MOST_UNVERIFIED, Candidate, RetentionPolicy, select_expired
from satchel.backup.run import BackupRun
from satchel.backup.schedule import keep_schedule, next_run, schedule_for
from satchel.config.settings import Settings, load_settings
from satchel.errors import ConfigError, UsageError

START = datetime(2026, 1, 1, tzinfo=UTC)
NOW = START + timedelta(days=800)

BACKUPS = st.lists(
    st.builds(
        lambda hours, verified, holds: (hours, verified, frozenset(holds)),
        st.integers(0, 800 * 24),
        st.booleans(),
        st.sets(st.sampled_from("abc"), max_size=3),
    ),
    max_size=40,
).map(
    lambda found: [
        Candidate(f"{number}", START + timedelta(hours=hours), verified, holds)
        for number, (hours, verified, holds) in enumerate(found)
    ]
)
RULES = st.builds(RetentionPolicy, *[st.integers(0, 12)] * 6)


def sound(name: str, at: datetime) -> Candidate:
    """Return a backup that was read again."""
    return Candidate(name, at, verified=True)


@given(BACKUPS, RULES, st.sets(st.sampled_from("abc")))
def test_the_newest_that_was_read_again_is_never_dropped(
    found: list[Candidate], rules: RetentionPolicy, needed: set[str]
) -> None:
    """Of each bank that is still in use there is one left that holds it, and of all one."""
    gone = set(select_expired(found, rules, NOW, needed))
    sound = sorted((one for one in found if one.verified), key=lambda one: (one.at, one.id))
    for name in needed:
        holding = [one for one in sound if name in one.holds]
        assert not holding or holding[-1].id not in gone
    assert not sound or sound[-1].id not in gone
    assert sound or not gone


@given(BACKUPS, RULES)
def test_rules_only_ever_add_to_what_is_kept(
    found: list[Candidate], rules: RetentionPolicy
) -> None:
    """One rule more keeps no less, and doing it twice drops nothing more."""
    gone = select_expired(found, rules, NOW)
    left = [one for one in found if one.id not in gone]
    assert select_expired(left, rules, NOW) == []
    if not rules.keep_all:
        more = rules._replace(last=rules.last + 1, monthly=rules.monthly + 1)
        assert set(select_expired(found, more, NOW)) <= set(gone)


@given(BACKUPS, st.integers(1, 400))
def test_what_is_young_enough_stays(found: list[Candidate], days: int) -> None:
    """As many days as were said, whether it was read again or not."""
    gone = set(select_expired(found, RetentionPolicy(days=days), NOW))
    assert not [one for one in found if one.id in gone and one.at >= NOW - timedelta(days=days)]


def test_a_day_a_week_a_month_and_a_year_keep_the_newest_of_each() -> None:
    """Grandfather, father, son: a backup a day for two years."""
    found = [sound(f"{n}", START + timedelta(days=n, hours=4)) for n in range(760)]
    rules = RetentionPolicy(daily=7, weekly=4, monthly=12, yearly=3)
    gone = set(select_expired(found, rules, START + timedelta(days=761)))
    kept = sorted(one.at.date() for one in found if one.id not in gone)
    days = [one.at.date() for one in found]
    assert kept[-7:] == days[-7:]
    ends = [day for day in kept if day.day == calendar.monthrange(day.year, day.month)[1]]
    assert len(ends) >= 11
    assert {day.year for day in kept} == {2026, 2027, 2028}
    assert len(kept) <= 7 + 4 + 12 + 3


def test_those_that_were_never_read_again_do_not_pile_up() -> None:
    """A destination that fails for a year keeps the newest few of them, and the last good one."""
    good = sound("good", START)
    bad = [
        sound(f"{n:03}", START + timedelta(hours=n + 1))._replace(verified=False)
        for n in range(100)
    ]
    gone = select_expired([good, *bad], RetentionPolicy(days=1), NOW)
    assert gone == [f"{n:03}" for n in range(100 - MOST_UNVERIFIED)]


def test_a_rule_below_nothing_is_refused() -> None:
    """It would be read as something else by everybody."""
    with pytest.raises(UsageError):
        select_expired([], RetentionPolicy(days=-1), NOW)


# -- schedules ------------------------------------------------------------------------------------


class Frozen:
    """A clock that stands still until somebody waits; then it is that time at once."""

    def __init__(self, at: datetime) -> None:
        self.at = at
        self.waits = 0

    def now(self) -> datetime:
        """Return the moment."""
        return self.at

    def wait(self, until: datetime) -> None:
        """Sleep in two pieces, as a machine that was suspended does."""
        self.waits += 1
        self.at = until if self.waits % 2 else self.at + (until - self.at) / 2


def test_thirty_days_of_a_schedule_keep_what_the_rules_say(here: Settings, tmp_path: Path) -> None:
    """Each is made when it is due and read again, the older ones go; the bank goes on meanwhile."""
    where = tmp_path / "nas"
    file = tmp_path / "satchel.yaml"
    file.write_text(
        "backup:\n  enabled: true\n  schedule: '0 4 * * *'\n"
        f"  destination: {where}/\n  retention: 5\n  compress: true\n  keep_weekly: 3\n"
    )
    settings, clock = load_settings(config=file, store=here.store), Frozen(START)
    bank, runs = own_bank(here), list[BackupRun]()

    def told(run: BackupRun) -> None:
        runs.append(run)
        if len(runs) % 6 == 0:
            added(here, bank, 1, 40_000 + len(runs))

    assert keep_schedule(settings, clock=clock, runs=30, on_run=told) == 0
    taken = [datetime.fromisoformat(run.made[0].at or "") for run in runs]
    local = [at.astimezone() for at in taken[1:]]  # the first one was overdue
    assert {(at.hour, at.minute) for at in local} == {(4, 0)}
    assert {later - at for at, later in pairwise(taken[1:])} == {timedelta(days=1)}
    left = [one for one in cataloged(str(where)) if one.verified]
    days = [(clock.at - datetime.fromisoformat(one.manifest.at)).days for one in left]
    assert days[-5:] == [4, 3, 2, 1, 0]
    assert len(left) in (7, 8)  # five days, and the last one of each of three weeks
    assert read_status(settings, str(where)).id == left[-1].id


def test_a_missed_backup_is_made_immediately(here: Settings, tmp_path: Path) -> None:
    """A machine that was off at four makes its backup when it is on again."""
    file = tmp_path / "satchel.toml"
    file.write_text(f'[backup]\nenabled = true\ndestination = "{tmp_path / "b"}"\n')
    settings, clock = load_settings(config=file, store=here.store), Frozen(START)
    keep_schedule(settings, clock=clock, runs=1)
    assert clock.at == START
    clock.at += timedelta(hours=1)
    due = list[datetime]()
    keep_schedule(settings, clock=clock, runs=0, waiting=due.append)
    clock.at += timedelta(days=3)
    keep_schedule(settings, clock=clock, runs=1, waiting=due.append)
    assert due[0] < clock.at
    assert clock.at == START + timedelta(days=3, hours=1)


def test_a_run_that_fails_does_not_end_the_schedule(here: Settings, tmp_path: Path) -> None:
    """It is told, and the next one is made."""
    (tmp_path / "b").write_text("in the way")
    file = tmp_path / "satchel.toml"
    file.write_text(f'[backup]\nenabled = true\ndestination = "{tmp_path / "b"}"\n')
    settings, runs = load_settings(config=file, store=here.store), list[BackupRun]()

    def told(run: BackupRun) -> None:
        runs.append(run)
        if len(runs) == 1:
            (tmp_path / "b").unlink()

    assert keep_schedule(settings, clock=Frozen(START), runs=2, on_run=told) == 0
    assert [bool(run.exit_status) for run in runs] == [True, False]


def test_a_schedule_has_to_be_one(here: Settings) -> None:
    """Five fields that come at some time; and backups have to be wanted."""
    for wrong in ("", "* * * *", "* * * * * *", "61 4 * * *", "0 4 31 2 *", "daily", "0 4 * * 9"):
        with pytest.raises(ConfigError):
            next_run(wrong, START)
    with pytest.raises(ConfigError):
        keep_schedule(here, clock=Frozen(START), runs=1)


@given(
    st.integers(0, 59),
    st.integers(0, 23),
    st.datetimes(datetime(2025, 1, 1), datetime(2027, 1, 1)),  # noqa: DTZ001 - a zone is given
)
def test_the_next_time_is_always_later_and_within_two_days(
    minute: int, hour: int, moment: datetime
) -> None:
    """Whatever the clock of this machine does in between."""
    after = moment.replace(tzinfo=UTC)
    assert after < next_run(f"{minute} {hour} * * *", after) <= after + timedelta(days=2)


def test_schedules_for_the_system_are_printed(here: Settings) -> None:
    """For systemd, cron and launchd; arguments are quoted as each of them reads it."""
    words = ["--home", "/a b/100%", "backup", "run"]
    unit = schedule_for(here, "systemd", words, "*/15 4,16 * * 1-5")
    assert "OnCalendar=Mon,Tue,Wed,Thu,Fri *-*-* 04,16:00,15,30,45:00" in unit
    assert '"/a b/100%%"' in unit
    either = schedule_for(here, "systemd", words, "0 4 1 * 1")
    assert either.count("OnCalendar=") == 2
    assert r"'/a b/100\%'" in schedule_for(here, "cron", words, "0 4 * * *")
    plist = plistlib.loads(schedule_for(here, "launchd", words, "0 4 * * 0,3").encode())
    assert plist["ProgramArguments"][-4:] == words
    assert plist["StartCalendarInterval"] == [
        {"Minute": 0, "Hour": 4, "Weekday": 0},
        {"Minute": 0, "Hour": 4, "Weekday": 3},
    ]
    for only_cron in ("0 4 L * *", "0 4 * * 5L", "0 4 * * 1#2"):
        assert schedule_for(here, "cron", words, only_cron)
        with pytest.raises(ConfigError):
            schedule_for(here, "systemd", words, only_cron)
    with pytest.raises(ConfigError):
        schedule_for(here, "launchd", words, "1-59 1-22 * * *")
