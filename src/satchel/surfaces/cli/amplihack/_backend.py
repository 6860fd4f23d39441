"""The option ``--backend`` behind a verb, as amplihack has it."""

from typing import Annotated

from satchel.actions.amplihack.resolving import chosen_settings
from satchel.actions.config import Settings
from satchel.surfaces.cli._console import state
from satchel.surfaces.cli._tree import Option

Backend = Annotated[
    str | None,
    Option("--backend", help="Kind of store: sqlite, graph-db, kuzu or postgres."),
]


def settings_of(backend: str | None) -> Settings:
    """Return the surroundings with the kind of store that stands behind the verb, if any."""
    return chosen_settings(backend, state.settings)
