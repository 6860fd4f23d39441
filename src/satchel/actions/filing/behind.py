"""Whether a bank has been told of its memory files, and telling it before somebody asks.

What opens memory files is imported only where there are any: most banks are asked without.
"""

from contextlib import closing, suppress
from typing import TYPE_CHECKING

from satchel.actions.opened import OpenBank, find_bank
from satchel.errors import SatchelError

if TYPE_CHECKING:
    from satchel.files import MemoryStore


def is_behind(bank: OpenBank) -> bool:
    """Tell whether memory files on this machine changed since their bank was told of them."""
    settings = bank.settings
    root = settings.options.files.storage_root
    if bank.bearer is not None or not bank.name or not (root or (settings.home / "files").is_dir()):
        return False
    from satchel.actions.filing.following import mark
    from satchel.actions.filing.opened import namespace_of
    from satchel.files.keeping.manifest import FILE_NAME, Manifest
    from satchel.files.namespace import folder_of
    from satchel.files.paths import OWN

    with suppress(SatchelError):
        folder = folder_of(namespace_of(settings).path(bank.name))
        if folder is not None and (folder / OWN / FILE_NAME).is_file():
            with closing(Manifest(folder / OWN)) as manifest, manifest.looking() as rows:
                told = int(rows.fact(f"note:{mark(bank)}", 0))
                return int(rows.fact("revision", 0)) > told
    return False


def catch_up(bank: OpenBank) -> None:
    """Have a bank log what changed in the memory files of its name since it was told last.

    Nothing is done where they are not on this machine, in a bank that is open for reading, for the
    holder of a token, or where another bank has the name. Nothing that goes wrong with it hinders
    anybody: what is missing is caught up later.
    """
    if bank.bearer is not None or not bank.ledger.writes or not is_behind(bank):
        return
    from satchel.actions.filing.opened import store_of

    with suppress(SatchelError), store_of(bank.settings, str(bank.name), create=False) as store:
        tell(bank, store)


def tell(bank: OpenBank, store: "MemoryStore") -> None:
    """Have a bank log what changed in its memory files, which are open; as ``catch_up``."""
    if bank.bearer is not None or not bank.ledger.writes:
        return
    from satchel.actions.filing.following import follow_into

    with suppress(SatchelError):
        if find_bank(bank.store, str(bank.name)) == bank.id:
            follow_into(bank, store)
