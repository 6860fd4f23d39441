"""Profile ``pam-sdk-1.0``: reading a file of the published SDK, entry by entry.

Only the form is verified here: unambiguous JSON or CBOR, exactly the SDK's members, unique IDs.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Literal, NoReturn, Protocol

from satchel.artifact.encodings import MAGIC, plain_bytes
from satchel.artifact.pam_sdk.layout import (
    COMPONENTS,
    ENTRY_MEMBERS,
    ENVELOPE_MEMBERS,
    MAX_BYTES,
    check_entry,
    check_envelope,
    root_hash,
    sdk_text,
    shown,
)
from satchel.artifact.pam_sdk.writer import (
    DEFAULTED,
    PROVIDER,
    UNKNOWN_TIME,
    MemberWriter,
    once,
    restored,
)
from satchel.crypto.canonical import Limits, carried_float, check_value, encode_foreign
from satchel.crypto.cbor import CborReader
from satchel.crypto.json_reader import JsonReader, finite_number, refuse_constant
from satchel.errors import LimitError, MalformedError, ValueRefusedError
from satchel.model.records import ENTRY_CLASSES, Entry
from satchel.model.values import Component, Origin, TrustClass, read_time
from satchel.runtime.files import InputPath, open_input

_MAX_DIGITS = 4300
_OURS = frozenset({"statement", "signatures", "components"})


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for key, value in pairs:
        if key in members:
            raise MalformedError("an object has the same key twice", field=shown(key))
        members[key] = value
    return members


def _integer(token: str) -> int:
    if len(token) > _MAX_DIGITS:
        raise MalformedError(f"an integer has more than {_MAX_DIGITS} digits")
    return int(token)


# Unlike in our files, 1.0 and 1 are two values here: the SDK hashes CPython's text of a number.
_JSON = json.JSONDecoder(
    object_pairs_hook=_object,
    parse_int=_integer,
    parse_float=finite_number,
    parse_constant=refuse_constant,
)


class _FloatKeepingReader(JsonReader):
    """The strict JSON reader, with floats unchanged."""

    def __init__(self, stream: BinaryIO, name: str, item_bytes: int) -> None:
        super().__init__(stream, name, item_bytes=item_bytes)
        self._scan_once = _JSON.scan_once  # type: ignore[attr-defined]  # typeshed has no name for it

    def where(self) -> dict[str, int]:
        """Return the position of the next token."""
        self.peek()
        return {"line": self.line}

    def _taken(self, value: Any, end: int) -> Any:
        self._at = end
        return value  # surrogates and depth are verified with the types, without recursion


class _AnyCborReader(CborReader):
    """CBOR in any layout; its types are verified later."""

    def where(self) -> dict[str, int]:
        """Return the position of the next item."""
        return {"byte": self.byte}


class _Reader(Protocol):
    """The common interface of the JSON and the CBOR reader."""

    def where(self) -> dict[str, int]: ...

    def members(self) -> Iterator[str]: ...

    def elements(self) -> Iterator[int]: ...

    def value(self) -> Any: ...

    def end(self) -> None: ...


@dataclass(frozen=True, slots=True)
class SdkEntry:
    """One entry of a file, as written."""

    component: str
    index: int
    value: dict[str, Any]
    place: dict[str, int]
    """``line`` or ``byte`` of its start."""

    @property
    def id(self) -> str:
        """The ID that it claims."""
        return str(self.value["id"])

    @property
    def pointer(self) -> str:
        """Its path in the document."""
        return f"{self.component}/{self.index}"


@dataclass(slots=True)
class SdkDocument:
    """A file being read: entries are streamed, the envelope is complete after the last one."""

    name: str
    encoding: Literal["json", "cbor"]
    reader: _Reader
    envelope: dict[str, Any] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    _ids: set[str] = field(default_factory=set)

    def entries(self) -> Iterator[SdkEntry]:
        """Yield the entries in the file's order, and verify the form of the whole file.

        Raises:
            MalformedError: Naming file, line or byte, and member.
            LimitError: If a value is too large.
        """
        where = self.reader.where()
        for member in self.reader.members():
            where = self.reader.where()
            if member in COMPONENTS:
                yield from self._array(member, where)
            elif member in ENVELOPE_MEMBERS:
                with self._placed(member, where):
                    value = self.reader.value()
                    check_envelope(member, value)
                self.envelope[member] = value
            else:
                self._stray(member, where)
        self.reader.end()
        missing = [
            member
            for member in (*ENVELOPE_MEMBERS, *COMPONENTS)
            if member not in self.envelope and member not in self.counts
        ]
        if missing:
            raise MalformedError(
                "a member is missing; the SDK writes all of them", field=missing[0]
            ).located(file=self.name, **where)

    def _array(self, component: str, where: dict[str, int]) -> Iterator[SdkEntry]:
        self.counts[component] = 0
        with self._placed(component, where):
            elements = self.reader.elements()
            index = next(elements, None)
        while index is not None:
            yield self._entry(component, index)
            self.counts[component] += 1
            with self._placed(component, self.reader.where()):
                index = next(elements, None)

    def _entry(self, component: str, index: int) -> SdkEntry:
        where = self.reader.where()
        with self._placed(f"{component}/{index}", where):
            value = self.reader.value()
            check_entry(component, value)
            if value["id"] in self._ids:
                raise MalformedError("duplicate ID", field="id")
            self._ids.add(value["id"])
        return SdkEntry(component, index, value, where)

    def _stray(self, member: str, where: dict[str, int]) -> NoReturn:
        message = (
            "both a satchel artifact and a file of the SDK"
            if member in _OURS
            else "the SDK writes no such member"
        )
        raise MalformedError(message, field=shown(member)).located(file=self.name, **where)

    @contextmanager
    def _placed(self, pointer: str, where: dict[str, int]) -> Iterator[None]:
        try:
            yield
        except (MalformedError, LimitError) as error:
            error.field = f"{pointer}/{error.field}" if error.field else pointer
            raise error.located(file=self.name, **where) from None


@contextmanager
def open_sdk_file(path: InputPath, limits: Limits) -> Iterator[SdkDocument]:
    """Open a file of the published SDK, plain or gzip; it can be read in the block.

    Raises:
        UnreadableError: If the file cannot be read.
        MalformedError: If its start is not that of such a file.
        LimitError: If it is larger than the SDK reads, or than ``limits.document_bytes``.
    """
    name = str(path)
    with open_input(path) as raw, plain_bytes(raw, limits) as (handle, _):
        size = handle.seek(0, 2)
        handle.seek(0)
        bound = min(limits.document_bytes, MAX_BYTES)
        if size > bound:
            raise LimitError(f"a file of {size} bytes is over the limit of {bound}", file=name)
        first = handle.read(1)
        handle.seek(0)
        if first == MAGIC[:1]:
            raise MalformedError("the SDK's CBOR has no magic bytes", file=name, byte=0)
        if first and 0xA0 <= first[0] <= 0xBF:  # noqa: PLR2004 - a CBOR map
            yield SdkDocument(
                name, "cbor", _AnyCborReader(handle, name, item_bytes=limits.line_bytes)
            )
        else:
            reader = _FloatKeepingReader(handle, name, limits.line_bytes)
            yield SdkDocument(name, "json", reader)


def sdk_fields(component: str, value: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry of the SDK with our members, except links and origin."""
    common = {"created_at": read_time(value["created_at"]), "tags": tuple(value["tags"])}
    return common | _READERS[component](value)


