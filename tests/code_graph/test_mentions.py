"""Mentions of code in the text of memories."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from code_kit import Coded, written
from hypothesis import given
from hypothesis import strategies as st

from satchel.code_graph.index import Side
from satchel.code_graph.mentions import MOST_WORDS, contexts, mentions, words_of
from satchel.stores.memory import InMemoryStore

TREE = {
    "src/app/config.py": (
        "class Config:\n    def load(self): ...\n    def _read(self): ...\n\n\n"
        "def parse_config(text): ...\n\n\ndef retry(): ...\n\n\ndef run(): ...\n"
    ),
    "src/app/store.py": (
        "class Store:\n    def load(self): ...\n\n\ndef fetchRows(): ...\n\n\ndef größe(): ...\n"
    ),
    "src/app/one.py": "def handle(): ...\n",
    "src/app/two.py": "def handle(): ...\n",
    "src/app/three.py": "def handle(): ...\n",
}


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Coded:
    """A bank with the index of a small program."""
    coded = Coded(InMemoryStore())
    coded.read(written(tmp_path_factory.mktemp("app"), TREE))
    return coded


def mentioned(app: Coded, text: str) -> list[str]:
    """Return what a text mentions."""
    with app.graph() as graph:
        return [
            one.path if one.node is None else one.node.symbol.qualified
            for one in mentions(graph, text, 10)
        ]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("parse_config is called twice", ["parse_config"]),
        ("do not parse_configs", []),
        ("reparse_config", []),
        ("my_parse_config", []),
        ("see `parse_config`, please", ["parse_config"]),
        ("parse_config()", ["parse_config"]),
        ("函数parse_config要先调用", ["parse_config"]),
        ("Config.load is slow", ["Config.load"]),
        ("Config::load is slow", ["Config.load"]),
        ("app.config.Config.load", ["Config.load"]),
        ("src/app/config.py: it is old", ["src/app/config.py"]),
        ("config.py:12", ["src/app/config.py"]),
        ("other/config.py", []),
        ("https://example.com/config.py", []),
        ("Store.load and Config.load differ", ["Store.load", "Config.load"]),
        ("Other.load", []),
        ("client.fetchRows() fails", ["fetchRows"]),
        ("the retry must stop", ["retry"]),
        ("Retry later", []),
        ("the function run", ["run"]),
        ("the run function", ["run"]),
        ("run for your life", []),
        ("handle this with care", []),
        ("handle() is there three times", ["handle", "handle", "handle"]),
        ("the size is größe", ["größe"]),
        ("nothing of code here", []),
        ("", []),
    ],
)
def test_symbols_are_mentioned_by_whole_words_and_qualified_names(
    app: Coded, text: str, names: list[str]
) -> None:
    """A part of a word is not a mention; an ordinary word is one only if it is rare."""
    assert mentioned(app, text) == names


def test_the_most_explicit_mentions_come_first(app: Coded) -> None:
    """Qualified names and files, then identifiers, then plain words."""
    text = "the retry in fetchRows goes through Config.load of store.py"
    assert mentioned(app, text) == ["Config.load", "src/app/store.py", "fetchRows", "retry"]


def test_context_has_signature_position_and_callers(tmp_path: Path) -> None:
    """With the number of omitted and of possible callers."""
    calls = "".join(f"def c{number}(): work()\n" for number in range(7))
    files = {"a.py": "def work():\n    '''Do it.'''\n" + calls, "b.py": "def may(x): x.work()\n"}
    files["a.py"] += "class A:\n    def work(self): ...\n"
    coded = Coded(InMemoryStore())
    coded.read(written(tmp_path / "t", files))
    with coded.graph() as graph:
        one, other = contexts(graph, "the function work")
    assert (one.signature, one.doc, one.path, one.line) == ("def work()", "Do it.", "a.py", 1)
    assert one.callers == [f"c{number} (a.py:{number + 3})" for number in range(5)]
    assert (one.more_callers, one.may_call) == (2, 0)
    assert (other.name, other.callers, other.may_call) == ("A.work", [], 1)
    assert one.lines()[0] == "def work()  (a.py:1)"


@given(st.text(max_size=80))
def test_any_text_can_be_scanned(app: Coded, text: str) -> None:
    """Each symbol found is in the text."""
    with app.graph() as graph:
        for one in mentions(graph, text, 10):
            assert one.node is None or one.node.symbol.name in text


def test_attack_a_text_of_many_names_is_bounded() -> None:
    """A memory with a name in every word."""
    assert len(words_of(" ".join(f"name_{number}" for number in range(50_000)))) == MOST_WORDS


class RecordingSide:
    """Passes reads on, and records their names."""

    def __init__(self, side: Side) -> None:
        self._side = side
        self.names = list[str]()

    def __call__(self, name: str) -> Mapping[str, bytes]:
        """Read."""
        self.names.append(name)
        return self._side(name)


def test_the_cost_of_a_text_does_not_depend_on_the_size_of_the_tree(tmp_path: Path) -> None:
    """In values read: the same for a tree ten times as large."""
    reads = []
    for size in (64, 640):
        files = {f"m{number}.py": f"def function_{number}(): ...\n" for number in range(size)}
        coded = Coded(InMemoryStore())
        coded.read(written(tmp_path / str(size), files))
        with coded.graph() as graph:
            tree = graph.trees[0]
            noted = RecordingSide(tree._side)
            tree._side = noted
            assert len(mentions(graph, "function_7 then function_8, not function_9999", 10)) == 2
            reads.append(len(noted.names))
    assert reads[1] <= reads[0] + 2
