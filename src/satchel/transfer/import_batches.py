"""Logging what was planned: in groups that nobody sees until the last one is there.

A killed import is gone on with: the seed of its nonces is kept beside the log until it is complete,
so the same input gives the same records again, and those that are logged are left out.
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
from satchel.receipts.tally import Tally
from satchel.runtime.scratch import ScratchMap
from satchel.transfer.import_plan import ImportPlan
from satchel.transfer.import_results import ConflictPolicy
from satchel.transfer.import_stage import CommitTooLargeError

_ATTEMPTS = 8

Progress = Callable[[int, int, str | None], None]
"""Is told how many records are logged, of how many, and the id of the last one."""


class StreamedImport:
    """One import into one bank, logged in one transaction while its file is still read.

    Args:
        block: Gives the right to append; whatever is appended is taken back when it fails.
        size: How long the log was when it had nothing; None for one that begins with this.

    Raises:
        NotAtOnceError: If the log is longer now.
        ReadOnlyStoreError: If no key may sign here.
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
        """Id of the source record; empty until it is closed."""

        self.tally = Tally()
        """Of what was logged."""

    def add(self, rows: Sequence[Row]) -> None:
        """Log a group of records.

        Raises:
            NotAtOnceError: If the bank has another version of something.
        """
        try:
            self._log.append_unnamed(rows)
        except SlotTakenError as error:
            raise CommitTooLargeError from error
        self.tally.add_many(rows)

    def close(self, source: Source, receipt: Callable[[], Sealed], plan: ImportPlan) -> str:
        """Commit it, visible then, and return the id of the receipt; see ``Batch.log_at_once``."""
        record = seal(source)
        place = self._log.name_import(record)
        self._log.require_stored()
        self.source = record.id
        made = receipt()
        self._log.append([made], side=_left_beside(plan, record.id, place))
        self._block.close()
        return made.id

    def take_back(self) -> None:
        """Have nothing of it be there, unless it was closed."""
        with suppress(CommitTooLargeError):
            error = CommitTooLargeError()
            if not self._block.__exit__(CommitTooLargeError, error, None):
                raise error


