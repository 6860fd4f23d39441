"""``satchel backup drill``: test that a backup is restorable, without changing anything.

It is restored into temporary stores and compared with the store in use: heads, counts, and the
first results of queries.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from satchel.agents.agents import agent_of
from satchel.agents.staged_files import Staging
from satchel.backup.agents import changed
from satchel.backup.assembly import erased_since, make_bank, reapply_erasures, require_lists
from satchel.backup.catalog import Catalog, StoredBackup
from satchel.backup.contents import files_of, read_agent_contents
from satchel.backup.destinations import (
    backup_end,
    chosen_backup,
    nonzero_counts,
    open_catalog,
    receipt_body,
    require_trusted,
    source_destination,
    store_receipts,
)
from satchel.backup.manifests import AgentBackup, BankBackup
from satchel.backup.options import DrillOptions
from satchel.bank.connections import (
    configured_store,
    known_owners,
    store_exists,
    temporary_store,
)
from satchel.bank.keys import Owners
from satchel.bank.machine_keys import require_owner, signers_of
from satchel.bank.open_bank import OpenBank, bank_exists, open_bank_in
from satchel.config.hooks import NO_HOOKS
from satchel.config.options import NOT_FOR_MODELS
from satchel.config.settings import Settings
from satchel.errors import (
    InputError,
    PathRefusedError,
    SatchelError,
    VerificationError,
    shown_address,
)
from satchel.ledger.ledger import Ledger
from satchel.model.records import Entry
from satchel.model.values import now
from satchel.ports.operations import operation, path_text, texts
from satchel.ports.rows import Filter, entry_texts
from satchel.ports.store import Store
from satchel.recall.query import Query
from satchel.recall.search import recall_memories
from satchel.receipts.receipt import ReceiptBody, TransferEnd, receipt_text
from satchel.replication.copies import (
    Relation,
    Replica,
    compare_replicas,
    load_replica,
    read_log_from,
)

_TOP = 10
_WORDS = 6
_SAMPLED = 1_000


class DrilledBank(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Result of the drill for one bank."""

    bank: str
    name: str | None = None
    size: int
    counts: dict[str, int] = {}
    relation: Relation
    """Relation of the backup to the store in use: normally ``behind`` or ``same``."""

    behind: int = 0
    """Number of records added since."""

    erased_again: int = 0
    questions: int = 0
    same_answers: int = 0
    """Number of queries with the same results in the same order."""

    problems: list[str] = []
    notes: list[str] = []


class DrilledAgent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Result of the drill for the files of one agent."""

    agent: str
    files: int
    size: int
    """Size of all files in bytes."""

    changed: int = 0
    """Number of files that differ from its folder now."""

    problems: list[str] = []


class Drill(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Result of a drill."""

    source: str
    backup: str
    taken: str
    banks: list[DrilledBank]
    agents: list[DrilledAgent] = []
    missing: list[str] = []
    receipts: list[str] = []
    """IDs of the signed reports, one for each bank."""

    notes: list[str] = []

    @property
    def is_good(self) -> bool:
        """Whether the backup is restorable."""
        problems = [
            *(bank.problems for bank in self.banks),
            *(agent.problems for agent in self.agents),
        ]
        return not (self.missing or any(problems))


