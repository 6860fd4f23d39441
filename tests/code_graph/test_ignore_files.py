"""Ignore files have the semantics of git."""

import subprocess
from pathlib import Path

import pytest
from code_kit import Coded, written
from hypothesis import example, given, settings
from hypothesis import strategies as st

from satchel.code_graph.folders import IgnoreRules, part_matches, patterns_of
from satchel.stores.memory import InMemoryStore

PART = st.text("ab*?[]!-\\. #", min_size=1, max_size=6)
LINE = st.lists(st.one_of(PART, st.just("**")), min_size=1, max_size=4).map("/".join)
PATTERN = st.tuples(
    st.sampled_from(["", "!", "/", "\\"]), LINE, st.sampled_from(["", "/", " ", "\\ "])
).map("".join)
PATHS = ["aa", "b.py", "a/b", "a/a.b/b", "ab/b", "b/a/b/a", "ab a/b", "#a", "!a", "a-b/[b]", "a\\b"]


def is_ignored(text: str, path: str) -> bool:
    """Return whether a path is ignored, with the folders above it."""
    parts, rules = tuple(path.split("/")), IgnoreRules().with_patterns(patterns_of(text))
    for depth in range(1, len(parts) + 1):
        if rules.ignore(parts[:depth], folder=depth < len(parts)):
            return True
        rules = rules.below()
    return False


def ignored_by_git(folder: Path, text: str) -> set[str]:
    """Return the paths that git ignores."""
    (folder / ".gitignore").write_text(text)
    words = ["git", "-c", "core.excludesFile=/dev/null", "check-ignore", "-z", "--no-index"]
    done = subprocess.run(
        [*words, "--stdin"],
        cwd=folder,
        input="\0".join(PATHS).encode() + b"\0",
        capture_output=True,
        check=False,
    )
    assert done.returncode in {0, 1}, done.stderr
    return set(filter(None, done.stdout.decode().split("\0")))


@settings(max_examples=60)
@example(lines=["[a/]"])
@example(lines=["[!/b/]*"])
@given(lines=st.lists(PATTERN, min_size=1, max_size=4))
def test_any_pattern_ignores_the_same_paths_as_git(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str]
) -> None:
    """Of the special characters, compared with git."""
    folder = _repository(tmp_path_factory)
    text = "\n".join(lines) + "\n"
    assert {path for path in PATHS if is_ignored(text, path)} == ignored_by_git(folder, text)


_made: list[Path] = []


def _repository(factory: pytest.TempPathFactory) -> Path:
    if not _made:
        folder = factory.mktemp("repository")
        subprocess.run(["git", "init", "-q", str(folder)], check=True)
        _made.append(written(folder, dict.fromkeys(PATHS, "")))
    return _made[0]


@pytest.mark.parametrize(
    ("text", "path", "ignored"),
    [
        ("*.py\n!keep.py\n", "a/keep.py", False),
        ("*.py\n!keep.py\n", "a/other.py", True),
        ("/top.py\n", "a/top.py", False),
        ("build/\n", "src/build/x.py", True),
        ("build/\n", "build", False),
        ("a/**/z.py\n", "a/z.py", True),
        ("a/**/z.py\n", "a/b/c/z.py", True),
        ("**/gen/**\n", "x/gen/y.py", True),
        ("doc/*.py\n", "doc/a/b.py", False),
        ("x[0-9].py\n", "x5.py", True),
        ("x[!0-9].py\n", "x5.py", False),
        ("\\#a\n", "#a", True),
        ("# a\n", "# a", False),
        ("a \n", "a", True),
        ("é*.py\n", "été.py", True),
    ],
)
def test_patterns_match_as_documented_by_git(text: str, path: str, ignored: bool) -> None:  # noqa: FBT001 - a column of the table
    """Negation, anchors, folders, stars, sets, escapes and comments."""
    assert is_ignored(text, path) is ignored


def test_nested_ignore_files_override_those_above(tmp_path: Path) -> None:
    """The nearest file with a matching pattern decides."""
    files = {
        ".gitignore": "*.gen.py\nbuild/\n",
        "a/.gitignore": "!wanted.gen.py\n/only_here.py\n",
        "a/wanted.gen.py": "def wanted(): ...\n",
        "a/other.gen.py": "def other(): ...\n",
        "a/only_here.py": "def only_here(): ...\n",
        "a/b/only_here.py": "def deeper(): ...\n",
        "build/x.py": "def built(): ...\n",
        "c/.satchelignore": "secret.py\n",
        "c/secret.py": "def secret(): ...\n",
        "c/shown.py": "def shown(): ...\n",
    }
    coded = Coded(InMemoryStore())
    coded.read(written(tmp_path / "t", files))
    assert coded.names() == ["function deeper", "function wanted", "function shown"]


def test_ignore_files_above_the_indexed_folder_apply(tmp_path: Path) -> None:
    """As for the whole repository."""
    files = {
        ".git/info/exclude": "local.py\n",
        ".gitignore": "/pkg/out.py\n*.tmp.py\n",
        "pkg/out.py": "def out(): ...\n",
        "pkg/x.tmp.py": "def tmp(): ...\n",
        "pkg/local.py": "def local(): ...\n",
        "pkg/in.py": "def inside(): ...\n",
    }
    coded = Coded(InMemoryStore())
    coded.read(written(tmp_path / "t", files) / "pkg")
    assert coded.names() == ["function inside"]


def test_generated_files_are_skipped_by_default(tmp_path: Path) -> None:
    """Installed packages, environments, compiled files, and the repository's own."""
    files = {
        "node_modules/x/index.js": "function a() {}",
        "env/pyvenv.cfg": "",
        "env/lib/y.py": "def b(): ...",
        "__pycache__/z.py": "def c(): ...",
        ".git/hook.py": "def d(): ...",
        "own.py": "def own(): ...",
    }
    coded = Coded(InMemoryStore())
    coded.read(written(tmp_path / "t", files))
    assert coded.names() == ["function own"]


def test_a_newly_ignored_file_is_removed_from_the_index(tmp_path: Path) -> None:
    """Like a deleted one."""
    coded = Coded(InMemoryStore())
    folder = written(tmp_path / "t", {"a.py": "def a(): ...", "b.py": "def b(): ..."})
    coded.read(folder)
    done = coded.read(written(folder, {".gitignore": "a.py"}))
    assert (done.removed, coded.names()) == (1, ["function b"])


@given(st.text("a", max_size=40), st.text("*a", max_size=24))
def test_stars_match_any_run_of_characters(name: str, pattern: str) -> None:
    """With stars at least as many letters as in the pattern, else exactly as many."""
    least = pattern.count("a")
    expected = len(name) >= least if "*" in pattern else len(name) == least
    assert part_matches(pattern, name) is expected
