"""Several machines that share a store on PostgreSQL."""

import os
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest
from http_kit import ELSEWHERE, TokenAuth, running_gateway
from ledger_kit import OWNER, WRITER, created, listed
from postgres_kit import in_schema, run_sql, server

from satchel.crypto.canonical import canonical
from satchel.crypto.keys import SigningKey
from satchel.errors import TokenError
from satchel.http.gateway import Gateway
from satchel.ledger.decisions import Decider
from satchel.ledger.examination import examine
from satchel.ledger.ledger import Ledger
from satchel.ledger.witness import Witness
from satchel.ports.store import Store
from satchel.stores.postgres import PostgresStore

BANK = "/v1/banks/assistant"


def test_machines_behind_one_address_accept_a_request_once_and_share_jobs(
    postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attack: a request sent to one machine is replayed to the other one."""
    monkeypatch.setenv("SATCHEL_STORE", in_schema(postgres, f"board_{uuid.uuid4().hex[:8]}"))
    with running_gateway() as one:
        one.client().post("/v1/banks", json={"name": "assistant"})
        one.client().post(f"{BANK}/entries", json={"text": "Ada drinks tea"})
        key = SigningKey.generate()
        asked = {"audience": key.did, "everything": True}
        issued = one.client().post(f"{BANK}/tokens", json=asked).json()["token"]
        token = canonical(issued).decode()
        monkeypatch.setenv("SATCHEL_WITNESS", str(tmp_path / "another machine"))
        with running_gateway() as other:
            _share_verifier(one.gateway, other.gateway)
            client = one.client(ELSEWHERE)
            request = client.build_request("GET", f"{BANK}/entries")
            headers = dict(TokenAuth(token, key, one.gateway.verifier)(request).headers)
            assert client.get(f"{BANK}/entries", headers=headers).status_code == 200
            again = other.client(ELSEWHERE).get(f"{BANK}/entries", headers=headers)
            assert (again.status_code, again.json()["code"]) == (
                TokenError.http_status,
                TokenError.code,
            )
            job = one.gateway.jobs.begin("test", lambda _: {"answer": 42})
            assert "event: end" in other.client().get(f"/v1/jobs/{job.id}/events").text
            assert other.client().get(f"/v1/jobs/{job.id}").json()["result"] == {"answer": 42}
            banks = [one["name"] for one in other.client().get("/v1/banks").json()["banks"]]
            assert banks == ["assistant"]


def _share_verifier(one: Gateway, other: Gateway) -> None:
    """Make both use one verifier, as ``--verifier`` does."""
    assert not one.is_alone
    assert not other.is_alone
    other.verifier = one.verifier


_KIT = Path(__file__).parents[2] / "kit"
_WRITERS, _TURNS = 8, 40
_COUNTS = """
SELECT xact_commit, xact_rollback, deadlocks FROM pg_stat_database
WHERE datname = current_database()"""
_MACHINE = """
import sys
from pathlib import Path

from satchel.ledger.ledger import Ledger
from satchel.ledger.witness import Witness
from satchel.model.records import Semantic
from satchel.model.values import Origin
from satchel.crypto.sealed_records import seal
from satchel.crypto.keys import SigningKey
from satchel.stores.postgres import PostgresStore

address, witness, bank, name, turns, owner = sys.argv[1:]
writer = SigningKey.from_seed(name.encode() * 32)
ledger = Ledger(
    PostgresStore(address), bank, writer=writer, witness=Witness(Path(witness) / name),
    trusted=frozenset([owner]),
)
with ledger.reading():
    pass
print("ready", flush=True)
sys.stdin.readline()
for turn in range(int(turns)):
    entry = Semantic(text=f"{name} {turn}", origin=Origin(provider="test", id=f"{name} {turn}"))
    print(*ledger.append([seal(entry)]), flush=True)
"""


def _admitted(store: Store, bank: str, witness: Witness) -> None:
    decider = Decider(store=store, bank=bank, owner=OWNER, writer=WRITER, witness=witness)
    for number in range(_WRITERS):
        decider.admit(SigningKey.from_seed(str(number).encode() * 32).did)


@pytest.mark.prove
@pytest.mark.timeout(600)
@pytest.mark.parametrize("banks", [1, _WRITERS], ids=["one bank", "separate banks"])
def test_eight_machines_write_concurrently(banks: int, tmp_path: Path) -> None:
    """Each has its own key and witness: every sequence number is used once, every record exists.

    The appends per second are printed. The server counts the retries, and there are none.
    """
    with server() as one:
        address = one.get_uri()
        store = PostgresStore(address)
        seen = Witness(tmp_path / "owner")
        ids = [created(store, seen).bank for _ in range(banks)]
        for bank in ids:
            _admitted(store, bank, seen)
        founding = [len(listed_of(store, bank)) for bank in ids]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(_KIT), *sys.path])}
        machines = [
            subprocess.Popen(
                [
                    *(sys.executable, "-c", _MACHINE, address, str(tmp_path)),
                    *(ids[number % banks], str(number), str(_TURNS), OWNER.did),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=environment,
            )
            for number in range(_WRITERS)
        ]
        for machine in machines:
            assert machine.stdout is not None
            assert machine.stdout.readline() == "ready\n"
        run_sql(address, "SELECT pg_stat_force_next_flush()")
        ((_, rollbacks, _),) = run_sql(address, _COUNTS)
        began = time.monotonic()
        for machine in machines:
            assert machine.stdin is not None
            machine.stdin.write("go\n")
            machine.stdin.flush()
        places = list[list[int]]()
        for machine in machines:
            told, _ = machine.communicate()
            assert machine.returncode == 0
            places.append(list(map(int, told.split())))
        took = time.monotonic() - began
        print(  # noqa: T201 - stated, not asserted: the machine has other work
            f"{_WRITERS * _TURNS / took:.0f} appends/s by {_WRITERS} writers, {banks} banks"
        )
        for which, bank in enumerate(ids):
            mine = [place for number in range(which, _WRITERS, banks) for place in places[number]]
            wanted = range(founding[which], founding[which] + _WRITERS // banks * _TURNS)
            assert sorted(mine) == list(wanted)
            assert len(listed_of(store, bank)) == founding[which] + len(mine)
            assert examine(store, bank).is_sound
        store.close()
        ((_, after, deadlocks),) = run_sql(address, _COUNTS)
        assert deadlocks == 0
        # A view ends with a rollback too; each append has at most one before and one after it.
        assert after - rollbacks <= 3 * _WRITERS * _TURNS + 1000


def listed_of(store: PostgresStore, bank: str) -> list[str]:
    """Return the IDs of all records of a bank, each verified."""
    return listed(Ledger(store, bank, writer=None))
