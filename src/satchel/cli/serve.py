"""``satchel serve``: the HTTP gateway."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from satchel.bank.machine_keys import require_owner
from satchel.cli._console import line, message, print_json, state
from satchel.cli._operations import command
from satchel.cli._tree import Group
from satchel.config.settings import Settings
from satchel.ports.operations import Option, Options, PathText, operation, path_text, texts

_STARTED = "A server is started on the command line."


def add_to(app: Group) -> None:
    """Add the command of this module."""
    command(app, serve, _show, label=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions(Options):
    """Options of the server."""

    host: Annotated[str, Option("Address to listen on.")] = "127.0.0.1"
    port: Annotated[int, Option("Port to listen on.", minimum=0, maximum=65535)] = 8377
    workers: Annotated[
        int, Option("Number of worker processes. Use at most one per core.", minimum=1, maximum=256)
    ] = 1
    names: Annotated[
        str | Sequence[str],
        Option("Host name that clients use. Repeatable.", flag="--name", metavar="NAME"),
    ] = ()
    admin_token_file: Annotated[
        PathText | None,
        Option("File with the operator's token; or set SATCHEL_ADMIN_TOKEN.", values="file"),
    ] = None
    verifier: Annotated[
        str | None,
        Option(
            "Name that proofs of possession are made for, if servers on several machines share an"
            " address. Default: the key of this machine."
        ),
    ] = None
    tls_certificate: Annotated[
        PathText | None, Option("TLS certificate file, for https.", values="file")
    ] = None
    tls_key: Annotated[PathText | None, Option("TLS private key file.", values="file")] = None
    concurrency: Annotated[int, Option("Maximum concurrent requests.", minimum=1)] = 64
    per_second: Annotated[
        float, Option("Maximum requests per second of one address; 0 for no limit.", minimum=0)
    ] = 200.0
    openapi: Annotated[bool, Option("Print the OpenAPI document, and exit.")] = False
    log: Annotated[
        bool, Option("Write one line of JSON for each request.", flag="--log/--no-log")
    ] = True
    open: Annotated[bool, Option("Open the page in the browser of this machine.")] = False


@operation(
    ServeOptions,
    name="serve",
    example="satchel serve --open",
    absent={"python": _STARTED, "http": _STARTED, "mcp": _STARTED},
)
def serve(settings: Settings, options: ServeOptions) -> Mapping[str, Any] | None:
    """Serve the store over HTTP, with a web page at its root.

    Banks, memories, recall, conversations, files, imports, exports, backups, tokens, jobs.

    From this machine everything is allowed, unless an operator's token is set; from other machines
    that token is needed, or a capability token with its proof. Ctrl-C stops it once all requests
    are done.

    Several workers act as one server: they share revocations, request limits and jobs.
    """
    from satchel.http import require_extra

    require_owner(settings, "serve")
    require_extra()
    from satchel.api.store import Satchel, open_store
    from satchel.http.server import ServerOptions, address_of, open_gateway, open_sockets
    from satchel.http.server import serve as run

    server_options = ServerOptions(
        host=options.host,
        port=options.port,
        workers=options.workers,
        names=texts(options.names),
        admin_token_file=_file(options.admin_token_file),
        verifier=options.verifier,
        certificate=_file(options.tls_certificate),
        certificate_key=_file(options.tls_key),
        at_once=options.concurrency,
        per_second=options.per_second,
        log=options.log,
        opens=options.open,
    )
    if options.openapi:
        from satchel.http.app import application

        gateway = open_gateway(open_store(Satchel, settings), settings, server_options)
        document: dict[str, Any] = application(gateway).openapi()
        gateway.close()
        return document
    sockets = open_sockets(server_options)
    address = address_of(server_options, sockets)
    if state.json:
        port = sockets[0].getsockname()[1]
        print_json({"host": options.host, "port": port, "address": address})
    else:
        line(address)
        message("Press Ctrl-C to stop.")
    sys.stdout.flush()  # a reader may wait for it
    run(settings, server_options, sockets)
    return None


def _file(path: PathText | None) -> Path | None:
    text = path_text(path)
    return None if text is None else Path(text)


def _show(document: Mapping[str, Any] | None) -> None:
    if document is not None:
        print_json(document)
