"""What Google Takeout gives out of Gemini: "My Activity", conversations, Gems; alone or packed.

An activity is a question with its answer, or something else that was done; other answers become
forks. What names its conversation is a session with it; all else of one day (UTC) is one session,
since Google does not say what belongs together. Activities of other products are counted as lost.
Conversations that have files of their own (``Gemini in Workspace``) are sessions, Gems are who an
assistant is to be. The export has no memories. Of a page, times are understood where their language
is known and their zone is certain; they are always kept as they were written.
"""

import re
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from itertools import chain
from typing import ClassVar

from satchel.errors import InputError
from satchel.formats._chats.archive import ZIP_MAGIC, Archive, File, likely, opened
from satchel.formats._chats.fields import OfRows, from_files, read_only, require_some
from satchel.formats._chats.google.activities import Activities
from satchel.formats._chats.google.gems import has_gems, whole
from satchel.formats._chats.google.pages import CARD, cards
from satchel.formats._sniffing import members
from satchel.memory.parts import Component
from satchel.memory.records import Model
from satchel.ports.format import Info, Reading, Traits, Writing
from satchel.ports.place import HEAD_BYTES, Place, Target
from satchel.ports.records import RecordSet
from satchel.seal.records import Sealed

_MEMBERS = frozenset({b"header", b"title"})
_GEMS = re.compile(r"gems[^/]*\.html\Z", re.IGNORECASE)
_MOST_GEMS = 1 << 24
_PAGES = ("page", "gems")
_HEADER = re.compile(rb'"header"\s*:\s*"[^"]{0,80}(?:Gemini|Bard)')
_PAGE = re.compile(rb"\s*(?:<!doctype html[^<>]*>\s*)?<html\b", re.IGNORECASE)
_OF_GEMINI = re.compile(rb'"header-cell[^<>]*>\s*<p[^<>]*>[^<]{0,80}(?:Gemini|Bard)')
_STYLE = 1 << 20
"""How much of a page is looked at: it begins with its style."""


class Gemini:
    """The format."""

    info: ClassVar[Info] = Info(
        title="Gemini activity (Google Takeout)",
        suffixes=(),
        spec="Google Takeout, My Activity of Gemini Apps, JSON and HTML, to 2026",
        checked="2026-11-22",
        traits=Traits(components=frozenset({Component.IDENTITY}), writes=False, personal=True),
    )

    def recognises(self, place: Place) -> bool:
        if not (place.head.startswith(ZIP_MAGIC) or _may_be(place)):
            return False
        try:
            with opened(place) as archive:
                named = [one for one in archive.files if _may_have(one)]
                looked = likely(named, "gemini", "bard")
                return any(_kind(archive, file) for file in looked)
        except InputError:
            return False

    def read(self, place: Place, reading: Reading) -> Iterator[Model | Sealed]:
        reading.linked = reading.chained = True
        some = False
        with closing(Activities(reading.report)) as found, opened(place, reading.limits) as archive:
            kinds = {file.path: _kind(archive, file) for file in archive.files}
            if len(kinds) == 1:  # what it is said to be
                kinds = {path: kind or "json" for path, kind in kinds.items()}
            for file in archive.files:
                if kinds[file.path] in _PAGES:
                    _take_page(archive, file, reading, place, found, kinds[file.path])
            by_file: dict[str, OfRows | None] = {
                file.path: _taking(file, kinds[file.path], found)
                for file in archive.files
                if kinds[file.path] not in _PAGES
            }
            others = {path for path, kind in kinds.items() if not kind and not _is_ours(path)}
            read = from_files(archive, reading, place, by_file, other_products=others)
            for record in chain(read, found.events(), found.rest()):
                some = True
                yield record
        require_some(some, place)

    def write(self, records: RecordSet, target: Target, writing: Writing) -> None:
        del records, target, writing
        read_only("a Gemini export")


def _is_ours(path: str) -> bool:
    """Tell whether a path in an export of Google's names this product, now or as it was called."""
    return any(name in path.lower() for name in ("gemini", "bard"))


def _taking(file: File, kind: str, found: Activities) -> OfRows | None:
    if kind == "talk":
        return partial(found.talk, file.name.rpartition(".")[0] or file.name)
    return found.row if kind == "json" else None


def _take_page(
    archive: Archive, file: File, reading: Reading, place: Place, found: Activities, kind: str
) -> None:
    number, where = 0, archive.file_of(file)
    try:
        with archive.stream(file) as stream:
            if kind == "gems":
                found.gems(whole(stream, _MOST_GEMS))
                return
            for number, card in enumerate(cards(stream, reading.limits.line_bytes)):
                if isinstance(card, InputError):
                    card.field = "/".join(filter(None, (where, str(number))))
                    reading.refuse(card.located(file=place.name))  # type: ignore[arg-type]
                else:
                    found.card(card)
    except InputError as error:
        error.field = error.field or where or str(number)
        reading.refuse(error.located(file=place.name))  # type: ignore[arg-type]


def _kind(archive: Archive, file: File) -> str:
    """Return what a file is: by its contents, not by its name; empty for nothing of Gemini's."""
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


def _may_have(file: File) -> bool:
    return file.info is None or file.ends((".json", ".html", ".txt"))


def _may_be(place: Place) -> bool:
    head = place.head
    is_gems = _GEMS.search(place.path.name) is not None and head.lstrip().startswith(b"<")
    return is_gems or _is_list(head) or _is_talk(head) or _PAGE.match(head) is not None


def _is_talk(head: bytes) -> bool:
    return any(path == (b"conversation_turns",) for path, _ in members(head))


def _is_list(head: bytes) -> bool:
    names = {path[1] for path, _ in members(head) if len(path) == 2 and path[0] == 0}  # noqa: PLR2004
    return names >= _MEMBERS and _HEADER.search(head) is not None


FORMAT = Gemini()
"""What the registry finds."""
