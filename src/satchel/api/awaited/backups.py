"""``satchel.Backups`` for programs that await."""

from pathlib import Path

from satchel.api.away import awaited
from satchel.api.upkeep import backups as plain


class Backups:
    """As ``satchel.Backups``, awaited."""

    def __init__(
        self,
        *,
        home: str | Path | None = None,
        config: str | Path | None = None,
        store: str | Path | None = None,
    ) -> None:
        self._plain = plain.Backups(home=home, config=config, store=store)

    run = awaited(plain.Backups.run)
    verify = awaited(plain.Backups.verify)
    restore = awaited(plain.Backups.restore)
    prune = awaited(plain.Backups.prune)
    drill = awaited(plain.Backups.drill)
    setup = awaited(plain.Backups.setup)
    list = awaited(plain.Backups.list)
