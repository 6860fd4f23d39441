"""Writes the samples of Qdrant's points as JSON; run it again and nothing changes.

``python tests/data/formats/qdrant_points/make.py``. Every name and text is invented.
"""

import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
POINTS: list[dict[str, Any]] = [
    {
        "id": 7,
        "payload": {"page_content": "Rosa drinks tea. \u4eac\u90fd", "metadata": {"page": 1}},
        "vector": [0.5, -0.25, 1e-7],
        "shard_key": None,
        "order_value": None,
    },
    {
        "id": "5c56c793-69f3-4fbf-87e6-c4bf54c28c26",
        "payload": {
            "text": "Kenta walks to work.",
            "user_id": "kenta",
            "tags": ["walks"],
            "nested": {"a": [1, None, 2**60], "$int": "5"},
        },
        "vector": {"dense": [1, 0], "bm25": {"indices": [1, 5], "values": [0.5, 0.2]}},
    },
    {"id": 2**64 - 1, "payload": None, "vector": None},
    {"id": 8, "payload": {"n": 5}},
]
SCROLL = {"result": {"points": POINTS, "next_page_offset": None}, "status": "ok", "time": 0.25}
BAD: dict[str, Any] = {
    "empty": {"points": []},
    "no-id": [{"payload": {"text": "x"}, "id": None}],
    "id-negative": [{"id": -1, "payload": {"text": "x"}}],
    "id-truth": [{"id": True, "payload": {"text": "x"}}],
    "payload-list": {"points": [POINTS[0], {"id": 1, "payload": []}]},
    "row-text": [POINTS[0], "x"],
    "no-list": {"result": {"status": "ok"}},
}


def main() -> None:
    """Write everything."""
    good = json.dumps(SCROLL, ensure_ascii=False, indent=1)
    (HERE / "good-scroll.json").write_text(good, "utf-8")
    (HERE / "good-points.json").write_text(json.dumps({"points": POINTS[:2]}), "utf-8")
    (HERE / "good-list.json").write_text(json.dumps(POINTS[1:]), "utf-8")
    for name, value in BAD.items():
        (HERE / f"bad-{name}.json").write_text(json.dumps(value), "utf-8")
    (HERE / "bad-cut.json").write_text(good[:-90], "utf-8")
    (HERE / "bad-trailing.json").write_text(good + "}", "utf-8")


if __name__ == "__main__":
    main()
