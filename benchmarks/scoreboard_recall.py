"""``make scoreboard-recall``: recall compared with plain search, on all data sets.

For each data set one table: the results of SQLite's FTS5, bm25s, dense vectors (the built-in
table, MiniLM), reciprocal rank fusion of FTS5 and MiniLM, and by Satchel with its defaults, by
words alone, and with MiniLM. Then the paired differences to each single signal, with 95 %
bootstrap intervals over questions, and R@10 by class of question. ``--stores`` compares the stores
instead: R@10 of the defaults on SQLite, LadybugDB and a temporary PostgreSQL.
"""

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from struct import unpack
from tempfile import TemporaryDirectory
from typing import Any

import apsw

from benchmarks.peers import LOCKS, environment
from satchel.config.settings import Settings, load_settings
from satchel.evaluation.datasets import DatasetConversation, QuestionSet, read_set
from satchel.evaluation.recall import (
    ConversationBank,
    conversation_bank,
    question_scores,
    ranked_turns,
    token_counts,
)
from satchel.evaluation.statistics import resampled
from satchel.ports.store import Store
from satchel.recall.models import NEURAL, WEIGHTED, embedder_of
from satchel.recall.vector_index import current_generation
from satchel.stores.ladybug import LadybugStore
from satchel.stores.postgres import PostgresStore
from satchel.stores.sqlite import SqliteStore

STORES = ("SQLite", "LadybugDB", "PostgreSQL")
MOST = 300
_RRF = 60
SINGLE = ("FTS5", "bm25s", "dense table", "dense MiniLM")
PRODUCT = ("satchel words", "satchel", "satchel MiniLM")
SYSTEMS = (*SINGLE[:2], *SINGLE[2:], "RRF(FTS5, MiniLM)", *PRODUCT)
COLUMNS = {
    "R@5": "recall 5",
    "R@10": "recall 10",
    "R@20": "recall 20",
    "NDCG@10": "ndcg 10",
    "512": "budget 512",
    "1,024": "budget 1024",
    "2,048": "budget 2048",
    "4,096": "budget 4096",
    "session Hit@1": "session hit",
}

Ranking = list[list[str]]
"""For each question the names of turns, best first."""

Judged = dict[str, list[dict[str, float]]]
"""Measures of each question by system."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", nargs="+", type=Path, help="as satchel evaluate recall takes")
    parser.add_argument("--output", type=Path, help="write the tables there as well")
    parser.add_argument("--stores", action="store_true", help="compare the stores instead")
    options = parser.parse_args()
    if options.stores:
        text = "\n".join(_by_store(options.data, load_settings())) + "\n"
    else:
        text = "\n".join(_page(path, load_settings()) for path in options.data)
    sys.stdout.write(text)
    if options.output is not None:
        options.output.write_text(text, encoding="utf-8")


def _by_store(paths: Sequence[Path], settings: Settings) -> list[str]:
    rows = list[list[str]]()
    with postgres_server() as server, TemporaryDirectory() as folder:
        for path in paths:
            found = recalled_by_store(read_set(path), settings, Path(folder) / path.name, server)
            rows.append([path.name, *(f"{figure:.4f}" for figure in found.values())])
    return _table(["R@10", *STORES], iter(rows))


def recalled_by_store(
    data: QuestionSet, settings: Settings, folder: Path, server: str
) -> dict[str, float]:
    """Return R@10 of the defaults on each store, each conversation in a store of its own.

    Args:
        data: Conversations and questions.
        settings: Say which vectors are compared.
        folder: For the stores that are files; must not exist.
        server: Address of a PostgreSQL. Its schemas stay.
    """
    means = dict[str, float]()
    for name in STORES:
        figures = list[float]()
        for number, conversation in enumerate(data.conversations):
            place = folder / f"{name}-{number}"
            place.mkdir(parents=True)
            store = _store(name, place, f"{server}&schema={_schema(place)}")
            with conversation_bank(conversation, embedder_of(settings, WEIGHTED), store) as bank:
                for question, names in ranked_turns(bank, conversation.questions):
                    if question.kind not in data.aside:
                        there = question.evidence.intersection(names[:10])
                        figures.append(len(there) / len(question.evidence))
            store.close()
        means[name] = sum(figures) / max(len(figures), 1)
    return means


def _store(name: str, folder: Path, address: str) -> Store:
    if name == "PostgreSQL":
        return PostgresStore(address)
    return LadybugStore(folder / "graph") if name == "LadybugDB" else SqliteStore(folder / "a.db")


def _schema(place: Path) -> str:
    return "s" + re.sub(r"\W", "_", "_".join(place.parts[-2:])).lower()


@contextmanager
def postgres_server() -> Iterator[str]:
    """Yield the address of a temporary PostgreSQL server."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "kit"))
    from postgres_kit import server

    with server() as started:
        yield started.get_uri()


def _page(path: Path, settings: Settings) -> str:
    questions = read_set(path)
    judged: Judged = {name: [] for name in SYSTEMS}
    classes = list[str]()
    for conversation in questions.conversations:
        _judge(conversation, questions, settings, judged, classes)
    turns = sum(len(each.turns) for each in questions.conversations)
    lines = [f"## {path.name}: {len(classes)} questions, {turns:,} turns", ""]
    lines += _table(["", *COLUMNS], ([name, *_means(judged[name])] for name in SYSTEMS))
    lines += ["Differences of R@10, paired, with 95 % intervals:", ""]
    lines += _table(
        ["", *(f"minus {name}" for name in SINGLE)],
        (
            [name, *(_difference(judged[name], judged[other]) for other in SINGLE)]
            for name in PRODUCT
        ),
    )
    lines += ["R@10 by class of question:", ""]
    lines += _table(["class", "questions", *SYSTEMS], _by_class(judged, classes))
    return "\n".join(lines) + "\n"


