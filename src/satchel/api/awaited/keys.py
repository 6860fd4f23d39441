"""``satchel.Keys`` for programs that await."""

from pathlib import Path

from satchel.api.operations import Awaited
from satchel.api.upkeep import keys as plain


class Keys(Awaited, plain.Keys):
    """As ``satchel.Keys``, awaited."""

    def __init__(self, *, home: str | Path | None = None, config: str | Path | None = None) -> None:
        Awaited.__init__(self, plain.Keys(home=home, config=config))
