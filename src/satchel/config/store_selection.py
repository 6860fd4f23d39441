"""Selection of the store, in the same order for every command.

1. ``--store`` 2. ``--backend`` 3. ``SATCHEL_STORE`` 4. ``SATCHEL_MEMORY_BACKEND``, or
``AMPLIHACK_MEMORY_BACKEND`` 5. ``[store]`` in the configuration, or a provider that is a store 6.
an existing graph: that of the selected agent, or the flat one 7. SQLite
"""

import os
import stat
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from urllib.parse import quote

import msgspec

from satchel.errors import ConfigError, PathRefusedError
from satchel.model.values import agent_name, is_agent_name


class BackendChoice(StrEnum):
    """A kind of store."""

    SQLITE = "sqlite"
    GRAPH_DB = "graph-db"
    POSTGRES = "postgres"


_ALSO = {"kuzu": BackendChoice.GRAPH_DB}
"""Older names."""

_BY_SCHEME = {
    "ladybug": BackendChoice.GRAPH_DB,
    "postgresql": BackendChoice.POSTGRES,
    "sqlite": BackendChoice.SQLITE,
}
_SHOWN = 40


def backend_from(text: str, field: str) -> BackendChoice:
    """Return the kind of store with a name.

    Args:
        text: ``sqlite``, ``graph-db``, ``postgres``; or ``kuzu``, which means ``graph-db``.
        field: The option, variable or key, for errors.

    Raises:
        ConfigError: If it is anything else, also in another case.
    """
    if text in _ALSO:
        return _ALSO[text]
    if text in set(BackendChoice):
        return BackendChoice(text)
    known = ", ".join([*BackendChoice, *_ALSO])
    raise ConfigError(
        f"unknown backend {text[:_SHOWN]!r}", field=field, hint=f"There are: {known}."
    )


def backend_of(address: str) -> BackendChoice | None:
    """Return the kind of store of an address; None if it is unknown."""
    scheme, found, _ = address.partition("://")
    return _BY_SCHEME.get(scheme) if found else BackendChoice.SQLITE


ONE = "satchel.db"
FLAT, FLAT_GRAPH = "memory.db", "memory_graph.db"
HIERARCHY, GRAPH, LEGACY = "hierarchical_memory", "graph_db", "kuzu_db"
OLDER = "sqlite_hierarchical.db"
GRAPH_FILE = "graph.lbug"

_APPLICATION, _OURS = slice(68, 72), b"SATC"
"""Position of the application ID in an SQLite file, and Satchel's ID."""

_FORBIDDEN = ("/proc", "/sys", "/dev")


def graph_path(text: str, variable: str) -> Path:
    """Return the path of the flat graph that a person set.

    Raises:
        ConfigError: If it is not absolute, contains ``..``, or is a system folder.
    """
    path = Path(text).expanduser()
    wrong = None
    if not path.is_absolute():
        wrong = "the path is not absolute"
    elif ".." in path.parts:
        wrong = "the path contains `..`"
    elif "\0" in text or any(path.is_relative_to(folder) for folder in _FORBIDDEN):
        wrong = "no store can be at this path"
    if wrong is not None:
        raise ConfigError(f"{wrong}: {text[:200]!r}", field=variable)
    return path


def agent_sqlite(folder: Path, agent: str) -> Path:
    """Return the file with the hierarchical memory of an agent."""
    return folder / f"{agent_name(agent)}.db"


def older_sqlite(folder: Path, agent: str) -> tuple[Path, ...]:
    """Return the paths of that file in older versions."""
    return folder / agent_name(agent) / OLDER, folder / OLDER


def agent_graph(folder: Path, agent: str) -> Path:
    """Return the folder of the graph with the hierarchical memory of an agent."""
    return folder / agent_name(agent) / GRAPH


def legacy_graph(folder: Path, agent: str) -> Path | None:
    """Return the older graph of an agent, which is read-only, if there is no other.

    Raises:
        PathRefusedError: If there is a link on the way.
    """
    new, old = agent_graph(folder, agent), folder / agent_name(agent) / LEGACY
    exists_without_link(old.parent)
    exists_without_link(new)
    if not exists_without_link(old) or (exists_without_link(new) and not _is_empty_folder(new)):
        return None
    return old


def found_graph(home: Path, flat: Path, agents: Iterable[str] = ()) -> Path | None:
    """Return an existing graph: the hierarchical one of an agent, or else the flat one.

    Args:
        home: The folder of the layout.
        flat: Path of the flat graph.
        agents: The selected agents.

    Raises:
        PathRefusedError: If there is a link on the way.
    """
    folder = home / HIERARCHY
    if exists_without_link(folder):
        for name in agents:
            graph = agent_graph(folder, name)
            if exists_without_link(graph.parent):
                if exists_without_link(graph):
                    return graph
                if legacy_graph(folder, name) is not None:
                    return graph.with_name(LEGACY)
    return flat if _is_filled(flat) else None


