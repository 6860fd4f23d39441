"""The defects of the published SDK: each has a test, and each of these tests exists."""

import ast
import json
import re
from functools import lru_cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
DEFECTS = json.loads((ROOT / "tests" / "data" / "pam_sdk_defects.json").read_text("utf-8"))
ID = re.compile(r"\b([DE])(\d{2})(?:-[DE](\d{2}))?\b|\bSEC-(\d{3})((?:/\d{3})*)|, (0\d{2})\b")


@lru_cache
def _defined(path: str) -> set[str]:
    """Return the names of the tests in a file."""
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    return {one.name for one in tree.body if isinstance(one, ast.FunctionDef)}


def ids_in(text: str) -> set[str]:
    """Return the IDs in the first column of the tables, with ranges and lists expanded."""
    found = set()
    for row in re.findall(r"^\| ([^|]+)\|", text, re.MULTILINE):
        for letter, first, last, audit, more, also in ID.findall(row):
            if letter:
                found |= {f"{letter}{n:02}" for n in range(int(first), int(last or first) + 1)}
            found |= {f"SEC-{n}" for n in (audit, also, *more.split("/")) if n}
    return found


@pytest.mark.shared
def test_every_defect_of_the_reference_is_in_the_table(shared_data: Path) -> None:
    """All reproduced defects, and all findings of the SDK's own audit."""
    reference = (shared_data.parent / "reference" / "pam-reference-sdk.md").read_text("utf-8")
    part = reference[reference.index("## 7.") : reference.index("## 8.")]
    wanted = ids_in(part)
    assert {"D01", "D46", "E02", "E19", "SEC-011", "SEC-018"} <= wanted
    wanted.add("D29")  # described in the row of D28
    assert wanted == {one["id"] for one in DEFECTS} - {"-"}


def test_every_defect_names_existing_tests() -> None:
    """A renamed or deleted test is noticed."""
    for defect in DEFECTS:
        assert defect["tests"], defect["id"]
        for named in defect["tests"]:
            path, name = named.split("::")
            assert name in _defined(path), (defect["id"], named)


def test_the_table_of_random_edits_matches_the_tests() -> None:
    """In numbers and parts; beside the results of the SDK."""
    path = "tests/hostile/test_mutations.py"
    said = {
        target.id: ast.literal_eval(one.value)
        for one in ast.parse((ROOT / path).read_text("utf-8")).body
        if isinstance(one, ast.Assign)
        for part in one.targets
        for target in ast.walk(part)
        if isinstance(target, ast.Name) and target.id in {"PARTS", "MANY", "QUICK"}
    }
    parts, (_, many) = said["PARTS"], said["MANY"]
    rows = json.loads((ROOT / "tests" / "data" / "mutations.json").read_text("utf-8"))
    assert {name for row in rows for name in row["parts"]} == {*parts, "presented"}
    for row in rows:
        for named in row["tests"]:
            assert named.split("::")[1] in _defined(path)
    table = (ROOT / "docs" / "reference" / "pam-sdk-defects.md").read_text("utf-8")
    (envelope,) = re.findall(r"^\| the statement .*$", table, re.MULTILINE)
    assert f"| {many:,} | all | 0 of 327 |" in envelope
    assert many * len(parts) == 10_000


def test_sec_003_no_dependency_is_installed_from_a_branch() -> None:
    """Every version is a released one, and tested versions are pinned."""
    for path in ("pyproject.toml", "constraints.txt"):
        text = (ROOT / path).read_text("utf-8")
        assert "git+" not in text
        assert "@main" not in text
    pins = (ROOT / "constraints.txt").read_text("utf-8").split("\n")
    assert all("==" in pin for pin in pins if pin and not pin.startswith("#"))
