"""Several workers act as one server: tokens, jobs, rate limits and banks are shared."""

import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from http_kit import ServedGateway, TokenAuth, running_gateway
from server_kit import Server, server

from satchel.bank.job_registry import (
    FileJobRegistry,
    JobRegistry,
    StoreJobRegistry,
    require_servable,
)
from satchel.config.settings import load_settings
from satchel.crypto.canonical import canonical
from satchel.crypto.keys import SigningKey
from satchel.errors import TokenError, TokenRevokedError, UsageError
from satchel.http.jobs import JobQueue
from satchel.http.rate_limits import RateLimiter
from satchel.stores.memory import InMemoryStore

BANK = "/v1/banks/assistant"


@pytest.fixture
def two_workers(own_home: Path) -> Iterator[tuple[ServedGateway, ServedGateway]]:
    """Two servers of one store in one process, like two workers."""
    del own_home
    with running_gateway() as one, running_gateway() as other:
        one.client().post("/v1/banks", json={"name": "assistant"})
        one.client().post(f"{BANK}/entries", json={"text": "Ada drinks tea", "tags": ["drinks"]})
        yield one, other


def issue_token(served: ServedGateway, **said: object) -> dict[str, Any]:
    """Issue a token."""
    found: dict[str, Any] = served.client().post(f"{BANK}/tokens", json=said).json()["token"]
    return found


def test_a_token_revoked_by_one_worker_is_refused_by_another(
    two_workers: tuple[ServedGateway, ServedGateway],
) -> None:
    """Even if the other worker has cached it."""
    one, other = two_workers
    key = SigningKey.generate()
    token = issue_token(one, audience=key.did, everything=True)
    holder = other.holder(canonical(token).decode(), key)
    assert holder.get(f"{BANK}/entries").status_code == 200
    (line,) = one.client().get(f"{BANK}/tokens").json()["tokens"]
    assert one.client().post(f"{BANK}/tokens/{line['id']}/revoke", json={}).is_success
    refused = holder.get(f"{BANK}/entries")
    assert (refused.status_code, refused.json()["code"]) == (
        TokenRevokedError.http_status,
        TokenRevokedError.code,
    )


def test_attack_a_request_is_replayed_to_another_worker(
    two_workers: tuple[ServedGateway, ServedGateway],
) -> None:
    """A proof is accepted once by all workers together."""
    one, other = two_workers
    key = SigningKey.generate()
    token = canonical(issue_token(one, audience=key.did, everything=True)).decode()
    client = one.client("203.0.113.7")
    request = client.build_request("GET", f"{BANK}/entries")
    headers = dict(TokenAuth(token, key, one.gateway.verifier)(request).headers)
    assert client.get(f"{BANK}/entries", headers=headers).status_code == 200
    again = other.client("203.0.113.7").get(f"{BANK}/entries", headers=headers)
    assert (again.status_code, again.json()["code"]) == (TokenError.http_status, TokenError.code)


def test_a_bank_renamed_by_another_process_is_not_confused_with_a_new_one(
    two_workers: tuple[ServedGateway, ServedGateway],
) -> None:
    """A worker that has it open resolves the name again."""
    from satchel.bank.banks import rename_bank
    from satchel.bank.machine_keys import signing_key

    one, other = two_workers
    assert other.client().get(BANK).json()["memories"] == 1
    settings = load_settings()
    rename_bank(settings, "assistant", "archive", signing_key(settings)[0])
    assert other.client().get(BANK).status_code == 404
    one.client().post("/v1/banks", json={"name": "assistant"})
    made = other.client().post(f"{BANK}/entries", json={"text": "for the new one"})
    assert made.status_code == 201
    assert one.client().get("/v1/banks/archive").json()["memories"] == 1
    assert one.client().get(BANK).json()["memories"] == 1


def test_a_job_is_shown_followed_and_canceled_by_any_worker(
    two_workers: tuple[ServedGateway, ServedGateway],
) -> None:
    """Regardless of the worker that runs it."""
    one, other = two_workers
    begun, proceed = threading.Event(), threading.Event()

    def work(tell: Any) -> object:
        tell(1, 2, None)
        begun.set()
        while not proceed.wait(0.05):
            tell(1, 2, None)
        return {"answer": 42}

    canceled = one.gateway.jobs.begin("test", work)
    assert begun.wait(30)
    there = other.client().get(f"/v1/jobs/{canceled.id}").json()
    assert there["state"] in ("waiting", "running")
    assert canceled.id in {job["id"] for job in other.client().get("/v1/jobs").json()["jobs"]}
    assert other.client().delete(f"/v1/jobs/{canceled.id}").status_code == 202
    events = other.client().get(f"/v1/jobs/{canceled.id}/events").text.strip().split("\n\n")
    assert events[-1].startswith("event: end\n")
    assert json.loads(events[-1].partition("data: ")[2])["state"] == "cancelled"
    proceed.set()
    done = one.gateway.jobs.begin("test", work)
    events = other.client().get(f"/v1/jobs/{done.id}/events").text.strip().split("\n\n")
    assert json.loads(events[-1].partition("data: ")[2])["result"] == {"answer": 42}


