"""``AGENTS.md`` and ``CLAUDE.md``: what people tell a coding agent, and a block of memory in it.

What people wrote is an identity entry; files that it names with ``@`` are recorded, and read only
where they are in the same folder. Memory is written between two marks. Everything around them stays
as it is, to the byte, also where a file is there already.
"""

import posixpath
import re
from collections.abc import Iterator
from typing import Any, ClassVar, cast

from satchel.errors import (
    EmptyInputError,
    InputError,
    MalformedError,
    TargetError,
    TargetExistsError,
)
from satchel.formats._chats.archive import ZIP_MAGIC, Archive, File, opened
from satchel.formats._notes.block import Parted, block_of, has_mark, parted
from satchel.formats._notes.bullets import Item, entries_of, items_in, items_of, lines_of
from satchel.formats._notes.folder import text_in
from satchel.formats._notes.losses import count_members, count_records
from satchel.memory.entries import Entry, Identity
from satchel.memory.parts import Component, Evidence, Origin, TrustClass
from satchel.memory.records import Model
from satchel.ports.format import Info, Reading, Traits, Writing
from satchel.ports.place import MOST_WITHIN, Place, Target
from satchel.ports.records import RecordSet
from satchel.seal.records import Sealed

NAME = "agents_md"
INSTRUCTIONS = "instructions"
"""The kind of what people wrote."""

_NAMES = frozenset({"AGENTS.md", "AGENTS.override.md", "CLAUDE.md", "CLAUDE.local.md", "GEMINI.md"})
_ALONE = frozenset({".cursorrules", ".windsurfrules", "copilot-instructions.md"})
"""What other coding agents call theirs; by itself it is the same."""

