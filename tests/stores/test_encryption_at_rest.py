"""A store encrypted at rest: nothing is written in plain, and everything else works as before."""

import itertools
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest
from at_rest_kit import KEY
from ledger_kit import created, listed, memories, opened

from satchel.crypto import encryption as key_encryption
from satchel.crypto.encryption import Lock, StoreKey, Unlocker, new_identity, new_store_key
from satchel.crypto.sealed_records import seal
from satchel.errors import (
    EncryptionError,
    LimitError,
    MalformedError,
    MissingExtraError,
    SatchelError,
    StoreBusyError,
    StoreDamagedError,
    StoreFullError,
    TargetError,
    TargetExistsError,
    VerificationError,
)
from satchel.ledger.ledger import Ledger
from satchel.model.records import Semantic
from satchel.stores.sqlite import SqliteStore, encryption
from satchel.stores.sqlite.connection import KEY_ENDING, is_plain, open_for_writing
from satchel.stores.sqlite.encryption import key_file, key_for, next_file, put_key

pytestmark = pytest.mark.usefixtures("private_umask")

OTHER = StoreKey(bytes(range(1, 33)), b"held elsewhere, too")
WORD = b"meadowsweet"
_KINDS = apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_TEMP_DB
_numbers = itertools.count()


class TracedDisk(apsw.VFS):
    """A file system that records what is written in plain, unnamed files included."""

    def __init__(self) -> None:
        self.name = f"traced-{next(_numbers)}"
        super().__init__(self.name, "")
        self.written: dict[int, int] = {}
        """Bytes, by the kind of file."""
        self.plain: set[int] = set()

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:  # noqa: N802 - SQLite's name
        """Open a file."""
        return _TracedFile(self, name, flags)


class _TracedFile(apsw.VFSFile):
    def __init__(self, disk: TracedDisk, name: Any, flags: list[int]) -> None:
        self._disk, self._kind = disk, flags[0]
        super().__init__("", name, flags)

    def xWrite(self, data: Any, offset: int) -> None:  # noqa: N802 - SQLite's name
        self._disk.written[self._kind] = self._disk.written.get(self._kind, 0) + len(data)
        if WORD in bytes(data):
            self._disk.plain.add(self._kind)
        super().xWrite(data, offset)


@pytest.fixture
def traced_disk() -> Iterator[TracedDisk]:
    """A file system that records what is written in plain."""
    disk = TracedDisk()
    yield disk
    disk.unregister()


def filled(store: SqliteStore, count: int = 400) -> Ledger:
    """Make a bank of memories that contain a word."""
    ledger = created(store)
    texts = (f"{WORD.decode()} grows by the river, {number} of it" for number in range(count))
    ledger.append([seal(Semantic(text=text)) for text in texts])
    return ledger


def files_in(folder: Path) -> dict[str, bytes]:
    """Return the bytes of every file in a folder."""
    return {one.name: one.read_bytes() for one in folder.iterdir() if one.is_file()}


# -- what is on the disk --------------------------------------------------------------------------


@pytest.mark.parametrize("key", [None, KEY], ids=["plain", "encrypted"])
def test_no_word_is_written_in_plain_not_even_to_temporary_files(
    tmp_path: Path, traced_disk: TracedDisk, key: StoreKey | None
) -> None:
    """File, log, journal, full-text index, sorting, vacuum: compared with a store in plain."""
    store = SqliteStore(tmp_path / "a.db", vfs=traced_disk.name, key=key)
    with closing(store):
        filled(store)
        connection = store._connection()
        connection.pragma("cache_size", -100)
        store.scrub()
        sort = "SELECT body FROM record, (SELECT 1 UNION SELECT 2) ORDER BY body LIMIT 700"
        assert len(connection.execute(sort).fetchall()) == 700
        filled(store, 50)
        seen = files_in(tmp_path)
    if key is None:
        assert {kind & _KINDS for kind in traced_disk.plain} >= {
            apsw.SQLITE_OPEN_MAIN_DB,
            apsw.SQLITE_OPEN_WAL,
            apsw.SQLITE_OPEN_TEMP_DB,
        }
        assert any(WORD in data for data in seen.values())
    else:
        assert not traced_disk.plain
        assert {"a.db", "a.db-wal"} <= set(seen)
        assert all(WORD not in data and b"SQLite format" not in data for data in seen.values())


