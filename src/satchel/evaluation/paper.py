"""All tables of the paper, measured."""

import gzip
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from satchel.artifact.encodings import Encoding
from satchel.bank.machine_keys import require_owner
from satchel.config.settings import Settings
from satchel.crypto.canonical import DEFAULT_LIMITS
from satchel.crypto.keys import SigningKey
from satchel.crypto.sealed_records import has_valid_id
from satchel.evaluation.agents import ProbeAgent, ReaderAgent
from satchel.evaluation.attacks import (
    ATTEMPTS,
    FIELDS,
    PARENTS,
    TOKENS,
    injection_table,
    tampering_table,
    tokens_table,
)
from satchel.evaluation.carriers import (
    MIX,
    DatedMemory,
    Owner,
    conversation,
    dated_memories,
    in_full,
    latest,
    sample_memories,
    sealed,
    write_artifact_file,
)
from satchel.evaluation.continuity import (
    BUDGET,
    OVERALL,
    Continuity,
    ProbeItem,
    ProgressCounter,
    Trial,
    continuities,
    evaluate_fidelity,
    evaluate_transfer,
    items,
    trial,
    with_memory,
    with_text,
)
from satchel.evaluation.probes import ProbeMemory, ProbeSet, shipped_sets
from satchel.evaluation.recall import comparison_embedder
from satchel.evaluation.statistics import Cell, Table
from satchel.model.records import Episodic, Identity, Procedural, Semantic, Working
from satchel.ports.inference import Embedder
from satchel.ports.record_set import open_record_set

MODEL, EXAMPLE_BUDGET = "gpt-4-turbo", 4096
"""Source: the paper, appendix B."""

TASK = "Go on with the quarterly report for Accra Harbour."

_MEMORIES: tuple[Episodic | Semantic | Procedural | Working | Identity, ...] = (
    Identity(
        persona="An assistant for financial analysts", policies=("Figures carry their source.",)
    ),
    Semantic(
        subject="Accra Harbour", predicate="revenue_q3_2026", object="4.2 million", confidence=0.9
    ),
    Episodic(text="Ada asked for the report as a table, not as prose.", actor="user"),
    Procedural(
        name="quarterly_report",
        description="How the report is made",
        body="Read the ledger, compare it with the quarter before, mark what changed by over 10 %.",
        preconditions=("the ledger of the quarter is closed",),
    ),
    Working(
        goals=("finish the quarterly report",),
        subgoals=("check the berth fees",),
        pending_actions=("ask Bela for the September ledger",),
    ),
)


def example(folder: Path, embedder: Embedder | None) -> str:
    """Return the framed text."""
    owner = Owner(folder, embedder)
    owner.remember(
        "example",
        [
            DatedMemory(
                "2026-06-30T09:00:00.000000Z", "example", ProbeMemory(key=str(at), entry=entry)
            )
            for at, entry in enumerate(_MEMORIES)
        ],
    )
    with owner.framing("example") as framing:
        framed = framing(TASK, MODEL, EXAMPLE_BUDGET)
    return framed.text if framed is not None else ""


YES, NO = "yes", "no"

_THEIR_FEATURES: tuple[tuple[str, ...], ...] = (
    ("MemGPT/Letta", NO, NO, NO, NO, NO),
    ("Mem0", NO, NO, "partial", NO, NO),
    ("Zep/Graphiti", NO, NO, NO, NO, NO),
    ("AMCP", YES, NO, NO, NO, NO),
    ("Soul Protocol", "partial", YES, NO, NO, NO),
    ("Portable Agent Memory", YES, YES, YES, YES, YES),
)
"""Source: the paper, table 1. Their present state was not checked."""


def features_table(tables: dict[str, Table], escapes: int) -> Table:
    """Return the feature table.

    Args:
        tables: The measured tables, by name, on which each claim is based.
        escapes: The number of escapes from records.
    """
    ours: list[Cell] = [
        "Satchel",
        _yes_or_no(_is_carried(tables["tcs"])),
        _yes_or_no(_all(tables["tampering"], 2)),
        _yes_or_no(_all(tables["tokens"], 2)),
        _yes_or_no(escapes == 0),
        _yes_or_no(any(row[2] is not None for row in tables["rhf"].rows)),
    ]
    return Table(
        name="features",
        title="Features",
        columns=[
            "system",
            "portable",
            "verified",
            "scoped access",
            "injection defense",
            "metrics",
        ],
        rows=[*(list[Cell](row) for row in _THEIR_FEATURES), ours],
        note="Satchel's row is derived from the tables below: moved memory has at least the TCS of "
        "the paper's lowest pair; every change and every invalid token was detected; no attack "
        "broke out of its record; fidelity was measured. The other rows are from the paper.",
    )


