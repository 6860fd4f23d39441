"""Retention rules for any set of backups, and schedules over thirty days."""

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


def verified_candidate(name: str, at: datetime) -> Candidate:
    """Return a verified backup."""
    return Candidate(name, at, verified=True)


@given(BACKUPS, RULES, st.sets(st.sampled_from("abc")))
def test_the_newest_verified_backup_is_never_dropped(
    found: list[Candidate], rules: RetentionPolicy, needed: set[str]
) -> None:
    """Nor the newest verified one of each bank in use."""
    gone = set(select_expired(found, rules, NOW, needed))
    verified_candidate = sorted(
        (one for one in found if one.verified), key=lambda one: (one.at, one.id)
    )
    for name in needed:
        holding = [one for one in verified_candidate if name in one.holds]
        assert not holding or holding[-1].id not in gone
    assert not verified_candidate or verified_candidate[-1].id not in gone
    assert verified_candidate or not gone


@given(BACKUPS, RULES)
def test_an_additional_rule_never_drops_more_backups(
    found: list[Candidate], rules: RetentionPolicy
) -> None:
    """And a second prune drops nothing."""
    gone = select_expired(found, rules, NOW)
    left = [one for one in found if one.id not in gone]
    assert select_expired(left, rules, NOW) == []
    if not rules.keep_all:
        more = rules._replace(last=rules.last + 1, monthly=rules.monthly + 1)
        assert set(select_expired(found, more, NOW)) <= set(gone)


@given(BACKUPS, st.integers(1, 400))
def test_backups_within_the_days_are_kept(found: list[Candidate], days: int) -> None:
    """Verified or not."""
    gone = set(select_expired(found, RetentionPolicy(days=days), NOW))
    assert not [one for one in found if one.id in gone and one.at >= NOW - timedelta(days=days)]


def test_daily_weekly_monthly_and_yearly_rules_keep_the_newest_of_each() -> None:
    """Of a backup each day for two years."""
    found = [verified_candidate(f"{n}", START + timedelta(days=n, hours=4)) for n in range(760)]
    rules = RetentionPolicy(daily=7, weekly=4, monthly=12, yearly=3)
    gone = set(select_expired(found, rules, START + timedelta(days=761)))
    kept = sorted(one.at.date() for one in found if one.id not in gone)
    days = [one.at.date() for one in found]
    assert kept[-7:] == days[-7:]
    ends = [day for day in kept if day.day == calendar.monthrange(day.year, day.month)[1]]
    assert len(ends) >= 11
    assert {day.year for day in kept} == {2026, 2027, 2028}
    assert len(kept) <= 7 + 4 + 12 + 3


def test_unverified_backups_are_bounded() -> None:
    """A failing destination keeps the newest few, and the last verified one."""
    good = verified_candidate("good", START)
    bad = [
        verified_candidate(f"{n:03}", START + timedelta(hours=n + 1))._replace(verified=False)
        for n in range(100)
    ]
    gone = select_expired([good, *bad], RetentionPolicy(days=1), NOW)
    assert gone == [f"{n:03}" for n in range(100 - MOST_UNVERIFIED)]


def test_a_negative_rule_is_refused() -> None:
    """As a usage error."""
    with pytest.raises(UsageError):
        select_expired([], RetentionPolicy(days=-1), NOW)


# -- schedules ------------------------------------------------------------------------------------


class ManualClock:
    """A clock that stands still until a wait, which sets it to the end of the wait."""

    def __init__(self, at: datetime) -> None:
        self.at = at
        self.waits = 0

    def now(self) -> datetime:
        """Return the current time."""
        return self.at

    def wait(self, until: datetime) -> None:
        """Wait in two steps, as after a suspend."""
        self.waits += 1
        self.at = until if self.waits % 2 else self.at + (until - self.at) / 2


