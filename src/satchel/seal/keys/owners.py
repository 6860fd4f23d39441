"""Several owners of a bank, and how many of them have to sign what is decided about it.

Both are ``config`` records, and count from their place in the log on. So every reader agrees, and
who has the key of one owner cannot lower the number. Source: docs/spec/6-keys-and-tokens.md, 6.8.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from satchel.errors import ThresholdError
from satchel.memory.records import Config
from satchel.seal.keys.ended import REVOKED, Added, Keys, is_key
from satchel.seal.records import Sealed

OWNER_ADDED = "owner_added"
"""The action of the config record by which owners take in another, who signs it as well."""

THRESHOLD_SET = "threshold_set"
"""The action of the config record that says how many owners have to sign."""

OWNING = frozenset({OWNER_ADDED, THRESHOLD_SET})

MOST_OWNERS = 15
"""With the heir of one of them as many as may sign one record."""

_MEMBERS = {
    OWNER_ADDED: frozenset({"bank", "key"}),
    THRESHOLD_SET: frozenset({"bank", "threshold", "turn"}),
}


_ELSEWHERE = (
    "If the key is on another machine: add --propose FILE, sign it there with satchel bank owner "
    "sign FILE, then run satchel bank owner enact FILE."
)


def after(keys: Keys, said: tuple[str, Mapping[str, Any]], by: frozenset[str]) -> Keys:
    """Return the keys of a bank after a record about its owners; as they were if it counts not.

    Args:
        keys: Those before it.
        said: Its action, and its payload, which names the bank.
        by: Whose signatures in it hold.
    """
    action, payload = said
    if payload.keys() - {"reason"} != _MEMBERS[action] or not keys.enough(by):
        return keys
    if action == OWNER_ADDED:
        key = payload["key"]
        # Who was admitted as a writer may become an owner; who ended does not come back.
        fits = is_key(key) and key in by and key not in keys.owners and keys.ending(key) is None
        if not fits or len(keys.owners) >= MOST_OWNERS:
            return keys
        took_in = Added(key, by & keys.owners, keys.owners)
        return keys._replace(owners=keys.owners | {key}, added=(*keys.added, took_in))
    number, turn = payload["threshold"], payload["turn"]
    # The turn: else an old record could be brought again, and lower it.
    if type(number) is not int or type(turn) is not int or turn != keys.turns:
        return keys
    if not 1 <= number <= len(keys.owners):
        return keys
    return keys._replace(threshold=number, turns=keys.turns + 1)


def require_enough(keys: Keys, record: Sealed, by: frozenset[str], drawn: Sequence[Sealed]) -> None:
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
