"""Exports of Claude and ChatGPT: the shared samples, memories, conversations and archives."""

import io
import json
import struct
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from import_kit import bring

from satchel.crypto.canonical import Limits
from satchel.crypto.sealed_records import Sealed
from satchel.errors import (
    EmptyInputError,
    InputError,
    LimitError,
    MalformedError,
    PathRefusedError,
    UnknownFormatError,
)
from satchel.formats._conversations import moment_of, paragraphs
from satchel.formats.chatgpt import facts_in
from satchel.ports.drafts import read_records
from satchel.ports.format import Location, ReadContext, formats

_SAMPLES = Path(__file__).parent.parent / "data" / "formats"
_THEN = 1_772_355_600.0


def _read(name: str, path: Path, **given: Any) -> tuple[list[Sealed], ReadContext]:
    reading = ReadContext(**given)
    return list(read_records(formats[name], Location(path), reading)), reading


def _node(name: str, parent: str | None, text: Any, role: str = "user", **more: Any) -> Any:
    content = {"content_type": "text", "parts": [text]} if isinstance(text, str) else text
    said = {"id": name, "author": {"role": role}, "create_time": _THEN, "content": content, **more}
    return {"id": name, "parent": parent, "children": [], "message": said}


def _conversation(*nodes: Any, name: str = "c", current: str | None = None) -> Any:
    return {
        "title": "t",
        "create_time": _THEN,
        "update_time": _THEN,
        "mapping": {node["id"]: node for node in nodes},
        "current_node": current or nodes[-1]["id"],
        "conversation_id": name,
    }


def _read_chatgpt(path: Path, *talks: Any, **given: Any) -> tuple[list[Sealed], ReadContext]:
    path.write_text(json.dumps(talks), "utf-8")
    return _read("chatgpt", path, **given)


def _zip(path: Path, files: dict[str, bytes], packing: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", packing) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def _texts(records: list[Sealed], kind: str) -> list[str]:
    return [one.value["text"] for one in records if one.value.get("kind") == kind]


# -- the shared samples --------------------------------------------------------------------


@pytest.mark.shared
@pytest.mark.parametrize(
    ("sample", "name", "records"),
    [
        ("chatgpt_export/conversations.json", "chatgpt", {"session_event": 40, "identity": 2}),
        ("claude_export/conversations.json", "claude", {"session_event": 9}),
        ("claude_export/memories.json", "claude", {"semantic": 4}),
        ("claude_export/projects.json", "claude", {"graph_node": 1, "file_version": 1}),
    ],
)
def test_each_shared_sample_is_recognized_and_read_without_loss(
    shared_data: Path, sample: str, name: str, records: dict[str, int]
) -> None:
    """All conversations and memories."""
    path = shared_data / "chat-exports" / sample

    assert formats.recognize(Location(path)) == name
    found, reading = _read(name, path)
    assert Counter(one.type for one in found) == records
    assert reading.report.total == 0


@pytest.mark.shared
@pytest.mark.parametrize("sample", ["claude_export/users.json", "chatgpt_export/user.json"])
def test_a_user_file_alone_is_not_an_export(shared_data: Path, sample: str) -> None:
    """In an export it is reported as ignored."""
    path = shared_data / "chat-exports" / sample

    with pytest.raises(UnknownFormatError):
        formats.recognize(Location(path))
    with pytest.raises(InputError):
        _read(sample.partition("_")[0], path)


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "records", "ignored"),
    [
        ("chatgpt", {"session_event": 40, "identity": 2}, "user.json"),
        (
            "claude",
            {"session_event": 9, "semantic": 4, "graph_node": 1, "file_version": 1},
            "users.json",
        ),
    ],
)
def test_the_receipt_of_a_complete_export_reports_the_ignored_file(
    shared_data: Path, tmp_path: Path, name: str, records: dict[str, int], ignored: str
) -> None:
    """All memories are imported; the counts were verified by hand."""
    folder = shared_data / "chat-exports" / f"{name}_export"
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    packed = _zip(tmp_path / "export.zip", files)
    for source in (packed, folder):
        (told,) = bring(source, bank=source.name).accounts
        assert {type_: counts.read_back for type_, counts in told.counts.items()} == records
        assert {type_: counts.read for type_, counts in told.counts.items()} == records
        assert told.lost == []
        assert f"ignored, as it holds no memory: 1 {ignored}" in told.notes


