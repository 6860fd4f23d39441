"""``MemoryStore``: a transcript and files at paths, with the names of ``flyte.ai.agents.memory``.

Differences from Flyte's class: a write is on the disk when it returns; preconditions are checked
atomically with the write, across threads, processes and machines; rules are stored in the store;
refusals are audited; links are never followed; texts are preserved byte for byte.
"""

import asyncio
import contextvars
import difflib
import hashlib
import json
import tempfile
import weakref
from collections.abc import Awaitable, Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Concatenate, Generic, NamedTuple, ParamSpec, Self, TypeVar, cast, overload

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
from satchel.files.storage import Dir, FileStorage, file_storage
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
from satchel.runtime.processes import in_child

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")

_THREADS = 32


class _Threads:
    """Threads that start on first use, also in a forked child, which inherits none."""

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        in_child(self.forget)

    def forget(self) -> None:
        self._pool = None

    def __call__(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="satchel-files")
        return self._pool


_threads = _Threads()


async def call_in_thread(call: Callable[[], R]) -> R:
    """Call a function in another thread, and return its result."""
    loop, context = asyncio.get_running_loop(), contextvars.copy_context()
    return await loop.run_in_executor(
        _threads(), cast("Callable[[], R]", partial(context.run, call))
    )


class SyncAsyncMethod(Generic[P, R]):
    """A bound method that can be called or awaited."""

    __slots__ = ("__wrapped__", "_bound")

    def __init__(self, function: Callable[..., R], bound: Any) -> None:
        self.__wrapped__ = function
        self._bound = bound

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call it in this thread."""
        leave = getattr(self._bound, "leave", None)
        if leave is not None:
            leave(self.__wrapped__.__name__)
        return self.__wrapped__(self._bound, *args, **kwargs)

    def aio(self, *args: P.args, **kwargs: P.kwargs) -> Awaitable[R]:
        """Await it in another thread. A cancelled call may still be completed."""
        return call_in_thread(lambda: self(*args, **kwargs))


class sync_async(Generic[S, P, R]):  # noqa: N801 - a decorator
    """Add ``.aio`` to a method."""

    def __init__(self, function: Callable[Concatenate[S, P], R]) -> None:
        self.function = function
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__
        self.__isabstractmethod__ = False

    def __get__(self, instance: S | None, owner: type[S] | None = None) -> SyncAsyncMethod[P, R]:
        """Return it, bound to an object."""
        return SyncAsyncMethod(self.function, instance)


class sync_async_classmethod(Generic[S, P, R]):  # noqa: N801 - a decorator
    """Add ``.aio`` to a class method."""

    def __init__(self, function: Callable[Concatenate[type[S], P], R]) -> None:
        self.function = function
        self.__doc__ = function.__doc__

    def __get__(self, instance: S | None, owner: type[S]) -> SyncAsyncMethod[P, R]:
        """Return it, bound to a class."""
        return SyncAsyncMethod(self.function, owner)


_MOST_FOUND = 1_000
_LONGEST_LINE_SHOWN = 400
_MOST_COMPARED = 4 << 20


class FileMatch(NamedTuple):
    """A line that contains the searched text."""

    path: str
    line: int
    """From 1."""

    text: str


class MemoryStoreReader:
    """The read-only part of ``MemoryStore``."""

    _store: GroupCommit
    _place: FileStorage | None
    root: Path

    leave: Callable[[str], None] | None = None
    """Checks the permission for each call, given its name."""

    acting: str | None = None
    """Actor of all changes; None if each call names its own."""

    def _require_permission(self, name: str) -> None:
        if self.leave is not None:
            self.leave(name)

    def _actor_of(self, actor: str) -> str:
        return actor if self.acting is None else self.acting

    @property
    def is_in_place(self) -> bool:
        """Whether writes go directly to the store's place, so that ``save`` has nothing to do."""
        return self._place is None or self._place.is_at(self.root)

    def laid_open(self) -> Iterator[Extent]:
        """Yield all bytes of the store, here and at the remote place.

        Raises:
            TargetError: If the place does not answer.
        """
        self._require_permission("laid_open")
        yield from below(self.root)
        for name, data in self._place.laid_open() if self._place is not None else ():
            yield Extent(name, partial(iter, (data,)))

    def _load_history(self) -> None:
        """Read the versions that only the remote place has."""
        if self._place is not None:
            self._place.load_history(self._store)

    @sync_async
    def read_bytes(self, rel_path: str, default: bytes | None = None) -> bytes | None:
        """Return the bytes of a file; ``default`` if it does not exist.

        Raises:
            MemoryStoreError: If the path is not valid, or not of a memory file.
            AccessDenied: If the name is reserved.
        """
        data = self._bytes(check_public_path(rel_path))
        return default if data is None else data

    def _bytes(self, path: str) -> bytes | None:
        """Return the bytes at a path, from the remote place if necessary."""
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
        """Return the SHA-256 of the present bytes of a file; empty if it does not exist."""
        data = self._bytes(check_public_path(rel_path))
        return "" if data is None else hashlib.sha256(data).hexdigest()

    @sync_async
    def get_meta(self, rel_path: str) -> MemoryMeta | None:
        """Return the metadata of a file; None if it does not exist or is another program's."""
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
        """Return the sorted paths of the files below a folder; all by default."""
        return self._paths(prefix_of(prefix))

    @sync_async
    def read_text(self, rel_path: str, default: str = "") -> str:
        """Return the text of a file; ``default`` if it does not exist.

        Raises:
            MemoryStoreError: If the path is not valid, or the file is not UTF-8 text.
            AccessDenied: If the name is reserved.
        """
        path = check_public_path(rel_path)
        data = self._bytes(path)
        return default if data is None else decoded_text(path, data)

    @sync_async
    def read_json(self, rel_path: str, default: Any = None) -> Any:
        """Return the JSON value of a file; ``default`` if it does not exist or is blank.

        Raises:
            MemoryStoreError: As ``read_text``, and if the file is not JSON.
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
        """Return the paths that match a pattern with ``*`` within a part, ``**`` across, ``?``."""
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
        matches: list[FileMatch] = []
        for path in self._paths(prefix_of(prefix)):
            for hit in self._hits(path, text, ignore_case=ignore_case):
                if len(matches) >= limit:
                    return matches
                matches.append(hit)
        return matches

    def _hits(self, path: str, text: str, *, ignore_case: bool) -> Iterator[FileMatch]:
        needle = text.casefold() if ignore_case else text
        data = self._bytes(path)
        try:
            content = "" if data is None else data.decode()
        except UnicodeDecodeError:
            return
        if needle not in (content.casefold() if ignore_case else content):
            return
        for number, line in enumerate(content.split("\n"), 1):
            if needle in (line.casefold() if ignore_case else line):
                yield FileMatch(path, number, line.rstrip("\r")[:_LONGEST_LINE_SHOWN])

    @sync_async
    def history(self, rel_path: str) -> list[StoredVersion]:
        """Return the versions of a path, oldest first, including deleted paths."""
        path = check_public_path(rel_path)
        self._load_history()
        with self._store.manifest.looking() as rows:
            return list(rows.versions(path))

    @sync_async
    def read_version(self, rel_path: str, version: int) -> str:
        """Return the text of a version of a path.

        Raises:
            MemoryStoreError: If there is no such version, or its text was not stored.
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
        """Return the files that other programs wrote, changed or deleted; ``sync`` imports them.

        Reads every file.
        """
        self._require_permission("unmanaged")
        with self._store.manifest.looking() as rows:
            known = {row.path: row.sha for row in rows.files() if not row.away}
        known.pop(TRANSCRIPT, None)
        present = set(self._store.tree.files())
        return tuple(
            path
            for path in sorted(present | known.keys())
            if path not in present or self._sha(path) != known.get(path)
        )

    def _sha(self, path: str) -> str:
        try:
            data = self._store.tree.read(path)
        except MemoryStoreError:
            return ""
        return "" if data is None else hashlib.sha256(data).hexdigest()

    @property
    def revision(self) -> int:
        """Number of changes of the store."""
        with self._store.manifest.looking() as rows:
            return int(rows.fact("revision", 0))

    def changes_since(self, revision: int, limit: int) -> list[StoredVersion]:
        """Return the versions after a change, in order."""
        with self._store.manifest.looking() as rows:
            versions = rows.all(
                "SELECT * FROM version WHERE revision > ? ORDER BY revision LIMIT ?",
                revision,
                limit,
            )
            return [StoredVersion(*row) for row in versions]

    @property
    def is_unsaved(self) -> bool:
        """Whether there are changes for ``save`` to write to the store's place."""
        if self.is_in_place:
            return False
        with self._store.manifest.looking() as rows:
            return bool(rows.fact("revision", 0) > rows.fact("sent_revision", 0))

    @property
    def saved_revision(self) -> int:
        """Number of the last known change of the store's place; -1 for none."""
        with self._store.manifest.looking() as rows:
            return int(rows.fact("remote_revision", -1))

    def saved_since(self, revision: int) -> list[StoredVersion]:
        """Return the known versions that were saved at the remote place after a change.

        Raises:
            TargetError: If the place does not answer.
        """
        known = self.saved_revision
        rows = [] if self._place is None else self._place.versions(revision)
        return [version for version in (StoredVersion(*row) for row in rows) if version[2] <= known]

    def text_of_version(self, version: StoredVersion) -> str | None:
        """Return the text of a version; None for a deletion, binary content, or a removed text.

        Raises:
            TargetError: If it is remote, and the place does not answer.
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
        """Return a number that ``note`` stored."""
        with self._store.manifest.looking() as rows:
            return int(rows.fact(f"note:{name}", default))

    def note(self, name: str, value: int) -> None:
        """Store a number with the store, for a follower of its changes."""
        with self._store.manifest.committing() as rows:
            rows.state(f"note:{name}", value)

    @sync_async
    def diff(self, rel_path: str, old: int, new: int | None = None) -> str:
        """Return a unified diff of two versions of a path; the present file by default."""
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
        """Verify the whole audit log against its chain, and the log in the folder."""
        local = examine(self._store.manifest, self._store.tree)
        saved = None if self._place is None else self._place.examine()
        if saved is None:
            return local
        return AuditResult(saved[0], local.adopted_bytes, (*local.problems, *saved[1]))

    @property
    def repairs(self) -> list[str]:
        """Repairs since the store was opened."""
        return list(self._store.repairs)

    def _paths(self, prefix: str) -> list[str]:
        """Return the sorted paths of the files in a folder."""
        paths = self._store.tree.files(prefix)
        with self._store.manifest.looking() as rows:
            away = [row.path for row in rows.away(prefix) if row.path != TRANSCRIPT]
        return sorted({*paths, *away} if away else paths)


class FileSyncResult(NamedTuple):
    """Result of importing the edits of other programs."""

    created: tuple[str, ...]
    changed: tuple[str, ...]
    deleted: tuple[str, ...]
    refused: tuple[str, ...]
    """Names that are not valid paths, and files that are not memory files, with the reason."""


class MemoryStoreWriter(MemoryStoreReader):
    """The part of ``MemoryStore`` that Flyte's class does not have."""

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
                requested_path=rel_path,
                data=data,
                actor=self._actor_of(actor),
                reason=reason,
                expected_sha=expected_sha,
                expected_version=expected_version,
            )
        )

    @sync_async
    def write_many(
        self, contents: Sequence[tuple[str, str]], actor: str = "agent", reason: str = ""
    ) -> list[MemoryMeta]:
        """Write several files in one commit; a refusal of one does not affect the others.

        Raises:
            MemoryStoreError: The first refusal.
        """
        changes = [
            Write(
                requested_path=path,
                data=encoded_text(path, text),
                actor=self._actor_of(actor),
                reason=reason,
            )
            for path, text in contents
        ]
        return self._store.do_all(list(changes))

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
        """Append text to a file, which is created if missing.

        The read and the write are atomic: of concurrent appends, all texts are in the file.

        Raises:
            ConcurrencyError: If the file is not as expected, if an expectation was given.
            MemoryStoreError: As ``write_text``.
        """
        return self._done(
            TransformChange(
                op="append",
                requested_path=rel_path,
                make=appended(text),
                actor=self._actor_of(actor),
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
        """Replace a text that occurs exactly ``count`` times in a file.

        Raises:
            MemoryStoreError: If it occurs more or fewer times; nothing changes then.
            ConcurrencyError: If the file is not as expected, if an expectation was given.
        """
        return self._done(
            TransformChange(
                op="edit",
                requested_path=rel_path,
                make=edited(old, new, count),
                actor=self._actor_of(actor),
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
        """Delete a file, or a folder if ``recursive``; return the deleted paths.

        Raises:
            MemoryStoreError: If there is no such file or folder.
            AccessDenied: If one of them is read-only; then none is deleted.
            ConcurrencyError: If the file is not as expected, if an expectation was given.
        """
        change = Delete(
            requested_path=rel_path,
            actor=self._actor_of(actor),
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
            requested_path=rel_path,
            actor=self._actor_of(actor),
            reason=reason,
            expected_sha=expected_sha,
        )
        states = int(self._store.do(change))
        if self._place is not None and not self.is_in_place:
            path = check_public_path(rel_path)
            with self._store.manifest.looking() as rows:
                until = rows.last_version(path)
            self._place.push(self._store)
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
        """Move a file, or a folder with its files, to another path; return the new paths.

        Raises:
            MemoryStoreError: If the old path does not exist, or the new one does.
            AccessDenied: If one of the two is read-only.
            ConcurrencyError: If the file is not as expected, if an expectation was given.
        """
        change = Rename(
            requested_path=old_path,
            new=new_path,
            actor=self._actor_of(actor),
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
        """Restore a version of a path, as a new version.

        Raises:
            MemoryStoreError: As ``read_version``.
            ConcurrencyError: If the file is not as expected, if an expectation was given.
        """
        return self._done(
            Restore(
                requested_path=rel_path,
                version=version,
                actor=self._actor_of(actor),
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
        """Promote a proposal to a file, which may be read-only for direct writes.

        Raises:
            MemoryStoreError: If there is no such proposal.
            ConcurrencyError: If it is not the reviewed text, if its SHA was given.
        """
        return self._done(
            Promote(
                requested_path=proposal,
                new=target,
                actor=self._actor_of(actor),
                reason=reason,
                expected_sha=expected_sha,
                keep=keep,
            )
        )

    @sync_async
    def sync(self, actor: str = "outside", reason: str = "") -> FileSyncResult:
        """Import edits of other programs in the folder.

        Raises:
            StoreError: If they could not be written to the disk.
        """
        by = actor if self.acting is None else "outside"  # the finder is not the author
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
                action = self._store.do(
                    SyncFromDisk(requested_path=path, actor=by, reason=reason, trusted=True)
                )
            except MemoryStoreError as error:
                refused.append(f"{path}: {error.message}")
                continue
            if action is not None:
                done[action].append(path)
        by_action = {name: tuple(paths) for name, paths in done.items()}
        return FileSyncResult(**by_action, refused=tuple(refused))

    @sync_async
    def change_policy(
        self,
        read_only_prefixes: Sequence[str] | None = None,
        audit: bool | None = None,
        keep_versions: bool | None = None,
        actor: str = "owner",
        reason: str = "",
    ) -> None:
        """Change the rules of the store, which is audited; the others stay as they are."""
        now = self._store.policy
        policy = Policy.of(
            now.read_only.paths if read_only_prefixes is None else read_only_prefixes,
            audit=now.audit if audit is None else audit,
            keep_versions=now.keep_versions if keep_versions is None else keep_versions,
        )
        self._store.do(
            NewPolicy(requested_path="", policy=policy, actor=self._actor_of(actor), reason=reason)
        )

    def change(self, change: PathChange) -> MemoryMeta:
        """Commit a change of a file's text, for callers that define their own changes.

        Raises:
            MemoryStoreError: If it is refused.
        """
        self._require_permission("change")
        change.actor = self._actor_of(change.actor)
        return self._done(change)

    def _done(self, change: PathChange) -> MemoryMeta:
        done: Any = self._store.do(change)  # type: ignore[arg-type]  # those that give this
        assert isinstance(done, MemoryMeta)  # noqa: S101 - of every change that comes here
        return done


class Existence(int):
    """A truth value that can also be awaited.

    Flyte's form is ``await MemoryStore.exists(...)``. Without a running event loop, the result is a
    plain ``bool``.
    """

    def __await__(self) -> Generator[Any, None, bool]:
        yield from ()
        return bool(self)

    def __repr__(self) -> str:
        return repr(bool(self))

    __str__ = __repr__


class ExistsMethod:
    """On the class, whether a key has a store; on a store, whether a file exists."""

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
        function: Any = _path_exists if instance is not None else _awaitable_key_exists
        return SyncAsyncMethod(function, instance or owner)


def _awaitable_key_exists(
    cls: type[MemoryStoreReader], *args: Any, **named: Any
) -> Existence | bool:
    exists = _key_exists(cls, *args, **named)
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return exists
    return Existence(exists)


def _key_exists(
    cls: type[MemoryStoreReader],
    key: str,
    org: str | None = None,
    project: str | None = None,
    domain: str | None = None,
    storage_root: str | None = None,
) -> bool:
    del cls
    return file_storage(namespace(org, project, domain, storage_root).path(key)).exists()


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

    It is thread-safe, and several processes may have the same store open.

    Args:
        messages: The transcript, if known; it takes precedence over the one in the store.
        root: The folder. By default a temporary one, removed with the object; for a key of a local
            place, the store's own folder.
        key: The name of the store; see ``create`` and ``get_or_create``.
        remote_path: Destination of ``save``; by default the place of the key.
        read_only_prefixes: Folders and files that direct writes may not change. Stored in a new
            store; for an existing one, they apply in addition to its own.
        audit: Whether a new store has an audit log. An existing one keeps its setting.
        keep_versions: Whether a new store stores the text of every version.

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
        self._place = None if remote_path is None else file_storage(remote_path)
        self.root = self._choose_root(root)
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

    def _choose_root(self, root: Path | str | None) -> Path:
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
        """Close the store, and remove a temporary folder. May be called more than once."""
        self._finalizer()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *args: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"MemoryStore(root={str(self.root)!r}, key={self.key!r})"

    @property
    def id(self) -> str:
        """ID of the store, the same wherever it is opened."""
        with self._store.manifest.looking() as rows:
            return str(rows.fact("remote_store") or rows.fact("store"))

    @property
    def read_only_prefixes(self) -> tuple[str, ...]:
        """Read-only prefixes, which direct writes may not change."""
        return self._store.policy.read_only.paths

    @property
    def audit(self) -> bool:
        """Whether the store has an audit log."""
        return self._store.policy.audit

    @property
    def keep_versions(self) -> bool:
        """Whether the store stores the text of every version."""
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
        """Create the store of a key; of concurrent calls, one succeeds.

        Raises:
            MemoryStoreError: If the store exists, or the key is not valid.
        """
        storage = file_storage(namespace(org, project, domain, storage_root).path(key))
        policy = Policy.of(read_only_prefixes, audit=audit, keep_versions=keep_versions)
        storage.create(policy)
        return cls(key=key, remote_path=storage.address)

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
        """Open the store of a key, and create it if there is none.

        Raises:
            MemoryStoreError: If the key is not valid.
        """
        storage = file_storage(namespace(org, project, domain, storage_root).path(key))
        policy = Policy.of(read_only_prefixes, audit=audit, keep_versions=keep_versions)
        if not storage.exists():
            with suppress(StoreExistsError):  # a concurrent call created it
                storage.create(policy)
        return cls(
            key=key,
            remote_path=storage.address,
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
            MemoryStoreError: If the key, org, project or domain is not a plain name.
        """
        return namespace(org, project, domain, storage_root).path(key)

    def append(self, message: dict[str, Any]) -> None:
        """Add a message to the transcript; ``flush_messages`` or ``save`` stores it.

        Raises:
            MemoryStoreError: If it is not a dictionary.
        """
        self.extend([message])

    def extend(self, messages: Sequence[dict[str, Any]]) -> None:
        """Add messages to the transcript; none if one is not valid."""
        added = list(messages)
        if not all(isinstance(one, dict) for one in added):
            raise MemoryStoreError("a message must be a dictionary", path=TRANSCRIPT)
        self.messages += added

    def flush_messages_sync(self) -> None:
        """Save the transcript. Messages that others added since are kept, before the new ones.

        Raises:
            ConcurrencyError: If others changed it and these messages do not continue what was read.
        """
        self._require_permission("flush_messages")
        done: tuple[bytes | None, list[dict[str, Any]]] = self._store.do(
            Flush(self._base, self.messages, self._actor_of("agent"))
        )
        self._base, self.messages[:] = done

    def flush_messages(self) -> Awaitable[None]:
        """As ``flush_messages_sync``, awaited."""
        return call_in_thread(self.flush_messages_sync)

    def audit_tail_sync(self, n: int = 20) -> list[dict[str, Any]]:
        """Return the last ``n`` events, oldest first; none without an audit log."""
        self._require_permission("audit_tail")
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
        """Write a text to the disk.

        Args:
            rel_path: Path relative to the store.
            content: The text, stored byte for byte as UTF-8.
            actor: Actor for the audit log.
            reason: Reason for the audit log.
            expected_sha: Required present SHA of the file; empty for a new file.
            expected_version: Required present version; 0 for a new file. Unlike the SHA, it
                differs if the file was changed and changed back.

        Raises:
            ConcurrencyError: If the file is not as expected.
            AccessDenied: If the path is reserved or read-only.
            MemoryStoreError: If the path or the text is not valid.
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
                requested_path=rel_path,
                data=encode(),
                actor=self._actor_of(actor),
                reason=reason,
                expected_sha=expected_sha,
                expected_version=expected_version,
            )
        )

    @sync_async
    def refresh(self, discard: Sequence[str] = ()) -> None:
        """Pull the saves of others; a store in a local folder is always up to date.

        Args:
            discard: Files whose changes here are discarded.

        Raises:
            ConcurrencyError: If both changed another file; then nothing is pulled.
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
        storage = self._place
        if remote_destination is not None:
            destination = file_storage(remote_destination)
            if (
                self.key is not None
                and storage is not None
                and destination.address != storage.address
            ):
                raise MemoryStoreError(
                    f"remote_destination is for stores without a key; {self.key!r} is saved at its"
                    f" deterministic key path, {storage.address}",
                    path="remote_destination",
                    hint="Call save() without it, or open the files with root= and no key.",
                )
            storage = destination
        self.flush_messages_sync()
        if storage is None:
            if self._temporary is None:
                return Dir.of(str(self.root))
            storage = file_storage(namespace().unnamed())
        if not storage.is_at(self.root):
            self.sync()
            if self._is_own(storage):
                storage.push(self._store)
                self._reload()
            else:
                self._copy_to(storage)
        return Dir.of(storage.address)

    def _is_own(self, storage: FileStorage) -> bool:
        """Return whether a place is the one whose changes this store follows."""
        if self._place is not None:
            return storage.address == self._place.address
        with self._store.manifest.committing() as rows:
            if rows.fact("bound") is None:
                rows.state("bound", storage.address)
            return bool(rows.fact("bound") == storage.address)

    def _copy_to(self, storage: FileStorage) -> None:
        """Copy the files and the transcript to a place that is not the store's own.

        Raises:
            ConcurrencyError: If another writer changed the files there since the last copy.
        """
        noted = f"copied:{storage.address}"
        with self._store.manifest.looking() as rows:
            base: dict[str, str] = json.loads(rows.fact(noted, "{}"))
            about = {row.path: (row.actor, row.reason) for row in rows.files()}
        shas = {path: self.current_sha(path) for path in self.list_paths()}
        remote = storage.address if storage.folder is None else None
        with MemoryStore(root=storage.folder, remote_path=remote) as copy:
            theirs = {path: copy.current_sha(path) for path in shas.keys() | base.keys()}
            for path, sha in theirs.items():
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
            for path in sorted(path for path, sha in theirs.items() if sha != shas.get(path, "")):
                copy._store.do(
                    self._replacement(path, theirs[path], *about.get(path, ("agent", "")))
                )
            copy.save()
        with self._store.manifest.committing() as rows:
            rows.state(noted, json.dumps(shas))

    def _replacement(self, path: str, expected_sha: str, actor: str, reason: str) -> Write | Delete:
        """Return the change that replaces a copy's file by the file here."""
        data = self._bytes(path)
        if data is None:
            return Delete(
                requested_path=path,
                trusted=True,
                actor=actor,
                reason=reason,
                expected_sha=expected_sha,
            )
        return Write(
            requested_path=path,
            data=data,
            trusted=True,
            actor=actor,
            reason=reason,
            expected_sha=expected_sha,
        )


def _close(store: GroupCommit, temporary: tempfile.TemporaryDirectory[str] | None) -> None:
    store.close()
    if temporary is not None:
        temporary.cleanup()
