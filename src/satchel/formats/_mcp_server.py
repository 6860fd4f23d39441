"""Whether an MCP memory server has a file, which it then would write over.

The server opens its file for each call and closes it again, so no lock and no open descriptor tells
that it is there. What tells is its process: which script it runs, and what its environment says the
file is. That is known on Linux, of processes whose environment this one may read: those of the same
user, or all for root. Servers on other machines, of other users, or in containers with files of
their own are not seen, and neither is any elsewhere than on Linux.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from satchel.errors import LockedError

_PROCESSES = Path("/proc")
_SCRIPT = ("server-memory", "dist", "index.js")
_FILE = "memory.jsonl"
_SAYS = "MEMORY_FILE_PATH="
_ARGUMENTS = 8
_MOST_BYTES = 1 << 20


def require_no_server(path: Path) -> None:
    """Refuse to write a file that a server has.

    Raises:
        LockedError: If a process of one is known to.
    """
    for process in servers_of(path):
        raise LockedError(
            f"an MCP memory server is using this file (process {process})",
            file=str(path),
            hint="Stop the program that runs it first: it overwrites changes of others.",
        )


def servers_of(path: Path) -> Iterator[int]:
    """Yield the processes of servers that are known to have a file."""
    wanted = os.path.realpath(path)
    with suppress(OSError):
        for process in _PROCESSES.iterdir():
            if process.name.isdecimal() and int(process.name) != os.getpid():
                found = _file_of(process)
                if found is not None and os.path.realpath(found) == wanted:
                    yield int(process.name)


def _file_of(process: Path) -> Path | None:
    """Return the file of a server; None where a process is none, or not ours to look at."""
    with suppress(OSError, ValueError):
        script = _script_of(process)
        if script is None:
            return None
        for one in _texts(process / "environ"):
            if one.startswith(_SAYS) and one != _SAYS:
                return script.parent / one.removeprefix(_SAYS)
        return script.parent / _FILE
    return None


def _script_of(process: Path) -> Path | None:
    folder = (process / "cwd").readlink()
    for one in _texts(process / "cmdline")[:_ARGUMENTS]:
        script = Path(os.path.realpath(folder / one))
        if script.parts[-len(_SCRIPT) :] == _SCRIPT:
            return script
    return None


def _texts(file: Path) -> list[str]:
    with file.open("rb") as stream:
        return [os.fsdecode(one) for one in stream.read(_MOST_BYTES).split(b"\0")]
