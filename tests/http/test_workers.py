"""Several workers are one server: whatever one of them knows that matters, all of them do."""

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
from http_kit import Proving, Served, serving
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
def both(own_home: Path) -> Iterator[tuple[Served, Served]]:
    """Two servers of one store in one process, each as a worker of its own is."""
    del own_home
    with serving() as one, serving() as other:
        one.client().post("/v1/banks", json={"name": "assistant"})
        one.client().post(f"{BANK}/entries", json={"text": "Ada drinks tea", "tags": ["drinks"]})
        yield one, other


def issued(served: Served, **said: object) -> dict[str, Any]:
    """Have a token issued."""
    found: dict[str, Any] = served.client().post(f"{BANK}/tokens", json=said).json()["token"]
    return found


def test_a_token_that_one_worker_revoked_opens_nothing_at_another(
    both: tuple[Served, Served],
) -> None:
    """Also where the other one has it open from a request before."""
    one, other = both
    key = SigningKey.generate()
    token = issued(one, audience=key.did, everything=True)
    holder = other.holder(canonical(token).decode(), key)
    assert holder.get(f"{BANK}/entries").status_code == 200
    (line,) = one.client().get(f"{BANK}/tokens").json()["tokens"]
    assert one.client().post(f"{BANK}/tokens/{line['id']}/revoke", json={}).is_success
    refused = holder.get(f"{BANK}/entries")
    assert (refused.status_code, refused.json()["code"]) == (
        TokenRevokedError.http_status,
        TokenRevokedError.code,
    )


def test_a_request_that_one_worker_took_is_taken_by_no_other(both: tuple[Served, Served]) -> None:
    """Attack: what was overheard is sent again, to whichever worker answers."""
    one, other = both
    key = SigningKey.generate()
    token = canonical(issued(one, audience=key.did, everything=True)).decode()
    client = one.client("203.0.113.7")
    request = client.build_request("GET", f"{BANK}/entries")
    headers = dict(Proving(token, key, one.gateway.verifier)(request).headers)
    assert client.get(f"{BANK}/entries", headers=headers).status_code == 200
    again = other.client("203.0.113.7").get(f"{BANK}/entries", headers=headers)
    assert (again.status_code, again.json()["code"]) == (TokenError.http_status, TokenError.code)


def test_a_bank_that_was_renamed_elsewhere_is_not_taken_for_another(
    both: tuple[Served, Served],
) -> None:
    """A worker that has it open from before looks again; so what is meant for one bank, it gets."""
    from satchel.bank.banks import rename_bank
    from satchel.bank.machine_keys import signing_key

    one, other = both
    assert other.client().get(BANK).json()["memories"] == 1
    settings = load_settings()
    rename_bank(settings, "assistant", "archive", signing_key(settings)[0])
    assert other.client().get(BANK).status_code == 404
    one.client().post("/v1/banks", json={"name": "assistant"})
    made = other.client().post(f"{BANK}/entries", json={"text": "for the new one"})
    assert made.status_code == 201
    assert one.client().get("/v1/banks/archive").json()["memories"] == 1
    assert one.client().get(BANK).json()["memories"] == 1


def test_a_job_is_reported_followed_and_cancelled_by_any_worker(
    both: tuple[Served, Served],
) -> None:
    """Whichever does it."""
    one, other = both
    begun, go_on = threading.Event(), threading.Event()

    def work(tell: Any) -> object:
        tell(1, 2, None)
        begun.set()
        while not go_on.wait(0.05):
            tell(1, 2, None)
        return {"answer": 42}

    called_off = one.gateway.jobs.begin("test", work)
    assert begun.wait(30)
    there = other.client().get(f"/v1/jobs/{called_off.id}").json()
    assert there["state"] in ("waiting", "running")
    assert called_off.id in {job["id"] for job in other.client().get("/v1/jobs").json()["jobs"]}
    assert other.client().delete(f"/v1/jobs/{called_off.id}").status_code == 202
    events = other.client().get(f"/v1/jobs/{called_off.id}/events").text.strip().split("\n\n")
    assert events[-1].startswith("event: end\n")
    assert json.loads(events[-1].partition("data: ")[2])["state"] == "cancelled"
    go_on.set()
    done = one.gateway.jobs.begin("test", work)
    events = other.client().get(f"/v1/jobs/{done.id}/events").text.strip().split("\n\n")
    assert json.loads(events[-1].partition("data: ")[2])["result"] == {"answer": 42}


