"""Profile ``pam-sdk-1.0``: the members of the published SDK's files, and their exact types.

The SDK's own reader coerces (``"1"``, ``true`` and ``1`` for a float), so many files have the same
signature for it. Here every member must exist, no other may, and each must have the JSON type that
the SDK writes. Source: docs/spec/4-verification.md, section 4.6.
"""

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from graphlib import CycleError
from typing import Any, Final

from nacl import bindings
from nacl.exceptions import BadSignatureError

from satchel.crypto.canonical import MAX_DEPTH
from satchel.crypto.keys import SigningKey, check_point
from satchel.crypto.sealed_records import digest
from satchel.errors import MalformedError

PROFILE: Final = "pam-sdk-1.0"
"""The name of the profile, which also marks keys of the registry."""

COMPONENTS: Final = ("episodic", "semantic", "procedural", "working", "identity")
"""The five arrays, in the SDK's order."""

MAX_BYTES: Final = 50 * 2**20
"""Size of the largest file that the SDK reads."""

CAPS: Final = {
    "episodic": 100_000,
    "semantic": 50_000,
    "procedural": 10_000,
    "working": 1_000,
    "identity": 100,
}
"""Maximum number of entries that the SDK loads, by component."""

EVENT_TYPES: Final = frozenset({"interaction", "observation", "outcome", "reflection"})
LANGUAGES: Final = frozenset({"natural", "python", "javascript", "typescript", "shell", "other"})

_ADDRESS = re.compile(r"blake3:[0-9a-f]{64}", re.ASCII)
_SIGNATURE = re.compile(r"(?:[0-9a-f]{128})?", re.ASCII)
_SURROGATE = re.compile("[\ud800-\udfff]")

Check = Callable[[Any], str | None]
"""Returns the problem of a member, or None."""


def _text(value: Any) -> str | None:
    return None if type(value) is str else "not text"


def _moment(value: Any) -> str | None:
    # The SDK replaces an empty text by the current time, and the ID becomes invalid.
    return None if type(value) is str and value else "not a non-empty text"


def _text_or_null(value: Any) -> str | None:
    return None if value is None or type(value) is str else "neither text nor null"


def _texts(value: Any) -> str | None:
    good = type(value) is list and all(type(part) is str for part in value)
    return None if good else "not an array of texts"


def _objects(value: Any) -> str | None:
    good = type(value) is list and all(type(part) is dict for part in value)
    return None if good else "not an array of objects"


def _array(value: Any) -> str | None:
    return None if type(value) is list else "not an array"


def _object(value: Any) -> str | None:
    return None if type(value) is dict else "not an object"


def _integer(value: Any) -> str | None:
    return None if type(value) is int else "not an integer"


def _unit(value: Any) -> str | None:
    # The SDK writes 1.0, never 1: another spelling would be a second file with the same IDs.
    return None if type(value) is float and 0 <= value <= 1 else "not a float from 0.0 to 1.0"


def _address(value: Any) -> str | None:
    good = type(value) is str and _ADDRESS.fullmatch(value)
    return None if good else "not `blake3:` and 64 hexadecimal digits"


def _signature(value: Any) -> str | None:
    good = type(value) is str and _SIGNATURE.fullmatch(value)
    return None if good else "neither empty nor 128 lower-case hexadecimal digits"


def _event_type(value: Any) -> str | None:
    good = type(value) is str and value in EVENT_TYPES
    return None if good else f"not one of {', '.join(sorted(EVENT_TYPES))}"


def _language(value: Any) -> str | None:
    good = type(value) is str and value in LANGUAGES
    return None if good else f"not one of {', '.join(sorted(LANGUAGES))}"


_BASE: dict[str, Check] = {
    "id": _address,
    "parent_ids": _texts,
    "created_at": _moment,
    "tags": _texts,
    "schema_version": _text,
}
_OWN: dict[str, dict[str, Check]] = {
    "episodic": {
        "timestamp": _text,
        "actor": _text,
        "observation": _text,
        "salience": _unit,
        "event_type": _event_type,
    },
    "semantic": {
        "subject": _text,
        "predicate": _text,
        "object": _text,
        "confidence": _unit,
        "source_event_ids": _texts,
    },
    "procedural": {
        "name": _text,
        "description": _text,
        "parameters": _objects,
        "body": _text,
        "language": _language,
        "preconditions": _texts,
        "usage_count": _integer,
        "last_used": _text_or_null,
    },
    "working": {
        "goals": _texts,
        "subgoals": _objects,
        "scratch": _text,
        "pending_actions": _objects,
    },
    "identity": {
        "preferences": _object,
        "persona": _text,
        "language": _text,
        "policies": _texts,
        "custom_instructions": _text,
    },
}
_ENTRIES = {component: {**_BASE, **own} for component, own in _OWN.items()}

ENTRY_MEMBERS: Final = {component: tuple(checks) for component, checks in _ENTRIES.items()}
"""The members of an entry of each component, in the SDK's order."""

_AGENT: dict[str, Check] = dict.fromkeys(("name", "model_family", "runtime", "version"), _text)
_ENVELOPE: dict[str, Check] = {
    "pam_version": _text,
    "schema_version": _text,
    "created_at": _text,
    "source_agent": _object,
    "root_hash": _address,
    "signature": _signature,
    "capability_tokens": _array,
    "metadata": _object,
}

