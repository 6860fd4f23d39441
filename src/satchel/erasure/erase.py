"""Erase records with everything that depends on them, everywhere, and sign a report of it.

The records are found in one pass over the whole log, without an index. Dependent records are erased
first, in groups that are erased completely or not at all, so that a killed erasure is resumed by
running it again. Then the bytes are removed from the store, and everything that can be reached is
scanned for fragments. Source: docs/decisions/0041.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from satchel.backup.erasures import BackupErasureTarget
from satchel.bank.connections import writer_key
from satchel.bank.machine_keys import require_owner
from satchel.bank.open_bank import OpenBank
from satchel.config.options import NOT_FOR_MODELS
from satchel.crypto.encryption import in_environment
from satchel.crypto.sealed_records import Sealed, seal
from satchel.erasure.fragments import Fragments, NestedFileScanner
from satchel.erasure.selection import DerivedRecords, EraseOptions, EraseReason, EraseSelection
from satchel.errors import MemoryStoreError, SatchelError, StoreBusyError
from satchel.files import MemoryStore
from satchel.files.bank_files import opened_files
from satchel.files.catch_up import namespace_of
from satchel.ledger.projection import VerifiedRecord
from satchel.ledger.transaction import ERASABLE, finish_erasure, is_unfinished
from satchel.ledger.view import View
from satchel.model.records import Erasure, FileVersion, Status
from satchel.model.values import now, tool_version
from satchel.ports.operations import PathText, operation, texts
from satchel.ports.rows import ALL_RECORDS
from satchel.ports.store import Extent, InspectableStore, Store, below
from satchel.receipts.archive import (
    recent_receipts,
    refuse_copy,
    save_receipts,
    signer,
)
from satchel.receipts.receipt import (
    VERSION,
    Counts,
    ReceiptBody,
    ScanResult,
    TransferEnd,
    receipt_of,
)

_MOST_NAMED = 40
_SECRET_FOLDERS = frozenset({"keys", "identities"})


class ErasureTarget(Protocol):
    """A place outside the store that may hold erased content."""

    name: str
    """Name for the report."""

    def erase(self, records: Sequence[VerifiedRecord]) -> int:
        """Remove records that are about to be erased; return the number of removed items.

        It is called again for the same records after a program was killed.

        Raises:
            SatchelError: If it fails; the records are not erased then.
        """
        ...

    def laid_open(self) -> Iterator[Extent]:
        """Yield all bytes that may contain fragments, compressed ones as stored."""
        ...

    def out_of_reach(self) -> list[str]:
        """Return descriptions of where it may hold content that cannot be scanned here."""
        ...

    def close(self) -> None:
        """Close it."""
        ...


class MemoryFilesTarget:
    """The memory files of a bank: a file is removed with all its versions."""

    name = "memory files"

    def __init__(self, bank: OpenBank) -> None:
        self._bank = bank
        self._open = ExitStack()
        self._store: MemoryStore | None = None

    def erase(self, records: Sequence[VerifiedRecord]) -> int:
        """See the protocol."""
        paths = {
            logged.model.path: logged.model.metadata.get("store")
            for logged in records
            if isinstance(logged.model, FileVersion)
        }
        store = self._opened() if paths else None
        if store is None:
            return 0
        erased = 0
        for path, where in sorted(paths.items()):
            if where == store.id and _has_history(store, path):
                erased += store.erase(path, reason="erased from the bank")
        return erased

    def laid_open(self) -> Iterator[Extent]:
        """See the protocol."""
        store = self._opened()
        if store is not None:
            yield from store.laid_open()

    def out_of_reach(self) -> list[str]:
        """See the protocol."""
        store = self._opened()
        if store is None:
            return []
        unreachable = (
            ["the audit log of memory files, which contains paths and digests"]
            if store.audit
            else []
        )
        if not store.is_in_place:
            unreachable.append("removed memory files that the object store retains")
            unreachable.append("working copies of memory files on other machines")
        return unreachable

    def close(self) -> None:
        """See the protocol."""
        self._open.close()

    def _opened(self) -> MemoryStore | None:
        name = self._bank.name
        if self._store is None and name:
            with suppress(MemoryStoreError):
                known = {**namespace_of(self._bank.settings)._asdict(), "key": name}
                if MemoryStore.exists(**known):
                    files = opened_files(self._bank.settings, name)
                    self._store = self._open.enter_context(files)
        return self._store


class HomeTarget:
    """Files of this machine outside of stores: receipts, journals, copies of older stores."""

    name = "home folder"

    def __init__(self, bank: OpenBank) -> None:
        self._bank = bank

    def erase(self, records: Sequence[VerifiedRecord]) -> int:
        """See the protocol; nothing there belongs to one record."""
        del records
        return 0

    def laid_open(self) -> Iterator[Extent]:
        """See the protocol; keys are not scanned."""
        home = self._bank.settings.home
        for extent in below(home):
            if Path(extent.name).relative_to(home).parts[0] not in _SECRET_FOLDERS:
                yield extent

    def out_of_reach(self) -> list[str]:
        """See the protocol; the files that were exported from the bank, according to receipts."""
        bank, names = self._bank, dict[str, None]()
        with suppress(SatchelError, OSError):
            for receipt in recent_receipts(bank.settings, bank.id, limit=10_000):
                if receipt.kind in ("export", "convert", "migrate", "copy"):
                    names[f"an exported copy: {receipt.output}"] = None
        copies = list(names)
        if copies[_MOST_NAMED:]:
            more = f"{len(copies) - _MOST_NAMED} more copies; see: satchel receipt list"
            copies[_MOST_NAMED:] = [more]
        return copies

    def close(self) -> None:
        """See the protocol."""


ERASURE_TARGETS: tuple[Callable[[OpenBank], ErasureTarget], ...] = (
    MemoryFilesTarget,
    BackupErasureTarget,
    HomeTarget,
)
"""All targets of an erasure, in order."""


def _has_history(store: MemoryStore, path: str) -> bool:
    """Return whether a store has a path, or an earlier version of it."""
    return store.exists(path) or bool(store.history(path))


_MOST_EXAMPLES, _MOST_POSITIONS = 20, 5

ALWAYS_OUT_OF_REACH = (
    "backups, file system snapshots, and unused disk blocks",
    "data already sent to models and services",
)
"""What no program on this machine can scan."""

OnScanned = Callable[[int], None]
"""Called with the number of further bytes that were scanned."""


class RemainingMentions(NamedTuple):
    """Remaining records that contain the same fragments."""

    records: int
    """Lower bound of their number: one for each distinct fragment."""

    examples: list[str]
    """Bank and ID of the first of them."""


def find_remaining_mentions(
    store: Store, fragments: Fragments, on_scanned: OnScanned
) -> RemainingMentions:
    """Return the records of a store that still contain a fragment of the erased content.

    Such a fragment is not searched any further: it is no remnant.
    """
    records, examples = 0, list[str]()
    with store.reading() as reader:
        for bank in reader.banks():
            for row in reader.scan(bank, ALL_RECORDS):
                if not len(fragments):
                    break
                body = row.body or b""
                on_scanned(len(body))
                mentioned = fragments.in_bytes(body)
                fragments.drop(mentioned)
                if mentioned:
                    records += 1
                    if len(examples) < _MOST_EXAMPLES:
                        examples.append(f"{bank} {row.id}")
    return RemainingMentions(records, examples)


def scan(
    store: Store,
    extents: Iterable[Extent],
    fragments: Fragments,
    on_scanned: OnScanned,
    inside: NestedFileScanner,
) -> list[ScanResult]:
    """Scan the raw bytes of a store and of other places, each once.

    Args:
        store: The store.
        extents: Bytes of the other places; packed and encrypted ones are opened.
        fragments: The fragments to search.
        on_scanned: Called with the number of scanned bytes.
        inside: Opens packed and encrypted files, and notes which it cannot open.
    """
    results, seen = list[ScanResult](), set[str]()
    store_extents = store.laid_open() if isinstance(store, InspectableStore) else ()
    for source in (store_extents, extents):
        for extent in source:
            if extent.name not in seen:
                seen.add(extent.name)
                results.append(_scan_extent(extent, fragments, on_scanned))
                if source is not store_extents:
                    results += (
                        _scan_extent(nested, fragments, on_scanned)
                        for nested in inside.within(extent)
                    )
    return results


def unreached(store: Store, others: Iterable[str]) -> list[str]:
    """Return descriptions of what was not scanned."""
    own = (
        store.out_of_reach() if isinstance(store, InspectableStore) else ["the store's own memory"]
    )
    return list(dict.fromkeys([*own, *others, *ALWAYS_OUT_OF_REACH]))


def _scan_extent(extent: Extent, fragments: Fragments, on_scanned: OnScanned) -> ScanResult:
    size = 0

    def counted() -> Iterable[bytes]:
        nonlocal size
        for piece in extent.pieces():
            size += len(piece)
            on_scanned(len(piece))
            yield piece

    count, at = 0, list[int]()
    for position in fragments.places_in(counted()):
        count += 1
        if len(at) < _MOST_POSITIONS:
            at.append(position)
    return ScanResult(name=extent.name, bytes=size, found=count, at=at)


_MOST_LEFT = 20
_STEP = 1_000
_UNFINISHED = "an interrupted erasure was completed; its texts were not scanned for"
_SCANNED = 2 << 20

Progress = Callable[[int, int], None]
"""Called with the work done and the total, without a unit."""


class ErasureResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Result of an erasure, or of a dry run."""

    bank: str
    chosen: int
    """Number of selected records."""

    with_them: dict[str, int] = {}
    """Number of dependent records, by reason: ``version``, ``joins``, ``derived``."""

    erased: int
    """Number of all erased records."""

    types: dict[str, int] = {}
    """Number of erased records by type."""

    derived_left: int = 0
    """Number of derived records that are kept; ``cascade`` erases them."""

    derived_examples: list[str] = []
    arriving: int = 0
    """Number of records of incomplete imports, which cannot be erased yet."""

    bytes: int = 0
    """Their size in the log in bytes."""

    blobs: int = 0
    held: dict[str, int] = {}
    """Number of items removed in other places, by place; ``backups``: listed as erased there."""

    still_said: int = 0
    """Lower bound of the remaining records of the store with the same content."""

    still_said_examples: list[str] = []
    looked_for: int = 0
    """Number of 16-byte fragments that were searched."""

    too_short: int = 0
    """Number of texts that are too short to be searched."""

    scanned: list[ScanResult] = []
    unreached: list[str] = []
    notes: list[str] = []
    receipt: str | None = None
    """ID of the signed report."""

    finished: bool = True
    """Whether the bytes were removed from the store; if not, run the erasure again."""

    dry_run: bool = False

    @property
    def found(self) -> int:
        """Number of positions with a remaining fragment."""
        return sum(one.found for one in self.scanned)

    @property
    def exit_status(self) -> int:
        """1 if something remains or may remain, otherwise 0."""
        return int(bool(self.found or not self.finished or self.arriving))


