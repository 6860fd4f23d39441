"""Clients that are slow or vanish, over real sockets: nothing of theirs is left behind."""

import json
import os
import socket
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from http_kit import Served, serving

from satchel.http.guard import ServerLimits, impatient

SLOW = ServerLimits(
    head_seconds=0.4, take_seconds=0.4, body_seconds=0.4, at_once=1, per_second=0, patience=60.0
)
PATIENCE = 60


@dataclass(frozen=True)
class Listening:
    """A gateway behind a port, with room for one request at a time."""

    served: Served
    port: int

    def connect(self, *, buffer: int | None = None) -> socket.socket:
        """Return a connection of somebody's."""
        made = socket.socket()
        if buffer is not None:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        made.settimeout(PATIENCE)
        made.connect(("127.0.0.1", self.port))
        return made

    def head(self, method: str, path: str, **headers: Any) -> bytes:
        """Return the headers of a request."""
        lines = [f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{self.port}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        return ("\r\n".join(lines) + "\r\n\r\n").encode()

    def ask(self, path: str) -> bytes:
        """Return the whole answer to a request that is made as it should be."""
        found = b""
        while not found:  # on a busy machine, being too slow can happen to anybody
            with self.connect() as client, suppress(BrokenPipeError, ConnectionResetError):
                client.sendall(self.head("GET", path, Connection="close"))
                found = _all(client)
        return found

    def require_as_before(self, files: set[Path]) -> None:
        """Require that there is room again, the memory is what it was, and no file is left."""
        assert json.loads(self.ask("/v1/banks/b").partition(b"\r\n\r\n")[2])["memories"] == 1
        _until(lambda: _temporary() <= files)


@pytest.fixture
def listening(
    own_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Listening]:
    """The gateway, whose temporary files are in a folder of their own."""
    del own_home
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    with serving(bounds=SLOW) as served:
        served.client().post("/v1/banks", json={"name": "b"})
        served.client().post("/v1/banks/b/entries", json={"text": "tea " * 100})
        with _running(served) as port:
            yield Listening(served, port)


@contextmanager
def _running(served: Served) -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as door:
        config = uvicorn.Config(
            served.app, http=impatient(SLOW), lifespan="off", log_level="critical", ws="none"
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [door]})
        thread.start()
        try:
            _until(lambda: server.started)
            yield int(door.getsockname()[1])
        finally:
            server.should_exit = server.force_exit = True
            thread.join(PATIENCE)


def _all(client: socket.socket) -> bytes:
    """Return all that is said until the other side hangs up."""
    found = b""
    try:
        while part := client.recv(1 << 16):
            found += part
    except ConnectionResetError:
        pass
    return found


def _until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, "it does not come to that"
        time.sleep(0.01)


def _vanish(client: socket.socket) -> None:
    """Hang up without a word, as a machine that lost its network is seen to."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


def _open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def _temporary() -> set[Path]:
    return set(Path(tempfile.gettempdir()).iterdir())


def test_attack_headers_letter_by_letter_are_hung_up_on(listening: Listening) -> None:
    """Slowloris: on a new connection, and on one that was served before; nobody waits meanwhile."""
    for first in (b"", listening.head("GET", "/healthz")):
        with listening.connect() as client:
            client.sendall(first + b"GET /v1/banks HTT")
            said = b""
            while first and b'"ok"}' not in said:
                said += client.recv(1 << 16)
            client.sendall(b"P")
            assert listening.ask("/v1/about").startswith(b"HTTP/1.1 200")
            assert _all(client) == b""
    listening.require_as_before(_temporary())


def test_attack_connections_that_say_nothing_are_hung_up_on(listening: Listening) -> None:
    """Each is a file of the server's."""
    files = _open_files()
    clients = [listening.connect() for _ in range(50)]
    for client in clients:
        assert _all(client) == b""
        client.close()
    _until(lambda: _open_files() <= files)


def test_attack_headers_without_end_are_refused(listening: Listening) -> None:
    """However fast they come."""
    with listening.connect() as client:
        try:
            for _ in range(200):
                client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nX: " if _ == 0 else b"y" * 4096)
        except (BrokenPipeError, ConnectionResetError):
            pass
        assert not _all(client).startswith(b"HTTP/1.1 200")
    listening.require_as_before(_temporary())


def test_attack_a_body_that_stalls_is_answered_and_forgotten(listening: Listening) -> None:
    """408, and the place is somebody else's."""
    before = _temporary()
    with listening.connect() as client:
        head = listening.head("POST", "/v1/banks/b/upload", Content_Length=1000)
        client.sendall(head + b"the first part")
        assert _all(client).startswith(b"HTTP/1.1 408")
    listening.require_as_before(before)


def test_attack_a_body_that_arrives_drop_by_drop_is_answered_and_forgotten(
    listening: Listening,
) -> None:
    """However often a drop comes: JSON and files alike."""
    before = _temporary()
    for path in ("/v1/banks/b/upload", "/v1/banks/b/entries"):
        with listening.connect() as client:
            client.sendall(listening.head("POST", path, Content_Length=1_000_000))
            with suppress(BrokenPipeError, ConnectionResetError):
                for _ in range(PATIENCE * 20):
                    client.sendall(b"{")
                    time.sleep(0.05)
                pytest.fail("it is taken for ever")
            assert _all(client).startswith(b"HTTP/1.1 408")
    listening.require_as_before(before)


def test_attack_an_upload_that_breaks_off_leaves_nothing_behind(
    listening: Listening, capsys: pytest.CaptureFixture[str]
) -> None:
    """No memory, no file, no place, no job; and it is no defect of ours that is logged."""
    before = _temporary()
    for path in ("/v1/banks/b/upload", "/v1/verify/upload", "/v1/banks/b/entries"):
        client = listening.connect()
        head = listening.head("POST", path, Content_Length=1_000_000)
        client.sendall(head + b"x" * 100_000)
        _vanish(client)
    listening.require_as_before(before)
    assert b'"jobs":[]' in listening.ask("/v1/jobs")
    assert "error" not in capsys.readouterr().err


def test_attack_a_download_taken_drop_by_drop_is_hung_up_on(listening: Listening) -> None:
    """Who reads nothing of a large export keeps no place and no file."""
    listening.served.client().post("/v1/banks", json={"name": "big"})
    for number in range(40):
        said = {"text": f"{number} " + os.urandom(50_000).hex()}
        assert listening.served.client().post("/v1/banks/big/entries", json=said).is_success
    before = _temporary()
    client = listening.connect(buffer=4096)
    client.sendall(listening.head("GET", "/v1/banks/big/download"))
    assert client.recv(16).startswith(b"HTTP/1.1 200")
    listening.require_as_before(before)  # which waits for the one place there is
    client.close()


def test_attack_followers_of_a_job_that_vanish_keep_no_place(listening: Listening) -> None:
    """Server-sent events of work that lasts: the client goes away in the middle."""
    go_on = threading.Event()

    def work(tell: Callable[[int, int, str | None], None]) -> object:
        number = 0
        while not go_on.wait(0.02):
            number += 1
            tell(number, 0, None)
        return None

    job = listening.served.gateway.jobs.begin("test", work)
    try:
        client = listening.connect()
        client.sendall(listening.head("GET", f"/v1/jobs/{job.id}/events"))
        found = b""
        while b"event: step" not in found:
            found += client.recv(1 << 16)
        _vanish(client)
        listening.require_as_before(_temporary())
        assert listening.served.gateway.jobs.find(job.id).state == "running"
    finally:
        go_on.set()
