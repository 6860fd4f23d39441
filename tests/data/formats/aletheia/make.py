"""Writes the samples of agent files; run it again and nothing changes.

``python tests/data/formats/aletheia/make.py``. Every name and text is invented; ``other-*`` have
the shapes of what the TypeScript and the Rust program write.
"""

import gzip
import json
from pathlib import Path
from typing import Any

from satchel.conformance.subject import Subject
from satchel.ports.format import formats

HERE = Path(__file__).parent
THEN = "2026-02-21T10:00:00.000Z"


def whole() -> dict[str, Any]:
    """An agent with some of everything."""
    messages = [
        {"role": "user", "content": "Which tea for guests?", "metadata": {}},
        {
            "id": "m2",
            "role": "assistant",
            "content": [{"type": "text", "text": "Green tea."}],
            "metadata": {"tokens": 12},
            "createdAt": "2026-02-20T08:00:00.000000Z",
        },
        {"id": "m3", "role": "tool", "content": "", "metadata": {"toolCallId": "t1"}, "extra": 7},
    ]
    return {
        "version": 1,
        "exportedAt": THEN,
        "nous": {
            "id": "syn",
            "name": "Syn",
            "model": "small-1",
            "config": {"domains": ["tea"], "private": True},
        },
        "workspace": {
            "files": {
                "SOUL.md": "Be kind.\n",
                "notes/tea.md": "Grünes für Gäste 🍵\n",
                "empty": "",
            },
            "binaryFiles": ["logo.png", "data/blob.bin"],
        },
        "memory": {
            "vectors": [
                {"id": "v1", "text": "Guests get green tea.", "metadata": {"source": "chat"}},
                {
                    "id": "v2",
                    "text": "Rosa drinks it cold.",
                    "metadata": {},
                    "embedding": [0.25, -0.5],
                    "score": 0.5,
                },
                {
                    "id": "v3",
                    "text": "So there is ice in summer.",
                    "metadata": {},
                    "record": {
                        "type": "procedural",
                        "tags": ["tea"],
                        "created_at": "2026-02-19T08:00:00.000000Z",
                        "parent_ids": ["v2", "v1"],
                    },
                },
            ],
            "graph": {
                "nodes": [
                    {"id": "n1", "labels": ["Person"], "properties": {"name": "Rosa", "age": 41}},
                    {"id": "n2", "labels": [], "properties": {}},
                ],
                "edges": [
                    {"source": "n1", "target": "n2", "type": "KNOWS", "properties": {"since": 2}},
                    {"source": "n1", "target": "n2", "type": "KNOWS", "properties": {"since": 3}},
                    {
                        "source": "v1",
                        "target": "n1",
                        "type": "mentions",
                        "properties": {},
                        "record": {"weight": 0.5},
                    },
                ],
            },
        },
        "sessions": {
            "primary": {
                "id": "ses_1",
                "name": "main",
                "createdAt": "2026-02-20T07:00:00Z",
                "messages": messages,
                "workingState": '{"currentTask": "tea"}',
                "threadSummary": "About tea.",
                "notes": [
                    {"content": "Rosa likes it cold", "category": "preference"},
                    {"content": "Buy ice", "category": "task"},
                ],
            },
            "background": [{"key": "cron:tea", "messageCount": 4, "lastActivity": THEN}],
        },
        "distillation": {
            "receipts": [{"distilledAt": THEN, "messagesBefore": 40, "messagesAfter": 11}],
            "reflections": [{"reflectedAt": THEN, "findings": {"patterns": ["tea"]}}],
        },
        "later": {"nobody": "knows this"},
    }


def small() -> dict[str, Any]:
    """An agent with one conversation, and nothing else."""
    primary = {"id": "s", "messages": [{"role": "user", "content": "hi", "metadata": {}}]}
    return {
        "version": 1,
        "exportedAt": THEN,
        "nous": {"id": "a-1", "name": "A", "model": "m", "config": {}},
        "workspace": {"files": {}, "binaryFiles": []},
        "memory": {"vectors": [], "graph": {"nodes": [], "edges": []}},
        "sessions": {"primary": primary, "background": []},
        "distillation": {"receipts": [], "reflections": []},
    }