@operation(
    DrillOptions,
    name="backup drill",
    example="satchel backup drill --destination /mnt/backups",
    absent=NOT_FOR_MODELS,
)
def drill_backup(
    settings: Settings, options: DrillOptions, *, owners: Callable[[], Owners] | None = None
) -> Drill:
    """Test a backup: restore it into a temporary store and compare heads, counts and recall.

    Nothing in use is changed.

    Args:
        settings: Settings of the machine.
        options: The backup, and how to compare.
        owners: Returns the keys of owners, if a decision must be signed.

    Raises:
        EmptyInputError, UnknownBackupError: If there is no such backup.
        VerificationError: If its signer is not trusted here.
        TargetError: If the destination does not answer.
    """
    require_owner(settings, "backup")
    decide = owners or partial(signers_of, settings, options)
    destination = source_destination(settings, path_text(options.destination))
    with open_catalog(settings, destination) as catalog:
        backup = chosen_backup(catalog.all(), options.backup, catalog)
        require_trusted(settings, backup, texts(options.trusted_keys))
        require_lists(catalog, backup)
        task = _DrillTask(
            msgspec.structs.replace(settings, hooks=NO_HOOKS), catalog, options, decide
        )
        began, accounts, banks = now(), list[ReceiptBody](), list[DrilledBank]()
        for part, bank in zip(backup.manifest.banks, task.banks(backup), strict=True):
            banks.append(bank)
            accounts.append(_account(settings, began, backup, part, bank))
        receipts, notes = store_receipts(settings, accounts)
        return Drill(
            source=shown_address(destination),
            backup=backup.id,
            taken=backup.manifest.at,
            banks=banks,
            agents=[_agent(settings, catalog, backup, part) for part in backup.manifest.agents],
            missing=backup.manifest.missing,
            receipts=receipts,
            notes=notes,
        )


def _agent(
    settings: Settings, catalog: Catalog, backup: StoredBackup, part: AgentBackup
) -> DrilledAgent:
    """Restore the files of an agent to a temporary folder, and compare them."""
    result = DrilledAgent(agent=part.id, files=part.files, size=part.size)
    packs, known = catalog.packs(backup), settings.options.agents.get(part.id)
    folder = None if known is None else agent_of(part.id, known).folder
    try:
        contents = read_agent_contents(part, packs)
        with (
            TemporaryDirectory(prefix="satchel-drill-") as temporary,
            Staging(Path(temporary) / "workspace") as staging,
        ):
            for path, data in files_of(part, contents, packs):
                staging.lay(path, data)
    except (VerificationError, InputError, PathRefusedError) as error:
        return msgspec.structs.replace(result, problems=[str(error)])
    number = 0 if folder is None else sum(1 for _ in changed(folder, contents))
    return msgspec.structs.replace(result, changed=number)


def _account(
    settings: Settings, began: str, backup: StoredBackup, part: BankBackup, bank: DrilledBank
) -> ReceiptBody:
    """Return the result for one bank."""
    store_end = TransferEnd(
        name=receipt_text(bank.name or bank.bank),
        bank=bank.bank,
        store=receipt_text(shown_address(settings.store)),
        size=part.size + bank.behind,
    )
    ends = backup_end(backup, part), store_end
    return msgspec.structs.replace(
        receipt_body("drill", began, ends, bank.counts, differs=bool(bank.problems)),
        done=nonzero_counts(
            added_since=bank.behind,
            erased_again=bank.erased_again,
            questions=bank.questions,
            same_answers=bank.same_answers,
        ),
        notes=[receipt_text(note) for note in [*bank.problems, *bank.notes]],
    )


