"""Which store of memory files a person means, opened."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from msgspec.structs import replace

from satchel.actions.config import Settings
from satchel.actions.filing.following import follow
from satchel.actions.filing.held import held_bank, hold, only_read, require_reading
from satchel.actions.opened import OpenBank, chosen_bank, name_of, opened_bank
from satchel.actions.paths.permission import require_uncontained
from satchel.actions.permitted.owning import require_owner
from satchel.actions.wiring import has_store, opened_store
from satchel.errors import (
    LockedError,
    MemoryStoreError,
    NoMemoryFilesError,
    RolledBackError,
    SatchelError,
    StoreBusyError,
    TargetError,
    UsageError,
)
from satchel.files import MemoryStore
from satchel.files.namespace import Namespace, root_checked
from satchel.files.paths import key_checked
from satchel.memory.parts import is_whole_id

DEFAULT_KEY = "default"


def namespace_of(settings: Settings) -> Namespace:
    """Return the folder that the keys of these settings are in.

    Raises:
        MemoryStoreError: If the configuration names none that can be one.
    """
    files = settings.options.files
    return Namespace(
        root_checked(files.storage_root or str(settings.home / "files")),
        key_checked(files.org, "org"),
        key_checked(files.project, "project"),
        key_checked(files.domain, "domain"),
    )


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
    """Open the memory files that are meant, and close them after the block.

    What was changed is saved where they are, unless the block failed. The bank then logs it, and
    what was changed from outside before.

    Args:
        settings: Where keys are.
        key: Name of the store; the bank that is meant when none is named, by default.
        root: A folder that has a store, in place of a key.
        create: Make one where there is none.
        leaves: Whether files are going to leave the store for another place, so that the holder
            of a token has to be allowed to export.
        read_only: Whether nothing is changed: not the files, and not the log of the bank.

    Raises:
        UsageError: If both are given.
        MemoryStoreError: If there is none.
        ContainmentError: If folders are set that paths may be in.
        PermissionRefusedError, TokenError: If a token was presented that does not open them.
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
        if is_whole_id(name):
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
            store.leave = None  # what follows is told by this machine
            with suppress(StoreBusyError, LockedError, TargetError):  # who is next catches up
                follow(replace(settings, token=None), store, name)


def usual_key(settings: Settings) -> str:
    """Return the key of the memory files that are meant when none is named.

    It is the bank that commands use: the configured one, or the only one there is. Files that an
    earlier version wrote under another name are still meant where the bank has none.
    """
    if settings.options.store.bank or settings.token is not None:
        return settings.options.store.bank or DEFAULT_KEY
    try:
        if has_store(settings):
            with opened_store(settings, read_only=True) as store, store.reading() as reader:
                name = name_of(reader, chosen_bank(settings, store, None))
            known = namespace_of(settings)._asdict()
            older = MemoryStore.exists(**{**known, "key": DEFAULT_KEY})
            if name and (not older or MemoryStore.exists(**{**known, "key": name})):
                return key_checked(name)
    except RolledBackError:  # whose files are meant, only the store that vanished says
        raise
    except SatchelError:
        pass
    return DEFAULT_KEY


def _key_of_bank(settings: Settings, bank: str) -> str:
    """Return the key of the memory files of a bank by its id: what it is called.

    Raises:
        MemoryStoreError: If it has no name, or one that no folder can have.
    """
    with opened_bank(settings, bank) as opened:
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
    """Return the memory files of a name, open; whoever asked for them closes them.

    Args:
        settings: Where keys are.
        name: The key.
        create: Make them where there are none.
        held: The bank of whoever presented a token: it is asked from then on.

    Raises:
        NoMemoryFilesError: If there are none.
        PermissionRefusedError: If the token does not allow them to be made.
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
    """Return the memory files of a bank that is open; whoever asked for them closes them.

    Made where there are none, unless the bank is open for reading.

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
