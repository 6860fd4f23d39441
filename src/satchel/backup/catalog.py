"""The backups at a destination, their verification marks, and the lists of erased records.

Names and sizes at a destination are untrusted; a manifest counts if its signature is valid, and is
trusted if its signer is trusted here. Of an encrypted backup that no identity here decrypts, the
cover is known: its series, its time and the names of its packs.

A list of erased records, one for each bank and series, prevents a restore from bringing them back.
Lists at encrypted destinations are encrypted, and their names do not reveal the bank.
"""

import re
import secrets
from base64 import b64encode
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Annotated, Literal, NamedTuple

import msgspec
from blake3 import blake3
from msgspec import Meta

from satchel.backup.contents import PreviousBackup, VerificationCounts
from satchel.backup.manifests import (
    MOST_BYTES,
    NAME,
    SERIES,
    BankBackup,
    BankIndex,
    Cover,
    Manifest,
    Mark,
    opened,
    opened_backup,
    read_index,
    readable_refs,
    refs_of,
    signed,
)
from satchel.backup.storage import (
    PLAIN,
    BackupStorage,
    PackEncryption,
    Packs,
    Ref,
    decode_pieces,
    digest_in,
    encode_pieces,
    pack_path,
    unbased,
)
from satchel.crypto.keys import SigningKey
from satchel.errors import EncryptionError, LimitError, SatchelError, VerificationError
from satchel.ledger.heads import require_logged
from satchel.model.records import Erasure
from satchel.model.values import Id, now
from satchel.ports.rows import Filter
from satchel.replication.copies import Replica

_ERASURES = Filter(types=frozenset({"erasure"}), retired=True, held=True)
_TOGETHER = 256
_NOWHERE = -1
_CLOSED = "erased/closed"
_CLOSED_NAME = re.compile(rf"{_CLOSED}/([0-9a-f]{{16}})/[0-9a-f]{{64}}\.age")

_Position = Annotated[int, Meta(ge=_NOWHERE, le=2**53 - 1)]


