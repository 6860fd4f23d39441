"""The shape rules: files a person reads in one go, names that say something."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import satchel
from satchel import errors

_ROOT = Path(__file__).parent.parent
_SRC = _ROOT / "src"
_BANNED = {
    "util",
    "utils",
    "helper",
    "helpers",
    "common",
    "base",
    "core",
    "manager",
    "misc",
    "shared",
}


def test_no_source_file_is_over_400_lines() -> None:
    """Split by responsibility before that."""
    long = {p.name: n for p in _SRC.rglob("*.py") if (n := len(p.read_text().splitlines())) > 400}

    assert long == {}


def test_no_source_folder_has_over_12_modules() -> None:
    """Group by responsibility before that."""
    crowded = {
        str(folder): n
        for folder in [p for p in _SRC.rglob("*") if p.is_dir()]
        if (n := len(list(folder.glob("[a-z]*.py")))) > 12
    }

    assert crowded == {}


def test_no_module_has_a_name_that_says_nothing() -> None:
    """A newcomer finds a room by its name."""
    assert [p for p in _SRC.rglob("*.py") if p.stem.strip("_") in _BANNED] == []


def test_every_module_says_what_it_is_for() -> None:
    """The first statement of a module is its docstring."""
    assert [p for p in _SRC.rglob("*.py") if not ast.get_docstring(ast.parse(p.read_text()))] == []


def test_every_error_is_in_one_tree_with_a_code_of_its_own() -> None:
    """Codes are stable and unique; every exit status is one of the documented ones."""
    found = list(_below(errors.SatchelError))
    codes = [cls.code for cls in found]

    assert len(codes) == len(set(codes))
    assert {cls.exit_status for cls in found} <= {1, 2, 3, 4, 5}


def _below(top: type[errors.SatchelError]) -> Iterator[type[errors.SatchelError]]:
    yield top
    for cls in top.__subclasses__():
        yield from _below(cls)


def test_everything_the_package_offers_can_be_had() -> None:
    """Each name in ``__all__`` resolves."""
    assert [name for name in satchel.__all__ if getattr(satchel, name, None) is None] == []


def test_nothing_committed_names_a_machine() -> None:
    """No absolute path of somebody's machine is in the sources, docs or settings."""
    path = re.compile(r"(?<![\w.])/(?:work|root|home/\w+|farm|Users/\w+)/")
    kept = [
        p
        for folder in ("src", "tests", "docs", "examples", "benchmarks", ".ci", "changes")
        for p in (_ROOT / folder).rglob("*")
        if p.is_file()
        and p.suffix in {".py", ".md", ".toml", ".json", ".mjs", ".txt", ""}
        and "results" not in p.parts
        and p != Path(__file__)
    ]

    assert [p for p in kept if path.search(p.read_text("utf-8", "replace"))] == []
