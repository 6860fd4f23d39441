"""Log the planned records of an import in groups that become visible together.

A killed import can be resumed: the seed of its nonces is stored with the log until it is complete,
so that the same input gives the same records, and those already logged are skipped.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from itertools import chain, islice

import msgspec

from satchel.bank.connections import writer_key
from satchel.bank.jobs import SIDE, ImportJournal, revert_import, side_name
from satchel.bank.open_bank import OpenBank
from satchel.crypto.redaction import signed_redaction
from satchel.crypto.sealed_records import Sealed, digest, seal
from satchel.errors import ChangedError, ConflictError, SlotTakenError, StoreDamagedError
from satchel.ledger.ledger import Ledger
from satchel.ledger.transaction import LogTransaction
from satchel.model.records import Redaction, Source, Status
from satchel.model.values import now
from satchel.ports.rows import Row
from satchel.receipts.receipt import Tally
from satchel.runtime.scratch import ScratchMap
from satchel.transfer.import_plan import ImportPlan
from satchel.transfer.import_results import ConflictPolicy
from satchel.transfer.import_stage import CommitTooLargeError

_ATTEMPTS = 8

Progress = Callable[[int, int, str | None], None]
"""Called with the number of logged records, the total, and the ID of the last one."""


class StreamedImport:
    """One import into one bank, logged in one transaction while its file is read.

    Args:
        block: Opens the transaction, which is rolled back on an error.
        size: Length of the log of a vacant bank; None for a new bank.

    Raises:
        CommitTooLargeError: If the log is longer now.
        ReadOnlyStoreError: If no key may sign.
    """

    def __init__(
        self, block: AbstractContextManager[tuple[Ledger, LogTransaction]], size: int | None
    ) -> None:
        self._block = ExitStack()
        self.ledger, self._log = self._block.enter_context(block)
        try:
            self._log.begin_import(size)
        except ChangedError as error:
            self.take_back()
            raise CommitTooLargeError from error
        except BaseException:
            self.take_back()
            raise
        self.source = ""
        """ID of the source record; empty until it is closed."""

        self.tally = Tally()
        """Counts of what was logged."""

    def add(self, rows: Sequence[Row]) -> None:
        """Log a group of records.

        Raises:
            CommitTooLargeError: If the bank has another version of something.
        """
        try:
            self._log.append_unnamed(rows)
        except SlotTakenError as error:
            raise CommitTooLargeError from error
        self.tally.add_many(rows)

    def close(self, source: Source, receipt: Callable[[], Sealed], plan: ImportPlan) -> str:
        """Commit it and return the receipt's ID; see ``ImportBatch.log_in_one_transaction``."""
        record = seal(source)
        position = self._log.name_import(record)
        self._log.require_stored()
        self.source = record.id
        sealed = receipt()
        self._log.append([sealed], side=_left_beside(plan, record.id, position))
        self._block.close()
        return sealed.id

    def take_back(self) -> None:
        """Roll back, unless it was closed."""
        with suppress(CommitTooLargeError):
            error = CommitTooLargeError()
            if not self._block.__exit__(CommitTooLargeError, error, None):
                raise error


