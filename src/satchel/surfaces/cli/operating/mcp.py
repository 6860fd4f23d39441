"""``satchel mcp``: memory for agent hosts."""

from enum import StrEnum
from typing import Annotated

import typer

from satchel.actions.permitted.owning import require_owner
from satchel.surfaces.cli._console import print_json, state
from satchel.surfaces.cli._options import InBank, Json


class Transport(StrEnum):
    """How a host talks to it."""

    STDIO = "stdio"
    HTTP = "http"


def add_to(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("mcp")(mcp_command)


def mcp_command(
    bank: InBank = None,
    transport: Annotated[
        Transport, typer.Option(help="stdio, or http: streamable, on this machine only.")
    ] = Transport.STDIO,
    port: Annotated[int, typer.Option(min=1, max=65535, help="The port, for http.")] = 8378,
    tools: Annotated[bool, typer.Option("--tools", help="Print the tools, and stop.")] = False,
    as_json: Json = False,
) -> int:
    """Serve memory to an agent host over MCP: remember, recall, rehydrate, files, artifacts.

    What comes out of memory is framed as data. In a host's configuration: command "satchel",
    arguments ["mcp"].

    Example: `satchel mcp --bank assistant`
    """
    import asyncio

    from satchel.surfaces.mcp import require_extra

    require_owner(state.settings, "serve")
    require_extra()
    from satchel.api.satchel import Satchel, opened
    from satchel.surfaces.mcp.server import server

    with opened(Satchel, state.settings, bank=bank) as satchel:
        made = server(satchel, state.settings, bank)
        if tools:
            found = asyncio.run(made.list_tools())
            shown = [{"name": one.name, "description": one.description} for one in found]
            if as_json:
                print_json(shown)
            else:
                for one in shown:
                    typer.echo(f"{one['name']}: {str(one['description']).splitlines()[0]}")
            return 0
        if transport is Transport.HTTP:
            made.run("streamable-http", host="127.0.0.1", port=port)
        else:
            made.run("stdio")
    return 0
