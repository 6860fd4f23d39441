"""Each action is at each door, or it is said why not; and nothing is at a door that is not told."""

import asyncio
import tomllib
from pathlib import Path

import pytest
from http_kit import serving

import satchel
from docs.interfaces import CLASSES, offered
from satchel.files import MemoryStore
from satchel.surfaces.cli._parser import index
from satchel.surfaces.mcp.server import server

SAID = tomllib.loads((Path(__file__).parents[2] / "docs/doors.toml").read_text())
NO_ACTION = {
    "Owners": {"propose"},
    "Satchel": {"open", "close", "hook_counts", "bank"},
    "Bank": {"id", "name", "sessions", "tokens", "quarantine", "code", "files", "owners"},
    "Backups": {"open"},
    "Sessions": {"messages"},
}
VALUES = {
    "Agents", "Backups", "Bank", "Conversion", "Memory", "Overview", "Satchel", "SatchelError",
    "Sealed",
    "Verification", "derive",
}  # fmt: skip


def told(door: str) -> set[str]:
    """Return all that is said to be at a door."""
    derived = {place for places in offered().values() for place in places[door]}
    return derived | {
        one for action in SAID["actions"] if isinstance(action[door], list) for one in action[door]
    }


def commands() -> set[str]:
    """Return the words of every command."""
    return {words for words, record in index().items() if not record.is_group}


def routes() -> set[str]:
    """Return every operation of the OpenAPI document."""
    with serving() as served:
        paths = served.app.openapi()["paths"]
    return {f"{method.upper()} {path}" for path, said in paths.items() for method in said}


def python() -> set[str]:
    """Return every public method, and what the package offers besides."""
    found = set(satchel.__all__) - VALUES
    for kind in CLASSES:
        names = {name for name in dir(kind) if not name.startswith("_")}
        found |= {f"{kind.__name__}.{name}" for name in names - NO_ACTION.get(kind.__name__, set())}
    return found


def test_every_command_is_in_the_table_and_no_other() -> None:
    """A command that is added fails here until its row says what the other doors have."""
    assert told("cli") == commands()


def test_every_route_is_in_the_table_and_no_other(own_home: Path) -> None:
    """Those of the OpenAPI document."""
    del own_home
    assert told("http") == routes()


def test_every_tool_is_in_the_table_and_no_other() -> None:
    """Those that a host is told."""
    tools = {one.name for one in asyncio.run(server(None).list_tools())}
    assert told("mcp") == tools - {"memory"}  # a host's own tool, which several operations do


def test_every_call_of_python_is_in_the_table_and_no_other() -> None:
    """Methods of what ``satchel`` gives, and its own functions; memory files are a page's."""
    files = {one for one in told("python") if one.startswith("MemoryStore.")}
    assert told("python") - files == python()
    assert all(hasattr(MemoryStore, one.partition(".")[2]) for one in files)


@pytest.mark.parametrize("door", ["cli", "python", "http", "mcp"])
def test_where_an_action_is_not_at_a_door_the_reason_is_said(door: str) -> None:
    """One of a few; each of them is used."""
    missing = {action[door] for action in SAID["actions"] if isinstance(action[door], str)}
    assert missing <= SAID["reasons"].keys()
    everywhere = {
        action[one] for action in SAID["actions"] for one in action if isinstance(action[one], str)
    }
    assert SAID["reasons"].keys() <= everywhere
