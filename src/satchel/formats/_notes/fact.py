"""A memory as a Markdown file of its own: front matter, and the words."""

import base64
import re
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, Self

from satchel.disk.contained import parts_of
from satchel.errors import PathRefusedError
from satchel.formats._notes.front import Values, spelled, split, values_in
from satchel.memory.entries import ENTRY_CLASSES, TIMES, Entry
from satchel.memory.parts import Component, Origin, TrustClass
from satchel.memory.showing import text_of
from satchel.memory.times import read_time
from satchel.ports.report import Report
from satchel.seal.encoding.carry import restore
from satchel.seal.records import Sealed

NAME = "markdown_memory"
"""The format, and the provider that entries from it name."""

HELD = frozenset({"kind", "text", "tags", "metadata", *TIMES})
"""Members of an entry that a file has a place for."""

_SPELLINGS = {"created": "created_at", "updated": "updated_at", "modified": "updated_at"}
_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_LONGEST_NAME, _LONGEST_LINE = 48, 120
_ODD = re.compile(r"[\W_]+")
_MARKS = "#*->: \t"
_HEAD = ("name", "description")


_OF_THE_AGENT = frozenset({"SOUL.md", "USER.md", "IDENTITY.md", "AGENTS.md"})
"""Files of a workspace, such as OpenClaw's, that say who the agent is and whom it works for."""

_OF_A_DAY = re.compile(r"(?:^|/)memory/(\d{4}-\d{2}-\d{2})[^/]*\.md\Z", re.ASCII)


class Usual(NamedTuple):
    """What a file is without saying so, by its path."""

    component: Component = Component.SEMANTIC
    times: Mapping[str, Any] = MappingProxyType({})


def usual_of(path: str) -> Usual:
    """Return what a file at a path is if it does not say otherwise."""
    if path in _OF_THE_AGENT:
        return Usual(Component.IDENTITY)
    day = _OF_A_DAY.search(path)
    moment = None if day is None else read_time(day[1])
    return Usual() if moment is None else Usual(Component.EPISODIC, {"occurred_at": moment})


def is_workspace(paths: Collection[str]) -> bool:
    """Tell whether files are those of a workspace, such as OpenClaw's: who it is, and its days."""
    return not _OF_THE_AGENT.isdisjoint(paths) and any(usual_of(path).times for path in paths)


class Fact(NamedTuple):
    """What a file says."""

    component: Component
    kind: str | None
    tags: tuple[str, ...]
    times: dict[str, Any]
    metadata: Values
    text: str

    @classmethod
    def read(cls, text: str, path: str = "") -> Self:
        """Return what is in the text of a file, which may depend on its path."""
        usual, front = usual_of(path), split(text)
        values = values_in(front.raw) if front.is_there else {}
        nested = values.pop("metadata", {})
        if not isinstance(nested, dict):
            nested = {"metadata": nested}
        found = {**nested, **values}
        times = {**usual.times, **_times_in(found)}
        kind = found.pop("type") if isinstance(found.get("type"), str) else None
        words = front.body.removesuffix(_end_of(front.body))
        component = found.get("component")
        if component in _COMPONENTS:
            del found["component"]
        for name, said in zip(_HEAD, (slug(words), summary(words)), strict=True):
            if found.get(name) == said:
                del found[name]
        tags = _tags_in(found)
        return cls(_COMPONENTS.get(component, usual.component), kind, tags, times, found, words)

    @classmethod
    def of(cls, entry: Entry, component: Component) -> Self:
        """Return what a file says that is made of an entry."""
        times = {name: said for name in TIMES if (said := getattr(entry, name)) is not None}
        words = entry.text if entry.text is not None else text_of(entry)
        return cls(component, entry.kind, entry.tags, times, entry.metadata, words)


_COMPONENTS: dict[Any, Component] = {str(one): one for one in Component}


def _times_in(found: Values) -> dict[str, str]:
    times = dict[str, str]()
    for name in (*TIMES, *_SPELLINGS):
        said = found.get(name)
        moment = read_time(said) if isinstance(said, str) else None
        if moment is not None:
            times.setdefault(_SPELLINGS.get(name, name), moment)
            del found[name]
    return times


def _tags_in(found: Values) -> tuple[str, ...]:
    tags = found.get("tags")
    listed = [tags] if isinstance(tags, str) else tags
    if not isinstance(listed, list) or not all(isinstance(one, str) for one in listed):
        return ()
    del found["tags"]
    return tuple(listed)


def entry_of(identity: str, text: str) -> Entry:
    """Return the memory in a file.

    Args:
        identity: Its path in the folder.
        text: All of it.
    """
    fact, front = Fact.read(text, identity), split(text)
    end = _end_of(front.body)
    kept: Values = {}
    if front.raw != _front_of(fact, None, identity):
        kept["front"] = front.raw
    if end != "\n":
        kept["end"] = end
    origin = Origin(provider=NAME, id=identity, as_written=kept, trust=TrustClass.IMPORTED)
    return ENTRY_CLASSES[fact.component](
        text=fact.text,
        kind=fact.kind,
        tags=fact.tags,
        metadata=fact.metadata,
        origin=origin,
        **fact.times,
    )