_LEAST = 0.83


def _is_carried(table: Table) -> bool:
    """Return whether each pair has at least the lowest score of the paper."""
    scores = [row[-3] for row in table.rows[:-1]]
    return all(isinstance(score, float) and score >= _LEAST for score in scores)


def _all(table: Table, column: int) -> bool:
    return all(row[column - 1] == row[column] for row in table.rows)


def _yes_or_no(holds: bool) -> str:  # noqa: FBT001 - a claim
    return YES if holds else NO


ROUNDS = 7
_TASK = "What is still to be done in the Tidewater reconciliation job?"
_BUDGET = 4096

_THEIR_COSTS = {
    "serialize": (2.3, 1.8),
    "deserialize": (1.9, 1.4),
    "verify all hashes": (4.1, 4.1),
    "full re-hydration pipeline": (12.7, 11.8),
}


def sizes_table(folder: Path) -> Table:
    """Return the size of the memory, relative to its conversation."""
    key, records = SigningKey.generate(), sealed()
    raw = conversation()
    json_file = write_artifact_file(folder / "memory.pam", records, Encoding.JSON, key)
    cbor_file = write_artifact_file(folder / "memory.pam.cbor", records, Encoding.CBOR, key)
    plain = json_file.read_bytes()
    sizes: dict[str, tuple[int, float | None]] = {
        "raw conversation (JSON)": (len(raw), 1.0),
        "signed artifact (.pam, JSON)": (len(plain), 0.31),
        "signed artifact (.pam.cbor)": (cbor_file.stat().st_size, 0.21),
        "signed artifact, compressed (.pam.gz)": (len(gzip.compress(plain, mtime=0)), None),
        "raw conversation, compressed": (len(gzip.compress(raw, mtime=0)), None),
    }
    rows: list[list[Cell]] = [
        [name, size, size / len(raw), theirs] for name, (size, theirs) in sizes.items()
    ]
    return Table(
        name="sizes",
        title=f"Sizes of {sum(MIX.values())} entries",
        columns=["form", "bytes", "relative", "paper"],
        rows=rows,
        note="The conversation is synthetic: each memory is stated once, and answered at a typical "
        "length. The ratio depends on that assumption, the size of the artifact does not. Each "
        "entry has a nonce, an ID and its times.",
    )


def latencies_table(folder: Path, embedder: Embedder | None, *, rounds: int = ROUNDS) -> Table:
    """Return the times of the paper's operations, in milliseconds of processor time."""
    key, records = SigningKey.generate(), sealed()
    files = {
        Encoding.JSON: write_artifact_file(folder / "memory.pam", records, Encoding.JSON, key),
        Encoding.CBOR: write_artifact_file(folder / "memory.pam.cbor", records, Encoding.CBOR, key),
    }

    def write(encoding: Encoding) -> Path:
        return write_artifact_file(files[encoding], records, encoding, key)

    def read(encoding: Encoding) -> int:
        with open_record_set(files[encoding], DEFAULT_LIMITS) as record_set:
            return sum(1 for _ in record_set)

    times = dict[str, tuple[float, float]]()
    both = (Encoding.JSON, Encoding.CBOR)
    times["serialize"] = _pair([partial(write, each) for each in both], rounds)
    times["deserialize"] = _pair([partial(read, each) for each in both], rounds)
    hashes = _least_time(lambda: all(map(has_valid_id, records)), rounds)
    times["verify all hashes"] = (hashes, hashes)
    pipeline = _pipeline(folder, embedder, rounds)
    times["full re-hydration pipeline"] = (pipeline, pipeline)
    rows: list[list[Cell]] = [[name, *times[name], *_THEIR_COSTS[name]] for name in _THEIR_COSTS]
    return Table(
        name="latencies",
        title=f"Latency of {sum(MIX.values())} entries, ms",
        columns=["operation", "JSON", "CBOR", "paper, JSON", "paper, CBOR"],
        rows=rows,
        note="Processor time on this machine, the minimum of several rounds; the paper used an "
        "Apple M2. Serialize ends when the file is on the disk. The pipeline works on a bank, so "
        f"it has one figure: verify to inject, {_BUDGET:,} tokens.",
    )


def _pipeline(folder: Path, embedder: Embedder | None, rounds: int) -> float:
    owner = Owner(folder, embedder)
    owner.remember("latency", latest(sample_memories()))
    with owner.framing("latency") as framing:
        return _least_time(lambda: framing(_TASK, "gpt-4o", _BUDGET), rounds)


