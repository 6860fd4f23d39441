"""``satchel.Agents`` for programs that await."""

from pathlib import Path

from satchel.api import agents as plain
from satchel.api.away import awaited


class Agents:
    """As ``satchel.Agents``, awaited."""

    def __init__(
        self,
        *,
        home: str | Path | None = None,
        config: str | Path | None = None,
        store: str | Path | None = None,
    ) -> None:
        self._plain = plain.Agents(home=home, config=config, store=store)

    show = awaited(plain.Agents.show)
    export = awaited(plain.Agents.export)
    import_ = awaited(plain.Agents.import_)
    list = awaited(plain.Agents.list)
