"""ChatGPT exports in the wild: older and newer versions, damaged and repacked files."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from satchel.crypto.sealed_records import Sealed
from satchel.errors import MalformedError, UnknownFormatError
from satchel.formats._conversations import moment_of
from satchel.ports.drafts import read_records
from satchel.ports.format import Location, ReadContext, formats

_THEN = 1_772_355_600.0
_ISO = "2026-03-01T09:00:00.000000Z"


def _read(path: Path, **given: Any) -> tuple[list[Sealed], ReadContext]:
    reading = ReadContext(**given)
    return list(read_records(formats["chatgpt"], Location(path), reading)), reading


def _node(name: str, parent: str | None, text: Any, role: str = "user", **more: Any) -> Any:
    content = {"content_type": "text", "parts": [text]} if isinstance(text, str) else text
    said = {"id": name, "author": {"role": role}, "create_time": _THEN, "content": content, **more}
    return {"id": name, "parent": parent, "children": [], "message": said}


def _conversation(*nodes: Any, name: str = "c", **more: Any) -> Any:
    mapping = {node["id"]: node for node in nodes}
    times = {"create_time": _THEN, "update_time": _THEN}
    last = {"current_node": nodes[-1]["id"]} if nodes else {}
    return {"title": "t", **times, "mapping": mapping, **last, "conversation_id": name, **more}


def _file(tmp_path: Path, *talks: Any) -> Path:
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps(talks), "utf-8")
    return path


def _zip(path: Path, files: dict[str, Any]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data if isinstance(data, bytes) else json.dumps(data))
    return path


def _message_texts(records: list[Sealed]) -> list[Any]:
    return [one.value["text"] for one in records if one.value.get("event") == "message"]


def _losses(reading: ReadContext) -> dict[str, int]:
    return {loss.name: loss.count for loss in reading.report.losses.values()}


# -- memories ------------------------------------------------------------------------------


def test_instructions_of_older_exports_are_read_from_message_metadata(tmp_path: Path) -> None:
    """Until 2025 they were in an empty system message."""
    told = {"about_user_message": " I am a nurse. ", "about_model_message": "Be brief."}
    more = {"is_user_system_message": True, "user_context_message_data": told}
    found, _ = _read(_file(tmp_path, _conversation(_node("s", None, "", "system", metadata=more))))

    (about, how) = [one.value for one in found if one.type == "identity"]
    assert (about["text"], about["kind"]) == ("I am a nurse.", "user_profile")
    assert (how["custom_instructions"], how["kind"]) == ("Be brief.", "user_instructions")


@pytest.mark.parametrize(
    "told", ["Use ```python``` fences. Be brief.", "concise\nand kind", "```\nall of it\n```"]
)
def test_instructions_with_code_fences_are_read_completely(told: str, tmp_path: Path) -> None:
    """The product adds a fence; fences and first words inside belong to the user."""
    content = {
        "content_type": "user_editable_context",
        "user_profile": "",
        "user_instructions": f"The user said how to respond:\n```{told}```",
    }
    found, _ = _read(_file(tmp_path, _conversation(_node("s", None, content))))

    (how,) = [one.value for one in found if one.type == "identity"]
    assert how["custom_instructions"] == told


def test_the_memory_list_of_the_web_page_is_read(tmp_path: Path) -> None:
    """Exports lack it; memories that a message saved are not repeated."""
    rows: list[dict[str, Any]] = [
        {"id": "m1", "content": "Likes tea.", "created_timestamp": _THEN, "updated_at": _ISO},
        {"id": "m2", "content": "Has a cat.", "created_timestamp": None, "status": "warm"},
    ]
    listed = {"memories": rows, "memory_max_tokens": 16000}
    path = tmp_path / "memories.json"
    for value in (listed, rows):
        path.write_text(json.dumps(value))
        assert formats.recognize(Location(path)) == "chatgpt"
        tea, cat = (one.value for one in _read(path)[0])
        assert (tea["text"], tea["created_at"], tea["updated_at"]) == ("Likes tea.", _ISO, _ISO)
        assert (cat["kind"], cat["origin"]["id"]) == ("memory", "memory/m2")

    talk = _conversation(_node("a", None, "Likes tea.", "assistant", recipient="bio"))
    files: dict[str, Any] = {"conversations.json": [talk], "memories.json": listed}
    found, reading = _read(_zip(tmp_path / "e.zip", files))
    assert [one.value["kind"] for one in found if one.type == "semantic"] == ["bio", "memory"]
    assert reading.report.total == 0

    path.write_text(json.dumps({**listed, "memories": [rows[0], {**rows[1], "content": 7}]}))
    with pytest.raises(MalformedError) as refusal:
        _read(path)
    assert refusal.value.field == "0/memories/1/content"


# -- conversations -------------------------------------------------------------------------


def test_empty_nodes_and_mappings_are_accepted(tmp_path: Path) -> None:
    """A conversation that was never started has no messages."""
    talk = _conversation(_node("a", None, "hi"))
    talk["mapping"]["x"] = None
    found, reading = _read(_file(tmp_path, _conversation(name="d") | {"mapping": None}, talk))

    assert _message_texts(found) == ["hi"]
    assert len([one for one in found if one.value["event"] == "session"]) == 2
    assert reading.report.total == 0


def test_the_order_of_messages_is_read_from_children_alone(tmp_path: Path) -> None:
    """Where nodes lack a parent, their parents list them as children."""
    one, two, three = _node("a", None, "1"), _node("b", None, "2"), _node("c", None, "3")
    for node, below in ((one, ["b"]), (two, ["c"]), (three, [])):
        del node["parent"]
        node["children"] = below
    found, _ = _read(_file(tmp_path, _conversation(three, two, one) | {"current_node": "c"}))

    assert _message_texts(found) == ["1", "2", "3"]
    assert not [one for one in found if one.value["event"] == "fork"]


def test_contents_that_are_a_string_are_read(tmp_path: Path) -> None:
    """As in some browser backups."""
    node = _node("a", None, "x")
    node["message"]["content"] = "said plainly"
    assert _message_texts(_read(_file(tmp_path, _conversation(node)))[0]) == ["said plainly"]


@pytest.mark.parametrize(
    ("said", "moment"),
    [
        ("1772355600", _ISO),
        ("1772355600.5", "2026-03-01T09:00:00.500000Z"),
        (1_772_355_600_123, "2026-03-01T09:00:00.123000Z"),
        (1_772_355_600_123_456, "2026-03-01T09:00:00.123456Z"),
        ("2026-03-01T09:00:00.123456789Z", "2026-03-01T09:00:00.123456Z"),
        ("2026-03-01", "2026-03-01T00:00:00.000000Z"),
        ("20260301", "2026-03-01T00:00:00.000000Z"),
        (float("nan"), None),
        (float("inf"), None),
        (-1, None),
        (True, None),
        ("soon", None),
        (10**40, None),
        ("9" * 19 + "9", None),
    ],
)
def test_times_in_other_units_are_the_same_time(said: Any, moment: str | None) -> None:
    """Milliseconds, texts and nanoseconds; an invalid time is absent."""
    assert moment_of(said) == moment


def test_half_of_an_emoji_loses_only_that_character(tmp_path: Path) -> None:
    """JavaScript truncates texts inside an emoji; it is counted."""
    path = tmp_path / "conversations.json"
    text = json.dumps(
        [
            _conversation(_node("a", None, "tea \ud83c")),
            _conversation(_node("b", None, "x"), name="d"),
        ]
    )
    assert "\\ud83c" in text
    path.write_text(text)
    found, reading = _read(path)

    assert _message_texts(found) == ["tea \ufffd", "x"]
    assert _losses(reading) == {"character": 1}


def test_one_conversation_per_line_is_read(tmp_path: Path) -> None:
    """As written by filters; a malformed line is refused with its number."""
    rows = [json.dumps(_conversation(_node(name, None, name), name=name)) for name in "abc"]
    path = tmp_path / "conversations.jsonl"
    path.write_text("\n".join(rows) + "\n")
    assert formats.recognize(Location(path)) == "chatgpt"
    assert _message_texts(_read(path)[0]) == ["a", "b", "c"]

    path.write_text("\n".join([rows[0], '{"title": "t"}', rows[2]]))
    with pytest.raises(MalformedError) as refusal:
        _read(path)
    assert (refusal.value.line, refusal.value.field) == (2, "1/mapping")
    assert _message_texts(_read(path, skip_bad=True)[0]) == ["a", "c"]


# -- archives ------------------------------------------------------------------------------


def test_files_of_the_operating_system_are_not_losses(tmp_path: Path) -> None:
    """The archive was unpacked and packed again on macOS."""
    path = _zip(
        tmp_path / "e.zip",
        {
            "export/conversations.json": [_conversation(_node("a", None, "hi"))],
            "__MACOSX/export/._conversations.json": b"\0\5\x16\7",
            "export/.DS_Store": b"\0\0\0\1Bud1",
        },
    )
    found, reading = _read(path)
    assert _message_texts(found) == ["hi"]
    assert reading.report.total == 0


@pytest.mark.parametrize(
    "name", ["export\\conversations.json", "./conversations.json", "CONVERSATIONS.JSON"]
)
def test_file_names_of_other_systems_are_accepted(name: str, tmp_path: Path) -> None:
    """A backslash, a leading dot and capitals."""
    path = _zip(tmp_path / "e.zip", {name: [_conversation(_node("a", None, "hi"))]})
    assert formats.recognize(Location(path)) == "chatgpt"
    assert _message_texts(_read(path)[0]) == ["hi"]


def test_a_listed_file_that_is_missing_is_counted(tmp_path: Path) -> None:
    """Half of a download is not reported as a complete export."""
    shards = ["conversations-000.json", "conversations-001.json"]
    listed = {"version": 1, "logical_files": {"conversations.json": {"files": shards}}}
    files = {shards[0]: [_conversation(_node("a", None, "hi"))], "export_manifest.json": listed}
    _, reading = _read(_zip(tmp_path / "short.zip", files))
    assert reading.missing == 1
    assert "'conversations-001.json'" in reading.report.notes[0]

    _, reading = _read(_zip(tmp_path / "whole.zip", {**files, shards[1]: []}))
    assert reading.missing == 0
    assert not any("missing" in note or "001" in note for note in reading.report.notes)


@pytest.mark.parametrize("listed", [b"{", b"[]", b'{"logical_files": {"conversations.json": 7}}'])
def test_an_invalid_file_list_is_ignored(listed: bytes, tmp_path: Path) -> None:
    """The existing files are read."""
    files = {"c.json": [_conversation(_node("a", None, "hi"))], "export_manifest.json": listed}
    found, reading = _read(_zip(tmp_path / "e.zip", files))
    assert (_message_texts(found), reading.missing) == (["hi"], 0)


def test_a_conversation_file_is_recognized_by_its_name(tmp_path: Path) -> None:
    """Its first bytes may be unfamiliar; a fault in it is reported."""
    talk = _conversation(_node("a", None, "hi"))
    utf16 = json.dumps([talk]).encode("utf-16")
    path = _zip(
        tmp_path / "e.zip", {"conversations-000.json": [talk], "conversations-001.json": utf16}
    )
    with pytest.raises(MalformedError) as refusal:
        _read(path)
    assert refusal.value.field == "conversations-001.json"

    late = {"safe_urls": ["x" * 5000], **talk, "conversation_id": "late"}
    path = _zip(
        tmp_path / "late.zip", {"conversations-000.json": [talk], "conversations-001.json": [late]}
    )
    assert _message_texts(_read(path)[0]) == ["hi", "hi"]


def test_conversations_after_hundreds_of_other_files_are_found(tmp_path: Path) -> None:
    """An archive may contain many files that sort before them."""
    files: dict[str, Any] = {f"a{number:03}.json": {} for number in range(100)}
    path = _zip(
        tmp_path / "e.zip", {**files, "conversations.json": [_conversation(_node("a", None, "hi"))]}
    )
    assert formats.recognize(Location(path)) == "chatgpt"


def test_many_ignored_files_of_a_folder_are_reported_in_one_line(tmp_path: Path) -> None:
    """A receipt with thousands of lines is not readable."""
    files: dict[str, Any] = {f"textdocs/{number}.json": {"id": "x"} for number in range(100)}
    talk = {"conversations.json": [_conversation(_node("a", None, "hi"))], "user.json": {"id": "u"}}
    _, reading = _read(_zip(tmp_path / "e.zip", {**files, **talk}))
    assert _losses(reading) == {"textdocs/*.json": 100}
    assert reading.report.ignored == {"user.json": 1}


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (lambda data: data[: len(data) // 2], "the archive is truncated"),
        (lambda _: "[]".encode("utf-16"), "UTF-16"),
        (lambda _: b"a" + b"\0" * 256 + b"ustar" + b"\0" * 250, "tar archive"),
    ],
)
def test_a_truncated_or_unsupported_archive_is_reported_by_kind(
    damage: Any, problem: str, tmp_path: Path
) -> None:
    """It is not reported as an unknown format."""
    path = _zip(tmp_path / "e.zip", {"conversations.json": [_conversation(_node("a", None, "hi"))]})
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(MalformedError, match=problem) as refusal:
        formats.recognize(Location(path))
    assert refusal.value.file == str(path)

    path.write_bytes(b"just some words")
    with pytest.raises(UnknownFormatError):
        formats.recognize(Location(path))
