"""A graph of entries and edges in every store, compared with raw rows."""

import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from benchmarks import data, graphs
from benchmarks.graphs import Graph, graph
from benchmarks.measure import Table, report
from satchel.artifact.encodings import (
    ArtifactBuilder,
    Encoding,
    Header,
    sign_statement,
    write_artifact,
)
from satchel.ledger.ledger import Ledger
from satchel.ledger.witness import Witness
from satchel.ports.links import LoggedLink, walk
from satchel.ports.record_set import Report
from satchel.ports.store import Store
from satchel.stores.ladybug import LadybugStore
from satchel.stores.memory import InMemoryStore
from satchel.stores.postgres import PostgresStore
from satchel.stores.sqlite import SqliteStore
from satchel.transfer.export_records import ExportDestination, MemorySelection, collect_records

FEW, SOME, MANY = 200, 10_000, 100_000
GROUP = 1000
LOAD_BOUND = 8
"""How many times the raw rows a sealed load into SQLite may take."""

HOPS = (1, 2, 4)
BUDGET = 100_000
SINGLE = 20


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of a real PostgreSQL with a disk under it."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "kit"))
    from postgres_kit import server as started

    with started() as found:
        yield found.get_uri()


@pytest.mark.prove
def test_every_store_loads_a_graph_and_reaches_the_same_nodes(tmp_path: Path, server: str) -> None:
    """The work of the measurements below, once, on a small input."""
    found = _measure(tmp_path, server, FEW, "few")
    assert {name: len(times) for name, times in found.items()} == {
        "memory": 3,
        "sqlite": 3,
        "ladybug": 3,
        "postgresql": 3,
    }


@pytest.mark.prove
@pytest.mark.timeout(900)
def test_a_sealed_load_of_10_000_entries_takes_at_most_8_times_the_raw_rows(
    tmp_path: Path, server: str
) -> None:
    """With 20,000 edges, into SQLite; the times of the other stores are printed."""
    _require(_measure(tmp_path, server, SOME, "graph"))


@pytest.mark.bench_full
@pytest.mark.timeout(5400)
def test_a_sealed_load_of_100_000_entries_takes_at_most_8_times_the_raw_rows(
    tmp_path: Path, server: str
) -> None:
    """The same at full size, with 200,000 edges."""
    _require(_measure(tmp_path, server, MANY, "graph"))


def _require(found: dict[str, dict[str, float]]) -> None:
    assert found["sqlite"]["load"] <= LOAD_BOUND * found["sqlite"]["raw"]


def _measure(folder: Path, server: str, size: int, name: str) -> dict[str, dict[str, float]]:
    """Measure all stores; return the seconds to load, to load raw rows, and to export."""
    rows, seconds = graph(size), dict[str, dict[str, float]]()
    loads, hops, reached = list[list[Any]](), list[list[Any]](), dict[Any, list[set[str]]]()
    raw_hops = {"sqlite": graphs.raw_hops_sqlite, "ladybug": graphs.raw_hops_ladybug}
    for kind, store in _stores(folder, server):
        ledger = Ledger.create(
            store, owner=data.KEY, writer=data.KEY, witness=Witness(folder / f"witness-{kind}")
        )
        times = {"load": _seconds(lambda: _load(ledger, rows))}  # noqa: B023 - used at once
        times["raw"] = _raw(kind, folder, server, rows)
        times["export"] = _seconds(lambda: _export(ledger, folder / kind))  # noqa: B023
        single = _single(ledger)
        seconds[kind] = times
        loads.append([*_loaded(kind, times, 3 * size), single * 1000])
        if store.traits.traversal:
            hops.append([kind, *_walk_times(rows, _walker(ledger), reached)])
        store.close()
        if kind in raw_hops:
            ask = raw_hops[kind](folder / f"raw-{kind}")
            hops.append([f"{kind}, raw", *_walk_times(rows, ask, reached)])
    assert all(answer == ways[0] for ways in reached.values() for answer in ways)
    _report(name, size, loads, hops)
    return seconds


