"""Every listing, of some items and of ten times as many: linear in its output, or bounded.

The listings come from the commands themselves, so a new one is noticed: it is measured here, or has
a reason not to be. They run in this process, which collects garbage as seldom as the program does:
with the interpreter's default threshold, that alone took a third of a long listing.
"""

import contextlib
import gc
import io
import math
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path

import pytest

from benchmarks.measure import Table, report
from satchel.bank.banks import create_bank
from satchel.bank.machine_keys import signing_key
from satchel.bank.open_bank import OpenBank
from satchel.bank.token_operations import issue_token
from satchel.cli.main import GARBAGE_AFTER, index, run
from satchel.config.files import to_toml
from satchel.config.settings import Settings, load_settings
from satchel.crypto.sealed_records import Sealed, seal
from satchel.files import MemoryStore
from satchel.model.records import Semantic, Status
from satchel.model.text import Message
from satchel.sessions.drafts import LogHead, Recorder, new_session
from satchel.sessions.elements import Tip
from satchel.setup.init import open_bank_for_writing

TINY, FEW, TIMES = 3, 1_000, 10
GROUP = 100
ROUNDS = 3
MOST_SLOPE, MOST_BOUNDED = 1.15, 0.35
"""Of the logarithms: 1 is linear, 0 is the same for any number of items."""

LISTS = frozenset({"list", "ls", "history", "links", "audit", "tree", "revocations"})
"""Last words of commands that print many of what a person made."""

NOT_HERE = {
    "receipt list": "made by imports, whose cost would hide it",
    "job list": "jobs that ended are removed; a person has a handful",
    "key list": "one for each identity of a person",
    "key identity list": "one for each encryption identity of a person",
    "bank list": "bench_banks: 1,000 and 10,000",
    "bank owner list": "owners of a bank, a handful",
    "backup list": "one for each backup that is retained",
    "amplihack tree": "prints banks, and counts; bench_amplihack",
    "token revocations": "writes a file; the tokens are those of token list",
    "code trees": "one for each indexed folder",
}
"""Listings that are not measured, and why."""

NAME = "listings"
_HEAD = LogHead(size=1, root="blake3:" + "0" * 64)


