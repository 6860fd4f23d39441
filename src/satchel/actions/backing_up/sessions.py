"""One conversation out of a backup: what of it is missing is added, what was deleted is back.

Nothing gives way. A conversation only grows, so whoever wants to go on from an earlier point forks
it there; what was erased stays so. All of it is one commit.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import msgspec

from satchel.actions.backing_up.kept.accounts import account_of, numbers
from satchel.actions.backing_up.options import RestoreOptions
from satchel.actions.backing_up.restored import RestoredSession
from satchel.actions.banks import made_bank
from satchel.actions.config import Settings
from satchel.actions.keys.told import Owners
from satchel.actions.opened import banks_called, is_here, name_of
from satchel.actions.wiring import has_store, known_owners, open_ledger, opened_store, shown_address
from satchel.backup.manifests import BankPart
from satchel.continuity import finding
from satchel.continuity.elements import STARTS, count_in, event_of, key_of, of_session
from satchel.errors import LimitError
from satchel.ledger.erasure.targets import blobs_named
from satchel.ledger.ledger import Ledger
from satchel.ledger.logged import Logged
from satchel.ledger.view import View
from satchel.memory.records import Status
from satchel.memory.times import now
from satchel.ports.blobs import verified
from satchel.ports.store import Store
from satchel.seal.records import Sealed
from satchel.seal.sealing import seal
from satchel.transfer.receipts.account import Account, End, counted, told

MOST = 50_000
"""Records of a conversation that are put back in one commit."""

_TOGETHER = 256
_TYPE = "session_event"


class Talk(NamedTuple):
    """A conversation in a backup."""

    id: str
    name: str | None
    messages: int
    records: list[Sealed]
    """All that it is made of, in the log's order; of a fork also what it goes on from."""


class _Standing(NamedTuple):
    """How it stands to what is there."""

    missing: list[Sealed]
    deleted: list[str]
    there: int
    later: int


@dataclass(slots=True)
class SessionBack:
    """One conversation on its way back."""

    settings: Settings
    """Of the store that it goes to."""

    made: Store
    """Has the bank as it was, without what was erased since."""

    part: BankPart
    asked: RestoreOptions
    owners: Callable[[], Owners]

    def done(self, reason: str) -> RestoredSession:
        """Put it back.

        Args:
            reason: Is said of what was deleted and is back.

        Raises:
            UnknownSessionError: If the backup has no such conversation.
            UsageError: If several are meant.
            LimitError: If it is too long for one commit.
            SigningKeyError: If a bank is to be made, and there is no owner's key.
            StoreError: If the store cannot be written; nothing is added then.
        """
        trusted = known_owners(self.settings, self.part.bank)
        with Ledger(self.made, self.part.bank, trusted=trusted).reading() as view:
            talk = talk_in(view, self.asked.session or "")
        if not has_store(self.settings):
            return self._made(talk, None)
        writes = not self.asked.dry_run
        with opened_store(self.settings, read_only=not writes) as store:
            bank = self._bank_in(store)
            if bank is None:
                return self._made(talk, store)
            return self._put(
                talk, store, open_ledger(self.settings, store, bank, writes=writes), reason
            )

    def account(self, began: str, source: End, done: RestoredSession) -> Account:
        """Return what was done, for the receipt."""
        read = {_TYPE: done.added + done.returned + done.there}
        there = End(
            name=told(done.bank_name or done.bank or ""),
            bank=done.bank,
            store=told(shown_address(self.settings.store)),
            records=read[_TYPE],
        )
        written = {_TYPE: done.added + done.returned}
        return msgspec.structs.replace(
            account_of("restore", began, (source, there), read),
            counts=counted(read, written, written, written),
            unchanged=not written[_TYPE],
            done=numbers(added=done.added, returned=done.returned, known=done.there),
            notes=[f"the session {done.session}", *map(told, done.notes)],
        )

    def _bank_in(self, store: Store) -> str | None:
        """Return the bank that it goes into: itself, else the one of that name."""
        with store.reading() as reader:
            if is_here(reader, self.part.bank):
                return self.part.bank
        named = banks_called(store, self.part.name or "")
        return named[0] if len(named) == 1 else None

    def _made(self, talk: Talk, store: Store | None) -> RestoredSession:
        """Put it into a bank that is made for it, by the owner."""
        plan = RestoredSession(
            session=talk.id,
            name=talk.name,
            bank=None,
            bank_name=self.part.name,
            made=True,
            messages=talk.messages,
            added=len(talk.records),
        )
        if self.asked.dry_run:
            return plan
        owner = self.owners()[0]
        if store is None:
            with opened_store(self.settings) as made:
                return self._made(talk, made)
        name = self.part.name or "restored"
        ledger = made_bank(self.settings, store, name, owner)
        ledger.append(talk.records)
        self._bring_blobs(talk, store, ledger.bank)
        return msgspec.structs.replace(plan, bank=ledger.bank)

    def _put(self, talk: Talk, store: Store, ledger: Ledger, reason: str) -> RestoredSession:
        with ledger.reading() as view:
            found = _standing(view, talk)
        at = now()
        again = [
            seal(Status(target=one, state="restored", reason=reason, at=at))
            for one in found.deleted
        ]
        if not self.asked.dry_run:
            self._bring_blobs(talk, store, ledger.bank)
            ledger.append([*found.missing, *again])
        notes = list[str]()
        if found.later:
            notes.append(
                f"{found.later:,} later messages exist and are kept; to continue from before them:"
                f" satchel session fork {talk.id[7:19]} --at {talk.messages}"
            )
        with store.reading() as reader:
            name = name_of(reader, ledger.bank)
        return RestoredSession(
            session=talk.id,
            name=talk.name,
            bank=ledger.bank,
            bank_name=name,
            messages=talk.messages,
            added=len(found.missing),
            returned=len(found.deleted),
            there=found.there,
            later=found.later,
            notes=notes,
        )

    def _bring_blobs(self, talk: Talk, store: Store, bank: str) -> None:
        """Bring the blobs that it names, which are there before what names them."""
        named = set[str]().union(*(blobs_named(record.body) for record in talk.records))
        here = self.part.bank
        with self.made.reading() as reader:
            wanted = [one for one in sorted(named) if reader.blobs.has(here, one)]
            for digest in wanted:
                with store.writing() as writing:
                    if not writing.blobs.has(bank, digest):
                        writing.blobs.put(bank, verified(reader.blobs.get(here, digest), digest))


