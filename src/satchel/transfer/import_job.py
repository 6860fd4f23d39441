"""One import into one or more banks: it is planned completely, then logged."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from math import inf
from typing import Any

import msgspec
from blake3 import blake3

from satchel.bank.banks import bank_in_making, create_bank_in
from satchel.bank.connections import configured_store, has_store, local_path
from satchel.bank.jobs import (
    ImportJournal,
    job_id,
    journals,
    new_journal,
    revert_import,
)
from satchel.bank.open_bank import BankNames, OpenBank, effective_settings, find_bank, open_bank_in
from satchel.config.settings import Settings
from satchel.config.tables import BankSettings
from satchel.crypto.keys import SigningKey
from satchel.crypto.sealed_records import Sealed, seeded_nonces
from satchel.errors import (
    EmptyInputError,
    SlotTakenError,
    StoreError,
    UnknownBankError,
    UsageError,
    shown_address,
)
from satchel.ledger.ledger import Ledger
from satchel.ledger.projection import CLOSED
from satchel.ledger.transaction import LogTransaction
from satchel.model.values import now, tool_version
from satchel.ports.operations import ProgressStep
from satchel.ports.rows import Row
from satchel.ports.store import Store
from satchel.recall.duplicates import CHANGES_PLAN, DuplicateFinder, NearDuplicateMode
from satchel.recall.models import embedder_of
from satchel.recall.near_duplicates import names_of
from satchel.recall.vector_updates import STEP, embed_bank, keep_up, reuse_vectors
from satchel.receipts.archive import require_whole, signer
from satchel.receipts.receipt import (
    VERSION,
    NearDuplicate,
    ReceiptBody,
    RecordCounter,
    Tally,
    TargetPlan,
    Tenant,
    TransferEnd,
    TransferPlan,
    combine_counts,
    lost_in,
    notes_in,
    receipt_of,
    receipt_text,
    refusals_in,
    undo_command,
)
from satchel.runtime.locks import ProcessLock
from satchel.runtime.processes import UnfinishedError, is_watched
from satchel.runtime.scratch import SpoolStreams
from satchel.transfer.import_batches import ImportBatch, StreamedImport, logged_part, put_back
from satchel.transfer.import_plan import ImportPlan, OneOwner, TenantRouter, is_vacant, maps_from
from satchel.transfer.import_results import (
    BankImportResult,
    ConflictPolicy,
    ImportCounts,
    ImportOptions,
    ImportRules,
    Owners,
)
from satchel.transfer.import_source import ImportSource
from satchel.transfer.import_stage import COMMIT_BYTES, CommitTooLargeError

_TOGETHER = 100
"""Number of records after which progress is reported while the input is read."""

_LONGEST_HELD = 25.0
"""Maximum seconds of reading while the store is locked; other writers give up after 30."""

_AGAIN = ((UnfinishedError, CommitTooLargeError), UnfinishedError)
"""Errors after which everything is read again: a killed process costs only time."""

_GO_ON = (
    "Nothing of it is visible yet. To resume, run the same import again. To remove it: satchel job "
    "cancel {job}"
)

_COMPLETE = "The import is complete. To undo it: {command}"


class ImportJob:
    """One import in two passes, over all its banks.

    Args:
        settings: Where the store and the keys are.
        store: The store; None if there is none yet.
        arriving: The input.
        bank: The bank for everything; None for one bank for each owner.
        options: Options of the import.
        owner: Returns the key that owns new banks; None for a dry run.
        one_owner: Why ``wanted`` is the default bank; None if it was named.
    """

    def __init__(  # noqa: PLR0913 - all that one import is made of
        self,
        settings: Settings,
        store: Store | None,
        arriving: ImportSource,
        bank: str | None,
        options: ImportOptions,
        owner: Owners | None,
        *,
        one_owner: OneOwner | None = None,
    ) -> None:
        maps = maps_from(options.maps)
        self.tenants = TenantRouter(bank, maps, counting=options.dry_run, one_owner=one_owner)
        self.banks: dict[str, BankImportResult] = {}
        """By name."""

        self.strands = SpoolStreams()
        self.plans: dict[str, ImportPlan] = {}
        self.census = RecordCounter(texts=options.dry_run)
        self.arriving = arriving
        self.options = options
        self._settings = settings
        self._store = store
        self._names = BankNames(store)
        self._bank = bank
        self._rules = ImportRules(
            on_conflict=options.on_conflict or ConflictPolicy.SKIP,
            mirror=options.mirror,
            keeps_ids=arriving.keeps_ids,
            bank=arriving.bank,
        )
        self._read_here: dict[str, Counter[str]] = {}
        self._open: dict[str, OpenBank] = {}
        self._linked = False
        self.near = DuplicateFinder(settings, options.near_duplicates, dry_run=options.dry_run)
        words = (arriving.digest, arriving.format, self._rules.mode, options.mirror, bank)
        changed = [str(options.near_duplicates)] * (options.near_duplicates in CHANGES_PLAN)
        changed += ["entities"] * options.re_extract_entities + ["skip bad"] * options.skip_bad
        changed += [f"agent {options.agent}"] * (options.agent is not None)
        changed += [f"text member {options.text_member}"] * (options.text_member is not None)
        changed += [f"without {name}" for name in sorted(options.without)]
        changed += ["any version"] * options.any_version
        changed += [f"sidecar {arriving.sidecar.digest}"] if arriving.sidecar else []
        self._words = " ".join(map(str, (*words, arriving.scrubs, *options.maps, *changed)))
        self._journal = self._new_journal()
        self._begun: dict[str, ImportJournal] = {}
        self._accounts: dict[str, tuple[ReceiptBody, Sealed]] = {}
        self._key: SigningKey | None = None
        self._owner = owner
        self._early = True
        self._logged: StreamedImport | None = None
        """The import that is logged while it is read."""

    def close(self) -> None:
        """Free the space, and roll back what was not committed."""
        self._take_back()
        self.strands.close()

    def plan(self) -> None:
        """Read everything and plan the import.

        Nothing is changed, with two exceptions: an earlier attempt is reverted if its plan is no
        longer valid, and an import into one vacant bank is logged while another process reads, in a
        transaction that ``log`` commits.
        """
        self._find_begun()
        if self.options.resumes and self.options.resumes not in map(job_id, self._begun.values()):
            raise UsageError(
                "the file changed since the import was started",
                file=self.arriving.name,
                hint="Start a new import, and cancel the old one: satchel job cancel "
                + self.options.resumes,
            )
        self._read()
        if not self.options.dry_run and not self._resumes():
            for name, journal in self._begun.items():
                revert_import(self._open[name].ledger, journal.source, "started again")
            self._begun, self._journal = {}, self._new_journal()
            self._read()
        if not self.plans:
            hint = self.arriving.report.first_refused
            raise EmptyInputError(
                "the file contains no memories", file=self.arriving.name, hint=hint
            )
        self.tenants.require_mapped_owners(self.arriving.name)
        require_whole(self.arriving.reading, self.options.accept_loss, self.arriving.name)

    def _read(self) -> None:
        for again in (*_AGAIN, ()):
            try:
                self._read_once()
            except again:
                self._take_back()
                self._early = False
            else:
                return

    def _read_once(self) -> None:
        for one in (self.plans, self.banks, self._read_here):
            one.clear()
        twins = self.near.find(self._parts, self._existing_bank)
        if self.near.mode in CHANGES_PLAN:
            merge = self.near.mode is NearDuplicateMode.MERGE
            self._rules = replace(self._rules, twins=names_of(twins), merge=merge)
        self.census.begin()
        read = 0
        with ExitStack() as views, self.census.timed():
            for part in self._parts():
                read += sum(map(len, part.values()))
                self._tell_read(read)
                for name, rows in part.items():
                    self.census.add((row.type, row.body or b"") for row in rows)
                    plan = self._plan_of(name, views)
                    self._read_here[name].update(row.type for row in rows)
                    plan.take(rows, self.arriving.endings)
            for plan in self.plans.values():
                plan.finish()
                plan.stage.flush()

    def _take_back(self) -> None:
        logged, self._logged = self._logged, None
        if logged is not None:
            logged.take_back()

    def _is_logged_early(self) -> bool:
        """Return whether records of a vacant bank are logged while others are still read.

        Only for one bank, and if no later record can change the plan.
        """
        return (
            self._early
            and self._owner is not None
            and self._bank is not None
            and not self._begun
            and self.near.mode not in CHANGES_PLAN
            and not self._rules.keeps_ids
            and self._rules.mode is not ConflictPolicy.OVERWRITE
            and self.arriving.is_read_apart
        )

    def _log_early(self, name: str, size: int | None, rows: Sequence[Row]) -> bool:
        """Log records of a bank that was vacant at a size, unless the file is too large.

        Other writers wait during this, so it is not done if the rest would take too long.
        """
        if self._logged is None:
            share = self.arriving.read_bytes / self.arriving.size
            rest = self.census.spent / share - self.census.spent
            if self.plans[name].stage.size >= COMMIT_BYTES * share or rest > _LONGEST_HELD:
                return False
            self._logged = StreamedImport(self._block(name), size)
        self._logged.add(rows)
        return True

    @contextmanager
    def _block(self, name: str) -> Iterator[tuple[Ledger, LogTransaction]]:
        assert self._store is not None and self._owner is not None  # noqa: S101, PT018 - it logs
        if name in self._open:
            ledger = self._open[name].ledger
            with ledger.transaction() as log:
                yield ledger, log
            return
        with bank_in_making(
            self._settings, self._store, name, self._owner(), joins=self._is_first
        ) as made:
            yield made

    def _tell_read(self, read: int) -> None:
        """Report the number of records read; none is logged yet."""
        if self.options.on_step is not None:
            self.options.on_step(ProgressStep(0, read, None))

    def _parts(self) -> Iterator[dict[str, Sequence[Row]]]:
        """Yield the rows in batches, by the name of their bank."""
        self.tenants.begin()
        self.arriving.endings.clear()
        nonces = seeded_nonces(self._journal.seed)
        for linked, some in self.arriving.parts(nonces, _TOGETHER):
            self._linked = linked
            yield self.tenants.routed(some, self.arriving.name)
            self.arriving.endings.clear()

    @property
    def notes(self) -> list[str]:
        """Notes about the import."""
        extraction = self.arriving.extraction
        notes = list(self.near.notes)
        if extraction is not None:
            counts = f"{extraction.entities:,} entities in {extraction.memories:,} memories"
            notes.insert(0, f"{extraction.model} found {counts}")
        return notes

    def reuse_vectors(self) -> None:
        """Store imported vectors if they are of the bank's model."""
        brought = self.arriving.brought
        maker, notes = brought.maker, self.arriving.report.note
        for reason, number in brought.unusable.items():
            notes(f"{number:,} embeddings were not used: {reason}")
        count = brought.count
        if maker is None or not count:
            return
        for name, bank in self._open.items():
            result = self.banks.get(name)
            if result is None or result.source is None:
                continue
            result.reused = reuse_vectors(
                bank.store,
                bank.ledger,
                result.source,
                maker,
                brought.find,
                partial(embedder_of, bank.settings),
            )
            if result.reused.reason:
                notes(
                    f"{count:,} embeddings of {maker.model} are not used: "
                    f"{result.reused.reason}; to compute them: satchel embed"
                )

    def embed(self) -> None:
        """Compute vectors of the imported memories."""
        for name, bank in self._open.items():
            if name in self.banks:
                self.banks[name].embedded = embed_bank(bank)

    def keep_up(self) -> None:
        """Compute vectors of the imported memories, or note that there are too many."""
        for name, bank in self._open.items():
            result = self.banks.get(name)
            if result is None or result.source is None:
                continue
            if result.done.added <= STEP:
                keep_up(bank)
            elif bank.settings.options.inference.automatic:
                self.arriving.report.note(
                    f"{result.done.added:,} memories have no vectors yet; to compute them now: "
                    "satchel embed (recall computes a few at a time)"
                )

    def _resumes(self) -> bool:
        """Return whether an earlier attempt logged a prefix of the plan."""
        return all(
            name in self.plans
            and logged_part(self._open[name].ledger, self.plans[name], one.source) is not None
            for name, one in self._begun.items()
        )

    def log(self) -> None:
        """Log the plan; it becomes visible once all banks have all of it, read back."""
        self._key = signer(self._settings, None)
        if not self._log_in_one_transaction():
            self._log_in_groups()
        for name, plan in self.plans.items():
            if plan.done.returned:
                put_back(self._for_writing(name), plan.returned)

    def _log_in_groups(self) -> None:
        batches = dict[str, ImportBatch]()
        try:
            self._log_all(batches)
        except Exception as error:
            if batches:
                error.add_note(_GO_ON.format(job=job_id(self._journal)))
            raise
        tallies = {name: batch.read_back() for name, batch in batches.items()}
        for name, batch in batches.items():
            result = self.banks[name]
            result.source, result.resumed = batch.source, batch.resumed
            result.receipt = batch.close(partial(self._account, name, tallies[name]))
        for name in self.plans.keys() - batches.keys():
            self._account(name, None)

    def _log_in_one_transaction(self) -> bool:
        """Log an import into one bank in one transaction if possible; return whether it was.

        Several banks become visible together, so each is logged before the first is completed.
        """
        if len(self.plans) != 1 or self._begun:
            return False
        ((name, plan),) = self.plans.items()
        if plan.is_empty or not plan.stage.is_one_commit:
            return False
        result = self.banks[name]
        logged = self._logged or ImportBatch(
            self._for_writing(name).ledger, plan, self._journal, self._rules.mode
        )

        def receipt() -> Sealed:
            result.source = logged.source
            return self._account(name, logged.tally)

        def step(done: int, total: int, _: str | None) -> None:
            if self.options.on_logging is not None:
                self.options.on_logging(done, total)
            if (
                self.options.on_step is not None and done < total
            ):  # the last one, when it is durable
                self.options.on_step(ProgressStep(done, total, None))

        source, total = self.arriving.source(self._journal.at), plan.stage.records
        if self.options.on_step is not None:  # an error here stops the import; later ones cannot
            self.options.on_step(ProgressStep(0, total, None))
        if isinstance(logged, StreamedImport):
            result.bank, result.made = logged.ledger.bank, name not in self._open
            result.receipt = logged.close(source, receipt, plan)
            self._open_again(name, result.bank)
            step(total, total, None)
        else:
            try:
                result.receipt = logged.log_in_one_transaction(source, receipt, step)
            except SlotTakenError:  # another process was first; decide for each record
                result.source = None
                return False
        self._tell_complete(ProgressStep(total, total, plan.stage.last), logged.source, result)
        return True

    def _tell_complete(self, step: ProgressStep, source: str, bank: BankImportResult) -> None:
        if self.options.on_step is not None:
            try:
                self.options.on_step(step)
            except Exception as error:
                error.add_note(_COMPLETE.format(command=undo_command(source, bank.bank, bank.name)))
                raise

    def _log_all(self, batches: dict[str, ImportBatch]) -> None:
        source, step = self.arriving.source(self._journal.at), self._tell
        for name, plan in self.plans.items():
            if plan.is_empty and name not in self._begun:
                continue
            opened = self._for_writing(name)
            journal = self._begun.get(name) or msgspec.structs.replace(self._journal, source="")
            batches[name] = ImportBatch(opened.ledger, plan, journal, self._rules.mode)
            batches[name].log(source, step)
        if not batches:
            number = sum(one.done.read for one in self.banks.values())
            step(number, number, None)

    def _tell(self, done: int, total: int, record: str | None) -> None:
        if self.options.on_logging is not None:
            self.options.on_logging(done, total)
        if self.options.on_step is not None:
            self.options.on_step(ProgressStep(done, total, record))

    def accounted(self) -> tuple[list[ReceiptBody], list[Sealed]]:
        """Return the receipt bodies of all banks, and the receipts."""
        found = [self._accounts[name] for name in self.banks if name in self._accounts]
        return [account for account, _ in found], [receipt for _, receipt in found]

    def _account(self, name: str, tally: Tally | None) -> Sealed:
        """Return the receipt for one bank, which makes the import visible."""
        account = account_of_import(self, self.banks[name], self._read_here[name], tally)
        action = CLOSED if tally is not None else None
        receipt = receipt_of(account, self._key, action=action)
        self._accounts[name] = account, receipt
        return receipt

    def _new_journal(self) -> ImportJournal:
        path = self.arriving.kept_at
        request = {**self.options.request, **({"bank": self._bank} if self._bank else {})}
        return new_journal(self._words, {**request, **({"input": path} if path else {})})

    def _find_begun(self) -> None:
        """Find the journals of an earlier attempt; its nonces are used again."""
        if self._store is None:
            return
        with self._store.reading() as reader:
            banks = reader.banks() if self._bank is None else self._chosen(self._bank)
        for bank in banks:
            writes = not self.options.dry_run
            opened = open_bank_in(self._settings, self._store, bank, writes=writes)
            with opened.ledger.reading() as view:
                for journal in journals(view):
                    if journal.asked == self._words:
                        name = self._bank or self._planned_name(opened)
                        self._journal = self._begun[name] = journal
                        self._open[name] = opened

    def _planned_name(self, opened: OpenBank) -> str:
        """Return the plan's name of a bank: as in ``maps``, otherwise its name."""
        mapped = maps_from(self.options.maps).values()
        return next(
            (name for name in mapped if opened.id in self._chosen(name)), opened.name or opened.id
        )

    def _chosen(self, reference: str) -> list[str]:
        try:
            return [find_bank(self._store, reference)] if self._store else []
        except UnknownBankError:
            return []

    def _plan_of(self, name: str, views: ExitStack) -> ImportPlan:
        plan = self.plans.get(name)
        if plan is None:
            result = BankImportResult(name=name, done=ImportCounts())
            opened, early = self._existing_bank(name), self._is_logged_early()
            view, size = None, None
            if opened is not None:
                result.bank, result.name = opened.id, opened.name
                self._require_once(opened, name)
                size = _size_if_vacant(opened) if early else None
                if size is None:
                    view = views.enter_context(opened.ledger.reading())
            nonces = seeded_nonces(self._journal.seed + b"plan" + name.encode())
            at = self._journal.at
            begun = self._begun.get(name)
            replaces = self.arriving.replaces
            linked = self._linked or bool(replaces)
            resumed = begun.source if begun else ""
            rules = replace(self._rules, resumed=resumed, linked=linked, replaces=replaces)
            plan = ImportPlan(view, rules, self.strands, nonces=nonces, at=at)
            if early and view is None:
                plan.stage.sink = partial(self._log_early, name, size)
            result.done, result.conflicts = plan.done, plan.conflicts
            self.plans[name], self.banks[name] = plan, result
            self._read_here[name] = Counter()
        return plan

    def _require_once(self, opened: OpenBank, name: str) -> None:
        for other, told in self.banks.items():
            if told.bank == opened.id:
                what = f"{other!r} and {name!r} are the same bank"
                raise UsageError(what, field="map", hint="Use the same name each time.")

    def _existing_bank(self, name: str) -> OpenBank | None:
        """Open an existing bank; None if there is none."""
        if self._store is None:
            return None
        # A user's ID is a name, never a prefix of another bank's ID.
        is_explicit = self.tenants.is_explicit(name)
        bank = next(iter(self._chosen(name)), None) if is_explicit else self._named(name)
        if bank is None:
            return None
        writes = not self.options.dry_run
        self._open[name] = open_bank_in(self._settings, self._store, bank, writes=writes)
        return self._open[name]

    def _named(self, name: str) -> str | None:
        ids = self._names.called(name)
        if len(ids) > 1:
            raise UsageError(
                f"{len(ids)} banks are named {name!r}",
                hint=f"Choose one by ID: --bank {ids[0]}",
            )
        return ids[0] if ids else None

    @property
    def _is_first(self) -> bool:
        """Whether this import has not created a bank yet."""
        return not any(part.made for part in self.banks.values())

    def _for_writing(self, name: str) -> OpenBank:
        if name not in self._open and self._store is not None and self._owner is not None:
            bank = create_bank_in(
                self._settings, self._store, name, self._owner(), joins=self._is_first
            ).bank
            self.banks[name].bank, self.banks[name].made = bank, True
            self._open_again(name, bank)
        return self._open[name]

    def _open_again(self, name: str, bank: str) -> None:
        if self._store is not None:
            self._open[name] = open_bank_in(self._settings, self._store, bank, writes=True)


