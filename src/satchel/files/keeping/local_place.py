"""A store in a folder of this machine: opened where it is."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from satchel.errors import ConcurrencyError, MemoryStoreError
from satchel.files.keeping.changes import Erase, TakeIn
from satchel.files.keeping.collected import DAY, Collected
from satchel.files.keeping.committing import Committing
from satchel.files.keeping.group import Group
from satchel.files.keeping.manifest import FILE_NAME
from satchel.files.keeping.policy import Policy
from satchel.files.paths import OWN, TRANSCRIPT


class LocalPlace:
    """A folder that has a store, or may get one.

    Args:
        address: What it is called.
        folder: Where it is.
    """

    def __init__(self, address: str, folder: Path) -> None:
        self.address = address
        self.folder: Path | None = folder
        self._at = folder

    def is_at(self, root: Path) -> bool:
        """See ``Place``."""
        return root == self._at or root.resolve() == self._at.resolve()

    def exists(self) -> bool:
        """See ``Place``: one that is being made by somebody counts once it is made."""
        if (self._at / OWN / FILE_NAME).exists():
            store = Committing(self._at, _PLAIN)
            try:
                with store.manifest.looking() as rows:
                    if rows.fact("created"):
                        return True
                return bool(store.tree.files()) or store.tree.kind(TRANSCRIPT) is not None
            finally:
                store.close()
        if not self._at.is_dir():
            return False
        return next(self._at.iterdir(), None) is not None

    def create(self, policy: Policy) -> None:
        """See ``Place``."""
        if not (self._at / OWN / FILE_NAME).exists() and self.exists():
            raise _there(self.address)
        store = Committing(self._at, policy)
        try:
            store.do(_Create(policy, self.address))
        finally:
            store.close()

    def load_into(self, store: Committing, policy: Policy) -> None:
        """See ``Place``: a working copy elsewhere gets the files as they are now."""
        del policy
        if not self.exists():
            return
        there = Committing(self._at, _PLAIN)
        try:
            files, transcript = _texts(there), there.tree.read(TRANSCRIPT)
        finally:
            there.close()
        store.do(_Load(files, transcript))

    def refresh(self, store: Committing, discard: frozenset[str]) -> None:
        """See ``Place``; not needed, a folder is worked on in place."""

    def bring(self, store: Committing) -> None:
        """See ``Place``."""
        for path in store.tree.files():
            store.do(TakeIn(said=path, actor="outside", trusted=True))
        there = Committing(self._at, store.policy)
        try:
            files = _texts(store)
            transcript = store.tree.read(TRANSCRIPT)
            if transcript is not None:
                files[TRANSCRIPT] = transcript
            with store.manifest.looking() as rows:
                base = dict(rows.all("SELECT path, sha FROM brought"))
                about = {row.path: (row.actor, row.reason) for row in rows.files()}
            there.do(_Bring(files, base, about))
            store.do(_Brought({path: _sha(data) for path, data in files.items()}))
        finally:
            there.close()

    def erase(self, path: str, until: int) -> None:
        """See ``Place``."""
        del until
        there = Committing(self._at, _PLAIN)
        try:
            with there.manifest.looking() as rows:
                was = rows.last_version(path)
            if was:
                there.do(Erase(said=path, actor="owner", reason="erased in a working copy"))
        finally:
            there.close()

    def collect(self, grace: float = DAY) -> Collected:
        """See ``Place``; a folder keeps nothing that nothing refers to."""
        del grace
        return Collected(0, 0, 0)

    def laid_open(self) -> Iterator[tuple[str, bytes]]:
        """See ``Place``; its bytes are those of the folder."""
        yield from ()

    def standing(self) -> tuple[str, int] | None:
        """See ``Place``."""
        return None

    def versions(self, since: int = -1) -> list[list[Any]]:
        """See ``Place``: the folder has them itself."""
        del since
        return []

    def load_history(self, store: Committing) -> None:
        """See ``Place``; a folder has it."""

    def examine(self) -> tuple[int, list[str]] | None:
        """See ``Place``; the working copy is the place."""

    def tail(self, store: Committing, number: int) -> list[dict[str, Any]] | None:
        """See ``Place``; a folder has them."""


def _texts(store: Committing) -> dict[str, bytes]:
    found = {path: store.tree.read(path) for path in store.tree.files()}
    return {path: data for path, data in found.items() if data is not None}


def _sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _there(address: str) -> MemoryStoreError:
    return MemoryStoreError("there is a store of this key already", file=address)


@dataclass
class _Create:
    policy: Policy
    address: str
    op: str = "create"
    said: object = ""
    actor: str = "owner"
    reason: str = ""

    def apply(self, group: Group) -> None:
        if group.rows.fact("created") or group.tree.files() or group.tree.read(TRANSCRIPT):
            raise _there(self.address)
        group.rows.state("created", 1)
        self.policy.write(group.rows)
        group.policy = self.policy
        group.put(TRANSCRIPT, b"[]", self, op="transcript")


@dataclass
class _Load:
    files: dict[str, bytes]
    transcript: bytes | None
    op: str = "load"
    said: object = ""
    actor: str = "others"
    reason: str = ""

    def apply(self, group: Group) -> None:
        if self.transcript is not None:
            self.files[TRANSCRIPT] = self.transcript
        for path, data in self.files.items():
            group.put(path, data, self, op="load")
            group.rows.do("INSERT OR REPLACE INTO brought VALUES (?, ?)", path, _sha(data))


@dataclass
class _Bring:
    """The files of a working copy, in place of those that are as it last saw them."""

    files: dict[str, bytes]
    base: dict[str, str]
    about: dict[str, tuple[str, str]]
    op: str = "save"
    said: object = ""
    actor: str = "agent"
    reason: str = ""

    def apply(self, group: Group) -> None:
        for path in sorted({*self.files, *self.base}):
            data, base = self.files.get(path), self.base.get(path, "")
            sha = "" if data is None else _sha(data)
            state = group.state(path)
            if sha in {base, state.sha}:
                continue
            if state.sha != base:
                raise ConcurrencyError(
                    path,
                    base,
                    state.sha,
                    message="somebody else saved another text of this file; nothing was saved",
                )
            self.actor, self.reason = self.about.get(path, ("agent", ""))
            if data is None:
                group.take_away(path, self)
            else:
                group.put(path, data, self, op="transcript" if path == TRANSCRIPT else "")


@dataclass
class _Brought:
    shas: dict[str, str]
    op: str = "save"
    said: object = ""
    actor: str = "agent"
    reason: str = ""

    def apply(self, group: Group) -> None:
        group.rows.do("DELETE FROM brought")
        for path, sha in self.shas.items():
            group.rows.do("INSERT INTO brought VALUES (?, ?)", path, sha)


_PLAIN = Policy.of((), audit=True, keep_versions=False)
