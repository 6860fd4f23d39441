"""Encrypted backups: unreadable at the destination, and all commands still work.

The identity ``safe`` is stored elsewhere; the machine that runs the backups has only its recipient.
"""

from __future__ import annotations

import shutil
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
    told,
)
from msgspec.structs import replace

from satchel.backup.drill import drill_backup
from satchel.backup.inventory import list_backups, verify_backups
from satchel.backup.prune import prune_backups
from satchel.backup.run import run_backup
from satchel.config.settings import Settings, load_settings
from satchel.crypto.encryption import Unlocker, new_identity
from satchel.crypto.sealed_records import seal
from satchel.errors import EncryptionError, MalformedError, SatchelError
from satchel.files.bank_files import opened_files
from satchel.model.records import Semantic

SECRET = "the passphrase is xyzzy-plugh-1729"  # noqa: S105 - must not be found


@pytest.fixture
def safe(tmp_path: Path) -> tuple[Path, str]:
    """A file with an identity that is stored elsewhere, and its recipient."""
    identity, recipient = new_identity()
    path = tmp_path / "safe.txt"
    path.write_text(identity + "\n")
    path.chmod(0o600)
    return path, recipient


def with_identity(settings: Settings, identity: Path) -> Settings:
    """Return settings that use an identity."""
    unlocking = Unlocker(folder=settings.home / "identities", files=(identity,))
    return replace(settings, unlocking=unlocking)


def test_an_encrypted_backup_is_restored_with_its_identity(
    here: Settings, where: str, tmp_path: Path, safe: tuple[Path, str]
) -> None:
    """Without the identity, restore and drill fail and write nothing."""
    with opened_files(here, "notes", create=True) as files:
        files.write_text("a.md", "one")
    made = backed(here, where, encrypt_to=(safe[1],))
    assert (made.encrypted, made.unopened, made.verified is not None) == (True, 0, True)
    for attempt in (
        lambda: restored(here, where, str(tmp_path / "new.db")),
        lambda: drill_backup(here, destination=where),
    ):
        with pytest.raises(EncryptionError, match="no identity here decrypts"):
            attempt()
    assert not (tmp_path / "new.db").exists()
    person = with_identity(here, safe[0])
    restored(person, where, str(tmp_path / "new.db"))
    assert told(str(tmp_path / "new.db")) == told(here.store)
    assert drill_backup(person, destination=where).is_good
    with opened_files(here, "notes") as files:
        files.write_text("a.md", "two")
    restored(person, where, overwrite=True)
    with opened_files(here, "notes") as files:
        assert files.read_text("a.md") == "one"


def test_an_encrypted_destination_reveals_no_contents(
    here: Settings, where: str, safe: tuple[Path, str]
) -> None:
    """No text, name, ID or hash of contents, nor that two packs are equal."""
    bank = own_bank(here)
    record = seal(Semantic(text=SECRET))
    logged(here, bank, [record])
    backed(here, where, encrypt_to=(safe[1],))
    erase(here, bank, record.id)
    made = backed(here, where, encrypt_to=(safe[1],))
    again = str(Path(where).with_name("again"))
    backed(here, again, encrypt_to=(safe[1],))
    assert made.written
    (part,) = [one for one in cataloged(where, here)[-1].manifest.banks if one.bank == bank]
    hidden = [SECRET, "assistant", bank[7:], record.id[7:], part.root[7:], part.index.digest]
    for name, data in files_in(where).items():
        for one in hidden:
            assert one.encode() not in data, name
            assert one not in name
    pieces = [{name for name in files_in(there) if "packs/" in name} for there in (where, again)]
    assert pieces[0].isdisjoint(pieces[1])


def test_backups_without_the_identity_are_incremental(
    here: Settings, where: str, safe: tuple[Path, str], tmp_path: Path
) -> None:
    """And pruned; packs are verified by hash."""
    first = backed(here, where, encrypt_to=(safe[1],))
    same = backed(here, where, encrypt_to=(safe[1],))
    assert (first.written, same.written) == (first.packs, 0)
    added(here, own_bank(here), 3)
    more = backed(here, where, encrypt_to=(safe[1],))
    assert 0 < more.written <= 3
    assert 0 < more.unopened < more.packs
    (found,) = verify_backups(here, destinations=where)
    assert (found.error, found.unopened > 0) == (None, True)
    assert "pass an identity" in found.notes[0]
    (found,) = verify_backups(with_identity(here, safe[0]), destinations=where)
    assert (found.error, found.unopened, found.notes) == (None, 0, [])
    (gone,) = prune_backups(here, destinations=where, days=0, keep_last=1)
    assert len(gone.dropped) == 2
    restored(with_identity(here, safe[0]), where, str(tmp_path / "n.db"))
    assert told(str(tmp_path / "n.db")) == told(here.store)


