"""The members of a memory as labelled text: what a person reads, and what a prompt holds."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from satchel.model.entries import Entry, Episodic, Procedural
from satchel.model.values import Component

_DAY = len("2026-03-01")


_MOST_BESIDE, _LONGEST_BESIDE = 6, 80
"""Members of metadata that are told, and characters of each."""


_NAME = re.compile(r"[^\W\d_][\w -]{0,39}").fullmatch


_FOR_PROGRAMS = re.compile(
    r"(?i)(?:^|[_ -])(?:id|ids|uuid|guid|hash|digest|checksum|sha\d*|md5|etag|version|revision"
    r"|index|offset|vector|embedding|score|tokens?|at|timestamp|created|updated|url|uri|path|file|mime"
    r"|type|schema|source)$|Id$"
).search


_KEY = re.compile(r"(?i)[0-9a-f-]{16,}|\w+://\S*|[\w+/=-]{32,}").fullmatch


class _Part(NamedTuple):
    """One member of a memory: how it is called, how a sentence begins with it, what it says."""

    label: str
    sentence: str
    value: str


def entry_statements(entry: Entry) -> str:
    """Return all that a memory says."""
    return "\n".join(part.value for part in _parts(entry) if part.value)


def _parts(entry: Entry) -> Iterator[_Part]:
    if isinstance(entry, Episodic):
        yield _Part("", "From ", entry.actor or "")
        yield _Part("", "Told: " if entry.actor else "", entry.observation or "")
    if isinstance(entry, Procedural):
        yield _Part("name", "How to: ", entry.name or "")
        yield _Part("what", "It does this: ", entry.description or "")
    yield _Part("", "", entry.text or "")
    yield from _OWN.get(str(entry.__struct_config__.tag), _nothing)(entry)
    if entry.data is not None:
        yield _Part("data", "As data: ", _json(entry.data))
    if entry.tags:
        yield _Part("tags", "Tagged ", ", ".join(entry.tags))
    yield _Part("also", "Also: ", _told_beside(entry.metadata))
    if entry.valid_from is not None:
        yield _Part("from", "True from ", entry.valid_from[:_DAY])
    if entry.valid_until is not None:
        yield _Part("until", "True until ", entry.valid_until[:_DAY])


def _episodic(entry: Any) -> Iterator[_Part]:
    if entry.event_type in ("outcome", "reflection"):
        yield _Part("kind", "This is an ", entry.event_type)
    if entry.context:
        yield _Part("context", "Around it: ", _json(entry.context))


def _semantic(entry: Any) -> Iterator[_Part]:
    triple = [entry.subject, entry.predicate, entry.object]
    said = entry.text or ""
    if any(triple) and not all(part in said for part in triple if part):
        yield _Part("", "", " ".join(part for part in triple if part))
    if entry.confidence is not None and entry.confidence < 1:
        yield _Part("confidence", "Confidence ", f"{entry.confidence:.2g}")
    count = len(entry.source_event_ids)
    if count > 1:  # one event is what any fact is drawn from
        yield _Part("drawn from", "Drawn from ", f"{count} events")


def _procedural(entry: Any) -> Iterator[_Part]:
    yield _Part("needs", "Needed first: ", _listed(entry.preconditions))
    yield _Part("takes", "It takes ", _listed(entry.parameters))
    yield _Part("in", "It is in ", entry.language or "")
    yield _Part("how", "How: ", entry.body or "")


def _working(entry: Any) -> Iterator[_Part]:
    yield _Part("goals", "The goal: ", _listed(entry.goals))
    yield _Part("parts of it", "Parts of it: ", _listed(entry.subgoals))
    yield _Part("notes", "Notes: ", _one(entry.scratch))
    yield _Part("still to do", "Still to do: ", _listed(entry.pending_actions))


def _identity(entry: Any) -> Iterator[_Part]:
    yield _Part("persona", "The agent is ", _one(entry.persona))
    preferences = [f"{name}: {_one(value)}" for name, value in entry.preferences.items()]
    yield _Part("prefers", "It prefers ", "; ".join(preferences))
    yield _Part("style", "Its style: ", _one(entry.communication_style))
    yield _Part("language", "Its language: ", entry.language or "")
    yield _Part("policies", "Its policies: ", _listed(entry.policies))
    yield _Part("was told", "It was told: ", entry.custom_instructions or "")


def _told_beside(metadata: Mapping[str, Any]) -> str:
    """Return what metadata says to whoever reads it; what only programs go by is left out.

    That is: a name of words that is no key, mark or moment, with a short text, a number or a yes.
    """
    told = [
        f"{name}: {_plain(value)}"
        for name, value in metadata.items()
        if _NAME(name) and not _FOR_PROGRAMS(name) and _is_plain(value)
    ]
    return "; ".join(told[:_MOST_BESIDE])


def _is_plain(value: Any) -> bool:
    if isinstance(value, str):
        return 0 < len(value) <= _LONGEST_BESIDE and not _KEY(value)
    return isinstance(value, int | float)


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else _json(value)


def _nothing(_entry: Any) -> Iterator[_Part]:
    return iter(())


_OWN: Mapping[str, Any] = {
    Component.EPISODIC: _episodic,
    Component.SEMANTIC: _semantic,
    Component.PROCEDURAL: _procedural,
    Component.WORKING: _working,
    Component.IDENTITY: _identity,
}


def _one(value: Any) -> str:
    if value is None or value in ("", {}):
        return ""
    return value if isinstance(value, str) else _json(value)


def _listed(values: Any) -> str:
    return "; ".join(_one(value) for value in values)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(", ", ": "))