def agents_in(home: Path) -> list[str]:
    """Return the names of agents with a folder in the layout, sorted.

    Raises:
        PathRefusedError: If there is a link among them.
    """
    folder = home / HIERARCHY
    agents = list[str]()
    for path in sorted(folder.iterdir()) if exists_without_link(folder) else []:
        if exists_without_link(path) and path.is_dir() and is_agent_name(path.name):
            agents.append(path.name)
    return agents


def owners_in(home: Path) -> list[str]:
    """Return the names of agents with a store in the layout, sorted.

    Raises:
        PathRefusedError: If there is a link among their files or folders.
    """
    folder = home / HIERARCHY
    if not exists_without_link(folder):
        return []
    names = {path.name.removesuffix(".db") for path in folder.iterdir() if path.suffix == ".db"}
    names |= {*agents_in(home)}
    return sorted(name for name in names if is_agent_name(name) and own_stores(home, name))


def own_stores(home: Path, agent: str) -> list[BackendChoice]:
    """Return the kinds of stores that an agent has in the layout, a graph first.

    Raises:
        PathRefusedError: If there is a link on the way.
    """
    folder = home / HIERARCHY
    if not exists_without_link(folder):
        return []
    stores = [BackendChoice.GRAPH_DB] if has_graph(folder, agent) else []
    older, _ = older_sqlite(folder, agent)
    if exists_without_link(agent_sqlite(folder, agent)) or (
        exists_without_link(older.parent) and exists_without_link(older)
    ):
        stores.append(BackendChoice.SQLITE)
    return stores


def own_path(home: Path, agent: str, kind: BackendChoice) -> Path:
    """Return the path of an agent's own store of a kind, which may not exist."""
    folder = home / HIERARCHY
    if kind is BackendChoice.GRAPH_DB:
        return legacy_graph(folder, agent) or agent_graph(folder, agent)
    usual, (older, _) = agent_sqlite(folder, agent), older_sqlite(folder, agent)
    return older if not exists_without_link(usual) and exists_without_link(older) else usual


def has_graph(folder: Path, agent: str) -> bool:
    """Return whether an agent has a graph in the layout, of either engine.

    Raises:
        PathRefusedError: If there is a link on the way.
    """
    graph = agent_graph(folder, agent)
    if not exists_without_link(graph.parent):
        return False
    return exists_without_link(graph) or legacy_graph(folder, agent) is not None


def is_own_graph(folder: Path, agent: str) -> bool:
    """Return whether the graph of an agent is a store of ours, or a folder for one."""
    graph = agent_graph(folder, agent)
    if not (exists_without_link(graph.parent) and exists_without_link(graph)) or not graph.is_dir():
        return False
    return exists_without_link(graph / GRAPH_FILE) or _is_empty_folder(graph)


def is_flat_store(path: Path) -> bool:
    """Return whether a file is a store of ours, or a new empty one; not amplihack's own.

    Raises:
        PathRefusedError: If it is a link, or its status cannot be read.
    """
    if not exists_without_link(path):
        return False
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            head = os.read(handle, _APPLICATION.stop)
        finally:
            os.close(handle)
    except OSError as error:
        raise PathRefusedError(f"cannot be read: {error.strerror}", file=str(path)) from error
    return not head or head[_APPLICATION] == _OURS


def exists_without_link(path: Path) -> bool:
    """Return whether a path exists, without following links.

    Raises:
        PathRefusedError: If it is a link, also a dangling one, or its status cannot be read.
    """
    try:
        status = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise PathRefusedError(f"cannot be read: {error.strerror}", file=str(path)) from error
    if stat.S_ISLNK(status.st_mode):
        raise PathRefusedError(
            "the store path is a symbolic link",
            file=str(path),
            hint="It is not followed. Remove it, or set the store: --store, SATCHEL_STORE.",
        )
    return True


def _is_filled(graph: Path) -> bool:
    """Return whether a graph exists, not only a folder for one."""
    if not exists_without_link(graph):
        return False
    if graph.is_dir():
        return exists_without_link(graph / GRAPH_FILE) or not _is_empty_folder(graph)
    return graph.stat().st_size > 0  # a file of another engine: opening it reports that


def _is_empty_folder(path: Path) -> bool:
    with suppress(NotADirectoryError), os.scandir(path) as found:
        return next(found, None) is None
    return False


FLAG = "flag"
FILE = "file"
STORE_VARIABLE = "SATCHEL_STORE"