class ImportBatch:
    """One import into one bank.

    Args:
        ledger: The bank.
        plan: What to log.
        journal: Of this import, begun before or not.
        on_conflict: What to do when somebody is quicker with another version of something.
    """

    def __init__(
        self, ledger: Ledger, plan: ImportPlan, journal: ImportJournal, on_conflict: ConflictPolicy
    ) -> None:
        self._ledger = ledger
        self._plan = plan
        self._journal = journal
        self._mode = on_conflict
        self.source: str = journal.source
        """Id of the source record; empty until ``log``."""

        self.resumed = (logged_part(ledger, plan, journal.source) or 0) if journal.source else 0
        """Records that were logged by an earlier attempt."""

        self.tally = Tally()
        """Of what was logged here and read back."""

    def log(self, source: Source, told: Progress | None = None) -> None:
        """Log everything that was planned; it is not visible yet.

        At the end it is told in any case, also when an earlier attempt had logged all.
        """
        total = self.total
        if not self.source:
            self._begin(source)
        done = self.resumed
        if told is not None and done == total:
            told(done, total, None)
        for groups in self._plan.stage.commits(after=done):
            last = None
            with self._ledger.transaction() as log:
                for group in groups:
                    log.append_rows(group, batch=self.source)
                    self.tally.add_many(group)
                    done, last = done + len(group), group[-1].id
                log.require_stored()
            if told is not None:
                told(done, total, last)

    def log_at_once(
        self, source: Source, receipt: Callable[[], Sealed], told: Progress | None = None
    ) -> str:
        """Log everything in one transaction, visible at its end, and return the id of the receipt.

        It is read back before it is committed. Nothing is there when this fails.

        Args:
            source: The record of the import.
            receipt: Gives the record that makes it visible, made when it is about to be logged.
            told: Is told how far it got; nothing is durable before the end.

        Raises:
            SlotTakenError: If somebody was quicker with another version of something.
            StoreDamagedError: If the store reads back something else.
        """
        record, done = seal(source), 0
        with self._ledger.transaction() as log:
            (place,) = log.append([record])
            for group in self._plan.stage.groups():
                log.append_rows(group, batch=record.id, visible=True)
                self.tally.add_many(group)
                done += len(group)
                if told is not None:
                    told(done, self.total, None)
            log.require_stored()
            self.source = record.id
            made = receipt()
            log.append([made], side=_left_beside(self._plan, self.source, place))
        return made.id

    @property
    def total(self) -> int:
        """Records that are to be logged."""
        return self._plan.stage.records + self._plan.stage.statuses

    def read_back(self) -> Tally:
        """Return what was logged and read back, before anybody sees it.

        What this process logged was read back before each commit. After an earlier attempt, each
        row is proved to be the one that was logged at its place, and to have the very bytes that
        were planned, which their ids are the hashes of.

        Raises:
            StoreDamagedError: If it is not so; the import is taken back then.
            VerificationError: If the log does not prove a row.
        """
        if not self.resumed:
            return self.tally
        tally = Tally()
        with self._ledger.reading() as view:
            planned = chain.from_iterable(self._plan.stage.groups())
            for row in view.pending_rows(self.source):
                meant = next(planned, None)
                if meant is None or (meant.id, meant.body) != (row.id, row.body):
                    break
                tally.add(meant.type, meant.body or b"")
            else:
                if next(planned, None) is None:
                    return tally
        revert_import(self._ledger, self.source, "reads back differently")
        raise StoreDamagedError(
            "the logged records read back differently; the import was rolled back",
            hint="The disk may be failing. See: satchel doctor --deep.",
        )

    def close(self, receipt: Callable[[], Sealed]) -> str:
        """Make everything visible at once, and return the id of the receipt.

        Args:
            receipt: Gives the record that does it, made when it is about to be logged.

        Raises:
            ConflictError: If somebody was quicker, and that was not to be; it is undone then.
        """
        for _ in range(_ATTEMPTS):
            with self._ledger.reading() as view:
                place = next(one.place for one in view.imports() if one.source == self.source)
            made = receipt()
            try:
                side = _left_beside(self._plan, self.source, place)
                self._ledger.append([made], side=side)
            except SlotTakenError:
                self._settle()
            else:
                return made.id
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
        """Decide between records of this import and what others logged meanwhile."""
        at, statuses = now(), list[Sealed]()
        with self._ledger.reading() as view:
            for one in view.pending(self.source):
                current = view.current(one.row.slot) if one.row.slot is not None else None
                if current is None:
                    continue
                if self._mode is ConflictPolicy.OVERWRITE:
                    target, state, by = current.record.id, "superseded", one.record.id
                else:
                    target, state, by = one.record.id, "rejected", current.record.id
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


def _left_beside(plan: ImportPlan, source: str, place: int) -> Mapping[str, bytes | None]:
    """Return the values that a complete import leaves beside the log."""
    return {**plan.known.missing, side_name(place): plan.keys, SIDE + source: None}


def logged_part(ledger: Ledger, plan: ImportPlan, source: str) -> int | None:
    """Return how much of a plan an earlier attempt logged; None where that was another plan."""
    count = 0
    with ledger.reading() as view:
        planned = chain.from_iterable(plan.stage.groups())
        for there in view.pending(source):
            row = next(planned, None)
            if row is None or there.record.id != row.id:
                return None
            count += 1
    return count


_BATCH = 100


def put_back(bank: OpenBank, returned: ScratchMap) -> None:
    """Log that memories are whole again, each in the commit that puts its bytes there.

    Args:
        bank: The bank.
        returned: Their canonical bytes, by id; spent afterwards.

    Raises:
        RedactionRefusedError: If one cannot be: it was logged as another type of memory.
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
