"""Compatibility with Flyte: its package under the suite, its folders, and its callers' forms."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from benchmarks import peers
from satchel.files import AccessDenied, ConcurrencyError, MemoryStore, MemoryStoreError
from satchel.files.remote.objects import Objects
from satchel.files.remote.store import RemoteFileStorage
from satchel.files.storage import file_storage

KNOWN = {
    "test_36_each_write_leaves_a_sidecar_and_where_wanted_a_version": (
        "versions of one second have no order: their names hold whole seconds, then the sha"
    ),
}
"""Tests that flyte 2.12.1 fails, with the reason; any other failure is unexpected."""

_FAILED = re.compile(r"^(?:FAILED|ERROR) \S+::(test_\w+)", re.MULTILINE)


@pytest.mark.prove
@pytest.mark.timeout(900)
def test_flyte_passes_the_suite_with_the_known_exceptions(tmp_path: Path) -> None:
    """The suite requires what Flyte's own implementation does."""
    contract = Path(__file__).with_name("flyte_contract.py")
    root = contract.parent.parent.parent
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    done = subprocess.run(
        [
            *(peers.environment("flyte") / "python", "-m", "pytest", "-q", "-rA", contract),
            *("-c", tmp_path / "pytest.ini", "--rootdir", tmp_path),
            *("-p", "no:cacheprovider", "--import-mode=importlib", "--noconftest"),
        ],
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PYTHONPATH": str(root / "src")},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert " passed" in done.stdout, done.stdout[-3_000:] + done.stderr[-3_000:]
    assert set(_FAILED.findall(done.stdout)) == set(KNOWN), done.stdout[-6_000:]


REFUSED = {
    "create twice": "already exists",
    "key a/b": "single path segment",
    "key ..": "single path segment",
    "no key": "must not be empty",
    "/x": "must be relative",
    "../x": "traversal",
    "": "Empty path",
    "link.txt": "outside the memory root",
    "audit/x": "reserved",
    "meta/x": "reserved",
    "versions/x": "reserved",
    "messages.json": "messages.json",
    "memory/x": "read-only",
}
"""Refused calls, and the words that callers match."""

_SPEAKER = """
import json, os, sys
from pathlib import Path

def messages(MemoryStore, context, root):
    where = {"org": "o", "project": "p", "domain": "d"}
    (root / "outside.txt").write_text("x")
    (root / "store").mkdir()
    (root / "store" / "link.txt").symlink_to(root / "outside.txt")
    store = MemoryStore(key="k", remote_path=str(root / "far"), root=root / "store",
                        read_only_prefixes=("memory/",))
    said = {}
    def ask(name, call):
        try:
            call()
        except Exception as error:
            said[name] = [[one.__name__ for one in type(error).__mro__], str(error)]
    with context:
        MemoryStore.create(key="twice", **where)
        ask("create twice", lambda: MemoryStore.create(key="twice", **where))
        for name, key in (("key a/b", "a/b"), ("key ..", ".."), ("no key", "")):
            ask(name, lambda: MemoryStore.create(key=key, **where))
        for path in ("/x", "../x", "", "link.txt", "audit/x", "meta/x", "versions/x",
                     "messages.json", "memory/x"):
            ask(path, lambda: store.write_text(path, "x"))
    return said
"""

_THEIRS = """
from flyte._context import internal_ctx
from flyte.ai.agents.memory import MemoryStore
from flyte.models import RawDataPath

root = Path(sys.argv[1])
context = internal_ctx().new_raw_data_path(RawDataPath(path=str(root / "raw")))
print(json.dumps(messages(MemoryStore, context, root)))
"""


@pytest.mark.prove
@pytest.mark.timeout(900)
def test_errors_have_the_classes_and_words_of_flyte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both implementations make the same calls."""
    (tmp_path / "theirs").mkdir()
    (tmp_path / "ours").mkdir()
    done = subprocess.run(
        [peers.environment("flyte") / "python", "-c", _SPEAKER + _THEIRS, tmp_path / "theirs"],
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    theirs = json.loads(done.stdout.splitlines()[-1])
    monkeypatch.setenv("SATCHEL_HOME", str(tmp_path / "home"))
    spoken: dict[str, Any] = {}
    exec(_SPEAKER, spoken)  # noqa: S102 - runs the constant above
    ours = spoken["messages"](MemoryStore, nullcontext(), tmp_path / "ours")
    for case, words in REFUSED.items():
        assert words in theirs[case][1], (case, theirs[case])
        assert words in ours[case][1], (case, ours[case])
        assert theirs[case][0][0] in ours[case][0], case


def write_flyte_folder(root: Path, **texts: list[str]) -> None:
    """Write what Flyte leaves after some writes; ``__`` in a name stands for a slash."""
    lines = []
    for name, states in texts.items():
        path = name.replace("__", "/") + ".txt"
        for second, text in enumerate(states):
            sha = hashlib.sha256(text.encode()).hexdigest()
            at = f"2026-03-01T10:00:{second:02}+00:00"
            version = f"versions/{quote(path, safe='')}/{at.replace(':', '-')}_{sha}.txt"
            for place in (path, version):
                (root / place).parent.mkdir(parents=True, exist_ok=True)
                (root / place).write_text(text)
            event = {"ts": at, "op": "update" if second else "create", "path": path}
            event |= {"new_sha": sha, "actor": f"agent {second}", "version_file": version}
            lines.append(json.dumps({**event, "reason": "", "old_sha": ""}))
    (root / "audit").mkdir(exist_ok=True)
    (root / "audit" / "log.jsonl").write_text("".join(line + "\n" for line in lines))
    (root / "messages.json").write_text("[]")


def test_the_versions_of_a_flyte_folder_become_its_history(tmp_path: Path) -> None:
    """Texts, times and actors; the next write continues them."""
    write_flyte_folder(tmp_path, user__a=["one", "two", "three"], b=["only"])
    (tmp_path / "versions" / "user%2Fa.txt" / "odd.txt").write_text("x")
    with MemoryStore(root=tmp_path, keep_versions=True) as store:
        history = store.history("user/a.txt")
        assert [(v.version, v.op, v.actor) for v in history] == [
            (1, "create", "agent 0"),
            (2, "update", "agent 1"),
            (3, "update", "agent 2"),
        ]
        assert [store.read_version("user/a.txt", n) for n in (1, 2, 3)] == ["one", "two", "three"]
        meta = store.get_meta("user/a.txt")
        assert meta is not None
        assert (meta.version, meta.updated_by) == (3, "agent 2")
        assert store.write_text("user/a.txt", "four", expected_version=3).version == 4
        assert store.unmanaged() == ()
        assert [problem for problem in store.repairs if "odd.txt" in problem]
        assert store.verify_audit().ok
        store.restore("user/a.txt", 1)
        assert store.read_text("user/a.txt") == "one"


def test_an_altered_version_of_a_flyte_folder_is_reported_and_dropped(tmp_path: Path) -> None:
    """The bytes must have the digest in its file name."""
    write_flyte_folder(tmp_path, a=["one", "two"])
    first = min((tmp_path / "versions" / "a.txt").iterdir())
    first.write_text("forged")
    with MemoryStore(root=tmp_path) as store:
        assert [version.sha for version in store.history("a.txt")] == [
            hashlib.sha256(b"two").hexdigest()
        ]
        assert [problem for problem in store.repairs if first.name in problem]


def test_sync_reports_a_file_with_a_reserved_name(tmp_path: Path) -> None:
    """``audit/`` is reserved in any case, so ``Audit/x`` is not a path."""
    (tmp_path / "Audit").mkdir()
    (tmp_path / "Audit" / "x").write_text("1")
    with MemoryStore(root=tmp_path) as store:
        assert store.list_paths() == []
        assert [reason for reason in store.sync().refused if "Audit" in reason]


@pytest.fixture(params=["memory", "sqlite", "s3"])
def remote_root(
    request: pytest.FixtureRequest, tmp_path: Path, root_of: Callable[[str, Path], str]
) -> str:
    """A storage root that is not a folder."""
    return root_of(request.param, tmp_path)


def objects_of(root: str) -> Objects:
    """Return the objects in the location of the key."""
    place = file_storage(MemoryStore.remote_path_for_key("k", "o", "p", "d", storage_root=root))
    assert isinstance(place, RemoteFileStorage)
    return place.objects


def upload(folder: Path, root: str) -> None:
    """Store a folder where Flyte saves the store of the key, one object per file."""
    objects = objects_of(root)
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            objects.put(path.relative_to(folder).as_posix(), path.read_bytes())


def open_store(root: str) -> MemoryStore:
    """Open the store of the key."""
    return MemoryStore.get_or_create("k", "o", "p", "d", storage_root=root)


def test_the_versions_of_a_flyte_folder_in_object_storage_become_its_history(
    tmp_path: Path, remote_root: str
) -> None:
    """Before and after the first save."""
    write_flyte_folder(tmp_path / "f", user__a=["one", "two", "three"], b=["only"])
    (tmp_path / "f" / "c.txt").write_text("without versions")
    upload(tmp_path / "f", remote_root)
    with open_store(remote_root) as store:
        assert [v.actor for v in store.history("user/a.txt")] == ["agent 0", "agent 1", "agent 2"]
        assert store.read_version("user/a.txt", 1) == "one"
        assert store.keep_versions
        store.write_text("user/a.txt", "four", expected_version=3)
        store.save()
    with open_store(remote_root) as store:
        history = store.history("user/a.txt")
        assert [(v.version, v.op) for v in history] == [
            (1, "create"),
            (2, "update"),
            (3, "update"),
            (4, "update"),
        ]
        texts = [store.read_version("user/a.txt", v.version) for v in history]
        assert texts == ["one", "two", "three", "four"]
        assert store.read_text("c.txt") == "without versions"
        assert store.verify_audit().ok


def test_two_writers_can_open_a_flyte_folder_in_object_storage(
    tmp_path: Path, remote_root: str
) -> None:
    """Imported files are not changes; the history is there once."""
    write_flyte_folder(tmp_path / "f", a=["one", "two"], b=["only"])
    upload(tmp_path / "f", remote_root)
    with open_store(remote_root) as first, open_store(remote_root) as second:
        first.write_text("b.txt", "first")
        first.save()
        second.write_text("c.txt", "second")
        second.save()
    with open_store(remote_root) as store:
        assert store.list_paths() == ["a.txt", "b.txt", "c.txt"]
        assert store.read_text("b.txt") == "first"
        assert [v.version for v in store.history("a.txt")] == [1, 2]
        assert [v.version for v in store.history("b.txt")] == [1, 2]


def test_two_changes_to_a_file_of_a_flyte_folder_conflict(tmp_path: Path, remote_root: str) -> None:
    """Also if the common version came from the folder."""
    write_flyte_folder(tmp_path / "f", a=["one", "two"])
    upload(tmp_path / "f", remote_root)
    with open_store(remote_root) as first, open_store(remote_root) as second:
        first.write_text("a.txt", "same")
        second.write_text("a.txt", "same")
        first.save()
        with pytest.raises(ConcurrencyError):
            second.save()


def test_an_altered_version_in_object_storage_is_reported_and_dropped(
    tmp_path: Path, remote_root: str
) -> None:
    """The bytes must have the digest in its file name."""
    write_flyte_folder(tmp_path / "f", a=["one", "two"])
    first = min((tmp_path / "f" / "versions" / "a.txt").iterdir())
    first.write_text("forged")
    upload(tmp_path / "f", remote_root)
    with open_store(remote_root) as store:
        digests = [version.sha for version in store.history("a.txt")]
        assert digests == [hashlib.sha256(b"two").hexdigest()]
        assert [problem for problem in store.repairs if first.name in problem]


@pytest.mark.parametrize("place", ["folder", "elsewhere"])
def test_the_first_open_of_a_flyte_folder_sets_keep_versions(tmp_path: Path, place: str) -> None:
    """``get_or_create`` passes it on."""
    root = str(tmp_path / "root") if place == "folder" else f"memory://{tmp_path}/m"
    write_flyte_folder(tmp_path / "f", a=["one"])
    shutil.rmtree(tmp_path / "f" / "versions")
    if place == "folder":
        target = MemoryStore.remote_path_for_key("k", "o", "p", "d", storage_root=root)
        shutil.copytree(tmp_path / "f", target)
    else:
        upload(tmp_path / "f", root)
    with MemoryStore.get_or_create(
        "k", "o", "p", "d", storage_root=root, keep_versions=True
    ) as store:
        assert store.keep_versions
        store.write_text("a.txt", "two")
        store.save()
    with open_store(root) as store:
        assert store.keep_versions
        assert store.read_version("a.txt", store.history("a.txt")[-1].version) == "two"


def test_a_file_of_a_flyte_folder_is_erased_with_its_versions(
    tmp_path: Path, remote_root: str
) -> None:
    """Flyte's own objects contain the same text."""
    write_flyte_folder(tmp_path / "f", a=["secret one", "secret two"], b=["only"])
    upload(tmp_path / "f", remote_root)
    with open_store(remote_root) as store:
        store.save()
        store.erase("a.txt", actor="owner", reason="asked")
        store.save()
    objects = objects_of(remote_root)
    taken = {name: objects.get(name) for name in objects.names()}
    assert [name for name, one in taken.items() if one and b"secret" in one.data] == []


def test_exists_works_with_and_without_await(tmp_path: Path) -> None:
    """Flyte awaits ``MemoryStore.exists``; other code calls it."""
    root = str(tmp_path)

    async def asked() -> tuple[bool, bool, bool]:
        plain = MemoryStore.exists(key="k", storage_root=root)
        awaited = await MemoryStore.exists(key="k", storage_root=root)
        return bool(plain), awaited, bool(await MemoryStore.exists.aio(key="k", storage_root=root))

    assert asyncio.run(asked()) == (False, False, False)
    assert MemoryStore.exists(key="k", storage_root=root) is False  # type: ignore[comparison-overlap]
    MemoryStore.create(key="k", storage_root=root).close()
    assert asyncio.run(asked()) == (True, True, True)
    assert MemoryStore.exists(key="k", storage_root=root) is True  # type: ignore[comparison-overlap]


def test_errors_have_the_words_that_callers_match(tmp_path: Path) -> None:
    """``pytest.raises(match=...)`` of code written for Flyte."""
    root = str(tmp_path)
    MemoryStore.create(key="k", storage_root=root).close()
    with pytest.raises(MemoryStoreError, match="already exists"):
        MemoryStore.create(key="k", storage_root=root)
    for key in ("a/b", "a\\b", ".", ".."):
        with pytest.raises(MemoryStoreError, match="single path segment"):
            MemoryStore.remote_path_for_key(key, storage_root=root)
    with pytest.raises(MemoryStoreError, match="must not be empty"):
        MemoryStore.remote_path_for_key("", storage_root=root)
    with MemoryStore(root=tmp_path / "s", read_only_prefixes=("memory/",)) as store:
        for path, words in (
            ("audit/log.jsonl", "reserved"),
            ("meta/x", "reserved"),
            ("versions/x", "reserved"),
            ("messages.json", r"messages\.json"),
            ("memory/x", "read-only"),
        ):
            with pytest.raises(AccessDenied, match=words):
                store.write_text(path, "x")
        for path, words in (("../x", "traversal"), ("/x", "must be relative"), ("", "Empty path")):
            with pytest.raises(MemoryStoreError, match=words):
                store.write_text(path, "x")


def test_folders_are_created_only_when_they_have_content(tmp_path: Path) -> None:
    """``versions/`` only with versions, ``audit/`` only with an audit."""
    with MemoryStore(root=tmp_path / "plain", audit=False) as store:
        store.write_text("a.txt", "x")
    with MemoryStore(root=tmp_path / "kept", keep_versions=True) as store:
        store.write_text("a.txt", "x")
    assert not (tmp_path / "plain" / "versions").exists()
    assert not (tmp_path / "plain" / "audit").exists()
    assert list((tmp_path / "kept" / "versions").iterdir())
    assert (tmp_path / "kept" / "audit" / "log.jsonl").exists()


def test_a_store_of_a_key_is_saved_only_to_its_own_location(tmp_path: Path) -> None:
    """Another destination is refused by name, and nothing is written there."""
    with MemoryStore.create(key="k", storage_root=str(tmp_path / "root")) as store:
        store.write_text("a.txt", "x")
        with pytest.raises(MemoryStoreError, match=r"remote_destination.*deterministic key path"):
            store.save(str(tmp_path / "elsewhere"))
        store.save(store.remote_path)
    assert not (tmp_path / "elsewhere").exists()
