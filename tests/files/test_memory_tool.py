"""Claude's memory tool on memory files: the same answers as the package's own tool."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from anthropic.lib.tools import ToolError
from anthropic.tools.memory import BetaLocalFilesystemMemoryTool
from hypothesis import given, settings
from hypothesis import strategies as st

from satchel.files import MemoryStore, MemoryStoreError
from satchel.files.memory_tool import MemoryTool, async_tool_for, tool_for

_SIZE = re.compile(r"^[\d.]+[BKMG]\t", re.MULTILINE)

_TALK: list[dict[str, Any]] = [
    {"command": "view", "path": "/memories"},
    {"command": "create", "path": "/memories/a.md", "file_text": "one\ntwo\nthree\n"},
    {"command": "create", "path": "/memories/a.md", "file_text": "again"},
    {"command": "create", "path": "/memories/user/deep/er/b.md", "file_text": "x"},
    {"command": "create", "path": "/memories/.hidden", "file_text": "x"},
    {"command": "view", "path": "/memories"},
    {"command": "view", "path": "/memories/user"},
    {"command": "view", "path": "/memories/a.md"},
    {"command": "view", "path": "/memories/a.md", "view_range": [2, 3]},
    {"command": "view", "path": "/memories/a.md", "view_range": [2, -1]},
    {"command": "view", "path": "/memories/none.md"},
    {"command": "view", "path": "/elsewhere/a.md"},
    {"command": "str_replace", "path": "/memories/a.md", "old_str": "two", "new_str": "2\n2"},
    {"command": "str_replace", "path": "/memories/a.md", "old_str": "2", "new_str": "x"},
    {"command": "str_replace", "path": "/memories/a.md", "old_str": "nine", "new_str": "x"},
    {"command": "str_replace", "path": "/memories/none.md", "old_str": "a", "new_str": "x"},
    {"command": "str_replace", "path": "/memories/user", "old_str": "a", "new_str": "x"},
    {"command": "insert", "path": "/memories/a.md", "insert_line": 0, "insert_text": "top\n"},
    {"command": "insert", "path": "/memories/a.md", "insert_line": 5, "insert_text": "end"},
    {"command": "insert", "path": "/memories/a.md", "insert_line": 99, "insert_text": "x"},
    {"command": "insert", "path": "/memories/none.md", "insert_line": 0, "insert_text": "x"},
    {"command": "view", "path": "/memories/a.md"},
    {"command": "rename", "old_path": "/memories/a.md", "new_path": "/memories/user/c.md"},
    {"command": "rename", "old_path": "/memories/a.md", "new_path": "/memories/d.md"},
    {"command": "create", "path": "/memories/d.md", "file_text": "d"},
    {"command": "rename", "old_path": "/memories/d.md", "new_path": "/memories/user/c.md"},
    {"command": "rename", "old_path": "/memories/user", "new_path": "/memories/moved"},
    {"command": "view", "path": "/memories/moved/c.md"},
    {"command": "delete", "path": "/memories/moved"},
    {"command": "delete", "path": "/memories/moved"},
    {"command": "delete", "path": "/memories"},
    {"command": "view", "path": "/memories"},
]


def _answer(tool: Any, command: dict[str, Any]) -> str:
    try:
        return _SIZE.sub("SIZE\t", str(tool.call(dict(command))))
    except ToolError as error:
        return f"error: {error}"


def test_each_command_has_the_answer_of_the_package_tool(
    store: MemoryStore, tmp_path: Path
) -> None:
    """A session with both, success and failure; only the sizes of folders differ."""
    theirs, ours = BetaLocalFilesystemMemoryTool(str(tmp_path / "theirs")), tool_for(store)

    assert ours.to_dict() == theirs.to_dict()
    for command in _TALK:
        assert _answer(ours, command) == _answer(theirs, command)


_TEXTS = st.text("ab\n\r ", max_size=12)


@settings(max_examples=20)  # each of them is forced to the disk by both
@given(st.lists(st.tuples(_TEXTS, _TEXTS, st.integers(-1, 5)), max_size=4), _TEXTS)
def test_edits_have_the_same_result_as_the_package_tool(
    tmp_path_factory: pytest.TempPathFactory, edits: list[tuple[str, str, int]], text: str
) -> None:
    """Inserting and replacing, with any line ends."""
    folder = tmp_path_factory.mktemp("tools")
    theirs = BetaLocalFilesystemMemoryTool(str(folder / "theirs"))
    with MemoryStore(root=folder / "ours") as store:
        ours = tool_for(store)
        path = "/memories/a.md"
        commands: list[dict[str, Any]] = [{"command": "create", "path": path, "file_text": text}]
        for old, new, line in edits:
            if old:
                commands.append(
                    {"command": "str_replace", "path": path, "old_str": old, "new_str": new}
                )
            commands.append(
                {"command": "insert", "path": path, "insert_line": line, "insert_text": new}
            )
        for command in commands:
            assert _answer(ours, command) == _answer(theirs, command)
        assert store.read_bytes("a.md") == (folder / "theirs" / "memories" / "a.md").read_bytes()


_INSERTS = """
import sys
from satchel.files import MemoryStore
from satchel.files.memory_tool import MemoryTool
tool = MemoryTool(MemoryStore(root=sys.argv[1]))
for number in range(int(sys.argv[2])):
    tool.insert("/memories/log.md", 0, f"{sys.argv[3]} {number}")
