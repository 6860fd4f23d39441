"""Pages of the explanation refer to existing tests and current versions."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "explanation").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_tests_named_by_a_page_exist(page: Path) -> None:
    """A statement without its test is not a tested statement."""
    names = re.findall(r"`(tests/[\w/]+\.py)`", page.read_text("utf-8"))

    assert [name for name in names if not (ROOT / name).exists()] == []


def test_each_row_of_the_threat_model_names_a_test() -> None:
    """The table has no row without one."""
    text = (ROOT / "docs" / "explanation" / "threat-model.md").read_text("utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| ")][1:]

    assert len(rows) > 8
    assert [row for row in rows if "`tests/" not in row] == []


def test_the_comparison_is_for_the_current_version() -> None:
    """It has to be reviewed before a release."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    text = (ROOT / "docs" / "explanation" / "comparison.md").read_text("utf-8")

    assert f"Satchel {project['version']}, as of" in " ".join(text.split())


def test_figures_of_the_comparison_are_in_the_benchmarks() -> None:
    """Each figure comes from a page with a benchmark."""
    text = " ".join((ROOT / "docs" / "explanation" / "comparison.md").read_text("utf-8").split())
    benchmarks = (ROOT / "docs" / "benchmarks.md").read_text("utf-8")
    recalling = (ROOT / "docs" / "guides" / "recalling.md").read_text("utf-8")
    ratio = re.search(r"takes Satchel ([\d.]+) times", text)
    shares = re.findall(r"(?<!\d)\.\d\d\b", text)

    assert ratio is not None
    assert f"| appending 100,000 entries | {ratio[1]} times" in benchmarks
    assert len(shares) == 3
    assert all(f"| {share} |" in recalling for share in shares)


def test_the_list_of_decisions_has_each_decision_once() -> None:
    """With its title; a superseded one is marked there and in its head."""
    folder = ROOT / "docs" / "decisions"
    listed = re.findall(
        r"^- \[(\d+)\. (.*?)\]\((0\d+-[\w-]+\.md)\)( \((?:partly )?superseded by [^)]+\))?$",
        (folder / "README.md").read_text("utf-8"),
        re.MULTILINE,
    )

    assert sorted(name for _, _, name, _ in listed) == sorted(
        path.name for path in folder.glob("0*.md")
    )
    for number, title, name, superseded in listed:
        head = (folder / name).read_text("utf-8")[:400]
        assert head.startswith(f"# {number}. {title}\n"), name
        marks = re.findall(r"^\*\*((?:Partly s|S)uperseded) by \[", head, re.MULTILINE)
        assert marks == ([superseded[2:].split(" by ")[0].capitalize()] if superseded else []), name


@pytest.mark.parametrize(
    "page", sorted((ROOT / "docs" / "decisions").glob("0*.md")), ids=lambda page: page.stem
)
def test_a_decision_is_at_most_a_page(page: Path) -> None:
    """At most 60 lines."""
    assert len(page.read_text("utf-8").splitlines()) <= 60
