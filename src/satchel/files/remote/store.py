"""Memory files at a remote place, with working copies that pull and save."""

import hashlib
import json
import random
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from satchel.errors import (
    ConcurrencyError,
    MemoryStoreError,
    StoreBusyError,
    StoreExistsError,
    TargetError,
)
from satchel.files import audit
from satchel.files.commit import DAY, CollectResult, GroupCommit, adopt_versions
from satchel.files.manifest import ManifestRows, Policy
from satchel.files.paths import OWN, TRANSCRIPT, encoded
from satchel.files.remote.objects import NotWritten, Objects, TaggedObject
from satchel.files.remote.packs import (
    HEAD,
    NOTHING,
    PACKS,
    TOGETHER,
    ErasedContent,
    FileEntry,
    GarbageCollector,
    PackContents,
    RemoteHead,
    RemotePack,
    merged,
    packed,
    read_index,
    read_log,
    remove,
)
from satchel.files.remote.pull import (
    Attempt,
    PullChange,
    SaveBatch,
    SaveConfirmation,
    attempts,
    leaving,
    note_attempts,
)
from satchel.files.tree import LARGEST, is_plain
from satchel.runtime.private_files import lock_file


def adopt_remote(objects: Objects, store: GroupCommit) -> bool:
    """Copy the whole place into a working copy; return whether there was anything."""
    adopted = False
    for name in objects.names():
        if name.startswith(OWN):
            continue
        if not is_plain(name):
            store.repairs.append(f"skipped, since it is not a valid path: {ascii(name)[1:-1]}")
            continue
        stored = objects.get(name)
        if stored is None or len(stored.data) > LARGEST:
            continue
        try:
            store.tree.place(name, stored.data)
        except MemoryStoreError as error:
            store.repairs.append(f"skipped: {error}")
            continue
        adopted = True
    if adopted:
        with store.manifest.committing() as rows:
            if rows.one("SELECT count(*) FROM event") == 0:
                audit.adopt(rows, store.tree)
            if rows.one("SELECT count(*) FROM version") == 0:
                _adopt_history(rows, store)
    return adopted


def _adopt_history(rows: ManifestRows, store: GroupCommit) -> None:
    """Adopt existing versions; a place with versions also keeps later ones."""
    before = rows.fact("revision", 0)
    store.repairs += adopt_versions(rows, store.tree)
    after = rows.fact("revision", 0)
    rows.state("adopted_revision", after)
    if after > before:
        replace(store.policy, keep_versions=True).write(rows)


RECENT = 16


def first_head(policy: Policy) -> RemoteHead:
    """Return the head of an empty store."""
    return RemoteHead(
        store=secrets.token_hex(16),
        nonce=secrets.token_hex(16),
        revision=0,
        clock=0,
        audit_seq=0,
        audit_head="",
        read_only=policy.read_only.paths,
        audit=policy.audit,
        keep_versions=policy.keep_versions,
    )


def followed(head: RemoteHead) -> RemoteHead:
    """Return the successor of a head, with a new nonce and the previous nonces."""
    recent = (*head.recent, head.nonce)[-RECENT:]
    return replace(head, nonce=secrets.token_hex(16), recent=recent)


