"""Graph stores and PostgreSQL stores on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from satchel.bank.connections import local_path
from satchel.errors import UsageError

if TYPE_CHECKING:
    from tests.cli.conftest import Run


@pytest.fixture
def graph_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The configured store: a graph folder that does not exist yet."""
    place = f"ladybug:///{tmp_path}/graph"
    monkeypatch.setenv("SATCHEL_STORE", place)
    return place


def test_memories_of_a_graph_store_are_recalled(satchel: Run, tmp_path: Path) -> None:
    """Remember, recall, correct, forget and doctor; files are readable by the owner only."""
    first = satchel("remember", "the harbour opens at nine", "--user", "ada").out.strip()
    satchel("correct", first, "the harbour opens at ten")
    last = satchel("remember", "likes tea").out.strip()
    assert "at ten" in satchel("recall", "when does the harbour open").out
    assert satchel("forget", last).status == 0
    said = [each["text"] for each in satchel("list", "--json").json["memories"]]
    assert said == ["the harbour opens at ten"]
    assert satchel("doctor", "--deep").status == 0
    assert {path.stat().st_mode & 0o077 for path in (tmp_path / "graph").rglob("*")} == {0}


def test_the_printed_graph_address_can_be_used_again(satchel: Run, graph_address: str) -> None:
    """With all slashes. Of an address of unknown scheme, only the scheme is shown."""
    satchel("init")
    assert graph_address in satchel("doctor").out
    refused = satchel("--store", "graph:///x", "list").err
    assert "not a store address: graph://\n" in refused


def test_a_bank_is_pushed_from_a_graph_to_a_file_and_back(
    satchel: Run, graph_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same records in the same order."""
    satchel("init")
    for number in range(5):
        satchel("remember", f"memory {number}")
    before = satchel("list", "--json").json["memories"]
    assert satchel("push", str(tmp_path / "there.db")).status == 0
    monkeypatch.setenv("SATCHEL_STORE", str(tmp_path / "there.db"))
    assert satchel("list", "--json").json["memories"] == before
    assert satchel("push", f"ladybug:///{tmp_path}/other").status == 0
    monkeypatch.setenv("SATCHEL_STORE", f"ladybug:///{tmp_path}/other")
    assert satchel("list", "--json").json["memories"] == before
    assert satchel("doctor", "--deep").status == 0
    assert "the copies are the same" in satchel("push", graph_address).out


def test_a_graph_path_after_three_slashes_is_absolute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bare name is relative. A relative path of earlier versions is still found."""
    monkeypatch.chdir(tmp_path)
    assert local_path("ladybug:///memories.graph") == Path("memories.graph")
    there = tmp_path / "x" / "graph"
    graph_address = f"ladybug:///{str(there)[1:]}"
    assert local_path(graph_address) == there
    assert local_path(f"ladybug:///{there}") == there
    older = Path(str(there)[1:])
    older.mkdir(parents=True)
    assert local_path(graph_address) == older
    there.mkdir(parents=True)
    with pytest.raises(UsageError, match="is ambiguous"):
        local_path(graph_address)
    Path("new-folder-here").mkdir()
    assert local_path("ladybug:///new-folder-here/g") == Path("new-folder-here/g")
