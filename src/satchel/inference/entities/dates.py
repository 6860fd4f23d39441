"""Dates in a text: days, months, years, weekdays, and words such as "last week"."""

import re
from collections.abc import Iterator

_MONTH = (
    "(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|"
    "sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?|januar|februar|märz|mai|juni|juli|"
    "oktober|dezember|janvier|février|mars|avril|juin|juillet|août|septembre|octobre|novembre|"
    r"décembre|enero|febrero|marzo|abril|mayo|junio|julio|agosto|septiembre|octubre|noviembre|"
    r"diciembre)\b\.?"
)
_DAY = r"(?:0?[1-9]|[12]\d|3[01])(?:st|nd|rd|th|\.)?"
_YEAR = r"(?:1[5-9]|20|21)\d\d"
_WEEKDAY = "(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_SPAN = "(?:day|night|week|weekend|month|year|summer|winter|spring|autumn|fall|quarter|semester)"
_SOME = r"(?:an?|one|two|three|four|five|six|seven|eight|nine|ten|a few|several|\d{1,3})"

_PATTERNS = (
    rf"{_YEAR}-(?:0[1-9]|1[0-2])(?:-(?:0[1-9]|[12]\d|3[01]))?",
    r"(?:0?[1-9]|[12]\d|3[01])[./](?:0?[1-9]|[12]\d|3[01])[./](?:\d{4}|\d\d)",
    rf"(?:{_WEEKDAY},?\s)?{_DAY}\s(?:of\s|de\s)?{_MONTH}(?:,?\s(?:de\s)?{_YEAR})?",
    rf"(?:{_WEEKDAY},?\s)?{_MONTH}\s{_DAY}(?!\d)(?:,?\s{_YEAR})?",
    rf"{_MONTH},?\s(?:of\s)?{_YEAR}",
    rf"(?:(?:early|mid|late|last|next|this|every)[\s-])?{_WEEKDAY}s?(?:\s(?:morning|night|evening))?",
    rf"(?:last|next|this past|this coming|the past)\s(?:{_SPAN}|{_MONTH}|{_SOME}\s{_SPAN}s)",
    rf"{_SOME}\s{_SPAN}s?\s(?:ago|from now|later|earlier)",
    r"(?:the\s)?day\s(?:before\syesterday|after\stomorrow)|yesterday|tomorrow|today|tonight",
    rf"(?:spring|summer|autumn|fall|winter|q[1-4])\s(?:of\s)?{_YEAR}",
    r"(?:the\s)?(?:1[5-9]|20)\d0s",
    rf"(?<=\bin\s){_YEAR}|(?<=\bsince\s){_YEAR}|(?<=\buntil\s){_YEAR}|(?<=\bby\s){_YEAR}|(?<=\bseit\s){_YEAR}",
    rf"(?<=\bin\s){_MONTH}|(?<=\bsince\s){_MONTH}|(?<=\buntil\s){_MONTH}",
    r"(?:christmas|easter|thanksgiving|new year's)(?:\s(?:eve|day))?",
)
_DATE = re.compile("|".join(rf"(?<![\w.-])(?:{one})(?!\w)" for one in _PATTERNS), re.IGNORECASE)


def dates_in(text: str) -> Iterator[tuple[int, int]]:
    """Yield where each date of a text begins and ends."""
    for found in _DATE.finditer(text):
        start, end = found.span()
        yield start, end - (text[end - 1] == ".")
