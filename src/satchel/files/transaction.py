"""One commit in the making: what its changes see of each other, and what to copy out afterwards."""

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
    """Return the path of the file that a version is copied to."""
    return f"versions/{encoded(version.path)}/{version_name(version.at, version.sha)}"


def copy_out(rows: ManifestRows, tree: StoreFolder, path: str) -> None:
    """Have a path in the folder, and its sidecar, as the manifest says."""
    row = rows.file(path)
    about = f"meta/{encoded(path)}.json"
    if row is None:
        tree.remove(path)
        if path != TRANSCRIPT:
            _remove_own(tree, about)
        return
    data = rows.content(row.sha)
    if data is None:
        if row.away:  # what was there is an older state
            tree.remove(path)
        return
    tree.place(path, data)
    if path != TRANSCRIPT:
        tree.place(about, sidecar(MemoryMeta.of(row), tree.read(about)))


def copy_version(rows: ManifestRows, tree: StoreFolder, version: StoredVersion) -> None:
    """Have a version in the folder."""
    data = rows.content(version.sha)
    if data is not None:
        tree.place(version_file(version), data)


def _remove_own(tree: StoreFolder, path: str) -> None:
    with suppress(OSError), tree.within(path) as (folder, name):
        os.unlink(name, dir_fd=folder)


MOST_ACTOR = 1_000
MOST_REASON = 10_000


class ChangeInfo(Protocol):
    """Who does something to a store, and why."""

    @property
    def op(self) -> str:
        """What is to be done, in a word."""
        ...

    @property
    def said(self) -> object:
        """The path as the caller gave it."""
        ...

    @property
    def actor(self) -> str:
        """Who wants it."""
        ...

    @property
    def reason(self) -> str:
        """Why."""
        ...


class StoreChange(ChangeInfo, Protocol):
    """A requested change of a store."""

    def apply(self, group: "FileTransaction") -> object:
        """Check that it may be done, do it, and return what came of it.

        Raises:
            MemoryStoreError: If it may not be done.
        """
        ...


Fetch = Callable[[str, str], bytes | None]
"""Gives the content with a digest, of the path it is wanted for; None where it is not known."""


