"""Profile ``pam-sdk-1.0``: an entry of the SDK as one of ours, and back.

What our members do not reproduce to the letter stays in ``origin.as_written``, so that an entry
that was not changed goes back under the very id it had.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from satchel.errors import MalformedError, ValueRefusedError
from satchel.memory.entries import ENTRY_CLASSES, Entry
from satchel.memory.parts import Component, Origin
from satchel.memory.times import read_time, to_datetime
from satchel.seal.encoding.carry import carried_float, carry, restore
from satchel.seal.encoding.domain import checked
from satchel.seal.profiles.pam_sdk_hashing import root_hash, sdk_text
from satchel.seal.profiles.pam_sdk_shape import ENTRY_MEMBERS, LANGUAGES, check_entry, check_json
from satchel.seal.profiles.pam_sdk_writing import VERSION

PROVIDER: Final = "pam_sdk"
"""``origin.provider`` of entries that the SDK wrote."""

UNKNOWN_TIME: Final = "unknown"
"""Written where we do not know ``created_at``: the SDK reads an empty text as the present."""

NOT_IN_FILE: Final = "not in the file"
"""Why a link is left out."""

_NO_PLACE = "the SDK has no place for it"
_NO_TEXT = "the SDK takes only text there"

# Members with a place of their own; `text` goes where the SDK keeps a component's words.
_COMMON = frozenset({"id", "nonce", "parent_ids", "created_at", "tags", "text", "origin"})
_PLACED = {
    "episodic": {"observation", "actor", "event_type", "occurred_at", "salience"},
    "semantic": {"subject", "predicate", "object", "confidence", "source_event_ids"},
    "procedural": {"name", "description", "parameters", "body", "language", "preconditions"},
    "working": {"goals", "subgoals", "scratch", "pending_actions"},
    "identity": {"persona", "preferences", "language", "policies", "custom_instructions"},
}
_DEFAULTED = {
    "episodic": ("salience", "event_type"),
    "semantic": ("confidence",),
    "procedural": ("language",),
    "working": (),
    "identity": ("language",),
}
_FREE = frozenset({"schema_version", "usage_count", "last_used"})
_LINKS = frozenset({"parent_ids", "source_event_ids"})


# -- from the SDK --------------------------------------------------------------------------


def draft_of(component: str, value: Mapping[str, Any], ours: Mapping[str, str]) -> Entry:
    """Return a checked entry of the SDK as a draft.

    Args:
        component: The array it stood in.
        value: The entry, its id included.
        ours: Our ids of the file's entries that were sealed before it, by their ids there.

    Raises:
        ValueRefusedError: If it holds what our value domain cannot hold in any form.
    """
    fields = _fields(component, value)
    for member in _LINKS & value.keys():
        fields[member] = _once(ours[link] for link in value[member] if link in ours)
    bare = ENTRY_CLASSES[Component(component)](**fields)
    theirs = {
        ours[link]: link
        for member in _LINKS & value.keys()
        for link in value[member]
        if link in ours
    }
    back = _Writer(bare, theirs).members()
    as_written = {
        member: _exactly(part)
        for member, part in value.items()
        if member != "id" and sdk_text(back[member]) != sdk_text(part)
    }
    fields["origin"] = Origin(provider=PROVIDER, id=value["id"], as_written=as_written)
    return ENTRY_CLASSES[Component(component)](**fields)


def _fields(component: str, value: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an entry says in our members, links and origin aside."""
    common = {"created_at": read_time(value["created_at"]), "tags": tuple(value["tags"])}
    return common | _READERS[component](value)


def _episodic(value: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "occurred_at": read_time(value["timestamp"]) if value["timestamp"] else None,
        "salience": value["salience"],
        "event_type": value["event_type"],
        **_texts(value, "actor", "observation"),
    }


def _semantic(value: Mapping[str, Any]) -> dict[str, Any]:
    confidence = {"confidence": value["confidence"]}
    if not value["subject"] and not value["predicate"]:
        # No triple: words alone, which is how a fact without one is written.
        return {"text": value["object"] or None, **confidence}
    return _texts(value, "subject", "predicate", "object") | confidence


def _procedural(value: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "language": value["language"],
        "parameters": _data(value["parameters"]),
        "preconditions": tuple(value["preconditions"]),
        **_texts(value, "name", "description", "body"),
    }


def _working(value: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "goals": tuple(value["goals"]),
        "subgoals": _data(value["subgoals"]),
        "pending_actions": _data(value["pending_actions"]),
        **_texts(value, "scratch"),
    }


def _identity(value: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "preferences": checked(carry(value["preferences"])),
        "policies": tuple(value["policies"]),
        **_texts(value, "persona", "language", "custom_instructions"),
    }


_READERS: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "episodic": _episodic,
    "semantic": _semantic,
    "procedural": _procedural,
    "working": _working,
    "identity": _identity,
}


def _texts(value: Mapping[str, Any], *members: str) -> dict[str, str | None]:
    return {member: value[member] or None for member in members}


