"""Concurrent writers: acknowledged changes are saved, others are refused, nothing is torn."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from s3_kit import S3Server

from satchel.errors import SatchelError, TargetError
from satchel.files import ConcurrencyError, MemoryStore, MemoryStoreError, storage
from satchel.files.remote import store as remote_place
from satchel.files.remote.objects import MemoryObjects, NotWritten, TaggedObject
from satchel.files.remote.packs import FileEntry, PackContents, RemoteHead, packed

Folder = Callable[[], Path]


@pytest.fixture(params=["local", "memory", "sqlite", "s3"])
def root(
    request: pytest.FixtureRequest,
    folder: Folder,
    root_of: Callable[[str, Path], str],
    monkeypatch: pytest.MonkeyPatch,
) -> str:
    """The storage root."""
    home = folder()
    monkeypatch.setenv("SATCHEL_HOME", str(home))
    return root_of(request.param, home)


def _run_concurrently(jobs: list[Callable[[], object]]) -> list[object]:
    """Return the result of each job, or its error."""

    def outcome(job: Callable[[], object]) -> object:
        try:
            return job()
        except MemoryStoreError as error:
            return error

    with ThreadPoolExecutor(len(jobs)) as threads:
        return list(threads.map(outcome, jobs))


@pytest.mark.in_check(2)
def test_each_of_twenty_writers_is_saved_or_refused(root: str) -> None:
    """Read, add, write with the hash that was read, save."""
    MemoryStore.create(key="k", storage_root=root).close()

    def note(number: int) -> str:
        with MemoryStore.get_or_create(key="k", storage_root=root) as store:
            sha = store.current_sha("notes.json")
            notes = store.read_json("notes.json", default=[])
            store.write_json("notes.json", [*notes, number], actor=str(number), expected_sha=sha)
            store.save()
        return "kept"

    done = _run_concurrently([lambda n=n: note(n) for n in range(20)])  # type: ignore[misc]
    with MemoryStore.get_or_create(key="k", storage_root=root) as store:
        kept = [number for number, one in enumerate(done) if one == "kept"]
        refused = [one for one in done if isinstance(one, ConcurrencyError)]

        assert len(kept) + len(refused) == 20
        assert kept
        assert sorted(store.read_json("notes.json")) == kept
        writes = [one for one in store.audit_tail_sync(100) if one.get("path") == "notes.json"]
        assert len([one for one in writes if one["op"] != "refused"]) == len(kept)


def test_one_of_eight_concurrent_creators_succeeds(root: str) -> None:
    """``create`` means new."""

    def create() -> str:
        MemoryStore.create(key="new", storage_root=root).close()
        return "created"

    done = _run_concurrently([create] * 8)

    assert done.count("created") == 1
    assert sum(isinstance(one, MemoryStoreError) for one in done) == 7


def test_saving_an_older_working_copy_reverts_no_file(root: str) -> None:
    """Only the changes of the writer are saved, not its whole copy."""
    with MemoryStore.create(key="k", storage_root=root) as store:
        store.write_text("f.txt", "v1")
        store.append({"role": "user", "content": "0"})
        store.save()
    one = MemoryStore.get_or_create(key="k", storage_root=root)
    two = MemoryStore.get_or_create(key="k", storage_root=root)
    one.write_text("f.txt", "v2", actor="one")
    one.append({"role": "user", "content": "one"})
    one.save()
    two.write_text("g.txt", "mine", actor="two")
    two.append({"role": "user", "content": "two"})
    two.save()
    with MemoryStore.get_or_create(key="k", storage_root=root) as after:
        assert after.read_text("f.txt") == "v2"
        assert after.read_text("g.txt") == "mine"
        assert [message["content"] for message in after.messages] == ["0", "one", "two"]
        actors = [event["actor"] for event in after.audit_tail_sync(20) if "path" in event]
        assert {"one", "two"} <= set(actors)
    assert two.read_text("f.txt") == "v2"


# Not a folder: it is written in place, so the second write itself is the later one.
@pytest.mark.parametrize("root", ["memory", "sqlite", "s3"], indirect=True)
def test_two_changes_of_one_file_conflict_without_loss(root: str) -> None:
    """The second is refused, preserves its text, and can discard it for the first one's."""
    with MemoryStore.create(key="k", storage_root=root) as store:
        store.write_text("f.txt", "v1")
        store.save()
    one = MemoryStore.get_or_create(key="k", storage_root=root)
    two = MemoryStore.get_or_create(key="k", storage_root=root)
    one.write_text("f.txt", "one")
    one.save()
    two.write_text("f.txt", "two")
    two.write_text("other.txt", "too")
    for _ in range(2):  # not forgotten by trying again
        with pytest.raises(ConcurrencyError, match=r"f\.txt"):
            two.save()
    assert two.read_text("f.txt") == "two"
    two.refresh(discard=["f.txt"])
    assert two.read_text("f.txt") == "one"
    two.save()
    with MemoryStore.get_or_create(key="k", storage_root=root) as after:
        assert (after.read_text("f.txt"), after.read_text("other.txt")) == ("one", "too")


