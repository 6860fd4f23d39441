"""Two-way synchronization of a store with a plain folder of notes.

The folder records the last common state of each path. A change on one side is applied to the other,
under a precondition; for a change on both sides, both texts are kept, the folder's under a name of
its own. A folder that lost most of its files, or belongs to another store, is refused. Hidden files
are ignored (also ``.git``, so a repository of notes can be synchronized).
"""

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from satchel.errors import (
    AccessDenied,
    ConcurrencyError,
    InputError,
    ManyDeletedError,
    MemoryStoreError,
    PathRefusedError,
    RefusedError,
    SatchelError,
)
from satchel.files.memory_store import MemoryStore
from satchel.files.paths import check_path, check_public_path
from satchel.files.tree import LARGEST
from satchel.runtime.contained_folder import ContainedFolder

MARKER = ".satchel-files.json"

_FEW = 10
_MARKER_LIMIT = 64 << 20


@dataclass
class FolderSyncResult:
    """Result of a synchronization, by path."""

    to_store: list[str] = field(default_factory=list)
    to_folder: list[str] = field(default_factory=list)
    deleted_in_store: list[str] = field(default_factory=list)
    deleted_in_folder: list[str] = field(default_factory=list)
    conflicts: list[str] = field(default_factory=list)
    """Changed on both sides: the store's text is at the path, the folder's under another name."""

    left_out: list[str] = field(default_factory=list)
    """With the reason."""


def keep_alike(
    store: MemoryStore,
    folder: Path,
    *,
    prefix: str = "",
    actor: str = "folder",
    delete_many: bool = False,
    read_only: bool = False,
) -> FolderSyncResult:
    """Synchronize a folder and a store once.

    Args:
        store: The store; the caller saves it.
        folder: The folder, created if missing.
        prefix: The folder in the store to synchronize with; all of it by default.
        actor: Actor for the audit log.
        delete_many: Whether to delete in the store even if most of the folder's files are gone.
        read_only: Whether to apply only the store's changes to the folder.

    Raises:
        ManyDeletedError: If more than half, and more than ten, of the folder's files are gone.
        RefusedError: If the folder is synchronized with another store.
        PathRefusedError: If the folder is a link.
        TargetError: If the folder cannot be written.
    """
    if not folder.exists():
        folder.mkdir(parents=True)
    with ContainedFolder(folder) as there:
        return _Pass(store, there, prefix, actor).run(delete_many=delete_many, read_only=read_only)


