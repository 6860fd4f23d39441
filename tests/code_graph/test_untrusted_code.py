"""Attacks by untrusted source trees: nothing is run or followed, and everything is bounded."""

import os
import sys
from pathlib import Path

import pytest
from code_kit import Coded, written
from hypothesis import given
from hypothesis import strategies as st

from satchel.code_graph import folders
from satchel.code_graph.languages import _grammar
from satchel.code_graph.languages.language import NAMES, UnparsedError, language_called
from satchel.errors import LimitError
from satchel.runtime import files
from satchel.stores.memory import InMemoryStore

DEEP = 100_000
ENDINGS = {"python": "py", "javascript": "js", "typescript": "ts", "tsx": "tsx"} | {
    "go": "go",
    "rust": "rs",
    "java": "java",
}


@pytest.fixture
def bank() -> Coded:
    """A bank without code."""
    return Coded(InMemoryStore())


@pytest.mark.parametrize(
    "source",
    [
        "(" * DEEP,
        "[" * DEEP + "]" * DEEP,
        "-" * DEEP + "1",
        "a" + ".a" * DEEP,
        "f" + "()" * DEEP,
        "1" + "+1" * DEEP,
        "lambda:" * DEEP + "1",
        "not " * DEEP + "1",
        "if 1:\n pass\n" + "elif 1:\n pass\n" * (DEEP // 10),
        "\n".join(" " * depth + "if 1:" for depth in range(200)),
    ],
    ids=[
        *("brackets", "closed", "signs", "dots", "calls", "sums", "lambdas", "nots"),
        *("elifs", "indents"),
    ],
)
def test_attack_deeply_nested_python_is_reported(bank: Coded, tmp_path: Path, source: str) -> None:
    """The other files are read."""
    done = bank.read(written(tmp_path / "t", {"deep.py": source, "ok.py": "def ok(): ...\n"}))
    assert [path for path, _ in done.findings] == ["deep.py"]
    assert bank.names() == ["function ok"]


@pytest.mark.in_check(20)
@pytest.mark.parametrize("language", sorted(set(NAMES) - {"python"}))
@pytest.mark.parametrize("source", ["(", "{", "[", "f(", "a.", "class A{", "!", "x?", "<A>", "/*"])
def test_attack_deeply_nested_code_of_other_languages_is_read(
    bank: Coded, tmp_path: Path, language: str, source: str
) -> None:
    """Without recursion, so without overflow."""
    name = f"deep.{ENDINGS[language]}"
    done = bank.read(written(tmp_path / "t", {name: source * 3_000, "ok.py": "def ok(): ...\n"}))
    assert done.head.files == 2
    assert "function ok" in bank.names()


@pytest.mark.parametrize(
    "source",
    [
        b"\xff\xfe\x00def",
        b"def f():\n    return '\xff'\n",
        b"# -*- coding: utf-7 -*-\ndef f(): ...\n",
        b"# -*- coding: nonesuch -*-\n",
        b"def f(): ...\n\0",
        b"x = " + b"a" * 900_000,
        b"def " + b"f" * 900_000 + b"(): ...\n",
        b"def f(" + b"a," * 30_000 + b"): ...\n",
        b"\xef\xbb\xbfdef f(): ...\n",
        b"print 'two'\n",
    ],
    ids=["utf16", "latin", "utf7", "codec", "nul", "line", "name", "arguments", "bom", "py2"],
)
def test_attack_odd_encodings_and_huge_lines_are_read_or_reported(
    bank: Coded, tmp_path: Path, source: bytes
) -> None:
    """Names and signatures stay short."""
    done = bank.read(written(tmp_path / "t", {"odd.py": source, "ok.py": "def ok(): ...\n"}))
    assert done.head.files == 2
    with bank.graph() as graph:
        for node in graph.symbols("*"):
            assert len(node.symbol.name) + len(node.symbol.signature) < 1000


@pytest.mark.parametrize("language", sorted(NAMES))
@given(data=st.binary(max_size=300))
def test_any_bytes_are_read_or_refused_in_every_language(language: str, data: bytes) -> None:
    """As a typed error."""
    try:
        found = language_called(language).read(data)
    except UnparsedError:
        return
    assert found.language == language
    assert all(symbol.owner < number for number, symbol in enumerate(found.symbols))


def test_attack_symbolic_links_are_counted_and_not_followed(bank: Coded, tmp_path: Path) -> None:
    """To the reader's keys, or to the tree itself."""
    outside = written(tmp_path / "outside", {"secret.py": "def secret(): ...\n"})
    folder = written(tmp_path / "t", {"ok.py": "def ok(): ...\n"})
    (folder / "file.py").symlink_to(outside / "secret.py")
    (folder / "folder").symlink_to(outside)
    (folder / "loop").symlink_to(folder)
    (folder / ".gitignore").symlink_to(outside / "secret.py")
    bank.read(folder)
    assert bank.names() == ["function ok"]


def test_attack_a_folder_replaced_by_a_link_is_not_followed(
    bank: Coded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the listing and the opening."""
    outside = written(tmp_path / "outside", {"a.py": "def secret(): ...\n"})
    folder = written(tmp_path / "t", {"in/a.py": "def inside(): ...\n", "ok.py": "def ok(): ...\n"})
    real = files.open_folder

    def exchanging(path: Path, *, within: int) -> int:
        if path.name == "in" and not (folder / "in").is_symlink():
            (folder / "in").rename(folder / "out")
            (folder / "in").symlink_to(outside)
        return real(path, within=within)

    monkeypatch.setattr(files, "open_folder", exchanging)
    done = bank.read(folder)
    assert bank.names() == ["function ok"]
    assert [path for path, _ in done.findings] == ["in"]


def test_attack_pipes_and_folders_named_like_sources_are_skipped(
    bank: Coded, tmp_path: Path
) -> None:
    """A read of the pipe would not end."""
    folder = written(tmp_path / "t", {"ok.py": "def ok(): ...\n", "dir.py/in.py": "x = 1\n"})
    os.mkfifo(folder / "pipe.py")
    assert bank.read(folder).head.files == 2


def test_attack_a_file_over_the_limit_is_reported_and_skipped(bank: Coded, tmp_path: Path) -> None:
    """Also one that grew since it was read."""
    folder = written(tmp_path / "t", {"big.py": "def small(): ...\n", "ok.py": "def ok(): ...\n"})
    bank.read(folder)
    (folder / "big.py").write_bytes(b"#" * (folders.LARGEST_FILE + 1))
    done = bank.read(folder)
    assert [path for path, _ in done.findings] == ["big.py"]
    assert bank.names() == ["function ok"]


def test_attack_deeply_nested_folders_are_reported_and_skipped(bank: Coded, tmp_path: Path) -> None:
    """Beyond the maximum depth."""
    deep = "/".join(["d"] * (folders.DEEPEST + 5)) + "/x.py"
    done = bank.read(written(tmp_path / "t", {deep: "x = 1\n", "ok.py": "def ok(): ...\n"}))
    assert [why for _, why in done.findings] == [f"more than {folders.DEEPEST} folders deep"]
    assert bank.names() == ["function ok"]


def test_attack_too_many_files_are_refused(
    bank: Coded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number of files is bounded."""
    monkeypatch.setattr(folders, "MOST_FILES", 5)
    folder = written(tmp_path / "t", {f"{number}.py": "" for number in range(6)})
    with pytest.raises(LimitError):
        bank.read(folder)


@pytest.mark.skipif(sys.platform == "darwin", reason="its file system has Unicode names only")
def test_attack_names_that_are_not_unicode_are_reported_and_skipped(
    bank: Coded, tmp_path: Path
) -> None:
    """And names with a backslash."""
    folder = written(tmp_path / "t", {"ok.py": "def ok(): ...\n"})
    (folder / os.fsdecode(b"\xff.py")).write_text("def odd(): ...\n")
    (folder / "back\\slash.py").write_text("def odd(): ...\n")
    done = bank.read(folder)
    assert len(done.findings) == 2
    assert bank.names() == ["function ok"]


def test_attack_an_ignore_file_cannot_make_matching_slow(bank: Coded, tmp_path: Path) -> None:
    """Patterns that make a backtracking matcher exponential."""
    files = {
        ".gitignore": "*a" * 60 + "b\n" + "**/a/" * 60 + "b\n",
        "/".join(["a"] * 40) + "/" + "a" * 200 + ".py": "def ok(): ...\n",
    }
    bank.read(written(tmp_path / "t", files))  # bounded by the time limit of tests
    assert bank.names() == ["function ok"]


def test_a_secret_in_a_signature_or_docstring_is_redacted(bank: Coded, tmp_path: Path) -> None:
    """It would be sent to every model that gets memories as context."""
    key = "sk-ant-api03-" + "abcdefghij0123456789" * 4
    files = {"a.py": f'def f(key="{key}"):\n    """Use {key}."""\n'}
    bank.read(written(tmp_path / "t", files))
    with bank.ledger.reading() as view:
        assert not [name for name, kept in view.side("code/").items() if key.encode() in kept]
    assert "[REDACTED:" in bank.one("f").symbol.signature


def test_attack_cyclic_inheritance_ends(bank: Coded, tmp_path: Path) -> None:
    """Also a search for a method that no class has."""
    source = "class A(B):\n    def f(self): self.g()\n\n\nclass B(A): ...\n"
    bank.read(written(tmp_path / "t", {"a.py": source}))
    assert bank.calls("A.f") == {"self.g": ("", [])}


def test_a_missing_language_is_reported_with_its_install_command(
    bank: Coded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other languages are read, and skipped files are counted."""
    monkeypatch.setitem(sys.modules, "tree_sitter_go", None)
    _grammar._language.cache_clear()
    folder = written(tmp_path / "t", {"a.go": "package a\n", "ok.py": "def ok(): ...\n"})
    try:
        done = bank.read(folder)
    finally:
        _grammar._language.cache_clear()
    assert (done.needs, done.hint) == ({"go": 1}, "pip install 'satchel[code]'")
    assert bank.names() == ["function ok"]
    monkeypatch.undo()
    again = bank.read(folder)
    assert (again.read, again.needs) == (1, {})
