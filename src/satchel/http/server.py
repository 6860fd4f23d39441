"""Start and stop servers: listening sockets, workers, signals, and the open store."""

import errno
import os
import resource
import shutil
import signal
import socket
import sys
import tempfile
import time
import traceback
import webbrowser
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from threading import Thread
from types import FrameType
from typing import Any, NoReturn

import uvicorn

from satchel.api.store import Satchel, open_store
from satchel.bank.connections import writer_key
from satchel.bank.job_registry import require_servable
from satchel.config.settings import Settings
from satchel.errors import ConfigError, SatchelError, TargetError, UsageError
from satchel.http.app import application, begin_shutdown
from satchel.http.gateway import Gateway
from satchel.http.guard import ClientConnections, ServerLimits, impatient, is_loopback
from satchel.http.metrics import RequestMetrics, to_standard_error
from satchel.http.rate_limits import RateLimiter
from satchel.runtime.files import open_input

_LEAST_SECONDS, _MOST_FAILURES = 5.0, 3
_PATIENCE_SECONDS = 45.0  # longer than a worker waits for running requests
_POLL_SECONDS = 0.2


class Workers:
    """Worker processes.

    The parent has opened nothing and has no threads: each worker opens its own resources. A worker
    that dies is restarted; if workers die immediately after their start, all are stopped.

    Args:
        count: Number of workers.
        work: Runs one worker until SIGTERM; receives its number.
        close: Called in the parent before the workers stop, to close the listening sockets, so
            that no client waits for a connection that is not accepted.
    """

    def __init__(self, count: int, work: Callable[[int], None], close: Callable[[], None]) -> None:
        self._count = count
        self._work = work
        self._close = close
        self._running = dict[int, tuple[int, float]]()
        self._ending: int | None = None
        self._failures = 0

    def run(self) -> None:
        """Start the workers, and wait for their end.

        Raises:
            KeyboardInterrupt: If Ctrl-C ended them.
            TargetError: If they die immediately after their start.
        """
        before = {
            number: signal.signal(number, self._end) for number in (signal.SIGTERM, signal.SIGINT)
        }
        try:
            for worker in range(self._count):
                self._begin(worker)
            while self._ending is None:
                self._restart_dead()
                time.sleep(_POLL_SECONDS)
            self._close()
            self._end_all()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        if self._failures >= _MOST_FAILURES:
            raise TargetError("the server's workers exit right after starting")
        if self._ending == signal.SIGINT:
            raise KeyboardInterrupt

    def _end(self, number: int, _: object) -> None:
        self._ending = number

    def _begin(self, number: int) -> None:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()  # otherwise both would write it
        pid = os.fork()
        if pid == 0:
            self._run_worker(number)
        self._running[pid] = number, time.monotonic()

    def _run_worker(self, number: int) -> NoReturn:
        """Run a worker to its end."""
        status = 1
        try:
            for ending in (signal.SIGTERM, signal.SIGINT):
                signal.signal(ending, signal.SIG_DFL)
            self._work(number)
            status = 0
        except SatchelError as error:
            sys.stderr.write(f"a worker of the server: {error.message}\n")
        except KeyboardInterrupt:
            status = 0
        except BaseException:  # noqa: BLE001 - the parent's code must not continue in the child
            traceback.print_exc()
        finally:
            with suppress(OSError, ValueError):
                sys.stderr.flush()
            os._exit(status)

    def _restart_dead(self) -> None:
        """Restart the workers that died."""
        for pid, _ in self._ended():
            number, began = self._running.pop(pid)
            early = time.monotonic() - began < _LEAST_SECONDS
            self._failures = self._failures + 1 if early else 0
            if self._failures >= _MOST_FAILURES:
                self._ending = signal.SIGTERM
                return
            if self._ending is None:
                self._begin(number)

    def _ended(self) -> list[tuple[int, int]]:
        ended = []
        with suppress(ChildProcessError):
            while (child := os.waitpid(-1, os.WNOHANG)) != (0, 0):
                if child[0] in self._running:
                    ended.append(child)
        return ended

    def _end_all(self) -> None:
        """Stop the workers after their running requests; kill those that take too long."""
        for signal_number, patience in ((signal.SIGTERM, _PATIENCE_SECONDS), (signal.SIGKILL, 5.0)):
            for pid in self._running:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal_number)
            until = time.monotonic() + patience
            while self._running and time.monotonic() < until:
                for pid, _ in self._ended():
                    self._running.pop(pid)
                time.sleep(_POLL_SECONDS / 4)


