"""Classes that work with a home, a configuration and a store, without having it open."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from satchel.actions.config import Settings, load_settings

FilePath = str | Path | None


class SettingsCalls:
    """The base of such a class; its methods are operations on the settings."""

    def __init__(
        self, *, home: FilePath = None, config: FilePath = None, store: FilePath = None
    ) -> None:
        """Read the settings.

        Args:
            home: Folder of keys and trust; ``SATCHEL_HOME`` or the platform's folder by default.
            config: Configuration file.
            store: Address of the store; the configured one by default.
        """
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
