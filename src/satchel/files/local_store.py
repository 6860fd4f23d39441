"""Memory files in a folder of this machine, opened in place."""

import hashlib
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from satchel.errors import ConcurrencyError, StoreExistsError
from satchel.files.commit import DAY, CollectResult, GroupCommit
from satchel.files.manifest import FILE_NAME, ManifestRows, Policy
from satchel.files.paths import OWN, TRANSCRIPT
from satchel.files.transaction import Erase, FileTransaction, SyncFromDisk


class LocalFileStorage:
    """A folder with a store, or for a new one.

    Args:
        address: Its address.
        folder: The path.
    """

    def __init__(self, address: str, folder: Path) -> None:
        self.address = address
        self.folder: Path | None = folder
        self._at = folder

    def is_at(self, root: Path) -> bool:
        """See ``FileStorage``."""
        return root == self._at or root.resolve() == self._at.resolve()

    def exists(self) -> bool:
        """See ``FileStorage``; a store that is being created exists once it is complete."""
        if not (self._at / OWN / FILE_NAME).exists():
            return self._has_files()
        store = GroupCommit(self._at, _PLAIN)
        try:
            with store.manifest.looking() as rows:
                if rows.fact("created"):
                    return True
            return bool(store.tree.files()) or store.tree.kind(TRANSCRIPT) is not None
        finally:
            store.close()

    def _has_files(self) -> bool:
        """Return whether the folder has files of other programs; empty folders do not count."""
        own = str(self._at / OWN)
        for folder, below, files in os.walk(self._at):
            below[:] = [name for name in below if os.path.join(folder, name) != own]  # noqa: PTH118
            links = any(os.path.islink(os.path.join(folder, name)) for name in below)  # noqa: PTH114,PTH118
            if files or links:
                return True
        return False

    def create(self, policy: Policy) -> None:
        """See ``FileStorage``; concurrent creations are serialized by the lock of the folder."""
        if not (self._at / OWN / FILE_NAME).exists() and self._has_files():
            raise StoreExistsError(self.address)
        store = GroupCommit(self._at, policy)
        try:
            if not store.do(_Create(policy)):
                raise StoreExistsError(self.address)
        finally:
            store.close()

    def load_into(self, store: GroupCommit, policy: Policy) -> None:
        """See ``FileStorage``; a working copy gets the present files."""
        del policy
        if self.exists():
            self._pull(store, frozenset(), strict=False)

    def refresh(self, store: GroupCommit, discard: frozenset[str]) -> None:
        """See ``FileStorage``."""
        if self.exists():
            self._pull(store, discard, strict=True)

    def _pull(self, store: GroupCommit, discard: frozenset[str], *, strict: bool) -> None:
        with self._opened(store, _PLAIN) as target:
            files, changed = _texts(target), _changed_there(store, target)
            revision = _revision(target)
        store.do(_Load(files, changed, revision, discard, strict))

    @contextmanager
    def _opened(self, store: GroupCommit, policy: Policy) -> Iterator[GroupCommit]:
        """Yield the store of the folder, after importing edits of other programs.

        A completed save of this working copy that a killed writer did not record is recorded first.
        """
        target = GroupCommit(self._at, policy)
        try:
            for path in target.tree.files():
                target.do(SyncFromDisk(requested_path=path, actor="outside", trusted=True))
            with store.manifest.looking() as rows:
                noted, own = json.loads(rows.fact(_ATTEMPT, "null")), rows.fact("store")
            with target.manifest.looking() as rows:
                nonce, revision = json.loads(rows.fact(f"saved:{own}", "[null, 0]"))
            if noted is not None and noted["nonce"] == nonce:
                store.do(_PulledChanges(noted["shas"], noted["until"], revision))
            yield target
        finally:
            target.close()

    def push(self, store: GroupCommit) -> None:
        """See ``FileStorage``."""
        for path in store.tree.files():
            store.do(SyncFromDisk(requested_path=path, actor="outside", trusted=True))
        nonce = secrets.token_hex(16)
        with self._opened(store, store.policy) as target:
            files = _texts(store)
            shas = {path: _sha(data) for path, data in files.items()}
            with store.manifest.committing() as rows:
                base = dict(rows.all("SELECT path, sha FROM brought"))
                about = {row.path: (row.actor, row.reason) for row in rows.files()}
                own, until, unsaved = rows.fact("store"), rows.fact("revision", 0), _unsaved(rows)
                if rows.fact(_SEEN) is None:  # of an earlier version of this program
                    unsaved = {path: sha != base.get(path) for path, sha in shas.items()}
                    unsaved |= dict.fromkeys(base.keys() - shas.keys(), True)
                rows.state(_ATTEMPT, json.dumps({"nonce": nonce, "shas": shas, "until": until}))
            changed = _changed_there(store, target)
            revision = target.do(_Bring(files, unsaved, changed, base, about, [own, nonce]))
        store.do(_PulledChanges(shas, until, revision))

    def erase(self, path: str, until: int) -> None:
        """See ``FileStorage``."""
        del until
        target = GroupCommit(self._at, _PLAIN)
        try:
            with target.manifest.looking() as rows:
                was = rows.last_version(path)
            if was:
                target.do(
                    Erase(requested_path=path, actor="owner", reason="erased in a working copy")
                )
        finally:
            target.close()

    def collect(self, grace: float = DAY) -> CollectResult:
        """See ``FileStorage``; a folder has no unreferenced objects."""
        del grace
        return CollectResult(0, 0, 0)

    def laid_open(self) -> Iterator[tuple[str, bytes]]:
        """See ``FileStorage``; the bytes are in the folder."""
        yield from ()

    def standing(self) -> tuple[str, int] | None:
        """See ``FileStorage``."""
        return None

    def versions(self, since: int = -1) -> list[list[Any]]:
        """See ``FileStorage``; the folder has them."""
        del since
        return []

    def load_history(self, store: GroupCommit) -> None:
        """See ``FileStorage``; a folder has it."""

    def examine(self) -> tuple[int, list[str]] | None:
        """See ``FileStorage``; the working copy is the place."""

    def tail(self, store: GroupCommit, number: int) -> list[dict[str, Any]] | None:
        """See ``FileStorage``; a folder has them."""