_ADMIN = "SATCHEL_ADMIN_TOKEN"
_LEAST_TOKEN, _MOST_TOKEN = 16, 4096
_GRACE_SECONDS, _KEEP_SECONDS = 30, 5
_BACKLOG = 2048
_SWITCH_SECONDS = 0.001
_NOT_HERE = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """Options of a server."""

    host: str = "127.0.0.1"
    port: int = 8377
    workers: int = 1
    """Number of worker processes."""

    names: tuple[str, ...] = ()
    """Host names that clients use."""

    admin_token_file: Path | None = None
    verifier: str | None = None
    """The key that proofs of possession are made for, if servers on several machines share an
    address; this machine's own key if None."""

    certificate: Path | None = None
    certificate_key: Path | None = None
    at_once: int = 64
    """Concurrent requests of all workers."""

    per_second: float = 200.0
    """Requests a second of one address; 0 for no limit."""

    log: bool = True
    only_mcp: bool = False
    """Whether to serve MCP only."""

    bank: str | None = None
    """The default bank of agent hosts; the configured one if None."""

    opens: bool = False
    """Whether to open the page in a browser."""


def open_gateway(satchel: Satchel, settings: Settings, options: ServerOptions) -> Gateway:
    """Return the gateway of an opened store.

    Raises:
        ConfigError: If the address is not local, and no operator's token is set; or if requests
            could be replayed at another server.
    """
    admin = admin_token(options.admin_token_file, os.environ)
    if admin is None and not is_loopback(options.host) and options.host != "localhost":
        raise ConfigError(
            f"{options.host} is reachable by others, and no operator's token is set",
            field="host",
            hint=f"Set {_ADMIN}, or --admin-token-file; or serve on 127.0.0.1.",
        )
    gateway = Gateway(satchel, settings, options.verifier or writer_key(settings).did, admin)
    if options.verifier is not None and gateway.is_alone:
        gateway.close()
        raise ConfigError(
            "a request to one server could be replayed at another",
            field="verifier",
            hint="Use a store on PostgreSQL, with a role that sees all banks.",
        )
    return gateway