class Home:
    """A home with a bank that has ``size`` of everything, in turns, as they come in use.

    Args:
        folder: The home.
        size: How many.
    """

    def __init__(self, folder: Path, size: int) -> None:
        self.size = size
        self.versions = size // 10
        self.settings: Settings = load_settings()
        self.folder = folder
        owner = partial(lambda settings: signing_key(settings)[0], self.settings)
        create_bank(self.settings, NAME, owner())
        with open_bank_for_writing(self.settings, NAME, owner) as bank:
            first, last = seal(Semantic(text="the first of all")), seal(Semantic(text="version 0"))
            bank.ledger.append([first, last])
            self.first, self.newest = first.id, last.id
            self._long_session(bank)
            for turn in _grouped(iter(range(size))):
                bank.ledger.append(self._memories(turn))
                bank.ledger.append(self._versions(turn))
                bank.ledger.append(self._sessions(turn))
            for _ in range(size // 10):
                issue_token(bank, bearer=True, everything=True)
        self._files()

    def _memories(self, turn: list[int]) -> list[Sealed]:
        held = [seal(Semantic(text=f"held back {number}")) for number in turn]
        linked = [
            seal(Semantic(text=f"memory {number}", parent_ids=(self.first,))) for number in turn
        ]
        return [*linked, *held, *(seal(Status(target=one.id, state="quarantined")) for one in held)]

    def _versions(self, turn: list[int]) -> list[Sealed]:
        records = list[Sealed]()
        for number in turn[::10]:
            new = seal(Semantic(text=f"version {number + 1}"))
            status = Status(target=self.newest, state="superseded", by=new.id)
            records += [new, seal(status)]
            self.newest = new.id
        return records

    def _sessions(self, turn: list[int]) -> list[Sealed]:
        records = list[Sealed]()
        for number in turn:
            start = new_session(f"session {number}")
            recorder = Recorder(Tip(start.id, start.id))
            messages = (recorder.message(Message(role="user", content="x")) for _ in "12")
            records += [start, *messages]
        return records

    def _long_session(self, bank: OpenBank) -> None:
        start = new_session("long")
        recorder = Recorder(Tip(start.id, start.id))
        records = [start]
        for number in range(self.size):
            records.append(recorder.message(Message(role="user", content=f"turn {number}")))
            records.append(recorder.checkpoint(_HEAD))
        for some in _grouped(iter(records)):
            bank.ledger.append(some)

    def _files(self) -> None:
        with MemoryStore.get_or_create(key=NAME) as store:
            store.write_many([(f"d{n % 20}/{n}.txt", str(n)) for n in range(self.size)])
            store.write_many([("often.txt", str(n)) for n in range(self.size)])

    def name_agents(self) -> None:
        """Add agents to the configuration, which every command reads."""
        said = {f"agent-{n}": {"name": f"Agent {n}", "bank": NAME} for n in range(self.size // 10)}
        file = self.settings.file
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(to_toml({"agents": said}), encoding="utf-8")


def _grouped(values: Iterator[object]) -> Iterator[list]:  # type: ignore[type-arg]
    while some := list(islice(values, GROUP)):
        yield some


def _page(items: int, most: int = 10_000) -> str:
    """Return the value of ``--limit`` for all items, or for the longest page."""
    return str(min(items, most))


Words = Callable[[Home], list[str]]
MEASURED: dict[str, tuple[Words, Words]] = {
    "list": (
        lambda home: ["list", "--bank", NAME, "--limit", _page(home.size)],
        lambda _: ["list", "--bank", NAME],
    ),
    "history": (
        lambda home: [
            "history",
            home.newest,
            "--bank",
            NAME,
            "--limit",
            _page(home.versions, 1_000),
        ],
        lambda home: ["history", home.newest, "--bank", NAME, "--limit", "2"],
    ),
    "links": (
        lambda home: ["links", home.first, "--bank", NAME, "--budget", str(2 * home.size)],
        lambda home: ["links", home.first, "--bank", NAME, "--budget", "10"],
    ),
    "quarantine list": (
        lambda home: ["quarantine", "list", "--bank", NAME, "--limit", _page(home.size)],
        lambda _: ["quarantine", "list", "--bank", NAME, "--limit", "10"],
    ),
    "session list": (
        lambda _: ["session", "list", "--bank", NAME, "--limit", "100000"],
        lambda _: ["session", "list", "--bank", NAME, "--limit", "10"],
    ),
    "session show": (
        lambda _: ["session", "show", "long", "--bank", NAME, "--last", "100000"],
        lambda _: ["session", "show", "session 1", "--bank", NAME, "--last", "2"],
    ),
    "session checkpoint list": (
        lambda _: ["session", "checkpoint", "list", "long", "--bank", NAME],
        lambda _: ["session", "checkpoint", "list", "session 1", "--bank", NAME],
    ),
    "token list": (
        lambda home: ["token", "list", "--bank", NAME, "--limit", _page(home.size)],
        lambda _: ["token", "list", "--bank", NAME, "--limit", "10"],
    ),
    "file ls": (
        lambda _: ["file", "ls", "--file-store", NAME],
        lambda _: ["file", "ls", "nothing/", "--file-store", NAME],
    ),
    "file history": (
        lambda _: ["file", "history", "often.txt", "--file-store", NAME],
        lambda _: ["file", "history", "d1/1.txt", "--file-store", NAME],
    ),
    "file audit": (
        lambda home: ["file", "audit", "--file-store", NAME, "--last", str(home.size)],
        lambda _: ["file", "audit", "--file-store", NAME, "--last", "10"],
    ),
    "agent list": (lambda _: ["agent", "list"], lambda _: ["agent", "list"]),
}
"""Of each listing, the words that list all there is, or the longest page, and a few."""


OF_THE_WHOLE_BANK = {
    "links": "that none is missing is verified in the whole index of links",
    "history": "a newer version may be anywhere in the log; all of them are read to be ordered",
    "session show": "a conversation is found by its name among all of them",
    "session checkpoint list": "a conversation is found by its name among all of them",
    "token list": "a revocation may be anywhere in the log",
    "agent list": "all are listed; the configuration is read whole",
}
"""Listings of which also a few depend on all items, so that all columns are verified, and why."""


def listings() -> Iterator[str]:
    """Yield the commands that list."""
    for line in index():
        words = tuple(line.split())
        if words[-1] in LISTS or words == ("code", "trees"):
            yield " ".join(words)


def seconds(words: list[str]) -> float:
    """Return the least processor time that a command took of a few runs.

    Raises:
        RuntimeError: If it failed.
    """
    best = math.inf
    gc.collect()
    for _ in range(ROUNDS):
        start = time.process_time()
        held = io.StringIO()
        with contextlib.redirect_stdout(held), contextlib.redirect_stderr(held):
            status = run(words)
        best = min(best, time.process_time() - start)
        if status not in (0, None):
            raise RuntimeError(f"{' '.join(words)}: {status}: {held.getvalue()[-500:]}")
    return best


def _home(folder: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> Home:
    monkeypatch.setenv("SATCHEL_HOME", str(folder / "home"))
    monkeypatch.setenv("SATCHEL_WITNESS", str(folder / "witness"))
    monkeypatch.setenv("SATCHEL_CONFIG", "")
    monkeypatch.delenv("SATCHEL_CONFIG")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
    return Home(folder, size)


def test_every_listing_is_measured_or_has_a_reason_not_to_be() -> None:
    """A new command that lists is noticed, and so is a removed one."""
    found = set(listings())

    assert found - MEASURED.keys() - NOT_HERE.keys() == set()
    assert (MEASURED.keys() - {"session show"} | NOT_HERE.keys()) - found == set()


def test_every_listing_prints_items(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The work of the benchmark below, once, on a small input."""
    home = _home(tmp_path, monkeypatch, 10 * TINY)
    gc.freeze()  # collecting the garbage of earlier tests would take a minute
    try:
        for name, (whole, little) in MEASURED.items():
            if name == "agent list":
                home.name_agents()
            assert seconds(whole(home)) >= 0
            assert seconds(little(home)) >= 0
    finally:
        gc.unfreeze()


@pytest.mark.parametrize(
    "few",
    [
        pytest.param(FEW, marks=[pytest.mark.prove, pytest.mark.timeout(1800)]),
        pytest.param(FEW * TIMES, marks=[pytest.mark.bench_full, pytest.mark.timeout(14400)]),
    ],
)
def test_a_listing_takes_time_in_proportion_to_its_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    """The slope from some items to ten times as many; and for a few among many."""
    with _seldom_collected():
        _measure(tmp_path, monkeypatch, few)


def _measure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few: int) -> None:
    took: dict[str, list[float]] = {}
    sizes = (few, few * TIMES)
    for size in sizes:
        with monkeypatch.context() as patched:
            home = _home(tmp_path / str(size), patched, size)
            for name, (whole, little) in MEASURED.items():
                if name == "agent list":
                    home.name_agents()
                took.setdefault(name, []).extend((seconds(whole(home)), seconds(little(home))))
    rows, steep = [], []
    for name, (all_few, few_few, all_many, few_many) in took.items():
        slopes = (_slope(all_few, all_many), _slope(few_few, few_many))
        rows.append([name, all_few, all_many, slopes[0], few_few, few_many, slopes[1]])
        most = MOST_SLOPE if name in OF_THE_WHOLE_BANK else MOST_BOUNDED
        if slopes[0] > MOST_SLOPE or (slopes[1] > most and few_many > 0.1):
            steep.append((name, *slopes))
    report(
        "listings" if few == FEW else f"listings of {sizes[1]:,}",
        Table(
            f"Listings of {sizes[0]:,} and {sizes[1]:,} items, seconds of processor time",
            ("command", "all", "all of 10x", "slope", "few", "few of 10x", "slope"),
            rows,
        ),
    )
    assert steep == []


@contextlib.contextmanager
def _seldom_collected() -> Iterator[None]:
    """Collect garbage as ``main`` has it."""
    before = gc.get_threshold()
    gc.set_threshold(GARBAGE_AFTER)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _slope(few: float, many: float) -> float:
    return math.log(max(many, 1e-4) / max(few, 1e-4), TIMES)
