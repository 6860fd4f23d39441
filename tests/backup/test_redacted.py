"""Backups of banks in which memories are redacted: their forms come back, and nothing else."""

from contextlib import closing
from pathlib import Path

import pytest
from backup_kit import backed, cataloged, files_in, logged, own_bank, restored

from satchel.backup.manifests import BankIndex, read_index
from satchel.backup.storage import FolderStorage, Packs
from satchel.bank.connections import configured_store, open_store
from satchel.bank.open_bank import open_bank
from satchel.config.settings import Settings
from satchel.crypto.sealed_records import seal
from satchel.erasure.redaction import redact
from satchel.erasure.selection import RedactOptions
from satchel.errors import UsageError
from satchel.model.records import Semantic
from satchel.model.values import now

PERSONAL = "ada@analytical.example"


def _redacted(here: Settings, bank: str, identity: str) -> None:
    with open_bank(here, bank, writes=True) as opened:
        assert redact.run(opened, RedactOptions(ids=(identity,))).redacted


def _body(store: str, bank: str, identity: str) -> bytes:
    with closing(open_store(store, read_only=True)) as found, found.reading() as reader:
        (row,) = reader.get(bank, [identity])
    return row.body or b""


@pytest.mark.parametrize("earlier", [0, 1], ids=["after", "before-and-after"])
def test_a_bank_with_redacted_memories_is_backed_up_and_restored(
    here: Settings, where: str, tmp_path: Path, earlier: int
) -> None:
    """As its form, also where an earlier backup had it whole; what is new has no secret."""
    bank = own_bank(here)
    record = seal(Semantic(text=f"write to {PERSONAL}"))
    logged(here, bank, [record])
    for _ in range(earlier):
        backed(here, where)
    _redacted(here, bank, record.id)
    last = backed(here, where)
    target = tmp_path / "new" / "new.db"
    target.parent.mkdir()
    restored(here, where, str(target), backup=last.id)
    assert b"[REDACTED:email:1]" in _body(str(target), bank, record.id)
    assert PERSONAL.encode() not in b"".join(files_in(target.parent).values())
    newest = max(cataloged(where), key=lambda one: one.manifest.at)
    shelf = FolderStorage(Path(where))
    packs = Packs(shelf, newest.manifest.series)
    named = [
        packs.get(ref)
        for part in newest.manifest.banks
        for ref in read_index(packs, part.index, BankIndex).refs()
    ]
    shelf.close()
    assert PERSONAL.encode() not in b"".join(named)


def test_a_moment_before_a_redaction_is_refused_where_only_the_form_is_left(
    here: Settings, where: str, tmp_path: Path
) -> None:
    """A form without the record that allows it could not be told from a changed memory."""
    bank = own_bank(here)
    record = seal(Semantic(text=f"write to {PERSONAL}"))
    logged(here, bank, [record])
    moment = now()
    _redacted(here, bank, record.id)
    backed(here, where)
    with pytest.raises(UsageError, match="redacted after that time") as caught:
        restored(here, where, str(tmp_path / "then.db"), at=moment)
    assert "after the redaction" in (caught.value.hint or "")
    assert not (tmp_path / "then.db").exists()
    with configured_store(here) as store, store.reading() as reader:
        assert reader.get(bank, [record.id])
