"""Files among what is recalled, in the store in memory as in one on the disk."""

from __future__ import annotations

import pytest
from recall_kit import Remembering

from satchel.bank.changes import superseding
from satchel.crypto.sealed_records import Sealed, seal
from satchel.model.records import FileVersion, Semantic


def _version(path: str, text: str | None, number: int) -> Sealed:
    return seal(
        FileVersion(
            path=path,
            text=text,
            action="modified" if text else "deleted",
            actor="agent",
            metadata={"version": number},
        )
    )


def _write(bank: Remembering, path: str, text: str | None, old: Sealed | None = None) -> Sealed:
    """Log a version of a file that replaces the previous one."""
    new = _version(path, text, 1 if old is None else 2)
    gone = [] if old is None else [superseding(old.id, new.id, actor="agent")]
    bank.ledger.append([new, *gone])
    return new


def _paths(bank: Remembering, text: str, as_of: int | None = None) -> list[str]:
    return [hit.file.path for hit in bank.ask(text, files=True, as_of=as_of).files]


def test_recall_finds_current_and_earlier_files(bank: Remembering) -> None:
    """Changed and deleted files, next to memories; only on request."""
    bank.add(Semantic(text="Ada fears lighthouses"))
    plans = _write(bank, "user/plans.md", "First the harbour.\nThen the lighthouse.")
    gone = _write(bank, "gone.md", "the lighthouse keeper")
    then = bank.size()
    _write(bank, "user/plans.md", "First the harbour.\nThen the museum.", plans)
    _write(bank, "gone.md", None, gone)
    assert _paths(bank, "lighthouse") == []
    assert _paths(bank, "museum") == ["user/plans.md"]
    assert sorted(_paths(bank, "lighthouse", as_of=then)) == ["gone.md", "user/plans.md"]
    assert bank.texts("lighthouse", files=True) == ["Ada fears lighthouses"]
    assert bank.ask("museum").files == ()


@pytest.mark.parametrize("budget", [20, 200, 4_000])
def test_files_and_memories_share_a_budget(bank: Remembering, budget: int) -> None:
    """Neither uses the share of the other; what did not fit is counted."""
    bank.add(*(Semantic(text=f"the lighthouse of number {one}") for one in range(20)))
    for one in range(20):
        _write(bank, f"{one}.md", f"the lighthouse keeper of number {one}")
    found = bank.ask("lighthouse", files=True, budget=budget)
    assert found.tokens <= budget
    assert len(found.files) + found.files_over_budget > 0
    assert bool(found.files) is (budget > 20)
