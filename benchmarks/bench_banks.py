"""A store with very many banks: finding one by name, and listing them, compared with few banks."""

import sys
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from itertools import islice
from pathlib import Path

import pytest

from benchmarks.measure import Table, best_of, report, satchel
from satchel.bank.banks import list_banks
from satchel.bank.connections import configured_store, writer_key
from satchel.bank.machine_keys import signing_key
from satchel.bank.open_bank import find_bank, named_banks
from satchel.config.settings import load_settings
from satchel.ledger.ledger import Ledger
from satchel.ports.rows import Filter
from satchel.ports.store import Commit, Store
from satchel.stores.ladybug import LadybugStore
from satchel.stores.memory import InMemoryStore
from satchel.stores.postgres import PostgresStore
from satchel.stores.sqlite import SqliteStore

FEW, SOME, MANY = 10, 1000, 10_000
GROUP = 500
"""Banks that are put into a store in one transaction."""

FIND_BOUND = 2.0
"""How many times a name among many may take what one among few does, where names are indexed."""

PROGRAM_BOUND, LIST_BOUND = 1.2, 2.0
ROUNDS = 7
WANTED = "bank 7"
_ALL = Filter(retired=True, held=True)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of a real PostgreSQL with a disk under it."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "kit"))
    from postgres_kit import server as started

    with started() as found:
        yield found.get_uri()


@pytest.mark.prove
def test_a_bank_is_found_by_its_name_in_every_store(tmp_path: Path, server: str) -> None:
    """The work of the measurements below, once, on a small input."""
    found = _measure(tmp_path, server, FEW, 3 * FEW)
    assert found.keys() == {"memory", "sqlite", "ladybug", "postgresql"}
    _fill_home(FEW)
    assert len(list_banks(load_settings())) == FEW


@pytest.mark.prove
@pytest.mark.timeout(900)
def test_a_name_among_10_000_banks_takes_at_most_twice_the_time_of_10(tmp_path: Path) -> None:
    """In SQLite, in a process with an open store; the time to verify all banks is printed."""
    with closing(_sqlite(tmp_path, FEW)) as few, closing(_sqlite(tmp_path, MANY)) as many:
        times = best_of({"few": partial(_find, few), "many": partial(_find, many)}, 20 * ROUNDS)
        proving = best_of({"all": lambda: named_banks(many)}, 1)["all"]
    ratio = times["many"] / times["few"]
    report(
        "banks",
        Table(
            "A bank found by its name, among 10,000 and among 10, in SQLite",
            ["", "times the same among 10", "ms"],
            [
                ["what says the name is looked up and proved", ratio, times["many"] * 1000],
                ["every bank is proved", proving / times["few"], proving * 1000],
            ],
            f"Bound: at most {FIND_BOUND} times.",
        ),
    )
    assert ratio <= FIND_BOUND


@pytest.mark.prove
@pytest.mark.timeout(900)
def test_a_command_takes_as_long_with_10_000_banks_as_with_10(own_home: Path) -> None:
    """``satchel recall`` from start to end, in processor time; and each line of a listing."""
    programs, lines = dict[int, float](), dict[int, float]()
    for count in (FEW, SOME, MANY):
        _fill_home(count)
        words = ("recall", "harbour", "--bank", WANTED)
        programs[count] = min(satchel(*words, home=own_home).seconds for _ in range(ROUNDS))
        lines[count] = best_of({"list": partial(_require_listed, count)}, 1)["list"] / count
    program, line = programs[MANY] / programs[FEW], lines[MANY] / lines[SOME]
    report(
        "banks_program",
        Table(
            "Commands in a store of 10,000 banks",
            ["", "times the same with few", "with how many"],
            [
                ["satchel recall --bank NAME, the whole program", program, FEW],
                ["a line of satchel bank list", line, SOME],
            ],
            f"Bounds: {PROGRAM_BOUND} and {LIST_BOUND} times.",
        ),
    )
    assert program <= PROGRAM_BOUND
    assert line <= LIST_BOUND


@pytest.mark.bench_full
@pytest.mark.timeout(3600)
def test_a_name_among_10_000_banks_in_every_store(tmp_path: Path, server: str) -> None:
    """LadybugDB and the store in memory have no index of names: their times are printed."""
    seconds = _measure(tmp_path, server, FEW, MANY)
    report(
        "banks_stores",
        Table(
            "A bank found by its name, among 10,000 and among 10, by store",
            ["", "times the same among 10", "ms among 10,000"],
            [[name, many / few, many * 1000] for name, (few, many) in seconds.items()],
        ),
    )
    assert seconds["sqlite"][1] <= FIND_BOUND * seconds["sqlite"][0]
    assert seconds["postgresql"][1] <= FIND_BOUND * seconds["postgresql"][0]


def _measure(folder: Path, server: str, few: int, many: int) -> dict[str, tuple[float, float]]:
    """Return the seconds to find a name among few banks, and among many, by store."""
    seconds = dict[str, tuple[float, float]]()
    for name in ("memory", "sqlite", "ladybug", "postgresql"):
        with (
            closing(_store(name, folder, server, few)) as small,
            closing(_store(name, folder, server, many)) as large,
        ):
            work = {"few": partial(_find, small), "many": partial(_find, large)}
            times = best_of(work, ROUNDS)
            seconds[name] = times["few"], times["many"]
    return seconds


def _store(name: str, folder: Path, server: str, count: int) -> Store:
    if name == "sqlite":
        return _sqlite(folder, count)
    store: Store = InMemoryStore()
    if name == "ladybug":
        store = LadybugStore(folder / f"{count}.graph")
    elif name == "postgresql":
        store = PostgresStore(f"{server}&schema=banks_{count}")
    _fill(store, count)
    return store


def _sqlite(folder: Path, count: int) -> SqliteStore:
    store = SqliteStore(folder / f"{count}.db")
    _fill(store, count)
    return store


def _find(store: Store) -> str:
    return find_bank(store, WANTED)


def _fill(store: Store, count: int, first: int = 0) -> None:
    """Create banks, many in one transaction: each is made in its own store first."""
    numbers = iter(range(first, count))
    while some := [*islice(numbers, GROUP)]:
        made = [_founded(f"bank {number}") for number in some]
        with store.writing() as writing:
            for bank, commit in made:
                writing.append(bank, commit)


def _founded(name: str) -> tuple[str, Commit]:
    """Return a new bank's id, and the commit that it begins with."""
    settings, alone = load_settings(), InMemoryStore()
    owner, _ = signing_key(settings)
    bank = Ledger.create(alone, owner=owner, writer=writer_key(settings), name=name).bank
    with alone.reading() as reader:
        rows, head = list(reader.scan(bank, _ALL)), reader.head(bank)
        nodes = reader.nodes(bank, range(2 * len(rows)))
    assert head is not None
    return bank, Commit(rows=rows, nodes=[nodes[place] for place in sorted(nodes)], head=head)


def _fill_home(count: int) -> None:
    """Have so many banks in the store that is configured."""
    settings = load_settings()
    with configured_store(settings) as store:
        with store.reading() as reader:
            there = len(reader.banks())
        _fill(store, count, there)


def _require_listed(count: int) -> None:
    assert len(list_banks(load_settings())) == count
