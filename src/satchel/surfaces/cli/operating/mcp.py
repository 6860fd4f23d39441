"""``satchel mcp``: memory for agent hosts."""

import sys
from enum import StrEnum
from typing import Annotated

from satchel.actions.permitted.owning import require_owner
from satchel.surfaces.cli._console import line, message, print_json, state
from satchel.surfaces.cli._options import InBank, Json
from satchel.surfaces.cli._tree import Group, Option
from satchel.surfaces.http import require_extra as require_gateway


class Toolset(StrEnum):
    """Tools that are offered on request."""

    CONTEXT = "context"
    FILES = "files"
    ARTIFACTS = "artifacts"
    SESSIONS = "sessions"
    ALL = "all"


class Transport(StrEnum):
    """How a host talks to it."""

    STDIO = "stdio"
    HTTP = "http"


def add_to(app: Group) -> None:
    """Add the commands of this module."""
    app.command("mcp")(mcp_command)


def mcp_command(
    bank: InBank = None,
    transport: Annotated[
        Transport, Option(help="stdio, or http: streamable, on this machine only.")
    ] = Transport.STDIO,
    port: Annotated[int, Option(minimum=0, maximum=65535, help="The port, for http.")] = 8378,
    toolset: Annotated[
        list[Toolset] | None,
        Option(
            "--toolset",
            help="Tools besides remember, recall, list, show, update and forget: context"
            " (rehydrate, banks), files, artifacts (verify, export, import), sessions (fork), or"
            " all. Repeatable.",
        ),
    ] = None,
    tools: Annotated[bool, Option("--tools", help="Print the tools, and stop.")] = False,
    as_json: Json = False,
) -> int:
    """Serve memory to an agent host over MCP.

    What comes out of memory is framed as data. In a host's configuration: command "satchel",
    arguments ["mcp"]. With a capability token (--token, SATCHEL_TOKEN) the host sees what that
    opens. `satchel serve` answers at /mcp, too.

    Example: `satchel mcp --bank assistant`
    """
    from satchel.surfaces.mcp import require_extra

    require_extra()
    if tools:
        _tell_tools(_toolsets(toolset), as_json=as_json)
    elif transport is Transport.HTTP:
        _serve_http(bank, port)
    else:
        _serve_streams(bank, _toolsets(toolset))
    return 0


def _toolsets(chosen: list[Toolset] | None) -> tuple[str, ...]:
    every = [each for each in Toolset if each is not Toolset.ALL]
    return tuple(every if Toolset.ALL in (chosen or ()) else chosen or ())


def _tell_tools(toolsets: tuple[str, ...], *, as_json: bool) -> None:
    import asyncio

    from satchel.surfaces.mcp.server import server

    found = asyncio.run(server(None, toolsets).list_tools())
    if as_json:
        print_json([{"name": one.name, "description": one.description} for one in found])
        return
    for one in found:
        line(f"{one.name}: {str(one.description).splitlines()[0]}")


def _serve_streams(bank: str | None, toolsets: tuple[str, ...]) -> None:
    """Serve the host that started this program, as whoever started that."""
    from satchel.api.satchel import Satchel, opened
    from satchel.surfaces.mcp.asking import Asker
    from satchel.surfaces.mcp.server import server

    with opened(Satchel, state.settings, bank=bank) as satchel:
        server(Asker(satchel=satchel, settings=state.settings, bank=bank), toolsets).run("stdio")


def _serve_http(bank: str | None, port: int) -> None:
    """Serve hosts of this machine by the gateway, which has nothing else behind it."""
    require_owner(state.settings, "serve")
    require_gateway()
    from satchel.surfaces.http.serving import Serving, address_of, listening, serve

    asked = Serving(port=port, only_mcp=True, bank=bank)
    sockets = listening(asked)
    line(f"{address_of(asked, sockets)}mcp")
    message("ctrl-c ends it")
    sys.stdout.flush()  # who reads it waits for it
    serve(state.settings, asked, sockets)
