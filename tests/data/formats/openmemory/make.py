"""Writes the samples of OpenMemory's backups; run it again and nothing changes.

``python tests/data/formats/openmemory/make.py``. Every name and text is invented.
"""

import gzip
import io
import json
import zipfile
from pathlib import Path
from typing import Any

from satchel.conformance.subject import Subject
from satchel.ports.format import formats

HERE = Path(__file__).parent
THEN = "2025-08-01T09:00:00.000000+00:00"


def memory(name: str, text: str, **more: Any) -> dict[str, Any]:
    """A memory as the backup has it."""
    times = {"created_at": THEN, "updated_at": THEN, "archived_at": None, "deleted_at": None}
    app = {"app_id": "app-1", "app_name": "cursor"}
    return {"id": name, "user_id": "u-1", **app, "content": text, "metadata": {}, "state": "active",
            **times, **more}  # fmt: skip


def backup() -> dict[str, Any]:
    """A small server."""
    return {
        "user": {"id": "u-1", "user_id": "mira", "name": "Mira", "email": None, "metadata": {}},
        "apps": [{"id": "app-1", "name": "cursor", "owner_id": "u-1", "is_active": True}],
        "categories": [{"id": "c-1", "name": "tea", "description": "About tea"}],
        "memories": [
            memory("m-1", "Likes her tea cold.", metadata={"mood": "calm"}),
            memory("m-2", "Opens at nine.", state="archived", archived_at=THEN),
        ],
        "memory_categories": [{"memory_id": "m-1", "category_id": "c-1"}],
        "status_history": [{"id": "s-1", "memory_id": "m-2", "new_state": "archived"}],
        "access_controls": [],
        "export_meta": {"app_id_filter": None, "version": "1", "generated_at": THEN},
    }


def main() -> None:
    """Write all samples, and what is expected of the good ones."""
    whole, packed = backup(), io.BytesIO()
    lines = "\n".join(json.dumps(one) for one in whole["memories"]).encode()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as out:
        for name, data in (
            ("memories.json", _json(whole)),
            ("memories.jsonl.gz", gzip.compress(lines, mtime=0)),
        ):
            out.writestr(zipfile.ZipInfo(name, (2026, 3, 1, 9, 0, 0)), data)
    good = {"memories.json": _json(whole), "backup.zip": packed.getvalue()}
    bad = {
        "content-number.json": _json({**whole, "memories": [memory("m", "") | {"content": 7}]}),
        "no-id.json": _json({**whole, "memories": [{"content": "x", "state": "active"}]}),
        "memory-text.json": _json({**whole, "memories": ["x"]}),
        "no-memories.json": _json({**whole, "memories": []}),
        "cut.json": _json(whole)[:-30],
        "cut.zip": packed.getvalue()[:-30],
    }
    for kind, files in (("good", good), ("bad", bad)):
        for name, data in files.items():
            (HERE / f"{kind}-{name}").write_bytes(data)
    subject = Subject("openmemory", formats["openmemory"], HERE)
    for sample in subject.good():
        text = json.dumps(subject.take(sample).contents, indent=1, ensure_ascii=False)
        subject.expectation(sample).write_text(text + "\n")


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, indent=1).encode() + b"\n"


if __name__ == "__main__":
    main()
