"""A server that is told to end: what is under way is finished; and what it logs until then."""

from __future__ import annotations

import io
import json
import signal
import socket
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx2 as httpx
import pytest
import uvicorn
from fastapi.testclient import TestClient
from http_kit import Served, serving
from server_kit import server

from satchel.http.app import application, begin_shutdown
from satchel.http.metrics import RequestMetrics
from satchel.http.server import _Server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BANK, PATIENCE = "/v1/banks/b", 60
SECRET = "the word that nobody may see"  # noqa: S105 - it only looks like one


@contextmanager
def _running(served: Served) -> Iterator[tuple[_Server, int]]:
    """Give a server in a thread, as ``satchel serve`` has it, and its port."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        config = uvicorn.Config(
            served.app, log_level="critical", ws="none", timeout_graceful_shutdown=PATIENCE
        )
        found = _Server(config)
        thread = threading.Thread(target=found.run, kwargs={"sockets": [door]})
        thread.start()
        try:
            _until(lambda: found.started)
            yield found, int(door.getsockname()[1])
        finally:
            found.should_exit = True
            thread.join(PATIENCE)


def _until(holds: Any) -> None:
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, "it does not come to that"
        time.sleep(0.01)


def test_followers_go_and_work_and_writes_are_finished(own_home: Path) -> None:
    """The stream ends while the work lasts; a body that is half here is taken to its end."""
    del own_home
    go_on, done = threading.Event(), list[str]()

    def work(tell: Any) -> object:
        tell(1, 2, None)
        go_on.wait(PATIENCE)
        tell(2, 2, None)  # nobody called it off
        done.append("all of it")
        return None

    with serving() as served, _running(served) as (running, port):
        served.client().post("/v1/banks", json={"name": "b"})
        job = served.gateway.jobs.begin("test", work)
        body = json.dumps({"text": "written while it ended"}).encode()
        head = f"POST {BANK}/entries HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        with (
            socket.create_connection(("127.0.0.1", port), PATIENCE) as writer,
            httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE) as client,
            client.stream("GET", f"/v1/jobs/{job.id}/events") as events,
        ):
            writer.sendall(head.encode() + body[:10])
            parts = events.iter_bytes()
            assert b"event: step" in next(parts)
            running.handle_exit(signal.SIGTERM, None)
            assert b"event: end" not in b"".join(parts)  # and this comes to an end
            assert not done
            writer.sendall(body[10:])
            assert writer.recv(1 << 16).startswith(b"HTTP/1.1 201")
        go_on.set()
    assert done == ["all of it"]
    with serving() as again:
        assert again.client().get(f"/v1/jobs/{job.id}").json()["state"] == "done"
        (memory,) = again.client().get(f"{BANK}/entries").json()["memories"]
        assert memory["text"] == "written while it ended"


def test_a_server_that_ends_is_not_ready_and_still_alive(
    served: Served, client: TestClient
) -> None:
    """A balancer sends nobody there any more, and nobody starts it anew."""
    assert client.get("/readyz").json() == {"status": "ready"}
    begin_shutdown(served.app)
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json()["code"]) == (503, "ending")
    assert answer.headers["Retry-After"] == "1"
    assert client.get("/healthz").status_code == 200


def test_the_request_log_has_five_fields_and_no_content(served: Served) -> None:
    """Not the names in its path, its query, its body, its headers, nor a wrong token."""
    log = io.StringIO()
    app = application(served.gateway, counting=RequestMetrics(log))
    client = TestClient(app, base_url="http://localhost", client=("127.0.0.1", 50_000))
    client.post("/v1/banks", json={"name": SECRET})
    client.post(f"/v1/banks/{SECRET}/entries", json={"text": SECRET, "tags": [SECRET]})
    client.post(f"/v1/banks/{SECRET}/recall", json={"text": SECRET})
    client.put(f"/v1/files/b/text/{SECRET}.md", json={"text": SECRET})
    client.get("/v1/banks", params={"q": SECRET}, headers={"X-Pam-Capability-Token": SECRET})
    client.get("/v1/banks", headers={"Authorization": f"Bearer {SECRET}"})
    client.post(f"/v1/banks/{SECRET}/tokens", content=b"{" + SECRET.encode())
    client.get(f"/{SECRET}")
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    assert len(lines) == 8
    assert SECRET not in log.getvalue()
    assert SECRET.replace(" ", "%20") not in log.getvalue()
    for line in lines:
        assert list(line) == ["at", "method", "route", "status", "ms"]
        assert line["ms"] >= 0
    assert [(one["method"], one["route"], one["status"]) for one in lines[:3]] == [
        ("POST", "/v1/banks", 201),
        ("POST", "/v1/banks/{bank}/entries", 201),
        ("POST", "/v1/banks/{bank}/recall", 200),
    ]
    assert lines[-1]["route"] == "other"


@pytest.mark.prove
def test_an_upload_that_is_under_way_is_brought_in_before_the_server_ends(own_home: Path) -> None:
    """A program of its own, SIGTERM right after the job is begun."""
    del own_home
    memories = [{"id": str(number), "memory": f"fact {number}"} for number in range(3000)]
    with server() as found:
        with found.client() as client:
            client.post("/v1/banks", json={"name": "b"})
            sent = {"name": "m.mem0.json", "wait": "false"}
            job = client.post(f"{BANK}/upload", params=sent, json={"results": memories}).json()
            _until(lambda: client.get(f"/v1/jobs/{job['id']}").json()["state"] != "waiting")
        assert found.end() == 0
    with serving() as again:
        assert again.client().get(f"/v1/jobs/{job['id']}").json()["state"] == "done"
        assert again.client().get(BANK).json()["memories"] == len(memories)
