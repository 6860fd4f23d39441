"""``bank.code``: the code graph from Python."""

import asyncio
from pathlib import Path

import pytest
from code_kit import SAMPLES, written

import satchel
from satchel import aio
from satchel.api.asynchronous import Code as AwaitedCode
from satchel.api.bank import Code
from satchel.errors import ContainmentError, UnknownCodeError


def test_recall_returns_the_indexed_code_of_a_memory(tmp_path: Path) -> None:
    """With the same results as the command."""
    with satchel.Satchel.open() as store:
        bank = store.create_bank("coder")
        bank.remember("Cart.total must round down")
        done = bank.code.index(SAMPLES / "python", name="shop")
        assert done.tree.files == 4
        (memory,) = bank.recall("round").memories
        assert [one.name for one in memory.code] == ["Cart.total"]
        assert bank.recall("round", code=False).memories[0].code == []
        found = bank.code.query(callers_of="price_of")
        assert [edge.of.name for edge in found.edges if edge.of] == ["Cart.total"]
        (shown,) = bank.code.show("Cart.total")
        assert [one.text for one in shown.memories] == ["Cart.total must round down"]
        assert [tree.name for tree in bank.code.trees()] == ["shop"]
        bank.code.drop("shop")
        with pytest.raises(UnknownCodeError):
            bank.code.show("Cart.total")
    assert tmp_path.is_dir()


def test_a_folder_outside_the_roots_is_not_indexed(tmp_path: Path) -> None:
    """Neither by its path nor through a link."""
    folder = written(tmp_path / "in" / "t", {"a.py": "def a(): ...\n"})
    outside = written(tmp_path / "out", {"b.py": "def b(): ...\n"})
    (tmp_path / "in" / "link").symlink_to(outside)
    roots = [tmp_path / "in"]
    with satchel.Satchel.open() as store:
        code = store.create_bank("coder").code
        with pytest.raises(ContainmentError):
            code.index(folder, roots=[])
        for place in (outside, tmp_path / "in" / ".." / "out"):
            with pytest.raises(ContainmentError):
                code.index(place, roots=roots)
        with pytest.raises(satchel.errors.PathRefusedError):
            code.index(tmp_path / "in" / "link", roots=roots)
        assert code.index(folder, roots=roots).tree.files == 1
        assert code.index(tmp_path / "in", roots=roots).links == 1


def test_ignore_files_outside_the_roots_are_not_read(tmp_path: Path) -> None:
    """Those in folders above the root have no effect."""
    folder = written(
        tmp_path / "repo",
        {".git/HEAD": "", ".gitignore": "a.py\n", "pkg/a.py": "def a(): ...\n"},
    )
    with satchel.Satchel.open() as store:
        code = store.create_bank("coder").code
        assert code.index(folder / "pkg", roots=[folder / "pkg"]).tree.files == 1


def test_code_has_an_async_version_of_each_method() -> None:
    """With the same names."""

    async def run() -> int:
        async with aio.Satchel.open() as store:
            bank = await store.create_bank("coder")
            done = await bank.code.index(SAMPLES / "go")
            await bank.code.show("Cart.Total")
            return done.tree.files

    assert asyncio.run(run()) == 3
    calls = {name for name in dir(Code) if not name.startswith("_")}
    assert calls == {name for name in dir(AwaitedCode) if not name.startswith("_")}
