"""What memory files can do beyond the page: move, edit, search, look back, lease."""

import difflib
import fnmatch
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from satchel.errors import MemoryStoreError
from satchel.files.calling import both
from satchel.files.keeping.audit import Audited, examine
from satchel.files.keeping.changes import (
    Asked,
    Delete,
    NewPolicy,
    Promote,
    Remake,
    Rename,
    Restore,
    TakeIn,
    Write,
    appended,
    content_of,
    decoded_text,
    edited,
    encoded_text,
)
from satchel.files.keeping.committing import Committing
from satchel.files.keeping.manifest import Version
from satchel.files.keeping.meta import MemoryMeta
from satchel.files.keeping.policy import Policy
from satchel.files.paths import open_to_all, prefix_of

_MOST_FOUND = 1_000
_LONGEST_LINE_SHOWN = 400
_MOST_COMPARED = 4 << 20


class Found(NamedTuple):
    """A line that holds what was searched for."""

    path: str
    line: int
    """From 1."""

    text: str


class Synced(NamedTuple):
    """What taking in a folder did."""

    created: tuple[str, ...]
    changed: tuple[str, ...]
    deleted: tuple[str, ...]
    refused: tuple[str, ...]
    """Names that cannot be paths, and files that cannot be memory files, with the reason."""


class Beyond:
    """The part of ``MemoryStore`` that the page does not have."""

    _store: Committing

    def _load_history(self) -> None:
        """Have the versions known that are only in the remote."""

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
        return self._store.fetch(row)

    @both
    def write_bytes(
        self,
        rel_path: str,
        content: bytes,
        actor: str = "agent",
        reason: str = "",
        expected_sha: str | None = None,
        expected_version: int | None = None,
    ) -> MemoryMeta:
        """Write bytes; as ``write_text``."""
        data = content if isinstance(content, bytes) else None
        if data is None:
            raise MemoryStoreError(f"the content is bytes, not {type(content).__name__}")
        return self._done(
            Write(
                said=rel_path,
                data=data,
                actor=actor,
                reason=reason,
                expected_sha=expected_sha,
                expected_version=expected_version,
            )
        )

    @both
    def write_many(
        self, contents: Sequence[tuple[str, str]], actor: str = "agent", reason: str = ""
    ) -> list[MemoryMeta]:
        """Write several files in one commit; one that is refused leaves the others written.

        Raises:
            MemoryStoreError: The first refusal.
        """
        wanted = [
            Write(said=path, data=encoded_text(path, text), actor=actor, reason=reason)
            for path, text in contents
        ]
        return self._store.do_all(list(wanted))

    @both
    def append_text(
        self,
        rel_path: str,
        text: str,
        actor: str = "agent",
        reason: str = "",
        expected_sha: str | None = None,
        expected_version: int | None = None,
    ) -> MemoryMeta:
        """Add text at the end of a file, which is begun if it is not there.

        Read and written in one step: two that append at once both have their text in it.

        Raises:
            ConcurrencyError: If the file is not as expected, where that was said.
            MemoryStoreError: As ``write_text``.
        """
        return self._done(
            Remake(
                op="append",
                said=rel_path,
                make=appended(text),
                actor=actor,
                reason=reason,
                expected_sha=expected_sha,
                expected_version=expected_version,
            )
        )

    @both
    def edit(
        self,
        rel_path: str,
        old: str,
        new: str,
        count: int = 1,
        actor: str = "agent",
        reason: str = "",
        expected_sha: str | None = None,
    ) -> MemoryMeta:
        """Replace a text that is in a file exactly ``count`` times.

        Raises:
            MemoryStoreError: If it is there more or fewer times; nothing is changed.
            ConcurrencyError: If the file is not as expected, where that was said.
        """
        return self._done(
            Remake(
                op="edit",
                said=rel_path,
                make=edited(old, new, count),
                actor=actor,
                reason=reason,
                expected_sha=expected_sha,
            )
        )

    @both
    def delete(
        self,
        rel_path: str,
        actor: str = "agent",
        reason: str = "",
        expected_sha: str | None = None,
        expected_version: int | None = None,
        recursive: bool = False,
    ) -> list[str]:
        """Delete a file, or a folder if ``recursive``; return the paths that are gone.

        Raises:
            MemoryStoreError: If there is nothing.
            AccessDenied: If one of them is read-only; then none is deleted.
            ConcurrencyError: If the file is not as expected, where that was said.
        """
        change = Delete(
            said=rel_path,
            actor=actor,
            reason=reason,
            expected_sha=expected_sha,
            expected_version=expected_version,
            recursive=recursive,
        )
        return list(self._store.do(change))

    @both
    def rename(
        self,
        old_path: str,
        new_path: str,
        actor: str = "agent",
        reason: str = "",
        expected_sha: str | None = None,
        overwrite: bool = False,
    ) -> list[str]:
        """Give a file, or a folder with all in it, another path; return the new paths.

        Raises:
            MemoryStoreError: If there is nothing at the old path, or something at the new one.
            AccessDenied: If one of the two is read-only.
            ConcurrencyError: If the file is not as expected, where that was said.
        """
        change = Rename(
            said=old_path,
            new=new_path,
            actor=actor,
            reason=reason,
            expected_sha=expected_sha,
            overwrite=overwrite,
        )
        return list(self._store.do(change))

    @both
    def glob(self, pattern: str) -> list[str]:
        """Return the paths that a pattern fits: ``*`` within a part, ``**`` across parts, ``?``."""
        fits = _pattern(pattern)
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
            return content_of(rows.content, path, number, rows.version(path, number))

    @both
    def restore(
        self,
        rel_path: str,
        version: int,
        actor: str = "agent",
        reason: str = "",
        expected_sha: str | None = None,
    ) -> MemoryMeta:
        """Write a former state of a path again, as a new version.

        Raises:
            MemoryStoreError: As ``read_version``.
            ConcurrencyError: If the file is not as expected, where that was said.
        """
        return self._done(
            Restore(
                said=rel_path,
                version=version,
                actor=actor,
                reason=reason,
                expected_sha=expected_sha,
            )
        )

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
    def promote(
        self,
        proposal: str,
        target: str,
        actor: str = "reviewer",
        reason: str = "",
        expected_sha: str | None = None,
        keep: bool = False,
    ) -> MemoryMeta:
        """Make a proposal the text of a file that may be read-only: the way into those.

        Raises:
            MemoryStoreError: If there is no such proposal.
            ConcurrencyError: If it is not the text that was reviewed, where its sha was said.
        """
        return self._done(
            Promote(
                said=proposal,
                new=target,
                actor=actor,
                reason=reason,
                expected_sha=expected_sha,
                keep=keep,
            )
        )

    @both
    def sync(self, actor: str = "outside", reason: str = "") -> Synced:
        """Take in what was changed in the folder by something else.

        Raises:
            StoreError: If it could not be put on the disk.
        """
        odd: list[str] = []
        tree = self._store.tree
        paths = set(tree.files("", odd))
        with self._store.manifest.looking() as rows:
            paths |= {row.path for row in rows.files() if not row.away}
        done: dict[str, list[str]] = {"created": [], "changed": [], "deleted": []}
        refused = [f"{ascii(name)[1:-1]}: this name cannot be a path" for name in odd]
        for path in sorted(paths):
            if path == "messages.json":
                continue
            try:
                what = self._store.do(TakeIn(said=path, actor=actor, reason=reason, trusted=True))
            except MemoryStoreError as error:
                refused.append(f"{path}: {error.message}")
                continue
            if what is not None:
                done[what].append(path)
        return Synced(*(tuple(done[one]) for one in ("created", "changed", "deleted")),
                      refused=tuple(refused))

    @both
    def change_policy(
        self,
        read_only_prefixes: Sequence[str] | None = None,
        audit: bool | None = None,
        keep_versions: bool | None = None,
        actor: str = "owner",
        reason: str = "",
    ) -> None:
        """Give the store other rules, which the audit says; what is not named stays."""
        now = self._store.policy
        policy = Policy.of(
            now.read_only.paths if read_only_prefixes is None else read_only_prefixes,
            audit=now.audit if audit is None else audit,
            keep_versions=now.keep_versions if keep_versions is None else keep_versions,
        )
        self._store.do(NewPolicy(said="", policy=policy, actor=actor, reason=reason))

    @both
    def verify_audit(self) -> Audited:
        """Hold the whole audit against its chain, and the log in the folder against it."""
        return examine(self._store.manifest, self._store.tree)

    @property
    def repairs(self) -> list[str]:
        """What had to be put right in the store since it was opened."""
        return list(self._store.repairs)

    def _paths(self, prefix: str) -> list[str]:
        """Return the paths of the files in a folder, sorted."""
        found = self._store.tree.files(prefix)
        with self._store.manifest.looking() as rows:
            away = [row.path for row in rows.away(prefix)]
        return sorted({*found, *away} if away else found)

    def _done(self, change: Asked) -> MemoryMeta:
        done: Any = self._store.do(change)  # type: ignore[arg-type]  # those that give this
        assert isinstance(done, MemoryMeta)  # noqa: S101 - of every change that comes here
        return done