@operation(
    EraseOptions,
    name="erase",
    example="satchel erase --where user=ada --cascade --dry-run",
    absent=NOT_FOR_MODELS,
)
def erase(bank: OpenBank, options: EraseOptions) -> ErasureResult:
    """Erase memories permanently, also current ones, with their versions and links.

    Their contents are deleted from the store, its indexes, its log and the memory files; the log
    still verifies. Then all bytes that can be reached are searched for remnants, and a signed
    report lists what was erased, where remnants are left, and what could not be reached. This
    cannot be undone.

    Args:
        bank: The bank, open for writing; or for reading, for a dry run.
        options: What to erase.

    Raises:
        UsageError: If nothing is selected, or an ID is ambiguous.
        UnknownMemoryError: If there is no such record.
        ReadOnlyStoreError: If no key here may append to the bank.
        VerificationError: If the store is not what was signed.
        StoreError: If it cannot be written; groups that were erased before stay erased.
    """
    require_owner(bank.settings, "erase")
    refuse_copy(bank.settings, _file(options.receipt))
    with closing(DerivedRecords()) as derived:
        erasing = _EraseTask(bank, options, derived)
        planned = erasing.plan()
        if options.dry_run:
            return planned
        return erasing.carry_out(planned)


def _file(path: PathText | None) -> Path | None:
    return None if path is None else Path(path)


