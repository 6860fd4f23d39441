"""Group commit: one commit at a time, with many changes, copied out to the folder afterwards.

A commit holds the store's lock, so a change reads the state that it changes. Concurrent changes of
several threads are written in one commit, by the thread that gets the lock first.
"""

import hashlib
import json
import os
import re
import secrets
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from satchel.errors import MemoryStoreError, SatchelError
from satchel.files import audit
from satchel.files.audit import LOG
from satchel.files.manifest import FileRow, FilesManifest, ManifestRows, Policy, StoredVersion
from satchel.files.paths import OWN, check_public_path, decoded, encoded
from satchel.files.transaction import Fetch, FileTransaction, StoreChange, copy_out, copy_version
from satchel.files.tree import StoreFolder
from satchel.runtime.private_files import lock_file
from satchel.runtime.processes import in_child

_NAME = re.compile(
    r"(\d{4}-\d\d-\d\dT\d\d)-(\d\d)-([\d.]+)([+-]\d\d)-(\d\d)_([0-9a-f]{64})(?:_\w+)?\.txt"
)
_MOST_LOG = 64 << 20


class _Snapshot(NamedTuple):
    order: tuple[int, str]
    at: str
    sha: str
    data: bytes
    actor: str
    reason: str


def adopt_versions(rows: ManifestRows, tree: StoreFolder) -> list[str]:
    """Adopt the versions in a folder whose store is new, and return those that were skipped."""
    repairs, events = list[str](), _events(tree)
    for folder in tree.names("versions"):
        path = decoded(folder)
        try:
            if path is None or check_public_path(path) != path:
                raise MemoryStoreError("the name is not an encoded path")  # noqa: TRY301 - one way
            snapshots = _snapshots(tree, folder, events, repairs)
            state = tree.read(path)
        except MemoryStoreError as error:
            repairs.append(f"versions/{ascii(folder)[1:-1]} was not adopted: {error.message}")
            continue
        _store_versions(rows, path, sorted(snapshots), state)
    return repairs


def _snapshots(
    tree: StoreFolder,
    folder: str,
    events: dict[str, tuple[int, dict[str, Any]]],
    repairs: list[str],
) -> list[_Snapshot]:
    snapshots = []
    for name in tree.names(f"versions/{folder}"):
        location, matched = f"versions/{folder}/{name}", _NAME.fullmatch(name)
        data = tree.read(location) if matched else None
        if matched is None or data is None or hashlib.sha256(data).hexdigest() != matched[6]:
            repairs.append(f"{ascii(location)[1:-1]} was not adopted: not a version of a file")
            continue
        number, event = events.get(location, (0, {}))
        actor, reason = str(event.get("actor", "")), str(event.get("reason", ""))
        at = f"{matched[1]}:{matched[2]}:{matched[3]}{matched[4]}:{matched[5]}"
        snapshots.append(
            _Snapshot((number, name), at, matched[6], data, actor[:1000], reason[:10_000])
        )
    return snapshots


def _store_versions(
    rows: ManifestRows, path: str, snapshots: list[_Snapshot], state: bytes | None
) -> None:
    """Store the first versions of a path; the last one is its present state, if it exists."""
    for number, snapshot in enumerate(snapshots, 1):
        revision = rows.fact("revision", 0) + 1
        rows.state("revision", revision)
        op = "create" if number == 1 else "update"
        spoken = (snapshot.at, snapshot.actor, snapshot.reason)
        rows.keep(snapshot.sha, snapshot.data)
        rows.add(
            StoredVersion(path, number, revision, op, snapshot.sha, len(snapshot.data), *spoken, "")
        )
        if number == len(snapshots) and state == snapshot.data:
            rows.put(FileRow(path, snapshot.sha, len(state), number, revision, *spoken, 0))


def _events(tree: StoreFolder) -> dict[str, tuple[int, dict[str, Any]]]:
    """Return the audit events that name the file of a version, with their positions."""
    by_file = dict[str, tuple[int, dict[str, Any]]]()
    try:
        with tree.opened(LOG, os.O_RDONLY) as handle:
            data = os.pread(handle, _MOST_LOG, 0)
    except FileNotFoundError:
        return by_file
    for number, line in enumerate(data.splitlines(), 1):
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(event, dict) and isinstance(event.get("version_file"), str):
            by_file[event["version_file"]] = (number, event)
    return by_file


