"""A memory folder of Letta Code (MemFS): Markdown files with a git history.

Files below ``system`` are always in the context, others by their description; a skill is
``skills/NAME/SKILL.md``. A file's front matter has a ``description``, and may have ``read_only``
and the older ``limit``; the repository's hook refuses others, so none are written. Earlier texts of
a file are read from the history, as data (``connectors._git``). Files are written, but not
committed: that is up to the owner of the repository.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from satchel.connectors._address import Kind
from satchel.connectors._git import Repository
from satchel.crypto.sealed_records import Sealed
from satchel.errors import InputError, LimitError, MalformedError, PathRefusedError, UnreadableError
from satchel.formats._notes import slug, spelled, split, summary, values_in
from satchel.formats.letta import BLOCK, MEMFS, NAME, PERSONA, SELF
from satchel.model.records import Entry, Identity, Procedural, Semantic
from satchel.model.values import Component, Origin, TrustClass
from satchel.ports.format import (
    ConnectorOptions,
    Info,
    Page,
    PastVersion,
    ReadContext,
    Traits,
    WriteResult,
)
from satchel.ports.record_set import Report
from satchel.runtime.contained_folder import ContainedFolder, parts_of

DESCRIPTION = "description"
_READ_ONLY, _LIMIT, _SKILL = "read_only", "limit", "name"
_NO_FIELD = "a Letta memory file has no such field"
_HELD = frozenset({"id", "nonce", "type", "kind", "text", "origin"})
_is_skill = re.compile(r"skills/([^/]+)/SKILL\.md").fullmatch


def entry_of(path: str, text: str, began: str | None, changed: str | None) -> Entry:
    """Return the memory in a file.

    Args:
        path: Its path in the folder.
        text: Its whole text.
        began: When it first appeared in the history; None if unknown.
        changed: When it got this text; None if unknown.
    """
    front = split(text)
    values = values_in(front.raw) if front.is_there else {}
    members: dict[str, Any] = {name: values[name] for name in _known_members(values)}
    words = front.body.removesuffix("\n")
    end = "\n" if front.body.endswith("\n") else ""
    if front.raw != _front(path, words, members):
        members["front"] = front.raw
    if end != "\n":
        members["end"] = end
    memory_class = _class_of(path)
    return memory_class(
        kind=BLOCK,
        text=words,
        created_at=began,
        updated_at=changed,
        origin=Origin(provider=MEMFS, id=path, as_written=members, trust=TrustClass.IMPORTED),
    )


def _known_members(values: dict[str, Any]) -> list[str]:
    """Return the members of front matter that have a meaning to Letta, and are valid."""
    names = [name for name in (DESCRIPTION, _SKILL) if type(values.get(name)) is str]
    names += [_READ_ONLY] if type(values.get(_READ_ONLY)) is bool else []
    return names + ([_LIMIT] if type(values.get(_LIMIT)) is int else [])


def _class_of(path: str) -> type[Semantic] | type[Identity] | type[Procedural]:
    if _is_skill(path):
        return Procedural
    label = path.removeprefix("system/").removesuffix(".md")
    return Identity if path.startswith("system/") and SELF.fullmatch(label) else Semantic


def _front(path: str, words: str, members: dict[str, Any]) -> str:
    """Return front matter that Letta accepts: a description, and Letta's other members."""
    lines = ["---"]
    if skill := _is_skill(path):
        lines.append(f"{_SKILL}: {spelled(members.get(_SKILL) or skill[1])}")
    lines.append(f"{DESCRIPTION}: {spelled(members.get(DESCRIPTION) or summary(words) or PERSONA)}")
    lines += [
        f"{name}: {spelled(members[name])}" for name in (_LIMIT, _READ_ONLY) if members.get(name)
    ]
    return "\n".join((*lines, "---", "", ""))


def usual_for(entry: Entry, identity: str) -> str:
    """Return an unused path for a memory without a path."""
    name = f"{slug(entry.text or '')}-{identity.rpartition(':')[2][:8]}"
    if isinstance(entry, Procedural):
        return f"skills/{name}/SKILL.md"
    return f"system/{PERSONA}-{name}.md" if isinstance(entry, Identity) else f"{name}.md"


