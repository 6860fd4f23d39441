"""Google Takeout of Gemini: "My Activity", conversations and Gems; single files or an archive.

An activity is a question with its answer, or another action; alternative answers become forks.
Activities with a conversation ID are one session; the others of a day (UTC) are one session, since
Google does not relate them. Activities of other products are counted as lost. Conversations with
their own files (``Gemini in Workspace``) are sessions; Gems are identities of an assistant. The
export has no memories. Times on a page are parsed if language and zone are known, always stored.
"""

import re
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timedelta, timezone
from functools import partial
from html import unescape
from itertools import chain
from typing import Any, BinaryIO, ClassVar, NamedTuple

import msgspec
from blake3 import blake3

from satchel.crypto.sealed_records import Sealed
from satchel.errors import InputError, LimitError, MalformedError
from satchel.formats._archive import ZIP_MAGIC, ArchiveFile, ChatArchive, likely, open_archive
from satchel.formats._conversations import (
    INSTRUCTIONS,
    ChatConversation,
    ChatTurn,
    Row,
    RowParser,
    TranscriptConversation,
    events,
    from_files,
    list_in,
    moment_of,
    origin_at,
    read_only,
    require_some,
    rest_of,
    row_in,
    text_or_none,
)
from satchel.formats._json import json_members
from satchel.model.records import Identity, Model, SessionEvent
from satchel.model.values import Component, Scope, resolved
from satchel.ports.format import (
    HEAD_BYTES,
    Info,
    Location,
    ReadContext,
    Signs,
    Target,
    Traits,
    WriteContext,
)
from satchel.ports.record_set import RecordSet, Report
from satchel.runtime.scratch import ScratchMap

CARD = b'<div class="outer-cell'
"""The beginning of each activity in a page."""

_PAGE_END = b"</html>"
_CHUNK = 1 << 18
_TAG = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9]*)[^<>]*>")
_LINES = frozenset(
    [
        "address",
        "article",
        "blockquote",
        "dd",
        "div",
        "dt",
        "figure",
        "hr",
        "ol",
        "pre",
        "section",
        "table",
        "tr",
        "ul",
    ]
)
_APART = frozenset(["p", "h1", "h2", "h3", "h4", "h5", "h6"])
_SPACES = re.compile(r"[ \t\r\n\f]+")
_CELL = re.compile(r'<div class="(content-cell|header-cell)[^"<>]*"[^<>]*>')
_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
_WHEN = re.compile(
    r"(?=[^<>]{0,60}(?<!\d)(?:19|20)\d\d(?!\d))"
    r"[^<>]{0,40}(?<!\d)\d{1,2}[:.]\d\d[:.]\d\d(?!\d)[^<>]{0,20}"
)


class Card(NamedTuple):
    """An activity of a page, with its parts as HTML."""

    header: str
    title: str
    when: str
    """The time as written; empty if there is none."""

    answer: str
    caption: str
    """The lines below: products, links, settings."""


def cards(stream: BinaryIO, most: int) -> Iterator[Card | MalformedError]:
    """Yield the activities of a page, with an error instead of one that is not valid.

    Args:
        stream: The page.
        most: Largest size of an activity in bytes.

    Raises:
        LimitError: If one is larger.
        MalformedError: If the page is truncated.
    """
    rest, is_inside = b"", False
    while chunk := stream.read(_CHUNK):
        first, *others = (rest + chunk).split(CARD)
        if others:
            if is_inside:
                yield _card(first)
            for one in others[:-1]:
                yield _card(one)
            rest, is_inside = others[-1], True
        else:
            # The style before the first one may have any length.
            rest = first if is_inside else first[-len(CARD) :]
        if len(rest) > most:
            raise LimitError(f"an activity is longer than {most} bytes", field="activity")
    if not rest.rstrip().endswith(_PAGE_END):
        raise MalformedError("the page is truncated", field="activity")
    if is_inside:
        yield _card(rest)


