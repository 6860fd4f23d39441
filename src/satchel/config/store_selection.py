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
    """Return the kind of store that a person names.

    Args:
        text: ``sqlite``, ``graph-db``, ``postgres``; or ``kuzu``, which means ``graph-db``.
        field: The option, variable or key, for errors.

    Raises:
        ConfigError: If it is anything else: nothing is guessed, in whatever case it is written.
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
    """Return the kind of store that an address names; None for one that is not known here."""
    scheme, found, _ = address.partition("://")
    return _BY_SCHEME.get(scheme) if found else BackendChoice.SQLITE


ONE = "satchel.db"
FLAT, FLAT_GRAPH = "memory.db", "memory_graph.db"
HIERARCHY, GRAPH, LEGACY = "hierarchical_memory", "graph_db", "kuzu_db"
OLDER = "sqlite_hierarchical.db"
GRAPH_FILE = "graph.lbug"

_APPLICATION, _OURS = slice(68, 72), b"SATC"
"""Where SQLite keeps whose file it is, and what is there in ours."""

_FORBIDDEN = ("/proc", "/sys", "/dev")


def graph_path(text: str, variable: str) -> Path:
    """Return where a person wants the flat graph to be.

    Raises:
        ConfigError: If it is not absolute, has ``..`` in it, or is the system's.
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
    """Return where older versions had that file."""
    return folder / agent_name(agent) / OLDER, folder / OLDER


def agent_graph(folder: Path, agent: str) -> Path:
    """Return the folder of the graph with the hierarchical memory of an agent."""
    return folder / agent_name(agent) / GRAPH


def legacy_graph(folder: Path, agent: str) -> Path | None:
    """Return the older graph of an agent, where it is all there is: read only.

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
    """Return a graph that is there: the hierarchical one of an agent, or else the flat one.

    Args:
        home: Where the layout is.
        flat: Where the flat graph is.
        agents: Whose hierarchical memory is meant.

    Raises:
        PathRefusedError: If there is a link on the way: it is neither followed nor taken for none.
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
    """Return the names of agents that have a folder of their own in the layout, sorted.

    Raises:
        PathRefusedError: If there is a link among them.
    """
    folder = home / HIERARCHY
    found = list[str]()
    for path in sorted(folder.iterdir()) if exists_without_link(folder) else []:
        if exists_without_link(path) and path.is_dir() and is_agent_name(path.name):
            found.append(path.name)
    return found


def owners_in(home: Path) -> list[str]:
    """Return the names of agents that have a store of their own in the layout, sorted.

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
    """Return the kinds of stores that an agent has of its own in the layout, a graph first.

    Raises:
        PathRefusedError: If there is a link on the way.
    """
    folder = home / HIERARCHY
    if not exists_without_link(folder):
        return []
    found = [BackendChoice.GRAPH_DB] if has_graph(folder, agent) else []
    older, _ = older_sqlite(folder, agent)
    if exists_without_link(agent_sqlite(folder, agent)) or (
        exists_without_link(older.parent) and exists_without_link(older)
    ):
        found.append(BackendChoice.SQLITE)
    return found


def own_path(home: Path, agent: str, kind: BackendChoice) -> Path:
    """Return where an agent's own store of a kind is, or would be."""
    folder = home / HIERARCHY
    if kind is BackendChoice.GRAPH_DB:
        return legacy_graph(folder, agent) or agent_graph(folder, agent)
    usual, (older, _) = agent_sqlite(folder, agent), older_sqlite(folder, agent)
    return older if not exists_without_link(usual) and exists_without_link(older) else usual


def has_graph(folder: Path, agent: str) -> bool:
    """Tell whether there is the graph of an agent in the layout, of whichever engine.

    Raises:
        PathRefusedError: If there is a link on the way.
    """
    graph = agent_graph(folder, agent)
    if not exists_without_link(graph.parent):
        return False
    return exists_without_link(graph) or legacy_graph(folder, agent) is not None


def is_own_graph(folder: Path, agent: str) -> bool:
    """Tell whether the graph of an agent is a store of ours, or a folder for one."""
    graph = agent_graph(folder, agent)
    if not (exists_without_link(graph.parent) and exists_without_link(graph)) or not graph.is_dir():
        return False
    return exists_without_link(graph / GRAPH_FILE) or _is_empty_folder(graph)