def _report(name: str, size: int, loads: list[list[Any]], hops: list[list[Any]]) -> None:
    subject = f"{size:,} entries and {2 * size:,} edges"
    report(
        f"{name}-load",
        Table(
            f"A graph of {subject}: load, export, one durable write",
            [
                *("", "times the raw rows", "load, s", "raw, s", "records a second"),
                *("export, s", "one write, ms"),
            ],
            loads,
            "Records are sealed before; they are proved, indexed and witnessed here. Raw is"
            " executemany of the same rows, for LadybugDB COPY from Arrow's tables. Bound: at most"
            f" {LOAD_BOUND} times on SQLite.",
        ),
    )
    report(
        f"{name}-hops",
        Table(
            f"Steps from one of {subject}, medians in ms",
            ["", *(f"{hop}, {where}" for where in ("sparse", "dense") for hop in HOPS)],
            hops,
            "Ours proves each link that it takes, and ends where its budget does; raw is a"
            " recursive query over the raw rows, and Cypher's shortest paths. All reach the same.",
        ),
    )


def _stores(folder: Path, server: str) -> Iterator[tuple[str, Store]]:
    yield "memory", InMemoryStore()
    yield "sqlite", SqliteStore(folder / "store.db")
    yield "ladybug", LadybugStore(folder / "graph")
    with _emptied(server):
        yield "postgresql", PostgresStore(server)


@contextmanager
def _emptied(server: str) -> Iterator[None]:
    """Leave the server as it was, for the next size."""
    import psycopg

    try:
        yield
    finally:
        with psycopg.connect(server) as connection:
            connection.execute("DROP SCHEMA IF EXISTS satchel CASCADE")
            connection.execute("DROP SCHEMA IF EXISTS raw CASCADE")


def _loaded(kind: str, times: dict[str, float], records: int) -> list[Any]:
    load, raw = times["load"], times["raw"]
    ratio: Any = load / raw if raw else "-"
    return [kind, ratio, load, raw or "-", int(records / load), times["export"]]


def _load(ledger: Ledger, given: Graph) -> None:
    records = given.records
    for start in range(0, len(records), GROUP):
        ledger.append(records[start : start + GROUP])


def _raw(kind: str, folder: Path, server: str, rows: Graph) -> float:
    """Return the seconds of the same rows without us; 0 for a store that has no engine."""
    path = folder / f"raw-{kind}"
    work: dict[str, Callable[[], Callable[[], None]]] = {
        "sqlite": lambda: graphs.raw_sqlite(path, rows),
        "ladybug": lambda: graphs.raw_ladybug(path, rows),
        "postgresql": lambda: graphs.raw_postgres(server, rows),
    }
    return _seconds(work[kind]()) if kind in work else 0.0


def _export(ledger: Ledger, path: Path) -> None:
    """Export everything into a signed file, verified as it is read."""
    with ledger.reading() as view, ArtifactBuilder() as builder:
        collect_records(
            view,
            MemorySelection(),
            ExportDestination(builder=builder, report=Report(), sealed=True),
        )
        body, totals = builder.finish()
        statement = Header().statement(totals)
        with path.with_suffix(".pam.jsonl").open("wb") as sink:
            signatures = sign_statement(statement, [data.KEY])
            write_artifact(sink, Encoding.JSONL, body, statement, signatures)


def _single(ledger: Ledger) -> float:
    """Return the median of seconds that one durable entry takes."""
    records = [*data.sealed(data.entries(SINGLE, seed=23))]
    return statistics.median(_seconds(lambda: ledger.append([one])) for one in records)  # noqa: B023


def _walker(ledger: Ledger) -> Callable[[str, int], set[str]]:
    def ask(start: str, hops: int) -> set[str]:
        with ledger.reading() as view:

            def links(names: Sequence[str], incoming: bool, limit: int) -> list[LoggedLink]:  # noqa: FBT001
                return view.links(names, incoming=incoming, limit=limit)

            found = walk(links, start, hops=hops, budget=BUDGET)
        assert found.complete
        return {each.name for each in found.reached}

    return ask


def _walk_times(
    rows: Graph, ask: Callable[[str, int], set[str]], reached: dict[Any, list[set[str]]]
) -> list[float]:
    """Return the medians of each number of hops, and record the reached nodes."""
    medians = []
    for starts in (rows.sparse, rows.dense):
        ask(starts[0], 1)
        for hops in HOPS:
            times = []
            for start in starts:
                began = time.perf_counter()
                names = ask(start, hops)
                times.append(time.perf_counter() - began)
                reached.setdefault((start, hops), []).append(names)
            medians.append(statistics.median(times) * 1000)
    return medians


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
