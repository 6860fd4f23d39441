"""Preconditions are checked against the version that the writer read, in every location."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from satchel.errors import SatchelError, TargetError
from satchel.files import ConcurrencyError, MemoryStore, MemoryStoreError, storage
from satchel.files.remote import store as remote_place
from satchel.files.remote.objects import MemoryObjects, NotWritten, TaggedObject

Folder = Callable[[], Path]
RootOf = Callable[[str, Path], str]


class Writers:
    """A store and its working copies, each of which writes and saves separately."""

    def __init__(self, kind: str, place: str, folder: Path) -> None:
        self.kind = kind
        self._place = place
        self._folder = folder
        self._copies = 0
        first = self.open()
        first.save()
        first.close()

    def open(self) -> MemoryStore:
        """Open another working copy."""
        self._copies += 1
        root = self._folder / f"copy-{self._copies}" if self.kind == "folder" else None
        return MemoryStore(remote_path=self._place, root=root)

    def audit(self) -> list[dict[str, Any]]:
        """Return the saved events, from the location itself."""
        where = {"root": self._place} if self.kind == "folder" else {"remote_path": self._place}
        with MemoryStore(**where) as store:  # type: ignore[arg-type]  # one of the two
            return [e for e in store.audit_tail_sync(10_000) if e["op"] != "refused"]


@pytest.fixture(params=["folder", "memory", "sqlite", "s3"])
def writers(
    request: pytest.FixtureRequest,
    folder: Folder,
    root_of: RootOf,
    monkeypatch: pytest.MonkeyPatch,
) -> Writers:
    """Working copies of one store."""
    home = folder()
    monkeypatch.setenv("SATCHEL_HOME", str(home))
    return Writers(request.param, f"{root_of(request.param, home)}/store", home)


def _create_lease(store: MemoryStore) -> None:
    store.write_json("lease", {"holder": "nightly"}, expected_sha="")


def _append_to_lease(store: MemoryStore) -> None:
    store.append_text("lease", "one more\n")


def _edit_old(store: MemoryStore) -> None:
    store.edit("old.txt", "0", "1")


def _rename_old(store: MemoryStore) -> None:
    store.rename("old.txt", "lease")


def _delete_old(store: MemoryStore) -> None:
    store.delete("old.txt")


def _write_with_version(store: MemoryStore) -> None:
    meta = store.get_meta("old.txt")
    assert meta is not None
    store.write_text("old.txt", "1", expected_version=meta.version)


@pytest.mark.in_check(9)
@pytest.mark.parametrize(
    "change",
    [_create_lease, _append_to_lease, _edit_old, _rename_old, _delete_old, _write_with_version],
)
def test_one_of_two_equal_changes_is_saved(
    writers: Writers, change: Callable[[MemoryStore], None]
) -> None:
    """A lease has one holder, and of two equal edits one is refused."""
    with writers.open() as store:
        store.write_text("old.txt", "0")
        store.save()
    one, two = writers.open(), writers.open()
    change(one)
    change(two)
    one.save()
    for _ in range(2):  # trying again does not win either
        with pytest.raises(ConcurrencyError):
            two.save()
    path = "lease" if change in (_create_lease, _append_to_lease, _rename_old) else "old.txt"
    two.refresh(discard=[path, "old.txt"])
    two.save()
    saved = [event for event in writers.audit() if event.get("path") == path]
    assert len(saved) == (1 if path == "lease" else 2)


@pytest.mark.in_check(2)
def test_a_counter_loses_no_increment(writers: Writers) -> None:
    """A refused writer reads again; every saved increment counts."""
    with writers.open() as store:
        store.write_json("n.json", 0)
        store.save()
    done = 0
    for _ in range(4):
        copies = [writers.open() for _ in range(3)]
        for store in copies:
            sha = store.current_sha("n.json")
            store.write_json("n.json", store.read_json("n.json") + 1, expected_sha=sha)
        for store in copies:
            try:
                store.save()
                done += 1
            except ConcurrencyError:
                store.refresh(discard=["n.json"])
                store.write_json("n.json", store.read_json("n.json") + 1)
                store.save()
                done += 1
            store.close()
    with writers.open() as after:
        assert after.read_json("n.json") == done == 12


def test_a_file_that_was_deleted_and_created_again_is_a_new_file(writers: Writers) -> None:
    """Its bytes are the same, but a precondition on the former file fails."""
    with writers.open() as store:
        store.write_text("a.txt", "same")
        store.save()
    one, two = writers.open(), writers.open()
    one.delete("a.txt")
    one.save()
    one.write_text("a.txt", "same")
    one.save()
    meta = two.get_meta("a.txt")
    assert meta is not None
    two.write_text("a.txt", "other", expected_version=meta.version)
    with pytest.raises(ConcurrencyError):
        two.save()
    two.refresh(discard=["a.txt"])
    assert two.read_text("a.txt") == "same"
    assert one.read_text("a.txt") == "same"


def test_a_working_copy_with_a_conflict_preserves_its_changes(
    writers: Writers, folder: Folder
) -> None:
    """Its text stays until the conflict is resolved; opening overwrites nothing."""
    root = folder() / "copy"
    with writers.open() as store:
        store.write_text("a.txt", "0")
        store.save()
    mine = MemoryStore(remote_path=writers._place, root=root)
    mine.write_text("a.txt", "mine")
    mine.close()
    with writers.open() as store:
        store.write_text("a.txt", "theirs")
        store.save()
    with MemoryStore(remote_path=writers._place, root=root) as again:
        assert again.read_text("a.txt") == "mine"
        with pytest.raises(ConcurrencyError):
            again.save()
        again.refresh(discard=["a.txt"])
        assert again.read_text("a.txt") == "theirs"


def test_an_edit_from_outside_is_not_overwritten_by_a_refresh(
    writers: Writers, folder: Folder
) -> None:
    """An editor counts as a writer."""
    root = folder() / "copy"
    with writers.open() as store:
        store.write_text("a.txt", "0")
        store.save()
    mine = MemoryStore(remote_path=writers._place, root=root)
    assert mine.read_text("a.txt") == "0"
    (root / "a.txt").write_text("by an editor")
    with writers.open() as store:
        store.write_text("a.txt", "theirs")
        store.save()
    with pytest.raises(ConcurrencyError):
        mine.refresh()
    assert mine.read_text("a.txt") == "by an editor"


def test_two_working_copies_with_the_same_existing_files_do_not_conflict(
    writers: Writers, folder: Folder
) -> None:
    """Both imported equal files from their folder, so neither changed them."""
    one, two = folder() / "one", folder() / "two"
    for root in (one, two):
        root.mkdir()
        (root / "a.txt").write_text("shared")
    for root in (one, two):
        with MemoryStore(remote_path=writers._place, root=root) as store:
            store.save()
    with writers.open() as after:
        assert after.read_text("a.txt") == "shared"


# Not a folder: it is written in place, or has separate rules, transcript and audit.
@pytest.mark.parametrize("writers", ["memory", "sqlite", "s3"], indirect=True)
def test_concurrently_changed_rules_are_saved_and_not_undone(writers: Writers) -> None:
    """Also if other writers saved files in the meantime, and without other changes."""
    one, two = writers.open(), writers.open()
    one.write_text("a.txt", "1")
    one.save()
    two.change_policy(read_only_prefixes=("memory/",), audit=False)
    two.save()
    with writers.open() as after:
        assert (after.read_only_prefixes, after.audit) == (("memory",), False)
        after.change_policy(keep_versions=True)
        after.save()
    with writers.open() as again:
        assert again.keep_versions


# Not a folder: it is written in place, or has separate rules, transcript and audit.
@pytest.mark.parametrize("writers", ["memory", "sqlite", "s3"], indirect=True)
def test_a_file_and_a_folder_of_the_same_name_conflict(writers: Writers) -> None:
    """One writer creates the file, the other a file in the folder."""
    one, two = writers.open(), writers.open()
    one.write_text("a", "1")
    two.write_text("a/b.txt", "2")
    one.save()
    with pytest.raises(ConcurrencyError):
        two.save()


# Not a folder: it is written in place, or has separate rules, transcript and audit.
@pytest.mark.parametrize("writers", ["memory", "sqlite", "s3"], indirect=True)
def test_the_audit_of_concurrent_transcripts_is_linear(writers: Writers) -> None:
    """Messages are merged; each state follows the previous one."""
    copies = [writers.open() for _ in range(4)]
    for number, store in enumerate(copies):
        store.append({"role": "user", "content": str(number)})
        store.save()
    with writers.open() as after:
        assert [m["content"] for m in after.messages] == ["0", "1", "2", "3"]
        assert_linear(after)


def assert_linear(store: MemoryStore) -> None:
    """Assert that each event follows the previous one by chain, digest and version."""
    assert store.verify_audit().ok
    shas, versions = defaultdict[str, str](str), defaultdict[str, int](int)
    for event in store.audit_tail_sync(100_000):
        if "version" not in event:
            continue
        path = event["path"]
        if "other" in event and event["op"] in {"rename", "promote"}:
            shas[event["other"]] = ""
            versions[event["other"]] += 1
        assert event["old_sha"] == shas[path], event
        assert event["version"] > versions[path], event
        shas[path], versions[path] = event["new_sha"], event["version"]


class _FlakyObjects(MemoryObjects):
    """Objects of a service that loses answers and requests as planned by a test."""

    plan: tuple[str, ...] = ()
    answers = True

    def _step(self) -> str:
        head, *rest = type(self).plan or ("ok",)
        type(self).plan = tuple(rest)
        return head

    def get(self, name: str) -> TaggedObject | None:
        if not type(self).answers:
            raise TargetError("the service does not answer", file=name)
        return super().get(name)

    def replace(self, name: str, data: bytes, tag: str) -> None:
        what = self._step()
        if what == "lost request":
            type(self).answers = False
            raise NotWritten("timeout")
        super().replace(name, data, tag)
        if what == "lost answer":
            type(self).answers = False
            raise NotWritten("timeout")


@pytest.fixture
def flaky_location(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A location whose service can be told to fail."""
    monkeypatch.setattr(storage, "MemoryObjects", _FlakyObjects)
    monkeypatch.setattr(remote_place, "_pause", lambda _: None)
    _FlakyObjects.plan, _FlakyObjects.answers = (), True
    yield f"memory://{folder()}/store"
    _FlakyObjects.plan, _FlakyObjects.answers = (), True


