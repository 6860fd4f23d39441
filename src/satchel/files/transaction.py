"""The transaction of one commit: its changes, and what to copy out afterwards."""

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from satchel.errors import ConcurrencyError, MemoryStoreError
from satchel.files import audit
from satchel.files.manifest import (
    FileRow,
    ManifestRows,
    MemoryMeta,
    Policy,
    StoredVersion,
    moment,
    sidecar,
    version_name,
)
from satchel.files.paths import TRANSCRIPT, check_path, check_public_path, encoded
from satchel.files.tree import LARGEST, StoreFolder


def version_file(version: StoredVersion) -> str:
    """Return the path of the file of a version."""
    return f"versions/{encoded(version.path)}/{version_name(version.at, version.sha)}"


def copy_out(rows: ManifestRows, tree: StoreFolder, path: str) -> None:
    """Copy a path and its sidecar from the manifest to the folder."""
    row = rows.file(path)
    about = f"meta/{encoded(path)}.json"
    if row is None:
        tree.remove(path)
        if path != TRANSCRIPT:
            _remove_own(tree, about)
        return
    data = rows.content(row.sha)
    if data is None:
        if row.away:  # it was an older version
            tree.remove(path)
        return
    tree.place(path, data)
    if path != TRANSCRIPT:
        tree.place(about, sidecar(MemoryMeta.of(row), tree.read(about)))


def copy_version(rows: ManifestRows, tree: StoreFolder, version: StoredVersion) -> None:
    """Copy a version to the folder."""
    data = rows.content(version.sha)
    if data is not None:
        tree.place(version_file(version), data)


def _remove_own(tree: StoreFolder, path: str) -> None:
    with suppress(OSError), tree.within(path) as (folder, name):
        os.unlink(name, dir_fd=folder)


MOST_ACTOR = 1_000
MOST_REASON = 10_000


class ChangeInfo(Protocol):
    """Audit data of a request: operation, path, actor, reason."""

    @property
    def op(self) -> str:
        """The operation."""
        ...

    @property
    def requested_path(self) -> object:
        """The path as the caller gave it."""
        ...

    @property
    def actor(self) -> str:
        """The actor."""
        ...

    @property
    def reason(self) -> str:
        """The reason."""
        ...


class StoreChange(ChangeInfo, Protocol):
    """A requested change of a store."""

    def apply(self, group: "FileTransaction") -> object:
        """Check and apply the change, and return its result.

        Raises:
            MemoryStoreError: If it is refused.
        """
        ...


Fetch = Callable[[str, str], bytes | None]
"""Returns the content of a digest, for a path; None if it is unknown."""


class PathState(NamedTuple):
    """The present state of a path."""

    data: bytes | None
    """None if it does not exist."""

    sha: str
    """Empty if it does not exist."""

    row: FileRow | None
    """Its row in the manifest."""

    @property
    def version(self) -> int | None:
        """Version number; 0 if it does not exist, None if another program changed it."""
        if self.data is None:
            return 0
        return self.row.version if self.row and self.row.sha == self.sha else None

    @property
    def outside(self) -> bool:
        """Whether it exists, and differs from the manifest."""
        return self.data is not None and self.version is None


