"""Who may sign the heads of a bank, and in which epoch: what its ``config`` records decide.

Owners sign them. One action admits a writer key; three end a key (see ``keys.ended``). The others
take the log up again, after its end was lost, it went two ways, or its keys were lost: such a
decision stands exactly where the log goes on, names the root up to there and the head that is given
up, and starts the next epoch. Nothing else does, so the epoch of a head follows from the log.

Read from the log itself, from records that are proved to be in it; nothing beside the log is
asked. Source: docs/spec/5-log.md, docs/spec/6-keys-and-tokens.md.
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
    honest_end,
    keys_after,
    owners_after,
    parse_signatures,
    sign,
    signed_part,
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
"""The action of the config record that gives a bank another name."""

REVOKED = "token_revoked"
"""The action of the config record that ends a capability token."""

ACCEPTED, RESTORED, ADOPTED = "rollback_accepted", "restored", "adopted"
DECISIONS = frozenset({ACCEPTED, RESTORED, ADOPTED})
"""The actions of the config records that start an epoch."""

RootAt = Callable[[int], str]
"""Gives the root that a log had at a size, as text."""

_MOST_SIGNATURES = 16


class LogState(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One state of a log."""

    epoch: Count
    size: Annotated[int, Meta(ge=1)]
    root: Id

    @classmethod
    def of(cls, head: Head) -> "LogState":
        """Return the state that a head is of."""
        return cls(epoch=head.epoch, size=head.size, root=head.root)


