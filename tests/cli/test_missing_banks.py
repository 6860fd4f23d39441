"""A store that vanished is missed, by the home it was in alone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import apsw
import pytest
from at_rest_kit import key_of
from postgres_kit import run_sql

from satchel.api.store import Satchel
from satchel.bank.connections import witness_of
from satchel.config.settings import load_settings
from satchel.errors import RolledBackError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cli.conftest import Run

READING = (
    ("list",),
    ("recall", "wombat"),
    ("rehydrate", "--task", "wombat"),
    ("stats",),
    ("bank", "list"),
    ("export", "--output", "out.pam.jsonl"),
)
WRITING = (
    ("remember", "another one"),
    ("init",),
    ("bank", "create", "assistant"),
)


def _vanish(path: Path) -> None:
    for file in path.parent.glob(f"{path.name}*"):
        if not file.name.endswith(".key"):
            file.unlink()


def _empty(path: Path) -> None:
    _vanish(path)
    path.touch()


def _fresh(path: Path) -> None:
    """Put tables in its place that hold nothing."""
    from satchel.stores.sqlite import SqliteStore

    _vanish(path)
    SqliteStore(path, key=key_of(path)).close()


WAYS: dict[str, Callable[[Path], None]] = {"gone": _vanish, "empty": _empty, "fresh": _fresh}


def _store() -> Path:
    return Path(load_settings().store.removeprefix("sqlite:///"))


def _remembered(satchel: Run) -> str:
    assert satchel("init", "assistant").status == 0
    assert satchel("remember", "the wombat sleeps").status == 0
    (bank,) = satchel("bank", "list", "--json").json["banks"]
    return str(bank["id"])


@pytest.mark.parametrize("command", [*READING, *WRITING], ids=" ".join)
@pytest.mark.parametrize("way", WAYS)
def test_a_store_that_vanished_is_not_answered_with_an_empty_one(
    satchel: Run, way: str, command: tuple[str, ...]
) -> None:
    """SEAL-5.25: refused, the bank and the store named, what to do said."""
    bank = _remembered(satchel)
    path = _store()
    WAYS[way](path)
    ran = satchel(*command)
    assert ran.status == 3, ran.out + ran.err
    for said in (bank, "assistant", str(path), "satchel backup restore", "accept-gone"):
        assert said in ran.err.replace("\n", ""), ran.err
    if way == "gone":
        assert not path.exists()


TAKING = (
    ("backup", "run", "--destination", "backups", "--unencrypted"),
    ("job", "list"),
    ("import", "new.json", "--dry-run"),
    ("push", "sqlite:///elsewhere.db", "--dry-run"),
    ("pull", "sqlite:///other.db", "--dry-run"),
    ("sink", "run", "parquet:///sink"),
    ("file", "ls"),
    ("receipt", "show", "blake3:0123456789"),
    ("diff", "assistant", "new.json"),
    ("key", "retire", "writer"),
)


@pytest.mark.parametrize("command", TAKING, ids=" ".join)
@pytest.mark.parametrize("way", ["gone", "fresh"])
def test_no_command_that_needs_the_banks_takes_a_vanished_store_for_a_new_one(
    satchel: Run,
    way: str,
    command: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each has its own answer for a machine that never had a store, which is not this one's."""
    monkeypatch.chdir(tmp_path)
    assert satchel("--store", "sqlite:///other.db", "init", "other").status == 0
    bank = _remembered(satchel)
    Path("new.json").write_text('[{"id": "1", "memory": "a new one"}]')
    WAYS[way](_store())
    ran = satchel(*command)
    assert (ran.status, bank in ran.err.replace("\n", "")) == (3, True), ran.out + ran.err


@pytest.mark.parametrize("way", WAYS)
def test_a_backup_of_files_does_not_pass_for_one_of_banks_that_vanished(
    satchel: Run, way: str, tmp_path: Path
) -> None:
    """It used to back up the files alone, say so with exit 0, and let the next expire the rest."""
    _remembered(satchel)
    assert satchel("file", "write", "notes.md", "a wombat").status == 0
    to = ("--destination", str(tmp_path / "backups"), "--unencrypted", "--files")
    assert satchel("backup", "run", *to).status == 0
    WAYS[way](_store())
    ran = satchel("backup", "run", *to)
    assert (ran.status, "assistant" in ran.err) == (3, True), ran.out + ran.err
    assert len(satchel("backup", "list", *to[:2], "--json").json) == 1


