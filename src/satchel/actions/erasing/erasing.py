"""Erasing records: which go, with what hangs on them, everywhere, and the signed report of it.

What goes is found in one pass over the whole log, which asks no index. Records that hang on others
go first, a group at a time, each group whole or not at all: what a killed erasure leaves is found
by asking for the same again. Then the store is rid of the bytes, and everything that can be reached
is looked through for pieces of them. Source: docs/decisions/0041.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import msgspec

from satchel.actions.erasing.choosing import Choice
from satchel.actions.erasing.fragments import Fragments
from satchel.actions.erasing.holders import HOLDERS, Holder
from satchel.actions.erasing.inside import Inside
from satchel.actions.erasing.kinship import Kinship, Why
from satchel.actions.erasing.options import EraseOptions
from satchel.actions.erasing.scanning import StillSaid, scan, still_said, unreached
from satchel.actions.opened import OpenBank
from satchel.actions.options import NOT_FOR_MODELS
from satchel.actions.permitted.owning import require_owner
from satchel.actions.receipts.keeping import keep, refuse_copy, signer, tool
from satchel.actions.wiring import writer_key
from satchel.errors import StoreBusyError
from satchel.ledger.erasure.finishing import finish, is_unfinished
from satchel.ledger.erasure.targets import ERASABLE
from satchel.ledger.logged import Logged
from satchel.ledger.view import View
from satchel.memory.records import Erasure, Status
from satchel.memory.times import now
from satchel.ports.operations import PathText, operation, texts
from satchel.seal.encryption.unlocking import in_environment
from satchel.seal.records import Sealed
from satchel.seal.sealing import seal
from satchel.transfer.receipts.account import VERSION, Account, Counts, End, Scanned
from satchel.transfer.receipts.signed import receipt_of

_MOST_LEFT = 20
_STEP = 1_000
_UNFINISHED = "an interrupted erasure was completed; its texts were not scanned for"
_SCANNED = 2 << 20

Progress = Callable[[int, int], None]
"""Told how much is done of all there is to do, in no unit."""


class Erased(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was erased, or would be."""

    bank: str
    chosen: int
    """Records that were asked for."""

    with_them: dict[str, int] = {}
    """Records that go along: ``version``, ``joins``, ``derived``."""

    erased: int
    """All of them."""

    types: dict[str, int] = {}
    """How many of each type."""

    derived_left: int = 0
    """Records that were drawn from what is erased, and stay: ``cascade`` takes them."""

    derived_examples: list[str] = []
    arriving: int = 0
    """Records of imports that are not complete: they cannot be erased yet."""

    bytes: int = 0
    """What these took in the log."""

    blobs: int = 0
    held: dict[str, int] = {}
    """What others held of them, by who held it."""

    still_said: int = 0
    """Records that stay, of any bank of the store, and say some of it, too; or more."""

    still_said_examples: list[str] = []
    looked_for: int = 0
    """Pieces of 16 bytes of the erased texts that were looked for in the end."""

    too_short: int = 0
    """Texts that are too short to be looked for."""

    scanned: list[Scanned] = []
    unreached: list[str] = []
    notes: list[str] = []
    receipt: str | None = None
    """Id of the signed report."""

    finished: bool = True
    """Whether the store could be rid of the bytes; else it does so when asked again."""

    dry_run: bool = False

    @property
    def found(self) -> int:
        """In how many places there is still a piece of what was erased."""
        return sum(one.found for one in self.scanned)

    @property
    def exit_status(self) -> int:
        """1 when something of it is left, or could be."""
        return int(bool(self.found or not self.finished or self.arriving))


@operation(
    EraseOptions,
    name="erase",
    example="satchel erase --where user=ada --cascade --dry-run",
    absent=NOT_FOR_MODELS,
)
def erase(bank: OpenBank, options: EraseOptions) -> Erased:
    """Erase memories permanently, also current ones, with their versions and links.

    Their contents are deleted from the store, its indexes, its log and the memory files; the log
    still verifies. Then all bytes that can be reached are searched for remnants, and a signed
    report lists what was erased, where remnants are left, and what could not be reached. This
    cannot be undone.

    Args:
        bank: The bank, open for writing; or for reading, for a dry run.
        options: What to erase.

    Raises:
        UsageError: If nothing is named, or an ID is ambiguous.
        UnknownMemoryError: If there is no such record.
        ReadOnlyStoreError: If no key may add to the bank here.
        VerificationError: If the store is not what was signed.
        StoreError: If it cannot be written; groups that were erased before stay so.
    """
    require_owner(bank.settings, "erase")
    refuse_copy(bank.settings, _file(options.receipt))
    with closing(Kinship()) as kin:
        erasing = _Erasing(bank, options, kin)
        planned = erasing.plan()
        if options.dry_run:
            return planned
        return erasing.carry_out(planned)


def _file(path: PathText | None) -> Path | None:
    return None if path is None else Path(path)


