"""Writes the samples of ChatGPT exports; run it again and nothing changes.

``python tests/data/formats/chatgpt/make.py``. Every name and text is invented.
"""

import io
import json
import zipfile
from pathlib import Path
from typing import Any

from satchel.conformance.subject import Subject
from satchel.ports.format import formats

HERE = Path(__file__).parent
THEN = 1_772_355_600.25


def node(name: str, parent: str | None, role: str, content: Any, **more: Any) -> dict[str, Any]:
    """A node of a conversation, with a message."""
    said = {"content_type": "text", "parts": [content]} if isinstance(content, str) else content
    message = {
        "id": name,
        "author": {"role": role, "name": None, "metadata": {}},
        "create_time": THEN,
        "update_time": None,
        "content": said,
        "status": "finished_successfully",
        "weight": 1.0,
        "recipient": "all",
        **more,
    }
    return {"id": name, "parent": parent, "children": [], "message": message}


def conversation(name: str, nodes: list[dict[str, Any]], current: str) -> dict[str, Any]:
    """A conversation; children are put in."""
    mapping = {one["id"]: one for one in nodes}
    for one in nodes:
        if one["parent"] in mapping:
            mapping[one["parent"]]["children"].append(one["id"])
    return {
        "title": f"About {name}",
        "create_time": THEN,
        "update_time": THEN + 60,
        "mapping": mapping,
        "current_node": current,
        "conversation_id": name,
        "default_model_slug": "gpt-x",
        "is_archived": False,
    }


def root(name: str) -> dict[str, Any]:
    """The node that every conversation begins with."""
    return {"id": name, "parent": None, "children": [], "message": None}


def teas() -> dict[str, Any]:
    """One with an edited question, another answer, a saved memory, and instructions."""
    own = {
        "content_type": "user_editable_context",
        "user_profile": "I run a tea shop in Lisbon.",
        "user_instructions": "Answer briefly.",
    }
    picture = {
        "content_type": "multimodal_text",
        "parts": [{"content_type": "image_asset_pointer", "asset_pointer": "sediment://f1"}, "See"],
    }
    nodes = [
        root("t0"),
        node("t1", "t0", "user", own),
        node("t2", "t1", "user", "Which tea for guests?"),
        node("t3", "t2", "assistant", "Black tea."),
        node("t4", "t2", "assistant", "Mira serves green tea to guests.", recipient="bio"),
        node("t5", "t4", "tool", "Model set context updated."),
        node("t6", "t5", "assistant", "Green tea.", metadata={"model_slug": "gpt-x"}),
        node("t7", "t1", "user", picture),
    ]
    return conversation("teas", nodes, "t6")


def shown() -> dict[str, Any]:
    """One with the list of memories as the model was shown it."""
    held = "1. [2026-02-01]. Mira's shop opens on 1 May."
    nodes = [
        root("l0"),
        node("l1", "l0", "system", {"content_type": "model_editable_context",
                                    "model_set_context": held, "repository": None}),
        node("l2", "l1", "user", "When do we open?"),
    ]  # fmt: skip
    del nodes[2]["message"]["create_time"]
    return conversation("shown", nodes, "l2")


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
    shards = {"conversations-000.json": [teas()], "conversations-001.json": [shown()]}
    good = {
        "conversations.json": _json([teas(), shown()]),
        "within.json": _json({"conversations": [teas()]}),
        "shards.zip": archive(shards),
    }
    bad = {
        "not-an-object.json": _json([teas(), 7]),
        "no-mapping.json": _json([{"title": "t", "create_time": 1, "update_time": 2}]),
        "no-id.json": _json([{**teas(), "conversation_id": None}]),
        "node-text.json": _json([{**teas(), "mapping": {"a": "b"}}]),
        "content-text.json": _json([conversation("c", [node("a", None, "user", ["x"])], "a")]),
        "of-claude.json": _json([{"uuid": "u", "chat_messages": []}]),
        "cut.json": _json([teas()])[:-40],
        "empty.json": _json([]),
        "cut.zip": archive(shards)[:-30],
        "leads-out.zip": archive({**shards, "a/../../evil.json": []}),
    }
    for kind, files in (("good", good), ("bad", bad)):
        for name, data in files.items():
            (HERE / f"{kind}-{name}").write_bytes(data)
    subject = Subject("chatgpt", formats["chatgpt"], HERE)
    for sample in subject.good():
        text = json.dumps(subject.take(sample).contents, indent=1, ensure_ascii=False)
        subject.expectation(sample).write_text(text + "\n")


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, indent=1).encode() + b"\n"


if __name__ == "__main__":
    main()