class FileTransaction:
    """The changes of one commit.

    Args:
        rows: The manifest, in a transaction.
        tree: The folder, as the last commit or another program left it.
        policy: The rules.
        fetch: Returns the content of a digest that only the remote place has.
    """

    def __init__(self, rows: ManifestRows, tree: StoreFolder, policy: Policy, fetch: Fetch) -> None:
        self.rows = rows
        self.tree = tree
        self.policy = policy
        self._fetch = fetch
        self._seen: dict[str, bytes | None] = {}
        self.changed: dict[str, None] = {}
        """Unique paths to copy out."""

        self.snapshots: list[StoredVersion] = []
        """The versions to copy out."""

        self.erased: list[str] = []
        """Paths to erase."""

        self.audited = False

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Apply a change atomically."""
        seen, changed, snapshots = dict(self._seen), dict(self.changed), len(self.snapshots)
        self.rows.do("SAVEPOINT change")
        try:
            yield
        except BaseException:
            self._seen, self.changed = seen, changed
            del self.snapshots[snapshots:]
            with suppress(Exception):
                self.rows.do("ROLLBACK TO change")
            raise
        finally:
            with suppress(Exception):
                self.rows.do("RELEASE change")

    def state(self, path: str) -> PathState:
        """Return the present state of a path.

        Raises:
            MemoryStoreError: If it is not a memory file.
        """
        row = self.rows.file(path)
        if path in self._seen:
            data = self._seen[path]
        elif row is not None and row.away:
            data = self.tree.read(path)
            if data is None:
                data = self.content(row.sha, path)
                if data is None:
                    raise MemoryStoreError("the content of this file is missing", path=path)
                self.rows.keep(row.sha, data)
                row = row._replace(away=0)
                self.rows.put(row)
                self._seen[path] = data
                self.changed[path] = None
        else:
            data = self.tree.read(path)
        return PathState(data, "" if data is None else hashlib.sha256(data).hexdigest(), row)

    def set_present(self, path: str, data: bytes) -> None:
        """Set the present bytes of a path, whose digest is in its row, for the next change."""
        self._seen[path] = data

    def content(self, sha: str, path: str) -> bytes | None:
        """Return the content of a digest, from the remote place if necessary."""
        data = self.rows.content(sha)
        return self._fetch(sha, path) if data is None else data

    def demand(
        self, path: str, state: PathState, expected_sha: str | None, expected_version: int | None
    ) -> None:
        """Require that a path is as the caller expects.

        Raises:
            ConcurrencyError: If it is not; with its present state.
        """
        wrong = (expected_sha is not None and expected_sha != state.sha) or (
            expected_version is not None and expected_version != state.version
        )
        if wrong:
            raise ConcurrencyError(
                path,
                expected_sha,
                state.sha,
                expected_version=expected_version,
                actual_version=state.version,
            )

    def put(
        self, path: str, data: bytes, change: StoreChange, *, op: str = "", other: str = ""
    ) -> MemoryMeta:
        """Set the bytes of a path."""
        if len(data) > LARGEST:
            raise MemoryStoreError(f"a memory file can have at most {LARGEST:,} bytes", path=path)
        state = self.state(path)
        if state.data is None:
            self._refuse_folder(path)
        sha = hashlib.sha256(data).hexdigest()
        if op != "sync":  # which imports exactly that
            self._keep_outside(path, state)
        self.rows.keep(sha, data)
        named = op or ("update" if state.data is not None else "create")
        version = self._version(path, named, sha, len(data), change, other)
        row = FileRow(
            path,
            sha,
            len(data),
            version.version,
            version.revision,
            version.at,
            change.actor,
            change.reason,
            0,
        )
        self.rows.put(row)
        self._dropped(state)
        self._seen[path] = data
        self.changed[path] = None
        if self.policy.keep_versions and path != TRANSCRIPT:
            self.snapshots.append(version)
        self._event(version, state.sha)
        return MemoryMeta.of(row)

    def take_away(
        self, path: str, change: StoreChange, *, op: str = "delete", other: str = ""
    ) -> None:
        """Delete a path."""
        state = self.state(path)
        self._keep_outside(path, state)
        version = self._version(path, op, "", 0, change, other)
        self.rows.do("DELETE FROM file WHERE path = ?", path)
        self._dropped(state)
        self._seen[path] = None
        self.changed[path] = None
        if op not in {"renamed", "promoted"}:  # recorded in the event of the new path
            self._event(version, state.sha)

    def set_aside(self, sha: str, data: bytes) -> None:
        """Store bytes that will be replaced and are not a version of any file."""
        self.rows.keep(sha, data)
        self.rows.state(f"set_aside:{sha}", TRANSCRIPT)

    def erase(self, path: str, change: StoreChange) -> None:
        """Erase a path and all its bytes; its events stay in the audit log."""
        if self.state(path).data is not None:
            self.take_away(path, change, op="erase")
        else:
            self.note("erase", change, path=path)
        self.rows.erase(path)
        self._seen[path] = None
        self.snapshots = [one for one in self.snapshots if one.path != path]
        self.erased.append(path)

    def refused(self, change: StoreChange, error: MemoryStoreError) -> None:
        """Record a refusal in the audit log."""
        if not self.policy.audit:
            return
        path = (
            change.requested_path
            if isinstance(change.requested_path, str)
            else type(change.requested_path).__name__
        )
        facts = {
            "ts": self._now(),
            "op": "refused",
            "attempted": change.op,
            "path": audit.shortened(error.path or ascii(path)[1:-1]),
            "error": error.code,
            "message": audit.shortened(error.message),
            "actor": audit.shortened(str(change.actor)),
            "reason": audit.shortened(str(change.reason)),
        }
        audit.add_event(self.rows, facts)
        self.audited = True

    def note(self, op: str, change: StoreChange, **facts: object) -> None:
        """Add an event that is not about the content of one path."""
        if self.policy.audit:
            common = {"ts": self._now(), "op": op, "actor": change.actor, "reason": change.reason}
            audit.add_event(self.rows, {**common, **facts})
            self.audited = True

    def files_in(self, folder: str) -> list[str]:
        """Return the sorted paths of all files in a folder."""
        paths = set(self.tree.files(folder)) | {row.path for row in self.rows.files(folder)}
        below = folder + "/" if folder else ""
        paths |= {path for path in self._seen if path.startswith(below)}
        return sorted(path for path in paths if self._exists(path))

    def _exists(self, path: str) -> bool:
        if path in self._seen:
            return self._seen[path] is not None
        row = self.rows.file(path)
        return bool(row and row.away) or self.tree.kind(path) == "file"

    def _refuse_folder(self, path: str) -> None:
        """Refuse a path that is a folder, or below a file, in this commit or at the remote place.

        Conflicts with the local folder were refused when the path was read.
        """
        below = path + "/"
        for depth in range(path.count("/")):
            above = path.rsplit("/", depth + 1)[0]
            row = self.rows.file(above)
            if self._seen.get(above) is not None or (row is not None and row.away):
                raise MemoryStoreError("a parent of the path is a file, not a folder", path=path)
        away = "SELECT 1 FROM file WHERE path > ? AND path < ? AND away"
        if any(
            data is not None and one.startswith(below) for one, data in self._seen.items()
        ) or self.rows.one(away, below, path + "0"):
            raise MemoryStoreError("this is a folder", path=path)

    def _keep_outside(self, path: str, state: PathState) -> None:
        """Store the edit of another program as a version, before it is replaced."""
        if state.outside and state.data is not None and self.policy.keep_versions:
            self.rows.keep(state.sha, state.data)
            version = self._version(path, "outside", state.sha, len(state.data), _OUTSIDE, "")
            self.snapshots.append(version)

    def _version(
        self, path: str, op: str, sha: str, size: int, change: ChangeInfo, other: str
    ) -> StoredVersion:
        _check_words(change, path)
        revision = self.rows.fact("revision", 0) + 1
        self.rows.state("revision", revision)
        version = StoredVersion(
            path,
            self.rows.last_version(path) + 1,
            revision,
            op,
            sha,
            size,
            self._now(),
            change.actor,
            change.reason,
            other,
        )
        self.rows.add(version)
        return version

    def _dropped(self, state: PathState) -> None:
        if state.row is not None:
            self.rows.drop_unused(state.row.sha, versions=self.policy.keep_versions)

    def _event(self, version: StoredVersion, old_sha: str) -> None:
        if not self.policy.audit:
            return
        snapshot = self.snapshots and self.snapshots[-1] is version
        facts: dict[str, object] = {
            "ts": version.at,
            "op": version.op,
            "path": version.path,
            "old_sha": old_sha,
            "new_sha": version.sha,
            "actor": version.actor,
            "reason": version.reason,
            "version": version.version,
            "version_file": version_file(version) if snapshot else "",
        }
        if version.other:
            facts["other"] = version.other
        audit.add_event(self.rows, facts)
        self.audited = True

    def _now(self) -> str:
        """Return the present time, but later than that of the previous change."""
        clock = max(time.time_ns() // 1_000, self.rows.fact("clock", 0) + 1)
        self.rows.state("clock", clock)
        return moment(clock)


class _Outside:
    op = "outside"
    requested_path = ""
    actor = "outside"
    reason = "found in the folder, written by another program"


_OUTSIDE = _Outside()


def _check_words(change: ChangeInfo, path: str) -> None:
    for name, text, most in (
        ("actor", change.actor, MOST_ACTOR),
        ("reason", change.reason, MOST_REASON),
    ):
        if not isinstance(text, str):
            raise MemoryStoreError(f"{name} must be text, not {type(text).__name__}", path=path)
        try:
            text.encode()
        except UnicodeEncodeError:
            raise MemoryStoreError(f"{name} is not Unicode", path=path) from None
        if len(text) > most:
            raise MemoryStoreError(f"{name} can have at most {most:,} characters", path=path)


@dataclass(kw_only=True)
class PathChange:
    """A change of one path, with its audit data and preconditions."""

    op: str = "write"
    requested_path: Any
    actor: str = "agent"
    reason: str = ""
    expected_sha: str | None = None
    expected_version: int | None = None
    trusted: bool = False
    """Whether read-only prefixes may be written, for promotion and restore."""

    def target(self, group: FileTransaction) -> str:
        """Return the validated path, after checking that it may be written."""
        path = check_public_path(self.requested_path)
        if not self.trusted:
            group.policy.read_only.refuse(path)
        return path

    def checked_state(self, group: FileTransaction, path: str) -> PathState:
        """Return the present state, after checking the preconditions."""
        state = group.state(path)
        group.demand(path, state, self.expected_sha, self.expected_version)
        return state


@dataclass(kw_only=True)
class Write(PathChange):
    """A write of bytes."""

    data: bytes

    def apply(self, group: FileTransaction) -> MemoryMeta:
        """See ``Change``."""
        path = self.target(group)
        self.checked_state(group, path)
        return group.put(path, self.data, self)


@dataclass(kw_only=True)
class TransformChange(PathChange):
    """A write of bytes computed from the present ones."""

    make: Callable[[str, bytes | None], bytes]
    """Function of the path and its bytes; may raise ``MemoryStoreError``."""

    def apply(self, group: FileTransaction) -> MemoryMeta:
        """See ``Change``."""
        path = self.target(group)
        state = self.checked_state(group, path)
        return group.put(path, self.make(path, state.data), self)


@dataclass(kw_only=True)
class Delete(PathChange):
    """A deletion."""

    op: str = "delete"
    recursive: bool = False

    def apply(self, group: FileTransaction) -> list[str]:
        """See ``Change``; returns the deleted paths."""
        path = self.target(group)
        paths = _all_of(group, path, self) if self.recursive else [path]
        if paths == [path] and self.checked_state(group, path).data is None:
            raise MemoryStoreError("no such file", path=path)
        for one in paths:
            group.take_away(one, self)
        return paths


@dataclass(kw_only=True)
class Rename(PathChange):
    """A move of a file, or of a folder with its files."""

    op: str = "rename"
    new: Any
    overwrite: bool = False

    def apply(self, group: FileTransaction) -> list[str]:
        """See ``Change``; returns the new paths."""
        old = self.target(group)
        new = check_public_path(self.new)
        if not self.trusted:
            group.policy.read_only.refuse(new)
        if new == old or new.startswith(old + "/"):
            raise MemoryStoreError("a file or folder cannot be moved into itself", path=new)
        paths = _all_of(group, old, self)
        if paths != [old] and not self.overwrite and group.files_in(new):
            raise MemoryStoreError("the new path already exists", path=new)
        moved = []
        for path in paths:
            state = self.checked_state(group, path) if paths == [old] else group.state(path)
            if state.data is None:
                raise MemoryStoreError("no such file", path=path)
            target = check_path(new + path[len(old) :])
            if not self.overwrite and group.state(target).data is not None:
                raise MemoryStoreError("the new path already exists", path=target)
            group.take_away(path, self, op="renamed", other=target)
            group.put(target, state.data, self, op="rename", other=path)
            moved.append(target)
        return moved


@dataclass(kw_only=True)
class Restore(PathChange):
    """A restore of a version."""

    op: str = "restore"
    version: int

    def apply(self, group: FileTransaction) -> MemoryMeta:
        """See ``Change``."""
        path = self.target(group)
        self.checked_state(group, path)
        version = group.rows.version(path, self.version)
        return group.put(
            path, content_of(group.content, path, self.version, version), self, op="restore"
        )


@dataclass(kw_only=True)
class Promote(PathChange):
    """A promotion of a proposal to a read-only path."""

    op: str = "promote"
    new: Any
    keep: bool = False
    """Whether to keep the proposal."""

    def apply(self, group: FileTransaction) -> MemoryMeta:
        """See ``Change``."""
        path, target = check_public_path(self.requested_path), check_public_path(self.new)
        state = self.checked_state(group, path)
        if state.data is None:
            raise MemoryStoreError("no such proposal", path=path)
        if target == path:
            raise MemoryStoreError("a proposal cannot be promoted to its own path", path=path)
        meta = group.put(target, state.data, self, op="promote", other=path)
        if not self.keep:
            group.take_away(path, self, op="promoted", other=target)
        return meta


@dataclass(kw_only=True)
class SyncFromDisk(PathChange):
    """An import of an edit of another program."""

    op: str = "sync"

    def apply(self, group: FileTransaction) -> str | None:
        """See ``Change``; returns what was done, None if nothing."""
        path = check_public_path(self.requested_path)
        row = group.rows.file(path)
        if row is not None and row.away and group.tree.read(path) is None:
            return None
        state = group.state(path)
        if state.data is None:
            if row is None:
                return None
            group.take_away(path, self, op="sync")
            return "deleted"
        if not state.outside:
            return None
        group.put(path, state.data, self, op="sync")
        return "created" if row is None else "changed"


@dataclass(kw_only=True)
class Erase(PathChange):
    """An erasure of a path and all its versions."""

    op: str = "erase"

    def apply(self, group: FileTransaction) -> int:
        """See ``Change``; returns the number of erased versions."""
        path = check_public_path(self.requested_path)
        self.checked_state(group, path)
        states = group.rows.last_version(path)
        if not states and group.state(path).data is None:
            raise MemoryStoreError("no such file ever existed", path=path)
        group.erase(path, self)
        return states


@dataclass(kw_only=True)
class NewPolicy(PathChange):
    """A change of the store's rules."""

    op: str = "policy"
    policy: Policy

    def apply(self, group: FileTransaction) -> None:
        """See ``Change``."""
        before = Policy.read(group.rows)
        facts: dict[str, object] = {
            "read_only_prefixes": list(self.policy.read_only.paths),
            "audit": self.policy.audit,
            "keep_versions": self.policy.keep_versions,
        }
        group.note("policy", self, **facts)  # also when it switches the audit log off or on
        self.policy.write(group.rows)
        if before is not None and not before.audit:
            group.policy = self.policy
            group.note("policy", self, **facts)


