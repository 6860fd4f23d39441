"""Profile ``pam-sdk-1.0``: what an entry of the SDK says in the members of ours."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from satchel.memory.times import read_time
from satchel.seal.encoding.carry import carry
from satchel.seal.encoding.domain import checked


def fields_of(component: str, value: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an entry says in our members, links and origin aside."""
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


def _unit(value: float) -> float:
    return value + 0.0  # canonical bytes have no -0.0, which the SDK's hash tells from 0.0


def _texts(value: Mapping[str, Any], *members: str) -> dict[str, str | None]:
    return {member: value[member] or None for member in members}


def _data(parts: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(checked(carry(part)) for part in parts)
