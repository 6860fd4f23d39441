"""Making sealed records: a draft gets its nonce and its content address.

Ordinary entries take few steps, in C; whatever is out of the ordinary in a draft takes the careful
way, which says what is wrong and where. Both give the same bytes. Source: docs/spec/2-records.md.
"""

import os
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, cast

import msgspec
from blake3 import blake3
from msgspec.structs import force_setattr

from satchel.errors import MalformedError, UsageError, ValueRefusedError
from satchel.memory.entries import ENTRY_CLASSES, Entry
from satchel.memory.parts import Component, is_hex
from satchel.memory.records import AnyRecord, Model
from satchel.memory.times import now
from satchel.seal.encoding.domain import checked, is_empty, plain
from satchel.seal.encoding.jcs import canonical_checked, encode_sorted
from satchel.seal.encoding.ordinary import is_ordinary
from satchel.seal.limits import DEFAULT_LIMITS, Limits, check_record
from satchel.seal.records import (
    PREFIX,
    Sealed,
    digest,
    known_members,
    shape_problem,
)
from satchel.type_info import resolved

_decode_typed = msgspec.json.Decoder(resolved(AnyRecord)).decode

# As long as an id, and nothing that a record could hold.
STAND_IN = PREFIX + os.urandom(32).hex()
STAND_IN_MEMBER = b'"id":"%b",' % STAND_IN.encode()
_NONCE_DIGITS = 32
ENTRY_TAGS: dict[type[Model], str] = {cls: name.value for name, cls in ENTRY_CLASSES.items()}

Nonces = Callable[[], str]
"""Gives a new 128-bit nonce, 32 lower-case hex digits, at each call."""


def random_nonce() -> str:
    """Return 128 random bits."""
    return os.urandom(16).hex()


def seeded_nonces(seed: bytes) -> Nonces:
    """Return nonces drawn from ``seed``: the same seed gives the same row.

    For an import that may be resumed; the seed must be random, kept secret, and deleted when the
    import commits.
    """
    stream = blake3(seed, derive_key_context="satchel 2026 import nonces")
    position = 0

    def draw() -> str:
        nonlocal position
        position += 16
        return stream.digest(length=16, seek=position - 16).hex()

    return draw


def seal(
    draft: Model,
    *,
    nonces: Nonces = random_nonce,
    unknown: dict[str, Any] | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Sealed:
    """Give a draft its nonce and its id.

    Args:
        draft: A record value; a nonce it has is kept, an id it has must be right.
        nonces: Where a new nonce comes from.
        unknown: Members beyond the model, written at the top level.
        limits: The bounds on a record.

    Raises:
        ValueRefusedError: If the value has no canonical form, or a member has the wrong shape.
        LimitError: If the record is too large.
    """
    nonce = nonces() if draft.nonce is None else draft.nonce
    ours = draft.nonce is None and nonces is random_nonce
    sound = ours or (len(nonce) == _NONCE_DIGITS and is_hex(nonce))
    if not unknown and draft.id is None and sound and type(draft) in ENTRY_TAGS:
        record = _sealed_quickly(cast("Entry", draft), nonce, limits)
        if record is not None:
            return record
    return _sealed_carefully(draft, nonce, unknown, limits)


def _sealed_quickly(draft: Entry, nonce: str, limits: Limits) -> Sealed | None:
    """Return the record where the encoder's bytes certainly are those of the careful way."""
    if not is_ordinary(draft):
        return None
    made = copy(draft)
    force_setattr(made, "nonce", nonce)  # on a copy that nobody else has seen
    force_setattr(made, "id", STAND_IN)
    try:
        line = encode_sorted(made)
    except UnicodeEncodeError:  # a lone surrogate
        return None
    check_record(draft, len(line), limits)
    identity, body = _with_id(line)
    return Sealed(identity, ENTRY_TAGS[type(draft)], body)


def _sealed_carefully(
    draft: Model, nonce: str, unknown: dict[str, Any] | None, limits: Limits
) -> Sealed:
    value = plain(draft)
    if unknown:
        _add_unknown(value, unknown)
    value.setdefault("nonce", nonce)
    claimed = value.pop("id", None)
    identity, body = _with_id(canonical_checked({**value, "id": STAND_IN}))
    if claimed is not None and claimed != identity:
        raise ValueRefusedError(
            f"the ID does not match the content, whose ID is {identity}", field="id"
        )
    try:
        # A struct made in a program is not checked by anyone before.
        made = _decode_typed(body)
    except msgspec.ValidationError as error:
        problem, field = shape_problem(error)
        raise ValueRefusedError(f"readers would reject this: {problem}", field=field) from None
    check_record(made, len(body), limits)
    return Sealed(identity, value["type"], body)


def _with_id(line: bytes) -> tuple[str, bytes]:
    """Return the id of a record around the stand-in, and the record with it in its place."""
    before, _, after = line.partition(STAND_IN_MEMBER)
    identity = digest(before + after)
    return identity, b'%b"id":"%b",%b' % (before, identity.encode(), after)


def _add_unknown(value: dict[str, Any], unknown: dict[str, Any]) -> None:
    clash = sorted(known_members(value["type"]) & unknown.keys())
    if clash:
        raise ValueRefusedError("not an unknown member", field=clash[0])
    value.update(checked({name: part for name, part in unknown.items() if not is_empty(part)}))


def derive(
    parents: Sequence[Sealed], fields: dict[str, Any], *, nonces: Nonces = random_nonce
) -> Sealed:
    """Make a new entry that was drawn from ``parents`` (the paper's ``derive``, section 3.2).

    Args:
        parents: The entries it comes from, at least one.
        fields: Its members; ``type`` is one of the five components. ``created_at`` is now unless
            given.
        nonces: Where its nonce comes from.

    Raises:
        UsageError: If there is no parent, a parent is not an entry, or the type is not a component.
        MalformedError: If a member has the wrong shape.
    """
    component = fields.get("type")
    if not isinstance(component, str) or component not in set(Component):
        raise UsageError(f"the type must be one of {', '.join(Component)}", field="type")
    if not parents or any(parent.type not in set(Component) for parent in parents):
        raise UsageError("an entry must derive from at least one entry", field="parent_ids")
    made = {"created_at": now(), **fields, "parent_ids": [parent.id for parent in parents]}
    cls = ENTRY_CLASSES[Component(component)]
    members = known_members(component)
    known = {name: part for name, part in made.items() if name in members}
    unknown = {name: part for name, part in made.items() if name not in members}
    try:
        entry: Entry = msgspec.convert(known, resolved(cls))
    except msgspec.ValidationError as error:
        raise MalformedError(f"not an entry: {error}") from None
    return seal(entry, nonces=nonces, unknown=unknown)