@pytest.mark.shared
def test_the_memories_of_the_shared_samples_match_the_product(shared_data: Path) -> None:
    """Claude's memory by paragraphs; ChatGPT's instructions once, not once per conversation."""
    folder = shared_data / "chat-exports"
    claude, _ = _read("claude", folder / "claude_export" / "memories.json")
    chatgpt, _ = _read("chatgpt", folder / "chatgpt_export" / "conversations.json")

    assert _texts(claude, "conversations_memory") == [
        "Ada is an SRE at a payments company in Accra.",
        "Prefers metric units. Allergic to peanuts.",
        "Migrating billing to Postgres 17.",
    ]
    assert _texts(claude, "project_memory") == ["Project: billing cutover on 2026-07-01."]
    assert _texts(chatgpt, "user_profile") == ["I am Ada, an SRE in Accra."]


# -- memories ------------------------------------------------------------------------------


@given(st.text(alphabet="ab*# :\n\r\t", max_size=60))
def test_splitting_into_paragraphs_loses_only_whitespace(text: str) -> None:
    """For all texts: headings and paragraphs contain all words in order."""
    found, heading = list[str](), None
    for one in paragraphs(text):
        if one.heading is not None and (one.number == 1 or one.heading != heading):
            found.append(one.heading)
        heading = one.heading
        found.append(one.text)

    assert "".join("".join(found).split()) == "".join(text.split())


def test_a_numbered_list_of_memories_is_split() -> None:
    """A memory may have several lines, no date, or an invalid one."""
    text = "1. [2024-05-01]. Likes tea.\nGreen tea.\n2. Lives in Lisbon.\n\n3. [a while ago] Sails."

    assert list(facts_in(text)) == [
        ("2024-05-01", "Likes tea.\nGreen tea."),
        ("", "Lives in Lisbon."),
        ("a while ago", "Sails."),
    ]
    assert list(facts_in("Only words.")) == [("", "Only words.")]


def test_a_saved_memory_has_its_date_and_its_message(tmp_path: Path) -> None:
    """A message to ``bio`` is a memory; the later list does not repeat it."""
    shown = {
        "content_type": "model_editable_context",
        "model_set_context": "1. [2026-01-01]. Likes tea.\n2. [2026-01-02]. Owns a boat.",
    }
    found, _ = _read_chatgpt(
        tmp_path / "c.json",
        _conversation(
            _node("a", None, shown, "system"),
            _node("b", "a", "Likes tea.", "assistant", recipient="bio"),
        ),
    )

    (saved,) = (one.value for one in found if one.value.get("kind") == "bio")
    assert saved["text"] == "Likes tea."
    assert saved["created_at"] == moment_of(_THEN)
    assert saved["sources"] == [{"kind": "message", "id": "b"}]
    assert _texts(found, "model_set_context") == ["Owns a boat."]


def test_a_request_to_forget_does_not_become_a_fact(tmp_path: Path) -> None:
    """It is counted as lost; the message stays in its conversation."""
    asked = _node("a", None, "Forget that Mira lives in Accra.", "assistant", recipient="bio")
    found, reading = _read_chatgpt(tmp_path / "c.json", _conversation(asked))

    assert {one.type for one in found} == {"session_event"}
    assert [loss.name for loss in reading.report.losses.values()] == ["bio"]


def test_instructions_are_imported_without_the_wrapper_of_the_product(tmp_path: Path) -> None:
    """Of several, those of the newest message apply."""

    def told(words: str) -> dict[str, str]:
        around = f"The user said:\n```{words}```"
        return {"content_type": "user_editable_context", "user_instructions": around}

    old = _node("a", None, told("Be long."), create_time=_THEN - 5)
    new = _node("b", "a", told("Be brief."))
    found, _ = _read_chatgpt(tmp_path / "c.json", _conversation(new, old))

    (entry,) = (one.value for one in found if one.type == "identity")
    assert entry["custom_instructions"] == "Be brief."


# -- conversations -------------------------------------------------------------------------


def test_attack_a_cycle_of_messages_is_counted_as_lost(
    tmp_path: Path,
) -> None:
    """The other messages of the conversation are read."""
    ring = [_node("a", "b", "x"), _node("b", "a", "y"), _node("s", "s", "z")]
    found, reading = _read_chatgpt(
        tmp_path / "c.json", _conversation(*ring, _node("ok", None, "fine"))
    )

    assert [one.value.get("text") for one in found] == [None, "fine"]
    assert reading.report.total == len(ring)


def test_attack_long_chains_of_nodes_are_read_in_linear_time(tmp_path: Path) -> None:
    """Without recursion, and without visiting nodes without messages again and again."""
    bare: list[Any] = [
        {"id": f"e{n}", "parent": f"e{n - 1}", "children": [], "message": None}
        for n in range(10_000)
    ]
    said = [_node(f"m{n}", f"e{9_999 - n % 7}", "x") for n in range(1_000)]
    found, _ = _read_chatgpt(
        tmp_path / "c.json", _conversation(*bare, *said), limits=Limits(entry_bytes=2**23)
    )

    assert sum(one.value.get("event") == "message" for one in found) == len(said)