"""


def _insert_concurrently(root: Path, each: int) -> None:
    MemoryTool(MemoryStore(root=root)).create("/memories/log.md", "start\n")
    running = [
        subprocess.Popen([sys.executable, "-c", _INSERTS, root, str(each), name])
        for name in ("one", "two")
    ]
    assert [process.wait(100) for process in running] == [0, 0]
    lines = MemoryStore(root=root).read_text("log.md").splitlines()
    assert sorted(lines) == sorted(
        ["start", *(f"{name} {number}" for name in ("one", "two") for number in range(each))]
    )


def test_two_processes_lose_no_insert(tmp_path: Path) -> None:
    """Every acknowledged insert is in the file."""
    _insert_concurrently(tmp_path / "store", 20)


@pytest.mark.prove
def test_two_processes_lose_none_of_four_hundred_inserts(tmp_path: Path) -> None:
    """The package's own backend lost 198 of them."""
    _insert_concurrently(tmp_path / "store", 200)


@pytest.mark.parametrize(
    "path", ["/memoriesX/a", "/memories/../a", "/memories/a\0b", "memories/a", "/memories/audit"]
)
def test_a_path_outside_the_mount_is_a_tool_error(store: MemoryStore, path: str) -> None:
    """So is one of the store's own files."""
    with pytest.raises(ToolError):
        tool_for(store).call({"command": "create", "path": path, "file_text": "x"})
    assert store.list_paths() == []


def test_the_tool_obeys_the_rules_of_the_store(store: MemoryStore) -> None:
    """Read-only prefixes, audit with the tool as actor, and only the prefix is visible."""
    store.write_text("memory/fact.md", "sealed")
    store.write_text("user/mine.md", "x")
    store.change_policy(read_only_prefixes=("memory/",))
    whole, part = tool_for(store), tool_for(store, prefix="user")
    with pytest.raises(ToolError, match="Permission denied"):
        whole.call({"command": "delete", "path": "/memories/memory/fact.md"})
    seen = str(part.call({"command": "view", "path": "/memories"}))

    assert "mine.md" in seen
    assert "fact" not in seen
    event = store.audit_tail_sync(1)[0]
    assert (event["op"], event["actor"]) == ("refused", "claude")


def test_the_async_tool_gives_the_same_answers(store: MemoryStore) -> None:
    """For asynchronous clients."""
    tool = async_tool_for(store)
    create = {"command": "create", "path": "/memories/a.md", "file_text": "x"}

    assert asyncio.run(tool.call(create)) == "File created successfully at: /memories/a.md"
    assert store.read_text("a.md") == "x"


def test_the_tool_saves_each_change_to_a_remote_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two tools that change one file, the second is told to try again."""
    monkeypatch.setenv("SATCHEL_HOME", str(tmp_path))
    root = f"sqlite://{tmp_path}/files.db"
    one, two = (MemoryTool(MemoryStore.get_or_create(key="k", storage_root=root)) for _ in range(2))
    one.create("/memories/a.md", "1\n")
    with pytest.raises(MemoryStoreError, match="try again"):
        two.create("/memories/a.md", "2\n")
    two.insert("/memories/a.md", 1, "2")
    one.store.refresh()

    assert one.store.read_text("a.md") == "1\n2\n"


def test_an_invalid_command_is_a_typed_error(store: MemoryStore) -> None:
    """Unknown commands and wrong arguments."""
    tool = MemoryTool(store)
    for command in ({}, {"command": "format"}, {"command": "view"}, {"command": "view", "x": 1}):
        with pytest.raises(MemoryStoreError):
            tool(command)
