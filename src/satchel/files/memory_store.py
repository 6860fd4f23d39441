"""``MemoryStore``: a transcript and files at paths, with the names of ``flyte.ai.agents.memory``.

What is different from there: a write that returned is on the disk; a precondition holds when the
write happens, against threads, processes and machines; rules are kept in the store; refused
attempts are in the audit; nothing follows a link; text comes back byte for byte.
"""

import json
import tempfile
import weakref
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from satchel.errors import ConcurrencyError, MemoryStoreError, StoreExistsError
from satchel.files.beyond import Beyond
from satchel.files.calling import awaited, both, both_of_class
from satchel.files.existing import Existing
from satchel.files.keeping import audit as auditing
from satchel.files.keeping.changes import Delete, Write, encoded_json, encoded_text
from satchel.files.keeping.committing import Committing
from satchel.files.keeping.meta import MemoryMeta
from satchel.files.keeping.policy import Policy
from satchel.files.keeping.transcript import Flush, decoded_messages
from satchel.files.namespace import namespace
from satchel.files.paths import TRANSCRIPT, open_to_all
from satchel.files.places import Dir, Place, place_of


class MemoryStore(Beyond):
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
            self._store = Committing(self.root, policy)
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

    @both_of_class
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

    @both_of_class
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

    exists = Existing()
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
        """Keep the transcript. Messages that others added meanwhile stay, before one's own.

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
        return awaited(self.flush_messages_sync)

    def audit_tail_sync(self, n: int = 20) -> list[dict[str, Any]]:
        """Return the last ``n`` events, the newest last; none where there is no audit."""
        self._ask("audit_tail")
        if n <= 0 or not self.audit:
            return []
        found = None if self._place is None else self._place.tail(self._store, n)
        return auditing.tail(self._store.manifest, self._store.tree, n) if found is None else found

    def audit_tail(self, n: int = 20) -> Awaitable[list[dict[str, Any]]]:
        """As ``audit_tail_sync``, awaited."""
        return awaited(lambda: self.audit_tail_sync(n))

    @both
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

    @both
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

    @both
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
            self._place.refresh(self._store, frozenset(map(open_to_all, discard)))
            self._reload()

    def _reload(self) -> None:
        self._base = self._store.tree.read(TRANSCRIPT)
        if self._base is None:
            with self._store.manifest.looking() as rows:
                row = rows.file(TRANSCRIPT)
            away = row is not None and row.away
            self._base = self._store.fetch(row.sha, TRANSCRIPT) if row and away else None
        self.messages[:] = decoded_messages(self._base) or []

    @both
    def save(self, remote_destination: str | None = None) -> Dir:
        """Save the transcript, and bring the store to its place or another one.

        What others saved there meanwhile stays; if both changed a file, whatever is in it, this is
        refused and nothing is saved.

        Args:
            remote_destination: Where to; the store's own place by default. A store that has none
                gets one of a name that nobody has, and the first place it is saved to is its own
                from then on. Any other place gets a copy of the files and the transcript.

        Raises:
            ConcurrencyError: If somebody else changed a file there that was changed here, too.
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

    def _is_own(self, place: Place) -> bool:
        """Tell whether a place is the one whose changes this store follows."""
        if self._place is not None:
            return place.address == self._place.address
        with self._store.manifest.committing() as rows:
            if rows.fact("bound") is None:
                rows.state("bound", place.address)
            return bool(rows.fact("bound") == place.address)

    def _copy_to(self, place: Place) -> None:
        """Have the files and the transcript at a place that is not the store's own.

        Raises:
            ConcurrencyError: If somebody else changed there what was copied before.
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


def _close(store: Committing, temporary: tempfile.TemporaryDirectory[str] | None) -> None:
    store.close()
    if temporary is not None:
        temporary.cleanup()
