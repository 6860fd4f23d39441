"""Exports of Claude as they really come: of 2026, with branches, with holes."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from satchel.crypto.sealed_records import Sealed
from satchel.errors import MalformedError, PathRefusedError
from satchel.ports.drafts import read_records
from satchel.ports.format import Place, ReadContext, formats

_THEN = "2026-03-01T09:00:00.000000Z"


def _read(path: Path, **given: Any) -> tuple[list[Sealed], ReadContext]:
    reading = ReadContext(**given)
    return list(read_records(formats["claude"], Place(path), reading)), reading


def _message(name: str, text: str, sender: str = "human", **more: Any) -> dict[str, Any]:
    return {"uuid": name, "text": text, "sender": sender, "created_at": _THEN, **more}


def _talk(*messages: Any, **more: Any) -> dict[str, Any]:
    return {"uuid": "c", "name": "t", "summary": "", "chat_messages": [*messages], **more}


def _file(tmp_path: Path, value: Any) -> Path:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(value))
    return path


def _zip(path: Path, files: dict[str, Any]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, value in files.items():
            archive.writestr(name, json.dumps(value))
    return path


def _said(records: list[Sealed]) -> list[Any]:
    return [one.value.get("text") for one in records if one.value.get("event") == "message"]


def _forks(records: list[Sealed]) -> int:
    return sum(one.value.get("event") == "fork" for one in records)


def test_files_of_claudes_memory_are_memories(tmp_path: Path) -> None:
    """Since the summer of 2026 there may be nothing in the text, and all in them."""
    project = "0f0f0f0f-0000-4000-8000-000000000001"
    row = {
        "account_uuid": "acc",
        "conversations_memory": "",
        "project_memories": {},
        "memory_files": [
            {"path": "/areas/a.md", "content": "# Work\n\nBuilds bridges.", "updated_at": _THEN},
            {"path": f"/projects/{project}/b.md", "content": "Green.", "updated_at": _THEN},
            {"path": "/areas/c.md", "content": None},
        ],
    }
    path = _file(tmp_path, row)
    assert formats.recognize(Place(path)) == "claude"
    found, reading = _read(path)

    area, of_project = (one.value for one in found)
    assert (area["text"], area["tags"], area["created_at"]) == ("Builds bridges.", ["Work"], _THEN)
    assert area["sources"] == [{"kind": "file", "id": "/areas/a.md"}]
    assert of_project["scope"] == {"user": "acc", "namespace": ["projects", project]}
    assert [loss.examples for loss in reading.report.losses.values()] == [["/areas/c.md"]]


@pytest.mark.parametrize(
    ("files", "field"),
    [(7, "0/memory_files"), ([7], "0/memory_files/0"), ([{"path": 7}], "0/memory_files/0/path")],
)
def test_a_file_that_is_none_is_refused_by_its_place(
    files: Any, field: str, tmp_path: Path
) -> None:
    """Whoever has to look at it finds it."""
    with pytest.raises(MalformedError) as refusal:
        _read(_file(tmp_path, {"conversations_memory": "x", "memory_files": files}))
    assert refusal.value.field == field


def test_conversations_of_claude_design_are_sessions(tmp_path: Path) -> None:
    """Their words are one level deeper; one of them may have no id."""
    said = {"role": "user", "content": "Draw a box.", "authorName": "Ada"}
    row = {
        "uuid": "d",
        "title": "Poster",
        "project": {"uuid": "p"},
        "created_at": _THEN,
        "messages": [
            {"uuid": "m1", "role": "user", "content": said, "created_at": _THEN},
            {"role": "assistant", "content": {"content": [{"type": "text", "text": "Done."}]}},
            None,
            {"role": "user", "content": "Thanks."},
        ],
    }
    path = _file(tmp_path, row)
    assert formats.recognize(Place(path)) == "claude"
    found, reading = _read(path)

    assert _said(found) == ["Draw a box.", None, "Thanks."]
    assert [one.value["origin"]["id"] for one in found] == ["d", "m1", "d/1", "d/3"]
    assert found[2].value["content"] == {"content": [{"type": "text", "text": "Done."}]}
    assert found[1].value["origin"]["as_written"] == {"content": {"authorName": "Ada"}}
    assert reading.report.total == 1


@pytest.mark.parametrize("none", [{"parent_message_uuid": None}, {}])
def test_messages_that_name_none_before_them_are_a_list(
    none: dict[str, Any], tmp_path: Path
) -> None:
    """Three answers to nothing would be three conversations."""
    talk = _talk(*(_message(name, name, **none) for name in "abc"))
    found, _ = _read(_file(tmp_path, [talk]))
    assert (_said(found), _forks(found)) == (["a", "b", "c"], 0)


def test_a_message_without_a_parent_follows_the_last(tmp_path: Path) -> None:
    """Others of the same conversation say it: it is a tree, with a gap."""
    one, two = _message("a", "1"), _message("b", "2", parent_message_uuid="a")
    found, _ = _read(_file(tmp_path, [_talk(one, two, _message("c", "3"))]))
    assert (_said(found), _forks(found)) == (["1", "2", "3"], 0)


def test_what_is_empty_or_there_twice_is_counted(tmp_path: Path) -> None:
    """One bad message is no reason to lose the others; two that differ are."""
    one = _message("a", "hi")
    found, reading = _read(_file(tmp_path, [_talk(one, None, one)]))
    assert _said(found) == ["hi"]
    assert reading.report.ignored.total() == 2

    with pytest.raises(MalformedError, match="two messages have the same ID"):
        _read(_file(tmp_path, [_talk(one, {**one, "text": "other"})]))


def test_a_document_without_text_is_named(tmp_path: Path) -> None:
    """A picture in a project has none in the export."""
    docs = [{"uuid": "d", "filename": "a.pdf", "content": None}]
    found, reading = _read(_file(tmp_path, {"uuid": "p", "name": "P", "docs": docs}))
    assert [one.type for one in found] == ["graph_node"]
    assert [loss.examples for loss in reading.report.losses.values()] == [["a.pdf"]]


def test_a_long_attachment_is_a_file_and_stops_nothing(tmp_path: Path) -> None:
    """A book that somebody put into a message is larger than a record may be."""
    book, note = "tea " * 500_000, {"file_name": "b.txt", "extracted_content": "short"}
    attached = [{"file_name": "a.pdf", "extracted_content": book}, note]
    path = _file(tmp_path, [_talk(_message("m", "see", attachments=attached))])
    found, reading = _read(path)

    kept = found[1].value["origin"]["as_written"]["attachments"]
    assert kept[0] == {"file_name": "a.pdf", "file": "attachments/m/0"}
    files = [one.value for one in found if one.type == "file_version"]
    assert "".join(one["text"] for one in files if one["path"] == "attachments/m/0") == book
    assert files[-1]["text"] == "short"
    assert reading.report.total == 0

    found, _ = _read(_file(tmp_path, [_talk(_message("m", "see", attachments=[note]))]))
    assert found[1].value["origin"]["as_written"]["attachments"] == [note]


@pytest.mark.parametrize("attack", ["../../etc", "/etc", "a\\b", "a\0b"])
def test_an_id_that_leads_out_is_no_path(attack: str, tmp_path: Path) -> None:
    """Files of a project lie under its id."""
    docs = [{"uuid": "d", "filename": "a", "content": "x"}]
    with pytest.raises(PathRefusedError) as refusal:
        _read(_file(tmp_path, {"uuid": attack, "name": "P", "docs": docs}))
    assert refusal.value.field == "0/docs/0"


def test_a_wrapped_list_is_known(tmp_path: Path) -> None:
    """As tools hand it out that merge exports."""
    path = _file(tmp_path, {"conversations": [_talk(_message("a", "hi"))]})
    assert formats.recognize(Place(path)) == "claude"
    assert _said(_read(path)[0]) == ["hi"]


def test_files_are_recognized_by_name_if_their_first_bytes_are_ambiguous(tmp_path: Path) -> None:
    """A description as long as a book stands before what tells a project."""
    long = {"uuid": "p", "description": "x" * 5000, "name": "P", "prompt_template": "Be kind."}
    files = {"conversations.json": [_talk(_message("a", "hi"))], "projects/p.json": long}
    found, reading = _read(_zip(tmp_path / "e.zip", files))
    assert [one.type for one in found].count("identity") == 1
    assert reading.report.total == 0


def test_exports_of_two_products_in_one_folder_do_not_disturb_each_other(tmp_path: Path) -> None:
    """Both call their file the same; each reader takes its own, and names the other."""
    other = {"title": "t", "create_time": 1, "update_time": 1, "mapping": {}, "id": "g"}
    files = {"claude/conversations.json": [_talk(_message("a", "hi"))]}
    path = _zip(tmp_path / "e.zip", {**files, "chatgpt/conversations.json": [other]})
    for name, count in (("claude", 2), ("chatgpt", 1)):
        reading = ReadContext()
        found = list(read_records(formats[name], Place(path), reading))
        assert (len(found), next(iter(reading.report.losses))[0]) == (count, "conversations.json")
