"""Backups of a test's store, made and put back in a few words."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ledger_kit import memories
from msgspec.structs import replace
from whole_store_kit import everything

from satchel.actions.backing_up.restored import Restored, RestoreOptions
from satchel.actions.backing_up.restoring import restore_backup
from satchel.actions.backing_up.running import BackupOptions, Made, run_backup
from satchel.actions.config import Settings
from satchel.actions.moving.copies import opened_at
from satchel.actions.signing import signing_key
from satchel.actions.wiring import open_ledger, opened_store
from satchel.backup.catalogue import Catalogue, Found
from satchel.backup.pieces.locking import Locking
from satchel.backup.shelves import FolderShelf
from satchel.memory.parts import Component
from satchel.memory.records import Erasure, Status
from satchel.memory.times import now
from satchel.ports.rows import Filter
from satchel.seal.records import Sealed
from satchel.seal.sealing import seal

HOME, WITNESS = "satchel-home", "satchel-witness"
"""Where every test has them."""


def backed(settings: Settings, where: str, **asked: Any) -> Made:
    """Back a store up, which has to work."""
    made = run_backup(settings, BackupOptions(to=(where,), **asked)).made[0]
    assert made.error is None, made.error
    return made


def restored(settings: Settings, where: str, into: str | None = None, **asked: Any) -> Restored:
    """Put a backup back, as the owner."""
    asked.setdefault("owner", lambda: signing_key(settings, None)[0])
    return restore_backup(settings, RestoreOptions(source=where, into=into, **asked))


def told(store: str) -> dict[str, Any]:
    """Return all that a store tells of its banks, but for what speaks of its place."""
    with opened_at(store, read_only=True) as opened, opened.reading() as reader:
        found = everything(reader)
    for bank in found.values():
        bank["side"].pop("erasing", None)
    return found


def own_bank(settings: Settings) -> str:
    """Return the id of the bank that this machine may write to."""
    with opened_store(settings, read_only=True) as store, store.reading() as reader:
        (bank,) = [one for one in reader.banks() if reader.counts(one).get("source")]
    return bank


def added(settings: Settings, bank: str, count: int = 1, start: int = 10_000) -> list[str]:
    """Add memories to a bank, and return their ids."""
    records = memories(count, start)
    logged(settings, bank, records)
    return [record.id for record in records]


def logged(settings: Settings, bank: str, records: Iterable[Sealed]) -> None:
    """Add records to a bank."""
    with opened_store(settings) as store:
        open_ledger(settings, store, bank, writes=True).append(list(records))


def erase(settings: Settings, bank: str, *ids: str) -> None:
    """Delete and erase memories."""
    logged(settings, bank, [seal(Status(target=one, state="deleted", at=now())) for one in ids])
    logged(settings, bank, [seal(Erasure(entry=one, at=now())) for one in ids])


def tamper(settings: Settings, bank: str) -> None:
    """Add a memory, and change its bytes behind everybody's back."""
    added(settings, bank, 1, 90_000)
    with opened_store(settings) as store, store.writing() as writing:
        row = next(writing.scan(bank, Filter(types=frozenset({"semantic"})), newest_first=True))
        assert row.body is not None
        writing.rewrite(bank, [replace(row, body=row.body.replace(b"memory", b"nemory"))])


def current(store: str, bank: str) -> list[str]:
    """Return the ids of the memories that are current in a bank."""
    with opened_at(store, read_only=True) as opened, opened.reading() as reader:
        wanted = Filter(types=frozenset(Component))
        return [row.id for row in reader.scan(bank, wanted)]


def catalogued(where: str, settings: Settings | None = None) -> list[Found]:
    """Return the backups of a folder, with the identities of a machine where they are encrypted."""
    shelf = FolderShelf(Path(where))
    try:
        return Catalogue(shelf, *([Locking(settings.unlocking)] if settings else [])).all()
    finally:
        shelf.close()


def files_in(where: str | Path) -> dict[str, bytes]:
    """Return all files of a folder by their paths."""
    root = Path(where)
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }
