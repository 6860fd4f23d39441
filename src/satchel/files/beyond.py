"""What can be done to memory files beyond the page: move, edit, promote, take in."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from satchel.errors import MemoryStoreError
from satchel.files.calling import both
from satchel.files.keeping.changes import (
    Asked,
    Delete,
    Erase,
    NewPolicy,
    Promote,
    Remake,
    Rename,
    Restore,
    TakeIn,
    Write,
    appended,
    edited,
    encoded_text,
)
from satchel.files.keeping.collected import DAY, Collected
from satchel.files.keeping.meta import MemoryMeta
from satchel.files.keeping.policy import Policy
from satchel.files.looking import Looking
from satchel.files.paths import TRANSCRIPT, open_to_all


class Synced(NamedTuple):
    """What taking in a folder did."""

    created: tuple[str, ...]
    changed: tuple[str, ...]
    deleted: tuple[str, ...]
    refused: tuple[str, ...]
    """Names that cannot be paths, and files that cannot be memory files, with the reason."""


class Beyond(Looking):
    """The part of ``MemoryStore`` that the page does not have."""

    @both
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

    @both
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

    @both
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
            Remake(
                op="append",
                said=rel_path,
                make=appended(text),
                actor=self._who(actor),
                reason=reason,
                expected_sha=expected_sha,
                expected_version=expected_version,
            )
        )

    @both
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
            Remake(
                op="edit",
                said=rel_path,
                make=edited(old, new, count),
                actor=self._who(actor),
                reason=reason,
                expected_sha=expected_sha,
            )
        )

    @both
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

    @both
    def erase(
        self,
        rel_path: str,
        actor: str = "owner",
        reason: str = "",
        expected_sha: str | None = None,
    ) -> int:
        """Get rid of a file and of all it ever held: no bytes of its texts stay in the store.

        That it was there, and that it was erased, stays in the audit: path, times, digests. Texts
        that other paths have, too, stay theirs. Returns how many states the path had.

        A store that is elsewhere is saved, and the packs that held the texts are removed there,
        after what else they held was copied. What its service keeps of removed objects (versions
        of a bucket, replicas), and working copies of others, nobody here can reach.

        Raises:
            MemoryStoreError: If there never was such a file.
            ConcurrencyError: If the file is not as expected, where that was said; or others changed
                what was changed here.
            TargetError: If the place does not answer; erasing it again goes on.
        """
        if self._place is not None and not self.is_in_place:
            self._place.refresh(self._store, frozenset())
            self._load_history()
        change = Erase(
            said=rel_path, actor=self._who(actor), reason=reason, expected_sha=expected_sha
        )
        states = int(self._store.do(change))
        if self._place is not None and not self.is_in_place:
            path = open_to_all(rel_path)
            with self._store.manifest.looking() as rows:
                until = rows.last_version(path)
            self._place.bring(self._store)
            self._place.erase(path, until)
        return states

    @both
    def collect(self, grace: float = DAY) -> Collected:
        """Remove what nothing refers to where the store was saved: old texts, and lost races.

        Safe while others read and write. Where versions are kept, their texts are.

        Args:
            grace: Seconds for which those who read may go on with what they read last.

        Raises:
            StoreBusyError: If others saved again and again just before.
            TargetError: If the place does not answer, or ignores conditions.
        """
        return Collected(0, 0, 0) if self._place is None else self._place.collect(grace)

    @both
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

    @both
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

    @both
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

    @both
    def sync(self, actor: str = "outside", reason: str = "") -> Synced:
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
                what = self._store.do(TakeIn(said=path, actor=by, reason=reason, trusted=True))
            except MemoryStoreError as error:
                refused.append(f"{path}: {error.message}")
                continue
            if what is not None:
                done[what].append(path)
        taken = {name: tuple(paths) for name, paths in done.items()}
        return Synced(**taken, refused=tuple(refused))

    @both
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

    def change(self, change: Asked) -> MemoryMeta:
        """Do a change that gives a file its text; for what is built on a store.

        Raises:
            MemoryStoreError: If it is refused.
        """
        self._ask("change")
        change.actor = self._who(change.actor)
        return self._done(change)

    def _done(self, change: Asked) -> MemoryMeta:
        done: Any = self._store.do(change)  # type: ignore[arg-type]  # those that give this
        assert isinstance(done, MemoryMeta)  # noqa: S101 - of every change that comes here
        return done
