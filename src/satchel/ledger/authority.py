"""The keys that may sign the heads of a bank, and its epoch, as its ``config`` records define them.

Owners sign these records. One action admits a writer key; three end a key (see ``crypto.keys``).
The others resume the log after its end was lost, after it forked, or after its keys were lost. Such
a decision follows directly on the state that it resumes, names the root of that state and the head
that is abandoned, and starts the next epoch. Nothing else starts one, so the epoch of a head
follows from the log.

Only records that are verified to be in the log count. Source: docs/spec/5-log.md,
docs/spec/6-keys-and-tokens.md.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta

from satchel.crypto.keys import (
    ENDING,
    OWNER_ADDED,
    OWNING,
    SUCCEEDED,
    THRESHOLD_SET,
    KeyEnd,
    KeyState,
    OwnerAddition,
    PayloadType,
    SigningKey,
    check,
    keys_after,
    owners_after,
    parse_signatures,
    sign,
    signed_part,
    unrevoked_end,
)
from satchel.crypto.keys import REVOKED as KEY_REVOKED
from satchel.crypto.log import Head
from satchel.crypto.sealed_records import Sealed, seal
from satchel.errors import MalformedError, VerificationError
from satchel.model.records import Bank, Config, Count, KeyId
from satchel.model.values import Id, resolved

ADMISSION = "writer_added"
"""The action of the config record that admits a writer key."""

RENAMED = "renamed"
"""The action of the config record that renames a bank."""

REVOKED = "token_revoked"
"""The action of the config record that revokes a capability token."""

ACCEPTED, RESTORED, ADOPTED = "rollback_accepted", "restored", "adopted"
DECISIONS = frozenset({ACCEPTED, RESTORED, ADOPTED})
"""The actions of the config records that start an epoch."""

RootAt = Callable[[int], str]
"""Returns the root of a log at a size, as text."""

_MOST_SIGNATURES = 16


class LogState(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One state of a log."""

    epoch: Count
    size: Annotated[int, Meta(ge=1)]
    root: Id

    @classmethod
    def of(cls, head: Head) -> "LogState":
        """Return the state of a head."""
        return cls(epoch=head.epoch, size=head.size, root=head.root)