@pytest.mark.in_check(4)
@pytest.mark.parametrize("outcome", ["lost answer", "lost request"])
@pytest.mark.parametrize("others", [0, 1, 40])
@pytest.mark.parametrize("more", [False, True])
def test_a_save_with_an_unknown_outcome_is_applied_once(
    flaky_location: str, outcome: str, others: int, *, more: bool
) -> None:
    """The writer repeats its save, after others saved, and after more changes."""
    with MemoryStore(remote_path=flaky_location) as store:
        store.write_text("mine.txt", "0")
        store.save()
    writer = MemoryStore(remote_path=flaky_location)
    writer.append_text("mine.txt", "+1")
    _FlakyObjects.plan = (outcome,)
    with pytest.raises(TargetError):
        writer.save()
    _FlakyObjects.answers = True
    for number in range(others):
        with MemoryStore(remote_path=flaky_location) as other:
            other.write_text("theirs.txt", str(number))
            other.save()
    if more:
        writer.append_text("mine.txt", "+1")
    writer.save()
    writer.save()
    with MemoryStore(remote_path=flaky_location) as after:
        assert after.read_text("mine.txt") == ("0+1+1" if more else "0+1")
        written = [e for e in after.audit_tail_sync(100) if e.get("path") == "mine.txt"]
        assert len(written) == (3 if more else 2)
        assert_linear(after)


