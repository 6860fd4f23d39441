"""List erased records of a bank at its backup destinations, so that restores skip them."""

from collections.abc import Iterator, Sequence
from typing import Any

from satchel.backup.catalog import ErasedRecord, read_erasures
from satchel.backup.destinations import destinations, known_destinations, open_catalog, series_of
from satchel.backup.prune import count_erased
from satchel.bank.connections import writer_key
from satchel.bank.open_bank import OpenBank
from satchel.errors import SatchelError, UnreadableError, shown_address
from satchel.ledger.projection import VerifiedRecord
from satchel.replication.copies import load_replica


class BackupErasureTarget:
    """The backups of a bank, as a place that may hold erased records.

    Args:
        bank: The bank, open for writing.
    """

    name = "backups"

    def __init__(self, bank: OpenBank) -> None:
        self._bank = bank

    def erase(self, records: Sequence[VerifiedRecord]) -> int:
        """List records that are about to be erased; return the number of new ones.

        Raises:
            TargetError: If a destination does not answer; nothing is erased then.
        """
        with self._bank.ledger.reading() as view:
            size = view.head.size
        erased = {logged.record.id: ErasedRecord(logged.seq, size) for logged in records}
        return _list_everywhere(self._bank, erased)[0]

    def laid_open(self) -> Iterator[Any]:
        """Yield nothing: backups are not rewritten, and are reported as unreachable."""
        yield from ()

    def out_of_reach(self) -> list[str]:
        """Return notes on destinations whose backups still hold erased records."""
        notes = list[str]()
        for destination in _all_destinations(self._bank):
            try:
                with open_catalog(self._bank.settings, destination) as catalog:
                    known = dict[str, dict[str, ErasedRecord]]()
                    number = sum(
                        1 for backup in catalog.all() if count_erased(catalog, backup, known)
                    )
                    closed = len(catalog.closed)
            except UnreadableError:
                if destination not in _configured(self._bank):
                    notes.append(_unreached(destination))
                continue
            except SatchelError as error:
                notes.append(f"backups in {shown_address(destination)}: {error.message}")
                continue
            address = shown_address(destination)
            if closed:
                notes.append(
                    f"backups in {address} that no identity here decrypts: {closed}; their "
                    "contents are unknown"
                )
            if number:
                is_named = destination not in _configured(self._bank)
                option = f" --destination {address}" if is_named else ""
                notes.append(
                    f"backups in {address} that still hold it: {number}. Restores skip it. To "
                    f"remove them: satchel backup prune --remove-erased{option}"
                )
        return notes

    def close(self) -> None:
        """Do nothing."""


def list_erased(bank: OpenBank) -> list[str]:
    """List the erased records in the log at all destinations; return problems.

    Each backup run does the same, so a failure is corrected by the next run.
    """
    if not _all_destinations(bank):
        return []
    try:
        with bank.store.reading() as reader:
            source = load_replica(reader, bank.id)
            erased = {} if source is None else read_erasures(source)
        return _list_everywhere(bank, erased)[1]
    except SatchelError as error:
        return [f"the erasure is not recorded at the backup destination yet: {error.message}"]


def _list_everywhere(bank: OpenBank, erased: dict[str, ErasedRecord]) -> tuple[int, list[str]]:
    """List erased records at each destination; return the number of new ones, and problems.

    A configured destination must answer; one that was named once need not.
    """
    number, problems, configured = 0, list[str](), _configured(bank)
    for destination in _all_destinations(bank) if erased else ():
        try:
            with open_catalog(bank.settings, destination) as catalog:
                key, series = writer_key(bank.settings), series_of(bank.settings)
                number += catalog.lists.note(series, bank.id, erased, key)
        except UnreadableError:  # for a configured one: it has no backups yet
            if destination not in configured:
                problems.append(_unreached(destination))
        except SatchelError:
            if destination in configured:
                raise
            problems.append(_unreached(destination))
    return number, problems


def _unreached(destination: str) -> str:
    shown = shown_address(destination)
    return (
        f"backups in {shown}, which does not answer. Until the erasure is listed there, one that"
        f" is restored on another machine brings it back: satchel backup run --destination {shown}"
    )


def _all_destinations(bank: OpenBank) -> tuple[str, ...]:
    """Return all destinations that may have backups of the bank."""
    return tuple(dict.fromkeys((*_configured(bank), *known_destinations(bank.settings))))


def _configured(bank: OpenBank) -> tuple[str, ...]:
    return destinations(bank.settings) if bank.settings.options.backup.destinations else ()