class EpochDecision(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """The payload of a config record that resumes a log and starts an epoch."""

    bank: Id
    epoch: Count
    """The new epoch."""

    resumed: LogState
    """The state that the log resumes from; this record is the next one."""

    abandoned: LogState | None = None
    """The newest state that is abandoned, if one was known."""

    key: KeyId | None = None
    """The new owner, for an adoption."""

    reason: str | None = None

    def fits(self, seq: int, epoch: int, root_at: RootAt) -> bool:
        """Return whether the decision was made for this position of this log.

        Args:
            seq: Its log position.
            epoch: The epoch of the log before it.
            root_at: The roots of the log.
        """
        newest = max(epoch, self.abandoned.epoch if self.abandoned is not None else 0)
        return (
            self.resumed.size == seq
            and self.resumed.epoch == epoch
            and self.epoch == newest + 1
            and self.resumed.root == root_at(seq)
        )


class RecordedDecision(NamedTuple):
    """A decision in force, and how it was made."""

    decision: EpochDecision
    action: str
    at: str | None
    """By the clock of the machine that made it."""


@dataclass(frozen=True, slots=True)
class Authority:
    """The keys of a bank, and the decisions in force."""

    owners: frozenset[str]
    writers: frozenset[str] = frozenset()
    former: frozenset[str] = frozenset()
    """Owners before the bank was adopted."""

    decided: tuple[RecordedDecision, ...] = ()
    """In log order."""

    name: str | None = None
    """The newest name that an owner, or the founder, gave the bank."""

    revoked: frozenset[str] = frozenset()
    """IDs of the capability tokens that an owner revoked."""

    ended: tuple[KeyEnd, ...] = ()
    """Ends of keys of the bank, in log order."""

    forked: tuple[KeyEnd, ...] = ()
    """Second successions of a key, which have no effect."""

    threshold: int = 1
    """Number of owners that must sign a decision."""

    turns: int = 0
    """Number of times that the threshold was set."""

    added: tuple[OwnerAddition, ...] = ()
    """Owners that others added, in log order."""

    @property
    def keys(self) -> KeyState:
        """The keys, ended ones included."""
        of = (self.owners, self.writers, self.ended, self.forked)
        return KeyState(*of, self.threshold, self.turns, self.added)

    @property
    def revoked_keys(self) -> frozenset[str]:
        """Keys of the bank that an owner revoked."""
        return self.keys.revoked

    @property
    def epoch(self) -> int:
        """The current epoch of the log."""
        return self.decided[-1].decision.epoch if self.decided else 0

    @property
    def adoption(self) -> EpochDecision | None:
        """The newest adoption."""
        found = (one.decision for one in reversed(self.decided) if one.action == ADOPTED)
        return next(found, None)

    def admits(self, key: str) -> bool:
        """Return whether heads signed by a key are valid."""
        return key in self.owners or key in self.writers

    def owned_by(self, known: frozenset[str]) -> bool:
        """Return whether every owner is in ``known``, succeeds one, or was added by them."""
        keys = self.keys
        believed = keys.trusted_with(known)
        return all(keys.lineage(owner) & believed for owner in self.owners)

    def unrevoked_end(self, key: str) -> int | None:
        """Return the log position at which a key ended unrevoked; None if it did not."""
        newest = self.adoption
        return unrevoked_end(self.keys, key, 0 if newest is None else newest.resumed.size)

    def refusal_reason(self, key: str) -> str:
        """Return why the heads of a key are not valid, in words."""
        end = self.keys.last_end(key)
        if end is None:
            return "which no owner admitted"
        how = "revoked" if end.action == KEY_REVOKED else "retired"
        return f"which record {end.place} of the log {how}"


def starts_epoch(record: Sealed) -> bool:
    """Return whether a record is a decision, in force or not."""
    model = record.model if record.type == "config" else None
    return isinstance(model, Config) and model.action in DECISIONS


def founding_authority(bank: Sealed) -> Authority:
    """Return the authority of a log that has its first record only.

    Raises:
        VerificationError: If it is not a bank record.
    """
    if not isinstance(bank.model, Bank):
        raise VerificationError("the first record of the log is not a bank record")
    return Authority(frozenset(bank.model.owner_keys), name=bank.model.name)


def apply_configs(
    authority: Authority, bank: str, configs: Iterable[tuple[int, Sealed]], root_at: RootAt
) -> Authority:
    """Return the authority after config records.

    Records without enough valid signatures, or made for another bank or position, have no effect.

    Args:
        authority: The authority before them.
        bank: The bank.
        configs: The records with their log positions, in order.
        root_at: The roots of the log up to these records.
    """
    for seq, record in configs:
        model = record.model
        if not isinstance(model, Config):
            continue
        decision = parse_decision(model)
        if decision is not None:
            # Compare the position first: verifying signatures costs more.
            fits = decision.bank == bank and decision.fits(seq, authority.epoch, root_at)
            if fits and _may_decide(authority, decision, signers(record)):
                authority = _apply_decision(
                    authority, RecordedDecision(decision, model.action, model.at)
                )
        elif model.payload.get("bank") == bank:
            # Require the bank in the signed payload: otherwise a record could be replayed in
            # another bank.
            authority = _apply_config(authority, seq, record, model)
    return authority


def _apply_config(authority: Authority, seq: int, record: Sealed, model: Config) -> Authority:
    """Return the authority after a record about the bank that starts no epoch."""
    if model.action in ENDING:
        said = (model.action, model.payload)
        keys = keys_after(authority.keys, seq, said, signers(record))
        return replace(authority, **keys._asdict())
    if model.action in OWNING:
        keys = owners_after(authority.keys, (model.action, model.payload), signers(record))
        return replace(authority, **keys._asdict())
    member = {ADMISSION: "key", RENAMED: "name", REVOKED: "token"}.get(model.action)
    value = model.payload.get(member) if member is not None else None
    by = signers(record)
    # One owner alone may revoke a token.
    said_by = by & authority.owners if model.action == REVOKED else authority.keys.has_enough(by)
    if not isinstance(value, str) or not said_by:
        return authority
    if model.action == RENAMED:
        return replace(authority, name=value)
    if model.action == REVOKED:
        return replace(authority, revoked=authority.revoked | {value})
    if authority.keys.last_end(value) is not None:  # an ended key is not admitted again
        return authority
    return replace(authority, writers=authority.writers | {value})


def parse_decision(model: Config) -> EpochDecision | None:
    """Return the decision in a config record; None if there is no valid one."""
    if model.action not in DECISIONS:
        return None
    try:
        decision = msgspec.convert(model.payload, resolved(EpochDecision))
    except msgspec.ValidationError:
        return None
    adopts, gives_up = decision.key is not None, decision.abandoned is not None
    whole = adopts is (model.action == ADOPTED) and (gives_up or model.action != ACCEPTED)
    return decision if whole else None


def _may_decide(authority: Authority, decision: EpochDecision, by: frozenset[str]) -> bool:
    # Anybody can adopt a copy; each reader decides whether to trust the adopter (``heads.judge``).
    return authority.keys.has_enough(by) if decision.key is None else decision.key in by


def _apply_decision(authority: Authority, decided: RecordedDecision) -> Authority:
    key = decided.decision.key
    if key is not None:
        former = authority.former | authority.owners
        authority = replace(authority, owners=frozenset({key}), writers=frozenset(), former=former)
        authority = replace(authority, threshold=1, added=())
    return replace(authority, decided=(*authority.decided, decided))


def signers(record: Sealed) -> frozenset[str]:
    """Return the keys whose signatures of a record are valid."""
    try:
        signatures = parse_signatures(record.value.get("signatures", []), _MOST_SIGNATURES)
    except MalformedError:
        return frozenset()
    checks = check(PayloadType.CONFIG, signed_part(record.value), signatures)
    return frozenset(found.key for found in checks if found.valid)


def admission_record(
    bank: str, writer: str, owner: SigningKey, at: str, *also: SigningKey
) -> Sealed:
    """Return the record that admits a writer key, signed by an owner and others."""
    draft = Config(action=ADMISSION, payload={"bank": bank, "key": writer}, at=at)
    return signed_config(draft, owner, *also)


def rename_record(bank: str, name: str, owner: SigningKey, at: str, *also: SigningKey) -> Sealed:
    """Return the record that renames a bank, signed by an owner and others."""
    draft = Config(action=RENAMED, payload={"bank": bank, "name": name}, at=at)
    return signed_config(draft, owner, *also)


def token_revocation_record(
    bank: str, token: str, owner: SigningKey, at: str, reason: str | None
) -> Sealed:
    """Return the record that revokes a capability token, and all tokens made from it."""
    payload = {"bank": bank, "token": token} | ({"reason": reason} if reason else {})
    return signed_config(Config(action=REVOKED, payload=payload, at=at), owner)


def succession_record(
    bank: str, old: SigningKey, new: SigningKey, at: str, *also: SigningKey
) -> Sealed:
    """Return the record that replaces an owner's key, signed by the old and the new key."""
    payload = {"bank": bank, "old": old.did, "new": new.did}
    draft = Config(action=SUCCEEDED, payload=payload, at=at)
    return signed_config(draft, old, new, *also)


def owner_addition_record(bank: str, key: str, at: str, *by: SigningKey) -> Sealed:
    """Return the record that adds an owner; the added key must be one of the signers."""
    payload = {"bank": bank, "key": key}
    return signed_config(Config(action=OWNER_ADDED, payload=payload, at=at), *by)


def threshold_record(bank: str, threshold: int, turn: int, at: str, *by: SigningKey) -> Sealed:
    """Return the record that sets how many owners must sign a decision."""
    payload = {"bank": bank, "threshold": threshold, "turn": turn}
    return signed_config(Config(action=THRESHOLD_SET, payload=payload, at=at), *by)


def key_end_record(
    action: str,
    bank: str,
    key: str,
    owner: SigningKey,
    at: str,
    reason: str | None = None,
    *also: SigningKey,
) -> Sealed:
    """Return the record that retires or revokes a key, signed by an owner and others."""
    payload = {"bank": bank, "key": key} | ({"reason": reason} if reason else {})
    return signed_config(Config(action=action, payload=payload, at=at), owner, *also)


def decision_record(
    action: str, decision: EpochDecision, key: SigningKey, at: str, *also: SigningKey
) -> Sealed:
    """Return the record that resumes a log, signed by an owner, or by the adopter."""
    draft = Config(action=action, payload=msgspec.to_builtins(decision), at=at)
    return signed_config(draft, key, *also)


def signed_config(draft: Config, *owners: SigningKey) -> Sealed:
    """Return a config record signed by one or more keys."""
    unsigned = seal(draft)
    keys = {key.did: key for key in owners}  # each key signs once
    signatures = sign(PayloadType.CONFIG, signed_part(unsigned.value), keys.values())
    whole = msgspec.structs.replace(
        draft,
        nonce=unsigned.value["nonce"],
        signatures=tuple(msgspec.to_builtins(signature) for signature in signatures),
    )
    return seal(whole)
