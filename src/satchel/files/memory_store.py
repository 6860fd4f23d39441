"""``MemoryStore``: a transcript and files at paths, with the names of ``flyte.ai.agents.memory``.

What is different from there: a write that returned is on the disk; a precondition holds when the
write happens, against threads, processes and machines; rules are kept in the store; refused
attempts are in the audit; nothing follows a link; text comes back byte for byte.
"""

import asyncio
import difflib
import hashlib
import json
import tempfile
import weakref
from collections.abc import Awaitable, Callable, Generator, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self, overload

from satchel.errors import ConcurrencyError, MemoryStoreError, SatchelError, StoreExistsError
from satchel.files import audit as auditing
from satchel.files.audit import AuditResult, examine
from satchel.files.commit import DAY, CollectResult, GroupCommit
from satchel.files.manifest import MemoryMeta, Policy, StoredVersion, from_sidecar
from satchel.files.paths import (
    TRANSCRIPT,
    check_public_path,
    encoded,
    fitting,
    namespace,
    prefix_of,
)
from satchel.files.places import Dir, FileStorage, place_of
from satchel.files.sync_async import (
    SyncAsyncMethod,
    call_in_thread,
    sync_async,
    sync_async_classmethod,
)
from satchel.files.transaction import (
    Delete,
    Erase,
    NewPolicy,
    PathChange,
    Promote,
    Rename,
    Restore,
    SyncFromDisk,
    TransformChange,
    Write,
    appended,
    content_of,
    decoded_text,
    edited,
    encoded_json,
    encoded_text,
)
from satchel.files.transcript import Flush, decoded_messages
from satchel.ports.store import Extent, below

_MOST_FOUND = 1_000
_LONGEST_LINE_SHOWN = 400
_MOST_COMPARED = 4 << 20


class FileMatch(NamedTuple):
    """A line that holds what was searched for."""

    path: str
    line: int
    """From 1."""

    text: str


