"""``AGENTS.md`` and ``CLAUDE.md``: instructions for coding agents, with a block of memory.

The text of the user is an identity entry. Files that it imports with ``@`` are recorded, and read
only from the same folder. Memory is written between two markers; everything around them is
preserved byte for byte, also in an existing file.
"""

import posixpath
import re
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, NamedTuple, cast

from blake3 import blake3

from satchel.crypto.sealed_records import Sealed
from satchel.errors import (
    EmptyInputError,
    InputError,
    MalformedError,
    TargetError,
    TargetExistsError,
)
from satchel.formats._archive import ZIP_MAGIC, ArchiveFile, ChatArchive, open_archive
from satchel.formats._note_folders import text_in
from satchel.formats._notes import (
    NoteItem,
    count_members,
    count_records,
    entries_of,
    items_in,
    items_of,
    lines_of,
)
from satchel.formats._row_lists import containers_in
from satchel.model.records import Entry, Identity, Model
from satchel.model.values import Component, Evidence, Origin, TrustClass
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

_BEGIN = "<!-- satchel:begin{}; what you change up to satchel:end is replaced -->"
_GAP_NOTE = " (line ends of its own above: {})"
_ANY_MARK = "<!-- satchel:"
_BEGINS = re.compile(r"<!-- satchel:begin(?: \(line ends of its own above: ([12])\))?;[^\n]*-->")
_ENDS = re.compile(r"<!-- satchel:end(?: ([0-9a-f]{16}))? -->")
_HINT = "Restore both markers, each on its own line, or delete both."


class InstructionFile(NamedTuple):
    """A file, and its block."""

    before: str
    block: str | None
    """With its markers, and the line ends above it that were added with it; None for none."""

    after: str

    @property
    def outside(self) -> str:
        """The text outside the block."""
        return self.before + self.after

    def lines(self) -> Iterator[str]:
        """Yield the lines between the markers, even if an editor changed their line ends."""
        return iter(_inside(self.block)[0]) if self.block is not None else iter(())

    def renewed(self, lines: Iterable[str]) -> str:
        """Return the file with other lines in its block, or with a new block."""
        if self.block is None:
            return block_of(lines, self.before)
        above, _, rest = self.block.partition(_ANY_MARK)
        line_end = "\r\n" if rest.partition("\n")[0].endswith("\r") else "\n"
        return _block_text(lines, above.count("\n"), line_end)

    @property
    def is_as_written(self) -> bool:
        """Whether the lines between the markers are unchanged."""
        if self.block is None:
            return True
        lines, items = _inside(self.block)
        return items == _digest(lines) or not any(lines)


def parted(text: str) -> InstructionFile:
    """Find the block of a file.

    Raises:
        MalformedError: If a marker is missing, damaged, or repeated.
    """
    start = end = None
    at = first = 0
    for number, line in enumerate(text.split("\n"), 1):
        after, bare = min(at + len(line) + 1, len(text)), line.rstrip("\r \t")
        if bare.startswith(_ANY_MARK):
            if (begins := _BEGINS.fullmatch(bare)) and start is None:
                line_end = "\r\n" if line.endswith("\r") else "\n"
                start, first = at, number
                for _ in range(int(begins[1] or 0)):
                    start -= len(line_end) * text.endswith(line_end, 0, start)
            elif _ENDS.fullmatch(bare) and start is not None and end is None:
                end = after
            else:
                raise MalformedError("the memory block is damaged", line=number, hint=_HINT)
        at = after
    if start is None:
        return InstructionFile(text, None, "")
    if end is None:
        raise MalformedError("the memory block has no end marker", line=first, hint=_HINT)
    return InstructionFile(text[:start], text[start:end], text[end:])


def has_mark(head: str) -> bool:
    """Return whether a block begins in the first characters of a file."""
    return any(_BEGINS.fullmatch(line.rstrip("\r \t")) for line in head.split("\n"))


def block_of(lines: Iterable[str], before: str) -> str:
    """Return a block of lines, separated from the text before it, with the same line ends."""
    line_end = "\r\n" if before.partition("\n")[0].endswith("\r") else "\n"
    return _block_text(lines, _gap_after(before), line_end)


def _block_text(lines: Iterable[str], gap: int, line_end: str = "\n") -> str:
    """Return a block of lines, with this many line ends above it."""
    written = list(lines)
    begin = _BEGIN.format(_GAP_NOTE.format(gap) if gap else "")
    whole = (begin, *written, f"<!-- satchel:end {_digest(written)} -->", "")
    return gap * line_end + line_end.join(whole)


def _gap_after(before: str) -> int:
    if not before or before.endswith(("\n\n", "\n\r\n")):
        return 0
    return 1 if before.endswith("\n") else 2