def content_of(
    content: Callable[[str, str], bytes | None],
    path: str,
    number: int,
    version: StoredVersion | None,
) -> bytes:
    """Return the bytes of a version.

    Raises:
        MemoryStoreError: If there is no such version, it is a deletion, or its bytes are gone.
    """
    if version is None:
        raise MemoryStoreError(f"the file has no version {number}", path=path)
    if not version.sha:
        raise MemoryStoreError(f"version {number} is a deletion", path=path)
    data = content(version.sha, path)
    if data is None:
        raise MemoryStoreError(
            f"the text of version {number} was not stored",
            path=path,
            hint="A store created with keep_versions=True stores every version.",
        )
    return data


def edited(old: str, new: str, count: int) -> Callable[[str, bytes | None], bytes]:
    """Return a function that replaces a text with an exact number of occurrences."""

    def make(path: str, data: bytes | None) -> bytes:
        if not old:
            raise MemoryStoreError("the text to replace is empty", path=path)
        if data is None:
            raise MemoryStoreError("no such file", path=path)
        text = decoded_text(path, data)
        occurrences = text.count(old)
        if occurrences != count:
            raise MemoryStoreError(
                f"the text to replace occurs {occurrences:,} times, not {count:,}", path=path
            )
        return encoded_text(path, text.replace(old, new))

    return make