def test_copies_have_the_same_key_stored_with_them(tmp_path: Path) -> None:
    """A copy opens with the key next to it; a failed one leaves no key."""
    with closing(SqliteStore(tmp_path / "a.db", key=KEY)) as store:
        ledger = filled(store)
        store.copy_to(tmp_path / "b.db")
        assert key_file(tmp_path / "b.db").read_bytes() == KEY.held
        before = set(files_in(tmp_path))
        with pytest.raises(TargetError):
            store.copy_to(tmp_path / "missing" / "c.db")
        (tmp_path / "d.db").write_bytes(b"somebody's")
        with pytest.raises(TargetExistsError):
            store.copy_to(tmp_path / "d.db")
        with pytest.raises(TargetExistsError):
            store.copy_to(tmp_path / "b.db")
        assert set(files_in(tmp_path)) == {*before, "d.db"}
        there = listed(ledger)
    assert WORD not in (tmp_path / "b.db").read_bytes()
    with closing(SqliteStore(tmp_path / "b.db", key=KEY)) as copy:
        assert listed(opened(copy, ledger.bank, None)) == there


@pytest.mark.parametrize("left", [(), ("-wal",), ("-wal", "-shm")], ids=["", "log", "index"])
def test_the_files_of_a_killed_writer_are_read_without_a_trace(
    tmp_path: Path, left: tuple[str, ...]
) -> None:
    """Nobody has the store open: no lock is taken and no file is made."""
    origin, path = tmp_path / "a.db", tmp_path / "only-read" / "a.db"
    path.parent.mkdir()
    with closing(SqliteStore(origin, key=KEY)) as store:
        ledger = filled(store, 20)
        if not left:
            store._connection().pragma("wal_checkpoint", "truncate")
        for ending in ("", *left):
            shutil.copy(f"{origin}{ending}", f"{path}{ending}")
        there = listed(ledger)
    before = files_in(path.parent)
    with closing(SqliteStore(path, read_only=True, key=KEY)) as copy:
        assert listed(opened(copy, ledger.bank, None)) == there
        if not left:
            assert set(files_in(path.parent)) == set(before)
    assert {name: data for name, data in files_in(path.parent).items() if name[-3:] != "shm"} == {
        name: data for name, data in before.items() if name[-3:] != "shm"
    }


def test_the_search_covers_decrypted_free_pages_and_the_log(tmp_path: Path) -> None:
    """Erasure searches for leftovers; the encrypted bytes would never contain them."""
    with closing(SqliteStore(tmp_path / "a.db", key=KEY)) as store:
        filled(store)
        store.copy_to(tmp_path / "a.db.v0.now.bak")
        (tmp_path / "a.db.notes").write_bytes(WORD)

        def found() -> set[str]:
            return {
                Path(extent.name).name
                for extent in store.laid_open()
                if WORD in b"".join(extent.pieces())
            }

        assert found() == {"a.db-wal", "a.db.notes", "a.db.v0.now.bak"}
        store._connection().pragma("wal_checkpoint", "truncate")
        assert found() == {"a.db", "a.db.notes", "a.db.v0.now.bak"}
        store._connection().pragma("secure_delete", "off")
        store._connection().execute("DELETE FROM record; DELETE FROM words")
        store._connection().pragma("wal_checkpoint", "truncate")
        assert "a.db" in found(), "in free pages"
        store.scrub()
        assert found() == {"a.db.notes", "a.db.v0.now.bak"}


# -- altered, mistaken, missing -------------------------------------------------------------------


def _read_tables(path: Path) -> list[Any]:
    """Read all tables of a store, bypassing its cache."""
    with closing(SqliteStore(path, read_only=True, key=KEY)) as store:
        assert store.check() == []
        connection = store._connection()
        tables = connection.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"
        ).fetchall()
        return [connection.execute(f"SELECT * FROM {name}").fetchall() for (name,) in tables]  # noqa: S608


def _pages(path: Path) -> Callable[[int], slice]:
    assert path.stat().st_size % 4096 == 0
    return lambda number: slice(number * 4096, (number + 1) * 4096)


