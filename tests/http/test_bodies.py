"""Bodies over real sockets to a real server: nobody's are read, and everybody's are bounded."""

import base64
import re
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from time import sleep
from typing import Any

import httpx2 as httpx
import pytest
from server_kit import Server, server
from token_kit import HOLDER, OUTSIDER, chain_of, child_of, later

from satchel.crypto.canonical import canonical
from satchel.http.guard import ClientConnections
from satchel.model.values import now

ADMIN = "0123456789abcdef0123456789abcdef"
SHOWN = {"Authorization": f"Bearer {ADMIN}"}
PRESENTED = "X-PAM-Capability-Token: AAAA"
PATIENCE = 60
FLAT = 24 << 20
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
def exposed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """A server with an operator's token, as one that others can reach has."""
    home = tmp_path_factory.mktemp("home")
    places = ("SATCHEL_HOME", "SATCHEL_WITNESS", "XDG_STATE_HOME", "XDG_CONFIG_HOME")
    more = {name: str(home / name) for name in places}
    more |= {"SATCHEL_CONFIG": "", "SATCHEL_ADMIN_TOKEN": ADMIN}
    with server("--workers", request.param, **more) as found:
        with found.client() as client:
            assert client.post("/v1/banks", json={"name": "assistant"}, headers=SHOWN).is_success
        yield found


def _connect(found: Server) -> socket.socket:
    made = socket.create_connection(("127.0.0.1", found.port), PATIENCE)
    made.settimeout(PATIENCE)
    return made


def _head(found: Server, method: str, path: str, *headers: str) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{found.port}", *headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


CHUNKED = ("Transfer-Encoding: chunked", "Content-Type: application/json")


def _rest(client: socket.socket) -> bytes:
    """Return all that is said until the other side hangs up."""
    said = b""
    with suppress(ConnectionResetError):
        while part := client.recv(1 << 16):
            said += part
    return said


def _peak(found: Server) -> int:
    """Return the most memory that any process of a server has had, in bytes."""
    each = []
    for pid in (found.process.pid, *found.workers()):
        status = Path(f"/proc/{pid}/status").read_text()
        each.append(int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) * 1024)  # type: ignore[index]
    return max(each)


@pytest.mark.parametrize(
    "headers", [(), (PRESENTED,), ("Authorization: Bearer wrong-wrong-wrong",)]
)
def test_attack_a_body_of_nobody_is_refused_before_any_of_it_arrives(
    exposed: Server, headers: tuple[str, ...]
) -> None:
    """On every route and method: only headers are sent, the answer is whole, and it hangs up."""
    for path in PATHS:
        for method in METHODS:
            for announced in (("Content-Length: 999999999",), CHUNKED):
                with _connect(exposed) as client:
                    client.sendall(_head(exposed, method, path, *headers, *announced))
                    said = _rest(client)
                assert re.match(rb"HTTP/1.1 4\d\d ", said), (method, path, said)
                assert b"100 Continue" not in said
                assert b"\r\nconnection: close\r\n" in said.lower(), (method, path, said)


@pytest.mark.parametrize(
    ("method", "path", "header"),
    [
        ("GET", "/v1/banks", PRESENTED),
        ("POST", "/v1/banks/assistant/upload", PRESENTED),
        ("PUT", "/v1/files/assistant/text/x/upload", "X-Nothing: 1"),
        ("POST", "/mcp", "X-Nothing: 1"),
        ("GET", "/v1/about", "X-Nothing: 1"),
        ("GET", "/", "X-Nothing: 1"),
    ],
)
def test_attack_400_megabytes_of_nobody_cost_no_memory(
    exposed: Server, method: str, path: str, header: str
) -> None:
    """Chunked, as fast as they are taken: the server hangs up long before, and stays small."""
    before = _peak(exposed)
    part = b"100000\r\n" + b"A" * 0x100000 + b"\r\n"
    sent = 0
    with _connect(exposed) as client:
        client.sendall(_head(exposed, method, path, header, *CHUNKED))
        with suppress(BrokenPipeError, ConnectionResetError):
            for _ in range(400):
                client.sendall(part)
                sent += 1
        said = _rest(client)
    assert sent < 32  # what the kernels on both sides hold
    assert re.match(rb"HTTP/1.1 4\d\d ", said), said
    assert _peak(exposed) - before < FLAT


