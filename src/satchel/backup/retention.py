"""Which backups are kept: the newest, one of each day, week, month and year, those of some days.

A backup is kept when one rule wants it. Whatever the rules say, the newest one that was read again
stays, for each bank that is still in use: until there is something better, that is what there is to
go back to.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from satchel.errors import UsageError


class Rules(NamedTuple):
    """What is kept; a rule that is 0 keeps nothing. Without any rule, everything is kept."""

    days: int = 0
    """Those that are not older than so many days."""

    last: int = 0
    """So many of the newest."""

    daily: int = 0
    """The newest of each of the last so many days that have one; in UTC, as all of these."""

    weekly: int = 0
    monthly: int = 0
    yearly: int = 0

    @property
    def keep_all(self) -> bool:
        """Whether nothing is ever dropped."""
        return not any(self)


class Candidate(NamedTuple):
    """A backup to be judged."""

    id: str
    at: datetime
    verified: bool
    holds: frozenset[str] = frozenset()
    """What is in it, by name."""


MOST_UNVERIFIED = 7
"""Newest of those that were never read again whole, which stay whatever the rules say."""

_PERIODS: dict[str, Callable[[datetime], object]] = {
    "daily": lambda at: at.date(),
    "weekly": lambda at: tuple(at.isocalendar())[:2],
    "monthly": lambda at: (at.year, at.month),
    "yearly": lambda at: at.year,
}


def to_drop(
    found: Iterable[Candidate], rules: Rules, now: datetime, needed: Iterable[str] = ()
) -> list[str]:
    """Return the names of the backups that no rule keeps, oldest first.

    Only what was read again can stand for a period; the rest is kept by ``days`` and as one of the
    newest few.

    Args:
        found: The backups of one series.
        rules: What is kept.
        now: The moment from which days are counted.
        needed: What is still in use: of each, the newest backup that was read again and holds it
            stays.

    Raises:
        UsageError: If a rule is below 0.
    """
    if any(rule < 0 for rule in rules):
        raise UsageError("a retention rule must be 0 or more", field="backup")
    newest_first = sorted(found, key=lambda one: (one.at, one.id), reverse=True)
    sound = [one for one in newest_first if one.verified]
    if rules.keep_all or not sound:
        return []
    others = [one for one in newest_first if not one.verified]
    keep = {sound[0].id} | {one.id for one in others[:MOST_UNVERIFIED]}
    for name in needed:
        keep |= {next((one.id for one in sound if name in one.holds), "")}
    keep |= _wanted(newest_first, sound, rules, now)
    return [one.id for one in reversed(newest_first) if one.id not in keep]


def _wanted(
    newest_first: Sequence[Candidate], sound: Sequence[Candidate], rules: Rules, now: datetime
) -> set[str]:
    keep = {one.id for one in sound[: rules.last]}
    if rules.days:
        since = now.astimezone(UTC) - timedelta(days=rules.days)
        keep |= {one.id for one in newest_first if one.at >= since}
    for name, period in _PERIODS.items():
        number, seen = getattr(rules, name), set[object]()
        for one in sound:
            which = period(one.at.astimezone(UTC))
            if which not in seen and len(seen) < number:
                seen.add(which)
                keep.add(one.id)
    return keep
