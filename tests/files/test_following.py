"""Memory files in the log of the bank of their name."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from bank_kit import keep
from s3_kit import S3Server
from transfer_kit import new_bank

from satchel.bank.open_bank import OpenBank, open_bank
from satchel.config.settings import Settings, load_settings
from satchel.errors import ConcurrencyError, TargetError
from satchel.files import MemoryStore, catch_up
from satchel.files.bank_files import compare, follow_into, opened_files
from satchel.files.remote.objects import MemoryObjects, TaggedObject
from satchel.model.records import FileVersion
from satchel.ports.rows import Filter
from satchel.recall.query import Query
from satchel.recall.search import recall_memories

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
    with open_bank(settings, "ada", writes=True) as opened:
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


def test_a_comparison_lists_what_the_log_lacks(bank: OpenBank, store: MemoryStore) -> None:
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
    with open_bank(settings, "ada") as bank:
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


@pytest.fixture(params=["memory", "sqlite", "s3"])
def elsewhere(
    request: pytest.FixtureRequest, folder: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
) -> str:
    """A storage root that is no folder, configured."""
    if request.param == "s3":
        server: S3Server = request.getfixturevalue("s3")
        root = server.bucket()
    else:
        root = f"{request.param}://{folder()}{'/x.db' if request.param == 'sqlite' else ''}"
    monkeypatch.setenv("SATCHEL_FILES_STORAGE_ROOT", root)
    return root


def _answered(settings: Settings, text: str) -> list[str]:
    with open_bank(settings, "ada", writes=True) as bank:
        return [one.path for one in recall_memories(bank, Query(text=text, files=True)).files]


def test_what_is_saved_elsewhere_is_found_by_the_next_question(
    settings: Settings, elsewhere: str
) -> None:
    """By whomever it was saved: with all versions, and the texts that are there still."""
    del elsewhere
    settings = load_settings()
    assert _answered(settings, "lighthouse") == []
    with MemoryStore.get_or_create(key="ada") as store:
        store.write_text("a.md", "the lighthouse", actor="me")
        store.write_text("b.md", "never saved there")
        store.delete("b.md")
        store.save()
    assert _answered(settings, "lighthouse") == ["a.md"]
    with MemoryStore.get_or_create(key="ada") as other:
        other.write_text("a.md", "the museum", actor="you")
        other.write_text("c.md", "the museum")
        other.save()
        other.write_text("a.md", "nobody saved this")
    assert sorted(_answered(settings, "museum")) == ["a.md", "c.md"]
    assert _answered(settings, "lighthouse") == []
    with open_bank(settings, "ada") as bank:
        found = _current(bank)
        assert (found["a.md"].metadata["version"], found["a.md"].actor) == (2, "you")
        assert found["b.md"].action == "deleted"
        with opened_files(settings, "ada") as again:
            assert compare(bank, again).same


def test_what_a_surface_changes_is_saved_where_the_files_are(
    settings: Settings, elsewhere: str
) -> None:
    """Also where it does not say so: a working copy is thrown away. What failed is not saved."""
    del elsewhere
    settings = load_settings()
    with opened_files(settings, "ada", create=True) as store:
        store.write_text("a.md", "kept")
    with suppress(ConcurrencyError), opened_files(settings, "ada") as store:
        store.write_many([("a.md", "given up"), ("b.md", "given up")])
        store.write_text("a.md", "refused", expected_sha="")
        pytest.fail("it was not refused")
    with opened_files(settings, "ada") as store:
        assert (store.list_paths(), store.read_text("a.md")) == (["a.md"], "kept")
    with open_bank(settings, "ada") as bank:
        assert _current(bank)["a.md"].text == "kept"


def test_a_version_erased_before_it_was_logged_is_never_logged(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The working copy still knows where the text was, and it is not there: that hinders nobody."""
    monkeypatch.setenv("SATCHEL_FILES_STORAGE_ROOT", f"sqlite://{tmp_path}/x.db")
    settings = load_settings()
    with MemoryStore.get_or_create(key="ada") as other:
        other.write_text("a.md", "the lighthouse")
        other.write_text("b.md", "the museum")
        other.save()
    with opened_files(settings, "ada") as store:
        store.erase("a.md")
    assert _answered(settings, "lighthouse") == []
    assert _answered(settings, "museum") == ["b.md"]
    with open_bank(settings, "ada") as bank, bank.ledger.reading() as view:
        said = [one.model for one in view.scan(_FILES)]
        files = [one for one in said if isinstance(one, FileVersion) and one.path == "a.md"]
        assert [one.text for one in files] == [None] * len(files)
        assert _current(bank)["a.md"].action == "deleted"


