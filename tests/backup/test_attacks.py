"""Attacks on backups: each one ends in an error, and nothing is restored."""

from __future__ import annotations

import gzip
import os
import shutil
import struct
import tracemalloc
from itertools import product
from pathlib import Path

import msgspec
import pytest
from backup_kit import added, backed, cataloged, erase, own_bank, restored, told
from blake3 import blake3
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from satchel.backup.catalog import ErasedRecord, ErasureLists
from satchel.backup.inventory import list_backups, verify_backups
from satchel.backup.manifests import Manifest, opened, signed
from satchel.backup.storage import (
    Compression,
    FolderStorage,
    Packs,
    Ref,
    compress,
    pack_path,
    packed,
    unpacked,
)
from satchel.bank.connections import writer_key
from satchel.config.settings import Settings
from satchel.crypto.keys import SigningKey
from satchel.errors import (
    LimitError,
    PathRefusedError,
    SatchelError,
    UnreadableError,
    VerificationError,
)

OUTSIDER = SigningKey.from_seed(b"s" * 32)


@pytest.fixture(scope="module")
def sample(store_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Settings, str]:
    """A store and its backup; tests damage a copy."""
    from backup_kit import HOME, WITNESS

    from satchel.config.settings import load_settings

    folder = tmp_path_factory.mktemp("sample")
    shutil.copytree(store_folder, folder, dirs_exist_ok=True)
    environment = {"SATCHEL_WITNESS": str(folder / WITNESS), "SATCHEL_CONFIG": ""}
    found = load_settings(
        home=folder / HOME, store=str(folder / "here.db"), environment=environment
    )
    backed(found, str(folder / "backups"))
    return found, str(folder / "backups")


def copy_backup(sample: tuple[Settings, str], folder: Path) -> str:
    """Return a copy of the backup."""
    where = folder / "copy"
    shutil.rmtree(where, ignore_errors=True)
    shutil.copytree(sample[1], where)
    return str(where)


def require_refused(found: Settings, where: str, folder: Path) -> None:
    """Require that a restore fails and leaves nothing."""
    target = folder / "new.db"
    with pytest.raises(SatchelError):
        restored(found, where, str(target))
    assert not target.exists()


def change_and_sign(where: str, change: dict[str, object], key: SigningKey) -> None:
    """Change a manifest and sign it again."""
    (path,) = Path(where).glob("catalogue/*/*.json")
    manifest, _ = opened(path.read_bytes(), Manifest)
    path.write_bytes(signed(msgspec.structs.replace(manifest, **change), key))


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_attack_a_changed_byte_is_detected(
    sample: tuple[Settings, str], tmp_path: Path, data: st.DataObject
) -> None:
    """In a manifest or a pack, unless the restored store is the same."""
    found, _ = sample
    where = copy_backup(sample, tmp_path)
    paths = [*Path(where).glob("catalogue/*/*"), *Path(where).glob("packs/*/*/*")]
    path = data.draw(st.sampled_from(sorted(paths)))
    held = bytearray(path.read_bytes())
    at = data.draw(st.integers(0, len(held) - 1))
    held[at] ^= data.draw(st.integers(1, 255))
    path.write_bytes(held)
    problems = [one.error for one in verify_backups(found, destinations=where, all=True)]
    if not any(problems):  # a flag of gzip without effect on the contents
        target = tmp_path / "n.db"
        target.unlink(missing_ok=True)
        restored(found, where, str(target))
        assert told(str(target)) == told(found.store)


def test_attack_a_decompression_bomb_uses_bounded_memory() -> None:
    """It is stopped at its declared size; a declared size over the limit is refused at once."""
    bombs = {
        b"g": gzip.compress(bytes(96 << 20), 1),
        b"z": compress(bytes(96 << 20), Compression.ZSTD),
    }
    for letter, said in product(bombs, (10, 64 << 20, 1 << 40)):
        stored = struct.pack(">4scQ", b"SBP1", letter, said) + bombs[letter]
        tracemalloc.start()
        with pytest.raises(VerificationError):
            unpacked(stored, "0" * 64)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < (200 << 20 if said == 64 << 20 else 2 << 20)


@given(data=st.binary(max_size=200), how=st.sampled_from(Compression))
def test_a_pack_unpacks_to_its_contents_or_an_error(data: bytes, how: Compression) -> None:
    """It is verified by its name, with any compression."""
    stored = packed(data, how)
    digest = blake3(data).hexdigest()
    assert unpacked(stored, digest) == data
    for wrong in (stored[:-1], stored + b"\0", b"", b"SBP1"):
        with pytest.raises(VerificationError):
            unpacked(wrong, digest)


def test_attack_a_manifest_signed_by_another_key_is_not_restored(
    sample: tuple[Settings, str], tmp_path: Path
) -> None:
    """Nor one with a signature of other contents."""
    found, _ = sample
    where = copy_backup(sample, tmp_path)
    change_and_sign(where, {}, OUTSIDER)
    require_refused(found, where, tmp_path)
    (path,) = Path(where).glob("catalogue/*/*.json")
    path.write_bytes(path.read_bytes().replace(b'"tool":"', b'"tool":"x'))
    require_refused(found, where, tmp_path)