class MemoryStoreReader:
    """The part of ``MemoryStore`` that changes nothing."""

    _store: GroupCommit
    _place: FileStorage | None
    root: Path

    leave: Callable[[str], None] | None = None
    """Asked by the name of each thing that is going to be done, and refuses what may not be."""

    acting: str | None = None
    """Actor of all changes; None if each call names its own."""

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

    @sync_async
    def read_bytes(self, rel_path: str, default: bytes | None = None) -> bytes | None:
        """Return the bytes of a file, ``default`` if it is not there.

        Raises:
            MemoryStoreError: If the path is none, or what is there is no memory file.
            AccessDenied: If the store keeps the name for itself.
        """
        data = self._bytes(check_public_path(rel_path))
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

    @sync_async
    def current_sha(self, rel_path: str) -> str:
        """Return the SHA-256 of the bytes of a file as they are, empty if it is not there."""
        data = self._bytes(check_public_path(rel_path))
        return "" if data is None else hashlib.sha256(data).hexdigest()

    @sync_async
    def get_meta(self, rel_path: str) -> MemoryMeta | None:
        """Return what is known of a file; None if it is not there or was put there by others."""
        path = check_public_path(rel_path)
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

    @sync_async
    def list_paths(self, prefix: str = "") -> list[str]:
        """Return the paths of the files in a folder and below, sorted; of all by default."""
        return self._paths(prefix_of(prefix))

    @sync_async
    def read_text(self, rel_path: str, default: str = "") -> str:
        """Return the text of a file, ``default`` if it is not there.

        Raises:
            MemoryStoreError: If the path is none, or what is there is no UTF-8 text.
            AccessDenied: If the store keeps the name for itself.
        """
        path = check_public_path(rel_path)
        data = self._bytes(path)
        return default if data is None else decoded_text(path, data)

    @sync_async
    def read_json(self, rel_path: str, default: Any = None) -> Any:
        """Return the value that a file holds, ``default`` if it is not there or blank.

        Raises:
            MemoryStoreError: As ``read_text``, and if it is no JSON.
        """
        path = check_public_path(rel_path)
        data = self._bytes(path)
        text = "" if data is None else decoded_text(path, data)
        if not text.strip():
            return default
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            raise MemoryStoreError(f"not JSON: {error}", path=path) from error

    @sync_async
    def glob(self, pattern: str) -> list[str]:
        """Return the paths that a pattern fits: ``*`` within a part, ``**`` across parts, ``?``."""
        fits = fitting(pattern)
        return [path for path in self._paths("") if fits(path)]

    @sync_async
    def search(
        self, text: str, prefix: str = "", ignore_case: bool = True, limit: int = 100
    ) -> list[FileMatch]:
        """Return the lines that contain a text, by path; the text is not a pattern.

        Binary files are skipped.
        """
        if not text:
            raise MemoryStoreError("the text to search for is empty")
        limit = min(limit, _MOST_FOUND)
        found: list[FileMatch] = []
        for path in self._paths(prefix_of(prefix)):
            for hit in self._hits(path, text, ignore_case=ignore_case):
                if len(found) >= limit:
                    return found
                found.append(hit)
        return found

    def _hits(self, path: str, text: str, *, ignore_case: bool) -> Iterator[FileMatch]:
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
                yield FileMatch(path, number, line.rstrip("\r")[:_LONGEST_LINE_SHOWN])

    @sync_async
    def history(self, rel_path: str) -> list[StoredVersion]:
        """Return the states that a path had, the oldest first; also of one that is deleted."""
        path = check_public_path(rel_path)
        self._load_history()
        with self._store.manifest.looking() as rows:
            return list(rows.versions(path))

    @sync_async
    def read_version(self, rel_path: str, version: int) -> str:
        """Return the text of a former state of a path.

        Raises:
            MemoryStoreError: If there was no such state, or its text was not kept.
        """
        path = check_public_path(rel_path)
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

    def changes_since(self, revision: int, limit: int) -> list[StoredVersion]:
        """Return the states that came after a change, in order; for what follows a store."""
        with self._store.manifest.looking() as rows:
            found = rows.all(
                "SELECT * FROM version WHERE revision > ? ORDER BY revision LIMIT ?",
                revision,
                limit,
            )
            return [StoredVersion(*row) for row in found]

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

    def saved_since(self, revision: int) -> list[StoredVersion]:
        """Return the states that were saved elsewhere after a change, as far as they are known.

        Raises:
            TargetError: If the place does not answer.
        """
        known = self.saved_revision
        found = [] if self._place is None else self._place.versions(revision)
        return [
            version for version in (StoredVersion(*one) for one in found) if version[2] <= known
        ]

    def text_of_version(self, version: StoredVersion) -> str | None:
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

    @sync_async
    def diff(self, rel_path: str, old: int, new: int | None = None) -> str:
        """Return how two states of a path differ, as unified diff; the file itself by default."""
        path = check_public_path(rel_path)
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

    @sync_async
    def verify_audit(self) -> AuditResult:
        """Hold the whole audit against its chain, and the log in the folder against it."""
        here = examine(self._store.manifest, self._store.tree)
        there = None if self._place is None else self._place.examine()
        if there is None:
            return here
        return AuditResult(there[0], here.adopted_bytes, (*here.problems, *there[1]))

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


class FileSyncResult(NamedTuple):
    """What taking in a folder did."""

    created: tuple[str, ...]
    changed: tuple[str, ...]
    deleted: tuple[str, ...]
    refused: tuple[str, ...]
    """Names that cannot be paths, and files that cannot be memory files, with the reason."""