def test_a_lost_request_does_not_hide_a_concurrent_save(flaky_location: str) -> None:
    """Another writer saved the file, so the repeated save is refused."""
    with MemoryStore(remote_path=flaky_location) as store:
        store.save()
    writer = MemoryStore(remote_path=flaky_location)
    _create_lease(writer)
    _FlakyObjects.plan = ("lost request",)
    with pytest.raises(TargetError):
        writer.save()
    _FlakyObjects.answers = True
    with MemoryStore(remote_path=flaky_location) as other:
        _create_lease(other)
        other.save()
    with pytest.raises(ConcurrencyError):
        writer.save()


_KILLED = """
import os, signal, sys
from satchel.files import MemoryStore
from satchel.files.commit import GroupCommit
from satchel.files.remote import store as remote_store
kind, place, root, step = sys.argv[1:]
store = MemoryStore(remote_path=place, root=root)
store.append_text("mine.txt", "+1")
die = lambda *args, **more: os.kill(os.getpid(), signal.SIGKILL)
if step == "before":
    remote_store.RemoteFileStorage._advance = die
    if kind == "folder":
        from satchel.files import local_store
        local_store._Bring.apply = die
else:
    done = GroupCommit.do
    def do(self, change):
        if type(change).__name__ in ("SaveConfirmation", "_PulledChanges"):
            die()
        return done(self, change)
    GroupCommit.do = do
store.save()
"""