class EpochDecision(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """That a log is taken up again: the payload of a config record that starts an epoch."""

    bank: Id
    epoch: Count
    """The new one."""

    resumed: LogState
    """The state that the log goes on from; the record is the next after it."""

    abandoned: LogState | None = None
    """The newest state that is given up, where one was known."""

    key: KeyId | None = None
    """The new owner, for an adoption."""

    reason: str | None = None

    def fits(self, seq: int, epoch: int, root_at: RootAt) -> bool:
        """Tell whether it was made for this place of this log.

        Args:
            seq: Where it stands.
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
    """A decision that counts, and how it was made."""

    decision: EpochDecision
    action: str
    at: str | None
    """By the clock of whoever made it."""


@dataclass(frozen=True, slots=True)
class Authority:
    """The keys of a bank, and the decisions that it stands on."""

    owners: frozenset[str]
    writers: frozenset[str] = frozenset()
    former: frozenset[str] = frozenset()
    """Owners before the bank was adopted."""

    decided: tuple[RecordedDecision, ...] = ()
    """In the order of the log."""

    name: str | None = None
    """What an owner called the bank last, or whoever founded it."""

    revoked: frozenset[str] = frozenset()
    """Ids of capability tokens that an owner revoked."""

    ended: tuple[KeyEnd, ...] = ()
    """How keys of the bank ended, in the order of the log."""

    forked: tuple[KeyEnd, ...] = ()
    """Second successions of a key, which count for nothing."""

    threshold: int = 1
    """How many owners have to sign a decision."""

    turns: int = 0
    """How often that was set."""

    added: tuple[OwnerAddition, ...] = ()
    """Owners that others took in, in the order of the log."""

    @property
    def keys(self) -> KeyState:
        """The keys, those that ended among them."""
        of = (self.owners, self.writers, self.ended, self.forked)
        return KeyState(*of, self.threshold, self.turns, self.added)

    @property
    def revoked_keys(self) -> frozenset[str]:
        """Keys of the bank whose word an owner took back."""
        return self.keys.revoked

    @property
    def epoch(self) -> int:
        """The epoch that the log is in."""
        return self.decided[-1].decision.epoch if self.decided else 0

    @property
    def adoption(self) -> EpochDecision | None:
        """The newest adoption."""
        found = (one.decision for one in reversed(self.decided) if one.action == ADOPTED)
        return next(found, None)

    def admits(self, key: str) -> bool:
        """Tell whether heads signed by a key count."""
        return key in self.owners or key in self.writers

    def owned_by(self, known: frozenset[str]) -> bool:
        """Tell whether every owner is one of some keys, their heir, or was taken in by them."""
        keys = self.keys
        believed = keys.believed(known)
        return all(keys.line_of(owner) & believed for owner in self.owners)

    def owner_until(self, key: str) -> int | None:
        """Return the place where a key ended in honour; None for one that did not, or was none."""
        newest = self.adoption
        return honest_end(self.keys, key, 0 if newest is None else newest.resumed.size)

    def why_not(self, key: str) -> str:
        """Return in words why the heads of a key do not count."""
        found = self.keys.ending(key)
        if found is None:
            return "which no owner admitted"
        how = "revoked" if found.action == KEY_REVOKED else "retired"
        return f"which record {found.place} of the log {how}"


def starts_epoch(record: Sealed) -> bool:
    """Tell whether a record is a decision, whether it counts or not."""
    model = record.model if record.type == "config" else None
    return isinstance(model, Config) and model.action in DECISIONS


def founding(bank: Sealed) -> Authority:
    """Return who may sign when only the first record is there.

    Raises:
        VerificationError: If it is not a bank record.
    """
    if not isinstance(bank.model, Bank):
        raise VerificationError("the first record of the log is not a bank record")
    return Authority(frozenset(bank.model.owner_keys), name=bank.model.name)


def with_configs(
    authority: Authority, bank: str, configs: Iterable[tuple[int, Sealed]], root_at: RootAt
) -> Authority:
    """Return who may sign once config records are taken into account.

    What was signed by nobody who may, or made for another bank or place, changes nothing.

    Args:
        authority: Who may sign before them.
        bank: The bank.
        configs: Each with its place, in the order of the log.
        root_at: The roots of the log up to them.
    """
    for seq, record in configs:
        model = record.model
        if not isinstance(model, Config):
            continue
        decision = decision_of(model)
        if decision is not None:
            # The place first: who signed costs more to know.
            fits = decision.bank == bank and decision.fits(seq, authority.epoch, root_at)
            if fits and _may_decide(authority, decision, signers(record)):
                authority = _after(authority, RecordedDecision(decision, model.action, model.at))
        elif model.payload.get("bank") == bank:
            # Without the bank in what is signed, one bank's admission could be carried to another.
            authority = _told(authority, seq, record, model)
    return authority


def _told(authority: Authority, seq: int, record: Sealed, model: Config) -> Authority:
    """Return who may sign after a record that is about the bank and starts no epoch."""
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
    # What takes away only is for each of them to say.
    said_by = by & authority.owners if model.action == REVOKED else authority.keys.enough(by)
    if not isinstance(value, str) or not said_by:
        return authority
    if model.action == RENAMED:
        return replace(authority, name=value)
    if model.action == REVOKED:
        return replace(authority, revoked=authority.revoked | {value})
    if authority.keys.ending(value) is not None:  # what ended does not come back
        return authority
    return replace(authority, writers=authority.writers | {value})


def decision_of(model: Config) -> EpochDecision | None:
    """Return the decision that a config record states; None when it states none."""
    if model.action not in DECISIONS:
        return None
    try:
        found = msgspec.convert(model.payload, resolved(EpochDecision))
    except msgspec.ValidationError:
        return None
    adopts, gives_up = found.key is not None, found.abandoned is not None
    whole = adopts is (model.action == ADOPTED) and (gives_up or model.action != ACCEPTED)
    return found if whole else None


def _may_decide(authority: Authority, decision: EpochDecision, by: frozenset[str]) -> bool:
    # Anybody can adopt a copy; who believes it is for each reader to judge (see ``epochs``).
    return authority.keys.enough(by) if decision.key is None else decision.key in by


def _after(authority: Authority, decided: RecordedDecision) -> Authority:
    key = decided.decision.key
    if key is not None:
        former = authority.former | authority.owners
        authority = replace(authority, owners=frozenset({key}), writers=frozenset(), former=former)
        authority = replace(authority, threshold=1, added=())
    return replace(authority, decided=(*authority.decided, decided))


def signers(record: Sealed) -> frozenset[str]:
    """Return the keys whose signatures in a record hold."""
    try:
        signatures = parse_signatures(record.value.get("signatures", []), _MOST_SIGNATURES)
    except MalformedError:
        return frozenset()
    checks = check(PayloadType.CONFIG, signed_part(record.value), signatures)
    return frozenset(found.key for found in checks if found.valid)


def admission(bank: str, writer: str, owner: SigningKey, at: str, *also: SigningKey) -> Sealed:
    """Return the record by which an owner, and others with it, admits a writer key."""
    draft = Config(action=ADMISSION, payload={"bank": bank, "key": writer}, at=at)
    return signed_config(draft, owner, *also)


def naming(bank: str, name: str, owner: SigningKey, at: str, *also: SigningKey) -> Sealed:
    """Return the record by which an owner, and others with it, gives a bank another name."""
    draft = Config(action=RENAMED, payload={"bank": bank, "name": name}, at=at)
    return signed_config(draft, owner, *also)


def revoking(bank: str, token: str, owner: SigningKey, at: str, reason: str | None) -> Sealed:
    """Return the record by which an owner revokes a capability token, and all made from it."""
    payload = {"bank": bank, "token": token} | ({"reason": reason} if reason else {})
    return signed_config(Config(action=REVOKED, payload=payload, at=at), owner)


def succeeding(bank: str, old: SigningKey, new: SigningKey, at: str, *also: SigningKey) -> Sealed:
    """Return the record by which an owner's key is replaced by another, signed by both."""
    payload = {"bank": bank, "old": old.did, "new": new.did}
    draft = Config(action=SUCCEEDED, payload=payload, at=at)
    return signed_config(draft, old, new, *also)


def adding_owner(bank: str, key: str, at: str, *by: SigningKey) -> Sealed:
    """Return the record by which owners take in another; that key has to sign it as well."""
    payload = {"bank": bank, "key": key}
    return signed_config(Config(action=OWNER_ADDED, payload=payload, at=at), *by)


def setting_threshold(bank: str, threshold: int, turn: int, at: str, *by: SigningKey) -> Sealed:
    """Return the record by which owners say how many of them have to sign."""
    payload = {"bank": bank, "threshold": threshold, "turn": turn}
    return signed_config(Config(action=THRESHOLD_SET, payload=payload, at=at), *by)


def ending(
    action: str,
    bank: str,
    key: str,
    owner: SigningKey,
    at: str,
    reason: str | None = None,
    *also: SigningKey,
) -> Sealed:
    """Return the record by which an owner, and others with it, retires or revokes a key."""
    payload = {"bank": bank, "key": key} | ({"reason": reason} if reason else {})
    return signed_config(Config(action=action, payload=payload, at=at), owner, *also)


def deciding(
    action: str, decision: EpochDecision, key: SigningKey, at: str, *also: SigningKey
) -> Sealed:
    """Return the record by which an owner, or who becomes one, takes a log up again."""
    draft = Config(action=action, payload=msgspec.to_builtins(decision), at=at)
    return signed_config(draft, key, *also)


def signed_config(draft: Config, *owners: SigningKey) -> Sealed:
    """Return a config record signed by an owner, or by several keys."""
    unsigned = seal(draft)
    keys = {key.did: key for key in owners}  # a key signs once
    signatures = sign(PayloadType.CONFIG, signed_part(unsigned.value), keys.values())
    whole = msgspec.structs.replace(
        draft,
        nonce=unsigned.value["nonce"],
        signatures=tuple(msgspec.to_builtins(signature) for signature in signatures),
    )
    return seal(whole)