class MemoryStoreWriter(MemoryStoreReader):
    """The part of ``MemoryStore`` that the page does not have."""

    @sync_async
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
        data: Any = content
        if not isinstance(data, bytes):
            raise MemoryStoreError(f"the content must be bytes, not {type(data).__name__}")
        return self._done(
            Write(
                said=rel_path,
                data=data,
                actor=self._who(actor),
                reason=reason,
                expected_sha=expected_sha,
                expected_version=expected_version,
            )
        )

    @sync_async
    def write_many(
        self, contents: Sequence[tuple[str, str]], actor: str = "agent", reason: str = ""
    ) -> list[MemoryMeta]:
        """Write several files in one commit; one that is refused leaves the others written.

        Raises:
            MemoryStoreError: The first refusal.
        """
        wanted = [
            Write(said=path, data=encoded_text(path, text), actor=self._who(actor), reason=reason)
            for path, text in contents
        ]
        return self._store.do_all(list(wanted))

    @sync_async
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
            TransformChange(
                op="append",
                said=rel_path,
                make=appended(text),
                actor=self._who(actor),
                reason=reason,
                expected_sha=expected_sha,
                expected_version=expected_version,
            )
        )

    @sync_async
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
            TransformChange(
                op="edit",
                said=rel_path,
                make=edited(old, new, count),
                actor=self._who(actor),
                reason=reason,
                expected_sha=expected_sha,
            )
        )

    @sync_async
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
            actor=self._who(actor),
            reason=reason,
            expected_sha=expected_sha,
            expected_version=expected_version,
            recursive=recursive,
        )
        return list(self._store.do(change))

    @sync_async
    def erase(
        self,
        rel_path: str,
        actor: str = "owner",
        reason: str = "",
        expected_sha: str | None = None,
    ) -> int:
        """Erase a file and all its versions: no bytes of its texts stay in the store.

        The audit log keeps that it existed and was erased: path, times, digests. Texts that other
        paths have as well stay there. Returns the number of versions that the path had.

        A remote store is saved, and the packs with the texts are removed there, after their other
        contents were copied. Removed objects that the service retains (versions of a bucket,
        replicas) and working copies of others are not erased.

        Raises:
            MemoryStoreError: If there never was such a file.
            ConcurrencyError: If the file is not as expected, if an expectation was given, or others
                changed files that were changed here.
            TargetError: If the place does not answer; erase it again to resume.
        """
        if self._place is not None and not self.is_in_place:
            self._place.refresh(self._store, frozenset())
            self._load_history()
        change = Erase(
            said=rel_path, actor=self._who(actor), reason=reason, expected_sha=expected_sha
        )
        states = int(self._store.do(change))
        if self._place is not None and not self.is_in_place:
            path = check_public_path(rel_path)
            with self._store.manifest.looking() as rows:
                until = rows.last_version(path)
            self._place.bring(self._store)
            self._place.erase(path, until)
        return states

    @sync_async
    def collect(self, grace: float = DAY) -> CollectResult:
        """Remove unreferenced objects from the remote place: old texts, and saves that lost a race.

        Safe while others read and write. Texts of retained versions are kept.

        Args:
            grace: Seconds for which readers may continue to use the last head that they read.

        Raises:
            StoreBusyError: If concurrent saves won every time.
            TargetError: If the place does not answer, or ignores conditions.
        """
        return CollectResult(0, 0, 0) if self._place is None else self._place.collect(grace)

    @sync_async
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
            actor=self._who(actor),
            reason=reason,
            expected_sha=expected_sha,
            overwrite=overwrite,
        )
        return list(self._store.do(change))

    @sync_async
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
                actor=self._who(actor),
                reason=reason,
                expected_sha=expected_sha,
            )
        )

    @sync_async
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
                actor=self._who(actor),
                reason=reason,
                expected_sha=expected_sha,
                keep=keep,
            )
        )

    @sync_async
    def sync(self, actor: str = "outside", reason: str = "") -> FileSyncResult:
        """Take in what was changed in the folder by something else.

        Raises:
            StoreError: If it could not be put on the disk.
        """
        by = actor if self.acting is None else "outside"  # whoever finds it did not write it
        odd: list[str] = []
        tree = self._store.tree
        paths = set(tree.files("", odd))
        with self._store.manifest.looking() as rows:
            paths |= {row.path for row in rows.files() if not row.away}
        done: dict[str, list[str]] = {"created": [], "changed": [], "deleted": []}
        refused = [f"{ascii(name)[1:-1]}: not a valid path" for name in odd]
        for path in sorted(paths):
            if path == TRANSCRIPT:
                continue
            try:
                what = self._store.do(
                    SyncFromDisk(said=path, actor=by, reason=reason, trusted=True)
                )
            except MemoryStoreError as error:
                refused.append(f"{path}: {error.message}")
                continue
            if what is not None:
                done[what].append(path)
        taken = {name: tuple(paths) for name, paths in done.items()}
        return FileSyncResult(**taken, refused=tuple(refused))

    @sync_async
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
        self._store.do(NewPolicy(said="", policy=policy, actor=self._who(actor), reason=reason))

    def change(self, change: PathChange) -> MemoryMeta:
        """Do a change that gives a file its text; for what is built on a store.

        Raises:
            MemoryStoreError: If it is refused.
        """
        self._ask("change")
        change.actor = self._who(change.actor)
        return self._done(change)

    def _done(self, change: PathChange) -> MemoryMeta:
        done: Any = self._store.do(change)  # type: ignore[arg-type]  # those that give this
        assert isinstance(done, MemoryMeta)  # noqa: S101 - of every change that comes here
        return done


