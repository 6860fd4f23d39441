"""Claude exports in the wild: files of 2026, branches and missing parts."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from satchel.crypto.sealed_records import Sealed
from satchel.errors import MalformedError, PathRefusedError
from satchel.ports.drafts import read_records
from satchel.ports.format import Location, ReadContext, formats

_THEN = "2026-03-01T09:00:00.000000Z"


def _read(path: Path, **given: Any) -> tuple[list[Sealed], ReadContext]:
    reading = ReadContext(**given)
    return list(read_records(formats["claude"], Location(path), reading)), reading


def _message(name: str, text: str, sender: str = "human", **more: Any) -> dict[str, Any]:
    return {"uuid": name, "text": text, "sender": sender, "created_at": _THEN, **more}


def _conversation(*messages: Any, **more: Any) -> dict[str, Any]:
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


def _message_texts(records: list[Sealed]) -> list[Any]:
    return [one.value.get("text") for one in records if one.value.get("event") == "message"]


def _fork_count(records: list[Sealed]) -> int:
    return sum(one.value.get("event") == "fork" for one in records)


def test_memory_files_of_claude_are_memories(tmp_path: Path) -> None:
    """Since the summer of 2026 the memory text may be empty, and the files contain all of it."""
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
    assert formats.recognize(Location(path)) == "claude"
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
def test_a_malformed_memory_file_is_refused_with_its_position(
    files: Any, field: str, tmp_path: Path
) -> None:
    """The position can be found in the export."""
    with pytest.raises(MalformedError) as refusal:
        _read(_file(tmp_path, {"conversations_memory": "x", "memory_files": files}))
    assert refusal.value.field == field


def test_conversations_of_claude_design_are_sessions(tmp_path: Path) -> None:
    """Their texts are one level deeper; the id may be missing."""
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
    assert formats.recognize(Location(path)) == "claude"
    found, reading = _read(path)

    assert _message_texts(found) == ["Draw a box.", None, "Thanks."]
    assert [one.value["origin"]["id"] for one in found] == ["d", "m1", "d/1", "d/3"]
    assert found[2].value["content"] == {"content": [{"type": "text", "text": "Done."}]}
    assert found[1].value["origin"]["as_written"] == {"content": {"authorName": "Ada"}}
    assert reading.report.total == 1


@pytest.mark.parametrize("none", [{"parent_message_uuid": None}, {}])
def test_messages_without_parents_are_a_sequence(none: dict[str, Any], tmp_path: Path) -> None:
    """They are not separate conversations."""
    talk = _conversation(*(_message(name, name, **none) for name in "abc"))
    found, _ = _read(_file(tmp_path, [talk]))
    assert (_message_texts(found), _fork_count(found)) == (["a", "b", "c"], 0)


def test_a_message_without_a_parent_follows_the_previous_one(tmp_path: Path) -> None:
    """In a conversation whose other messages have parents."""
    one, two = _message("a", "1"), _message("b", "2", parent_message_uuid="a")
    found, _ = _read(_file(tmp_path, [_conversation(one, two, _message("c", "3"))]))
    assert (_message_texts(found), _fork_count(found)) == (["1", "2", "3"], 0)


def test_empty_and_duplicate_messages_are_counted(tmp_path: Path) -> None:
    """The other messages are read; two different messages with one id are an error."""
    one = _message("a", "hi")
    found, reading = _read(_file(tmp_path, [_conversation(one, None, one)]))
    assert _message_texts(found) == ["hi"]
    assert reading.report.ignored.total() == 2

    with pytest.raises(MalformedError, match="two messages have the same ID"):
        _read(_file(tmp_path, [_conversation(one, {**one, "text": "other"})]))


def test_a_document_without_text_is_reported(tmp_path: Path) -> None:
    """The export lacks the content of pictures in projects."""
    docs = [{"uuid": "d", "filename": "a.pdf", "content": None}]
    found, reading = _read(_file(tmp_path, {"uuid": "p", "name": "P", "docs": docs}))
    assert [one.type for one in found] == ["graph_node"]
    assert [loss.examples for loss in reading.report.losses.values()] == [["a.pdf"]]


def test_a_long_attachment_is_split_into_a_file(tmp_path: Path) -> None:
    """A book in a message is larger than a record may be."""
    book, note = "tea " * 500_000, {"file_name": "b.txt", "extracted_content": "short"}
    attached = [{"file_name": "a.pdf", "extracted_content": book}, note]
    path = _file(tmp_path, [_conversation(_message("m", "see", attachments=attached))])
    found, reading = _read(path)

    kept = found[1].value["origin"]["as_written"]["attachments"]
    assert kept[0] == {"file_name": "a.pdf", "file": "attachments/m/0"}
    files = [one.value for one in found if one.type == "file_version"]
    assert "".join(one["text"] for one in files if one["path"] == "attachments/m/0") == book
    assert files[-1]["text"] == "short"
    assert reading.report.total == 0

    found, _ = _read(_file(tmp_path, [_conversation(_message("m", "see", attachments=[note]))]))
    assert found[1].value["origin"]["as_written"]["attachments"] == [note]


@pytest.mark.parametrize("attack", ["../../etc", "/etc", "a\\b", "a\0b"])
def test_attack_an_id_that_leads_out_is_not_a_path(attack: str, tmp_path: Path) -> None:
    """Files of a project are stored under its id."""
    docs = [{"uuid": "d", "filename": "a", "content": "x"}]
    with pytest.raises(PathRefusedError) as refusal:
        _read(_file(tmp_path, {"uuid": attack, "name": "P", "docs": docs}))
    assert refusal.value.field == "0/docs/0"


def test_a_wrapped_list_of_conversations_is_recognized(tmp_path: Path) -> None:
    """As written by tools that merge exports."""
    path = _file(tmp_path, {"conversations": [_conversation(_message("a", "hi"))]})
    assert formats.recognize(Location(path)) == "claude"
    assert _message_texts(_read(path)[0]) == ["hi"]


def test_files_are_recognized_by_name_if_their_first_bytes_are_ambiguous(tmp_path: Path) -> None:
    """A very long description precedes the members of a project."""
    long = {"uuid": "p", "description": "x" * 5000, "name": "P", "prompt_template": "Be kind."}
    files = {"conversations.json": [_conversation(_message("a", "hi"))], "projects/p.json": long}
    found, reading = _read(_zip(tmp_path / "e.zip", files))
    assert [one.type for one in found].count("identity") == 1
    assert reading.report.total == 0


def test_exports_of_two_products_in_one_folder_are_read_separately(tmp_path: Path) -> None:
    """Both name their file alike; each reader uses its own and reports the other."""
    other = {"title": "t", "create_time": 1, "update_time": 1, "mapping": {}, "id": "g"}
    files = {"claude/conversations.json": [_conversation(_message("a", "hi"))]}
    path = _zip(tmp_path / "e.zip", {**files, "chatgpt/conversations.json": [other]})
    for name, count in (("claude", 2), ("chatgpt", 1)):
        reading = ReadContext()
        found = list(read_records(formats[name], Location(path), reading))
        assert (len(found), next(iter(reading.report.losses))[0]) == (count, "conversations.json")
