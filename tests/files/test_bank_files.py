"""Memory files of a bank: their versions in its log, recall, and access by token."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from bank_kit import filled, keep, owner
from ledger_kit import WRITER
from s3_kit import S3Server
from token_kit import SEMANTIC, may
from transfer_kit import new_bank

from satchel import Satchel
from satchel.aio import Satchel as Awaited
from satchel.bank.open_bank import OpenBank, open_bank
from satchel.cli.main import run
from satchel.config.settings import Settings, load_settings
from satchel.crypto.tokens import Wildcard
from satchel.errors import (
    ConcurrencyError,
    MemoryStoreError,
    PermissionRefusedError,
    ReadOnlyStoreError,
    TargetError,
    TokenRevokedError,
)
from satchel.files import MemoryStore, catch_up
from satchel.files.bank_files import compare, files_of_bank, follow_into, opened_files
from satchel.files.memory_tool import MemoryTool
from satchel.files.promotion import PromotionRule, promote_all
from satchel.files.remote.objects import MemoryObjects, TaggedObject
from satchel.ledger.authority import token_revocation_record
from satchel.ledger.ledger import Ledger
from satchel.model.records import FileVersion
from satchel.model.values import TrustClass, now
from satchel.ports.rows import Filter
from satchel.recall.query import Query
from satchel.recall.search import FilePassage, recall_memories

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


def _current_versions(bank: OpenBank) -> dict[str, FileVersion]:
    with bank.ledger.reading() as view:
        found = [one.model for one in view.newest(_FILES)]
    return {one.path: one for one in found if isinstance(one, FileVersion)}


def test_each_version_is_in_the_log_and_the_newest_is_current(
    bank: OpenBank, store: MemoryStore
) -> None:
    """With actor, action, time and text; a deleted file is current as deleted."""
    store.change_policy(keep_versions=True)
    for text in ("1", "2", "3"):
        store.write_text("a.md", text, actor="me", reason="why")
    store.write_text("gone.md", "x")
    store.delete("gone.md")
    store.append({"role": "user", "content": "not a file"})
    store.flush_messages_sync()
    written = follow_into(bank, store)
    found = _current_versions(bank)

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


def test_catching_up_twice_logs_each_version_once(bank: OpenBank, store: MemoryStore) -> None:
    """Also if the mark of the last logged version is lost."""
    store.write_text("a.md", "1")
    assert follow_into(bank, store) == 1
    assert follow_into(bank, store) == 0
    store.note(f"logged:{bank.id}", 0)
    assert follow_into(bank, store) == 0
    store.write_text("a.md", "2")
    assert follow_into(bank, store) == 2
    assert _current_versions(bank)["a.md"].text == "2"


def test_compare_lists_missing_and_different_versions(bank: OpenBank, store: MemoryStore) -> None:
    """Before and after catching up."""
    store.write_many([("same.md", "x"), ("changed.md", "x"), ("gone.md", "x")])
    follow_into(bank, store)
    store.write_text("changed.md", "y")
    store.write_text("new.md", "z")
    store.delete("gone.md")
    assert compare(bank, store) == (("new.md",), ("changed.md",), ("gone.md",))
    follow_into(bank, store)
    assert compare(bank, store).same


def test_files_of_a_key_are_logged_in_the_bank_of_that_name(settings: Settings) -> None:
    """When the files are opened next; other keys have no bank."""
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
        assert set(_current_versions(bank)) == {"a.md", "b.md"}


def test_a_text_that_is_too_long_for_a_record_is_logged_by_its_digest(
    bank: OpenBank, store: MemoryStore
) -> None:
    """So is a file that is not text."""
    meta = store.write_text("long.md", "x" * 2_000_000)
    store.write_bytes("binary", b"\xff\x00")
    follow_into(bank, store)
    found = _current_versions(bank)

    assert found["long.md"].text is None
    assert found["long.md"].metadata["sha256"] == meta.sha256
    assert found["binary"].metadata["bytes"] == 2
    assert compare(bank, store).same


@pytest.fixture(params=["memory", "sqlite", "s3"])
def remote_root(
    request: pytest.FixtureRequest,
    folder: Callable[[], Path],
    root_of: Callable[[str, Path], str],
    monkeypatch: pytest.MonkeyPatch,
) -> str:
    """A configured storage root that is not a folder."""
    root = root_of(request.param, folder())
    monkeypatch.setenv("SATCHEL_FILES_STORAGE_ROOT", root)
    return root


def _recalled_paths(settings: Settings, text: str) -> list[str]:
    with open_bank(settings, "ada", writes=True) as bank:
        return [one.path for one in recall_memories(bank, Query(text=text, files=True)).files]


def test_recall_finds_what_other_programs_saved_remotely(
    settings: Settings, remote_root: str
) -> None:
    """With all versions, and the current texts."""
    del remote_root
    settings = load_settings()
    assert _recalled_paths(settings, "lighthouse") == []
    with MemoryStore.get_or_create(key="ada") as store:
        store.write_text("a.md", "the lighthouse", actor="me")
        store.write_text("b.md", "never saved there")
        store.delete("b.md")
        store.save()
    assert _recalled_paths(settings, "lighthouse") == ["a.md"]
    with MemoryStore.get_or_create(key="ada") as other:
        other.write_text("a.md", "the museum", actor="you")
        other.write_text("c.md", "the museum")
        other.save()
        other.write_text("a.md", "nobody saved this")
    assert sorted(_recalled_paths(settings, "museum")) == ["a.md", "c.md"]
    assert _recalled_paths(settings, "lighthouse") == []
    with open_bank(settings, "ada") as bank:
        found = _current_versions(bank)
        assert (found["a.md"].metadata["version"], found["a.md"].actor) == (2, "you")
        assert found["b.md"].action == "deleted"
        with opened_files(settings, "ada") as again:
            assert compare(bank, again).same


def test_opened_files_saves_changes_to_the_remote_location(
    settings: Settings, remote_root: str
) -> None:
    """Without an explicit save; after an error nothing is saved."""
    del remote_root
    settings = load_settings()
    with opened_files(settings, "ada", create=True) as store:
        store.write_text("a.md", "kept")
    with suppress(ConcurrencyError), opened_files(settings, "ada") as store:
        store.write_many([("a.md", "given up"), ("b.md", "given up")])
        store.write_text("a.md", "refused", expected_sha="")
        pytest.fail("the write must be refused")
    with opened_files(settings, "ada") as store:
        assert (store.list_paths(), store.read_text("a.md")) == (["a.md"], "kept")
    with open_bank(settings, "ada") as bank:
        assert _current_versions(bank)["a.md"].text == "kept"


def test_a_version_erased_before_it_was_logged_is_never_logged(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The working copy still refers to the missing text, and recall works."""
    monkeypatch.setenv("SATCHEL_FILES_STORAGE_ROOT", f"sqlite://{tmp_path}/x.db")
    settings = load_settings()
    with MemoryStore.get_or_create(key="ada") as other:
        other.write_text("a.md", "the lighthouse")
        other.write_text("b.md", "the museum")
        other.save()
    with opened_files(settings, "ada") as store:
        store.erase("a.md")
    assert _recalled_paths(settings, "lighthouse") == []
    assert _recalled_paths(settings, "museum") == ["b.md"]
    with open_bank(settings, "ada") as bank, bank.ledger.reading() as view:
        said = [one.model for one in view.scan(_FILES)]
        files = [one for one in said if isinstance(one, FileVersion) and one.path == "a.md"]
        assert [one.text for one in files] == [None] * len(files)
        assert _current_versions(bank)["a.md"].action == "deleted"