def _episodic(value: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "occurred_at": read_time(value["timestamp"]) if value["timestamp"] else None,
        "salience": _unit(value["salience"]),
        "event_type": value["event_type"],
        **_texts(value, "actor", "observation"),
    }


def _semantic(value: Mapping[str, Any]) -> dict[str, Any]:
    confidence = {"confidence": _unit(value["confidence"])}
    if not value["subject"] and not value["predicate"]:
        # Without a triple, a fact is text alone.
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
        "preferences": check_value(encode_foreign(value["preferences"])),
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


def _unit(value: float) -> float:
    return value + 0.0  # canonical bytes have no -0.0, which the SDK's hash distinguishes from 0.0


def _texts(value: Mapping[str, Any], *members: str) -> dict[str, str | None]:
    return {member: value[member] or None for member in members}


def _data(parts: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(check_value(encode_foreign(part)) for part in parts)


_FREE = frozenset({"schema_version", "usage_count", "last_used"})
_LINKS = frozenset({"parent_ids", "source_event_ids"})


def sdk_draft(component: str, value: Mapping[str, Any], ours: Mapping[str, str]) -> Entry:
    """Return a verified entry of the SDK as a draft.

    Args:
        component: The array that contains it.
        value: The entry, its id included.
        ours: Our IDs of the entries sealed before it, by their IDs in the file.

    Raises:
        ValueRefusedError: If our value domain cannot represent it in any form.
    """
    fields = sdk_fields(component, value)
    for member in _LINKS & value.keys():
        fields[member] = once(ours[link] for link in value[member] if link in ours)
    bare = ENTRY_CLASSES[Component(component)](**fields)
    theirs = {
        ours[link]: link
        for member in _LINKS & value.keys()
        for link in value[member]
        if link in ours
    }
    back = MemberWriter(bare, theirs).members()
    as_written = {
        member: _exactly(part)
        for member, part in value.items()
        if member != "id" and not _same(back[member], part)
    }
    fields["origin"] = Origin(
        provider=PROVIDER, id=value["id"], as_written=as_written, trust=TrustClass.IMPORTED
    )
    return ENTRY_CLASSES[Component(component)](**fields)


def _same(first: Any, other: Any) -> bool:
    """Return whether values are equal to the SDK's hash, which distinguishes 1.0, 1 and true."""
    if type(first) is str or type(other) is str:
        return bool(first == other)
    return sdk_text(first) == sdk_text(other)


def _exactly(value: Any) -> Any:
    """Return a value in a reversible form that distinguishes 1.0 from 1, as the SDK's hash does."""
    return _floats_named(encode_foreign(value))


def _floats_named(value: Any) -> Any:
    if type(value) is dict:
        return {key: _floats_named(part) for key, part in value.items()}
    if type(value) is list:
        return [_floats_named(part) for part in value]
    if type(value) is float and value.is_integer():
        return carried_float(repr(value))
    return value


@dataclass(frozen=True, slots=True)
class SdkEntryDraft:
    """An entry for the SDK."""

    members: dict[str, Any]
    """All but the id."""

    losses: list[tuple[str, str]]
    """Members that cannot be written, each with the reason."""

    defaulted: bool
    """Whether an absent member was written as the SDK's default."""


def to_sdk_entry(entry: Entry, theirs: Mapping[str, str]) -> SdkEntryDraft:
    """Return an entry in the SDK's members, as far as they can represent it.

    Args:
        entry: Any entry.
        theirs: IDs in the file of the entries written before it, by our IDs.
    """
    writer = MemberWriter(entry, theirs)
    members = writer.members()
    writer.note_unplaced()
    if entry.origin is not None and entry.origin.provider == PROVIDER:
        _as_it_was(entry, members)
    if members["created_at"] == UNKNOWN_TIME:
        writer.lost("created_at", "absent, which the SDK cannot express")
    defaulted = any(getattr(entry, name) is None for name in DEFAULTED[writer.component])
    return SdkEntryDraft(members, writer.losses, defaulted)


def _as_it_was(entry: Entry, members: dict[str, Any]) -> None:
    """Restore what the SDK wrote, where it still agrees with the entry."""
    origin = entry.origin
    component = str(entry.__struct_config__.tag)
    for name, carried in (origin.as_written if origin else {}).items():
        if name not in ENTRY_MEMBERS[component] or name == "id":
            continue
        candidate = {**members, name: restored(carried)}
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
        again: list[str] = [link for link in once(candidate[name]) if link in kept]
        return again == list(members[name])
    component = str(entry.__struct_config__.tag)
    try:
        before, after = sdk_fields(component, members), sdk_fields(component, candidate)
    except ValueRefusedError:
        return False
    return all(
        sdk_text(part) in (sdk_text(before.get(field)), sdk_text(getattr(entry, field)))
        for field, part in after.items()
    )
