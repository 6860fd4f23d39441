"""``satchel.Agents`` for programs that await."""

from pathlib import Path

from satchel.api import agents as plain
from satchel.api.operations import Awaited


class Agents(Awaited, plain.Agents):
    """As ``satchel.Agents``, awaited."""

    def __init__(
        self,
        *,
        home: str | Path | None = None,
        config: str | Path | None = None,
        store: str | Path | None = None,
    ) -> None:
        Awaited.__init__(self, plain.Agents(home=home, config=config, store=store))
