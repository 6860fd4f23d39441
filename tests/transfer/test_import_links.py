"""Imports of linked records: parents, and the ends of edges."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from import_kit import bring, killed, opened, owner

import satchel
from benchmarks.bench_amplihack import write_agent
from satchel.artifact.verification import Outcome
from satchel.config.settings import load_settings
from satchel.model.records import Edge, Entry
from satchel.ports.rows import Filter
from satchel.transfer.import_results import ConflictPolicy
from satchel.transfer.imports import list_jobs, resume_job

SAMPLES = Path(__file__).parent.parent / "data" / "formats" / "amplihack"
RUST = SAMPLES / "good-rust.json"


def count_links(bank: str = "b") -> Counter[tuple[str, str, str]]:
    """Return the links among current records by origin IDs; both ends must exist."""
    with opened(bank) as there, there.ledger.reading() as view:
        found = list(view.scan(Filter()))
    names = {one.record.id: _name(one.model) for one in found if isinstance(one.model, Entry)}
    count = Counter[tuple[str, str, str]]()
    for one in found:
        if isinstance(one.model, Edge):
            count[one.model.kind, names[one.model.source], names[one.model.target]] += 1
        elif isinstance(one.model, Entry):
            count.update(
                ("parent", names[one.record.id], names[parent]) for parent in one.model.parent_ids
            )
    return count


def _name(model: Any) -> str:
    return str(model.origin.id)


def test_imported_links_refer_to_the_records_of_the_bank() -> None:
    """By their IDs in the bank, each once."""
    bring(RUST)
    found = count_links()
    assert found["parent", "sem-1", "epi-1"] == 1
    assert found["parent", "sem-2", "epi-2"] == 1
    assert found["similar_to", "sem-3", "sem-1"] == 1
    assert sum(found.values()) == 8


def test_a_killed_import_is_resumed_with_the_same_links(tmp_path: Path) -> None:
    """Records that were resealed are resealed the same way."""
    bring(RUST, agent="agent")
    source = write_agent(tmp_path / "many.json", 100)
    killed(source, at=0, agent="agent")
    assert sum(count_links().values()) == 8, "nothing of it is visible"

    (job,) = [one for one in list_jobs(load_settings()) if one.state != "running"]
    done = resume_job(load_settings(), job.id, owner)
    assert done.banks[0].resumed > 0
    assert sum(count_links().values()) == 8 + 3 * 100
    again = bring(source, agent="agent").banks[0].done
    assert (again.known, again.others_known, again.added + again.others) == (125, 200, 0)


def test_an_artifact_of_a_file_has_valid_links(tmp_path: Path) -> None:
    """They survive a conversion, an import, and an export."""
    satchel.convert(RUST, tmp_path / "x.pam.jsonl")
    bring(tmp_path / "x.pam.jsonl", unsafe_accept=frozenset({Outcome.UNSIGNED}))
    assert sum(count_links().values()) == 8

    satchel.convert(tmp_path / "x.pam.jsonl", tmp_path / "y.amplihack.json")
    assert (tmp_path / "y.amplihack.json").read_bytes() == RUST.read_bytes()


@pytest.mark.parametrize("policy", ["skip", "overwrite", "rename"])
def test_new_edges_refer_to_the_result_of_a_conflict(tmp_path: Path, policy: str) -> None:
    """To the existing version, the new one, or the one with a new ID."""
    bring(RUST)
    document = json.loads(RUST.read_bytes())
    document["semantic_nodes"][0]["content"] = "newer"
    edge = {"source_id": "sem-1", "target_id": "sem-3", "weight": 0.25, "metadata": {}}
    document["similar_to_edges"].append(edge)
    path = tmp_path / "x.json"
    path.write_text(json.dumps(document))
    bring(path, on_conflict=ConflictPolicy(policy))

    name = "sem-1~2" if policy == "rename" else "sem-1"
    assert count_links()["similar_to", name, "sem-3"] == 1


def test_a_different_edge_is_its_own_conflict(tmp_path: Path) -> None:
    """Counted next to those of memories, and handled by the same policy."""
    bring(RUST)
    document = json.loads(RUST.read_bytes())
    document["similar_to_edges"][0]["weight"] = 0.125
    path = tmp_path / "x.json"
    path.write_text(json.dumps(document))
    left = bring(path).banks[0]
    assert (left.done.skipped, left.done.others_skipped, left.done.others_known) == (0, 1, 5)
    assert left.conflicts == ['\'["sem-2","sem-1"]\' of amplihack']

    taken = bring(path, on_conflict=ConflictPolicy.OVERWRITE).banks[0].done
    assert (taken.overwritten, taken.others_overwritten, taken.others) == (0, 1, 1)
    with opened() as there, there.ledger.reading() as view:
        edges = [one.model for one in view.scan(Filter(types=frozenset({"edge"})))]
    assert 0.125 in [one.weight for one in edges if isinstance(one, Edge)]
    assert len(edges) == 6


def test_a_duplicate_edge_in_a_file_counts_once(tmp_path: Path) -> None:
    """As a merge elsewhere may leave them."""
    document = json.loads(RUST.read_bytes())
    document["supersedes_edges"] *= 3
    path = tmp_path / "x.json"
    path.write_text(json.dumps(document))
    done = bring(path).banks[0].done
    assert (done.others, done.others_twice) == (6, 2)


def test_the_receipt_counts_records_by_type_and_edges(tmp_path: Path) -> None:
    """Read, planned, written and read back, for edges as for memories."""
    del tmp_path
    first, second = bring(RUST).accounts[0], bring(RUST).accounts[0]
    assert first.counts["edge"].written == first.counts["edge"].read_back == 6
    assert first.done["others"] == 6
    assert second.done == {"known": 5, "others_known": 6}
