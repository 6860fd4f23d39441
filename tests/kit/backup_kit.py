"""Backups of a test's store: create, restore, compare and damage."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from ledger_kit import memories
from msgspec.structs import replace
from whole_store_kit import everything

from satchel.backup.catalog import Catalog, StoredBackup
from satchel.backup.contents import verify_contents
from satchel.backup.options import BackupOptions, RestoreOptions
from satchel.backup.restore import restore_backup
from satchel.backup.restore_targets import RestoreResult
from satchel.backup.run import DestinationResult, run_backup
from satchel.backup.storage import FolderStorage, PackEncryption
from satchel.bank.banks import list_banks
from satchel.bank.connections import configured_store, open_ledger, open_store
from satchel.bank.machine_keys import create_identity, signing_key
from satchel.config.files import to_toml
from satchel.config.settings import Settings, load_settings
from satchel.crypto.sealed_records import Sealed, seal
from satchel.model.records import Erasure, Status
from satchel.model.values import Component, now
from satchel.ports.rows import Filter

HOME, WITNESS = "satchel-home", "satchel-witness"
"""Where every test has them."""


def backed(settings: Settings, where: str, **asked: Any) -> DestinationResult:
    """Back a store up, without errors."""
    internal = {name: asked.pop(name) for name in ("moment", "reason") if name in asked}
    options = BackupOptions(destinations=(where,), **asked)
    made = run_backup.run(settings, options, **internal).made[0]
    assert made.error is None, made.error
    return made


def restored(
    settings: Settings, where: str, into: str | None = None, **asked: Any
) -> RestoreResult:
    """Restore a backup as the owner."""
    owners = asked.pop("owners", lambda: (signing_key(settings, None)[0],))
    options = RestoreOptions(destination=where, into=into, **asked)
    return restore_backup.run(settings, options, owners=owners)


def told(store: str) -> dict[str, Any]:
    """Return everything that a store returns of its banks, except its location."""
    with closing(open_store(store, read_only=True)) as opened, opened.reading() as reader:
        found = everything(reader)
    for bank in found.values():
        bank["side"].pop("erasing", None)
    return found


def own_bank(settings: Settings) -> str:
    """Return the ID of the bank that this machine may write to."""
    with configured_store(settings, read_only=True) as store, store.reading() as reader:
        (bank,) = [one for one in reader.banks() if reader.counts(one).get("source")]
    return bank


def added(settings: Settings, bank: str, count: int = 1, start: int = 10_000) -> list[str]:
    """Append memories to a bank, and return their IDs."""
    records = memories(count, start)
    logged(settings, bank, records)
    return [record.id for record in records]


def logged(settings: Settings, bank: str, records: Iterable[Sealed]) -> None:
    """Append records to a bank."""
    with configured_store(settings) as store:
        open_ledger(settings, store, bank, writes=True).append(list(records))


def erase(settings: Settings, bank: str, *ids: str) -> None:
    """Delete and erase memories."""
    logged(settings, bank, [seal(Status(target=one, state="deleted", at=now())) for one in ids])
    logged(settings, bank, [seal(Erasure(entry=one, at=now())) for one in ids])


def tamper(settings: Settings, bank: str) -> None:
    """Append a memory, and change its bytes in the database."""
    added(settings, bank, 1, 90_000)
    with configured_store(settings) as store, store.writing() as writing:
        row = next(writing.scan(bank, Filter(types=frozenset({"semantic"})), newest_first=True))
        assert row.body is not None
        writing.rewrite(bank, [replace(row, body=row.body.replace(b"memory", b"nemory"))])


def current(store: str, bank: str) -> list[str]:
    """Return the IDs of the current memories of a bank."""
    with closing(open_store(store, read_only=True)) as opened, opened.reading() as reader:
        wanted = Filter(types=frozenset(Component))
        return [row.id for row in reader.scan(bank, wanted)]


def cataloged(where: str, settings: Settings | None = None) -> list[StoredBackup]:
    """Return the backups of a folder, with the identities of a machine if they are encrypted."""
    shelf = FolderStorage(Path(where))
    try:
        return Catalog(shelf, *([PackEncryption(settings.unlocking)] if settings else [])).all()
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


def sound(where: str, settings: Settings | None = None) -> list[str]:
    """Return the verified backups, each of which is verified again."""
    shelf = FolderStorage(Path(where))
    catalog = Catalog(shelf, *([PackEncryption(settings.unlocking)] if settings else []))
    found = [one for one in catalog.all() if one.verified]
    for one in found:
        assert verify_contents(one.manifest, catalog.packs(one)).unopened == 0
    assert (catalog.problems, catalog.closed) == ([], [])
    shelf.close()
    return [one.id for one in found]


class Machine(NamedTuple):
    """A store, its backups and keys, all in one folder.

    It stays in its folder: backups are of the store at a path. ``kept_in`` keeps what is in it.
    """

    folder: Path
    encrypted: bool = False

    @property
    def disk(self) -> Path:
        """The folder with the store and the witness."""
        return self.folder / "disk"

    @property
    def store(self) -> str:
        """The store's address."""
        return str(self.disk / "here.db")

    @property
    def backups(self) -> str:
        """The destination."""
        return str(self.folder / "backups")

    @property
    def environment(self) -> dict[str, str]:
        """The environment of its programs."""
        said = {"SATCHEL_BACKUP_ENCRYPT_TO": "mine"} if self.encrypted else {}
        return {
            "SATCHEL_HOME": str(self.folder / HOME),
            "SATCHEL_WITNESS": str(self.disk / WITNESS),
            "SATCHEL_CONFIG": str(self.folder / "satchel.toml"),
            **said,
        }

    @property
    def workspace(self) -> Path:
        """The folder of its agent."""
        return self.folder / "agents" / "helper"

    @property
    def settings(self) -> Settings:
        """Its settings."""
        return load_settings(store=self.store, environment=self.environment)

    @property
    def remembered(self) -> dict[str, list[str]]:
        """The memories that are current in each bank."""
        return {bank: current(self.store, bank) for bank in told(self.store)}

    def kept_in(self, folder: Path) -> None:
        """Copy the machine's files to a new folder."""
        shutil.copytree(self.folder, folder)

    def put_back(self, folder: Path) -> None:
        """Replace the machine's files by those copied to a folder."""
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(folder, self.folder)


