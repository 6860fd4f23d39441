"""Writes the samples of LangGraph's items as JSON; run it again and nothing changes.

``python tests/data/formats/langgraph_items/make.py``. Every name and text is invented.
"""

import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
THEN = "2026-05-04T03:02:01"
ITEMS: list[dict[str, Any]] = [
    {
        "namespace": ["memories", "rosa"],
        "key": "k1",
        "value": {"kind": "Memory", "content": {"content": "Rosa drinks tea. \u4eac\u90fd"}},
        "created_at": THEN,
        "updated_at": "2026-05-05T03:02:01.000001+00:00",
        "score": None,
    },
    {
        "namespace": ["memories", "a/b%"],
        "key": "k/2",
        "value": {"text": "", "kind": "note", "big": 2**60, "$int": "5", "n": [1, 2.5, None]},
        "created_at": THEN,
        "updated_at": THEN,
        "score": 0.25,
    },
    {
        "namespace": ["profiles"],
        "key": "kenta",
        "value": {"kind": "UserProfile", "content": {"name": "Kenta", "age": 3}},
        "created_at": "2026-05-04T03:02:01+00:00",
        "updated_at": "soon",
    },
]
BAD: dict[str, Any] = {
    "empty": {"items": []},
    "no-namespace": [{**ITEMS[0], "namespace": "memories"}],
    "no-key": {"items": [ITEMS[0], {**ITEMS[1], "key": None}]},
    "value-text": [{**ITEMS[0], "value": "tea"}],
    "row-list": [ITEMS[0], []],
    "no-list": {"items": 5},
}


def main() -> None:
    """Write everything."""
    good = json.dumps(ITEMS, ensure_ascii=False, indent=1)
    (HERE / "good-search.json").write_text(good, "utf-8")
    (HERE / "good-server.json").write_text(json.dumps({"items": ITEMS, "more": 1}), "utf-8")
    (HERE / "good-one.json").write_text(json.dumps(ITEMS[0]), "utf-8")
    for name, value in BAD.items():
        (HERE / f"bad-{name}.json").write_text(json.dumps(value), "utf-8")
    (HERE / "bad-cut.json").write_text(good[:-40], "utf-8")
    (HERE / "bad-trailing.json").write_text(good + "]", "utf-8")


if __name__ == "__main__":
    main()
