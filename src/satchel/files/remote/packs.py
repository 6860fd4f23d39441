"""Objects at a remote place: immutable packs, and the head that lists them; garbage collection.

A pack has the contents of one save, then an index of the changed files, then a log of versions and
audit events. To open a store, the indexes are read; contents and logs are read on demand. The
indexes and logs of several packs are merged from time to time, so that there are few to read.
"""

import hashlib
import json
import re
import secrets
import time
import zlib
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from satchel.errors import MalformedError, MemoryStoreError
from satchel.files.paths import TRANSCRIPT, check_public_path
from satchel.files.remote.objects import Objects

HEAD = "meta/.satchel/head"
PACKS = "meta/.satchel/packs/"

TOGETHER = 4
"""Number of packs of one level that are merged into one of the next."""

_FORMAT = "satchel-files"
_VERSION = 2
_READ = (1, 2)
_LARGEST_PART = 256 << 20
_DIGEST = re.compile(r"[0-9a-f]{64}")


class Spot(NamedTuple):
    """Location of a content."""

    pack: str
    start: int
    length: int


class FileEntry(NamedTuple):
    """A file in an index; a deleted one has an empty SHA."""

    path: str
    sha: str
    bytes: int
    version: int
    revision: int
    at: str
    actor: str
    reason: str


class RemotePack(NamedTuple):
    """A pack in the head."""

    name: str
    level: int
    revision: int
    """Number of its newest change."""

    events: int
    start: int
    """Offset of the index, which the log follows."""

    known: int
    """Bytes of the index."""

    log: int
    """Bytes of the log."""


@dataclass
class PackContents:
    """Index and log of a pack."""

    files: list[FileEntry] = field(default_factory=list)
    spots: dict[str, Spot] = field(default_factory=dict)
    versions: list[list[Any]] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    saves: list[str] = field(default_factory=list)
    """Nonces of the saves in it."""


@dataclass(frozen=True)
class RemoteHead:
    """The head, the only mutable object."""

    store: str
    nonce: str
    """Identifies the writer's own head after a lost response."""

    revision: int
    clock: int
    audit_seq: int
    audit_head: str
    read_only: tuple[str, ...]
    audit: bool
    keep_versions: bool
    segments: tuple[RemotePack, ...] = ()
    recent: tuple[str, ...] = ()
    """Nonces of the last previous heads."""

    collected: int = 0
    """Number of moves of contents to other packs; known locations are stale after a change."""

    condemned: tuple[tuple[str, int], ...] = ()
    """Packs that may no longer be referenced, each with the time in microseconds."""

    def encoded(self) -> bytes:
        """Return the encoded head."""
        members = {**self.__dict__, "segments": [list(one) for one in self.segments]}
        return json.dumps({"format": _FORMAT, "version": _VERSION, **members}).encode()

    @classmethod
    def decoded(cls, data: bytes, address: str) -> "RemoteHead":
        """Decode a head.

        Raises:
            MalformedError: If it is not a head, or of an unknown version.
        """
        try:
            members = json.loads(data)
            if members.pop("format") != _FORMAT or members.pop("version") not in _READ:
                members = {}  # of another product, or a later one
            members["segments"] = tuple(map(_segment, _list(members["segments"])))
            members["read_only"] = tuple(map(_text, _list(members["read_only"])))
            members["recent"] = tuple(map(_text, _list(members.get("recent", []))))
            condemned = _list(members.get("condemned", []))
            members["condemned"] = tuple((_sha(name), _count(at)) for name, at in condemned)
            return _checked(cls(**members))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise MalformedError(
                f"the head of the store is damaged: {error}", file=address
            ) from None


def _checked(head: RemoteHead) -> RemoteHead:
    for text in (head.store, head.nonce, head.audit_head):
        _text(text)
    for number in (head.revision, head.clock, head.audit_seq, head.collected):
        _count(number)
    for rule in (head.audit, head.keep_versions):
        _rule(rule)
    return head


def _segment(values: list[Any]) -> RemotePack:
    name, *numbers = values
    return RemotePack(_sha(name), *map(_count, numbers))


def packed(contents: PackContents, data: dict[str, bytes], level: int) -> tuple[RemotePack, bytes]:
    """Return a pack and its name.

    Args:
        contents: Its index and log; receives the locations of the new contents.
        data: The new contents, by digest.
        level: Its level: 0 for a save, otherwise one above the merged packs.
    """
    at, body = 0, []
    for sha, content in data.items():
        contents.spots[sha] = Spot("", at, len(content))  # in this pack
        body.append(content)
        at += len(content)
    header = {"files": contents.files, "spots": contents.spots, "salt": secrets.token_hex(16)}
    index = _squeezed(header)
    log = _squeezed(
        {"versions": contents.versions, "events": contents.events, "saves": contents.saves}
    )
    # The name is unique: garbage collection relies on it.
    whole = b"".join((*body, index, log))
    name = hashlib.sha256(whole).hexdigest()
    revision = max((entry.revision for entry in contents.files), default=0)
    return RemotePack(name, level, revision, len(contents.events), at, len(index), len(log)), whole


