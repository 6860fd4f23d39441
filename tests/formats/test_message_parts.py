"""Messages with pictures or speech: the typed or transcribed text is the text of the memory."""

import json
from pathlib import Path
from typing import Any

import pytest
from import_kit import bring

from satchel.model.records import Semantic, SessionEvent
from satchel.model.text import attachments_in, spoken_text, words_of
from satchel.ports.format import Location, ReadContext, formats

_IMAGE = {"content_type": "image_asset_pointer", "asset_pointer": "sediment://file_1", "width": 2}
_SPOKEN = {
    "content_type": "audio_transcription",
    "text": "I am allergic to hazelnuts",
    "direction": "in",
}
_SOUND = {"content_type": "audio_asset_pointer", "asset_pointer": "sediment://file_2"}


def _chatgpt(*contents: dict[str, Any]) -> list[dict[str, Any]]:
    nodes: dict[str, Any] = {"root": {"id": "root", "message": None, "parent": None}}
    before = "root"
    for number, content in enumerate(contents):
        name = f"m{number}"
        message = {
            "id": name,
            "author": {"role": "user" if number % 2 == 0 else "assistant"},
            "create_time": 1_770_000_000 + number,
            "content": content,
        }
        nodes[name] = {"id": name, "message": message, "parent": before}
        before = name
    return [
        {
            "conversation_id": "c1",
            "title": "Voice",
            "create_time": 1_770_000_000,
            "mapping": nodes,
            "current_node": before,
        }
    ]


def _events(name: str, path: Path, value: Any) -> list[SessionEvent]:
    lines = value if isinstance(value, str) else json.dumps(value)
    path.write_text(lines)
    found = formats[name].read(Location(path), ReadContext())
    return [one for one in found if isinstance(one, SessionEvent) and one.event == "message"]


def test_the_text_given_to_chatgpt_is_the_text_of_the_memory(tmp_path: Path) -> None:
    """The transcription is the text, the picture an attachment, and the content is unchanged."""
    spoken = {"content_type": "multimodal_text", "parts": [_SPOKEN, _SOUND]}
    reply = {"content_type": "text", "parts": ["Noted."]}
    shown = {"content_type": "multimodal_text", "parts": [_IMAGE, "What is in this picture?"]}
    path = tmp_path / "conversations.json"
    first, second, third = _events("chatgpt", path, _chatgpt(spoken, reply, shown))
    assert [one.text for one in (first, second, third)] == [
        "I am allergic to hazelnuts",
        "Noted.",
        "What is in this picture?",
    ]
    assert (first.content, second.content, third.content) == (spoken, None, shown)


def test_a_spoken_conversation_is_shown_and_distilled_as_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """``session show`` and ``session distill`` print the text and name the attachment."""
    from satchel.cli.main import run

    spoken = {"content_type": "multimodal_text", "parts": [_SPOKEN, _SOUND]}
    reply = {"content_type": "text", "parts": ["I will remember that you are allergic."]}
    shown = {"content_type": "multimodal_text", "parts": ["We decided to use rye flour.", _IMAGE]}
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps(_chatgpt(spoken, reply, shown)))
    bring(path)
    capsys.readouterr()
    assert run(["session", "show", "Voice", "--bank", "b"]) == 0
    out = capsys.readouterr().out
    assert "I am allergic to hazelnuts" in out
    assert "image_asset_pointer sediment://file_1" in out
    assert '"content_type"' not in out
    assert run(["session", "distill", "Voice", "--bank", "b", "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert "without text" not in out
    assert "hazelnuts" in out or "flour" in out


@pytest.mark.parametrize(
    ("content", "words", "attached"),
    [
        ([{"type": "text", "text": "a"}, {"type": "image", "source": {}}], "a", ["image"]),
        ([{"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": "x"}], "a", 1),
        ([{"type": "input_audio", "input_audio": {}, "transcript": "said"}], "said", 1),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "a\nb", []),
        ([{"text": "gemini"}, {"inlineData": {"mimeType": "image/png"}}], "gemini", 1),
        ([{"type": "text", "text": "a"}, {"type": "tool_use", "name": "f"}], None, []),
        ([{"type": "image_url", "image_url": {"url": "https://x/y.png"}}], None, 1),
    ],
)
def test_message_parts_of_other_products_are_read(content: Any, words: Any, attached: Any) -> None:
    """Text and attachments are found; content with a tool call is not changed."""
    assert spoken_text(content) == words
    found = attachments_in(content)
    assert (found if isinstance(attached, list) else len(found)) == attached


def test_the_text_of_any_content_is_found() -> None:
    """Also of content with other parts."""
    assert words_of([{"type": "text", "text": "a"}, {"type": "tool_use", "name": "f"}]) == "a"
    assert words_of({"content_type": "multimodal_text", "parts": [_SPOKEN, _IMAGE]}) == (
        "I am allergic to hazelnuts"
    )


def test_a_picture_in_claude_code_keeps_the_typed_text(tmp_path: Path) -> None:
    """Its blocks are those of Anthropic's messages."""
    content = [
        {"type": "text", "text": "What is this?"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}},
    ]
    line = {
        "type": "user",
        "uuid": "u1",
        "parentUuid": None,
        "sessionId": "s1",
        "timestamp": "2026-03-01T09:00:00.000Z",
        "message": {"role": "user", "content": content},
    }
    (event,) = _events("claude_code", tmp_path / "t.jsonl", json.dumps(line) + "\n")
    assert (event.text, event.content) == ("What is this?", content)