def test_a_saved_store_has_its_history_in_another_working_copy(root: str) -> None:
    """Versions, deletions, renames and rules."""
    with MemoryStore.create(
        key="k", storage_root=root, keep_versions=True, read_only_prefixes=("memory/",)
    ) as store:
        for text in ("1", "2", "3"):
            store.write_text("a.txt", text)
            store.save()
        store.write_text("b.txt", "b")
        store.delete("a.txt")
        store.rename("b.txt", "c.txt")
        store.save()
    with MemoryStore.get_or_create(key="k", storage_root=root) as after:
        assert after.list_paths() == ["c.txt"]
        ops = [one.op for one in after.history("a.txt")]
        assert ops == ["create", "update", "update", "delete"]
        assert after.read_version("a.txt", 2) == "2"
        after.restore("a.txt", 2)
        assert after.write_text("a.txt", "5", expected_version=5).version == 6
        with pytest.raises(MemoryStoreError):
            after.write_text("memory/x", "x")
        after.save()


def test_editing_an_unread_file_records_its_former_hash(root: str) -> None:
    """Also if the former text is in a pack."""
    with MemoryStore.create(key="k", storage_root=root) as store:
        sha = store.write_text("a.md", "likes tea").sha256
        store.save()
    with MemoryStore.get_or_create(key="k", storage_root=root) as store:
        store.edit("a.md", "tea", "coffee")
        event = store.audit_tail_sync(1)[0]
        store.save()
    assert (event["op"], event["old_sha"]) == ("update", sha)


# Not a folder: it has no packs.
@pytest.mark.in_check(2)
@pytest.mark.parametrize("root", ["memory", "sqlite", "s3"], indirect=True)
def test_many_saves_result_in_few_objects(root: str) -> None:
    """No data is lost, and the audit chain verifies."""
    with MemoryStore.create(key="k", storage_root=root) as store:
        for number in range(23):
            store.write_text(f"n/{number % 5}.txt", str(number))
            store.save()
    place = storage.file_storage(MemoryStore.remote_path_for_key("k", storage_root=root))
    assert isinstance(place, remote_place.RemoteFileStorage)
    found = place.objects.get("meta/.satchel/head")
    assert found is not None
    head = RemoteHead.decoded(found.data, "")

    assert len(head.segments) <= 8
    assert place.examine() == (23, [])
    with MemoryStore.get_or_create(key="k", storage_root=root) as checked:
        assert (checked.verify_audit().events, checked.verify_audit().ok) == (23, True)
    forged = replace(head, audit_head="0" * 64)
    place.objects.put("meta/.satchel/head", forged.encoded())
    with MemoryStore.get_or_create(key="k", storage_root=root) as checked:
        assert not checked.verify_audit().ok
    with MemoryStore.get_or_create(key="k", storage_root=root) as after:
        assert [after.read_text(f"n/{number}.txt") for number in range(5)] == [
            "20",
            "21",
            "22",
            "18",
            "19",
        ]


