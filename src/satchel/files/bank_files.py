"""Resolve and open memory files, and log their changes in a bank."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from satchel.bank.changes import superseding
from satchel.bank.connections import configured_store, has_store
from satchel.bank.machine_keys import require_owner
from satchel.bank.open_bank import (
    OpenBank,
    chosen_bank,
    find_bank,
    name_of,
    open_bank,
    open_bank_in,
)
from satchel.config.options import require_uncontained
from satchel.config.settings import Settings
from satchel.crypto.sealed_records import Sealed, seal
from satchel.errors import (
    LimitError,
    LockedError,
    MemoryStoreError,
    NoMemoryFilesError,
    PermissionRefusedError,
    ReadOnlyStoreError,
    RolledBackError,
    SatchelError,
    StoreBusyError,
    TargetError,
    UnknownBankError,
    UsageError,
)
from satchel.files import MemoryStore
from satchel.files.catch_up import SAVED, last_logged_save, mark, namespace_of
from satchel.files.manifest import StoredVersion
from satchel.files.paths import TRANSCRIPT, key_checked
from satchel.ledger.projection import VerifiedRecord
from satchel.ledger.view import View
from satchel.model.records import FileVersion
from satchel.model.values import is_id, now
from satchel.ports.rows import Filter, slot_of
from satchel.screening.records import SecretScreener

READING = frozenset(
    {
        *("read_text", "read_json", "read_bytes", "read_version", "list_paths", "glob", "search"),
        *("history", "diff", "current_sha", "get_meta", "_path_exists", "audit_tail", "unmanaged"),
        *("verify_audit", "refresh"),
    }
)
"""Calls that require only ``read``."""

CHANGING = frozenset(
    {
        *("write_text", "write_json", "write_bytes", "write_many", "append_text", "edit", "delete"),
        *("rename", "restore", "flush_messages", "save", "sync", "change"),
    }
)
"""Calls that also require ``write``. All others are for the owner."""


@contextmanager
def held_bank(settings: Settings, key: str | None) -> Iterator[OpenBank]:
    """Open the bank of a token whose holder may read its memory files.

    Raises:
        PermissionRefusedError: If the token does not permit it, or covers only a part of the bank.
        TokenError: If it is not valid, or is for a bank of another name.
    """
    with open_bank(settings, key) as bank:
        require_reading(bank)
        yield bank


def require_reading(bank: OpenBank) -> None:
    """Require that a holder may read the memory files of a bank; see ``held_bank``."""
    bank.asked("read files")
    if bank.bearer is not None and not bank.bearer.chain.is_wildcard:
        raise PermissionRefusedError(
            "the token covers memories only, not memory files",
            field="scope",
            hint="Ask the owner for a token with --everything: satchel token issue.",
        )
    if not bank.name:
        raise PermissionRefusedError("the bank has no name, so it has no memory files")
    try:
        alone = find_bank(bank.store, bank.name) == bank.id
    except (UsageError, UnknownBankError):
        alone = False
    if not alone:  # with an ambiguous name, the files may be of another bank
        raise PermissionRefusedError("another bank has the same name")


def hold(store: MemoryStore, bank: OpenBank) -> None:
    """Make a store check the token of a bank before each call, with its holder as the actor."""
    if bank.bearer is None:
        return

    def leave(name: str) -> None:
        if name not in READING | CHANGING:
            raise PermissionRefusedError(
                f"only the owner can do this, without a token: {name}",
                hint="As the owner, drop --token and unset SATCHEL_TOKEN.",
            )
        bank.asked("read files" if name in READING else "change files")

    store.leave, store.acting = leave, bank.bearer.name


def only_read(store: MemoryStore) -> None:
    """Make a store refuse all changes."""

    def leave(name: str) -> None:
        if name not in READING:
            raise ReadOnlyStoreError("opened read-only", file=str(store.root))

    store.leave = leave


_TOGETHER = 500
_TOLD = "logged"
_ACTIONS = {"create": "created", "delete": "deleted", "rename": "renamed", "promote": "created"}
_FILES = Filter(types=frozenset({"file_version"}))


class FilesComparison(NamedTuple):
    """Differences between the files of a store and the current files of a bank's log."""

    missing: tuple[str, ...]
    """Paths in the store that are not in the log."""

    different: tuple[str, ...]
    """Paths in both with different texts."""

    left_over: tuple[str, ...]
    """Paths in the log that are not in the store."""

    @property
    def same(self) -> bool:
        """Whether there are no differences."""
        return not any(self)