_SEEN = "place_revision"
"""Number of the newest change of the folder in a working copy."""

_ATTEMPT = "place_attempt"
"""Nonce of the last save that was started."""


def _texts(store: GroupCommit) -> dict[str, bytes]:
    found = {path: store.tree.read(path) for path in (*store.tree.files(), TRANSCRIPT)}
    return {path: data for path, data in found.items() if data is not None}


def _sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _revision(store: GroupCommit) -> int:
    with store.manifest.looking() as rows:
        return int(rows.fact("revision", 0))


def _unsaved(rows: ManifestRows) -> dict[str, bool]:
    """Return the paths changed here since the last save, and whether a writer changed them.

    Files that were only found in the folder were changed by no writer.
    """
    statement = (
        "SELECT path, max(op <> 'sync') FROM version"
        " WHERE revision > ? AND op <> 'load' GROUP BY path"
    )
    found = rows.all(statement, rows.fact("sent_revision", 0))
    return {path: bool(written) for path, written in found}


def _changed_there(store: GroupCommit, target: GroupCommit) -> frozenset[str]:
    """Return the paths of a folder that changed since the last pull of a working copy."""
    with store.manifest.looking() as rows:
        seen, base = rows.fact(_SEEN), dict(rows.all("SELECT path, sha FROM brought"))
    with target.manifest.looking() as rows:
        if seen is not None:
            statement = "SELECT DISTINCT path FROM version WHERE revision > ?"
            return frozenset(path for (path,) in rows.all(statement, seen))
        now = {row.path: row.sha for row in rows.files()}
    return frozenset(
        path for path in now.keys() | base.keys() if now.get(path, "") != base.get(path, "")
    )


