"""Backups of whole stores: run, verify, restore to any time, and drills."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

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
from s3_kit import S3Server, s3_server

from satchel.backup import contents, run
from satchel.backup.drill import drill_backup
from satchel.backup.inventory import list_backups, verify_backups
from satchel.backup.manifests import BankIndex, read_index
from satchel.backup.prune import prune_backups
from satchel.backup.run import run_backup, take_bank
from satchel.backup.storage import FolderStorage, Packs, open_storage
from satchel.bank.open_bank import open_bank
from satchel.config.settings import Settings, load_settings
from satchel.errors import (
    EmptyInputError,
    LimitError,
    PathRefusedError,
    TargetExistsError,
    UnknownBackupError,
    UnknownBankError,
    VerificationError,
)
from satchel.files.bank_files import opened_files
from satchel.model.values import now
from satchel.replication.store_copy import copy_store
from satchel.transfer.export_records import ExportOptions
from satchel.transfer.exports import export

KINDS = ("sqlite", "ladybug", "postgresql")


# -- there and back --------------------------------------------------------------------------------


@pytest.mark.in_check(2)
@pytest.mark.parametrize("kind", KINDS)
def test_a_backup_is_restored_into_any_kind_of_store(
    here: Settings, where: str, new_address: Callable[[str], str], kind: str
) -> None:
    """Rows, columns, heads, nodes, words, links, vectors, blobs and unlogged values."""
    backed(here, where)
    target = new_address(kind)
    found = restored(here, where, target)
    assert told(target) == told(here.store)
    assert [one.carried for one in found.banks] == [one.size for one in found.banks]


@pytest.mark.prove
@pytest.mark.parametrize("kind", ["ladybug", "postgresql"])
def test_a_store_of_any_kind_is_backed_up(
    here: Settings, where: str, tmp_path: Path, new_address: Callable[[str], str], kind: str
) -> None:
    """Its backup, restored to SQLite, equals the original SQLite store."""
    place = new_address(kind)
    copy_store(here, here.store, place)
    backed(load_settings(store=place), where)
    restored(here, where, str(tmp_path / "new.db"))
    assert told(str(tmp_path / "new.db")) == told(here.store)


def test_unchanged_data_is_not_written_again(here: Settings, where: str) -> None:
    """A backup after one new record writes only a few packs."""
    first = backed(here, where)
    same = backed(here, where)
    assert first.written == first.packs
    assert same.written == 0
    before = set(files_in(where))
    added(here, own_bank(here))
    more = backed(here, where)
    assert more.written <= 3  # the new segment, the index, unlogged values
    new = {name for name in files_in(where) if name not in before}
    assert len([name for name in new if name.startswith("packs/")]) == more.written


def test_small_segments_are_merged(
    here: Settings, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The index stays short, and the last backup is complete."""
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


