"""AMA archives on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ama_kit import archive, lines, memory

if TYPE_CHECKING:
    from tests.cli.conftest import Run


def test_skipped_lines_of_an_ama_archive_are_named_with_exit_status_1(satchel: Run, tmp_path: Path) -> None:
    """Without ``--skip-bad``, the first malformed line is an error and nothing is imported."""
    rows = [b"{" if number % 2 else memory(str(number)) for number in range(30)]
    path = archive(tmp_path / "in.ama.jsonl", *rows)
    refused = satchel("import", path, "--bank", "b", "--json")
    assert (refused.status, refused.error["line"]) == (4, 3)
    done = satchel("import", path, "--bank", "b", "--skip-bad")
    assert done.status == 1
    assert "15 memories added" in done.out
    assert "lost: record, 15: malformed" in done.err
    assert "line 3: not JSON" in done.err
    assert "more: --json" in done.err
    made = satchel("convert", path, tmp_path / "out.pam", "--skip-bad", "--json")
    assert made.status == 1
    assert [one["line"] for one in made.json["refused"]] == list(range(3, 32, 2))
    shown = satchel("convert", path, tmp_path / "out2.pam", "--skip-bad")
    assert "line 3: not JSON" in shown.err


def test_ama_export_options_select_embeddings_and_entities(satchel: Run, tmp_path: Path) -> None:
    """Embeddings are omitted by default, entities included; omissions are reported."""
    row = memory(embedding=[0.5], entities=[{"name": "Noor"}])
    assert satchel("import", archive(tmp_path / "in.ama.jsonl", row), "--bank", "b").status == 0
    for number, (options, members) in enumerate(
        [
            ((), {"entities"}),
            (("--include-embeddings",), {"entities", "embedding"}),
            (("--no-include-entities",), set()),
        ]
    ):
        output = tmp_path / f"{number}.ama.jsonl"
        done = satchel("export", "--bank", "b", "--output", output, *options)
        assert done.status == 0
        assert lines(output)[1].keys() - {"id", "text"} == members
        assert ("embeddings were not exported" in done.err) is ("embedding" not in members)
