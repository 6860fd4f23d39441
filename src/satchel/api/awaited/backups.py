"""``satchel.Backups`` for programs that await."""

from pathlib import Path

from satchel.api.operations import Awaited
from satchel.api.upkeep import backups as plain


class Backups(Awaited, plain.Backups):
    """As ``satchel.Backups``, awaited."""

    def __init__(
        self,
        *,
        home: str | Path | None = None,
        config: str | Path | None = None,
        store: str | Path | None = None,
    ) -> None:
        Awaited.__init__(self, plain.Backups(home=home, config=config, store=store))