@pytest.mark.parametrize("way", WAYS)
def test_what_reads_elsewhere_works_where_the_store_vanished(
    satchel: Run, way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two files are compared, and ``doctor --repair`` reports the store."""
    monkeypatch.chdir(tmp_path)
    bank = _remembered(satchel)
    for name in ("one.json", "two.json"):
        Path(name).write_text('[{"id": "1", "memory": "a wombat"}]')
    WAYS[way](_store())
    ran = satchel("doctor", "--repair", "--json")
    (found,) = [one for one in ran.json["checks"] if one["name"] == bank]
    assert (ran.status, found["state"]) == (1, "problem")
    if way == "gone":
        assert satchel("diff", "one.json", "two.json").status == 0


@pytest.mark.parametrize("way", WAYS)
def test_doctor_says_that_a_store_vanished(satchel: Run, way: str) -> None:
    """Exit 1, and the bank is named with what to do."""
    bank = _remembered(satchel)
    WAYS[way](_store())
    ran = satchel("doctor", "--json")
    (found,) = [one for one in ran.json["checks"] if one["name"] == bank]
    assert (ran.status, found["state"]) == (1, "problem")
    assert "assistant" in found["detail"]
    assert "accept-gone" in found["hint"]


def test_a_bank_that_vanished_from_a_store_with_others_is_reported_missing(satchel: Run) -> None:
    """Exit 3: the others are listed, and the missing one is not hidden among them."""
    bank = _remembered(satchel)
    assert satchel("bank", "create", "other").status == 0
    connection = apsw.Connection(str(_store()))
    connection.execute("DELETE FROM bank WHERE id = ?", (bank,))
    connection.close()
    ran = satchel("bank", "list", "--json")
    found = {one["name"]: one for one in ran.json["banks"]}
    assert ran.status == 3
    assert found["assistant"]["id"] == bank
    assert "missing from the store" in found["assistant"]["problem"]
    assert "problem" not in found["other"]
    shown = satchel("bank", "list")
    assert (shown.status, "assistant: seen earlier by this machine, and missing" in shown.err) == (
        3,
        True,
    )
    assert satchel("bank", "accept-gone", bank).status == 0
    assert satchel("bank", "list").status == 0


@pytest.mark.parametrize("way", WAYS)
def test_python_makes_no_empty_bank_in_its_place(satchel: Run, way: str) -> None:
    """``Satchel.open().bank(..)``, for reading and for writing."""
    _remembered(satchel)
    WAYS[way](_store())
    for read_only in (True, False):
        with (
            pytest.raises(RolledBackError, match="assistant"),
            Satchel.open(read_only=read_only) as opened,
        ):
            opened.bank("assistant")


def test_an_encrypted_store_that_vanished_is_missed_too(satchel: Run) -> None:
    """Its key file is still there."""
    bank = _remembered(satchel)
    assert satchel("key", "identity", "create", "mine").status == 0
    assert satchel("store", "encrypt", "--encrypt-to", "mine").status == 0
    assert satchel("list").status == 0
    _vanish(_store())
    for command in (("list",), ("remember", "x")):
        ran = satchel(*command)
        assert (ran.status, bank in ran.err.replace("\n", "")) == (3, True)
    assert not _store().exists()


def test_doctor_says_that_the_key_of_an_encrypted_store_is_missing(satchel: Run) -> None:
    """It used to say that the store is in plain."""
    _remembered(satchel)
    assert satchel("key", "identity", "create", "mine").status == 0
    assert satchel("store", "encrypt", "--encrypt-to", "mine").status == 0
    key = _store().with_name(f"{_store().name}.key")
    key.rename(key.with_suffix(".away"))
    (found,) = [
        one
        for one in satchel("doctor", "--json").json["checks"]
        if one["name"] == "encryption at rest"
    ]
    assert found["state"] == "problem"
    assert "its key file is missing" in found["detail"]
    assert key.name in found["hint"]


def test_a_graph_with_a_deleted_folder_is_reported_missing(satchel: Run, tmp_path: Path) -> None:
    """LadybugDB."""
    folder = tmp_path / "graph"
    store = ("--store", f"ladybug:///{folder}")
    assert satchel(*store, "init", "assistant").status == 0
    assert satchel(*store, "remember", "the wombat sleeps").status == 0
    shutil.rmtree(folder)
    for command in (("list",), ("remember", "x"), ("recall", "wombat")):
        ran = satchel(*store, *command)
        assert (ran.status, "assistant" in ran.err) == (3, True), ran.err
    assert satchel(*store, "doctor").status == 1


def test_a_database_that_was_emptied_is_missed(satchel: Run, postgres: str) -> None:
    """PostgreSQL: its schema was dropped."""
    mark = "&" if "?" in postgres else "?"
    store = ("--store", f"{postgres}{mark}schema=gone")
    assert satchel(*store, "init", "assistant").status == 0
    assert satchel(*store, "remember", "the wombat sleeps").status == 0
    run_sql(postgres, "DROP SCHEMA gone CASCADE")
    for command in (("list",), ("remember", "x"), ("recall", "wombat")):
        ran = satchel(*store, *command)
        assert (ran.status, "assistant" in ran.err) == (3, True), ran.err
    assert satchel(*store, "doctor").status == 1


def test_a_bank_in_the_place_of_a_missing_one_is_not_taken_for_it(
    satchel: Run, tmp_path: Path
) -> None:
    """A store with a bank of the same name, from elsewhere."""
    bank = _remembered(satchel)
    other = ("--store", str(tmp_path / "other.db"))
    assert satchel(*other, "init", "assistant").status == 0
    _vanish(_store())
    for file in tmp_path.glob("other.db*"):
        shutil.copy(file, _store().with_name(file.name.replace("other.db", _store().name)))
    for command in (("list",), ("list", "--bank", "assistant"), ("remember", "x")):
        ran = satchel(*command)
        assert (ran.status, bank in ran.err.replace("\n", "")) == (3, True), ran.err


def test_one_bank_that_was_taken_out_is_not_made_again_by_its_name(satchel: Run) -> None:
    """The others of the store are read as before."""
    bank = _remembered(satchel)
    assert satchel("bank", "create", "other").status == 0
    connection = apsw.Connection(str(_store()))
    connection.execute("DELETE FROM bank WHERE id = ?", (bank,))
    connection.close()
    assert satchel("list", "--bank", "other").status == 0
    for command in (
        ("bank", "create", "assistant"),
        ("list", "--bank", "assistant"),
        ("list", "--bank", bank),
        ("list",),
    ):
        ran = satchel(*command)
        assert (ran.status, bank in ran.err.replace("\n", "")) == (3, True), ran.err


@pytest.mark.parametrize("which", ["one", "all"])
def test_a_missing_bank_can_be_accepted(satchel: Run, which: str) -> None:
    """Then the home begins anew; accepting makes no store."""
    bank = _remembered(satchel)
    _vanish(_store())
    assert satchel("bank", "accept-gone", "--all" if which == "all" else bank).status == 0
    assert not _store().exists()
    assert satchel("doctor").status == 0
    assert satchel("remember", "a new beginning").status == 0
    assert "a new beginning" in satchel("list").out


def test_another_home_misses_nothing(
    satchel: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One user's witness, two homes; neither does another store of the same home."""
    _remembered(satchel)
    assert satchel("--store", str(tmp_path / "other.db"), "doctor").status == 0
    monkeypatch.setenv("SATCHEL_HOME", str(tmp_path / "second"))
    assert satchel("init").status == 0
    ran = satchel("doctor")
    assert (ran.status, "accept-gone" in ran.out + ran.err) == (0, False)


def test_a_home_that_moved_keeps_its_protection(
    satchel: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At its new place it is missed once it was used there; a rollback is refused at once."""
    bank = _remembered(satchel)
    old = shutil.copy(_store(), tmp_path / "old.db")
    assert satchel("remember", "second").status == 0
    home = load_settings().home
    shutil.move(home, tmp_path / "moved")
    monkeypatch.setenv("SATCHEL_HOME", str(tmp_path / "moved"))
    assert satchel("list").status == 0
    _vanish(_store())
    assert bank in satchel("list").err.replace("\n", "")
    shutil.copy(old, _store())
    assert "saw 4" in satchel("list").err or satchel("list").status == 3


def test_a_copied_home_keeps_the_protection_of_the_first(
    satchel: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Accepting that the copy is gone forgets no head: an old state of the first is refused."""
    bank = _remembered(satchel)
    first, old = load_settings().home, shutil.copy(_store(), tmp_path / "old.db")
    assert satchel("remember", "second").status == 0
    shutil.copytree(first, tmp_path / "copy")
    monkeypatch.setenv("SATCHEL_HOME", str(tmp_path / "copy"))
    assert satchel("list").status == 0
    _vanish(_store())
    assert satchel("bank", "accept-gone", bank).status == 0
    monkeypatch.setenv("SATCHEL_HOME", str(first))
    assert satchel("list").status == 0
    _vanish(_store())
    shutil.copy(old, _store())
    assert satchel("list").status == 3


def test_what_an_earlier_version_witnessed_is_missed_by_its_own_home(
    satchel: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It noted no store. The key that signed the last head tells whose bank it is."""
    bank = _remembered(satchel)
    stores = witness_of(load_settings()).here
    assert stores is not None
    shutil.rmtree(stores.parent)
    _vanish(_store())
    assert bank in satchel("list").err.replace("\n", "")
    assert json.dumps(bank) in satchel("doctor", "--json").out
    monkeypatch.setenv("SATCHEL_HOME", str(tmp_path / "second"))
    assert satchel("init").status == 0
    assert satchel("doctor").status == 0
