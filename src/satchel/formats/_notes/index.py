"""``MEMORY.md``: a list of the files beside it, and whatever else somebody wrote into it.

A line that links to a file of the folder is a part of the list, all else is memory: each item of a
list, and each other paragraph, with its heading as a tag.
"""

import posixpath
import re
from collections.abc import Container, Iterator
from typing import NamedTuple

from satchel.formats._chats.paragraphs import paragraphs, words_of
from satchel.formats._notes.fact import NAME, slug, summary
from satchel.formats._notes.front import split
from satchel.memory.entries import Entry, Semantic
from satchel.memory.parts import Origin, TrustClass
from satchel.seal.records import Sealed

INDEX = "MEMORY.md"
NOTE = "note"
"""The kind of what stands in an index itself."""

MOST_KEPT = 1 << 18
"""Characters of an index that are kept as they are."""

_LINK = re.compile(r"[ \t]*[-*+][ \t]+\[[^\]\n]*\]\(<?([^)>\n]*)>?\)[^\n]*")
_ITEM = re.compile(r"[-*+][ \t]+(\S[^\n]*)")
_RULE = re.compile(r"[-*+ \t]+")
_OF_A_NOTE = frozenset({"id", "nonce", "type", "kind", "text", "tags", "origin"})
_TITLE = "# Memory"
_LINE_ENDS = re.compile(r"[\r\n\v\f\x1c-\x1e\x85\u2028\u2029]+")


class Index(NamedTuple):
    """What an index says."""

    links: list[str]
    """Paths of the files that it lists, from where it is."""

    notes: list[tuple[str, str]]
    """Heading, which may be empty, and text of each memory in it."""


def index_in(text: str, names: Container[str], folder: str = "") -> Index:
    """Return what an index says.

    Args:
        text: All of it.
        names: The paths of the files that there are.
        folder: Where it is; empty for the top.
    """
    links, rest = list[str](), list[str]()
    for line in split(text).body.split("\n"):
        target = _target(line.rstrip("\r"), names, folder)
        if target is None:
            rest.append(line)
        else:
            links.append(target)
            rest.append("")
    notes = list[tuple[str, str]]()
    for each in paragraphs("\n".join(rest)):
        if each.heading is None and each.text.lstrip().startswith("#") and "\n" not in each.text:
            continue  # a heading above links, or above nothing
        heading = words_of(each.heading) if each.heading else ""
        notes += [(heading, text) for text in _items(each.text)]
    return Index(links, notes)


def _items(text: str) -> list[str]:
    """Return the items of a list, each with what is indented below it; else the text as it is."""
    items = list[str]()
    for line in text.split("\n"):
        item = _ITEM.fullmatch(line)
        if item is not None and not _RULE.fullmatch(line):
            items.append(item[1])
        elif items and line.startswith((" ", "\t")):
            items[-1] += f"\n{line}"
        else:
            return [text]
    return items


def _target(line: str, names: Container[str], folder: str) -> str | None:
    match = _LINK.fullmatch(line)
    if match is None:
        return None
    target = match[1].partition("#")[0].strip()
    path = posixpath.normpath(posixpath.join(folder, target)) if target else ""
    return path if path in names else None


def notes_of(index: Index, path: str) -> Iterator[Entry]:
    """Yield the memories that an index holds itself."""
    seen = dict[str, int]()
    for heading, text in index.notes:
        place = seen[heading] = seen.get(heading, 0) + 1
        yield Semantic(
            text=text,
            kind=NOTE,
            tags=(heading,) if heading else (),
            origin=Origin(provider=NAME, id=f"{path}#{heading}/{place}", trust=TrustClass.IMPORTED),
        )


def note_in(record: Sealed, entry: Entry) -> tuple[str, str] | None:
    """Return heading and text of a memory that goes into the index; None for one that does not."""
    origin, text = entry.origin, entry.text
    if origin is None or origin.provider != NAME or text is None or len(entry.tags) > 1:
        return None
    if entry.kind != NOTE or not (origin.id or "").startswith(INDEX + "#"):
        return None
    heading = entry.tags[0] if entry.tags else ""
    alone = index_in(_section(heading, [text]), ())
    is_whole = record.value.keys() <= _OF_A_NOTE and alone.notes == [(heading, text)]
    return (heading, text) if is_whole else None


def line_of(path: str, name: str, words: str) -> str:
    """Return the line of an index that lists a file.

    Args:
        path: The file.
        name: What it is called, where it has a name.
        words: What it says.
    """
    title = _LINE_ENDS.sub(" ", name).strip() or slug(words)
    title = title.replace("[", "(").replace("]", ")")
    target = f"<{path}>" if re.search(r"[\s()]", path) else path
    about = summary(words)
    return f"- [{title}]({target})" + (f" — {about}" if about else "")


def index_of(lines: Iterator[str], notes: list[tuple[str, str]]) -> Iterator[str]:
    """Yield an index: its list, and the memories that it holds."""
    yield f"{_TITLE}\n"
    for number, line in enumerate(lines):
        yield f"{line}\n" if number else f"\n{line}\n"
    waiting, heading = list[str](), ""
    for above, text in notes:
        if above != heading and waiting:
            yield "\n" + _section(heading, waiting)
            waiting = []
        heading = above
        waiting.append(text)
    if waiting:
        yield "\n" + _section(heading, waiting)


def renewed(text: str, names: Container[str], more: list[str]) -> str:
    """Return an index with lines for files that are new, and without those of files that are gone.

    Args:
        text: All of it, as it is at the top of its folder.
        names: The files that there are.
        more: The lines to add, which go below the last that lists a file.
    """
    lines, last = list[str](), 0
    for line in text.split("\n"):
        match = _LINK.fullmatch(line.rstrip("\r"))
        listed = match is not None and _target(line.rstrip("\r"), names, "") is not None
        if match is not None and not listed and _is_of_a_note(match[1]):
            continue
        lines.append(line)
        last = len(lines) if listed else last
    at = last or len(lines) - (not lines[-1])
    return "\n".join((*lines[:at], *more, *lines[at:]))


def _is_of_a_note(target: str) -> bool:
    return target.partition("#")[0].endswith(".md") and ":" not in target


def _section(heading: str, texts: list[str]) -> str:
    start = [f"## {heading}"] if heading else []
    return "\n\n".join((*start, *texts)) + "\n"
