"""What every ``MemoryStore`` promises: 36 behaviors, one test function each.

Use it on your own: import everything from here in a test module of yours and define a fixture
``files`` that returns a ``FilesSubject``.
"""

import asyncio
import hashlib
import itertools
import json
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from satchel.errors import AccessDenied, ConcurrencyError, MemoryStoreError
from satchel.files import MemoryStore


@dataclass(frozen=True, slots=True)
class FilesSubject:
    """A ``MemoryStore`` under test.

    Args:
        name: Its name.
        folder: Creates a new folder.
        storage_root: The folder of the keys; passed to the class methods unless None.
        store: The class.
        errors: Its three errors: any refusal, no access, changed by others.
        planted: Writes a key's transcript, bypassing the store; None if that is not possible.
    """

    name: str
    folder: Callable[[], Path]
    storage_root: str | None = None
    store: Any = MemoryStore
    errors: tuple[type[Exception], type[Exception], type[Exception]] = (
        MemoryStoreError,
        AccessDenied,
        ConcurrencyError,
    )
    planted: Callable[[str, bytes], None] | None = None
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    @property
    def refusal(self) -> type[Exception]:
        """The error for any refusal."""
        return self.errors[0]

    @property
    def denied(self) -> type[Exception]:
        """The error for no access."""
        return self.errors[1]

    @property
    def changed(self) -> type[Exception]:
        """The error for a change by others."""
        return self.errors[2]

    def key(self) -> str:
        """Return a key without a store."""
        return f"key-{next(self._numbers)}-{secrets.token_hex(4)}"

    def place(self, key: str, **more: str) -> dict[str, Any]:
        """Return the arguments that name a key."""
        root = {} if self.storage_root is None else {"storage_root": self.storage_root}
        return {"key": key, **root, **more}

    def create(self, key: str, **policy: Any) -> Any:
        """Create the store of a key."""
        return self.store.create(**self.place(key), **policy)

    def reach(self, key: str, **policy: Any) -> Any:
        """Open the store of a key; create it if missing."""
        return self.store.get_or_create(**self.place(key), **policy)

    def exists(self, key: str) -> bool:
        """Return whether a key has a store."""
        return bool(self.store.exists(**self.place(key)))

    @contextmanager
    def fresh(self, **policy: Any) -> Iterator[Any]:
        """Yield an empty store of a key."""
        store = self.create(self.key(), **policy)
        try:
            yield store
        finally:
            getattr(store, "close", bool)()  # if there is something to close

    def at(self, root: Path, **more: Any) -> Any:
        """Open a store in a folder."""
        return self.store(root=root, **more)


_TALK = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "Zo\u00eb?"}]


def test_01_a_root_that_is_opened_again_has_the_transcript_in_order(files: FilesSubject) -> None:
    """Flushed messages are read in order."""
    root = files.folder()
    store = files.at(root)
    store.extend(_TALK)
    store.append({"role": "user", "content": "bye"})
    store.flush_messages_sync()

    assert files.at(root).messages == [*_TALK, {"role": "user", "content": "bye"}]


def test_02_an_awaited_flush_keeps_the_same(files: FilesSubject) -> None:
    """``flush_messages`` does the same asynchronously."""
    root = files.folder()
    store = files.at(root)
    store.extend(_TALK)
    asyncio.run(store.flush_messages())

    assert files.at(root).messages == _TALK
    assert json.loads((root / "messages.json").read_text()) == _TALK


def test_03_a_damaged_transcript_opens_as_empty(files: FilesSubject) -> None:
    """The store remains usable."""
    root = files.folder()
    (root / "messages.json").write_text("[{oops")

    assert files.at(root).messages == []


def test_04_messages_that_are_passed_win_over_those_on_disk(files: FilesSubject) -> None:
    """The caller knows the conversation."""
    root = files.folder()
    store = files.at(root)
    store.extend(_TALK)
    store.flush_messages_sync()
    mine = [{"role": "system", "content": "mine"}]

    assert files.at(root, messages=mine).messages == mine


def test_05_class_methods_need_a_key(files: FilesSubject) -> None:
    """There is no store without a key."""
    with pytest.raises(TypeError):
        files.store.create()
    with pytest.raises(TypeError):
        files.store.get_or_create()


@pytest.mark.parametrize("key", ["", ".", "..", "a/b", "a\\b"])
def test_06_a_key_is_one_plain_name(files: FilesSubject, key: str) -> None:
    """Keys cannot contain paths."""
    with pytest.raises(files.refusal):
        files.store.remote_path_for_key(**files.place(key))
    with pytest.raises(files.refusal):
        files.create(key)


