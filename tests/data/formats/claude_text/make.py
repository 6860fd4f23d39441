"""Writes the samples of the text for Claude's memory import; run it again and nothing changes.

``python tests/data/formats/claude_text/make.py``. Every name and text is invented.
"""

import json
from pathlib import Path

from notes_kit import files_in

from satchel.conformance.subject import Subject
from satchel.ports.format import formats

HERE = Path(__file__).parent

OURS = """## Instructions

[2026-02-03] - Answer in Portuguese.

## Identity

[unknown] - Speaks plainly.

## Projects

[2026-03-04] - The tea shop opens in May.
  It has eight tables.

  And a terrace.
[unknown] - Ünïcode ✓ 日本語

## Facts

[unknown] - Rosa takes her tea cold, with a slice of lemon and no sugar, at five in the morning.
"""
ANSWERED = """```
**Preferences**
- [2026-01-02] - Short answers.

[unknown] - No emoji.

**Hobbies**
Some of them.
[2026-02-30] - A day that there is not.
```
"""


def main() -> None:
    """Write all samples, and what is expected of the good ones."""
    good = {"ours.claude.txt": OURS, "answered.txt": ANSWERED}
    bad = {"empty.txt": "", "nothing.txt": "Nothing to tell.\n"}
    for kind, files in (("good", good), ("bad", bad)):
        for name, text in files.items():
            (HERE / f"{kind}-{name}").write_bytes(text.encode())
    (HERE / "bad-not-utf8.txt").write_bytes(b"[unknown] - a\xff\n")
    subject = Subject("claude_text", formats["claude_text"], HERE, files_in)
    for sample in subject.good():
        text = json.dumps(subject.take(sample).contents, indent=1, ensure_ascii=False)
        subject.expectation(sample).write_text(text + "\n")


if __name__ == "__main__":
    main()