def _inside(block: str) -> tuple[list[str], str | None]:
    """Return the lines between the markers, and the digest in the second marker."""
    lines = block.removesuffix("\n").split("\n")
    if all(line.endswith("\r") for line in lines):
        lines = [line.removesuffix("\r") for line in lines]
    start = next(n for n, line in enumerate(lines, 1) if line.startswith(_ANY_MARK))
    end = _ENDS.fullmatch(lines[-1].rstrip("\r \t"))
    return lines[start:-1], end[1] if end is not None else None


def _digest(lines: list[str]) -> str:
    return blake3("\n".join(lines).encode("utf-8", "surrogateescape")).hexdigest(8)


NAME = "agents_md"
INSTRUCTIONS = "instructions"
"""The kind of the user's text."""

_NAMES = frozenset({"AGENTS.md", "AGENTS.override.md", "CLAUDE.md", "CLAUDE.local.md", "GEMINI.md"})
_ALONE = frozenset({".cursorrules", ".windsurfrules", "copilot-instructions.md"})
"""Names of such files of other coding agents, recognized as single files."""

_RULES = ".claude/rules/"
_SUPPORTED = frozenset({"kind", "custom_instructions", "sources"})
_DEEPEST = 5
_AT, _BLOCK, _AROUND = "at", "block", "around"
_CODE = re.compile(r"^```.*?^```[^\n]*$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
_IMPORT = re.compile(r"(?:^|(?<=\s))@((?:~|\.{1,2})?/?[\w./-]*\w)")


class AgentsMd:
    """The format."""

    info: ClassVar[Info] = Info(
        title="AGENTS.md and CLAUDE.md",
        suffixes=("AGENTS.md", "CLAUDE.md", "CLAUDE.local.md"),
        signs=Signs(starts=(ZIP_MAGIC,), texts=((_ANY_MARK.encode(),),), names=(*_NAMES, *_ALONE)),
        spec="instructions of Codex and Claude Code in 2026, with a Satchel block",
        checked="2026-11-22",
        traits=Traits(
            components=frozenset(Component), exact=True, ordered=False, plain=True, within=True
        ),
        lost_on_writing="Everything but the text and type of memories.",
    )

    def recognizes(self, location: Location) -> bool:
        if not location.head.startswith(ZIP_MAGIC):
            is_known = location.path.name in _NAMES | _ALONE
            named = is_known and bool(location.head) and b"\0" not in location.head
            return named or has_mark(location.head.decode("utf-8", "replace"))
        try:
            with open_archive(location) as archive:
                names = {file.name for file in archive.files}
        except InputError:
            return False
        # A folder with an index is an agent's workspace, in which these are notes.
        is_other = "MEMORY.md" in names or any(name.endswith(".jsonl") for name in names)
        return not is_other and not names.isdisjoint(_NAMES)

    def read(self, location: Location, reading: ReadContext) -> Iterator[Model | Sealed]:
        some = False
        with open_archive(location, reading.limits) as archive:
            for file, text in _files(archive, reading, location):
                try:
                    entries = _memories(file, text, reading)
                except InputError as error:
                    error.field = archive.file_of(file) or None
                    reading.refuse(error.located(file=location.name))
                    continue
                for entry in entries:
                    some = True
                    yield entry
        if not some and not reading.report.left_out and not reading.only_ours:
            raise EmptyInputError("the file is empty", file=location.name)

    def write(self, records: RecordSet, target: Target, writing: WriteContext) -> None:
        report = writing.report
        count_records(records, frozenset(Component), report)
        existing, instructions = _existing_file(target, writing), _instructions_record(records)
        exempt = frozenset({instructions.id}) if instructions is not None else frozenset[str]()
        items = list(_bounded(items_of(records, NAME, report, exempt), target))
        if existing is not None:
            _count_instructions(instructions, existing, writing)
            around = existing
        else:
            around = _outside(records, instructions)
            if instructions is not None:
                count_members(instructions, _SUPPORTED, NAME, report)
        unchanged = next((one for one in _blocks(records) if list(_items(one)) == items), None)
        block = ""
        if items and unchanged is not None and existing is None:
            block = unchanged
        elif items:
            block = around.renewed(lines_of(items))
        before, after = around.before, around.after
        data = (before + block + after).encode("utf-8", "surrogateescape")
        if len(data) > MOST_WITHIN:
            raise _too_much(target)
        with target.open() as sink:
            sink.write(data)


# -- reading -------------------------------------------------------------------------------


def _files(
    archive: ChatArchive, reading: ReadContext, location: Location
) -> Iterator[tuple[ArchiveFile, str]]:
    """Yield the instructions of an input with their text, and the files that they import."""
    if len(archive.files) == 1 and archive.files[0].info is None:
        file = archive.files[0]
        if not file.name.endswith(".md") and file.name not in _ALONE:
            problem = "not an archive, and not a Markdown file by its name"
            raise MalformedError(problem, file=location.name, byte=0)
        text = text_in(archive, file, reading, location, MOST_WITHIN)
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
            text = text_in(archive, by_path[path], reading, location, MOST_WITHIN)
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


def _note_imports(names: list[str], reading: ReadContext) -> None:
    if names:
        examples = ", ".join(f"@{name}" for name in dict.fromkeys(names[:5]))
        reading.report.note(f"files referenced by the instructions, not read: {examples}")


def imports_in(text: str) -> Iterator[str]:
    """Yield the files that instructions import with ``@``, outside of code."""
    for match in _IMPORT.finditer(_CODE.sub("", text)):
        if "." in match[1].rpartition("/")[2] or match[1].startswith(("~", "/", ".")):
            yield match[1]


def _memories(file: ArchiveFile, text: str, reading: ReadContext) -> Iterator[Entry]:
    """Return the records of a file; damaged markers are found before the first is returned."""
    parts = parted(text)
    if parts.block is not None and file.info is None:
        if parts.block != block_of(lines_of(items_in(parts.lines())), parts.before):
            reading.container[_BLOCK] = parts.block
        if parts.outside and not parts.outside.strip():
            reading.container[_AROUND] = [parts.before, parts.after]
    if not parts.is_as_written:
        reading.report.note("the memory block was edited")
    return _entries(file, parts, reading)


def _entries(file: ArchiveFile, parts: InstructionFile, reading: ReadContext) -> Iterator[Entry]:
    outside = parts.outside
    if outside.strip() and not reading.only_ours:
        as_written: dict[str, Any] = {_AT: len(parts.before)} if parts.after else {}
        yield Identity(
            kind=INSTRUCTIONS,
            custom_instructions=outside,
            sources=_sources(outside),
            origin=Origin(
                provider=NAME, id=file.path, as_written=as_written, trust=TrustClass.IMPORTED
            ),
        )
    yield from entries_of(items_in(parts.lines()), NAME)


def _sources(text: str) -> tuple[Evidence, ...]:
    return tuple(Evidence(kind="import", id=one) for one in dict.fromkeys(imports_in(text)))


def _items(block: str) -> Iterator[NoteItem]:
    return items_in(InstructionFile("", block, "").lines())


# -- writing -------------------------------------------------------------------------------


def _existing_file(target: Target, writing: WriteContext) -> InstructionFile | None:
    """Return the present file of the target.

    Raises:
        TargetError: If its block is damaged.
        TargetExistsError: If the block was changed, and may not be replaced.
    """
    if writing.before is None:
        return None
    try:
        parts = parted(writing.before.decode("utf-8", "surrogateescape"))
    except MalformedError as error:
        where = f", line {error.line}" if error.line else ""
        raise TargetError(
            f"{error.message}{where}; nothing was written", file=str(target.path), hint=error.hint
        ) from None
    if not parts.is_as_written and not writing.replacing:
        raise TargetExistsError(
            "the text between the markers was edited",
            file=str(target.path),
            hint="Import the file to keep it, or use --overwrite to replace it.",
        )
    return parts


def _instructions_record(records: RecordSet) -> Sealed | None:
    """Return the instructions of a file; of several, the first."""
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


def _count_instructions(
    instructions: Sealed | None, existing: InstructionFile, writing: WriteContext
) -> None:
    """Count instructions that differ from those in the target, which are not replaced."""
    text = (
        cast("Identity", instructions.model).custom_instructions
        if instructions is not None
        else None
    )
    if text != existing.outside:
        writing.around = True
        if instructions is not None:
            reason = "the file has other instructions, which are kept"
            writing.report.lost(instructions.type, reason, example=instructions.id)


def _outside(records: RecordSet, instructions: Sealed | None) -> InstructionFile:
    """Return the text around the block for a new file."""
    if instructions is None:
        match next(_container_members(records, _AROUND), None):
            case [str(before), str(after)] if not (before + after).strip():
                return InstructionFile(before, None, after)
            case _:
                return InstructionFile("", None, "")
    entry = cast("Identity", instructions.model)
    text = entry.custom_instructions or ""
    at = entry.origin.as_written.get(_AT) if entry.origin is not None else None
    at = at if type(at) is int and 0 <= at <= len(text) else len(text)
    return InstructionFile(text[:at], None, text[at:])


def _bounded(items: Iterator[NoteItem], target: Target) -> Iterator[NoteItem]:
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


def _container_members(records: RecordSet, name: str) -> Iterator[Any]:
    """Yield a member of the containers of files that were read."""
    for container in containers_in(records, NAME):
        if name in container:
            yield container[name]


def _blocks(records: RecordSet) -> Iterator[str]:
    """Yield the original blocks that were read."""
    for block in _container_members(records, _BLOCK):
        if isinstance(block, str) and _is_a_block(block):
            yield block


def _is_a_block(text: str) -> bool:
    try:
        return parted(text).block == text
    except MalformedError:
        return False


FORMAT = AgentsMd()
"""The instance that the registry loads."""
