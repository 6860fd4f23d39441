"""Decisions that only a person can make about a bank: losses, restores, adoptions, keys, owners.

Each decision is a signed record in the log of the bank, so that every reader sees it and no writer
can forge it. Each can be repeated after a crash. Source: docs/spec/5-log.md, 5.7;
docs/spec/6-keys-and-tokens.md, 6.3, 6.4 and 6.8.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from satchel.crypto.keys import MOST_OWNERS, REVOKED, KeyState, SigningKey, is_new, require_enough
from satchel.crypto.log import Head, VerifiedTree
from satchel.crypto.sealed_records import Sealed, seal
from satchel.errors import (
    ForkedError,
    RolledBackError,
    SigningKeyError,
    UsageError,
    VerificationError,
)
from satchel.ledger.authority import (
    ACCEPTED,
    ADOPTED,
    RESTORED,
    EpochDecision,
    LogState,
    admission_record,
    apply_configs,
    decision_record,
    key_end_record,
    owner_addition_record,
    parse_decision,
    rename_record,
    signers,
    starts_epoch,
    succession_record,
    threshold_record,
)
from satchel.ledger.examination import examine
from satchel.ledger.heads import SeenHead, TrustedHead, judge
from satchel.ledger.ledger import Clock, Ledger
from satchel.ledger.transaction import finish_erasure
from satchel.ledger.witness import Witness
from satchel.ledger.witness_file import AcceptedRollback
from satchel.model.records import Config, Erasure, Status
from satchel.model.values import now
from satchel.ports.store import Store

_TOGETHER = 1_000
_AGAIN = "erased before the store was rolled back"

Drawn = tuple[Sequence[Sealed], AcceptedRollback | None]
Drawing = Callable[[TrustedHead, VerifiedTree], Drawn]


class _WitnessComparison(NamedTuple):
    """A store compared with the witness."""

    given_up: AcceptedRollback | None = None
    lost: Head | None = None
    """A witnessed head that is not in the log and that no decision abandons."""

    refusal: VerificationError | None = None


@dataclass(frozen=True, kw_only=True)
class Decider:
    """A person at this machine who has the keys to decide about a bank.

    Args:
        store: The store with the bank.
        bank: ID of the bank.
        owner: The key of an owner, or of the adopter; it signs the decisions.
        also: The keys of other owners that sign as well.
        writer: The key of this machine; it signs the head, and is admitted if necessary.
        witness: The heads that this machine saw.
        clock: Returns the time of a decision.
    """

    store: Store
    bank: str
    owner: SigningKey
    writer: SigningKey
    witness: Witness
    clock: Clock = now
    also: tuple[SigningKey, ...] = ()

    def accept_rollback(self, reason: str | None = None) -> EpochDecision | None:
        """Resume from a store that is behind the witness of this machine, or that forked from it.

        The records that the store lacks are abandoned. Look for the newer store first.

        Args:
            reason: Recorded in the log.

        Returns:
            The decision; None if nothing was lost.

        Raises:
            SigningKeyError: If the key is not an owner's.
            VerificationError: If the store differs from what was signed, or lost the bank.
        """

        def draw(trusted: TrustedHead, tree: VerifiedTree) -> Drawn:
            compared = self._as_owner(trusted, tree)
            if compared.lost is None:
                return [], compared.given_up
            return self._epoch_records(ACCEPTED, trusted, compared.lost, reason)

        after = self._decide(self.writer, draw)
        self._erase_again()
        return after.authority.decided[-1].decision if after.verdict.given_up else None

    def accept_restore(self, reason: str | None = None) -> EpochDecision:
        """Resume from a store that was just restored from a backup.

        A backup may lack records that other machines saw, so this always starts an epoch.
        """

        def draw(trusted: TrustedHead, tree: VerifiedTree) -> Drawn:
            compared = self._as_owner(trusted, tree)
            records, given_up = self._epoch_records(RESTORED, trusted, compared.lost, reason)
            return records, given_up or compared.given_up

        after = self._decide(self.writer, draw)
        self._erase_again()
        return after.authority.decided[-1].decision

    def adopt(self, reason: str | None = None, *, with_loss: bool = False) -> EpochDecision:
        """Adopt a bank whose owners' keys are lost: this owner becomes the only one.

        An adoption does not bind others: machines that do not trust this owner's key for the bank
        treat it as untrusted, and machines that know the bank refuse it. This machine trusts it
        because the adoption is in its witness.

        Args:
            reason: Recorded in the log.
            with_loss: Whether to abandon the records that this machine saw and the store lacks.

        Raises:
            UsageError: If the key is an owner's already.
            RolledBackError: If the store is behind the witness.
            ForkedError: If it forked from the witness.
            AdoptedError: If this machine knows the bank, and another key adopted this copy.
            VerificationError: If the store differs from what was signed.
        """

        def draw(trusted: TrustedHead, tree: VerifiedTree) -> Drawn:
            adoption = trusted.authority.adoption
            if adoption is not None and adoption.key == self.owner.did:
                return self._admission_records(trusted, tree, self.writer.did)
            if self.owner.did in trusted.authority.owners:
                raise UsageError(
                    "the key already belongs to an owner of the bank",
                    hint="It is not lost, so it can admit this machine: satchel bank admit.",
                )
            compared = self._compare_with_witness(trusted, tree, None)
            if compared.refusal is not None and not with_loss:
                raise compared.refusal
            return self._epoch_records(ADOPTED, trusted, compared.lost, reason)

        examined = examine(self.store, self.bank)
        if not examined.is_sound:
            raise VerificationError(
                f"the store is damaged: {examined.shown[0].message}",
                file=self.store.name,
                hint="Nothing was adopted. Repair the store first, or find a better copy.",
            )
        adoption = self._decide(self.writer, draw).authority.adoption
        assert adoption is not None  # noqa: S101 - it was made now, or before
        self._erase_again()
        return adoption

    def admit(self, key: str | None = None) -> None:
        """Admit the writer key of a machine; nothing happens if it is admitted.

        Args:
            key: The public key of another machine; None for this machine's.

        Raises:
            SigningKeyError: If the owner's key is not an owner's.
            VerificationError: If the store is not in the expected state, or differs from what was
                signed.
        """
        admitted = self.writer.did if key is None else key
        self._decide(
            self.owner, lambda trusted, tree: self._admission_records(trusted, tree, admitted)
        )

    def rename(self, name: str) -> None:
        """Rename the bank; nothing happens if it has the name.

        Raises:
            SigningKeyError: If the owner's key is not an owner's.
            VerificationError: If the store is not in the expected state, or differs from what was
                signed.
        """

        def draw(trusted: TrustedHead, tree: VerifiedTree) -> Drawn:
            compared = self._as_owner(trusted, tree)
            if compared.refusal is not None:
                raise compared.refusal
            if trusted.authority.name == name:
                return [], compared.given_up
            record = rename_record(self.bank, name, self.owner, self.clock(), *self.also)
            return [record], compared.given_up

        self._decide(self.writer, draw)

    def _erase_again(self) -> None:
        """Erase the records again that this machine erased and a restored store contains."""
        ledger = self._ledger(self.writer)
        while True:
            with ledger.reading() as view:
                returned = view.returned()[:_TOGETHER]
            if not returned:
                break
            # The log lacks its end, so it may say that they are current again.
            ids, at = [identity for _, identity in returned], self.clock()
            deletions = [
                seal(Status(target=name, state="deleted", reason=_AGAIN, at=at)) for name in ids
            ]
            erasures = [
                Erasure(entry=name, reason=_AGAIN, by=self.owner.did, at=at) for name in ids
            ]
            ledger.append([*deletions, *map(seal, erasures)])
        finish_erasure(self.store, self.bank)

    def _ledger(self, signer: SigningKey) -> Ledger:
        return Ledger(self.store, self.bank, writer=signer, witness=self.witness, clock=self.clock)

    def _decide(self, signer: SigningKey, draw: Drawing) -> TrustedHead:
        """Log the records of a decision, if enough owners signed it."""

        def enough(trusted: TrustedHead, tree: VerifiedTree) -> Drawn:
            records, given_up = draw(trusted, tree)
            self._require_enough(trusted, records)
            return records, given_up

        return self._ledger(signer).decide(enough)

    def _require_enough(self, trusted: TrustedHead, records: Sequence[Sealed]) -> None:
        authority, size, root = trusted.authority, trusted.head.size, trusted.head.root
        for position, record in enumerate(records, size):
            decision = parse_decision(record.model) if isinstance(record.model, Config) else None
            if decision is None or decision.key is None:  # anybody may adopt
                require_enough(authority.keys, record, signers(record), records)
            authority = apply_configs(
                authority, self.bank, [(position, record)], lambda at: root if at == size else ""
            )

    def _as_owner(self, trusted: TrustedHead, tree: VerifiedTree) -> _WitnessComparison:
        owners = trusted.authority.owners
        for key in (self.owner, *self.also):
            if key.did not in owners:
                raise SigningKeyError(
                    f"{key.did} is not an owner of the bank",
                    hint=f"Its owners are {', '.join(sorted(owners))}.",
                )
        return self._compare_with_witness(trusted, tree, owners)

    def _compare_with_witness(
        self, current: TrustedHead, tree: VerifiedTree, trusted: frozenset[str] | None
    ) -> _WitnessComparison:
        last = self.witness.last(self.bank)
        seen = [] if last is None else [SeenHead(last.head, "this machine", witnessed=True)]
        try:
            verdict = judge(current.head, current.authority, tree, seen, trusted)
        except (RolledBackError, ForkedError) as error:
            return _WitnessComparison(lost=seen[0].head, refusal=error)
        return _WitnessComparison(given_up=verdict.given_up)

    def _epoch_records(
        self, action: str, trusted: TrustedHead, lost: Head | None, reason: str | None
    ) -> Drawn:
        """Return the records that start an epoch on top of a head."""
        head, at = trusted.head, self.clock()
        decision = EpochDecision(
            bank=self.bank,
            epoch=1 + max(head.epoch, lost.epoch if lost is not None else 0),
            resumed=LogState.of(head),
            abandoned=LogState.of(lost) if lost is not None else None,
            key=self.owner.did if action == ADOPTED else None,
            reason=reason,
        )
        also = () if action == ADOPTED else self.also
        records = [decision_record(action, decision, self.owner, at, *also)]
        if action == ADOPTED or not trusted.authority.admits(self.writer.did):
            records.append(admission_record(self.bank, self.writer.did, self.owner, at, *also))
        return records, AcceptedRollback(lost.epoch, head.size) if lost is not None else None

    def _admission_records(self, trusted: TrustedHead, tree: VerifiedTree, key: str) -> Drawn:
        compared = self._as_owner(trusted, tree)
        if compared.refusal is not None:
            raise compared.refusal
        if trusted.authority.admits(key):
            return [], compared.given_up
        record = admission_record(self.bank, key, self.owner, self.clock(), *self.also)
        return [record], compared.given_up


def forget(store: Store, bank: str, *, witness: Witness) -> bool:
    """Accept that a bank is lost and return whether this machine knew it.

    A copy of it that turns up later is trusted like a bank that was never seen. The positions of
    removed records stay noted.

    Raises:
        UsageError: If the store has the bank.
    """
    with store.reading() as reader:
        if reader.head(bank) is not None:
            raise UsageError(
                "the bank is not missing",
                file=store.name,
                hint=(
                    "If records are missing, an owner can accept the loss: satchel bank "
                    "accept-loss."
                ),
            )
    return witness.forget(bank)


class KeyDecider(Decider):
    """A person at this machine who decides about the keys of a bank; see ``Decider``."""

    def hand_over(self, heirs: Sequence[SigningKey]) -> bool:
        """Replace the owner's key by its successors, and return whether it was replaced now.

        Records that the old key signed, and its tokens that are in the log, stay valid.

        Args:
            heirs: The new key; if that was replaced as well, its successors in order.

        Raises:
            SigningKeyError: If the key is not an owner's.
            UsageError: If a new key had a role in the bank before.
            VerificationError: If the store is not in the expected state, or differs from what was
                signed.
        """

        def draw(trusted: TrustedHead, tree: VerifiedTree) -> Drawn:
            given_up = self._required_owner(trusted, tree)
            records, old = list[Sealed](), self.owner
            for new in heirs:
                if not is_new(trusted.authority.keys, new.did):
                    raise UsageError(f"{new.did} already had a role in the bank", field="key")
                records.append(succession_record(self.bank, old, new, self.clock(), *self.also))
                old = new
            return records, given_up

        return bool(heirs) and bool(self._decide(self.writer, draw))

    def end(self, action: str, key: str, reason: str | None = None) -> bool:
        """Retire or revoke a key of the bank and return whether it was ended now.

        Args:
            action: ``RETIRED`` or ``REVOKED`` of ``crypto.keys``.
            key: The key of an owner or a writer. A revoked key need not be known.
            reason: Recorded in the log.

        Raises:
            SigningKeyError: If this owner's key is not an owner's.
            UsageError: If the bank would have no or too few owners.
            VerificationError: If the store is not in the expected state, or differs from what was
                signed.
        """
        drawn = list[Sealed]()

        def draw(trusted: TrustedHead, tree: VerifiedTree) -> Drawn:
            given_up = self._required_owner(trusted, tree)
            keys = trusted.authority.keys
            there = keys.last_end(key)
            if there is None or (there.action != REVOKED and action == REVOKED):
                if key == self.owner.did and (action == REVOKED or keys.owners == {key}):
                    raise UsageError(
                        "a key cannot revoke itself as the last owner of the bank",
                        field="key",
                        hint="Replace it first: satchel key rotate.",
                    )
                if key in keys.owners and len(keys.owners) <= keys.threshold:
                    raise UsageError(
                        f"{len(keys.owners) - 1} owners would remain, and {keys.threshold} "
                        "must sign decisions",
                        field="key",
                        hint="Add another owner first, or lower the threshold: satchel bank owner.",
                    )
                if action == REVOKED or key in keys.owners | keys.writers:
                    drawn.append(
                        key_end_record(
                            action, self.bank, key, self.owner, self.clock(), reason, *self.also
                        )
                    )
            return drawn, given_up

        self._decide(self.writer, draw)
        return bool(drawn)

    def add_owner(self, key: str, newcomer: SigningKey | None = None) -> bool:
        """Add a key to the owners and return whether it was added now.

        Args:
            key: The key.
            newcomer: The same key with its secret, to sign its consent; if the secret is elsewhere,
                the error has the record to sign.

        Raises:
            SigningKeyError: If this owner's key is not an owner's.
            ThresholdError: If more owners must sign.
            UsageError: If the key ended in this bank, or the bank has the maximum number of owners.
            VerificationError: If the store is not in the expected state, or differs from what was
                signed.
        """
        drawn = list[Sealed]()

        def draw(trusted: TrustedHead, tree: VerifiedTree) -> Drawn:
            given_up = self._required_owner(trusted, tree)
            keys = trusted.authority.keys
            if key not in keys.owners:
                _require_room(keys, key)
                by = (self.owner, *self.also, *([newcomer] if newcomer is not None else []))
                drawn.append(owner_addition_record(self.bank, key, self.clock(), *by))
            return drawn, given_up

        self._decide(self.writer, draw)
        return bool(drawn)

    def set_threshold(self, threshold: int) -> bool:
        """Set how many owners must sign a decision and return whether it changed.

        Raises:
            SigningKeyError: If this owner's key is not an owner's.
            ThresholdError: If more owners must sign; the old threshold applies to the change.
            UsageError: If it is below one or above the number of owners.
            VerificationError: If the store is not in the expected state, or differs from what was
                signed.
        """
        drawn = list[Sealed]()

        def draw(trusted: TrustedHead, tree: VerifiedTree) -> Drawn:
            given_up = self._required_owner(trusted, tree)
            keys = trusted.authority.keys
            if not 1 <= threshold <= len(keys.owners):
                raise UsageError(
                    f"the bank has {len(keys.owners)} owners, so the threshold must be between "
                    "1 and that",
                    field="threshold",
                    hint="Add another owner first: satchel bank owner add.",
                )
            if threshold != keys.threshold:
                by = (self.owner, *self.also)
                at = self.clock()
                drawn.append(threshold_record(self.bank, threshold, keys.turns, at, *by))
            return drawn, given_up

        self._decide(self.writer, draw)
        return bool(drawn)

    def enact(self, records: Sequence[Sealed]) -> bool:
        """Log records that were proposed and signed, and return whether any was new.

        Raises:
            ThresholdError: If more owners must sign.
            UsageError: If they were made for another state of the bank.
            VerificationError: If the store is not in the expected state, or differs from what was
                signed.
        """
        fresh = list[Sealed]()

        def draw(trusted: TrustedHead, tree: VerifiedTree) -> Drawn:
            compared = self._compare_with_witness(trusted, tree, trusted.authority.owners)
            given_up = compared.given_up
            self._require_enough(trusted, records)
            fresh.extend(self._effective_records(trusted, records))
            if any(starts_epoch(record) for record in fresh):
                if compared.lost is not None:
                    given_up = AcceptedRollback(compared.lost.epoch, trusted.head.size)
            elif compared.refusal is not None:
                raise compared.refusal
            return fresh, given_up

        self._decide(self.writer, draw)
        if any(starts_epoch(record) for record in fresh):
            self._erase_again()
        return bool(fresh)

    def _required_owner(self, trusted: TrustedHead, tree: VerifiedTree) -> AcceptedRollback | None:
        """Require an owner's key and an unchanged store, and return what was abandoned."""
        compared = self._as_owner(trusted, tree)
        if compared.refusal is not None:
            raise compared.refusal
        return compared.given_up

    def _effective_records(
        self, trusted: TrustedHead, records: Sequence[Sealed]
    ) -> Iterator[Sealed]:
        """Yield the records that change the authority."""
        authority, size, root = trusted.authority, trusted.head.size, trusted.head.root
        position = size
        for record in records:
            model = record.model
            after = apply_configs(
                authority, self.bank, [(position, record)], lambda at: root if at == size else ""
            )
            decision = parse_decision(model) if isinstance(model, Config) else None
            if after != authority:
                yield record
                authority, position = after, position + 1
            elif decision is not None and all(
                decision != one.decision for one in authority.decided
            ):
                raise UsageError(
                    "the bank changed since this was proposed", hint="Propose it again."
                )


def _require_room(keys: KeyState, key: str) -> None:
    if keys.last_end(key) is not None:
        raise UsageError(
            "the key was retired or revoked in this bank, and cannot be reinstated", field="key"
        )
    if len(keys.owners) >= MOST_OWNERS:
        raise UsageError(f"a bank can have at most {MOST_OWNERS} owners", field="key")
