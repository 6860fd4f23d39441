"""What owners decide about the keys of their bank: who follows, who goes, who joins, how many sign.

Source: docs/spec/6-keys-and-tokens.md, 6.3, 6.4 and 6.8.
"""

from collections.abc import Iterator, Sequence

from satchel.crypto.key_succession import MOST_OWNERS, REVOKED, KeyState, is_new
from satchel.crypto.merkle import VerifiedTree
from satchel.crypto.sealed_records import Sealed
from satchel.crypto.signatures import SigningKey
from satchel.errors import UsageError
from satchel.ledger.acceptance import Decider, Drawn
from satchel.ledger.authority import (
    adding_owner,
    decision_of,
    ending,
    setting_threshold,
    starts_epoch,
    succeeding,
    with_configs,
)
from satchel.ledger.heads import TrustedHead
from satchel.ledger.witness_file import AcceptedRollback
from satchel.model.records import Config


class KeyDecider(Decider):
    """A person at this machine who decides about the keys of a bank; see ``Decider``."""

    def hand_over(self, heirs: Sequence[SigningKey]) -> bool:
        """Put another key in the place of the owner's, and of that the next; tell if it was new.

        What it signed, and tokens of its that are in the log, stay good.

        Args:
            heirs: The new owner's key; where that was replaced as well, those after it.

        Raises:
            SigningKeyError: If the key is not that of an owner.
            UsageError: If a new key had a part in the bank before.
            VerificationError: If the store is not what it was, or not what was signed.
        """

        def draw(found: TrustedHead, tree: VerifiedTree) -> Drawn:
            given_up = self._required_owner(found, tree)
            records, old = list[Sealed](), self.owner
            for new in heirs:
                if not is_new(found.authority.keys, new.did):
                    raise UsageError(f"{new.did} already had a role in the bank", field="key")
                records.append(succeeding(self.bank, old, new, self.clock(), *self.also))
                old = new
            return records, given_up

        return bool(heirs) and bool(self._decide(self.writer, draw))

    def end(self, action: str, key: str, reason: str | None = None) -> bool:
        """Retire or revoke a key of the bank, as one of its owners; tell whether that was new.

        Args:
            action: ``RETIRED`` or ``REVOKED``, of ``ledger.keys.ended``.
            key: The key, an owner's or a writer's. One that is revoked need not be known.
            reason: For whoever reads the log.

        Raises:
            SigningKeyError: If this owner's key is not that of an owner.
            UsageError: If nobody would own the bank then.
            VerificationError: If the store is not what it was, or not what was signed.
        """
        drawn = list[Sealed]()

        def draw(found: TrustedHead, tree: VerifiedTree) -> Drawn:
            given_up = self._required_owner(found, tree)
            keys = found.authority.keys
            there = keys.ending(key)
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
                        ending(action, self.bank, key, self.owner, self.clock(), reason, *self.also)
                    )
            return drawn, given_up

        self._decide(self.writer, draw)
        return bool(drawn)

    def add_owner(self, key: str, newcomer: SigningKey | None = None) -> bool:
        """Make a key one of the owners'; tell whether that was new.

        Args:
            key: The key.
            newcomer: The same with its secret, to sign that it agrees; where that is elsewhere,
                the refusal has what it is to sign.

        Raises:
            SigningKeyError: If this owner's key is not that of an owner.
            ThresholdError: If more have to sign.
            UsageError: If the key ended in this bank, or there are as many owners as there may be.
            VerificationError: If the store is not what it was, or not what was signed.
        """
        drawn = list[Sealed]()

        def draw(found: TrustedHead, tree: VerifiedTree) -> Drawn:
            given_up = self._required_owner(found, tree)
            keys = found.authority.keys
            if key not in keys.owners:
                _require_room(keys, key)
                by = (self.owner, *self.also, *([newcomer] if newcomer is not None else []))
                drawn.append(adding_owner(self.bank, key, self.clock(), *by))
            return drawn, given_up

        self._decide(self.writer, draw)
        return bool(drawn)

    def set_threshold(self, threshold: int) -> bool:
        """Say how many owners have to sign what is decided; tell whether that was new.

        Raises:
            SigningKeyError: If this owner's key is not that of an owner.
            ThresholdError: If more have to sign: as many as before, also to ask for fewer.
            UsageError: If it is below one, or there are fewer owners.
            VerificationError: If the store is not what it was, or not what was signed.
        """
        drawn = list[Sealed]()

        def draw(found: TrustedHead, tree: VerifiedTree) -> Drawn:
            given_up = self._required_owner(found, tree)
            keys = found.authority.keys
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
                drawn.append(setting_threshold(self.bank, threshold, keys.turns, at, *by))
            return drawn, given_up

        self._decide(self.writer, draw)
        return bool(drawn)

    def enact(self, records: Sequence[Sealed]) -> bool:
        """Log what was proposed and signed; tell whether that was new.

        Raises:
            ThresholdError: If more owners have to sign.
            UsageError: If it changes nothing: it is there already, or was for another state.
            VerificationError: If the store is not what it was, or not what was signed.
        """
        fresh = list[Sealed]()

        def draw(found: TrustedHead, tree: VerifiedTree) -> Drawn:
            compared = self._compared(found, tree, found.authority.owners)
            given_up = compared.given_up
            self._require_enough(found, records)
            fresh.extend(self._changing(found, records))
            if any(starts_epoch(one) for one in fresh):
                if compared.lost is not None:
                    given_up = AcceptedRollback(compared.lost.epoch, found.head.size)
            elif compared.refusal is not None:
                raise compared.refusal
            return fresh, given_up

        self._decide(self.writer, draw)
        if any(starts_epoch(one) for one in fresh):
            self._erase_again()
        return bool(fresh)

    def _required_owner(self, found: TrustedHead, tree: VerifiedTree) -> AcceptedRollback | None:
        """Require that this is an owner, and the store what it was; return what was given up."""
        compared = self._as_owner(found, tree)
        if compared.refusal is not None:
            raise compared.refusal
        return compared.given_up

    def _changing(self, found: TrustedHead, records: Sequence[Sealed]) -> Iterator[Sealed]:
        """Yield those of some records that change who may do what."""
        authority, size, root = found.authority, found.head.size, found.head.root
        place = size
        for record in records:
            model = record.model
            after = with_configs(
                authority, self.bank, [(place, record)], lambda at: root if at == size else ""
            )
            decision = decision_of(model) if isinstance(model, Config) else None
            if after != authority:
                yield record
                authority, place = after, place + 1
            elif decision is not None and all(
                decision != one.decision for one in authority.decided
            ):
                raise UsageError(
                    "the bank changed since this was proposed", hint="Propose it again."
                )


def _require_room(keys: KeyState, key: str) -> None:
    if keys.ending(key) is not None:
        raise UsageError(
            "the key was retired or revoked in this bank, and cannot be reinstated", field="key"
        )
    if len(keys.owners) >= MOST_OWNERS:
        raise UsageError(f"a bank can have at most {MOST_OWNERS} owners", field="key")
