"""Connections over real sockets: bodies without authentication, slow and vanished clients."""

import base64
import json
import os
import re
import socket
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import sleep
from typing import Any

import httpx2 as httpx
import pytest
import uvicorn
from http_kit import ServedGateway, running_gateway
from server_kit import Server, server
from token_kit import HOLDER, OUTSIDER, chain_of, child_of, later

from satchel.crypto.canonical import canonical
from satchel.http.guard import ClientConnections, ServerLimits, impatient
from satchel.model.values import now

ADMIN = "0123456789abcdef0123456789abcdef"
OPERATOR_HEADERS = {"Authorization": f"Bearer {ADMIN}"}
TOKEN_HEADER = "X-PAM-Capability-Token: AAAA"  # noqa: S105 - a header
TIMEOUT = 60
MEMORY_MARGIN = 24 << 20
STALLED = 500
TRIES = 40
METHODS = ("GET", "HEAD", "DELETE", "OPTIONS", "POST", "PUT", "PATCH", "BREW")
PATHS = (
    "/v1/banks",
    "/v1/banks/assistant/upload",
    "/v1/banks/assistant/entries",
    "/v1/verify/upload",
    "/v1/files/assistant/text/x/upload",
    "/mcp",
    "/metrics",
    "/page/page.js",
    "/v1/about",
    "/nothing/upload",
)


@pytest.fixture(scope="module", params=["1", "2"], ids=["one worker", "two workers"])
def exposed_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """A server with an operator's token, reachable from elsewhere."""
    home = tmp_path_factory.mktemp("home")
    places = ("SATCHEL_HOME", "SATCHEL_WITNESS", "XDG_STATE_HOME", "XDG_CONFIG_HOME")
    more = {name: str(home / name) for name in places}
    more |= {"SATCHEL_CONFIG": "", "SATCHEL_ADMIN_TOKEN": ADMIN}
    with server("--workers", request.param, **more) as found:
        with found.client() as client:
            assert client.post(
                "/v1/banks", json={"name": "assistant"}, headers=OPERATOR_HEADERS
            ).is_success
        yield found


def _connect(found: Server) -> socket.socket:
    made = socket.create_connection(("127.0.0.1", found.port), TIMEOUT)
    made.settimeout(TIMEOUT)
    return made


def _head(found: Server, method: str, path: str, *headers: str) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{found.port}", *headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


CHUNKED = ("Transfer-Encoding: chunked", "Content-Type: application/json")


def _read_all(client: socket.socket) -> bytes:
    """Return everything until the other side closes the connection."""
    said = b""
    with suppress(ConnectionResetError):
        while part := client.recv(1 << 16):
            said += part
    return said


def _peak_memory(found: Server) -> int:
    """Return the peak memory of any process of a server, in bytes."""
    each = []
    for pid in (found.process.pid, *found.workers()):
        status = Path(f"/proc/{pid}/status").read_text()
        each.append(int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) * 1024)  # type: ignore[index]
    return max(each)


@pytest.mark.parametrize(
    "headers", [(), (TOKEN_HEADER,), ("Authorization: Bearer wrong-wrong-wrong",)]
)
def test_attack_a_body_is_sent_without_authentication(
    exposed_server: Server, headers: tuple[str, ...]
) -> None:
    """On every route and method: it is refused after the headers, and the connection closed."""
    for path in PATHS:
        for method in METHODS:
            for announced in (("Content-Length: 999999999",), CHUNKED):
                with _connect(exposed_server) as client:
                    client.sendall(_head(exposed_server, method, path, *headers, *announced))
                    said = _read_all(client)
                assert re.match(rb"HTTP/1.1 4\d\d ", said), (method, path, said)
                assert b"100 Continue" not in said
                assert b"\r\nconnection: close\r\n" in said.lower(), (method, path, said)


