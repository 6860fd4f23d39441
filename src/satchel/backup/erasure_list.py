"""What was erased since, noted beside the backups: restoring one must not bring it back.

One list for each bank and series: which records, where they stood in the log, and where the log
says that they are erased. So it can be told of each backup whether it still holds some of them.

Beside encrypted backups the lists are encrypted as well, and are called by what tells nothing of
the bank: whoever looks for those of a bank opens all that there are.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Annotated, Literal

import msgspec
from blake3 import blake3
from msgspec import Meta

from satchel.backup.manifests import MOST_BYTES, SERIES, BankBackup, opened, signed
from satchel.backup.packs import PLAIN, PackEncryption
from satchel.backup.storage import BackupStorage
from satchel.crypto.keys import SigningKey
from satchel.errors import EncryptionError, LimitError, VerificationError
from satchel.ledger.heads import require_logged
from satchel.model.records import Erasure
from satchel.model.values import Id
from satchel.ports.rows import Filter
from satchel.replication.copies import Replica

_ERASURES = Filter(types=frozenset({"erasure"}), retired=True, held=True)
_TOGETHER = 256
_NOWHERE = -1
_CLOSED = "erased/closed"
_CLOSED_NAME = re.compile(rf"{_CLOSED}/([0-9a-f]{{16}})/[0-9a-f]{{64}}\.age")

_Place = Annotated[int, Meta(ge=_NOWHERE, le=2**53 - 1)]


class ErasedRecord(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A record that was erased."""

    place: _Place
    """Where it stood in the log; -1 where it never did."""

    said: _Place
    """Where the log says that it is erased."""


class Erasures(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What was erased of a bank."""

    format: Literal["satchel-backup-erased/1"] = "satchel-backup-erased/1"
    bank: Id
    series: Annotated[str, Meta(pattern=SERIES)]
    records: dict[Id, ErasedRecord] = {}
    recipients: list[str] = []
    """For whom it is encrypted."""


def read_erasures(source: Replica, after: int = -1) -> dict[str, ErasedRecord]:
    """Return what the log of a bank says is erased, from a place on.

    Raises:
        VerificationError: If a record is not what was logged.
    """
    reader, bank, found = source.reader, source.bank, dict[str, ErasedRecord]()
    rows = reader.scan(bank, _ERASURES, after=after)
    while some := list(islice(rows, _TOGETHER)):
        said = dict[str, int]()
        for row, logged in zip(some, require_logged(source.tree, bank, some), strict=True):
            if logged is not None and isinstance(logged[1], Erasure):
                said[logged[1].entry] = row.seq
        places = {row.id: row.seq for row in reader.get(bank, list(said))}
        found |= {one: ErasedRecord(places.get(one, _NOWHERE), seq) for one, seq in said.items()}
    return found


class ErasureLists:
    """The lists of a destination.

    Args:
        shelf: The destination.
        locking: For whom new ones are encrypted, and what opens those that are.
    """

    def __init__(self, shelf: BackupStorage, locking: PackEncryption = PLAIN) -> None:
        self._shelf, self._locking = shelf, locking
        self._known = dict[str, tuple[Erasures, str] | None]()
        """Encrypted lists that were read already, by name."""

    def note(
        self, series: str, bank: str, found: Mapping[str, ErasedRecord], key: SigningKey
    ) -> int:
        """Add to the list of what was erased of a bank; return how many are new in it.

        A list that cannot be read, or that somebody else signed, is begun anew: what the log says
        is in ``found`` anyway. One in plain is taken over into the encrypted one.

        Raises:
            TargetError: If it cannot be written.
        """
        locking, plain = self._locking, _place_of(bank, series)
        place = _closed_place(bank, series, key) if locking.locks else plain
        known, stands = dict[str, ErasedRecord](), False
        for one in dict.fromkeys((plain, place)):
            before = self._read(one)
            if before is not None and before[1] == key.did and before[0].bank == bank:
                known |= before[0].records
                stands = one == place and tuple(before[0].recipients) == locking.recipients
        new = found.keys() - known.keys()
        if new or (known and not stands):
            records = {**known, **{one: found[one] for one in sorted(new)}}
            told = Erasures(
                bank=bank, series=series, records=records, recipients=list(locking.recipients)
            )
            data = signed(told, key)
            self._shelf.put(place, locking.closed(data, is_index=True) if locking.locks else data)
            self._known.pop(place, None)
        if place != plain:
            self._shelf.remove(plain)
        return len(new)

    def of(self, bank: str) -> Iterator[tuple[Erasures, str]]:
        """Yield the lists of a bank, each with who signed it; those that are none are passed over.

        Raises:
            TargetError: If the destination does not answer.
        """
        for under in (f"erased/{_hex(bank)}", _CLOSED):
            for name in self._shelf.names(under):
                found = self._read(name)
                if found is not None and found[0].bank == bank:
                    yield found

    def unopened(self) -> set[str]:
        """Return the series that have lists which nothing here opens.

        Raises:
            TargetError: If the destination does not answer.
        """
        found = set[str]()
        for name in self._shelf.names(_CLOSED):
            one = _CLOSED_NAME.fullmatch(name)
            if one is not None and one[1] not in found:
                try:
                    self._opened(name)
                except EncryptionError:
                    found.add(one[1])
                except (VerificationError, LimitError):
                    continue
        return found

    def _read(self, name: str) -> tuple[Erasures, str] | None:
        if name in self._known:
            return self._known[name]
        is_closed = _CLOSED_NAME.fullmatch(name) is not None
        try:
            data = self._opened(name) if is_closed else self._shelf.get(name, MOST_BYTES)
            found = None if data is None else opened(data, Erasures)
        except (VerificationError, LimitError, EncryptionError):
            found = None
        if is_closed:
            self._known[name] = found
        return found

    def _opened(self, name: str) -> bytes | None:
        data = self._shelf.get(name, MOST_BYTES)
        return None if data is None else self._locking.opened(data)


def held_by(part: BankBackup, records: Mapping[str, ErasedRecord]) -> list[str]:
    """Return which erased records a backup of their bank still holds."""
    return [one for one, gone in records.items() if 0 <= gone.place < part.size <= gone.said]


def _place_of(bank: str, series: str) -> str:
    return f"erased/{_hex(bank)}/{series}.json"


def _closed_place(bank: str, series: str, key: SigningKey) -> str:
    """Return what an encrypted list is called: always the same here, and nothing to anybody."""
    said = key.seed + f"{series}\0{bank}".encode()
    name = blake3(said, derive_key_context="satchel 2026 names of lists").hexdigest()
    return f"{_CLOSED}/{series}/{name}.age"


def _hex(bank: str) -> str:
    return bank.removeprefix("blake3:")