def test_skip_bad_skips_only_the_malformed_conversation(tmp_path: Path) -> None:
    """Conversations around it and in later files are read."""
    good = [
        _conversation(_node("a", None, "one"), name="1"),
        _conversation(_node("b", None, "two"), name="2"),
    ]
    path = _zip(
        tmp_path / "e.zip",
        {
            "conversations-000.json": json.dumps([good[0], {**good[0], "mapping": 7}, 5]).encode(),
            "conversations-001.json": json.dumps([good[0]]).encode()[:-30],
            "conversations-002.json": json.dumps([good[1]]).encode(),
            "export_manifest.json": b'{"files": []}',
            "file-x.dat": b"\x00",
        },
    )
    with pytest.raises(InputError):
        _read("chatgpt", path)
    found, reading = _read("chatgpt", path, skip_bad=True)

    assert [one.value["text"] for one in found if "text" in one.value] == ["one", "two"]
    assert reading.report.left_out == 3
    assert {loss.name for loss in reading.report.losses.values()} == {"record"}
    assert reading.report.ignored == {"export_manifest.json": 1, "*.dat": 1}


@pytest.mark.parametrize(("said", "is_of"), [("claude", "chatgpt"), ("chatgpt", "claude")])
def test_a_wrong_from_option_is_an_error(said: str, is_of: str) -> None:
    """Also with ``skip_bad``; the hint names the right product."""
    path = _SAMPLES / is_of / "good-conversations.json"

    with pytest.raises(MalformedError) as refusal:
        _read(said, path)
    assert is_of in (refusal.value.hint or "")
    with pytest.raises(EmptyInputError):
        _read(said, path, skip_bad=True)


@given(st.floats(allow_nan=True) | st.integers() | st.none() | st.booleans() | st.text(max_size=30))
def test_any_time_value_is_a_time_or_none(value: Any) -> None:
    """For all values."""
    found = moment_of(value)

    assert found is None or len(found) == len("2026-01-01T00:00:00.000000Z")


# -- archives ------------------------------------------------------------------------------

_GOOD = json.dumps([_conversation(_node("a", None, "one"))]).encode()


def _zip_with_link() -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        link = zipfile.ZipInfo("conversations.json")
        link.create_system, link.external_attr = 3, 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
    return made.getvalue()


def _zip_of(names: list[str]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name in names:
            archive.writestr(name, _GOOD)
    return made.getvalue()


def _zip_bomb() -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("conversations.json", _GOOD[:-1] + b" " * 80 * 2**20 + b"]")
    return made.getvalue()


def _zip_with_count(count: int) -> bytes:
    found = bytearray(_zip_of(["conversations.json"]))
    end = found.rfind(b"PK\x05\x06")
    struct.pack_into("<HHI", found, end + 8, count, count, 0xFFFFFFF0)
    return bytes(found)


def _zip_with_password() -> bytes:
    data = bytearray(_zip_of(["conversations.json"]))
    data[data.rfind(b"PK\x01\x02") + 8] |= 1
    return bytes(data)


@pytest.mark.in_check(3)
@pytest.mark.parametrize(
    ("attack", "refusal"),
    [
        pytest.param(
            lambda: _zip_of(["conversations.json", "../a.json"]), PathRefusedError, id="up"
        ),
        pytest.param(lambda: _zip_of(["/etc/a.json"]), PathRefusedError, id="absolute"),
        pytest.param(lambda: _zip_of(["..\\a.json"]), PathRefusedError, id="backslash"),
        pytest.param(lambda: _zip_of(["d/" * 20 + "a.json"]), LimitError, id="deep"),
        pytest.param(_zip_with_link, PathRefusedError, id="link"),
        pytest.param(_zip_bomb, LimitError, id="bomb"),
        pytest.param(lambda: _zip_with_count(60_000), LimitError, id="directory-too-long"),
        pytest.param(_zip_with_password, MalformedError, id="password"),
    ],
)
def test_attack_a_hostile_archive_is_refused(
    attack: Callable[[], bytes], refusal: type[Exception], tmp_path: Path
) -> None:
    """Paths that lead out, links, bombs and passwords; nothing is unpacked."""
    path = tmp_path / "e.zip"
    path.write_bytes(attack())

    with pytest.raises(refusal):
        _read("chatgpt", path)
    assert list(tmp_path.iterdir()) == [path]


def test_a_damaged_archive_is_refused(tmp_path: Path) -> None:
    """A changed byte is a typed error."""
    path = _zip(tmp_path / "e.zip", {"conversations.json": _GOOD})
    data = bytearray(path.read_bytes())
    data[data.find(b"conversations.json") + 40] ^= 0xFF
    path.write_bytes(data)

    with pytest.raises(MalformedError):
        _read("chatgpt", path)