def chained(head: RemoteHead, sent: SaveBatch) -> RemoteHead:
    """Return the head after a save, with its audit events chained to the previous ones."""
    seq, prev = head.audit_seq, head.audit_head
    lines = []
    for line in sent.contents.events:
        seq += 1
        event = {**json.loads(line), "seq": seq, "prev": prev}
        lines.append(json.dumps(event, sort_keys=True))
        prev = hashlib.sha256(lines[-1].encode()).hexdigest()
    sent.contents.events = lines
    return replace(
        followed(head),
        revision=max(head.revision + 1, head.revision + len(sent.contents.versions)),
        clock=max(head.clock, time.time_ns() // 1_000),
        audit_seq=seq,
        audit_head=prev,
    )


def unchained(head: RemoteHead, events: Iterable[str]) -> tuple[int, list[str]]:
    """Return the number of events, and where their chain to the head is broken."""
    problems = list[str]()
    prev, seq = "", 0
    for line in events:
        event = json.loads(line)
        seq += 1
        if event.get("prev") != prev or event.get("seq") != seq:
            problems.append(f"event {seq} does not follow the one before it")
        prev = hashlib.sha256(line.encode()).hexdigest()
    if head.audit_head != prev:
        problems.append("the last event differs from the one written last")
    return seq, problems


_MOST_TRIES = 60
_MOST_READS = 6
_LONGEST_PAUSE = 0.2
_EMPTY = b"[]"

_probed: dict[str, bool] = {}

_TaggedHead = tuple[RemoteHead, str]
_ResultT = TypeVar("_ResultT")


class RemoteFileStorage:
    """A store at a remote place.

    Args:
        address: Address of the place.
        objects: Its objects.
    """

    folder: Path | None = None

    def __init__(self, address: str, objects: Objects) -> None:
        self.address = address
        self.objects = objects

    def is_at(self, root: Path) -> bool:
        """Return whether the place is this folder."""
        del root
        return False

    def exists(self) -> bool:
        """Return whether there is a store, also one of another program."""
        for name in (HEAD, TRANSCRIPT):
            if self.objects.get(name) is not None:
                return True
        # Packs without a head belong to a concurrent creation of a store.
        return any(not name.startswith(f"{OWN}/") for name in self.objects.names())

    def create(self, policy: Policy) -> None:
        """Create an empty store.

        Raises:
            MemoryStoreError: If it exists.
            TargetError: If the place ignores conditions, so that writers would lose writes.
        """
        if self.exists():
            raise StoreExistsError(self.address)
        self._require_conditions()
        head = first_head(policy)
        entry = FileEntry(
            TRANSCRIPT, hashlib.sha256(_EMPTY).hexdigest(), len(_EMPTY), 1, 1, "", "", ""
        )
        contents = PackContents(files=[entry])
        segment, data = packed(contents, {entry.sha: _EMPTY}, 0)
        self.objects.put(PACKS + segment.name, data)
        head = replace(head, revision=1, segments=(segment,))
        if not self._advance(head, None):
            raise StoreExistsError(self.address)
        self.objects.put(TRANSCRIPT, _EMPTY)

    def _require_conditions(self) -> None:
        shared = self.objects.shared
        if shared not in _probed:
            _probed[shared] = self.objects.probe()
        if not _probed[shared]:
            raise TargetError(
                "the service ignores conditional writes, so concurrent writers would overwrite "
                "each other",
                file=self.address,
                hint="Use a service that supports If-Match and If-None-Match.",
            )

    def load_into(self, store: GroupCommit, policy: Policy) -> None:
        """Update a working copy's knowledge of the place; contents are fetched on demand.

        Raises:
            TargetError: If the place does not answer.
        """
        store.fetch = lambda sha, path: self.content(store, sha, path)
        del policy
        # Conflicting files stay as they are here until a save or ``refresh``.
        with self._lock(store), suppress(ConcurrencyError):
            self._with_head(lambda state: self._pull(store, state))

    def refresh(self, store: GroupCommit, discard: frozenset[str]) -> None:
        """Pull the saves of others.

        Raises:
            ConcurrencyError: If both changed a file whose changes here are not discarded.
        """
        with self._lock(store):
            self._with_head(lambda state: self._pull(store, state, discard))

    @staticmethod
    def _lock(store: GroupCommit) -> AbstractContextManager[None]:
        """Lock this working copy against concurrent pulls and saves during the block."""
        return lock_file(store.tree.root / OWN / "bring.lock")

    def _pull(
        self, store: GroupCommit, state: _TaggedHead | None, discard: frozenset[str] | None = None
    ) -> None:
        """Pull the head; before the first save, adopt files of other programs once."""
        if state is not None:
            self._follow(store, state[0], discard or frozenset())
        elif discard is None:
            adopt_remote(self.objects, store)

    def push(self, store: GroupCommit) -> None:
        """Save the changes of this working copy.

        Raises:
            ConcurrencyError: If another writer changed a file that was changed here.
            StoreBusyError: If concurrent saves won every time.
            TargetError: If the place does not answer, or ignores conditions.
        """
        self._require_conditions()
        with self._lock(store):
            for number in range(_MOST_TRIES):
                if self._with_head(lambda state: self._try_save(store, state)):
                    return
                _pause(number)
        raise self._busy()

    def _with_head(self, do: Callable[[_TaggedHead | None], _ResultT]) -> _ResultT:
        """Use the head; retry if others advanced it and removed its packs."""
        for number in range(_MOST_TRIES):
            before = self._head()
            try:
                return do(before)
            except TargetError:
                after = self._head()
                if before is None or after is None or after[0].nonce == before[0].nonce:
                    raise
                _pause(number)
        raise self._busy()

    def _busy(self) -> StoreBusyError:
        return StoreBusyError("other processes keep saving", file=self.address, hint="Try again.")

    def _try_save(self, store: GroupCommit, state: _TaggedHead | None) -> bool:
        head, tag = state if state is not None else (first_head(store.policy), None)
        if state is not None:  # otherwise a concurrent creation could take the place
            self._follow(store, head, frozenset())
        policy = store.policy
        with store.manifest.looking() as rows:
            sent = leaving(rows, head, versions=policy.keep_versions)
            chain = (rows.fact("policy_read_only", "[]"), policy.audit, policy.keep_versions)
        rules = (tuple(json.loads(chain[0])), chain[1], chain[2])
        same = (head.read_only, head.audit, head.keep_versions) == rules
        if not sent.contents.files and not sent.contents.events and same and state is not None:
            return True
        after = chained(head, sent)
        sent.contents.saves.append(after.nonce)
        segment, data = packed(sent.contents, sent.data, 0)
        segment = segment._replace(revision=max(after.revision, segment.revision))
        self.objects.put(PACKS + segment.name, data)
        after = replace(
            after,
            read_only=rules[0],
            audit=rules[1],
            keep_versions=rules[2],
            segments=self._with_merged_packs((*head.segments, segment)),
        )
        attempt = Attempt.of("" if state is None else head.nonce, after, sent, segment.name)
        with store.manifest.committing() as rows:
            note_attempts(rows, (*attempts(rows), attempt))
        if not self._advance(after, tag):
            return False
        store.do(SaveConfirmation(attempt=attempt))
        if sent.transcript is not None:
            self.objects.put(TRANSCRIPT, sent.transcript)
        return True

    def _advance(self, head: RemoteHead, tag: str | None) -> bool:
        """Publish a head; return whether it was published."""
        data = head.encoded()
        try:
            if tag is None:
                self.objects.create(HEAD, data)
            else:
                self.objects.replace(HEAD, data, tag)
        except NotWritten as error:
            state = self._reread_head()
            if state is not None and head.nonce in {state[0].nonce, *state[0].recent}:
                return True  # only the response was lost; others may have followed
            if (None if state is None else state[1]) == tag:
                raise TargetError(
                    f"the head was not written: {error}", file=self.address, hint="Try again."
                ) from error
            return False
        return True

    def _reread_head(self) -> _TaggedHead | None:
        """Return the head after a lost response; the service may need a moment.

        Raises:
            TargetError: If it does not answer. The next save or refresh of the working copy finds
                out whether the head was written.
        """
        for number in range(_MOST_READS):
            with suppress(TargetError):
                return self._head()
            _pause(number)
        return self._head()

    def _settle_attempts(self, store: GroupCommit, head: RemoteHead) -> None:
        """Resolve saves whose response was lost, or whose writer was killed."""
        with store.manifest.looking() as rows:
            unknown = attempts(rows)
        if not unknown:
            return
        # A save after this head may still arrive; one after an older head did, or never will.
        waiting = [attempt for attempt in unknown if attempt.base == head.nonce]
        settled = [attempt for attempt in unknown if attempt.base != head.nonce]
        done = self._included_attempt(settled, head)
        if done is not None:
            store.do(SaveConfirmation(attempt=done))
        if settled:
            with store.manifest.committing() as rows:
                note_attempts(rows, waiting)

    def _included_attempt(self, settled: list[Attempt], head: RemoteHead) -> Attempt | None:
        """Return the save that a head includes, if any; there is at most one."""
        recent = {head.nonce, *head.recent}
        for attempt in settled:
            if attempt.nonce in recent:
                return attempt
        since = min((attempt.revision for attempt in settled), default=0)
        if head.revision < since or len(head.recent) < RECENT:
            return None
        for segment in head.segments:
            if segment.revision >= since:
                saves = set(self._log(segment).saves)
                for attempt in settled:
                    if attempt.nonce in saves:
                        return attempt
        return None

    def _with_merged_packs(self, segments: tuple[RemotePack, ...]) -> tuple[RemotePack, ...]:
        """Return the packs of the next head; enough packs of one level are merged."""
        for level in sorted({pack.level for pack in segments}):
            same = [pack for pack in segments if pack.level == level]
            if len(same) >= TOGETHER:
                parts = [
                    (pack, self._part(pack, pack.start, pack.known + pack.log)) for pack in same
                ]
                segment, data = merged(parts)
                self.objects.put(PACKS + segment.name, data)
                at = segments.index(same[0])
                rest = [pack for pack in segments if pack.level != level]
                return (*rest[:at], segment, *rest[at:])
        return segments

    def _follow(self, store: GroupCommit, head: RemoteHead, discard: frozenset[str]) -> None:
        """Pull what a head has and the working copy does not know."""
        with store.manifest.looking() as rows:
            known, of = rows.fact("remote_revision", -1), rows.fact("remote_store")
            moved = rows.fact("remote_collected", 0) != head.collected
        if of is not None and of != head.store and head.segments:
            raise MemoryStoreError("this is a working copy of another store", file=self.address)
        self._settle_attempts(store, head)
        with store.manifest.looking() as rows:
            known = rows.fact("remote_revision", -1)
        if known >= head.revision and not discard and not moved:
            return
        contents = PackContents()
        files: dict[str, FileEntry] = {}
        for segment in head.segments:
            if segment.revision > known or discard or moved:
                part = read_index(segment, self._part(segment, segment.start, segment.known))
                files.update({entry.path: entry for entry in part.files})
                contents.spots.update(part.spots)
        contents.files = list(files.values())
        change = PullChange(head=head, contents=contents, discard=discard, moved=moved)
        if known >= 0 and TRANSCRIPT in files and files[TRANSCRIPT].revision > known:
            spot = contents.spots.get(files[TRANSCRIPT].sha)
            change.theirs = (
                None if spot is None else self.objects.part(PACKS + spot.pack, *spot[1:])
            )
        store.do(change)

    def _part(self, segment: RemotePack, start: int, length: int) -> bytes:
        return self.objects.part(PACKS + segment.name, start, length)

    def _head(self) -> tuple[RemoteHead, str] | None:
        found: TaggedObject | None = self.objects.get(HEAD)
        return None if found is None else (RemoteHead.decoded(found.data, self.address), found.tag)

    def content(self, store: GroupCommit, sha: str, path: str) -> bytes | None:
        """Return a content by its digest; None if the place does not have it.

        Raises:
            MemoryStoreError: If it does not match its digest.
        """
        with store.manifest.looking() as rows:
            spot = next(rows.all("SELECT pack, start, length FROM spot WHERE sha = ?", sha), None)
        if spot is None:
            return None
        try:
            data = self.objects.part(PACKS + spot[0], spot[1], spot[2]) if spot[2] else b""
        except TargetError:
            data = self._moved_content(sha)
        if hashlib.sha256(data).hexdigest() != sha:
            raise MemoryStoreError("the content of this file is damaged there", path=path)
        return data

    def _moved_content(self, sha: str) -> bytes:
        """Return a content that was moved to another pack since the head was read.

        Raises:
            TargetError: If it is gone, as no file has it any more.
        """
        found = self._head()
        for segment in found[0].segments if found is not None else ():
            index = read_index(segment, self._part(segment, segment.start, segment.known))
            if sha in index.spots:
                spot = index.spots[sha]
                return self.objects.part(PACKS + spot.pack, *spot[1:])
        raise TargetError(
            "another process replaced this text, and it is no longer stored",
            file=self.address,
            hint="Refresh the store.",
        )

    def erase(self, path: str, until: int) -> None:
        """Erase the texts of a path; see ``FileStorage``."""
        versions = f"versions/{encoded(path)}/"
        for name in list(self.objects.names()):  # earlier objects in Flyte's layout
            if name == path or name.startswith(versions):
                self.objects.remove(name)
        self.collect(erased=(path, until))

    def collect(self, grace: float = DAY, erased: ErasedContent = NOTHING) -> CollectResult:
        """Remove unreferenced packs; see ``packs``.

        Args:
            grace: Seconds for which readers may continue to use an older head.
            erased: Digests of contents to erase; their packs are removed immediately.

        Raises:
            StoreBusyError: If concurrent saves won every time.
            TargetError: If the place does not answer, or ignores conditions.
        """
        self._require_conditions()
        for number in range(_MOST_TRIES):
            done = self._with_head(lambda found: self._try_collect(found, grace, erased))
            if done is not None:
                return done
            _pause(number)
        raise self._busy()

    def _try_collect(
        self, state: _TaggedHead | None, grace: float, erased: ErasedContent
    ) -> CollectResult | None:
        if state is None:
            return CollectResult(0, 0, 0)
        head, tag = state
        plan = GarbageCollector(self.objects, head, erased).plan(grace)
        if plan.head != head and not self._advance(followed(plan.head), tag):
            return None
        gone = remove(self.objects, plan.due)
        return CollectResult(gone, len(plan.head.condemned) - gone, plan.rewritten)

    def laid_open(self) -> Iterator[tuple[str, bytes]]:
        """Yield the name and the bytes of each object."""
        for name in self.objects.names():
            stored = self.objects.get(name)
            if stored is not None:
                yield f"{self.address}/{name}", stored.data

    def standing(self) -> tuple[str, int] | None:
        """Return the ID of the store and its last saved change."""
        found = self._head()
        return None if found is None else (found[0].store, found[0].revision)

    def versions(self, since: int = -1) -> list[list[Any]]:
        """Return the versions that were saved after a change, in order, as lists."""
        return self._with_head(
            lambda found: [
                version
                for segment in (found[0].segments if found is not None else ())
                if segment.revision > since
                for version in self._log(segment).versions
                if version[2] > since
            ]
        )

    def load_history(self, store: GroupCommit) -> None:
        """Read the saved versions into a working copy."""
        versions = self.versions()
        with store.manifest.committing() as rows:
            for one in versions:
                one[2] = -one[2]  # numbered there
                rows.do("INSERT OR IGNORE INTO version VALUES (?,?,?,?,?,?,?,?,?,?)", *one)

    def tail(self, store: GroupCommit, number: int) -> list[dict[str, Any]]:
        """Return the last events: saved ones, and later ones that are only here."""
        with store.manifest.looking() as rows:
            sent = rows.fact("sent_event", 0)
            lines = [
                line
                for (line,) in rows.all(
                    "SELECT line FROM event WHERE seq > ? ORDER BY seq DESC LIMIT ?", sent, number
                )
            ]
        there = self._with_head(lambda found: self._last(found, number - len(lines)))
        return [json.loads(line) for line in reversed([*lines, *there][:number])]

    def _last(self, state: _TaggedHead | None, number: int) -> list[str]:
        """Return the last saved events, newest first."""
        lines: list[str] = []
        for segment in reversed(state[0].segments if state is not None else ()):
            if len(lines) >= number:
                break
            if segment.events:
                lines += reversed(self._log(segment).events[len(lines) - number :])
        return lines

    def examine(self) -> tuple[int, list[str]] | None:
        """Return the number of events, and the problems of their chain."""
        return self._with_head(lambda found: (0, []) if found is None else self._examined(found[0]))

    def _examined(self, head: RemoteHead) -> tuple[int, list[str]]:
        return unchained(head, (line for one in head.segments for line in self._log(one).events))

    def _log(self, segment: RemotePack) -> PackContents:
        return read_log(segment, self._part(segment, segment.start + segment.known, segment.log))


def _pause(number: int) -> None:
    """Wait for a random time before a retry."""
    time.sleep(random.uniform(0, min(_LONGEST_PAUSE, 0.005 * 2**number)))  # noqa: S311
