"""The keys that may sign for a bank, as a file shows them: its ``bank`` and ``config`` records.

A file is not the log, so this proves less than the fold of a ledger: config records that the file
lacks are not known. What it does show is judged by the same rules.
Source: docs/spec/5-log.md, SEAL-5.12; docs/spec/6-keys-and-tokens.md.
"""

from collections.abc import Callable
from typing import Any

from satchel.crypto import key_succession
from satchel.crypto.canonical import decode_canonical
from satchel.crypto.key_succession import ENDING, OWNING, SUCCEEDED, KeyState, is_key
from satchel.crypto.limits import Limits
from satchel.crypto.signatures import (
    PayloadType,
    SignatureCheck,
    check,
    parse_signatures,
    signed_part,
)
from satchel.errors import MalformedError
from satchel.model.records import Bank, Config, Redaction

_ADMISSION, _ADOPTED = "writer_added", "adopted"
SPEAKING = ENDING | OWNING | {_ADMISSION, _ADOPTED}
"""The actions of config records that say who may sign."""


class BankKeys:
    """Who may sign for one bank.

    Args:
        bank: Its id; None for a file that was made without one.
        limits: The bounds.
    """

    def __init__(self, bank: str | None, limits: Limits) -> None:
        self.is_founded = False
        """Whether the bank record was there."""

        self.heirs: dict[str, str] = {}
        """Owners' keys that took the place of another, and which."""

        self.adopter: str | None = None
        """The key that took the bank over last; anybody can sign that, so a reader decides."""

        self._bank = bank
        self._limits = limits
        self._keys = KeyState(frozenset(), frozenset())
        self._records: list[str] = []
        """Ids of the config records that were taken, by their number."""

    def found(self, bank: Bank) -> None:
        """Take the record that founded the bank; others change nothing."""
        if bank.id == self._bank:
            self.is_founded = True
            self._keys = self._keys._replace(owners=frozenset(bank.owner_keys))

    def take(self, model: Config, line: bytes) -> None:
        """Take a config record, in the order of the log; what does not count changes nothing."""
        payload = model.payload
        if model.action not in SPEAKING or payload.get("bank") != self._bank:
            return
        by = _signers(PayloadType.CONFIG, line, self._limits)
        before, place = self._keys, len(self._records)
        self._records.append(model.id or "")
        said = (model.action, payload)
        key = payload.get("key")
        if model.action in ENDING:
            self._keys = key_succession.keys_after(before, place, said, by)
            if model.action == SUCCEEDED and self._keys.owners != before.owners:
                self.heirs[str(payload["new"])] = str(payload["old"])
        elif model.action in OWNING:
            self._keys = key_succession.owners_after(before, said, by)
        elif not is_key(key):
            return
        elif model.action == _ADOPTED:
            if key in by:
                self._keys = KeyState(frozenset({key}), frozenset(), before.ended, before.forked)
                self.adopter = key
        elif before.enough(by) and before.ending(key) is None:
            self._keys = before._replace(writers=before.writers | {key})

    def admits(self, key: str) -> bool:
        """Tell whether a head that a key signed counts."""
        return key in self._keys.owners | self._keys.writers

    def problem_of(
        self, redaction: Redaction, line: bytes, seq: int, at: Callable[[str], int | None]
    ) -> str | None:
        """Return why the signature of a logged redaction does not count; None where it does.

        One without a signature stands by the head that covers it, as those of before did.

        Args:
            redaction: The record.
            line: Its canonical bytes.
            seq: Its place in the log.
            at: Gives the proved place of a config record of the file; None for one not proved.
        """
        if not redaction.signatures:
            return None
        valid = _signers(PayloadType.REDACTION, line, self._limits)
        if len(valid) != len(redaction.signatures):
            return "its signature does not match"
        for key in valid:
            found = self._keys.ending(key)
            if found is None:
                continue
            place = at(self._records[found.place])
            if found.action == key_succession.REVOKED and (place is None or place < seq):
                return f"it is signed by {key}, which was revoked"
            if place is not None and place < seq:
                return f"it is signed by {key}, which had been replaced"
        return None


def false_signatures(kind: PayloadType, line: bytes, limits: Limits) -> list[str]:
    """Return what is wrong with the signatures inside a record; empty where they all match."""
    try:
        return [f"{one.key} {one.problem}" for one in _checked(kind, line, limits) if not one.valid]
    except MalformedError as error:
        return [error.message]


def _signers(kind: PayloadType, line: bytes, limits: Limits) -> frozenset[str]:
    """Return the keys whose signatures in a record hold."""
    try:
        return frozenset(one.key for one in _checked(kind, line, limits) if one.valid)
    except MalformedError:
        return frozenset()


def _checked(kind: PayloadType, line: bytes, limits: Limits) -> list[SignatureCheck]:
    value: Any = decode_canonical(line)
    signatures = parse_signatures(value.get("signatures", []), limits.signatures)
    # A token is signed away from its record too, so its signature covers the payload alone.
    covered = value["payload"] if kind is PayloadType.TOKEN else signed_part(value)
    return check(kind, covered, signatures)
