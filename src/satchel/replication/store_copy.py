"""Copy a whole store to another of any kind: ``satchel store copy``.

Each bank is copied with its IDs, log, positions, times, signed head, vectors, blobs and unlogged
values, in commits from which a later run can resume. The copy is verified against the signed head
before it gets that head, and read back afterwards.
"""

import shlex
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field

import msgspec

from satchel.bank.banks import note_default_bank
from satchel.bank.connections import (
    is_same,
    known_owners,
    local_path,
    store_exists,
    witness_of,
)
from satchel.bank.machine_keys import require_owner
from satchel.bank.open_bank import BankNames, default_bank, find_bank, inherit_default_bank, name_of
from satchel.config.settings import Settings
from satchel.errors import (
    EmptyInputError,
    StoreBusyError,
    TargetExistsError,
    UnknownBankError,
    UsageError,
    VerificationError,
    shown_address,
)
from satchel.ledger.heads import BankStanding, SeenHead, Verdict, judge
from satchel.ledger.transaction import finish_erasure
from satchel.model.values import now, tool_version
from satchel.ports.store import Store
from satchel.receipts.receipt import VERSION, Counts, ReceiptBody, receipt_text
from satchel.receipts.steps import end_of_bank, save_receipt
from satchel.replication.copies import (
    Relation,
    Replica,
    SideDataCounts,
    compare,
    compare_replicas,
    copied_records,
    copy_log,
    copy_side_data,
    fast_forward,
    load_replica,
    require_replica,
    side_of,
    store_head,
    verify_side_data,
)
from satchel.replication.operations import opened_at
from satchel.runtime.private_files import private_folder

Progress = Callable[[int, int], None]
"""Called with the number of records copied plus compared, and twice the total."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyOptions:
    """Options of a store copy."""

    banks: tuple[str, ...] = ()
    """Names or IDs of the banks; empty for all."""

    dry_run: bool = False
    progress: Progress | None = None


class CopiedBank(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Result for one bank."""

    bank: str
    relation: Relation
    """Relation of the source copy to the target copy before."""

    size: int
    """Number of records in its log."""

    root: str
    name: str | None = None
    carried: int = 0
    """Number of records copied now."""

    earlier: int = 0
    """Number of records that were there before, such as those of an interrupted run."""

    compared: dict[str, int] = {}
    """Number of records of each type that were read back and are equal."""

    vectors: int = 0
    blobs: int = 0
    side: int = 0
    """Number of unlogged values copied."""

    trust: BankStanding | None = None
    """Trust of this machine in the bank."""

    receipt: str | None = None
    default: bool = False
    """Whether it is the default bank of the target store."""

    notes: list[str] = []


