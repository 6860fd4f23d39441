"""Synchronize two copies of one bank: ``pull`` from another store, ``push`` to it.

What one copy has beyond the other is copied unchanged. Diverged copies are only merged on request:
new records are added like an import.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

import msgspec

from satchel.bank.banks import note_default_bank
from satchel.bank.connections import (
    configured_store,
    has_store,
    is_same,
    known_owners,
    open_ledger,
    open_store,
    store_exists,
    witness_of,
    writer_key,
)
from satchel.bank.machine_keys import require_owner
from satchel.bank.open_bank import chosen_bank, find_bank, name_of
from satchel.config.settings import Settings
from satchel.errors import StoreBusyError, UnknownBankError, UsageError, shown_address
from satchel.ledger.heads import BankStanding, SeenHead, Verdict, judge
from satchel.ledger.ledger import Ledger
from satchel.ledger.transaction import finish_erasure
from satchel.ports.store import Reader, Store
from satchel.replication.copies import (
    FastForwardResult,
    Progress,
    Relation,
    Replica,
    ReplicaComparison,
    compare_replicas,
    fast_forward,
)
from satchel.replication.copies import load_replica as copy_of
from satchel.replication.merge import (
    MergeConflictPolicy,
    MergeResult,
    merge,
    plan_merge,
    require_same_owners,
)

_CARRIED = frozenset({Relation.NEW, Relation.AHEAD})


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeOptions:
    """Options of a pull or push."""

    bank: str | None = None
    """Name or ID of the bank, as for ``find_bank``."""

    merge: bool = False
    """Whether to merge diverged copies."""

    on_conflict: MergeConflictPolicy = MergeConflictPolicy.LATER
    dry_run: bool = False
    """Report the relation of the copies, and change nothing."""

    progress: Progress | None = None


class Exchange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Result of a pull or push."""

    bank: str
    name: str | None = None
    source: str
    """Address of the source store."""

    target: str
    """Address of the target store."""

    relation: Relation
    """Relation of the source copy to the target copy before."""

    common: int
    """Number of records in the common prefix of both logs."""

    source_size: int
    target_size: int
    dry_run: bool = False
    carried: int = 0
    """Number of records that were copied unchanged."""

    new: int = 0
    """Of diverged copies: number of records that only the source has."""

    merged: MergeResult | None = None
    emptied: int = 0
    blobs: int = 0
    blobs_missing: int = 0
    trust: str | None = None
    """Trust of this machine in the bank now; for a pull."""

    notes: list[str] = []

    @property
    def is_open(self) -> bool:
        """Whether records that only the source has were not copied."""
        return self.relation is Relation.DIVERGED and self.new > 0 and self.merged is None


def pull(settings: Settings, source: str, options: ExchangeOptions | None = None) -> Exchange:
    """Copy what another store has of a bank to the configured one.

    Args:
        settings: Settings with the configured store.
        source: Address of the other store.
        options: Options of the pull.

    Raises:
        UnknownBankError: If the other has no such store or bank.
        RolledBackError: If the other is older than what this machine saw.
        ForkedError: If this machine saw another history.
        AdoptedError: If an unknown key adopted the other copy.
        VerificationError: If a copy is not what was signed. Nothing is stored then.
        ReadOnlyStoreError: If this machine may not merge.
    """
    require_owner(settings, "pull")
    options = options or ExchangeOptions()
    require_other(settings, source)
    if not store_exists(source):
        raise UnknownBankError("there is no store", file=shown_address(source))
    with opened_at(settings, source, read_only=True) as source_store:
        bank = chosen_bank(settings, source_store, options.bank)
        if options.dry_run and not has_store(settings):
            with source_store.reading() as reader:
                exchange = _compared(
                    _copy(source_store, reader, bank),
                    None,
                    source_store.name,
                    shown_address(settings.store),
                )
                return msgspec.structs.replace(exchange, dry_run=True)
        with configured_store(settings, read_only=options.dry_run) as target_store:
            _require_same_bank(target_store, source_store, bank, options.bank)
            if not options.dry_run:
                note_default_bank(settings, target_store)
            return _Pull(settings, source_store, target_store, bank, options).run()