def test_07_a_key_has_one_place_for_each_org_project_and_domain(files: FilesSubject) -> None:
    """Equal values have the same folder, others have another one."""

    def place(**more: str) -> str:
        return str(files.store.remote_path_for_key(**files.place("k", **more)))

    known = {"org": "o", "project": "p", "domain": "d"}
    assert place(**known) == place(**known)
    assert place(**known).endswith("/agents/memory-store/v0/o/p/d/k")
    assert len({place(**{**known, one: "x"}) for one in known} | {place(**known)}) == 4  # noqa: PLR2004


def test_08_the_scratch_folder_of_a_run_is_no_part_of_the_place(files: FilesSubject) -> None:
    """Two runs use the same store."""
    if files.storage_root is None or files.store.__module__.startswith("flyte"):
        pytest.skip("this suite cannot set where the root comes from")
    known = {"key": "k", "org": "o", "project": "p", "domain": "d"}
    path = files.store.remote_path_for_key
    runs = [path(storage_root=f"{files.storage_root}/rd/{run}", **known) for run in ("a1", "b2")]

    assert {*runs, path(storage_root=files.storage_root, **known)} == {runs[0]}


def test_09_a_store_that_was_created_exists(files: FilesSubject) -> None:
    """Immediately, before anything is saved."""
    key = files.key()
    files.create(key)

    assert files.exists(key)


def test_10_a_key_is_created_once(files: FilesSubject) -> None:
    """Creating an existing store is refused."""
    key = files.key()
    files.create(key)
    with pytest.raises(files.refusal):
        files.create(key)


def test_11_a_transcript_alone_is_a_store(files: FilesSubject) -> None:
    """Create does not adopt the files of another program."""
    if files.planted is None:
        pytest.skip("nothing can be planted there")
    key = files.key()
    files.planted(key, b"[]")

    assert files.exists(key)
    with pytest.raises(files.refusal):
        files.create(key)


def test_12_saving_again_and_again_keeps_the_transcript(files: FilesSubject) -> None:
    """It is at the store's root after every save."""
    key = files.key()
    store = files.create(key)
    for number in range(3):
        store.append({"role": "user", "content": str(number)})
        saved = store.save()
        assert saved.path == files.store.remote_path_for_key(**files.place(key))

    assert [one["content"] for one in files.reach(key).messages] == ["0", "1", "2"]


def test_13_get_or_create_loads_what_is_there(files: FilesSubject) -> None:
    """Files and transcript are loaded."""
    key = files.key()
    store = files.create(key)
    store.write_text("notes/a.md", "kept")
    store.append({"role": "user", "content": "hello"})
    store.save()
    again = files.reach(key)

    assert again.read_text("notes/a.md") == "kept"
    assert again.messages == [{"role": "user", "content": "hello"}]


def test_14_get_or_create_makes_what_is_not(files: FilesSubject) -> None:
    """An empty store."""
    key = files.key()
    store = files.reach(key)

    assert files.exists(key)
    assert store.messages == []
    assert store.list_paths() == []


def test_15_a_key_exists_once_it_was_created(files: FilesSubject) -> None:
    """False before it is created, true afterwards."""
    key = files.key()
    assert not files.exists(key)
    files.create(key)
    assert files.exists(key)


def test_16_a_text_comes_back(files: FilesSubject) -> None:
    """With its path and its size in bytes."""
    with files.fresh() as store:
        meta = store.write_text("user/notes.md", "Zo\u00eb likes tea\n")

        assert store.read_text("user/notes.md") == "Zo\u00eb likes tea\n"
        assert (meta.path, meta.bytes) == ("user/notes.md", 15)


def test_17_a_json_value_comes_back(files: FilesSubject) -> None:
    """Nested, with numbers, null and booleans."""
    value: Any = {"b": [1, 2.5, None, True], "a": {"deep": "\u00e9"}}
    with files.fresh() as store:
        store.write_json("state.json", value)

        assert store.read_json("state.json") == value


def test_18_what_is_not_there_gives_the_default(files: FilesSubject) -> None:
    """For texts and for values; a blank file has no value either."""
    with files.fresh() as store:
        store.write_text("blank.json", " \n")

        assert store.read_text("no.txt") == ""
        assert store.read_text("no.txt", default="none") == "none"
        assert store.read_json("no.json") is None
        assert store.read_json("no.json", default={"a": 1}) == {"a": 1}
        assert store.read_json("blank.json", default=3) == 3  # noqa: PLR2004


