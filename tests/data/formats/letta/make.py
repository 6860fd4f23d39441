"""Writes the samples of Letta's agent files; run it again and nothing changes.

``python tests/data/formats/letta/make.py``. Every name and text is invented; ``other-*`` have the
shapes that are read and come out as another one.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from satchel.conformance.subject import Subject
from satchel.ports.format import formats

HERE = Path(__file__).parent
THEN = "2026-01-22T02:06:34.048739+00:00"


def block(number: int, label: str, value: str, **more: Any) -> dict[str, Any]:
    """A block as the server writes one."""
    return {
        "value": value,
        "limit": 20000,
        "project_id": None,
        "template_name": None,
        "is_template": False,
        "preserve_on_migration": False,
        "label": label,
        "read_only": False,
        "description": None,
        "metadata": {},
        "hidden": None,
        "tags": None,
        "id": f"block-{number}",
        **more,
    }


def message(number: int, role: str, content: Any, **more: Any) -> dict[str, Any]:
    """A message as the server writes one."""
    return {
        "type": "message",
        "role": role,
        "content": content,
        "name": None,
        "id": f"message-{number}",
        "agent_id": "agent-0",
        "tool_calls": None,
        "tool_returns": [],
        "created_at": THEN,
        **more,
    }


def text(said: str) -> list[dict[str, Any]]:
    """The content of most messages."""
    return [{"type": "text", "text": said, "signature": None}]


def whole() -> dict[str, Any]:
    """Two agents with some of everything."""
    call = {"id": "c1", "type": "function", "function": {"name": "brew", "arguments": "{}"}}
    agent = {
        "name": "Tea keeper",
        "system": "You keep the tea.",
        "agent_type": "letta_v1_agent",
        "llm_config": {"model": "small-1", "context_window": 90000, "temperature": 1.0},
        "embedding_config": None,
        "tool_ids": ["tool-0"],
        "block_ids": ["block-1", "block-0", "block-2"],
        "secrets": {"KETTLE_KEY": ""},
        "id": "agent-0",
        "in_context_message_ids": ["message-0", "message-1"],
        "messages": [
            message(0, "system", text("You keep the tea.")),
            message(1, "user", "Which tea for guests?", created_at="2026-01-22T02:06:34"),
            message(2, "assistant", [], tool_calls=[call]),
            message(3, "tool", text("done"), tool_call_id="c1"),
            message(4, "assistant", [*text("Green."), *text("Cold, Grünes 🍵")]),
        ],
        "group_ids": ["group-0"],
    }
    other = {**agent, "name": "Night watch", "id": "agent-1", "block_ids": ["block-2"]}
    other |= {"messages": [], "in_context_message_ids": []}
    return {
        "agents": [agent, other],
        "groups": [{"id": "group-0", "agent_ids": ["agent-0", "agent-1"], "description": "all"}],
        "blocks": [
            block(0, "about_user", "Rosa drinks green tea.\n"),
            block(1, "persona", "I keep the tea, quietly.", limit=5000, description="Who I am."),
            block(2, "notes", "", read_only=True),
            block(3, "persona", "Nobody has this one."),
        ],
        "files": [{"id": "file-0", "file_name": "menu.txt", "content": "Tea: 2", "size": 6}],
        "sources": [],
        "tools": [
            {
                "id": "tool-0",
                "tool_type": "custom",
                "name": "brew",
                "description": "Brews.",
                "source_code": "import os\nos.system('true')\n",
                "json_schema": {"name": "brew", "parameters": {}},
            }
        ],
        "mcp_servers": [],
        "skills": [{"name": "pour", "files": {"SKILL.md": "# Pour\n"}}],
        "metadata": {"revision_id": "297e8217e952"},
        "created_at": THEN,
        "unknown": {"n": 1},
    }


def small() -> dict[str, Any]:
    """An agent with one block, without the lists that came later."""
    agent = {"id": "agent-0", "name": "a", "agent_type": "memgpt_agent", "block_ids": ["block-0"]}
    return {
        "agents": [{**agent, "messages": []}],
        "groups": [],
        "blocks": [block(0, "human", "Name: Rosa")],
        "files": [],
        "sources": [],
        "tools": [],
        "mcp_servers": [],
        "metadata": {},
    }


def older() -> dict[str, Any]:
    """The shape of server 0.6.47."""
    return {
        "agent_type": "memgpt_agent",
        "core_memory": [
            {"label": "persona", "value": "I keep the tea.", "limit": 5000, "metadata_": {}},
            {"label": "human", "value": "Rosa.", "limit": 5000},
        ],
        "created_at": "2025-04-01T03:47:27",
        "name": "Old keeper",
        "system": "You keep the tea.",
        "messages": [
            {"role": "system", "content": text("You keep the tea."), "created_at": THEN},
            {"role": "user", "content": text("Which tea?"), "created_at": THEN},
        ],
        "in_context_message_indices": [1, 0],
        "tags": [{"tag": "tea"}],
        "tool_exec_environment_variables": [{"key": "KETTLE_KEY", "value": "hunter2"}],
        "tools": [{"name": "brew", "source_code": "import os"}],
        "version": "0.6.47",
    }


def _with(change: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    made = whole()
    change(made)
    return made


BAD: dict[str, Any] = {
    "list": [],
    "nothing": {},
    "agents-text": {**whole(), "agents": "none"},
    "agent-text": {**whole(), "agents": ["none"]},
    "blocks-object": {**whole(), "blocks": {}},
    "block-text": {**whole(), "blocks": ["x"]},
    "block-without-label": _with(lambda made: made["blocks"][0].pop("label")),
    "block-value-number": _with(lambda made: made["blocks"][0].update(value=1)),
    "messages-object": _with(lambda made: made["agents"][0].update(messages={})),
    "message-without-role": _with(lambda made: made["agents"][0]["messages"][0].pop("role")),
    "tool-text": {**whole(), "tools": ["rm -rf"]},
    "twice-encoded-text": json.dumps("only a text"),
    "older-core-memory-text": {**older(), "core_memory": "x"},
    "older-index-beyond": {**older(), "in_context_message_indices": [9]},
    "older-message-text": {**older(), "messages": ["x"]},
}


def main() -> None:
    """Write them all."""
    for name, value in {
        "good-whole.af": whole(),
        "good-small.af": small(),
        "other-twice-encoded.af": json.dumps(whole()),
        "other-older.af": older(),
    }.items():
        (HERE / name).write_bytes(_json(value))
    for name, value in BAD.items():
        (HERE / f"bad-{name}.af").write_bytes(_json(value))
    (HERE / "bad-cut.af").write_bytes(_json(whole())[:900])
    (HERE / "bad-trailing.af").write_bytes(_json(whole()) + b"{}")
    (HERE / "bad-key-twice.af").write_bytes(b'{"agents": [], "agents": [], "blocks": []}')
    subject = Subject("letta", formats["letta"], HERE)
    for sample in subject.good():
        found = json.dumps(subject.take(sample).contents, indent=1, ensure_ascii=False)
        subject.expectation(sample).write_text(found + "\n")


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, indent=1).encode() + b"\n"


if __name__ == "__main__":
    main()
