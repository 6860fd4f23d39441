"""A writer who comes while a store that nobody had open is read, again and again."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pytest
from backup_kit import added, backed, current, own_bank

from satchel.backup import run
from satchel.backup.run import take_bank
from satchel.bank.open_bank import open_bank
from satchel.config.settings import Settings
from satchel.transfer.export_records import ExportOptions
from satchel.transfer.exports import export


def test_a_backup_succeeds_despite_a_concurrent_writer(
    here: Settings, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds what was there when it was read at last."""
    bank, numbers = own_bank(here), count(20_000)
    memories = len(current(here.store, bank))

    def taken(*args: Any, **said: Any) -> Any:
        found = take_bank(*args, **said)
        added(here, bank, 1, next(numbers))
        return found

    monkeypatch.setattr(run, "take_bank", taken)
    made = backed(here, where)
    monkeypatch.undo()
    assert made.verified is not None
    assert made.missing == []
    written = next(numbers) - 20_000
    assert written == 2 * made.banks  # it was read twice: without locks, and with them
    assert len(current(here.store, bank)) == memories + written


def test_an_export_succeeds_despite_a_concurrent_writer(here: Settings, tmp_path: Path) -> None:
    """And leaves nothing else beside it."""
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
