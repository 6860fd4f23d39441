"""Graph stores and PostgreSQL stores on the command line."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from postgres_kit import as_role, in_schema, run_sql

import satchel as library
from satchel import aio
from satchel.bank.connections import local_path
from satchel.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cli.conftest import Run


@pytest.fixture
def graph_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The configured store: a graph folder that does not exist yet."""
    place = f"ladybug:///{tmp_path}/graph"
    monkeypatch.setenv("SATCHEL_STORE", place)
    return place


@pytest.mark.usefixtures("graph_address")
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
    address = f"ladybug:///{str(there)[1:]}"
    assert local_path(address) == there
    assert local_path(f"ladybug:///{there}") == there
    older = Path(str(there)[1:])
    older.mkdir(parents=True)
    assert local_path(address) == older
    there.mkdir(parents=True)
    with pytest.raises(UsageError, match="is ambiguous"):
        local_path(address)
    Path("new-folder-here").mkdir()
    assert local_path("ladybug:///new-folder-here/g") == Path("new-folder-here/g")


_SECRET = "hunter2-hunter2"  # noqa: S105 - a test value


@pytest.fixture
def postgres_address(postgres: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The configured store: a new schema, with a password that the server ignores."""
    schema = f"s_{uuid.uuid4().hex}"
    place = in_schema(as_role(postgres, "postgres", _SECRET), schema)
    monkeypatch.setenv("SATCHEL_STORE", place)
    yield place
    run_sql(postgres, f"DROP SCHEMA IF EXISTS {schema} CASCADE")


@pytest.mark.usefixtures("postgres_address")
def test_memories_of_a_postgres_store_are_recalled(satchel: Run) -> None:
    """Init, remember, recall, list, forget and doctor."""
    assert satchel("bank", "list").status == 0
    assert satchel("init").status == 0
    first = satchel("remember", "the harbour opens at nine", "--user", "ada").out.strip()
    satchel("remember", "likes tea")
    assert "harbour" in satchel("recall", "when does the harbour open").out
    assert satchel("forget", first, "--reason", "over").status == 0
    assert [each["text"] for each in satchel("list", "--json").json["memories"]] == ["likes tea"]
    assert satchel("doctor", "--deep").status == 0


def test_no_command_prints_the_password_of_a_store_address(
    satchel: Run, postgres_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also for an unreachable server, and for an invalid address."""
    ran = [
        satchel("init", "--json"),
        satchel("doctor"),
        satchel("doctor", "--json"),
        satchel("config", "show"),
        satchel("stats"),
        satchel("pull", postgres_address),
    ]
    for wrong, status in (
        (f"postgresql://ada:{_SECRET}@127.0.0.1:1/x", 5),
        (f"postgres://ada:{_SECRET}@h/x", 2),
        (f"postgresql://ada:{_SECRET}@[::1/x", 2),
        (f"postgresql://ada:{_SECRET}@h/x?schema=A", 2),
    ):
        monkeypatch.setenv("SATCHEL_STORE", wrong)
        ran.append(satchel("list"))
        assert ran[-1].status == status
        ran.append(satchel("doctor"))
    for one in ran:
        assert one.out + one.err
        assert _SECRET not in one.out + one.err


def test_a_bank_is_pushed_from_a_file_to_postgres_and_back(
    satchel: Run, postgres_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same records in the same order."""
    monkeypatch.setenv("SATCHEL_STORE", str(tmp_path / "here.db"))
    satchel("init")
    for number in range(5):
        satchel("remember", f"memory {number}")
    before = satchel("list", "--json").json["memories"]
    assert len(before) == 5
    assert satchel("push", postgres_address).status == 0
    monkeypatch.setenv("SATCHEL_STORE", postgres_address)
    assert satchel("push", str(tmp_path / "back.db")).status == 0
    assert satchel("list", "--json").json["memories"] == before
    assert satchel("push", postgres_address).status == 2
    monkeypatch.setenv("SATCHEL_STORE", str(tmp_path / "back.db"))
    assert satchel("list", "--json").json["memories"] == before


def test_a_store_is_copied_and_verified(satchel: Run, tmp_path: Path) -> None:
    """To a graph and back to a file, from which a memory is recalled."""
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


def test_store_copy_refuses_a_target_with_newer_records(satchel: Run, tmp_path: Path) -> None:
    """Exit status 5 before anything is written; the hint names ``pull``."""
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


def test_python_copies_stores(satchel: Run, tmp_path: Path) -> None:
    """Synchronous and asynchronous, with progress."""
    first = tmp_path / "a.db"
    satchel("--store", first, "init", "assistant")
    seen = list[tuple[int, int]]()
    done = library.copy_store(first, tmp_path / "b.db", progress=lambda *how: seen.append(how))
    assert [one.carried for one in done.banks] == [2]
    assert seen[-1] == (4, 4)
    assert seen == sorted(seen)
    again = asyncio.run(aio.copy_store(first, tmp_path / "b.db", banks=["assistant"]))
    assert [one.relation for one in again.banks] == ["same"]