def test_attack_no_message_names_an_unsafe_flag(exposed: Server) -> None:
    """Expect: 100-continue is answered with the refusal, which names no flag that disables it.

    Other tests use up the requests that an address without a token has, so 429 is asked again.
    """
    refusal = b""
    for _ in range(TRIES):
        with _connect(exposed) as client:
            more = ("Content-Length: 5", "Expect: 100-continue")
            client.sendall(_head(exposed, "POST", "/v1/banks", *more))
            refusal = _rest(client)
        if not refusal.startswith(b"HTTP/1.1 429 "):
            break
        assert b"\r\nretry-after: 1\r\n" in refusal.lower()
        sleep(1)
    assert refusal.startswith(b"HTTP/1.1 403 ")
    assert b"--" not in refusal


STALLS = {
    "say nothing": lambda _: b"",
    "send headers slowly": lambda found: _head(found, "GET", "/v1/banks")[:-4],
    "send part of a chunked body": lambda found: (
        _head(found, "GET", "/v1/banks", PRESENTED, *CHUNKED) + b"1\r\nA\r\n"
    ),
    "send part of an upload": lambda found: (
        _head(found, "POST", "/v1/banks/assistant/upload", "Content-Length: 9999") + b"x"
    ),
    "take no answer": lambda found: 20 * _head(found, "GET", "/page/page.css"),
    "ask for what is anybody's": lambda found: _head(found, "GET", "/readyz") * 5,
}


@pytest.mark.parametrize("stall", STALLS.values(), ids=STALLS)
def test_attack_500_stalled_connections_do_not_keep_the_operator_waiting(
    exposed: Server, stall: object
) -> None:
    """While they are held, the operator reads, writes and looks at the page within a second."""
    with ExitStack() as held:
        clients = []
        for _ in range(STALLED):
            client = socket.socket()
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.settimeout(PATIENCE)
            client.connect(("127.0.0.1", exposed.port))
            held.enter_context(client)
            with suppress(BrokenPipeError, ConnectionResetError):
                client.settimeout(0)  # what is not taken is not pressed on it
                client.send(stall(exposed))  # type: ignore[operator]
            clients.append(client)
        _within_a_second(exposed, "GET", "/v1/banks")
        _within_a_second(exposed, "POST", "/v1/banks/assistant/recall", {"text": "tea"})
        _within_a_second(exposed, "GET", "/page/page.js")


def _within_a_second(
    found: Server, method: str, path: str, body: object = None, who: dict[str, str] = SHOWN
) -> None:
    """Require an answer within a second; on a machine that is busy otherwise, of some tries."""
    with httpx.Client(base_url=found.address, timeout=1.0, headers=who) as client:
        for _ in range(TRIES):
            with suppress(httpx.TimeoutException):
                answer = client.request(method, path, json=body) if body else client.get(path)
                assert answer.status_code == 200, answer.text
                return
    pytest.fail(f"{method} {path} is not answered within a second")


def test_attack_connections_of_nobody_beyond_what_is_allowed_are_hung_up_on() -> None:
    """The oldest goes first; those of the operator and of holders are not counted."""
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


def test_a_client_with_a_late_body_is_not_reset(exposed: Server) -> None:
    """A connection that is closed while a body arrives is reset, and the answer may be lost."""
    head = _head(exposed, "POST", "/v1/banks", PRESENTED, "Content-Length: 20")
    for moment in range(100):
        with _connect(exposed) as client:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            client.sendall(head)
            sleep(moment / 20_000)
            client.sendall(b"x" * 20)
            answer = client.recv(1 << 16)
            while part := client.recv(1 << 16):  # a reset would be an error
                answer += part
        assert re.match(rb"HTTP/1.1 4\d\d ", answer), answer