def test_a_job_of_a_killed_server_does_not_run_for_ever(tmp_path: Path) -> None:
    """After a while without a sign of it, it has failed, and says so."""
    board = FileJobRegistry(tmp_path / "board.db")
    gone = {"id": "a", "kind": "import", "state": "running", "began": "2026-01-01T00:00:00Z"}
    board.put("job/a", json.dumps({"sign": 0.0, "shown": gone}).encode())
    works = JobQueue(board)
    found = works.find("a")
    assert (found.state, (found.problem or {})["code"]) == ("failed", "job.lost")
    works.close()
    board.close()


@pytest.fixture(params=["file", "store"])
def boards(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[JobRegistry]]:
    """Boards of several servers that are one."""
    if request.param == "store":
        store = InMemoryStore()
        yield [StoreJobRegistry(store, lambda: 0.0), StoreJobRegistry(store, lambda: 0.0)]
        return
    with ExitStack() as stack:
        made = [FileJobRegistry(tmp_path / "board.db", lambda: 0.0) for _ in range(2)]
        for one in made:
            stack.callback(one.close)
        yield list(made)


def test_of_concurrent_claims_of_a_word_one_succeeds(boards: list[JobRegistry]) -> None:
    """Whichever server each of them is at."""
    won = list[int]()

    def claim(board: JobRegistry) -> None:
        won.extend(number for number in range(20) if board.claim(str(number), 60))

    threads = [threading.Thread(target=claim, args=(board,)) for board in boards for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(won) == list(range(20))


def test_a_note_is_read_by_all_and_taken_down(boards: list[JobRegistry]) -> None:
    """By the beginning of its name."""
    one, other = boards
    one.put("job/a", b"1")
    one.put("job/b", b"2")
    one.put("off/a", b"")
    other.put("job/b", b"3")
    assert other.notes("job/") == {"job/a": b"1", "job/b": b"3"}
    other.put("job/a", None)
    assert one.notes("") == {"job/b": b"3", "off/a": b""}


def test_an_address_asks_all_workers_together(tmp_path: Path) -> None:
    """What one worker takes is gone for the others; a killed one leaves no lock behind."""
    del tmp_path
    moment = [0.0]
    rates = RateLimiter(1.0, lambda: moment[0])  # ten at once
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


def test_addresses_without_number_forget_those_of_long_ago_only() -> None:
    """Attack: very many addresses, so that the count of one's own is lost."""
    moment = [0.0]
    rates = RateLimiter(1.0, lambda: moment[0])
    while rates.allows("mine"):
        pass
    for number in range(2000):  # a quarter of the room there is
        rates.allows(f"other {number}")
    assert not rates.allows("mine")


def test_a_store_that_one_process_can_open_has_one_worker(
    own_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Said before anything is begun."""
    del own_home
    monkeypatch.setenv("SATCHEL_STORE", f"ladybug:///{tmp_path}/graph")
    with pytest.raises(UsageError, match="not 2 workers"):
        require_servable(load_settings(), 2)
    require_servable(load_settings(), 1)


@pytest.mark.prove
def test_a_server_that_is_ended_in_the_middle_of_writes_keeps_all_it_acknowledged(
    own_home: Path,
) -> None:
    """Two workers, SIGTERM, one of them killed before: what was answered with 201 is there."""
    del own_home
    kept, stop = list[str](), threading.Event()
    with server("--workers", "2", "--per-second", "0") as found:
        with found.client() as client:
            client.post("/v1/banks", json={"name": "assistant"})
        threads = [
            threading.Thread(target=_write, args=(found, number, kept, stop)) for number in range(4)
        ]
        for thread in threads:
            thread.start()
        _wait_for(kept, 10)
        os.kill(found.workers()[0], signal.SIGKILL)
        _wait_for(kept, len(kept) + 20)
        assert len(found.workers()) == 2
        assert found.end() == 0
        stop.set()
        for thread in threads:
            thread.join()
    with serving() as served:
        client = served.client()
        missing = [one for one in kept if not client.get(f"{BANK}/entries/{one}").is_success]
    assert missing == []
    assert len(set(kept)) == len(kept) >= 30


def _write(found: Server, number: int, kept: list[str], stop: threading.Event) -> None:
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
            kept.append(answer.json()["id"])


def _wait_for(kept: list[str], number: int) -> None:
    pause = threading.Event()
    while len(kept) < number:
        pause.wait(0.02)