def _pattern(pattern: str) -> Any:
    """Return what tells whether a path fits; in time that grows with the path alone."""
    if not isinstance(pattern, str) or not pattern or len(pattern) > 1_000:  # noqa: PLR2004
        raise MemoryStoreError("a pattern is a text of at most 1,000 characters")
    parts = [part for part in pattern.split("/") if part]
    if parts.count("**") > 4 or any(part.count("*") > 4 for part in parts):  # noqa: PLR2004
        raise MemoryStoreError("a pattern has at most four stars in a part, and four '**'")
    each = [None if part == "**" else re.compile(fnmatch.translate(part)) for part in parts]

    def fits(path: str) -> bool:
        names = path.split("/")
        reached = {0}
        for name in names:
            following: set[int] = set()
            for at in reached:
                following |= _step(each, at, name)
            reached = following
        return len(each) in _skipped(each, reached)

    return fits


def _step(each: list[Any], at: int, name: str) -> set[int]:
    """Return where in a pattern one may be after one more part of a path."""
    found = set()
    while at < len(each) and each[at] is None:
        found.add(at)  # the stars take it
        at += 1
    if at < len(each) and each[at].match(name):
        found.add(at + 1)
    return found


def _skipped(each: list[Any], reached: set[int]) -> set[int]:
    found = set(reached)
    for at in reached:
        while at < len(each) and each[at] is None:
            at += 1
            found.add(at)
    return found
