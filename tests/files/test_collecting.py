"""What nothing refers to is removed from remote places, and nothing else is."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from s3_kit import S3Server

from satchel.errors import MalformedError, TargetError
from satchel.files import MemoryStore
from satchel.files.remote.objects import MemoryObjects, NotWritten
from satchel.files.remote.packs import HEAD, PACKS, RemoteHead
from satchel.files.remote.store import RemoteFileStorage
from satchel.files.storage import file_storage

Folder = Callable[[], Path]


@pytest.fixture(params=["memory", "sqlite", "s3"])
def root(request: pytest.FixtureRequest, folder: Folder) -> str:
    """Places that have packs."""
    if request.param == "s3":
        server: S3Server = request.getfixturevalue("s3")
        return server.bucket()
    return f"{request.param}://{folder()}{'/x.db' if request.param == 'sqlite' else ''}"


def _place(root: str) -> RemoteFileStorage:
    found = file_storage(MemoryStore.remote_path_for_key("k", storage_root=root))
    assert isinstance(found, RemoteFileStorage)
    return found


def _packs(root: str) -> list[str]:
    return sorted(name for name in _place(root).objects.names() if name.startswith(PACKS))


def _rewritten(root: str, times: int = 12, **policy: bool) -> None:
    """Make a store in which a file was saved again and again."""
    with MemoryStore.create(key="k", storage_root=root, **policy) as store:  # type: ignore[arg-type]  # a rule by name
        store.write_text("still.md", "as it was")
        for number in range(times):
            store.write_text("a.md", f"text {number} " * 50)
            store.save()


def test_old_packs_are_removed_after_a_grace_period(root: str) -> None:
    """First they wait; what is there can be read, written and checked all the while."""
    _rewritten(root)
    before = _packs(root)
    with MemoryStore.get_or_create(key="k", storage_root=root) as store:
        first = store.collect()
        assert (first.removed, first.waiting > 8) == (0, True)
        assert set(before) <= set(_packs(root))
        assert store.collect(grace=0).removed == first.waiting
        assert len(_packs(root)) <= 3
        assert store.collect(grace=0) == (0, 0, 0)
        store.write_text("b.md", "goes on")
        store.save()
    with MemoryStore.get_or_create(key="k", storage_root=root) as after:
        assert after.read_text("a.md") == "text 11 " * 50
        assert (after.read_text("b.md"), after.read_text("still.md")) == ("goes on", "as it was")
        assert len(after.history("a.md")) == 12
        assert after.verify_audit().ok


def test_texts_of_versions_stay_where_versions_are_kept(root: str) -> None:
    """All of them, whatever packs they are in."""
    _rewritten(root, keep_versions=True)
    with MemoryStore.get_or_create(key="k", storage_root=root) as store:
        assert store.collect(grace=0).removed > 0
    with MemoryStore.get_or_create(key="k", storage_root=root) as after:
        for number in range(12):
            assert after.read_version("a.md", number + 1) == f"text {number} " * 50


def test_a_writer_with_an_older_head_loses_nothing(root: str) -> None:
    """Its pack was there and not yet named: it is condemned, and the writer begins again."""
    _rewritten(root, 3)
    place = _place(root)
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
    """By a working copy that knows where it was: it has to look again."""
    _rewritten(root, 2)
    with MemoryStore.get_or_create(key="k", storage_root=root) as writer:
        old = writer.read_text("a.md")
        writer.write_text("a.md", "x" * 2_000)
        writer.save()
        _place(root).collect(grace=0)
        writer.write_text("again.md", old)
        writer.save()
    with MemoryStore.get_or_create(key="k", storage_root=root) as after:
        assert after.read_text("again.md") == old


def test_an_open_reader_finds_what_was_brought_elsewhere(root: str) -> None:
    """And is told to look again where a text is gone, since the file has another one."""
    _rewritten(root, 3)
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


def test_concurrent_writers_and_collectors_lose_nothing(folder: Folder) -> None:
    """Each write that was acknowledged is there at the end, and can be read."""
    root = f"memory://{folder()}"
    _rewritten(root, 2)
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
            _place(root).collect(grace=0)

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


class _LossyAndRaced(MemoryObjects):
    """Objects whose answer to a replaced head is lost, after which somebody else is first."""

    def replace(self, name: str, data: bytes, tag: str) -> None:
        super().replace(name, data, tag)
        if not _raced:
            _raced.append(name)
            place = RemoteFileStorage(self._prefix.rstrip("/"), MemoryObjects(self._prefix))
            place.collect(grace=0)
            raise NotWritten("the connection was dropped")


_raced = list[str]()


def test_ones_own_write_is_known_also_when_others_wrote_since(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer that was lost, and a head that is another by now: nothing is said twice."""
    root = f"memory://{folder()}"
    _rewritten(root, 3)
    _raced.clear()
    monkeypatch.setattr("satchel.files.storage.MemoryObjects", _LossyAndRaced)
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
    """By whoever reads, writes or collects: it is named as damaged, whatever it says."""
    root = f"memory://{folder()}"
    _rewritten(root, 3)
    place = _place(root)
    found = place.objects.get(HEAD)
    assert found is not None
    place.objects.put(HEAD, json.dumps({**json.loads(found.data), name: value}).encode())
    packs = _packs(root)
    for do in (
        lambda: MemoryStore.get_or_create(key="k", storage_root=root),
        lambda: place.collect(grace=0),
        place.standing,
    ):
        with pytest.raises(MalformedError, match="head of the store is damaged"):
            do()
    assert _packs(root) == packs


