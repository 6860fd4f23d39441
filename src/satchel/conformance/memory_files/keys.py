"""The transcript and the keys: behaviours 1 to 15."""

import asyncio
import json

import pytest

from satchel.conformance.memory_files.subject import FilesSubject

_TALK = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "Zo\u00eb?"}]


def test_01_a_root_that_is_opened_again_has_the_transcript_in_order(files: FilesSubject) -> None:
    """What was flushed is there, in order."""
    root = files.folder()
    store = files.at(root)
    store.extend(_TALK)
    store.append({"role": "user", "content": "bye"})
    store.flush_messages_sync()

    assert files.at(root).messages == [*_TALK, {"role": "user", "content": "bye"}]


def test_02_an_awaited_flush_keeps_the_same(files: FilesSubject) -> None:
    """``flush_messages`` is the awaited twin."""
    root = files.folder()
    store = files.at(root)
    store.extend(_TALK)
    asyncio.run(store.flush_messages())

    assert files.at(root).messages == _TALK
    assert json.loads((root / "messages.json").read_text()) == _TALK


def test_03_a_damaged_transcript_opens_as_empty(files: FilesSubject) -> None:
    """A store is not lost with its transcript."""
    root = files.folder()
    (root / "messages.json").write_text("[{oops")

    assert files.at(root).messages == []


def test_04_messages_that_are_passed_win_over_those_on_disk(files: FilesSubject) -> None:
    """Who knows the conversation says it."""
    root = files.folder()
    store = files.at(root)
    store.extend(_TALK)
    store.flush_messages_sync()
    mine = [{"role": "system", "content": "mine"}]

    assert files.at(root, messages=mine).messages == mine


def test_05_class_methods_need_a_key(files: FilesSubject) -> None:
    """There is no store of no key."""
    with pytest.raises(TypeError):
        files.store.create()
    with pytest.raises(TypeError):
        files.store.get_or_create()


@pytest.mark.parametrize("key", ["", ".", "..", "a/b", "a\\b"])
def test_06_a_key_is_one_plain_name(files: FilesSubject, key: str) -> None:
    """Keys cannot lead anywhere."""
    with pytest.raises(files.refusal):
        files.store.remote_path_for_key(**files.place(key))
    with pytest.raises(files.refusal):
        files.create(key)


def test_07_a_key_has_one_place_for_each_org_project_and_domain(files: FilesSubject) -> None:
    """The same four give the same place, others another one."""

    def place(**more: str) -> str:
        return str(files.store.remote_path_for_key(**files.place("k", **more)))

    known = {"org": "o", "project": "p", "domain": "d"}
    assert place(**known) == place(**known)
    assert place(**known).endswith("/agents/memory-store/v0/o/p/d/k")
    assert len({place(**{**known, one: "x"}) for one in known} | {place(**known)}) == 4  # noqa: PLR2004


def test_08_the_scratch_folder_of_a_run_is_no_part_of_the_place(files: FilesSubject) -> None:
    """Two runs find the same store."""
    if files.storage_root is None or files.store.__module__.startswith("flyte"):
        pytest.skip("this suite cannot set where the root comes from")
    known = {"key": "k", "org": "o", "project": "p", "domain": "d"}
    path = files.store.remote_path_for_key
    runs = [path(storage_root=f"{files.storage_root}/rd/{run}", **known) for run in ("a1", "b2")]

    assert {*runs, path(storage_root=files.storage_root, **known)} == {runs[0]}


def test_09_a_store_that_was_created_exists(files: FilesSubject) -> None:
    """At once, before anything is saved."""
    key = files.key()
    files.create(key)

    assert files.exists(key)


def test_10_a_key_is_created_once(files: FilesSubject) -> None:
    """Create means new."""
    key = files.key()
    files.create(key)
    with pytest.raises(files.refusal):
        files.create(key)


def test_11_a_transcript_alone_is_a_store(files: FilesSubject) -> None:
    """Create does not take over what something else wrote."""
    if files.planted is None:
        pytest.skip("nothing can be planted there")
    key = files.key()
    files.planted(key, b"[]")

    assert files.exists(key)
    with pytest.raises(files.refusal):
        files.create(key)


def test_12_saving_again_and_again_keeps_the_transcript(files: FilesSubject) -> None:
    """It is at the store's root each time."""
    key = files.key()
    store = files.create(key)
    for number in range(3):
        store.append({"role": "user", "content": str(number)})
        saved = store.save()
        assert saved.path == files.store.remote_path_for_key(**files.place(key))

    assert [one["content"] for one in files.reach(key).messages] == ["0", "1", "2"]


def test_13_get_or_create_loads_what_is_there(files: FilesSubject) -> None:
    """Files and transcript."""
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
    """False before, true after."""
    key = files.key()
    assert not files.exists(key)
    files.create(key)
    assert files.exists(key)