def path_of(entry: Entry, usual: str) -> str:
    """Return the path of a memory's file: its previous one, or one below ``system`` for a block."""
    origin = entry.origin
    if origin is None or origin.id is None:
        return usual
    if origin.provider == MEMFS:
        path = origin.id
    elif origin.provider == NAME and entry.kind == BLOCK:
        path = f"system/{origin.id}.md"
    else:
        return usual
    try:
        parts = parts_of(path)
    except PathRefusedError:
        return usual
    hidden = any(part.startswith(".") or not part.isprintable() for part in parts)
    return usual if hidden or not path.endswith(".md") else path


def file_of(record: Sealed, entry: Entry, path: str, report: Report) -> str:
    """Return the file of a memory; fields that it cannot hold are counted as lost."""
    origin, words = entry.origin, entry.text or ""
    known = origin is not None and origin.provider in {MEMFS, NAME}
    members = origin.as_written if known and origin is not None else {}
    front, end = (
        _front(path, words, {name: members[name] for name in _known_members(members)}),
        "\n",
    )
    if origin is not None and origin.provider == MEMFS and origin.id == path:
        raw = members.get("front", front)
        again = split(f"{raw}{words}")
        if isinstance(raw, str) and (again.raw, again.body) == (raw, words):
            front, end = raw, members.get("end", "\n") or ""
    _count(record, entry, path, report)
    return f"{front}{words}{end}"


def _count(record: Sealed, entry: Entry, path: str, report: Report) -> None:
    value, origin = record.value, entry.origin
    times = {"created_at", "updated_at"} if origin and origin.provider == MEMFS else set[str]()
    lost = dict.fromkeys(sorted(value.keys() - _HELD - times), _NO_FIELD)
    if type(entry) is not _class_of(path):
        lost["type"] = "its path implies another kind"
    if entry.kind not in (None, BLOCK):
        lost["kind"] = _NO_FIELD
    if origin is not None and origin.provider not in {MEMFS, NAME}:
        lost["origin"] = "a file cannot record provenance"
    for name, reason in lost.items():
        report.lost(name, reason, example=record.id)


SCHEME = "memfs:"
SYSTEM = "system"
_ENDING = ".md"
_TOGETHER = 64
_MOST_FILES, _DEEPEST = 100_000, 16
_LOOKED_AT, _LOOKED_BYTES = 32, 65_536
_CURSOR = "files/"
_OTHER_VERSION = "its path has other text; --overwrite replaces it"
_KIND = Kind(SCHEME, "folder of Letta's memory", frozenset(), "memfs:///path/to/folder")


class _EarlierText(NamedTuple):
    """An earlier text of a file."""

    text: str
    since: str
    gone: str | None = None
    """When it was deleted; None if it was not."""


_Version = tuple[str, str]
"""The hash of a content, None if the file was deleted; and when it was committed."""


@dataclass(frozen=True, slots=True)
class MemfsAddress:
    """The address of a folder: ``memfs:///path/to/folder``, or a plain path."""

    folder: Path

    @classmethod
    def read(cls, text: str) -> "MemfsAddress":
        """Parse an address.

        Raises:
            UsageError: If it is not valid.
        """
        return cls(_KIND.read(text)[0])


def is_memfs(folder: Path) -> bool:
    """Return whether a folder is like a memory folder: files with descriptions in ``system``."""
    try:
        if not (folder / SYSTEM).is_dir():
            return False
        with ContainedFolder(folder / SYSTEM) as memory:
            names = [n for n, kind in memory.listing() if kind == "file" and n.endswith(_ENDING)]
            for name in names[:_LOOKED_AT]:
                with memory.open(name) as stream:
                    front = split(stream.read(_LOOKED_BYTES).decode("utf-8", "replace"))
                if front.is_there and DESCRIPTION in values_in(front.raw):
                    return True
    except (InputError, PathRefusedError, OSError):
        return False
    return False


