"""Garbage collection in remote locations removes exactly the unreferenced packs."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from satchel.errors import MalformedError, TargetError
from satchel.files import MemoryStore
from satchel.files.remote.objects import MemoryObjects, NotWritten
from satchel.files.remote.packs import HEAD, PACKS, RemoteHead
from satchel.files.remote.store import RemoteFileStorage
from satchel.files.storage import file_storage

Folder = Callable[[], Path]


@pytest.fixture(params=["memory", "sqlite", "s3"])
def root(
    request: pytest.FixtureRequest, folder: Folder, root_of: Callable[[str, Path], str]
) -> str:
    """Locations that have packs."""
    return root_of(request.param, folder())


def _remote_storage(root: str) -> RemoteFileStorage:
    found = file_storage(MemoryStore.remote_path_for_key("k", storage_root=root))
    assert isinstance(found, RemoteFileStorage)
    return found


def _pack_names(root: str) -> list[str]:
    return sorted(name for name in _remote_storage(root).objects.names() if name.startswith(PACKS))


def _make_store(root: str, times: int = 12, **policy: bool) -> None:
    """Make a store in which a file was saved again and again."""
    with MemoryStore.create(key="k", storage_root=root, **policy) as store:  # type: ignore[arg-type]  # options by name
        store.write_text("still.md", "as it was")
        for number in range(times):
            store.write_text("a.md", f"text {number} " * 50)
            store.save()


@pytest.mark.in_check(2)
def test_old_packs_are_removed_after_a_grace_period(root: str) -> None:
    """They wait first; reads, writes and checks work in the meantime."""
    _make_store(root)
    before = _pack_names(root)
    with MemoryStore.get_or_create(key="k", storage_root=root) as store:
        first = store.collect()
        assert (first.removed, first.waiting > 8) == (0, True)
        assert set(before) <= set(_pack_names(root))
        assert store.collect(grace=0).removed == first.waiting
        assert len(_pack_names(root)) <= 3
        assert store.collect(grace=0) == (0, 0, 0)
        store.write_text("b.md", "goes on")
        store.save()
    with MemoryStore.get_or_create(key="k", storage_root=root) as after:
        assert after.read_text("a.md") == "text 11 " * 50
        assert (after.read_text("b.md"), after.read_text("still.md")) == ("goes on", "as it was")
        assert len(after.history("a.md")) == 12
        assert after.verify_audit().ok


@pytest.mark.in_check(2)
def test_collect_preserves_the_texts_of_versions(root: str) -> None:
    """Whatever packs they are in."""
    _make_store(root, keep_versions=True)
    with MemoryStore.get_or_create(key="k", storage_root=root) as store:
        assert store.collect(grace=0).removed > 0
    with MemoryStore.get_or_create(key="k", storage_root=root) as after:
        for number in range(12):
            assert after.read_version("a.md", number + 1) == f"text {number} " * 50


def test_a_writer_with_an_older_head_loses_no_data(root: str) -> None:
    """Its new pack was condemned before the head named it, so the writer starts again."""
    _make_store(root, 3)
    place = _remote_storage(root)
    with MemoryStore.get_or_create(key="k", storage_root=root) as writer:
        writer.write_text("a.md", "written meanwhile")
        objects = writer._place.objects  # type: ignore[union-attr]  # a remote one
        put, done = objects.put, list[int]()

        def put_then_collect(name: str, data: bytes) -> None:
            put(name, data)
            if name.startswith(PACKS) and not done:
                done.append(place.collect(grace=0).removed)

        objects.put = put_then_collect
        writer.save()
        assert done[0] > 0
    with MemoryStore.get_or_create(key="k", storage_root=root) as after:
        assert after.read_text("a.md") == "written meanwhile"
        assert after.read_text("still.md") == "as it was"
        assert after.verify_audit().ok


def test_a_text_that_was_removed_can_be_written_again(root: str) -> None:
    """A working copy that knows its former pack has to look again."""
    _make_store(root, 2)
    with MemoryStore.get_or_create(key="k", storage_root=root) as writer:
        old = writer.read_text("a.md")
        writer.write_text("a.md", "x" * 2_000)
        writer.save()
        _remote_storage(root).collect(grace=0)
        writer.write_text("again.md", old)
        writer.save()
    with MemoryStore.get_or_create(key="k", storage_root=root) as after:
        assert after.read_text("again.md") == old


def test_an_open_reader_finds_texts_that_moved_to_another_pack(root: str) -> None:
    """If the file has another text by now, the error says so."""
    _make_store(root, 3)
    with (
        MemoryStore.get_or_create(key="k", storage_root=root) as reader,
        MemoryStore.get_or_create(key="k", storage_root=root) as writer,
    ):
        writer.write_text("a.md", "short")
        writer.save()
        writer.collect(grace=0)
        assert reader.read_text("still.md") == "as it was"
        with pytest.raises(TargetError, match="replaced"):
            reader.read_text("a.md")
        reader.refresh()
        assert reader.read_text("a.md") == "short"


def test_concurrent_writers_and_collectors_lose_no_write(folder: Folder) -> None:
    """Every acknowledged write can be read at the end."""
    root = f"memory://{folder()}"
    _make_store(root, 2)
    kept = dict[str, str]()
    stop = threading.Event()

    def write(who: int) -> None:
        with MemoryStore.get_or_create(key="k", storage_root=root) as store:
            for number in range(12):
                path, text = f"{who}/{number % 3}.md", f"{who} {number}"
                store.write_text(path, text)
                store.save()
                kept[path] = text

    def collect() -> None:
        while not stop.is_set():
            _remote_storage(root).collect(grace=0)

    writers = [threading.Thread(target=write, args=(who,)) for who in range(4)]
    collector = threading.Thread(target=collect)
    for one in (*writers, collector):
        one.start()
    for one in writers:
        one.join()
    stop.set()
    collector.join()
    with MemoryStore.get_or_create(key="k", storage_root=root) as after:
        assert {path: after.read_text(path) for path in kept} == kept
        assert len(kept) == 12
        assert after.verify_audit().ok


class _LossyObjectsWithRace(MemoryObjects):
    """Objects that lose the answer to a replaced head, after which another writer is first."""

    def replace(self, name: str, data: bytes, tag: str) -> None:
        super().replace(name, data, tag)
        if not _raced:
            _raced.append(name)
            place = RemoteFileStorage(self._prefix.rstrip("/"), MemoryObjects(self._prefix))
            place.collect(grace=0)
            raise NotWritten("the connection was dropped")


_raced = list[str]()


def test_a_writer_recognizes_its_write_after_a_lost_answer_and_a_race(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event is recorded once."""
    root = f"memory://{folder()}"
    _make_store(root, 3)
    _raced.clear()
    monkeypatch.setattr("satchel.files.storage.MemoryObjects", _LossyObjectsWithRace)
    with MemoryStore.get_or_create(key="k", storage_root=root) as store:
        before = store.verify_audit().events
        store.write_text("a.md", "once")
        store.save()
        assert _raced
        assert store.verify_audit() == (before + 1, 0, ())