@pytest.mark.parametrize(
    ("method", "path", "header"),
    [
        ("GET", "/v1/banks", TOKEN_HEADER),
        ("POST", "/v1/banks/assistant/upload", TOKEN_HEADER),
        ("PUT", "/v1/files/assistant/text/x/upload", "X-Nothing: 1"),
        ("POST", "/mcp", "X-Nothing: 1"),
        ("GET", "/v1/about", "X-Nothing: 1"),
        ("GET", "/", "X-Nothing: 1"),
    ],
)
def test_attack_400_megabytes_are_sent_without_authentication(
    exposed_server: Server, method: str, path: str, header: str
) -> None:
    """Chunked: the server closes the connection early, and its memory does not grow."""
    before = _peak_memory(exposed_server)
    part = b"100000\r\n" + b"A" * 0x100000 + b"\r\n"
    sent = 0
    with _connect(exposed_server) as client:
        client.sendall(_head(exposed_server, method, path, header, *CHUNKED))
        with suppress(BrokenPipeError, ConnectionResetError):
            for _ in range(400):
                client.sendall(part)
                sent += 1
        said = _read_all(client)
    assert sent < 32  # the buffers of the kernels
    assert re.match(rb"HTTP/1.1 4\d\d ", said), said
    assert _peak_memory(exposed_server) - before < MEMORY_MARGIN


def test_refusals_name_no_unsafe_flag(exposed_server: Server) -> None:
    """``Expect: 100-continue`` is answered with the refusal, which names no option to disable it.

    Other tests exhaust the rate limit of addresses without a token, so 429 is retried.
    """
    refusal = b""
    for _ in range(TRIES):
        with _connect(exposed_server) as client:
            more = ("Content-Length: 5", "Expect: 100-continue")
            client.sendall(_head(exposed_server, "POST", "/v1/banks", *more))
            refusal = _read_all(client)
        if not refusal.startswith(b"HTTP/1.1 429 "):
            break
        assert b"\r\nretry-after: 1\r\n" in refusal.lower()
        sleep(1)
    assert refusal.startswith(b"HTTP/1.1 403 ")
    assert b"--" not in refusal


STALLS = {
    "send nothing": lambda _: b"",
    "send headers slowly": lambda found: _head(found, "GET", "/v1/banks")[:-4],
    "send part of a chunked body": lambda found: (
        _head(found, "GET", "/v1/banks", TOKEN_HEADER, *CHUNKED) + b"1\r\nA\r\n"
    ),
    "send part of an upload": lambda found: (
        _head(found, "POST", "/v1/banks/assistant/upload", "Content-Length: 9999") + b"x"
    ),
    "read no answer": lambda found: 20 * _head(found, "GET", "/page/page.css"),
    "request public routes": lambda found: _head(found, "GET", "/readyz") * 5,
}


@pytest.mark.in_check(4)
@pytest.mark.parametrize("stall", STALLS.values(), ids=STALLS)
def test_attack_500_connections_stall(exposed_server: Server, stall: object) -> None:
    """During that, the operator reads, writes and loads the page within a second."""
    with ExitStack() as held:
        clients = []
        for _ in range(STALLED):
            client = socket.socket()
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.settimeout(TIMEOUT)
            client.connect(("127.0.0.1", exposed_server.port))
            held.enter_context(client)
            with suppress(BrokenPipeError, ConnectionResetError):
                client.settimeout(0)  # do not wait until it is read
                client.send(stall(exposed_server))  # type: ignore[operator]
            clients.append(client)
        _assert_fast(exposed_server, "GET", "/v1/banks")
        _assert_fast(exposed_server, "POST", "/v1/banks/assistant/recall", {"text": "tea"})
        _assert_fast(exposed_server, "GET", "/page/page.js")


def _assert_fast(
    found: Server,
    method: str,
    path: str,
    body: object = None,
    headers: dict[str, str] = OPERATOR_HEADERS,
) -> None:
    """Assert an answer within a second; with retries, for a busy machine."""
    with httpx.Client(base_url=found.address, timeout=1.0, headers=headers) as client:
        for _ in range(TRIES):
            with suppress(httpx.TimeoutException):
                answer = client.request(method, path, json=body) if body else client.get(path)
                assert answer.status_code == 200, answer.text
                return
    pytest.fail(f"{method} {path} is not answered within a second")


def test_attack_too_many_connections_are_opened_without_authentication() -> None:
    """The oldest is closed; those of the operator and of token holders do not count."""
    hung_up = list[int]()
    connections = ClientConnections(3)
    for number in range(3):
        connections.opened(number, partial(hung_up.append, number))
    connections.mark_identified(0)
    connections.opened(3, partial(hung_up.append, 3))
    assert hung_up == []
    for number in range(4, 6):
        connections.opened(number, partial(hung_up.append, number))
    connections.closed(3)
    assert hung_up == [1, 2]
    assert len(connections) == 2


