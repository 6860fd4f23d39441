"""Texts at paths: behaviours 16 to 27."""

import asyncio
from typing import Any

import pytest

from satchel.conformance.memory_files.subject import FilesSubject


def test_16_a_text_comes_back(files: FilesSubject) -> None:
    """With its path and its bytes counted."""
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
    """For texts and for values; a blank file holds no value either."""
    with files.fresh() as store:
        store.write_text("blank.json", " \n")

        assert store.read_text("no.txt") == ""
        assert store.read_text("no.txt", default="none") == "none"
        assert store.read_json("no.json") is None
        assert store.read_json("no.json", default={"a": 1}) == {"a": 1}
        assert store.read_json("blank.json", default=3) == 3  # noqa: PLR2004


def test_19_a_listing_is_sorted_and_hides_what_is_the_stores_own(files: FilesSubject) -> None:
    """Neither transcript nor audit, sidecars or versions."""
    with files.fresh(keep_versions=True) as store:
        for path in ("b.txt", "a/z.txt", "a/b/c.txt", "a.txt"):
            store.write_text(path, path)
        store.flush_messages_sync()

        assert store.list_paths() == ["a.txt", "a/b/c.txt", "a/z.txt", "b.txt"]


def test_20_a_listing_can_be_of_a_folder(files: FilesSubject) -> None:
    """A folder, not the beginning of a name."""
    with files.fresh() as store:
        for path in ("user/a.txt", "user/b/c.txt", "user2/d.txt", "u.txt"):
            store.write_text(path, path)

        assert store.list_paths("user") == ["user/a.txt", "user/b/c.txt"]
        assert store.list_paths("user/") == ["user/a.txt", "user/b/c.txt"]
        assert store.list_paths("us") == []


def test_21_a_folder_that_is_not_there_lists_nothing(files: FilesSubject) -> None:
    """No error."""
    with files.fresh() as store:
        assert store.list_paths("nowhere") == []


def test_22_a_link_is_not_listed(files: FilesSubject) -> None:
    """Wherever it leads."""
    outside, root = files.folder(), files.folder()
    (outside / "secret.txt").write_text("classified")
    store = files.at(root)
    store.write_text("a.txt", "a")
    (root / "link.txt").symlink_to(outside / "secret.txt")

    assert store.list_paths() == ["a.txt"]


def test_23_paths_that_lead_out_are_refused_and_it_is_said_why(files: FilesSubject) -> None:
    """Three sorts, three messages."""
    with files.fresh() as store:
        said = []
        for path in ("../up.txt", "/etc/passwd", ""):
            with pytest.raises(files.refusal) as caught:
                store.write_text(path, "x")
            said.append(str(caught.value))
        for path in ("a/../../b", "a/..", ".", "./"):
            with pytest.raises(files.refusal):
                store.write_text(path, "x")

        assert "traversal" in said[0]
        assert "must be relative" in said[1]
        assert "Empty path" in said[2]


def test_24_a_link_that_leads_out_is_neither_read_nor_written(files: FilesSubject) -> None:
    """And what it leads to is as it was."""
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
    """Only through its methods."""
    with files.fresh() as store, pytest.raises(files.denied):
        store.write_text("messages.json", "[]")


@pytest.mark.parametrize("path", ["audit/log.jsonl", "meta/a.json", "versions/a/b.txt"])
def test_26_the_stores_own_folders_cannot_be_written(files: FilesSubject, path: str) -> None:
    """No forged audit, sidecar or version."""
    with files.fresh() as store, pytest.raises(files.denied):
        store.write_text(path, "x")


def test_27_what_is_awaited_does_what_is_called(files: FilesSubject) -> None:
    """Each with ``.aio`` or its twin."""

    async def awaited() -> list[Any]:
        key = files.key()
        store = await files.store.create.aio(**files.place(key))
        meta = await store.write_text.aio("a.txt", "text", actor="me")
        await store.write_json.aio("b.json", [1])
        found = [
            meta.sha256 == await store.current_sha.aio("a.txt"),
            await store.read_text.aio("a.txt"),
            await store.read_json.aio("b.json"),
            (await store.get_meta.aio("a.txt")).updated_by,
            [event["path"] for event in await store.audit_tail(2)],
        ]
        await store.save.aio()
        again = await files.store.get_or_create.aio(**files.place(key))
        return [*found, again.read_text("a.txt")]

    assert asyncio.run(awaited()) == [True, "text", [1], "me", ["a.txt", "b.json"], "text"]