def test_attack_a_trusted_signer_cannot_forge_a_log(
    sample: tuple[Settings, str], tmp_path: Path
) -> None:
    """Even with this machine's key: the records are verified against the head of the bank."""
    found, _ = sample
    where = copy_backup(sample, tmp_path)
    (path,) = Path(where).glob("catalogue/*/*.json")
    manifest, _ = opened(path.read_bytes(), Manifest)
    one, other = manifest.banks
    for change in (
        {"size": one.size - 1},
        {"root": other.root},
        {"head": other.head},
        {"peaks": other.peaks},
        {"index": other.index},
        {"bank": other.bank},
        {"index": Ref(one.index.digest, one.index.bytes + 1, one.index.stored)},
    ):
        banks = [msgspec.structs.replace(one, **change), other]
        change_and_sign(where, {"banks": banks}, writer_key(found))
        require_refused(found, where, tmp_path)
    change_and_sign(where, {"banks": [one, one]}, writer_key(found))
    (verdict,) = verify_backups(found, destinations=where, all=True)
    assert "twice" in (verdict.error or "")


def test_attack_a_forged_mark_does_not_make_a_backup_verified(
    sample: tuple[Settings, str], tmp_path: Path
) -> None:
    """Otherwise prune would drop good backups in favor of it."""
    where = copy_backup(sample, tmp_path)
    (path,) = Path(where).glob("marks/*/*.json")
    (before,) = cataloged(where)
    assert before.verified
    data = path.read_bytes()
    for wrong in (b"", b"{}", data.replace(b'"packs":', b'"packs":1'), data[:-3]):
        path.write_bytes(wrong)
        (after,) = cataloged(where)
        assert after.verified is None


def test_attack_a_forged_erasure_list_erases_nothing(here: Settings, tmp_path: Path) -> None:
    """A writer to the destination cannot have memories deleted by a restore."""
    where = str(tmp_path / "backups")
    backed(here, where)
    bank = own_bank(here)
    (one,) = [part for part in cataloged(where)[0].manifest.banks if part.bank == bank]
    ids = list(told(here.store)[bank]["current"])
    shelf = FolderStorage(Path(where))
    lies = {identity: ErasedRecord(3, one.size + 5) for identity in ids}
    ErasureLists(shelf).note(cataloged(where)[0].manifest.series, bank, lies, OUTSIDER)
    shelf.put(f"erased/{bank[7:]}/0123456789abcdef.json", b"{}")
    shelf.close()
    found = restored(here, where, str(tmp_path / "n.db"))
    assert not any(one.erased_again for one in found.banks)
    assert told(str(tmp_path / "n.db")) == told(here.store)
    erase(here, bank, *added(here, bank))
    backed(here, where)  # its list replaces the forged one
    assert list_backups(here, destinations=where).backups[-1].holds_erased == 0


def test_attack_links_pipes_and_path_traversal_are_refused(
    sample: tuple[Settings, str], tmp_path: Path
) -> None:
    """On read, write and delete."""
    found, _ = sample
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("mine")
    where = copy_backup(sample, tmp_path)
    # The largest has the records, which every restore reads.
    pack = max(Path(where).glob("packs/*/*/*"), key=lambda path: path.stat().st_size)
    shutil.copy(pack, outside / pack.name)
    pack.unlink()
    pack.symlink_to(outside / pack.name)
    require_refused(found, where, tmp_path)
    pack.unlink()
    os.mkfifo(pack)
    require_refused(found, where, tmp_path)
    shelf = FolderStorage(Path(where))
    for name in ("../outside/precious", "packs/../../outside/precious", "/etc/passwd", "a//b"):
        with pytest.raises((PathRefusedError, UnreadableError)):
            shelf.get(name, 10)
        with pytest.raises(PathRefusedError):
            shelf.put(name, b"x")
    shelf.close()
    link = tmp_path / "link"
    link.symlink_to(where)
    with pytest.raises(PathRefusedError):
        FolderStorage(link)
    assert (outside / "precious").read_text() == "mine"


def test_attack_an_oversized_manifest_is_not_read(
    sample: tuple[Settings, str], tmp_path: Path
) -> None:
    """A sparse file of gigabytes."""
    found, _ = sample
    where = copy_backup(sample, tmp_path)
    (path,) = Path(where).glob("catalogue/*/*.json")
    os.truncate(path, 1 << 33)
    listed = list_backups(found, destinations=where)
    assert listed.backups == []
    assert "more than" in listed.problems[0]
    shelf = FolderStorage(Path(where))
    with pytest.raises(LimitError):
        shelf.get(path.relative_to(where).as_posix(), 1000)
    shelf.close()


def test_other_files_in_the_catalog_are_reported_and_skipped(
    sample: tuple[Settings, str], tmp_path: Path
) -> None:
    """Whatever their name and contents."""
    found, _ = sample
    where = copy_backup(sample, tmp_path)
    for name in ("x.json", "deep/er/x.json", "é\n.json"):
        path = Path(where) / "catalogue" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"{" * 10_000)
    listed = list_backups(found, destinations=where)
    assert len(listed.backups) == 1
    assert len(listed.problems) == 3
    assert restored(found, where, str(tmp_path / "n.db")).banks


def test_attack_a_key_of_memory_files_that_is_a_path_is_refused(
    sample: tuple[Settings, str], tmp_path: Path
) -> None:
    """Even in a manifest of a trusted signer."""
    found, _ = sample
    where = copy_backup(sample, tmp_path)
    from satchel.backup.manifests import FilesBackup, FilesIndex, put_index

    (one,) = cataloged(where)
    shelf = FolderStorage(Path(where))
    index = put_index(Packs(shelf, one.manifest.series), FilesIndex(packs=[]))
    assert shelf.size(pack_path(one.manifest.series, index.digest)) == index.stored
    shelf.close()
    for key in ("../evil", "a/b", ".", "..", ".hidden", "nul\0"):
        files = [FilesBackup(key=key, size=0, index=index)]
        change_and_sign(where, {"files": files}, writer_key(found))
        with pytest.raises(VerificationError, match="files of an invalid key"):
            restored(found, where, files=True)
