"""``satchel agent``: import of agents with conflicts and with active files."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from whole_agents_kit import agent_file

from satchel.agents.workspace import is_active

if TYPE_CHECKING:
    from tests.cli.conftest import Run


IMPORT = ("agent", "import", "--no-embed", "--json")


@pytest.fixture
def second_file(satchel: Run, tmp_path: Path) -> Path:
    """Another file of an agent that already exists."""
    first = agent_file(tmp_path / "first.agent.json")
    assert satchel(*IMPORT, first).status == 0
    vectors = [{"id": "n1", "text": "The printer is upstairs.", "metadata": {}}]
    memory = {"vectors": vectors, "graph": {"nodes": [], "edges": []}}
    return agent_file(tmp_path / "again.agent.json", memory=memory)


def agents(satchel: Run) -> dict[str, str]:
    """Return the banks of the agents by their ids."""
    return {one["id"]: one["bank"] for one in satchel("agent", "list", "--json").json["agents"]}


@pytest.mark.parametrize(
    ("how", "status", "expected"),
    [
        ("prompt", 1, {0: "{0}"}),
        ("fail", 1, {0: "{0}"}),
        ("rename", 0, {0: "{0}", 2: "{0}-2"}),
        ("overwrite", 0, {0: "{0}-2"}),
        ("merge", 0, {0: "{0}"}),
    ],
)
def test_an_existing_agent_is_handled_by_on_conflict(
    satchel: Run, second_file: Path, how: str, status: int, expected: dict[int, str]
) -> None:
    """All five policies without a terminal; ``undo`` reverts the import in one step."""
    before = agents(satchel)
    (agent,) = before
    done = satchel(*IMPORT, second_file, "--on-conflict", how)
    assert done.status == status
    wanted = {f"{agent}-{number}" if number else agent: name for number, name in expected.items()}
    assert agents(satchel) == {one: name.format(agent) for one, name in wanted.items()}
    if status:
        assert "--on-conflict" in done.err
        return
    assert done.json["how"] == how
    bank = done.json["bank"]
    assert "The printer is upstairs." in satchel("list", "--bank", bank).out
    assert (
        satchel(*IMPORT, second_file, "--on-conflict", how, "--name", done.json["agent"]).json[
            "how"
        ]
        == "known"
    )
    assert satchel("undo", "--bank", bank).status == 0
    assert agents(satchel) == before
    assert "The printer is upstairs." not in satchel("list", "--bank", bank).out


def test_agent_import_prompts_only_at_a_terminal(
    satchel: Run, second_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An invalid answer, and no answer, change nothing."""
    (agent,) = agents(satchel)

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    bring = ("agent", "import", "--no-embed", second_file)
    for answer, number in (("\n", 1), ("no idea\n", 1), ("rename\n", 2)):
        monkeypatch.setattr("sys.stdin", Terminal(answer))
        monkeypatch.setattr("sys.stderr", Terminal())
        assert (satchel(*bring).status == 0) is (number == 2)
        assert len(agents(satchel)) == number
    assert f"{agent}-2" in agents(satchel)
    monkeypatch.setattr("sys.stdin", Terminal("overwrite\n"))
    assert satchel(*bring, "--json").status == 1  # a program reads the output


WHOLE = Path(__file__).parent.parent / "data" / "formats" / "aletheia" / "good-whole.agent.json"
ACTIVE = (
    ".git/hooks/post-checkout",
    "sub/.GIT/config",
    ".claude/settings.json",
    ".cursor/mcp.json",
    ".vscode/tasks.json",
    ".husky/pre-commit",
    ".envrc",
    "deep/er/.envrc",
    "Makefile",
    "package.json",
    "CLAUDE.md",
    "conftest.py",
    ".g\u200cit/hooks/pre-commit",
    ".git./config",
    ".git /config",
    "git~1/config",
    ".git::$INDEX_ALLOCATION/config",
    ".envrc.",
    "\uff4dakefile",
    ".nvim.lua",
)
PLAIN = (
    "notes/plan.md",
    "gitignored.txt",
    "src/main.py",
    "makefile.md",
    "environment.txt",
    "git~1x",
    "a.git/b",
)


@pytest.mark.parametrize("path", ACTIVE)
def test_files_that_tools_execute_or_read_as_instructions_are_active(path: str) -> None:
    """In any folder, in any case, and as other file systems normalize a name."""
    assert is_active(path)


@pytest.mark.parametrize("path", PLAIN)
def test_other_files_are_not_active(path: str) -> None:
    """Names that only look similar."""
    assert not is_active(path)


def test_attack_an_agent_file_installs_active_files(satchel: Run, tmp_path: Path) -> None:
    """Active files are skipped and named; with the flag they are written, none executable."""
    value = json.loads(WHOLE.read_text())
    files = value["workspace"]["files"]
    files |= dict.fromkeys((*ACTIVE, *PLAIN), "#!/bin/sh\ntouch /tmp/owned\n")
    source = tmp_path / "evil.agent.json"
    source.write_text(json.dumps(value))
    folder = tmp_path / "workspace"
    ran = satchel("agent", "import", source, "--name", "a", "--workspace", folder, "--no-embed")
    assert ran.status == 0
    for path in ACTIVE:
        assert path in ran.err or not path.isprintable()  # which is shown escaped
        assert not (folder / path).exists()
    assert all((folder / path).exists() for path in PLAIN)
    whole = tmp_path / "whole"
    asked = ("--name", "b", "--workspace", whole, "--no-embed", "--active-files")
    assert satchel("agent", "import", source, *asked).status == 0
    assert all((whole / path).stat().st_mode & 0o111 == 0 for path in (*ACTIVE, *PLAIN))
