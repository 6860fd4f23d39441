"""Reading memory files: texts, what is known of them, what is in them, what they were."""

import difflib
import hashlib
import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from satchel.errors import MemoryStoreError
from satchel.files.calling import both
from satchel.files.keeping.audit import Audited, examine
from satchel.files.keeping.changes import content_of, decoded_text
from satchel.files.keeping.committing import Committing
from satchel.files.keeping.manifest import Version
from satchel.files.keeping.meta import MemoryMeta, from_sidecar
from satchel.files.paths import TRANSCRIPT, encoded, open_to_all, prefix_of
from satchel.files.patterns import fitting
from satchel.files.places import Place
from satchel.ports.store import Extent
from satchel.stores.raw_files import below

_MOST_FOUND = 1_000
_LONGEST_LINE_SHOWN = 400
_MOST_COMPARED = 4 << 20


class Found(NamedTuple):
    """A line that holds what was searched for."""

    path: str
    line: int
    """From 1."""

    text: str


class Looking:
    """The part of ``MemoryStore`` that changes nothing."""

    _store: Committing
    _place: Place | None
    root: Path

    leave: Callable[[str], None] | None = None
    """Asked by the name of each thing that is going to be done, and refuses what may not be."""

    acting: str | None = None
    """Who all is done by, whatever is said; None where whoever calls says it."""

    def _ask(self, name: str) -> None:
        if self.leave is not None:
            self.leave(name)

    def _who(self, said: str) -> str:
        return said if self.acting is None else self.acting

    @property
    def is_in_place(self) -> bool:
        """Whether a write is at its place at once, so that ``save`` has nothing to bring."""
        return self._place is None or self._place.is_at(self.root)

    def laid_open(self) -> Iterator[Extent]:
        """Yield all bytes in which the store may have something, here and where it was saved.

        Raises:
            TargetError: If the place does not answer.
        """
        self._ask("laid_open")
        yield from below(self.root)
        for name, data in self._place.laid_open() if self._place is not None else ():
            yield Extent(name, partial(iter, (data,)))

    def _load_history(self) -> None:
        """Have the versions known that are only in the remote."""
        if self._place is not None:
            self._place.load_history(self._store)

    @both
    def read_bytes(self, rel_path: str, default: bytes | None = None) -> bytes | None:
        """Return the bytes of a file, ``default`` if it is not there.

        Raises:
            MemoryStoreError: If the path is none, or what is there is no memory file.
            AccessDenied: If the store keeps the name for itself.
        """
        data = self._bytes(open_to_all(rel_path))
        return default if data is None else data

    def _bytes(self, path: str) -> bytes | None:
        """Return the bytes at a path, from the remote where they are only there."""
        data = self._store.tree.read(path)
        if data is not None:
            return data
        with self._store.manifest.looking() as rows:
            row = rows.file(path)
        if row is None or not row.away:
            return None
        data = self._store.fetch(row.sha, path)
        if data is None:
            raise MemoryStoreError("the content of this file is missing", path=path)
        return data

    @both
    def current_sha(self, rel_path: str) -> str:
        """Return the SHA-256 of the bytes of a file as they are, empty if it is not there."""
        data = self._bytes(open_to_all(rel_path))
        return "" if data is None else hashlib.sha256(data).hexdigest()

    @both
    def get_meta(self, rel_path: str) -> MemoryMeta | None:
        """Return what is known of a file; None if it is not there or was put there by others."""
        path = open_to_all(rel_path)
        with self._store.manifest.looking() as rows:
            row = rows.file(path)
        if row is not None and row.away:
            return MemoryMeta.of(row)
        data = self._store.tree.read(path)
        if data is None:
            return None
        sha = hashlib.sha256(data).hexdigest()
        if row is not None and row.sha == sha:
            return MemoryMeta.of(row)
        return from_sidecar(self._store.tree.read(f"meta/{encoded(path)}.json"), path, sha)

    @both
    def list_paths(self, prefix: str = "") -> list[str]:
        """Return the paths of the files in a folder and below, sorted; of all by default."""
        return self._paths(prefix_of(prefix))

    @both
    def read_text(self, rel_path: str, default: str = "") -> str:
        """Return the text of a file, ``default`` if it is not there.

        Raises:
            MemoryStoreError: If the path is none, or what is there is no UTF-8 text.
            AccessDenied: If the store keeps the name for itself.
        """
        path = open_to_all(rel_path)
        data = self._bytes(path)
        return default if data is None else decoded_text(path, data)

    @both
    def read_json(self, rel_path: str, default: Any = None) -> Any:
        """Return the value that a file holds, ``default`` if it is not there or blank.

        Raises:
            MemoryStoreError: As ``read_text``, and if it is no JSON.
        """
        path = open_to_all(rel_path)
        data = self._bytes(path)
        text = "" if data is None else decoded_text(path, data)
        if not text.strip():
            return default
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            raise MemoryStoreError(f"not JSON: {error}", path=path) from error

    @both
    def glob(self, pattern: str) -> list[str]:
        """Return the paths that a pattern fits: ``*`` within a part, ``**`` across parts, ``?``."""
        fits = fitting(pattern)
        return [path for path in self._paths("") if fits(path)]

    @both
    def search(
        self, text: str, prefix: str = "", ignore_case: bool = True, limit: int = 100
    ) -> list[Found]:
        """Return the lines that hold a text, by path; a plain text, not a pattern.

        Files that are no text are left out.
        """
        if not text:
            raise MemoryStoreError("the text to search for is empty")
        limit = min(limit, _MOST_FOUND)
        found: list[Found] = []
        for path in self._paths(prefix_of(prefix)):
            for hit in self._hits(path, text, ignore_case=ignore_case):
                if len(found) >= limit:
                    return found
                found.append(hit)
        return found

    def _hits(self, path: str, text: str, *, ignore_case: bool) -> Iterator[Found]:
        wanted = text.casefold() if ignore_case else text
        data = self._bytes(path)
        try:
            content = "" if data is None else data.decode()
        except UnicodeDecodeError:
            return
        if wanted not in (content.casefold() if ignore_case else content):
            return
        for number, line in enumerate(content.split("\n"), 1):
            if wanted in (line.casefold() if ignore_case else line):
                yield Found(path, number, line.rstrip("\r")[:_LONGEST_LINE_SHOWN])

    @both
    def history(self, rel_path: str) -> list[Version]:
        """Return the states that a path had, the oldest first; also of one that is deleted."""
        path = open_to_all(rel_path)
        self._load_history()
        with self._store.manifest.looking() as rows:
            return list(rows.versions(path))

    @both
    def read_version(self, rel_path: str, version: int) -> str:
        """Return the text of a former state of a path.

        Raises:
            MemoryStoreError: If there was no such state, or its text was not kept.
        """
        path = open_to_all(rel_path)
        return decoded_text(path, self._version(path, version))

    def _version(self, path: str, number: int) -> bytes:
        self._load_history()
        with self._store.manifest.looking() as rows:
            version = rows.version(path, number)

        def content(sha: str, path: str) -> bytes | None:
            with self._store.manifest.looking() as rows:
                data = rows.content(sha)
            return self._store.fetch(sha, path) if data is None else data

        return content_of(content, path, number, version)

    def unmanaged(self) -> tuple[str, ...]:
        """Return the files that something else wrote, changed or deleted; ``sync`` takes them in.

        Reads every file.
        """
        self._ask("unmanaged")
        with self._store.manifest.looking() as rows:
            known = {row.path: row.sha for row in rows.files() if not row.away}
        known.pop(TRANSCRIPT, None)
        there = set(self._store.tree.files())
        return tuple(
            path
            for path in sorted(there | known.keys())
            if path not in there or self._sha(path) != known.get(path)
        )

    def _sha(self, path: str) -> str:
        try:
            data = self._store.tree.read(path)
        except MemoryStoreError:
            return ""
        return "" if data is None else hashlib.sha256(data).hexdigest()

    @property
    def revision(self) -> int:
        """How many changes the store has seen."""
        with self._store.manifest.looking() as rows:
            return int(rows.fact("revision", 0))

    def changes_since(self, revision: int, limit: int) -> list[Version]:
        """Return the states that came after a change, in order; for what follows a store."""
        with self._store.manifest.looking() as rows:
            found = rows.all(
                "SELECT * FROM version WHERE revision > ? ORDER BY revision LIMIT ?",
                revision,
                limit,
            )
            return [Version(*row) for row in found]

    @property
    def is_unsaved(self) -> bool:
        """Whether something was changed that ``save`` has to bring to the store's place."""
        if self.is_in_place:
            return False
        with self._store.manifest.looking() as rows:
            return bool(rows.fact("revision", 0) > rows.fact("sent_revision", 0))

    @property
    def saved_revision(self) -> int:
        """Up to which change of its place the store knows what was saved; -1 for nothing."""
        with self._store.manifest.looking() as rows:
            return int(rows.fact("remote_revision", -1))

    def saved_since(self, revision: int) -> list[Version]:
        """Return the states that were saved elsewhere after a change, as far as they are known.

        Raises:
            TargetError: If the place does not answer.
        """
        known = self.saved_revision
        found = [] if self._place is None else self._place.versions(revision)
        return [version for version in (Version(*one) for one in found) if version[2] <= known]

    def text_of_version(self, version: Version) -> str | None:
        """Return the text of a state; None for an absence, for no text, or where it is gone.

        Raises:
            TargetError: If it is elsewhere, and the place does not answer.
        """
        if not version.sha:
            return None
        with self._store.manifest.looking() as rows:
            data = rows.content(version.sha)
        if data is None:
            data = self._store.fetch(version.sha, version.path)
        try:
            return None if data is None else data.decode()
        except UnicodeDecodeError:
            return None

    def noted(self, name: str, default: int) -> int:
        """Return a number that ``note`` kept."""
        with self._store.manifest.looking() as rows:
            return int(rows.fact(f"note:{name}", default))

    def note(self, name: str, value: int) -> None:
        """Keep a number with the store, for what follows it."""
        with self._store.manifest.committing() as rows:
            rows.state(f"note:{name}", value)

    @both
    def diff(self, rel_path: str, old: int, new: int | None = None) -> str:
        """Return how two states of a path differ, as unified diff; the file itself by default."""
        path = open_to_all(rel_path)
        before = decoded_text(path, self._version(path, old))
        if new is None:
            data = self._bytes(path)
            after = "" if data is None else decoded_text(path, data)
        else:
            after = decoded_text(path, self._version(path, new))
        if len(before) + len(after) > _MOST_COMPARED:
            raise MemoryStoreError("the texts are too long to be compared", path=path)
        label = "now" if new is None else f"version {new}"
        lines = difflib.unified_diff(
            before.splitlines(keepends=True),
            after.splitlines(keepends=True),
            f"{path} version {old}",
            f"{path} {label}",
        )
        return "".join(one if one.endswith("\n") else f"{one}\n" for one in lines)

    @both
    def verify_audit(self) -> Audited:
        """Hold the whole audit against its chain, and the log in the folder against it."""
        here = examine(self._store.manifest, self._store.tree)
        there = None if self._place is None else self._place.examine()
        if there is None:
            return here
        return Audited(there[0], here.adopted_bytes, (*here.problems, *there[1]))

    @property
    def repairs(self) -> list[str]:
        """What had to be put right in the store since it was opened."""
        return list(self._store.repairs)

    def _paths(self, prefix: str) -> list[str]:
        """Return the paths of the files in a folder, sorted."""
        found = self._store.tree.files(prefix)
        with self._store.manifest.looking() as rows:
            away = [row.path for row in rows.away(prefix) if row.path != TRANSCRIPT]
        return sorted({*found, *away} if away else found)
