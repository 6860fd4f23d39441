"""A large store goes round by every kind of store while the program is killed, and is the same."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import uuid
from contextlib import closing, contextmanager, suppress
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from ledger_kit import noting
from postgres_kit import in_schema, run_sql, schema_of

from satchel.bank.banks import create_bank
from satchel.bank.connections import configured_store, open_ledger, open_store
from satchel.bank.machine_keys import signing_key
from satchel.config.settings import load_settings
from satchel.crypto.sealed_records import seal, seal_many, seeded_nonces
from satchel.errors import SatchelError
from satchel.model.records import Edge, Semantic, Status
from satchel.model.values import Origin, Scope, now
from satchel.ports.rows import Filter

if TYPE_CHECKING:
    from collections.abc import Iterator

KILLS = 4
"""On each of the three ways, at most."""

_TOGETHER = 5000
_SEED = 20261122
_KINDS = ("similar_to", "knows", "supersedes", "mentions")
_ALL = Filter(retired=True, held=True)


@pytest.fixture
def ring_addresses(postgres: str, tmp_path: Path) -> Iterator[list[str]]:
    """The addresses of the stores in order: SQLite, PostgreSQL, LadybugDB, SQLite."""
    place = in_schema(postgres, f"ring_{uuid.uuid4().hex}")
    yield [str(tmp_path / "a.db"), place, f"ladybug:///{tmp_path / 'c'}", str(tmp_path / "d.db")]
    run_sql(postgres, f"DROP SCHEMA IF EXISTS {schema_of(place)} CASCADE")


def fill_graph(store: str, entries: int, edges: int) -> str:
    """Make a bank with a graph, some of it deleted; return its ID."""
    settings, draw = load_settings(store=store), random.Random(_SEED)  # noqa: S311 - no secret
    bank = create_bank(settings, "graph", signing_key(settings, None)[0]).id
    with configured_store(settings) as opened:
        ledger = open_ledger(settings, opened, bank, writes=True)
        ids = list[str]()
        for start in range(0, entries, _TOGETHER):
            drafts = [
                Semantic(
                    text=f"memory {number} of {'tea' if number % 7 else 'coffee'} and the rest",
                    scope=Scope(user=f"u{number % 50}"),
                    origin=Origin(provider="test", id=str(number)),
                )
                for number in range(start, min(start + _TOGETHER, entries))
            ]
            records = list(seal_many(drafts, nonces=seeded_nonces(start.to_bytes(32, "big"))))
            ids += [record.id for record in records]
            ledger.append(records)
        for start in range(0, edges, _TOGETHER):
            drawn = [
                Edge(source=draw.choice(ids), target=draw.choice(ids), kind=draw.choice(_KINDS))
                for _ in range(start, min(start + _TOGETHER, edges))
            ]
            seed = (start + entries).to_bytes(32, "big")
            ledger.append(list(seal_many(drawn, nonces=seeded_nonces(seed))))
        gone = ids[:: max(1, entries // 500)]
        ledger.append([seal(Status(target=one, state="deleted", at=now())) for one in gone])
    return bank


def digests(store: str, bank: str) -> tuple[object, ...]:
    """Return the head, the counts, and digests of the whole log and of current records."""
    digest, current = blake2b(), blake2b()
    with closing(open_store(store, read_only=True)) as opened, opened.reading() as reader:
        for row in reader.scan(bank, _ALL):
            digest.update(repr(row.columns()).encode())
        for row in reader.scan(bank, Filter()):
            current.update(f"{row.seq} {row.id}\n".encode())
        counts = reader.counts(bank)
        return reader.head(bank), counts, digest.hexdigest(), current.hexdigest()


_PROGRAM = """
import sys
import satchel

def tell(done, total):
    print(done, total, flush=True)

(bank,) = satchel.copy_store(sys.argv[1], sys.argv[2], progress=tell).banks
assert sum(bank.compared.values()) == bank.size
print("done")
"""


@contextmanager
def _copy_process(source: str, target: str) -> Iterator[subprocess.Popen[str]]:
    """Start a program that copies and prints its progress; it ends with the block."""
    words = [sys.executable, "-c", _PROGRAM, source, target]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def _kill_copy(source: str, target: str, share: float, delay: float) -> None:
    """Kill a copy some time after a share of the work is done."""
    with _copy_process(source, target) as process, suppress(subprocess.TimeoutExpired):
        assert process.stdout is not None
        for said in process.stdout:
            done, _, total = said.strip().partition(" ")
            if total and int(done) >= share * int(total):
                break
        process.wait(delay)


def _count_copied(store: str, bank: str) -> int | None:
    """Return the number of records in a partial copy."""
    try:
        with closing(open_store(store, read_only=True)) as opened, opened.reading() as reader:
            head = reader.head(bank)
            return None if head is None else sum(reader.counts(bank).values())
    except SatchelError:  # it was killed while it made the store: nothing is there
        return None


@pytest.mark.parametrize(
    ("entries", "edges"),
    [
        pytest.param(10_000, 20_000, marks=pytest.mark.prove),
        pytest.param(100_000, 200_000, marks=pytest.mark.bench_full),
    ],
)
def test_a_large_store_is_copied_through_every_kind_with_killed_copies(
    ring_addresses: list[str], entries: int, edges: int
) -> None:
    """The same IDs, order, heads, columns and current records, wherever the copies were killed."""
    bank, draw = fill_graph(ring_addresses[0], entries, edges), random.Random(_SEED)  # noqa: S311 - no secret
    expected, there = digests(ring_addresses[0], bank), list[int]()
    for source, target in pairwise(ring_addresses):
        with noting(f"seed {_SEED}, {source} -> {target}, killed at {there}"):
            least = 0
            for share in sorted(draw.uniform(0, 0.9) for _ in range(KILLS)):
                _kill_copy(source, target, share, draw.uniform(0, 1))
                there.append(_count_copied(target, bank) or 0)
                assert there[-1] >= least  # what was committed is not done again
                least = there[-1]
            with _copy_process(source, target) as process:
                out, _ = process.communicate(timeout=3600)
            assert out.endswith("done\n")
            assert digests(target, bank) == expected
    assert any(0 < one < entries + edges for one in there)