@pytest.mark.parametrize("files", [60, pytest.param(1_000, marks=pytest.mark.prove)])
def test_saves_and_opens_need_few_requests_for_any_number_of_files(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, s3: S3Server, files: int
) -> None:
    """Counted by the server."""
    monkeypatch.setenv("SATCHEL_HOME", str(folder()))
    root = s3.bucket()
    with MemoryStore.create(key="k", storage_root=root) as store:
        store.write_many([(f"d{n % 10}/{n}.txt", f"text {n}") for n in range(files)])
        s3.requests.clear()
        store.save()
        assert s3.requests.total() <= 10
        worst = 0
        for number in range(6):
            store.write_text("d1/1.txt", str(number))
            s3.requests.clear()
            store.save()
            worst = max(worst, s3.requests.total())
        assert worst <= 10
    s3.requests.clear()
    with MemoryStore.get_or_create(key="k", storage_root=root) as store:
        assert len(store.list_paths()) == files
        assert store.get_meta("d2/2.txt") is not None
        assert s3.requests.total() <= 10
        assert store.read_text("d2/2.txt") == "text 2"
        assert s3.requests.total() <= 11


class _LossyObjects(MemoryObjects):
    """Objects that apply conditional writes but lose the answers."""

    def create(self, name: str, data: bytes) -> None:
        super().create(name, data)
        raise NotWritten("the connection was dropped")

    def replace(self, name: str, data: bytes, tag: str) -> None:
        super().replace(name, data, tag)
        raise NotWritten("the connection was dropped")


class _UnconditionalObjects(MemoryObjects):
    """Objects of a service that ignores conditional writes."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.shared = address

    def probe(self) -> bool:
        return False


def test_a_write_with_a_lost_answer_is_not_a_conflict(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is read again and recognized."""
    monkeypatch.setattr(storage, "MemoryObjects", _LossyObjects)
    root = f"memory://{folder()}"
    with MemoryStore.create(key="k", storage_root=root) as store:
        for number in range(3):
            store.write_text("a.txt", str(number))
            store.save()
    with MemoryStore.get_or_create(key="k", storage_root=root) as after:
        assert after.read_text("a.txt") == "2"
        assert len(after.audit_tail_sync(10)) == 3


