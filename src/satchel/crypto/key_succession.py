"""How the keys of a bank end: succeeded by another, retired in honour, or revoked.

Each is a ``config`` record, and counts from its place in the log on: what stands before it stays,
whatever a clock says of it. Source: docs/spec/6-keys-and-tokens.md, 6.3 and 6.4.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeGuard

from satchel.crypto.sealed_records import Sealed
from satchel.crypto.signatures import public_key
from satchel.errors import MalformedError, ThresholdError
from satchel.model.records import Config

SUCCEEDED = "key_succession"
"""The action of the config record by which an owner's key is replaced: signed by both."""

RETIRED = "key_retired"
"""The action of the config record by which an owner lets a key go whose word was good."""

REVOKED = "key_revoked"
"""The action of the config record by which an owner takes a key's word back."""

ENDING = frozenset({SUCCEEDED, RETIRED, REVOKED})

_MEMBERS = {
    SUCCEEDED: frozenset({"bank", "old", "new"}),
    RETIRED: frozenset({"bank", "key"}),
    REVOKED: frozenset({"bank", "key"}),
}


class KeyEnd(NamedTuple):
    """That a key counts no more."""

    key: str
    place: int
    """Of the record that says so; what the key signed before it stays."""

    action: str
    heir: str | None = None
    """Who took its place."""


class OwnerAddition(NamedTuple):
    """That owners made a key one of theirs."""

    key: str
    by: frozenset[str]
    """The owners who signed it."""

    owners: frozenset[str]
    """All of that moment."""


class KeyState(NamedTuple):
    """The keys of a bank at one place of its log."""

    owners: frozenset[str]
    writers: frozenset[str]
    ended: tuple[KeyEnd, ...] = ()
    """In the order of the log; a key that is retired may be revoked later."""

    forked: tuple[KeyEnd, ...] = ()
    """Further successions of a key that had one; they count for nothing."""

    threshold: int = 1
    """How many owners have to sign what is decided about the bank."""

    turns: int = 0
    """How often that number was set."""

    added: tuple[OwnerAddition, ...] = ()
    """Owners that the others took in, in the order of the log."""

    def enough(self, by: frozenset[str], *, but: str | None = None) -> bool:
        """Tell whether enough owners signed; what one says of itself may be left out."""
        return len(by & (self.owners - {but})) >= self.threshold

    def ending(self, key: str) -> KeyEnd | None:
        """Return how a key ended last; None for one that did not."""
        return next((one for one in reversed(self.ended) if one.key == key), None)

    @property
    def revoked(self) -> frozenset[str]:
        """Keys whose word was taken back."""
        return frozenset(one.key for one in self.ended if one.action == REVOKED)

    def line_of(self, owner: str) -> frozenset[str]:
        """Return an owner's key and those that it took the place of, one after the other.

        Not those of before a key that was revoked: its word for an heir is worth nothing to
        whoever did not see it in time.
        """
        before = {one.heir: one.key for one in self.ended if one.action == SUCCEEDED}
        found, revoked = {owner}, self.revoked
        while (key := before.get(owner)) is not None and key not in revoked:
            found.add(key)
            owner = key
        return frozenset(found)

    def believed(self, known: frozenset[str]) -> frozenset[str]:
        """Return some keys, and those whom owners took in who are all of these, or heirs of them.

        Not somebody whom a key took in that was revoked since: see ``line_of``.
        """
        found, revoked = set(known), self.revoked
        for one in self.added:
            if not one.by & revoked and all(self.line_of(owner) & found for owner in one.owners):
                found.add(one.key)
        return frozenset(found)


def keys_after(
    keys: KeyState, place: int, said: tuple[str, Mapping[str, Any]], by: frozenset[str]
) -> KeyState:
    """Return the keys of a bank after a record that ends one; as they were where it does not count.

    Args:
        keys: Those before it.
        place: Where it stands.
        said: Its action, and its payload, which names the bank.
        by: Whose signatures in it hold.
    """
    action, payload = said
    if not _MEMBERS[action] <= payload.keys() <= _MEMBERS[action] | {"reason"}:
        return keys
    if action == SUCCEEDED:
        return _succeeded(keys, place, payload, by)
    key = payload["key"]
    if not is_key(key) or key in keys.revoked:
        return keys
    if action == RETIRED and (key not in keys.owners | keys.writers or not keys.enough(by)):
        return keys
    # A key cannot say of itself that it was stolen: whoever stole it could say so of the others.
    if action == REVOKED and not keys.enough(by, but=key):
        return keys
    owners = keys.owners - {key}
    if len(owners) < keys.threshold:  # the bank could never be decided about again
        return keys
    return keys._replace(
        owners=owners,
        writers=keys.writers - {key},
        ended=(*keys.ended, KeyEnd(key, place, action)),
    )