@pytest.mark.parametrize("step", ["before", "after"])
def test_a_writer_killed_during_a_save_resumes(
    root_of: RootOf, folder: Folder, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its change is saved once, whether or not the head was written before the kill."""
    for kind in ("folder", "sqlite", "s3"):
        home = folder()
        monkeypatch.setenv("SATCHEL_HOME", str(home))
        place = f"{root_of(kind, home)}/store"
        writers = Writers(kind, place, home)
        with writers.open() as store:
            store.write_text("mine.txt", "0")
            store.save()
        root = home / "killed"
        done = subprocess.run(
            [sys.executable, "-c", _KILLED, kind, place, str(root), step],
            env=dict(os.environ),
            capture_output=True,
            check=False,
        )
        assert done.returncode == -signal.SIGKILL, done.stderr
        with writers.open() as other:
            other.write_text("theirs.txt", "1")
            other.save()
        with MemoryStore(remote_path=place, root=root) as again:
            again.save()
            again.append_text("mine.txt", "+1")
            again.save()
        with writers.open() as after:
            assert after.read_text("mine.txt") == "0+1+1"


def _increment(writers: Writers, times: int) -> int:
    """Increment a counter, each time from a new working copy; return the number of saves."""
    done = 0
    for _ in range(times):
        with writers.open() as store:
            value, sha = store.read_json("n.json", default=0), store.current_sha("n.json")
            try:
                store.write_json("n.json", value + 1, expected_sha=sha)
                store.save()
                done += 1
            except ConcurrencyError:
                pass
    return done


@pytest.mark.in_check(2)
def test_concurrent_increments_are_counted_exactly(writers: Writers) -> None:
    """Successful saves of several threads equal the counter and the audit."""
    with ThreadPoolExecutor(4) as threads:
        done = sum(threads.map(lambda _: _increment(writers, 4), range(4)))
    with writers.open() as after:
        assert after.read_json("n.json") == done
        if writers.kind != "folder":
            assert_linear(after)


@pytest.mark.parametrize("kind", ["memory", "sqlite", "s3"])
def test_two_writers_that_create_the_same_store_both_save(
    kind: str, folder: Folder, root_of: RootOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither saw a head; the second follows the first."""
    place = f"{root_of(kind, folder())}/store"
    first, second = MemoryStore(key="k", remote_path=place), MemoryStore(key="k", remote_path=place)
    first.write_text("first.txt", "1")
    second.write_text("second.txt", "2")
    look, looked = remote_place.RemoteFileStorage._head, list[str]()

    def slow(self: remote_place.RemoteFileStorage) -> Any:
        found = look(self)
        looked.append("")
        if len(looked) == 1:
            first.save()
        return found

    monkeypatch.setattr(remote_place.RemoteFileStorage, "_head", slow)
    second.save()
    monkeypatch.undo()
    with MemoryStore(key="k", remote_path=place) as third:
        assert set(third.list_paths()) >= {"first.txt", "second.txt"}
    first.close()
    second.close()


def test_concurrent_get_or_create_raises_no_error(root_of: RootOf, folder: Folder) -> None:
    """One call creates the store with its rules, and the others open it."""
    for kind in ("folder", "memory", "sqlite", "s3"):
        root = root_of(kind, folder())
        for number in range(2 if kind == "s3" else 4):
            barrier, problems = threading.Barrier(6), list[str]()

            def begin(key: str = f"k{number}", root: str = root) -> None:
                barrier.wait()  # noqa: B023 - used in this iteration
                try:
                    with MemoryStore.get_or_create(
                        key=key, storage_root=root, keep_versions=True
                    ) as store:
                        store.write_text(f"{threading.get_ident()}.txt", "x")
                        store.save()
                        assert store.keep_versions
                except (SatchelError, OSError, AssertionError) as error:
                    problems.append(f"{kind}: {error!r}")  # noqa: B023 - used in this iteration

            threads = [threading.Thread(target=begin) for _ in range(6)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert problems == []


@pytest.fixture
def frequent_thread_switches() -> Iterator[None]:
    """Threads that switch much more often than usual."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(usual)


@pytest.mark.in_check(1)
@pytest.mark.usefixtures("frequent_thread_switches")
@pytest.mark.parametrize("kind", ["memory", "sqlite", "s3"])
def test_one_of_several_concurrent_object_creations_succeeds(
    kind: str, root_of: RootOf, folder: Folder
) -> None:
    """All other guarantees depend on it; the test server behaves like S3."""
    for number in range(20):
        place = root_of(kind, folder() if kind == "sqlite" else Path(f"/{number}"))
        barrier, won = threading.Barrier(6), list[bytes]()

        def create(
            place: str = place, barrier: threading.Barrier = barrier, won: list[bytes] = won
        ) -> None:
            objects, mine = storage._objects(f"{place}/store"), str(threading.get_ident()).encode()
            barrier.wait()
            try:
                objects.create("HEAD", mine)
                won.append(mine)
            except NotWritten:
                pass

        threads = [threading.Thread(target=create) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found = storage._objects(f"{place}/store").get("HEAD")
        assert found is not None
        assert won == [found.data]


_BEGIN = """
import multiprocessing, sys
from pathlib import Path
from satchel.files.remote.objects import NotWritten
from satchel.files.remote.objects import SqliteObjects

def begin(number, barrier, told, paths):
    for path in paths:
        barrier.wait()
        objects = SqliteObjects(path, "store")
        objects.put(f"pack-{number}", b"x" * 1000)
        try:
            objects.create("HEAD", f"{number}".encode())
            told.put((path, number))
        except NotWritten:
            pass
        added = 0
        while added < 3:
            found = objects.get("HEAD")
            try:
                objects.replace("HEAD", found.data + f" {number}".encode(), found.tag)
                added += 1
            except NotWritten:
                pass
    told.put(None)

paths = [Path(sys.argv[1]) / str(turn) / "files.db" for turn in range(10)]
fork = multiprocessing.get_context("fork")
barrier, told = fork.Barrier(6), fork.Queue()
writers = [
    fork.Process(target=begin, args=(n, barrier, told, paths), daemon=True) for n in range(6)
]
for writer in writers: writer.start()
won, ended = [], 0
while ended < 6:
    one = told.get(timeout=60)
    ended += one is None
    won += [one] if one else []
for writer in writers: writer.join()
assert [writer.exitcode for writer in writers] == [0] * 6
assert sorted(path for path, _ in won) == sorted(paths), won  # one each
for path, number in won:
    objects = SqliteObjects(path, "store")
    first, *others = objects.get("HEAD").data.split()
    assert int(first) == number, (path, number, first)
    assert sorted(map(int, others)) == sorted([*range(6)] * 3), others
    assert sorted(objects.names()) == ["HEAD", *(f"pack-{n}" for n in range(6))]
"""


def test_concurrent_creations_of_a_database_lose_no_write(folder: Folder) -> None:
    """SQLite's locks: one writer creates the head, and all add to it."""
    done = subprocess.run(
        [sys.executable, "-c", _BEGIN, str(folder())],
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )

    assert done.returncode == 0, done.stderr


def test_a_store_is_saved_whole_to_a_second_destination(folder: Folder) -> None:
    """And again after changes."""
    home = folder()
    store = MemoryStore(root=home / "store")
    store.write_text("a.txt", "1")
    store.append({"role": "user", "content": "hello"})
    places_ = [f"memory://{home}/A", f"memory://{home}/B", str(home / "C"), str(home / "D")]
    for round_ in ("1", "2"):
        store.write_text("a.txt", round_)
        store.write_text(f"only-{round_}.txt", "x")
        for place in places_:
            store.save(place)
        store.delete(f"only-{round_}.txt")
    for place in places_:
        where: dict[str, Any] = {"root": place} if place.startswith("/") else {"remote_path": place}
        with MemoryStore(**where) as there:
            assert there.read_text("a.txt") == "2"
            assert there.list_paths() == ["a.txt", "only-2.txt"]
            assert there.messages == [{"role": "user", "content": "hello"}]
            there.write_text("a.txt", "by somebody else")
            there.save()
    store.write_text("a.txt", "3")
    for place in places_:
        with pytest.raises(ConcurrencyError):
            store.save(place)


_PATHS = st.sampled_from(["a", "b", "d/c"])
_BYTES = st.sampled_from(["x", "y"])
_WHO = st.integers(0, 2)


class SeveralWriters(RuleBasedStateMachine):
    """Three working copies of one store and a model of the versions that each has read.

    Few paths and few texts, so that equal bytes, deletions and re-created files are common.
    """

    number = 0

    def __init__(self) -> None:
        super().__init__()
        type(self).number += 1
        self.place = f"memory:///several/{type(self).number}"
        with MemoryStore(remote_path=self.place, keep_versions=True) as first:
            first.save()
        self.copies = [MemoryStore(remote_path=self.place) for _ in range(3)]
        self.saved: dict[str, tuple[int, str | None]] = {}
        """Of each path, the number of the save that changed it last, and its text."""
        self.saves = 0
        self.seen = [0, 0, 0]
        self.local: list[dict[str, str | None]] = [{}, {}, {}]
        self.dirty: list[set[str]] = [set(), set(), set()]

    def teardown(self) -> None:
        """Close all."""
        for store in self.copies:
            store.close()

    def _text(self, who: int, path: str) -> str | None:
        return self.local[who].get(path)

    def _set(self, who: int, path: str, text: str | None) -> None:
        self.local[who][path] = text
        self.dirty[who].add(path)

    @rule(who=_WHO, path=_PATHS, text=_BYTES)
    def write(self, who: int, path: str, text: str) -> None:
        """Write unconditionally."""
        self.copies[who].write_text(path, text)
        self._set(who, path, text)

    @rule(who=_WHO, path=_PATHS, text=_BYTES)
    def create(self, who: int, path: str, text: str) -> None:
        """Create a lease."""
        try:
            self.copies[who].write_text(path, text, expected_sha="")
        except ConcurrencyError:
            assert self._text(who, path) is not None
            return
        assert self._text(who, path) is None
        self._set(who, path, text)

    @rule(who=_WHO, path=_PATHS)
    def append(self, who: int, path: str) -> None:
        """Append a line."""
        self.copies[who].append_text(path, "+")
        self._set(who, path, (self._text(who, path) or "") + "+")

    @rule(who=_WHO, path=_PATHS)
    def delete(self, who: int, path: str) -> None:
        """Delete an existing file."""
        try:
            self.copies[who].delete(path)
        except MemoryStoreError:
            assert self._text(who, path) is None
            return
        self._set(who, path, None)

    @rule(who=_WHO, old=_PATHS, new=_PATHS)
    def move(self, who: int, old: str, new: str) -> None:
        """Rename to an unused path."""
        try:
            self.copies[who].rename(old, new)
        except MemoryStoreError:
            assert old == new or self._text(who, old) is None or self._text(who, new) is not None
            return
        text = self._text(who, old)
        self._set(who, old, None)
        self._set(who, new, text)

    def _conflicts(self, who: int) -> set[str]:
        return {
            path for path in self.dirty[who] if self.saved.get(path, (0, None))[0] > self.seen[who]
        }

    def _catch_up(self, who: int) -> None:
        for path, (number, text) in self.saved.items():
            if number > self.seen[who]:
                self.local[who][path] = text
        self.seen[who] = self.saves

    @rule(who=_WHO)
    def save(self, who: int) -> None:
        """Save; refused exactly if another writer saved a file that is changed here."""
        conflicts = self._conflicts(who)
        if conflicts:
            with pytest.raises(ConcurrencyError) as refused:
                self.copies[who].save()
            assert refused.value.path in conflicts
            return
        self.copies[who].save()
        self.saves += 1
        for path in self.dirty[who]:
            self.saved[path] = (self.saves, self._text(who, path))
        self._catch_up(who)
        self.dirty[who].clear()

    @rule(who=_WHO)
    def give_up(self, who: int) -> None:
        """Discard conflicting changes and take the saved files."""
        conflicts = self._conflicts(who)
        self.copies[who].refresh(discard=sorted(conflicts))
        self.dirty[who] -= conflicts
        self._catch_up(who)

    @invariant()
    def each_copy_equals_the_model(self) -> None:
        """The texts here, and those of the store for a new working copy; the audit is linear."""
        for who, store in enumerate(self.copies):
            mine = {path: text for path, text in self.local[who].items() if text is not None}
            assert {path: store.read_text(path) for path in store.list_paths()} == mine
        with MemoryStore(remote_path=self.place) as newcomer:
            now = {path: text for path, (_, text) in self.saved.items() if text is not None}
            assert {path: newcomer.read_text(path) for path in newcomer.list_paths()} == now
            assert_linear(newcomer)
            for path in now:
                numbers = [version.version for version in newcomer.history(path)]
                assert numbers == sorted(set(numbers))


TestSeveralWriters = SeveralWriters.TestCase
TestSeveralWriters.settings = settings(max_examples=12, stateful_step_count=25, deadline=None)


def test_the_saved_audit_is_one_json_object_per_line(writers: Writers) -> None:
    """Each with its number."""
    with writers.open() as store:
        store.write_text("a.txt", "1")
        store.save()
        assert json.dumps(store.audit_tail_sync(5))
