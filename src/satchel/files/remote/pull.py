"""Pull: the saves of others are merged into a working copy.

A file was changed here if it has an unsaved version, and at the remote place if the head has an
unknown version of it. Contents do not matter: of two writers that write the same bytes, only one
finds the file as it read it.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from satchel.errors import ConcurrencyError
from satchel.files.manifest import FileRow, ManifestRows, Policy, StoredVersion
from satchel.files.paths import TRANSCRIPT, Prefixes
from satchel.files.remote.packs import FileEntry, PackContents, RemoteHead, Spot
from satchel.files.transaction import FileTransaction
from satchel.files.transcript import decoded_messages, encoded_messages


@dataclass(kw_only=True)
class PullChange:
    """Replaces unchanged files here by those that others changed.

    Applying it raises ``ConcurrencyError`` if both changed a file; then nothing is pulled.
    """

    head: RemoteHead
    contents: PackContents
    discard: frozenset[str] = frozenset()
    """Paths whose changes here are discarded."""

    moved: bool = False
    """Whether contents were moved to other packs."""

    theirs: bytes | None = None
    """The remote transcript, if it changed."""

    op: str = "arrive"
    requested_path: object = ""
    actor: str = "others"
    reason: str = ""

    def apply(self, group: FileTransaction) -> None:
        """See ``Change``."""
        rows = group.rows
        known = rows.fact("remote_revision", -1)
        newest = {
            entry.path: entry
            for entry in self.contents.files
            if entry.revision > known or entry.path in self.discard
        }
        unsent = _unsent(rows) - self.discard
        self._check_policy(rows)
        changed = [
            path for path in newest if path in unsent and self._conflicts(rows, newest[path])
        ]
        changed += _in_each_other(rows, newest.values(), unsent - newest.keys())
        if changed:
            raise _both_changed(group, newest, changed)
        self._give_up(group, newest)
        if self.moved:
            rows.do("DELETE FROM spot")
        for sha, spot in self.contents.spots.items():
            rows.do("INSERT OR REPLACE INTO spot VALUES (?, ?, ?, ?)", sha, *spot)
        for entry in newest.values():
            if entry.path == TRANSCRIPT and TRANSCRIPT in unsent:
                self._merge(group, entry)
            else:
                self._pull_file(group, entry)
        self._take_policy(rows)
        rows.state("remote_revision", self.head.revision)
        rows.state("remote_store", self.head.store)
        rows.state("remote_collected", self.head.collected)
        rows.state("clock", max(rows.fact("clock", 0), self.head.clock))
        rows.state("revision", max(rows.fact("revision", 0), 0))

    def _conflicts(self, rows: ManifestRows, entry: FileEntry) -> bool:
        """Return whether the changes of a file here conflict with those that others saved.

        A file that was only found in the folder with the remote contents is not a change, nor are
        versions that were found at the place itself.
        """
        if entry.path == TRANSCRIPT:
            return False
        ops = "SELECT DISTINCT op FROM version WHERE path = ? AND revision > ?"
        since = max(_sent(rows), rows.fact("adopted_revision", 0))
        changes = {op for (op,) in rows.all(ops, entry.path, since)}
        if changes != {"sync"}:
            return bool(changes)
        row = rows.file(entry.path)
        return ("" if row is None else row.sha) != entry.sha

    def _give_up(self, group: FileTransaction, newest: dict[str, FileEntry]) -> None:
        """Drop discarded and superseded changes from those to save."""
        rows, sent = group.rows, _sent(group.rows)
        for path in (self.discard & _unsent(rows)) - newest.keys():
            newest[path] = FileEntry(path, "", 0, 0, 0, "", "", "")  # only here
        for path in newest:
            rows.do("DELETE FROM version WHERE path = ? AND revision > ?", path, sent)

    def _check_policy(self, rows: ManifestRows) -> None:
        mine, base = Policy.read(rows), rows.fact(_BASE_POLICY)
        if mine is None or base is None or mine.encoded() == base:
            return
        if self._policy().encoded() not in {base, mine.encoded()}:
            raise ConcurrencyError(
                "policy",
                message="another process also changed the rules of the store; nothing was saved",
            )

    def _take_policy(self, rows: ManifestRows) -> None:
        mine, base = Policy.read(rows), rows.fact(_BASE_POLICY)
        if mine is None or base is None or mine.encoded() == base:
            self._policy().write(rows)
        rows.state(_BASE_POLICY, self._policy().encoded())

    def _policy(self) -> Policy:
        return Policy(Prefixes(self.head.read_only), self.head.audit, self.head.keep_versions)

    def _pull_file(self, group: FileTransaction, entry: FileEntry) -> None:
        rows, path = group.rows, entry.path
        rows.do("INSERT OR REPLACE INTO brought VALUES (?, ?)", path, entry.sha)
        if entry.sha:
            there = rows.content(entry.sha) is not None
            rows.put(FileRow(path, *entry[1:4], entry.revision, *entry[5:], int(not there)))
        else:
            rows.do("DELETE FROM file WHERE path = ?", path)
            if entry.version:
                rows.do(
                    "INSERT OR IGNORE INTO version VALUES (?,?,?,?,?,?,?,?,?,?)",
                    *StoredVersion(
                        path, entry.version, -entry.revision, "delete", "", 0, *entry[5:], ""
                    ),
                )
        group.changed[path] = None

    def _merge(self, group: FileTransaction, entry: FileEntry) -> None:
        """Append the messages that were added here to those that were added there."""
        rows = group.rows
        known = brought_sha(rows, TRANSCRIPT)
        base = (group.content(known, TRANSCRIPT) or b"") if known else None
        began, ours = decoded_messages(base), decoded_messages(group.state(TRANSCRIPT).data)
        theirs = decoded_messages(self.theirs)
        if began is None or ours is None or theirs is None or ours[: len(began)] != began:
            raise ConcurrencyError(
                TRANSCRIPT,
                brought_sha(rows, TRANSCRIPT),
                entry.sha,
                message="another process saved other messages, and these do not continue them",
            )
        rows.keep(entry.sha, self.theirs or b"")
        rows.do("INSERT OR REPLACE INTO brought VALUES (?, ?)", TRANSCRIPT, entry.sha)
        rows.put(FileRow(TRANSCRIPT, *entry[1:4], entry.revision, *entry[5:], 0))
        group.set_present(TRANSCRIPT, self.theirs or b"")  # its predecessor
        group.put(TRANSCRIPT, encoded_messages(theirs + ours[len(began) :]), self, op="transcript")


def _sent(rows: ManifestRows) -> int:
    return int(rows.fact("sent_revision", 0))


def _unsent(rows: ManifestRows) -> frozenset[str]:
    """Return the paths with an unsaved version."""
    found = rows.all("SELECT DISTINCT path FROM version WHERE revision > ?", _sent(rows))
    return frozenset(path for (path,) in found)


def _in_each_other(
    rows: ManifestRows, theirs: Iterable[FileEntry], unsent: Iterable[str]
) -> list[str]:
    """Return the paths that are a file on one side and a folder on the other."""
    here = {path for path in unsent if rows.file(path) is not None}
    paths = {entry.path for entry in theirs if entry.sha}
    above = {folder: path for path in paths for folder in _above(path)} if here else {}
    found = {above[path] for path in here if path in above}
    return sorted(found | {folder for path in here for folder in _above(path) if folder in paths})


def _above(path: str) -> Iterator[str]:
    while "/" in path:
        path = path.rsplit("/", 1)[0]
        yield path


def _both_changed(
    group: FileTransaction, newest: dict[str, FileEntry], changed: list[str]
) -> ConcurrencyError:
    first = changed[0]
    more = f", and {len(changed) - 1:,} more" if changed[1:] else ""
    return ConcurrencyError(
        first,
        brought_sha(group.rows, first),
        newest[first].sha,
        message=f"another process saved this file first{more}; nothing was saved",
        hint="Refresh with discard= for these files, read them again, and repeat the change.",
    )


_BASE_POLICY = "brought_policy"
_ATTEMPTS = "attempts"


def brought_sha(rows: ManifestRows, path: str) -> str:
    """Return the SHA of a file at its last save or pull; empty if it did not exist."""
    found: str | None = rows.one("SELECT sha FROM brought WHERE path = ?", path)
    return found or ""


@dataclass
class SaveBatch:
    """The contents of a save."""

    contents: PackContents
    data: dict[str, bytes]
    revision: int
    """Number of the last local change in it."""

    event: int
    """Number of the last local event in it."""

    transcript: bytes | None = None


def leaving(rows: ManifestRows, head: RemoteHead, *, versions: bool) -> SaveBatch:
    """Return the changes since the last save, numbered after a head."""
    sent, until = rows.fact("sent_revision", 0), rows.fact("revision", 0)
    last_event = rows.one("SELECT max(seq) FROM event") or 0
    batch = SaveBatch(PackContents(), {}, until, last_event)
    revision = head.revision
    paths: dict[str, int] = {}
    unsent = "SELECT * FROM version WHERE revision > ? AND revision <= ? ORDER BY revision"
    moments = set[tuple[str, str]]()
    for row in rows.all(unsent, sent, until):
        version = StoredVersion(*row)
        moments.add((version.path, version.at))
        revision += 1
        paths[version.path] = revision
        batch.contents.versions.append(list(version._replace(revision=revision)))
        if versions and version.sha:
            _add(rows, batch, version.sha)
    for path, number in paths.items():
        batch.contents.files.append(_entry(rows, path, number))
        if path == TRANSCRIPT:
            batch.transcript = rows.content(batch.contents.files[-1].sha)
        if batch.contents.files[-1].sha:
            _add(rows, batch, batch.contents.files[-1].sha)
    for (line,) in rows.all(
        "SELECT line FROM event WHERE seq > ? AND seq <= ? ORDER BY seq",
        rows.fact("sent_event", 0),
        last_event,
    ):
        event = json.loads(line)
        # Without discarded changes, as others were first.
        if "version" not in event or (event["path"], event["ts"]) in moments:
            batch.contents.events.append(line)
    return batch


def _add(rows: ManifestRows, batch: SaveBatch, sha: str) -> None:
    """Add a content that the place does not have."""
    if rows.one("SELECT 1 FROM spot WHERE sha = ?", sha) is None:
        data = rows.content(sha)
        if data is not None:
            batch.data[sha] = data


def _entry(rows: ManifestRows, path: str, revision: int) -> FileEntry:
    row = rows.file(path)
    if row is not None:
        return FileEntry(
            path, row.sha, row.bytes, row.version, revision, row.at, row.actor, row.reason
        )
    last = rows.version(path, rows.last_version(path))
    at, actor, reason = (last.at, last.actor, last.reason) if last else ("", "", "")
    return FileEntry(path, "", 0, rows.last_version(path), revision, at, actor, reason)


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """A started save, recorded before anything is written, as its outcome may stay unknown.

    The next call finds out by the nonce whether it was completed.
    """

    nonce: str
    base: str
    """Nonce of the previous head; empty for the first."""

    store: str
    revision: int
    """Nonce of the new head."""

    until: int
    """Number of the last local change in it."""

    event: int
    """Number of the last local event in it."""

    files: list[tuple[str, str]]
    """The paths in it with their SHA-256; empty for a deleted one."""

    spots: dict[str, Spot]
    policy: str

    @classmethod
    def of(cls, base: str, after: RemoteHead, sent: SaveBatch, pack: str) -> "Attempt":
        """Return the record of the attempt to write a head with a new pack."""
        policy = Policy(Prefixes(after.read_only), after.audit, after.keep_versions)
        return cls(
            nonce=after.nonce,
            base=base,
            store=after.store,
            revision=after.revision,
            until=sent.revision,
            event=sent.event,
            files=[(entry.path, entry.sha) for entry in sent.contents.files],
            spots={
                sha: spot if spot.pack else spot._replace(pack=pack)
                for sha, spot in sent.contents.spots.items()
            },
            policy=policy.encoded(),
        )


def attempts(rows: ManifestRows) -> list[Attempt]:
    """Return the saves with an unknown outcome, oldest first."""
    return [
        Attempt(**{**noted, "spots": {sha: Spot(*spot) for sha, spot in noted["spots"].items()}})
        for noted in json.loads(rows.fact(_ATTEMPTS, "[]"))
    ]


def note_attempts(rows: ManifestRows, unknown: Iterable[Attempt]) -> None:
    """Replace the recorded saves with an unknown outcome."""
    rows.state(_ATTEMPTS, json.dumps([attempt.__dict__ for attempt in unknown]))


@dataclass(kw_only=True)
class SaveConfirmation:
    """Records a completed save in the working copy."""

    attempt: Attempt
    op: str = "save"
    requested_path: object = ""
    actor: str = "agent"
    reason: str = ""

    def apply(self, group: FileTransaction) -> None:
        """See ``Change``."""
        rows = group.rows
        for path, sha in self.attempt.files:
            rows.do("INSERT OR REPLACE INTO brought VALUES (?, ?)", path, sha)
        for sha, spot in self.attempt.spots.items():
            rows.do("INSERT OR REPLACE INTO spot VALUES (?, ?, ?, ?)", sha, *spot)
        facts: dict[str, Any] = {
            "sent_revision": self.attempt.until,
            "sent_event": self.attempt.event,
            "remote_revision": self.attempt.revision,
            "remote_store": self.attempt.store,
            _BASE_POLICY: self.attempt.policy,
        }
        for name, value in facts.items():
            rows.state(name, value)
        note_attempts(rows, ())