class Existence(int):
    """Whether there is a store: true or false as it is, and also when it is awaited.

    Flyte's form is ``await MemoryStore.exists(...)``. Where no event loop runs, nobody can await,
    and the answer is a plain ``bool``.
    """

    def __await__(self) -> Generator[Any, None, bool]:
        yield from ()
        return bool(self)

    def __repr__(self) -> str:
        return repr(bool(self))

    __str__ = __repr__


class ExistsMethod:
    """Whether a key has a store, asked of the class; whether a file is there, of a store."""

    @overload
    def __get__(
        self, instance: None, owner: type[MemoryStoreReader]
    ) -> SyncAsyncMethod[Any, Existence]: ...

    @overload
    def __get__(
        self, instance: MemoryStoreReader, owner: type[MemoryStoreReader]
    ) -> SyncAsyncMethod[Any, bool]: ...

    def __get__(
        self, instance: MemoryStoreReader | None, owner: type[MemoryStoreReader]
    ) -> SyncAsyncMethod[Any, Existence] | SyncAsyncMethod[Any, bool]:
        function: Any = _path_exists if instance is not None else _key_asked
        return SyncAsyncMethod(function, instance or owner)


def _key_asked(cls: type[MemoryStoreReader], *args: Any, **named: Any) -> Existence | bool:
    found = _key_exists(cls, *args, **named)
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return found
    return Existence(found)


def _key_exists(
    cls: type[MemoryStoreReader],
    key: str,
    org: str | None = None,
    project: str | None = None,
    domain: str | None = None,
    storage_root: str | None = None,
) -> bool:
    del cls
    return place_of(namespace(org, project, domain, storage_root).path(key)).exists()


def _path_exists(store: MemoryStoreReader, rel_path: str = "", **named: Any) -> bool:
    if "key" in named:
        return _key_exists(type(store), **named)
    try:
        path = check_public_path(rel_path)
        if store._store.tree.kind(path) == "file":  # noqa: SLF001 - its own
            return True
        with store._store.manifest.looking() as rows:  # noqa: SLF001 - likewise
            row = rows.file(path)
    except SatchelError:
        return False
    return row is not None and bool(row.away)