def test_a_client_with_a_late_body_is_not_reset(exposed_server: Server) -> None:
    """Closing a connection while a body arrives resets it, and may lose the answer."""
    head = _head(exposed_server, "POST", "/v1/banks", TOKEN_HEADER, "Content-Length: 20")
    for moment in range(100):
        with _connect(exposed_server) as client:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            client.sendall(head)
            sleep(moment / 20_000)
            client.sendall(b"x" * 20)
            answer = client.recv(1 << 16)
            while part := client.recv(1 << 16):  # a reset would be an error
                answer += part
        assert re.match(rb"HTTP/1.1 4\d\d ", answer), answer


def test_attack_bodies_are_pipelined_without_authentication(exposed_server: Server) -> None:
    """The connection is closed after the first refusal."""
    with _connect(exposed_server) as client:
        one = _head(exposed_server, "POST", "/v1/banks", "Content-Length: 5") + b'{"a":'
        client.sendall(one * 50)
        assert _read_all(client).count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize("path", ["/v1/banks", "/healthz", "/"])
def test_attack_headers_are_huge_or_very_many(exposed_server: Server, path: str) -> None:
    """They are refused, and the memory does not grow."""
    before = _peak_memory(exposed_server)
    for headers in ((f"X: {'y' * 300_000}",), [f"X-{n}: y" for n in range(30_000)]):
        with _connect(exposed_server) as client:
            with suppress(BrokenPipeError, ConnectionResetError):
                client.sendall(_head(exposed_server, "GET", path, *headers))
            assert not _read_all(client).startswith(b"HTTP/1.1 200")
    with _connect(exposed_server) as client:
        client.sendall(_head(exposed_server, "GET", path, *(f"X-{n}: y" for n in range(500))))
        assert _read_all(client).startswith(b"HTTP/1.1 431 ")
    assert _peak_memory(exposed_server) - before < MEMORY_MARGIN


def _stalled_connections(found: Server, *said: bytes) -> ExitStack:
    """Return connections that sent some bytes and then stall."""
    held = ExitStack()
    for one in said:
        client = held.enter_context(_connect(found))
        with suppress(BrokenPipeError, ConnectionResetError):
            client.sendall(one)
    return held


def test_attack_a_token_holder_stalls_hundreds_of_requests(exposed_server: Server) -> None:
    """Neither the operator nor other holders wait."""
    said = {
        "everything": True,
        "permissions": ["read", "write"],
        "expires": "1h",
        "bearer": True,
    }
    with exposed_server.client() as client:
        made = [
            client.post("/v1/banks/assistant/tokens", json=said, headers=OPERATOR_HEADERS).json()[
                "token"
            ]
            for _ in range(2)
        ]
    greedy, other = (base64.b64encode(canonical(one)).decode() for one in made)
    head = f"X-PAM-Capability-Token: {greedy}"
    post = (
        _head(exposed_server, "POST", "/v1/banks/assistant/entries", head, *CHUNKED) + b"1\r\n{\r\n"
    )
    with _stalled_connections(exposed_server, *[post] * 300):
        _assert_fast(exposed_server, "GET", "/v1/banks")
        _assert_fast(exposed_server, "POST", "/v1/banks/assistant/recall", {"text": "tea"})
        theirs = {"X-PAM-Capability-Token": other}
        _assert_fast(exposed_server, "POST", "/v1/banks/assistant/recall", {"text": "tea"}, theirs)


def test_attack_expensive_token_chains_are_sent_in_masses(
    exposed_server: Server,
) -> None:
    """Chains of maximal length with valid signatures, for an existing bank, by another key."""
    with exposed_server.client() as client:
        bank = client.get("/v1/banks", headers=OPERATOR_HEADERS).json()["banks"][0]["id"]
    at = now()
    said: dict[str, Any] = {
        "permissions": ["read"],
        "issued_at": at,
        "expires_at": later(1, since=at),
    }
    chain = chain_of(bank=bank, owner=OUTSIDER, **said)
    while len(chain.tokens) < 8:
        chain = child_of(chain, audience=HOLDER.did, **said)
    head = f"X-PAM-Capability-Token: {base64.b64encode(chain.encoded()).decode()}"
    with _stalled_connections(
        exposed_server, *[_head(exposed_server, "GET", "/v1/banks/assistant", head) * 3] * 300
    ):
        _assert_fast(exposed_server, "GET", "/v1/banks")
        _assert_fast(exposed_server, "POST", "/v1/banks/assistant/recall", {"text": "tea"})


