"""Verification and repair of the banks of a store."""

from collections.abc import Callable, Iterator

from satchel.admin.statistics import Stats, stats
from satchel.bank.checks import Check
from satchel.bank.connections import (
    configured_store,
    holds_anything,
    known_owners,
    missing_banks,
    open_ledger,
    shown_address,
    witness_of,
)
from satchel.bank.machine_keys import require_owner
from satchel.bank.memory import UNTRUSTED
from satchel.bank.open_bank import OpenBank, name_of
from satchel.config.settings import Settings
from satchel.errors import SatchelError
from satchel.ledger.examination import Examination, Progress, examine
from satchel.ledger.heads import BankStanding
from satchel.ledger.repair import repair
from satchel.ledger.transaction import is_unfinished
from satchel.ledger.view import View
from satchel.model.records import FileVersion
from satchel.model.values import now
from satchel.ports.rows import Filter
from satchel.ports.store import Store

_REPAIR = "satchel doctor --repair rebuilds what can be derived, and deletes nothing."
_LEFT = "the file may still contain erased bytes"
_SCRUB = "Any run of satchel prune removes them."
_DEEP = "satchel doctor --deep verifies every record."
_UNREAD = "No bank has them, and nothing reads them. satchel store copy makes a store without them."
_FILES = Filter(types=frozenset({"file_version"}), retired=True, held=True)


def check_banks(
    settings: Settings, *, deep: bool = False, progress: Progress | None = None
) -> Iterator[Check]:
    """Verify the banks of the store, and change nothing.

    Args:
        settings: The store and keys.
        deep: Report every problem, instead of the first difference.
        progress: Receives the progress within one bank.
    """
    require_owner(settings, "doctor")
    try:
        is_there = holds_anything(settings)
    except SatchelError as error:
        yield Check(name="store", state="problem", detail=str(error), hint=error.hint)
        return
    if not is_there:
        missing = list(_missing(settings, lambda _: False))
        detail = "created on first use"
        if missing:
            detail = "missing: this machine has seen banks in it"
        yield Check(
            name="store",
            state="problem" if missing else "note",
            detail=f"{shown_address(settings.store)} ({detail})",
        )
        yield from missing
        return
    yield _witnessed(settings)
    try:
        with configured_store(settings, read_only=True, lost=True) as store:
            with store.reading() as reader:
                banks = reader.banks()
                seen = {one.bank for one in witness_of(settings).seen_here()}
                # A bank that was complete here and has no head has lost it.
                begun = [bank for bank in reader.begun() if bank not in seen]
            yield Check(
                name="store",
                state="ok",
                detail=f"{shown_address(settings.store)}, banks: {len(banks)}",
            )
            for bank in banks:
                yield _look(settings, store, bank, deep=deep, progress=progress)
            yield from _orphans(store)
            for bank in begun:
                yield Check(
                    name=bank,
                    state="note",
                    detail="the copy of this bank to this store is incomplete",
                    hint="Resume it: satchel store copy, with the same two stores.",
                )
            yield from _missing(settings, {*banks, *begun}.__contains__)
    except SatchelError as error:
        yield Check(name="store", state="problem", detail=str(error), hint=error.hint)


def verify_bank(bank: OpenBank) -> Stats:
    """Verify a bank as ``check_banks`` does; for the holder of a token, each visible memory.

    Raises:
        SatchelError: For the first difference.
    """
    counted = stats(bank)
    if bank.bearer is None:
        bank.ledger.audit()
    return counted


def repair_banks(settings: Settings, *, progress: Progress | None = None) -> Iterator[Check]:
    """Rebuild derived data of each bank, and set damaged bytes aside."""
    require_owner(settings, "doctor")
    if not holds_anything(settings):  # ``check_banks`` reports a missing store
        return
    with configured_store(settings, lost=True) as store:
        with store.reading() as reader:
            banks = reader.banks()
        for bank in banks:
            try:
                ledger = open_ledger(settings, store, bank, writes=True)
                done = repair(store, ledger, at=now(), progress=progress)
            except SatchelError as error:
                yield Check(name=bank, state="problem", detail=error.message, hint=error.hint)
                continue
            if done.before.is_sound:
                yield Check(name=bank, state="ok", detail="nothing to repair")
                continue
            detail = f"repaired: {_counts(done.before)}"
            if done.lost:
                detail += f"; damaged and set aside: {len(done.lost)}"
            sound = done.after.is_sound
            if not sound:
                detail += f"; still damaged: {_counts(done.after)}"
            yield Check(name=bank, state="note" if sound else "problem", detail=detail)