ENVELOPE_MEMBERS: Final = tuple(_ENVELOPE)
"""The members of a file besides the five arrays."""

AGENT_MEMBERS: Final = tuple(_AGENT)
"""The members of ``source_agent``, in the SDK's order."""


def check_entry(component: str, value: Any) -> None:
    """Refuse anything but an entry exactly as the SDK writes one; its ID is not verified.

    Raises:
        MalformedError: Naming the member.
    """
    if type(value) is not dict:
        raise MalformedError("an entry must be an object")
    _members(value, _ENTRIES[component])
    check_json(value)


def check_envelope(member: str, value: Any) -> None:
    """Refuse a member of the file that is not as the SDK writes it.

    Raises:
        MalformedError: Naming the member.
    """
    if problem := _ENVELOPE[member](value):
        raise MalformedError(problem)
    if member == "source_agent":
        _members(value, _AGENT)
    check_json(value)


def _members(value: Mapping[str, Any], checks: Mapping[str, Check]) -> None:
    for member, check in checks.items():
        if member not in value:
            raise MalformedError("a member is missing; the SDK writes all of them", field=member)
        if problem := check(value[member]):
            raise MalformedError(problem, field=member)
    if len(value) != len(checks):
        extra = next(member for member in value if member not in checks)
        raise MalformedError("the SDK writes no such member", field=shown(extra))


def check_json(value: Any) -> None:
    """Refuse a value that no JSON file can contain, or that is nested too deep.

    Raises:
        MalformedError: Without a position.
    """
    waiting: list[tuple[Any, int]] = [([value], 0)]
    while waiting:
        part, depth = waiting.pop()
        if depth > MAX_DEPTH:
            raise MalformedError(f"nesting is deeper than {MAX_DEPTH} levels")
        for inner in part.values() if type(part) is dict else part:
            if type(inner) is dict:
                _check_keys(inner)
                waiting.append((inner, depth + 1))
            elif type(inner) is list:
                waiting.append((inner, depth + 1))
            elif type(inner) is not str or not inner.isascii():
                _check_scalar(inner)


def _check_keys(value: Mapping[Any, Any]) -> None:
    for key in value:
        if type(key) is not str:
            raise MalformedError("a key that is not text")
        if not key.isascii():
            _check_scalar(key)


def _check_scalar(value: Any) -> None:
    if type(value) is str:
        if _SURROGATE.search(value):
            raise MalformedError("text with a lone surrogate is not Unicode text")
    elif type(value) is float:
        if not math.isfinite(value):
            raise MalformedError("a number that is not finite")
    elif value is not None and type(value) not in (bool, int):
        raise MalformedError(f"a value of type {type(value).__name__} is not JSON")


def shown(text: object) -> str:
    """Return a foreign name in a form for error messages."""
    return str(text).encode("utf-8", "backslashreplace").decode()[:80]


_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False).encode


def sdk_text(value: Any) -> str:
    """Return the text that the SDK hashes; equal texts are equal values for it.

    Raises:
        ValueError: If a number is not finite.
    """
    return _encode(value)


def content_text(entry: Mapping[str, Any]) -> str:
    """Return the text that an entry's ID covers: every member but the ID."""
    return sdk_text({member: part for member, part in entry.items() if member != "id"})


def entry_id(entry: Mapping[str, Any]) -> str:
    """Return the computed ID of an entry."""
    return digest(content_text(entry).encode())


def root_hash(ids: Iterable[str]) -> str:
    """Return the root: a hash of the sorted list of IDs, and nothing else."""
    return digest(sdk_text(sorted(ids)).encode())


def sign_root(root: str, key: SigningKey) -> str:
    """Return the signature of a root, 128 hexadecimal digits.

    The message starts with ``blake3:``, never with ``DSSEv1``, so it cannot be one of this
    program's payloads.
    """
    return key.sign(root.encode()).hex()


def is_signed_by(root: str, signature: str, public: bytes) -> bool:
    """Return whether ``public`` made the signature.

    Args:
        root: The signed text.
        signature: 128 hexadecimal digits.
        public: A public key, 32 bytes.

    Raises:
        MalformedError: If the key is not a valid point.
    """
    check_point(public)
    try:
        bindings.crypto_sign_open(bytes.fromhex(signature) + root.encode(), public)
    except BadSignatureError:
        return False
    return True


def parents_first(edges: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield each key after the keys it points to, otherwise in the mapping's order; iterative.

    Args:
        edges: The IDs that each ID points to; IDs that are no keys are skipped.

    Raises:
        CycleError: If an ID leads back to itself; its second argument is that ID.
    """
    done: set[str] = set()
    for start in edges:
        if start in done:
            continue
        path = [(start, iter(edges[start]))]
        on_path = {start}
        while path:
            current, rest = path[-1]
            step = next((found for found in rest if found in edges and found not in done), None)
            if step is None:
                path.pop()
                on_path.discard(current)
                done.add(current)
                yield current
            elif step in on_path:
                raise CycleError("an entry is its own ancestor", step)
            else:
                on_path.add(step)
                path.append((step, iter(edges[step])))
