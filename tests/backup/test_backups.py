"""Backups of whole stores: taken, read again, and put back as they were."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from backup_kit import (
    added,
    backed,
    cataloged,
    current,
    erase,
    files_in,
    own_bank,
    restored,
    told,
)

from satchel.backup import contents
from satchel.backup.drill import drill_backup
from satchel.backup.inventory import list_backups, verify_backups
from satchel.backup.manifests import BankIndex, read_index
from satchel.backup.prune import prune_backups
from satchel.backup.run import run_backup
from satchel.backup.storage import FolderStorage, Packs
from satchel.config.settings import Settings, load_settings
from satchel.errors import (
    EmptyInputError,
    TargetExistsError,
    UnknownBackupError,
    UnknownBankError,
    VerificationError,
)
from satchel.files.bank_files import opened_files
from satchel.model.values import now
from satchel.replication.store_copy import copy_store

KINDS = ("sqlite", "ladybug", "postgresql")


# -- there and back --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_backup_is_restored_into_any_kind_of_store(
    here: Settings, where: str, places: Callable[[str], str], kind: str
) -> None:
    """Rows, columns, heads, nodes, words, links, vectors, blobs and unlogged values."""
    backed(here, where)
    target = places(kind)
    found = restored(here, where, target)
    assert told(target) == told(here.store)
    assert [one.carried for one in found.banks] == [one.size for one in found.banks]


@pytest.mark.prove
@pytest.mark.parametrize("kind", ["ladybug", "postgresql"])
def test_a_store_of_any_kind_is_backed_up(
    here: Settings, where: str, tmp_path: Path, places: Callable[[str], str], kind: str
) -> None:
    """And restored to SQLite, where it is what the first SQLite was."""
    place = places(kind)
    copy_store(here, here.store, place)
    backed(load_settings(store=place), where)
    restored(here, where, str(tmp_path / "new.db"))
    assert told(str(tmp_path / "new.db")) == told(here.store)


def test_what_did_not_change_is_not_copied_again(here: Settings, where: str) -> None:
    """A second backup of the same writes nothing, one of a record more little more than that."""
    first = backed(here, where)
    same = backed(here, where)
    assert first.written == first.packs
    assert same.written == 0
    before = set(files_in(where))
    added(here, own_bank(here))
    more = backed(here, where)
    assert more.written <= 3  # the new stretch, the index, unlogged values
    new = {name for name in files_in(where) if name not in before}
    assert len([name for name in new if name.startswith("packs/")]) == more.written


def test_many_small_backups_do_not_become_many_small_pieces(
    here: Settings, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Short stretches are put into one after some time, and the last backup is as good as any."""
    monkeypatch.setattr(contents, "SHORT", 4)
    bank = own_bank(here)
    for number in range(7):
        added(here, bank, 1, 20_000 + number)
        backed(here, where)
    last = cataloged(where)[-1]
    part = next(one for one in last.manifest.banks if one.bank == bank)
    shelf = FolderStorage(Path(where))
    index = read_index(Packs(shelf, last.manifest.series), part.index, BankIndex)
    shelf.close()
    assert len(index.segments) <= 5
    assert sum(one.count for one in index.segments) == part.size


