"""Writes the samples of Claude Code's transcripts; run it again and nothing changes.

``python tests/data/formats/claude_code/make.py``. Every name and text is invented.
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
MEMORY = {
    "MEMORY.md": "# Memory Index\n\n- [Days](user_days.md) — which day it is\n",
    "user_days.md": "---\nname: days\ndescription: d\ntype: user\n---\n\nAsks for the day often.\n",
}


def line(name: str, parent: str | None, kind: str, content: Any, **more: Any) -> dict[str, Any]:
    """A line as the program writes it."""
    said = {"content": content} if kind == "system" else {
        "message": {"role": kind, "content": content}
    }  # fmt: skip
    return {
        "parentUuid": parent,
        "isSidechain": False,
        "userType": "external",
        "cwd": "shop",
        "sessionId": "s-1",
        "version": "2.0.0",
        "type": kind,
        **said,
        "uuid": name,
        "timestamp": THEN,
        **more,
    }


def talk() -> list[dict[str, Any]]:
    """A conversation with a tool, a question asked otherwise, and a compaction."""
    use = [{"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "date"}}]
    result = [{"type": "tool_result", "tool_use_id": "t1", "content": "Sunday"}]
    return [
        {"type": "summary", "summary": "The opening day", "leafUuid": "u-9"},
        line("u-1", None, "user", "Which day is it?"),
        line("u-2", "u-1", "assistant", use, requestId="r-1"),
        line("u-3", "u-2", "user", result, toolUseResult={"stdout": "Sunday"}),
        line("u-4", "u-3", "assistant", [{"type": "text", "text": "Sunday."}]),
        line("u-5", "u-1", "assistant", [{"type": "text", "text": "I cannot say."}]),
        line("u-6", None, "system", "Compacted", subtype="compact_boundary",
             logicalParentUuid="u-4"),
        line("u-7", "u-6", "user", "And tomorrow?", gitBranch="main"),
    ]  # fmt: skip


def main() -> None:
    """Write all samples, and what is expected of the good ones."""
    lines = talk()
    other = [line("v-1", None, "user", "Look around.", agentId="a1", isSidechain=True)]
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as out:
        for name, value in (("s-1.jsonl", lines), ("s-1/subagents/agent-a1.jsonl", other)):
            out.writestr(zipfile.ZipInfo(name, (2026, 3, 1, 9, 0, 0)), _jsonl(value))
    project = io.BytesIO(made.getvalue())
    with zipfile.ZipFile(project, "a", zipfile.ZIP_STORED) as out:
        for name, text in MEMORY.items():
            out.writestr(zipfile.ZipInfo(f"memory/{name}", (2026, 3, 1, 9, 0, 0)), text)
    nameless = {k: v for k, v in lines[1].items() if k != "uuid"}
    good = {"talk.jsonl": _jsonl(lines), "folder.zip": made.getvalue()}
    good["project.zip"] = project.getvalue()
    bad = {
        "no-uuid.jsonl": _jsonl([nameless]),
        "no-session.jsonl": _jsonl([{**lines[1], "sessionId": None}]),
        "no-type.jsonl": _jsonl([{**lines[1], "type": None}]),
        "message-text.jsonl": _jsonl([lines[1], {**lines[2], "message": "x"}]),
        "not-an-object.jsonl": _jsonl([lines[1]]) + b"7\n",
        "cut.jsonl": _jsonl(lines)[:-9],
    }
    for kind, files in (("good", good), ("bad", bad)):
        for name, data in files.items():
            (HERE / f"{kind}-{name}").write_bytes(data)
    subject = Subject("claude_code", formats["claude_code"], HERE)
    for sample in subject.good():
        text = json.dumps(subject.take(sample).contents, indent=1, ensure_ascii=False)
        subject.expectation(sample).write_text(text + "\n")


def _jsonl(values: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(one, separators=(",", ":")).encode() + b"\n" for one in values)


if __name__ == "__main__":
    main()
