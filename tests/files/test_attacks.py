"""Attacks on memory files with paths, links, other openers and edits from outside."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from satchel.errors import SatchelError
from satchel.files import AccessDenied, MemoryStore, MemoryStoreError
from satchel.files.paths import check_path, encoded, is_reserved

Folder = Callable[[], Path]


@pytest.mark.parametrize(
    "path",
    [
        "audit",
        "meta",
        "versions",
        "AUDIT",
        "Meta/x",
        "VERSIONS/x",
        "Messages.json",
        "messages.json/",
    ],
)
def test_attack_a_reserved_name_is_refused_in_any_case(store: MemoryStore, path: str) -> None:
    """A path that a model chose does not make the store unusable."""
    with pytest.raises(AccessDenied):
        store.write_text(path, "x")
    store.write_text("after.txt", "still works")

    assert store.read_text("after.txt") == "still works"
    assert store.verify_audit().ok


@pytest.mark.parametrize("place", ["s3://[", "s3://[::1/x", "file://[", "nothing://x"])
def test_an_invalid_address_is_a_typed_error_with_its_field(place: str) -> None:
    """Errors of the URL parser are not passed on."""
    with pytest.raises(MemoryStoreError, match="storage_root"):
        MemoryStore.get_or_create(key="k", storage_root=place)
    with pytest.raises(MemoryStoreError, match="storage_root"):
        MemoryStore(remote_path=place)


@pytest.mark.parametrize("path", ["audit/log.jsonl", "meta/a.txt.json", "messages.json"])
def test_attack_files_of_the_store_itself_are_not_readable(store: MemoryStore, path: str) -> None:
    """A model may read memory files only."""
    store.write_text("a.txt", "x")
    with pytest.raises(AccessDenied):
        store.read_text(path)
    assert store.list_paths("meta") == []
    assert store.list_paths("audit") == []


@pytest.mark.parametrize(
    "path",
    ["a\0b", "a\nb", "a\x1bb", "a\u202eb", "a\u200bb", "a\u2028b", "a\ud800", "a\\b", "a" * 256],
)
def test_attack_a_path_with_control_or_invisible_characters_is_refused(
    store: MemoryStore, path: str
) -> None:
    """The audit contains it escaped."""
    with pytest.raises(MemoryStoreError):
        store.write_text(path, "x")
    (event,) = store.audit_tail_sync(1)

    assert event["op"] == "refused"
    assert event["path"].isascii()
    assert event["path"].isprintable()


def test_composed_and_decomposed_names_are_one_file(store: MemoryStore) -> None:
    """Unicode normalization of paths."""
    store.write_text("caf\u00e9.txt", "one")
    store.write_text("cafe\u0301.txt", "two")

    assert store.list_paths() == ["caf\u00e9.txt"]
    assert store.read_text("caf\u00e9.txt") == "two"


@pytest.mark.parametrize("path", ["a" * 251 + ".md", "/".join(["deep" * 10] * 20), "\u00e9" * 127])
def test_a_long_path_has_a_sidecar_and_an_audit_event(store: MemoryStore, path: str) -> None:
    """Limits do not depend on the encoding of the sidecar name."""
    meta = store.write_text(path, "x", actor="me")

    assert store.read_text(path) == "x"
    assert store.get_meta(path) == meta
    sidecar = json.loads((store.root / "meta" / f"{encoded(path)}.json").read_text())
    assert sidecar["path"] == path
    assert store.audit_tail_sync(1)[0]["path"] == path


@pytest.mark.parametrize("text", ["", "x\r\ny\rz\n", "\ufefftext", "\0", "no end", "z" * 1_000_000])
def test_text_round_trips_byte_for_byte(store: MemoryStore, text: str) -> None:
    """The hash is that of the bytes."""
    meta = store.write_text("a.txt", text)

    assert store.read_text("a.txt") == text
    assert (store.root / "a.txt").read_bytes() == text.encode()
    assert meta.sha256 == store.current_sha("a.txt") == hashlib.sha256(text.encode()).hexdigest()


def test_attack_a_link_inside_the_store_does_not_reach_the_audit(store: MemoryStore) -> None:
    """Nor does it bypass a read-only prefix."""
    store.change_policy(read_only_prefixes=("memory/",))
    store.write_text("a.txt", "x")
    (store.root / "s").symlink_to("audit")
    (store.root / "memory").mkdir()
    (store.root / "l").symlink_to("memory")
    for path in ("s/log.jsonl", "l/fact.md"):
        with pytest.raises(MemoryStoreError):
            store.write_text(path, "forged")
        with pytest.raises(MemoryStoreError):
            store.read_text(path)

    assert list((store.root / "memory").iterdir()) == []
    assert store.verify_audit().ok


def test_attack_sidecars_and_audit_are_not_written_through_links(folder: Folder) -> None:
    """A store whose folders are links is not opened; a later link is not followed."""
    outside, root = folder(), folder()
    for name in ("meta", "audit", "versions"):
        bad = folder()
        (bad / name).symlink_to(outside)
        with pytest.raises(MemoryStoreError):
            MemoryStore(root=bad)
    store = MemoryStore(root=root)
    (root / "audit").symlink_to(outside)
    store.write_text("a.txt", "kept")

    assert store.read_text("a.txt") == "kept"
    assert list(outside.iterdir()) == []
    assert store.repairs


def test_attack_a_hard_link_or_a_pipe_is_neither_read_nor_written(folder: Folder) -> None:
    """A hard link may be another user's file; a pipe would block."""
    outside, root = folder(), folder()
    (outside / "secret.txt").write_text("classified")
    store = MemoryStore(root=root)
    os.link(outside / "secret.txt", root / "hard.txt")
    os.mkfifo(root / "pipe.txt")
    for path in ("hard.txt", "pipe.txt"):
        with pytest.raises(MemoryStoreError):
            store.read_text(path)
        with pytest.raises(MemoryStoreError):
            store.write_text(path, "mine")

    assert (outside / "secret.txt").read_text() == "classified"
    assert "pipe.txt" not in store.list_paths()