def test_attack_each_changed_truncated_or_exchanged_page_is_detected(tmp_path: Path) -> None:
    """Attack: a page is changed in the file, or replaced by another one."""
    path, altered = tmp_path / "a.db", tmp_path / "altered.db"
    with closing(SqliteStore(path, key=KEY)) as store:
        filled(store, 30)
    whole, page = path.read_bytes(), _pages(path)
    there = _read_tables(path)
    count = len(whole) // 4096
    changed = [bytearray(whole) for _ in range(0, len(whole), 1021)]
    for number, data in enumerate(changed):
        data[number * 1021] ^= 1
    cut = [bytearray(whole[: len(whole) // part * (part - 1)]) for part in (2, 3, 7)]
    exchanged = []
    for one, other in ((1, 2), (count - 2, count - 1), (3, count // 2)):
        data = bytearray(whole)
        data[page(one)], data[page(other)] = whole[page(other)], whole[page(one)]
        exchanged.append(data)
    noticed = 0
    for data in [*changed, *cut, *exchanged]:
        altered.write_bytes(data)
        try:
            assert _read_tables(altered) == there
        except (SatchelError, AssertionError):
            noticed += 1
    # Byte 16 to 23 of the first page are SQLite's own constants, which are compared as they are.
    assert noticed == len(changed) + len(cut) + len(exchanged)


def test_a_wrong_or_missing_key_is_distinguished_from_damage(tmp_path: Path) -> None:
    """Each error says what to do; the file is not changed."""
    path = tmp_path / "a.db"
    SqliteStore(path, key=KEY).close()
    before = path.read_bytes()
    for read_only in (False, True):
        with pytest.raises(EncryptionError, match="cannot be decrypted with its key"):
            SqliteStore(path, read_only=read_only, key=OTHER)
        with pytest.raises(EncryptionError, match="its key file is missing") as missing:
            SqliteStore(path, read_only=read_only)
        assert f"a.db{KEY_ENDING}" in (missing.value.hint or "")
    assert path.read_bytes() == before
    path.write_bytes(b"this is no database, and was none" * 200)
    with pytest.raises(StoreDamagedError):
        SqliteStore(path)
    with closing(SqliteStore(tmp_path / "plain.db")):
        pass
    with pytest.raises(EncryptionError):
        SqliteStore(tmp_path / "plain.db", key=KEY)


def test_attack_a_plain_store_in_place_of_an_encrypted_one_is_refused(tmp_path: Path) -> None:
    """Attack: from now on, memories would be written in plain."""
    path = tmp_path / "a.db"
    SqliteStore(path).close()
    put_key(path, KEY)
    with pytest.raises(VerificationError, match="not encrypted, although"):
        key_for(path)


def test_without_the_encrypting_driver_only_plain_stores_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The package `apsw` may have replaced the one that encrypts; the error names it."""
    SqliteStore(tmp_path / "a.db", key=KEY).close()
    monkeypatch.delattr(apsw, "mc_version")
    SqliteStore(tmp_path / "plain.db").close()
    with pytest.raises(MissingExtraError, match="another package") as refused:
        SqliteStore(tmp_path / "a.db", key=KEY)
    assert "apsw-sqlite3mc" in (refused.value.hint or "")


@pytest.mark.parametrize(
    ("held", "error"),
    [
        (b"", MalformedError),
        (b"no key", MalformedError),
        (b"x" * 70_000, LimitError),
        (b"age-encryption.org/v1\n-> X25519 x\n", EncryptionError),
    ],
    ids=["empty", "other", "large", "truncated"],
)
def test_attack_a_hostile_key_file_is_a_typed_error_that_names_it(
    tmp_path: Path, held: bytes, error: type[SatchelError]
) -> None:
    """Whatever it contains, little of it is read."""
    path = tmp_path / "a.db"
    key_file(path).write_bytes(held)
    with pytest.raises(error) as refused:
        key_for(path)
    assert refused.value.file == str(key_file(path))


def test_a_key_file_holds_no_plain_key_and_opens_for_its_recipients(tmp_path: Path) -> None:
    """Neither its display nor its file reveals the key; another identity does not open it."""
    (identity, recipient), (outsider, _) = new_identity(), new_identity()
    key = new_store_key(Lock(recipients=(recipient,)))
    assert key.secret not in key.held
    assert key.secret.hex().encode() not in key.held
    assert key.secret.hex() not in repr(key)
    (tmp_path / "mine.txt").write_text(identity)
    (tmp_path / "mine.txt").chmod(0o600)
    (tmp_path / "strange.txt").write_text(outsider)
    path = tmp_path / "a.db"
    put_key(path, StoreKey(b"", key.held + b""))
    assert key_file(path).stat().st_mode & 0o077 == 0
    key_encryption._opened.clear()
    with pytest.raises(EncryptionError, match="no identity here decrypts the key of the store"):
        key_for(path, Unlocker(files=(tmp_path / "strange.txt",)))
    found = key_for(path, Unlocker(files=(tmp_path / "mine.txt",)))
    assert found == key


# -- changing the key -----------------------------------------------------------------------------


def change_key(path: Path, old: StoreKey | None, new: StoreKey | None) -> None:
    """Change the key of a store as the operation does."""

    def first() -> None:
        encryption.put_next(path, old, new)

    def last() -> None:
        encryption.settle(path, encrypted=new is not None)

    encryption.rewrite_with_key(path, old, new, first=first, last=last)


WAYS = [(None, KEY), (KEY, OTHER), (KEY, None)]
WAY_NAMES = ["encrypting", "another key", "decrypting"]


def _fill(path: Path, key: StoreKey | None) -> tuple[str, list[str]]:
    with closing(SqliteStore(path, key=key)) as store:
        ledger = filled(store, 60)
        if key is not None:
            put_key(path, key)
        return ledger.bank, listed(ledger)


def _open_known_keys(key: StoreKey | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let key files open without an identity."""
    known = {one.held: one for one in (KEY, OTHER)}
    monkeypatch.setattr(encryption, "open_store_key", lambda held, _: known[held])
    assert key is None or key.held in known


@pytest.mark.parametrize(("old", "new"), WAYS, ids=WAY_NAMES)
def test_changing_the_key_keeps_the_whole_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: StoreKey | None, new: StoreKey | None
) -> None:
    """The same records, the same log, no other file next to it; progress is reported in bytes."""
    _open_known_keys(old, monkeypatch)
    path, told = tmp_path / "a.db", list[tuple[int, int]]()
    bank, there = _fill(path, old)

    def tell(done: int, whole: int) -> None:
        told.append((done, whole))

    encryption.rewrite_with_key(
        path,
        old,
        new,
        first=lambda: encryption.put_next(path, old, new),
        last=lambda: encryption.settle(path, encrypted=new is not None),
        progress=tell,
    )
    assert told[-1][0] > told[-1][1] * 0.9
    assert key_for(path) == new
    assert is_plain(path) == (new is None)
    assert (WORD in path.read_bytes()) == (new is None)
    assert path.stat().st_mode & 0o077 == 0
    assert set(files_in(tmp_path)) == {"a.db", *(["a.db.key"] if new else [])}
    with closing(SqliteStore(path, key=new)) as store:
        ledger = opened(store, bank, None)
        assert listed(ledger) == there
        ledger.append(memories(2))
        assert store.check() == []


class KillError(Exception):
    """Raised where a program is killed."""


@pytest.mark.parametrize(("old", "new"), WAYS, ids=WAY_NAMES)
@pytest.mark.parametrize("at", ["before", "first", "rename", "last"])
def test_a_key_change_interrupted_at_any_step_can_be_resumed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    old: StoreKey | None,
    new: StoreKey | None,
    at: str,
) -> None:
    """Killed before or after each change on disk: the store opens, complete."""
    _open_known_keys(old, monkeypatch)
    path = tmp_path / "a.db"
    bank, there = _fill(path, old)

    def first() -> None:
        if at == "before":
            raise KillError
        encryption.put_next(path, old, new)
        if at == "first":
            raise KillError

    def last() -> None:
        if at == "rename":
            raise KillError
        encryption.settle(path, encrypted=new is not None)
        raise KillError

    with pytest.raises(KillError):
        encryption.rewrite_with_key(path, old, new, first=first, last=last)
    done = at in {"rename", "last"}
    if new is None and at == "rename":
        with pytest.raises(VerificationError, match="satchel store decrypt"):
            key_for(path)
        encryption.settle(path, encrypted=False)
    assert key_for(path) == (new if done else old)
    with closing(SqliteStore(path, key=key_for(path))) as store:
        assert listed(opened(store, bank, None)) == there
    # Done again, whatever was left is no obstacle; then again, to a key that neither was.
    change_key(path, key_for(path), new)
    change_key(path, key_for(path), OTHER if new != OTHER else KEY)
    assert not next_file(path).exists()
    with closing(SqliteStore(path, key=key_for(path))) as store:
        assert listed(opened(store, bank, None)) == there


def test_a_second_interrupted_key_change_does_not_lose_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its key is only in the file of the next one; a second kill at the worst step keeps it."""
    _open_known_keys(KEY, monkeypatch)
    path = tmp_path / "a.db"
    bank, there = _fill(path, KEY)

    def cut() -> None:
        raise KillError

    def under_other() -> None:
        encryption.put_next(path, KEY, OTHER)

    with pytest.raises(KillError):
        encryption.rewrite_with_key(path, KEY, OTHER, first=under_other, last=cut)
    assert key_for(path) == OTHER

    def and_no_further() -> None:
        encryption.put_next(path, OTHER, KEY)
        raise KillError

    with pytest.raises(KillError):
        encryption.rewrite_with_key(path, OTHER, KEY, first=and_no_further, last=cut)
    assert key_for(path) == OTHER
    with closing(SqliteStore(path, key=key_for(path))) as store:
        assert listed(opened(store, bank, None)) == there


@pytest.mark.parametrize("busy", ["idle", "reading", "writing"])
def test_the_key_is_not_changed_while_another_process_has_the_store_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, busy: str
) -> None:
    """Its later writes would go to a file without a name."""
    monkeypatch.setattr(encryption, "_BUSY_MS", 50)
    path = tmp_path / "a.db"
    with closing(SqliteStore(path)) as store:
        ledger = filled(store, 5)
        listed(ledger)
        with {"idle": store.reading, "reading": store.reading, "writing": store.writing}[busy]():
            if busy != "idle":
                with pytest.raises(StoreBusyError, match="has the store open"):
                    change_key(path, None, KEY)
        if busy == "idle":
            with pytest.raises(StoreBusyError, match="has the store open"):
                change_key(path, None, KEY)
        ledger.append(memories(1))
        assert len(listed(ledger)) == 8
    assert is_plain(path)
    assert set(files_in(tmp_path)) == {"a.db"}


def test_a_connection_to_the_old_file_cannot_write_to_it(tmp_path: Path) -> None:
    """Race: opened before, first used after: an acknowledged write would be lost with the file."""
    path = tmp_path / "a.db"
    SqliteStore(path).close()
    late = apsw.Connection(str(path))
    change_key(path, None, KEY)
    with pytest.raises(apsw.ReadOnlyError):
        late.execute("BEGIN IMMEDIATE; DELETE FROM side; PRAGMA user_version = 7; COMMIT")
    late.close()
    with closing(SqliteStore(path, key=KEY)) as store:
        assert store.check() == []


def test_concurrent_key_changes_run_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Race: the second has the old file open while the first replaces it."""
    monkeypatch.setattr(encryption, "_BUSY_MS", 50)
    path = tmp_path / "a.db"
    SqliteStore(path).close()
    real = open_for_writing

    def late(path: Path, **_: Any) -> apsw.Connection:
        found = apsw.Connection(str(path))  # which has not read anything yet
        monkeypatch.setattr(encryption, "open_for_writing", real)
        change_key(path, None, KEY)
        return found

    monkeypatch.setattr(encryption, "open_for_writing", late)
    with pytest.raises(StoreBusyError):
        change_key(path, None, OTHER)
    _open_known_keys(KEY, monkeypatch)
    assert key_for(path) == KEY
    with closing(SqliteStore(path, key=KEY)) as store:
        assert store.check() == []


def test_a_full_disk_leaves_the_store_under_its_old_key(
    mount_small: Callable[[str], Path],
) -> None:
    """Fault: the disk is full in the middle of the rewrite."""
    folder = mount_small("2m")
    path = folder / "a.db"
    with closing(SqliteStore(path)) as store:
        ledger = filled(store, 300)
        there = listed(ledger)
    free = os.statvfs(folder).f_bavail * os.statvfs(folder).f_bsize
    (folder / "else").write_bytes(bytes(free - 100_000))
    before = path.read_bytes()
    with pytest.raises(StoreFullError):
        change_key(path, None, KEY)
    assert path.read_bytes()[100:] == before[100:]  # but for the mode of its journal
    assert set(files_in(folder)) == {"a.db", "else"}
    with closing(SqliteStore(path)) as store:
        assert listed(opened(store, ledger.bank, None)) == there
