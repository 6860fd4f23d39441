"""Messages and memories as text, and an estimate of its tokens.

Products write a message as one text, or as a list of parts: texts, transcripts, pictures, sounds,
files, tool calls. The words of all parts are collected. A memory is rendered from the members of
its type, with or without labels.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from satchel.errors import MalformedError
from satchel.model.records import Entry, Episodic, Procedural
from satchel.model.values import Component, Json, JsonObject, Origin, read_time

MOST_TEXT = 1_000_000
_DEPTH = 8
_MOST_NAMED = 200

_WORDS = frozenset({"text", "input_text", "output_text", "audio_transcription", "transcript"})
_MEDIA = frozenset(
    {
        *("image", "image_url", "input_image", "image_asset_pointer", "picture"),
        *("audio", "input_audio", "output_audio", "audio_url", "audio_asset_pointer", "voice_note"),
        *("video", "video_url", "video_container_asset_pointer"),
        "real_time_user_audio_video_asset_pointer",
        *("file", "input_file", "file_url", "document", "media", "attachment"),
        *("inline_data", "inlineData", "file_data", "fileData"),
    }
)
_KINDS = ("content_type", "type")
_NAMES = ("file_name", "filename", "name", "title", "asset_pointer", "file_id", "fileUri", "url")
_MEMBERS = ("text", "transcript", "parts", "content")


def words_of(content: Any, depth: int = _DEPTH) -> str:
    """Return the text of a message's content, or of its parts."""
    if isinstance(content, str):
        return content[:MOST_TEXT]
    if depth and isinstance(content, list):
        return "\n".join(text for part in content if (text := words_of(part, depth - 1)))
    if depth and isinstance(content, dict):
        found = next((content[name] for name in _MEMBERS if content.get(name)), None)
        return words_of(found, depth - 1)
    return ""


def spoken_text(content: Any) -> str | None:
    """Return the text of a content that has only texts, transcripts and attachments.

    None if it has no text, or other parts, such as tool calls: their order matters, so such a
    content is not converted.
    """
    parts = _parts_in(content)
    if parts is None or not all(map(_is_plain, parts)):
        return None
    return words_of(parts) or None


def attachments_in(content: Any) -> list[str]:
    """Return the names of the pictures, sounds and files in a content."""
    return [_called(part) for part in _parts_in(content) or () if _is_media(part)]


def _parts_in(content: Any) -> list[Any] | None:
    if isinstance(content, dict):
        content = content.get("parts")
    return content if isinstance(content, list) else None


def _is_plain(part: Any) -> bool:
    if part is None or isinstance(part, str) or _is_media(part):
        return True
    return isinstance(part, dict) and (_kind_of(part) in _WORDS or part.keys() == {"text"})


def _is_media(part: Any) -> bool:
    if not isinstance(part, dict):
        return False
    return _kind_of(part) in _MEDIA or "asset_pointer" in part or not _MEDIA.isdisjoint(part)


def _kind_of(part: dict[str, Any]) -> Any:
    found = next((part[name] for name in _KINDS if name in part), None)
    return found if isinstance(found, str) else None


def _called(part: dict[str, Any]) -> str:
    kind = _kind_of(part) or next((name for name in part if name in _MEDIA), "file")
    inside = [part, *(one for one in part.values() if isinstance(one, dict))]
    for name in _NAMES:
        for one in inside:
            label = one.get(name)
            if isinstance(label, str) and label and not label.startswith("data:"):
                return f"{kind} {label[:_MOST_NAMED]}"
    return kind


