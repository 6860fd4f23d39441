"""The cost of the links of the hierarchical tier, in processor time, against rows without links.

Each fact is about one of some hundred subjects, with the words of a small vocabulary, so that many
facts are similar: comparing each with all would be quadratic.
"""

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks import data
from benchmarks.measure import Table, report
from satchel.amplihack.facts import Linker, similar_links
from satchel.amplihack.hierarchy import NewFact, store_facts
from satchel.bank.open_bank import OpenBank
from satchel.config.settings import load_settings
from satchel.setup.init import open_bank_for_writing

MANY, FEW = 10_000, 200
GROUPS = (1000, 100, 10)
TIMES_BOUND, LATER_BOUND = 4, 1.3

_VERBS = ("uses", "starts", "keeps", "needs", "serves", "watches", "queues", "retries")
_KINDS = ("workers", "replicas", "connections", "shards", "threads", "requests", "regions")
_PLACES = (
    "in the night", "for the reports", "behind the gateway", "before each deployment",
    "when the queue is long", "after a failed job", "for new customers", "in the cluster",
)  # fmt: skip

_TEAMS = (
    "billing", "search", "login", "mail", "export", "report", "image", "audit", "order", "stock",
    "price", "basket", "payment", "refund", "survey", "travel", "parcel", "claim", "garage", "film",
)  # fmt: skip
_THINGS = (
    "service", "worker", "scheduler", "gateway", "cache", "database", "pipeline", "importer",
    "crawler", "monitor", "proxy", "broker", "index", "mirror", "archive", "console", "robot",
)  # fmt: skip


def facts(count: int, seed: int = 5) -> Iterator[NewFact]:
    """Yield facts, many of them similar and some contradicting an earlier one."""
    chance = random.Random(seed)  # noqa: S311
    things = [f"{one} {two}" for one in _TEAMS for two in _THINGS]
    for _ in range(count):
        thing = chance.choice(things)
        sentences = [
            f"The {thing} {chance.choice(_VERBS)} {chance.randrange(2, 64)}",
            f"{chance.choice(_KINDS)} {chance.choice(_PLACES)}",
        ]
        yield NewFact(content=" ".join(sentences), concept=thing, tags=("operations",))


def test_facts_are_linked_as_they_are_stored() -> None:
    """The work of the measurement below, once, on a small input."""
    with _bank("few") as bank:
        took = _store(bank, FEW, 50, links=True)
        with bank.ledger.reading() as view:
            assert sum(1 for _ in similar_links(view)) > FEW
    assert len(took) == FEW // 50


@pytest.mark.prove
@pytest.mark.timeout(900)
def test_links_cost_at_most_4_times_the_rows_in_a_bank_of_any_size() -> None:
    """The same facts in the same groups; and the last quarter of them against the second."""
    rows, worst, latest = [], 0.0, 0.0
    for group in GROUPS:
        best = {True: float("inf"), False: float("inf")}
        later = float("inf")
        for turn in range(5):
            for links in (False, True):
                with _bank(f"{group} {turn} {links}") as bank:
                    took = _store(bank, MANY, group, links=links)
                best[links] = min(best[links], sum(took))
                if links:
                    quarter = len(took) // 4 or 1
                    second, last = took[quarter : 2 * quarter], took[-quarter:]
                    later = min(later, sum(last) / sum(second))
        ratio = best[True] / best[False]
        worst, latest = max(worst, ratio), max(latest, later)
        micros = [best[links] / MANY * 1e6 for links in (False, True)]
        rows.append([f"{group:,}", *micros, ratio, later])
    report(
        "tiers",
        Table(
            f"Storing {MANY:,} facts with their links, processor time",
            ["facts a commit", "without, us", "with, us", "times", "last quarter by second"],
            rows,
            f"Bounds: at most {TIMES_BOUND} times, and {LATER_BOUND} times.",
        ),
    )
    assert worst <= TIMES_BOUND
    assert latest <= LATER_BOUND


def _store(bank: OpenBank, count: int, group: int, *, links: bool) -> list[float]:
    """Return the processor time of each commit."""
    linker, took, every = Linker(), list[float](), list(facts(count))
    for start in range(0, count, group):
        begin = time.process_time()
        store_facts(bank, every[start : start + group], agent="bench", linker=linker, links=links)
        took.append(time.process_time() - begin)
    return took


@contextmanager
def _bank(name: str) -> Iterator[OpenBank]:
    settings = load_settings(store=str(Path(load_settings().home) / f"{name}.db"))
    with open_bank_for_writing(settings, None, lambda: data.KEY) as bank:
        yield bank
