"""What a message says in words, and what is attached to it, however its content is laid out.

Products write a message as one text, or as a list of parts: texts, spoken words as they were
written down, pictures, sounds, files, calls of tools. Words are found in all of them.
"""

import json
from collections.abc import Iterator
from typing import Any

import msgspec

from satchel.errors import MalformedError
from satchel.model.entries import Entry
from satchel.model.times import read_time
from satchel.model.values import Json, JsonObject, Origin

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
    """Return what the content of a message says in words; of its parts, the texts."""
    if isinstance(content, str):
        return content[:MOST_TEXT]
    if depth and isinstance(content, list):
        return "\n".join(text for part in content if (text := words_of(part, depth - 1)))
    if depth and isinstance(content, dict):
        found = next((content[name] for name in _MEMBERS if content.get(name)), None)
        return words_of(found, depth - 1)
    return ""


def spoken_text(content: Any) -> str | None:
    """Return the words of a content of texts, spoken words and attachments, and nothing else.

    None where nothing is said, or where there are other parts, such as calls of tools: their order
    matters, so such a content is left whole.
    """
    parts = _parts_in(content)
    if parts is None or not all(map(_is_plain, parts)):
        return None
    return words_of(parts) or None


def attachments_in(content: Any) -> list[str]:
    """Return what the pictures, sounds and files of a content are called."""
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
            found = one.get(name)
            if isinstance(found, str) and found and not found.startswith("data:"):
                return f"{kind} {found[:_MOST_NAMED]}"
    return kind


class Message(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message, as somebody hands it over; what it holds besides is kept and given back."""

    role: str
    content: Json = None
    """A text, or its parts as the program has them."""

    name: str | None = None
    """Who speaks, or which tool."""

    created_at: str | None = None
    """Canonical time; None for now."""

    more: JsonObject = {}
    """Further members, such as ``tool_calls`` and ``tool_call_id``."""

    origin: Origin | None = None
    """Where it was before it was here."""


class Note(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something to keep in mind."""

    content: str
    category: str = "context"
    created_at: str | None = None


class SessionChange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A change of what is kept beside the messages; what is None stays as it is."""

    working_state: Json = None
    thread_summary: str | None = None
    note: Note | None = None


def parse_message(value: object) -> Message:
    """Return a message that a program handed over as JSON.

    Args:
        value: An object with ``role``, and ``content``, ``name``, ``created_at`` or whatever else.

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
    """Return a memory in words, whatever its component; parts that are no text as JSON."""
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