class _Erasing:
    """One erasure, from the plan to the report."""

    def __init__(self, bank: OpenBank, wanted: EraseOptions, kin: Kinship) -> None:
        self._bank = bank
        self._wanted = wanted
        self._kin = kin
        self._progress = wanted.progress
        self._began = now()
        self._gone = Counter[str]()
        self._fragments = Fragments()
        self._done = self._bytes = 0
        self._total = 1

    def plan(self) -> Erased:
        """Find out what goes."""
        wanted, kin = self._wanted, self._kin
        with self._bank.ledger.reading() as view:
            choice = Choice(view, texts(wanted.ids), wanted.where)
            self._total = 3 * view.head.size + _SCANNED // _STEP
            kin.choose(choice.ids)
            for logged in view.scan():
                if logged.record.type in ERASABLE:
                    kin.add(logged.model)
                    if choice.takes(logged):
                        kin.choose([logged.record.id])
                self._tell(1)
            kin.spread(view.versions, cascade=wanted.cascade)
            arriving = sum(
                choice.takes(logged)
                for source in view.open_imports()
                for logged in view.pending(source)
                if logged.record.type in ERASABLE
            )
        counts = kin.counts()
        left, examples = kin.left(_MOST_LEFT)
        return Erased(
            bank=self._bank.id,
            chosen=counts.pop(Why.CHOSEN, 0),
            with_them={str(why): number for why, number in sorted(counts.items())},
            erased=sum(kin.types().values()),
            types=kin.types(),
            derived_left=left,
            derived_examples=examples,
            arriving=arriving,
            dry_run=wanted.dry_run,
        )

    def carry_out(self, planned: Erased) -> Erased:
        """Erase it, look whether it is gone, and report."""
        bank, held = self._bank, dict[str, int]()
        notes = [_UNFINISHED] if is_unfinished(bank.store, bank.id) else []
        with ExitStack() as opened:
            holders = [opened.enter_context(closing(each(bank))) for each in HOLDERS]
            erased = self._erase(holders, held)
            blobs, finished = self._finish(notes)
            said, scanned, beyond = StillSaid(0, []), list[Scanned](), list[str]()
            for_holders = [name for each in holders for name in each.out_of_reach()]
            if self._wanted.scan:
                said = still_said(bank.store, self._fragments, self._look)
                extents = (extent for each in holders for extent in each.laid_open())
                unlocking = replace(bank.settings.unlocking, passphrase=in_environment)
                inside = Inside(unlocking, bank.settings.options.limits)
                scanned = scan(bank.store, extents, self._fragments, self._look, inside)
                beyond = unreached(bank.store, [*for_holders, *inside.closed])
        if self._fragments.left_out:
            notes.append(f"{self._fragments.left_out:,} pieces were not scanned for: too many")
        done = msgspec.structs.replace(
            planned,
            erased=erased,
            bytes=self._bytes,
            blobs=blobs,
            held=held,
            still_said=said.records,
            still_said_examples=said.examples,
            looked_for=len(self._fragments),
            too_short=self._fragments.too_short,
            scanned=scanned,
            unreached=beyond,
            finished=finished,
            notes=notes,
        )
        return self._reported(done)

    def _erase(self, holders: Sequence[Holder], held: dict[str, int]) -> int:
        """Erase group by group, and return how many records that were."""
        erased, by = 0, writer_key(self._bank.settings).did
        for ids in self._kin.going():
            with self._bank.ledger.reading() as view:
                found = sorted(view.get(ids).values(), key=lambda one: one.seq)
            for logged in found:
                self._fragments.add(logged.record.value)
            for holder in holders:
                number = holder.erase(found)
                if number:
                    held[holder.name] = held.get(holder.name, 0) + number
            if found:
                self._bank.ledger.append(list(self._records(found, by)))
                with self._bank.ledger.reading() as view:
                    left = view.get(ids)
                gone = (one.record.type for one in found if one.record.id not in left)
                self._gone.update(gone)
            erased += len(found)
            self._bytes += sum(len(logged.record.body) for logged in found)
            self._tell(len(found))
        return erased

    def _records(self, found: Sequence[Logged], by: str) -> Iterator[Sealed]:
        """Yield what erases records, which are retired first where they are current."""
        at, reason = now(), self._wanted.reason
        for logged in found:
            if logged.row.retired is None:
                said = Status(target=logged.record.id, state="deleted", reason=reason, at=at)
                yield seal(said)
        for logged in found:
            yield seal(Erasure(entry=logged.record.id, reason=reason, by=by, at=at))

    def _finish(self, notes: list[str]) -> tuple[int, bool]:
        """Rid the store of the bytes; tell how many blobs went, and whether it could be done."""
        try:
            return finish(self._bank.store, self._bank.id), True
        except StoreBusyError as error:
            notes.append(f"the bytes could not be removed from the store yet: {error.message}")
            return 0, False

    def _reported(self, done: Erased) -> Erased:
        """Sign the report and keep it."""
        bank, settings = self._bank, self._bank.settings
        with bank.ledger.reading() as view:
            end = _end(bank, view)
        notes = [*done.notes, *_told(done)]
        account = Account(
            version=VERSION,
            kind="erase",
            tool=tool(),
            began=self._began,
            ended=now(),
            input=end,
            output=end,
            counts={
                name: Counts(
                    read=number, planned=number, written=number, read_back=self._gone[name]
                )
                for name, number in done.types.items()
            },
            done={"erased": done.erased, "blobs": done.blobs, **done.held},
            scanned=done.scanned,
            unreached=done.unreached,
            notes=notes,
        )
        receipt = receipt_of(account, signer(settings, None))
        ids, problems = keep(settings, [receipt], _file(self._wanted.receipt))
        return msgspec.structs.replace(
            done, receipt=ids[0] if ids else None, notes=[*done.notes, *problems]
        )

    def _tell(self, steps: int) -> None:
        self._done = min(self._done + steps, self._total)
        if self._progress is not None:
            self._progress(self._done, self._total)

    def _look(self, size: int) -> None:
        self._tell(size // _STEP)


def _end(bank: OpenBank, view: View) -> End:
    head = view.head
    return End(
        name=bank.name or bank.id,
        bank=bank.id,
        store=bank.store.name,
        size=head.size,
        root=head.root,
    )


def _told(done: Erased) -> Iterator[str]:
    """Yield what the report has to say in words, and nothing of what was erased."""
    yield (
        f"{done.looked_for:,} pieces of 16 bytes were scanned for; {done.too_short:,} texts "
        "were too short to scan for (10 bytes or fewer)"
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
