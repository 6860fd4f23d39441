"""Backups put back over a store that is there, and what was erased from it since."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from backup_kit import (
    added,
    backed,
    cataloged,
    current,
    erase,
    files_in,
    logged,
    own_bank,
    restored,
    tamper,
    told,
)

from satchel.backup.inventory import list_backups
from satchel.backup.manifests import BankIndex, read_index
from satchel.backup.prune import prune_backups
from satchel.backup.run import run_backup
from satchel.backup.storage import FolderStorage, Packs
from satchel.bank.banks import list_banks
from satchel.bank.connections import configured_store, open_store
from satchel.bank.open_bank import open_bank_in
from satchel.config.settings import Settings, load_settings
from satchel.crypto.sealed_records import seal
from satchel.erasure.prune import prune
from satchel.errors import RolledBackError, SigningKeyError, TargetExistsError
from satchel.model.records import Erasure, Semantic
from satchel.model.values import now
from satchel.replication.store_copy import copy_store

KINDS = ("sqlite", "ladybug", "postgresql")


# -- over what is there ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind",
    ["sqlite", *(pytest.param(kind, marks=pytest.mark.prove) for kind in KINDS[1:])],
)
def test_an_existing_bank_is_overwritten_only_on_request_and_backed_up_first(
    here: Settings, where: str, tmp_path: Path, places: Callable[[str], str], kind: str
) -> None:
    """The bank goes on from the backup in a new epoch; the safety copy has what it gave up."""
    place = places(kind)
    copy_store(here, here.store, place)
    there, bank = load_settings(store=place), own_bank(here)
    backed(there, where)
    expected = current(place, bank)
    new = added(there, bank, 3)
    before = told(place)
    with pytest.raises((RolledBackError, TargetExistsError)):
        restored(there, where)
    assert told(place) == before
    found = restored(there, where, overwrite=True, banks=(bank,))
    assert found.banks[0].given_up
    assert current(place, bank) == expected
    assert added(there, bank, 1, 50_000)[0] in current(place, bank)
    safety = found.banks[0].safety
    again = restored(there, where, str(tmp_path / "s.db"), backup=safety, accept_loss=True)
    assert again.backup == safety
    assert current(str(tmp_path / "s.db"), bank) == [*expected, *new]


def test_a_lost_store_is_restored_in_place(here: Settings, where: str) -> None:
    """What the machine saw is all there, so nobody has to decide anything."""
    expected = told(here.store)
    backed(here, where)
    for path in Path(here.store).parent.glob("here.db*"):
        path.unlink()
    found = restored(here, where)
    assert not any(one.given_up for one in found.banks)
    assert told(here.store) == expected
    added(here, own_bank(here))


def test_a_loss_against_the_witness_is_not_accepted_by_default(here: Settings, where: str) -> None:
    """Nothing is written before that; an owner's key is needed for it."""
    backed(here, where)
    bank = own_bank(here)
    added(here, bank)
    for path in Path(here.store).parent.glob("here.db*"):
        path.unlink()
    with pytest.raises(RolledBackError, match="this machine saw it"):
        restored(here, where)
    with pytest.raises(SigningKeyError):
        restored(here, where, accept_loss=True, owners=tuple)
    assert not Path(here.store).exists()
    assert restored(here, where, accept_loss=True, banks=(bank,)).banks[0].given_up
    assert [one.trust for one in list_banks(here)] == ["own"]


def test_an_older_state_is_inspected_in_another_store(
    here: Settings, where: str, tmp_path: Path
) -> None:
    """Nothing is given up for that; both can be read and written, and neither is put back."""
    backed(here, where)
    bank = own_bank(here)
    added(here, bank)
    old = str(tmp_path / "old.db")
    found = restored(here, where, old, banks=(bank,), owners=None)
    assert not found.banks[0].given_up
    assert any("tracked separately" in note for note in found.banks[0].notes)
    looked = load_settings(store=old)
    was, aside = current(here.store, bank), Path(f"{old}.aside")
    shutil.copy(old, aside)
    added(looked, bank, start=70_000)
    for settings in (here, looked):
        assert [one.problem for one in list_banks(settings)] == [None] * len(list_banks(settings))
    assert current(here.store, bank) == was
    aside.rename(old)  # the copy is watched as well
    assert list_banks(looked)[0].problem is not None
    with pytest.raises(RolledBackError):
        restored(here, where, old, banks=(bank,), owners=None)
    assert list_banks(here)[0].problem is None