def test_a_run_with_a_local_identity_verifies_all_packs(here: Settings, where: str) -> None:
    """If the identity is one of the recipients."""
    from satchel.bank.machine_keys import create_identity

    create_identity(here, "mine")
    backed(here, where, encrypt_to=("mine",))
    added(here, own_bank(here))
    made = backed(here, where, encrypt_to=("mine",))
    assert (made.written < made.packs, made.unopened) == (True, 0)
    assert drill_backup(here, destination=where).is_good


def test_without_an_identity_each_pack_is_verified_by_its_hash(
    here: Settings, where: str, tmp_path: Path, safe: tuple[Path, str]
) -> None:
    """On another machine without keys, which lists the backups as well."""
    backed(here, where, encrypt_to=(safe[1],))
    environment = {"SATCHEL_WITNESS": str(tmp_path / "w2"), "SATCHEL_CONFIG": ""}
    other = load_settings(home=tmp_path / "h2", store=here.store, environment=environment)
    (line,) = list_backups(other, destinations=where).backups
    assert (line.closed, line.banks, line.at[:4].isdigit()) == (True, [], True)
    (found,) = verify_backups(other, destinations=where)
    assert (found.error, found.packs == found.unopened > 3) == (None, True)
    for path in sorted(Path(where).glob("packs/*/*/*")):
        before = path.read_bytes()
        for damaged in (before[:-1], before[:-1] + bytes([before[-1] ^ 1])):
            path.write_bytes(damaged)
            (found,) = verify_backups(other, destinations=where)
            assert found.error is not None
        path.write_bytes(before)
    with pytest.raises(EncryptionError):
        restored(other, where, trusted_keys=(line.key,))


def test_a_change_of_recipients_writes_a_full_backup(
    here: Settings, where: str, tmp_path: Path, safe: tuple[Path, str]
) -> None:
    """Packs for other recipients, or unencrypted ones, are not reused."""
    backed(here, where)
    identity, recipient = new_identity()
    for to in ((safe[1],), (safe[1], recipient), (recipient,)):
        made = backed(here, where, encrypt_to=to)
        assert made.written == made.packs
    (tmp_path / "other.txt").write_text(identity)
    (tmp_path / "other.txt").chmod(0o600)
    restored(with_identity(here, tmp_path / "other.txt"), where, str(tmp_path / "n.db"))
    assert told(str(tmp_path / "n.db")) == told(here.store)


def test_an_unencrypted_backup_beside_encrypted_ones_needs_a_flag(
    here: Settings, where: str, safe: tuple[Path, str]
) -> None:
    """A lost configuration does not expose the memory."""
    backed(here, where, encrypt_to=(safe[1],))
    before = files_in(where)
    run = run_backup(here, destinations=(where,))
    assert (run.exit_status, run.made[0].code) == (2, "config.invalid")
    assert files_in(where) == before
    assert not backed(here, where, unencrypted=True).encrypted


def test_the_safety_backup_of_a_restore_is_encrypted_like_the_backup(
    here: Settings, where: str, safe: tuple[Path, str]
) -> None:
    """Also without a configuration."""
    bank = own_bank(here)
    backed(here, where, encrypt_to=(safe[1],))
    logged(here, bank, [seal(Semantic(text=SECRET))])
    found = restored(
        with_identity(here, safe[0]), where, overwrite=True, banks=(bank,), files=False
    )
    assert found.banks[0].safety
    assert all(one.cover is not None for one in cataloged(where, here))
    assert len(cataloged(where, here)) == 2


def test_a_restored_encrypted_backup_does_not_have_erased_records(
    here: Settings, where: str, tmp_path: Path, safe: tuple[Path, str]
) -> None:
    """The list of erasures can be read with the identity and extended by the machine."""
    bank = own_bank(here)
    records = [seal(Semantic(text=f"{SECRET} {number}")) for number in range(3)]
    logged(here, bank, records)
    first = backed(here, where, encrypt_to=(safe[1],))
    for record in records[:2]:
        erase(here, bank, record.id)
        backed(here, where, encrypt_to=(safe[1],))
    assert [one.holds_erased for one in list_backups(here, destinations=where).backups] == [2, 1, 0]
    shutil.rmtree(here.state / "banks")
    Path(here.store).rename(tmp_path / "lost.db")
    found = restored(
        with_identity(here, safe[0]),
        where,
        str(tmp_path / "n.db"),
        backup=first.id,
        accept_loss=True,
    )
    assert sum(one.erased_again for one in found.banks) == 2
    assert set(current(str(tmp_path / "n.db"), bank)) & {one.id for one in records} == {
        records[2].id
    }
    (gone,) = prune_backups(
        load_settings(store=str(tmp_path / "lost.db")),
        destinations=where,
        days=0,
        remove_erased=True,
    )
    assert gone.dropped == []  # of another store
    Path(tmp_path / "lost.db").rename(here.store)
    (gone,) = prune_backups(here, destinations=where, days=0, remove_erased=True)
    assert len(gone.dropped) == 2


