"""One vocabulary for all user-visible text: help, errors, output, guides and test names.

The words to avoid are those of the table in the design page on language. The sources themselves are
scanned: every string of more than one word, docstrings, the texts of the web page, the guides, and
names of tests.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src" / "satchel").rglob("*.py"))
FOLDERS = ("tutorials", "guides", "python", "explanation")
PAGES = [
    ROOT / "README.md",
    *(path for name in FOLDERS for path in sorted((ROOT / "docs" / name).glob("*.md"))),
]
GENERATED = [
    path
    for path in sorted((ROOT / "docs" / "reference").glob("*.md"))
    if path.name != "python-results.md"  # made of docstrings, which count in their rooms
]
ASSETS = [
    path
    for path in sorted((ROOT / "src" / "satchel" / "web").iterdir())
    if path.suffix in {".js", ".html"}
]

WORDS_TO_AVOID = {
    "prove": r"\b(?:proves?|proved|proving)\b",
    "hold (verify)": r"\b(?:do|does|did) not hold\b|\bheld back\b",
    "leave out": r"\bleaves? (?:\w+ ){0,4}out\b|\bleft out\b|\b(?:stays?|left) behind\b",
    "come along": r"\b(?:comes?|came|goes|go|going|went|takes?|handed|sent) along\b",
    "the last first": r"\bthe last first\b",
    "put up with": r"\bputs? up with\b",
    "give way": r"\bgives? way\b|(?<![\w-])--over\b",
    "go on": r"\b(?:go|goes|going|went|gone) on\b",
    "would do": r"\bwould (?:not )?do\b",
    "door": r"\bdoors?\b",
    "in front of a model": r"\bin front of (?:a|the) models?\b|\bw[ao]kes? up\b|\bwaking up\b",
    "leaves its record": r"\bnothing leaves\b",
    "say, tell": r"\bSay (?:which|what|so|it|for|once|one|--)|\btold of\b|\bg[ia]ves? back\b",
    "look at": r"\blook(?:s|ed|ing)? (?:at|through)\b",
    "fall away": r"\bfalls? away\b",
    "who": r"\bsomebody\b|\bwhoever\b|\bwhom\b",
    "the start of that": r"\bthe start of that\b|\bis the start of\b",
    "anew": r"\banew\b",
    "at once (concurrent)": r"\bworked on together\b|\brequests at once\b",
    "meanwhile": r"\bmeanwhile\b",
}
"""Patterns by their name in the design page."""

WORDS = re.compile("|".join(WORDS_TO_AVOID.values()), re.IGNORECASE)

CODE = re.compile(r"`[^`\n]+`")
"""Inline code: names are not sentences."""

ALLOWED = {
    "evaluation": "texts of attacks, conversations and probes are data",
    "conformance": "texts of samples are data",
    "inference/entities.py": "word lists of natural language",
    "inference/distillers.py": "cues of natural language, and a prompt",
    "recall/near_duplicates.py": "word lists of natural language",
    "stores/text_search.py": "word lists of natural language",
    "stores/postgres/statements.py": "comments of SQL, which the database keeps",
    "formats": "patterns and texts of other products",
}
"""Folders and files whose texts are data or another product's, and why."""

ROOMS = {
    room: [path for path in SOURCES if path.relative_to(SOURCES[0].parent).parts[0] == room]
    for room in {path.relative_to(SOURCES[0].parent).parts[0] for path in SOURCES}
}
"""The sources by the folder or module right below the package."""


def _texts(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the strings with a space in a module, except docstrings, with their lines."""
    tree = _tree(path)
    docstrings = {id(node) for node in _docstrings(tree)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or id(node) in docstrings:
            continue
        if isinstance(node.value, str) and " " in node.value:
            yield node.lineno, node.value


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def _docstrings(tree: ast.AST) -> Iterator[ast.Constant]:
    """Yield the docstrings of modules, classes, functions and constants."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            yield node.value


def _is_data(path: Path) -> bool:
    place = path.relative_to(ROOT / "src" / "satchel").as_posix()
    return any(place == name or place.startswith(f"{name}/") for name in ALLOWED)


def _violations(path: Path, texts: Iterator[tuple[int, str]]) -> list[str]:
    """Return the words to avoid in the texts, with their lines."""
    return [
        f"{path.relative_to(ROOT)}:{line}: {match[0]!r} in {text.strip()[:100]!r}"
        for line, text in texts
        if (match := WORDS.search(text))
    ]


def test_messages_and_help_are_in_the_vocabulary() -> None:
    """Every string of a module that users may see."""
    found = [
        line for path in SOURCES if not _is_data(path) for line in _violations(path, _texts(path))
    ]
    assert found == [], "\n".join(found)


def test_guides_are_in_the_vocabulary() -> None:
    """And the README; a sentence may span lines."""
    found = [
        line
        for path in PAGES
        for line in _violations(path, enumerate(CODE.sub("", path.read_text()).split("\n\n"), 1))
    ]
    assert found == [], "\n".join(found)


def test_generated_pages_are_in_the_vocabulary() -> None:
    """They consist of help, docstrings of errors, and tables."""
    found = [
        line
        for path in GENERATED
        for line in _violations(path, enumerate(CODE.sub("", path.read_text()).splitlines(), 1))
    ]
    assert found == [], "\n".join(found)


def test_names_of_tests_are_in_the_vocabulary() -> None:
    """A test name is a sentence that people read when it fails."""
    names = [
        name.replace("_", " ")
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        for name in re.findall(r"def (test_\w+)", path.read_text())
    ]
    assert [name for name in names if WORDS.search(name)] == []


@pytest.mark.parametrize("room", sorted(ROOMS))
def test_docstrings_of_a_room_are_in_the_vocabulary(room: str) -> None:
    """Of modules, classes, functions and constants."""
    found = [
        line
        for path in ROOMS[room]
        for line in _violations(
            path,
            ((node.lineno, str(node.value)) for node in _docstrings(_tree(path))),
        )
    ]
    assert found == [], "\n".join(found)


@pytest.mark.parametrize(
    "text",
    [
        "every read is proved",
        "the signature does not hold",
        "leave the format out",
        "3 embeddings are left out",
        "put up with a field",
        "Say which: a, b",
        "somebody else did it meanwhile",
        "begin it anew",
        "the doors",
        "memory put in front of a model",
    ],
)
def test_the_vocabulary_check_finds_each_pattern(text: str) -> None:
    """A pattern that never matches would accept everything."""
    assert WORDS.search(text)


@pytest.mark.parametrize("text", ["a Merkle proof", "proof of possession", "outdoors", "goes once"])
def test_the_vocabulary_check_accepts_words_of_the_field(text: str) -> None:
    """Words that only look similar."""
    assert not WORDS.search(text)
