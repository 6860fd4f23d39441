"""Writes the samples of Claude exports; run it again and nothing changes.

``python tests/data/formats/claude/make.py``. Every name and text is invented.
"""

import io
import json
import zipfile
from pathlib import Path
from typing import Any

from satchel.conformance.subject import Subject
from satchel.ports.format import formats

HERE = Path(__file__).parent
THEN = "2026-03-01T09:00:00.000000Z"
ACCOUNT = "acc-7"


def message(name: str, sender: str, text: str, **more: Any) -> dict[str, Any]:
    """A message as the export has it."""
    return {
        "uuid": name,
        "text": text,
        "content": [{"type": "text", "text": text, "citations": []}],
        "sender": sender,
        "created_at": THEN,
        "updated_at": "2026-03-01T09:00:01.5+00:00",
        "attachments": [],
        "files": [],
        **more,
    }


def conversation(name: str, messages: list[Any], **more: Any) -> dict[str, Any]:
    """A conversation as the export has it."""
    return {
        "uuid": name,
        "name": f"About {name}",
        "summary": "",
        "created_at": THEN,
        "updated_at": THEN,
        "account": {"uuid": ACCOUNT},
        "chat_messages": messages,
        **more,
    }


def conversations() -> list[Any]:
    """One that goes straight on, one with an edited question and a tool."""
    root = "00000000-0000-4000-8000-000000000000"
    tool = [
        {"type": "thinking", "thinking": "Look it up.", "summaries": [{"summary": "Looks"}]},
        {"type": "tool_use", "id": "t1", "name": "clock", "input": {"zone": "Asia/Tokyo"}},
        {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "9:00"}]},
        {"type": "text", "text": "It is nine in Tokyo.", "citations": []},
    ]
    straight = [
        message("s1", "human", "Which tea for guests?"),
        message("s2", "assistant", "Green tea, brewed cool."),
        message("s3", "human", "", attachments=[{"file_name": "a.txt", "extracted_content": "A"}]),
    ]
    tree = [
        message("b1", "human", "What time is it in Kyoto?", parent_message_uuid=root),
        message("b2", "assistant", "I cannot say.", parent_message_uuid="b1"),
        message("b3", "human", "What time is it in Tokyo?", parent_message_uuid=root),
        message("b4", "assistant", "It is nine.", parent_message_uuid="b3", content=tool),
        message("b5", "assistant", "Nine in the morning.", parent_message_uuid="b3"),
    ]
    return [
        conversation("straight", straight, model="claude-x", is_starred=False),
        conversation("tree", tree, current_leaf_message_uuid="b4"),
    ]


def memories() -> dict[str, Any]:
    """What is remembered, as one object."""
    return {
        "conversations_memory": "Mira runs a small tea shop in Lisbon.",
        "project_memories": {"p-1": "The shop opens on 1 May."},
        "account_uuid": ACCOUNT,
    }


def projects() -> list[Any]:
    """A project with instructions and a document."""
    return [
        {
            "uuid": "p-1",
            "name": "Opening",
            "description": "All for the first day",
            "is_private": True,
            "is_starter_project": False,
            "prompt_template": "Answer in Portuguese.",
            "created_at": THEN,
            "updated_at": THEN,
            "creator": {"uuid": ACCOUNT, "full_name": "Mira"},
            "docs": [
                {"uuid": "d-1", "filename": "../plan.md", "content": "# Plan", "created_at": THEN}
            ],
        }
    ]


def memory_files() -> dict[str, Any]:
    """What is remembered, as Claude keeps it since the summer of 2026."""
    of_a_project = "/projects/0f0f0f0f-0000-4000-8000-000000000001/notes.md"
    return {
        "account_uuid": ACCOUNT,
        "conversations_memory": None,
        "project_memories": {"p-1": None},
        "memory_files": [
            {
                "path": "/areas/shop.md",
                "content": "Mira sells tea in Lisbon.",
                "updated_at": THEN,
            },
            {"path": of_a_project, "content": "Posters are green.", "updated_at": THEN},
            {"path": "/areas/empty.md", "content": None, "updated_at": THEN},
        ],
    }


def design() -> dict[str, Any]:
    """A conversation of Claude Design."""
    said = {"id": "x1", "role": "user", "content": "Draw a teapot.", "authorName": "Mira"}
    drawn = {"role": "assistant", "content": [{"type": "text", "text": "Done."}]}
    return {
        "uuid": "design-1",
        "title": "Poster",
        "project": {"uuid": "p-1", "name": "Opening"},
        "created_at": THEN,
        "updated_at": THEN,
        "messages": [
            {"uuid": "d1", "role": "user", "content": said, "created_at": THEN},
            {"role": "assistant", "content": drawn, "created_at": THEN},
        ],
    }


def archive(files: dict[str, Any]) -> bytes:
    """An archive whose bytes are always the same; stored, so that its words can be found in it."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as out:
        for name, value in files.items():
            info = zipfile.ZipInfo(name, (2026, 3, 1, 9, 0, 0))
            out.writestr(info, value if isinstance(value, bytes) else _json(value))
    return made.getvalue()


def main() -> None:
    """Write all samples, and what is expected of the good ones."""
    talks, loose = conversations(), message("x", "human", "?")
    whole = {
        "conversations.json": talks,
        "memories.json": [memories()],
        "projects/p-1.json": projects()[0],
    }
    good = {
        "conversations.json": _json(talks),
        "memories.json": _json([memories()]),
        "memories-object.json": _json(memories()),
        "projects.json": _json(projects()),
        "export.zip": archive(whole),
        "parts.zip": archive(
            {
                "memories-000.zip/memories/acc-7.json": memory_files(),
                "design_chats-000.zip/design_chats/design-1.json": design(),
                "light_metadata-000.zip/users.json": [{"uuid": ACCOUNT, "full_name": "Mira"}],
            }
        ),
        "lines.json": b"".join(json.dumps(one).encode() + b"\n" for one in talks),
    }
    nameless = {k: v for k, v in talks[0].items() if k != "uuid"}
    bad = {
        "not-an-object.json": _json([talks[0], 7]),
        "no-uuid.json": _json([nameless]),
        "messages-text.json": _json([{**talks[0], "chat_messages": "none"}]),
        "message-twice.json": _json([conversation("c", [loose, {**loose, "text": "!"}])]),
        "message-number.json": _json([conversation("c", [{**loose, "text": 7}])]),
        "memory-number.json": _json({**memories(), "conversations_memory": 7}),
        "of-chatgpt.json": _json([{"title": "t", "mapping": {}}]),
        "cut.json": _json(talks)[:-40],
        "empty.json": _json([]),
        "cut.zip": archive(whole)[:-30],
        "leads-out.zip": archive({"conversations.json": talks, "../evil.json": talks}),
    }
    for kind, files in (("good", good), ("bad", bad)):
        for name, data in files.items():
            (HERE / f"{kind}-{name}").write_bytes(data)
    subject = Subject("claude", formats["claude"], HERE)
    for sample in subject.good():
        text = json.dumps(subject.take(sample).contents, indent=1, ensure_ascii=False)
        subject.expectation(sample).write_text(text + "\n")


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, indent=1).encode() + b"\n"


if __name__ == "__main__":
    main()