def _size_if_vacant(bank: OpenBank) -> int | None:
    """Return the length of the log of a vacant bank; None if it is not vacant."""
    with bank.ledger.reading() as view:
        return view.head.size if is_vacant(view) else None


@contextmanager
def import_lock(settings: Settings, *, waits: bool = False) -> Iterator[None]:
    """Lock the store against other imports, so that two do not resume the same one.

    Args:
        settings: Where the store is.
        waits: Wait for another import if the wait is shown to a user.

    Raises:
        LockedError: If another one is running.
    """
    path = local_path(settings.store)
    if path is None:  # a server: locked for this machine, where the job would be resumed
        name = blake3(shown_address(settings.store).encode()).hexdigest(length=8)
        lock = ProcessLock(settings.state / f"import-{name}.lock", purpose="import")
    else:
        beside = path.with_name(f"{path.name}.import.lock")
        lock = ProcessLock(beside, purpose="import", own_folder=False)
    with lock.exclusive(wait=inf if waits and is_watched() else 0):
        yield


def settings_for(settings: Settings, bank: str | None) -> BankSettings:
    """Return the settings of a bank, which need not exist.

    Args:
        settings: Settings of the machine.
        bank: The bank, as for ``find_bank``; None for several, for which only the common settings
            apply.

    Raises:
        SatchelError: If the bank exists and cannot be read.
    """
    if bank is not None and has_store(settings):
        # A missing bank, or one that only a writer can repair, is handled by the import.
        with (
            suppress(UnknownBankError, StoreError),
            configured_store(settings, read_only=True) as store,
        ):
            opened = open_bank_in(settings, store, find_bank(store, bank))
            with opened.ledger.reading() as view:
                return opened.settled(view)
    return effective_settings(settings.options, bank or "", bank)