def test_19_a_listing_is_sorted_and_hides_what_is_the_stores_own(files: FilesSubject) -> None:
    """Transcript, audit, sidecars and versions are not listed."""
    with files.fresh(keep_versions=True) as store:
        for path in ("b.txt", "a/z.txt", "a/b/c.txt", "a.txt"):
            store.write_text(path, path)
        store.flush_messages_sync()

        assert store.list_paths() == ["a.txt", "a/b/c.txt", "a/z.txt", "b.txt"]


def test_20_a_listing_can_be_of_a_folder(files: FilesSubject) -> None:
    """By folder, not by prefix of a name."""
    with files.fresh() as store:
        for path in ("user/a.txt", "user/b/c.txt", "user2/d.txt", "u.txt"):
            store.write_text(path, path)

        assert store.list_paths("user") == ["user/a.txt", "user/b/c.txt"]
        assert store.list_paths("user/") == ["user/a.txt", "user/b/c.txt"]
        assert store.list_paths("us") == []


def test_21_a_folder_that_is_not_there_lists_nothing(files: FilesSubject) -> None:
    """It is not an error."""
    with files.fresh() as store:
        assert store.list_paths("nowhere") == []


def test_22_a_link_is_not_listed(files: FilesSubject) -> None:
    """Whatever its target is."""
    outside, root = files.folder(), files.folder()
    (outside / "secret.txt").write_text("classified")
    store = files.at(root)
    store.write_text("a.txt", "a")
    (root / "link.txt").symlink_to(outside / "secret.txt")

    assert store.list_paths() == ["a.txt"]


def test_23_paths_that_lead_out_are_refused_and_it_is_said_why(files: FilesSubject) -> None:
    """Three cases have three messages."""
    with files.fresh() as store:
        messages = []
        for path in ("../up.txt", "/etc/passwd", ""):
            with pytest.raises(files.refusal) as caught:
                store.write_text(path, "x")
            messages.append(str(caught.value))
        for path in ("a/../../b", "a/..", ".", "./"):
            with pytest.raises(files.refusal):
                store.write_text(path, "x")

        assert "traversal" in messages[0]
        assert "must be relative" in messages[1]
        assert "Empty path" in messages[2]


def test_24_a_link_that_leads_out_is_neither_read_nor_written(files: FilesSubject) -> None:
    """Its target is not changed."""
    outside, root = files.folder(), files.folder()
    (outside / "secret.txt").write_text("classified")
    store = files.at(root)
    (root / "link.txt").symlink_to(outside / "secret.txt")
    (root / "away").symlink_to(outside)
    for path in ("link.txt", "away/secret.txt"):
        with pytest.raises(files.refusal):
            store.read_text(path)
        with pytest.raises(files.refusal):
            store.write_text(path, "mine")

    assert (outside / "secret.txt").read_text() == "classified"
    assert [one.name for one in outside.iterdir()] == ["secret.txt"]


def test_25_the_transcript_cannot_be_written_as_a_file(files: FilesSubject) -> None:
    """It is written only by its own methods."""
    with files.fresh() as store, pytest.raises(files.denied):
        store.write_text("messages.json", "[]")


@pytest.mark.parametrize("path", ["audit/log.jsonl", "meta/a.json", "versions/a/b.txt"])
def test_26_the_stores_own_folders_cannot_be_written(files: FilesSubject, path: str) -> None:
    """An audit, a sidecar or a version cannot be forged."""
    with files.fresh() as store, pytest.raises(files.denied):
        store.write_text(path, "x")


def test_27_what_is_awaited_does_what_is_called(files: FilesSubject) -> None:
    """Each method with ``.aio`` or its asynchronous variant."""

    async def awaited() -> list[Any]:
        key = files.key()
        store = await files.store.create.aio(**files.place(key))
        meta = await store.write_text.aio("a.txt", "text", actor="me")
        await store.write_json.aio("b.json", [1])
        results = [
            meta.sha256 == await store.current_sha.aio("a.txt"),
            await store.read_text.aio("a.txt"),
            await store.read_json.aio("b.json"),
            (await store.get_meta.aio("a.txt")).updated_by,
            [event["path"] for event in await store.audit_tail(2)],
        ]
        await store.save.aio()
        again = await files.store.get_or_create.aio(**files.place(key))
        return [*results, again.read_text("a.txt")]

    assert asyncio.run(awaited()) == [True, "text", [1], "me", ["a.txt", "b.json"], "text"]