class Message(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message as a program passes it; further members are preserved."""

    role: str
    content: Json = None
    """A text, or its parts as the program has them."""

    name: str | None = None
    """The speaker, or the tool."""

    created_at: str | None = None
    """Canonical time; None for now."""

    more: JsonObject = {}
    """Further members, such as ``tool_calls`` and ``tool_call_id``."""

    origin: Origin | None = None
    """Where it was imported from."""


class Note(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A note."""

    content: str
    category: str = "context"
    created_at: str | None = None


class SessionChange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A change of a session's state; None leaves a value unchanged."""

    working_state: Json = None
    thread_summary: str | None = None
    note: Note | None = None


def parse_message(value: object) -> Message:
    """Parse a message from JSON.

    Args:
        value: An object with ``role``, and ``content``, ``name``, ``created_at`` and any other
            members.

    Raises:
        MalformedError: If it has no role, or a member has the wrong shape.
    """
    if not isinstance(value, dict):
        raise MalformedError("a message is a JSON object", field="message")
    known = {name: value[name] for name in _MESSAGE_MEMBERS if value.get(name) is not None}
    more = {name: part for name, part in value.items() if name not in _MESSAGE_MEMBERS}
    for name in ("role", "name", "created_at"):
        if type(known.get(name, "")) is not str:
            raise MalformedError("must be text", field=name)
    if not known.get("role"):
        raise MalformedError("a message must have a role, such as user or assistant", field="role")
    if "created_at" in known:
        moment = read_time(known["created_at"])
        if moment is None:
            raise MalformedError("not a valid time", field="created_at")
        known["created_at"] = moment
    return Message(**known, more=more)


_MESSAGE_MEMBERS = ("role", "content", "name", "created_at")


_SAID = ("text", "observation", "name", "description", "body", "persona", "communication_style")
_LISTED = ("goals", "subgoals", "pending_actions", "preconditions", "policies")
_MORE = ("scratch", "custom_instructions", "preferences", "data")


def memory_text(entry: Entry) -> str:
    """Return the text of a memory of any type; members that are not text as JSON."""
    return "\n".join(_parts(entry))


def _parts(entry: Entry) -> Iterator[str]:
    for name in _SAID:
        if part := getattr(entry, name, None):
            yield part if isinstance(part, str) else _json(part)
    triple = [getattr(entry, name, None) for name in ("subject", "predicate", "object")]
    if any(triple):
        yield " ".join(part for part in triple if part)
    for name in (*_LISTED, *_MORE):
        value = getattr(entry, name, None)
        for one in value if isinstance(value, tuple) else [value]:
            if one:
                yield one if isinstance(one, str) else _json(one)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


DAY = len("2026-03-01")
"""Characters of a canonical time that are its date."""


_MOST_BESIDE, _LONGEST_BESIDE = 6, 80
"""Members of metadata to include, and characters of each."""


_NAME = re.compile(r"[^\W\d_][\w -]{0,39}").fullmatch


_FOR_PROGRAMS = re.compile(
    r"(?i)(?:^|[_ -])(?:id|ids|uuid|guid|hash|digest|checksum|sha\d*|md5|etag|version|revision"
    r"|index|offset|vector|embedding|score|tokens?|at|timestamp|created|updated|url|uri|path|file|mime"
    r"|type|schema|source)$|Id$"
).search


_KEY = re.compile(r"(?i)[0-9a-f-]{16,}|\w+://\S*|[\w+/=-]{32,}").fullmatch


class _Part(NamedTuple):
    """A member of a memory: its label, how its sentence begins, its value."""

    label: str
    sentence: str
    value: str


def entry_statements(entry: Entry) -> str:
    """Return the values of all members of a memory."""
    return "\n".join(part.value for part in labeled_parts(entry) if part.value)


def labeled_parts(entry: Entry) -> Iterator[_Part]:
    """Yield the members of a memory, each with its label; values may be empty."""
    if isinstance(entry, Episodic):
        yield _Part("", "From ", entry.actor or "")
        yield _Part("", "Told: " if entry.actor else "", entry.observation or "")
    if isinstance(entry, Procedural):
        yield _Part("name", "How to: ", entry.name or "")
        yield _Part("what", "It does this: ", entry.description or "")
    yield _Part("", "", entry.text or "")
    yield from _OWN.get(str(entry.__struct_config__.tag), _nothing)(entry)
    if entry.data is not None:
        yield _Part("data", "As data: ", _spaced_json(entry.data))
    if entry.tags:
        yield _Part("tags", "Tagged ", ", ".join(entry.tags))
    yield _Part("also", "Also: ", _readable_metadata(entry.metadata))
    if entry.valid_from is not None:
        yield _Part("from", "True from ", entry.valid_from[:DAY])
    if entry.valid_until is not None:
        yield _Part("until", "True until ", entry.valid_until[:DAY])


def _episodic(entry: Any) -> Iterator[_Part]:
    if entry.event_type in ("outcome", "reflection"):
        yield _Part("kind", "This is an ", entry.event_type)
    if entry.context:
        yield _Part("context", "Around it: ", _spaced_json(entry.context))


def _semantic(entry: Any) -> Iterator[_Part]:
    triple = [entry.subject, entry.predicate, entry.object]
    said = entry.text or ""
    if any(triple) and not all(part in said for part in triple if part):
        yield _Part("", "", " ".join(part for part in triple if part))
    if entry.confidence is not None and entry.confidence < 1:
        yield _Part("confidence", "Confidence ", f"{entry.confidence:.2g}")
    count = len(entry.source_event_ids)
    if count > 1:  # a single event is the usual source
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


def _readable_metadata(metadata: Mapping[str, Any]) -> str:
    """Return the metadata that is meant for readers, not for programs.

    That is: members named in words (no key, version or timestamp) whose value is a short text, a
    number or a boolean.
    """
    parts = [
        f"{name}: {_plain(value)}"
        for name, value in metadata.items()
        if _NAME(name) and not _FOR_PROGRAMS(name) and _is_short_value(value)
    ]
    return "; ".join(parts[:_MOST_BESIDE])


def _is_short_value(value: Any) -> bool:
    if isinstance(value, str):
        return 0 < len(value) <= _LONGEST_BESIDE and not _KEY(value)
    return isinstance(value, int | float)


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else _spaced_json(value)


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
    return value if isinstance(value, str) else _spaced_json(value)


def _listed(values: Any) -> str:
    return "; ".join(_one(value) for value in values)


def _spaced_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(", ", ": "))


