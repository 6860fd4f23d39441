"""Writes the samples of Letta's passages; run it again and nothing changes.

``python tests/data/formats/letta_passages/make.py``. Every name and text is invented; the shapes
are those of Letta's API.
"""

import json
from pathlib import Path
from typing import Any

from satchel.conformance.subject import Subject
from satchel.ports.format import formats

HERE = Path(__file__).parent
CONFIG = {"embedding_endpoint_type": "openai", "embedding_model": "m", "embedding_dim": 2}


def passage(number: int, text: Any, **more: Any) -> dict[str, Any]:
    """A passage."""
    return {
        "id": f"passage-0000000{number}-0000-4000-8000-000000000000",
        "created_by_id": "user-1",
        "created_at": "2026-05-04T03:02:01.250000+00:00",
        "updated_at": "2026-05-04T03:02:01Z",
        "is_deleted": False,
        "archive_id": "archive-1",
        "metadata": {"page": 2**60},
        "tags": ["tea"],
        "text": text,
        "embedding": [0.25, -0.5],
        "embedding_config": CONFIG,
    } | more


PASSAGES = [
    passage(1, "Rosa takes her tea cold. ✓"),
    passage(2, "", tags=None, embedding=None, created_at=None, metadata=None),
    passage(3, "An older one.", agent_id="agent-1", organization_id="org-1"),
]
BAD: dict[str, bytes] = {
    "empty": b"",
    "none": b"[]",
    "text": b'"archive_id"',
    "cut": json.dumps(PASSAGES).encode()[:-40],
    "trailing": json.dumps(PASSAGES).encode() + b" x",
    "text-number": json.dumps([*PASSAGES, passage(4, 1)]).encode(),
    "without-text": b'[{"archive_id": "a"}]',
    "not-an-object": b'[{"archive_id": "a", "text": "x"}, "y"]',
    "key-twice": b'[{"archive_id": "a", "text": "x", "text": "y"}]',
    "not-utf8": b'[{"archive_id": "a", "text": "\xff"}]',
    "lone-surrogate": b'[{"archive_id": "a", "text": "\\ud800"}]',
}


def main() -> None:
    """Write everything."""
    whole = json.dumps(PASSAGES, ensure_ascii=False, indent=1)
    (HERE / "good-list.json").write_text(whole, "utf-8")
    around = {"passages": PASSAGES[:2], "agent_id": "agent-1", "n": 7}
    (HERE / "good-object.json").write_text(json.dumps(around), "utf-8")
    for name, data in BAD.items():
        (HERE / f"bad-{name}.json").write_bytes(data)
    subject = Subject("letta_passages", formats["letta_passages"], HERE)
    for sample in subject.good():
        text = json.dumps(subject.take(sample).contents, ensure_ascii=False, indent=1)
        subject.expectation(sample).write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main()
