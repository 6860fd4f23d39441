"""Activities of Gemini as events.

Google keeps what was asked and answered, one by one, the newest first, and seldom says to which
conversation it belongs. What has the link of a conversation is put there; all else that was asked
on one day is one session. They are sorted on disk first, since a session goes from its start.
"""

import re
from collections.abc import Iterator
from typing import Any

import msgspec
from blake3 import blake3

from satchel.disk.databases.keyed import Keyed
from satchel.errors import MalformedError
from satchel.formats._chats.fields import Row, list_in, moment_of, rest_of, row_in
from satchel.formats._chats.google.gems import gems_in
from satchel.formats._chats.google.pages import Card, words_of
from satchel.formats._chats.google.times import moment_in
from satchel.formats._chats.google.turns import conversation
from satchel.formats._chats.threads import INSTRUCTIONS, Growing, origin_at
from satchel.memory.records import Model, SessionEvent
from satchel.ports.report import Report
from satchel.type_info import resolved

NAME = "gemini"

_OWN = re.compile(r"(?<![A-Za-z])(?:Gemini|Bard)(?![a-z])")
_VERB = re.compile(
    r"(?:Prompted with:|Prompted|Live Prompt:?|Asked (?:Gemini|Bard):|Asked|Said|Branched|Answered)"
    r"[ \u00a0]+"
)
_SAID_BEFORE = re.compile(r"[^\W\d_][^\u00a0\n.!?;,]{1,60}[^\u00a0\n.!?;, ]\u00a0(?=[^\s:!?;])")
"""What is before the words of a person on a page in any language: a hard space is behind it."""

_LINK = re.compile(r"(?:gemini|bard)\.google\.com/(?:u/\d+/)?(?:app|chat)/([0-9A-Za-z_-]{6,80})")
_LINKED = ("titleUrl", "details", "subtitles")
_TIME, _UNDATED = 27, "undated"
_LAST = (1 << 64) - 1
_AGAIN, _END = b"\1", b"\0"


class Answer(msgspec.Struct, frozen=True):
    """What Gemini said."""

    text: str
    kept: Row
    """What has no other place."""


class Activity(msgspec.Struct, frozen=True):
    """Something that was done with Gemini."""

    prompt: str
    """What was asked, or what was done."""

    is_asked: bool
    """Whether a person said it to Gemini."""

    at: str | None
    answers: list[Answer]
    """All but the first are other answers to the same."""

    kept: Row
    """What has no other place."""


class Activities:
    """All of one export, sorted.

    Args:
        report: Where what is no activity of Gemini is counted.
    """

    def __init__(self, report: Report) -> None:
        self._report = report
        self._held = Keyed()
        self._count = 0
        self._gems = list[Model]()

    def gems(self, page: str) -> None:
        """Take in a page of Gems; they are given out at the end."""
        self._gems += gems_in(page)

    def row(self, row: Row) -> Iterator[Model]:
        """Take an activity in; it is given out later.

        Raises:
            MalformedError: If it is none.
        """
        title, said = row.get("title"), row.get("header")
        if type(title) is not str or type(said) is not str:
            name = "title" if type(title) is not str else "header"
            raise MalformedError(f"`{name}` is missing, or not text", field=name)
        if not _OWN.search(said):
            self._report.ignore(f"activity of {said}")
            return
        prompt, is_asked, whole = _asked(title)
        kept = rest_of(row, known=("title", "safeHtmlItem"), times=("time",)) | whole
        answers = _answers_in(row)
        request, more = _detailed(row)
        if request is not None:
            kept = {**rest_of(row, known=("safeHtmlItem",), times=("time",))}
            prompt, is_asked, answers = request, True, answers or more
        found = Activity(
            prompt, is_asked or bool(answers), moment_of(row.get("time")), answers, kept
        )
        self._put(found, _conversation_in(*(row.get(name) for name in _LINKED)))
        yield from ()

    def card(self, card: Card) -> None:
        """Take in an activity of a page."""
        if not _OWN.search(card.header):
            self._report.ignore(f"activity of {card.header or 'another product'}")
            return
        prompt, is_asked, whole = _asked(words_of(card.title), _SAID_BEFORE)
        kept = {"header": card.header, "time": card.when, "caption": card.caption, **whole}
        answer = _of_html(card.answer, {})
        answers = [answer] if answer.text else []
        moment = moment_of(moment_in(card.when))
        found = Activity(prompt, is_asked or bool(answers), moment, answers, kept)
        self._put(found, _conversation_in(card.caption, card.title))

    def _put(self, found: Activity, conversation: str) -> None:
        session = conversation or (f"day {found.at[:10]}" if found.at else _UNDATED)
        self._count += 1
        value = msgspec.json.encode(found)
        if not self._held.add(_AGAIN + session.encode() + _END + _digest(value)):
            self._report.ignore("duplicate activity")
            return
        # Of one moment, and without one, the last in the file was the first.
        place = (_LAST - self._count).to_bytes(8)
        at = (found.at or "").ljust(_TIME).encode()
        self._held.put(_END.join([session.encode(), at, place]), value)

    def events(self) -> Iterator[Model]:
        """Yield the sessions, each from its start."""
        session, line = None, _Line("", None)
        for key in self._held:
            if key.startswith(_AGAIN):
                continue
            found = msgspec.json.decode(self._held.get(key) or b"", type=resolved(Activity))
            name = key.partition(_END)[0].decode()
            if name != session:
                session, line = name, _Line(name, found.at)
                yield line.talk.start
            yield from line.follow(found)

    def rest(self) -> Iterator[Model]:
        """Yield what is in no session."""
        yield from self._gems

    def talk(self, name: str, row: Row) -> Iterator[Model]:
        """Yield a conversation that has a file of its own, of that name."""
        yield from conversation(row, name, self._report)

    def close(self) -> None:
        """Give the space back."""
        self._held.close()


