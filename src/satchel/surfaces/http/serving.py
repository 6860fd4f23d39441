"""Starting the server, and ending it without losing anything."""

import os
import webbrowser
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from socket import socket
from threading import Thread
from typing import Any

import uvicorn

from satchel.actions.config import Settings
from satchel.actions.wiring import writer_key
from satchel.api.satchel import Satchel
from satchel.disk.reading import reading
from satchel.errors import ConfigError, TargetError, UsageError
from satchel.surfaces.http.app import application
from satchel.surfaces.http.counting import Counting, to_standard_error
from satchel.surfaces.http.gateway import Gateway
from satchel.surfaces.http.guard import Bounds, is_loopback

_ADMIN = "SATCHEL_ADMIN_TOKEN"
_LEAST_TOKEN, _MOST_TOKEN = 16, 4096
_GRACE_SECONDS, _KEEP_SECONDS = 30, 5
_BACKLOG = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """How a server is started."""

    host: str = "127.0.0.1"
    port: int = 8377
    names: tuple[str, ...] = ()
    """Host names that clients ask for it by."""

    admin_token_file: Path | None = None
    certificate: Path | None = None
    certificate_key: Path | None = None
    at_once: int = 64
    log: bool = True
    opens: bool = False
    """Whether the page is shown in this machine's browser once it can be."""


def served(satchel: Satchel, settings: Settings, asked: Serving) -> Gateway:
    """Return an open store, ready to be served.

    Raises:
        ConfigError: If others could reach it, and nothing says who the operator is.
    """
    admin = admin_token(asked.admin_token_file, os.environ)
    if admin is None and not is_loopback(asked.host) and asked.host != "localhost":
        raise ConfigError(
            f"others can reach {asked.host}, and no operator's token is set",
            field="host",
            hint=f"Set {_ADMIN}, or --admin-token-file; or serve on 127.0.0.1.",
        )
    return Gateway(satchel, settings, writer_key(settings).did, admin)


def serve(satchel: Satchel, settings: Settings, asked: Serving) -> None:
    """Serve a store until it is interrupted; what is under way is finished then.

    Raises:
        ConfigError: As ``served``.
        TargetError: If the address is taken.
    """
    gateway = served(satchel, settings, asked)
    counting = to_standard_error() if asked.log else Counting()
    names = frozenset(name.lower() for name in (*asked.names, _bracketed(asked.host)))
    app = application(gateway, bounds=Bounds(at_once=asked.at_once, hosts=names), counting=counting)
    config: dict[str, Any] = {
        "host": asked.host,
        "port": asked.port,
        "backlog": _BACKLOG,
        "access_log": False,
        "log_level": "warning",
        "server_header": False,
        "proxy_headers": False,  # who is asked by a proxy says so by its own token
        "timeout_keep_alive": _KEEP_SECONDS,
        "timeout_graceful_shutdown": _GRACE_SECONDS,
        "ssl_certfile": asked.certificate,
        "ssl_keyfile": asked.certificate_key,
    }
    server = _Server(uvicorn.Config(app, **config))
    server.opens = asked.opens
    try:
        server.run()
    except SystemExit as error:
        gateway.close()
        if server.started:
            raise
        raise TargetError(
            f"cannot listen on {asked.host}:{asked.port}",
            hint="Is it taken? Choose another one: --port.",
        ) from error


def admin_token(path: Path | None, environment: Mapping[str, str]) -> str | None:
    """Return the operator's token: from a file, or the environment; None where none is set.

    Raises:
        UsageError: If it is too short to be a secret.
        UnreadableError: If there is no such file.
    """
    found = environment.get(_ADMIN) or None
    if path is not None:
        with reading(path) as stream:
            found = stream.read(_MOST_TOKEN + 1).decode("utf-8", "replace").strip()
    if found is not None and not _LEAST_TOKEN <= len(found) <= _MOST_TOKEN:
        raise UsageError(
            f"an operator's token has {_LEAST_TOKEN} to {_MOST_TOKEN} characters",
            field="admin_token",
            hint="Make one: openssl rand -hex 32",
        )
    return found


class _Server(uvicorn.Server):
    """Shows the page in a browser, where that is asked for, as soon as it can be fetched."""

    opens = False

    async def startup(self, sockets: list[socket] | None = None) -> None:
        """Listen."""
        await super().startup(sockets=sockets)
        if self.opens and self.started:
            (host, port, *_) = self.servers[0].sockets[0].getsockname()
            scheme = "https" if self.config.is_ssl else "http"
            # In a thread: some browsers in a terminal run until they are left.
            call = Thread(target=webbrowser.open, args=(page_address(scheme, host, port),))
            call.daemon = True
            call.start()


def page_address(scheme: str, host: str, port: int) -> str:
    """Return where the page of a server that listens on an address is, seen from this machine."""
    here = "localhost" if ip_address(host).is_unspecified else _bracketed(host)
    return f"{scheme}://{here}:{port}/"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
