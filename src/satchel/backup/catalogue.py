"""What backups there are in a destination, and which of them were read again since.

Names and sizes of what is there are anybody's; a manifest counts once its signature holds, and is
believed when its signer is trusted here. Of an encrypted one that nothing here opens, its cover
is known: whose it is, when it was taken, and what its pieces are called.
"""

import re
import secrets
from base64 import b64encode
from collections.abc import Iterator
from typing import NamedTuple

from blake3 import blake3

from satchel.backup.erasure_list import ErasureLists
from satchel.backup.logs import PreviousBackup
from satchel.backup.manifests import (
    MOST_BYTES,
    NAME,
    SERIES,
    BankIndex,
    Cover,
    Manifest,
    Mark,
    named_by,
    opened,
    opened_backup,
    read_index,
    refs_of,
    signed,
)
from satchel.backup.packs import (
    PLAIN,
    PackEncryption,
    Packs,
    Ref,
    digest_in,
    pieces_in,
    pieces_told,
    place_of,
    unbased,
)
from satchel.backup.storage import BackupStorage
from satchel.backup.verification import VerificationCounts
from satchel.crypto.keys import SigningKey
from satchel.errors import EncryptionError, LimitError, SatchelError, VerificationError
from satchel.model.values import now

MOST_BACKUPS = 100_000
"""In one destination."""

_NAME, _SERIES = re.compile(NAME), re.compile(SERIES)


class StoredBackup(NamedTuple):
    """A backup in a destination."""

    manifest: Manifest
    key: str
    """Who signed it."""

    digest: str
    """BLAKE3 of its manifest as it is kept."""

    verified: str | None
    """When it was read again last; None where that is not known."""

    unopened: int = 0
    """Packs that could only be held to the hash of their encrypted bytes then."""

    cover: Cover | None = None
    """What anybody may see of it, where it is encrypted."""

    @property
    def id(self) -> str:
        """Its name."""
        return self.manifest.id


class UndecryptedBackup(NamedTuple):
    """An encrypted backup that nothing here opens."""

    cover: Cover
    key: str
    digest: str
    verified: str | None
    unopened: int

    @property
    def id(self) -> str:
        """Its name."""
        return self.cover.id

    @property
    def at(self) -> str:
        """When it was taken, by its name."""
        day, _, time = self.id.partition("-")[0].partition("T")
        date = f"{day[:4]}-{day[4:6]}-{day[6:]}"
        return f"{date}T{time[:2]}:{time[2:4]}:{time[4:6]}.{time[6:]}"


def new_id(at: str) -> str:
    """Return the name of a backup that is taken at a moment."""
    return f"{re.sub('[-:.]', '', at)}-{secrets.token_hex(4)}"