class ImportBatch:
    """One import into one bank.

    Args:
        ledger: The bank.
        plan: What to log.
        journal: Journal of the import, new or from an earlier attempt.
        on_conflict: What to do if another process logged another version of something.
    """

    def __init__(
        self, ledger: Ledger, plan: ImportPlan, journal: ImportJournal, on_conflict: ConflictPolicy
    ) -> None:
        self._ledger = ledger
        self._plan = plan
        self._journal = journal
        self._mode = on_conflict
        self.source: str = journal.source
        """ID of the source record; empty until ``log``."""

        self.resumed = (logged_part(ledger, plan, journal.source) or 0) if journal.source else 0
        """Number of records that an earlier attempt logged."""

        self.tally = Tally()
        """Counts of what was logged here and read back."""

    def log(self, source: Source, progress: Progress | None = None) -> None:
        """Log all planned records; they are not visible yet.

        ``progress`` is called at least once, even if an earlier attempt logged everything.
        """
        total = self.total
        if not self.source:
            self._begin(source)
        done = self.resumed
        if progress is not None and done == total:
            progress(done, total, None)
        for groups in self._plan.stage.commits(after=done):
            last = None
            with self._ledger.transaction() as log:
                for group in groups:
                    log.append_rows(group, batch=self.source)
                    self.tally.add_many(group)
                    done, last = done + len(group), group[-1].id
                log.require_stored()
            if progress is not None:
                progress(done, total, last)

    def log_in_one_transaction(
        self, source: Source, receipt: Callable[[], Sealed], progress: Progress | None = None
    ) -> str:
        """Log everything in one transaction and return the ID of the receipt.

        Records are read back before the commit. Nothing is stored on failure.

        Args:
            source: The record of the import.
            receipt: Returns the record that completes the import; called right before it is logged.
            progress: Called with the progress; nothing is durable before the end.

        Raises:
            SlotTakenError: If another process logged another version of something.
            StoreDamagedError: If the store reads back something else.
        """
        record, done = seal(source), 0
        with self._ledger.transaction() as log:
            (position,) = log.append([record])
            for group in self._plan.stage.groups():
                log.append_rows(group, batch=record.id, visible=True)
                self.tally.add_many(group)
                done += len(group)
                if progress is not None:
                    progress(done, self.total, None)
            log.require_stored()
            self.source = record.id
            sealed = receipt()
            log.append([sealed], side=_left_beside(self._plan, self.source, position))
        return sealed.id

    @property
    def total(self) -> int:
        """Number of records to log."""
        return self._plan.stage.records + self._plan.stage.statuses

    def read_back(self) -> Tally:
        """Return the counts of what was logged and read back, before it becomes visible.

        What this process logged was read back before each commit. After an earlier attempt, each
        row is verified against the log, and compared with the planned bytes.

        Raises:
            StoreDamagedError: If a row differs; the import is rolled back then.
            VerificationError: If a row is not in the log.
        """
        if not self.resumed:
            return self.tally
        tally = Tally()
        with self._ledger.reading() as view:
            planned = chain.from_iterable(self._plan.stage.groups())
            for row in view.pending_rows(self.source):
                expected = next(planned, None)
                if expected is None or (expected.id, expected.body) != (row.id, row.body):
                    break
                tally.add(expected.type, expected.body or b"")
            else:
                if next(planned, None) is None:
                    return tally
        revert_import(self._ledger, self.source, "reads back differently")
        raise StoreDamagedError(
            "the logged records read back differently; the import was rolled back",
            hint="The disk may be failing. See: satchel doctor --deep.",
        )

    def close(self, receipt: Callable[[], Sealed]) -> str:
        """Make everything visible and return the ID of the receipt.

        Args:
            receipt: Returns the record that completes the import; called right before it is logged.

        Raises:
            ConflictError: If another process changed the same memories, and conflicts are errors;
                the import is undone then.
        """
        for _ in range(_ATTEMPTS):
            with self._ledger.reading() as view:
                position = next(one.place for one in view.imports() if one.source == self.source)
            sealed = receipt()
            try:
                side = _left_beside(self._plan, self.source, position)
                self._ledger.append([sealed], side=side)
            except SlotTakenError:
                self._settle()
            else:
                return sealed.id
        raise ConflictError(
            "the same memories are being changed continuously", hint="Run the import again later."
        )

    def _begin(self, source: Source) -> None:
        record = seal(source)
        journal = msgspec.structs.replace(self._journal, source=record.id, records=self.total)
        side = {SIDE + record.id: msgspec.json.encode(journal)}
        self._ledger.append([record], side=side)
        self.source, self._journal = record.id, journal

    def _settle(self) -> None:
        """Decide between records of this import and those that others logged in the meantime."""
        at, statuses = now(), list[Sealed]()
        with self._ledger.reading() as view:
            for pending in view.pending(self.source):
                current = view.current(pending.row.slot) if pending.row.slot is not None else None
                if current is None:
                    continue
                if self._mode is ConflictPolicy.OVERWRITE:
                    target, state, by = current.record.id, "superseded", pending.record.id
                else:
                    target, state, by = pending.record.id, "rejected", current.record.id
                status = Status(target=target, state=state, by=by, reason="import", at=at)  # type: ignore[arg-type]
                statuses.append(seal(status))
        if self._mode is ConflictPolicy.ERROR and statuses:
            revert_import(self._ledger, self.source, "conflict")
            raise ConflictError(
                f"{len(statuses)} memories were changed by another process",
                hint="Nothing was imported. Use --on-conflict skip, overwrite or rename.",
            )
        for start in range(0, len(statuses), 1000):
            self._ledger.append(statuses[start : start + 1000], batch=self.source)


def _left_beside(plan: ImportPlan, source: str, position: int) -> Mapping[str, bytes | None]:
    """Return the unlogged values of a complete import."""
    return {**plan.known.missing, side_name(position): plan.keys, SIDE + source: None}


def logged_part(ledger: Ledger, plan: ImportPlan, source: str) -> int | None:
    """Return how many records of a plan were logged before; None if it was another plan."""
    count = 0
    with ledger.reading() as view:
        planned = chain.from_iterable(plan.stage.groups())
        for logged in view.pending(source):
            row = next(planned, None)
            if row is None or logged.record.id != row.id:
                return None
            count += 1
    return count


_BATCH = 100


def put_back(bank: OpenBank, returned: ScratchMap) -> None:
    """Log that redacted memories are restored, each in the commit that stores its bytes.

    Args:
        bank: The bank.
        returned: Their canonical bytes, by ID; closed afterwards.

    Raises:
        RedactionRefusedError: If one was logged as another type of memory.
    """
    key, ids = writer_key(bank.settings), iter(returned)
    while some := list(islice(ids, _BATCH)):
        forms = {name.decode(): returned.get(name) or b"" for name in some}
        records = [
            signed_redaction(Redaction(entry=name, result=digest(body), by=key.did, at=now()), key)
            for name, body in forms.items()
        ]
        bank.ledger.append(records, forms=forms)
    returned.close()
