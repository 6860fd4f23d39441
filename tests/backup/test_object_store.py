"""Backups in an object store, over the real protocol."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from backup_kit import added, backed, own_bank, restored, told
from s3_kit import S3Server, s3_server

from satchel.backup.inventory import list_backups, verify_backups
from satchel.backup.prune import prune_backups
from satchel.backup.storage import open_storage
from satchel.config.settings import Settings
from satchel.errors import LimitError, PathRefusedError


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    """A real S3 server."""
    with s3_server() as found:
        yield found


def test_backups_in_an_object_store_are_restored(
    here: Settings, server: S3Server, tmp_path: Path
) -> None:
    """Made, listed, read again, pruned, and put back as it was."""
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
    """And nobody reads more than he asks for."""
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


def test_a_destination_of_an_unknown_kind_is_refused() -> None:
    """Nothing is guessed."""
    with pytest.raises(PathRefusedError):
        open_storage("ftp://there/x")