def test_a_log_of_many_segments_is_restored(
    here: Settings, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also after an erasure rewrites some of them."""
    monkeypatch.setattr(contents, "ROWS", 7)
    bank = own_bank(here)
    ids = added(here, bank, 40)
    backed(here, where)
    erase(here, bank, ids[3], ids[20])
    more = backed(here, where)
    assert 0 < more.written < more.packs
    restored(here, where, str(tmp_path / "new.db"))
    assert told(str(tmp_path / "new.db")) == told(here.store)


def test_one_of_two_banks_is_restored(here: Settings, where: str, tmp_path: Path) -> None:
    """By its name; an unknown name is an error."""
    backed(here, where)
    found = restored(here, where, str(tmp_path / "new.db"), banks=("assistant",))
    assert [one.name for one in found.banks] == ["assistant"]
    assert list(told(str(tmp_path / "new.db"))) == [own_bank(here)]
    with pytest.raises(UnknownBankError):
        restored(here, where, str(tmp_path / "new.db"), banks=("nobody",))


def test_only_the_selected_banks_are_backed_up(here: Settings, where: str) -> None:
    """Prune does not drop the only backup of another bank."""
    backed(here, where)
    made = backed(here, where, banks=("assistant",))
    assert made.banks == 1
    prune_backups(here, destinations=where, days=0, keep_last=1)
    assert len(cataloged(where)) == 2  # the first has the only copy of the other bank


def test_an_agent_is_backed_up_by_its_id(here: Settings, where: str, tmp_path: Path) -> None:
    """With its bank only, by option or configuration; an unknown agent is an error."""
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
    """Files in an object store are not copied."""
    file = tmp_path / "satchel.toml"
    file.write_text('[files]\nstorage_root = "memory://elsewhere"\n')
    made = backed(load_settings(config=file, store=here.store), where)
    assert any("memory://elsewhere" in note and "not backed up" in note for note in made.notes)


def test_a_missing_store_or_an_empty_destination_is_an_error(tmp_path: Path, where: str) -> None:
    """For a backup and for a restore."""
    settings = load_settings(store=str(tmp_path / "none.db"))
    run = run_backup(settings, destinations=(where,))
    assert (run.exit_status, run.made[0].code) == (4, EmptyInputError.code)
    with pytest.raises(EmptyInputError):
        restored(settings, where)


# -- points in time --------------------------------------------------------------------------------


def test_a_bank_is_restored_to_any_time(here: Settings, where: str, tmp_path: Path) -> None:
    """Also between two backups: memories have their state at that time; later ones are missing."""
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
        assert len(erased) == (1 if number == 2 else 0)  # erased since, so not restored
        assert [one for one in expected if one not in erased] == there


def test_a_time_outside_all_backups_restores_the_available_part(
    here: Settings, where: str, tmp_path: Path
) -> None:
    """Before the first record the bank is missing; after the last backup its state is restored."""
    backed(here, where)
    none = restored(here, where, str(tmp_path / "a.db"), at="2000-01-01T00:00:00.000000Z")
    assert none.banks == []
    last = restored(here, where, str(tmp_path / "b.db"), at=now())
    assert last.notes
    assert told(str(tmp_path / "b.db")) == told(here.store)


def test_a_backup_is_identified_by_part_of_its_id(
    here: Settings, where: str, tmp_path: Path
) -> None:
    """An unknown or ambiguous one is an error."""
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
    """Existing files are moved aside, and only with --overwrite."""
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
    assert backed(here, where).files == 1  # the moved folder is not a key


# -- drills ----------------------------------------------------------------------------------------


def test_a_drill_compares_heads_counts_and_answers(here: Settings, where: str) -> None:
    """The store in use does not change."""
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
    """It reports each bank separately."""
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
    """Without that key the backup and its list of erasures are not trusted."""
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


def test_backups_of_other_owners_are_not_pruned(here: Settings, where: str, tmp_path: Path) -> None:
    """Of two machines with one destination, each prunes and sweeps its own."""
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
    """A restore into an identical store changes nothing."""
    backed(here, where)
    expected = told(here.store)
    found = restored(here, where, files=False)
    assert [(one.relation, one.carried) for one in found.banks] == [("same", 0)] * 2
    assert told(here.store) == expected


# -- object stores -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    """An S3 server."""
    with s3_server() as found:
        yield found


def test_backups_in_an_object_store_are_restored(
    here: Settings, server: S3Server, tmp_path: Path
) -> None:
    """Run, list, verify, prune and restore."""
    where = f"{server.bucket()}/deep/prefix"
    backed(here, where)
    added(here, own_bank(here), 3)
    second = backed(here, where)
    assert second.written < second.packs
    assert len(list_backups(here, destinations=where).backups) == 2
    (gone,) = prune_backups(here, destinations=where, days=0, keep_last=1)
    assert (len(gone.dropped), gone.packs > 0) == (1, True)
    assert [one.error for one in verify_backups(here, destinations=where, all=True)] == [None]
    restored(here, where, str(tmp_path / "n.db"))
    assert told(str(tmp_path / "n.db")) == told(here.store)


@pytest.mark.parametrize("kind", ["memory", "s3"])
def test_objects_are_complete_or_missing(kind: str, server: S3Server, tmp_path: Path) -> None:
    """And reads are bounded."""
    shelf = open_storage(server.bucket() if kind == "s3" else f"memory://{tmp_path}")
    shelf.put("packs/a/b", b"12345")
    assert (shelf.get("packs/a/b", 5), shelf.size("packs/a/b")) == (b"12345", 5)
    assert (shelf.get("packs/a/c", 5), shelf.size("packs/a/c")) == (None, None)
    with pytest.raises(LimitError):
        shelf.get("packs/a/b", 4)
    assert list(shelf.names("packs/a")) == ["packs/a/b"]
    assert list(shelf.names("packs/b")) == []
    shelf.remove("packs/a/b")
    shelf.remove("packs/a/b")
    assert list(shelf.names("packs")) == []
    shelf.close()


def test_a_destination_with_an_unknown_scheme_is_refused() -> None:
    """It is not guessed."""
    with pytest.raises(PathRefusedError):
        open_storage("ftp://there/x")


# -- concurrent writers ------------------------------------------------------------------


def test_a_backup_succeeds_despite_a_concurrent_writer(
    here: Settings, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the records of its last read."""
    bank, numbers = own_bank(here), count(20_000)
    memories = len(current(here.store, bank))

    def take_and_write(*args: Any, **said: Any) -> Any:
        found = take_bank(*args, **said)
        added(here, bank, 1, next(numbers))
        return found

    monkeypatch.setattr(run, "take_bank", take_and_write)
    made = backed(here, where)
    monkeypatch.undo()
    assert made.verified is not None
    assert made.missing == []
    written = next(numbers) - 20_000
    assert written == 2 * made.banks  # it was read twice: without locks, and with them
    assert len(current(here.store, bank)) == memories + written


def test_an_export_succeeds_despite_a_concurrent_writer(here: Settings, tmp_path: Path) -> None:
    """It leaves no temporary files."""
    bank, numbers, output = own_bank(here), count(20_000), tmp_path / "out" / "all.pam"
    output.parent.mkdir()

    def write(done: int, of: int, entry: str | None) -> None:
        del done, of, entry
        added(here, bank, 1, next(numbers))

    with open_bank(here, bank) as found:
        done = export(found, output, ExportOptions(progress=write))
    assert next(numbers) >= 20_002
    assert done.entries < len(current(here.store, bank))
    assert list(output.parent.iterdir()) == [output]
