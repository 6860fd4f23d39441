"""What backups there are in a destination, and which of them were read again since.

Names and sizes of what is there are anybody's; a manifest counts once its signature holds, and is
believed when its signer is trusted here.
"""

import re
import secrets
from typing import NamedTuple

from blake3 import blake3

from satchel.backup.logs import Before
from satchel.backup.manifests import (
    MOST_BYTES,
    NAME,
    SERIES,
    Index,
    Manifest,
    Mark,
    named_by,
    opened,
    read_index,
    refs_of,
    signed,
)
from satchel.backup.packs import Packs, Ref, digest_in, place_of
from satchel.backup.shelves import Shelf
from satchel.errors import LimitError, SatchelError, VerificationError
from satchel.memory.times import now
from satchel.seal.signing.key import SigningKey

MOST_BACKUPS = 100_000
"""In one destination."""

_NAME, _SERIES = re.compile(NAME), re.compile(SERIES)


class Found(NamedTuple):
    """A backup in a destination."""

    manifest: Manifest
    key: str
    """Who signed it."""

    digest: str
    """BLAKE3 of its manifest as it is kept."""

    verified: str | None
    """When it was read again last; None where that is not known."""

    @property
    def id(self) -> str:
        """Its name."""
        return self.manifest.id


def new_id(at: str) -> str:
    """Return the name of a backup that is taken at a moment."""
    return f"{re.sub('[-:.]', '', at)}-{secrets.token_hex(4)}"


class Catalogue:
    """The backups of one destination.

    Args:
        shelf: The destination.
    """

    def __init__(self, shelf: Shelf) -> None:
        self.shelf = shelf
        self.problems = list[str]()
        """What looks like a backup, and is none."""

    def all(self, series: str | None = None) -> list[Found]:
        """Return the backups that can be read, of all series or of one, oldest first.

        Raises:
            TargetError: If the destination does not answer.
            LimitError: If there are more than anybody has.
        """
        self.problems.clear()
        found = list[Found]()
        under = "catalogue" if series is None else f"catalogue/{series}"
        for number, name in enumerate(self.shelf.names(under)):
            if number >= MOST_BACKUPS:
                raise LimitError(f"there are more than {MOST_BACKUPS:,} backups", file=self.name)
            place = _place_in(name)
            if place is None:
                self.problems.append(f"{name}: no backup has this name")
                continue
            try:
                found.append(self._read(*place))
            except SatchelError as error:
                self.problems.append(f"{name}: {error.message}")
        return sorted(found, key=lambda one: (one.manifest.at, one.id))

    @property
    def name(self) -> str:
        """What to call the destination."""
        return self.shelf.name

    def _read(self, series: str, identity: str) -> Found:
        data = self.shelf.get(f"catalogue/{series}/{identity}.json", MOST_BYTES)
        if data is None:
            raise VerificationError("it is gone")
        manifest, key = opened(data, Manifest)
        if (manifest.series, manifest.id) != (series, identity):
            raise VerificationError("it is another backup than its name says")
        digest = blake3(data).hexdigest()
        return Found(manifest, key, digest, self._verified(manifest, key, digest))

    def _verified(self, manifest: Manifest, key: str, digest: str) -> str | None:
        """Return when a backup was read again; only its own signer's word counts for that."""
        try:
            data = self.shelf.get(_mark_of(manifest), MOST_BYTES)
            if data is None:
                return None
            mark, signer = opened(data, Mark)
        except (VerificationError, LimitError):
            return None
        if (mark.id, mark.manifest, signer) != (manifest.id, digest, key):
            return None
        return mark.at

    def add(self, manifest: Manifest, key: SigningKey) -> Found:
        """Name a backup whose packs are all there; from now on it is there."""
        data = signed(manifest, key)
        self.shelf.put(f"catalogue/{manifest.series}/{manifest.id}.json", data)
        return Found(manifest, key.did, blake3(data).hexdigest(), None)

    def mark(self, found: Found, packs: int, key: SigningKey) -> Found:
        """Note that all of a backup was read again."""
        at = now()
        mark = Mark(
            id=found.id, series=found.manifest.series, manifest=found.digest, at=at, packs=packs
        )
        self.shelf.put(_mark_of(found.manifest), signed(mark, key))
        return found._replace(verified=at)

    def unmark(self, found: Found) -> Found:
        """Take the note back: the backup does not hold any more."""
        self.shelf.remove(_mark_of(found.manifest))
        return found._replace(verified=None)

    def drop(self, found: Found) -> None:
        """Remove a backup from the catalogue; its packs are there still."""
        series = found.manifest.series
        self.shelf.remove(f"catalogue/{series}/{found.id}.json")
        self.shelf.remove(_mark_of(found.manifest))

    def packs(self, found: Found) -> Packs:
        """Return what reads the packs of a backup."""
        return Packs(self.shelf, found.manifest.series)

    def before(self, series: str) -> tuple[dict[str, Before], set[Ref]]:
        """Return what the newest sound backup of a series has of each bank, and its packs.

        What cannot be read is as if it were not there: it is written again then.
        """
        for one in reversed([one for one in self.all(series) if one.verified]):
            packs = self.packs(one)
            try:
                found = {
                    part.bank: Before(part.size, part.root, read_index(packs, part.index, Index))
                    for part in one.manifest.banks
                }
                return found, set(refs_of(one.manifest, packs))
            except SatchelError:
                continue
        return {}, set()

    def sweep(self, series: str) -> tuple[int, int]:
        """Remove the packs of a series that no backup names; return how many, and their bytes.

        Nothing is removed where one backup cannot be read: nobody knows what it names. Of one whose
        index is gone nothing but that could be found again anyway.

        Raises:
            VerificationError: If so.
            TargetError: If the destination does not answer.
        """
        named, ids = set[str](), set[str]()
        for one in self.all(series):
            ids.add(one.id)
            named.update(ref.digest for ref in named_by(one.manifest, self.packs(one)))
        if self.problems:
            raise VerificationError(
                f"no packs were removed, since a backup cannot be read: {self.problems[0]}",
                file=self.name,
                hint="Look at it: satchel backup verify. Remove its file, if nobody needs it.",
            )
        for name in list(self.shelf.names(f"marks/{series}")):
            if name.rpartition("/")[2].removesuffix(".json") not in ids:
                self.shelf.remove(name)
        number = size = 0
        for name in list(self.shelf.names(f"packs/{series}")):
            digest = digest_in(name)
            if digest is None or digest in named or name != place_of(series, digest):
                continue
            size += self.shelf.size(name) or 0
            self.shelf.remove(name)
            number += 1
        return number, size


def _place_in(name: str) -> tuple[str, str] | None:
    parts = name.split("/")
    if len(parts) != 3 or not parts[2].endswith(".json"):  # noqa: PLR2004 - top, series, name
        return None
    series, identity = parts[1], parts[2].removesuffix(".json")
    is_one = _SERIES.fullmatch(series) and _NAME.fullmatch(identity)
    return (series, identity) if is_one else None


def _mark_of(manifest: Manifest) -> str:
    return f"marks/{manifest.series}/{manifest.id}.json"