def test_attack_a_listing_does_not_follow_a_link_as_its_prefix(folder: Folder) -> None:
    """The target of the link is not listed."""
    outside, root = folder(), folder()
    (outside / "secret.txt").write_text("classified")
    store = MemoryStore(root=root)
    (root / "lnk").symlink_to(outside)
    with pytest.raises(MemoryStoreError):
        store.list_paths("lnk")


@pytest.mark.parametrize("scheme", ["folder", "memory", "sqlite"])
def test_attack_save_does_not_follow_links(folder: Folder, scheme: str) -> None:
    """A planted link does not export a secret."""
    outside, root, there = folder(), folder(), folder()
    (outside / "secret.txt").write_text("classified")
    store = MemoryStore(root=root)
    store.write_text("a.txt", "mine")
    (root / "leak.txt").symlink_to(outside / "secret.txt")
    place = {
        "folder": f"{there}/saved",
        "memory": f"memory://{there}",
        "sqlite": f"sqlite://{there}/x.db/saved",
    }[scheme]
    saved = store.save(place)
    again = MemoryStore(key="k", remote_path=saved.path)

    assert again.list_paths() == ["a.txt"]
    assert again.read_text("a.txt") == "mine"


@pytest.mark.parametrize("path", ["memory", "Memory/x", "MEMORY", "memory//x", "./memory/x"])
def test_attack_a_read_only_prefix_cannot_be_bypassed_by_spelling(
    store: MemoryStore, path: str
) -> None:
    """Not by case, by omitting the slash, or by another spelling."""
    store.change_policy(read_only_prefixes=("memory/",))
    with pytest.raises(AccessDenied):
        store.write_text(path, "x")
    store.write_text("memory2/x", "another folder")


@pytest.mark.parametrize("prefix", ["/memory/", "..", ""])
def test_a_read_only_prefix_without_effect_is_refused(folder: Folder, prefix: str) -> None:
    """A rule that protects nothing is an error."""
    with pytest.raises(MemoryStoreError):
        MemoryStore(root=folder(), read_only_prefixes=(prefix,))


def test_a_string_as_prefixes_is_one_prefix(folder: Folder) -> None:
    """Not one for each of its letters."""
    store = MemoryStore(root=folder(), read_only_prefixes="memory/")
    store.write_text("m.txt", "x")
    with pytest.raises(AccessDenied):
        store.write_text("memory/x", "x")


def test_attack_the_rules_of_a_store_apply_to_every_opener(folder: Folder) -> None:
    """Opening it with other rules does not remove the existing ones."""
    root = folder()
    MemoryStore(root=root, read_only_prefixes=("memory/",), keep_versions=True).close()
    second = MemoryStore(root=root, audit=False)
    with pytest.raises(AccessDenied):
        second.write_text("memory/x", "x")
    second.write_text("a.txt", "x")

    assert second.keep_versions
    assert [one["op"] for one in second.audit_tail_sync(2)] == ["refused", "create"]
    third = MemoryStore(root=root, read_only_prefixes=("user/",))
    for path in ("memory/x", "user/x"):
        with pytest.raises(AccessDenied):
            third.write_text(path, "x")


