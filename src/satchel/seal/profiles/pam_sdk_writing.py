"""Profile ``pam-sdk-1.0``: files that the published SDK loads and verifies."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import cbor2

from satchel.errors import LimitError, MalformedError
from satchel.seal.profiles.pam_sdk_hashing import entry_id, root_hash, sign_root
from satchel.seal.profiles.pam_sdk_shape import (
    AGENT_MEMBERS,
    CAPS,
    COMPONENTS,
    ENTRY_MEMBERS,
    MAX_BYTES,
    check_entry,
    check_envelope,
)
from satchel.seal.signing.key import SigningKey

VERSION: Final = "1.0"
"""What the SDK writes as ``pam_version`` and ``schema_version``."""

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
    """Return an entry with its id, members in the SDK's order, defaults where none is given.

    Args:
        component: One of the five.
        members: At least ``created_at``; an ``id`` among them is ignored and computed anew.

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
    """Return a whole file: ids and root computed here, signed when there is a key.

    Args:
        components: Entries of the five arrays; an array may be left out.
        envelope: At least ``created_at`` and ``source_agent``; root and signature among them are
            ignored.
        key: Who signs; None leaves the signature empty.

    Raises:
        MalformedError: If a part is not as the SDK writes it, or two entries are the same.
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
    before = (
        "pam_version",
        "schema_version",
        "created_at",
        "source_agent",
        "root_hash",
        "signature",
        "capability_tokens",
    )
    for member in (*before, "metadata"):
        if member not in envelope:
            raise MalformedError("a member is missing", field=member)
        try:
            check_envelope(member, envelope[member])
        except MalformedError as error:
            error.field = f"{member}/{error.field}" if error.field else member
            raise
    extra = envelope.keys() - {*before, "metadata"}
    if extra:
        raise MalformedError("the SDK writes no such member", field=min(extra))
    agent = {member: envelope["source_agent"][member] for member in AGENT_MEMBERS}
    return {
        **{member: envelope[member] for member in before},
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
    """Return a file as the SDK's CBOR: no magic bytes, members in the order of the document.

    Raises:
        LimitError: If it is larger than the SDK reads, or holds an integer beyond 64 bits.
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