def test_a_picture_in_a_codex_rollout_keeps_the_typed_text(tmp_path: Path) -> None:
    """Several parts of text and pictures are one text."""
    content = [
        {"type": "input_text", "text": "Look at this"},
        {"type": "input_image", "image_url": "data:image/png;base64,AA=="},
    ]
    lines = [
        {
            "timestamp": "2026-03-01T09:00:00Z",
            "type": "session_meta",
            "payload": {"id": "s", "cwd": "/"},
        },
        {
            "timestamp": "2026-03-01T09:00:01Z",
            "type": "response_item",
            "payload": {"type": "message", "role": "user", "content": content},
        },
    ]
    (event,) = _events(
        "codex", tmp_path / "r.jsonl", "".join(json.dumps(one) + "\n" for one in lines)
    )
    assert (event.text, event.content) == ("Look at this", content)


def test_a_picture_in_a_claude_export_keeps_the_typed_text(tmp_path: Path) -> None:
    """Its messages have their text next to the blocks."""
    content = [
        {"type": "text", "text": "Read the sign"},
        {"type": "image", "file_name": "sign.png"},
    ]
    message = {
        "uuid": "m1",
        "sender": "human",
        "text": "Read the sign",
        "content": content,
        "created_at": "2026-03-01T09:00:00Z",
    }
    row = {"uuid": "c1", "name": "Signs", "chat_messages": [message]}
    (event,) = _events("claude", tmp_path / "conversations.json", [row])
    assert (event.text, event.content) == ("Read the sign", content)


def _bio(*texts: str) -> list[dict[str, Any]]:
    rows = _chatgpt(*({"content_type": "text", "parts": [text]} for text in ("hi", *texts)))
    nodes = rows[0]["mapping"]
    for number in range(1, len(texts) + 1):
        nodes[f"m{number}"]["message"] |= {"recipient": "bio", "author": {"role": "assistant"}}
    return rows


def test_a_call_to_bio_is_read_line_by_line(tmp_path: Path) -> None:
    """A line that asks to forget is reported; the facts around it are memories."""
    path = tmp_path / "conversations.json"
    path.write_text(
        json.dumps(_bio("Forget that Ada lives in Accra.\nAda lives in Tema.", "- Tea\n- Runs"))
    )
    reading = ReadContext()
    records = formats["chatgpt"].read(Location(path), reading)
    found = [one for one in records if isinstance(one, Semantic)]
    assert [one.text for one in found] == ["Ada lives in Tema.", "Tea", "Runs"]
    assert len({one.origin.id for one in found if one.origin}) == len(found)
    (loss,) = reading.report.losses.values()
    assert (loss.name, loss.count) == ("bio", 1)
    assert "Forget that Ada lives in Accra." in loss.examples[0]


def test_an_intact_export_is_imported_without_loss(tmp_path: Path) -> None:
    """The program's own lines are counted in one note, and the exit status is 0."""
    lines = [
        {"type": "session_meta", "payload": {"id": "s", "cwd": "/"}},
        {"type": "event_msg", "payload": {"type": "task_started", "turn_id": "1"}},
        {"type": "turn_context", "payload": {"cwd": "/"}},
        {
            "type": "response_item",
            "payload": {
                "type": "message",
                "role": "user",
                "content": [{"type": "input_text", "text": "Hello"}],
            },
        },
        {"type": "event_msg", "payload": {"type": "user_message", "message": "Hello"}},
        {"type": "event_msg", "payload": {"type": "token_count", "info": None}},
        {"type": "event_msg", "payload": {"type": "token_count", "info": None}},
        {
            "type": "event_msg",
            "payload": {"type": "task_complete", "last_agent_message": "Hello"},
        },
        {"type": "turn_context", "payload": {"cwd": "/other"}},
    ]
    at = {"timestamp": "2026-03-01T09:00:00Z"}
    path = tmp_path / "rollout.jsonl"
    path.write_text("".join(json.dumps({**at, **one}) + "\n" for one in lines))
    done = bring(path)
    assert (done.losses, done.unaccepted) == ([], 0)
    note = "ignored, as it holds no memory: 1 task_started, 2 token_count, 1 turn_context"
    assert note in done.notes
    assert note in done.accounts[0].notes