class ErasedRecord(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A record that was erased."""

    position: _Position
    """Its position in the log; -1 if it was never there."""

    erased_at: _Position
    """Position of the record of its erasure."""


class Erasures(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Erased records of a bank."""

    format: Literal["satchel-backup-erased/1"] = "satchel-backup-erased/1"
    bank: Id
    series: Annotated[str, Meta(pattern=SERIES)]
    records: dict[Id, ErasedRecord] = {}
    recipients: list[str] = []
    """Recipients that it is encrypted to."""


def read_erasures(source: Replica, after: int = -1) -> dict[str, ErasedRecord]:
    """Return the erased records in the log of a bank, from a position on.

    Raises:
        VerificationError: If a record is not what was logged.
    """
    reader, bank, records = source.reader, source.bank, dict[str, ErasedRecord]()
    rows = reader.scan(bank, _ERASURES, after=after)
    while page := list(islice(rows, _TOGETHER)):
        erased_at = dict[str, int]()
        for row, logged in zip(page, require_logged(source.tree, bank, page), strict=True):
            if logged is not None and isinstance(logged[1], Erasure):
                erased_at[logged[1].entry] = row.seq
        positions = {row.id: row.seq for row in reader.get(bank, list(erased_at))}
        records |= {
            name: ErasedRecord(positions.get(name, _NOWHERE), seq)
            for name, seq in erased_at.items()
        }
    return records


class ErasureLists:
    """The erasure lists of a destination.

    Args:
        shelf: Storage of the destination.
        locking: Encrypts new ones, and decrypts existing ones.
    """

    def __init__(self, shelf: BackupStorage, locking: PackEncryption = PLAIN) -> None:
        self._shelf, self._locking = shelf, locking
        self._known = dict[str, tuple[Erasures, str] | None]()
        """Encrypted lists that have been read, by name."""

    def note(
        self, series: str, bank: str, erased: Mapping[str, ErasedRecord], key: SigningKey
    ) -> int:
        """Add to the list of erased records of a bank; return the number of new ones.

        A list that cannot be read, or that another key signed, is replaced: ``erased`` has
        everything in the log. An unencrypted list is merged into the encrypted one.

        Raises:
            TargetError: If it cannot be written.
        """
        locking, plain = self._locking, _list_name(bank, series)
        name = _encrypted_list_name(bank, series, key) if locking.locks else plain
        known, is_current = dict[str, ErasedRecord](), False
        for existing in dict.fromkeys((plain, name)):
            before = self._read(existing)
            if before is not None and before[1] == key.did and before[0].bank == bank:
                known |= before[0].records
                is_current = existing == name and tuple(before[0].recipients) == locking.recipients
        new = erased.keys() - known.keys()
        if new or (known and not is_current):
            records = {**known, **{identity: erased[identity] for identity in sorted(new)}}
            erasures = Erasures(
                bank=bank, series=series, records=records, recipients=list(locking.recipients)
            )
            data = signed(erasures, key)
            self._shelf.put(name, locking.closed(data, is_index=True) if locking.locks else data)
            self._known.pop(name, None)
        if name != plain:
            self._shelf.remove(plain)
        return len(new)

    def of(self, bank: str) -> Iterator[tuple[Erasures, str]]:
        """Yield the lists of a bank with their signers; invalid ones are skipped.

        Raises:
            TargetError: If the destination does not answer.
        """
        for under in (f"erased/{_hex(bank)}", _CLOSED):
            for name in self._shelf.names(under):
                erasures = self._read(name)
                if erasures is not None and erasures[0].bank == bank:
                    yield erasures

    def unopened(self) -> set[str]:
        """Return the series with lists that no identity here decrypts.

        Raises:
            TargetError: If the destination does not answer.
        """
        series = set[str]()
        for name in self._shelf.names(_CLOSED):
            match = _CLOSED_NAME.fullmatch(name)
            if match is not None and match[1] not in series:
                try:
                    self._opened(name)
                except EncryptionError:
                    series.add(match[1])
                except (VerificationError, LimitError):
                    continue
        return series

    def _read(self, name: str) -> tuple[Erasures, str] | None:
        if name in self._known:
            return self._known[name]
        is_closed = _CLOSED_NAME.fullmatch(name) is not None
        try:
            data = self._opened(name) if is_closed else self._shelf.get(name, MOST_BYTES)
            erasures = None if data is None else opened(data, Erasures)
        except (VerificationError, LimitError, EncryptionError):
            erasures = None
        if is_closed:
            self._known[name] = erasures
        return erasures

    def _opened(self, name: str) -> bytes | None:
        data = self._shelf.get(name, MOST_BYTES)
        return None if data is None else self._locking.opened(data)


def held_records(part: BankBackup, records: Mapping[str, ErasedRecord]) -> list[str]:
    """Return the erased records that a backup of their bank still holds."""
    return [
        name
        for name, record in records.items()
        if 0 <= record.position < part.size <= record.erased_at
    ]


def _list_name(bank: str, series: str) -> str:
    return f"erased/{_hex(bank)}/{series}.json"


def _encrypted_list_name(bank: str, series: str, key: SigningKey) -> str:
    """Return the name of an encrypted list, which is stable and does not reveal the bank."""
    secret = key.seed + f"{series}\0{bank}".encode()
    name = blake3(secret, derive_key_context="satchel 2026 names of lists").hexdigest()
    return f"{_CLOSED}/{series}/{name}.age"


def _hex(bank: str) -> str:
    return bank.removeprefix("blake3:")


MOST_BACKUPS = 100_000
"""Name of the list at the destination."""

_NAME, _SERIES = re.compile(NAME), re.compile(SERIES)


class StoredBackup(NamedTuple):
    """A backup at a destination."""

    manifest: Manifest
    key: str
    """Key that signed it."""

    digest: str
    """BLAKE3 of its manifest as stored."""

    verified: str | None
    """When it was last verified; None if unknown."""

    unopened: int = 0
    """Number of packs that could only be verified by the hash of their encrypted bytes."""

    cover: Cover | None = None
    """Its unencrypted cover, if it is encrypted."""

    @property
    def id(self) -> str:
        """Its name."""
        return self.manifest.id


class UndecryptedBackup(NamedTuple):
    """An encrypted backup that no identity here decrypts."""

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
        """Its time, from its name."""
        day, _, time = self.id.partition("-")[0].partition("T")
        date = f"{day[:4]}-{day[4:6]}-{day[6:]}"
        return f"{date}T{time[:2]}:{time[2:4]}:{time[4:6]}.{time[6:]}"


def new_id(at: str) -> str:
    """Return a new name for a backup with the given time."""
    return f"{re.sub('[-:.]', '', at)}-{secrets.token_hex(4)}"


class Catalog:
    """The backups of one destination.

    Args:
        shelf: Storage of the destination.
        locking: Encrypts new ones, and decrypts existing ones.
    """

    def __init__(self, shelf: BackupStorage, locking: PackEncryption = PLAIN) -> None:
        self.shelf, self.locking = shelf, locking
        self.lists = ErasureLists(shelf, locking)
        """The erasure lists."""
        self.closed = list[UndecryptedBackup]()
        """Backups that no identity here decrypts, as found by ``all``."""
        self.problems = list[str]()
        """Names of invalid backups."""

    def all(self, series: str | None = None) -> list[StoredBackup]:
        """Return the readable backups of all series or of one, oldest first.

        Raises:
            TargetError: If the destination does not answer.
            LimitError: If there are too many.
            UnreadableError, MalformedError: If a named identity is invalid.
        """
        self.problems.clear()
        self.closed.clear()
        backups = list[StoredBackup]()
        under = "catalogue" if series is None else f"catalogue/{series}"
        for number, name in enumerate(self.shelf.names(under)):
            if number >= MOST_BACKUPS:
                raise LimitError(f"there are more than {MOST_BACKUPS:,} backups", file=self.name)
            location = _parse_name(name)
            if location is None:
                self.problems.append(f"{name}: no backup has this name")
                continue
            try:
                backup = self._read(*location)
            except SatchelError as error:
                self.problems.append(f"{name}: {error.message}")
                continue
            if isinstance(backup, StoredBackup):
                backups.append(backup)
                continue
            self.locking.ready()
            try:
                backups.append(self._uncovered(backup))
            except EncryptionError:
                self.closed.append(backup)
            except SatchelError as error:
                self.problems.append(f"{name}: {error.message}")
        return sorted(backups, key=lambda backup: (backup.manifest.at, backup.id))

    @property
    def name(self) -> str:
        """Display name of the destination."""
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
        """Return an encrypted backup with its manifest.

        Raises:
            EncryptionError: If no identity here decrypts it.
            VerificationError: If the manifest is of another backup or signer.
        """
        manifest, key = opened(self.locking.opened(unbased(closed.cover.manifest)), Manifest)
        is_same = (manifest.series, manifest.id) == (closed.cover.series, closed.id)
        if not is_same or key != closed.key:
            raise VerificationError("it contains a different backup than it names")
        return StoredBackup(
            manifest, key, closed.digest, closed.verified, closed.unopened, closed.cover
        )

    def _verified(self, named: Manifest | Cover, key: str, digest: str) -> tuple[str | None, int]:
        """Return when a backup was verified, and how many packs could not be decrypted.

        Only marks by the signer of the backup count.
        """
        try:
            data = self.shelf.get(_mark_name(named), MOST_BYTES)
            if data is None:
                return None, 0
            mark, signer = opened(data, Mark)
        except (VerificationError, LimitError):
            return None, 0
        if (mark.id, mark.manifest, signer) != (named.id, digest, key):
            return None, 0
        return mark.at, mark.unopened

    def add(self, manifest: Manifest, key: SigningKey) -> StoredBackup:
        """Write the manifest of a backup whose packs are complete; this makes it visible."""
        data, cover = signed(manifest, key), None
        if self.locking.locks:
            packs = Packs(self.shelf, manifest.series, locking=self.locking)
            pieces = {ref.name: ref.stored for ref in refs_of(manifest, packs)}
            locked = self.locking.closed(data, is_index=True)
            cover = Cover(
                id=manifest.id,
                series=manifest.series,
                manifest=b64encode(locked).decode(),
                pieces=encode_pieces(pieces),
            )
            data = signed(cover, key)
        if len(data) > MOST_BYTES:
            raise LimitError("the backup has too many pieces", file=self.name)
        self.shelf.put(f"catalogue/{manifest.series}/{manifest.id}.json", data)
        return StoredBackup(manifest, key.did, blake3(data).hexdigest(), None, 0, cover)

    def mark(
        self, backup: StoredBackup, counts: VerificationCounts, key: SigningKey
    ) -> StoredBackup:
        """Mark a backup as verified."""
        mark = Mark(
            id=backup.id,
            series=backup.manifest.series,
            manifest=backup.digest,
            at=now(),
            packs=counts.packs,
            unopened=counts.unopened,
        )
        self.shelf.put(_mark_name(backup.manifest), signed(mark, key))
        return backup._replace(verified=mark.at, unopened=counts.unopened)

    def unmark(self, backup: StoredBackup) -> StoredBackup:
        """Remove the mark: the backup no longer verifies."""
        self.shelf.remove(_mark_name(backup.manifest))
        return backup._replace(verified=None)

    def drop(self, backup: StoredBackup) -> None:
        """Remove a backup from the catalog, without its packs."""
        series = backup.manifest.series
        self.shelf.remove(f"catalogue/{series}/{backup.id}.json")
        self.shelf.remove(_mark_name(backup.manifest))

    def packs(self, backup: StoredBackup) -> Packs:
        """Return a reader of the packs of a backup."""
        return Packs(self.shelf, backup.manifest.series, locking=self.locking)

    def verify_stored(self, backup: StoredBackup | UndecryptedBackup) -> Iterator[int]:
        """Verify the packs of an encrypted backup by the hashes in their names.

        Yields:
            The number of bytes of each.

        Raises:
            VerificationError: If one is missing or has changed.
        """
        if backup.cover is not None:
            packs = Packs(self.shelf, backup.cover.series)
            for name, size in decode_pieces(backup.cover.pieces):
                yield len(packs.stored(name, size))

    def before(self, series: str) -> tuple[dict[str, PreviousBackup], set[Ref]]:
        """Return the banks of the newest verified backup of a series, and its packs.

        What cannot be read, or has other recipients than new packs, is ignored and written again.
        """
        for backup in reversed([backup for backup in self.all(series) if backup.verified]):
            if tuple(backup.manifest.recipients) != self.locking.recipients:
                continue
            packs = self.packs(backup)
            try:
                banks = {
                    part.bank: PreviousBackup(
                        part.size, part.root, read_index(packs, part.index, BankIndex)
                    )
                    for part in backup.manifest.banks
                }
                return banks, set(refs_of(backup.manifest, packs))
            except SatchelError:
                continue
        return {}, set()

    def sweep(self, series: str) -> tuple[int, int]:
        """Remove the unused packs of a series; return their number and bytes.

        Nothing is removed if a backup cannot be read, since its packs are unknown. A backup whose
        index is missing is not restorable anyway.

        Raises:
            VerificationError: If a backup cannot be read.
            TargetError: If the destination does not answer.
        """
        named, ids = set[str](), set[str]()
        for backup in self.all(series):
            ids.add(backup.id)
            named.update(ref.name for ref in readable_refs(backup.manifest, self.packs(backup)))
            named.update(_pieces_of(backup.cover))
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
            if digest is None or digest in named or name != pack_path(series, digest):
                continue
            size += self.shelf.size(name) or 0
            self.shelf.remove(name)
            number += 1
        return number, size


def _parse_name(name: str) -> tuple[str, str] | None:
    parts = name.split("/")
    if len(parts) != 3 or not parts[2].endswith(".json"):  # noqa: PLR2004 - top, series, name
        return None
    series, identity = parts[1], parts[2].removesuffix(".json")
    is_one = _SERIES.fullmatch(series) and _NAME.fullmatch(identity)
    return (series, identity) if is_one else None


def _pieces_of(cover: Cover | None) -> Iterator[str]:
    for name, _ in decode_pieces("" if cover is None else cover.pieces):
        yield name


def _mark_name(named: Manifest | Cover) -> str:
    return f"marks/{named.series}/{named.id}.json"
