"""What Google Takeout gives out of Gemini: "My Activity", as JSON or as a page, alone or packed.

An activity is a question with its answer, or something else that was done; other answers become
forks. What names its conversation is a session with it; all else of one day (UTC) is one session,
since Google does not say what belongs together. Activities of other products are counted as lost.
The export has no memories. Of a page, times are understood where they are English and their zone is
certain; they are always kept as they were written.
"""

import re
from collections.abc import Iterator
from contextlib import closing
from typing import ClassVar

from satchel.errors import InputError
from satchel.formats._chats.activities import Activities
from satchel.formats._chats.archive import ZIP_MAGIC, Archive, File, opened
from satchel.formats._chats.fields import OfRows, from_files, read_only, require_some
from satchel.formats._chats.pages import CARD, cards
from satchel.formats._sniffing import members
from satchel.memory.records import Model
from satchel.ports.format import Info, Reading, Traits, Writing
from satchel.ports.place import HEAD_BYTES, Place, Target
from satchel.ports.records import RecordSet
from satchel.seal.records import Sealed

_MEMBERS = frozenset({b"header", b"title", b"time"})
_HEADER = re.compile(rb'"header"\s*:\s*"[^"]{0,80}(?:Gemini|Bard)')
_PAGE = re.compile(rb"\s*(?:<!doctype html[^<>]*>\s*)?<html\b", re.IGNORECASE)
_OF_GEMINI = re.compile(rb'"header-cell[^<>]*>\s*<p[^<>]*>[^<]{0,80}(?:Gemini|Bard)')
_STYLE = 1 << 20
"""How much of a page is looked at: it begins with its style."""

_LOOKED_AT = 64


class Gemini:
    """The format."""

    info: ClassVar[Info] = Info(
        title="Gemini activity (Google Takeout)",
        suffixes=(),
        spec="Google Takeout, My Activity of Gemini Apps, JSON and HTML, to 2026",
        checked="2026-11-22",
        traits=Traits(components=frozenset(), writes=False),
    )

    def recognises(self, place: Place) -> bool:
        if not (place.head.startswith(ZIP_MAGIC) or _may_be(place.head)):
            return False
        try:
            with opened(place) as archive:
                named = [one for one in archive.files if _may_have(one)]
                return any(_kind(archive, file) for file in named[:_LOOKED_AT])
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
                if kinds[file.path] == "page":
                    _take_page(archive, file, reading, place, found)
            by_file: dict[str, OfRows | None] = {
                path: found.row if kind == "json" else None
                for path, kind in kinds.items()
                if kind != "page"
            }
            yield from from_files(archive, reading, place, by_file)
            for record in found.events():
                some = True
                yield record
        require_some(some, place)

    def write(self, records: RecordSet, target: Target, writing: Writing) -> None:
        del records, target, writing
        read_only("an export of Gemini")


def _take_page(
    archive: Archive, file: File, reading: Reading, place: Place, found: Activities
) -> None:
    number, where = 0, archive.file_of(file)
    try:
        with archive.stream(file) as stream:
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
        if not _PAGE.match(head):
            return ""
        while len(head) < _STYLE and (more := stream.read(_STYLE - len(head))):
            head += more
    return "page" if CARD in head and _OF_GEMINI.search(head) else ""


def _may_have(file: File) -> bool:
    return file.info is None or file.name.endswith((".json", ".html"))


def _may_be(head: bytes) -> bool:
    return _is_list(head) or _PAGE.match(head) is not None


def _is_list(head: bytes) -> bool:
    names = {path[1] for path, _ in members(head) if len(path) == 2 and path[0] == 0}  # noqa: PLR2004
    return names >= _MEMBERS and _HEADER.search(head) is not None


FORMAT = Gemini()
"""What the registry finds."""