def test_thirty_days_of_scheduled_backups_are_pruned_by_the_rules(
    here: Settings, tmp_path: Path
) -> None:
    """Each run is on time and verified while the bank grows."""
    where = tmp_path / "nas"
    file = tmp_path / "satchel.yaml"
    file.write_text(
        "backup:\n  enabled: true\n  schedule: '0 4 * * *'\n"
        f"  destination: {where}/\n  retention: 5\n  compress: true\n  keep_weekly: 3\n"
    )
    settings, clock = load_settings(config=file, store=here.store), ManualClock(START)
    bank, runs = own_bank(here), list[BackupRun]()

    def record_run(run: BackupRun) -> None:
        runs.append(run)
        if len(runs) % 6 == 0:
            added(here, bank, 1, 40_000 + len(runs))

    assert keep_schedule(settings, clock=clock, runs=30, on_run=record_run) == 0
    taken = [datetime.fromisoformat(run.made[0].at or "") for run in runs]
    local = [at.astimezone() for at in taken[1:]]  # the first one was overdue
    assert {(at.hour, at.minute) for at in local} == {(4, 0)}
    assert {later - at for at, later in pairwise(taken[1:])} == {timedelta(days=1)}
    left = [one for one in cataloged(str(where)) if one.verified]
    days = [(clock.at - datetime.fromisoformat(one.manifest.at)).days for one in left]
    assert days[-5:] == [4, 3, 2, 1, 0]
    assert len(left) in (7, 8)  # five days, and the last one of each of three weeks
    assert read_status(settings, str(where)).id == left[-1].id


def test_a_missed_backup_is_run_immediately(here: Settings, tmp_path: Path) -> None:
    """A machine that was off at four runs its backup at the next start."""
    file = tmp_path / "satchel.toml"
    file.write_text(f'[backup]\nenabled = true\ndestination = "{tmp_path / "b"}"\n')
    settings, clock = load_settings(config=file, store=here.store), ManualClock(START)
    keep_schedule(settings, clock=clock, runs=1)
    assert clock.at == START
    clock.at += timedelta(hours=1)
    due = list[datetime]()
    keep_schedule(settings, clock=clock, runs=0, waiting=due.append)
    clock.at += timedelta(days=3)
    keep_schedule(settings, clock=clock, runs=1, waiting=due.append)
    assert due[0] < clock.at
    assert clock.at == START + timedelta(days=3, hours=1)


def test_a_failed_run_does_not_end_the_schedule(here: Settings, tmp_path: Path) -> None:
    """It is reported, and the next one is run."""
    (tmp_path / "b").write_text("in the way")
    file = tmp_path / "satchel.toml"
    file.write_text(f'[backup]\nenabled = true\ndestination = "{tmp_path / "b"}"\n')
    settings, runs = load_settings(config=file, store=here.store), list[BackupRun]()

    def record_run(run: BackupRun) -> None:
        runs.append(run)
        if len(runs) == 1:
            (tmp_path / "b").unlink()

    assert keep_schedule(settings, clock=ManualClock(START), runs=2, on_run=record_run) == 0
    assert [bool(run.exit_status) for run in runs] == [True, False]


def test_an_invalid_schedule_is_refused(here: Settings) -> None:
    """It has five fields and a next time; backups have to be enabled."""
    for wrong in ("", "* * * *", "* * * * * *", "61 4 * * *", "0 4 31 2 *", "daily", "0 4 * * 9"):
        with pytest.raises(ConfigError):
            next_run(wrong, START)
    with pytest.raises(ConfigError):
        keep_schedule(here, clock=ManualClock(START), runs=1)


@given(
    st.integers(0, 59),
    st.integers(0, 23),
    st.datetimes(datetime(2025, 1, 1), datetime(2027, 1, 1)),  # noqa: DTZ001 - a zone is given
)
def test_the_next_run_of_a_daily_schedule_is_within_two_days(
    minute: int, hour: int, moment: datetime
) -> None:
    """Across changes of the local clock."""
    after = moment.replace(tzinfo=UTC)
    assert after < next_run(f"{minute} {hour} * * *", after) <= after + timedelta(days=2)


def test_schedules_are_printed_for_systemd_cron_and_launchd(here: Settings) -> None:
    """With arguments quoted as each of them requires."""
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