def appended(text: str) -> Callable[[str, bytes | None], bytes]:
    """Return a function that appends a text; a missing file is created."""
    return lambda path, data: (data or b"") + encoded_text(path, text)


def encoded_text(path: object, text: Any) -> bytes:
    """Encode a text as UTF-8, otherwise unchanged.

    Raises:
        MemoryStoreError: If it is not text.
    """
    where = path if isinstance(path, str) else None
    if not isinstance(text, str):
        raise MemoryStoreError(f"the content must be text, not {type(text).__name__}", path=where)
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise MemoryStoreError(f"the content is not Unicode: {error.reason}", path=where) from None


def decoded_text(path: str, data: bytes) -> str:
    """Decode bytes as UTF-8, otherwise unchanged.

    Raises:
        MemoryStoreError: If they are not UTF-8.
    """
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise MemoryStoreError(
            "the file is not UTF-8", path=path, byte=error.start, hint="Use read_bytes."
        ) from None


def encoded_json(path: object, value: Any) -> bytes:
    """Return a value as JSON in Flyte's form: indented, with sorted keys.

    Dates, paths, UUIDs and the like become strings, as there; ambiguous values are refused.

    Raises:
        MemoryStoreError: If JSON cannot represent it.
    """
    where = path if isinstance(path, str) else None
    try:
        text = json.dumps(value, indent=2, sort_keys=True, allow_nan=False, default=_plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise MemoryStoreError(f"cannot be written as JSON: {error}", path=where) from None
    return encoded_text(path, text)


def _plain(value: Any) -> str:
    from datetime import date, time
    from decimal import Decimal
    from pathlib import PurePath
    from uuid import UUID

    if isinstance(value, date | time | Decimal | PurePath | UUID):
        return str(value)
    raise TypeError(f"a {type(value).__name__}")


def _all_of(group: FileTransaction, path: str, change: PathChange) -> list[str]:
    """Return the files of a path: itself, or all files in the folder."""
    if group.tree.kind(path) != "folder":
        row = group.rows.file(path)
        if row is not None or group.tree.kind(path) == "file":
            return [path]
    paths = group.files_in(path)
    if not paths:
        raise MemoryStoreError("no such file or folder", path=path)
    if change.expected_sha is not None or change.expected_version is not None:
        raise MemoryStoreError("a folder has no sha and no version", path=path)
    for one in paths:
        if not change.trusted:
            group.policy.read_only.refuse(one)
    return paths