def backed_up(kept: Path, folder: Path, *, encrypted: bool = False) -> tuple[Machine, str]:
    """Return a machine with three backups, the last one named; store and agent changed since."""
    machine, last = Machine(folder, encrypted), ""
    shutil.copytree(kept / HOME, folder / HOME)
    shutil.copytree(kept / WITNESS, machine.disk / WITNESS)
    for path in kept.glob("here.db*"):
        shutil.copy(path, machine.disk / path.name)
    (folder / "satchel.toml").touch()
    settings = machine.settings
    if encrypted:
        create_identity(settings, "mine")
        settings = machine.settings
    bank = own_bank(settings)
    about = {"agents": {"helper": {"bank": bank, "workspace": str(machine.workspace)}}}
    (folder / "satchel.toml").write_text(to_toml(about))
    settings = machine.settings
    for number in range(3):
        added(settings, bank, 20, 1000 * number + 1000)
        _work(machine.workspace, number)
        last = backed(settings, machine.backups).id or ""
    added(settings, bank, 20, 9000)
    _work(machine.workspace, 9)
    return machine, last


def _work(workspace: Path, number: int) -> None:
    """Write as an agent does: a new file, and a changed one."""
    (workspace / "notes").mkdir(parents=True, exist_ok=True)
    for each in range(20):
        (workspace / "notes" / f"{number}-{each}.md").write_text(f"note {number} {each}\n" * 50)
    (workspace / "state.bin").write_bytes(bytes([number]) * 100_000)


def require_good(
    machine: Machine, last: str, states: Sequence[dict[str, list[str]]], *, restores: bool
) -> None:
    """Require what whoever starts a machine again can count on, whatever happened to it.

    No bank is refused, also one that was being restored over: it is as it was, or restored.

    Args:
        machine: The machine.
        last: The backup that was the last one before.
        states: What each bank may remember.
        restores: Whether the last backup is put back over what there is as well.
    """
    settings = machine.settings
    assert last in sound(machine.backups, settings)
    for bank, ids in machine.remembered.items():
        assert ids in [one[bank] for one in states]
    files = files_in(machine.workspace)
    kept = [files_in(one) for one in machine.workspace.parent.glob("helper*")]
    assert all(len(one) in {61, 81} for one in kept), "half a workspace"
    assert any(len(one) == 81 for one in kept), "what the agent did last"
    assert [one.problem for one in list_banks(settings)] == [None, None]
    if files:
        assert backed(settings, machine.backups).verified
    if restores or not files:
        back = restored(settings, machine.backups, overwrite=True, backup=last)
        assert (len(back.banks), len(back.agents)) == (2, 1)
        assert [one.problem for one in list_banks(settings)] == [None, None]
        assert len(files_in(machine.workspace)) == 61