def test_a_job_of_a_killed_server_fails(tmp_path: Path) -> None:
    """After a timeout without a heartbeat."""
    registry = FileJobRegistry(tmp_path / "board.db")
    gone = {"id": "a", "kind": "import", "state": "running", "began": "2026-01-01T00:00:00Z"}
    registry.put("job/a", json.dumps({"sign": 0.0, "shown": gone}).encode())
    queue = JobQueue(registry)
    found = queue.find("a")
    assert (found.state, (found.problem or {})["code"]) == ("failed", "job.lost")
    queue.close()
    registry.close()


@pytest.fixture(params=["file", "store"])
def registries(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[JobRegistry]]:
    """Registries of several servers that act as one."""
    if request.param == "store":
        store = InMemoryStore()
        yield [StoreJobRegistry(store, lambda: 0.0), StoreJobRegistry(store, lambda: 0.0)]
        return
    with ExitStack() as stack:
        made = [FileJobRegistry(tmp_path / "board.db", lambda: 0.0) for _ in range(2)]
        for one in made:
            stack.callback(one.close)
        yield list(made)


def test_one_of_several_concurrent_claims_succeeds(registries: list[JobRegistry]) -> None:
    """On any server."""
    won = list[int]()

    def claim(registry: JobRegistry) -> None:
        won.extend(number for number in range(20) if registry.claim(str(number), 60))

    threads = [
        threading.Thread(target=claim, args=(registry,))
        for registry in registries
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(won) == list(range(20))


def test_a_note_is_read_by_all_workers_and_deleted(registries: list[JobRegistry]) -> None:
    """By a prefix of its name."""
    one, other = registries
    one.put("job/a", b"1")
    one.put("job/b", b"2")
    one.put("off/a", b"")
    other.put("job/b", b"3")
    assert other.notes("job/") == {"job/a": b"1", "job/b": b"3"}
    other.put("job/a", None)
    assert one.notes("") == {"job/b": b"3", "off/a": b""}


def test_the_rate_limit_of_an_address_is_shared_by_all_workers(tmp_path: Path) -> None:
    """A killed worker leaves no lock."""
    del tmp_path
    moment = [0.0]
    rates = RateLimiter(1.0, lambda: moment[0])  # a burst of ten
    pid = os.fork()
    if pid == 0:
        for _ in range(6):
            rates.allows("203.0.113.7")
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)
    assert [rates.allows("203.0.113.7") for _ in range(6)] == [True] * 4 + [False] * 2
    assert rates.allows("203.0.113.8")
    moment[0] = 2.0
    assert [rates.allows("203.0.113.7") for _ in range(3)] == [True, True, False]


def test_attack_many_addresses_reset_a_rate_limit() -> None:
    """The oldest counts are dropped, recent ones are kept."""
    moment = [0.0]
    rates = RateLimiter(1.0, lambda: moment[0])
    while rates.allows("mine"):
        pass
    for number in range(2000):  # a quarter of the table
        rates.allows(f"other {number}")
    assert not rates.allows("mine")


def test_a_single_process_store_allows_one_worker(
    own_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused before the start."""
    del own_home
    monkeypatch.setenv("SATCHEL_STORE", f"ladybug:///{tmp_path}/graph")
    with pytest.raises(UsageError, match="not 2 workers"):
        require_servable(load_settings(), 2)
    require_servable(load_settings(), 1)


@pytest.mark.prove
def test_a_server_terminated_during_writes_keeps_all_acknowledged_memories(
    own_home: Path,
) -> None:
    """Two workers, one killed before SIGTERM: everything answered with 201 is stored."""
    del own_home
    acknowledged, stop = list[str](), threading.Event()
    with server("--workers", "2", "--per-second", "0") as found:
        with found.client() as client:
            client.post("/v1/banks", json={"name": "assistant"})
        threads = [
            threading.Thread(target=_write, args=(found, number, acknowledged, stop))
            for number in range(4)
        ]
        for thread in threads:
            thread.start()
        _wait_for(acknowledged, 10)
        os.kill(found.workers()[0], signal.SIGKILL)
        _wait_for(acknowledged, len(acknowledged) + 20)
        assert len(found.workers()) == 2
        assert found.end() == 0
        stop.set()
        for thread in threads:
            thread.join()
    with running_gateway() as served:
        client = served.client()
        missing = [
            one for one in acknowledged if not client.get(f"{BANK}/entries/{one}").is_success
        ]
    assert missing == []
    assert len(set(acknowledged)) == len(acknowledged) >= 30


def _write(found: Server, number: int, acknowledged: list[str], stop: threading.Event) -> None:
    for count in range(10_000):
        if stop.is_set():
            return
        try:
            with found.client() as client:
                text = f"writer {number} noted {count}"
                answer = client.post(f"{BANK}/entries", json={"text": text})
        except httpx.HTTPError:  # nothing was acknowledged
            if found.process.poll() is not None:
                return
            continue
        if answer.status_code == 201:
            acknowledged.append(answer.json()["id"])


def _wait_for(acknowledged: list[str], number: int) -> None:
    pause = threading.Event()
    while len(acknowledged) < number:
        pause.wait(0.02)
