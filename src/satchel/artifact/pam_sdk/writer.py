"""Profile ``pam-sdk-1.0``: files that the published SDK loads and verifies."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import cbor2

from satchel.artifact.pam_sdk.layout import (
    AGENT_MEMBERS,
    CAPS,
    COMPONENTS,
    ENTRY_MEMBERS,
    ENVELOPE_MEMBERS,
    LANGUAGES,
    MAX_BYTES,
    check_entry,
    check_envelope,
    check_json,
    entry_id,
    root_hash,
    sign_root,
)
from satchel.crypto.canonical import decode_foreign
from satchel.crypto.keys import SigningKey
from satchel.errors import LimitError, MalformedError, ValueRefusedError
from satchel.model.values import to_datetime

VERSION: Final = "1.0"
"""The SDK's ``pam_version`` and ``schema_version``."""

_MAX_CBOR_INTEGER = 2**64 - 1
_BASE: dict[str, Any] = {"parent_ids": [], "tags": [], "schema_version": VERSION}
_DEFAULTS: dict[str, dict[str, Any]] = {
    "episodic": {
        "timestamp": "",
        "actor": "",
        "observation": "",
        "salience": 0.5,
        "event_type": "observation",
    },
    "semantic": {
        "subject": "",
        "predicate": "",
        "object": "",
        "confidence": 0.5,
        "source_event_ids": [],
    },
    "procedural": {
        "name": "",
        "description": "",
        "parameters": [],
        "body": "",
        "language": "natural",
        "preconditions": [],
        "usage_count": 0,
        "last_used": None,
    },
    "working": {"goals": [], "subgoals": [], "scratch": "", "pending_actions": []},
    "identity": {
        "preferences": {},
        "persona": "",
        "language": "en",
        "policies": [],
        "custom_instructions": "",
    },
}