def test_a_question_asks_the_place_for_one_thing(
    settings: Settings, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The head, as long as nobody saved; nothing where no files are asked for."""
    monkeypatch.setenv("SATCHEL_FILES_STORAGE_ROOT", s3.bucket())
    settings = load_settings()
    with MemoryStore.get_or_create(key="ada") as store:
        store.write_many([(f"{number}.md", "the lighthouse") for number in range(30)])
        store.save()
    _answered(settings, "lighthouse")
    before = s3.requests.total()
    assert _answered(settings, "lighthouse")
    assert s3.requests.total() - before == 1
    with open_bank(settings, "ada", writes=True) as bank:
        recall_memories(bank, Query(text="lighthouse"))
    assert s3.requests.total() - before == 1
    with MemoryStore.get_or_create(key="ada") as store:
        store.write_text("7.md", "the museum")
        store.save()
    before = s3.requests.total()
    assert _answered(settings, "museum") == ["7.md"]
    assert s3.requests.total() - before < 12


def test_a_place_that_does_not_answer_hinders_no_question(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And is not asked again at once."""
    asked = list[str]()

    def silent(self: MemoryObjects, name: str) -> TaggedObject | None:
        del self
        asked.append(name)
        raise TargetError("no answer")

    monkeypatch.setattr(MemoryObjects, "get", silent)
    monkeypatch.setenv("SATCHEL_FILES_STORAGE_ROOT", f"memory://{settings.home}")
    settings = load_settings()
    with open_bank(settings, "ada", writes=True) as bank:
        keep(bank, "the lighthouse")
        for _ in range(3):
            answer = recall_memories(bank, Query(text="lighthouse", files=True))
            assert len(answer.memories) == 1
    assert len(asked) == 1


def test_a_place_that_keeps_one_waiting_keeps_no_question_waiting(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its client may wait for half a minute; the question goes on without it, once."""
    answers, asked = threading.Event(), list[str]()

    def slow(self: MemoryObjects, name: str) -> TaggedObject | None:
        del self
        asked.append(name)
        answers.wait()
        return None

    monkeypatch.setattr(MemoryObjects, "get", slow)
    monkeypatch.setattr(catch_up, "_PATIENCE", 0.01)
    monkeypatch.setenv("SATCHEL_FILES_STORAGE_ROOT", f"memory://{settings.home}/slow")
    try:
        with open_bank(load_settings(), "ada", writes=True) as bank:
            keep(bank, "the lighthouse")
            for _ in range(2):
                answer = recall_memories(bank, Query(text="lighthouse", files=True))
                assert len(answer.memories) == 1
    finally:
        answers.set()
    assert len(asked) == 1


def test_external_saves_are_logged_with_the_next_local_save(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has no head to ask for before."""
    root = f"memory://{settings.home}/flyte"
    monkeypatch.setenv("SATCHEL_FILES_STORAGE_ROOT", root)
    settings = load_settings()
    MemoryObjects(MemoryStore.remote_path_for_key("ada")).put("a.md", b"the lighthouse")
    assert _answered(settings, "lighthouse") == []
    with opened_files(settings, "ada") as store:
        store.write_text("b.md", "the museum")
    assert _answered(settings, "lighthouse") == ["a.md"]
    assert _answered(settings, "museum") == ["b.md"]