def talk_in(view: View, wanted: str) -> Talk:
    """Return a conversation of a bank, with all that it is made of.

    Raises:
        UnknownSessionError: If there is none.
        UsageError: If several are meant.
        LimitError: If it is too long for one commit.
    """
    start = finding.find(view, wanted)
    shown, records = finding.session(view, start), dict[int, Sealed]()
    for above, step in finding.lineage(view, start):
        records[above.seq] = above.record
        for logged in view.scan(of_session(key_of(above))):
            if _belongs(logged, step):
                records[logged.seq] = logged.record
        if len(records) > MOST:
            raise LimitError(
                f"the session has more than {MOST:,} records",
                hint="Restore its bank into another store: --into ADDRESS --bank NAME.",
            )
    return Talk(
        start.record.id, shown.name, shown.messages, [records[seq] for seq in sorted(records)]
    )


def _belongs(logged: Logged, step: int) -> bool:
    """Tell whether a record is of a conversation as far as a step; -1 for all of it."""
    event = event_of(logged.model)
    if event in STARTS or event is None:
        return False  # the starts are known, and what was forked from it is another one
    return step < 0 or event == "about" or count_in(logged.model, "step") <= step


def _standing(view: View, talk: Talk) -> _Standing:
    missing, deleted, there = list[Sealed](), list[str](), 0
    records = iter(talk.records)
    while some := list(islice(records, _TOGETHER)):
        known = view.get([record.id for record in some])
        for record in some:
            logged = known.get(record.id)
            if logged is None and view.erasure(record.id) is None:
                missing.append(record)
            elif logged is not None and view.retirement(logged.row) is not None:
                deleted.append(record.id)
            else:
                there += 1
    return _Standing(missing, deleted, there, _later(view, talk))


def _later(view: View, talk: Talk) -> int:
    """Return how many messages the conversation has there beyond those of the backup."""
    known = {record.id for record in talk.records}
    start = view.get([talk.id]).get(talk.id)
    found = () if start is None else _messages(view, start)
    return sum(1 for logged in found if logged.record.id not in known)


def _messages(view: View, start: Logged) -> Iterator[Logged]:
    for logged in view.scan(of_session(key_of(start))):
        if event_of(logged.model) == "message":
            yield logged