def test_attack_pipelined_bodies_of_nobody_are_not_read(exposed: Server) -> None:
    """After the first refusal the connection is closed: what follows is never looked at."""
    with _connect(exposed) as client:
        one = _head(exposed, "POST", "/v1/banks", "Content-Length: 5") + b'{"a":'
        client.sendall(one * 50)
        assert _rest(client).count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize("path", ["/v1/banks", "/healthz", "/"])
def test_attack_headers_beyond_measure_are_refused(exposed: Server, path: str) -> None:
    """One that is huge, or very many; nothing of them is kept."""
    before = _peak(exposed)
    for headers in ((f"X: {'y' * 300_000}",), [f"X-{n}: y" for n in range(30_000)]):
        with _connect(exposed) as client:
            with suppress(BrokenPipeError, ConnectionResetError):
                client.sendall(_head(exposed, "GET", path, *headers))
            assert not _rest(client).startswith(b"HTTP/1.1 200")
    with _connect(exposed) as client:
        client.sendall(_head(exposed, "GET", path, *(f"X-{n}: y" for n in range(500))))
        assert _rest(client).startswith(b"HTTP/1.1 431 ")
    assert _peak(exposed) - before < FLAT


def _stalled(found: Server, *said: bytes) -> ExitStack:
    """Return connections that said something, and then say nothing more."""
    held = ExitStack()
    for one in said:
        client = held.enter_context(_connect(found))
        with suppress(BrokenPipeError, ConnectionResetError):
            client.sendall(one)
    return held


def test_attack_a_holder_that_stalls_keeps_nobody_waiting(exposed: Server) -> None:
    """A token that anybody may use, in hundreds of requests whose bodies do not arrive."""
    said = {
        "everything": True,
        "permissions": ["read", "write"],
        "expires": "1h",
        "bearer": True,
    }
    with exposed.client() as client:
        made = [
            client.post("/v1/banks/assistant/tokens", json=said, headers=SHOWN).json()["token"]
            for _ in range(2)
        ]
    greedy, other = (base64.b64encode(canonical(one)).decode() for one in made)
    head = f"X-PAM-Capability-Token: {greedy}"
    post = _head(exposed, "POST", "/v1/banks/assistant/entries", head, *CHUNKED) + b"1\r\n{\r\n"
    with _stalled(exposed, *[post] * 300):
        _within_a_second(exposed, "GET", "/v1/banks")
        _within_a_second(exposed, "POST", "/v1/banks/assistant/recall", {"text": "tea"})
        theirs = {"X-PAM-Capability-Token": other}
        _within_a_second(exposed, "POST", "/v1/banks/assistant/recall", {"text": "tea"}, theirs)


def test_attack_masses_of_tokens_that_cost_to_judge_keep_no_operator_waiting(
    exposed: Server,
) -> None:
    """Chains as long as they may be, well signed, for a bank that is here, by no owner of it."""
    with exposed.client() as client:
        bank = client.get("/v1/banks", headers=SHOWN).json()["banks"][0]["id"]
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
    with _stalled(exposed, *[_head(exposed, "GET", "/v1/banks/assistant", head) * 3] * 300):
        _within_a_second(exposed, "GET", "/v1/banks")
        _within_a_second(exposed, "POST", "/v1/banks/assistant/recall", {"text": "tea"})


def test_attack_the_operators_own_bodies_that_stall_do_not_lock_them_out(exposed: Server) -> None:
    """Whoever waits for a body has no place among those that are worked on."""
    head = f"Authorization: Bearer {ADMIN}"
    post = _head(exposed, "POST", "/v1/banks/assistant/entries", head, *CHUNKED) + b"1\r\n{\r\n"
    with _stalled(exposed, *[post] * 300):
        _within_a_second(exposed, "GET", "/v1/banks")
        _within_a_second(exposed, "POST", "/v1/banks/assistant/recall", {"text": "tea"})