class LettaMemfs:
    """The files of a folder.

    Args:
        address: Its address.
        options: How to open it.

    Raises:
        UnreadableError: If it does not exist.
        PathRefusedError: If it is a link.
        LimitError: If it has too many files.
    """

    info: ClassVar[Info] = Info(
        title="Letta MemFS folder",
        suffixes=(),
        spec="Letta Code 0.34 MemFS: Markdown with front matter, in git",
        checked="2026-11-23",
        traits=Traits(
            components=frozenset({Component.SEMANTIC, Component.IDENTITY, Component.PROCEDURAL}),
            exact=True,
            streams=True,
        ),
        lost_on_writing=(
            "Everything but the text, a description, and the read-only flag: times,"
            " tags, kinds, metadata, scope, provenance and edges."
        ),
    )

    def __init__(self, address: MemfsAddress, options: ConnectorOptions) -> None:
        self.address = address
        self._options = options
        self._folder: ContainedFolder | None = None
        self._history: Repository | None = None
        self._versions = dict[str, list[_Version]]()
        self._no_history: str | None = None
        self._odd = list[str]()
        self._seen = 0
        self._paths = list[str]()
        self._files = set[str]()
        self._given = set[str]()
        if options.dry_run and not address.folder.exists():
            return
        if not options.writes and not address.folder.exists():
            raise UnreadableError("no such folder", file=str(address.folder))
        self._folder = ContainedFolder(
            address.folder, create=options.writes and not options.dry_run
        )
        try:
            self._scan(with_history=not options.writes)
        except BaseException:
            self.close()
            raise

    # -- reading -------------------------------------------------------------------------------

    def _scan(self, *, with_history: bool) -> None:
        """Find the files and their earlier texts."""
        self._files = set(self._walk(()))
        if with_history and ".git" in {name for name, _ in self._memory_folder.listing()}:
            try:
                self._history = Repository(self._memory_folder)
                self._versions = _versions(self._history)
            except (InputError, PathRefusedError) as error:
                self._versions, self._no_history = {}, error.message
        gone = self._versions.keys() if self._options.include_deleted else set[str]()
        self._paths = sorted(self._files | gone)

    @property
    def _memory_folder(self) -> ContainedFolder:
        assert self._folder is not None  # noqa: S101 - the caller opened it
        return self._folder

    def _walk(self, below: tuple[str, ...]) -> Iterator[str]:
        if len(below) > _DEEPEST:
            raise LimitError(f"folders can be nested at most {_DEEPEST} deep", file="/".join(below))
        for name, kind in self._memory_folder.listing(below):
            self._seen += 1
            if self._seen > _MOST_FILES:
                raise LimitError(f"a folder can have at most {_MOST_FILES:,} files")
            path = "/".join((*below, name))
            if name.startswith("."):
                continue
            if kind == "folder":
                yield from self._walk((*below, name))
            elif kind == "file" and name.endswith(_ENDING):
                yield path
            else:
                self._odd.append(path)

    def page(self, cursor: str | None, report: Report) -> Page:
        """List files from ``cursor``, each with its earlier texts."""
        start = 0 if cursor is None else self._start(cursor)
        if cursor is None:
            self._report_problems(report)
        refuse = ReadContext(report=report, skip_bad=self._options.skip_bad).refuse
        items, past = list[Entry](), list[PastVersion]()
        for path in self._paths[start : start + _TOGETHER]:
            try:
                entry, before = self._read(path, report)
            except InputError as error:
                error.field = path
                refuse(error.located(file=str(self.address.folder)))
                continue
            past += before
            items += [entry] if entry is not None else []
        following = start + _TOGETHER
        return Page(items, f"{_CURSOR}{following}" if following < len(self._paths) else None, past)

    def _start(self, cursor: str) -> int:
        number = cursor.removeprefix(_CURSOR)
        if cursor.startswith(_CURSOR) and number.isdecimal() and number.isascii():
            start = int(number[:9])
            if 0 < start < len(self._paths) and start % _TOGETHER == 0 and str(start) == number:
                return start
        raise MalformedError("no page starts at this cursor", field="cursor")

    def _report_problems(self, report: Report) -> None:
        for path in self._odd:
            report.lost("file", "neither a folder nor Markdown", example=path[:200])
        if self._no_history is not None:
            reason = f"the history cannot be read: {self._no_history}"
            report.lost("history", reason, example=str(self.address.folder))

    def _read(self, path: str, report: Report) -> tuple[Entry | None, list[PastVersion]]:
        """Return a file as a memory, with its earlier versions."""
        text = None
        if path in self._files:
            text = self._decoded(
                self._memory_folder.read(path, limit=self._options.limits.entry_bytes)
            )
        versions = self._versions.get(path, [])
        began = versions[0][1] if versions else None
        texts, changed = self._earlier_texts(path, report), None
        if texts and texts[-1].text == text:
            changed = texts.pop().since
        past = list[PastVersion]()
        for number, each in enumerate(texts):
            is_last = number == len(texts) - 1
            ended = (changed or each.gone) if is_last else texts[number + 1].since
            entry = entry_of(path, each.text, began, each.since)
            past.append(
                PastVersion(entry, "deleted" if is_last and text is None else "superseded", ended)
            )
        return (entry_of(path, text, began, changed) if text is not None else None), past

    def _earlier_texts(self, path: str, report: Report) -> list["_EarlierText"]:
        """Return the texts of a file in its history, oldest first."""
        texts = list[_EarlierText]()
        for content, time in self._versions.get(path, []):
            if not content:
                texts[-1:] = [each._replace(gone=time) for each in texts[-1:]]
                continue
            try:
                text = self._decoded(self._blob(content))
            except InputError as error:
                report.lost("history", error.message, example=path[:200])
                continue
            if not texts or texts[-1].text != text:
                texts.append(_EarlierText(text, time))
        return texts

    def _blob(self, name: str) -> bytes:
        assert self._history is not None  # noqa: S101 - it is where the version is from
        return self._history.blob(name)

    def _decoded(self, data: bytes) -> str:
        if len(data) > self._options.limits.entry_bytes:
            raise LimitError(
                f"a memory can have at most {self._options.limits.entry_bytes:,} bytes"
            )
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise MalformedError("the text is not UTF-8", byte=error.start) from None

    # -- writing -------------------------------------------------------------------------------

    def take(self, batch: Sequence[Sealed], report: Report) -> Sequence[WriteResult]:
        """Write files, each of them atomically."""
        return [self._write_record(record, report) for record in batch]

    def _write_record(self, record: Sealed, report: Report) -> WriteResult:
        entry = record.model
        if not isinstance(entry, Entry) or entry.text is None:
            return WriteResult(record.id, None, "a Letta memory file must be text")
        path = path_of(entry, usual_for(entry, record.id))
        if path in self._given:  # by another record of this transfer
            path = usual_for(entry, record.id)
            report.lost("origin/id", "another memory has its path", example=record.id)
        text = file_of(record, entry, path, report)
        existing = None
        if self._folder is not None:
            try:
                existing = self._memory_folder.read(path, limit=self._options.limits.entry_bytes)
            except UnreadableError:
                existing = None
            except InputError as error:
                return WriteResult(record.id, None, error.message)
        self._given.add(path)
        if existing == text.encode():
            return WriteResult(record.id, path, known=True)
        if existing is not None and not self._options.overwrite:
            return WriteResult(record.id, None, _OTHER_VERSION)
        if not self._options.dry_run:
            if "/" in path:
                self._memory_folder.make_folder(path.rpartition("/")[0])
            self._memory_folder.write(path, text.encode())
            self._files.add(path)
            self._paths = sorted(self._files)
        return WriteResult(record.id, path)

    def close(self) -> None:
        """Close the files."""
        if self._history is not None:
            self._history.close()
        if self._folder is not None:
            self._folder.close()


def _versions(history: Repository) -> dict[str, list[_Version]]:
    """Return the versions of each path, oldest first; a deleted one ends without content."""
    versions = dict[str, list[_Version]]()
    before = dict[str, str]()
    for commit in history.commits():
        if commit.files is not before:
            for path in before.keys() - commit.files.keys():
                versions[path].append(("", commit.time))
            for path, content in commit.files.items():
                if before.get(path) != content:
                    versions.setdefault(path, []).append((content, commit.time))
        before = commit.files
    return versions
