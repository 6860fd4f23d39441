"""Importing a file into one bank, or into one for each owner in it."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

import msgspec

from satchel.actions.banks import made_bank
from satchel.actions.config import Settings
from satchel.actions.moving.arriving import Arriving, spooled
from satchel.actions.moving.settling import settings_for, tell_imported
from satchel.actions.opened import OpenBank, find_bank, named_banks, open_bank_in
from satchel.actions.wiring import has_store, local_path, opened_store
from satchel.disk.locks import ProcessLock
from satchel.disk.spool import Strands
from satchel.errors import (
    EmptyInputError,
    MalformedError,
    UnknownBankError,
    UsageError,
)
from satchel.memory.parts import Scope
from satchel.ports.report import Loss
from satchel.ports.store import Store
from satchel.seal.artifact.body import Progress
from satchel.seal.records import Sealed
from satchel.seal.sealing import seeded_nonces
from satchel.seal.signing.key import SigningKey
from satchel.seal.verify.verification import Outcome
from satchel.transfer.incoming.batch import (
    Batch,
    Journal,
    journals,
    logged_part,
    new_journal,
    take_back,
)
from satchel.transfer.incoming.plan import OnConflict, Plan, Planned, Rules, owner_of

_TOGETHER = 256
_LEAST_DIGITS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """What an import is asked to do."""

    source_format: str | None = None
    """Recognised when not given."""

    on_conflict: OnConflict | None = None
    """As the bank's settings say when not given, or else ``SKIP``."""

    mirror: bool = False
    """Delete what the source has no longer; other versions overwrite then."""

    scrub_secrets: bool = False
    """Replace secrets by tokens; otherwise they are only counted."""

    dry_run: bool = False
    unsafe_accept: frozenset[Outcome] = field(default_factory=frozenset)
    """Verdicts on a sealed input that are put up with."""

    trusted_keys: tuple[str, ...] = ()
    on_reading: Progress | None = None
    """Called with bytes done and bytes there are."""

    on_logging: Progress | None = None
    """Called with records done and records there are, from the start again for each bank."""


