"""A rule of Cursor (``.cursor/rules/NAME.mdc``) that always applies, with memory in it."""

from collections.abc import Iterator
from typing import ClassVar

from satchel.crypto.sealed_records import Sealed
from satchel.errors import EmptyInputError, MalformedError
from satchel.formats._archive import ZIP_MAGIC, open_archive
from satchel.formats._note_folders import text_in
from satchel.formats._notes import (
    Front,
    NoteItem,
    count_records,
    entries_of,
    items_in,
    items_of,
    lines_of,
    split,
    values_in,
)
from satchel.formats._row_lists import sole_container
from satchel.model.records import Model
from satchel.model.values import Component
from satchel.ports.format import (
    MOST_WITHIN,
    Info,
    Location,
    ReadContext,
    Signs,
    Target,
    Traits,
    WriteContext,
)
from satchel.ports.record_set import RecordSet

NAME = "cursor_rules"

_FRONT = """---
description: What was remembered from earlier work
globs:
alwaysApply: true
---

"""
_SIGNS = frozenset({"globs", "alwaysApply"})
_FRONT_MATTER, _BODY = "front", "body"


class CursorRules:
    """The format."""

    info: ClassVar[Info] = Info(
        title="Cursor rule",
        suffixes=(".mdc",),
        signs=Signs(starts=(b"---",)),
        spec="Cursor, .cursor/rules/*.mdc, in 2026",
        checked="2026-11-22",
        traits=Traits(components=frozenset(Component), exact=True, ordered=False, plain=True),
        lost_on_writing="Everything but the text and type of memories.",
    )

    def recognizes(self, location: Location) -> bool:
        if not location.head.startswith((b"---", b"\xef")):
            return False
        front = split(location.head.decode("utf-8", "replace"))
        return front.is_there and not _SIGNS.isdisjoint(values_in(front.raw))

    def read(self, location: Location, reading: ReadContext) -> Iterator[Model | Sealed]:
        front = _front(location, reading)
        lines = _lines(front.body)
        if front.raw != _FRONT:
            reading.container[_FRONT_MATTER] = front.raw
        if front.body != _body(items_in(lines)):
            reading.container[_BODY] = front.body
        some = False
        for entry in entries_of(items_in(lines), NAME):
            some = True
            yield entry
        if not some:
            raise EmptyInputError("the rule is empty", file=location.name)

    def write(self, records: RecordSet, target: Target, writing: WriteContext) -> None:
        count_records(records, frozenset(Component), writing.report)
        container = sole_container(records, NAME)
        before = container.get(_FRONT_MATTER)
        front = before if isinstance(before, str) and split(before).raw == before else _FRONT
        body = container.get(_BODY)
        with target.open() as sink:
            sink.write(front.encode())
            if isinstance(body, str):
                items = list(items_of(records, NAME, writing.report))
                same = list(items_in(_lines(body))) == items
                sink.write((body if same else _body(iter(items))).encode())
                return
            for line in lines_of(items_of(records, NAME, writing.report)):
                sink.write(line.encode() + b"\n")


def _front(location: Location, reading: ReadContext) -> Front:
    with open_archive(location, reading.limits) as archive:
        if location.head.startswith(ZIP_MAGIC):
            raise MalformedError("an archive is not a rule", file=location.name, byte=0)
        text = text_in(archive, archive.files[0], reading, location, MOST_WITHIN)
    front = split(text)
    if not front.is_there:
        raise MalformedError("a rule must start with front matter", file=location.name, line=1)
    return front


def _lines(body: str) -> list[str]:
    return body.removesuffix("\n").split("\n")


def _body(items: Iterator[NoteItem]) -> str:
    return "".join(f"{line}\n" for line in lines_of(items))


FORMAT = CursorRules()
"""The instance that the registry loads."""
