"""Rules, preconditions, audit, versions: behaviours 28 to 36."""

import hashlib

import pytest

from satchel.conformance.memory_files.subject import FilesSubject

_SHA = 64


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_28_a_read_only_prefix_cannot_be_written(files: FilesSubject) -> None:
    """And nothing is there afterwards."""
    with files.fresh(read_only_prefixes=("memory/",)) as store:
        with pytest.raises(files.denied):
            store.write_text("memory/fact.md", "x")

        assert store.list_paths() == []


def test_29_other_prefixes_can_be_written(files: FilesSubject) -> None:
    """One that only begins alike is another one."""
    with files.fresh(read_only_prefixes=("memory/",)) as store:
        store.write_text("user/fact.md", "x")
        store.write_text("memory2/fact.md", "y")

        assert store.list_paths() == ["memory2/fact.md", "user/fact.md"]


def test_30_a_sha_that_is_as_expected_lets_the_write_through(files: FilesSubject) -> None:
    """The file is the new one."""
    with files.fresh() as store:
        first = store.write_text("a.txt", "1")
        store.write_text("a.txt", "2", expected_sha=first.sha256)

        assert store.read_text("a.txt") == "2"


def test_31_a_sha_that_is_not_as_expected_refuses_it(files: FilesSubject) -> None:
    """With the path and what was expected in the error; the file is as it was."""
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
    """An empty file is there, too."""
    with files.fresh() as store:
        store.write_text("a.txt", "", expected_sha="")
        with pytest.raises(files.changed):
            store.write_text("a.txt", "2", expected_sha="")

        assert store.read_text("a.txt", default="none") == ""


def test_33_what_is_not_there_has_an_empty_sha(files: FilesSubject) -> None:
    """No error."""
    with files.fresh() as store:
        assert store.current_sha("no.txt") == ""


def test_34_a_file_that_something_else_wrote_has_its_real_sha(files: FilesSubject) -> None:
    """The bytes count, not what was noted of them."""
    root = files.folder()
    store = files.at(root)
    (root / "theirs.txt").write_bytes(b"by hand\r\n")

    assert store.current_sha("theirs.txt") == _sha("by hand\r\n")


def test_35_the_audit_says_who_wrote_what_after_what(files: FilesSubject) -> None:
    """Create, then update, each with the sha before; nothing where there is no audit."""
    with files.fresh() as store:
        store.write_text("a.txt", "1", actor="alice", reason="first")
        store.write_text("a.txt", "2", actor="bob")
        events = [one for one in store.audit_tail_sync(10) if one["path"] == "a.txt"]

        assert [one["op"] for one in events] == ["create", "update"]
        assert [one["actor"] for one in events] == ["alice", "bob"]
        assert [one["old_sha"] for one in events] == ["", _sha("1")]
        assert [one["new_sha"] for one in events] == [_sha("1"), _sha("2")]
        assert [one["path"] for one in store.audit_tail_sync(1)] == ["a.txt"]
    with files.fresh(audit=False) as store:
        store.write_text("a.txt", "1")

        assert store.audit_tail_sync(10) == []


def test_36_each_write_leaves_a_sidecar_and_where_wanted_a_version(files: FilesSubject) -> None:
    """Names that look alike when encoded share neither."""
    root = files.folder()
    store = files.at(root, keep_versions=True)
    for text in ("1", "2", "3"):
        store.write_text("a/b", text, actor="me", reason="why")
    store.write_text("a__b", "other")
    shots = sorted((root / "versions" / "a%2Fb").iterdir())
    meta = store.get_meta("a/b")

    assert [one.read_text() for one in shots] == ["1", "2", "3"]
    assert len(list((root / "versions" / "a__b").iterdir())) == 1
    assert (meta.updated_by, meta.reason, meta.sha256) == ("me", "why", _sha("3"))
    assert store.get_meta("never.txt") is None
    assert {one.name for one in (root / "meta").glob("*.json")} == {"a%2Fb.json", "a__b.json"}
    plain = files.folder()
    files.at(plain).write_text("a.txt", "1")
    assert not list((plain / "versions").glob("*/*"))