def test_every_refused_write_is_in_the_audit(store: MemoryStore) -> None:
    """Read-only, wrong hash, traversal, reserved: with the actor."""
    store.change_policy(read_only_prefixes=("memory/",))
    store.write_text("a.txt", "1")
    for path, sha in (("memory/x", None), ("a.txt", "0" * 64), ("../x", None), ("meta/x", None)):
        with pytest.raises(MemoryStoreError):
            store.write_text(path, "x", actor="mallory", expected_sha=sha)
    events = store.audit_tail_sync(4)

    assert [one["error"] for one in events] == [
        "files.denied",
        "files.changed",
        "files.refused",
        "files.denied",
    ]
    assert {one["actor"] for one in events} == {"mallory"}
    assert {one["attempted"] for one in events} == {"write"}


def test_attack_a_forged_audit_is_detected(folder: Folder) -> None:
    """Changed, truncated or extended: the log in the folder is only a copy of the real one."""
    forgeries: list[Callable[[bytes], bytes]] = [
        lambda data: data.replace(b"alice", b"mallo"),
        lambda data: data + b'{"op": "create", "path": "forged"}\n',
        lambda data: data[: len(data) // 2],
    ]
    for forge in forgeries:
        store = MemoryStore(root=folder())
        for number in range(3):
            store.write_text("a.txt", str(number), actor="alice")
        log = store.root / "audit" / "log.jsonl"
        log.write_bytes(forge(log.read_bytes()))

        assert not store.verify_audit().ok
        assert [one["actor"] for one in store.audit_tail_sync(10)] == ["alice"] * 3


def test_a_torn_last_line_of_the_audit_is_repaired_and_reported(folder: Folder) -> None:
    """The next event is not appended to half a line."""
    root = folder()
    store = MemoryStore(root=root)
    store.write_text("a.txt", "1")
    store.write_text("a.txt", "2")
    log = root / "audit" / "log.jsonl"
    log.write_bytes(log.read_bytes()[:-20])
    store.write_text("a.txt", "3")

    assert [json.loads(line)["op"] for line in log.read_text().splitlines()] == [
        "create",
        "update",
        "update",
    ]
    assert any("middle of a line" in one for one in store.repairs)
    assert store.verify_audit().ok


def test_foreign_fields_of_a_sidecar_are_preserved(folder: Folder) -> None:
    """A damaged sidecar is replaced."""
    root = folder()
    store = MemoryStore(root=root)
    store.write_text("a.txt", "1")
    sidecar = root / "meta" / "a.txt.json"
    sidecar.write_text(json.dumps({**json.loads(sidecar.read_text()), "tags": ["theirs"]}))
    store.write_text("a.txt", "2")
    assert json.loads(sidecar.read_text())["tags"] == ["theirs"]
    sidecar.write_text('{"path": "a')
    store.write_text("a.txt", "3", actor="me")

    assert json.loads(sidecar.read_text())["updated_by"] == "me"
    meta = store.get_meta("a.txt")
    assert meta is not None
    assert meta.version == 3


def test_an_edit_from_outside_is_detected_and_versioned(folder: Folder) -> None:
    """Its real hash is used, a stale precondition fails, and both versions are stored."""
    root = folder()
    store = MemoryStore(root=root, keep_versions=True)
    first = store.write_text("a.txt", "ours")
    (root / "a.txt").write_text("theirs")
    with pytest.raises(MemoryStoreError):
        store.write_text("a.txt", "new", expected_sha=first.sha256)
    with pytest.raises(MemoryStoreError):
        store.write_text("a.txt", "new", expected_version=1)
    assert store.get_meta("a.txt") is None
    store.write_text("a.txt", "new", expected_sha=store.current_sha("a.txt"))

    assert [store.read_version("a.txt", one.version) for one in store.history("a.txt")] == [
        "ours",
        "theirs",
        "new",
    ]


def test_sync_records_changes_from_outside(folder: Folder) -> None:
    """New, changed and deleted files, each audited; invalid names are reported."""
    root = folder()
    store = MemoryStore(root=root)
    for path in ("keep.txt", "change.txt", "gone.txt"):
        store.write_text(path, path)
    (root / "change.txt").write_text("theirs")
    (root / "gone.txt").unlink()
    (root / "new").mkdir()
    (root / "new" / "n.txt").write_text("theirs")
    (root / "odd\nname").write_text("x")
    done = store.sync(actor="editor")

    assert done.created == ("new/n.txt",)
    assert (done.changed, done.deleted) == (("change.txt",), ("gone.txt",))
    assert len(done.refused) == 1
    assert store.current_sha("gone.txt") == ""
    meta = store.get_meta("new/n.txt")
    assert meta is not None
    assert meta.updated_by == "editor"
    assert store.sync() == (*[()] * 3, done.refused)


def test_a_text_that_returns_has_a_new_version_number(store: MemoryStore) -> None:
    """A, B, A: the hash is the same, the number is not."""
    first = store.write_text("a.txt", "A")
    store.write_text("a.txt", "B")
    again = store.write_text("a.txt", "A")
    assert again.sha256 == first.sha256
    with pytest.raises(MemoryStoreError):
        store.write_text("a.txt", "C", expected_version=first.version)
    store.delete("a.txt")
    assert store.write_text("a.txt", "D", expected_version=0).version == 5


def test_versions_and_events_of_one_second_are_ordered(store: MemoryStore) -> None:
    """Times only increase, in the store and in file names."""
    store.change_policy(keep_versions=True)
    for number in range(50):
        store.write_text("a.txt", str(number))
    times = [one["ts"] for one in store.audit_tail_sync(50)]
    names = sorted(one.name for one in (store.root / "versions" / "a.txt").iterdir())

    assert times == sorted(set(times))
    assert [(store.root / "versions" / "a.txt" / one).read_text() for one in names] == [
        str(number) for number in range(50)
    ]


@pytest.mark.parametrize("value", [{1, 2}, object(), float("nan"), {"a": float("inf")}])
def test_a_value_that_is_not_json_is_refused_by_write_json(
    store: MemoryStore, value: object
) -> None:
    """A set that becomes a text would be lost."""
    with pytest.raises(MemoryStoreError):
        store.write_json("a.json", value)
    assert store.list_paths() == []


@given(st.text(max_size=40))
def test_a_checked_path_is_stable_and_stays_inside(said: str) -> None:
    """For all texts: an accepted path is accepted unchanged, and never leads outside."""
    try:
        path = check_path(said)
    except MemoryStoreError:
        return
    assert check_path(path) == path
    assert not path.startswith("/")
    assert ".." not in path.split("/")
    assert "/" not in encoded(path)
    assert is_reserved(path) == is_reserved(path.upper())


@pytest.mark.parametrize("wrong", [None, 3, b"a", ["a"]])
def test_a_path_or_text_of_the_wrong_type_is_a_typed_error(
    store: MemoryStore, wrong: object
) -> None:
    """Not an error of Python's internals."""
    with pytest.raises(MemoryStoreError):
        store.write_text(wrong, "x")  # type: ignore[arg-type]  # the type is the test
    with pytest.raises(MemoryStoreError):
        store.write_text("a.txt", wrong)  # type: ignore[arg-type]  # the type is the test


def test_a_file_in_place_of_a_folder_is_a_typed_error(store: MemoryStore) -> None:
    """In both directions, also within one commit."""
    store.write_text("a", "x")
    store.write_text("d/e", "x")
    for path in ("a/b", "d"):
        with pytest.raises(SatchelError):
            store.write_text(path, "x")
    with pytest.raises(SatchelError):
        store.write_many([("n", "x"), ("n/m", "y")])
    assert store.list_paths() == ["a", "d/e", "n"]


def test_a_folder_that_flyte_wrote_opens_unchanged(folder: Folder) -> None:
    """Its texts, sidecars, audit and transcript; opening rewrites nothing."""
    root = folder()
    text, at = "from before", "2026-08-01T10:00:00+00:00"
    sha = hashlib.sha256(text.encode()).hexdigest()
    sidecar = {
        "path": "user/a.md",
        "sha256": sha,
        "updated_at": at,
        "updated_by": "old",
        "reason": "r",
        "bytes": len(text),
    }
    for name, data in {
        "user/a.md": text,
        "messages.json": '[{"role": "user", "content": "hi"}]',
        "meta/user%2Fa.md.json": json.dumps(sidecar, indent=2),
        "audit/log.jsonl": json.dumps({"op": "create", "path": "user/a.md", "ts": at}) + "\n{cut",
    }.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(data)
    store = MemoryStore(root=root)

    assert store.messages == [{"role": "user", "content": "hi"}]
    assert store.read_text("user/a.md") == text
    meta = store.get_meta("user/a.md")
    assert meta is not None
    assert (meta.updated_by, meta.updated_at) == ("old", at)
    assert [one["op"] for one in store.audit_tail_sync(5)] == ["create"]
    store.write_text("user/a.md", "new", expected_sha=sha)
    assert [one["op"] for one in store.audit_tail_sync(5)] == ["create", "update"]
    assert store.audit_tail_sync(1)[0]["old_sha"] == sha
    assert any("middle of a line" in one for one in store.repairs)
    assert store.verify_audit().ok
