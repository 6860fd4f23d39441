"""Which store is meant, in one order for every command.

1. ``--store``
2. ``--backend``
3. ``SATCHEL_STORE``
4. ``SATCHEL_MEMORY_BACKEND``, or ``AMPLIHACK_MEMORY_BACKEND``
5. ``[store]`` in the configuration, or a provider that is a store
6. a graph that is there: that of the agent who is meant, or the flat one
7. SQLite
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from urllib.parse import quote

import msgspec

from satchel.actions.selecting import layout
from satchel.actions.selecting.backends import BackendChoice, backend_from, backend_of
from satchel.errors import ConfigError

FLAG = "flag"
FILE = "file"
STORE_VARIABLE = "SATCHEL_STORE"


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """A store that was chosen."""

    backend: BackendChoice | None
    """Its kind; None where the address is of a kind that is not known here."""

    address: str
    why: str
    """What decided, for a person."""

    stated: bool = False
    """Whether somebody said where it is, not only of what kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What was said about the store, and where: ``flag``, ``file``, ``default`` or a variable."""

    address: str = ""
    address_origin: str = "default"
    backend: str = ""
    backend_origin: str = "default"
    graph_path: str = ""
    graph_path_origin: str = "default"


class Selection:
    """Which store is meant; looked up once, when it is first asked for.

    Args:
        home: The folder that stores are in when nothing else is said.
        said: What was said.
    """

    def __init__(self, home: Path, said: Said) -> None:
        self.home = home
        self.said = said

    def with_address(self, address: str) -> "Selection":
        """Return the selection for an address: another one than was said wins over everything."""
        if address == self.said.address:
            return self
        return Selection(self.home, replace(self.said, address=address, address_origin=FLAG))

    def with_backend(self, kind: BackendChoice) -> "Selection":
        """Return the selection as ``--backend`` would make it; ``--store`` still wins."""
        return Selection(self.home, replace(self.said, backend=kind, backend_origin=FLAG))

    @cached_property
    def flat_graph(self) -> Path:
        """Where the flat graph is, or would be.

        Raises:
            ConfigError: If the path that was said cannot be one.
        """
        if self.said.graph_path:
            return layout.graph_path(self.said.graph_path, self.said.graph_path_origin)
        return self.home / layout.FLAT_GRAPH

    @cached_property
    def choice(self) -> Chosen:
        """The store.

        Raises:
            ConfigError: If what was said is no kind of store, or does not say where it is.
            PathRefusedError: If there is a link where a graph is looked for.
        """
        return self.of(())

    def of(self, agents: Sequence[str]) -> Chosen:
        """Return the store where the memory of agents is meant; raises as ``choice``."""
        said = self.said
        kind = backend_from(said.backend, _named(said.backend_origin)) if said.backend else None
        address = said.address_origin if said.address else None
        backend = said.backend_origin if kind is not None else None
        if address == FLAG:
            return self._there("--store")
        if kind is not None and backend == FLAG:
            return self._of_kind(kind, "--backend")
        if address == STORE_VARIABLE:
            return self._there(STORE_VARIABLE)
        if kind is not None and backend not in (FILE, "default"):
            return self._of_kind(kind, str(backend))
        return self._configured(kind) or self._looked_for(agents)

    def _configured(self, kind: BackendChoice | None) -> Chosen | None:
        said = self.said
        why = said.address_origin if said.address_origin != FILE else "the configuration file"
        if said.address:
            if kind is not None and kind != backend_of(said.address):
                raise ConfigError(
                    f"the address is not that of a {kind} store",
                    field="store.backend",
                    hint="Set only one: store.address or store.backend.",
                )
            return self._there(why)
        return None if kind is None else self._of_kind(kind, "the configuration file")

    def _looked_for(self, agents: Sequence[str]) -> Chosen:
        found = layout.found_graph(self.home, self.flat_graph, agents)
        if found is not None:
            return self._of_kind(BackendChoice.GRAPH_DB, f"{found} is there")
        return self._of_kind(BackendChoice.SQLITE, "default")

    def _there(self, why: str) -> Chosen:
        address = self.said.address
        return Chosen(backend=backend_of(address), address=address, why=why, stated=True)

    def _of_kind(self, kind: BackendChoice, why: str) -> Chosen:
        """Return the store of a kind: the configured one where it is of that kind."""
        if self.said.address and backend_of(self.said.address) is kind:
            return Chosen(backend=kind, address=self.said.address, why=why, stated=True)
        if kind is BackendChoice.POSTGRES:
            raise ConfigError(
                "this backend is a server, and no address is given",
                field=_named(self.said.backend_origin),
                hint="Set it: --store postgresql://USER@HOST/DATABASE, or SATCHEL_STORE.",
            )
        path = self.flat_graph if kind is BackendChoice.GRAPH_DB else self._sqlite()
        return Chosen(backend=kind, address=address_of(kind, path), why=why)

    def _sqlite(self) -> Path:
        """Return the file: our own, unless there is only a store in its place in the layout."""
        one, flat = self.home / layout.ONE, self.home / layout.FLAT
        return flat if not os.path.lexists(one) and layout.is_flat_store(flat) else one


def address_of(kind: BackendChoice, path: Path) -> str:
    """Return the address of a store that is at a path."""
    return f"ladybug:///{quote(str(path))}" if kind is BackendChoice.GRAPH_DB else str(path)


def _named(origin: str) -> str:
    return {FLAG: "--backend", FILE: "store.backend"}.get(origin, origin)