def _pair(jobs: Sequence[Callable[[], object]], rounds: int) -> tuple[float, float]:
    first, second = (_least_time(job, rounds) for job in jobs)
    return first, second


def _least_time(job: Callable[[], object], rounds: int) -> float:
    """Return the minimum processor time of a job, in milliseconds."""
    times = list[float]()
    for _ in range(max(rounds, 1)):
        start = time.process_time()
        job()
        times.append(time.process_time() - start)
    return 1000 * min(times)


PAIRS = (("Claude", "gpt-4o"), ("GPT-4", "gemini-1.5-pro"), ("Gemini", "claude-3-5-sonnet"))
"""The pairs of the paper: source model, target model."""

_THEIR_SCORES = {
    "gpt-4o": (0.87, 0.92, 0.85, 0.88),
    "gemini-1.5-pro": (0.83, 0.89, 0.81, 0.84),
    "claude-3-5-sonnet": (0.85, 0.91, 0.83, 0.86),
    "": (0.31, 0.45, 0.28, 0.35),
}
_THEIR_RHF = {25: 0.71, 50: 0.82, 75: 0.87, 100: 0.91}


def transfer_table(
    settings: Settings, source: ProbeAgent, target: ProbeAgent, sets: Sequence[ProbeSet]
) -> Table:
    """Return the table of TCS for the paper's pairs, with the baseline without memory."""
    rows, scores = list[list[Cell]](), list[Continuity]()
    for first, model in PAIRS:
        options = trial(source, target, sets=sets, model=model)
        scores = evaluate_transfer(settings, options).scores
        name = f"{source.name} to {target.name}, framed for {model} ({first} in the paper)"
        rows.append([name, *map(_tcs, scores), _within(scores[-1]), _joined(_THEIR_SCORES[model])])
    baseline = [score.baseline_tcs.value if score.baseline_tcs else None for score in scores]
    rows.append(["no memory (baseline)", *baseline, "", _joined(_THEIR_SCORES[""])])
    categories = [score.category for score in scores[:-1]]
    probes = ", ".join(f"{score.probes} {score.category}" for score in scores[:-1])
    return Table(
        name="tcs",
        title="Transfer continuity (TCS)",
        columns=["pair", *categories, OVERALL, "95 % CI", "paper"],
        rows=rows,
        note=f"Probes: {probes}; {BUDGET:,} tokens for each. The source has its whole memory as "
        f"plain text; {scores[-1].source.rate:.2f} of its answers are correct. The target has a "
        "bank that was exported, signed and imported elsewhere. Target against baseline: p = "
        f"{scores[-1].p_baseline:.2g} (exact McNemar test).",
    )


def fidelity_table(
    settings: Settings, source: ProbeAgent, target: ProbeAgent, sets: Sequence[ProbeSet]
) -> Table:
    """Return the table of RHF by budget."""
    fidelity = evaluate_fidelity(settings, trial(source, target, sets=sets, model="gpt-4o"))
    rows: list[list[Cell]] = [
        [
            level.budget,
            f"{level.share} %",
            level.rhf.value if level.rhf else None,
            f"{level.rhf.low:.2f}-{level.rhf.high:.2f}" if level.rhf else "",
            level.right.rate,
            level.verbatim,
            level.summarized,
            _THEIR_RHF.get(level.share),
        ]
        for level in reversed(fidelity.levels)
    ]
    return Table(
        name="rhf",
        title="Re-hydration fidelity (RHF) by budget",
        columns=[
            "tokens",
            "budget",
            "RHF",
            "95 % CI",
            "correct",
            "verbatim",
            "summarized",
            "paper",
        ],
        rows=rows,
        note=f"All of the memory takes {fidelity.full:,} tokens ({fidelity.tokenizer}). Answers are"
        f" compared by {fidelity.embedder}. Memories are chosen for each question.",
    )


def sessions_table(
    settings: Settings,
    source: ProbeAgent,
    target: ProbeAgent,
    sets: Sequence[ProbeSet],
    folder: Path,
) -> Table:
    """Return the table of TCS after each of several sessions, each on another machine."""
    options = trial(source, target, sets=sets, model="gpt-4o")
    longest = max(len(world.sessions) for probe_set in sets for world in probe_set.worlds)
    rows = list[list[Cell]]()
    with TemporaryDirectory(dir=folder) as path:
        owner = Owner(Path(path), comparison_embedder(settings)[0])
        for number in range(longest):
            if number:
                owner.carry(f"session-{number - 1}", f"session-{number}")
            owner.remember(
                f"session-{number}", dated_memories(sets, sessions=range(number, number + 1))
            )
            score = _score_after(owner, options, number)
            share = score.target
            rows.append([number + 1, number, score.probes, share.rate, _tcs(score), _within(score)])
    return Table(
        name="sessions",
        title="TCS over several sessions",
        columns=["sessions", "moves", "probes", "correct", "TCS", "95 % CI"],
        rows=rows,
        note="Before each session but the first, the memory is exported and imported elsewhere. "
        "The questions are about what was stored so far.",
    )


