"""What others saved, taken into a working copy, and what of it goes the other way."""

from dataclasses import dataclass, field
from typing import Any

from satchel.errors import ConcurrencyError
from satchel.files.keeping.group import Group
from satchel.files.keeping.manifest import FileRow, Rows, Version
from satchel.files.keeping.policy import Policy
from satchel.files.keeping.transcript import decoded_messages, encoded_messages
from satchel.files.paths import TRANSCRIPT, Prefixes
from satchel.files.remote.packs import Contents, FileEntry, Head, Spot


@dataclass(kw_only=True)
class Arrive:
    """The files that others changed, in place of those here that did not change since.

    Raises, when applied, ``ConcurrencyError`` if both changed one; then nothing is taken in.
    """

    head: Head
    contents: Contents
    discard: frozenset[str] = frozenset()
    """Paths whose changes here are given up."""

    moved: bool = False
    """Whether contents are in other packs than before."""

    theirs: bytes | None = None
    """The transcript there, if it changed."""

    op: str = "arrive"
    said: object = ""
    actor: str = "others"
    reason: str = ""
    merged: bool = field(default=False, init=False)

    def apply(self, group: Group) -> None:
        """See ``Change``."""
        rows = group.rows
        known = rows.fact("remote_revision", -1)
        newest = {one.path: one for one in self.contents.files if one.revision > known}
        changed = [
            path for path in newest if path != TRANSCRIPT and self._both(group, newest[path])
        ]
        if changed:
            raise _both_changed(group, newest, changed)
        if self.moved:
            rows.do("DELETE FROM spot")
        for sha, spot in self.contents.spots.items():
            rows.do("INSERT OR REPLACE INTO spot VALUES (?, ?, ?, ?)", sha, *spot)
        for entry in newest.values():
            if entry.path == TRANSCRIPT and self._both(group, entry):
                self._merge(group, entry)
            else:
                self._take(group, entry)
        Policy(Prefixes(self.head.read_only), self.head.audit, self.head.keep_versions).write(rows)
        rows.state("remote_revision", self.head.revision)
        rows.state("remote_store", self.head.store)
        rows.state("remote_collected", self.head.collected)
        rows.state("clock", max(rows.fact("clock", 0), self.head.clock))
        rows.state("revision", max(rows.fact("revision", 0), 0))

    def _both(self, group: Group, entry: FileEntry) -> bool:
        """Tell whether a file that others changed was changed here, too, to something else."""
        if entry.path in self.discard:
            return False
        row = group.rows.file(entry.path)
        sha = "" if row is None else row.sha
        return sha not in {brought_sha(group.rows, entry.path), entry.sha}

    def _take(self, group: Group, entry: FileEntry) -> None:
        rows, path = group.rows, entry.path
        rows.do("INSERT OR REPLACE INTO brought VALUES (?, ?)", path, entry.sha)
        if entry.sha:
            there = rows.content(entry.sha) is not None
            rows.put(FileRow(path, *entry[1:4], entry.revision, *entry[5:], int(not there)))
        else:
            rows.do("DELETE FROM file WHERE path = ?", path)
            rows.do(
                "INSERT OR IGNORE INTO version VALUES (?,?,?,?,?,?,?,?,?,?)",
                *Version(path, entry.version, -entry.revision, "delete", "", 0, *entry[5:], ""),
            )
        group.changed[path] = None

    def _merge(self, group: Group, entry: FileEntry) -> None:
        """Have the messages that were added here follow those that were added there."""
        rows = group.rows
        known = brought_sha(rows, TRANSCRIPT)
        base = (group.content(known, TRANSCRIPT) or b"") if known else None
        began, here = decoded_messages(base), decoded_messages(group.state(TRANSCRIPT).data)
        there = decoded_messages(self.theirs)
        if began is None or here is None or there is None or here[: len(began)] != began:
            raise ConcurrencyError(
                TRANSCRIPT,
                brought_sha(rows, TRANSCRIPT),
                entry.sha,
                message="somebody else saved other messages, and these do not continue them",
            )
        rows.keep(entry.sha, self.theirs or b"")
        rows.do("INSERT OR REPLACE INTO brought VALUES (?, ?)", TRANSCRIPT, entry.sha)
        row = rows.file(TRANSCRIPT)
        if row is not None:  # so that the number of this state follows on theirs
            rows.put(row._replace(version=max(row.version, entry.version)))
        group.put(TRANSCRIPT, encoded_messages(there + here[len(began) :]), self, op="transcript")
        self.merged = True


