"""Writes the samples of folders of notes; run it again and nothing changes.

``python tests/data/formats/markdown_memory/make.py``. Every name and text is invented; the shapes
are those of Claude Code's and Codex's memory folders in 2026.
"""

import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path

from notes_kit import files_in

from satchel.conformance.subject import Subject
from satchel.ports.format import formats

HERE = Path(__file__).parent

ROLE = """---
name: User role
description: Rosa runs the night desk of a tea house
type: user
---

Rosa runs the night desk of a tea house in Lisbon.
She reads code, but does not write it.
"""
PULLS = """---
name: pull-requests
description: "One idea in a pull request: nothing else"
metadata:
  node_type: memory
  type: feedback
  originSessionId: 0f3c2a58
---
One idea in a pull request.

**Why:** the last large one took a week to read.
**How to apply:** see [[release-train]].
"""
TRAIN = """---
# Written by hand.
title: The release train
name: 'release-train'
description: >-
  Releases leave on Tuesdays,
  whatever is ready.
aliases:
  - train
  - tuesday
tags: [release, calendar]
created: 2026-02-03
weight: 1.50
draft: false
links: {"board": "ops-7", "n": [1, null]}
---

Releases leave on Tuesdays.\r
Ünïcode ✓ 日本語
"""
INDEX = """# Memory Index

- [User role](user_role.md) — night desk, reads code
- [Pull requests](feedback_pulls.md): one idea each
* [Release train](project/release_train.md)

## Always

Answer in Portuguese when Rosa writes in Portuguese.

Never name customers.

## Places

- [The board](https://example.org/board)
"""
PLAIN = "No front matter, and no line feed at the end"
FOLDER = {
    "MEMORY.md": INDEX,
    "user_role.md": ROLE,
    "feedback_pulls.md": PULLS,
    "project/release_train.md": TRAIN,
    "scratch.md": PLAIN,
    "empty.md": "",
}
CODEX = {
    "MEMORY.md": "# Style\n\nThe user wants small diffs.\n\n# Tests\n\nThey run with make.\n",
    "memory_summary.md": "v1\n\nSmall diffs, make.\n",
    "rollout_summaries/2026-03-01-tea.md": "thread_id: t-1\n\nSet up the tea shop.\n",
}
FACTS = {"a.md": ROLE, "b.md": PULLS}


def packed(files: Mapping[str, str | bytes]) -> bytes:
    """An archive of files."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as out:
        for name, text in files.items():
            out.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), text)
    return made.getvalue()


def main() -> None:
    """Write all samples, and what is expected of the good ones."""
    whole = packed(FOLDER)
    good = {"claude-code.zip": whole, "codex.zip": packed(CODEX), "no-index.zip": packed(FACTS)}
    bad = {
        "cut.zip": whole[:-40],
        "leads-out.zip": packed({**FACTS, "../c.md": "x"}),
        "not-utf8.zip": packed({"MEMORY.md": "# A\n", "a.md": b"\xff\xfe"}),
        "damaged.zip": whole.replace(b"night desk of", b"night sofa of"),
        "only-hidden.zip": packed({"MEMORY.md": "", ".git/a.md": "x"}),
        "no-note.zip": packed({"MEMORY.md": "", "a.png": b"\x89PNG"}),
    }
    for kind, files in (("good", good), ("bad", bad)):
        for name, data in files.items():
            (HERE / f"{kind}-{name}").write_bytes(data)
    subject = Subject("markdown_memory", formats["markdown_memory"], HERE, files_in)
    for sample in subject.good():
        text = json.dumps(subject.take(sample).contents, indent=1, ensure_ascii=False)
        subject.expectation(sample).write_text(text + "\n")


if __name__ == "__main__":
    main()
