"""The index of a source tree: incremental, concurrent, resumable and rebuildable."""

import os
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from code_kit import Coded, written
from hypothesis import given
from hypothesis import strategies as st

from satchel.code_graph import index
from satchel.code_graph.facts import Facts, SourceFile
from satchel.code_graph.folders import SourceFolder
from satchel.errors import ChangedError, StoreError
from satchel.ports.code_context import HEADS
from satchel.runtime.contained_folder import ContainedFolder
from satchel.stores.memory import InMemoryStore

TREE = {
    "app/__init__.py": "",
    "app/one.py": "def first():\n    return second()\n\n\ndef second():\n    return 1\n",
    "app/two.py": "from app.one import first\n\n\ndef third():\n    return first()\n",
    "web/main.js": "function start() { return 1 }\n",
}


def set_old_times(folder: Path, *names: str) -> None:
    """Set the modification times of files to an hour ago."""
    old = time.time() - 3600
    for path in [folder / name for name in names] or sorted(folder.rglob("*")):
        if path.is_file():
            os.utime(path, (old, old))


class CountingFolder(SourceFolder):
    """A folder that records which files are opened and parsed."""

    def __init__(self, folder: ContainedFolder) -> None:
        super().__init__(folder)
        self.opened = list[str]()
        self.parsed = list[str]()

    def digest(self, offer: SourceFile) -> bytes:
        """As ``SourceFolder``."""
        self.opened.append(offer.path)
        return super().digest(offer)

    def facts(self, offer: SourceFile) -> Facts:
        """As ``SourceFolder``."""
        self.parsed.append(offer.path)
        return super().facts(offer)


def update_counted(coded: Coded, folder: Path) -> CountingFolder:
    """Update the index, and return the folder with its records."""
    with ContainedFolder(folder) as held:
        source = CountingFolder(held)
        coded.read_from(source)
        return source


def stored_values(coded: Coded) -> dict[str, bytes]:
    """Return all stored values of code except for the heads, which have times."""
    with coded.ledger.reading() as view:
        kept = view.side("code/")
        return {name: value for name, value in kept.items() if not name.startswith(HEADS)}


def facts_and_names(coded: Coded) -> tuple[dict[str, Facts], dict[str, Any]]:
    """Return the facts of all files, and the files of all names."""
    with coded.ledger.reading() as view:
        (head,) = index.stored_heads(view.side)
        facts = {
            path: index.facts_from(raw)
            for part in range(head.parts)
            for path, raw in index.raw_facts(view.side, head, part).items()
        }
        return facts, dict(index.every_name(view.side, head))


def test_a_new_tree_is_read_completely(coded: Coded, tmp_path: Path) -> None:
    """On every store."""
    done = coded.read(written(tmp_path / "t", TREE))
    assert (done.read, done.unchanged, done.head.files, done.head.symbols) == (4, 0, 4, 4)
    assert coded.names() == [
        *("function first", "function second", "function third", "function start"),
    ]


def test_an_unchanged_file_is_not_opened(coded: Coded, tmp_path: Path) -> None:
    """Its size and times are compared."""
    folder = written(tmp_path / "t", TREE)
    set_old_times(folder)
    assert len(update_counted(coded, folder).parsed) == 4
    again = update_counted(coded, folder)
    assert (again.opened, again.parsed) == ([], [])


def test_a_touched_file_is_not_parsed(coded: Coded, tmp_path: Path) -> None:
    """Its digest is compared, and its new times are stored."""
    folder = written(tmp_path / "t", TREE)
    update_counted(coded, folder)
    set_old_times(folder)
    touched = update_counted(coded, folder)
    assert (len(touched.opened), touched.parsed) == (4, [])
    assert update_counted(coded, folder).opened == []


def test_only_a_changed_file_is_parsed_again(coded: Coded, tmp_path: Path) -> None:
    """Its old symbols and the links to them are removed."""
    folder = written(tmp_path / "t", TREE)
    set_old_times(folder)
    coded.read(folder)
    assert coded.callers("first") == ["two.py:third"]
    written(folder, {"app/one.py": "def renamed():\n    return 1\n"})
    assert update_counted(coded, folder).parsed == ["app/one.py"]
    assert coded.names() == ["function renamed", "function third", "function start"]
    assert coded.calls("third") == {"first": ("", [])}


def test_a_call_resolves_to_a_symbol_added_in_another_file(coded: Coded, tmp_path: Path) -> None:
    """Links between files are not stored, so the file with the call is not read again."""
    folder = written(tmp_path / "t", {**TREE, "app/one.py": "x = 1\n"})
    set_old_times(folder)
    coded.read(folder)
    assert coded.calls("third") == {"first": ("", [])}
    written(folder, {"app/one.py": "def first(): ...\n"})
    assert update_counted(coded, folder).parsed == ["app/one.py"]
    assert coded.calls("third") == {"first": ("import", ["one.py:first"])}


