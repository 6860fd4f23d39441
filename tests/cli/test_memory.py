"""``satchel amplihack export`` and ``satchel amplihack import``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.cli.conftest import Run

SAMPLES = Path(__file__).parent.parent / "data" / "formats" / "amplihack"


def test_an_agent_survives_a_round_trip_through_a_file(satchel: Run, tmp_path: Path) -> None:
    """Under the name that is asked for, with counts that are those of the file."""
    came = satchel("amplihack", "import", "--agent", "builder", "-i", SAMPLES / "good-rust.json")
    assert came.status == 0
    assert "Source agent: harbour-agent" in came.out
    assert "semantic_nodes_imported: 3" in came.out
    assert "edges_imported: 6" in came.out
    output = tmp_path / "out.json"
    went = satchel("amplihack", "export", "--agent", "builder", "-o", output)
    assert went.status == 0
    assert "transitioned_to_edge_count: 1" in went.out

    before = json.loads((SAMPLES / "good-rust.json").read_bytes())
    after = json.loads(output.read_bytes())
    for one in (before, after):
        del one["exported_at"], one["agent_name"]
    assert after == before


def test_what_was_bad_is_named_and_makes_the_status_1(satchel: Run, tmp_path: Path) -> None:
    """Who reads only the status knows that not all of it arrived."""
    document = json.loads((SAMPLES / "good-rust.json").read_bytes())
    document["supersedes_edges"][0]["target_id"] = "nowhere"
    path = tmp_path / "in.json"
    path.write_text(json.dumps(document))
    ran = satchel("amplihack", "import", "--agent", "a", "-i", path)
    assert ran.status == 1
    assert "errors: 1" in ran.out
    assert "supersedes_edges/0/target_id: its target is not in the file: 'nowhere'" in ran.err
    accepted = satchel("amplihack", "import", "--agent", "a", "-i", path, "--accept-loss", "record")
    assert accepted.status == 0


def test_a_conflict_is_reported_with_the_first_ids(satchel: Run, tmp_path: Path) -> None:
    """Amplihack leaves the newer text out and says nothing (defect 2)."""
    first = ["amplihack", "import", "--agent", "a", "-i"]
    assert satchel(*first, SAMPLES / "good-rust.json").status == 0
    document = json.loads((SAMPLES / "good-rust.json").read_bytes())
    document["semantic_nodes"][0]["content"] = "newer"
    path = tmp_path / "in.json"
    path.write_text(json.dumps(document))
    ran = satchel(*first, path, "--merge")
    assert "other versions of what the agent had: 1" in ran.err
    assert "'sem-1' of amplihack" in ran.err
    assert satchel(*first, path, "--merge", "--on-conflict", "error").status == 1


def test_a_dry_run_changes_nothing(satchel: Run) -> None:
    """It tells what would be done."""
    path = SAMPLES / "good-rust.json"
    ran = satchel("amplihack", "import", "--agent", "a", "-i", path, "--dry-run")
    assert ran.status == 0
    assert "Would import" in ran.out
    assert satchel("amplihack", "export", "--agent", "a", "-o", "out.json").status == 2
