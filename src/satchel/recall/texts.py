"""Texts of memories and queries: their words and times, prepared for comparison and cached.

Parsing and tokenizing the same few hundred memories for every query took half of the time of a
recall. A cached text depends only on the bytes of a record and is found by their digest, so it is
never out of date. The cache is limited in size, and cleared after an erasure or a redaction, so
that a process does not keep what its bank has removed.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from itertools import islice
from typing import cast

import msgspec
from blake3 import blake3

from satchel.crypto.sealed_records import decode_record
from satchel.errors import InputError
from satchel.ledger.view import View
from satchel.model.records import AnyRecord, Entry, Episodic, Model
from satchel.model.values import format_time, is_within, resolved, to_datetime
from satchel.ports.rows import Row, words_in
from satchel.stores.text_search import STOP_WORDS, Term, tokens_of

_MONTHS = "january february march april may june july august september october november december"
_DAYS = "monday tuesday wednesday thursday friday saturday sunday"
_NUMBERS = "one two three four five six seven eight nine ten eleven twelve"
_LONGEST_EXPRESSION = 2000
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
        return moment is not None and is_within(moment, self.since, self.until)


def parse_time_range(text: str, at: str) -> TimeRange | None:
    """Return the first time that a query names; None if it names none.

    Args:
        text: The query.
        at: The moment of the query, in canonical form.
    """
    text = text[:_LONGEST_EXPRESSION]
    if not _has_cue(text):
        return None  # compiling the patterns takes longer than a recall
    now = to_datetime(at)
    for match in _pattern().finditer(text):
        try:
            span = _span(match, now)
        except (ValueError, OverflowError):
            continue  # such as 31 February
        if span is not None:
            later = LATER if any(match[name] for name in _DATES) else timedelta()
            lead = (match["lead"] or match["lead2"] or "").lower()
            return _time_range(match[0].strip(), lead, span, later)
    return None


def times_named(text: str, at: str) -> tuple[str, ...]:
    """Return the first moments of the times that a text names, relative to when it was said.

    Args:
        text: The text.
        at: When it was said, in canonical form.
    """
    text = text[:_LONGEST_EXPRESSION]
    if not _has_cue(text):
        return ()
    now, moments = to_datetime(at), list[str]()
    for match in islice(_pattern().finditer(text), _MOST_NAMED):
        try:
            span = _span(match, now)
        except (ValueError, OverflowError):
            continue  # such as 31 February
        if span is not None:
            moments.append(format_time(span[0]))
    return tuple(moments)


def asks_when(question: str) -> bool:
    """Return whether a query asks for a time."""
    start = question[:_LONGEST_EXPRESSION].lower()
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


def _time_range(words: str, lead: str, span: _Span, later: timedelta) -> TimeRange:
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


def _span(match: re.Match[str], now: datetime) -> _Span | None:
    for name, read in _READ.items():
        if match[name] is not None:
            return read(match, now)
    return None


def _iso(match: re.Match[str], _now: datetime) -> _Span:
    return _day(datetime.fromisoformat(match["iso"]).replace(tzinfo=UTC))


def _dated(match: re.Match[str], now: datetime) -> _Span:
    return _nth(match["nth"], match["month"], match["year"], now)


def _american(match: re.Match[str], now: datetime) -> _Span:
    return _nth(match["nth2"], match["month2"], match["year2"], now)


def _nth(nth: str, month: str, year: str | None, now: datetime) -> _Span:
    day, number = int(re.sub(r"\D", "", nth)), _month_number(month)
    if year is not None:
        return _day(datetime(int(year), number, day, tzinfo=UTC))
    this = datetime(now.year, number, day, tzinfo=UTC)
    return _day(this if this <= now else this.replace(year=now.year - 1))


def _monthly(match: re.Match[str], _now: datetime) -> _Span:
    return _month(int(match["year3"]), _month_number(match["month3"]))


def _ago(match: re.Match[str], now: datetime) -> _Span:
    unit = match["unit"].lower().rstrip("s")
    return _SPANS[unit](_back(now, _count(match["count"]), unit))


def _past(match: re.Match[str], now: datetime) -> _Span:
    unit = match["unit2"].lower().rstrip("s")
    return _back(now, _count(match["count2"]), unit), now + timedelta(microseconds=1)


def _relative(match: re.Match[str], now: datetime) -> _Span:
    span = match["span"].lower()
    return _SPANS[span](_back(now, int(match["which"].lower() == "last"), span))


def _named(match: re.Match[str], now: datetime) -> _Span | None:
    name, last = match["name"].lower(), match["which2"].lower() == "last"
    if name in _DAYS.split():
        return _weekday(name, now, today=not last)
    if not last and match["name"][0].islower():
        return None  # "this may help"
    number = _month_number(name)
    year = now.year - (number > now.month or (last and number == now.month))
    return _month(year, number)


def _near(match: re.Match[str], now: datetime) -> _Span:
    return _day(now - timedelta(days=match["near"].lower() != "today"))


def _alone(match: re.Match[str], now: datetime) -> _Span | None:
    if match["year4"] is not None:
        return _year(datetime(int(match["year4"]), 1, 1, tzinfo=UTC))
    if match["day4"] is not None:
        return _weekday(match["day4"].lower(), now, today=True)
    if not match["month4"][0].isupper():
        return None  # "by may", "of march"
    number = _month_number(match["month4"])
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


LONGEST = 1 << 14
"""Maximum characters of a memory that are searched for the words of a query, from its start."""

MOST_BYTES = 32 << 20
"""Approximate size of the cache in bytes; 0 disables it."""

_ASKING = "?\N{FULLWIDTH QUESTION MARK}\N{ARABIC QUESTION MARK}"
_CLOSING = " \t\r\n\"')]\N{RIGHT SINGLE QUOTATION MARK}\N{RIGHT DOUBLE QUOTATION MARK}"

_decode = cast("Callable[[bytes], Model]", msgspec.json.Decoder(resolved(AnyRecord)).decode)
_KEY_BYTES = 16
_TEXT_BYTES, _WORD_BYTES, _WIDEST = 400, 120, 4
_MANY = 50
"""Number of words from which a lookup is faster than a search in a string."""

_MOST_BANKS = 64
_ENDING = ("erasure", "redaction")


class SearchText:
    """The text of a memory, prepared for comparison with queries.

    Args:
        row: The row of the memory.
    """

    __slots__ = ("_counts", "_dated", "_times", "_words", "asks", "length", "who")

    def __init__(self, row: Row) -> None:
        self.who: tuple[str, ...] = ()
        """Words of the speaker's name."""

        self.length = 0
        """Number of words."""

        self._words, self._counts = "", dict[str, int]()
        self.asks = False
        self._dated: bool | None = None
        self._times: tuple[str, ...] | None = None
        model = _model_of(row.body or b"")
        if isinstance(model, Episodic) and model.actor:
            self.who = _name_of(model.actor.rpartition(":")[2])
        if isinstance(model, Entry):
            text = words_in(model)[:LONGEST]
            tokens = tokens_of(text)
            self.length = len(tokens)
            # A string takes a tenth of the memory of a list. Each word has two spaces around it.
            self._words = f" {'  '.join(tokens)} " if tokens else ""
            if self.length > _MANY:
                self._counts = dict(Counter(tokens))
            self.asks = _asks(text)

    @property
    def tokens(self) -> list[str]:
        """Its words, tokenized as in the index."""
        return self._words.split()

    @property
    def dated(self) -> bool:
        """Whether it names a time; determined when a query asks for one."""
        if self._dated is None:
            self._dated = names_time(self.tokens)
        return self._dated

    def names(self, row: Row, time: TimeRange) -> bool:
        """Return whether it names a time within a range, relative to when it was said.

        Args:
            row: The row of the memory.
            time: The range.
        """
        if self._times is None:
            at, model = row.moment, _model_of(row.body or b"")
            text = words_in(model)[:LONGEST] if isinstance(model, Entry) else ""
            self._times = () if at is None else times_named(text, at)
        return any(map(time.includes, self._times))

    def positions(self, words: Iterable[str]) -> dict[str, list[int]]:
        """Return the positions of words, ascending, by word; absent words are omitted.

        Args:
            words: Words, tokenized as in the index.
        """
        positions, text, counts = dict[str, list[int]](), self._words, self._counts
        for word in words:
            if counts and word not in counts:
                continue
            sought, spaces, start = f" {word} ", 0, 0
            at = text.find(sought)
            while at >= 0:
                spaces += text.count(" ", start, at)  # two for each word before
                positions.setdefault(word, []).append(spaces // 2)
                start, at = at, text.find(sought, at + 1)
        return positions

    @property
    def size(self) -> int:
        """Approximate size in memory, in bytes."""
        text = len(self._words) * (1 if self._words.isascii() else _WIDEST)
        return _TEXT_BYTES + text + _WORD_BYTES * len(self._counts)

    def times(self, sought: "SearchTerms") -> dict[int, int]:
        """Return the occurrences of the terms of a query, by the number of the term, in that order.

        Absent terms are omitted.
        """
        words, counts = self._words, self._counts
        if counts:
            occurrences = {at: counts[word] for at, word in sought.bare if word in counts}
        else:
            occurrences = {at: words.count(word) for at, word in sought.words if word in words}
        if not sought.others:
            return occurrences
        for at, term in sought.others:
            if term.prefix or all(f" {token} " in words for token in term.tokens):
                times = term.times(self.tokens)
                if times:
                    occurrences[at] = times
        return dict(sorted(occurrences.items()))


class SearchTerms:
    """The terms of a query, prepared for the search in texts.

    Args:
        terms: Terms of the query.
    """

    __slots__ = ("bare", "others", "words")

    def __init__(self, terms: Sequence[Term]) -> None:
        plain = [not term.prefix and len(term.tokens) == 1 for term in terms]
        every = list(zip(range(len(terms)), terms, plain, strict=True))
        self.bare = [(at, term.tokens[0]) for at, term, is_plain in every if is_plain]
        """Terms of one word, with their numbers."""

        self.words = [(at, f" {word} ") for at, word in self.bare]
        """The same, as they occur in a string of words."""

        self.others = [(at, term) for at, term, is_plain in every if not is_plain]


class _Cache:
    """A cache of texts by the digest of their bytes, in two halves.

    When the newer half is full, it replaces the older one; a text that is used again moves to the
    newer half. Threads may share it: at worst, a text is prepared twice.
    """

    def __init__(self) -> None:
        self._newer, self._older = dict[bytes, SearchText](), dict[bytes, SearchText]()
        self._bytes = 0

    def get(self, row: Row) -> SearchText:
        """Return the text of a row."""
        key = blake3(row.body or b"").digest(_KEY_BYTES)
        text = self._newer.get(key)
        if text is None:
            text = self._older.get(key) or SearchText(row)
            self._add(key, text)
        return text

    def clear(self) -> None:
        """Remove all texts."""
        self._newer, self._older, self._bytes = {}, {}, 0
        _name_of.cache_clear()

    @property
    def size(self) -> int:
        """Approximate size of all texts, in bytes."""
        return sum(text.size for half in (self._newer, self._older) for text in half.values())

    def _add(self, key: bytes, text: SearchText) -> None:
        half, size = MOST_BYTES // 2, text.size
        if size > half:
            return
        if self._bytes + size > half:
            self._older, self._newer, self._bytes = self._newer, {}, 0
        self._newer[key] = text
        self._bytes += size


texts = _Cache()
"""The cache of this process."""

_ended = dict[str, int]()
"""Number of erasures and redactions in each bank at its last query."""


def search_text(row: Row) -> SearchText:
    """Return the prepared text of a memory."""
    return texts.get(row)


def forget_erased(view: View) -> None:
    """Clear the cache if the bank has erased or redacted a memory since its last query."""
    bank, counts = view.head.bank, view.head.counts
    ended = sum(counts.get(name, 0) for name in _ENDING)
    if _ended.get(bank, 0) != ended:
        texts.clear()
        if len(_ended) >= _MOST_BANKS:
            _ended.clear()
        _ended[bank] = ended


def _asks(text: str) -> bool:
    """Return whether a text ends with a question, apart from a note in brackets."""
    end = text.rstrip()
    if end.endswith("]"):
        end = end.rpartition("[")[0]
    return end.rstrip(_CLOSING).endswith(tuple(_ASKING))


def _model_of(body: bytes) -> Model | None:
    """Return the model of a record; None if it cannot be read, which verification reports.

    Whether its bytes are canonical is not checked here, since texts are only used for ranking.
    """
    try:
        return _decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass
    try:
        return decode_record(body)
    except InputError:
        return None


@lru_cache(1024)  # few speak, and often
def _name_of(actor: str) -> tuple[str, ...]:
    return tuple(tokens_of(actor))


_LEAST_WORDS, _LEAST_TIMES = 12, 6
_MOST_SHARE = 0.12
"""Lowest share of words of the query in a stuffed text; sentences have fewer."""

_LEAST_PLAIN = 0.22
"""Lowest share of common words, such as "the" and "of", in sentences."""

_LEAST_REPEATED = 4
_LONGEST = 1 << 12


def is_stuffed(text: str, terms: Sequence[Term]) -> bool:
    """Return whether a text repeats the words of a query far more often than sentences do.

    Args:
        text: The text.
        terms: Terms of the query.
    """
    words = text[:_LONGEST].casefold().split() if terms else []
    if len(words) - len(set(words)) < _LEAST_REPEATED:
        return False
    tokens = tokens_of(text[:_LONGEST])
    if len(tokens) < _LEAST_WORDS:
        return False
    times = sum(term.times(tokens) for term in terms)
    if times < _LEAST_TIMES or times / len(tokens) < _MOST_SHARE:
        return False
    return sum(token in STOP_WORDS for token in tokens) / len(tokens) < _LEAST_PLAIN
