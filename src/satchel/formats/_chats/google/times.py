"""Times on Google's pages, as they are written in the languages of people."""

import re
from datetime import datetime, timedelta, timezone

_SPOKEN = re.compile(
    r"(?:(?P<month>[^\W\d_]{3,10})\.? (?P<day>\d{1,2})"
    r"|(?P<day2>\d{1,2})\.? (?:de )?(?P<month2>[^\W\d_]{3,10})\.?),?(?: de)? (?P<year>\d{4}),? "
    r"(?:(?:um|kl\.?|klo|à|alle|las|às) )?(?P<time>.+)"
)
_DOTTED = re.compile(
    r"(?P<day>\d{1,2})\.\s?(?P<month>\d{1,2})\.\s?(?P<year>\d{4}),? (?:klo )?(?P<time>.+)"
)
_YEAR_FIRST = re.compile(
    r"(?P<year>\d{4})(?:[/.-] ?|年)(?P<month>\d{1,2})(?:[/.-] ?|月)"
    r"(?P<day>\d{1,2})[.日]?,? ?(?P<time>.+)"
)
_TIME = re.compile(
    r"(?P<before>上午|下午|午前|午後|오전|오후)? ?"
    r"(?P<hour>\d{1,2})[:.](?P<minute>\d\d)[:.](?P<second>\d\d)"
    r"(?: (?P<after>[AaPp]\.? ?[Mm]\.?))? (?P<zone>\S+)"
)
_AFTERNOON = frozenset(("下午", "午後", "오후", "pm"))
_MONTHS: dict[str, int] = {}
"""What names of months begin with, in Germanic and Romance languages; one that begins the names of
two is in no list."""

for _number, _names in enumerate(
    (
        "jan ene gen janv",
        "feb fév fev febr févr",
        "mar mär maa mrt mars mrz",
        "apr abr avr avri",
        "may mai maj mei mag maio",
        "jun juin giu",
        "jul juil lug",
        "aug ago aoû août",
        "sep set sept",
        "oct okt out ott",
        "nov",
        "dec dez dic déc des",
    ),
    1,
):
    _MONTHS.update(dict.fromkeys(_names.split(), _number))

_OFFSET = re.compile(r"(?:GMT|UTC)(?:([+\u2212-])(\d{1,2})(?::?(\d\d))?)?")
_ZONES = {"CET": 1, "CEST": 2, "EET": 2, "EEST": 3, "WET": 0, "WEST": 1, "Z": 0}
_ZONES |= {"PST": -8, "PDT": -7, "MST": -7, "MDT": -6, "EST": -5, "EDT": -4}
_ZONES |= {"MEZ": 1, "MESZ": 2, "JST": 9, "KST": 9, "BRT": -3}
"""Those that are one place's in practice; what CST or IST is, nobody can tell."""

_HALF = 12
_SHORT, _LONG = 3, 4


def moment_in(text: str) -> str | None:
    """Return the moment that a time names, as ISO 8601; None where that is not certain."""
    shapes = (_SPOKEN, _DOTTED, _YEAR_FIRST)
    found = next((one for shape in shapes if (one := shape.fullmatch(text))), None)
    time = _TIME.fullmatch(found["time"]) if found is not None else None
    offset = _offset(time["zone"]) if time is not None else None
    if found is None or time is None or offset is None:
        return None
    said = found.groupdict()
    month = _month_of(said["month"] or said.get("month2") or "")
    half = (time["before"] or time["after"] or "").lower().replace(".", "").replace(" ", "")
    hour = int(time["hour"])
    if half:
        hour = hour % _HALF + _HALF * (half in _AFTERNOON)
    try:
        moment = datetime(
            int(said["year"]),
            month,
            int(said["day"] or said.get("day2") or 0),
            hour,
            int(time["minute"]),
            int(time["second"]),
            tzinfo=timezone(offset),
        )
    except ValueError:
        return None
    return moment.isoformat()


def _month_of(said: str) -> int:
    """Return a month's number; 0, which is none, where that is not certain."""
    if said.isdecimal():
        return int(said)
    name = said.lower()
    return _MONTHS.get(name[:_LONG]) or _MONTHS.get(name[:_SHORT]) or 0


def _offset(zone: str) -> timedelta | None:
    if zone in _ZONES:
        return timedelta(hours=_ZONES[zone])
    found = _OFFSET.fullmatch(zone)
    if found is None:
        return None
    size = timedelta(hours=int(found[2] or 0), minutes=int(found[3] or 0))
    if size >= timedelta(days=1):
        return None
    return size if found[1] in (None, "+") else -size