def read_index(segment: RemotePack, data: bytes) -> PackContents:
    """Return the index of a pack."""
    members = _unsqueezed(data[: segment.known], segment)
    try:
        spots = {
            _sha(sha): Spot(_sha(pack or segment.name), _count(at), _count(length))
            for sha, (pack, at, length) in members["spots"].items()
        }
        return PackContents([_entry(entry) for entry in members["files"]], spots)
    except (ValueError, TypeError, KeyError, AttributeError, MemoryStoreError) as error:
        raise _damaged(segment, error) from None


def read_log(segment: RemotePack, data: bytes) -> PackContents:
    """Return the log of a pack."""
    members = _unsqueezed(data, segment)
    try:
        versions = [_version(version) for version in members["versions"]]
        events = [_text(line) for line in members["events"]]
        saves = [_text(nonce) for nonce in members.get("saves", [])]
        return PackContents(versions=versions, events=events, saves=saves)
    except (ValueError, TypeError, KeyError, AttributeError, MemoryStoreError) as error:
        raise _damaged(segment, error) from None


def merged(parts: list[tuple[RemotePack, bytes]]) -> tuple[RemotePack, bytes]:
    """Return one pack that merges several, oldest first."""
    whole = gathered(
        [(read_index(one, data), read_log(one, data[one.known :])) for one, data in parts]
    )
    segment, data = packed(whole, {}, parts[0][0].level + 1)
    newest = max(one.revision for one, _ in parts)
    return segment._replace(revision=newest), data


def gathered(parts: list[tuple[PackContents, PackContents]]) -> PackContents:
    """Return the merged index and log of several packs, oldest first."""
    files: dict[str, FileEntry] = {}
    whole = PackContents()
    for index, log in parts:
        files.update({one.path: one for one in index.files})
        whole.spots.update(index.spots)
        whole.versions += log.versions
        whole.events += log.events
        whole.saves += log.saves
    whole.files = list(files.values())
    return whole


def _squeezed(value: Any) -> bytes:
    return zlib.compress(json.dumps(value).encode(), 3)


def _unsqueezed(data: bytes, segment: RemotePack) -> Any:
    try:
        unpacking = zlib.decompressobj()
        unpacked = unpacking.decompress(data, _LARGEST_PART)
        return json.loads(
            unpacked if unpacking.eof else b""
        )  # otherwise it is truncated, or too large
    except (ValueError, zlib.error, RecursionError) as error:
        raise _damaged(segment, error) from None


def _damaged(segment: RemotePack, error: Exception) -> MalformedError:
    return MalformedError(f"a pack is damaged: {error}", file=segment.name)


def _entry(values: list[Any]) -> FileEntry:
    """Return a file of an index, with its path validated."""
    path, sha, size, version, revision, at, actor, reason = values
    words = _text(at), _text(actor), _text(reason)
    numbers = _count(size), _count(version), _count(revision)
    return FileEntry(_path(path), _sha(sha) if sha else "", *numbers, *words)


def _version(values: list[Any]) -> list[Any]:
    path, version, revision, op, sha, size, at, actor, reason, other = values
    known = [_path(path), _count(version), _count(revision), _text(op), _sha(sha) if sha else ""]
    return [*known, _count(size), *map(_text, (at, actor, reason, other))]


def _path(value: Any) -> str:
    if value == TRANSCRIPT:
        return TRANSCRIPT
    if check_public_path(value) != value:
        raise ValueError("a path is not normalized")
    return str(value)


def _sha(value: Any) -> str:
    if not isinstance(value, str) or not _DIGEST.fullmatch(value):
        raise ValueError("an invalid digest")
    return value


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 1 << 62:
        raise ValueError("an invalid number")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("an invalid text")
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError("an invalid list")
    return value


def _rule(value: Any) -> None:
    if not isinstance(value, bool):
        raise TypeError("a rule must be true or false")


ErasedContent = tuple[str, int]
"""A path whose texts to erase, and the number of the last version to erase."""

NOTHING: ErasedContent = ("", 0)

_MOST_COPIED = 64 << 20
_MOST_IN_A_PACK = 32 << 20


@dataclass
class CollectionPlan:
    """The plan of a garbage collection."""

    head: RemoteHead
    """The next head, without its nonce."""

    due: tuple[str, ...]
    """Packs to remove after that head is written."""

    rewritten: int


