"""Banks that this home has seen and that its store lacks are reported as missing."""

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


def _delete(path: Path) -> None:
    for file in path.parent.glob(f"{path.name}*"):
        if not file.name.endswith(".key"):
            file.unlink()


def _empty(path: Path) -> None:
    _delete(path)
    path.touch()


def _recreate(path: Path) -> None:
    """Replace the store by one without banks."""
    from satchel.stores.sqlite import SqliteStore

    _delete(path)
    SqliteStore(path, key=key_of(path)).close()


LOSSES: dict[str, Callable[[Path], None]] = {"gone": _delete, "empty": _empty, "fresh": _recreate}


def _store() -> Path:
    return Path(load_settings().store.removeprefix("sqlite:///"))


def _bank_with_memory(satchel: Run) -> str:
    assert satchel("init", "assistant").status == 0
    assert satchel("remember", "the wombat sleeps").status == 0
    (bank,) = satchel("bank", "list", "--json").json["banks"]
    return str(bank["id"])


@pytest.mark.in_check(9)
@pytest.mark.parametrize("command", [*READING, *WRITING], ids=" ".join)
@pytest.mark.parametrize("loss", LOSSES)
def test_commands_refuse_a_store_that_lost_its_banks(
    satchel: Run, loss: str, command: tuple[str, ...]
) -> None:
    """SEAL-5.25: the error names the bank, the store and the next commands."""
    bank = _bank_with_memory(satchel)
    path = _store()
    LOSSES[loss](path)
    ran = satchel(*command)
    assert ran.status == 3, ran.out + ran.err
    for said in (bank, "assistant", str(path), "satchel backup restore", "accept-gone"):
        assert said in ran.err.replace("\n", ""), ran.err
    if loss == "gone":
        assert not path.exists()