class Catalogue:
    """The backups of one destination.

    Args:
        shelf: The destination.
        locking: For whom new ones are encrypted, and what opens those that are.
    """

    def __init__(self, shelf: BackupStorage, locking: PackEncryption = PLAIN) -> None:
        self.shelf, self.locking = shelf, locking
        self.lists = ErasureLists(shelf, locking)
        """What was erased since."""
        self.closed = list[UndecryptedBackup]()
        """Those that nothing here opens, as ``all`` found them."""
        self.problems = list[str]()
        """What looks like a backup, and is none."""

    def all(self, series: str | None = None) -> list[StoredBackup]:
        """Return the backups that can be read, of all series or of one, oldest first.

        Raises:
            TargetError: If the destination does not answer.
            LimitError: If there are more than anybody has.
            UnreadableError, MalformedError: If an identity that somebody named is none.
        """
        self.problems.clear()
        self.closed.clear()
        found = list[StoredBackup]()
        under = "catalogue" if series is None else f"catalogue/{series}"
        for number, name in enumerate(self.shelf.names(under)):
            if number >= MOST_BACKUPS:
                raise LimitError(f"there are more than {MOST_BACKUPS:,} backups", file=self.name)
            place = _place_in(name)
            if place is None:
                self.problems.append(f"{name}: no backup has this name")
                continue
            try:
                one = self._read(*place)
            except SatchelError as error:
                self.problems.append(f"{name}: {error.message}")
                continue
            if isinstance(one, StoredBackup):
                found.append(one)
                continue
            self.locking.ready()
            try:
                found.append(self._uncovered(one))
            except EncryptionError:
                self.closed.append(one)
            except SatchelError as error:
                self.problems.append(f"{name}: {error.message}")
        return sorted(found, key=lambda one: (one.manifest.at, one.id))

    @property
    def name(self) -> str:
        """What to call the destination."""
        return self.shelf.name

    def _read(self, series: str, identity: str) -> StoredBackup | UndecryptedBackup:
        data = self.shelf.get(f"catalogue/{series}/{identity}.json", MOST_BYTES)
        if data is None:
            raise VerificationError("it is missing")
        value, key = opened_backup(data)
        if (value.series, value.id) != (series, identity):
            raise VerificationError("its manifest belongs to another backup")
        digest = blake3(data).hexdigest()
        verified, unopened = self._verified(value, key, digest)
        if isinstance(value, Cover):
            return UndecryptedBackup(value, key, digest, verified, unopened)
        return StoredBackup(value, key, digest, verified, unopened)

    def _uncovered(self, closed: UndecryptedBackup) -> StoredBackup:
        """Return an encrypted backup with what it says of itself.

        Raises:
            EncryptionError: If nothing here opens it.
            VerificationError: If what is in it is of another backup, or another's.
        """
        manifest, key = opened(self.locking.opened(unbased(closed.cover.manifest)), Manifest)
        is_same = (manifest.series, manifest.id) == (closed.cover.series, closed.id)
        if not is_same or key != closed.key:
            raise VerificationError("it contains a different backup than it names")
        return StoredBackup(
            manifest, key, closed.digest, closed.verified, closed.unopened, closed.cover
        )

    def _verified(self, named: Manifest | Cover, key: str, digest: str) -> tuple[str | None, int]:
        """Return when a backup was read again, and how much of it could not be opened then.

        Only its own signer's word counts for that.
        """
        try:
            data = self.shelf.get(_mark_of(named), MOST_BYTES)
            if data is None:
                return None, 0
            mark, signer = opened(data, Mark)
        except (VerificationError, LimitError):
            return None, 0
        if (mark.id, mark.manifest, signer) != (named.id, digest, key):
            return None, 0
        return mark.at, mark.unopened

    def add(self, manifest: Manifest, key: SigningKey) -> StoredBackup:
        """Name a backup whose packs are all there; from now on it is there."""
        data, cover = signed(manifest, key), None
        if self.locking.locks:
            packs = Packs(self.shelf, manifest.series, locking=self.locking)
            pieces = {ref.name: ref.stored for ref in refs_of(manifest, packs)}
            locked = self.locking.closed(data, is_index=True)
            cover = Cover(
                id=manifest.id,
                series=manifest.series,
                manifest=b64encode(locked).decode(),
                pieces=pieces_told(pieces),
            )
            data = signed(cover, key)
        if len(data) > MOST_BYTES:
            raise LimitError("the backup has too many pieces", file=self.name)
        self.shelf.put(f"catalogue/{manifest.series}/{manifest.id}.json", data)
        return StoredBackup(manifest, key.did, blake3(data).hexdigest(), None, 0, cover)

    def mark(
        self, found: StoredBackup, proved: VerificationCounts, key: SigningKey
    ) -> StoredBackup:
        """Note that all of a backup was read again."""
        mark = Mark(
            id=found.id,
            series=found.manifest.series,
            manifest=found.digest,
            at=now(),
            packs=proved.packs,
            unopened=proved.unopened,
        )
        self.shelf.put(_mark_of(found.manifest), signed(mark, key))
        return found._replace(verified=mark.at, unopened=proved.unopened)

    def unmark(self, found: StoredBackup) -> StoredBackup:
        """Take the note back: the backup does not hold any more."""
        self.shelf.remove(_mark_of(found.manifest))
        return found._replace(verified=None)

    def drop(self, found: StoredBackup) -> None:
        """Remove a backup from the catalogue; its packs are there still."""
        series = found.manifest.series
        self.shelf.remove(f"catalogue/{series}/{found.id}.json")
        self.shelf.remove(_mark_of(found.manifest))

    def packs(self, found: StoredBackup) -> Packs:
        """Return what reads the packs of a backup."""
        return Packs(self.shelf, found.manifest.series, locking=self.locking)

    def held(self, found: StoredBackup | UndecryptedBackup) -> Iterator[int]:
        """Hold the pieces of an encrypted backup to their names, whoever can open them.

        Yields:
            The bytes of each.

        Raises:
            VerificationError: If one is gone, or is not what was written.
        """
        if found.cover is not None:
            packs = Packs(self.shelf, found.cover.series)
            for name, size in pieces_in(found.cover.pieces):
                yield len(packs.stored(name, size))

    def before(self, series: str) -> tuple[dict[str, PreviousBackup], set[Ref]]:
        """Return what the newest sound backup of a series has of each bank, and its packs.

        What cannot be read is as if it were not there: it is written again then. So is what is
        encrypted for others than new ones are, or not at all.
        """
        for one in reversed([one for one in self.all(series) if one.verified]):
            if tuple(one.manifest.recipients) != self.locking.recipients:
                continue
            packs = self.packs(one)
            try:
                found = {
                    part.bank: PreviousBackup(
                        part.size, part.root, read_index(packs, part.index, BankIndex)
                    )
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
            named.update(ref.name for ref in named_by(one.manifest, self.packs(one)))
            named.update(_pieces_of(one.cover))
        for closed in self.closed:
            ids.add(closed.id)
            named.update(_pieces_of(closed.cover))
        if self.problems:
            raise VerificationError(
                f"no packs were removed, since a backup cannot be read: {self.problems[0]}",
                file=self.name,
                hint="Check it: satchel backup verify. If it is not needed, remove its file.",
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


def _pieces_of(cover: Cover | None) -> Iterator[str]:
    for name, _ in pieces_in("" if cover is None else cover.pieces):
        yield name


def _mark_of(named: Manifest | Cover) -> str:
    return f"marks/{named.series}/{named.id}.json"