def _both_changed(
    group: Group, newest: dict[str, FileEntry], changed: list[str]
) -> ConcurrencyError:
    first = changed[0]
    more = f", and {len(changed) - 1:,} more" if changed[1:] else ""
    return ConcurrencyError(
        first,
        brought_sha(group.rows, first),
        newest[first].sha,
        message=f"somebody else saved another text of this file{more}; nothing was saved",
    )


def brought_sha(rows: Rows, path: str) -> str:
    """Return what a file was there when it was last brought or taken in; empty for nothing."""
    found: str | None = rows.one("SELECT sha FROM brought WHERE path = ?", path)
    return found or ""


@dataclass
class Leaving:
    """What a save brings."""

    contents: Contents
    data: dict[str, bytes]
    revision: int
    """Local, up to which changes are in it."""

    event: int
    """Local, up to which events are in it."""

    transcript: bytes | None = None


def leaving(rows: Rows, head: Head, *, versions: bool) -> Leaving:
    """Return what changed here since it was last brought, numbered to follow a head."""
    sent, until = rows.fact("sent_revision", 0), rows.fact("revision", 0)
    last_event = rows.one("SELECT max(seq) FROM event") or 0
    found = Leaving(Contents(), {}, until, last_event)
    revision = head.revision
    paths: dict[str, int] = {}
    unsent = "SELECT * FROM version WHERE revision > ? AND revision <= ? ORDER BY revision"
    for row in rows.all(unsent, sent, until):
        version = Version(*row)
        revision += 1
        paths[version.path] = revision
        found.contents.versions.append(list(version._replace(revision=revision)))
        if versions and version.sha:
            _add(rows, found, version.sha)
    for path, number in paths.items():
        found.contents.files.append(_entry(rows, path, number))
        if path == TRANSCRIPT:
            found.transcript = rows.content(found.contents.files[-1].sha)
        if found.contents.files[-1].sha:
            _add(rows, found, found.contents.files[-1].sha)
    for (line,) in rows.all(
        "SELECT line FROM event WHERE seq > ? AND seq <= ? ORDER BY seq",
        rows.fact("sent_event", 0),
        last_event,
    ):
        found.contents.events.append(line)
    return found


def _add(rows: Rows, found: Leaving, sha: str) -> None:
    """Have a content brought that is not there yet."""
    if rows.one("SELECT 1 FROM spot WHERE sha = ?", sha) is None:
        data = rows.content(sha)
        if data is not None:
            found.data[sha] = data


def _entry(rows: Rows, path: str, revision: int) -> FileEntry:
    row = rows.file(path)
    if row is not None:
        return FileEntry(
            path, row.sha, row.bytes, row.version, revision, row.at, row.actor, row.reason
        )
    last = rows.version(path, rows.last_version(path))
    at, actor, reason = (last.at, last.actor, last.reason) if last else ("", "", "")
    return FileEntry(path, "", 0, rows.last_version(path), revision, at, actor, reason)


@dataclass(kw_only=True)
class Left:
    """That a save arrived, noted in the working copy."""

    head: Head
    sent: Leaving
    spots: dict[str, Spot]
    op: str = "save"
    said: object = ""
    actor: str = "agent"
    reason: str = ""

    def apply(self, group: Group) -> None:
        """See ``Change``."""
        rows = group.rows
        for entry in self.sent.contents.files:
            rows.do("INSERT OR REPLACE INTO brought VALUES (?, ?)", entry.path, entry.sha)
        for sha, spot in self.spots.items():
            rows.do("INSERT OR REPLACE INTO spot VALUES (?, ?, ?, ?)", sha, *spot)
        facts: dict[str, Any] = {
            "sent_revision": self.sent.revision,
            "sent_event": self.sent.event,
            "remote_revision": self.head.revision,
            "remote_store": self.head.store,
        }
        for name, value in facts.items():
            rows.state(name, value)
