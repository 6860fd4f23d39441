"""``satchel.Keys``: the signing keys of this machine, from Python."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from satchel.actions.config import Settings, load_settings
from satchel.actions.keys.operations import create_key, export_key, list_keys
from satchel.api.operations import method


class Keys:
    """The signing keys of a home, and the keys that it trusts.

    Args:
        home: Folder of keys and trust; ``SATCHEL_HOME`` or the platform's folder by default.
        config: Configuration file.
    """

    def __init__(self, *, home: str | Path | None = None, config: str | Path | None = None) -> None:
        self._settings = load_settings(
            home=None if home is None else Path(home),
            config=None if config is None else Path(config),
        )

    @contextmanager
    def _context(self) -> Iterator[Settings]:
        yield self._settings

    create = method(create_key)
    list = method(list_keys)
    export = method(export_key)