def test_recall_makes_one_request_when_no_files_changed(
    settings: Settings, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reads the head; without ``files`` it makes no request."""
    monkeypatch.setenv("SATCHEL_FILES_STORAGE_ROOT", s3.bucket())
    settings = load_settings()
    with MemoryStore.get_or_create(key="ada") as store:
        store.write_many([(f"{number}.md", "the lighthouse") for number in range(30)])
        store.save()
    _recalled_paths(settings, "lighthouse")
    before = s3.requests.total()
    assert _recalled_paths(settings, "lighthouse")
    assert s3.requests.total() - before == 1
    with open_bank(settings, "ada", writes=True) as bank:
        recall_memories(bank, Query(text="lighthouse"))
    assert s3.requests.total() - before == 1
    with MemoryStore.get_or_create(key="ada") as store:
        store.write_text("7.md", "the museum")
        store.save()
    before = s3.requests.total()
    assert _recalled_paths(settings, "museum") == ["7.md"]
    assert s3.requests.total() - before < 12


def test_an_unavailable_location_does_not_fail_a_recall(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not tried again immediately."""
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


def test_a_slow_location_does_not_delay_a_recall(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its client may wait for half a minute; recall continues without it."""
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
    """A location without a head cannot be asked before."""
    root = f"memory://{settings.home}/flyte"
    monkeypatch.setenv("SATCHEL_FILES_STORAGE_ROOT", root)
    settings = load_settings()
    MemoryObjects(MemoryStore.remote_path_for_key("ada")).put("a.md", b"the lighthouse")
    assert _recalled_paths(settings, "lighthouse") == []
    with opened_files(settings, "ada") as store:
        store.write_text("b.md", "the museum")
    assert _recalled_paths(settings, "lighthouse") == ["a.md"]
    assert _recalled_paths(settings, "museum") == ["b.md"]


_WEATHER = "\n\n".join(f"Paragraph {one} is of the weather." for one in range(400))
_LONG = f"{_WEATHER}\n\nThe login\r\nexpires at noon.\n\n{_WEATHER}"


@pytest.fixture
def any_bank(any_store: str) -> Iterator[OpenBank]:
    """A bank in each kind of store."""
    with open_bank(load_settings(store=any_store), new_bank("ada"), writes=True) as opened:
        yield opened


def _recalled(any_bank: OpenBank, text: str, **more: object) -> list[FilePassage]:
    return recall_memories(any_bank, Query(text=text, files=True, **more)).files  # type: ignore[arg-type]  # options by name


def test_recall_finds_current_and_former_versions_of_a_file(
    any_bank: OpenBank, store: MemoryStore
) -> None:
    """With path, version and lines; former versions and deleted files with ``as_of``."""
    store.write_text("user/plans.md", "First the harbour.\nThen the lighthouse.", actor="me")
    store.write_text("gone.md", "the lighthouse keeper")
    follow_into(any_bank, store)
    with any_bank.ledger.reading() as view:
        then = view.head.size
    store.write_text("user/plans.md", "First the harbour.\nThen the museum.")
    store.delete("gone.md")
    follow_into(any_bank, store)

    assert _recalled(any_bank, "lighthouse") == []
    assert [(one.path, one.version) for one in _recalled(any_bank, "museum")] == [
        ("user/plans.md", 2)
    ]
    older = {one.path: one for one in _recalled(any_bank, "lighthouse", as_of=then)}
    assert set(older) == {"user/plans.md", "gone.md"}
    plans = older["user/plans.md"]
    assert (plans.version, plans.actor, plans.superseded) == (1, "me", True)
    assert (plans.first_line, plans.last_line, plans.terms) == (1, 2, ["lighthouse"])
    assert _recalled(any_bank, "museum", as_of=then) == []


def test_the_matching_passage_of_a_long_file_is_returned(
    any_bank: OpenBank, store: MemoryStore
) -> None:
    """Within the budget: a passage that does not fit is counted, and memories get a share."""
    store.write_text("long.md", _LONG)
    store.write_text("one line.md", f"{'weather ' * 2_000} login noon {'weather ' * 2_000}")
    follow_into(any_bank, store)
    lines = _LONG.split("\n")
    there = {one.path: one for one in _recalled(any_bank, "when does the login expire")}

    found = there["long.md"]
    assert "\n".join(lines[found.first_line - 1 : found.last_line]).replace("\r", "") == found.text
    assert found.text == "The login\nexpires at noon."
    assert len(there["one line.md"].text) < 2_000
    assert "login" in there["one line.md"].text
    small = recall_memories(any_bank, Query(text="login noon", files=True, budget=60))
    assert [one.path for one in small.files] == ["long.md"]
    assert (small.files_over_budget, small.tokens <= 60) == (1, True)


def test_files_are_omitted_with_filters_for_memories_only(
    any_bank: OpenBank, store: MemoryStore
) -> None:
    """By type, tag or owner, without words, or on request; the trust is at most ``agent``."""
    store.write_text("a.md", "the lighthouse")
    follow_into(any_bank, store)

    assert _recalled(any_bank, "lighthouse")[0].trust == "agent"
    assert _recalled(any_bank, "lighthouse", trust=TrustClass.USER) == []
    assert _recalled(any_bank, "lighthouse", user="ada") == []
    assert _recalled(any_bank, "lighthouse", components=frozenset({"semantic"})) == []
    assert _recalled(any_bank, "lighthouse", tags=frozenset({"x"})) == []
    assert _recalled(any_bank, "lighthouse", since="2999-01-01T00:00:00.000000Z") == []
    assert _recalled(any_bank, "") == []
    assert recall_memories(any_bank, Query(text="lighthouse")).files == []


def test_recall_finds_files_that_another_program_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On the command line, without opening the files before; the path is printed first."""
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


def test_a_bank_object_has_the_files_of_its_name(tmp_path: Path) -> None:
    """They are open with it; new texts are recalled and exported immediately."""
    with Satchel.open() as satchel:
        any_bank = satchel.bank("ada")
        any_bank.files.write_text("a.md", "Ada climbs lighthouses", actor="me")
        assert any_bank.files is any_bank.files
        assert [one.path for one in any_bank.recall("lighthouse").files] == ["a.md"]
        assert any_bank.recall("lighthouse", files=False).files == []
        any_bank.files.write_text("a.md", "Ada climbs mountains")
        any_bank.export(tmp_path / "ada.pam.jsonl")
        assert "Ada climbs mountains" in (tmp_path / "ada.pam.jsonl").read_text()
        any_bank.files.write_text("b.md", "written last")
    with Satchel.open(read_only=True) as reading:
        any_bank = reading.bank("ada")
        assert [one.path for one in any_bank.recall("written").files] == ["b.md"]
        assert any_bank.files.read_text("a.md") == "Ada climbs mountains"
        with pytest.raises(ReadOnlyStoreError):
            any_bank.files.write_text("a.md", "x")
    with MemoryStore.get_or_create(key="ada") as same:
        assert same.read_text("a.md") == "Ada climbs mountains"


def test_a_read_only_bank_does_not_create_files() -> None:
    """The error says how to create them."""
    with Satchel.open() as satchel:
        satchel.bank("ada").remember("x")
    with Satchel.open(read_only=True) as reading, pytest.raises(MemoryStoreError):
        _ = reading.bank("ada").files
    assert not MemoryStore.exists(key="ada")


def test_the_files_of_a_bank_have_awaitable_calls() -> None:
    """The same store, with awaitable forms of its calls."""

    async def story() -> list[str]:
        async with Awaited.open() as satchel:
            any_bank = await satchel.bank("ada")
            files = await any_bank.files.open()
            await files.write_text.aio("a.md", "Ada climbs lighthouses")
            return [one.path for one in (await any_bank.recall("lighthouses")).files]

    assert asyncio.run(story()) == ["a.md"]


@pytest.fixture
def bank_with_files() -> Iterator[OpenBank]:
    """A bank with a memory file that its owner wrote."""
    with filled("ada") as opened:
        with opened_files(opened.settings, "ada", create=True) as store:
            store.write_text("a.md", "the lighthouse", actor="owner")
            store.write_text("user/b.md", "a proposal", actor="owner")
        yield opened


def _files_for_reader(bank_with_files: OpenBank) -> MemoryStore:
    return files_of_bank(may(bank_with_files, Wildcard(), allow=["read"]))


def test_a_read_token_permits_no_change(bank_with_files: OpenBank) -> None:
    """Each way to change a file or the rules is refused, and nothing is written."""
    store = _files_for_reader(bank_with_files)
    assert store.read_text("a.md") == "the lighthouse"
    assert (store.list_paths(), store.search("house")[0].path) == (["a.md", "user/b.md"], "a.md")
    store.append({"role": "user", "content": "x"})
    for change in (
        lambda: store.write_text("b.md", "x"),
        lambda: store.write_json("b.md", {}),
        lambda: store.write_bytes("b.md", b"x"),
        lambda: store.write_many([("b.md", "x")]),
        lambda: store.append_text("a.md", "x"),
        lambda: store.edit("a.md", "the", "a"),
        lambda: store.rename("a.md", "b.md"),
        lambda: store.restore("a.md", 1),
        lambda: store.delete("a.md"),
        lambda: store.erase("a.md"),
        lambda: store.promote("a.md", "b.md"),
        lambda: store.change_policy(audit=False),
        store.sync,
        store.save,
        store.flush_messages_sync,
        lambda: MemoryTool(store)(
            {"command": "insert", "path": "/memories/a.md", "insert_line": 0, "insert_text": "x"}
        ),
        lambda: promote_all(store, PromotionRule(staged="user", into="memory")),
    ):
        with pytest.raises(PermissionRefusedError):
            change()
    with opened_files(bank_with_files.settings, "ada") as whole:
        assert whole.list_paths() == ["a.md", "user/b.md"]
        assert {one["actor"] for one in whole.audit_tail_sync()} == {"owner"}


def test_a_writer_writes_under_the_name_of_its_key(bank_with_files: OpenBank) -> None:
    """Whatever actor it claims; rules, promotion and erasure stay with the owner."""
    holder = may(bank_with_files, Wildcard(), allow=["read", "write"])
    assert holder.bearer is not None
    store = files_of_bank(holder)
    assert store.write_text("b.md", "x", actor="owner").updated_by == holder.bearer.name
    store.edit("a.md", "light", "dark", actor="owner")
    assert store.history("a.md")[-1].actor == holder.bearer.name
    MemoryTool(store)({"command": "create", "path": "/memories/c.md", "file_text": "x"})
    assert {one["actor"] for one in store.audit_tail_sync(3)} == {holder.bearer.name}
    for refused in (
        lambda: store.erase("a.md"),
        lambda: store.promote("a.md", "b.md"),
        lambda: store.change_policy(audit=False),
    ):
        with pytest.raises(PermissionRefusedError, match="owner"):
            refused()


def test_a_token_with_a_partial_scope_gives_no_access_to_files(bank_with_files: OpenBank) -> None:
    """Scopes select entries, and a file is not an entry: not opened, not recalled."""
    with pytest.raises(PermissionRefusedError, match="not memory files"):
        files_of_bank(may(bank_with_files, SEMANTIC, allow=["read", "write"]))
    asked = Query(text="lighthouse", files=True)
    assert recall_memories(may(bank_with_files, SEMANTIC), asked).files == []
    assert [one.path for one in recall_memories(may(bank_with_files, Wildcard()), asked).files] == [
        "a.md"
    ]


def test_a_revoked_token_is_refused_in_an_open_store(bank_with_files: OpenBank) -> None:
    """At the next call."""
    holder = may(bank_with_files, Wildcard(), allow=["read", "write"])
    store = files_of_bank(holder)
    store.write_text("b.md", "x")
    assert holder.bearer is not None
    token = holder.bearer.chain.leaf.id
    bank_with_files.ledger.append(
        [token_revocation_record(bank_with_files.id, token, owner(), now(), None)]
    )
    for refused in (lambda: store.read_text("a.md"), lambda: store.write_text("b.md", "y")):
        with pytest.raises(TokenRevokedError):
            refused()


def test_attack_files_are_refused_when_two_banks_have_the_same_name(
    bank_with_files: OpenBank,
) -> None:
    """A token of a second bank with the name would open the files of the first."""
    Ledger.create(bank_with_files.store, owner=owner(), writer=WRITER, name="ada")
    with pytest.raises(PermissionRefusedError, match="another bank"):
        _files_for_reader(bank_with_files)


def test_a_token_holder_uses_the_files_of_its_bank_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No other files; what is written is logged."""
    with Satchel.open() as satchel:
        satchel.bank("first").remember("x")
        for name in ("ada", "other"):
            satchel.create_bank(name)
        satchel.bank("other").files.write_text("a.md", "not yours")
        satchel.bank("ada").files.write_text("a.md", "yours")
        for name, allow in (("read", ["read"]), ("write", ["read", "write"])):
            satchel.bank("ada").tokens.issue(
                audience="default",
                everything=True,
                permissions=allow,
                output=tmp_path / f"{name}.token",
            )
    reading, writing = (["--token", str(tmp_path / f"{one}.token")] for one in ("read", "write"))
    assert run([*reading, "file", "read", "a.md"]) == 0
    assert capsys.readouterr().out == "yours"
    assert run([*reading, "file", "write", "a.md", "changed"]) == 3
    assert run([*reading, "file", "ls", "--file-store", "other"]) == 3
    assert run([*reading, "file", "ls", "--root", str(tmp_path)]) == 3
    assert run([*writing, "file", "write", "a.md", "changed", "--actor", "owner"]) == 0
    assert run([*writing, "file", "promote", "a.md", "b.md"]) == 3
    for leaving in (
        ["export", "-o", str(tmp_path / "out.json")],
        ["sync", str(tmp_path / "notes")],
    ):
        assert run([*writing, "file", *leaving]) == 3
    assert not list(tmp_path.glob("out*")) + list(tmp_path.glob("notes*"))
    with Satchel.open() as satchel:
        found = satchel.bank("ada").recall("changed").files
    assert [(one.path, (one.actor or "")[:8]) for one in found] == [("a.md", "did:key:")]