class _Pass:
    """One pass over both sides."""

    def __init__(
        self, store: MemoryStore, folder: ContainedFolder, prefix: str, actor: str
    ) -> None:
        self._store = store
        self._folder = folder
        self._prefix = check_path(prefix) + "/" if prefix else ""
        self._actor = actor
        self._done = FolderSyncResult()
        self._base: dict[str, str] = {}

    def run(self, *, delete_many: bool, read_only: bool) -> FolderSyncResult:
        self._read_marker()
        theirs = self._listed()
        ours = {
            path[len(self._prefix) :]: self._store.current_sha(path)
            for path in self._store.list_paths(self._prefix.rstrip("/"))
        }
        deleted = [path for path in self._base if path not in theirs and path in ours]
        if len(deleted) > max(_FEW, len(self._base) // 2) and not delete_many and not read_only:
            raise ManyDeletedError(
                f"{len(deleted):,} of {len(self._base):,} files are missing from the folder",
                file=str(self._folder.path),
                hint="Check that it is the right folder; to delete them, use delete_many=True.",
            )
        try:
            for path in sorted({*theirs, *ours, *self._base}):
                self._settle(path, theirs.get(path, ""), ours.get(path, ""), read_only=read_only)
        finally:
            self._write_marker()
        return self._done

    def _settle(self, path: str, theirs: str, ours: str, *, read_only: bool) -> None:
        base = self._base.get(path, "")
        if theirs == ours:
            self._agree(path, ours)
            return
        try:
            if theirs == base or (read_only and ours != base):
                self._to_folder(path, ours, theirs, base)
            elif ours == base and not read_only:
                self._to_store(path, ours)
            elif not read_only:
                self._keep_both(path, theirs, ours)
        except AccessDenied as error:
            self._done.left_out.append(f"{path}: {error.message}")
        except ConcurrencyError:
            self._done.left_out.append(
                f"{path}: it was changed during the pass; the next pass includes it"
            )
        except SatchelError as error:
            self._done.left_out.append(f"{path}: {error.message}")

    def _to_folder(self, path: str, ours: str, theirs: str, base: str) -> None:
        if theirs not in {"", base}:
            self._aside_in_folder(path, theirs)
        if ours:
            self._put(path, self._store.read_bytes(self._prefix + path) or b"")
            self._done.to_folder.append(path)
        else:
            self._folder.remove(path)
            self._done.deleted_in_folder.append(path)
        self._agree(path, ours)

    def _to_store(self, path: str, ours: str) -> None:
        inner = self._prefix + path
        try:
            data = self._folder.read(path, limit=LARGEST)
        except InputError:
            if path in self._listed():
                raise
            self._store.delete(inner, actor=self._actor, expected_sha=ours)
            self._done.deleted_in_store.append(path)
            self._agree(path, "")
            return
        meta = self._store.write_bytes(inner, data, actor=self._actor, expected_sha=ours)
        self._done.to_store.append(path)
        self._agree(path, meta.sha256)

    def _keep_both(self, path: str, theirs: str, ours: str) -> None:
        if not theirs:  # deleted there, changed here: the change wins
            self._to_folder(path, ours, "", "")
            return
        data = self._folder.read(path, limit=LARGEST)
        if not ours:  # the other way round
            self._to_store(path, "")
            return
        aside = _beside(path, theirs)
        meta = self._store.write_bytes(self._prefix + aside, data, actor=self._actor)
        self._put(aside, data)
        self._agree(aside, meta.sha256)
        self._put(path, self._store.read_bytes(self._prefix + path) or b"")
        self._agree(path, ours)
        self._done.conflicts.append(path)

    def _aside_in_folder(self, path: str, theirs: str) -> None:
        self._put(_beside(path, theirs), self._folder.read(path, limit=LARGEST))
        self._done.conflicts.append(path)

    def _agree(self, path: str, sha: str) -> None:
        if sha:
            self._base[path] = sha
        else:
            self._base.pop(path, None)

    def _put(self, path: str, data: bytes) -> None:
        if "/" in path:
            self._folder.make_folder(path.rsplit("/", 1)[0])
        self._folder.write(path, data)

    def _listed(self, below: tuple[str, ...] = ()) -> dict[str, str]:
        """Return the SHA of each file in the folder."""
        shas: dict[str, str] = {}
        for name, kind in self._folder.listing(below):
            path = "/".join((*below, name))
            if name.startswith("."):
                continue
            if kind == "folder":
                shas.update(self._listed((*below, name)))
                continue
            try:
                if kind != "file":
                    raise PathRefusedError(f"this is a {kind}")
                if check_public_path(self._prefix + path) != self._prefix + path:
                    raise MemoryStoreError("its name is not a normalized path")
                data = self._folder.read(path, limit=LARGEST)
            except SatchelError as error:
                self._leave_out(path, error.message)
                continue
            shas[path] = hashlib.sha256(data).hexdigest()
        return shas

    def _leave_out(self, path: str, reason: str) -> None:
        line = f"{ascii(path)[1:-1]}: {reason}"
        if line not in self._done.left_out:
            self._done.left_out.append(line)

    def _read_marker(self) -> None:
        if MARKER not in {one.name for one in self._folder.listing()}:
            return
        try:
            marker: Any = json.loads(self._folder.read(MARKER, limit=_MARKER_LIMIT))
            store, prefix = marker["store"], marker["prefix"]
            base = {check_path(path): str(sha) for path, sha in marker["agreed"].items()}
        except (ValueError, TypeError, KeyError, AttributeError, MemoryStoreError):
            raise RefusedError(
                f"{MARKER} is damaged, so changes cannot be determined",
                file=str(self._folder.path),
                hint="Remove it; then files that differ are kept twice.",
            ) from None
        if (store, prefix) != (self._store.id, self._prefix):
            raise RefusedError(
                "this folder is synchronized with another store",
                file=str(self._folder.path),
                hint=f"Remove {MARKER} to synchronize it with this one.",
            )
        self._base = base

    def _write_marker(self) -> None:
        marker = {"store": self._store.id, "prefix": self._prefix, "agreed": self._base}
        self._folder.write(MARKER, json.dumps(marker, indent=1, sort_keys=True).encode())


def _beside(path: str, sha: str) -> str:
    """Return the name of the second text of a conflict."""
    named = PurePosixPath(path)
    return str(named.with_name(f"{named.stem[:200]}.conflict-{sha[:8]}{named.suffix[:20]}"))