def log_file_changes(settings: Settings, store: MemoryStore, name: str) -> int | None:
    """Log the changes of a store in the bank of a name, and return the number of new records.

    None if there is no such bank.

    Raises:
        StoreError: If the bank cannot be written now.
        VerificationError: If the bank was rolled back.
    """
    if not has_store(settings):
        return None
    reached = store.revision
    if (
        store.noted(_TOLD, -1) == reached
    ):  # the usual case; opening a bank takes longer than this read
        return 0
    with configured_store(settings) as banks:
        try:
            find_bank(banks, name)
        except (UnknownBankError, UsageError):
            return None
        written = follow_into(open_bank_in(settings, banks, name, writes=True), store)
    store.note(_TOLD, reached)
    return written


def follow_into(bank: OpenBank, store: MemoryStore) -> int:
    """Log the changes of a store since the last logged one, and return the number of records.

    For a remote store, these are the saved changes of all writers.

    Raises:
        StoreError: As ``follow``.
        TargetError: If the store is remote, and its place does not answer.
    """
    if not store.is_in_place:
        return _follow_saved(bank, store)
    written, reached = 0, store.revision
    while True:
        versions = store.changes_since(_logged_revision(bank, store), _TOGETHER)
        batch = _distinct_paths(versions)
        if not batch:
            store.note(mark(bank), max(reached, _logged_revision(bank, store)))
            return written
        written += _append(bank, store, batch)
        store.note(mark(bank), batch[-1].revision)


def _follow_saved(bank: OpenBank, store: MemoryStore) -> int:
    """Log saved changes; the position is stored beside the log, as a working copy is temporary."""
    known, reached, written = last_logged_save(bank), (store.id, store.saved_revision), 0
    versions = store.saved_since(known[1] if known and known[0] == store.id else -1)
    while versions:
        batch = _distinct_paths(versions[:_TOGETHER])
        written += _append(bank, store, batch)
        del versions[: len(batch)]
    if reached[1] >= 0 and reached != known:
        with bank.store.writing() as writing:
            writing.put_side(bank.id, {SAVED: msgspec.json.encode(reached)})
    return written


def compare(bank: OpenBank, store: MemoryStore) -> FilesComparison:
    """Compare the files of a store with the current files of a bank's log."""
    with bank.ledger.reading() as view:
        logged = {
            record.path: record.metadata.get("sha256")
            for record in (one.model for one in view.newest(_FILES))
            if isinstance(record, FileVersion) and record.metadata.get("store") == store.id
        }
    theirs = {path: sha for path, sha in logged.items() if sha}
    ours = {path: store.current_sha(path) for path in store.list_paths()}
    return FilesComparison(
        tuple(sorted(ours.keys() - theirs.keys())),
        tuple(sorted(path for path in ours.keys() & theirs.keys() if ours[path] != theirs[path])),
        tuple(sorted(theirs.keys() - ours.keys())),
    )


def _logged_revision(bank: OpenBank, store: MemoryStore) -> int:
    return int(store.noted(mark(bank), 0))


def _distinct_paths(versions: list[StoredVersion]) -> list[StoredVersion]:
    """Return versions up to the first repeated path, which starts the next group."""
    seen: set[str] = set()
    batch: list[StoredVersion] = []
    for version in versions:
        if version.path in seen:
            break
        seen.add(version.path)
        batch.append(version)
    return batch