def typescript() -> dict[str, Any]:
    """As the TypeScript program wrote it, before March 2026."""
    session = {
        "id": "ses_9f",
        "sessionKey": "agent:syn:main",
        "status": "active",
        "sessionType": "primary",
        "messageCount": 2,
        "tokenCountEstimate": 30,
        "distillationCount": 1,
        "createdAt": THEN,
        "updatedAt": THEN,
        "workingState": {"currentTask": "tea", "completedSteps": [], "updatedAt": THEN},
        "distillationPriming": None,
        "notes": [{"category": "task", "content": "Buy ice", "createdAt": THEN}],
        "messages": [
            {
                "role": "user",
                "content": "Which tea?",
                "seq": 1,
                "tokenEstimate": 4,
                "isDistilled": True,
                "createdAt": THEN,
            },
            {
                "role": "assistant",
                "content": "Green.",
                "seq": 2,
                "tokenEstimate": 2,
                "isDistilled": False,
                "createdAt": THEN,
            },
        ],
    }
    background = {**session, "id": "ses_a0", "sessionKey": "cron:tea", "sessionType": "background"}
    node = {"name": "Rosa", "labels": ["Person"], "properties": {"pagerank": 0.5, "community": 3}}
    other = {"name": "Tea", "labels": ["Thing"], "properties": {"pagerank": 0.25, "community": 3}}
    return {
        "version": 1,
        "exportedAt": THEN,
        "generator": "aletheia-export/1.0",
        "nous": {"id": "syn", "name": None, "model": None, "config": {"id": "syn", "tools": {}}},
        "workspace": {"files": {"SOUL.md": "Be kind."}, "binaryFiles": ["logo.png"]},
        "sessions": [background, {**session, "workingState": None}],
        "memory": {
            "vectors": [{"id": "q1", "text": "Guests get tea.", "metadata": {"agent_id": "syn"}}],
            "graph": {
                "nodes": [node, other],
                "edges": [{"source": "Rosa", "target": "Tea", "relType": "LIKES"}],
            },
        },
    }


def rust() -> dict[str, Any]:
    """As the Rust program writes version 4."""
    fact = {
        "id": "f1",
        "nous_id": "syn",
        "fact_type": "preference",
        "content": "Rosa drinks it cold.",
        "sensitivity": "public",
        "visibility": "shared",
        "valid_from": "2026-02-01T00:00:00Z",
        "valid_to": "9999-12-31T23:59:59Z",
        "recorded_at": "2026-02-01T00:00:00Z",
        "confidence": 0.9,
        "tier": "verified",
        "stability_hours": 72.0,
        "is_forgotten": False,
        "access_count": 3,
    }
    gone = {**fact, "id": "f2", "content": "Rosa drinks coffee.", "is_forgotten": True}
    gone |= {"forgotten_at": "2026-03-01T00:00:00Z", "forget_reason": "outdated"}
    session = {
        "id": "01J-main",
        "sessionKey": "main",
        "status": "active",
        "sessionType": "primary",
        "messageCount": 1,
        "tokenCountEstimate": 4,
        "distillationCount": 0,
        "createdAt": THEN,
        "updatedAt": THEN,
        "workingState": [
            {"session_id": "01J-main", "turn_number": 1, "content": "tea", "created_at": THEN}
        ],
        "distillationPriming": None,
        "notes": [],
        "usageRecords": [{"turnSeq": 1, "inputTokens": 4, "outputTokens": 2, "createdAt": THEN}],
        "parentSessionId": None,
        "threadId": "t-1",
        "lastDistilledAt": None,
        "messages": [
            {
                "role": "tool_result",
                "content": "ok",
                "seq": 1,
                "tokenEstimate": 1,
                "isDistilled": False,
                "createdAt": THEN,
                "toolCallId": "call-1",
                "toolName": "brew",
            }
        ],
    }
    contents = {
        "path": "logo.png",
        "sizeBytes": 4,
        "sha256": "0f4636c78f65d3639ece5a064b5ae753e3408614a14fb18ab4d7540d2c248543",
        "contentsBase64": "iVBORw==",
    }
    return {
        "version": 4,
        "exportedAt": THEN,
        "generator": "aletheia-rust/0.41.0",
        "nous": {
            "id": "syn",
            "name": "Syn",
            "model": "small-1",
            "config": {
                "workspace": "/instance/nous/syn",
                "domains": ["tea"],
                "epistemeCohort": "shared",
                "private": True,
            },
        },
        "workspace": {
            "files": {"SOUL.md": "Be kind."},
            "binaryFiles": ["logo.png"],
            "binaryFileContents": [contents],
        },
        "sessions": [session],
        "memory": None,
        "knowledge": {
            "facts": [fact, gone],
            "entities": [
                {
                    "id": "e1",
                    "name": "Rosa",
                    "entity_type": "person",
                    "aliases": ["R."],
                    "created_at": THEN,
                    "updated_at": THEN,
                },
                {
                    "id": "e2",
                    "name": "Tea",
                    "entity_type": "thing",
                    "aliases": [],
                    "created_at": THEN,
                    "updated_at": THEN,
                },
            ],
            "relationships": [
                {"src": "e1", "dst": "e2", "relation": "LIKES", "weight": 0.5, "created_at": THEN}
            ],
            "factEntityEdges": [{"factId": "f1", "entityId": "e1"}],
        },
        "exportMetadata": {
            "lossless": False,
            "omittedSections": [{"section": "sessions", "reason": "archived", "count": 2}],
            "truncations": [],
            "workspaceSymlinkPolicy": "reject",
        },
    }


