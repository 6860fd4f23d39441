"""What only a person can decide about a bank: a loss, a restore, an adoption, a machine more.

Each decision is a signed record in the log of the bank, so that every reader can see it and no
writer can pretend it; each may be repeated after a crash. Source: docs/spec/5-log.md, 5.7.
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
    adding_owner,
    admission,
    deciding,
    decision_of,
    ending,
    naming,
    setting_threshold,
    signers,
    starts_epoch,
    succeeding,
    with_configs,
)
from satchel.ledger.erasure import finish_erasure
from satchel.ledger.examination import examine
from satchel.ledger.heads import SeenHead, TrustedHead, judge
from satchel.ledger.ledger import Clock, Ledger
from satchel.ledger.witness import Witness
from satchel.ledger.witness_file import AcceptedRollback
from satchel.model.records import Config, Erasure, Status
from satchel.model.values import now
from satchel.ports.store import Store

_TOGETHER = 1_000
_AGAIN = "erased before the store was rolled back"

Drawn = tuple[Sequence[Sealed], AcceptedRollback | None]
Drawing = Callable[[TrustedHead, VerifiedTree], Drawn]


class _Compared(NamedTuple):
    """What the witness says of a store."""

    given_up: AcceptedRollback | None = None
    lost: Head | None = None
    """What was seen, is not in the log, and was given up by nobody."""

    refusal: VerificationError | None = None


@dataclass(frozen=True, kw_only=True)
class Decider:
    """A person at this machine, with the keys to decide about a bank.

    Args:
        store: Where the bank is.
        bank: Its id.
        owner: An owner's key, or that of who becomes one; it signs what is decided.
        also: The keys of other owners, who sign it as well.
        writer: This machine's key; it signs the head, and is admitted where it is not.
        witness: What this machine saw of the bank.
        clock: Tells when something was decided.
    """

    store: Store
    bank: str
    owner: SigningKey
    writer: SigningKey
    witness: Witness
    clock: Clock = now
    also: tuple[SigningKey, ...] = ()

    def accept_rollback(self, reason: str | None = None) -> EpochDecision | None:
        """Go on from a store that is behind what this machine saw, or that went another way.

        What the store lacks of it is given up. The newer store should be looked for first.

        Args:
            reason: For whoever reads the log.

        Returns:
            The decision; None when nothing was lost, so that there was nothing to decide.

        Raises:
            SigningKeyError: If the key is not that of an owner.
            VerificationError: If the store is not what was signed, or the bank is gone.
        """

        def draw(found: TrustedHead, tree: VerifiedTree) -> Drawn:
            compared = self._as_owner(found, tree)
            if compared.lost is None:
                return [], compared.given_up
            return self._taken_up(ACCEPTED, found, compared.lost, reason)

        after = self._decide(self.writer, draw)
        self._erase_again()
        return after.authority.decided[-1].decision if after.verdict.given_up else None

    def accept_restore(self, reason: str | None = None) -> EpochDecision:
        """Go on from a store that was just put back from a backup, whatever was seen of the bank.

        A backup may lack what other machines saw, so this always starts an epoch.

        Args and Raises: as ``accept_rollback``.
        """

        def draw(found: TrustedHead, tree: VerifiedTree) -> Drawn:
            compared = self._as_owner(found, tree)
            records, given_up = self._taken_up(RESTORED, found, compared.lost, reason)
            return records, given_up or compared.given_up

        after = self._decide(self.writer, draw)
        self._erase_again()
        return after.authority.decided[-1].decision

    def adopt(self, reason: str | None = None, *, with_loss: bool = False) -> EpochDecision:
        """Go on with a bank whose owners' keys are lost; this owner is the only one from now on.

        That binds nobody else: to machines that do not trust this owner's key for the bank it is
        untrusted, and those that knew it before refuse it. This machine trusts it because the
        adoption is in its witness.

        Args:
            reason: For whoever reads the log.
            with_loss: Whether what this machine saw and the store lacks is given up.

        Raises:
            UsageError: If the key is that of an owner already.
            RolledBackError: If the store is behind what this machine saw.
            ForkedError: If it went another way.
            AdoptedError: If this machine knows the bank, and somebody else adopted this copy.
            VerificationError: If the store is not what was signed.
        """

        def draw(found: TrustedHead, tree: VerifiedTree) -> Drawn:
            adoption = found.authority.adoption
            if adoption is not None and adoption.key == self.owner.did:
                return self._admitting(found, tree, self.writer.did)
            if self.owner.did in found.authority.owners:
                raise UsageError(
                    "the key already belongs to an owner of the bank",
                    hint="It is not lost, so it can admit this machine: satchel bank admit.",
                )
            compared = self._compared(found, tree, None)
            if compared.refusal is not None and not with_loss:
                raise compared.refusal
            return self._taken_up(ADOPTED, found, compared.lost, reason)

        examined = examine(self.store, self.bank)
        if not examined.is_sound:
            raise VerificationError(
                f"the store is damaged: {examined.shown[0].message}",
                file=self.store.name,
                hint="Nothing was adopted. Repair the store first, or find a better copy.",
            )
        adoption = self._decide(self.writer, draw).authority.adoption
        assert adoption is not None  # noqa: S101 - it was drawn, or was there before
        self._erase_again()
        return adoption

    def admit(self, key: str | None = None) -> None:
        """Admit the writer key of a machine; nothing happens when it is admitted already.

        Args:
            key: The public key of another machine; None for this one's.

        Raises:
            SigningKeyError: If the owner's key is not that of an owner.
            VerificationError: If the store is not what it was, or not what was signed.
        """
        admitted = self.writer.did if key is None else key
        self._decide(self.owner, lambda found, tree: self._admitting(found, tree, admitted))

    def rename(self, name: str) -> None:
        """Give the bank another name; nothing happens when it has it already.

        Raises:
            SigningKeyError: If the owner's key is not that of an owner.
            VerificationError: If the store is not what it was, or not what was signed.
        """

        def draw(found: TrustedHead, tree: VerifiedTree) -> Drawn:
            compared = self._as_owner(found, tree)
            if compared.refusal is not None:
                raise compared.refusal
            if found.authority.name == name:
                return [], compared.given_up
            record = naming(self.bank, name, self.owner, self.clock(), *self.also)
            return [record], compared.given_up

        self._decide(self.writer, draw)

    def _erase_again(self) -> None:
        """Erase what this machine erased before, and what a store that was put back has again."""
        ledger = self._ledger(self.writer)
        while True:
            with ledger.reading() as view:
                returned = view.returned()[:_TOGETHER]
            if not returned:
                break
            # The log lacks its end, so it may say that they are current again.
            ids, at = [identity for _, identity in returned], self.clock()
            gone = [
                seal(Status(target=name, state="deleted", reason=_AGAIN, at=at)) for name in ids
            ]
            again = [Erasure(entry=name, reason=_AGAIN, by=self.owner.did, at=at) for name in ids]
            ledger.append([*gone, *map(seal, again)])
        finish_erasure(self.store, self.bank)

    def _ledger(self, signer: SigningKey) -> Ledger:
        return Ledger(self.store, self.bank, writer=signer, witness=self.witness, clock=self.clock)

    def _decide(self, signer: SigningKey, draw: Drawing) -> TrustedHead:
        """Log what is drawn, where as many owners signed it as the bank wants."""

        def enough(found: TrustedHead, tree: VerifiedTree) -> Drawn:
            records, given_up = draw(found, tree)
            self._require_enough(found, records)
            return records, given_up

        return self._ledger(signer).decide(enough)

    def _require_enough(self, found: TrustedHead, records: Sequence[Sealed]) -> None:
        authority, size, root = found.authority, found.head.size, found.head.root
        for place, record in enumerate(records, size):
            decision = decision_of(record.model) if isinstance(record.model, Config) else None
            if decision is None or decision.key is None:  # anybody may adopt
                require_enough(authority.keys, record, signers(record), records)
            authority = with_configs(
                authority, self.bank, [(place, record)], lambda at: root if at == size else ""
            )

    def _as_owner(self, found: TrustedHead, tree: VerifiedTree) -> _Compared:
        owners = found.authority.owners
        for key in (self.owner, *self.also):
            if key.did not in owners:
                raise SigningKeyError(
                    f"{key.did} is not an owner of the bank",
                    hint=f"Its owners are {', '.join(sorted(owners))}.",
                )
        return self._compared(found, tree, owners)

    def _compared(
        self, found: TrustedHead, tree: VerifiedTree, trusted: frozenset[str] | None
    ) -> _Compared:
        last = self.witness.last(self.bank)
        seen = [] if last is None else [SeenHead(last.head, "this machine", witnessed=True)]
        try:
            verdict = judge(found.head, found.authority, tree, seen, trusted)
        except (RolledBackError, ForkedError) as error:
            return _Compared(lost=seen[0].head, refusal=error)
        return _Compared(given_up=verdict.given_up)

    def _taken_up(
        self, action: str, found: TrustedHead, lost: Head | None, reason: str | None
    ) -> Drawn:
        """Return the records that start an epoch on top of a head."""
        head, at = found.head, self.clock()
        decision = EpochDecision(
            bank=self.bank,
            epoch=1 + max(head.epoch, lost.epoch if lost is not None else 0),
            resumed=LogState.of(head),
            abandoned=LogState.of(lost) if lost is not None else None,
            key=self.owner.did if action == ADOPTED else None,
            reason=reason,
        )
        also = () if action == ADOPTED else self.also
        records = [deciding(action, decision, self.owner, at, *also)]
        if action == ADOPTED or not found.authority.admits(self.writer.did):
            records.append(admission(self.bank, self.writer.did, self.owner, at, *also))
        return records, AcceptedRollback(lost.epoch, head.size) if lost is not None else None

    def _admitting(self, found: TrustedHead, tree: VerifiedTree, key: str) -> Drawn:
        compared = self._as_owner(found, tree)
        if compared.refusal is not None:
            raise compared.refusal
        if found.authority.admits(key):
            return [], compared.given_up
        record = admission(self.bank, key, self.owner, self.clock(), *self.also)
        return [record], compared.given_up


def forget(store: Store, bank: str, *, witness: Witness) -> bool:
    """Accept that a bank is gone; tell whether this machine knew it.

    Whatever copy of it turns up later is believed as if never seen. What was removed from it
    stays noted.

    Raises:
        UsageError: If the bank is there.
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