def test_a_service_that_ignores_conditional_writes_is_refused(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is written to it."""
    monkeypatch.setattr(storage, "MemoryObjects", _UnconditionalObjects)
    root = f"memory://{folder()}"
    with pytest.raises(TargetError, match="ignores conditional writes"):
        MemoryStore.create(key="k", storage_root=root)
    assert not MemoryStore.exists(key="k", storage_root=root)


def test_an_unreachable_service_is_a_typed_error_of_one_line(
    s3: S3Server, folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gives the cause, and none of the library's debug output."""
    monkeypatch.setenv("SATCHEL_HOME", str(folder()))
    root = s3.bucket()
    monkeypatch.setenv("AWS_ENDPOINT", "http://127.0.0.1:1")
    with pytest.raises(
        TargetError,
        match=r": object storage error: .*\(Connection refused\)\. Check the address[^\n]*$",
    ) as caught:
        MemoryStore.get_or_create(key="k", storage_root=root)
    assert caught.value.hint == "Check the address, the credentials and the network."


def test_a_damaged_remote_store_is_a_typed_error(folder: Folder) -> None:
    """A changed head or pack is reported."""
    root = f"memory://{folder()}"
    with MemoryStore.create(key="k", storage_root=root) as store:
        store.write_text("a.txt", "true text")
        store.save()
    place = storage.file_storage(MemoryStore.remote_path_for_key("k", storage_root=root))
    assert isinstance(place, remote_place.RemoteFileStorage)
    for name in list(place.objects.names()):
        if name.startswith("meta/.satchel/packs/"):
            taken: TaggedObject | None = place.objects.get(name)
            assert taken is not None
            place.objects.put(name, taken.data.replace(b"true", b"fals"))
    again = MemoryStore.get_or_create(key="k", storage_root=root)
    with pytest.raises(MemoryStoreError, match="damaged"):
        again.read_text("a.txt")
    place.objects.put("meta/.satchel/head", b"{}")
    with pytest.raises(Exception, match="damaged"):
        MemoryStore.get_or_create(key="k", storage_root=root)


@pytest.mark.parametrize(
    ("path", "sha"),
    [
        ("../out.txt", "0" * 64),
        ("/etc/x", "0" * 64),
        ("audit/log.jsonl", "0" * 64),
        ("a/../../out.txt", "0" * 64),
        ("a.txt", "../secret"),
        (7, "0" * 64),
    ],
)
def test_attack_a_hostile_index_writes_no_file_outside(
    folder: Folder, path: object, sha: str
) -> None:
    """With write access to the remote location."""
    home = folder()
    root = f"memory://{home}"
    MemoryStore.create(key="k", storage_root=root).close()
    place = storage.file_storage(MemoryStore.remote_path_for_key("k", storage_root=root))
    assert isinstance(place, remote_place.RemoteFileStorage)
    found = place.objects.get("meta/.satchel/head")
    assert found is not None
    head = RemoteHead.decoded(found.data, "")
    entry = FileEntry(path, sha, 1, 1, 2, "", "", "")  # type: ignore[arg-type]  # the type is the test
    segment, data = packed(PackContents(files=[entry]), {}, 0)
    place.objects.put(f"meta/.satchel/packs/{segment.name}", data)
    head = replace(head, revision=2, segments=(*head.segments, segment))
    place.objects.put("meta/.satchel/head", head.encoded())
    with pytest.raises(SatchelError):
        MemoryStore(key="k", remote_path=place.address, root=home / "in" / "copy")
    assert not list(home.rglob("out.txt"))


def test_attack_a_hostile_manifest_writes_no_file_outside(folder: Folder) -> None:
    """A folder from another user can contain any row."""
    home = folder()
    root = home / "in" / "store"
    with MemoryStore(root=root) as store:
        store.write_text("a.txt", "x")
        with store._store.manifest.committing() as rows:
            rows.do("UPDATE file SET path = '../../out.txt'")
            rows.do("UPDATE version SET path = '../../out.txt'")
    (root / "meta" / ".satchel" / "copied").unlink()
    with MemoryStore(root=root) as store:
        assert store.list_paths() == ["a.txt"]
        store.write_text("b.txt", "still works")
    assert not list(home.glob("**/out.txt"))


def test_concurrent_threads_share_commits(store: MemoryStore) -> None:
    """Thirty-two waiting writes are committed together, and each has its own result."""

    def write(number: int) -> object:
        return store.write_text(f"n/{number}.txt", str(number), expected_sha="")

    done = _run_concurrently([lambda n=n: write(n) for n in range(32)])  # type: ignore[misc]

    assert [one.path for one in done] == [f"n/{number}.txt" for number in range(32)]  # type: ignore[attr-defined]
    assert len(store.list_paths()) == 32
    assert len(store.audit_tail_sync(50)) == 32


def test_contradictory_transcripts_are_refused(folder: Folder) -> None:
    """Replacing messages that others added is refused; adding is not."""
    root = folder()
    one, two = MemoryStore(root=root), MemoryStore(root=root)
    one.append({"role": "user", "content": "one"})
    one.flush_messages_sync()
    two.append({"role": "user", "content": "two"})
    two.flush_messages_sync()
    assert [m["content"] for m in two.messages] == ["one", "two"]
    two.messages[0] = {"role": "user", "content": "rewritten"}
    one.append({"role": "user", "content": "three"})
    one.flush_messages_sync()
    with pytest.raises(ConcurrencyError):
        two.flush_messages_sync()
    assert [m["content"] for m in json.loads((root / "messages.json").read_text())] == [
        "one",
        "two",
        "three",
    ]


def test_a_damaged_transcript_is_not_lost_when_it_is_replaced(folder: Folder) -> None:
    """Its bytes are stored."""
    root = folder()
    (root / "messages.json").write_text("[{oops")
    with MemoryStore(root=root) as store:
        store.append({"role": "user", "content": "new"})
        store.flush_messages_sync()
        with store._store.manifest.looking() as rows:
            kept = [row[0] for row in rows.all("SELECT data FROM content")]

    assert b"[{oops" in kept


def test_a_remote_store_of_flyte_can_be_opened_and_continued(folder: Folder) -> None:
    """One object per file: the first save imports them with audit and transcript."""
    root = f"memory://{folder()}"
    place = storage.file_storage(MemoryStore.remote_path_for_key("old", storage_root=root))
    assert isinstance(place, remote_place.RemoteFileStorage)
    for name, data in {
        "messages.json": b'[{"role": "user", "content": "hi"}]',
        "user/a.md": b"from before",
        "audit/log.jsonl": b'{"op": "create", "path": "user/a.md"}\n',
        "odd\nname": b"x",
    }.items():
        place.objects.put(name, data)
    with pytest.raises(MemoryStoreError):
        MemoryStore.create(key="old", storage_root=root)
    with MemoryStore.get_or_create(key="old", storage_root=root) as store:
        assert store.messages == [{"role": "user", "content": "hi"}]
        assert store.read_text("user/a.md") == "from before"
        assert [one for one in store.repairs if "odd" in one]
        store.write_text("user/b.md", "new")
        store.save()
    with MemoryStore.get_or_create(key="old", storage_root=root) as again:
        assert again.list_paths() == ["user/a.md", "user/b.md"]
        assert again.read_text("user/a.md") == "from before"
        assert again.messages == [{"role": "user", "content": "hi"}]


def test_an_unsaved_store_without_key_or_folder_is_temporary(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Saving creates a new location for it."""
    monkeypatch.setenv("SATCHEL_FILES_STORAGE_ROOT", str(folder()))
    store = MemoryStore(messages=[{"role": "user", "content": "hi"}], keep_versions=True)
    store.write_text("a.md", "x", actor="me")
    root, saved = store.root, store.save()
    assert root.is_dir()
    store.close()
    assert not root.exists()
    with MemoryStore(root=saved.path) as again:
        assert again.messages == [{"role": "user", "content": "hi"}]
        meta = again.get_meta("a.md")
        assert meta is not None
        assert meta.updated_by == "me"
        assert again.keep_versions


@pytest.mark.parametrize(
    "named", [{"org": ""}, {"org": "../.."}, {"project": "a/b"}, {"domain": " "}, {"org": "a\0"}]
)
def test_attack_an_org_project_or_domain_with_path_characters_is_refused(
    folder: Folder, named: dict[str, str]
) -> None:
    """Tenants do not collide, and no path leads out of the root."""
    with pytest.raises(MemoryStoreError):
        MemoryStore.remote_path_for_key("k", storage_root=str(folder()), **named)


def test_the_storage_root_comes_from_arguments_environment_or_file(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In this order; the default is in the home."""
    home = folder()
    monkeypatch.setenv("SATCHEL_HOME", str(home))
    tail = "agents/memory-store/v0"
    assert MemoryStore.remote_path_for_key("k") == f"{home}/files/{tail}/default/default/default/k"
    config = home / "satchel.toml"
    config.write_text('[files]\nstorage_root = "/from/file"\norg = "acme"\n')
    monkeypatch.setenv("SATCHEL_CONFIG", str(config))
    assert MemoryStore.remote_path_for_key("k") == f"/from/file/{tail}/acme/default/default/k"
    monkeypatch.setenv("SATCHEL_FILES_ORG", "other")
    assert f"/{tail}/other/" in MemoryStore.remote_path_for_key("k")
    assert f"/{tail}/mine/" in MemoryStore.remote_path_for_key("k", org="mine")
