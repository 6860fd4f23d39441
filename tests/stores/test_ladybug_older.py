"""Stores of our own that an older LadybugDB wrote: opened for ever, never without a kept copy."""

import gzip
from pathlib import Path

import ladybug
import pytest

from satchel.conformance.stores.oracle import ALL, AT, BANK, commit_of, memory
from satchel.crypto.sealed_records import seal
from satchel.errors import StoreVersionError
from satchel.ports.rows import Row, derive_row
from satchel.stores.ladybug import LadybugStore
from satchel.stores.ladybug.database import FILE, LOG

DATA = Path(__file__).parents[1] / "data" / "graphs"
VERSIONS = ("40", "41")


def unpacked(name: str, folder: Path) -> Path:
    """Return a folder with an unpacked store."""
    folder.mkdir(mode=0o700)
    for packed, file in ((f"{name}.gz", FILE), (f"{name}.wal.gz", LOG)):
        if (DATA / packed).exists():
            (folder / file).write_bytes(gzip.decompress((DATA / packed).read_bytes()))
    return folder


def rows_in(store: LadybugStore) -> list[Row]:
    """Return all rows."""
    with store.reading() as reader:
        return list(reader.scan(BANK, ALL))


@pytest.mark.parametrize("version", VERSIONS)
def test_a_store_of_an_older_engine_is_copied_opened_and_continued(
    version: str, tmp_path: Path
) -> None:
    """Records, links and words; the copy equals the old file, and opens as well."""
    folder = unpacked(f"satchel-{version}", tmp_path / "store")
    before = (folder / FILE).read_bytes()
    reader = LadybugStore(folder, read_only=True)
    rows = rows_in(reader)
    reader.close()
    assert (folder / FILE).read_bytes() == before
    assert [row.type for row in rows] == ["semantic"] * 5 + ["edge"] * 3
    store = LadybugStore(folder)
    assert rows_in(store) == rows
    with store.reading() as reading:
        assert reading.head(BANK) == commit_of(rows, 0).head
        linked = {
            (link.link.target, link.link.kind)
            for link in reading.links(BANK, [rows[0].id], incoming=False, kinds=None, limit=9)
        }
    kinds = ("similar_to", "knows", "derives_from")
    assert linked == {(rows[place].id, kind) for place, kind in enumerate(kinds, 1)}
    record = seal(memory(9))
    new = derive_row(record.model, seq=len(rows), at=AT, body=record.body)
    with store.writing() as writing:
        writing.append(BANK, commit_of([new], len(rows)))
    store.close()
    kept = folder / f"graph.storage-{version}.lbug"
    assert kept.read_bytes() == before
    assert kept.stat().st_mode & 0o777 == 0o600
    own = ladybug.Database.get_storage_version()
    assert (folder / FILE).read_bytes()[4:12] == own.to_bytes(8, "little")
    kept.rename(folder / FILE)
    again = LadybugStore(folder)
    assert rows_in(again) == rows
    again.close()


@pytest.mark.parametrize("read_only", [True, False])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_log_of_an_older_engine_is_refused_before_anything_is_changed(
    version: str,
    read_only: bool,  # noqa: FBT001 - a parameter of the test
    tmp_path: Path,
) -> None:
    """The current engine would truncate what it cannot read: the last acknowledged writes."""
    folder = unpacked(f"satchel-{version}-killed", tmp_path / "store")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(StoreVersionError, match=f"version {version}") as error:
        LadybugStore(folder, read_only=read_only)
    release = {"40": "0.15.3", "41": "0.17.1"}[version]
    assert f"ladybug=={release}" in (error.value.hint or "")
    after = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert {name: after[name] for name in before} == before
    assert set(after) <= {*before, "lock"}