class MemoryStore(MemoryStoreWriter):
    """A conversation's transcript, and files at paths, in a folder or a remote place.

    It may be used from several threads, and several may have one store open, in whatever process.

    Args:
        messages: The transcript, where it is known already; it wins over the one in the store.
        root: The folder. A temporary one, removed with the object, by default; for a key of a
            place on this machine, the store's own folder.
        key: The name of the store; see ``create`` and ``get_or_create``.
        remote_path: Where ``save`` brings it; for a key its place, by default.
        read_only_prefixes: Folders and files that direct writes may not change. Kept in a store
            that is new; for one that is there they hold besides its own.
        audit: Whether a new store has an audit. One that is there keeps what it has.
        keep_versions: Whether a new store keeps the text of every version.

    Raises:
        MemoryStoreError: If the folder, key or a prefix cannot be one.
        StoreError: If the store cannot be opened.
    """

    def __init__(
        self,
        messages: list[dict[str, Any]] | None = None,
        root: Path | str | None = None,
        key: str | None = None,
        remote_path: str | None = None,
        read_only_prefixes: Sequence[str] = (),
        audit: bool = True,
        keep_versions: bool = False,
    ) -> None:
        policy = Policy.of(read_only_prefixes, audit=audit, keep_versions=keep_versions)
        if key is not None and remote_path is None:
            remote_path = namespace().path(key)
        self.key = key
        self.remote_path = remote_path
        self._place = None if remote_path is None else place_of(remote_path)
        self.root = self._settled(root)
        try:
            self._store = GroupCommit(self.root, policy)
        except BaseException:
            self._remove_temporary()
            raise
        self._finalizer = weakref.finalize(self, _close, self._store, self._temporary)
        try:
            if self._place is not None and not self._place.is_at(self.root):
                self._place.load_into(self._store, policy)
            self._base: bytes | None = None
            self.messages: list[dict[str, Any]] = []
            self._reload()
            if messages:
                self.messages[:] = messages
        except BaseException:
            self.close()
            raise

    def _settled(self, root: Path | str | None) -> Path:
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        if root is not None:
            return Path(root).expanduser().absolute()
        if self._place is not None and self._place.folder is not None:
            return self._place.folder
        self._temporary = tempfile.TemporaryDirectory(prefix="satchel-files-")
        return Path(self._temporary.name)

    def _remove_temporary(self) -> None:
        if self._temporary is not None:
            self._temporary.cleanup()

    def close(self) -> None:
        """Close the store, and remove a temporary folder; a second time does nothing."""
        self._finalizer()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *args: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"MemoryStore(root={str(self.root)!r}, key={self.key!r})"

    @property
    def id(self) -> str:
        """What tells this store from others, wherever it is opened."""
        with self._store.manifest.looking() as rows:
            return str(rows.fact("remote_store") or rows.fact("store"))

    @property
    def read_only_prefixes(self) -> tuple[str, ...]:
        """What direct writes may not change."""
        return self._store.policy.read_only.paths

    @property
    def audit(self) -> bool:
        """Whether the store has an audit."""
        return self._store.policy.audit

    @property
    def keep_versions(self) -> bool:
        """Whether the store keeps the text of every version."""
        return self._store.policy.keep_versions

    @sync_async_classmethod
    def create(
        cls: type["MemoryStore"],  # noqa: N805 - the decorator makes it one of the class
        key: str,
        org: str | None = None,
        project: str | None = None,
        domain: str | None = None,
        read_only_prefixes: Sequence[str] = (),
        audit: bool = True,
        keep_versions: bool = False,
        storage_root: str | None = None,
    ) -> "MemoryStore":
        """Make the store of a key, which has none; of several that try at once, one succeeds.

        Raises:
            MemoryStoreError: If there is one, or the key cannot be one.
        """
        place = place_of(namespace(org, project, domain, storage_root).path(key))
        policy = Policy.of(read_only_prefixes, audit=audit, keep_versions=keep_versions)
        place.create(policy)
        return cls(key=key, remote_path=place.address)

    @sync_async_classmethod
    def get_or_create(
        cls: type["MemoryStore"],  # noqa: N805 - likewise
        key: str,
        org: str | None = None,
        project: str | None = None,
        domain: str | None = None,
        read_only_prefixes: Sequence[str] = (),
        audit: bool = True,
        keep_versions: bool = False,
        storage_root: str | None = None,
    ) -> "MemoryStore":
        """Open the store of a key, and make it first where there is none.

        Raises:
            MemoryStoreError: If the key cannot be one.
        """
        place = place_of(namespace(org, project, domain, storage_root).path(key))
        policy = Policy.of(read_only_prefixes, audit=audit, keep_versions=keep_versions)
        if not place.exists():
            with suppress(StoreExistsError):  # somebody else was first
                place.create(policy)
        return cls(
            key=key,
            remote_path=place.address,
            read_only_prefixes=read_only_prefixes,
            audit=audit,
            keep_versions=keep_versions,
        )

    exists = ExistsMethod()
    """``MemoryStore.exists(key, org, project, domain)``: whether a key has a store. On a store:
    ``store.exists(rel_path)``, whether there is such a file."""

    @staticmethod
    def remote_path_for_key(
        key: str,
        org: str | None = None,
        project: str | None = None,
        domain: str | None = None,
        storage_root: str | None = None,
    ) -> str:
        """Return the place of a key's store.

        Raises:
            MemoryStoreError: If the key, org, project or domain is no single plain name.
        """
        return namespace(org, project, domain, storage_root).path(key)

    def append(self, message: dict[str, Any]) -> None:
        """Add a message to the transcript; ``flush_messages`` or ``save`` keeps it.

        Raises:
            MemoryStoreError: If it is no dictionary.
        """
        self.extend([message])

    def extend(self, messages: Sequence[dict[str, Any]]) -> None:
        """Add messages to the transcript; all of them or, if one cannot be one, none."""
        added = list(messages)
        if not all(isinstance(one, dict) for one in added):
            raise MemoryStoreError("a message must be a dictionary", path=TRANSCRIPT)
        self.messages += added

    def flush_messages_sync(self) -> None:
        """Save the transcript. Messages that others added since stay, before the new ones.

        Raises:
            ConcurrencyError: If others changed it and these messages do not continue what was read.
        """
        self._ask("flush_messages")
        done: tuple[bytes | None, list[dict[str, Any]]] = self._store.do(
            Flush(self._base, self.messages, self._who("agent"))
        )
        self._base, self.messages[:] = done

    def flush_messages(self) -> Awaitable[None]:
        """As ``flush_messages_sync``, awaited."""
        return call_in_thread(self.flush_messages_sync)

    def audit_tail_sync(self, n: int = 20) -> list[dict[str, Any]]:
        """Return the last ``n`` events, the newest last; none where there is no audit."""
        self._ask("audit_tail")
        if n <= 0 or not self.audit:
            return []
        found = None if self._place is None else self._place.tail(self._store, n)
        return auditing.tail(self._store.manifest, self._store.tree, n) if found is None else found

    def audit_tail(self, n: int = 20) -> Awaitable[list[dict[str, Any]]]:
        """As ``audit_tail_sync``, awaited."""
        return call_in_thread(lambda: self.audit_tail_sync(n))

    @sync_async
    def write_text(
        self,
        rel_path: str,
        content: str,
        actor: str = "agent",
        reason: str = "",
        expected_sha: str | None = None,
        expected_version: int | None = None,
    ) -> MemoryMeta:
        """Write a text, which is on the disk when this returns.

        Args:
            rel_path: Where, relative to the store.
            content: The text, kept byte for byte as UTF-8.
            actor: Who writes it.
            reason: Why, for people.
            expected_sha: What the file has to be now; empty for "not there yet".
            expected_version: Which number it has to have now; 0 for "not there yet". Unlike the
                sha it differs when a text came back that was there before.

        Raises:
            ConcurrencyError: If the file is not as expected.
            AccessDenied: If the path is reserved or read-only.
            MemoryStoreError: If the path or the text cannot be one.
        """
        return self._write(
            rel_path,
            lambda: encoded_text(rel_path, content),
            actor,
            reason,
            expected_sha,
            expected_version,
        )

    @sync_async
    def write_json(
        self,
        rel_path: str,
        obj: Any,
        actor: str = "agent",
        reason: str = "",
        expected_sha: str | None = None,
        expected_version: int | None = None,
    ) -> MemoryMeta:
        """Write a value as JSON; as ``write_text``."""
        return self._write(
            rel_path,
            lambda: encoded_json(rel_path, obj),
            actor,
            reason,
            expected_sha,
            expected_version,
        )

    def _write(
        self,
        rel_path: str,
        encode: Callable[[], bytes],
        actor: str,
        reason: str,
        expected_sha: str | None,
        expected_version: int | None,
    ) -> MemoryMeta:
        return self._done(
            Write(
                said=rel_path,
                data=encode(),
                actor=self._who(actor),
                reason=reason,
                expected_sha=expected_sha,
                expected_version=expected_version,
            )
        )

    @sync_async
    def refresh(self, discard: Sequence[str] = ()) -> None:
        """Take in what others saved since; a folder of this machine is always up to date.

        Args:
            discard: Files whose changes here are given up.

        Raises:
            ConcurrencyError: If both changed another one; then nothing is taken in.
        """
        if self._place is not None and not self.is_in_place:
            self.flush_messages_sync()
            self.sync()
            self._place.refresh(self._store, frozenset(map(check_public_path, discard)))
            self._reload()

    def _reload(self) -> None:
        self._base = self._store.tree.read(TRANSCRIPT)
        if self._base is None:
            with self._store.manifest.looking() as rows:
                row = rows.file(TRANSCRIPT)
            away = row is not None and row.away
            self._base = self._store.fetch(row.sha, TRANSCRIPT) if row and away else None
        self.messages[:] = decoded_messages(self._base) or []

    @sync_async
    def save(self, remote_destination: str | None = None) -> Dir:
        """Save the transcript, and the store to its place or another one.

        Concurrent saves of others are kept; if both changed the same file, whatever its contents,
        the call is refused and nothing is saved.

        Args:
            remote_destination: Destination; the store's own place by default. A store without one
                gets a place with a unique name, and the first destination becomes its place.
                Any other destination gets a copy of the files and the transcript.

        Raises:
            ConcurrencyError: If a file was changed here and by another writer there.
            MemoryStoreError: If the store has a key: its place is that of the key.
            TargetError: If the place cannot be written to.
        """
        place = self._place
        if remote_destination is not None:
            destination = place_of(remote_destination)
            if self.key is not None and place is not None and destination.address != place.address:
                raise MemoryStoreError(
                    f"remote_destination is for stores without a key; {self.key!r} is saved at its"
                    f" deterministic key path, {place.address}",
                    path="remote_destination",
                    hint="Call save() without it, or open the files with root= and no key.",
                )
            place = destination
        self.flush_messages_sync()
        if place is None:
            if self._temporary is None:
                return Dir.of(str(self.root))
            place = place_of(namespace().unnamed())
        if not place.is_at(self.root):
            self.sync()
            if self._is_own(place):
                place.bring(self._store)
                self._reload()
            else:
                self._copy_to(place)
        return Dir.of(place.address)

    def _is_own(self, place: FileStorage) -> bool:
        """Tell whether a place is the one whose changes this store follows."""
        if self._place is not None:
            return place.address == self._place.address
        with self._store.manifest.committing() as rows:
            if rows.fact("bound") is None:
                rows.state("bound", place.address)
            return bool(rows.fact("bound") == place.address)

    def _copy_to(self, place: FileStorage) -> None:
        """Copy the files and the transcript to a place that is not the store's own.

        Raises:
            ConcurrencyError: If another writer changed the files there since the last copy.
        """
        noted = f"copied:{place.address}"
        with self._store.manifest.looking() as rows:
            base: dict[str, str] = json.loads(rows.fact(noted, "{}"))
            about = {row.path: (row.actor, row.reason) for row in rows.files()}
        shas = {path: self.current_sha(path) for path in self.list_paths()}
        remote = place.address if place.folder is None else None
        with MemoryStore(root=place.folder, remote_path=remote) as copy:
            there = {path: copy.current_sha(path) for path in shas.keys() | base.keys()}
            for path, sha in there.items():
                if sha not in {base.get(path, ""), shas.get(path, "")}:
                    raise ConcurrencyError(
                        path,
                        base.get(path, ""),
                        sha,
                        message="another process saved this file there; nothing was saved",
                    )
            if self.messages[: len(copy.messages)] != copy.messages:
                raise ConcurrencyError(
                    TRANSCRIPT,
                    message="these messages do not continue the ones there; nothing was saved",
                )
            copy.messages[:] = self.messages
            for path in sorted(path for path, sha in there.items() if sha != shas.get(path, "")):
                copy._store.do(self._copied(path, there[path], *about.get(path, ("agent", ""))))
            copy.save()
        with self._store.manifest.committing() as rows:
            rows.state(noted, json.dumps(shas))

    def _copied(self, path: str, there: str, actor: str, reason: str) -> Write | Delete:
        """Return what gives a copy the file that is here, in place of the one it has."""
        data = self._bytes(path)
        if data is None:
            return Delete(said=path, trusted=True, actor=actor, reason=reason, expected_sha=there)
        return Write(
            said=path, data=data, trusted=True, actor=actor, reason=reason, expected_sha=there
        )


def _close(store: GroupCommit, temporary: tempfile.TemporaryDirectory[str] | None) -> None:
    store.close()
    if temporary is not None:
        temporary.cleanup()
