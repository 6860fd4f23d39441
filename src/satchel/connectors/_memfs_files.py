"""One file of Letta's MemFS as a memory, and back."""

import re
from typing import Any

from satchel.disk.contained import parts_of
from satchel.errors import PathRefusedError
from satchel.formats._letta.rows import BLOCK, MEMFS, NAME, PERSONA, SELF
from satchel.formats._notes.fact import slug, summary
from satchel.formats._notes.front import spelled, split, values_in
from satchel.memory.entries import Entry, Identity, Procedural, Semantic
from satchel.memory.parts import Origin, TrustClass
from satchel.ports.report import Report
from satchel.seal.records import Sealed

DESCRIPTION = "description"
_READ_ONLY, _LIMIT, _SKILL = "read_only", "limit", "name"
_NO_FIELD = "a Letta memory file has no such field"
_HELD = frozenset({"id", "nonce", "type", "kind", "text", "origin"})
_is_skill = re.compile(r"skills/([^/]+)/SKILL\.md").fullmatch


def entry_of(path: str, text: str, began: str | None, changed: str | None) -> Entry:
    """Return the memory in a file.

    Args:
        path: In the folder.
        text: All of the file.
        began: When it was there first, where the history says it.
        changed: When it was given this text.
    """
    front = split(text)
    values = values_in(front.raw) if front.is_there else {}
    kept: dict[str, Any] = {name: values[name] for name in _said(values)}
    words = front.body.removesuffix("\n")
    end = "\n" if front.body.endswith("\n") else ""
    if front.raw != _front(path, words, kept):
        kept["front"] = front.raw
    if end != "\n":
        kept["end"] = end
    made = _class_of(path)
    return made(
        kind=BLOCK,
        text=words,
        created_at=began,
        updated_at=changed,
        origin=Origin(provider=MEMFS, id=path, as_written=kept, trust=TrustClass.IMPORTED),
    )


def _said(values: dict[str, Any]) -> list[str]:
    """Return which members of front matter are such as Letta has them."""
    found = [name for name in (DESCRIPTION, _SKILL) if type(values.get(name)) is str]
    found += [_READ_ONLY] if type(values.get(_READ_ONLY)) is bool else []
    return found + ([_LIMIT] if type(values.get(_LIMIT)) is int else [])


def _class_of(path: str) -> type[Semantic] | type[Identity] | type[Procedural]:
    if _is_skill(path):
        return Procedural
    label = path.removeprefix("system/").removesuffix(".md")
    return Identity if path.startswith("system/") and SELF.fullmatch(label) else Semantic


def _front(path: str, words: str, kept: dict[str, Any]) -> str:
    """Return front matter that Letta takes: a description, and what else there is of its own."""
    lines = ["---"]
    if found := _is_skill(path):
        lines.append(f"{_SKILL}: {spelled(kept.get(_SKILL) or found[1])}")
    lines.append(f"{DESCRIPTION}: {spelled(kept.get(DESCRIPTION) or summary(words) or PERSONA)}")
    lines += [f"{name}: {spelled(kept[name])}" for name in (_LIMIT, _READ_ONLY) if kept.get(name)]
    return "\n".join((*lines, "---", "", ""))


def usual_for(entry: Entry, identity: str) -> str:
    """Return a path that no other memory has, for one that has none of its own."""
    name = f"{slug(entry.text or '')}-{identity.rpartition(':')[2][:8]}"
    if isinstance(entry, Procedural):
        return f"skills/{name}/SKILL.md"
    return f"system/{PERSONA}-{name}.md" if isinstance(entry, Identity) else f"{name}.md"


def path_of(entry: Entry, usual: str) -> str:
    """Return where a memory's file belongs: where it was, or below ``system`` for a block."""
    origin = entry.origin
    if origin is None or origin.id is None:
        return usual
    if origin.provider == MEMFS:
        path = origin.id
    elif origin.provider == NAME and entry.kind == BLOCK:
        path = f"system/{origin.id}.md"
    else:
        return usual
    try:
        parts = parts_of(path)
    except PathRefusedError:
        return usual
    hidden = any(part.startswith(".") or not part.isprintable() for part in parts)
    return usual if hidden or not path.endswith(".md") else path


def file_of(record: Sealed, entry: Entry, path: str, report: Report) -> str:
    """Return the file that a memory becomes; what has no place in it is counted."""
    origin, words = entry.origin, entry.text or ""
    known = origin is not None and origin.provider in {MEMFS, NAME}
    kept = origin.as_written if known and origin is not None else {}
    front, end = _front(path, words, {name: kept[name] for name in _said(kept)}), "\n"
    if origin is not None and origin.provider == MEMFS and origin.id == path:
        raw = kept.get("front", front)
        again = split(f"{raw}{words}")
        if isinstance(raw, str) and (again.raw, again.body) == (raw, words):
            front, end = raw, kept.get("end", "\n") or ""
    _count(record, entry, path, report)
    return f"{front}{words}{end}"


def _count(record: Sealed, entry: Entry, path: str, report: Report) -> None:
    value, origin = record.value, entry.origin
    times = {"created_at", "updated_at"} if origin and origin.provider == MEMFS else set[str]()
    lost = dict.fromkeys(sorted(value.keys() - _HELD - times), _NO_FIELD)
    if type(entry) is not _class_of(path):
        lost["type"] = "its path implies another kind"
    if entry.kind not in (None, BLOCK):
        lost["kind"] = _NO_FIELD
    if origin is not None and origin.provider not in {MEMFS, NAME}:
        lost["origin"] = "a file cannot record provenance"
    for name, reason in lost.items():
        report.lost(name, reason, example=record.id)
