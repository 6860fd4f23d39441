"""Naming rules of modules, classes and errors, and of committed files."""

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import satchel
from benchmarks.layout import Layout
from benchmarks.trace import traced
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


LONGEST = 800
LONG_FILES = {"errors.py", "memory_store.py"}
"""One tree of errors; one class with the names of ``flyte.ai.agents.memory``."""

FILES_OF = {
    "remember": 49,
    "recall": 54,
    "import": 102,
    "export": 68,
    "backup run": 49,
    "file write": 55,
}
"""Most files that the six commands of ``python -m benchmarks.trace`` may run (decision 140)."""


@cache
def layout() -> Layout:
    """Return the parsed sources, read by the first test that needs them."""
    return Layout(_SRC / "satchel")


IDIOM = re.compile(
    r"_?(Asked|Beside|Brought|Carried|Drawn|Found|Given|Gone|Held|Kept|Leaving|Left|Meant|Said|Seen"
    r"|Taken|Told|Wanted|Works)"
)
"""Class names that do not describe a value."""


def test_modules_are_named_with_nouns() -> None:
    """A module is a noun of the field or the command it carries; no gerund, no participle."""
    assert layout().participles() == []


def test_scripts_of_the_web_page_are_named_with_nouns() -> None:
    """The same rule for the JavaScript modules."""
    stems = {path.stem for path in (_SRC / "satchel" / "web").glob("*.js")}

    assert "page" in stems
    assert {stem for stem in stems if stem.endswith(("ing", "ed"))} == set()


def test_class_names_are_nouns_of_the_field() -> None:
    """No ``Asked``, ``Found`` or ``Kept``."""
    assert [name for name in layout().classes() if IDIOM.fullmatch(name)] == []


def test_variables_have_specific_names() -> None:
    """No ``found``, ``one`` or ``there`` over more than three lines."""
    assert [f"{path}:{line} {name}" for path, line, name in layout().vague_variables()] == []


def test_public_class_names_are_unique() -> None:
    """Except for asynchronous variants, and for the record that is a bank's first leaf."""
    others = {
        name: [module for module in modules if module != "satchel.api.asynchronous"]
        for name, modules in layout().classes().items()
    }

    assert {name for name, modules in others.items() if len(modules) > 1} == {"Bank"}


def test_rooms_do_not_import_each_other() -> None:
    """The order is in ``pyproject.toml``; this test requires that there is one."""
    rooms = layout().rooms()

    assert [pair for pair in rooms if pair[::-1] in rooms] == []


def test_a_folder_has_at_least_three_modules() -> None:
    """The files of the web page are not modules."""
    folders = Counter(p.parent for p in layout().files if p.name != "__init__.py")

    assert {p.name for p, count in folders.items() if count < 3} == set()


def test_a_command_runs_functions_of_few_files(tmp_path: Path) -> None:
    """The number of files for each command may only shrink."""
    files = {
        name: len({file for file, _ in functions}) for name, functions in traced(tmp_path).items()
    }

    slow = 1  # a run that waits or takes over a second calls a file more
    assert {name: count for name, count in files.items() if count > FILES_OF[name] + slow} == {}


def test_a_file_has_at_most_800_lines() -> None:
    """With named exceptions."""
    lines = {p: p.read_text("utf-8").count("\n") for p in layout().files}

    assert {p.name for p, count in lines.items() if count > LONGEST} == LONG_FILES


def test_no_module_has_a_generic_name() -> None:
    """Such as ``util`` or ``core``."""
    assert [p for p in _SRC.rglob("*.py") if p.stem.strip("_") in _BANNED] == []


def test_every_module_has_a_docstring() -> None:
    """The first statement of a module is its docstring."""
    first = re.compile(r'(?:\s|#[^\n]*\n)*[rR]?"""\s*[^\s"]')
    assert [p for p in _SRC.rglob("*.py") if not first.match(p.read_text())] == []
    assert not first.match('import re\n\n"""Too late."""\n')


def test_every_error_has_a_unique_code() -> None:
    """And a documented exit status."""
    found = list(_below(errors.SatchelError))
    codes = [cls.code for cls in found]

    assert len(codes) == len(set(codes))
    assert {cls.exit_status for cls in found} <= {1, 2, 3, 4, 5}


def _below(top: type[errors.SatchelError]) -> Iterator[type[errors.SatchelError]]:
    yield top
    for cls in top.__subclasses__():
        yield from _below(cls)


def test_every_exported_name_resolves() -> None:
    """Each name in ``__all__`` resolves."""
    assert [name for name in satchel.__all__ if getattr(satchel, name, None) is None] == []


def test_no_committed_file_contains_a_path_of_a_machine() -> None:
    """Neither sources, docs nor settings."""
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
