"""Writes the samples of AGENTS.md and CLAUDE.md; run it again and nothing changes.

``python tests/data/formats/agents_md/make.py``. Every name and text is invented.
"""

import json
from pathlib import Path

from notes_kit import files_in

from satchel.conformance.subject import Subject
from satchel.formats._notes import NoteItem, lines_of
from satchel.formats.agents_md import block_of
from satchel.model.values import Component
from satchel.ports.format import formats

HERE = Path(__file__).parent

TOLD = """# The tea shop

Run the tests with `make check`, and read @docs/style.md and @~/.claude/shop.md first.
Mail to rosa@example.org is answered by hand.

```sh
npm install @tea/pot
```
"""
ITEMS = [
    NoteItem(Component.IDENTITY, "Speaks plainly."),
    NoteItem(Component.SEMANTIC, "Rosa takes her tea cold."),
    NoteItem(
        Component.SEMANTIC, "Ünïcode ✓ 日本語\n\n  <!-- satchel:end -->\n- a line like an item\n"
    ),
    NoteItem(Component.SEMANTIC, ""),
    NoteItem(Component.PROCEDURAL, "To release:\n1. tag\n2. push"),
    NoteItem(Component.WORKING, "The kettle is on."),
    NoteItem(Component.EPISODIC, "On Tuesday the roof leaked."),
]
BLOCK = block_of(lines_of(ITEMS), TOLD)
EDITED = BLOCK.replace("- The kettle is on.", "The kettle was on.\nIt is off now.\n\n- And cold.")


def main() -> None:
    """Write all samples, and what is expected of the good ones."""
    plain = block_of(lines_of(ITEMS), "")
    good = {
        "told.AGENTS.md": TOLD + BLOCK,
        "between.CLAUDE.md": f"{TOLD}{BLOCK}\n## Below\n\nMore of it.",
        "only.AGENTS.md": plain,
        "edited.AGENTS.md": TOLD + EDITED,
        "windows.AGENTS.md": (TOLD + BLOCK).replace("\n", "\r\n"),
    }
    begin, end = plain.split("\n")[0], plain.split("\n")[-2]
    bad = {
        "empty.AGENTS.md": "",
        "no-end.AGENTS.md": f"{TOLD}{begin}\n- a\n",
        "no-begin.AGENTS.md": f"{TOLD}- a\n{end}\n",
        "two.AGENTS.md": plain + plain,
        "nested.AGENTS.md": f"{begin}\n{begin}\n{end}\n",
        "torn.AGENTS.md": plain.replace(begin, begin[:20]),
    }
    for kind, files in (("good", good), ("bad", bad)):
        for name, text in files.items():
            (HERE / f"{kind}-{name}").write_bytes(text.encode())
    (HERE / "bad-not-utf8.AGENTS.md").write_bytes(b"# A\n\xff")
    subject = Subject("agents_md", formats["agents_md"], HERE, files_in)
    for sample in subject.good():
        text = json.dumps(subject.take(sample).contents, indent=1, ensure_ascii=False)
        subject.expectation(sample).write_text(text + "\n")


if __name__ == "__main__":
    main()
