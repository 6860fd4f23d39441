"""One vocabulary for all user-visible text: help, errors, output, guides and test names.

The words to avoid are those of the table in the design page on language. The sources themselves are
scanned: every string of more than one word, docstrings, the texts of the web page, the guides, and
names of tests. Spelling is American everywhere (decision 141).
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
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "RELEASING.md")),
    *(ROOT / "docs" / name for name in ("architecture.md", "benchmarks.md")),
    *sorted((ROOT / "examples").glob("*.[mp]*[dy]")),
    *sorted((ROOT / "src" / "satchel" / "setup" / "plugin").rglob("*.md")),
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

BRITISH = (
    *(
        f"{verb}is{ending}"
        for verb in (
            *("author", "categor", "critic", "custom", "emphas", "final", "general", "initial"),
            *("maxim", "minim", "normal", "optim", "organ", "priorit", "real", "recogn", "serial"),
            *("special", "standard", "summar", "synchron", "token", "util", "visual"),
        )
        for ending in "aei"
    ),
    *("behaviour", "colour", "favour", "flavour", "honour", "labour", "neighbour", "rumour"),
    *("labelled", "modelled", "modelling", "signalled", "signalling", "travelled", "travelling"),
    *("catalogue", "analogue", "acknowledgement", "judgement", "artefact", "defence", "licence"),
    *("analysed", "analyser", "analysing", "centre", "fibre", "metre", "theatre"),
    *("amongst", "burnt", "grey", "learnt", "sceptic", "spelt", "spoilt", "towards", "whilst"),
)
"""Stems of British spellings. Not ``cancelled``, which asyncio and gRPC spell so."""

AS_STORED = re.compile(r'"organisation"|"catalogue[/"]|"learnt"')
"""Names on disk: a type of entity, a folder of backup destinations, a member of files."""

TEXT = re.compile(r'(?<!")"(?!")[^"\n]+"(?!")')
"""A string in one line; in tests, such strings are texts of conversations, too."""

BRITISH_DATA = {
    "src/satchel/inference/entities.py": "word lists of natural language",
    "docs/decisions/0141-american-spelling.md": "the words that it decides about",
    "tests/docs/test_vocabulary.py": "this list",
}
"""Files that contain British words on purpose, and why. Folders of data are not read."""


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


def _spelled() -> list[Path]:
    """Return the files whose spelling is checked: sources, pages, schemas, tests."""
    patterns = {
        "src": ("*.py", "*.js", "*.html", "*.css"),
        "docs": ("*.md", "*.py", "*.css"),
        "tests": ("*.py",),
        "benchmarks": ("*.py", "*.md"),
        "examples": ("*.py", "*.md"),
        "release": ("*.py", "*.md"),
        "changes": ("*.md",),
        "schemas": ("*.json", "*.py"),
    }
    return [
        *sorted(ROOT.glob("*.md")),
        *(
            path
            for folder, kinds in patterns.items()
            for kind in kinds
            for path in sorted((ROOT / folder).rglob(kind))
            if "data" not in path.parts and "vectors" not in path.parts
        ),
    ]


def _british(text: str) -> str | None:
    """Return a British stem in a text."""
    lowered = text.lower().replace("aria-labelledby", "").replace("greyhound", "")
    return next((stem for stem in BRITISH if stem in lowered), None)


def test_spelling_is_american() -> None:
    """In names, comments and sentences; texts that the tests give to the package are data."""
    found = []
    for path in _spelled():
        name, content = path.relative_to(ROOT).as_posix(), path.read_text()
        if name in BRITISH_DATA or not _british(content):
            continue
        data = TEXT if name.startswith("tests/") else AS_STORED
        found += [
            f"{name}:{number}: {stem!r} in {line.strip()[:100]!r}"
            for number, line in enumerate(content.splitlines(), 1)
            if (stem := _british(data.sub("", line)))
        ]
    assert found == [], "\n".join(found)


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


@pytest.mark.parametrize(
    "text",
    [
        "recognise it",
        "_ORGANISATIONS",
        "summariser_of",
        "ChatSummariser",
        "an initialised bank",
        "COLOURS",
        "Neighbourhood",
        "open_catalogue",
        "labelled parts",
        "a judgement",
        "towards the limit",
        "was learnt",
        "an artefact",
    ],
)
def test_british_spellings_are_found(text: str) -> None:
    """In names and in sentences."""
    assert _british(text)


@pytest.mark.parametrize(
    "text",
    [
        "cancelled",
        "aria-labelledby",
        "an organism",
        "promise",
        "otherwise",
        "analyses",
        "programmed",
    ],
)
def test_words_that_only_look_british_pass(text: str) -> None:
    """American English has them, too, or a standard spells them so."""
    assert not _british(text)