class PathState(NamedTuple):
    """A path as a change finds it."""

    data: bytes | None
    """None where there is nothing."""

    sha: str
    """Empty where there is nothing."""

    row: FileRow | None
    """What the manifest says of it."""

    @property
    def version(self) -> int | None:
        """The number of this state; 0 where there is nothing, None if it was changed outside."""
        if self.data is None:
            return 0
        return self.row.version if self.row and self.row.sha == self.sha else None

    @property
    def outside(self) -> bool:
        """Whether it is there, and not as the manifest says."""
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
        """The paths to copy out, each once."""

        self.snapshots: list[StoredVersion] = []
        """The versions to copy out."""

        self.erased: list[str] = []
        """Paths of which nothing is to be left."""

        self.audited = False

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Have a change done wholly or not at all."""
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
        """Return what there is at a path.

        Raises:
            MemoryStoreError: If there is something there that is no memory file.
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

    def found_as(self, path: str, data: bytes) -> None:
        """Have the next change of a path follow these bytes, which its row has the digest of."""
        self._seen[path] = data

    def content(self, sha: str, path: str) -> bytes | None:
        """Return the content with a digest, from the remote where it is only there."""
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
        """Have these bytes at a path from now on."""
        if len(data) > LARGEST:
            raise MemoryStoreError(f"a memory file can have at most {LARGEST:,} bytes", path=path)
        state = self.state(path)
        if state.data is None:
            self._refuse_folder(path)
        sha = hashlib.sha256(data).hexdigest()
        if op != "sync":  # which takes in just that
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
        """Have nothing at a path from now on."""
        state = self.state(path)
        self._keep_outside(path, state)
        version = self._version(path, op, "", 0, change, other)
        self.rows.do("DELETE FROM file WHERE path = ?", path)
        self._dropped(state)
        self._seen[path] = None
        self.changed[path] = None
        if op not in {"renamed", "promoted"}:  # which the event of the new path says
            self._event(version, state.sha)

    def set_aside(self, sha: str, data: bytes) -> None:
        """Keep bytes that are about to be replaced and are no state of any file."""
        self.rows.keep(sha, data)
        self.rows.state(f"set_aside:{sha}", TRANSCRIPT)

    def erase(self, path: str, change: StoreChange) -> None:
        """Have nothing at a path, and no bytes of what was there; that it was stays said."""
        if self.state(path).data is not None:
            self.take_away(path, change, op="erase")
        else:
            self.note("erase", change, path=path)
        self.rows.erase(path)
        self._seen[path] = None
        self.snapshots = [one for one in self.snapshots if one.path != path]
        self.erased.append(path)

    def refused(self, change: StoreChange, error: MemoryStoreError) -> None:
        """Say in the audit what was refused."""
        if not self.policy.audit:
            return
        said = change.said if isinstance(change.said, str) else type(change.said).__name__
        facts = {
            "ts": self._now(),
            "op": "refused",
            "attempted": change.op,
            "path": audit.shortened(error.path or ascii(said)[1:-1]),
            "error": error.code,
            "message": audit.shortened(error.message),
            "actor": audit.shortened(str(change.actor)),
            "reason": audit.shortened(str(change.reason)),
        }
        audit.add_event(self.rows, facts)
        self.audited = True

    def note(self, op: str, change: StoreChange, **facts: object) -> None:
        """Add an event that is not about one path's content."""
        if self.policy.audit:
            said = {"ts": self._now(), "op": op, "actor": change.actor, "reason": change.reason}
            audit.add_event(self.rows, {**said, **facts})
            self.audited = True

    def files_in(self, folder: str) -> list[str]:
        """Return the paths of all files in a folder, sorted."""
        found = set(self.tree.files(folder)) | {row.path for row in self.rows.files(folder)}
        below = folder + "/" if folder else ""
        found |= {path for path in self._seen if path.startswith(below)}
        return sorted(path for path in found if self._is_there(path))

    def _is_there(self, path: str) -> bool:
        if path in self._seen:
            return self._seen[path] is not None
        row = self.rows.file(path)
        return bool(row and row.away) or self.tree.kind(path) == "file"

    def _refuse_folder(self, path: str) -> None:
        """Refuse a path that is a folder, or in a file, of this very commit or of the remote.

        What is in the folder was refused when the path was read.
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
        """Return the time, later than that of the change before."""
        clock = max(time.time_ns() // 1_000, self.rows.fact("clock", 0) + 1)
        self.rows.state("clock", clock)
        return moment(clock)


class _Outside:
    op = "outside"
    said = ""
    actor = "outside"
    reason = "found in the folder, written by another program"


_OUTSIDE = _Outside()


def _check_words(change: ChangeInfo, path: str) -> None:
    for name, text, most in (
        ("actor", change.actor, MOST_ACTOR),
        ("reason", change.reason, MOST_REASON),
    ):
        if not isinstance(text, str):
            raise MemoryStoreError(f"{name} is text, not {type(text).__name__}", path=path)
        try:
            text.encode()
        except UnicodeEncodeError:
            raise MemoryStoreError(f"{name} is not Unicode", path=path) from None
        if len(text) > most:
            raise MemoryStoreError(f"{name} has at most {most:,} characters", path=path)


@dataclass(kw_only=True)
class PathChange:
    """Who wants a change, why, and what has to hold for it."""

    op: str = "write"
    said: Any
    actor: str = "agent"
    reason: str = ""
    expected_sha: str | None = None
    expected_version: int | None = None
    trusted: bool = False
    """Whether read-only prefixes may be written, for promotion and restore."""

    def target(self, group: FileTransaction) -> str:
        """Return the path, which may be written."""
        path = check_public_path(self.said)
        if not self.trusted:
            group.policy.read_only.refuse(path)
        return path

    def found(self, group: FileTransaction, path: str) -> PathState:
        """Return what is there, which is as expected."""
        state = group.state(path)
        group.demand(path, state, self.expected_sha, self.expected_version)
        return state


@dataclass(kw_only=True)
class Write(PathChange):
    """Bytes that a path has from now on."""

    data: bytes

    def apply(self, group: FileTransaction) -> MemoryMeta:
        """See ``Change``."""
        path = self.target(group)
        self.found(group, path)
        return group.put(path, self.data, self)


@dataclass(kw_only=True)
class TransformChange(PathChange):
    """Bytes that follow from those that are there."""

    make: Callable[[str, bytes | None], bytes]
    """Of the path and its bytes; may raise ``MemoryStoreError``."""

    def apply(self, group: FileTransaction) -> MemoryMeta:
        """See ``Change``."""
        path = self.target(group)
        state = self.found(group, path)
        return group.put(path, self.make(path, state.data), self)


@dataclass(kw_only=True)
class Delete(PathChange):
    """Nothing at a path from now on."""

    op: str = "delete"
    recursive: bool = False

    def apply(self, group: FileTransaction) -> list[str]:
        """See ``Change``; gives the paths that are gone."""
        path = self.target(group)
        paths = _all_of(group, path, self) if self.recursive else [path]
        if paths == [path] and self.found(group, path).data is None:
            raise MemoryStoreError("no such file", path=path)
        for one in paths:
            group.take_away(one, self)
        return paths


@dataclass(kw_only=True)
class Rename(PathChange):
    """Another path for a file, or for a folder with all that is in it."""

    op: str = "rename"
    new: Any
    overwrite: bool = False

    def apply(self, group: FileTransaction) -> list[str]:
        """See ``Change``; gives the new paths."""
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
            state = self.found(group, path) if paths == [old] else group.state(path)
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
    """A former state of a path, again."""

    op: str = "restore"
    version: int

    def apply(self, group: FileTransaction) -> MemoryMeta:
        """See ``Change``."""
        path = self.target(group)
        self.found(group, path)
        version = group.rows.version(path, self.version)
        return group.put(
            path, content_of(group.content, path, self.version, version), self, op="restore"
        )


@dataclass(kw_only=True)
class Promote(PathChange):
    """A proposal that becomes what only promotion may write."""

    op: str = "promote"
    new: Any
    keep: bool = False
    """Leave the proposal where it is."""

    def apply(self, group: FileTransaction) -> MemoryMeta:
        """See ``Change``."""
        path, target = check_public_path(self.said), check_public_path(self.new)
        state = self.found(group, path)
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
    """What was changed in the folder by something else, as the state of its path."""

    op: str = "sync"

    def apply(self, group: FileTransaction) -> str | None:
        """See ``Change``; tells what was done, None where there was nothing to do."""
        path = check_public_path(self.said)
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
    """No bytes left of anything that a path ever held."""

    op: str = "erase"

    def apply(self, group: FileTransaction) -> int:
        """See ``Change``; gives how many states there were."""
        path = check_public_path(self.said)
        self.found(group, path)
        states = group.rows.last_version(path)
        if not states and group.state(path).data is None:
            raise MemoryStoreError("no such file ever existed", path=path)
        group.erase(path, self)
        return states


@dataclass(kw_only=True)
class NewPolicy(PathChange):
    """Other rules for the store."""

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
        group.note("policy", self, **facts)  # also when it switches the audit off, or on
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
        MemoryStoreError: If there is no such version, it is of a deletion, or its bytes are gone.
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
    """Return what replaces a text that is there exactly so many times."""

    def make(path: str, data: bytes | None) -> bytes:
        if not old:
            raise MemoryStoreError("the text to replace is empty", path=path)
        if data is None:
            raise MemoryStoreError("no such file", path=path)
        text = decoded_text(path, data)
        found = text.count(old)
        if found != count:
            raise MemoryStoreError(
                f"the text to replace occurs {found:,} times, not {count:,}", path=path
            )
        return encoded_text(path, text.replace(old, new))

    return make


def appended(text: str) -> Callable[[str, bytes | None], bytes]:
    """Return what adds a text at the end; a file that is not there is begun."""
    return lambda path, data: (data or b"") + encoded_text(path, text)


def encoded_text(path: object, text: Any) -> bytes:
    """Return a text as UTF-8, nothing else changed.

    Raises:
        MemoryStoreError: If it is no text.
    """
    where = path if isinstance(path, str) else None
    if not isinstance(text, str):
        raise MemoryStoreError(f"the content must be text, not {type(text).__name__}", path=where)
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise MemoryStoreError(f"the content is not Unicode: {error.reason}", path=where) from None


def decoded_text(path: str, data: bytes) -> str:
    """Return bytes as text, nothing changed.

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
    """Return a value as JSON, in the page's form: indented, keys sorted.

    Dates, paths, UUIDs and the like become text, as there; what would lose its meaning is refused.

    Raises:
        MemoryStoreError: If JSON has no form for it.
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
    """Return the files that a path means: itself, or all in the folder that it is."""
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
