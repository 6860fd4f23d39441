"""A person's Gems, which Google Takeout has as one page: a name, instructions, links to files."""

import re
from collections.abc import Iterator
from typing import BinaryIO

from satchel.errors import LimitError, MalformedError
from satchel.formats._chats.google.pages import words_of
from satchel.formats._chats.threads import origin_at
from satchel.memory.entries import Identity
from satchel.memory.parts import Scope
from satchel.memory.records import Model

NAME = "gemini"

_LABEL = re.compile(r"<b>([^<>]{1,60}):\s*</b>")
_CHUNK = 1 << 18
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