def test_stalled_bodies_of_the_operator_do_not_lock_the_operator_out(
    exposed_server: Server,
) -> None:
    """A request that waits for its body takes no slot."""
    head = f"Authorization: Bearer {ADMIN}"
    post = (
        _head(exposed_server, "POST", "/v1/banks/assistant/entries", head, *CHUNKED) + b"1\r\n{\r\n"
    )
    with _stalled_connections(exposed_server, *[post] * 300):
        _assert_fast(exposed_server, "GET", "/v1/banks")
        _assert_fast(exposed_server, "POST", "/v1/banks/assistant/recall", {"text": "tea"})


SLOW = ServerLimits(
    head_seconds=0.4, take_seconds=0.4, body_seconds=0.4, at_once=1, per_second=0, patience=60.0
)


@dataclass(frozen=True)
class GatewaySocket:
    """A gateway behind a port, with one request slot."""

    served: ServedGateway
    port: int

    def connect(self, *, buffer: int | None = None) -> socket.socket:
        """Return a new connection."""
        made = socket.socket()
        if buffer is not None:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        made.settimeout(TIMEOUT)
        made.connect(("127.0.0.1", self.port))
        return made

    def head(self, method: str, path: str, **headers: Any) -> bytes:
        """Return the headers of a request."""
        lines = [f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{self.port}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        return ("\r\n".join(lines) + "\r\n\r\n").encode()

    def ask(self, path: str) -> bytes:
        """Return the complete answer to a valid request."""
        found = b""
        while not found:  # on a busy machine, any client may be too slow
            with self.connect() as client, suppress(BrokenPipeError, ConnectionResetError):
                client.sendall(self.head("GET", path, Connection="close"))
                found = _receive_all(client)
        return found

    def assert_unchanged(self, files: set[Path]) -> None:
        """Assert that a slot is free, the memories are unchanged, and no file is left."""
        assert json.loads(self.ask("/v1/banks/b").partition(b"\r\n\r\n")[2])["memories"] == 1
        _wait_until(lambda: _temporary() <= files)


@pytest.fixture
def gateway_socket(
    own_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[GatewaySocket]:
    """The gateway, with temporary files in a separate folder."""
    del own_home
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    with running_gateway(bounds=SLOW) as served:
        served.client().post("/v1/banks", json={"name": "b"})
        served.client().post("/v1/banks/b/entries", json={"text": "tea " * 100})
        with _running_server(served) as port:
            yield GatewaySocket(served, port)


@contextmanager
def _running_server(served: ServedGateway) -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(
            served.app, http=impatient(SLOW), lifespan="off", log_level="critical", ws="none"
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            _wait_until(lambda: server.started)
            yield int(listener.getsockname()[1])
        finally:
            server.should_exit = server.force_exit = True
            thread.join(TIMEOUT)


def _receive_all(client: socket.socket) -> bytes:
    """Return everything until the other side closes the connection."""
    found = b""
    try:
        while part := client.recv(1 << 16):
            found += part
    except ConnectionResetError:
        pass
    return found


def _wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < end, "the condition did not become true"
        time.sleep(0.01)


def _vanish(client: socket.socket) -> None:
    """Reset the connection, as after a loss of the network."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


def _open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def _temporary() -> set[Path]:
    return set(Path(tempfile.gettempdir()).iterdir())


def test_attack_headers_are_sent_letter_by_letter(gateway_socket: GatewaySocket) -> None:
    """Slowloris, on new and on reused connections: they are closed, and others are served."""
    for first in (b"", gateway_socket.head("GET", "/healthz")):
        with gateway_socket.connect() as client:
            client.sendall(first + b"GET /v1/banks HTT")
            said = b""
            while first and b'"ok"}' not in said:
                said += client.recv(1 << 16)
            client.sendall(b"P")
            assert gateway_socket.ask("/v1/about").startswith(b"HTTP/1.1 200")
            assert _receive_all(client) == b""
    gateway_socket.assert_unchanged(_temporary())


def test_attack_connections_send_nothing(gateway_socket: GatewaySocket) -> None:
    """Each is an open file of the server; they are closed."""
    files = _open_files()
    clients = [gateway_socket.connect() for _ in range(50)]
    for client in clients:
        assert _receive_all(client) == b""
        client.close()
    _wait_until(lambda: _open_files() <= files)


def test_attack_headers_are_endless(gateway_socket: GatewaySocket) -> None:
    """They are refused at any speed."""
    with gateway_socket.connect() as client:
        try:
            for _ in range(200):
                client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nX: " if _ == 0 else b"y" * 4096)
        except (BrokenPipeError, ConnectionResetError):
            pass
        assert not _receive_all(client).startswith(b"HTTP/1.1 200")
    gateway_socket.assert_unchanged(_temporary())


def test_attack_a_body_stalls(gateway_socket: GatewaySocket) -> None:
    """It is answered with 408, and its slot is freed."""
    before = _temporary()
    with gateway_socket.connect() as client:
        head = gateway_socket.head("POST", "/v1/banks/b/upload", Content_Length=1000)
        client.sendall(head + b"the first part")
        assert _receive_all(client).startswith(b"HTTP/1.1 408")
    gateway_socket.assert_unchanged(before)


def test_attack_a_body_arrives_byte_by_byte(
    gateway_socket: GatewaySocket,
) -> None:
    """JSON and uploads are answered with 408."""
    before = _temporary()
    for path in ("/v1/banks/b/upload", "/v1/banks/b/entries"):
        with gateway_socket.connect() as client:
            client.sendall(gateway_socket.head("POST", path, Content_Length=1_000_000))
            with suppress(BrokenPipeError, ConnectionResetError):
                for _ in range(TIMEOUT * 20):
                    client.sendall(b"{")
                    time.sleep(0.05)
                pytest.fail("the body is read without end")
            assert _receive_all(client).startswith(b"HTTP/1.1 408")
    gateway_socket.assert_unchanged(before)


def test_attack_an_upload_is_aborted(
    gateway_socket: GatewaySocket, capsys: pytest.CaptureFixture[str]
) -> None:
    """No memory, file, slot or job remains, and no error is logged."""
    before = _temporary()
    for path in ("/v1/banks/b/upload", "/v1/verify/upload", "/v1/banks/b/entries"):
        client = gateway_socket.connect()
        head = gateway_socket.head("POST", path, Content_Length=1_000_000)
        client.sendall(head + b"x" * 100_000)
        _vanish(client)
    gateway_socket.assert_unchanged(before)
    assert b'"jobs":[]' in gateway_socket.ask("/v1/jobs")
    assert "error" not in capsys.readouterr().err


def test_attack_a_download_is_not_read(gateway_socket: GatewaySocket) -> None:
    """A client that reads nothing keeps neither slot nor file."""
    gateway_socket.served.client().post("/v1/banks", json={"name": "big"})
    for number in range(40):
        said = {"text": f"{number} " + os.urandom(50_000).hex()}
        assert gateway_socket.served.client().post("/v1/banks/big/entries", json=said).is_success
    before = _temporary()
    client = gateway_socket.connect(buffer=4096)
    client.sendall(gateway_socket.head("GET", "/v1/banks/big/download"))
    assert client.recv(16).startswith(b"HTTP/1.1 200")
    gateway_socket.assert_unchanged(before)  # waits for the only slot
    client.close()


def test_attack_followers_of_a_job_vanish(gateway_socket: GatewaySocket) -> None:
    """Their slots are freed, and the job continues."""
    stop = threading.Event()

    def work(tell: Callable[[int, int, str | None], None]) -> object:
        number = 0
        while not stop.wait(0.02):
            number += 1
            tell(number, 0, None)
        return None

    job = gateway_socket.served.gateway.jobs.begin("test", work)
    try:
        client = gateway_socket.connect()
        client.sendall(gateway_socket.head("GET", f"/v1/jobs/{job.id}/events"))
        found = b""
        while b"event: step" not in found:
            found += client.recv(1 << 16)
        _vanish(client)
        gateway_socket.assert_unchanged(_temporary())
        assert gateway_socket.served.gateway.jobs.find(job.id).state == "running"
    finally:
        stop.set()