def _look(
    settings: Settings, store: Store, bank: str, *, deep: bool, progress: Progress | None
) -> Check:
    try:
        ledger = open_ledger(settings, store, bank)
        with ledger.reading() as view:
            size, standing, owners = view.head.size, view.standing, view.authority.owners
            notes = [*view.notes, *_still_trusted(settings, view.authority.revoked_keys)]
        if deep:
            examination = examine(store, bank, progress=progress)
            if not examination.is_sound:
                return Check(name=bank, state="problem", detail=_counts(examination), hint=_REPAIR)
        ledger.audit(progress)
        with ledger.reading() as view:  # after the audit, which reports changes
            if lacking := _files_without_bytes(store, view):
                notes.append(f"the bytes of {lacking} files are not in the store")
    except SatchelError as error:
        hint = error.hint if deep else _DEEP
        return Check(name=bank, state="problem", detail=error.message, hint=hint)
    how = "each verified with its columns and indexes"
    with store.reading() as reader:
        name = name_of(reader, bank)
    called = "" if name is None else f"{name!r}: "
    detail = "; ".join([f"{called}{size} records, {how}", *notes])
    if is_unfinished(store, bank):
        return Check(name=bank, state="note", detail=f"{detail}; {_LEFT}", hint=_SCRUB)
    if standing is BankStanding.UNTRUSTED:
        unknown = sorted(owners - known_owners(settings, bank))
        commands = "; ".join(f"satchel key trust {key} --bank {bank}" for key in unknown)
        hint = f"If you know the owner: {commands}"
        return Check(name=bank, state="note", detail=f"{detail}; {UNTRUSTED}", hint=hint)
    return Check(name=bank, state="note" if notes else "ok", detail=detail)


def _orphans(store: Store) -> Iterator[Check]:
    """Yield a problem for each kind of orphaned row in the store."""
    try:
        with store.reading() as reader:
            problems = reader.orphans()
    except SatchelError as error:
        yield Check(name="store", state="problem", detail=error.message, hint=error.hint or _DEEP)
        return
    for problem in problems:
        yield Check(name="store", state="problem", detail=problem, hint=_UNREAD)


def _files_without_bytes(store: Store, view: View) -> int:
    """Return the number of file versions whose bytes are not in the store."""
    named = {
        logged.model.blob
        for logged in view.scan(_FILES)
        if isinstance(logged.model, FileVersion) and logged.model.blob is not None
    }
    if not named:
        return 0
    with store.reading() as reader:
        return sum(not reader.blobs.has(view.head.bank, digest) for digest in named)


def _still_trusted(settings: Settings, revoked: frozenset[str]) -> Iterator[str]:
    """Yield a note for each trusted key that an owner of a bank revoked."""
    for key in settings.registry.listed():
        if key.key in revoked and key.state != "revoked":
            command = f"satchel key revoke {key.key}"
            yield f"an owner revoked {key.name}, which is trusted here: {command}"


def _missing(settings: Settings, present: Callable[[str], bool]) -> Iterator[Check]:
    for missing in missing_banks(settings, present):
        called = "" if missing.name is None else f", {missing.name!r}"
        yield Check(
            name=missing.id,
            state="problem",
            detail=f"this bank{called}, seen earlier by this machine, is missing from the store",
            hint=(
                "Restore it from a backup: satchel backup restore. If there is none: satchel bank "
                f"accept-gone {missing.id}"
            ),
        )


def _witnessed(settings: Settings) -> Check:
    witness = witness_of(settings)
    if witness.available:
        return Check(name="witness of banks", state="ok", detail=str(witness.folder))
    return Check(
        name="witness of banks",
        state="note",
        detail=f"{witness.folder}: missing, so a rolled-back store would not be detected",
        hint="It is created by the first change, if that folder is writable.",
    )


def _counts(examination: Examination) -> str:
    wrong = ", ".join(f"{number} {flaw}" for flaw, number in sorted(examination.counts.items()))
    first = examination.shown[0]
    where = "" if first.seq is None else f" (record {first.seq})"
    return f"{wrong}; first: {first.message}{where}"
