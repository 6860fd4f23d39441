"""``satchel serve``: the HTTP gateway."""

import sys
from pathlib import Path
from typing import Annotated

from satchel.actions.permitted.owning import require_owner
from satchel.surfaces.cli._console import line, message, print_json, state
from satchel.surfaces.cli._options import Json
from satchel.surfaces.cli._tree import Group, Option


def add_to(app: Group) -> None:
    """Add the commands of this module."""
    app.command("serve")(serve_command)


def serve_command(
    host: Annotated[str, Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, Option(minimum=0, maximum=65535, help="The port.")] = 8377,
    workers: Annotated[
        int, Option(minimum=1, maximum=256, help="Processes that serve; one for each processor.")
    ] = 1,
    name: Annotated[
        list[str] | None,
        Option("--name", help="A host name that clients use; may be given several times."),
    ] = None,
    admin_token_file: Annotated[
        Path | None,
        Option(help="A file with the operator's token; or set SATCHEL_ADMIN_TOKEN."),
    ] = None,
    verifier: Annotated[
        str | None,
        Option(
            help="What proofs of possession are made for, where servers on several machines have"
            " one address; this machine's key otherwise."
        ),
    ] = None,
    certificate: Annotated[Path | None, Option(help="For https: the certificate.")] = None,
    certificate_key: Annotated[Path | None, Option(help="And its key.")] = None,
    at_once: Annotated[int, Option(minimum=1, help="Requests that are worked on together.")] = 64,
    per_second: Annotated[
        float, Option(minimum=0, help="Requests of one address; 0 for any number.")
    ] = 200.0,
    openapi: Annotated[
        bool, Option("--openapi", help="Print the OpenAPI document, and stop.")
    ] = False,
    log: Annotated[bool, Option("--log/--no-log", help="A line of JSON for each request.")] = True,
    open_: Annotated[
        bool, Option("--open", help="Show the page in this machine's browser.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Serve the store over HTTP, with a page for the browser at its root.

    Banks, memories, recall, conversations, files in and out, backups, tokens, jobs.

    From this machine anybody may do everything, unless an operator's token is set; from elsewhere
    that is needed, or a capability token with its proof. Ctrl-C ends it when all is done.

    Several workers are as one server: what was revoked, which requests were made before, how many
    an address makes, and jobs are known to all of them.

    Example: `satchel serve --open`
    """
    from satchel.surfaces.http import require_extra

    require_owner(state.settings, "serve")
    require_extra()
    from satchel.api.satchel import Satchel, opened
    from satchel.surfaces.http.serving import Serving, address_of, listening, serve, served

    asked = Serving(
        host=host,
        port=port,
        workers=workers,
        names=tuple(name or ()),
        admin_token_file=admin_token_file,
        verifier=verifier,
        certificate=certificate,
        certificate_key=certificate_key,
        at_once=at_once,
        per_second=per_second,
        log=log,
        opens=open_,
    )
    if openapi:
        from satchel.surfaces.http.app import application

        gateway = served(opened(Satchel, state.settings), state.settings, asked)
        print_json(application(gateway).openapi())
        gateway.close()
        return 0
    sockets = listening(asked)
    address = address_of(asked, sockets)
    if as_json:
        print_json({"host": host, "port": sockets[0].getsockname()[1], "address": address})
    else:
        line(address)
        message("ctrl-c ends it")
    sys.stdout.flush()  # who reads it waits for it
    serve(state.settings, asked, sockets)
    return 0
