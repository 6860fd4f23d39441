"""Rid a remote place of what nothing refers to any more: packs of old texts, and of lost races.

It is safe beside writers without any clock. A pack has a name of its own each time it is written.
What is to go is first *condemned*: named in the head, which is advanced by compare-and-swap. Who
began with the head before finds that it has changed, begins again from the new one, and writes
under another name; so from then on nothing can come to refer to what is condemned. Only afterwards
it is removed, and, for the sake of readers who have an older head in hand, some time later.

Contents that are still wanted are copied out of packs that hold little else. The same is how a text
is erased: the packs that held it go at once.
"""

import time
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from satchel.files.remote.objects import Objects
from satchel.files.remote.packs import (
    PACKS,
    PackContents,
    RemoteHead,
    RemotePack,
    Spot,
    gathered,
    packed,
    read_index,
    read_log,
)

ErasedContent = tuple[str, int]
"""A path of whose texts nothing is to be left, and the number of the last version of these."""

NOTHING: ErasedContent = ("", 0)

_MOST_COPIED = 64 << 20
_MOST_IN_A_PACK = 32 << 20


@dataclass
class CollectionPlan:
    """What a place is to be after a collection."""

    head: RemoteHead
    """The next head, but for its nonce."""

    due: tuple[str, ...]
    """Packs to remove once that head is there."""

    rewritten: int


class GarbageCollector:
    """One look at a place, and what follows from it.

    Args:
        objects: The place.
        head: Its head.
        erased: What nothing is to be left of.
    """

    def __init__(self, objects: Objects, head: RemoteHead, erased: ErasedContent = NOTHING) -> None:
        self._objects = objects
        self._head = head
        self._whole = self._read(head.segments)
        self._erased = erased
        self._live = self._wanted()
        self._gone = {
            row[4] for row in self._whole.versions if self._is_erased(row) and row[4]
        } - self._live.keys()

    def plan(self, grace: float) -> CollectionPlan:
        """Write what has to be copied, and return what the head is to say.

        Args:
            grace: Seconds for which what is condemned stays.

        Raises:
            TargetError: If the place does not answer.
            MalformedError: If a pack is damaged; then nothing is removed.
        """
        dissolved = self._dissolved()
        head, now = self._head, time.time_ns() // 1_000
        there = {name[len(PACKS) :] for name in self._objects.names() if name.startswith(PACKS)}
        segments = head.segments
        if dissolved or len(segments) > 1 or self._whole.spots.keys() - self._live.keys():
            segments = (self._written(dissolved),)
        used = {one.name for one in segments} | {spot.pack for spot in self._live.values()}
        before = dict(head.condemned)
        # Since some time to come is since now: else what somebody wrote there would stay for ever.
        condemned = {name: min(before.get(name, now), now) for name in sorted(there - used)}
        limit = now - int(grace * 1_000_000)
        at_once = dissolved if self._gone else set[str]()
        due = tuple(name for name, at in condemned.items() if at <= limit or name in at_once)
        anew = segments != head.segments
        after = replace(
            head,
            segments=segments,
            condemned=tuple(condemned.items()),
            collected=head.collected + int(anew),
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

    def _wanted(self) -> dict[str, Spot]:
        """Return where the texts are that files have, and versions where these are kept."""
        shas = {one.sha for one in self._whole.files}
        if self._head.keep_versions:
            shas |= {row[4] for row in self._whole.versions if not self._is_erased(row)}
        return {sha: self._whole.spots[sha] for sha in sorted(shas) if sha in self._whole.spots}

    def _dissolved(self) -> set[str]:
        """Return the packs to copy out of: those of erased texts, and those that are mostly old."""
        size, live = dict[str, int](), dict[str, int]()
        for sha, spot in self._whole.spots.items():
            size[spot.pack] = size.get(spot.pack, 0) + spot.length
            live[spot.pack] = live.get(spot.pack, 0) + (spot.length if sha in self._live else 0)
        found = {self._whole.spots[sha].pack for sha in self._gone if sha in self._whole.spots}
        copied = 0
        for pack in sorted(size, key=lambda pack: live[pack]):
            if 2 * live[pack] < size[pack] and copied + live[pack] <= _MOST_COPIED:
                copied += live[pack]
                found.add(pack)
        return found

    def _written(self, dissolved: Collection[str]) -> RemotePack:
        """Write one pack with all that is known, and what is copied; of much, several before it."""
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
    """Remove packs, and return how many."""
    for name in names:
        objects.remove(PACKS + name)
    return len(names)
