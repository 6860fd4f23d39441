"""The stored index of source trees: updates, which read changed files only, and reads.

A file with an unchanged stamp is not opened, one with an unchanged digest is not parsed. An update
writes part by part, each durable on its own; until the last one the head is marked incomplete, and
the next update rebuilds the names from the facts. So an interrupted update is resumed.
"""

from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any, TypeVar
from zlib import crc32

import msgspec

from satchel.code_graph.facts import CodeNode, CodeSource, Facts, SourceFile, names_of
from satchel.code_graph.languages.language import Language, language_called
from satchel.errors import ChangedError, InputError, MissingExtraError, StoreError
from satchel.ledger.ledger import Ledger
from satchel.model.values import now, resolved
from satchel.ports.code_context import HEADS
from satchel.ports.store import Store, Writer
from satchel.runtime.files import Stamp

FILES, FACTS, NAMES = "files", "facts", "names"

MAKE = 1
"""Version of the parsers: incremented when a file would have other facts; then all files are read
again."""

FILES_A_PART, MOST_PARTS = 8, 4096

Side = Callable[[str], Mapping[str, bytes]]
"""Returns unlogged values of a bank by prefix of their names."""

_T = TypeVar("_T")


class TreeHead(msgspec.Struct, frozen=True, kw_only=True):
    """The head of a stored tree."""

    name: str
    root: str
    """The path that it was read from."""

    kind: str
    """As ``CodeSource.kind``."""

    number: int
    parts: int
    """A power of two."""

    make: int
    round: int
    """Incremented with every write, so that concurrent updates detect each other."""

    whole: bool
    """False during an update, and after an interrupted one."""

    files: int = 0
    symbols: int = 0
    at: str = ""
    """When it was last updated."""


class IndexedFile(msgspec.Struct, frozen=True, array_like=True):
    """The stamp and digest of an indexed file."""

    stamp: Stamp | None
    digest: bytes
    language: str
    symbols: int
    finding: str = ""


Names = dict[str, tuple[list[int], list[int]]]
"""By name: the parts that define it, and those that use it."""


def stored_heads(side: Side, *, damaged: bool = False) -> list[TreeHead]:
    """Return the trees of a bank, by name.

    Args:
        side: Returns the stored values.
        damaged: Skip damaged heads, to rebuild them.

    Raises:
        StoreError: If a head is damaged.
    """
    heads = list[TreeHead]()
    for value in side(HEADS).values():
        try:
            heads.append(_decoded(value, TreeHead, msgspec.json))
        except StoreError:
            if not damaged:
                raise
    return sorted(heads, key=lambda head: head.name)


def head_name(number: int) -> str:
    """Return the name of the value that holds a tree's head."""
    return f"{HEADS}{number:04x}"


def part_name(sort: str, number: int, part: int) -> str:
    """Return the name of the value that holds one part of a tree."""
    return f"code/{sort}/{number:04x}/{part:03x}"


def all_names(side: Side, number: int) -> list[str]:
    """Return the names of all values of a tree."""
    names = [head_name(number)]
    for sort in (FILES, FACTS, NAMES):
        names += side(f"code/{sort}/{number:04x}/")
    return names


def part_of(text: str, parts: int) -> int:
    """Return which part a path or a name belongs to."""
    return crc32(text.encode("utf-8", "surrogatepass")) & (parts - 1)


