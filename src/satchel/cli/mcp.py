"""``satchel mcp``: memory for agent hosts."""

import gc
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

import msgspec

from satchel.bank.machine_keys import require_owner
from satchel.cli._console import line, message
from satchel.cli._operations import command
from satchel.cli._tree import Group
from satchel.config.settings import Settings
from satchel.http import require_extra as require_gateway
from satchel.ports.operations import Option, Options, operation, texts

Toolset = Literal["context", "files", "artifacts", "sessions", "all"]
_STARTED = "A server is started on the command line."


def add_to(app: Group) -> None:
    """Add the command of this module."""
    command(app, mcp, _show, label=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class McpOptions(Options):
    """Options of serving an agent host."""

    bank: Annotated[
        str | None,
        Option("Bank name, ID or unique ID prefix. Default: the default bank.", values="bank"),
    ] = None
    transport: Annotated[
        Literal["stdio", "http"],
        Option("Transport: stdio, or streamable HTTP on this machine only."),
    ] = "stdio"
    port: Annotated[int, Option("Port, for http.", minimum=0, maximum=65535)] = 8378
    toolsets: Annotated[
        Toolset | Sequence[Toolset],
        Option(
            "Tools besides remember, recall, list, show, update and forget: context (rehydrate,"
            " banks), files, artifacts (verify, export, import), sessions (fork), or all."
            " Repeatable.",
            flag="--toolset",
        ),
    ] = ()
    tools: Annotated[bool, Option("Print the tools, and exit.")] = False


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool of the server."""

    name: str
    description: str


@operation(
    McpOptions,
    name="mcp",
    example="satchel mcp --bank assistant",
    items="tools",
    absent={"python": _STARTED, "http": _STARTED, "mcp": _STARTED},
)
def mcp(settings: Settings, options: McpOptions) -> list[Tool] | None:
    """Serve memory to an agent host over MCP.

    Memories are delimited as data. In a host's configuration: command "satchel", arguments
    ["mcp"]; `satchel connect` adds it. With a capability token (--token, SATCHEL_TOKEN) the host
    sees what the token covers. `satchel serve` answers at /mcp, too.
    """
    from satchel.mcp import require_extra

    require_extra()
    toolsets = _toolsets(texts(options.toolsets))
    if options.tools:
        return _tools(toolsets)
    if options.transport == "http":
        _serve_http(settings, options.bank, options.port)
    else:
        _serve_streams(settings, options.bank, toolsets)
    return None


def _toolsets(chosen: Sequence[str]) -> tuple[str, ...]:
    every = tuple(each for each in get_args(Toolset) if each != "all")
    return every if "all" in chosen else tuple(chosen)


def _tools(toolsets: tuple[str, ...]) -> list[Tool]:
    import asyncio

    from satchel.mcp.server import server

    listed = asyncio.run(server(None, toolsets).list_tools())
    return [Tool(name=each.name, description=str(each.description)) for each in listed]


def _show(tools: Sequence[Tool] | None) -> None:
    for tool in tools or ():
        line(f"{tool.name}: {tool.description.splitlines()[0]}")


def _serve_streams(settings: Settings, bank: str | None, toolsets: tuple[str, ...]) -> None:
    """Serve the host that started this program, with the permissions of its user."""
    gc.disable()  # the protocol's types live as long as the server: the collector skips them
    from satchel.api.store import Satchel, open_store
    from satchel.mcp.principal import ToolCaller
    from satchel.mcp.sdk import for_streams

    with open_store(Satchel, settings, bank=bank) as satchel:
        asker = ToolCaller(satchel=satchel, settings=settings, bank=bank)
        server = for_streams(lambda: _server(asker, toolsets))
        gc.freeze()
        gc.enable()
        server.run("stdio")


def _server(asker: Any, toolsets: tuple[str, ...]) -> Any:
    from satchel.mcp.server import server

    return server(asker, toolsets)


def _serve_http(settings: Settings, bank: str | None, port: int) -> None:
    """Serve hosts of this machine over HTTP, with MCP only."""
    require_owner(settings, "serve")
    require_gateway()
    from satchel.http.server import ServerOptions, address_of, open_sockets, serve

    options = ServerOptions(port=port, only_mcp=True, bank=bank)
    sockets = open_sockets(options)
    line(f"{address_of(options, sockets)}mcp")
    message("Press Ctrl-C to stop.")
    sys.stdout.flush()  # a reader may wait for it
    serve(settings, options, sockets)