_RULES = ".claude/rules/"
_HELD = frozenset({"kind", "custom_instructions", "sources"})
_DEEPEST = 5
_AT, _BLOCK, _AROUND = "at", "block", "around"
_CODE = re.compile(r"^```.*?^```[^\n]*$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
_IMPORT = re.compile(r"(?:^|(?<=\s))@((?:~|\.{1,2})?/?[\w./-]*\w)")


class AgentsMd:
    """The format."""

    info: ClassVar[Info] = Info(
        title="AGENTS.md and CLAUDE.md",
        suffixes=("AGENTS.md", "CLAUDE.md", "CLAUDE.local.md"),
        spec="instructions of Codex and Claude Code in 2026, with a Satchel block",
        checked="2026-11-22",
        traits=Traits(
            components=frozenset(Component), exact=True, ordered=False, plain=True, within=True
        ),
        lost_on_writing="Everything but the text and type of memories.",
    )

    def recognises(self, place: Place) -> bool:
        if not place.head.startswith(ZIP_MAGIC):
            is_known = place.path.name in _NAMES | _ALONE
            named = is_known and bool(place.head) and b"\0" not in place.head
            return named or has_mark(place.head.decode("utf-8", "replace"))
        try:
            with opened(place) as archive:
                names = {file.name for file in archive.files}
        except InputError:
            return False
        # With an index, it is the workspace of an agent, and these are notes among others.
        is_other = "MEMORY.md" in names or any(name.endswith(".jsonl") for name in names)
        return not is_other and not names.isdisjoint(_NAMES)

    def read(self, place: Place, reading: Reading) -> Iterator[Model | Sealed]:
        some = False
        with opened(place, reading.limits) as archive:
            for file, text in _files(archive, reading, place):
                try:
                    found = _memories(file, text, reading)
                except InputError as error:
                    error.field = archive.file_of(file) or None
                    reading.refuse(error.located(file=place.name))  # type: ignore[arg-type]
                    continue
                for entry in found:
                    some = True
                    yield entry
        if not some and not reading.report.left_out and not reading.only_ours:
            raise EmptyInputError("the file is empty", file=place.name)

    def write(self, records: RecordSet, target: Target, writing: Writing) -> None:
        report = writing.report
        count_records(records, frozenset(Component), report)
        there, told = _there(target, writing), _told(records)
        kept = frozenset({told.id}) if told is not None else frozenset[str]()
        items = list(_bounded(items_of(records, NAME, report, kept), target))
        if there is not None:
            _count_told(told, there, writing)
            around = there
        else:
            around = _outside(records, told)
            if told is not None:
                count_members(told, _HELD, NAME, report)
        as_it_was = next((one for one in _blocks(records) if list(_items(one)) == items), None)
        block = ""
        if items and as_it_was is not None and there is None:
            block = as_it_was
        elif items:
            block = around.renewed(lines_of(items))
        before, after = around.before, around.after
        data = (before + block + after).encode("utf-8", "surrogateescape")
        if len(data) > MOST_WITHIN:
            raise _too_much(target)
        with target.open() as sink:
            sink.write(data)


# -- reading -------------------------------------------------------------------------------


def _files(archive: Archive, reading: Reading, place: Place) -> Iterator[tuple[File, str]]:
    """Yield the instructions of an input with their text, and the files of it that they name."""
    if len(archive.files) == 1 and archive.files[0].info is None:
        file = archive.files[0]
        if not file.name.endswith(".md") and file.name not in _ALONE:
            problem = "not an archive, and not a Markdown file by its name"
            raise MalformedError(problem, file=place.name, byte=0)
        text = text_in(archive, file, reading, place, MOST_WITHIN)
        _note_imports(list(imports_in(text)), reading)
        yield file, text
        return
    by_path, done = {file.path: file for file in archive.files}, set[str]()
    first = [one for one in archive.files if one.name in _NAMES or _is_rule(one.path)]
    waiting = [(one.path, 0) for one in reversed(first)]
    missing = list[str]()
    while waiting:
        path, depth = waiting.pop()
        if path in done:
            continue
        done.add(path)
        try:
            text = text_in(archive, by_path[path], reading, place, MOST_WITHIN)
        except InputError as error:
            reading.refuse(error)
            continue
        yield by_path[path], text
        for named in imports_in(text):
            led = posixpath.normpath(posixpath.join(posixpath.dirname(path), named))
            if led in by_path and depth < _DEEPEST:
                waiting.append((led, depth + 1))
            elif led not in done:
                missing.append(named)
    _note_imports(missing, reading)
    if others := len(by_path) - len(done):
        reading.report.note(f"files skipped, since they are not instructions: {others}")


def _is_rule(path: str) -> bool:
    return path.endswith(".md") and f"/{_RULES}" in f"/{path}"


def _note_imports(names: list[str], reading: Reading) -> None:
    if names:
        shown = ", ".join(f"@{name}" for name in dict.fromkeys(names[:5]))
        reading.report.note(f"files referenced by the instructions, not read: {shown}")


def imports_in(text: str) -> Iterator[str]:
    """Yield the files that instructions name with ``@``, outside of code."""
    for found in _IMPORT.finditer(_CODE.sub("", text)):
        if "." in found[1].rpartition("/")[2] or found[1].startswith(("~", "/", ".")):
            yield found[1]


def _memories(file: File, text: str, reading: Reading) -> Iterator[Entry]:
    """Return what a file says; damaged marks are seen before the first of it is given."""
    found = parted(text)
    if found.block is not None and file.info is None:
        if found.block != block_of(lines_of(items_in(found.lines())), found.before):
            reading.container[_BLOCK] = found.block
        if found.outside and not found.outside.strip():
            reading.container[_AROUND] = [found.before, found.after]
    if not found.is_as_written:
        reading.report.note("the memory block was edited")
    return _entries(file, found, reading)


def _entries(file: File, found: Parted, reading: Reading) -> Iterator[Entry]:
    outside = found.outside
    if outside.strip() and not reading.only_ours:
        kept: dict[str, Any] = {_AT: len(found.before)} if found.after else {}
        yield Identity(
            kind=INSTRUCTIONS,
            custom_instructions=outside,
            sources=_sources(outside),
            origin=Origin(provider=NAME, id=file.path, as_written=kept, trust=TrustClass.IMPORTED),
        )
    yield from entries_of(items_in(found.lines()), NAME)


def _sources(text: str) -> tuple[Evidence, ...]:
    return tuple(Evidence(kind="import", id=one) for one in dict.fromkeys(imports_in(text)))


def _items(block: str) -> Iterator[Item]:
    return items_in(Parted("", block, "").lines())


# -- writing -------------------------------------------------------------------------------


def _there(target: Target, writing: Writing) -> Parted | None:
    """Return what is in the target.

    Raises:
        TargetError: If its block is damaged.
        TargetExistsError: If somebody changed the block, and that may not be replaced.
    """
    if writing.before is None:
        return None
    try:
        found = parted(writing.before.decode("utf-8", "surrogateescape"))
    except MalformedError as error:
        where = f", line {error.line}" if error.line else ""
        raise TargetError(
            f"{error.message}{where}; nothing was written", file=str(target.path), hint=error.hint
        ) from None
    if not found.is_as_written and not writing.replacing:
        raise TargetExistsError(
            "the text between the markers was edited",
            file=str(target.path),
            hint="Import the file to keep it, or use --overwrite to replace it.",
        )
    return found


def _told(records: RecordSet) -> Sealed | None:
    """Return the instructions of a file, the first where there are several."""
    for record in records.of(Component.IDENTITY):
        entry = cast("Identity", record.model)
        origin = entry.origin
        if (
            entry.kind == INSTRUCTIONS
            and entry.custom_instructions
            and entry.text is None
            and origin is not None
            and origin.provider == NAME
        ):
            return record
    return None


def _count_told(told: Sealed | None, there: Parted, writing: Writing) -> None:
    """Count instructions that the target has others than; what it has stays."""
    said = cast("Identity", told.model).custom_instructions if told is not None else None
    if said != there.outside:
        writing.around = True
        if told is not None:
            reason = "the file has other instructions, which are kept"
            writing.report.lost(told.type, reason, example=told.id)


def _outside(records: RecordSet, told: Sealed | None) -> Parted:
    """Return what is around the block, in a file that is not there yet."""
    if told is None:
        match next(_containers(records, _AROUND), None):
            case [str(before), str(after)] if not (before + after).strip():
                return Parted(before, None, after)
            case _:
                return Parted("", None, "")
    entry = cast("Identity", told.model)
    text = entry.custom_instructions or ""
    at = entry.origin.as_written.get(_AT) if entry.origin is not None else None
    at = at if type(at) is int and 0 <= at <= len(text) else len(text)
    return Parted(text[:at], None, text[at:])


def _bounded(items: Iterator[Item], target: Target) -> Iterator[Item]:
    size = 0
    for item in items:
        size += len(item.text)
        if size > MOST_WITHIN:
            raise _too_much(target)
        yield item


def _too_much(target: Target) -> TargetError:
    return TargetError(
        f"the file would have more than {MOST_WITHIN:,} bytes, more than any agent reads",
        file=str(target.path),
        hint="Narrow the export: --type, --tag, --since.",
    )


def _containers(records: RecordSet, name: str) -> Iterator[Any]:
    """Yield what was kept of files that were read."""
    for source in records.of("source"):
        kept = source.value.get("container", {}).get(name)
        if source.value.get("format") == NAME and kept is not None:
            yield kept


def _blocks(records: RecordSet) -> Iterator[str]:
    """Yield the blocks that were read, as they were."""
    for kept in _containers(records, _BLOCK):
        if isinstance(kept, str) and _is_a_block(kept):
            yield kept


def _is_a_block(text: str) -> bool:
    try:
        return parted(text).block == text
    except MalformedError:
        return False


FORMAT = AgentsMd()
"""What the registry finds."""