def _said(root: str, **members: object) -> None:
    """Have the head say something else, as whoever can write to the place."""
    place = _place(root)
    found = place.objects.get(HEAD)
    assert found is not None
    place.objects.put(HEAD, json.dumps({**json.loads(found.data), **members}).encode())


def _head(root: str) -> RemoteHead:
    found = _place(root).objects.get(HEAD)
    assert found is not None
    return RemoteHead.decoded(found.data, root)


def test_a_pack_that_is_in_use_is_not_removed_whatever_the_head_condemns(folder: Folder) -> None:
    """Attack: all packs condemned since long ago. What files need stays; other names are none."""
    root = f"memory://{folder()}"
    _rewritten(root, 3)
    names = [name[len(PACKS) :] for name in _packs(root)]
    _said(root, condemned=[[name, 0] for name in [*names, "f" * 64]])
    with MemoryStore.get_or_create(key="k", storage_root=root) as store:
        store.collect(grace=3_600)
    with MemoryStore.get_or_create(key="k", storage_root=root) as after:
        assert (after.read_text("still.md"), after.read_text("a.md")) == (
            "as it was",
            "text 2 " * 50,
        )
        assert after.verify_audit().ok


def test_what_was_condemned_in_time_to_come_is_condemned_now(folder: Folder) -> None:
    """Attack: a moment that never comes, so that old texts stay for ever."""
    root = f"memory://{folder()}"
    _rewritten(root, 3)
    _place(root).collect(grace=3_600)
    _said(root, condemned=[[name, (1 << 62) - 1] for name, _ in _head(root).condemned])
    assert _place(root).collect(grace=3_600).removed == 0
    assert all(at < 1 << 60 for _, at in _head(root).condemned)
    assert _place(root).collect(grace=0).removed > 0


def test_a_head_that_claims_ones_own_nonce_is_no_answer_to_a_write_that_failed(
    folder: Folder,
) -> None:
    """``recent`` of any length and any words: a save that lost its race begins again."""
    root = f"memory://{folder()}"
    _rewritten(root, 2)
    _said(root, recent=[str(number) for number in range(10_000)])
    with MemoryStore.get_or_create(key="k", storage_root=root) as store:
        store.write_text("b.md", "goes on")
        _said(root, nonce="of somebody else")
        store.save()
    assert len(_head(root).recent) == 16
    with MemoryStore.get_or_create(key="k", storage_root=root) as after:
        assert after.read_text("b.md") == "goes on"
