"""Memory files in the bank's log: each version as a ``file_version`` record, later than the file.

The files of a key belong to the bank of that name. The manifest decides what a file is; the bank
follows, so a bank that is busy, or not there yet, holds nobody up: what is missing is caught up
when the files are opened next. What follows is told by the records themselves, so doing it twice,
or dying in between, logs nothing twice.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from satchel.actions.config import Settings
from satchel.actions.memories.remembering import superseding
from satchel.actions.opened import OpenBank, find_bank, open_bank_in
from satchel.actions.wiring import has_store, opened_store
from satchel.errors import LimitError, UnknownBankError, UsageError
from satchel.files import MemoryStore
from satchel.files.keeping.manifest import Version
from satchel.files.paths import TRANSCRIPT
from satchel.ledger.logged import Logged
from satchel.ledger.view import View
from satchel.memory.records import FileVersion
from satchel.memory.times import now
from satchel.ports.rows import Filter, slot_of
from satchel.seal.records import Sealed
from satchel.seal.sealing import seal
from satchel.transfer.screening import Screening

_TOGETHER = 500
_TOLD = "logged"
_SAVED = "files/saved"
_ACTIONS = {"create": "created", "delete": "deleted", "rename": "renamed", "promote": "created"}
_FILES = Filter(types=frozenset({"file_version"}))


class Compared(NamedTuple):
    """The files of a store beside those that a bank's log says are current."""

    missing: tuple[str, ...]
    """In the store, and not in the log."""

    different: tuple[str, ...]
    """In both, with other text."""

    left_over: tuple[str, ...]
    """In the log, and not in the store."""

    @property
    def same(self) -> bool:
        """Whether both say the same."""
        return not any(self)


def follow(settings: Settings, store: MemoryStore, name: str) -> int | None:
    """Have the bank of a name log what changed in a store; return how many records it got.

    None where there is no such bank.

    Raises:
        StoreError: If the bank cannot be written to now.
        VerificationError: If the bank is not what this machine saw of it.
    """
    if not has_store(settings):
        return None
    reached = store.revision
    if store.noted(_TOLD, -1) == reached:  # most often; opening a bank takes longer than a read
        return 0
    with opened_store(settings) as banks:
        try:
            find_bank(banks, name)
        except (UnknownBankError, UsageError):
            return None
        written = follow_into(open_bank_in(settings, banks, name, writes=True), store)
    store.note(_TOLD, reached)
    return written


def follow_into(bank: OpenBank, store: MemoryStore) -> int:
    """Log what changed in a store since the bank was last told; return how many records.

    Of a store that is saved elsewhere that is what was saved, by whomever.

    Raises:
        StoreError: As ``follow``.
        TargetError: If the store is elsewhere, and its place does not answer.
    """
    if not store.is_in_place:
        return _follow_saved(bank, store)
    written, reached = 0, store.revision
    while True:
        versions = store.changes_since(_known(bank, store), _TOGETHER)
        batch = _one_each(versions)
        if not batch:
            store.note(mark(bank), max(reached, _known(bank, store)))
            return written
        written += _append(bank, store, batch)
        store.note(mark(bank), batch[-1].revision)


def _follow_saved(bank: OpenBank, store: MemoryStore) -> int:
    """Log what was saved; how far is noted beside the log, since a working copy is thrown away."""
    known, reached, written = told_of(bank), (store.id, store.saved_revision), 0
    versions = store.saved_since(known[1] if known and known[0] == store.id else -1)
    while versions:
        batch = _one_each(versions[:_TOGETHER])
        written += _append(bank, store, batch)
        del versions[: len(batch)]
    if reached[1] >= 0 and reached != known:
        with bank.store.writing() as writing:
            writing.put_side(bank.id, {_SAVED: msgspec.json.encode(reached)})
    return written


def told_of(bank: OpenBank) -> tuple[str, int] | None:
    """Return which store that is saved elsewhere a bank was told of, and up to which change."""
    with bank.ledger.reading() as view:
        found = view.side(_SAVED).get(_SAVED)
    try:
        return None if found is None else msgspec.json.decode(found, type=tuple[str, int])
    except msgspec.DecodeError:  # nothing proves it; who was told too often logs nothing twice
        return None


def compare(bank: OpenBank, store: MemoryStore) -> Compared:
    """Hold the files of a store against what a bank's log says they are."""
    with bank.ledger.reading() as view:
        logged = {
            record.path: record.metadata.get("sha256")
            for record in (one.model for one in view.newest(_FILES))
            if isinstance(record, FileVersion) and record.metadata.get("store") == store.id
        }
    there = {path: sha for path, sha in logged.items() if sha}
    ours = {path: store.current_sha(path) for path in store.list_paths()}
    return Compared(
        tuple(sorted(ours.keys() - there.keys())),
        tuple(sorted(path for path in ours.keys() & there.keys() if ours[path] != there[path])),
        tuple(sorted(there.keys() - ours.keys())),
    )


def mark(bank: OpenBank) -> str:
    """Return the name under which a store notes how far a bank was told."""
    return f"logged:{bank.id}"


def _known(bank: OpenBank, store: MemoryStore) -> int:
    return int(store.noted(mark(bank), 0))


def _one_each(versions: list[Version]) -> list[Version]:
    """Return the first versions, until a path comes a second time: its turn is the next one's."""
    seen: set[str] = set()
    batch: list[Version] = []
    for version in versions:
        if version.path in seen:
            break
        seen.add(version.path)
        batch.append(version)
    return batch


def _append(bank: OpenBank, store: MemoryStore, versions: list[Version]) -> int:
    with bank.ledger.reading() as view:
        screening = Screening(scrub=bool(bank.settled(view).scrub_secrets))
        records: list[Sealed] = []
        replaced: list[Logged] = []
        for version in versions:
            if version.path == TRANSCRIPT:
                continue
            records += _records(view, store, version, screening, replaced)
        given = view.unchanged(replaced)
    if records:
        bank.ledger.append(records, given=given)
    return len(records)


def _records(
    view: View, store: MemoryStore, version: Version, screening: Screening, replaced: list[Logged]
) -> Iterator[Sealed]:
    """Yield a version as a record, and that it takes the place of the one before."""
    slot = slot_of(FileVersion(path=version.path))
    before = view.current(slot) if slot is not None else None
    if before is not None and _number(before) >= version.version:
        return
    text = store.text_of_version(version)
    said: dict[str, Any] = {
        "store": store.id,
        "version": version.version,
        "sha256": version.sha,
        "bytes": version.bytes,
        "reason": version.reason,
    }
    if version.other:
        said["other"] = version.other
    made = FileVersion(
        path=version.path,
        text=text,
        action=_ACTIONS.get(version.op, "modified" if version.sha else "deleted"),  # type: ignore[arg-type]  # one of these
        previous=None if before is None else before.record.id,
        actor=version.actor,
        created_at=version.at.replace("+00:00", "Z"),
        at=now(),
        metadata={name: value for name, value in said.items() if value not in ("", None)},
    )
    shown = screening(made)
    try:
        sealed = seal(shown)
    except LimitError:  # the text is in the store, under its sha
        sealed = seal(FileVersion(**{name: getattr(made, name) for name in _WITHOUT_TEXT}))
    yield sealed
    if before is not None:
        replaced.append(before)
        yield superseding(before.record.id, sealed.id, actor=version.actor)


_WITHOUT_TEXT = ("path", "action", "previous", "actor", "created_at", "at", "metadata")


def _number(logged: Logged) -> int:
    model = logged.model
    found = model.metadata.get("version") if isinstance(model, FileVersion) else None
    return found if isinstance(found, int) else 0
