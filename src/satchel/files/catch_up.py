"""Check whether memory files have changes that their bank has not logged.

The module that logs them is imported only if there are any: most banks have no files.
"""

from contextlib import closing, suppress
from threading import Thread
from time import monotonic
from typing import TYPE_CHECKING

import msgspec

from satchel.bank.open_bank import OpenBank
from satchel.config.settings import Settings
from satchel.errors import SatchelError

if TYPE_CHECKING:
    from satchel.files.paths import Namespace

_PATIENCE = 3.0

_NOT_AGAIN = 60.0


SAVED = "files/saved"
"""Name of what is stored beside a bank's log: which change of which remote store it has logged."""

_silent = dict[str, float]()
"""Places that did not answer, and until when they are skipped."""


def mark(bank: OpenBank) -> str:
    """Return the name under which a store stores the last change that a bank logged."""
    return f"logged:{bank.id}"


def namespace_of(settings: Settings) -> "Namespace":
    """Return the folder of the keys of these settings.

    Raises:
        MemoryStoreError: If the configured one is not valid.
    """
    from satchel.files.paths import Namespace, key_checked, root_checked

    files = settings.options.files
    return Namespace(
        root_checked(files.storage_root or str(settings.home / "files")),
        key_checked(files.org, "org"),
        key_checked(files.project, "project"),
        key_checked(files.domain, "domain"),
    )


def last_logged_save(bank: OpenBank) -> tuple[str, int] | None:
    """Return the remote store whose changes a bank has logged, and its last logged change."""
    with bank.ledger.reading() as view:
        saved = view.side(SAVED).get(SAVED)
    try:
        return None if saved is None else msgspec.json.decode(saved, type=tuple[str, int])
    except msgspec.DecodeError:  # not verified: a position that is too early logs nothing twice
        return None


def is_behind(bank: OpenBank) -> bool:
    """Return whether memory files have changes that their bank has not logged.

    For files at a remote place, this is one request. A place that does not answer in time is not
    asked again for a minute, so that only one read waits for it.
    """
    settings = bank.settings
    root = settings.options.files.storage_root
    if bank.bearer is not None or not bank.name or not (root or (settings.home / "files").is_dir()):
        return False
    from satchel.files.manifest import FILE_NAME, FilesManifest
    from satchel.files.paths import OWN, folder_of

    with suppress(SatchelError):
        address = namespace_of(settings).path(bank.name)
        folder = folder_of(address)
        if folder is None:
            return _is_behind_saved(bank, address)
        if (folder / OWN / FILE_NAME).is_file():
            with closing(FilesManifest(folder / OWN)) as manifest, manifest.looking() as rows:
                told = int(rows.fact(f"note:{mark(bank)}", 0))
                return int(rows.fact("revision", 0)) > told
    return False


def _is_behind_saved(bank: OpenBank, address: str) -> bool:
    from satchel.files.storage import file_storage

    if monotonic() < _silent.get(address, 0.0):
        return False
    answers = list[tuple[str, int] | None]()

    def ask() -> None:
        with suppress(SatchelError):
            answers.append(file_storage(address).standing())

    asking = Thread(target=ask, daemon=True)  # a service may take long to answer
    asking.start()
    asking.join(_PATIENCE)
    if not answers:
        _silent[address] = monotonic() + _NOT_AGAIN
        return False
    return answers[0] is not None and answers[0] != last_logged_save(bank)


def must_log_changes(bank: OpenBank) -> bool:
    """Return whether a bank that is open for its owner to write is behind its memory files."""
    return bank.bearer is None and bank.ledger.writes and is_behind(bank)
