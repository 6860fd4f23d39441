"""``satchel store copy``, and the same from Python."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import satchel as library
from satchel import aio

if TYPE_CHECKING:
    from tests.cli.conftest import Run


def test_a_store_is_copied_compared_and_used_from_there(satchel: Run, tmp_path: Path) -> None:
    """To a graph and on to a file: what was remembered is recalled from the last."""
    first, graph = tmp_path / "a.db", f"ladybug:///{tmp_path / 'b'}"
    satchel("--store", first, "init", "assistant")
    assert satchel("--store", first, "remember", "likes green tea").status == 0
    would = satchel("store", "copy", first, graph, "--dry-run")
    assert "3 records, 3 to copy" in would.out
    assert not (tmp_path / "b").exists()
    ran = satchel("store", "copy", first, graph)
    assert ran.status == 0
    assert "assistant: 3 records, 3 copied now; all read again, the same" in ran.out
    assert "receipt: satchel receipt show" in ran.err
    again = satchel("store", "copy", first, graph)
    assert "the same before and now" in again.out
    last = tmp_path / "c.db"
    found = satchel("store", "copy", graph, last, "--bank", "assistant", "--json").json
    (bank,) = found["banks"]
    assert (bank["relation"], bank["carried"], bank["size"]) == ("new", 3, 3)
    receipt = satchel("receipt", "show", bank["receipt"])
    assert "RECEIPT OF A COPY OF A STORE" in receipt.out
    assert satchel("receipt", "verify", bank["receipt"]).status == 0
    assert "likes green tea" in satchel("--store", last, "recall", "tea").out
    assert satchel("--store", last, "remember", "and black").status == 0


def test_a_bank_with_new_records_there_is_refused(satchel: Run, tmp_path: Path) -> None:
    """Status 5 before anything is written, and what to do."""
    first, other = tmp_path / "a.db", tmp_path / "b.db"
    satchel("--store", first, "init", "assistant")
    satchel("store", "copy", first, other)
    satchel("--store", other, "remember", "only there")
    before = other.read_bytes()
    ran = satchel("store", "copy", first, other)
    assert ran.status == 5
    assert "1 records that are missing here" in ran.err
    assert "satchel pull" in ran.err
    assert other.read_bytes() == before


def test_python_has_the_same(satchel: Run, tmp_path: Path) -> None:
    """Plain and awaited, with the progress of both."""
    first = tmp_path / "a.db"
    satchel("--store", first, "init", "assistant")
    seen = list[tuple[int, int]]()
    done = library.copy_store(first, tmp_path / "b.db", progress=lambda *how: seen.append(how))
    assert [one.carried for one in done.banks] == [2]
    assert seen[-1] == (4, 4)
    assert seen == sorted(seen)
    again = asyncio.run(aio.copy_store(first, tmp_path / "b.db", banks=["assistant"]))
    assert [one.relation for one in again.banks] == ["same"]