def is_flat_store(path: Path) -> bool:
    """Tell whether a file is a store of ours, or one that was just begun; not amplihack's own.

    Raises:
        PathRefusedError: If it is a link, or cannot be looked at.
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
    """Tell whether there is something at a path that is looked at without following.

    Raises:
        PathRefusedError: If it is a link, also one that leads nowhere, or cannot be looked at.
    """
    try:
        found = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise PathRefusedError(f"cannot be read: {error.strerror}", file=str(path)) from error
    if stat.S_ISLNK(found.st_mode):
        raise PathRefusedError(
            "the store path is a symbolic link",
            file=str(path),
            hint="It is not followed. Remove it, or set the store: --store, SATCHEL_STORE.",
        )
    return True


def _is_filled(graph: Path) -> bool:
    """Tell whether there is a graph, not only a folder for one."""
    if not exists_without_link(graph):
        return False
    if graph.is_dir():
        return exists_without_link(graph / GRAPH_FILE) or not _is_empty_folder(graph)
    return graph.stat().st_size > 0  # a file of another engine's: it says so itself


def _is_empty_folder(path: Path) -> bool:
    with suppress(NotADirectoryError), os.scandir(path) as found:
        return next(found, None) is None
    return False


FLAG = "flag"
FILE = "file"
STORE_VARIABLE = "SATCHEL_STORE"


class StoreChoice(msgspec.Struct, frozen=True, kw_only=True):
    """A store that was chosen."""

    backend: BackendChoice | None
    """Its kind; None where the address is of a kind that is not known here."""

    address: str
    why: str
    """What decided, for a person."""

    stated: bool = False
    """Whether somebody said where it is, not only of what kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreRequest:
    """What was said about the store, and where: ``flag``, ``file``, ``default`` or a variable."""

    address: str = ""
    address_origin: str = "default"
    backend: str = ""
    backend_origin: str = "default"
    graph_path: str = ""
    graph_path_origin: str = "default"


class StoreSelection:
    """Which store is meant; looked up once, when it is first asked for.

    Args:
        home: The folder that stores are in when nothing else is said.
        said: What was said.
    """

    def __init__(self, home: Path, said: StoreRequest) -> None:
        self.home = home
        self.said = said

    def with_address(self, address: str) -> "StoreSelection":
        """Return the selection for an address: another one than was said wins over everything."""
        if address == self.said.address:
            return self
        return StoreSelection(self.home, replace(self.said, address=address, address_origin=FLAG))

    def with_backend(self, kind: BackendChoice) -> "StoreSelection":
        """Return the selection as ``--backend`` would make it; ``--store`` still wins."""
        return StoreSelection(self.home, replace(self.said, backend=kind, backend_origin=FLAG))

    @cached_property
    def flat_graph(self) -> Path:
        """Where the flat graph is, or would be.

        Raises:
            ConfigError: If the path that was said cannot be one.
        """
        if self.said.graph_path:
            return graph_path(self.said.graph_path, self.said.graph_path_origin)
        return self.home / FLAT_GRAPH

    @cached_property
    def choice(self) -> StoreChoice:
        """The store.

        Raises:
            ConfigError: If what was said is no kind of store, or does not say where it is.
            PathRefusedError: If there is a link where a graph is looked for.
        """
        return self.of(())

    def of(self, agents: Sequence[str]) -> StoreChoice:
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

    def _configured(self, kind: BackendChoice | None) -> StoreChoice | None:
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

    def _looked_for(self, agents: Sequence[str]) -> StoreChoice:
        found = found_graph(self.home, self.flat_graph, agents)
        if found is not None:
            return self._of_kind(BackendChoice.GRAPH_DB, f"{found} is there")
        return self._of_kind(BackendChoice.SQLITE, "default")

    def _there(self, why: str) -> StoreChoice:
        address = self.said.address
        return StoreChoice(backend=backend_of(address), address=address, why=why, stated=True)

    def _of_kind(self, kind: BackendChoice, why: str) -> StoreChoice:
        """Return the store of a kind: the configured one where it is of that kind."""
        if self.said.address and backend_of(self.said.address) is kind:
            return StoreChoice(backend=kind, address=self.said.address, why=why, stated=True)
        if kind is BackendChoice.POSTGRES:
            raise ConfigError(
                "this backend is a server, and no address is given",
                field=_named(self.said.backend_origin),
                hint="Set it: --store postgresql://USER@HOST/DATABASE, or SATCHEL_STORE.",
            )
        path = self.flat_graph if kind is BackendChoice.GRAPH_DB else self._sqlite()
        return StoreChoice(backend=kind, address=address_of(kind, path), why=why)

    def _sqlite(self) -> Path:
        """Return the file: our own, unless there is only a store in its place in the layout."""
        one, flat = self.home / ONE, self.home / FLAT
        return flat if not os.path.lexists(one) and is_flat_store(flat) else one


def address_of(kind: BackendChoice, path: Path) -> str:
    """Return the address of a store that is at a path."""
    return f"ladybug:///{quote(str(path))}" if kind is BackendChoice.GRAPH_DB else str(path)


def _named(origin: str) -> str:
    return {FLAG: "--backend", FILE: "store.backend"}.get(origin, origin)