def serve(settings: Settings, options: ServerOptions, sockets: Sequence[socket.socket]) -> None:
    """Serve a store until an interrupt; running requests are finished then.

    Args:
        settings: The store and keys.
        options: The options of the server.
        sockets: The listening sockets; they are closed.

    Raises:
        ConfigError: As ``open_gateway``.
        UsageError: If several processes cannot write to the store.
        StoreError: If the store cannot be opened.
    """
    with ExitStack() as stack:
        stack.callback(_close, sockets)
        require_servable(settings, options.workers)
        open_gateway(
            open_store(Satchel, settings), settings, options
        ).close()  # errors are raised before the start
        _allow_files()
        rates = RateLimiter(options.per_second)
        if options.workers == 1:
            _serve_alone(settings, options, sockets, rates)
            return
        folder = Path(tempfile.mkdtemp(prefix="satchel-serve-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        work = partial(_serve_worker, settings, options, sockets, rates, folder)
        Workers(options.workers, work, partial(_close, sockets)).run()


def open_sockets(options: ServerOptions) -> list[socket.socket]:
    """Return sockets that listen at an address.

    Raises:
        TargetError: If the address is in use, or not of this machine.
    """
    sockets, failed = list[socket.socket](), None
    try:
        infos = socket.getaddrinfo(
            options.host, options.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        for family, _, _, _, address in dict.fromkeys(infos):
            try:
                listening = socket.create_server(address, family=family, backlog=_BACKLOG)
            except OSError as error:
                if error.errno not in _NOT_HERE:
                    raise
                failed = error
            else:
                listening.set_inheritable(True)
                sockets.append(listening)
            if sockets and not options.port:  # the next socket would have another port
                break
        if not sockets and failed is not None:
            raise failed
    except OSError as error:
        for one in sockets:
            one.close()
        raise TargetError(
            f"cannot listen on {options.host}:{options.port}: {error.strerror or error}",
            hint="If the port is in use, choose another: --port.",
        ) from error
    return sockets


def address_of(options: ServerOptions, sockets: Sequence[socket.socket]) -> str:
    """Return the URL of the page of a server, for this machine."""
    host, port, *_ = sockets[0].getsockname()
    return page_address("https" if options.certificate else "http", host, port)


def admin_token(path: Path | None, environment: Mapping[str, str]) -> str | None:
    """Return the operator's token from a file or the environment; None if it is not set.

    Raises:
        UsageError: If it is too short.
        UnreadableError: If there is no such file.
    """
    token = environment.get(_ADMIN) or None
    if path is not None:
        with open_input(path) as stream:
            token = stream.read(_MOST_TOKEN + 1).decode("utf-8", "replace").strip()
    if token is not None and not _LEAST_TOKEN <= len(token) <= _MOST_TOKEN:
        raise UsageError(
            f"an operator's token must have {_LEAST_TOKEN} to {_MOST_TOKEN} characters",
            field="admin_token",
            hint="Create one: openssl rand -hex 32",
        )
    return token


def _serve_alone(
    settings: Settings, options: ServerOptions, sockets: Sequence[socket.socket], rates: RateLimiter
) -> None:
    counting = to_standard_error() if options.log else RequestMetrics()
    _run(settings, options, sockets, (rates, counting))


def _serve_worker(
    settings: Settings,
    options: ServerOptions,
    sockets: Sequence[socket.socket],
    rates: RateLimiter,
    folder: Path,
    number: int,
) -> None:
    """Run one of several workers."""
    counting = to_standard_error(folder) if options.log else RequestMetrics(folder=folder)
    _run(settings, options, sockets, (rates, counting), first=number == 0)


def _run(
    settings: Settings,
    options: ServerOptions,
    sockets: Sequence[socket.socket],
    limits: tuple[RateLimiter, RequestMetrics],
    *,
    first: bool = True,
) -> None:
    """Serve in this process until a signal ends it."""
    gateway = open_gateway(open_store(Satchel, settings), settings, options)
    gateway.bank = options.bank
    rates, counting = limits
    names = frozenset(name.lower() for name in (*options.names, _bracketed(options.host)))
    usual, workers = ServerLimits(), options.workers
    bounds = ServerLimits(
        at_once=-(-options.at_once // workers),
        per_second=options.per_second,
        buffered_bytes=max(usual.body_bytes, usual.buffered_bytes // workers),
        unknown=_unknown_connections(usual.unknown),
        hosts=names,
    )
    connections = ClientConnections(bounds.unknown)
    app = application(
        gateway,
        bounds=bounds,
        counting=counting,
        rates=rates,
        connections=connections,
        only_mcp=options.only_mcp,
    )
    config: dict[str, Any] = {
        "backlog": _BACKLOG,
        "http": impatient(bounds, connections),
        "ws": "none",
        "access_log": False,
        "log_level": "warning",
        "server_header": False,
        "proxy_headers": False,  # behind a proxy, the operator presents a token
        "timeout_keep_alive": _KEEP_SECONDS,
        "timeout_graceful_shutdown": _GRACE_SECONDS,
        "ssl_certfile": options.certificate,
        "ssl_keyfile": options.certificate_key,
    }
    server = _Server(uvicorn.Config(app, **config))
    if options.opens and first:
        server.page = address_of(options, sockets)
    # The event loop's thread competes with working threads: a shorter switch interval.
    sys.setswitchinterval(_SWITCH_SECONDS)
    with _exit_on_sigterm():
        server.run(sockets=list(sockets))
    if not server.started:
        gateway.close()
        raise TargetError("the server could not be started")


def _unknown_connections(most: int) -> int:
    """Return the limit of unidentified connections: half of the files the process can open."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(1, min(most, files // 2))


def _close(sockets: Sequence[socket.socket]) -> None:
    for listening in sockets:
        listening.close()


@contextmanager
def _exit_on_sigterm() -> Iterator[None]:
    """Return after an orderly shutdown by SIGTERM, so that cleanup runs."""
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _allow_files() -> None:
    """Raise the limit of open files, as each connection is one."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


class _Server(uvicorn.Server):
    """A uvicorn server that opens the page in a browser after its start, on request."""

    page: str | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Start the shutdown, which waits for running requests."""
        begin_shutdown(self.config.app)  # type: ignore[arg-type]  # it is ours
        super().handle_exit(sig, frame)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen."""
        await super().startup(sockets=sockets)
        if self.page is not None and self.started:
            # In a thread: some browsers run in the terminal until they are closed.
            Thread(target=webbrowser.open, args=(self.page,), daemon=True).start()


def page_address(scheme: str, host: str, port: int) -> str:
    """Return the URL of the page of a server that listens on an address, for this machine."""
    shown_host = "localhost" if ip_address(host).is_unspecified else _bracketed(host)
    return f"{scheme}://{shown_host}:{port}/"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