class StoreChoice(msgspec.Struct, frozen=True, kw_only=True):
    """A selected store."""

    backend: BackendChoice | None
    """Its kind; None if the kind of the address is unknown."""

    address: str
    why: str
    """The reason, for a person."""

    stated: bool = False
    """Whether its location was set, not only its kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreRequest:
    """The settings about the store with their origins: flag, file, default or a variable."""

    address: str = ""
    address_origin: str = "default"
    backend: str = ""
    backend_origin: str = "default"
    graph_path: str = ""
    graph_path_origin: str = "default"


class StoreSelection:
    """The selected store; looked up once, on first use.

    Args:
        home: The default folder of stores.
        request: The settings about the store.
    """

    def __init__(self, home: Path, request: StoreRequest) -> None:
        self.home = home
        self.request = request

    def with_address(self, address: str) -> "StoreSelection":
        """Return the selection with an address; an address that differs from the settings wins."""
        if address == self.request.address:
            return self
        return StoreSelection(
            self.home, replace(self.request, address=address, address_origin=FLAG)
        )

    def with_backend(self, kind: BackendChoice) -> "StoreSelection":
        """Return the selection as with ``--backend``; ``--store`` still wins."""
        return StoreSelection(self.home, replace(self.request, backend=kind, backend_origin=FLAG))

    @cached_property
    def flat_graph(self) -> Path:
        """The path of the flat graph, which may not exist.

        Raises:
            ConfigError: If the configured path is invalid.
        """
        if self.request.graph_path:
            return graph_path(self.request.graph_path, self.request.graph_path_origin)
        return self.home / FLAT_GRAPH

    @cached_property
    def choice(self) -> StoreChoice:
        """The selected store.

        Raises:
            ConfigError: If the settings name no kind of store, or no location.
            PathRefusedError: If a path that is searched for a graph is a link.
        """
        return self.of(())

    def of(self, agents: Sequence[str]) -> StoreChoice:
        """Return the store for the memory of agents; raises as ``choice``."""
        request = self.request
        kind = (
            backend_from(request.backend, _named(request.backend_origin))
            if request.backend
            else None
        )
        address = request.address_origin if request.address else None
        backend = request.backend_origin if kind is not None else None
        if address == FLAG:
            return self._configured_address("--store")
        if kind is not None and backend == FLAG:
            return self._of_kind(kind, "--backend")
        if address == STORE_VARIABLE:
            return self._configured_address(STORE_VARIABLE)
        if kind is not None and backend not in (FILE, "default"):
            return self._of_kind(kind, str(backend))
        return self._configured(kind) or self._existing_or_default(agents)

    def _configured(self, kind: BackendChoice | None) -> StoreChoice | None:
        request = self.request
        why = request.address_origin if request.address_origin != FILE else "the configuration file"
        if request.address:
            if kind is not None and kind != backend_of(request.address):
                raise ConfigError(
                    f"the address is not that of a {kind} store",
                    field="store.backend",
                    hint="Set only one: store.address or store.backend.",
                )
            return self._configured_address(why)
        return None if kind is None else self._of_kind(kind, "the configuration file")

    def _existing_or_default(self, agents: Sequence[str]) -> StoreChoice:
        graph = found_graph(self.home, self.flat_graph, agents)
        if graph is not None:
            return self._of_kind(BackendChoice.GRAPH_DB, f"{graph} is there")
        return self._of_kind(BackendChoice.SQLITE, "default")

    def _configured_address(self, why: str) -> StoreChoice:
        address = self.request.address
        return StoreChoice(backend=backend_of(address), address=address, why=why, stated=True)

    def _of_kind(self, kind: BackendChoice, why: str) -> StoreChoice:
        """Return the store of a kind: the configured one if it is of that kind."""
        if self.request.address and backend_of(self.request.address) is kind:
            return StoreChoice(backend=kind, address=self.request.address, why=why, stated=True)
        if kind is BackendChoice.POSTGRES:
            raise ConfigError(
                "this backend is a server, and no address is given",
                field=_named(self.request.backend_origin),
                hint="Set it: --store postgresql://USER@HOST/DATABASE, or SATCHEL_STORE.",
            )
        path = self.flat_graph if kind is BackendChoice.GRAPH_DB else self._sqlite()
        return StoreChoice(backend=kind, address=address_of(kind, path), why=why)

    def _sqlite(self) -> Path:
        """Return the SQLite file: our own, unless the layout has a store and we have none."""
        one, flat = self.home / ONE, self.home / FLAT
        return flat if not os.path.lexists(one) and is_flat_store(flat) else one


def address_of(kind: BackendChoice, path: Path) -> str:
    """Return the address of a store at a path."""
    return f"ladybug:///{quote(str(path))}" if kind is BackendChoice.GRAPH_DB else str(path)


def _named(origin: str) -> str:
    return {FLAG: "--backend", FILE: "store.backend"}.get(origin, origin)