def _append(bank: OpenBank, store: MemoryStore, versions: list[StoredVersion]) -> int:
    with bank.ledger.reading() as view:
        screening = SecretScreener(scrub=bool(bank.settled(view).scrub_secrets))
        records: list[Sealed] = []
        replaced: list[VerifiedRecord] = []
        for version in versions:
            if version.path == TRANSCRIPT:
                continue
            records += _records(view, store, version, screening, replaced)
        precondition = view.unchanged(replaced)
    if records:
        bank.ledger.append(records, precondition=precondition)
    return len(records)


def _records(
    view: View,
    store: MemoryStore,
    version: StoredVersion,
    screening: SecretScreener,
    replaced: list[VerifiedRecord],
) -> Iterator[Sealed]:
    """Yield a version as a record, and the status record that supersedes its predecessor."""
    slot = slot_of(FileVersion(path=version.path))
    before = view.current(slot) if slot is not None else None
    if before is not None and _number(before) >= version.version:
        return
    text = store.text_of_version(version)
    metadata: dict[str, Any] = {
        "store": store.id,
        "version": version.version,
        "sha256": version.sha,
        "bytes": version.bytes,
        "reason": version.reason,
    }
    if version.other:
        metadata["other"] = version.other
    record = FileVersion(
        path=version.path,
        text=text,
        action=_ACTIONS.get(version.op, "modified" if version.sha else "deleted"),  # type: ignore[arg-type]  # one of these
        previous=None if before is None else before.record.id,
        actor=version.actor,
        created_at=version.at.replace("+00:00", "Z"),
        at=now(),
        metadata={name: value for name, value in metadata.items() if value not in ("", None)},
    )
    screened = screening(record)
    try:
        sealed = seal(screened)
    except LimitError:  # the text is in the store, under its sha
        sealed = seal(FileVersion(**{name: getattr(record, name) for name in _WITHOUT_TEXT}))
    yield sealed
    if before is not None:
        replaced.append(before)
        yield superseding(before.record.id, sealed.id, actor=version.actor)


_WITHOUT_TEXT = ("path", "action", "previous", "actor", "created_at", "at", "metadata")


def _number(logged: VerifiedRecord) -> int:
    model = logged.model
    found = model.metadata.get("version") if isinstance(model, FileVersion) else None
    return found if isinstance(found, int) else 0


DEFAULT_KEY = "default"


@contextmanager
def opened_files(
    settings: Settings,
    key: str | None,
    root: Path | None = None,
    *,
    create: bool = False,
    leaves: bool = False,
    read_only: bool = False,
) -> Iterator[MemoryStore]:
    """Open memory files, and close them after the block.

    Changes are saved to their place, unless the block failed. The bank then logs them, with earlier
    changes by other programs.

    Args:
        settings: The settings.
        key: Name of the store; by default that of the default bank.
        root: A folder with a store, instead of a key.
        create: Whether to create a store if there is none.
        leaves: Whether files are exported, for which the holder of a token needs permission.
        read_only: Whether nothing may change: neither the files nor the log of the bank.

    Raises:
        UsageError: If both ``key`` and ``root`` are given.
        MemoryStoreError: If there is no store.
        ContainmentError: If allowed folders are configured.
        PermissionRefusedError, TokenError: If the token does not permit it.
    """
    if root is not None:
        require_owner(settings, "files")
        if key is not None:
            raise UsageError("--file-store and --root name different file stores")
        require_uncontained(settings, str(root))
        if not create and not root.is_dir():
            raise MemoryStoreError("no such folder", file=str(root))
        with MemoryStore(root=root) as store:
            yield store
        return
    with ExitStack() as stack:
        name = key or usual_key(settings)
        if is_id(name):
            name = _key_of_bank(settings, name)
        held = None
        if settings.token is not None:
            held = stack.enter_context(held_bank(settings, key))
            name = str(held.name)
            if leaves:
                held.asked("export")
        store = stack.enter_context(store_of(settings, name, create=create, held=held))
        if read_only:
            if held is None:
                only_read(store)
            yield store
            return
        try:
            yield store
            if store.is_unsaved:
                store.save()
        finally:
            store.leave = None  # the bank logs on behalf of this machine
            with suppress(StoreBusyError, LockedError, TargetError):  # the next call catches up
                log_file_changes(replace(settings, token=None), store, name)