def file_of(record: Sealed, entry: Entry, path: str, report: Report) -> str:
    """Return the file that a memory becomes at a path.

    What its source's file looked like is kept as long as it says the same.
    """
    fact = Fact.of(entry, Component(record.type))
    origin = entry.origin
    if origin is not None and origin.provider == NAME:
        front = origin.as_written.get("front", _front_of(fact, None, path))
        end = origin.as_written.get("end", "\n")
        as_it_was = f"{front}{fact.text}{end}"
        if (
            origin.as_written
            and Fact.read(as_it_was, path) == fact
            and _parts(as_it_was, front, end)
        ):
            return as_it_was
    _count(record, fact, report)
    end = "" if fact.text.endswith("\r") else "\n"  # both would be the end of a line of Windows
    return f"{_front_of(fact, report, path)}{fact.text}{end}"


def _parts(text: str, front: Any, end: Any) -> bool:
    """Tell whether a text has this front matter and this end, and not what only looks like it."""
    found = split(text)
    return (found.raw, _end_of(found.body)) == (front, end)


def _end_of(body: str) -> str:
    """Return the end of the last line, as Windows or others write it."""
    return next((end for end in ("\r\n", "\n") if body.endswith(end)), "")


def _count(record: Sealed, fact: Fact, report: Report) -> None:
    """Count metadata that would be taken for something else."""
    said = {"name": slug(fact.text), "description": summary(fact.text)}
    for name, derived in said.items():
        if fact.metadata.get(name) == derived:
            reason = f"a {name} that repeats the start of the text is not written"
            report.lost(f"metadata/{name}", reason, example=record.id)
    for name in sorted(fact.metadata):
        if name not in said and _is_another(name, fact):
            reason = "front matter already uses this name"
            report.lost(f"metadata/{name}", reason, example=record.id)


def _is_another(name: str, fact: Fact) -> bool:
    alone = fact._replace(metadata={name: fact.metadata[name]}, text="x")
    return Fact.read(f"{_front_of(alone, None)}x\n") != alone


def _front_of(fact: Fact, report: Report | None, path: str = "") -> str:
    usual = usual_of(path)
    metadata = restore(fact.metadata)
    head, nested = dict[str, Any](), dict[str, Any]()
    for name, derived in zip(_HEAD, (slug(fact.text), summary(fact.text)), strict=True):
        said = metadata.get(name)
        head[name] = said if isinstance(said, str) else derived
    if fact.kind is not None:
        nested["type"] = fact.kind
    for name, said in metadata.items():
        if not (name in _HEAD and isinstance(said, str)):
            nested.setdefault(name, said)
    lines = ["---", *(f"{name}: {spelled(said)}" for name, said in head.items())]
    if nested:
        lines.append("metadata:")
        lines += [f"  {_key(name)}: {_spelled(said, report)}" for name, said in nested.items()]
    if fact.tags:
        lines.append(f"tags: {spelled(list(fact.tags))}")
    times = {name: said for name, said in fact.times.items() if usual.times.get(name) != said}
    lines += [f"{name}: {said}" for name, said in times.items()]
    if fact.component is not usual.component:
        lines.append(f"component: {fact.component}")
    return "\n".join((*lines, "---", "", ""))


def _key(name: str) -> str:
    return name if _KEY.fullmatch(name) else _quoted(name)


def _quoted(text: str) -> str:
    found = spelled(text)
    return found if found.startswith('"') else f'"{found}"'


def _spelled(said: Any, report: Report | None) -> str:
    return spelled(_without_bytes(said, report))


def _without_bytes(value: Any, report: Report | None) -> Any:
    if isinstance(value, bytes):
        if report is not None:
            report.lost("metadata", "bytes become base64 text")
        return base64.b64encode(value).decode()
    if isinstance(value, list):
        return [_without_bytes(part, report) for part in value]
    if isinstance(value, dict):
        return {name: _without_bytes(part, report) for name, part in value.items()}
    return value


def summary(text: str) -> str:
    """Return the first line of a text that says something, cut where it is long."""
    line = next((one for part in text.splitlines() if (one := part.strip(_MARKS))), "")
    line = " ".join(line.split())
    return line if len(line) <= _LONGEST_LINE else line[: _LONGEST_LINE - 1].rstrip() + "…"


def slug(text: str) -> str:
    """Return a name for a file, of what a text begins with."""
    found = _ODD.sub("-", summary(text).lower()).strip("-")
    if len(found) > _LONGEST_NAME:
        found = found[: _LONGEST_NAME + 1].rpartition("-")[0] or found[:_LONGEST_NAME]
    return found or "memory"


def path_of(entry: Entry, words: str) -> str:
    """Return where a memory's file would best be, before it is known what else is there."""
    origin = entry.origin
    if origin is not None and origin.id and _is_a_path(origin.id) and is_from_here(entry):
        is_timed = all(getattr(entry, name) is not None for name in usual_of(origin.id).times)
        if is_timed:
            return origin.id
    said = entry.metadata.get("name")
    return slug(said if isinstance(said, str) and said.strip() else words) + ".md"


def is_from_here(entry: Entry, path: str | None = None) -> bool:
    """Tell whether a memory was in such a folder already; at a path, where one is given."""
    origin = entry.origin
    if origin is None or origin.provider != NAME:
        return False
    return path is None or origin.id == path


def _is_a_path(text: str) -> bool:
    try:
        parts = parts_of(text)
    except PathRefusedError:
        return False
    hidden = any(part.startswith(".") or not part.isprintable() for part in parts)
    return text.endswith(".md") and not hidden
