"""The command line of the measurements: what is printed, and the page beside it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from evaluating_kit import small_set

if TYPE_CHECKING:
    from tests.cli.conftest import Run


def test_a_score_is_printed_with_its_page(satchel: Run, tmp_path: Path) -> None:
    """A table for people; a page that is not replaced unless that is asked for."""
    page = tmp_path / "tcs.html"
    words = ["evaluate", "tcs", "--probes", small_set(tmp_path), "--page", page, "--no-vectors"]
    shown = satchel(*words)
    assert shown.status == 0
    assert "TCS" in shown.out
    assert "small" in shown.out
    assert str(page) in shown.err
    assert "<svg" in page.read_text()
    assert satchel(*words).status == 5
    assert satchel(*words, "--overwrite").status == 0


def test_all_tables_of_the_paper_are_printed(satchel: Run, tmp_path: Path) -> None:
    """By the option as by the command, with the example at the end."""
    shown = satchel("evaluate", "paper", "--probes", small_set(tmp_path), "--trials", "2")
    assert shown.status == 0
    heads = ["Features", "TCS", "RHF", "Injection", "Tamper", "Token", "Sizes", "Latency"]
    assert [head for head in [*heads, "several sessions"] if head not in shown.out] == []
    assert "4.2 million" in shown.out.rpartition("Example")[2]


def test_an_agent_that_fails_is_a_target_that_failed(satchel: Run, tmp_path: Path) -> None:
    """With its name."""
    probes = small_set(tmp_path)
    ran = satchel("evaluate", "tcs", "--probes", probes, "--target", "command:false")
    assert ran.status == 5
    assert "false" in ran.err