_SHA = 64


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_28_a_read_only_prefix_cannot_be_written(files: FilesSubject) -> None:
    """Nothing is written."""
    with files.fresh(read_only_prefixes=("memory/",)) as store:
        with pytest.raises(files.denied):
            store.write_text("memory/fact.md", "x")

        assert store.list_paths() == []


def test_29_other_prefixes_can_be_written(files: FilesSubject) -> None:
    """A prefix that only starts with the same characters is another one."""
    with files.fresh(read_only_prefixes=("memory/",)) as store:
        store.write_text("user/fact.md", "x")
        store.write_text("memory2/fact.md", "y")

        assert store.list_paths() == ["memory2/fact.md", "user/fact.md"]


def test_30_a_sha_that_is_as_expected_lets_the_write_through(files: FilesSubject) -> None:
    """The file is replaced."""
    with files.fresh() as store:
        first = store.write_text("a.txt", "1")
        store.write_text("a.txt", "2", expected_sha=first.sha256)

        assert store.read_text("a.txt") == "2"


def test_31_a_sha_that_is_not_as_expected_refuses_it(files: FilesSubject) -> None:
    """The error has the path and the expected hash; the file is not changed."""
    with files.fresh() as store:
        store.write_text("a.txt", "1")
        with pytest.raises(files.changed) as caught:
            store.write_text("a.txt", "2", expected_sha="0" * _SHA)
        error = caught.value

        assert store.read_text("a.txt") == "1"
        assert getattr(error, "path", None) == "a.txt"
        assert getattr(error, "expected_sha", None) == "0" * _SHA
        assert getattr(error, "actual_sha", None) == _sha("1")


def test_32_an_empty_sha_means_create_only(files: FilesSubject) -> None:
    """An empty file exists, too."""
    with files.fresh() as store:
        store.write_text("a.txt", "", expected_sha="")
        with pytest.raises(files.changed):
            store.write_text("a.txt", "2", expected_sha="")

        assert store.read_text("a.txt", default="none") == ""


def test_33_what_is_not_there_has_an_empty_sha(files: FilesSubject) -> None:
    """It is not an error."""
    with files.fresh() as store:
        assert store.current_sha("no.txt") == ""


def test_34_a_file_that_something_else_wrote_has_its_real_sha(files: FilesSubject) -> None:
    """It is the hash of the bytes, not of a record of them."""
    root = files.folder()
    store = files.at(root)
    (root / "theirs.txt").write_bytes(b"by hand\r\n")

    assert store.current_sha("theirs.txt") == _sha("by hand\r\n")


def test_35_the_audit_says_who_wrote_what_after_what(files: FilesSubject) -> None:
    """Create, then update, each with the previous hash; nothing without an audit."""
    with files.fresh() as store:
        store.write_text("a.txt", "1", actor="alice", reason="first")
        store.write_text("a.txt", "2", actor="bob")
        events = [event for event in store.audit_tail_sync(10) if event["path"] == "a.txt"]

        assert [event["op"] for event in events] == ["create", "update"]
        assert [event["actor"] for event in events] == ["alice", "bob"]
        assert [event["old_sha"] for event in events] == ["", _sha("1")]
        assert [event["new_sha"] for event in events] == [_sha("1"), _sha("2")]
        assert [event["path"] for event in store.audit_tail_sync(1)] == ["a.txt"]
    with files.fresh(audit=False) as store:
        store.write_text("a.txt", "1")

        assert store.audit_tail_sync(10) == []


def test_36_each_write_leaves_a_sidecar_and_where_wanted_a_version(files: FilesSubject) -> None:
    """Names with similar encodings share neither."""
    root = files.folder()
    store = files.at(root, keep_versions=True)
    for text in ("1", "2", "3"):
        store.write_text("a/b", text, actor="me", reason="why")
    store.write_text("a__b", "other")
    versions = sorted((root / "versions" / "a%2Fb").iterdir())
    meta = store.get_meta("a/b")

    assert [path.read_text() for path in versions] == ["1", "2", "3"]
    assert len(list((root / "versions" / "a__b").iterdir())) == 1
    assert (meta.updated_by, meta.reason, meta.sha256) == ("me", "why", _sha("3"))
    assert store.get_meta("never.txt") is None
    assert {path.name for path in (root / "meta").glob("*.json")} == {"a%2Fb.json", "a__b.json"}
    plain = files.folder()
    files.at(plain).write_text("a.txt", "1")
    assert not list((plain / "versions").glob("*/*"))


__all__ = ["FilesSubject"]
__all__ += [name for name in dir() if name.startswith("test_")]