class StoreCopy(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Result of a store copy, or of a dry run."""

    source: str
    target: str
    banks: list[CopiedBank]
    dry_run: bool = False
    notes: list[str] = []


def copy_store(
    settings: Settings, source: str, target: str, options: CopyOptions | None = None
) -> StoreCopy:
    """Copy the banks of a store to another one, created if missing; the source is only read.

    An interrupted run is resumed by running it again. Nothing is written for a bank that exists
    there with another log.

    Args:
        settings: Settings of the machine: keys, trust, witness, receipts.
        source: Address of the source store.
        target: Address of the target store.
        options: Options of the copy.

    Raises:
        UsageError: If both are the same store.
        UnknownBankError: If there is no store, or a named bank does not exist.
        EmptyInputError: If there is no bank.
        TargetExistsError: If a bank exists there, and its log is not a prefix of this one.
        RolledBackError: If the source is older than what this machine saw.
        VerificationError: If a record is not what was signed. The bank has no head there then.
        StoreBusyError: If another process writes the same bank there.
        StoreError: If a store cannot be read or written; a later run resumes the copy.
    """
    require_owner(settings, "store")
    options = options or CopyOptions()
    if is_same(source, target):
        raise UsageError("a store cannot be copied to itself", file=shown_address(target))
    if not store_exists(source):
        raise UnknownBankError("no store to copy", file=shown_address(source))
    with ExitStack() as stack:
        source_store = stack.enter_context(opened_at(settings, source, read_only=True))
        banks, target_store = _selected_banks(source_store, options.banks), None
        if store_exists(target):
            target_store = stack.enter_context(
                opened_at(settings, target, read_only=options.dry_run)
            )
        task = _CopyTask(settings, source, target, source_store, target_store, options)
        copied, notes = [task.planned(bank) for bank in banks], list[str]()
        if not options.dry_run:
            task.target_store = target_store or stack.enter_context(_create_store(settings, target))
            task.total = 2 * sum(result.size for result in copied)
            note_default_bank(settings.at(target), task.target_store)
            copied = [task.copied(result) for result in copied]
            default, notes = inherited_default(
                settings.at(target), task.target_store, default_bank(settings.at(source)), banks
            )
            copied = [
                msgspec.structs.replace(result, default=result.bank == default) for result in copied
            ]
    return StoreCopy(
        source=shown_address(source),
        target=shown_address(target),
        banks=copied,
        dry_run=options.dry_run,
        notes=notes,
    )


def inherited_default(
    settings: Settings, store: Store, chosen: str | None, banks: Sequence[str]
) -> tuple[str | None, list[str]]:
    """Set the default bank of a target store to that of the source, if it has none.

    Args:
        settings: Settings with the target store.
        store: The target store.
        chosen: ID of the default bank of the source store.
        banks: IDs of the banks that were copied.

    Returns:
        ID of its default bank; if it has none and several banks, a note on choosing one.
    """
    default = inherit_default_bank(settings, chosen, banks)
    with store.reading() as reader:
        several = len(reader.banks(limit=2)) > 1
    if default is not None or not several:
        return default, []
    address = shlex.quote(shown_address(settings.store))
    return None, [f"no bank is the default; choose one: satchel --store {address} bank use NAME"]


def _create_store(settings: Settings, address: str) -> AbstractContextManager[Store]:
    path = local_path(address)
    if path is not None and path.parent == settings.home:
        private_folder(settings.home)
    return opened_at(settings, address, read_only=False)


def _selected_banks(store: Store, names: Sequence[str]) -> list[str]:
    """Return the IDs of the selected banks, without duplicates."""
    if names:
        return list(dict.fromkeys(find_bank(store, name) for name in names))
    with store.reading() as reader:
        banks, begun = reader.banks(), reader.begun()
    if not banks:
        raise EmptyInputError(
            "no banks to copy",
            file=store.name,
            hint="A copy to it is incomplete; resume that first." if begun else None,
        )
    return banks


@dataclass(slots=True)
class _CopyTask:
    """The copy of several banks."""

    settings: Settings
    source: str
    target: str
    source_store: Store
    target_store: Store | None
    """The target store; None until it is created."""

    options: CopyOptions
    total: int = 0
    done: int = 0
    bank_names: BankNames | None = field(default=None)

    def planned(self, bank: str) -> CopiedBank:
        """Return the relation of a bank's copies; refuse one that cannot be copied."""
        seen = self._seen_heads(bank)
        with self.source_store.reading() as reader:
            source, target, begun = require_replica(reader, bank), None, None
            if self.target_store is not None:
                with self.target_store.reading() as other:
                    begun = copied_records(other, bank)
                    target = load_replica(other, bank) if begun is None else None
                    comparison = compare_replicas(source, target)
            else:
                comparison = compare_replicas(source, None)
            if target is not None and comparison.relation not in (Relation.SAME, Relation.AHEAD):
                raise _longer_target(source, target, comparison.common)
            verdict = self._judge_copy(source, target, seen)
            name = name_of(reader, bank)
        return CopiedBank(
            bank=bank,
            name=name,
            relation=comparison.relation,
            size=source.size,
            root=source.trusted.head.root,
            earlier=begun or comparison.common,
            trust=verdict.standing,
            notes=[*verdict.notes, *self._same_name(bank, name)],
        )

    def copied(self, plan: CopiedBank) -> CopiedBank:
        """Copy one bank, compare it, and store a receipt."""
        began, before, seen = now(), self.done, self._seen_heads(plan.bank)
        with self.source_store.reading() as reader:
            copied = self._copy_bank(require_replica(reader, plan.bank), plan, seen)
        self.done = before + 2 * plan.size
        self._tell(0)
        account = self._account(copied, began)
        receipt, notes = save_receipt(self.settings, account)
        return msgspec.structs.replace(copied, receipt=receipt, notes=[*copied.notes, *notes])

    def _copy_bank(self, source: Replica, plan: CopiedBank, seen: list[SeenHead]) -> CopiedBank:
        bank, store = source.bank, self._store()
        with store.reading() as other:
            target = load_replica(other, bank) if copied_records(other, bank) is None else None
        verdict = self._judge_copy(source, target, seen)
        is_new, side, notes = target is None, 0, list(plan.notes)
        if target is None:
            copy = copy_log(source, store, self._tell)
            carried, earlier = copy.records, copy.earlier
            if copy.restarted:
                notes.append("an earlier run had copied an older state; the copy was started again")
        else:
            carried, earlier = self._copy_rest(source), target.size
        beside = SideDataCounts()
        copy_side_data(source.reader, bank, store, beside)
        with store.reading() as other:
            counts = compare(source, other, self._tell)
            if is_new:
                verify_side_data(source.reader, bank, other)
        if is_new:
            side = store_head(source, store)
        with store.reading() as other:
            _require_head(source, load_replica(other, bank))
        if verdict.standing is BankStanding.OWN:
            signed = msgspec.json.decode(source.trusted.stored.signed)
            witness_of(self.settings).record(signed, given_up=verdict.given_up)
        finish_erasure(store, bank)
        if beside.vectors_other:
            notes.append(f"{beside.vectors_other} vectors differ there and were kept")
        return msgspec.structs.replace(
            plan,
            size=source.size,
            root=source.trusted.head.root,
            carried=carried,
            earlier=earlier,
            compared=counts,
            vectors=beside.vectors,
            blobs=beside.blobs,
            side=side,
            trust=verdict.standing,
            notes=notes,
        )

    def _copy_rest(self, source: Replica) -> int:
        """Copy what a complete copy there lacks of the log, in one commit; return the number."""
        store = self._store()
        with store.writing() as writing:
            target = load_replica(writing, source.bank)
            comparison = compare_replicas(source, target)
            if target is None or comparison.relation not in (Relation.SAME, Relation.AHEAD):
                raise StoreBusyError(
                    "the copy was changed by another process", file=store.name, hint="Try again."
                )
            self._tell(target.size)
            if comparison.relation is Relation.SAME:
                return 0
            done = fast_forward(source, writing, target)
            writing.put_side(source.bank, side_of(source.reader, source.bank))
        self._tell(done.records)
        return done.records

    def _seen_heads(self, bank: str) -> list[SeenHead]:
        """Return the heads that this machine saw; called before the source is read."""
        witnessed = witness_of(self.settings).last(bank)
        return (
            [] if witnessed is None else [SeenHead(witnessed.head, "this machine", witnessed=True)]
        )

    def _judge_copy(
        self, source: Replica, target: Replica | None, seen: Sequence[SeenHead]
    ) -> Verdict:
        """Verify the source copy against what this machine saw and against the target copy."""
        owners, trusted = known_owners(self.settings, source.bank), source.trusted
        if target is not None:
            own = bool(seen) or target.trusted.authority.owned_by(owners)
            seen = [*seen, SeenHead(target.trusted.head, "the other copy", own=own)]
        return judge(trusted.head, trusted.authority, source.tree, seen, owners)

    def _same_name(self, bank: str, name: str | None) -> list[str]:
        if self.target_store is None or name is None:
            return []
        if self.bank_names is None:
            self.bank_names = BankNames(self.target_store)
        if not any(other != bank for other in self.bank_names.called(name)):
            return []
        return [f"another bank there is also named {name!r}: use its ID"]

    def _store(self) -> Store:
        assert self.target_store is not None  # noqa: S101 - made before anything is copied
        return self.target_store

    def _tell(self, records: int) -> None:
        self.done += records
        if self.options.progress is not None:
            self.options.progress(self.done, self.total)

    def _account(self, done: CopiedBank, began: str) -> ReceiptBody:
        source, target = (
            msgspec.structs.replace(
                end_of_bank(done.name, done.bank, address),
                size=done.size,
                root=done.root,
                records=done.size,
            )
            for address in (self.source, self.target)
        )
        counts = {name: Counts.complete(number) for name, number in done.compared.items()}
        beside = {"vectors": done.vectors, "blobs": done.blobs, "unlogged values": done.side}
        return ReceiptBody(
            version=VERSION,
            kind="copy",
            tool=tool_version(),
            began=began,
            ended=now(),
            input=source,
            output=target,
            counts=counts,
            unchanged=done.relation is Relation.SAME,
            done={"carried": done.carried, "there before": done.earlier, **beside},
            read_back="equal",
            notes=[receipt_text(note) for note in done.notes],
        )


def _require_head(source: Replica, target: Replica | None) -> None:
    if target is None or target.trusted.head.root != source.trusted.head.root:
        raise VerificationError("the head there differs from the one that was copied")


def _longer_target(source: Replica, target: Replica, common: int) -> TargetExistsError:
    beyond = target.size - common
    return TargetExistsError(
        f"the bank {source.bank} already exists there, with {beyond:,} records that are "
        "missing here",
        hint="Nothing was written. Pull them first with satchel pull, or copy to another store.",
    )
