"""``satchel serve``: the HTTP gateway."""

from pathlib import Path
from typing import Annotated

import typer

from satchel.actions.permitted.owning import require_owner
from satchel.surfaces.cli._console import line, message, print_json, state
from satchel.surfaces.cli._options import Json


def add_to(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("serve")(serve_command)


def serve_command(
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port.")] = 8377,
    name: Annotated[
        list[str] | None,
        typer.Option("--name", help="A host name that clients use; may be given several times."),
    ] = None,
    admin_token_file: Annotated[
        Path | None,
        typer.Option(help="A file with the operator's token; or set SATCHEL_ADMIN_TOKEN."),
    ] = None,
    certificate: Annotated[Path | None, typer.Option(help="For https: the certificate.")] = None,
    certificate_key: Annotated[Path | None, typer.Option(help="And its key.")] = None,
    at_once: Annotated[int, typer.Option(min=1, help="Requests that are worked on together.")] = 64,
    openapi: Annotated[
        bool, typer.Option("--openapi", help="Print the OpenAPI document, and stop.")
    ] = False,
    log: Annotated[
        bool, typer.Option("--log/--no-log", help="A line of JSON for each request.")
    ] = True,
    open_: Annotated[
        bool, typer.Option("--open", help="Show the page in this machine's browser.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Serve the store over HTTP, with a page for the browser at its root.

    Banks, memories, recall, conversations, files in and out, backups, tokens, jobs.

    From this machine anybody may do everything, unless an operator's token is set; from elsewhere
    that is needed, or a capability token with its proof. Ctrl-C ends it when all is done.

    Example: `satchel serve --open`
    """
    from satchel.surfaces.http import require_extra

    require_owner(state.settings, "serve")
    require_extra()
    from satchel.api.satchel import Satchel, opened
    from satchel.surfaces.http.serving import Serving, serve, served

    asked = Serving(
        host=host,
        port=port,
        names=tuple(name or ()),
        admin_token_file=admin_token_file,
        certificate=certificate,
        certificate_key=certificate_key,
        at_once=at_once,
        log=log,
        opens=open_,
    )
    satchel = opened(Satchel, state.settings)
    if openapi:
        from satchel.surfaces.http.app import application

        gateway = served(satchel, state.settings, asked)
        print_json(application(gateway).openapi())
        gateway.close()
        return 0
    if as_json:
        print_json({"host": host, "port": port})
    else:
        line(f"http{'s' if certificate else ''}://{host}:{port}/")
        message("ctrl-c ends it")
    serve(satchel, state.settings, asked)
    return 0
