"""Writes the samples of Codex's rollouts; run it again and nothing changes.

``python tests/data/formats/codex/make.py``. Every name and text is invented.
"""

import io
import json
import zipfile
from pathlib import Path
from typing import Any

from satchel.conformance.subject import Subject
from satchel.ports.format import formats

HERE = Path(__file__).parent
THEN = "2026-03-01T09:00:00.125Z"
SESSION = "019f0a00-0000-7000-8000-000000000001"


def line(kind: str, /, **payload: Any) -> dict[str, Any]:
    """A line as the program writes it."""
    return {"timestamp": THEN, "type": kind, "payload": payload}


def item(kind: str, /, **more: Any) -> dict[str, Any]:
    """A line with what the model was given or gave back."""
    return line("response_item", type=kind, **more)


def said(role: str, *texts: str, **more: Any) -> dict[str, Any]:
    """A message."""
    kind = "output_text" if role == "assistant" else "input_text"
    return item(
        "message", role=role, content=[{"type": kind, "text": text} for text in texts], **more
    )


def meta(identity: str = SESSION, **more: Any) -> dict[str, Any]:
    """The first line."""
    return line(
        "session_meta",
        id=identity,
        timestamp=THEN,
        cwd="shop",
        originator="codex_cli_rs",
        cli_version="0.128.0",
        source="cli",
        model_provider="openai",
        base_instructions={"text": "You are a coding agent."},
        git={"commit_hash": "c0ffee", "branch": "main"},
        **more,
    )


def talk() -> list[dict[str, Any]]:
    """A conversation with a tool, a question that was taken back, and a compaction."""
    context = {"cwd": "shop", "approval_policy": "never", "model": "gpt-5-codex", "effort": "high"}
    return [
        meta(),
        said("user", "# AGENTS.md instructions for shop\n\nBe brief.", "<environment_context>\n"
             "  <cwd>shop</cwd>\n</environment_context>"),
        said("user", "Which day is it?"),
        line("turn_context", **context),
        item("reasoning", summary=[{"type": "summary_text", "text": "**Looking at the clock**"}],
             encrypted_content="b3BhcXVl"),
        item("function_call", name="shell", arguments='{"command":["date"]}', call_id="call_1"),
        item("function_call_output", call_id="call_1", output="Sunday"),
        said("assistant", "Sunday.", phase="final"),
        said("user", "And yesterday?"),
        said("assistant", "Saturday."),
        line("event_msg", type="thread_rolled_back", num_turns=1),
        said("user", "And tomorrow?"),
        line("compacted", message="They asked for days of the week."),
        said("assistant", "Monday."),
    ]  # fmt: skip


def early() -> list[dict[str, Any]]:
    """A conversation as early versions wrote it."""
    return [
        {"id": "old-1", "timestamp": THEN, "instructions": None},
        {"record_type": "state"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hello."}]},
    ]


def main() -> None:
    """Write all samples, and what is expected of the good ones."""
    lines, forked = talk(), "019f0a00-0000-7000-8000-000000000002"
    named = [{"id": SESSION, "thread_name": "Days", "updated_at": THEN}]
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as out:
        for name, value in (
            ("history.jsonl", [{"session_id": SESSION, "ts": 1, "text": "Which day is it?"}]),
            ("session_index.jsonl", named),
            (f"sessions/2026/03/01/rollout-2026-03-01T09-00-00-{SESSION}.jsonl", lines[:3]),
            (
                f"sessions/2026/03/01/rollout-2026-03-01T09-00-00-{forked}.jsonl",
                [meta(forked, forked_from_id=SESSION), *lines[:3], said("assistant", "Sunday.")],
            ),
        ):
            out.writestr(zipfile.ZipInfo(name, (2026, 3, 1, 9, 0, 0)), _jsonl(value))
    good = {
        "rollout.jsonl": _jsonl(lines),
        "early.jsonl": _jsonl(early()),
        "folder.zip": made.getvalue(),
    }
    bad = {
        "no-id.jsonl": _jsonl([line("session_meta", cwd="shop")]),
        "no-start.jsonl": _jsonl(lines[1:]),
        "no-kind.jsonl": _jsonl([meta(), line("response_item", role="user")]),
        "no-role.jsonl": _jsonl([meta(), item("message", content=[])]),
        "payload-text.jsonl": _jsonl([meta(), {**lines[2], "payload": "x"}]),
        "not-an-object.jsonl": _jsonl([meta()]) + b"7\n",
        "cut.jsonl": _jsonl(lines)[:-9],
    }
    for kind, files in (("good", good), ("bad", bad)):
        for name, data in files.items():
            (HERE / f"{kind}-{name}").write_bytes(data)
    subject = Subject("codex", formats["codex"], HERE)
    for sample in subject.good():
        text = json.dumps(subject.take(sample).contents, indent=1, ensure_ascii=False)
        subject.expectation(sample).write_text(text + "\n")


def _jsonl(values: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(one, separators=(",", ":")).encode() + b"\n" for one in values)


if __name__ == "__main__":
    main()
