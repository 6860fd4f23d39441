"""Where the servers of a store put up what the others have to know."""

from satchel.actions.config import Settings
from satchel.actions.permitted.owning import require_owner
from satchel.actions.wiring import local_path
from satchel.disk.databases.board import FileBoard
from satchel.errors import SatchelError
from satchel.jobs.board import StoreBoard
from satchel.ports.serving.board import Board
from satchel.ports.store import Store

_TRIED = "tried"


def board_of(settings: Settings, store: Store) -> Board:
    """Return the board of all that serve a store.

    It is in the store where several machines use that; else, and where this one may see a single
    bank of it only, in the machine's state.

    Raises:
        StoreError: If it cannot be opened.
    """
    require_owner(settings, "serve")
    if local_path(settings.store) is None:
        found = StoreBoard(store)
        try:
            found.put(_TRIED, b"")
        except SatchelError:  # a tenant's role may write of its own bank alone
            pass
        else:
            return found
    return FileBoard(settings.state / "serving.db")