class _Line:
    """One session, while it goes on."""

    def __init__(self, name: str, at: str | None) -> None:
        self._name = name
        self._last: str | None = None
        self._seen = dict[str, int]()
        start = SessionEvent(
            event="session", name=name, created_at=at, origin=origin_at(NAME, name, None, {})
        )
        self.talk = Growing(start)

    def follow(self, found: Activity) -> Iterator[SessionEvent]:
        """Yield what was asked, and each answer; the next question follows the first of them."""
        name = f"{found.at or ''}/{_digest(found.prompt.encode('utf-8', 'replace')).hex()}"
        number = self._seen[name] = self._seen.get(name, 0) + 1
        name += f"/{number}" if number > 1 else ""
        role = "user" if found.is_asked else INSTRUCTIONS
        asked = self._event(role, found.prompt, found.at, name, found.kept)
        yield from self.talk.message(name, self._last, asked)
        self._last = name
        for place, answer in enumerate(found.answers):
            each = f"{name}/answer {place + 1}"
            event = self._event("assistant", answer.text, found.at, each, answer.kept)
            yield from self.talk.message(each, name, event)
            if place == 0:
                self._last = each

    def _event(self, role: str, text: str, at: str | None, name: str, kept: Row) -> SessionEvent:
        return SessionEvent(
            event="message",
            role=role,
            text=text,
            created_at=at,
            origin=origin_at(NAME, name, self._name, kept),
        )


def _asked(title: str, other: re.Pattern[str] | None = None) -> tuple[str, bool, Row]:
    """Return what was asked or done, whether it was asked, and what is kept of its title."""
    found = _VERB.match(title) or (other and other.match(title))
    if not found:
        return title, False, {}
    return title[found.end() :], True, {"title": title}


def _of_html(html: str, more: Row) -> Answer:
    words = words_of(html)
    return Answer(words, more if words == html else {**more, "html": html})


def _answers_in(row: Row) -> list[Answer]:
    found = []
    for number, value in enumerate(list_in(row, "safeHtmlItem")):
        item = row_in(value, "an answer")
        html = item.get("html")
        if type(html) is not str:
            raise MalformedError("this is not text", field=f"safeHtmlItem/{number}/html")
        found.append(_of_html(html, rest_of(item, known=("html",))))
    return found


def _detailed(row: Row) -> tuple[str | None, list[Answer]]:
    """Return what was asked and answered as another form of the export has it."""
    listed = row.get("details")
    pairs = [one for one in listed if type(one) is dict] if type(listed) is list else []
    said = {one.get("name"): one.get("value") for one in pairs if type(one.get("name")) is str}
    request, response = said.get("Request"), said.get("Response")
    if type(request) is not str:
        return None, []
    return request, [Answer(response, {})] if type(response) is str else []


def _conversation_in(*parts: Any) -> str:
    """Return the id of the conversation that is linked to; empty where none is."""
    texts = [one if type(one) is str else msgspec.json.encode(one).decode() for one in parts if one]
    return next((found[1] for one in texts if (found := _LINK.search(one))), "")


def _digest(data: bytes) -> bytes:
    return blake3(data).digest(8)