def test_a_log_that_fills_many_stretches_goes_there_and_back(
    here: Settings, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when some of them are made again, since something in the middle was erased."""
    monkeypatch.setattr(contents, "ROWS", 7)
    bank = own_bank(here)
    ids = added(here, bank, 40)
    backed(here, where)
    erase(here, bank, ids[3], ids[20])
    more = backed(here, where)
    assert 0 < more.written < more.packs
    restored(here, where, str(tmp_path / "new.db"))
    assert told(str(tmp_path / "new.db")) == told(here.store)


def test_one_bank_of_two_is_restored(here: Settings, where: str, tmp_path: Path) -> None:
    """By its name; a name that no bank has is told."""
    backed(here, where)
    found = restored(here, where, str(tmp_path / "new.db"), banks=("assistant",))
    assert [one.name for one in found.banks] == ["assistant"]
    assert list(told(str(tmp_path / "new.db"))) == [own_bank(here)]
    with pytest.raises(UnknownBankError):
        restored(here, where, str(tmp_path / "new.db"), banks=("nobody",))


def test_only_the_banks_that_are_asked_for_are_backed_up(here: Settings, where: str) -> None:
    """By the options or the configuration; nothing older of the others is dropped for it."""
    backed(here, where)
    made = backed(here, where, banks=("assistant",))
    assert made.banks == 1
    prune_backups(here, destinations=where, days=0, keep_last=1)
    assert len(cataloged(where)) == 2  # the first has the only copy of the other bank


def test_an_agent_is_backed_up_by_its_id(here: Settings, where: str, tmp_path: Path) -> None:
    """Its bank and no other, as asked or as configured; one that nobody configured is told."""
    file = tmp_path / "satchel.toml"
    file.write_text(
        '[agents.scout]\nbank = "assistant"\n[backup]\nagents = ["scout"]\n'
        f'destination = "{where}"\n'
    )
    settings = load_settings(config=file, store=here.store)
    assert run_backup(settings).made[0].banks == 1
    assert backed(settings, where, agents=("scout",)).banks == 1
    run = run_backup(settings, agents=("nobody",))
    assert run.made[0].error is not None
    assert {one.name for found in cataloged(where) for one in found.manifest.banks} == {"assistant"}


def test_remote_memory_files_are_listed_as_not_included(
    here: Settings, where: str, tmp_path: Path
) -> None:
    """Somebody else keeps copies of an object store, and the backup says so."""
    file = tmp_path / "satchel.toml"
    file.write_text('[files]\nstorage_root = "memory://elsewhere"\n')
    made = backed(load_settings(config=file, store=here.store), where)
    assert any("memory://elsewhere" in note and "not backed up" in note for note in made.notes)


def test_nothing_to_back_up_is_no_success(tmp_path: Path, where: str) -> None:
    """Neither is a destination without a backup."""
    settings = load_settings(store=str(tmp_path / "none.db"))
    run = run_backup(settings, destinations=(where,))
    assert (run.exit_status, run.made[0].code) == (4, EmptyInputError.code)
    with pytest.raises(EmptyInputError):
        restored(settings, where)


# -- points in time --------------------------------------------------------------------------------


def test_a_bank_is_restored_to_any_moment(here: Settings, where: str, tmp_path: Path) -> None:
    """Between two backups too: what was current then is current, what came later is not there."""
    bank = own_bank(here)
    backed(here, where)
    states = [(now(), current(here.store, bank))]
    for number in range(3):
        (one,) = added(here, bank, 1, 30_000 + number)
        states.append((now(), current(here.store, bank)))
        erase(here, bank, one) if number == 1 else None
    backed(here, where)
    for number, (moment, expected) in enumerate(states):
        target = str(tmp_path / f"{number}.db")
        restored(here, where, target, at=moment, banks=(bank,), accept_loss=True)
        there = current(target, bank)
        erased = [one for one in expected if one not in there]
        assert len(erased) == (1 if number == 2 else 0)  # erased since, so never back
        assert [one for one in expected if one not in erased] == there


def test_a_moment_before_all_backups_restores_the_available_part(
    here: Settings, where: str, tmp_path: Path
) -> None:
    """Before the bank was begun there is nothing, and after the last backup that is the nearest."""
    backed(here, where)
    none = restored(here, where, str(tmp_path / "a.db"), at="2000-01-01T00:00:00.000000Z")
    assert none.banks == []
    last = restored(here, where, str(tmp_path / "b.db"), at=now())
    assert last.notes
    assert told(str(tmp_path / "b.db")) == told(here.store)


def test_an_older_backup_is_named_by_its_start(here: Settings, where: str, tmp_path: Path) -> None:
    """One that is not there, or not the only one, is refused."""
    first = backed(here, where)
    added(here, own_bank(here))
    backed(here, where)
    assert first.id is not None
    found = restored(here, where, str(tmp_path / "n.db"), backup=first.id[-6:], accept_loss=True)
    assert found.backup == first.id
    for name in ("nope-nope", first.id[:8]):
        with pytest.raises(UnknownBackupError):
            restored(here, where, str(tmp_path / "m.db"), backup=name)


# -- memory files ----------------------------------------------------------------------------------


def test_memory_files_are_restored_with_their_history(here: Settings, where: str) -> None:
    """What was there is set aside; without leave it is not touched."""
    with opened_files(here, "notes", create=True) as files:
        files.write_text("a.md", "one")
        files.write_text("a.md", "two")
        files.write_text("b.md", "other")
    made = backed(here, where)
    assert made.files == 1
    with opened_files(here, "notes") as files:
        files.write_text("a.md", "three")
        audit = len(files.audit_tail_sync(100))
    with pytest.raises(TargetExistsError):
        restored(here, where)
    found = restored(here, where, overwrite=True)
    with opened_files(here, "notes") as files:
        assert files.read_text("a.md") == "two"
        assert files.read_text("b.md") == "other"
        assert len(files.audit_tail_sync(100)) == audit - 1
        assert files.verify_audit().ok
        assert (files.root / "a.md").read_text() == "two"
    aside = Path(found.files[0].aside or "")
    assert (aside / "a.md").read_text() == "three"
    assert backed(here, where).files == 1  # what was set aside is nobody's key


# -- drills ----------------------------------------------------------------------------------------


def test_a_drill_compares_heads_counts_and_answers(here: Settings, where: str) -> None:
    """The store has gone on, and nothing of it is touched."""
    backed(here, where)
    bank = own_bank(here)
    before = told(here.store)
    found = drill_backup(here, destination=where)
    assert found.is_good
    by_bank = {one.bank: one for one in found.banks}
    assert by_bank[bank].relation == "same"
    assert by_bank[bank].same_answers == by_bank[bank].questions > 5
    assert by_bank[bank].counts == before[bank]["counts"]
    added(here, bank, 4)
    after = {one.bank: one for one in drill_backup(here, destination=where).banks}
    assert (after[bank].relation, after[bank].behind) == ("behind", 4)
    assert before.keys() == told(here.store).keys()


def test_a_drill_finds_a_backup_that_is_not_restorable(here: Settings, where: str) -> None:
    """Each bank is judged by itself."""
    backed(here, where)
    sizes = {path: path.stat().st_size for path in Path(where).glob("packs/*/*/*")}
    max(sizes, key=lambda path: sizes[path]).write_bytes(b"")
    found = drill_backup(here, destination=where)
    assert not found.is_good
    assert sum(bool(one.problems) for one in found.banks) == 1


# -- another machine -------------------------------------------------------------------------------


def test_another_machine_restores_with_a_trusted_key(
    here: Settings, where: str, tmp_path: Path
) -> None:
    """Without that a backup by nobody known is refused, and so is its word on what was erased."""
    backed(here, where)
    environment = {"SATCHEL_WITNESS": str(tmp_path / "w2"), "SATCHEL_CONFIG": ""}
    other = load_settings(
        home=tmp_path / "h2", store=str(tmp_path / "two.db"), environment=environment
    )
    (line,) = list_backups(other, destinations=where).backups
    assert (line.own, line.believed) == (False, False)
    with pytest.raises(VerificationError, match="not trusted here"):
        restored(other, where)
    assert not Path(other.store).exists()
    restored(other, where, trusted_keys=(line.key,))
    assert told(other.store) == told(here.store)


def test_a_backup_leaves_those_of_other_owners_alone(
    here: Settings, where: str, tmp_path: Path
) -> None:
    """Two machines in one destination: each prunes and sweeps its own."""
    backed(here, where)
    environment = {"SATCHEL_WITNESS": str(tmp_path / "w2"), "SATCHEL_CONFIG": ""}
    other = load_settings(
        home=tmp_path / "h2", store=str(tmp_path / "two.db"), environment=environment
    )
    from satchel.bank.banks import create_bank
    from satchel.bank.machine_keys import signing_key

    create_bank(other, "another", signing_key(other, None)[0])
    for _ in range(3):
        backed(other, where)
    prune_backups(other, destinations=where, days=0, keep_last=1)
    assert len(cataloged(where)) == 2
    assert all(one.error is None for one in verify_backups(here, destinations=where, all=True))


def test_existing_records_are_not_written_again(here: Settings, where: str) -> None:
    """Restored into a store that has the bank as it was: nothing to do, nothing done."""
    backed(here, where)
    expected = told(here.store)
    found = restored(here, where, files=False)
    assert [(one.relation, one.carried) for one in found.banks] == [("same", 0)] * 2
    assert told(here.store) == expected
