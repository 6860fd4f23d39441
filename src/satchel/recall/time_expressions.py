"""Times that a text names: "last May", "in 2024", "three weeks ago", "since 8 March".

English, and ISO dates. A month, a day or a weekday without a year is the last one that has begun.
Words with another meaning ("may", "march", "second") count only next to a preposition, a year or a
day. Times are UTC, and a week starts on Monday.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import islice

from satchel.model.values import format_time, to_datetime

_MONTHS = "january february march april may june july august september october november december"
_DAYS = "monday tuesday wednesday thursday friday saturday sunday"
_NUMBERS = "one two three four five six seven eight nine ten eleven twelve"
_LONGEST = 2000
"""Maximum characters that are searched for times, from the start of a text."""

_MOST_NAMED = 16
"""Maximum times of a text."""

_MONTH = "(?:" + "|".join(f"{name}|{name[:3]}\\.?" for name in _MONTHS.split()) + ")"
_DAY = "(?:" + "|".join(_DAYS.split()) + ")"
_COUNT = rf"(?:\d{{1,3}}|an?|a few|{'|'.join(_NUMBERS.split())})"
_UNIT = "(?:day|week|month|year)s?"
_YEAR = r"(?:19|20)\d\d"
_NTH = r"(?:3[01]|[12]\d|0?[1-9])(?:st|nd|rd|th)?"
_FEW = 3
_ONE_DAY = timedelta(days=1)
_DATES = ("iso", "dated", "american", "monthly", "month4", "year4")

LATER = timedelta(days=3)
"""How long after a date people still speak of it: a memory without the time of the event has the
time at which it was told."""

_LEADS = r"(?P<lead>as of|since|after|before|until|by|from|in|on|during|of|at)"
_PERIODS = (
    r"(?P<iso>\d{4}-\d\d-\d\d)"
    rf"|(?P<dated>(?P<nth>{_NTH})(?: of)? (?P<month>{_MONTH})(?:,? (?P<year>{_YEAR}))?)"
    rf"|(?P<american>(?P<month2>{_MONTH}) (?P<nth2>{_NTH})(?:,? (?P<year2>{_YEAR}))?(?!\d))"
    rf"|(?P<monthly>(?P<month3>{_MONTH}),?(?: of)? (?P<year3>{_YEAR}))"
    rf"|(?P<ago>(?P<count>{_COUNT}) (?P<unit>{_UNIT}) ago)"
    rf"|(?P<past>(?:the |these )?(?:last|past) (?P<count2>{_COUNT}) (?P<unit2>{_UNIT}))"
    r"|(?P<relative>(?P<which>last|this) (?P<span>week|month|year))"
    rf"|(?P<named>(?P<which2>last|this) (?P<name>{_MONTH}|{_DAY}))"
    r"|(?P<near>today|yesterday|last night)"
)
# Words with another meaning need a preposition before them.
_BARE = rf"(?P<alone>(?P<month4>{_MONTH})|(?P<year4>{_YEAR})|(?P<day4>{_DAY}))"
_APART = str.maketrans(dict.fromkeys(".,;:!?()\"'-/", " "))
_CUES = frozenset(
    (
        *f"{_MONTHS} {_DAYS} ago last past this today yesterday".split(),
        *(name[:3] for name in _MONTHS.split()),
    )
)


_OPENING, _YEAR_DIGITS = 4, 4
_ASKED_FOR = frozenset(["date", "day", "month", "year", "time", "week"])
_NAMING = frozenset(
    # Stems of words for times.
    (
        *("yesterdai", "todai", "tomorrow", "tonight", "ago", "last", "next", "past", "week"),
        *("weekend", "month", "year", "recent", "sinc", "mondai", "tuesdai", "wednesdai"),
        *("thursdai", "fridai", "saturdai", "sundai", "januari", "februari", "april", "june"),
        *("juli", "august", "septemb", "octob", "novemb", "decemb"),
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeRange:
    """A time that a text names."""

    words: str
    """The words of the text."""

    since: str | None
    """First moment, inclusive; None for no limit."""

    until: str | None
    """Last moment, exclusive; for a date, ``LATER`` after its end. None for no limit."""

    def includes(self, moment: str | None) -> bool:
        """Return whether a moment is within this time; None is not."""
        return (
            moment is not None
            and (self.since is None or self.since <= moment)
            and (self.until is None or moment < self.until)
        )


def parse_time_range(text: str, at: str) -> TimeRange | None:
    """Return the first time that a query names; None if it names none.

    Args:
        text: The query.
        at: The moment of the query, in canonical form.
    """
    text = text[:_LONGEST]
    if not _has_cue(text):
        return None  # compiling the patterns takes longer than a recall
    now = to_datetime(at)
    for found in _pattern().finditer(text):
        try:
            span = _span(found, now)
        except (ValueError, OverflowError):
            continue  # such as 31 February
        if span is not None:
            later = LATER if any(found[name] for name in _DATES) else timedelta()
            lead = (found["lead"] or found["lead2"] or "").lower()
            return _told(found[0].strip(), lead, span, later)
    return None


def times_named(text: str, at: str) -> tuple[str, ...]:
    """Return the first moments of the times that a text names, relative to when it was said.

    Args:
        text: The text.
        at: When it was said, in canonical form.
    """
    text = text[:_LONGEST]
    if not _has_cue(text):
        return ()
    said, found = to_datetime(at), list[str]()
    for match in islice(_pattern().finditer(text), _MOST_NAMED):
        try:
            span = _span(match, said)
        except (ValueError, OverflowError):
            continue  # such as 31 February
        if span is not None:
            found.append(format_time(span[0]))
    return tuple(found)


def asks_when(question: str) -> bool:
    """Return whether a query asks for a time."""
    start = question[:_LONGEST].lower()
    words = start.translate(_APART).split()[:_OPENING]
    if words[:1] == ["when"] or words[:3] == ["how", "long", "ago"]:
        return True
    led = words[1:] if words[:1] in (["in"], ["on"], ["at"]) else words
    return len(led) > 1 and led[0] in {"what", "which"} and led[1] in _ASKED_FOR


def names_time(tokens: Iterable[str]) -> bool:
    """Return whether a text names a time.

    Args:
        tokens: Its words, tokenized as in the index.
    """
    return any(
        token in _NAMING or (len(token) == _YEAR_DIGITS and _is_a_year(token)) for token in tokens
    )


def _has_cue(text: str) -> bool:
    words = text.lower().translate(_APART).split()
    return bool(_CUES.intersection(words)) or any(_is_year(word, text) for word in words)


def _is_a_year(token: str) -> bool:
    return token.isdigit() and token.startswith(("19", "20"))


def _is_year(word: str, text: str) -> bool:
    """Return whether a word may be a year, or the year of an ISO date."""
    return (
        len(word) == len("2026")
        and word.isdigit()
        and (word.startswith(("19", "20")) or f"{word}-" in text)
    )


@cache
def _pattern() -> re.Pattern[str]:
    lead2 = _LEADS.replace("<lead>", "<lead2>")
    whole = rf"\b(?:(?:{_LEADS} )?(?:{_PERIODS})|{lead2} (?:the )?{_BARE})\b"
    return re.compile(whole, re.IGNORECASE)


_Span = tuple[datetime, datetime]


def _told(words: str, lead: str, span: _Span, later: timedelta) -> TimeRange:
    since, end = map(format_time, span)
    until = format_time(span[1] + later)
    if lead in {"since", "from"}:
        return TimeRange(words=words, since=since, until=None)
    if lead == "after":
        return TimeRange(words=words, since=end, until=None)
    if lead == "before":
        return TimeRange(words=words, since=None, until=format_time(span[0] + later))
    if lead in {"until", "by", "as of"}:
        return TimeRange(words=words, since=None, until=until)
    return TimeRange(words=words, since=since, until=until)


def _span(found: re.Match[str], now: datetime) -> _Span | None:
    for name, read in _READ.items():
        if found[name] is not None:
            return read(found, now)
    return None


def _iso(found: re.Match[str], _now: datetime) -> _Span:
    return _day(datetime.fromisoformat(found["iso"]).replace(tzinfo=UTC))


def _dated(found: re.Match[str], now: datetime) -> _Span:
    return _nth(found["nth"], found["month"], found["year"], now)


def _american(found: re.Match[str], now: datetime) -> _Span:
    return _nth(found["nth2"], found["month2"], found["year2"], now)


def _nth(nth: str, month: str, year: str | None, now: datetime) -> _Span:
    day, number = int(re.sub(r"\D", "", nth)), _month_number(month)
    if year is not None:
        return _day(datetime(int(year), number, day, tzinfo=UTC))
    this = datetime(now.year, number, day, tzinfo=UTC)
    return _day(this if this <= now else this.replace(year=now.year - 1))


def _monthly(found: re.Match[str], _now: datetime) -> _Span:
    return _month(int(found["year3"]), _month_number(found["month3"]))


def _ago(found: re.Match[str], now: datetime) -> _Span:
    unit = found["unit"].lower().rstrip("s")
    return _SPANS[unit](_back(now, _count(found["count"]), unit))


def _past(found: re.Match[str], now: datetime) -> _Span:
    unit = found["unit2"].lower().rstrip("s")
    return _back(now, _count(found["count2"]), unit), now + timedelta(microseconds=1)


def _relative(found: re.Match[str], now: datetime) -> _Span:
    span = found["span"].lower()
    return _SPANS[span](_back(now, int(found["which"].lower() == "last"), span))


def _named(found: re.Match[str], now: datetime) -> _Span | None:
    name, last = found["name"].lower(), found["which2"].lower() == "last"
    if name in _DAYS.split():
        return _weekday(name, now, today=not last)
    if not last and found["name"][0].islower():
        return None  # "this may help"
    number = _month_number(name)
    year = now.year - (number > now.month or (last and number == now.month))
    return _month(year, number)


def _near(found: re.Match[str], now: datetime) -> _Span:
    return _day(now - timedelta(days=found["near"].lower() != "today"))


def _alone(found: re.Match[str], now: datetime) -> _Span | None:
    if found["year4"] is not None:
        return _year(datetime(int(found["year4"]), 1, 1, tzinfo=UTC))
    if found["day4"] is not None:
        return _weekday(found["day4"].lower(), now, today=True)
    if not found["month4"][0].isupper():
        return None  # "by may", "of march"
    number = _month_number(found["month4"])
    return _month(now.year - (number > now.month), number)


_READ: dict[str, Callable[[re.Match[str], datetime], _Span | None]] = {
    "iso": _iso,
    "dated": _dated,
    "american": _american,
    "monthly": _monthly,
    "ago": _ago,
    "past": _past,
    "relative": _relative,
    "named": _named,
    "near": _near,
    "alone": _alone,
}


def _month_number(name: str) -> int:
    return next(
        number
        for number, month in enumerate(_MONTHS.split(), 1)
        if month.startswith(name.lower().rstrip("."))
    )


def _count(text: str) -> int:
    words, text = _NUMBERS.split(), text.lower()
    if text.isdigit():
        return int(text)
    return words.index(text) + 1 if text in words else (_FEW if "few" in text else 1)


def _back(now: datetime, count: int, unit: str) -> datetime:
    if unit in {"day", "week"}:
        return now - timedelta(days=count * (7 if unit == "week" else 1))
    months = now.year * 12 + now.month - 1 - count * (12 if unit == "year" else 1)
    year, month = divmod(months, 12)
    _, end = _month(year, month + 1)
    return now.replace(year=year, month=month + 1, day=min(now.day, (end - _ONE_DAY).day))


def _day(moment: datetime) -> _Span:
    start = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    return start, start + timedelta(days=1)


def _week(moment: datetime) -> _Span:
    start, _ = _day(moment - timedelta(days=moment.weekday()))
    return start, start + timedelta(days=7)


def _month(year: int, number: int) -> _Span:
    start = datetime(year, number, 1, tzinfo=UTC)
    return start, (start + timedelta(days=32)).replace(day=1)


def _year(moment: datetime) -> _Span:
    start = datetime(moment.year, 1, 1, tzinfo=UTC)
    return start, start.replace(year=moment.year + 1)


def _weekday(name: str, now: datetime, *, today: bool) -> _Span:
    back = (now.weekday() - _DAYS.split().index(name)) % 7
    return _day(now - timedelta(days=back if back or today else 7))


_SPANS: dict[str, Callable[[datetime], _Span]] = {
    "day": _day,
    "week": _week,
    "month": lambda moment: _month(moment.year, moment.month),
    "year": _year,
}
