"""Make CHANGELOG.md from the fragments in ``changes/``.

``python -m release.changelog`` writes it; ``--check`` reports whether it is current, ``--release
VERSION`` moves the fragments into a section of that version, and ``--notes VERSION`` prints the
section of a version.
"""

import argparse
import re
import sys
from datetime import UTC, datetime
from pathlib import Path

from release.build import ROOT, version

CHANGES = ROOT / "changes"
CHANGELOG = ROOT / "CHANGELOG.md"
KINDS = ("security", "removed", "deprecated", "added", "changed", "fixed")
"""In the order of the sections."""

HEAD = """# Changelog

Made from the fragments in `changes/` by `python -m release.changelog`; edit those.
"""
FIRST = """This is the first release. *Changed* and *Fixed* are relative to earlier states of the
repository.
"""
UNRELEASED = "unreleased"
_SECTION = re.compile(r"^## ", re.MULTILINE)


def main() -> None:
    """Write, check, release or print, as the arguments say."""
    parser = argparse.ArgumentParser(description="Make CHANGELOG.md from changes/.")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--check", action="store_true", help="Report whether it is current.")
    what.add_argument("--release", metavar="VERSION", help="Move the fragments into a section.")
    what.add_argument("--notes", metavar="VERSION", help="Print the section of a version.")
    options = parser.parse_args()
    if options.notes:
        print(section(CHANGELOG.read_text("utf-8"), options.notes))
        return
    date = f"{datetime.now(UTC):%Y-%m-%d}" if options.release else UNRELEASED
    text = changelog(options.release or version(), date)
    if options.check:
        if not CHANGELOG.exists() or CHANGELOG.read_text("utf-8") != text:
            sys.exit("CHANGELOG.md is not current; run make docs-write")
        return
    CHANGELOG.write_text(text, "utf-8")
    if options.release:
        for path in fragments():
            path.unlink()


def changelog(number: str, date: str) -> str:
    """Return the changelog: a section for a version from the fragments, then those before it."""
    before = earlier(CHANGELOG.read_text("utf-8") if CHANGELOG.exists() else "")
    parts = [HEAD]
    if fragments():
        parts.append(f"## {number} ({date})\n")
        parts += [] if before else [FIRST]
        parts += entries()
    return "\n".join([*parts, *before]).rstrip() + "\n"


def fragments() -> list[Path]:
    """Return the fragments by name.

    Raises:
        ValueError: If a name does not end in a kind.
    """
    paths = sorted(path for path in CHANGES.glob("*.md") if path.name != "README.md")
    for path in paths:
        if path.name.split(".")[1:-1] not in [[kind] for kind in KINDS]:
            raise ValueError(f"changes/{path.name}: write TOPIC.KIND.md, KIND one of {KINDS}")
    return paths


def entries() -> list[str]:
    """Return a heading and a list for each kind."""
    lines = []
    for kind in KINDS:
        texts = [path.read_text("utf-8") for path in fragments() if path.suffixes[0] == f".{kind}"]
        if texts:
            items = (f"- {' '.join(text.split())}" for text in texts)
            lines += [f"### {kind.capitalize()}\n", "\n".join(items) + "\n"]
    return lines


def earlier(text: str) -> list[str]:
    """Return the sections of released versions in a changelog."""
    sections = [f"## {part}" for part in _SECTION.split(text)[1:]]
    return [part for part in sections if f"({UNRELEASED})" not in part.splitlines()[0]]


def section(text: str, number: str) -> str:
    """Return the section of a version, without its heading.

    Raises:
        SystemExit: If there is none.
    """
    for part in _SECTION.split(text)[1:]:
        heading, _, body = part.partition("\n")
        if heading.split()[0] == number:
            return body.strip()
    sys.exit(f"CHANGELOG.md has no section {number}")


if __name__ == "__main__":
    main()
