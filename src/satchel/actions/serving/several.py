"""Whether a store can be served by several processes at once."""

from satchel.actions.config import Settings
from satchel.actions.permitted.owning import require_owner
from satchel.actions.wiring import opened_store, shown_address
from satchel.errors import UsageError


def require_servable(settings: Settings, workers: int) -> None:
    """Require that a store can be opened, by as many as are going to.

    Raises:
        UsageError: If several processes cannot write it.
        StoreError: If it cannot be opened.
    """
    require_owner(settings, "serve")
    with opened_store(settings) as store:
        if workers > 1 and not store.traits.concurrent_writers:
            raise UsageError(
                f"only one process at a time can open this store, not {workers} workers",
                file=shown_address(settings.store),
                field="workers",
                hint="Use one worker, or copy it to another store: satchel store copy.",
            )