def test_a_removed_file_removes_its_symbols(coded: Coded, tmp_path: Path) -> None:
    """As does a move."""
    folder = written(tmp_path / "t", TREE)
    coded.read(folder)
    (folder / "app/one.py").rename(folder / "app/three.py")
    (folder / "web/main.js").unlink()
    done = coded.read(folder)
    assert done.removed == 2
    assert coded.one("first").path == "app/three.py"
    with coded.graph() as graph:
        assert graph.find("start") == []


def test_ids_do_not_change_if_a_symbol_moves_in_its_file(coded: Coded, tmp_path: Path) -> None:
    """An ID has tree, path, qualified name and kind."""
    folder = written(tmp_path / "t", TREE)
    coded.read(folder)
    before = coded.one("second")
    written(folder, {"app/one.py": "\n\n\nX = 1\n" + TREE["app/one.py"]})
    coded.read(folder)
    after = coded.one("second")
    assert before.id == after.id == "t/app/one.py#second:function"
    assert after.symbol.first == before.symbol.first + 4


def test_symbols_with_the_same_name_in_a_file_have_different_ids(
    coded: Coded, tmp_path: Path
) -> None:
    """The second one has a number, for example an overload."""
    source = "if x:\n    def f(): ...\nelse:\n    def f(a): ...\n"
    coded.read(written(tmp_path / "t", {"a.py": source}))
    with coded.graph() as graph:
        ids = [node.id for node in graph.find("f")]
    assert ids == ["t/a.py#f:function", "t/a.py#f:function~2"]


def test_two_trees_of_a_bank_are_independent(coded: Coded, tmp_path: Path) -> None:
    """They are indexed, queried and removed separately."""
    coded.read(written(tmp_path / "a", {"x.py": "def f(): ...\n"}), "a")
    coded.read(written(tmp_path / "b", {"x.py": "def f(): ...\n\n\nf()\n"}), "b")
    with coded.graph() as graph:
        one, other = graph.find("f")
        assert [len(list(graph.callers(node))) for node in (one, other)] == [0, 1]
    with coded.ledger.reading() as view:
        head = index.stored_heads(view.side)[0]
    index.remove(coded.store, coded.ledger, head)
    assert [tree_number(each) for each in stored_values(coded)] == ["0001"] * len(
        stored_values(coded)
    )
    assert coded.one("f").tree == "b"


def tree_number(name: str) -> str:
    """Return the number of the tree in the name of a value."""
    return name.split("/")[2]


def test_an_index_writes_no_records(coded: Coded, tmp_path: Path) -> None:
    """It can be rebuilt from the tree."""
    with coded.ledger.reading() as view:
        before = view.head
    coded.read(written(tmp_path / "t", TREE))
    with coded.ledger.reading() as view:
        assert view.head == before


def test_the_number_of_parts_follows_the_size_of_the_tree(coded: Coded, tmp_path: Path) -> None:
    """In both directions, without loss."""
    files = {f"m{number}.py": f"def f{number}(): ...\n" for number in range(100)}
    folder = written(tmp_path / "t", dict(list(files.items())[:3]))
    assert coded.read(folder).head.parts == 1
    written(folder, files)
    done = coded.read(folder)
    assert (done.head.parts, done.head.symbols) == (16, 100)
    assert len(coded.names()) == 100
    for number in range(2, 100):
        (folder / f"m{number}.py").unlink()
    done = coded.read(folder)
    assert (done.head.parts, coded.names()) == (1, ["function f0", "function f1"])


@pytest.mark.parametrize("after", range(1, 6))
def test_a_killed_indexing_run_is_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    """After any write; the result equals a full index."""
    files = {f"m{number}.py": f"def f{number}(): f{number + 1}()\n" for number in range(60)}
    folder = written(tmp_path / "t", files)
    set_old_times(folder)
    coded = Coded(InMemoryStore())
    coded.read(folder)
    changed = {f"m{number}.py": f"def g{number}(): g{number + 1}()\n" for number in range(0, 60, 2)}
    written(folder, {**changed, "new.py": "def new(): g0()\n"})
    monkeypatch.setattr(index, "_TOGETHER", 1)  # each part in a write of its own
    writes = 0

    def dying(self: Any, head: Any) -> None:
        nonlocal writes
        writes += 1
        if writes > after:
            raise KeyboardInterrupt
        real(self, head)

    real = index._UpdateAttempt._write
    monkeypatch.setattr(index._UpdateAttempt, "_write", dying)
    with pytest.raises(KeyboardInterrupt):
        coded.read(folder)
    monkeypatch.setattr(index._UpdateAttempt, "_write", real)
    with coded.ledger.reading() as view:
        assert not index.stored_heads(view.side)[0].whole
    coded.names()  # queries work in the meantime
    done = coded.read(folder)
    fresh = Coded(InMemoryStore())
    fresh.read(folder)
    assert done.head.whole
    assert facts_and_names(coded) == facts_and_names(fresh)


