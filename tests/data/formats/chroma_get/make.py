"""Writes the samples of what a Chroma collection returns; run it again and nothing changes.

``python tests/data/formats/chroma_get/make.py``. Every name and text is invented.
"""

import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
GET: dict[str, Any] = {
    "ids": ["m1", "m2", "m3"],
    "embeddings": [[0.1, 0.25, -0.5], [1, 0, 0], [1e-7, -2.5, 3]],
    "documents": ["Rosa drinks tea. \u4eac\u90fd", None, ""],
    "uris": None,
    "included": ["documents", "metadatas", "embeddings"],
    "data": None,
    "metadatas": [
        {"user_id": "rosa", "n": 3, "ok": True, "share": 0.9, "tags": ["tea", "habits"]},
        {"agent_id": "guide", "scores": [0.5, 1.5]},
        None,
    ],
}
FEW = {"ids": ["a"], "documents": ["Kenta walks to work."], "metadatas": [{"run_id": "r"}]}
LISTS = {name: GET[name] for name in ("ids", "documents", "metadatas")}
BAD: dict[str, Any] = {
    "short-list": {**LISTS, "documents": ["one"]},
    "no-ids": {"ids": [], "documents": [], "metadatas": []},
    "id-number": {**LISTS, "ids": ["m1", 2, "m3"]},
    "document-number": {**LISTS, "documents": ["x", 5, None]},
    "members-list": {**LISTS, "metadatas": [[], {}, {}]},
    "list": [1],
}


def main() -> None:
    """Write everything."""
    good = json.dumps(GET, ensure_ascii=False, indent=1)
    (HERE / "good-get.json").write_text(good, "utf-8")
    (HERE / "good-upsert.json").write_text(json.dumps(FEW), "utf-8")
    for name, value in BAD.items():
        (HERE / f"bad-{name}.json").write_text(json.dumps(value), "utf-8")
    (HERE / "bad-cut.json").write_text(good[:-40], "utf-8")
    twice = good.replace('"ids"', '"ids": [], "ids"', 1)
    (HERE / "bad-key-twice.json").write_text(twice, "utf-8")


if __name__ == "__main__":
    main()