_RUNS = (
    (re.compile(r"[A-Za-z]+"), 3.0),  # characters a token; the last token of a word counts whole
    (re.compile(r"[0-9]+"), 2.0),
    (re.compile(r"[^\S\n]+"), 8.0),
    (re.compile(r"[\u00c0-\u058f]+"), 1.5),  # Latin with accents, Greek, Cyrillic, Armenian
    (re.compile(r"[\U00010000-\U0010ffff]"), 1 / 4),  # emoji, rare Han: each of its bytes
)
_ASCII_RUNS = _RUNS[:3]
_OTHERS = re.compile(r"[^A-Za-z0-9\s\u00c0-\u058f\U00010000-\U0010ffff]|\n")
_WIDE = 1.25


def estimated_tokens(text: str) -> int:
    """Return an estimate of the tokens of a text; an overestimate.

    A character of Chinese, Japanese, Thai or Korean counts as one token and a quarter, one of
    English as a third, one of an emoji as each of its bytes: as in byte-pair vocabularies that need
    many for it. A text of ordinary words takes a third less.
    """
    total = 0.0
    for kind, each in _ASCII_RUNS if text.isascii() else _RUNS:
        runs = Counter(map(len, kind.findall(text)))  # a long text has few lengths of words
        total += sum(number * -(-length // each) for length, number in runs.items())
    others = _OTHERS.findall(text)
    narrow = len(others) if text.isascii() else sum(map(str.isascii, others))
    return int(total + narrow + _WIDE * (len(others) - narrow)) + 1


PER_MEMORY = 8
"""Tokens around a memory: its type, its date, the end of the line."""
