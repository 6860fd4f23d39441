"""``export``, ``diff``, ``pull`` and ``push`` as a person uses them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from ledger_kit import memories
from transfer_kit import append, import_into, new_bank

from satchel.crypto.sealed_records import seal
from satchel.model.records import Episodic, Semantic
from tests.cli.test_manners import NASTY, RAW

if TYPE_CHECKING:
    from tests.cli.conftest import Run


@pytest.fixture
def bank(mem0: Path) -> str:
    """A bank with the memories of a file."""
    found = new_bank()
    import_into(found, mem0)
    return found


def test_a_bank_is_exported_verified_and_compared(
    satchel: Run, bank: str, mem0: Path, tmp_path: Path
) -> None:
    """The whole way round; the file is signed by one's own key, so it is good."""
    ran = satchel("export", "--output", tmp_path / "a.pam.jsonl")
    assert (ran.status, "2 memories" in ran.out, "good" in ran.out) == (0, True, True)
    assert satchel("verify", tmp_path / "a.pam.jsonl", "--deep").status == 0
    for other in (tmp_path / "a.pam.jsonl", mem0):
        ran = satchel("diff", "assistant", other)
        assert (ran.status, ran.out.startswith("no differences: 2 the same")) == (0, True)
    append(bank, [seal(Semantic(text="new"))])
    ran = satchel("diff", mem0, "assistant")
    assert (ran.status, ran.out.startswith("different: 2 the same, 0 only in A, 1 only")) == (
        1,
        True,
    )
    assert "+ " in ran.out
    assert satchel("diff", mem0, "assistant", "--limit", "0", "--json").json["only_b"] == 1


def test_loss_is_named_and_makes_the_status_1(satchel: Run, bank: str, tmp_path: Path) -> None:
    """On a dry run, for real, and refused where none is wanted."""
    append(bank, [seal(Episodic(observation="it rained"))])
    out = tmp_path / "a.mem0.json"
    for more in (["--dry-run"], []):
        ran = satchel("export", "--output", out, *more)
        assert (ran.status, "1 x episodic" in ran.err) == (1, True)
        assert out.exists() is not bool(more)
    refused = satchel("export", "--output", tmp_path / "b.mem0.json", "--fail-on-loss", "--json")
    assert (refused.status, refused.error["code"]) == (1, "transfer.loss")
    assert satchel("export", "--output", out, "--json").error["code"] == "target.exists"
    assert satchel("export", "--output", out, "--overwrite", "--type", "semantic").status == 0


def test_two_stores_are_brought_together(
    satchel: Run, bank: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Carried, the same, ahead, diverged and merged, each with its sentence and status."""
    other = tmp_path / "other.db"
    assert "would be copied" in satchel("push", other, "--dry-run").out
    assert not other.exists()
    assert "copied, 7 records" in satchel("push", other).out
    assert "the copies are the same" in satchel("push", other).out
    append(bank, memories(1))
    assert "nothing new there; 1 record only here" in satchel("pull", other).out
    monkeypatch.setenv("SATCHEL_WITNESS", str(tmp_path / "another-machine"))
    append(bank, memories(2, start=5), store=str(other))
    monkeypatch.setenv("SATCHEL_WITNESS", str(tmp_path / "satchel-witness"))
    ran = satchel("pull", other)
    assert (ran.status, "--merge" in ran.err) == (1, True)
    assert ran.out.startswith(
        "assistant: diverged at 7: 1 record only here, 2 only there; 2 of them not merged"
    )
    ran = satchel("pull", other, "--merge")
    assert (ran.status, "2 semantic" in ran.out) == (0, True)
    assert satchel("pull", other).status == 0
    assert satchel("push", other).status == 1
    assert satchel("push", other, "--merge").status == 0
    assert satchel("push", other).status == 0


def test_nothing_in_memory_drives_the_terminal(satchel: Run, tmp_path: Path) -> None:
    """Attack: escapes in a bank's name, in texts, origins and the names of files."""
    bank = new_bank(NASTY)
    append(bank, [seal(Semantic(text=NASTY, kind=NASTY))])
    odd = tmp_path / ("odd" + NASTY.replace("/", ""))
    empty = tmp_path / "list.json"
    empty.write_text('[{"id": "\\u001b[2J", "memory": "\\u001b[2J"}]')
    runs = [
        satchel("export", "--output", odd),
        satchel("export", "--output", odd),
        satchel("diff", bank, empty),
        satchel("diff", odd, empty),
        satchel("push", tmp_path / "other.db"),
        satchel("pull", os.fspath(odd)),
    ]
    assert [ran.status for ran in runs[:5]] == [0, 5, 1, 1, 0]
    assert runs[5].status > 1
    assert [ran for ran in runs if RAW.search(ran.out + ran.err)] == []
