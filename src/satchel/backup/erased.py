"""What was erased since, noted beside the backups: restoring one must not bring it back.

One list for each bank and series: which records, where they stood in the log, and where the log
says that they are erased. So it can be told of each backup whether it still holds some of them.
"""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from satchel.backup.manifests import MOST_BYTES, SERIES, BankPart, opened, signed
from satchel.backup.shelves import Shelf
from satchel.errors import LimitError, VerificationError
from satchel.ledger.heads import require_logged
from satchel.memory.parts import Id
from satchel.memory.records import Erasure
from satchel.ports.rows import Filter
from satchel.seal.signing.key import SigningKey
from satchel.transfer.copies import Copy

_ERASURES = Filter(types=frozenset({"erasure"}), retired=True, held=True)
_TOGETHER = 256
_NOWHERE = -1

_Place = Annotated[int, Meta(ge=_NOWHERE, le=2**53 - 1)]


class Gone(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A record that was erased."""

    place: _Place
    """Where it stood in the log; -1 where it never did."""

    said: _Place
    """Where the log says that it is erased."""


class Erased(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What was erased of a bank."""

    format: Literal["satchel-backup-erased/1"] = "satchel-backup-erased/1"
    bank: Id
    series: Annotated[str, Meta(pattern=SERIES)]
    records: dict[Id, Gone] = {}


def erased_in(source: Copy, after: int = -1) -> dict[str, Gone]:
    """Return what the log of a bank says is erased, from a place on.

    Raises:
        VerificationError: If a record is not what was logged.
    """
    reader, bank, found = source.reader, source.bank, dict[str, Gone]()
    rows = reader.scan(bank, _ERASURES, after=after)
    while some := list(islice(rows, _TOGETHER)):
        said = dict[str, int]()
        for row, logged in zip(some, require_logged(source.tree, bank, some), strict=True):
            if logged is not None and isinstance(logged[1], Erasure):
                said[logged[1].entry] = row.seq
        places = {row.id: row.seq for row in reader.get(bank, list(said))}
        found |= {one: Gone(places.get(one, _NOWHERE), seq) for one, seq in said.items()}
    return found


def note(shelf: Shelf, series: str, bank: str, found: Mapping[str, Gone], key: SigningKey) -> int:
    """Add to the list of what was erased of a bank; return how many are new in it.

    A list that cannot be read, or that somebody else signed, is begun anew: what the log says is in
    ``found`` anyway.

    Raises:
        TargetError: If it cannot be written.
    """
    place = _place_of(bank, series)
    before = _read(shelf, place)
    known: Mapping[str, Gone] = {}
    if before is not None and before[1] == key.did and before[0].bank == bank:
        known = before[0].records
    new = found.keys() - known.keys()
    if new:
        records = {**known, **{one: found[one] for one in sorted(new)}}
        shelf.put(place, signed(Erased(bank=bank, series=series, records=records), key))
    return len(new)


def noted(shelf: Shelf, bank: str) -> Iterator[tuple[Erased, str]]:
    """Yield the lists of a bank, each with who signed it; those that are none are passed over.

    Raises:
        TargetError: If the destination does not answer.
    """
    for name in shelf.names(f"erased/{_hex(bank)}"):
        found = _read(shelf, name)
        if found is not None and found[0].bank == bank:
            yield found


def held_by(part: BankPart, records: Mapping[str, Gone]) -> list[str]:
    """Return which erased records a backup of their bank still holds."""
    return [one for one, gone in records.items() if 0 <= gone.place < part.size <= gone.said]


def _read(shelf: Shelf, place: str) -> tuple[Erased, str] | None:
    try:
        data = shelf.get(place, MOST_BYTES)
        return None if data is None else opened(data, Erased)
    except (VerificationError, LimitError):
        return None


def _place_of(bank: str, series: str) -> str:
    return f"erased/{_hex(bank)}/{series}.json"


def _hex(bank: str) -> str:
    return bank.removeprefix("blake3:")
