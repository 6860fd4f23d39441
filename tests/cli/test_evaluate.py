"""``satchel evaluate``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from evaluation_kit import small_set

if TYPE_CHECKING:
    from tests.cli.conftest import Run


def test_evaluate_tcs_prints_a_table_and_writes_a_page(satchel: Run, tmp_path: Path) -> None:
    """The page is overwritten only on request."""
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


def test_evaluate_paper_prints_all_tables(satchel: Run, tmp_path: Path) -> None:
    """With the example at the end."""
    shown = satchel("evaluate", "paper", "--probes", small_set(tmp_path), "--trials", "2")
    assert shown.status == 0
    heads = ["Features", "TCS", "RHF", "Injection", "Tamper", "Token", "Sizes", "Latency"]
    assert [head for head in [*heads, "several sessions"] if head not in shown.out] == []
    assert "4.2 million" in shown.out.rpartition("Example")[2]


def test_a_failing_agent_is_exit_status_5(satchel: Run, tmp_path: Path) -> None:
    """The error names it."""
    probes = small_set(tmp_path)
    ran = satchel("evaluate", "tcs", "--probes", probes, "--target", "command:false")
    assert ran.status == 5
    assert "false" in ran.err