class GarbageCollector:
    """One pass of garbage collection over a place.

    Args:
        objects: The place.
        head: Its head.
        erased: Digests of contents to erase.
    """

    def __init__(self, objects: Objects, head: RemoteHead, erased: ErasedContent = NOTHING) -> None:
        self._objects = objects
        self._head = head
        self._whole = self._read(head.segments)
        self._erased = erased
        self._live = self._live_spots()
        self._gone = {
            row[4] for row in self._whole.versions if self._is_erased(row) and row[4]
        } - self._live.keys()

    def plan(self, grace: float) -> CollectionPlan:
        """Write copies of contents, and return the next head.

        Args:
            grace: Seconds for which unreferenced packs are kept.

        Raises:
            TargetError: If the place does not answer.
            MalformedError: If a pack is damaged; then nothing is removed.
        """
        dissolved = self._dissolved()
        head, now = self._head, time.time_ns() // 1_000
        present = {name[len(PACKS) :] for name in self._objects.names() if name.startswith(PACKS)}
        segments = head.segments
        if dissolved or len(segments) > 1 or self._whole.spots.keys() - self._live.keys():
            segments = (self._written(dissolved),)
        used = {segment.name for segment in segments} | {spot.pack for spot in self._live.values()}
        before = dict(head.condemned)
        # A time in the future counts as now: otherwise a pack would never be removed.
        condemned = {name: min(before.get(name, now), now) for name in sorted(present - used)}
        limit = now - int(grace * 1_000_000)
        immediate = dissolved if self._gone else set[str]()
        due = tuple(name for name, at in condemned.items() if at <= limit or name in immediate)
        changed = segments != head.segments
        after = replace(
            head,
            segments=segments,
            condemned=tuple(condemned.items()),
            collected=head.collected + int(changed),
        )
        return CollectionPlan(after, due, len(dissolved))

    def _read(self, segments: Collection[RemotePack]) -> PackContents:
        parts = []
        for one in segments:
            data = self._objects.part(PACKS + one.name, one.start, one.known + one.log)
            parts.append((read_index(one, data), read_log(one, data[one.known :])))
        return gathered(parts)

    def _is_erased(self, row: list[Any]) -> bool:
        path, until = self._erased
        return bool(row[0] == path and row[1] <= until)

    def _live_spots(self) -> dict[str, Spot]:
        """Return the locations of the texts of files, and of versions if they are kept."""
        shas = {entry.sha for entry in self._whole.files}
        if self._head.keep_versions:
            shas |= {row[4] for row in self._whole.versions if not self._is_erased(row)}
        return {sha: self._whole.spots[sha] for sha in sorted(shas) if sha in self._whole.spots}

    def _dissolved(self) -> set[str]:
        """Return the packs to rewrite: with erased texts, or mostly unreferenced."""
        size, live = dict[str, int](), dict[str, int]()
        for sha, spot in self._whole.spots.items():
            size[spot.pack] = size.get(spot.pack, 0) + spot.length
            live[spot.pack] = live.get(spot.pack, 0) + (spot.length if sha in self._live else 0)
        rewritten = {self._whole.spots[sha].pack for sha in self._gone if sha in self._whole.spots}
        copied = 0
        for pack in sorted(size, key=lambda pack: live[pack]):
            if 2 * live[pack] < size[pack] and copied + live[pack] <= _MOST_COPIED:
                copied += live[pack]
                rewritten.add(pack)
        return rewritten

    def _written(self, dissolved: Collection[str]) -> RemotePack:
        """Write a pack with the merged index and the copied contents; several if they are large."""
        data, size = dict[str, bytes](), 0
        for sha, spot in list(self._live.items()):
            if spot.pack in dissolved:
                data[sha] = self._objects.part(PACKS + spot.pack, *spot[1:]) if spot.length else b""
                size += spot.length
                if size > _MOST_IN_A_PACK:
                    self._put(PackContents(), data)
                    data, size = {}, 0
        whole = PackContents(
            files=self._whole.files,
            spots={sha: spot for sha, spot in self._live.items() if sha not in data},
            versions=self._whole.versions,
            events=self._whole.events,
            saves=self._whole.saves,
        )
        newest = max((one.revision for one in self._head.segments), default=0)
        level = max((one.level for one in self._head.segments), default=0)
        return self._put(whole, data)._replace(revision=newest, level=level + 1)

    def _put(self, contents: PackContents, data: dict[str, bytes]) -> RemotePack:
        segment, whole = packed(contents, data, 0)
        self._objects.put(PACKS + segment.name, whole)
        for sha in data:
            self._live[sha] = contents.spots[sha]._replace(pack=segment.name)
        return segment


def remove(objects: Objects, names: Collection[str]) -> int:
    """Remove packs, and return their number."""
    for name in names:
        objects.remove(PACKS + name)
    return len(names)