def test_a_store_that_does_not_verify_is_kept_as_its_file(here: Settings, where: str) -> None:
    """It cannot be backed up, and gives way all the same."""
    backed(here, where)
    bank, expected = own_bank(here), [*current(here.store, own_bank(here))]
    tamper(here, bank)
    run = run_backup(here, destinations=(where,))
    assert run.made[0].missing
    assert run.exit_status == 3
    found = restored(here, where, overwrite=True, banks=(bank,), backup=cataloged(where)[0].id)
    safe = Path(found.banks[0].safety or "")
    assert safe.is_file()
    assert current(here.store, bank) == expected


# -- what was erased -------------------------------------------------------------------------------

SECRET = "the passphrase is xyzzy-plugh-1729"  # noqa: S105 - what must not come back


def test_a_restored_backup_does_not_bring_back_what_was_erased_since(
    here: Settings, where: str, tmp_path: Path
) -> None:
    """Its bytes are nowhere in the new store, and the log says that it was erased again."""
    bank = own_bank(here)
    record = seal(Semantic(text=SECRET))
    logged(here, bank, [record])
    first = backed(here, where)
    erase(here, bank, record.id)
    backed(here, where)
    target = tmp_path / "old" / "new.db"
    target.parent.mkdir()
    found = restored(here, where, str(target), backup=first.id, accept_loss=True)
    (one,) = [one for one in found.banks if one.bank == bank]
    assert one.erased_again == 1
    assert SECRET.encode() not in b"".join(files_in(target.parent).values())
    with closing(open_store(str(target), read_only=True)) as store, store.reading() as reader:
        (row,) = reader.get(bank, [record.id])
        assert row.body is None


def test_a_new_backup_omits_erased_records_and_the_list_marks_older_ones(
    here: Settings, where: str
) -> None:
    """They go when that is asked for, since a newer one that is clean holds."""
    bank = own_bank(here)
    record = seal(Semantic(text=SECRET))
    logged(here, bank, [record])
    backed(here, where)
    erase(here, bank, record.id)
    backed(here, where)
    assert [one.holds_erased for one in list_backups(here, destinations=where).backups] == [1, 0]
    (gone,) = prune_backups(here, destinations=where, days=0, remove_erased=True)
    assert len(gone.dropped) == 1
    data = [Packs(FolderStorage(Path(where)), one.manifest.series) for one in cataloged(where)]
    shelf = FolderStorage(Path(where))
    found = b"".join(
        packs.get(ref)
        for packs, one in zip(data, cataloged(where), strict=True)
        for part in one.manifest.banks
        for ref in read_index(packs, part.index, BankIndex).refs()
    )
    shelf.close()
    assert SECRET.encode() not in found
    assert gone.packs > 0


def test_what_is_erased_is_listed_before_the_next_backup(
    here: Settings, where: str, tmp_path: Path
) -> None:
    """The store may be lost in the meantime, and somebody without its witness restores."""
    file = tmp_path / "satchel.toml"
    file.write_text(f'[backup]\ndestination = "{where}"\n')
    settings = load_settings(config=file, store=here.store)
    bank = own_bank(here)
    record = seal(Semantic(text=SECRET))
    logged(here, bank, [record])
    logged(here, bank, [seal(Erasure(entry="blake3:" + "5" * 64, at=now()))])
    backed(settings, where)
    with configured_store(settings) as store:
        opened = open_bank_in(settings, store, bank, writes=True)
        from satchel.bank.changes import forget

        forget(opened, [record.id])
        done = prune(opened, now(), deleted=True)
        assert (done.notes, done.erased > 0) == ([], True)
    for path in [*Path(here.store).parent.glob("here.db*")]:
        path.unlink()
    import shutil

    shutil.rmtree(here.state / "banks")
    restored(settings, where)
    assert record.id not in current(here.store, bank)
    assert SECRET.encode() not in Path(here.store).read_bytes()