def make_entry(component: str, members: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry with its ID, members in the SDK's order, and defaults for missing ones.

    Args:
        component: One of the five.
        members: At least ``created_at``; an ``id`` is ignored and recomputed.

    Raises:
        MalformedError: If a member is missing, unknown or of another type.
    """
    whole = {**_BASE, **_DEFAULTS[component], **members, "id": root_hash(())}
    check_entry(component, whole)
    whole["id"] = entry_id(whole)
    return {member: whole[member] for member in ENTRY_MEMBERS[component]}


def make_document(
    components: Mapping[str, Sequence[Mapping[str, Any]]],
    envelope: Mapping[str, Any],
    key: SigningKey | None = None,
) -> dict[str, Any]:
    """Return a complete file with computed IDs and root, signed if there is a key.

    Args:
        components: Entries of the five arrays; an array may be missing.
        envelope: At least ``created_at`` and ``source_agent``; root and signature are ignored.
        key: The signing key; None leaves the signature empty.

    Raises:
        MalformedError: If a part is not as the SDK writes it, or two entries are equal.
        LimitError: If an array is longer than the SDK loads.
    """
    arrays = {
        component: [make_entry(component, entry) for entry in components.get(component, ())]
        for component in COMPONENTS
    }
    ids = [entry["id"] for entries in arrays.values() for entry in entries]
    if len(set(ids)) != len(ids):
        raise MalformedError("two entries are the same, and would have the same ID", field="id")
    for component, entries in arrays.items():
        if len(entries) > CAPS[component]:
            raise LimitError(f"the SDK loads {CAPS[component]} at most", field=component)
    root = root_hash(ids)
    whole = {
        "pam_version": VERSION,
        "schema_version": VERSION,
        "capability_tokens": [],
        "metadata": {},
        **envelope,
        "root_hash": root,
        "signature": sign_root(root, key) if key else "",
    }
    return _in_order(whole, arrays)


def _in_order(
    envelope: Mapping[str, Any], arrays: Mapping[str, list[dict[str, Any]]]
) -> dict[str, Any]:
    for member in ENVELOPE_MEMBERS:
        if member not in envelope:
            raise MalformedError("a member is missing", field=member)
        try:
            check_envelope(member, envelope[member])
        except MalformedError as error:
            error.field = f"{member}/{error.field}" if error.field else member
            raise
    extra = envelope.keys() - {*ENVELOPE_MEMBERS}
    if extra:
        raise MalformedError("the SDK writes no such member", field=min(extra))
    agent = {member: envelope["source_agent"][member] for member in AGENT_MEMBERS}
    head = {member: envelope[member] for member in ENVELOPE_MEMBERS if member != "metadata"}
    return {
        **head,
        "source_agent": agent,
        **{component: arrays[component] for component in COMPONENTS},
        "metadata": envelope["metadata"],
    }


def dump_json(document: Mapping[str, Any]) -> bytes:
    """Return a file as the SDK prints it: two spaces, ASCII, no line end.

    Raises:
        LimitError: If it is larger than the SDK reads.
    """
    return _bounded(json.dumps(document, indent=2, allow_nan=False).encode())


def dump_cbor(document: Mapping[str, Any]) -> bytes:
    """Return a file as the SDK's CBOR: no magic bytes, members in document order.

    Raises:
        LimitError: If it is larger than the SDK reads, or contains an integer beyond 64 bits.
    """
    _check_integers(document)
    return _bounded(cbor2.dumps(document))


def _check_integers(document: Mapping[str, Any]) -> None:
    waiting: list[Any] = [document]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Mapping):
            waiting.extend(part.values())
        elif isinstance(part, list):
            waiting.extend(part)
        elif type(part) is int and not -1 - _MAX_CBOR_INTEGER <= part <= _MAX_CBOR_INTEGER:
            raise LimitError(
                "an integer beyond 64 bits needs a tag, which readers of this profile reject",
                hint="Write JSON.",
            )


def _bounded(data: bytes) -> bytes:
    if len(data) > MAX_BYTES:
        raise LimitError(
            f"a file of {len(data)} bytes is more than the SDK reads ({MAX_BYTES})",
            hint="Choose fewer records, or another format.",
        )
    return data


PROVIDER: Final = "pam_sdk"
"""``origin.provider`` of entries that the SDK wrote."""

UNKNOWN_TIME: Final = "unknown"
"""Written for an unknown ``created_at``: the SDK reads an empty text as the current time."""

NOT_IN_FILE: Final = "not in the file"
"""Reason for an omitted link."""

_NO_PLACE = "the SDK cannot hold it"
_NO_TEXT = "the SDK accepts only text there"

# Members with a counterpart; `text` goes to the member with a component's words.
_COMMON = frozenset({"id", "nonce", "parent_ids", "created_at", "tags", "text", "origin"})
_PLACED = {
    "episodic": {"observation", "actor", "event_type", "occurred_at", "salience"},
    "semantic": {"subject", "predicate", "object", "confidence", "source_event_ids"},
    "procedural": {"name", "description", "parameters", "body", "language", "preconditions"},
    "working": {"goals", "subgoals", "scratch", "pending_actions"},
    "identity": {"persona", "preferences", "language", "policies", "custom_instructions"},
}
DEFAULTED: Final = {
    "episodic": ("salience", "event_type"),
    "semantic": ("confidence",),
    "procedural": ("language",),
    "working": (),
    "identity": ("language",),
}
"""Members that the SDK always writes, where absent differs from its default."""


@dataclass(slots=True)
class MemberWriter:
    """Writes one entry in the SDK's members and collects what they cannot represent."""

    entry: Any
    """One of the five classes."""

    theirs: Mapping[str, str]
    """IDs in the file of the entries written before it, by our IDs."""

    losses: list[tuple[str, str]] = field(default_factory=list)

    @property
    def component(self) -> str:
        """The entry's type."""
        return str(self.entry.__struct_config__.tag)

    def lost(self, member: str, reason: str) -> None:
        """Note a member that cannot be written."""
        self.losses.append((member, reason))

    def members(self) -> dict[str, Any]:
        """Return the members from ours alone, ignoring what the SDK wrote before."""
        entry = self.entry
        common = {
            "parent_ids": self._links("parent_ids"),
            "created_at": _offset_time(entry.created_at) or UNKNOWN_TIME,
            "tags": list(entry.tags),
            "schema_version": VERSION,
        }
        own: dict[str, Any] = getattr(self, f"_{self.component}")()
        return common | own

    def note_unplaced(self) -> None:
        """Count members without a counterpart in the SDK."""
        placed = _COMMON | _PLACED[self.component]
        for name in self.entry.__struct_fields__:
            value = getattr(self.entry, name)
            if name not in placed and value is not None and value not in ((), {}, []):
                self.lost(name, _NO_PLACE)
        origin = self.entry.origin
        if origin is not None and (origin.provider != PROVIDER or origin.source or origin.revision):
            self.lost("origin", _NO_PLACE)

    def _episodic(self) -> dict[str, Any]:
        entry = self.entry
        return {
            "timestamp": _zulu_time(entry.occurred_at),
            "actor": entry.actor or "",
            "observation": self._words(entry.observation),
            "salience": _unit(entry.salience),
            "event_type": entry.event_type or "observation",
        }

    def _semantic(self) -> dict[str, Any]:
        entry = self.entry
        triple = bool(entry.subject or entry.predicate)
        if triple and entry.text:
            self.lost("text", "the SDK has a triple there")
        return {
            "subject": entry.subject or "",
            "predicate": entry.predicate or "",
            "object": (entry.object or "") if triple else self._words(entry.object),
            "confidence": _unit(entry.confidence),
            "source_event_ids": self._links("source_event_ids"),
        }

    def _procedural(self) -> dict[str, Any]:
        entry = self.entry
        return {
            "name": entry.name or "",
            "description": entry.description or "",
            "parameters": self._objects("parameters", "name"),
            "body": self._words(entry.body),
            "language": self._language(),
            "preconditions": self._only_texts("preconditions"),
            "usage_count": 0,
            "last_used": None,
        }

    def _working(self) -> dict[str, Any]:
        return {
            "goals": self._only_texts("goals"),
            "subgoals": self._objects("subgoals", "goal"),
            "scratch": self._words(self._only_text("scratch")),
            "pending_actions": self._objects("pending_actions", "action"),
        }

    def _identity(self) -> dict[str, Any]:
        entry = self.entry
        return {
            "preferences": self._foreign("preferences", entry.preferences),
            # Words about a person are data: custom_instructions would make them instructions.
            "persona": self._words(self._only_text("persona")),
            "language": entry.language or "en",
            "policies": self._only_texts("policies"),
            "custom_instructions": entry.custom_instructions or "",
        }

    def _words(self, own: str | None) -> str:
        """Return the component's own words, or else the entry's text."""
        text: str | None = self.entry.text
        if own and text and own != text:
            self.lost("text", "the SDK has one member for it, which has another value")
        return own or text or ""

    def _language(self) -> str:
        language = self.entry.language or "natural"
        if language in LANGUAGES:
            return str(language)
        self.lost("language", f"not one of {', '.join(sorted(LANGUAGES))}")
        return "other"

    def _only_text(self, member: str) -> str | None:
        value = getattr(self.entry, member)
        if value is None or type(value) is str:
            return value
        self.lost(member, _NO_TEXT)
        return None

    def _only_texts(self, member: str) -> list[str]:
        parts = getattr(self.entry, member)
        for _ in (part for part in parts if type(part) is not str):
            self.lost(member, _NO_TEXT)
        return [part for part in parts if type(part) is str]

    def _objects(self, member: str, key: str) -> list[dict[str, Any]]:
        """Return objects; a text becomes one, under the key in the SDK's schema."""
        return [
            {key: part} if type(part) is str else self._foreign(member, part)
            for part in getattr(self.entry, member)
        ]

    def _foreign(self, member: str, value: dict[str, Any]) -> dict[str, Any]:
        """Return data with reversible numbers as numbers, where JSON can represent them."""
        found = restored(value)
        if type(found) is dict:
            return found
        self.lost(member, "holds a value that JSON does not have; written in the carried form")
        return value

    def _links(self, member: str) -> list[str]:
        links = getattr(self.entry, member)
        for _ in (link for link in links if link not in self.theirs):
            self.lost(member, NOT_IN_FILE)
        return list(once(self.theirs[link] for link in links if link in self.theirs))


def once(links: Iterable[str]) -> tuple[str, ...]:
    """Return links without repetitions, in order."""
    return tuple(dict.fromkeys(links))


def restored(value: Any) -> Any:
    """Return the value of a reversible form; None if JSON cannot represent it."""
    try:
        original = decode_foreign(value)
        check_json(original)
    except (ValueRefusedError, MalformedError):
        return None
    return original


def _unit(value: float | None) -> float:
    return 0.5 if value is None else float(value)


def _offset_time(text: str | None) -> str:
    """Return a time in the format of the SDK's clock."""
    return to_datetime(text).isoformat() if text else ""


def _zulu_time(text: str | None) -> str:
    """Return a time in the format of the SDK's callers and specification."""
    return _offset_time(text).replace("+00:00", "Z")