def _score_after(owner: Owner, trial: Trial, number: int) -> Continuity:
    memories = dated_memories(trial.sets, sessions=range(number + 1))
    keys = {(each.world, each.memory.key) for each in memories}
    replaced = {(each.world, each.memory.replaces or "") for each in memories}
    probes = [each for each in items(trial.sets) if _is_answerable(each, keys - replaced)]
    counter = ProgressCounter(3 * len(probes), None)
    source = with_text(trial.source, probes, in_full(memories), counter)
    with owner.framing(f"session-{number}") as framing:
        request = (trial.model, trial.budget)
        target, _ = with_memory(trial.target, probes, framing, request, counter)
    none = with_text(trial.target, probes, "", counter)
    return continuities(probes, source, target, none, trial.seed)[-1]


def _is_answerable(item: ProbeItem, keys: set[tuple[str, str]]) -> bool:
    return all((item.world, key) in keys for key in item.probe.needs)


def _tcs(score: Continuity) -> float | None:
    return score.tcs.value if score.tcs else None


def _within(score: Continuity) -> str:
    return f"{score.tcs.low:.2f}-{score.tcs.high:.2f}" if score.tcs else ""


def _joined(values: tuple[float, ...]) -> str:
    return " / ".join(f"{value:.2f}" for value in values)


OnTable = Callable[[int, int], None]
"""Called with the number of finished tables, and the total."""

_ORDER = (
    "features", "tcs", "rhf", "injection", "tampering", "tokens", "sizes", "latencies", "sessions",
)  # fmt: skip


class Paper(msgspec.Struct, frozen=True, kw_only=True):
    """All tables of the paper, for this implementation."""

    source: str
    target: str
    tables: list[Table]
    """In the order of the paper; additional tables come last."""

    example: str
    """The appendix's framed text."""

    notes: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The number of trials; the paper's by default."""

    sets: Sequence[ProbeSet] = ()
    """Empty for the built-in sets."""

    attempts: int = ATTEMPTS
    fields: int = FIELDS
    parents: int = PARENTS
    tokens: int = TOKENS
    rounds: int = ROUNDS
    """Rounds of each timed operation."""


def evaluate_paper(
    settings: Settings,
    source: ProbeAgent | None = None,
    target: ProbeAgent | None = None,
    *,
    scale: Scale | None = None,
    on_table: OnTable | None = None,
) -> Paper:
    """Measure all tables of the paper. Existing banks are not changed.

    Args:
        settings: Configuration, with the model of vectors.
        source: The agent with its whole memory; None for the reader.
        target: The agent with the transferred memory; None for the source.
        scale: The number of trials.
        on_table: Called after each table.

    Raises:
        InferenceError: If an agent does not respond.
    """
    require_owner(settings, "evaluate")
    first = source or ReaderAgent()
    second, size = target or first, scale or Scale()
    sets = tuple(size.sets) or shipped_sets()
    embedder, notes = comparison_embedder(settings)
    escapes, example_text, tables = 0, "", dict[str, Table]()
    with TemporaryDirectory(prefix="satchel-paper-") as path:
        folder = Path(path)

        def injected() -> Table:
            nonlocal escapes
            table, escapes = injection_table(second, attempts=size.attempts)
            return table

        jobs: list[Callable[[], Table]] = [
            lambda: transfer_table(settings, first, second, sets),
            lambda: fidelity_table(settings, first, second, sets),
            injected,
            lambda: tampering_table(folder, fields=size.fields, parents=size.parents),
            lambda: tokens_table(size.tokens),
            lambda: sizes_table(folder),
            lambda: latencies_table(folder, embedder, rounds=size.rounds),
            lambda: sessions_table(settings, first, second, sets, folder),
        ]
        for number, job in enumerate(jobs, start=1):
            table = job()
            tables[table.name] = table
            if on_table is not None:
                on_table(number, len(jobs))
        example_text = example(folder, embedder)
    tables["features"] = features_table(tables, escapes)
    return Paper(
        source=first.name,
        target=second.name,
        tables=[tables[name] for name in _ORDER],
        example=example_text,
        notes=notes,
    )
