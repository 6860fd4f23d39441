"""Recall finds what memory files say: as they are, as they were, with path, version and lines."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from transfer_kit import new_bank

from satchel import Satchel
from satchel.aio import Satchel as Awaited
from satchel.bank.open_bank import OpenBank, open_bank
from satchel.cli.main import run
from satchel.config.settings import load_settings
from satchel.errors import MemoryStoreError, ReadOnlyStoreError
from satchel.files import MemoryStore
from satchel.files.bank_files import follow_into
from satchel.model.values import TrustClass
from satchel.recall.query import Query
from satchel.recall.search import FilePassage, recall_memories

_WEATHER = "\n\n".join(f"Paragraph {one} is of the weather." for one in range(400))
_LONG = f"{_WEATHER}\n\nThe login\r\nexpires at noon.\n\n{_WEATHER}"


@pytest.fixture
def bank(any_store: str) -> Iterator[OpenBank]:
    """A bank in each kind of store."""
    with open_bank(load_settings(store=any_store), new_bank("ada"), writes=True) as opened:
        yield opened


def _found(bank: OpenBank, text: str, **more: object) -> list[FilePassage]:
    return recall_memories(bank, Query(text=text, files=True, **more)).files  # type: ignore[arg-type]  # whatever a test asks


def test_recall_finds_a_file_as_it_is_and_as_it_was(bank: OpenBank, store: MemoryStore) -> None:
    """With path, version and lines; an older version and a deleted file where one asks for then."""
    store.write_text("user/plans.md", "First the harbour.\nThen the lighthouse.", actor="me")
    store.write_text("gone.md", "the lighthouse keeper")
    follow_into(bank, store)
    with bank.ledger.reading() as view:
        then = view.head.size
    store.write_text("user/plans.md", "First the harbour.\nThen the museum.")
    store.delete("gone.md")
    follow_into(bank, store)

    assert _found(bank, "lighthouse") == []
    assert [(one.path, one.version) for one in _found(bank, "museum")] == [("user/plans.md", 2)]
    older = {one.path: one for one in _found(bank, "lighthouse", as_of=then)}
    assert set(older) == {"user/plans.md", "gone.md"}
    plans = older["user/plans.md"]
    assert (plans.version, plans.actor, plans.superseded) == (1, "me", True)
    assert (plans.first_line, plans.last_line, plans.terms) == (1, 2, ["lighthouse"])
    assert _found(bank, "museum", as_of=then) == []


def test_the_matching_passage_of_a_long_file_is_returned(
    bank: OpenBank, store: MemoryStore
) -> None:
    """Within the budget: a passage that does not fit is counted, and memories leave it a part."""
    store.write_text("long.md", _LONG)
    store.write_text("one line.md", f"{'weather ' * 2_000} login noon {'weather ' * 2_000}")
    follow_into(bank, store)
    lines = _LONG.split("\n")
    there = {one.path: one for one in _found(bank, "when does the login expire")}

    found = there["long.md"]
    assert "\n".join(lines[found.first_line - 1 : found.last_line]).replace("\r", "") == found.text
    assert found.text == "The login\nexpires at noon."
    assert len(there["one line.md"].text) < 2_000
    assert "login" in there["one line.md"].text
    small = recall_memories(bank, Query(text="login noon", files=True, budget=60))
    assert [one.path for one in small.files] == ["long.md"]
    assert (small.files_over_budget, small.tokens <= 60) == (1, True)


def test_files_are_omitted_with_filters_for_memories_only(
    bank: OpenBank, store: MemoryStore
) -> None:
    """By component, tag or owner; without words; or if one says so. An agent's word at most."""
    store.write_text("a.md", "the lighthouse")
    follow_into(bank, store)

    assert _found(bank, "lighthouse")[0].trust == "agent"
    assert _found(bank, "lighthouse", trust=TrustClass.USER) == []
    assert _found(bank, "lighthouse", user="ada") == []
    assert _found(bank, "lighthouse", components=frozenset({"semantic"})) == []
    assert _found(bank, "lighthouse", tags=frozenset({"x"})) == []
    assert _found(bank, "lighthouse", since="2999-01-01T00:00:00.000000Z") == []
    assert _found(bank, "") == []
    assert recall_memories(bank, Query(text="lighthouse")).files == []


def test_what_a_program_wrote_is_found_by_the_next_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On the command line, although nobody opened the files since; with the path in front."""
    monkeypatch.setenv("SATCHEL_HOME", str(tmp_path / "home"))
    new_bank("ada")
    with MemoryStore.get_or_create(key="ada") as store:
        store.write_text("user/notes.md", "Ada climbs lighthouses\n", actor="agent:x")
    assert run(["recall", "lighthouses", "--bank", "ada"]) == 0
    shown = capsys.readouterr().out
    assert "file user/notes.md:1-1" in shown
    assert "Ada climbs lighthouses" in shown
    assert run(["recall", "lighthouses", "--bank", "ada", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert [(one["path"], one["version"]) for one in said["files"]] == [("user/notes.md", 1)]
    assert run(["recall", "lighthouses", "--bank", "ada", "--no-files"]) == 0
    assert "lighthouses" not in capsys.readouterr().out


def test_a_bank_has_its_files(tmp_path: Path) -> None:
    """Those of its name, open with it; what is written is recalled and exported at once."""
    with Satchel.open() as satchel:
        bank = satchel.bank("ada")
        bank.files.write_text("a.md", "Ada climbs lighthouses", actor="me")
        assert bank.files is bank.files
        assert [one.path for one in bank.recall("lighthouse").files] == ["a.md"]
        assert bank.recall("lighthouse", files=False).files == []
        bank.files.write_text("a.md", "Ada climbs mountains")
        bank.export(tmp_path / "ada.pam.jsonl")
        assert "Ada climbs mountains" in (tmp_path / "ada.pam.jsonl").read_text()
        bank.files.write_text("b.md", "written last")
    with Satchel.open(read_only=True) as reading:
        bank = reading.bank("ada")
        assert [one.path for one in bank.recall("written").files] == ["b.md"]
        assert bank.files.read_text("a.md") == "Ada climbs mountains"
        with pytest.raises(ReadOnlyStoreError):
            bank.files.write_text("a.md", "x")
    with MemoryStore.get_or_create(key="ada") as same:
        assert same.read_text("a.md") == "Ada climbs mountains"


def test_a_bank_that_is_open_for_reading_makes_no_files() -> None:
    """There is nothing to read, and the error says how to begin."""
    with Satchel.open() as satchel:
        satchel.bank("ada").remember("x")
    with Satchel.open(read_only=True) as reading, pytest.raises(MemoryStoreError):
        _ = reading.bank("ada").files
    assert not MemoryStore.exists(key="ada")


def test_the_files_of_a_bank_can_be_awaited() -> None:
    """The same store, whose calls have forms to be awaited."""

    async def story() -> list[str]:
        async with Awaited.open() as satchel:
            bank = await satchel.bank("ada")
            files = await bank.files.open()
            await files.write_text.aio("a.md", "Ada climbs lighthouses")
            return [one.path for one in (await bank.recall("lighthouses")).files]

    assert asyncio.run(story()) == ["a.md"]