def test_concurrent_updates_of_one_tree_do_not_mix(tmp_path: Path) -> None:
    """The slower one starts again, and finds the update done."""
    coded, folder = Coded(InMemoryStore()), written(tmp_path / "t", TREE)
    coded.read(folder)
    written(folder, {"app/one.py": "def changed(): ...\n"})
    others = [partial(coded.read, folder)]

    class OvertakenFolder(SourceFolder):
        def facts(self, offer: SourceFile) -> Facts:
            found = super().facts(offer)
            for other in others[:]:
                others.remove(other)
                other()
            return found

    with ContainedFolder(folder) as held:
        coded.read_from(OvertakenFolder(held))
    fresh = Coded(InMemoryStore())
    fresh.read(folder)
    assert facts_and_names(coded) == facts_and_names(fresh)


def test_two_trees_indexed_concurrently_get_separate_numbers(tmp_path: Path) -> None:
    """The second one does not replace the first one."""
    coded = Coded(InMemoryStore())
    one = written(tmp_path / "one", {"a.py": "def one(): ...\n"})
    other = written(tmp_path / "other", {"b.py": "def other(): ...\n"})
    others = [partial(coded.read, other, "other")]

    class OvertakenFolder(SourceFolder):
        def offers(self) -> Iterator[SourceFile]:
            yield from super().offers()
            while others:
                others.pop()()

    with ContainedFolder(one) as held:
        coded.read_from(OvertakenFolder(held), "one")
    with coded.graph() as graph:
        assert [node.id for node in graph.symbols("*")] == [
            *("one/a.py#one:function", "other/b.py#other:function"),
        ]


def test_a_damaged_head_is_rebuilt(tmp_path: Path) -> None:
    """A query reports the damage, and an update repairs it."""
    coded, folder = Coded(InMemoryStore()), written(tmp_path / "t", TREE)
    coded.read(folder)
    with coded.store.writing() as writing:
        writing.put_side(coded.ledger.bank, {index.head_name(0): b"{"})
    with pytest.raises(StoreError, match="damaged"):
        coded.names()
    coded.read(folder)
    assert len(coded.names()) == 4


def test_an_update_that_is_always_overtaken_is_an_error(tmp_path: Path) -> None:
    """It does not retry forever."""
    coded, folder = Coded(InMemoryStore()), written(tmp_path / "t", TREE)

    class OvertakenFolder(SourceFolder):
        def offers(self) -> Iterator[SourceFile]:
            yield from super().offers()
            coded.read(folder)

    with ContainedFolder(folder) as held, pytest.raises(ChangedError):
        coded.read_from(OvertakenFolder(held))


def test_damaged_values_are_reported_and_rebuilt(tmp_path: Path) -> None:
    """The typed error suggests --rebuild."""
    coded, folder = Coded(InMemoryStore()), written(tmp_path / "t", TREE)
    coded.read(folder)
    with coded.store.writing() as writing:
        values = writing.side(coded.ledger.bank, "code/facts/")
        writing.put_side(coded.ledger.bank, dict.fromkeys(values, b"\xc1damaged"))
    with pytest.raises(StoreError, match="damaged") as caught:
        coded.names()
    assert "--rebuild" in str(caught.value.hint)
    coded.read(folder, rebuild=True)
    assert len(coded.names()) == 4


def test_an_index_of_an_older_version_is_read_again(tmp_path: Path) -> None:
    """This version may read more from the same file."""
    coded, folder = Coded(InMemoryStore()), written(tmp_path / "t", TREE)
    set_old_times(folder)
    coded.read(folder)
    with coded.ledger.reading() as view:
        (head,) = index.stored_heads(view.side)
    with coded.store.writing() as writing:
        older = msgspec.structs.replace(head, make=head.make - 1)
        value = index.encoded_head(older)
        writing.put_side(coded.ledger.bank, {index.head_name(head.number): value})
    assert len(update_counted(coded, folder).parsed) == 4


NAMES = [f"d{folder}/m{number}.py" for folder in range(2) for number in range(4)]
CONTENTS = st.sampled_from(
    [
        "def f(): g()\n",
        "def g(): f()\n",
        "class C:\n    def f(self): self.g()\n",
        "from d0.m1 import f as other\nother()\n",
        "not python at all (\n",
        "",
    ]
)


@given(st.lists(st.dictionaries(st.sampled_from(NAMES), st.none() | CONTENTS), max_size=5))
def test_incremental_changes_equal_a_full_index(
    tmp_path_factory: pytest.TempPathFactory, steps: list[dict[str, str | None]]
) -> None:
    """For any sequence of added, changed and removed files."""
    folder = tmp_path_factory.mktemp("t")
    written(folder, {"always.py": "def always(): ...\n"})
    coded = Coded(InMemoryStore())
    for step in steps:
        for name, said in step.items():
            if said is None:
                (folder / name).unlink(missing_ok=True)
            else:
                written(folder, {name: said})
        coded.read(folder)
    coded.read(folder)
    fresh = Coded(InMemoryStore())
    fresh.read(folder)
    assert facts_and_names(coded) == facts_and_names(fresh)