def tell_imported(settings: Settings, banks: Iterable[msgspec.Struct]) -> None:
    """Run the hooks for an import, for each bank that it changed."""
    for result in map(msgspec.to_builtins, banks):
        source = result.get("source")
        if source is None:
            continue
        counts = {name: n for name, n in result["done"].items() if isinstance(n, int)}
        bank = (result.get("bank"), result["name"])
        settings.hooks.tell("on_import", bank=bank, ids=[source], counts=counts)


_MOST_TENANTS, _MOST_NEAR = 1000, 100


_PASSES = 2.5
"""Factor from the time of reading to that of the whole import: read, log, read back."""


def account_of_import(
    work: ImportJob, bank: BankImportResult, read: Counter[str], tally: Tally | None
) -> ReceiptBody:
    """Return the body of the receipt for one bank.

    Args:
        work: The import.
        bank: The bank.
        read: Number of records read for it, by type.
        tally: Counts of what was logged and read back; None if nothing was logged.
    """
    arriving = work.arriving
    logged = tally.records if tally is not None else Counter[str]()
    done = {
        name: number
        for name, number in msgspec.to_builtins(bank.done).items()
        if name not in ("left", "read")
    }
    return ReceiptBody(
        version=VERSION,
        kind="import",
        tool=tool_version(),
        began=work.arriving.began,
        ended=now(),
        input=_input(work),
        output=TransferEnd(
            name=receipt_text(bank.name or ""),
            bank=bank.bank,
            records=logged.total() if tally is not None else None,
        ),
        counts=combine_counts(read, logged, logged, logged),
        source=bank.source,
        unchanged=tally is None,
        done=done,
        left=bank.done.left,
        resumed=bank.resumed,
        verdict=arriving.verdict.outcome.value if arriving.verdict else None,
        read_back="equal" if tally is not None else None,
        kept=tally.kept if tally is not None else {},
        **_common_members(work),
    )