def _judge(
    conversation: DatasetConversation,
    questions: QuestionSet,
    settings: Settings,
    judged: Judged,
    classes: list[str],
) -> None:
    """Run all questions of a conversation with every method, and add the results."""
    rankings = {"FTS5": _fts5(conversation), "bm25s": _bm25s(conversation)}
    with conversation_bank(conversation, None) as bank:
        rankings["satchel words"] = _satchel(bank, conversation)
    for name, dense, model in (
        ("satchel", "dense table", WEIGHTED),
        ("satchel MiniLM", "dense MiniLM", NEURAL),
    ):
        with conversation_bank(conversation, embedder_of(settings, model)) as bank:
            rankings[name] = _satchel(bank, conversation)
            rankings[dense] = _dense(bank, conversation)
    pairs = zip(rankings["FTS5"], rankings["dense MiniLM"], strict=True)
    rankings["RRF(FTS5, MiniLM)"] = [_fused(*pair) for pair in pairs]
    tokens = token_counts(conversation.turns)
    sessions = {turn.name: turn.session for turn in conversation.turns}
    for at, question in enumerate(conversation.questions):
        if question.kind in questions.aside:
            continue
        classes.append(question.kind)
        for name in SYSTEMS:
            names = rankings[name][at]
            judged[name].append(question_scores(names, question.evidence, tokens, sessions))


def _satchel(bank: ConversationBank, conversation: DatasetConversation) -> Ranking:
    return [names for _, names in ranked_turns(bank, conversation.questions)]


def _fts5(conversation: DatasetConversation) -> Ranking:
    database: Any = apsw.Connection(":memory:")
    database.execute("CREATE VIRTUAL TABLE t USING fts5 (text, tokenize = 'porter unicode61')")
    database.executemany(
        "INSERT INTO t (rowid, text) VALUES (?, ?)",
        ((at, turn.text) for at, turn in enumerate(conversation.turns)),
    )
    sql = "SELECT rowid FROM t WHERE t MATCH ? ORDER BY rank, rowid LIMIT ?"
    rankings = Ranking()
    for question in conversation.questions:
        words = dict.fromkeys(re.findall(r"\w+", question.text.lower()))
        match = " OR ".join(f'"{word}"' for word in words)
        rows = database.execute(sql, (match, MOST)).fetchall() if match else []
        rankings.append([conversation.turns[at].name for (at,) in rows])
    return rankings


def _bm25s(conversation: DatasetConversation) -> Ranking:
    request = {
        "texts": [turn.text for turn in conversation.turns],
        "questions": [question.text for question in conversation.questions],
    }
    command = [environment("bm25s") / "python", LOCKS / "bm25s_rank.py"]
    done = subprocess.run(
        command, input=json.dumps(request), capture_output=True, text=True, check=True
    )
    return [[conversation.turns[at].name for at in row] for row in json.loads(done.stdout)]


def _dense(bank: ConversationBank, conversation: DatasetConversation) -> Ranking:
    import numpy as np

    current = current_generation(bank.view)
    if current is None or bank.embedder is None:
        raise RuntimeError("the bank has no vectors")
    vectors = bank.view.vectors(current.generation, list(bank.names))
    names = [bank.names[identity] for identity in vectors]
    rows = np.array([list(vector) for vector in vectors.values()], dtype=np.float32)
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
    raws = current.embedder(bank.embedder).embed([each.text for each in conversation.questions])
    rankings = Ranking()
    for raw in raws:
        cosines = rows @ np.array(unpack(f"<{current.dimensions}f", raw), dtype=np.float32)
        best = np.argsort(-cosines, kind="stable")[:MOST]
        rankings.append([names[at] for at in best.tolist()])
    return rankings


def _fused(one: Sequence[str], other: Sequence[str]) -> list[str]:
    scores = dict[str, float]()
    for ranking in (one, other):
        for at, name in enumerate(ranking, 1):
            scores[name] = scores.get(name, 0.0) + 1 / (_RRF + at)
    return sorted(scores, key=lambda name: -scores[name])


def _means(rows: Sequence[dict[str, float]]) -> Iterator[str]:
    for measure in COLUMNS.values():
        yield f"{sum(row[measure] for row in rows) / max(len(rows), 1):.3f}"


def _difference(one: Sequence[dict[str, float]], other: Sequence[dict[str, float]]) -> str:
    apart = [a["recall 10"] - b["recall 10"] for a, b in zip(one, other, strict=True)]
    figure: Callable[[Sequence[int]], float] = lambda at: sum(apart[i] for i in at) / len(at)  # noqa: E731
    found = resampled(len(apart), figure, seed=1)
    return "" if found is None else f"{found.value:+.3f} [{found.low:+.3f}, {found.high:+.3f}]"


def _by_class(judged: Judged, classes: Sequence[str]) -> Iterator[list[str]]:
    for kind in sorted(set(classes)):
        at = [number for number, each in enumerate(classes) if each == kind]
        means = (sum(judged[name][i]["recall 10"] for i in at) / len(at) for name in SYSTEMS)
        yield [kind, str(len(at)), *(f"{mean:.3f}" for mean in means)]


def _table(columns: Sequence[str], rows: Iterator[list[str]]) -> list[str]:
    rule = ["|---|" + "--:|" * (len(columns) - 1)]
    shown = ["| " + " | ".join(row) + " |" for row in (columns, *rows)]
    return [shown[0], *rule, *shown[1:], ""]


if __name__ == "__main__":
    main()
