"""Pages of HTML: the words in them, and the activities of Google's "My Activity" as a page.

Read without a parser's tree: what is between two marks is text, whatever the page is otherwise, so
a broken or hostile one costs no more than its length.
"""

import re
from collections.abc import Iterator
from html import unescape
from typing import BinaryIO, NamedTuple

from satchel.errors import LimitError, MalformedError
from satchel.formats._chats.threads import origin_at
from satchel.model.records import Identity, Model
from satchel.model.values import Scope

CARD = b'<div class="outer-cell'
"""What each activity begins with."""

_FINISH = b"</html>"
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
    """One activity of a page, each part as its HTML."""

    header: str
    title: str
    when: str
    """The time, as it is written; empty where there is none."""

    answer: str
    caption: str
    """What is said below: products, links, settings."""


def cards(stream: BinaryIO, most: int) -> Iterator[Card | MalformedError]:
    """Yield the activities of a page; an error in the place of one that is none.

    Args:
        stream: The page.
        most: Bytes that one activity may have.

    Raises:
        LimitError: If one has more.
        MalformedError: If the page has no end.
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
            # Before the first there is as much style as they like.
            rest = first if is_inside else first[-len(CARD) :]
        if len(rest) > most:
            raise LimitError(f"an activity is longer than {most} bytes", field="activity")
    if not rest.rstrip().endswith(_FINISH):
        raise MalformedError("the page is truncated", field="activity")
    if is_inside:
        yield _card(rest)


def _card(data: bytes) -> Card | MalformedError:
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        return MalformedError("this is not UTF-8", byte=error.start)
    ends = [*_CELL.finditer(text)]
    starts = [one.start() for one in ends[1:]] + [len(text)]
    cells = [(one[1], text[one.end() : end]) for one, end in zip(ends, starts, strict=True)]
    contents = [cell for kind, cell in cells if kind == "content-cell"]
    if not contents:
        return MalformedError("an activity without contents", field="activity")
    header = next((words_of(cell) for kind, cell in cells if kind == "header-cell"), "")
    parts = _BREAK.split(contents[0])
    at = next((n for n, one in enumerate(parts) if n and _WHEN.fullmatch(_plain(one))), 0)
    caption = words_of(" ".join(contents[1:]))
    if not at:
        return Card(header, contents[0], "", "", caption)
    title, answer = "<br>".join(parts[:at]), "<br>".join(parts[at + 1 :])
    answer = answer.rstrip().removesuffix("</div>")
    return Card(header, title, _plain(parts[at]), answer, caption)


def _plain(text: str) -> str:
    return _SPACES.sub(" ", unescape(text).replace("\u202f", " ").replace("\xa0", " ")).strip()


def words_of(html: str) -> str:
    """Return what a person reads in HTML: its text, with lines where it shows lines."""
    out, kept, end = list[str](), 0, 0
    for tag in _TAG.finditer(html):
        _add(out, html[end : tag.start()], is_kept=kept > 0)
        end, name = tag.end(), tag[2].lower()
        if name == "pre":
            kept = max(0, kept + (-1 if tag[1] else 1))
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
    _add(out, html[end:], is_kept=kept > 0)
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
_AROUND = re.compile(r"(?:<!doctype html[^<>]*>\s*)?<(div|html)\b", re.IGNORECASE)
_LINKED = re.compile(r"<a [^<>]*>[^<>]*</a>")
_NEEDED = 2
"""Labels that a Gem has without files: its name, its instructions."""

_LINK = re.compile(r'<a href="([^"<>]{1,2000})"')


def whole(stream: BinaryIO, most: int) -> str:
    """Return a page.

    Raises:
        LimitError: If it has more bytes.
        MalformedError: If it is not UTF-8, or cut.
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
    around = _AROUND.match(page)
    if around is not None and not page.endswith(f"</{around[1]}>"):
        raise MalformedError("the page is truncated", field="gem")
    return page


def has_gems(head: str) -> bool:
    """Tell whether a page begins with a Gem."""
    return len(_LABEL.findall(head)) > 1 and "<b>" in head[: head.find("</b>")]


def gems_in(page: str) -> Iterator[Model]:
    """Yield the Gems of a page: who each is to be. What is first said of one begins each.

    Args:
        page: The page. The words before a colon are in the person's language.
    """
    labels = list(_LABEL.finditer(page))
    starts = [number for number, one in enumerate(labels) if one[1] == labels[0][1]]
    for number, after in zip(starts, [*starts[1:], len(labels)], strict=True):
        end = labels[after].start() if after < len(labels) else len(page)
        mine = labels[number:after]
        name = words_of(page[mine[0].end() : mine[1].start() if len(mine) > 1 else end])
        files = page[mine[-1].end() : end]
        has_files = len(mine) > _NEEDED and not words_of(_LINKED.sub("", files))
        told = page[mine[1].end() : mine[-1].start() if has_files else end] if mine[1:] else ""
        links = _LINK.findall(files) if has_files else []
        yield Identity(
            kind="gem",
            custom_instructions=words_of(told) or None,
            tags=(name,) if name else (),
            scope=Scope(namespace=("gems", name or "gem")),
            origin=origin_at(NAME, f"gem/{name}", None, {"links": links} if links else {}),
        )