def _input(work: ImportJob) -> TransferEnd:
    arriving = work.arriving
    return TransferEnd(
        name=receipt_text(arriving.name),
        format=arriving.format,
        digest=arriving.digest,
        bytes=arriving.size,
        records=work.census.types.total(),
    )


def _common_members(work: ImportJob) -> dict[str, Any]:
    """Return the members that describe the whole input."""
    report, screening = work.arriving.report, work.arriving.screening
    return {
        "sidecar": work.arriving.sidecar,
        "lost": lost_in(report, work.options.accept_loss),
        "refused": report.left_out,
        "refusals": refusals_in(report),
        "accepted": [receipt_text(one) for one in work.options.accept_loss],
        "secrets": screening.found,
        "secrets_kept": screening.kept,
        "notes": notes_in(report),
    }


def plan_of_import(work: ImportJob) -> TransferPlan:
    """Return the plan of an import, for a dry run."""
    report, census, size = work.arriving.report, work.census, work.arriving.size
    near = work.near
    targets = [_target(bank, work.plans[name]) for name, bank in work.banks.items()]
    owners = work.tenants.owners.most_common(_MOST_TENANTS)
    only = targets[0].name if len(targets) == 1 else f"{len(targets)} banks"
    return TransferPlan(
        version=VERSION,
        kind="import",
        tool=tool_version(),
        input=_input(work),
        output=TransferEnd(name=only),
        read=dict(sorted(census.types.items())),
        targets=targets,
        embedding=census.embedding,
        seconds=census.seconds_for(_PASSES),
        bytes_per_second=census.rate(size),
        tenants=[
            Tenant(
                sort=owner[0] or "nobody",
                name=receipt_text(owner[1]),
                records=number,
                bank=work.tenants.bank_of(owner),
                mapped=work.tenants.is_mapped(owner),
            )
            for owner, number in owners
        ],
        tenants_left=max(0, len(work.tenants.owners) - _MOST_TENANTS),
        cannot_hold=lost_in(report, work.options.accept_loss),
        refused=report.left_out,
        refusals=refusals_in(report),
        near_duplicates=near.found if near.looked else None,
        near_examples=[
            NearDuplicate(one=pair.id, other=pair.like, similarity=round(pair.similarity, 4))
            for pair in near.pairs[:_MOST_NEAR]
        ],
        secrets=work.arriving.screening.found,
        notes=[*notes_in(report), *map(receipt_text, near.notes)],
    )


def _target(bank: BankImportResult, plan: ImportPlan) -> TargetPlan:
    done: ImportCounts = bank.done
    return TargetPlan(
        name=receipt_text(bank.name or bank.bank or ""),
        bank=bank.bank,
        makes=bank.bank is None,
        created=done.added + done.others,
        changed=done.overwritten + done.vanished + done.restored + done.others_changed,
        left_alone=done.known + done.forgotten + done.twice + done.skipped + done.others_left,
        conflicts=done.skipped + done.overwritten + done.renamed + done.others_in_conflict,
        conflict_examples=[receipt_text(one) for one in plan.conflicts],
    )