OTHER_COMMANDS = (
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


@pytest.mark.in_check(7)
@pytest.mark.parametrize("command", OTHER_COMMANDS, ids=" ".join)
@pytest.mark.parametrize("loss", ["gone", "fresh"])
def test_other_commands_do_not_treat_a_lost_store_as_a_new_one(
    satchel: Run,
    loss: str,
    command: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each has another result on a machine that never had a store."""
    monkeypatch.chdir(tmp_path)
    assert satchel("--store", "sqlite:///other.db", "init", "other").status == 0
    bank = _bank_with_memory(satchel)
    Path("new.json").write_text('[{"id": "1", "memory": "a new one"}]')
    LOSSES[loss](_store())
    ran = satchel(*command)
    assert (ran.status, bank in ran.err.replace("\n", "")) == (3, True), ran.out + ran.err


@pytest.mark.parametrize("loss", LOSSES)
def test_a_backup_with_files_fails_when_the_banks_are_missing(
    satchel: Run, loss: str, tmp_path: Path
) -> None:
    """It used to back up only the files, with status 0, until retention expired the rest."""
    _bank_with_memory(satchel)
    assert satchel("file", "write", "notes.md", "a wombat").status == 0
    to = ("--destination", str(tmp_path / "backups"), "--unencrypted", "--files")
    assert satchel("backup", "run", *to).status == 0
    LOSSES[loss](_store())
    ran = satchel("backup", "run", *to)
    assert (ran.status, "assistant" in ran.err) == (3, True), ran.out + ran.err
    assert len(satchel("backup", "list", *to[:2], "--json").json) == 1


@pytest.mark.parametrize("loss", LOSSES)
def test_commands_that_need_no_store_work_without_it(
    satchel: Run, loss: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``diff`` of two files, and ``doctor --repair``, which reports the store."""
    monkeypatch.chdir(tmp_path)
    bank = _bank_with_memory(satchel)
    for name in ("one.json", "two.json"):
        Path(name).write_text('[{"id": "1", "memory": "a wombat"}]')
    LOSSES[loss](_store())
    ran = satchel("doctor", "--repair", "--json")
    (found,) = [one for one in ran.json["checks"] if one["name"] == bank]
    assert (ran.status, found["state"]) == (1, "problem")
    if loss == "gone":
        assert satchel("diff", "one.json", "two.json").status == 0


@pytest.mark.parametrize("loss", LOSSES)
def test_doctor_reports_the_banks_of_a_lost_store(satchel: Run, loss: str) -> None:
    """Exit status 1; the hint names ``accept-gone``."""
    bank = _bank_with_memory(satchel)
    LOSSES[loss](_store())
    ran = satchel("doctor", "--json")
    (found,) = [one for one in ran.json["checks"] if one["name"] == bank]
    assert (ran.status, found["state"]) == (1, "problem")
    assert "assistant" in found["detail"]
    assert "accept-gone" in found["hint"]


def test_bank_list_reports_a_bank_missing_from_the_store(satchel: Run) -> None:
    """Exit status 3; the others are listed without a problem."""
    bank = _bank_with_memory(satchel)
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


@pytest.mark.parametrize("loss", LOSSES)
def test_python_does_not_create_a_bank_in_place_of_a_missing_one(satchel: Run, loss: str) -> None:
    """Neither read-only nor writable."""
    _bank_with_memory(satchel)
    LOSSES[loss](_store())
    for read_only in (True, False):
        with (
            pytest.raises(RolledBackError, match="assistant"),
            Satchel.open(read_only=read_only) as opened,
        ):
            opened.bank("assistant")


def test_a_lost_encrypted_store_is_reported_missing(satchel: Run) -> None:
    """Its key file still exists."""
    bank = _bank_with_memory(satchel)
    assert satchel("key", "identity", "create", "mine").status == 0
    assert satchel("store", "encrypt", "--encrypt-to", "mine").status == 0
    assert satchel("list").status == 0
    _delete(_store())
    for command in (("list",), ("remember", "x")):
        ran = satchel(*command)
        assert (ran.status, bank in ran.err.replace("\n", "")) == (3, True)
    assert not _store().exists()


def test_doctor_reports_a_missing_store_key(satchel: Run) -> None:
    """It used to report the store as plain."""
    _bank_with_memory(satchel)
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


def test_a_dropped_postgres_schema_is_reported_missing(satchel: Run, postgres: str) -> None:
    """Reads and writes are refused, and ``doctor`` reports it."""
    mark = "&" if "?" in postgres else "?"
    store = ("--store", f"{postgres}{mark}schema=gone")
    assert satchel(*store, "init", "assistant").status == 0
    assert satchel(*store, "remember", "the wombat sleeps").status == 0
    run_sql(postgres, "DROP SCHEMA gone CASCADE")
    for command in (("list",), ("remember", "x"), ("recall", "wombat")):
        ran = satchel(*store, *command)
        assert (ran.status, "assistant" in ran.err) == (3, True), ran.err
    assert satchel(*store, "doctor").status == 1


def test_a_bank_of_the_same_name_does_not_replace_a_missing_one(
    satchel: Run, tmp_path: Path
) -> None:
    """Another store with a bank of that name was copied over it."""
    bank = _bank_with_memory(satchel)
    other = ("--store", str(tmp_path / "other.db"))
    assert satchel(*other, "init", "assistant").status == 0
    _delete(_store())
    for file in tmp_path.glob("other.db*"):
        shutil.copy(file, _store().with_name(file.name.replace("other.db", _store().name)))
    for command in (("list",), ("list", "--bank", "assistant"), ("remember", "x")):
        ran = satchel(*command)
        assert (ran.status, bank in ran.err.replace("\n", "")) == (3, True), ran.err


def test_a_removed_bank_is_not_created_again_under_its_name(satchel: Run) -> None:
    """Other banks of the store are readable."""
    bank = _bank_with_memory(satchel)
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
def test_accept_gone_accepts_a_missing_bank(satchel: Run, which: str) -> None:
    """The home then starts without it; accepting creates no store."""
    bank = _bank_with_memory(satchel)
    _delete(_store())
    assert satchel("bank", "accept-gone", "--all" if which == "all" else bank).status == 0
    assert not _store().exists()
    assert satchel("doctor").status == 0
    assert satchel("remember", "a new beginning").status == 0
    assert "a new beginning" in satchel("list").out


def test_another_home_or_store_reports_no_missing_bank(
    satchel: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Homes of one user share the witness."""
    _bank_with_memory(satchel)
    assert satchel("--store", str(tmp_path / "other.db"), "doctor").status == 0
    monkeypatch.setenv("SATCHEL_HOME", str(tmp_path / "second"))
    assert satchel("init").status == 0
    ran = satchel("doctor")
    assert (ran.status, "accept-gone" in ran.out + ran.err) == (0, False)


def test_a_moved_home_reports_missing_and_rolled_back_banks(
    satchel: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bank is missing only after the moved home used it; a rollback is refused at once."""
    bank = _bank_with_memory(satchel)
    old = shutil.copy(_store(), tmp_path / "old.db")
    assert satchel("remember", "second").status == 0
    home = load_settings().home
    shutil.move(home, tmp_path / "moved")
    monkeypatch.setenv("SATCHEL_HOME", str(tmp_path / "moved"))
    assert satchel("list").status == 0
    _delete(_store())
    assert bank in satchel("list").err.replace("\n", "")
    shutil.copy(old, _store())
    assert "saw 4" in satchel("list").err or satchel("list").status == 3


def test_accepting_a_loss_in_a_copied_home_does_not_affect_the_original(
    satchel: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No head is forgotten: an older state of the original is still refused."""
    bank = _bank_with_memory(satchel)
    first, old = load_settings().home, shutil.copy(_store(), tmp_path / "old.db")
    assert satchel("remember", "second").status == 0
    shutil.copytree(first, tmp_path / "copy")
    monkeypatch.setenv("SATCHEL_HOME", str(tmp_path / "copy"))
    assert satchel("list").status == 0
    _delete(_store())
    assert satchel("bank", "accept-gone", bank).status == 0
    monkeypatch.setenv("SATCHEL_HOME", str(first))
    assert satchel("list").status == 0
    _delete(_store())
    shutil.copy(old, _store())
    assert satchel("list").status == 3


def test_witness_entries_of_earlier_versions_belong_to_the_signing_home(
    satchel: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They name no store; the key of the last head identifies the home."""
    bank = _bank_with_memory(satchel)
    stores = witness_of(load_settings()).here
    assert stores is not None
    shutil.rmtree(stores.parent)
    _delete(_store())
    assert bank in satchel("list").err.replace("\n", "")
    assert json.dumps(bank) in satchel("doctor", "--json").out
    monkeypatch.setenv("SATCHEL_HOME", str(tmp_path / "second"))
    assert satchel("init").status == 0
    assert satchel("doctor").status == 0