def push(settings: Settings, target: str, options: ExchangeOptions | None = None) -> Exchange:
    """Copy what the configured store has of a bank to another one, created if missing.

    Args:
        settings: Settings with the configured store.
        target: Address of the other store.
        options: Options of the push.

    Raises:
        UnknownBankError: If there is no such bank here.
        AdoptedError: If the bank was adopted here without the other copy's owner.
        VerificationError: If a copy is not what was signed. Nothing is stored then.
        ReadOnlyStoreError: If this machine may not merge there.
    """
    require_owner(settings, "push")
    options = options or ExchangeOptions()
    require_other(settings, target)
    if not has_store(settings):
        raise UnknownBankError("there is no store yet", hint="Create one: satchel init")
    with configured_store(settings, read_only=True) as source_store:
        bank = chosen_bank(settings, source_store, options.bank)
        if options.dry_run and not store_exists(target):
            with source_store.reading() as reader:
                exchange = _compared(
                    _copy(source_store, reader, bank), None, source_store.name, target
                )
                return msgspec.structs.replace(exchange, dry_run=True)
        with opened_at(settings, target, read_only=options.dry_run) as target_store:
            _require_same_bank(target_store, source_store, bank, options.bank)
            return _Push(settings, source_store, target_store, bank, options).run()


class _LogExchange(ABC):
    """A transfer from one copy of a bank to another."""

    writes_here: ClassVar[bool]
    """Whether the target copy is this machine's."""

    def __init__(
        self, settings: Settings, source: Store, target: Store, bank: str, options: ExchangeOptions
    ) -> None:
        self.settings = settings
        self.source = source
        self.target = target
        self.bank = bank
        self.options = options

    def run(self) -> Exchange:
        """Compare the copies, and copy or merge what is new."""
        with self.source.reading() as reader:
            source = _copy(self.source, reader, self.bank)
            self.require_source()
            with self.target.reading() as target_reader:
                target = copy_of(target_reader, self.bank)
                exchange = _compared(source, target, self.source.name, self.target.name)
                if exchange.relation in _CARRIED:
                    self.judged(source, target)
                else:
                    self.require_target()
                if exchange.relation is Relation.DIVERGED and target is not None:
                    require_same_owners(source, target)
                    new = plan_merge(source, target, exchange.common).records
                    exchange = msgspec.structs.replace(exchange, new=new)
            if self.options.dry_run:
                return msgspec.structs.replace(exchange, dry_run=True)
            if exchange.relation in _CARRIED:
                return self._carry(source, exchange)
            if exchange.relation is Relation.DIVERGED and self.options.merge:
                return self._merge(source, exchange)
        return exchange

    def _carry(self, source: Replica, exchange: Exchange) -> Exchange:
        with self.target.writing() as writing:
            target = copy_of(writing, self.bank)
            if compare_replicas(source, target) != ReplicaComparison(
                exchange.relation, exchange.common
            ):
                raise StoreBusyError(
                    "the copy was changed by another process",
                    file=self.target.name,
                    hint="Try again.",
                )
            verdict = self.judged(source, target)
            done = fast_forward(source, writing, target, self.options.progress)
        self.note(source, verdict)
        finish_erasure(self.target, self.bank)
        return msgspec.structs.replace(
            exchange,
            carried=done.records,
            emptied=done.erased,
            blobs=done.blobs,
            blobs_missing=done.blobs_missing,
            trust=str(verdict.standing) if self.writes_here else None,
            notes=[*verdict.notes, *_notes(done)],
        )

    def _merge(self, source: Replica, exchange: Exchange) -> Exchange:
        done = merge(
            source,
            self.target,
            self.ledger(),
            exchange.common,
            on_conflict=self.options.on_conflict,
            progress=self.options.progress,
        )
        finish_erasure(self.target, self.bank)
        return msgspec.structs.replace(
            exchange,
            merged=done,
            emptied=done.emptied,
            blobs=done.blobs,
            blobs_missing=done.blobs_missing,
            notes=_notes(done),
        )

    def require_source(self) -> None:  # noqa: B027 - one of the two ways has nothing to do
        """Require that the source copy agrees with what this machine saw."""

    def require_target(self) -> None:  # noqa: B027 - one of the two ways has nothing to do
        """Require that the target copy agrees with what this machine saw."""

    @abstractmethod
    def judged(self, source: Replica, target: Replica | None) -> Verdict:
        """Return the verdict on the source copy, as seen from the target."""

    def note(self, source: Replica, verdict: Verdict) -> None:  # noqa: B027 - one of the two ways has nothing to do
        """Record the new head in the witness."""

    @abstractmethod
    def ledger(self) -> Ledger:
        """Return the ledger of the target copy."""


