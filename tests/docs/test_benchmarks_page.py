"""The page of benchmarks names every one of them."""

from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def test_the_benchmarks_page_lists_every_benchmark() -> None:
    """A new file without a line in the page is noticed."""
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    files = sorted((ROOT / "benchmarks").glob("bench_*.py"))
    assert files
    assert [file.name for file in files if f"| `{file.name}` |" not in page] == []
