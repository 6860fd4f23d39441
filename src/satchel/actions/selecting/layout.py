"""Where amplihack's layout has its files, under one folder; paths only, and looks at them.

====================  =======================================================================
``memory.db``         flat memory of all agents, SQLite
``memory_graph.db``   the same as a graph
``hierarchical_memory/AGENT.db``        hierarchical memory of one agent, SQLite
``hierarchical_memory/AGENT/graph_db``  the same as a graph
====================  =======================================================================

No path is built from a name that ``agent_name`` has not let through, and none is followed
through a link.
"""

import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from satchel.actions.selecting.backends import BackendChoice
from satchel.errors import ConfigError, PathRefusedError
from satchel.memory.agent_names import agent_name, is_agent_name

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


def is_used(home: Path) -> bool:
    """Tell whether there are files of the layout in a home."""
    return any(os.path.lexists(home / name) for name in (FLAT, FLAT_GRAPH, HIERARCHY))


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
    refuse_link(old.parent)
    refuse_link(new)
    if not refuse_link(old) or (refuse_link(new) and not _is_empty_folder(new)):
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
    if refuse_link(folder):
        for name in agents:
            graph = agent_graph(folder, name)
            if refuse_link(graph.parent):
                if refuse_link(graph):
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
    for path in sorted(folder.iterdir()) if refuse_link(folder) else []:
        if refuse_link(path) and path.is_dir() and is_agent_name(path.name):
            found.append(path.name)
    return found


def owners_in(home: Path) -> list[str]:
    """Return the names of agents that have a store of their own in the layout, sorted.

    Raises:
        PathRefusedError: If there is a link among their files or folders.
    """
    folder = home / HIERARCHY
    if not refuse_link(folder):
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
    if not refuse_link(folder):
        return []
    found = [BackendChoice.GRAPH_DB] if has_graph(folder, agent) else []
    older, _ = older_sqlite(folder, agent)
    if refuse_link(agent_sqlite(folder, agent)) or (
        refuse_link(older.parent) and refuse_link(older)
    ):
        found.append(BackendChoice.SQLITE)
    return found


def own_path(home: Path, agent: str, kind: BackendChoice) -> Path:
    """Return where an agent's own store of a kind is, or would be."""
    folder = home / HIERARCHY
    if kind is BackendChoice.GRAPH_DB:
        return legacy_graph(folder, agent) or agent_graph(folder, agent)
    usual, (older, _) = agent_sqlite(folder, agent), older_sqlite(folder, agent)
    return older if not refuse_link(usual) and refuse_link(older) else usual


def has_graph(folder: Path, agent: str) -> bool:
    """Tell whether there is the graph of an agent in the layout, of whichever engine.

    Raises:
        PathRefusedError: If there is a link on the way.
    """
    graph = agent_graph(folder, agent)
    if not refuse_link(graph.parent):
        return False
    return refuse_link(graph) or legacy_graph(folder, agent) is not None


def is_own_graph(folder: Path, agent: str) -> bool:
    """Tell whether the graph of an agent is a store of ours, or a folder for one."""
    graph = agent_graph(folder, agent)
    if not (refuse_link(graph.parent) and refuse_link(graph)) or not graph.is_dir():
        return False
    return refuse_link(graph / GRAPH_FILE) or _is_empty_folder(graph)


def is_flat_store(path: Path) -> bool:
    """Tell whether a file is a store of ours, or one that was just begun; not amplihack's own.

    Raises:
        PathRefusedError: If it is a link, or cannot be looked at.
    """
    if not refuse_link(path):
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


def refuse_link(path: Path) -> bool:
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
    if not refuse_link(graph):
        return False
    if graph.is_dir():
        return refuse_link(graph / GRAPH_FILE) or not _is_empty_folder(graph)
    return graph.stat().st_size > 0  # a file of another engine's: it says so itself


def _is_empty_folder(path: Path) -> bool:
    with suppress(NotADirectoryError), os.scandir(path) as found:
        return next(found, None) is None
    return False