def _data(parts: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(checked(carry(part)) for part in parts)


def _once(links: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(links))


def _exactly(value: Any) -> Any:
    """Return a value in a reversible form that also tells 1.0 from 1, as the SDK's hash does."""
    return _floats_named(carry(value))


def _floats_named(value: Any) -> Any:
    if type(value) is dict:
        return {key: _floats_named(part) for key, part in value.items()}
    if type(value) is list:
        return [_floats_named(part) for part in value]
    if type(value) is float and value.is_integer():
        return carried_float(repr(value))
    return value


# -- to the SDK ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Written:
    """An entry for the SDK."""

    members: dict[str, Any]
    """All but the id."""

    losses: list[tuple[str, str]]
    """Members that could not be carried, each with the reason."""

    defaulted: bool
    """Whether something absent had to be written as the SDK's default."""


def written(entry: Entry, theirs: Mapping[str, str]) -> Written:
    """Return what the SDK can hold of an entry.

    Args:
        entry: Any entry.
        theirs: Their ids of the entries that were written before it, by our ids.
    """
    writer = _Writer(entry, theirs)
    members = writer.members()
    writer.note_unplaced()
    if entry.origin is not None and entry.origin.provider == PROVIDER:
        _as_it_was(entry, members)
    if members["created_at"] == UNKNOWN_TIME:
        writer.lost("created_at", "absent, which the SDK has no word for")
    defaulted = any(getattr(entry, name) is None for name in _DEFAULTED[writer.component])
    return Written(members, writer.losses, defaulted)


@dataclass(slots=True)
class _Writer:
    """Puts one entry into the SDK's members and collects what has no place there."""

    entry: Any
    """One of the five classes."""

    theirs: Mapping[str, str]
    losses: list[tuple[str, str]] = field(default_factory=list)

    @property
    def component(self) -> str:
        return str(self.entry.__struct_config__.tag)

    def lost(self, member: str, reason: str) -> None:
        self.losses.append((member, reason))

    def members(self) -> dict[str, Any]:
        """Return the members from ours alone, without what the SDK wrote before."""
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
        """Count what no member of the SDK holds."""
        placed = _COMMON | _PLACED[self.component]
        for name in self.entry.__struct_fields__:
            value = getattr(self.entry, name)
            if name not in placed and value is not None and value not in ((), {}, []):
                self.lost(name, _NO_PLACE)
        origin = self.entry.origin
        if origin is not None and (
            origin.provider != PROVIDER or origin.source or origin.revision or origin.trust
        ):
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
            # Words about someone are data: custom_instructions would make them orders.
            "persona": self._words(self._only_text("persona")),
            "language": entry.language or "en",
            "policies": self._only_texts("policies"),
            "custom_instructions": entry.custom_instructions or "",
        }

    def _words(self, own: str | None) -> str:
        """Return the component's own words, or else the text that every entry may have."""
        text: str | None = self.entry.text
        if own and text and own != text:
            self.lost("text", "the SDK has one member for it, and that says something else")
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
        """Return objects; a text becomes one, under the key that the SDK's schema has for it."""
        return [
            {key: part} if type(part) is str else self._foreign(member, part)
            for part in getattr(self.entry, member)
        ]

    def _foreign(self, member: str, value: dict[str, Any]) -> dict[str, Any]:
        """Return data with carried numbers as numbers, where JSON has them."""
        found = _restored(value)
        if type(found) is dict:
            return found
        self.lost(member, "holds a value that JSON does not have; written in the carried form")
        return value

    def _links(self, member: str) -> list[str]:
        links = getattr(self.entry, member)
        for _ in (link for link in links if link not in self.theirs):
            self.lost(member, NOT_IN_FILE)
        return list(_once(self.theirs[link] for link in links if link in self.theirs))


def _as_it_was(entry: Entry, members: dict[str, Any]) -> None:
    """Write again what the SDK wrote, wherever that still says what the entry says."""
    origin = entry.origin
    component = str(entry.__struct_config__.tag)
    for name, carried in (origin.as_written if origin else {}).items():
        if name not in ENTRY_MEMBERS[component] or name == "id":
            continue
        candidate = {**members, name: _restored(carried)}
        if _well_formed(component, candidate) and _agrees(entry, members, candidate, name):
            members[name] = candidate[name]


def _well_formed(component: str, members: Mapping[str, Any]) -> bool:
    try:
        check_entry(component, {**members, "id": root_hash(())})
    except MalformedError:
        return False
    return True


def _agrees(
    entry: Entry, members: Mapping[str, Any], candidate: Mapping[str, Any], name: str
) -> bool:
    if name in _FREE:
        return True
    if name in _LINKS:
        kept = set(members[name])
        return [link for link in _once(candidate[name]) if link in kept] == members[name]
    component = str(entry.__struct_config__.tag)
    try:
        before, after = _fields(component, members), _fields(component, candidate)
    except ValueRefusedError:
        return False
    return all(
        sdk_text(part) in (sdk_text(before.get(field)), sdk_text(getattr(entry, field)))
        for field, part in after.items()
    )


def _restored(value: Any) -> Any:
    """Return what was carried; None where it was something that JSON does not have."""
    try:
        found = restore(value)
        check_json(found)
    except (ValueRefusedError, MalformedError):
        return None
    return found


def _unit(value: float | None) -> float:
    return 0.5 if value is None else float(value)


def _offset_time(text: str | None) -> str:
    """Return a time as the SDK's clock prints it."""
    return to_datetime(text).isoformat() if text else ""


def _zulu_time(text: str | None) -> str:
    """Return a time as its callers give it, and its specification shows it."""
    return _offset_time(text).replace("+00:00", "Z")
