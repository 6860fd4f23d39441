"""Writes the samples of Cursor's rules; run it again and nothing changes.

``python tests/data/formats/cursor_rules/make.py``. Every name and text is invented.
"""

import json
from pathlib import Path

from notes_kit import files_in

from satchel.conformance.subject import Subject
from satchel.formats._notes import NoteItem, lines_of
from satchel.model.values import Component
from satchel.ports.format import formats

HERE = Path(__file__).parent

FRONT = (
    "---\ndescription: What was remembered from earlier work\nglobs:\nalwaysApply: true\n---\n\n"
)
ITEMS = [
    NoteItem(Component.SEMANTIC, "Rosa takes her tea cold."),
    NoteItem(Component.SEMANTIC, "Ünïcode ✓ 日本語\nin two lines"),
    NoteItem(Component.PROCEDURAL, "To release: tag, then push."),
]
BY_HAND = """---
description: How the shop's pages are made
globs: ["pages/**", "shop.css"]
alwaysApply: false
---
# Pages

Use the grid of the shop.
Never inline a style.

- Prices have two digits.
"""


def main() -> None:
    """Write all samples, and what is expected of the good ones."""
    ours = FRONT + "".join(f"{line}\n" for line in lines_of(ITEMS))
    good = {"ours.mdc": ours, "by-hand.mdc": BY_HAND}
    bad = {"empty.mdc": "", "no-front.mdc": "- a\n", "cut.mdc": FRONT[:-6], "nothing.mdc": FRONT}
    for kind, files in (("good", good), ("bad", bad)):
        for name, text in files.items():
            (HERE / f"{kind}-{name}").write_bytes(text.encode())
    (HERE / "bad-not-utf8.mdc").write_bytes(FRONT.encode() + b"\xff")
    subject = Subject("cursor_rules", formats["cursor_rules"], HERE, files_in)
    for sample in subject.good():
        text = json.dumps(subject.take(sample).contents, indent=1, ensure_ascii=False)
        subject.expectation(sample).write_text(text + "\n")


if __name__ == "__main__":
    main()