def _with(change: Any) -> dict[str, Any]:
    made = whole()
    change(made)
    return made


BAD: dict[str, Any] = {
    "list": [whole()],
    "no-nous": {k: v for k, v in whole().items() if k != "nous"},
    "no-version": {k: v for k, v in whole().items() if k != "version"},
    "version-unknown": {**whole(), "version": 9},
    "version-text": {**whole(), "version": "1"},
    "nous-without-id": {**whole(), "nous": {"name": "Syn"}},
    "nous-text": {**whole(), "nous": "syn"},
    "path-up": {**whole(), "workspace": {"files": {"../../etc/cron.d/x": "* * * * *"}}},
    "path-absolute": {**whole(), "workspace": {"files": {"/etc/passwd": "root"}}},
    "path-empty": {**whole(), "workspace": {"files": {"": "x"}}},
    "path-nul": {**whole(), "workspace": {"files": {"a\0b": "x"}}},
    "path-backslash": {**whole(), "workspace": {"files": {"..\\x": "x"}}},
    "path-binary-up": {**whole(), "workspace": {"binaryFiles": ["a/../../b"]}},
    "file-number": {**whole(), "workspace": {"files": {"a": 1}}},
    "vector-without-id": _with(lambda made: made["memory"]["vectors"][0].pop("id")),
    "vector-text-number": _with(lambda made: made["memory"]["vectors"][0].update(text=1)),
    "vector-type": _with(lambda made: made["memory"]["vectors"][0].update(record={"type": "bank"})),
    "vector-is-text": {**whole(), "memory": {"vectors": ["tea"]}},
    "node-without-id": {**whole(), "memory": {"graph": {"nodes": [{"labels": []}]}}},
    "edge-without-end": {
        **whole(),
        "memory": {"graph": {"edges": [{"source": "a", "type": "t"}]}},
    },
    "message-without-role": _with(
        lambda made: made["sessions"]["primary"]["messages"][0].pop("role")
    ),
    "session-without-id": _with(lambda made: made["sessions"]["primary"].pop("id")),
    "sessions-text": {**whole(), "sessions": "none"},
    "receipts-text": {**whole(), "distillation": {"receipts": "x"}},
    "nothing-in-it": {"version": 1, "exportedAt": THEN, "nous": {"id": "a"}},
}


def main() -> None:
    """Write them all."""
    for name, value in {
        "good-whole.agent.json": whole(),
        "good-small.agent.json": small(),
        "other-typescript.agent.json": typescript(),
        "other-rust.agent.json": rust(),
    }.items():
        (HERE / name).write_bytes(_json(value))
    packed = gzip.compress(_json(whole()), mtime=0)
    (HERE / "good-packed.agent.json.gz").write_bytes(packed)
    for name, value in BAD.items():
        (HERE / f"bad-{name}.agent.json").write_bytes(_json(value))
    (HERE / "bad-cut.agent.json").write_bytes(_json(whole())[:900])
    (HERE / "bad-trailing.agent.json").write_bytes(_json(whole()) + b"{}")
    (HERE / "bad-twice.agent.json").write_bytes(b'{"version": 1, "version": 1, "nous": {}}')
    (HERE / "bad-packed-cut.agent.json.gz").write_bytes(packed[:300])
    subject = Subject("aletheia", formats["aletheia"], HERE)
    for sample in subject.good():
        text = json.dumps(subject.take(sample).contents, indent=1, ensure_ascii=False)
        subject.expectation(sample).write_text(text + "\n")


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, indent=1).encode() + b"\n"


if __name__ == "__main__":
    main()