def _succeeded(
    keys: KeyState, place: int, payload: Mapping[str, Any], by: frozenset[str]
) -> KeyState:
    old, new = payload["old"], payload["new"]
    if not is_key(old) or not is_key(new) or old == new or not {old, new} <= by:
        return keys
    found = KeyEnd(old, place, SUCCEEDED, new)
    if old not in keys.owners:
        heirs = {one.heir for one in keys.ended if one.key == old and one.heir is not None}
        return keys._replace(forked=(*keys.forked, found)) if heirs - {new} else keys
    if not is_new(keys, new) or not keys.enough(by):
        return keys
    owners = (keys.owners - {old}) | {new}
    return keys._replace(owners=owners, ended=(*keys.ended, found))


def is_new(keys: KeyState, key: str) -> bool:
    """Tell whether a key had no part in a bank yet: one that ended does not come back."""
    return key not in keys.owners | keys.writers and keys.ending(key) is None


def is_key(value: object) -> TypeGuard[str]:
    """Tell whether a value is a usable key."""
    if not isinstance(value, str):
        return False
    try:
        public_key(value)
    except MalformedError:
        return False
    return True


def honest_end(keys: KeyState, key: str, since: int) -> int | None:
    """Return the place up to which a key that ended in honour was an owner's; None otherwise.

    Args:
        keys: The keys of the bank.
        key: The key.
        since: The place of the last adoption, before which owners were others; 0 for none.
    """
    found = keys.ending(key)
    if found is None or found.action == REVOKED or found.place < since:
        return None
    return found.place


OWNER_ADDED = "owner_added"
"""The action of the config record by which owners take in another, who signs it as well."""

THRESHOLD_SET = "threshold_set"
"""The action of the config record that says how many owners have to sign."""

OWNING = frozenset({OWNER_ADDED, THRESHOLD_SET})

MOST_OWNERS = 15
"""With the heir of one of them as many as may sign one record."""

_OWNER_MEMBERS = {
    OWNER_ADDED: frozenset({"bank", "key"}),
    THRESHOLD_SET: frozenset({"bank", "threshold", "turn"}),
}


_ELSEWHERE = (
    "If the key is on another machine: add --propose FILE, sign it there with satchel bank owner "
    "sign FILE, then run satchel bank owner enact FILE."
)


def owners_after(
    keys: KeyState, said: tuple[str, Mapping[str, Any]], by: frozenset[str]
) -> KeyState:
    """Return the keys of a bank after a record about its owners; as they were if it counts not.

    Args:
        keys: Those before it.
        said: Its action, and its payload, which names the bank.
        by: Whose signatures in it hold.
    """
    action, payload = said
    if payload.keys() - {"reason"} != _OWNER_MEMBERS[action] or not keys.enough(by):
        return keys
    if action == OWNER_ADDED:
        key = payload["key"]
        # Who was admitted as a writer may become an owner; who ended does not come back.
        fits = is_key(key) and key in by and key not in keys.owners and keys.ending(key) is None
        if not fits or len(keys.owners) >= MOST_OWNERS:
            return keys
        took_in = OwnerAddition(key, by & keys.owners, keys.owners)
        return keys._replace(owners=keys.owners | {key}, added=(*keys.added, took_in))
    number, turn = payload["threshold"], payload["turn"]
    # The turn: else an old record could be brought again, and lower it.
    if type(number) is not int or type(turn) is not int or turn != keys.turns:
        return keys
    if not 1 <= number <= len(keys.owners):
        return keys
    return keys._replace(threshold=number, turns=keys.turns + 1)


def require_enough(
    keys: KeyState, record: Sealed, by: frozenset[str], drawn: Sequence[Sealed]
) -> None:
    """Require that enough owners signed a record.

    Args:
        keys: The keys of the bank before it.
        record: What was decided.
        by: Whose signatures in it hold.
        drawn: It and what goes with it, for others to sign.

    Raises:
        ThresholdError: If not; it has what was drawn.
    """
    action, key = "", ""
    if isinstance(model := record.model, Config):
        action, key = model.action, str(model.payload.get("key"))
    but = key if action == REVOKED else None
    if keys.enough(by, but=but):
        if action == OWNER_ADDED and key not in by:
            raise ThresholdError(
                "a new owner must agree, and did not sign this",
                field="key",
                hint=_ELSEWHERE,
                drawn=[one.body for one in drawn],
            )
        return
    there = len(by & (keys.owners - {but}))
    raise ThresholdError(
        f"{keys.threshold} of the {len(keys.owners)} owners of the bank must sign this, and "
        f"{there} did",
        field="key",
        hint=f"Add more of their keys: --co-signer NAME. {_ELSEWHERE}",
        drawn=[one.body for one in drawn],
    )
