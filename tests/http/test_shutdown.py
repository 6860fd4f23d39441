"""Shutdown of a server: running work is finished; and the request log."""

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
from http_kit import ServedGateway, running_gateway
from server_kit import server

from satchel.http.app import application, begin_shutdown
from satchel.http.metrics import RequestMetrics
from satchel.http.server import _Server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BANK, TIMEOUT = "/v1/banks/b", 60
SECRET = "the confidential word"  # noqa: S105 - a test value


@contextmanager
def _running_server(served: ServedGateway) -> Iterator[tuple[_Server, int]]:
    """Yield a server in a thread, as ``satchel serve`` runs it, and its port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(
            served.app, log_level="critical", ws="none", timeout_graceful_shutdown=TIMEOUT
        )
        found = _Server(config)
        thread = threading.Thread(target=found.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            _wait_until(lambda: found.started)
            yield found, int(listener.getsockname()[1])
        finally:
            found.should_exit = True
            thread.join(TIMEOUT)


def _wait_until(condition: Any) -> None:
    end = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < end, "the condition did not become true"
        time.sleep(0.01)


def test_shutdown_ends_event_streams_and_finishes_jobs_and_writes(own_home: Path) -> None:
    """A partly received body is read to its end."""
    del own_home
    proceed, done = threading.Event(), list[str]()

    def work(tell: Any) -> object:
        tell(1, 2, None)
        proceed.wait(TIMEOUT)
        tell(2, 2, None)  # it was not canceled
        done.append("all of it")
        return None

    with running_gateway() as served, _running_server(served) as (running, port):
        served.client().post("/v1/banks", json={"name": "b"})
        job = served.gateway.jobs.begin("test", work)
        body = json.dumps({"text": "written while it ended"}).encode()
        head = f"POST {BANK}/entries HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        with (
            socket.create_connection(("127.0.0.1", port), TIMEOUT) as writer,
            httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=TIMEOUT) as client,
            client.stream("GET", f"/v1/jobs/{job.id}/events") as events,
        ):
            writer.sendall(head.encode() + body[:10])
            parts = events.iter_bytes()
            assert b"event: step" in next(parts)
            running.handle_exit(signal.SIGTERM, None)
            assert b"event: end" not in b"".join(parts)  # and the stream ends
            assert not done
            writer.sendall(body[10:])
            assert writer.recv(1 << 16).startswith(b"HTTP/1.1 201")
        proceed.set()
    assert done == ["all of it"]
    with running_gateway() as again:
        assert again.client().get(f"/v1/jobs/{job.id}").json()["state"] == "done"
        (memory,) = again.client().get(f"{BANK}/entries").json()["memories"]
        assert memory["text"] == "written while it ended"


def test_a_server_in_shutdown_is_alive_and_not_ready(
    served: ServedGateway, client: TestClient
) -> None:
    """A load balancer stops sending requests, and no supervisor restarts it."""
    assert client.get("/readyz").json() == {"status": "ready"}
    begin_shutdown(served.app)
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json()["code"]) == (503, "ending")
    assert answer.headers["Retry-After"] == "1"
    assert client.get("/healthz").status_code == 200


def test_the_request_log_has_five_fields_and_no_content(served: ServedGateway) -> None:
    """Neither names in paths, queries, bodies, headers, nor invalid tokens."""
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
def test_a_running_upload_job_is_finished_before_the_server_exits(own_home: Path) -> None:
    """SIGTERM right after the start of the job."""
    del own_home
    memories = [{"id": str(number), "memory": f"fact {number}"} for number in range(3000)]
    with server() as found:
        with found.client() as client:
            client.post("/v1/banks", json={"name": "b"})
            sent = {"name": "m.mem0.json", "wait": "false"}
            job = client.post(f"{BANK}/upload", params=sent, json={"results": memories}).json()
            _wait_until(lambda: client.get(f"/v1/jobs/{job['id']}").json()["state"] != "waiting")
        assert found.end() == 0
    with running_gateway() as again:
        assert again.client().get(f"/v1/jobs/{job['id']}").json()["state"] == "done"
        assert again.client().get(BANK).json()["memories"] == len(memories)