def _card(data: bytes) -> Card | MalformedError:
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        return MalformedError("this is not UTF-8", byte=error.start)
    ends = [*_CELL.finditer(text)]
    starts = [cell.start() for cell in ends[1:]] + [len(text)]
    cells = [(cell[1], text[cell.end() : end]) for cell, end in zip(ends, starts, strict=True)]
    contents = [cell for kind, cell in cells if kind == "content-cell"]
    if not contents:
        return MalformedError("an activity without contents", field="activity")
    header = next((words_of(cell) for kind, cell in cells if kind == "header-cell"), "")
    parts = _BREAK.split(contents[0])
    at = next((n for n, part in enumerate(parts) if n and _WHEN.fullmatch(_plain(part))), 0)
    caption = words_of(" ".join(contents[1:]))
    if not at:
        return Card(header, contents[0], "", "", caption)
    title, answer = "<br>".join(parts[:at]), "<br>".join(parts[at + 1 :])
    answer = answer.rstrip().removesuffix("</div>")
    return Card(header, title, _plain(parts[at]), answer, caption)


def _plain(text: str) -> str:
    return _SPACES.sub(" ", unescape(text).replace("\u202f", " ").replace("\xa0", " ")).strip()


def words_of(html: str) -> str:
    """Return the visible text of HTML, with its line breaks."""
    out, verbatim, end = list[str](), 0, 0
    for tag in _TAG.finditer(html):
        _add(out, html[end : tag.start()], is_kept=verbatim > 0)
        end, name = tag.end(), tag[2].lower()
        if name == "pre":
            verbatim = max(0, verbatim + (-1 if tag[1] else 1))
        if name == "br":
            out.append("\n")
        elif name == "li" and not tag[1]:
            out.append("\n- ")
        elif name in ("td", "th") and tag[1]:
            out.append("\t")
        elif name in _APART:
            out.append("\n\n")
        elif name in _LINES:
            out.append("\n")
    _add(out, html[end:], is_kept=verbatim > 0)
    lines = [line.rstrip(" ") for line in "".join(out).split("\n")]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


def _add(out: list[str], text: str, *, is_kept: bool) -> None:
    words = unescape(text)
    if not is_kept:
        words = _SPACES.sub(" ", words)
        words = words.lstrip(" ") if not out or out[-1].endswith("\n") else words
    if words:
        out.append(words)


NAME = "gemini"

_LABEL = re.compile(r"<b>([^<>]{1,60}):\s*</b>")
_GEM_PAGE = re.compile(r"(?:<!doctype html[^<>]*>\s*)?<(div|html)\b", re.IGNORECASE)
_ANCHOR = re.compile(r"<a [^<>]*>[^<>]*</a>")
_NEEDED = 2
"""Number of labels of a Gem without files: its name and its instructions."""

_TARGET_OF_ANCHOR = re.compile(r'<a href="([^"<>]{1,2000})"')


def whole(stream: BinaryIO, most: int) -> str:
    """Read a page.

    Raises:
        LimitError: If it is too large.
        MalformedError: If it is not UTF-8, or truncated.
    """
    data = b""
    while chunk := stream.read(_CHUNK):
        data += chunk
        if len(data) > most:
            raise LimitError(f"a page of Gems is longer than {most} bytes", field="gem")
    try:
        page = data.decode("utf-8-sig").strip()
    except UnicodeDecodeError as error:
        raise MalformedError("this is not UTF-8", byte=error.start) from None
    around = _GEM_PAGE.match(page)
    if around is not None and not page.endswith(f"</{around[1]}>"):
        raise MalformedError("the page is truncated", field="gem")
    return page


def has_gems(head: str) -> bool:
    """Return whether a page begins with a Gem."""
    return len(_LABEL.findall(head)) > 1 and "<b>" in head[: head.find("</b>")]