@dataclass(slots=True)
class _DrillTask:
    settings: Settings
    catalog: Catalog
    options: DrillOptions
    owners: Callable[[], Owners]
    done: int = 0
    total: int = 0

    def banks(self, backup: StoredBackup) -> Iterator[DrilledBank]:
        self.total = 2 * sum(part.size for part in backup.manifest.banks)
        for part in backup.manifest.banks:
            try:
                yield self._bank(backup, part)
            except VerificationError as error:
                yield DrilledBank(
                    bank=part.bank,
                    name=part.name,
                    size=part.size,
                    relation=Relation.DIVERGED,
                    problems=[str(error)],
                )

    def _bank(self, backup: StoredBackup, part: BankBackup) -> DrilledBank:
        settings, catalog = self.settings, self.catalog
        with temporary_store() as restored, self._in_use() as store:
            make_bank(settings, catalog, backup, part, None, restored, self._tell)
            result = self._read(restored, part, store)
            stores = [] if store is None else [store]
            erased = erased_since(
                settings, catalog, part.bank, stores, texts(self.options.trusted_keys)
            )
            again = reapply_erasures(settings, restored, part.bank, erased, self.owners)
            result = msgspec.structs.replace(result, erased_again=again)
            if store is None or result.relation in (Relation.NEW, Relation.DIVERGED):
                return result
            return self._compare_answers(result, restored, store)

    @contextmanager
    def _in_use(self) -> Iterator[Store | None]:
        if not store_exists(self.settings.store):
            yield None
            return
        with configured_store(self.settings, read_only=True) as store:
            yield store

    def _read(self, restored: Store, part: BankBackup, store: Store | None) -> DrilledBank:
        """Read the restored bank completely, and compare the heads."""
        with restored.reading() as reader:
            source = load_replica(reader, part.bank)
            assert source is not None  # noqa: S101 - it was made just now
            counts = reader.counts(part.bank)
            for records in read_log_from(source, 0):
                self._tell(len(records))
            relation, more, problems, notes = self._compare_heads(source, store)
        return DrilledBank(
            bank=part.bank,
            name=part.name,
            size=source.size,
            counts=dict(sorted(counts.items())),
            relation=relation,
            behind=more,
            problems=problems,
            notes=notes,
        )

    def _compare_heads(
        self, source: Replica, store: Store | None
    ) -> tuple[Relation, int, list[str], list[str]]:
        if store is None:
            return Relation.NEW, 0, [], ["there is no current store to compare with"]
        with store.reading() as reader:
            try:
                target = (
                    load_replica(reader, source.bank) if bank_exists(reader, source.bank) else None
                )
                comparison = compare_replicas(source, target)
            except SatchelError as error:
                return Relation.DIVERGED, 0, [], [f"the current store: {error.message}"]
        if comparison.relation is Relation.NEW:
            return comparison.relation, 0, [], ["the current store does not have this bank"]
        if comparison.relation in (Relation.AHEAD, Relation.DIVERGED):
            problem = "diverged from the backup, or is behind it"
            return comparison.relation, 0, [f"the current store {problem}"], []
        size = target.size if target is not None else 0
        return comparison.relation, size - source.size, [], []

    def _compare_answers(self, result: DrilledBank, restored: Store, store: Store) -> DrilledBank:
        """Run the same queries on both, as of the time of the backup."""
        trusted = known_owners(self.settings, result.bank)
        ledger = Ledger(restored, result.bank, trusted=trusted)
        restored_bank = OpenBank(
            settings=self.settings, store=restored, ledger=ledger, name=result.name
        )
        current_bank = open_bank_in(self.settings, store, result.bank)
        questions = list(_questions(restored_bank, self.options.queries))
        same = sum(
            _answer(restored_bank, words, result.size) == _answer(current_bank, words, result.size)
            for words in questions
        )
        problems, notes = list(result.problems), list(result.notes)
        if same < len(questions):
            differing = len(questions) - same
            difference = f"{differing} of {len(questions)} queries have different results"
            # Later records change which words are rare.
            (problems if result.relation is Relation.SAME else notes).append(difference)
        return msgspec.structs.replace(
            result, questions=len(questions), same_answers=same, problems=problems, notes=notes
        )

    def _tell(self, records: int) -> None:
        self.done += records
        if self.options.progress is not None:
            self.options.progress(min(self.done, self.total), self.total)


def _questions(bank: OpenBank, number: int) -> Iterator[str]:
    """Yield the first words of some memories, evenly spread."""
    texts = list[str]()
    with bank.ledger.reading() as view:
        for logged in view.newest(Filter()):
            if isinstance(logged.model, Entry) and (words := entry_texts(logged.model).split()):
                texts.append(" ".join(words[:_WORDS]))
            if len(texts) == _SAMPLED:
                break
    step = max(1, len(texts) // max(1, number))
    yield from texts[::step][:number]


def _answer(bank: OpenBank, words: str, size: int) -> Sequence[str]:
    query = Query(text=words, limit=_TOP, as_of=size)
    return [memory.id for memory in recall_memories(bank, query, code=False).memories]