def test_an_unreadable_erasure_list_stops_a_restore(
    here: Settings, where: str, tmp_path: Path, safe: tuple[Path, str]
) -> None:
    """Also of an unencrypted backup: erased records are never restored in silence."""
    bank = own_bank(here)
    ids = added(here, bank, 2)
    first = backed(here, where)
    erase(here, bank, ids[0])
    backed(here, where, encrypt_to=(safe[1],))
    assert not [name for name in files_in(where) if name.startswith(f"erased/{bank[7:]}")]
    for path in (here.home / "identities").iterdir():
        path.unlink()
    with pytest.raises(EncryptionError, match="list of later erasures"):
        restored(here, where, str(tmp_path / "n.db"), backup=first.id, accept_loss=True)
    assert not (tmp_path / "n.db").exists()
    found = restored(
        with_identity(here, safe[0]),
        where,
        str(tmp_path / "n.db"),
        backup=first.id,
        accept_loss=True,
    )
    assert sum(one.erased_again for one in found.banks) == 1


def test_prune_keeps_backups_that_it_cannot_decrypt(
    here: Settings, where: str, safe: tuple[Path, str]
) -> None:
    """After the machine lost its identity, it writes a full backup."""
    backed(here, where, encrypt_to=(safe[1],))
    before = {name: data for name, data in files_in(where).items() if "packs/" in name}
    for path in (here.home / "identities").iterdir():
        path.unlink()
    made = backed(here, where, encrypt_to=(safe[1],))
    assert made.written == made.packs
    (gone,) = prune_backups(here, destinations=where, days=0, keep_last=1)
    assert (gone.dropped, "were kept" in gone.notes[0]) == ([], True)
    assert before.items() <= files_in(where).items()
    person = with_identity(here, safe[0])
    assert [one.error for one in verify_backups(person, destinations=where, all=True)] == [
        None,
        None,
    ]


# -- attacks ---------------------------------------------------------------------


def test_attack_an_altered_encrypted_backup_is_not_restored(
    here: Settings, where: str, tmp_path: Path, safe: tuple[Path, str]
) -> None:
    """Exchanged packs, a changed manifest, a pack with a huge header."""
    backed(here, where, encrypt_to=(safe[1],))
    person = with_identity(here, safe[0])
    (cover,) = Path(where).glob("catalogue/*/*.json")
    packs = sorted(Path(where).glob("packs/*/*/*"))
    one, other = packs[0].read_bytes(), packs[1].read_bytes()
    whole = cover.read_bytes()

    def swap_packs() -> None:
        packs[0].write_bytes(other)
        packs[1].write_bytes(one)

    def change_manifest() -> None:
        cover.write_bytes(whole.replace(b'"pieces":"', b'"pieces":"AAAA'))

    def grow_header() -> None:
        packs[0].write_bytes(b"age-encryption.org/v1\n" + b"-> X25519 a\n" * 100_000)

    for harm in (swap_packs, change_manifest, grow_header):
        harm()
        with pytest.raises(SatchelError):
            restored(person, where, str(tmp_path / "n.db"))
        assert not (tmp_path / "n.db").exists()
        packs[0].write_bytes(one)
        packs[1].write_bytes(other)
        cover.write_bytes(whole)
    assert restored(person, where, str(tmp_path / "n.db")).banks


def test_an_invalid_identity_file_is_an_error(
    here: Settings, where: str, tmp_path: Path, safe: tuple[Path, str]
) -> None:
    """Not a report that there is no backup."""
    backed(here, where, encrypt_to=(safe[1],))
    (tmp_path / "wrong.txt").write_text("not an identity")
    (tmp_path / "wrong.txt").chmod(0o600)
    with pytest.raises(MalformedError):
        restored(with_identity(here, tmp_path / "wrong.txt"), where)


def test_backups_are_compressed_with_gzip_zstd_or_not_at_all(
    here: Settings, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By configuration or environment; one destination can have all three."""
    sizes = dict[str, int]()
    for number, how in enumerate(("none", "gzip", "zstd")):
        monkeypatch.setenv("SATCHEL_BACKUP_COMPRESS", how)
        settings = load_settings(store=here.store)
        sizes[how] = backed(settings, where, full=True).bytes_written
        restored(settings, where, str(tmp_path / f"{number}.db"))
        assert told(str(tmp_path / f"{number}.db")) == told(here.store)
    assert sizes["zstd"] < sizes["none"]
    assert sizes["gzip"] < sizes["none"]