def gems_in(page: str) -> Iterator[Model]:
    """Yield the Gems of a page. The first label of the page begins each of them.

    Args:
        page: The page; its labels are in the user's language.
    """
    labels = list(_LABEL.finditer(page))
    starts = [number for number, one in enumerate(labels) if one[1] == labels[0][1]]
    for number, after in zip(starts, [*starts[1:], len(labels)], strict=True):
        end = labels[after].start() if after < len(labels) else len(page)
        mine = labels[number:after]
        name = words_of(page[mine[0].end() : mine[1].start() if len(mine) > 1 else end])
        files = page[mine[-1].end() : end]
        has_files = len(mine) > _NEEDED and not words_of(_ANCHOR.sub("", files))
        text = page[mine[1].end() : mine[-1].start() if has_files else end] if mine[1:] else ""
        links = _TARGET_OF_ANCHOR.findall(files) if has_files else []
        yield Identity(
            kind="gem",
            custom_instructions=words_of(text) or None,
            tags=(name,) if name else (),
            scope=Scope(namespace=("gems", name or "gem")),
            origin=origin_at(NAME, f"gem/{name}", None, {"links": links} if links else {}),
        )


_MONTH_NAMED = re.compile(
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
_TIME_OF_DAY = re.compile(
    r"(?P<before>上午|下午|午前|午後|오전|오후)? ?"
    r"(?P<hour>\d{1,2})[:.](?P<minute>\d\d)[:.](?P<second>\d\d)"
    r"(?: (?P<after>[AaPp]\.? ?[Mm]\.?))? (?P<zone>\S+)"
)
_AFTERNOON = frozenset(("下午", "午後", "오후", "pm"))
_MONTHS: dict[str, int] = {}
"""Prefixes of names of months in Germanic and Romance languages, without those of
two months."""

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
"""Unambiguous abbreviations of time zones; CST and IST, for example, are not."""

_HALF_DAY = 12
_SHORT, _LONG = 3, 4


def moment_in(text: str) -> str | None:
    """Return a time as ISO 8601; None if it is ambiguous."""
    shapes = (_MONTH_NAMED, _DOTTED, _YEAR_FIRST)
    match = next((candidate for shape in shapes if (candidate := shape.fullmatch(text))), None)
    time = _TIME_OF_DAY.fullmatch(match["time"]) if match is not None else None
    offset = _offset(time["zone"]) if time is not None else None
    if match is None or time is None or offset is None:
        return None
    parts = match.groupdict()
    month = _month_of(parts["month"] or parts.get("month2") or "")
    half = (time["before"] or time["after"] or "").lower().replace(".", "").replace(" ", "")
    hour = int(time["hour"])
    if half:
        hour = hour % _HALF_DAY + _HALF_DAY * (half in _AFTERNOON)
    try:
        moment = datetime(
            int(parts["year"]),
            month,
            int(parts["day"] or parts.get("day2") or 0),
            hour,
            int(time["minute"]),
            int(time["second"]),
            tzinfo=timezone(offset),
        )
    except ValueError:
        return None
    return moment.isoformat()


def _month_of(text: str) -> int:
    """Return the number of a month; 0 if it is ambiguous."""
    if text.isdecimal():
        return int(text)
    name = text.lower()
    return _MONTHS.get(name[:_LONG]) or _MONTHS.get(name[:_SHORT]) or 0


def _offset(zone: str) -> timedelta | None:
    if zone in _ZONES:
        return timedelta(hours=_ZONES[zone])
    match = _OFFSET.fullmatch(zone)
    if match is None:
        return None
    size = timedelta(hours=int(match[2] or 0), minutes=int(match[3] or 0))
    if size >= timedelta(days=1):
        return None
    return size if match[1] in (None, "+") else -size


_NAME = "gemini"
_ROLES = {"user_turn": "user", "system_turn": "assistant"}
_KNOWN = ("title", "conversation_turns")
_TIMES = ("creation_time",)


def conversation(row: Row, name: str, report: Report) -> Iterator[Model]:
    """Yield a conversation.

    Args:
        row: The conversation.
        name: The name of its file; it has no other ID.
        report: Counts losses.

    Raises:
        MalformedError: If it is not valid.
    """
    if "conversation_turns" not in row:
        raise MalformedError("not a Gemini conversation", field="conversation_turns")
    start = SessionEvent(
        event="session",
        name=text_or_none(row.get("title")),
        created_at=moment_of(row.get("creation_time")),
        origin=origin_at(_NAME, name, None, rest_of(row, known=_KNOWN, times=_TIMES)),
    )
    turns, last, seen = list[ChatTurn](), dict[int, str](), set[str]()
    for index, value in enumerate(list_in(row, "conversation_turns")):
        parts = [(kind, value[kind]) for kind in _ROLES if type(value) is dict and value.get(kind)]
        if not parts:
            report.lost("conversation_turns", "it has no author", example=f"{name}/{index}")
        for kind, part in parts:
            turn = row_in(part, f"`{kind}`")
            number = turn.get("turn_index")
            number = number if type(number) is int else index
            before = last.get(max((one for one in last if one < number), default=-1))
            identity = _unique_name(f"{name}/{_ROLES[kind]}/{number}", seen)
            last = {one: each for one, each in last.items() if one < number} | {number: identity}
            turns.append(ChatTurn(identity, before, _message(turn, kind, identity, name)))
    yield from events(ChatConversation(start, turns, turns[-1].id if turns else None), report)


def _unique_name(identity: str, seen: set[str]) -> str:
    name, again = identity, 1
    while name in seen:
        again += 1
        name = f"{identity}/{again}"
    seen.add(name)
    return name


def _message(turn: Row, kind: str, identity: str, name: str) -> SessionEvent:
    is_asked = kind == "user_turn"
    text = turn.get("prompt") if is_asked else _answer_in(turn.get("text"))
    if text is not None and type(text) is not str:
        raise MalformedError("this is not text", field=f"conversation_turns/{kind}/prompt")
    as_written = rest_of(turn, known=("prompt",) if is_asked else ())
    return SessionEvent(
        event="message",
        role=_ROLES[kind],
        text=text or "",
        created_at=moment_of(turn.get("turn_last_modified")),
        origin=origin_at(_NAME, identity, name, as_written),
    )


def _answer_in(parts: Any) -> str:
    """Return the text of an answer, which is in parts, and in cards of parts."""
    texts = list[str]()
    for part in parts if type(parts) is list else [parts]:
        if type(part) is str:
            texts.append(part)
        elif type(part) is dict:
            cards = part.get("cards")
            cards = cards if type(cards) is list else []
            pieces = [part.get("data"), *map(_content_of, cards)]
            texts += [piece for piece in pieces if type(piece) is str and piece]
    return "\n\n".join(texts)


def _content_of(card: Any) -> Any:
    return card.get("content") if type(card) is dict else None


_GEMINI_NAME = re.compile(r"(?<![A-Za-z])(?:Gemini|Bard)(?![a-z])")
_VERB = re.compile(
    r"(?:Prompted with:|Prompted|Live Prompt:?|Asked (?:Gemini|Bard):|Asked|Said|Branched|Answered)"
    r"[ \u00a0]+"
)
_PROMPT_LABEL = re.compile(r"[^\W\d_][^\u00a0\n.!?;,]{1,60}[^\u00a0\n.!?;, ]\u00a0(?=[^\s:!?;])")
"""The label before the user's text on a page, in any language; a no-break space ends it."""

_LINK = re.compile(r"(?:gemini|bard)\.google\.com/(?:u/\d+/)?(?:app|chat)/([0-9A-Za-z_-]{6,80})")
_LINKED = ("titleUrl", "details", "subtitles")
_TIME, _UNDATED = 27, "undated"
_LAST = (1 << 64) - 1
_SEEN, _END = b"\1", b"\0"


class GeminiAnswer(msgspec.Struct, frozen=True):
    """An answer of Gemini."""

    text: str
    as_written: Row
    """Members that are stored unchanged."""


class GeminiActivity(msgspec.Struct, frozen=True):
    """An activity with Gemini."""

    prompt: str
    """The question, or the action."""

    is_asked: bool
    """Whether it is a question of the user."""

    at: str | None
    answers: list[GeminiAnswer]
    """The answer, followed by alternative ones."""

    as_written: Row
    """Members that are stored unchanged."""


class Activities:
    """The activities of an export, sorted.

    Args:
        report: Counts activities of other products.
    """

    def __init__(self, report: Report) -> None:
        self._report = report
        self._held = ScratchMap()
        self._count = 0
        self._gems = list[Model]()

    def gems(self, page: str) -> None:
        """Add a page of Gems, which ``rest`` yields."""
        self._gems += gems_in(page)

    def row(self, row: Row) -> Iterator[Model]:
        """Add an activity, which ``events`` yields.

        Raises:
            MalformedError: If it is not valid.
        """
        title, header = row.get("title"), row.get("header")
        if type(title) is not str or type(header) is not str:
            name = "title" if type(title) is not str else "header"
            raise MalformedError(f"`{name}` is missing, or not text", field=name)
        if not _GEMINI_NAME.search(header):
            self._report.ignore(f"activity of {header}")
            return
        prompt, is_asked, whole = _prompt_in(title)
        as_written = rest_of(row, known=("title", "safeHtmlItem"), times=("time",)) | whole
        answers = _answers_in(row)
        request, more = _detailed(row)
        if request is not None:
            as_written = {**rest_of(row, known=("safeHtmlItem",), times=("time",))}
            prompt, is_asked, answers = request, True, answers or more
        activity = GeminiActivity(
            prompt, is_asked or bool(answers), moment_of(row.get("time")), answers, as_written
        )
        self._put(activity, _conversation_in(*(row.get(name) for name in _LINKED)))
        yield from ()

    def card(self, card: Card) -> None:
        """Add an activity of a page."""
        if not _GEMINI_NAME.search(card.header):
            self._report.ignore(f"activity of {card.header or 'another product'}")
            return
        prompt, is_asked, whole = _prompt_in(words_of(card.title), _PROMPT_LABEL)
        as_written = {"header": card.header, "time": card.when, "caption": card.caption, **whole}
        answer = _of_html(card.answer, {})
        answers = [answer] if answer.text else []
        moment = moment_of(moment_in(card.when))
        activity = GeminiActivity(prompt, is_asked or bool(answers), moment, answers, as_written)
        self._put(activity, _conversation_in(card.caption, card.title))

    def _put(self, activity: GeminiActivity, conversation: str) -> None:
        session = conversation or (f"day {activity.at[:10]}" if activity.at else _UNDATED)
        self._count += 1
        value = msgspec.json.encode(activity)
        if not self._held.add(_SEEN + session.encode() + _END + _digest(value)):
            self._report.ignore("duplicate activity")
            return
        # At equal times, and without times, the last one in the file is the earliest.
        sequence = (_LAST - self._count).to_bytes(8)
        at = (activity.at or "").ljust(_TIME).encode()
        self._held.put(_END.join([session.encode(), at, sequence]), value)

    def events(self) -> Iterator[Model]:
        """Yield the events of the sessions, each from its start."""
        session, line = None, _Line("", None)
        for key in self._held:
            if key.startswith(_SEEN):
                continue
            activity = msgspec.json.decode(
                self._held.get(key) or b"", type=resolved(GeminiActivity)
            )
            name = key.partition(_END)[0].decode()
            if name != session:
                session, line = name, _Line(name, activity.at)
                yield line.conversation.start
            yield from line.follow(activity)

    def rest(self) -> Iterator[Model]:
        """Yield the records outside sessions."""
        yield from self._gems

    def talk(self, name: str, row: Row) -> Iterator[Model]:
        """Yield a conversation from its own file, of this name."""
        yield from conversation(row, name, self._report)

    def close(self) -> None:
        """Free the temporary space."""
        self._held.close()


class _Line:
    """A session that is being yielded."""

    def __init__(self, name: str, at: str | None) -> None:
        self._name = name
        self._last: str | None = None
        self._seen = dict[str, int]()
        start = SessionEvent(
            event="session", name=name, created_at=at, origin=origin_at(NAME, name, None, {})
        )
        self.conversation = TranscriptConversation(start)

    def follow(self, activity: GeminiActivity) -> Iterator[SessionEvent]:
        """Yield a question and its answers; the next question follows the first answer."""
        name = f"{activity.at or ''}/{_digest(activity.prompt.encode('utf-8', 'replace')).hex()}"
        number = self._seen[name] = self._seen.get(name, 0) + 1
        name += f"/{number}" if number > 1 else ""
        role = "user" if activity.is_asked else INSTRUCTIONS
        question = self._event(role, activity.prompt, activity.at, name, activity.as_written)
        yield from self.conversation.message(name, self._last, question)
        self._last = name
        for index, answer in enumerate(activity.answers):
            each = f"{name}/answer {index + 1}"
            event = self._event("assistant", answer.text, activity.at, each, answer.as_written)
            yield from self.conversation.message(each, name, event)
            if index == 0:
                self._last = each

    def _event(self, role: str, text: str, at: str | None, name: str, rest: Row) -> SessionEvent:
        return SessionEvent(
            event="message",
            role=role,
            text=text,
            created_at=at,
            origin=origin_at(NAME, name, self._name, rest),
        )


def _prompt_in(title: str, other: re.Pattern[str] | None = None) -> tuple[str, bool, Row]:
    """Return the question or action, whether it is a question, and the stored part of the title."""
    match = _VERB.match(title) or (other and other.match(title))
    if not match:
        return title, False, {}
    return title[match.end() :], True, {"title": title}


def _of_html(html: str, more: Row) -> GeminiAnswer:
    words = words_of(html)
    return GeminiAnswer(words, more if words == html else {**more, "html": html})


def _answers_in(row: Row) -> list[GeminiAnswer]:
    answers = []
    for number, value in enumerate(list_in(row, "safeHtmlItem")):
        item = row_in(value, "an answer")
        html = item.get("html")
        if type(html) is not str:
            raise MalformedError("this is not text", field=f"safeHtmlItem/{number}/html")
        answers.append(_of_html(html, rest_of(item, known=("html",))))
    return answers


def _detailed(row: Row) -> tuple[str | None, list[GeminiAnswer]]:
    """Return the question and answers in another form of the export."""
    listed = row.get("details")
    pairs = [one for one in listed if type(one) is dict] if type(listed) is list else []
    detail = {one.get("name"): one.get("value") for one in pairs if type(one.get("name")) is str}
    request, response = detail.get("Request"), detail.get("Response")
    if type(request) is not str:
        return None, []
    return request, [GeminiAnswer(response, {})] if type(response) is str else []


def _conversation_in(*parts: Any) -> str:
    """Return the ID of the linked conversation; empty for none."""
    texts = [one if type(one) is str else msgspec.json.encode(one).decode() for one in parts if one]
    return next((found[1] for one in texts if (found := _LINK.search(one))), "")


def _digest(data: bytes) -> bytes:
    return blake3(data).digest(8)


_MEMBERS = frozenset({b"header", b"title"})
_GEMS = re.compile(r"gems[^/]*\.html\Z", re.IGNORECASE)
_MOST_GEMS = 1 << 24
_PAGES = ("page", "gems")
_HEADER = re.compile(rb'"header"\s*:\s*"[^"]{0,80}(?:Gemini|Bard)')
_PAGE = re.compile(rb"\s*(?:<!doctype html[^<>]*>\s*)?<html\b", re.IGNORECASE)
_OF_GEMINI = re.compile(rb'"header-cell[^<>]*>\s*<p[^<>]*>[^<]{0,80}(?:Gemini|Bard)')
_STYLE = 1 << 20
"""Number of bytes of a page that recognition reads, since it begins with its style."""


class Gemini:
    """The format."""

    info: ClassVar[Info] = Info(
        title="Gemini activity (Google Takeout)",
        suffixes=(),
        signs=Signs(
            starts=(ZIP_MAGIC, b"<"), texts=((b"conversation_turns",), (b"header", b"title"))
        ),
        spec="Google Takeout, My Activity of Gemini Apps, JSON and HTML, to 2026",
        checked="2026-11-22",
        traits=Traits(components=frozenset({Component.IDENTITY}), writes=False, personal=True),
    )

    def recognizes(self, location: Location) -> bool:
        if not (location.head.startswith(ZIP_MAGIC) or _may_be(location)):
            return False
        try:
            with open_archive(location) as archive:
                named = [one for one in archive.files if _may_have(one)]
                looked = likely(named, "gemini", "bard")
                return any(_kind(archive, file) for file in looked)
        except InputError:
            return False

    def read(self, location: Location, reading: ReadContext) -> Iterator[Model | Sealed]:
        reading.linked = reading.chained = True
        with (
            closing(Activities(reading.report)) as activities,
            open_archive(location, reading.limits) as archive,
        ):
            kinds = {file.path: _kind(archive, file) for file in archive.files}
            if len(kinds) == 1:  # what --from says
                kinds = {path: kind or "json" for path, kind in kinds.items()}
            for file in archive.files:
                if kinds[file.path] in _PAGES:
                    _take_page(archive, file, reading, location, activities, kinds[file.path])
            by_file: dict[str, RowParser | None] = {
                file.path: _parser_of(file, kinds[file.path], activities)
                for file in archive.files
                if kinds[file.path] not in _PAGES
            }
            others = {path for path, kind in kinds.items() if not kind and not _is_ours(path)}
            read = from_files(archive, reading, location, by_file, other_products=others)
            yield from require_some(chain(read, activities.events(), activities.rest()), location)

    def write(self, records: RecordSet, target: Target, writing: WriteContext) -> None:
        del records, target, writing
        read_only("a Gemini export")


def _is_ours(path: str) -> bool:
    """Return whether a path in an export names this product, by its present or former name."""
    return any(name in path.lower() for name in ("gemini", "bard"))


def _parser_of(file: ArchiveFile, kind: str, activities: Activities) -> RowParser | None:
    if kind == "talk":
        return partial(activities.talk, file.name.rpartition(".")[0] or file.name)
    return activities.row if kind == "json" else None


def _take_page(
    archive: ChatArchive,
    file: ArchiveFile,
    reading: ReadContext,
    location: Location,
    activities: Activities,
    kind: str,
) -> None:
    number, where = 0, archive.file_of(file)
    try:
        with archive.stream(file) as stream:
            if kind == "gems":
                activities.gems(whole(stream, _MOST_GEMS))
                return
            for number, card in enumerate(cards(stream, reading.limits.line_bytes)):
                if isinstance(card, InputError):
                    card.field = "/".join(filter(None, (where, str(number))))
                    reading.refuse(card.located(file=location.name))
                else:
                    activities.card(card)
    except InputError as error:
        error.field = error.field or where or str(number)
        reading.refuse(error.located(file=location.name))


def _kind(archive: ChatArchive, file: ArchiveFile) -> str:
    """Return the kind of a file by its contents, not its name; empty if it is not Gemini's."""
    if not _may_have(file):
        return ""
    with archive.stream(file) as stream:
        head = stream.read(HEAD_BYTES)
        if _is_list(head):
            return "json"
        if _is_talk(head):
            return "talk"
        if _GEMS.search(file.name) and has_gems(head.decode("utf-8", "replace")):
            return "gems"
        if not _PAGE.match(head):
            return ""
        while len(head) < _STYLE and (more := stream.read(_STYLE - len(head))):
            head += more
    return "page" if CARD in head and _OF_GEMINI.search(head) else ""


def _may_have(file: ArchiveFile) -> bool:
    return file.info is None or file.ends((".json", ".html", ".txt"))


def _may_be(location: Location) -> bool:
    head = location.head
    is_gems = _GEMS.search(location.path.name) is not None and head.lstrip().startswith(b"<")
    return is_gems or _is_list(head) or _is_talk(head) or _PAGE.match(head) is not None


def _is_talk(head: bytes) -> bool:
    return any(path == (b"conversation_turns",) for path, _ in json_members(head))


def _is_list(head: bytes) -> bool:
    names = {path[1] for path, _ in json_members(head) if len(path) == 2 and path[0] == 0}  # noqa: PLR2004
    return names >= _MEMBERS and _HEADER.search(head) is not None


FORMAT = Gemini()
"""The instance that the registry loads."""