_MOST_TOGETHER = 256
_MARK = f"{OWN}/copied"
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_MOST_REPAIRS = 1_000


class _Ticket:
    """A waiting change, and its result."""

    __slots__ = ("change", "done", "error", "result")

    def __init__(self, change: StoreChange) -> None:
        self.change = change
        self.done = False
        self.result: Any = None
        self.error: BaseException | None = None


class GroupCommit:
    """Commits all changes of a store.

    Args:
        root: The store's folder.
        policy: The rules of a new store; an existing one keeps its own.

    Raises:
        MemoryStoreError: If the folder cannot be used.
        StoreError: If the manifest cannot be used.
    """

    def __init__(self, root: Path, policy: Policy) -> None:
        self.tree = StoreFolder(root)
        self.repairs: list[str] = []
        """Repairs so far."""
        self.fetch: Fetch = _no_remote
        """Returns the content of a digest that only the remote place has."""
        self._also = policy.read_only
        self._reset_queue()
        in_child(self._reset_queue)
        self._boot = _boot()
        own = root / OWN
        self._lock = own / "lock"
        try:
            with lock_file(self._lock):
                self.manifest = FilesManifest(own)
                self.tree.sweep()
                self.is_new = self._begin(policy)
                self._repair_folder()
        except BaseException:
            self.tree.close()
            raise

    def _reset_queue(self) -> None:
        self._turn, self._waiting = threading.Lock(), threading.Lock()
        self._queue: list[_Ticket] = []

    @property
    def policy(self) -> Policy:
        """The rules of the store, with the further read-only prefixes of this instance."""
        with self.manifest.looking() as rows:
            return self._policy(rows)

    def close(self) -> None:
        """Close the files. May be called more than once."""
        self.manifest.close()
        self.tree.close()

    def do(self, change: StoreChange) -> Any:
        """Commit a change, and return its result after it is on the disk.

        Raises:
            MemoryStoreError: If it was refused; nothing changed, and the refusal is audited.
            StoreError: If it could not be written to the disk.
        """
        return self.do_all([change])[0]

    def do_all(self, changes: list[StoreChange]) -> list[Any]:
        """Commit changes, as many as fit in one commit; each may be refused by itself.

        Raises:
            MemoryStoreError: The first refusal; the other changes were committed.
            StoreError: As ``do``.
        """
        tickets = [_Ticket(change) for change in changes]
        with self._waiting:
            self._queue += tickets
        while not all(ticket.done for ticket in tickets):
            with self._turn:
                if not all(ticket.done for ticket in tickets):
                    with self._waiting:
                        batch = self._queue[:_MOST_TOGETHER]
                        del self._queue[:_MOST_TOGETHER]
                    self._run(batch)
        for ticket in tickets:
            if ticket.error is not None:
                raise ticket.error
        return [ticket.result for ticket in tickets]

    def _run(self, batch: list[_Ticket]) -> None:
        """Commit a batch; each change then has its result or error."""
        try:
            with lock_file(self._lock):
                self._repair_folder()
                with self.manifest.committing() as rows:
                    group = FileTransaction(rows, self.tree, self._policy(rows), self.fetch)
                    for ticket in batch:
                        _try(ticket, group)
                for ticket in batch:
                    ticket.done = True  # from here on, it is on the disk
                try:
                    self._copy(group)
                    if group.erased and not self.manifest.empty_log():
                        self._note_repair("erased bytes stay in the log until its readers finish")
                except SatchelError as error:
                    self._note_repair(f"not copied to the folder yet: {error}")
        except BaseException as error:
            for ticket in batch:
                if not ticket.done:
                    ticket.done, ticket.error = True, error
            if not isinstance(error, SatchelError):
                raise

    def _policy(self, rows: ManifestRows) -> Policy:
        found = Policy.read(rows)
        return (found or _LOOSE).and_also(self._also)

    def _begin(self, policy: Policy) -> bool:
        """Set the rules of a new store; return whether it was new."""
        with self.manifest.looking() as rows:
            if Policy.read(rows) is not None:
                return False
        with self.manifest.committing() as rows:
            policy.write(rows)
            rows.state("store", secrets.token_hex(16))
            self._note_repair(audit.adopt(rows, self.tree))
            for problem in adopt_versions(rows, self.tree):
                self._note_repair(problem)
        return True

    def _copy(self, group: FileTransaction) -> None:
        """Copy committed changes out to the folder, and record the progress."""
        with self.manifest.committing() as rows:
            whole = True
            for version in group.snapshots:
                whole &= self._attempted(copy_version, rows, version)
            for path in group.changed:
                whole &= self._attempted(copy_out, rows, path)
            for path in group.erased:
                self.tree.remove_folder(f"versions/{encoded(path)}")
            if group.audited:
                self._note_repair(audit.write_out(rows, self.tree))
            if whole and group.changed:
                self._write_mark(rows.fact("revision", 0))

    def _attempted(
        self, copy: Callable[..., None], rows: ManifestRows, item: str | StoredVersion
    ) -> bool:
        try:
            copy(rows, self.tree, item)
        except (MemoryStoreError, OSError) as error:
            self._note_repair(f"not copied to the folder yet: {error}")
            return False
        return True

    def _repair_folder(self) -> None:
        """Copy out what a killed writer had committed."""
        boot, done = self._read_mark()
        with self.manifest.looking() as rows:
            revision = rows.fact("revision", 0)
            behind = done != revision or boot != self._boot
        if not behind:
            return
        with self.manifest.committing() as rows:
            whole = True
            if boot != self._boot:
                whole = self._repair_all(rows)
            for version in [
                StoredVersion(*row)
                for row in rows.all(
                    "SELECT * FROM version WHERE revision > ? ORDER BY revision", done
                )
            ]:
                if version.sha and self._policy(rows).keep_versions:
                    whole &= self._attempted(copy_version, rows, version)
                if self._is_behind(rows, version):
                    whole &= self._attempted(copy_out, rows, version.path)
            self._note_repair(audit.write_out(rows, self.tree))
            if whole:
                self._write_mark(revision)

    def _repair_all(self, rows: ManifestRows) -> bool:
        """Compare each file with the manifest after a restart of the machine.

        A file that is missing, empty, or an older version of its path is the result of a power loss
        and is replaced; other differences are edits of another program, which are kept.
        """
        whole = True
        for row in rows.files():
            if row.away:
                continue
            if self._is_behind(rows, row):
                self._note_repair(f"repaired after an interruption: {row.path}")
                whole &= self._attempted(copy_out, rows, row.path)
        return whole

    def _is_behind(self, rows: ManifestRows, at: FileRow | StoredVersion) -> bool:
        """Return whether a path in the folder has an older version of the manifest."""
        row = rows.file(at.path)
        try:
            data = self.tree.read(at.path)
        except MemoryStoreError:
            return False
        if data is None:
            return row is not None and not row.away
        sha = hashlib.sha256(data).hexdigest()
        if row is not None and sha == row.sha:
            return False
        known = "SELECT 1 FROM version WHERE path = ? AND sha = ? LIMIT 1"
        return not data or rows.one(known, at.path, sha) is not None

    def _read_mark(self) -> tuple[str, int]:
        with suppress(OSError, ValueError), self.tree.opened(_MARK, os.O_RDONLY) as handle:
            boot, _, revision = os.pread(handle, 200, 0).decode("ascii").strip().partition(" ")
            return boot, int(revision)
        return "", 0

    def _write_mark(self, revision: int) -> None:
        with self.tree.opened(_MARK, os.O_RDWR | os.O_CREAT) as handle:
            os.pwrite(handle, f"{self._boot} {revision:<20}\n".encode(), 0)

    def _note_repair(self, note: str | None) -> None:
        if note and note not in self.repairs and len(self.repairs) < _MOST_REPAIRS:
            self.repairs.append(note)


def _try(ticket: _Ticket, group: FileTransaction) -> None:
    try:
        with group.attempt():
            ticket.result = ticket.change.apply(group)
    except MemoryStoreError as error:
        ticket.error = error
        group.refused(ticket.change, error)
    except SatchelError as error:
        ticket.error = error


def _no_remote(sha: str, path: str) -> bytes | None:
    del sha, path
    return None


def _boot() -> str:
    """Return an ID of the present boot of the machine."""
    try:
        return _BOOT.read_text("ascii").strip()
    except OSError:
        return "unknown"


_LOOSE = Policy.of((), audit=True, keep_versions=False)


DAY = 86_400.0
"""Seconds for which readers may continue to use the last head that they read."""


class CollectResult(NamedTuple):
    """Result of a garbage collection."""

    removed: int
    """Removed packs."""

    waiting: int
    """Unreferenced packs, which are removed after the grace period."""

    rewritten: int
    """Packs whose referenced contents were copied elsewhere."""
