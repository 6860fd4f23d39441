"""``satchel.Agents``: what ``satchel agent`` does, from Python."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from satchel.actions.agents import operations
from satchel.actions.config import Settings, load_settings
from satchel.api.operations import method


class Agents:
    """The agents of the configuration: each with its memory, conversations, files and settings.

    Args:
        home: Folder of keys and trust; ``SATCHEL_HOME`` or the platform's folder by default.
        config: Configuration file.
        store: Address of the store; the configured one by default.
    """

    def __init__(
        self,
        *,
        home: str | Path | None = None,
        config: str | Path | None = None,
        store: str | Path | None = None,
    ) -> None:
        self._settings = load_settings(
            home=None if home is None else Path(home),
            config=None if config is None else Path(config),
            store=None if store is None else str(store),
        )

    @contextmanager
    def _context(self) -> Iterator[Settings]:
        try:
            yield self._settings
        finally:
            self._settings.hooks.finish()

    show = method(operations.show_agent)
    export = method(operations.export_agent)
    import_ = method(operations.import_agent)
    list = method(operations.list_agents)
