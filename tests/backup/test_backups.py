"""Backups of whole stores: taken, read again, and put back as they were."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from whole_store_kit import everything, filled

from satchel.actions.backing_up.restoring import RestoreOptions, restore_backup
from satchel.actions.backing_up.running import BackupOptions, run_backup
from satchel.actions.config import Settings, load_settings
from satchel.actions.wiring import opened_store

HOME, WITNESS = "satchel-home", "satchel-witness"


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store that has something of everything in it, its keys and its witness."""
    folder = tmp_path_factory.mktemp("kept")
    environment = {"SATCHEL_WITNESS": str(folder / WITNESS), "SATCHEL_CONFIG": ""}
    settings = load_settings(
        home=folder / HOME, store=str(folder / "here.db"), environment=environment
    )
    filled(settings, entries=60, edges=30)
    return folder


@pytest.fixture
def here(kept: Path, tmp_path: Path) -> Settings:
    """That store, on a machine of one's own."""
    shutil.copytree(kept, tmp_path, dirs_exist_ok=True)
    return load_settings(store=str(tmp_path / "here.db"))


def test_what_was_backed_up_is_put_back_as_it_was(here: Settings, tmp_path: Path) -> None:
    """Rows, columns, heads, nodes, words, links, vectors, blobs and unlogged values."""
    where = str(tmp_path / "backups")
    run = run_backup(here, BackupOptions(to=(where,)))
    assert run.exit_status == 0, run
    restore_backup(here, RestoreOptions(source=where, into=str(tmp_path / "new.db")))
    with opened_store(here, read_only=True) as store, store.reading() as reader:
        expected = everything(reader)
    with opened_store(load_settings(store=str(tmp_path / "new.db"))) as store, store.reading() as r:
        assert everything(r) == expected