class _EraseTask:
    """One erasure, from the plan to the report."""

    def __init__(self, bank: OpenBank, options: EraseOptions, derived: DerivedRecords) -> None:
        self._bank = bank
        self._options = options
        self._derived = derived
        self._progress = options.progress
        self._began = now()
        self._erased_types = Counter[str]()
        self._fragments = Fragments()
        self._done = self._bytes = 0
        self._total = 1

    def plan(self) -> ErasureResult:
        """Find the records to erase."""
        options, derived = self._options, self._derived
        with self._bank.ledger.reading() as view:
            choice = EraseSelection(view, texts(options.ids), options.where)
            self._total = 3 * view.head.size + _SCANNED // _STEP
            derived.choose(choice.ids)
            for logged in view.scan():
                if logged.record.type in ERASABLE:
                    derived.add(logged.model)
                    if choice.takes(logged):
                        derived.choose([logged.record.id])
                self._report_progress(1)
            derived.spread(view.versions, cascade=options.cascade)
            arriving = sum(
                choice.takes(logged)
                for source in view.open_imports()
                for logged in view.pending(source)
                if logged.record.type in ERASABLE
            )
        counts = derived.counts()
        left, examples = derived.left(_MOST_LEFT)
        return ErasureResult(
            bank=self._bank.id,
            chosen=counts.pop(EraseReason.CHOSEN, 0),
            with_them={str(why): number for why, number in sorted(counts.items())},
            erased=sum(derived.types().values()),
            types=derived.types(),
            derived_left=left,
            derived_examples=examples,
            arriving=arriving,
            dry_run=options.dry_run,
        )

    def carry_out(self, planned: ErasureResult) -> ErasureResult:
        """Erase the records, scan for remnants, and report."""
        bank, held = self._bank, dict[str, int]()
        notes = [_UNFINISHED] if is_unfinished(bank.store, bank.id) else []
        with ExitStack() as opened:
            targets = [opened.enter_context(closing(each(bank))) for each in ERASURE_TARGETS]
            erased = self._erase(targets, held)
            blobs, finished = self._finish(notes)
            mentions, scanned, unscanned = RemainingMentions(0, []), list[ScanResult](), list[str]()
            unreachable = [name for each in targets for name in each.out_of_reach()]
            if self._options.scan:
                mentions = find_remaining_mentions(
                    bank.store, self._fragments, self._report_scanned
                )
                extents = (extent for each in targets for extent in each.laid_open())
                unlocking = replace(bank.settings.unlocking, passphrase=in_environment)
                inside = NestedFileScanner(unlocking, bank.settings.options.limits)
                scanned = scan(bank.store, extents, self._fragments, self._report_scanned, inside)
                unscanned = unreached(bank.store, [*unreachable, *inside.closed])
        if self._fragments.left_out:
            notes.append(f"{self._fragments.left_out:,} pieces were not scanned for: too many")
        done = msgspec.structs.replace(
            planned,
            erased=erased,
            bytes=self._bytes,
            blobs=blobs,
            held=held,
            still_said=mentions.records,
            still_said_examples=mentions.examples,
            looked_for=len(self._fragments),
            too_short=self._fragments.too_short,
            scanned=scanned,
            unreached=unscanned,
            finished=finished,
            notes=notes,
        )
        return self._reported(done)

    def _erase(self, targets: Sequence[ErasureTarget], held: dict[str, int]) -> int:
        """Erase group by group, and return the number of records."""
        erased, by = 0, writer_key(self._bank.settings).did
        for ids in self._derived.ids_to_erase():
            with self._bank.ledger.reading() as view:
                records = sorted(view.get(ids).values(), key=lambda each: each.seq)
            for logged in records:
                self._fragments.add(logged.record.value)
            for target in targets:
                number = target.erase(records)
                if number:
                    held[target.name] = held.get(target.name, 0) + number
            if records:
                self._bank.ledger.append(list(self._records(records, by)))
                with self._bank.ledger.reading() as view:
                    left = view.get(ids)
                types = (each.record.type for each in records if each.record.id not in left)
                self._erased_types.update(types)
            erased += len(records)
            self._bytes += sum(len(logged.record.body) for logged in records)
            self._report_progress(len(records))
        return erased

    def _records(self, records: Sequence[VerifiedRecord], by: str) -> Iterator[Sealed]:
        """Yield the records that erase others; current ones are retired first."""
        at, reason = now(), self._options.reason
        for logged in records:
            if logged.row.retired is None:
                status = Status(target=logged.record.id, state="deleted", reason=reason, at=at)
                yield seal(status)
        for logged in records:
            yield seal(Erasure(entry=logged.record.id, reason=reason, by=by, at=at))

    def _finish(self, notes: list[str]) -> tuple[int, bool]:
        """Remove the bytes from the store; return the number of blobs, and whether it succeeded."""
        try:
            return finish_erasure(self._bank.store, self._bank.id), True
        except StoreBusyError as error:
            notes.append(f"the bytes could not be removed from the store yet: {error.message}")
            return 0, False

    def _reported(self, done: ErasureResult) -> ErasureResult:
        """Sign the report and store it."""
        bank, settings = self._bank, self._bank.settings
        with bank.ledger.reading() as view:
            end = _end(bank, view)
        notes = [*done.notes, *_result_notes(done)]
        account = ReceiptBody(
            version=VERSION,
            kind="erase",
            tool=tool_version(),
            began=self._began,
            ended=now(),
            input=end,
            output=end,
            counts={
                name: Counts(
                    read=number, planned=number, written=number, read_back=self._erased_types[name]
                )
                for name, number in done.types.items()
            },
            done={"erased": done.erased, "blobs": done.blobs, **done.held},
            scanned=done.scanned,
            unreached=done.unreached,
            notes=notes,
        )
        receipt = receipt_of(account, signer(settings, None))
        ids, problems = save_receipts(settings, [receipt], _file(self._options.receipt))
        return msgspec.structs.replace(
            done, receipt=ids[0] if ids else None, notes=[*done.notes, *problems]
        )

    def _report_progress(self, steps: int) -> None:
        self._done = min(self._done + steps, self._total)
        if self._progress is not None:
            self._progress(self._done, self._total)

    def _report_scanned(self, size: int) -> None:
        self._report_progress(size // _STEP)


def _end(bank: OpenBank, view: View) -> TransferEnd:
    head = view.head
    return TransferEnd(
        name=bank.name or bank.id,
        bank=bank.id,
        store=bank.store.name,
        size=head.size,
        root=head.root,
    )


def _result_notes(done: ErasureResult) -> Iterator[str]:
    """Yield notes for the report, without erased content."""
    yield (
        f"{done.looked_for:,} fragments of 16 bytes were searched for; {done.too_short:,} texts "
        "were too short to search for (10 bytes or fewer)"
    )
    if done.still_said:
        such = ", ".join(done.still_said_examples[:3])
        yield (
            f"{done.still_said:,} or more remaining records contain some of the same text, such as "
            f"{such}"
        )
    if done.derived_left:
        such = ", ".join(done.derived_examples[:3])
        yield f"{done.derived_left:,} records derived from it remain, such as {such}"
    if done.arriving:
        yield f"{done.arriving:,} records of incomplete imports could not be erased"
    if not done.finished:
        yield (
            "the store may still contain its bytes: run again when no other program reads the store"
        )
