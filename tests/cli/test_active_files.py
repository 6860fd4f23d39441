"""``agent import``: active workspace files are written only on request."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from satchel.agents.workspace import is_active

if TYPE_CHECKING:
    from tests.cli.conftest import Run

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
