"""A folder that Flyte wrote: its versions are its history, and nothing in it vanishes."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from urllib.parse import quote

import pytest
from s3_kit import S3Server

from satchel.files import ConcurrencyError, MemoryStore
from satchel.files.remote.objects import Objects
from satchel.files.remote.store import RemoteFileStorage
from satchel.files.storage import file_storage


def flyte_folder(root: Path, **texts: list[str]) -> None:
    """Lay out what Flyte leaves after some writes; ``__`` in a name stands for a slash."""
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


def test_the_versions_of_a_folder_are_the_history_of_its_paths(tmp_path: Path) -> None:
    """Texts, times and actors; the next write continues them."""
    flyte_folder(tmp_path, user__a=["one", "two", "three"], b=["only"])
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


def test_a_version_that_was_altered_is_named_and_not_taken_over(tmp_path: Path) -> None:
    """Its bytes have to have the digest in its name."""
    flyte_folder(tmp_path, a=["one", "two"])
    first = min((tmp_path / "versions" / "a.txt").iterdir())
    first.write_text("forged")
    with MemoryStore(root=tmp_path) as store:
        assert [version.sha for version in store.history("a.txt")] == [
            hashlib.sha256(b"two").hexdigest()
        ]
        assert [problem for problem in store.repairs if first.name in problem]


def test_a_name_like_one_of_the_stores_own_is_named_by_sync(tmp_path: Path) -> None:
    """``Audit/x`` is no path, since ``audit/`` is reserved in any case; it does not vanish."""
    (tmp_path / "Audit").mkdir()
    (tmp_path / "Audit" / "x").write_text("1")
    with MemoryStore(root=tmp_path) as store:
        assert store.list_paths() == []
        assert [reason for reason in store.sync().refused if "Audit" in reason]


@pytest.fixture(params=["memory", "sqlite", "s3"])
def elsewhere(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A storage root that is no folder."""
    if request.param == "s3":
        server: S3Server = request.getfixturevalue("s3")
        return server.bucket()
    return {"memory": f"memory://{tmp_path}/m", "sqlite": f"sqlite://{tmp_path}/files.db"}[
        request.param
    ]


def objects_of(root: str) -> Objects:
    """Return what is where the store of the key is."""
    place = file_storage(MemoryStore.remote_path_for_key("k", "o", "p", "d", storage_root=root))
    assert isinstance(place, RemoteFileStorage)
    return place.objects


def uploaded(folder: Path, root: str) -> None:
    """Put a folder where Flyte saves the store of the key, one object a file."""
    objects = objects_of(root)
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            objects.put(path.relative_to(folder).as_posix(), path.read_bytes())


def opened(root: str) -> MemoryStore:
    """Open the store of the key."""
    return MemoryStore.get_or_create("k", "o", "p", "d", storage_root=root)


def test_the_versions_of_a_folder_in_object_storage_are_its_history(
    tmp_path: Path, elsewhere: str
) -> None:
    """Read before anything is saved, and by others after it."""
    flyte_folder(tmp_path / "f", user__a=["one", "two", "three"], b=["only"])
    (tmp_path / "f" / "c.txt").write_text("without versions")
    uploaded(tmp_path / "f", elsewhere)
    with opened(elsewhere) as store:
        assert [v.actor for v in store.history("user/a.txt")] == ["agent 0", "agent 1", "agent 2"]
        assert store.read_version("user/a.txt", 1) == "one"
        assert store.keep_versions
        store.write_text("user/a.txt", "four", expected_version=3)
        store.save()
    with opened(elsewhere) as store:
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


def test_two_that_take_over_one_folder_in_object_storage_do_not_conflict(
    tmp_path: Path, elsewhere: str
) -> None:
    """What was found is nobody's change; the history is there once."""
    flyte_folder(tmp_path / "f", a=["one", "two"], b=["only"])
    uploaded(tmp_path / "f", elsewhere)
    with opened(elsewhere) as first, opened(elsewhere) as second:
        first.write_text("b.txt", "first")
        first.save()
        second.write_text("c.txt", "second")
        second.save()
    with opened(elsewhere) as store:
        assert store.list_paths() == ["a.txt", "b.txt", "c.txt"]
        assert store.read_text("b.txt") == "first"
        assert [v.version for v in store.history("a.txt")] == [1, 2]
        assert [v.version for v in store.history("b.txt")] == [1, 2]


def test_a_change_of_both_to_a_folder_in_object_storage_conflicts(
    tmp_path: Path, elsewhere: str
) -> None:
    """Also where what both had before came from its versions."""
    flyte_folder(tmp_path / "f", a=["one", "two"])
    uploaded(tmp_path / "f", elsewhere)
    with opened(elsewhere) as first, opened(elsewhere) as second:
        first.write_text("a.txt", "same")
        second.write_text("a.txt", "same")
        first.save()
        with pytest.raises(ConcurrencyError):
            second.save()


def test_an_altered_version_in_object_storage_is_named_and_not_taken_over(
    tmp_path: Path, elsewhere: str
) -> None:
    """Its bytes have to have the digest in its name."""
    flyte_folder(tmp_path / "f", a=["one", "two"])
    first = min((tmp_path / "f" / "versions" / "a.txt").iterdir())
    first.write_text("forged")
    uploaded(tmp_path / "f", elsewhere)
    with opened(elsewhere) as store:
        digests = [version.sha for version in store.history("a.txt")]
        assert digests == [hashlib.sha256(b"two").hexdigest()]
        assert [problem for problem in store.repairs if first.name in problem]


@pytest.mark.parametrize("place", ["folder", "elsewhere"])
def test_opening_a_flyte_folder_sets_whether_versions_are_kept(tmp_path: Path, place: str) -> None:
    """It is the first time that somebody says it; ``get_or_create`` passes it on."""
    root = str(tmp_path / "root") if place == "folder" else f"memory://{tmp_path}/m"
    flyte_folder(tmp_path / "f", a=["one"])
    shutil.rmtree(tmp_path / "f" / "versions")
    if place == "folder":
        target = MemoryStore.remote_path_for_key("k", "o", "p", "d", storage_root=root)
        shutil.copytree(tmp_path / "f", target)
    else:
        uploaded(tmp_path / "f", root)
    with MemoryStore.get_or_create(
        "k", "o", "p", "d", storage_root=root, keep_versions=True
    ) as store:
        assert store.keep_versions
        store.write_text("a.txt", "two")
        store.save()
    with opened(root) as store:
        assert store.keep_versions
        assert store.read_version("a.txt", store.history("a.txt")[-1].version) == "two"


def test_a_path_of_a_folder_in_object_storage_is_erased_with_its_versions(
    tmp_path: Path, elsewhere: str
) -> None:
    """The objects that Flyte wrote hold the same text."""
    flyte_folder(tmp_path / "f", a=["secret one", "secret two"], b=["only"])
    uploaded(tmp_path / "f", elsewhere)
    with opened(elsewhere) as store:
        store.save()
        store.erase("a.txt", actor="owner", reason="asked")
        store.save()
    objects = objects_of(elsewhere)
    taken = {name: objects.get(name) for name in objects.names()}
    assert [name for name, one in taken.items() if one and b"secret" in one.data] == []
