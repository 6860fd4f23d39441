"""Where an agent's memory is: a bank of its name, or a file in amplihack's layout.

A storage path holds a file for each agent. One that amplihack wrote is read and written as
amplihack's database; a store of ours is used as the store that it is; a new one is made as a store.
"""

import os
import stat
from enum import StrEnum
from pathlib import Path

from msgspec import structs

from satchel.actions.amplihack.keeping import hierarchical
from satchel.actions.config import Settings, StoreSettings
from satchel.actions.opened import called, starting
from satchel.actions.selecting import layout
from satchel.actions.selecting.backends import BackendChoice
from satchel.actions.wiring import holds_anything, opened_store, require_not_lost
from satchel.disk.writing import PRIVATE_FOLDER
from satchel.errors import MalformedError, PathRefusedError, ReadOnlyStoreError, UsageError
from satchel.memory.agent_names import agent_name
from satchel.ports.place import HEAD_BYTES

_SQLITE = b"SQLite format 3\x00"
_APPLICATION = slice(68, 72)
_OURS = b"SATC"
_GRAPHS = (b"LBUG", b"KUZU")
_FOLDERS = ("graph_db", "kuzu_db")
_OLDER = "sqlite_hierarchical.db"


class Kept(StrEnum):
    """What keeps an agent's memory at a path."""

    NOTHING = "nothing"
    STORE = "store"
    AMPLIHACK = "amplihack"
    GRAPH = "graph"
    """A graph of amplihack's, which is only read."""


def graph_at(
    settings: Settings, folder: Path, agent: str, *, writes: bool = False
) -> Settings | None:
    """Return surroundings in which the store is an agent's graph of ours under a folder.

    None where neither a graph was chosen nor one is all there is.

    Raises:
        PathRefusedError: If there is a link on the way.
    """
    selection = settings.selection
    chosen = selection.of(()) if selection.said.backend else None
    if chosen is None or chosen.backend is not BackendChoice.GRAPH_DB:
        graph = layout.agent_graph(folder, agent)
        if layout.refuse_link(layout.agent_sqlite(folder, agent)):
            return None
        if not (layout.refuse_link(graph) and layout.refuse_link(graph / layout.GRAPH_FILE)):
            return None
    meant = structs.replace(settings, selection=selection.with_backend(BackendChoice.GRAPH_DB))
    return hierarchical(meant, agent, storage_path=folder, writes=writes)


def file_of(folder: Path, agent: str) -> Path:
    """Return the file of an agent in amplihack's layout.

    That is ``<agent>.db``, also where it is still to be made; or what older versions left, or a
    graph.

    Raises:
        UsageError: If no agent can have the name. Nothing was looked at then.
    """
    agent_name(agent)
    usual, older = folder / f"{agent}.db", folder / agent / _OLDER
    if _is_there(usual) or not _is_there(folder / agent):
        return usual
    if _is_there(older):
        return older
    for name in _FOLDERS:
        if _is_there(folder / agent / name):
            return folder / agent / name
    return usual


def kept_at(path: Path) -> Kept:
    """Tell what keeps memory at a path; links are not followed.

    Raises:
        PathRefusedError: If there is a link, or something else that is no file.
        MalformedError: If it is no database at all.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return Kept.NOTHING
    except OSError as error:
        problem = "a database path is a symbolic link"
        problem = problem if _is_link(path) else f"cannot be read: {error.strerror}"
        raise PathRefusedError(problem, file=str(path)) from error
    try:
        mode = os.fstat(handle).st_mode
        if stat.S_ISDIR(mode):
            return Kept.GRAPH
        if not stat.S_ISREG(mode):
            raise PathRefusedError("not a file", file=str(path))
        head = os.read(handle, HEAD_BYTES)
    finally:
        os.close(handle)
    if head.startswith(_GRAPHS):
        return Kept.GRAPH
    if not head.startswith(_SQLITE):
        raise MalformedError("not an SQLite database", file=str(path), byte=0)
    return Kept.STORE if head[_APPLICATION] == _OURS else Kept.AMPLIHACK


def graph_error(path: Path) -> ReadOnlyStoreError:
    """Return the error to raise for a graph of amplihack's that was going to be written."""
    return ReadOnlyStoreError(
        "this agent's memory is in an amplihack graph, which is read-only",
        file=str(path),
        hint="Run satchel amplihack export with this path, then import the result.",
    )


def store_at(settings: Settings, path: Path, *, makes: bool = False) -> Settings:
    """Return surroundings in which the store is the one in a file.

    Args:
        settings: The surroundings.
        path: The file.
        makes: Whether its folder is made, for its owner only, where it is missing.
    """
    if makes:
        path.parent.mkdir(parents=True, exist_ok=True, mode=PRIVATE_FOLDER)
    store = StoreSettings(address=str(path.absolute()))
    return structs.replace(settings, options=structs.replace(settings.options, store=store))


def bank_of(settings: Settings, agent: str) -> str | None:
    """Return the id of the bank that has an agent's name; None where there is none.

    Only the name counts: an id, or the start of one, is no agent.

    Raises:
        UsageError: If several banks have it.
        RolledBackError: If the store is gone, or empty, and this machine saw banks in it.
    """
    if not holds_anything(settings):
        require_not_lost(settings, None)
        return None
    with opened_store(settings, read_only=True) as store, store.reading() as reader:
        found, meant = called(reader, agent), starting(reader, agent)
    if meant and not found:
        raise UsageError(f"{agent!r} is a prefix of a bank ID", field="agent")
    if len(found) > 1:
        raise UsageError(
            f"{len(found)} banks are named {agent!r}",
            field="agent",
            hint="Rename one: satchel bank rename.",
        )
    return found[0] if found else None


def _is_there(path: Path) -> bool:
    return os.path.lexists(path)


def _is_link(path: Path) -> bool:
    return path.is_symlink()