class _Pull(_LogExchange):
    """From another store to this machine's."""

    writes_here = True

    def require_target(self) -> None:
        with open_ledger(self.settings, self.target, self.bank).reading():
            pass

    def judged(self, source: Replica, target: Replica | None) -> Verdict:
        owners = known_owners(self.settings, self.bank)
        witnessed = witness_of(self.settings).last(self.bank)
        seen = []
        if witnessed is not None:
            seen.append(SeenHead(witnessed.head, "this machine", witnessed=True))
        if target is not None:
            own = witnessed is not None or target.trusted.authority.owned_by(owners)
            seen.append(SeenHead(target.trusted.head, "this store", own=own))
        trusted = source.trusted
        return judge(trusted.head, trusted.authority, source.tree, seen, owners)

    def note(self, source: Replica, verdict: Verdict) -> None:
        # Witnessing an untrusted bank would make it this machine's own.
        if verdict.standing is BankStanding.OWN:
            signed = msgspec.json.decode(source.trusted.stored.signed)
            witness_of(self.settings).record(signed, given_up=verdict.given_up)

    def ledger(self) -> Ledger:
        return open_ledger(self.settings, self.target, self.bank, writes=True)


class _Push(_LogExchange):
    """From this machine's store to another.

    This machine's witness is about its own copy; nothing about the other is recorded.
    """

    writes_here = False

    def require_source(self) -> None:
        with open_ledger(self.settings, self.source, self.bank).reading():
            pass

    def judged(self, source: Replica, target: Replica | None) -> Verdict:
        if target is None:
            return Verdict()
        seen = [SeenHead(target.trusted.head, "the other copy")]
        trusted, owners = source.trusted, target.trusted.authority.owners
        return judge(trusted.head, trusted.authority, source.tree, seen, owners)

    def ledger(self) -> Ledger:
        return Ledger(self.target, self.bank, writer=writer_key(self.settings))


def _compared(
    source: Replica, target: Replica | None, source_name: str, target_name: str
) -> Exchange:
    comparison = compare_replicas(source, target)
    return Exchange(
        bank=source.bank,
        name=name_of(source.reader, source.bank),
        source=source_name,
        target=target_name,
        relation=comparison.relation,
        common=comparison.common,
        source_size=source.size,
        target_size=target.size if target is not None else 0,
    )


def _copy(store: Store, reader: Reader, bank: str) -> Replica:
    replica = copy_of(reader, bank)
    if replica is None:
        raise UnknownBankError(f"there is no bank {bank} here", file=store.name)
    return replica


def _notes(done: FastForwardResult | MergeResult) -> list[str]:
    notes = []
    if done.blobs_missing:
        notes.append(
            f"{done.blobs_missing} blobs that records refer to are missing in the other store"
        )
    if isinstance(done, MergeResult):
        if done.waiting:
            notes.append(f"{done.waiting} records belong to incomplete imports there")
        if done.decisions:
            notes.append(f"{done.decisions} decisions that concern only the other log were skipped")
    return notes


@contextmanager
def opened_at(settings: Settings, address: str, *, read_only: bool) -> Iterator[Store]:
    """Open the store at an address; it is closed at the end of the block."""
    store = open_store(address, read_only=read_only, unlocking=settings.unlocking)
    try:
        yield store
    finally:
        store.close()


def require_other(settings: Settings, address: str) -> None:
    """Require that an address is not that of the configured store.

    Raises:
        UsageError: If it is.
    """
    if is_same(settings.store, address):
        raise UsageError(
            "this is the configured store itself",
            file=shown_address(address),
            field="store",
        )


def _require_same_bank(target: Store, source: Store, bank: str, requested: str | None) -> None:
    """Require that a name is of the same bank in both stores."""
    with source.reading() as reader:
        name = requested or name_of(reader, bank)
    if name is None or bank == name:
        return
    try:
        other = find_bank(target, name)
    except UnknownBankError:
        return
    if other != bank:
        raise UsageError(
            f"the bank {name!r} is a different bank in each store: {bank} and {other}",
            hint=(
                "Only copies of the same bank can be merged. To add it as a second bank anyway: "
                f"--bank {bank}"
            ),
        )