def usual_key(settings: Settings) -> str:
    """Return the key of the default memory files.

    It is the name of the default bank: the configured one, or the only one. If the bank has no
    files, those that an earlier version wrote under another name are used.
    """
    if settings.options.store.bank or settings.token is not None:
        return settings.options.store.bank or DEFAULT_KEY
    try:
        if has_store(settings):
            with configured_store(settings, read_only=True) as store, store.reading() as reader:
                name = name_of(reader, chosen_bank(settings, store, None))
            known = namespace_of(settings)._asdict()
            older = MemoryStore.exists(**{**known, "key": DEFAULT_KEY})
            if name and (not older or MemoryStore.exists(**{**known, "key": name})):
                return key_checked(name)
    except RolledBackError:  # only the missing store knows the name
        raise
    except SatchelError:
        pass
    return DEFAULT_KEY


def _key_of_bank(settings: Settings, bank: str) -> str:
    """Return the key of the memory files of a bank, given its ID: the name of the bank.

    Raises:
        MemoryStoreError: If it has no name, or the name cannot be a folder's.
    """
    with open_bank(settings, bank) as opened:
        if not opened.name:
            raise MemoryStoreError("the bank has no name, so it has no memory files")
        try:
            return key_checked(opened.name)
        except MemoryStoreError as error:
            raise MemoryStoreError(
                f"a bank with this name cannot have memory files: {error.message}",
                field="name",
                hint="Rename the bank.",
            ) from None


def store_of(
    settings: Settings, name: str, *, create: bool, held: OpenBank | None = None
) -> MemoryStore:
    """Open the memory files of a name; the caller closes them.

    Args:
        settings: The settings.
        name: Key of the files.
        create: Whether to create them if there are none.
        held: The bank of the holder of a token, which permits each access.

    Raises:
        NoMemoryFilesError: If there are none.
        PermissionRefusedError: If the token does not permit to create them.
    """
    known = {**namespace_of(settings)._asdict(), "key": name}
    if not MemoryStore.exists(**known):
        if not create:
            raise NoMemoryFilesError(
                f"no file store with the name {name!r} exists",
                hint="Write a file: satchel file write PATH TEXT",
            )
        if held is not None:
            held.asked("change files")
    store = MemoryStore.get_or_create(**known)
    if held is not None:
        hold(store, held)
    return store


def files_of_bank(bank: OpenBank) -> MemoryStore:
    """Open the memory files of an open bank; the caller closes them.

    They are created if there are none, unless the bank is open for reading.

    Raises:
        MemoryStoreError, PermissionRefusedError: As ``store_of``; and if the bank has no name.
    """
    bank.asked("read files")
    if bank.bearer is not None:
        require_reading(bank)
    if not bank.name:
        raise MemoryStoreError("the bank has no name, so it has no memory files")
    if bank.bearer is not None:
        return store_of(bank.settings, bank.name, create=True, held=bank)
    store = store_of(bank.settings, bank.name, create=bank.ledger.writes)
    if not bank.ledger.writes:
        only_read(store)
    return store


def log_pending_changes(bank: OpenBank) -> None:
    """Log the changes of a bank's memory files since the last logged one.

    It does nothing for a bank that is open for reading, for the holder of a token, or if another
    bank has the same name. Errors are ignored: a later call catches up.
    """
    if bank.bearer is not None or not bank.ledger.writes:
        return
    with suppress(SatchelError), store_of(bank.settings, str(bank.name), create=False) as store:
        log_open_changes(bank, store)


def log_open_changes(bank: OpenBank, store: MemoryStore) -> None:
    """Log the changes of a bank's open memory files; as ``log_pending_changes``."""
    if bank.bearer is not None or not bank.ledger.writes:
        return
    with suppress(SatchelError):
        if find_bank(bank.store, str(bank.name)) == bank.id:
            follow_into(bank, store)
