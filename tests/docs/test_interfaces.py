"""Every command, call of Python, route and MCP tool belongs to a declared operation."""

import asyncio
from pathlib import Path

from http_kit import running_gateway

import satchel
from docs.interfaces import CLASSES, offered
from satchel.cli.main import index
from satchel.files import MemoryStore
from satchel.mcp.server import server

NO_OPERATION = {
    "BankOwners": {"propose"},
    "Satchel": {"open", "close", "hook_counts", "bank"},
    "Bank": {"id", "name", "sessions", "tokens", "quarantine", "code", "files", "owners"},
    "Backups": {"open"},
    "Sessions": {"messages"},
}
VALUES = {
    "Agents", "Backups", "Bank", "Conversion", "Keys", "Memory", "Overview", "Satchel",
    "SatchelError", "Sealed", "Verification", "derive",
}  # fmt: skip


def declared(interface: str) -> set[str]:
    """Return everything that operations declare for an interface."""
    return {place for places in offered().values() for place in places[interface]}


def commands() -> set[str]:
    """Return the words of every command."""
    return {words for words, record in index().items() if not record.is_group}


def routes() -> set[str]:
    """Return every operation of the OpenAPI document."""
    with running_gateway() as served:
        paths = served.app.openapi()["paths"]
    return {f"{method.upper()} {path}" for path, said in paths.items() for method in said}


def python() -> set[str]:
    """Return every public method of the API, and every other public name."""
    found = set(satchel.__all__) - VALUES
    for kind in CLASSES:
        names = {name for name in dir(kind) if not name.startswith("_")}
        found |= {
            f"{kind.__name__}.{name}" for name in names - NO_OPERATION.get(kind.__name__, set())
        }
    return found


def test_every_command_belongs_to_an_operation() -> None:
    """A command without a declaration fails here."""
    assert declared("cli") == commands()


def test_every_route_belongs_to_an_operation(own_home: Path) -> None:
    """Routes of the OpenAPI document."""
    del own_home
    assert declared("http") == routes()


def test_every_tool_belongs_to_an_operation() -> None:
    """Tools that a host lists."""
    tools = {one.name for one in asyncio.run(server(None).list_tools())}
    assert declared("mcp") == tools - {"memory"}  # a host's own tool, for several operations


def test_every_python_call_belongs_to_an_operation() -> None:
    """Methods and functions of ``satchel``; memory files are documented on their own page."""
    files = {one for one in declared("python") if one.startswith("MemoryStore.")}
    assert declared("python") - files == python()
    assert all(hasattr(MemoryStore, one.partition(".")[2]) for one in files)