def parts_for(files: int) -> int:
    """Return the number of parts for a number of files."""
    least = max(1, files // FILES_A_PART)
    return min(MOST_PARTS, 1 << (least - 1).bit_length())


def files_of(side: Side, head: TreeHead) -> dict[str, IndexedFile]:
    """Return all indexed files of a tree, by path."""
    files = dict[str, IndexedFile]()
    for value in side(f"code/{FILES}/{head.number:04x}/").values():
        files |= _decoded(value, dict[str, IndexedFile])
    return files


def known_in(side: Side, head: TreeHead, part: int) -> dict[str, IndexedFile]:
    """Return the indexed files of one part, by path."""
    name = part_name(FILES, head.number, part)
    files: dict[str, IndexedFile] = _part_value(side, name, dict[str, IndexedFile])
    return files


def raw_facts(side: Side, head: TreeHead, part: int) -> dict[str, msgspec.Raw]:
    """Return the encoded facts of the files of a part, by path."""
    name = part_name(FACTS, head.number, part)
    facts: dict[str, msgspec.Raw] = _part_value(side, name, dict[str, msgspec.Raw])
    return facts


def names_in(side: Side, head: TreeHead, part: int) -> Names:
    """Return one part of the names."""
    names: Names = _part_value(side, part_name(NAMES, head.number, part), Names)
    return names


def every_name(side: Side, head: TreeHead) -> Iterator[tuple[str, tuple[list[int], list[int]]]]:
    """Yield all names, with their parts."""
    for value in side(f"code/{NAMES}/{head.number:04x}/").values():
        yield from _decoded(value, Names).items()


def facts_from(raw: bytes | msgspec.Raw) -> Facts:
    """Decode the facts of a file.

    Raises:
        StoreError: If they are damaged.
    """
    return _decoded(bytes(raw), Facts)


def encoded(value: Any) -> bytes | None:
    """Encode a part; None for an empty one, which is not stored."""
    return msgspec.msgpack.encode(value) if value else None


def encoded_head(head: TreeHead) -> bytes:
    """Encode a head."""
    return msgspec.json.encode(head)


def _part_value(side: Side, name: str, kind: Any) -> Any:
    value = side(name).get(name)
    return {} if value is None else _decoded(value, kind)


def _decoded(value: bytes, kind: type[_T], form: Any = msgspec.msgpack) -> _T:
    try:
        decoded: _T = form.decode(value, type=resolved(kind))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise StoreError(
            "the stored code index is damaged; memories are not affected",
            hint="Rebuild it: satchel code index PATH --rebuild",
        ) from error
    return decoded


_TOGETHER = 4 << 20
"""Bytes of one write."""

_MOST_TRIES = 5
_DEFINED, _PRESENT, _BITS = 1, 2, 2

Progress = Callable[[int, int], None]
"""Called with the number of changed files done, and the total."""


@dataclass(slots=True)
class TreeIndexResult:
    """The result of an update."""

    head: TreeHead
    unchanged: int = 0
    read: int = 0
    """Files that were parsed."""

    removed: int = 0
    findings: list[tuple[str, str]] = field(default_factory=list)
    """Paths of all files that could not be fully read, and why."""

    needs: dict[str, int] = field(default_factory=dict)
    """Files of languages whose parser is not installed."""

    hint: str = ""
    """How to install it."""


def index(
    store: Store,
    ledger: Ledger,
    source: CodeSource,
    head: TreeHead,
    *,
    rebuild: bool = False,
    progress: Progress | None = None,
) -> TreeIndexResult:
    """Update the stored index of a tree.

    Args:
        store: The store of the bank.
        ledger: The bank.
        source: The present tree.
        head: Its stored head, or a new one. The name identifies the tree.
        rebuild: Read all files again.
        progress: Called with the progress.

    Raises:
        ChangedError: If other processes keep indexing the same tree.
        LimitError: If it is too large.
        StoreError: If the store cannot be written; the next update resumes.
    """
    for turn in range(_MOST_TRIES):
        try:
            return _UpdateAttempt(store, ledger, source, rebuild, progress).run(head)
        except ChangedError:
            if turn == _MOST_TRIES - 1:
                raise
    raise AssertionError("unreachable")


def remove(store: Store, ledger: Ledger, head: TreeHead) -> None:
    """Remove the stored index of a tree."""
    with store.writing() as writing:
        side = partial(writing.side, ledger.bank)
        writing.put_side(ledger.bank, dict.fromkeys(all_names(side, head.number)))


class _UpdateAttempt:
    """One attempt of an update."""

    def __init__(
        self,
        store: Store,
        ledger: Ledger,
        source: CodeSource,
        rebuild: bool,  # noqa: FBT001 - index() passes it by name
        progress: Progress | None,
    ) -> None:
        self._store = store
        self._ledger = ledger
        self._source = source
        self._rebuild = rebuild
        self._progress = progress
        self._head: TreeHead
        self._seen: TreeHead | None = None
        self._fresh = self._was_whole = True
        self._names: dict[str, array[int]] = {}
        """By name: the parts that it was added to or removed from."""

        self._waiting = dict[str, bytes | None]()
        self._size = 0
        self._files = dict[str, IndexedFile]()
        self._changed = 0

    def run(self, requested: TreeHead) -> TreeIndexResult:
        """Compare, read what changed, write."""
        with self._ledger.reading() as view:
            heads = stored_heads(view.side, damaged=True)
            existing = next((head for head in heads if head.name == requested.name), None)
            head = existing or msgspec.structs.replace(requested, number=_free(heads))
            fresh = self._rebuild or existing is None or head.make != MAKE
            old = {} if fresh else files_of(view.side, head)
        offers = {offer.path: offer for offer in self._source.offers()}
        parts = parts_for(len(offers))
        if not head.parts / 4 <= parts <= 2 * head.parts or existing is None:
            fresh = True  # the number of parts changed
        else:
            parts = head.parts
        head = msgspec.structs.replace(
            head, parts=parts, make=MAKE, root=requested.root, kind=requested.kind
        )
        self._head, self._seen, self._fresh = head, existing, fresh
        self._was_whole = existing is None or existing.whole
        done = TreeIndexResult(head)
        changes = self._compared({} if fresh else old, offers, done)
        done.removed = len(old.keys() - offers.keys())
        if fresh:
            self._clear()
        for number in sorted(changes):
            self._part(number, changes[number], done)
        return self._finish(done)

    def _compared(
        self, old: dict[str, IndexedFile], offers: dict[str, SourceFile], done: TreeIndexResult
    ) -> dict[int, list[tuple[str, SourceFile | None]]]:
        """Return the changed files by part, with None for removed ones."""
        changes = dict[int, list[tuple[str, SourceFile | None]]]()
        for path, offer in offers.items():
            known = old.get(path)
            if known is not None and _is_same(known, offer):
                self._files[path] = known
                done.unchanged += 1
                continue
            changes.setdefault(self._part_of(path), []).append((path, offer))
        for path in old.keys() - offers.keys():
            changes.setdefault(self._part_of(path), []).append((path, None))
        self._changed = sum(map(len, changes.values()))
        return changes

    def _part_of(self, text: str) -> int:
        return part_of(text, self._head.parts)

    def _part(
        self, number: int, changes: list[tuple[str, SourceFile | None]], done: TreeIndexResult
    ) -> None:
        """Read the changed files of one part, and queue the part for writing."""
        with self._ledger.reading() as view:
            empty = self._fresh
            facts = {} if empty else raw_facts(view.side, self._head, number)
            known = {} if empty else known_in(view.side, self._head, number)
        before = _names_in(facts)
        for path, offer in changes:
            was = known.pop(path, None)
            raw = facts.pop(path, None)
            if offer is not None:
                self._file(offer, (was, raw), known, facts, done)
        after = _names_in(facts)
        for is_defined in (True, False):
            old, new = before[not is_defined], after[not is_defined]
            self._note(new - old, number, is_defined, present=True)
            self._note(old - new, number, is_defined, present=False)
        self._files |= known
        # In one write: the stamps must match the facts.
        self._put(
            {
                part_name(FILES, self._head.number, number): encoded(known),
                part_name(FACTS, self._head.number, number): encoded(facts),
            }
        )

    def _file(
        self,
        offer: SourceFile,
        was: tuple[IndexedFile | None, msgspec.Raw | None],
        known: dict[str, IndexedFile],
        facts: dict[str, msgspec.Raw],
        done: TreeIndexResult,
    ) -> None:
        self._changed -= 1
        if self._progress is not None:
            self._progress(done.read, done.read + self._changed)
        old, raw = was
        try:
            digest = self._source.digest(offer)
            if old is not None and raw is not None and old.digest == digest:
                known[offer.path] = msgspec.structs.replace(old, stamp=offer.stamp)
                facts[offer.path] = raw
                done.unchanged += 1
                return
            extracted = self._source.facts(offer)
        except MissingExtraError as error:
            done.needs[offer.language] = done.needs.get(offer.language, 0) + 1
            done.hint = error.hint or ""
            return
        except InputError as error:
            self._source.seen.find(offer.path, error.message)
            return
        done.read += 1
        known[offer.path] = IndexedFile(
            offer.stamp, digest, offer.language, len(extracted.symbols), extracted.finding
        )
        facts[offer.path] = msgspec.Raw(msgspec.msgpack.encode(extracted))

    def _note(self, names: set[str], part: int, is_defined: bool, *, present: bool) -> None:  # noqa: FBT001 - from a loop over both
        mark = part << _BITS | (_DEFINED * is_defined) | (_PRESENT * present)
        for name in names:
            self._names.setdefault(name, array("I")).append(mark)

    def _put(self, values: dict[str, bytes | None]) -> None:
        """Queue values; write when there are enough."""
        self._waiting |= values
        self._size += sum(len(value or b"") for value in values.values())
        if self._size >= _TOGETHER:
            self._write(msgspec.structs.replace(self._head, whole=False))

    def _clear(self) -> None:
        """Remove the stored index, to rebuild it."""
        with self._store.writing() as writing:
            self._require_seen(writing)
            side = partial(writing.side, self._ledger.bank)
            removed = dict.fromkeys(all_names(side, self._head.number))
            head = msgspec.structs.replace(self._head, whole=False, round=self._head.round + 1)
            removed.pop(head_name(head.number))
            values = {**removed, head_name(head.number): encoded_head(head)}
            writing.put_side(self._ledger.bank, values)
        self._head = self._seen = head

    def _write(self, head: TreeHead) -> None:
        head = msgspec.structs.replace(head, round=self._head.round + 1)
        with self._store.writing() as writing:
            self._require_seen(writing)
            self._waiting[head_name(head.number)] = encoded_head(head)
            writing.put_side(self._ledger.bank, self._waiting)
        self._waiting, self._size = {}, 0
        self._head = self._seen = head

    def _require_seen(self, writing: Writer) -> None:
        """Refuse to overwrite a concurrent update."""
        name = head_name(self._head.number)
        value = writing.side(self._ledger.bank, name).get(name)
        seen = None if self._seen is None else self._seen.round
        if seen != _round_of(value):
            raise ChangedError(
                "another process is indexing the same source tree",
                hint="Run again when that is done.",
            )

    def _finish(self, done: TreeIndexResult) -> TreeIndexResult:
        """Write the names, and mark the index complete."""
        if self._was_whole or self._fresh:
            self._write_names()
        else:
            self._rebuild_names()
        symbols = sum(known.symbols for known in self._files.values())
        self._write(
            msgspec.structs.replace(
                self._head, whole=True, files=len(self._files), symbols=symbols, at=now()
            )
        )
        findings = [(path, known.finding) for path, known in self._files.items() if known.finding]
        done.findings = sorted([*findings, *(self._source.seen.findings or [])])
        done.head = self._head
        return done

    def _rebuild_names(self) -> None:
        """Rebuild all names from the facts, after an interrupted update."""
        self._write(msgspec.structs.replace(self._head, whole=False))
        self._names.clear()
        with self._ledger.reading() as view:
            for number in range(self._head.parts):
                names = _names_in(raw_facts(view.side, self._head, number))
                for is_defined, part_names in zip((True, False), names, strict=True):
                    self._note(part_names, number, is_defined, present=True)
        for number in range(self._head.parts):
            self._put({part_name(NAMES, self._head.number, number): None})
        self._fresh = True
        self._write_names()

    def _write_names(self) -> None:
        by_part = dict[int, list[str]]()
        for name in self._names:
            by_part.setdefault(self._part_of(name), []).append(name)
        for number, changed in sorted(by_part.items()):
            stored: Names = {}
            if not self._fresh:
                with self._ledger.reading() as view:
                    stored = names_in(view.side, self._head, number)
            for name in changed:
                self._patch(stored, name)
            name = part_name(NAMES, self._head.number, number)
            self._put({name: encoded(stored)})

    def _patch(self, stored: Names, name: str) -> None:
        sets = [set(parts) for parts in stored.pop(name, ([], []))]
        for mark in self._names[name]:
            parts = sets[not mark & _DEFINED]
            (parts.add if mark & _PRESENT else parts.discard)(mark >> _BITS)
        defined, used = sets
        if defined or used:
            stored[name] = (sorted(defined), sorted(used))


def _free(heads: list[TreeHead]) -> int:
    used = {head.number for head in heads}
    return next(number for number in count() if number not in used)


def _round_of(value: bytes | None) -> int | None:
    try:
        return None if value is None else msgspec.json.decode(value, type=resolved(TreeHead)).round
    except msgspec.DecodeError:
        return None  # damaged: not written since


def _is_same(known: IndexedFile, offer: SourceFile) -> bool:
    if known.language != offer.language:
        return False
    if offer.digest is not None:
        return known.digest == offer.digest
    return offer.stamp is not None and known.stamp == offer.stamp


def _names_in(facts: dict[str, msgspec.Raw]) -> tuple[set[str], set[str]]:
    """Return the names that the files of a part define, and those that they use."""
    defined, used = set[str](), set[str]()
    for path, raw in facts.items():
        facts_of_file: Facts = facts_from(raw)
        file_defines, file_uses = names_of(
            path, facts_of_file, language_called(facts_of_file.language).stems(path)
        )
        defined |= file_defines
        used |= file_uses
    return defined, used


MOST_PARTS_READ = 256
"""Maximum parts read for a name; the rest is not searched."""


class SourceTree:
    """A stored source tree.

    Args:
        side: Returns the bank's unlogged values, all of one view.
        head: The tree.
    """

    def __init__(self, side: Side, head: TreeHead) -> None:
        self._side = side
        self.head = head
        self._files = dict[int, dict[str, Facts]]()
        self._raw = dict[int, dict[str, bytes]]()
        self._names = dict[int, Names]()
        self._defined = dict[str, list[CodeNode]]()
        self.complete = True
        """Whether all parts of each name were read."""

    @property
    def name(self) -> str:
        """Its name."""
        return self.head.name

    def facts(self, path: str) -> Facts | None:
        """Return the facts of a file; None for an unknown file."""
        return self._read(part_of(path, self.head.parts), path)

    def paths(self) -> list[str]:
        """Return the paths of all files, sorted."""
        return sorted(files_of(self._side, self.head))

    def defined(self, name: str) -> list[CodeNode]:
        """Return the symbols of a name, by path and line."""
        nodes = self._defined.get(name)
        if nodes is None:
            nodes = self._defined[name] = [
                CodeNode(self.name, path, facts, number)
                for path, facts in self._with(name, 0)
                for number, symbol in enumerate(facts.symbols)
                if symbol.name == name
            ]
        return nodes

    def using(self, name: str) -> Iterator[tuple[str, Facts]]:
        """Yield the files that use a name, also those that only import it."""
        yield from self._with(name, 1)

    def files_called(self, key: str) -> list[tuple[str, Facts]]:
        """Return the files of a name (``config.py``), or of a stem (``/config``)."""
        matching = list[tuple[str, Facts]]()
        for part in self._parts(key, 0):
            for path in self._paths_in(part):
                facts = self._read(part, path)
                if facts is not None and _is_called(path, facts, key):
                    matching.append((path, facts))
        return matching

    def all_names(self) -> Iterator[str]:
        """Yield every name that is defined."""
        for name, (defined, _) in every_name(self._side, self.head):
            if defined:
                yield name

    def _with(self, name: str, which: int) -> Iterator[tuple[str, Facts]]:
        needle = name.encode("utf-8", "surrogatepass")
        for part in self._parts(name, which):
            for path, raw in sorted(self._part(part).items()):
                if needle in raw:
                    facts = self._read(part, path)
                    if facts is not None:
                        yield path, facts

    def _parts(self, name: str, which: int) -> list[int]:
        number = part_of(name, self.head.parts)
        if number not in self._names:
            self._names[number] = names_in(self._side, self.head, number)
        parts = self._names[number].get(name, ([], []))[which]
        self.complete = self.complete and len(parts) <= MOST_PARTS_READ
        return parts[:MOST_PARTS_READ]

    def _paths_in(self, part: int) -> list[str]:
        return sorted(self._part(part))

    def _part(self, part: int) -> dict[str, bytes]:
        if part not in self._raw:
            found = raw_facts(self._side, self.head, part)
            self._raw[part] = {path: bytes(raw) for path, raw in found.items()}
        return self._raw[part]

    def _read(self, part: int, path: str) -> Facts | None:
        read = self._files.setdefault(part, {})
        if path not in read:
            raw = self._part(part).get(path)
            if raw is None:
                return None
            read[path] = facts_from(raw)
        return read[path]


def language_of(facts: Facts) -> Language:
    """Return the language of a file."""
    return language_called(facts.language)


def _is_called(path: str, facts: Facts, key: str) -> bool:
    name = path.rpartition("/")[2]
    if not key.startswith("/"):
        return name == key
    return "/" + name.partition(".")[0] == key or key in language_of(facts).stems(path)


def trees_of(side: Side) -> list[SourceTree]:
    """Return the stored source trees of a bank, by name."""
    return [SourceTree(side, head) for head in stored_heads(side)]