@dataclass
class _Create:
    policy: Policy
    op: str = "create"
    requested_path: object = ""
    actor: str = "owner"
    reason: str = ""

    def apply(self, group: FileTransaction) -> bool:
        """Create the store; return whether there was none."""
        if group.rows.fact("created") or group.tree.files() or group.tree.read(TRANSCRIPT):
            return False
        group.rows.state("created", 1)
        self.policy.write(group.rows)
        group.policy = self.policy
        group.put(TRANSCRIPT, b"[]", self, op="transcript")
        return True


@dataclass
class _Load:
    """Replaces unchanged files of a working copy by those of a folder."""

    files: dict[str, bytes]
    changed: frozenset[str]
    revision: int
    discard: frozenset[str]
    strict: bool
    """Whether a file that changed in both is an error; otherwise it stays as it is here."""

    op: str = "load"
    requested_path: object = ""
    actor: str = "others"
    reason: str = ""

    def apply(self, group: FileTransaction) -> None:
        rows = group.rows
        first = rows.fact(_SEEN) is None and not rows.one("SELECT count(*) FROM brought")
        unsaved = _unsaved(rows).keys() - self.discard
        both = sorted(unsaved & self.changed)
        if both and self.strict:
            raise _both_changed(both[0], rows, self.files.get(both[0]))
        sent = rows.fact("sent_revision", 0)
        for path in self.discard:
            rows.do("DELETE FROM version WHERE path = ? AND revision > ?", path, sent)
        for path in sorted((self.files.keys() if first else self.changed) | self.discard):
            if path in unsaved:
                continue
            data, exists = self.files.get(path), group.state(path).data is not None
            rows.do("DELETE FROM brought WHERE path = ?", path)
            if data is not None:
                group.put(path, data, self, op="load")
                rows.do("INSERT INTO brought VALUES (?, ?)", path, _sha(data))
            elif exists:
                group.take_away(path, self, op="load")
        if not both:
            rows.state(_SEEN, self.revision)


@dataclass
class _Bring:
    """Changes of a working copy to files that did not change in the folder."""

    files: dict[str, bytes]
    unsaved: dict[str, bool]
    changed: frozenset[str]
    base: dict[str, str]
    about: dict[str, tuple[str, str]]
    saved: list[str]
    """ID of the working copy, and the nonce of this save."""

    op: str = "save"
    requested_path: object = ""
    actor: str = "agent"
    reason: str = ""

    def apply(self, group: FileTransaction) -> int:
        """Return the number of the newest change afterwards."""
        for path in sorted(self.unsaved):
            data, state = self.files.get(path), group.state(path)
            if path in self.changed or state.sha != self.base.get(path, ""):
                written = self.unsaved[path] and path != TRANSCRIPT
                if not written and state.data == data:
                    continue
                raise _both_changed(path, group.rows, state.data)
            self.actor, self.reason = self.about.get(path, ("agent", ""))
            if data is not None:
                group.put(path, data, self, op="transcript" if path == TRANSCRIPT else "")
            elif state.data is not None:
                group.take_away(path, self)
        revision = int(group.rows.fact("revision", 0))
        own, nonce = self.saved
        group.rows.state(f"saved:{own}", json.dumps([nonce, revision]))
        return revision


def _both_changed(path: str, rows: ManifestRows, theirs: bytes | None) -> ConcurrencyError:
    row = rows.file(path)
    return ConcurrencyError(
        path,
        "" if row is None else row.sha,
        "" if theirs is None else _sha(theirs),
        message="another process saved this file first; nothing was saved",
        hint="Refresh with discard= for this file, read it again, and repeat the change.",
    )


@dataclass
class _PulledChanges:
    shas: dict[str, str]
    until: int
    revision: int
    op: str = "save"
    requested_path: object = ""
    actor: str = "agent"
    reason: str = ""

    def apply(self, group: FileTransaction) -> None:
        group.rows.do("DELETE FROM brought")
        for path, sha in self.shas.items():
            group.rows.do("INSERT INTO brought VALUES (?, ?)", path, sha)
        group.rows.state("sent_revision", self.until)
        group.rows.state(_SEEN, self.revision)
        group.rows.do("DELETE FROM fact WHERE name = ?", _ATTEMPT)


_PLAIN = Policy.of((), audit=True, keep_versions=False)