_HEX = "0" * 64


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("condemned", 7),
        ("condemned", {_HEX: 1}),
        ("condemned", [[_HEX]]),
        ("condemned", [[_HEX, 1, 2]]),
        ("condemned", [["../../key", 1]]),
        ("condemned", [[_HEX, -1]]),
        ("condemned", [[_HEX, "soon"]]),
        ("condemned", [[_HEX, True]]),
        ("condemned", [[_HEX, 1 << 70]]),
        ("condemned", [[[_HEX], 1]]),
        ("recent", "a nonce"),
        ("recent", [1]),
        ("recent", [["a nonce"]]),
        ("recent", None),
        ("collected", "1"),
        ("collected", -1),
        ("revision", "9"),
        ("revision", 1.5),
        ("clock", None),
        ("nonce", 7),
        ("store", []),
        ("read_only", "user"),
        ("audit", "no"),
        ("keep_versions", 2),
        ("segments", {}),
        ("more", 1),
    ],
)
def test_a_head_with_a_damaged_member_is_refused_and_nothing_is_removed(
    folder: Folder, name: str, value: object
) -> None:
    """Readers, writers and the collector report it as damaged."""
    root = f"memory://{folder()}"
    _make_store(root, 3)
    place = _remote_storage(root)
    found = place.objects.get(HEAD)
    assert found is not None
    place.objects.put(HEAD, json.dumps({**json.loads(found.data), name: value}).encode())
    packs = _pack_names(root)
    for do in (
        lambda: MemoryStore.get_or_create(key="k", storage_root=root),
        lambda: place.collect(grace=0),
        place.standing,
    ):
        with pytest.raises(MalformedError, match="head of the store is damaged"):
            do()
    assert _pack_names(root) == packs


def _change_head(root: str, **members: object) -> None:
    """Change members of the head, with write access to the location."""
    place = _remote_storage(root)
    found = place.objects.get(HEAD)
    assert found is not None
    place.objects.put(HEAD, json.dumps({**json.loads(found.data), **members}).encode())


def _head(root: str) -> RemoteHead:
    found = _remote_storage(root).objects.get(HEAD)
    assert found is not None
    return RemoteHead.decoded(found.data, root)


def test_attack_a_pack_in_use_is_not_removed_when_the_head_condemns_it(folder: Folder) -> None:
    """All packs were condemned long ago; packs of current files stay, unknown names are ignored."""
    root = f"memory://{folder()}"
    _make_store(root, 3)
    names = [name[len(PACKS) :] for name in _pack_names(root)]
    _change_head(root, condemned=[[name, 0] for name in [*names, "f" * 64]])
    with MemoryStore.get_or_create(key="k", storage_root=root) as store:
        store.collect(grace=3_600)
    with MemoryStore.get_or_create(key="k", storage_root=root) as after:
        assert (after.read_text("still.md"), after.read_text("a.md")) == (
            "as it was",
            "text 2 " * 50,
        )
        assert after.verify_audit().ok


def test_attack_a_condemnation_in_the_future_counts_as_now(folder: Folder) -> None:
    """Otherwise old texts would stay for ever."""
    root = f"memory://{folder()}"
    _make_store(root, 3)
    _remote_storage(root).collect(grace=3_600)
    _change_head(root, condemned=[[name, (1 << 62) - 1] for name, _ in _head(root).condemned])
    assert _remote_storage(root).collect(grace=3_600).removed == 0
    assert all(at < 1 << 60 for _, at in _head(root).condemned)
    assert _remote_storage(root).collect(grace=0).removed > 0


def test_attack_a_head_with_forged_nonces_does_not_confirm_a_failed_write(
    folder: Folder,
) -> None:
    """``recent`` of any length and content: a save that lost its race starts again."""
    root = f"memory://{folder()}"
    _make_store(root, 2)
    _change_head(root, recent=[str(number) for number in range(10_000)])
    with MemoryStore.get_or_create(key="k", storage_root=root) as store:
        store.write_text("b.md", "goes on")
        _change_head(root, nonce="of somebody else")
        store.save()
    assert len(_head(root).recent) == 16
    with MemoryStore.get_or_create(key="k", storage_root=root) as after:
        assert after.read_text("b.md") == "goes on"