class BankImported(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What an import does to one bank."""

    name: str | None
    done: Planned
    bank: str | None = None
    """Its id; None for one that a dry run would make."""

    made: bool = False
    """Whether the bank was made for it."""

    source: str | None = None
    """Id of the source record, by which it is undone; None when nothing changed."""

    receipt: str | None = None
    """Id of the receipt in the bank's log."""

    resumed: int = 0
    """Records that an earlier attempt had logged already."""


class Imported(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an import did, or would do."""

    input: str
    source_format: str
    input_digest: str
    input_bytes: int
    banks: list[BankImported]
    losses: list[Loss]
    notes: list[str]
    secrets: dict[str, int] = {}
    """What looks like keys, tokens, passwords and cards, by kind."""

    secrets_kept: int = 0
    """How many of them went in as they are."""

    source_outcome: str | None = None
    """The verdict on a sealed input."""

    dry_run: bool = False


Owners = Callable[[], SigningKey]
"""Gives the key that owns banks that are made."""


def import_file(
    settings: Settings,
    source: Path | None,
    bank: str | None,
    owner: Owners,
    options: ImportOptions | None = None,
) -> Imported:
    """Import a file.

    All of it is read, checked and planned first; then it is logged in groups that nobody sees
    until the last is there. Whoever runs a killed import again goes on with it.

    Args:
        settings: Where the store and the keys are.
        source: The file; None for the standard input.
        bank: The bank that everything goes into, made if it is not there; None for the one that
            is configured, or else one for each user, or agent where no user is named.
        owner: Gives the key that owns banks that are made.
        options: What is asked for.

    Raises:
        InputError: If the input cannot be read, is malformed or empty, or a memory's owner is not
            known and no bank was named. Nothing is changed.
        VerificationError: If a sealed input does not verify.
        ConflictError: With ``OnConflict.ERROR``, if there is one.
        LockedError: If another import into the store is running.
        StoreError: If the store cannot be written; the import can be gone on with.
    """
    asked = options or ImportOptions()
    wanted = bank or settings.options.store.bank or None
    says = settings_for(settings, wanted)
    if asked.on_conflict is None:
        asked = replace(asked, on_conflict=OnConflict(says.on_conflict or OnConflict.SKIP))
    with ExitStack() as stack:
        path = stack.enter_context(spooled(source))
        name = "standard input" if source is None else str(source)
        scrub, tell = asked.scrub_secrets, asked.on_reading
        arriving = Arriving(settings, path, name, asked.source_format, tell, scrub=scrub)
        if says.scrub_secrets:
            arriving.scrub_if_it_can_be()
        arriving.verify(asked.trusted_keys, asked.unsafe_accept)
        store: Store | None = None
        if not asked.dry_run:
            store = stack.enter_context(opened_store(settings))
            stack.enter_context(_alone(settings))
        elif has_store(settings):
            store = stack.enter_context(opened_store(settings, read_only=True))
        work = _Work(settings, store, arriving, wanted, asked)
        stack.callback(work.strands.close)
        work.plan()
        arriving.require_unchanged()
        if not asked.dry_run:
            work.log(owner)
            tell_imported(settings, work.banks.values())
    return Imported(
        input=name,
        source_format=arriving.format,
        input_digest=arriving.digest,
        input_bytes=arriving.size,
        banks=list(work.banks.values()),
        losses=list(arriving.report.losses.values()),
        notes=arriving.report.notes,
        secrets=arriving.screening.found,
        secrets_kept=arriving.screening.kept,
        source_outcome=arriving.verdict.outcome.value if arriving.verdict else None,
        dry_run=asked.dry_run,
    )


class _Work:
    """One import: two passes, over all banks that it is for."""

    def __init__(
        self,
        settings: Settings,
        store: Store | None,
        arriving: Arriving,
        wanted: str | None,
        asked: ImportOptions,
    ) -> None:
        self.banks: dict[str, BankImported] = {}
        """By name."""

        self.strands = Strands()
        self._settings = settings
        self._store = store
        self._names = named_banks(store) if store is not None else {}
        self._arriving = arriving
        self._wanted = wanted
        self._asked = asked
        self._rules = Rules(
            on_conflict=asked.on_conflict or OnConflict.SKIP,
            mirror=asked.mirror,
            sealed=arriving.is_sealed,
        )
        self._plans: dict[str, Plan] = {}
        self._open: dict[str, OpenBank] = {}
        words = (arriving.digest, arriving.format, self._rules.mode, asked.mirror, wanted)
        self._words = " ".join(map(str, (*words, arriving.scrubs)))
        self._journal = new_journal(self._words)
        self._begun: dict[str, Journal] = {}

    def plan(self) -> None:
        """Read everything and decide what becomes of it; nothing is changed.

        Except that an earlier attempt at the same thing is given up where the bank has changed
        since, and so has the plan.
        """
        self._find_begun()
        self._read()
        if not self._asked.dry_run and not self._goes_on():
            for name, journal in self._begun.items():
                take_back(self._open[name].ledger, journal.source, "begun anew")
            self._begun, self._journal = {}, new_journal(self._words)
            self._read()
        if not self._plans:
            raise EmptyInputError("there is no memory in this file", file=self._arriving.name)

    def _read(self) -> None:
        self._plans.clear()
        self.banks.clear()
        records = self._arriving.records(seeded_nonces(self._journal.seed))
        with ExitStack() as views:
            while some := list(islice(records, _TOGETHER)):
                for name, part in self._routed(some).items():
                    self._plan_of(name, views).take(part)
            for plan in self._plans.values():
                plan.finish()

    def _goes_on(self) -> bool:
        """Tell whether what an earlier attempt logged is the beginning of what is planned."""
        return all(
            name in self._plans
            and logged_part(self._open[name].ledger, self._plans[name], one.source) is not None
            for name, one in self._begun.items()
        )

    def log(self, owner: Owners) -> None:
        """Log what was planned; visible in each bank once all banks have all of it."""
        batches = dict[str, Batch]()
        source = self._arriving.source(self._journal.at)
        for name, plan in self._plans.items():
            if plan.is_empty and name not in self._begun:
                continue
            opened = self._for_writing(name, owner)
            journal = self._begun.get(name) or msgspec.structs.replace(self._journal, source="")
            batch = Batch(opened.ledger, plan, journal, self._rules.mode)
            batch.log(source, self._asked.on_logging)
            batches[name] = batch
        for name, batch in batches.items():
            told = self.banks[name]
            told.receipt = batch.close(msgspec.to_builtins(told.done))
            told.source, told.resumed = batch.source, batch.resumed

    def _find_begun(self) -> None:
        """Find what an earlier attempt at the same thing left; the nonces are the same again."""
        if self._store is None:
            return
        with self._store.reading() as reader:
            banks = reader.banks() if self._wanted is None else self._chosen()
        for bank in banks:
            writes = not self._asked.dry_run
            opened = open_bank_in(self._settings, self._store, bank, writes=writes)
            with opened.ledger.reading() as view:
                for journal in journals(view):
                    if journal.asked == self._words:
                        name = self._wanted or opened.name or bank
                        self._journal = self._begun[name] = journal
                        self._open[name] = opened

    def _chosen(self) -> list[str]:
        try:
            return [find_bank(self._store, self._wanted or "")] if self._store else []
        except UnknownBankError:
            return []

    def _routed(self, records: Sequence[Sealed]) -> dict[str, list[Sealed]]:
        """Return records by the name of the bank that they go into."""
        if self._wanted is not None:
            return {self._wanted: list(records)}
        found = dict[str, list[Sealed]]()
        for number, record in enumerate(records, sum(one.done.read for one in self.banks.values())):
            found.setdefault(self._owner_of(record, number), []).append(record)
        return found

    def _owner_of(self, record: Sealed, number: int) -> str:
        sort, name = owner_of(_decode(record.body).scope)
        if sort in ("user", "agent") and name.strip():
            return name
        what = "belongs to a run only" if sort == "run" else "says not whose it is"
        raise MalformedError(
            f"this {record.type} memory {what}",
            file=self._arriving.name,
            field=str(number),
            hint="Say which bank everything goes into: --bank NAME.",
        )

    def _plan_of(self, name: str, views: ExitStack) -> Plan:
        plan = self._plans.get(name)
        if plan is None:
            told = BankImported(name=name, done=Planned())
            opened = self._there(name)
            view = None
            if opened is not None:
                told.bank, told.name = opened.id, opened.name
                view = views.enter_context(opened.ledger.reading())
            nonces = seeded_nonces(self._journal.seed + b"plan" + name.encode())
            at = self._journal.at
            begun = self._begun.get(name)
            rules = replace(self._rules, going_on=begun.source if begun else "")
            plan = Plan(view, rules, self.strands, nonces=nonces, at=at)
            told.done = plan.done
            self._plans[name], self.banks[name] = plan, told
        return plan

    def _there(self, name: str) -> OpenBank | None:
        """Open a bank that is there already."""
        if self._store is None:
            return None
        # A user's id is a name, and never the start of another bank's id.
        one_for_all = self._wanted is not None
        found = next(iter(self._chosen()), None) if one_for_all else self._named(name)
        if found is None:
            return None
        writes = not self._asked.dry_run
        self._open[name] = open_bank_in(self._settings, self._store, found, writes=writes)
        return self._open[name]

    def _named(self, name: str) -> str | None:
        ids = self._names.get(name, [])
        if len(ids) > 1:
            raise UsageError(
                f"{len(ids)} banks are called {name!r}",
                hint=f"Say which one everything goes into: --bank {ids[0]}",
            )
        return ids[0] if ids else None

    def _for_writing(self, name: str, owner: Owners) -> OpenBank:
        if name not in self._open and self._store is not None:
            made = made_bank(self._settings, self._store, name, owner()).bank
            self.banks[name].bank, self.banks[name].made = made, True
            self._open[name] = open_bank_in(self._settings, self._store, made, writes=True)
        return self._open[name]


class _Scoped(msgspec.Struct, gc=False):
    scope: Scope | None = None


_decode = msgspec.json.Decoder(_Scoped).decode


@contextmanager
def _alone(settings: Settings) -> Iterator[None]:
    """Keep other imports out of the store, so that two do not go on with the same one."""
    path = local_path(settings.store)
    if path is None:
        yield
        return
    lock = ProcessLock(
        path.with_name(f"{path.name}.import.lock"), purpose="import", own_folder=False
    )
    with lock.exclusive():
        yield
