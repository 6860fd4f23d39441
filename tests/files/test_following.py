"""Memory files in the log of the bank of their name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from transfer_kit import new_bank

from satchel.actions.config import Settings, load_settings
from satchel.actions.filing.following import compare, follow_into
from satchel.actions.filing.opened import opened_files
from satchel.actions.opened import OpenBank, opened_bank
from satchel.files import MemoryStore
from satchel.memory.records import FileVersion
from satchel.ports.rows import Filter

_FILES = Filter(types=frozenset({"file_version"}))


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A home with a bank called ``ada``."""
    monkeypatch.setenv("SATCHEL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SATCHEL_WITNESS", str(tmp_path / "witness"))
    found = load_settings()
    new_bank("ada")
    return found


@pytest.fixture
def bank(settings: Settings) -> Iterator[OpenBank]:
    """That bank, open."""
    with opened_bank(settings, "ada", writes=True) as opened:
        yield opened


def _current(bank: OpenBank) -> dict[str, FileVersion]:
    with bank.ledger.reading() as view:
        found = [one.model for one in view.newest(_FILES)]
    return {one.path: one for one in found if isinstance(one, FileVersion)}


def test_each_version_is_in_the_log_and_the_newest_is_current(
    bank: OpenBank, store: MemoryStore
) -> None:
    """With actor, action, time and text; a deleted file is current as its absence."""
    store.change_policy(keep_versions=True)
    for text in ("1", "2", "3"):
        store.write_text("a.md", text, actor="me", reason="why")
    store.write_text("gone.md", "x")
    store.delete("gone.md")
    store.append({"role": "user", "content": "not a file"})
    store.flush_messages_sync()
    written = follow_into(bank, store)
    found = _current(bank)

    assert written == 5 + 3
    assert set(found) == {"a.md", "gone.md"}
    assert (found["a.md"].text, found["a.md"].actor, found["a.md"].action) == (
        "3",
        "me",
        "modified",
    )
    assert (found["gone.md"].text, found["gone.md"].action) == (None, "deleted")
    assert found["a.md"].metadata["version"] == 3
    assert compare(bank, store).same


def test_what_follows_twice_is_logged_once(bank: OpenBank, store: MemoryStore) -> None:
    """Also where the mark of how far it was got lost in between."""
    store.write_text("a.md", "1")
    assert follow_into(bank, store) == 1
    assert follow_into(bank, store) == 0
    store.note(f"logged:{bank.id}", 0)
    assert follow_into(bank, store) == 0
    store.write_text("a.md", "2")
    assert follow_into(bank, store) == 2
    assert _current(bank)["a.md"].text == "2"


def test_a_comparison_says_what_the_log_does_not_know(bank: OpenBank, store: MemoryStore) -> None:
    """Missing, different and left over, before and after catching up."""
    store.write_many([("same.md", "x"), ("changed.md", "x"), ("gone.md", "x")])
    follow_into(bank, store)
    store.write_text("changed.md", "y")
    store.write_text("new.md", "z")
    store.delete("gone.md")
    assert compare(bank, store) == (("new.md",), ("changed.md",), ("gone.md",))
    follow_into(bank, store)
    assert compare(bank, store).same


def test_files_of_a_key_follow_into_the_bank_of_that_name(settings: Settings) -> None:
    """What a program wrote is caught up when the files are opened next; other keys have no bank."""
    with opened_files(settings, "ada", create=True) as store:
        store.write_text("a.md", "from the command line")
    place = MemoryStore.remote_path_for_key("ada", storage_root=str(settings.home / "files"))
    with MemoryStore(root=place) as store:
        store.write_text("b.md", "from a program")
    with opened_files(settings, "ada"):
        pass
    with opened_files(settings, "nobody", create=True) as store:
        store.write_text("c.md", "no bank of this name")
    with opened_bank(settings, "ada") as bank:
        assert set(_current(bank)) == {"a.md", "b.md"}


def test_a_text_that_is_too_long_for_a_record_is_logged_by_its_digest(
    bank: OpenBank, store: MemoryStore
) -> None:
    """So is what is no text."""
    meta = store.write_text("long.md", "x" * 2_000_000)
    store.write_bytes("binary", b"\xff\x00")
    follow_into(bank, store)
    found = _current(bank)

    assert found["long.md"].text is None
    assert found["long.md"].metadata["sha256"] == meta.sha256
    assert found["binary"].metadata["bytes"] == 2
    assert compare(bank, store).same
