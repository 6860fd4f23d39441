"""One commit in the making: what its changes see of each other, and what to copy out afterwards."""

import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple, Protocol

from satchel.errors import ConcurrencyError, MemoryStoreError
from satchel.files.keeping import audit
from satchel.files.keeping.copying import version_file
from satchel.files.keeping.manifest import FileRow, Rows, Version
from satchel.files.keeping.meta import MemoryMeta, moment
from satchel.files.keeping.policy import Policy
from satchel.files.keeping.tree import LARGEST, Tree
from satchel.files.paths import TRANSCRIPT

MOST_ACTOR = 1_000
MOST_REASON = 10_000


class Wish(Protocol):
    """Who does something to a store, and why."""

    @property
    def op(self) -> str:
        """What is to be done, in a word."""
        ...

    @property
    def said(self) -> object:
        """The path, as somebody said it."""
        ...

    @property
    def actor(self) -> str:
        """Who wants it."""
        ...

    @property
    def reason(self) -> str:
        """Why."""
        ...


class Change(Wish, Protocol):
    """What somebody wants to be done to a store."""

    def apply(self, group: "Group") -> object:
        """Check that it may be done, do it, and return what came of it.

        Raises:
            MemoryStoreError: If it may not be done.
        """
        ...


Fetch = Callable[[str, str], bytes | None]
"""Gives the content with a digest, of the path it is wanted for; None where it is not known."""


class State(NamedTuple):
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


class Group:
    """The changes of one commit.

    Args:
        rows: The manifest, in a transaction.
        tree: The folder, as the last commit left it or somebody from outside changed it.
        policy: The rules.
        fetch: Gives the content with a digest that is only in the remote so far.
    """

    def __init__(self, rows: Rows, tree: Tree, policy: Policy, fetch: Fetch) -> None:
        self.rows = rows
        self.tree = tree
        self.policy = policy
        self._fetch = fetch
        self._seen: dict[str, bytes | None] = {}
        self.changed: dict[str, None] = {}
        """The paths to copy out, each once."""

        self.snapshots: list[Version] = []
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

    def state(self, path: str) -> State:
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
        return State(data, "" if data is None else hashlib.sha256(data).hexdigest(), row)

    def found_as(self, path: str, data: bytes) -> None:
        """Have the next change of a path follow these bytes, which its row has the digest of."""
        self._seen[path] = data

    def content(self, sha: str, path: str) -> bytes | None:
        """Return the content with a digest, from the remote where it is only there."""
        data = self.rows.content(sha)
        return self._fetch(sha, path) if data is None else data

    def demand(
        self, path: str, state: State, expected_sha: str | None, expected_version: int | None
    ) -> None:
        """Refuse to go on unless a path is as somebody expects.

        Raises:
            ConcurrencyError: With what it is.
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
        self, path: str, data: bytes, change: Change, *, op: str = "", other: str = ""
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

    def take_away(self, path: str, change: Change, *, op: str = "delete", other: str = "") -> None:
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

    def erase(self, path: str, change: Change) -> None:
        """Have nothing at a path, and no bytes of what was there; that it was stays said."""
        if self.state(path).data is not None:
            self.take_away(path, change, op="erase")
        else:
            self.note("erase", change, path=path)
        self.rows.erase(path)
        self._seen[path] = None
        self.snapshots = [one for one in self.snapshots if one.path != path]
        self.erased.append(path)

    def refused(self, change: Change, error: MemoryStoreError) -> None:
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

    def note(self, op: str, change: Change, **facts: object) -> None:
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

    def _keep_outside(self, path: str, state: State) -> None:
        """Keep what somebody put there from outside, before it is replaced."""
        if state.outside and state.data is not None and self.policy.keep_versions:
            self.rows.keep(state.sha, state.data)
            version = self._version(path, "outside", state.sha, len(state.data), _OUTSIDE, "")
            self.snapshots.append(version)

    def _version(
        self, path: str, op: str, sha: str, size: int, change: Wish, other: str
    ) -> Version:
        _check_words(change, path)
        revision = self.rows.fact("revision", 0) + 1
        self.rows.state("revision", revision)
        version = Version(
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

    def _dropped(self, state: State) -> None:
        if state.row is not None:
            self.rows.drop_unused(state.row.sha, versions=self.policy.keep_versions)

    def _event(self, version: Version, old_sha: str) -> None:
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


def _check_words(change: Wish, path: str) -> None:
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
