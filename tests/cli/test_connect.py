"""``satchel connect``: agent hosts are configured, and their other settings preserved."""

from __future__ import annotations

import json
import os
import subprocess
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Run


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home directory."""
    found = tmp_path / "person"
    found.mkdir()
    monkeypatch.setenv("HOME", str(found))
    return found


@pytest.mark.parametrize(
    ("host", "file"),
    [
        ("claude-code", ".claude.json"),
        ("codex", ".codex/config.toml"),
        ("cursor", ".cursor/mcp.json"),
        ("gemini", ".gemini/settings.json"),
    ],
)
def test_connect_adds_and_removes_the_entry_of_a_host(
    satchel: Run, home: Path, host: str, file: str
) -> None:
    """A second run changes nothing; removal restores the file."""
    path = home / file
    path.parent.mkdir(exist_ok=True)
    before = '# mine\nmodel = "x"\n' if file.endswith("toml") else '{\n  "model": "x"\n}\n'
    path.write_text(before)
    assert satchel("connect", host, "--bank", "ada").status == 0
    read = tomllib.loads if file.endswith("toml") else json.loads
    value = read(path.read_text())
    servers = value["mcp_servers" if host == "codex" else "mcpServers"]
    assert servers["satchel"]["args"][-3:] == ["mcp", "--bank", "ada"]
    assert value["model"] == "x"
    assert path.with_name(path.name + ".before-satchel").read_text() == before
    again = path.read_bytes()
    assert "up to date" in satchel("connect", host, "--bank", "ada").out
    assert path.read_bytes() == again
    assert satchel("connect", host, "--remove").status == 0
    assert path.read_text() == before
    assert [one.name for one in path.parent.iterdir() if one.is_file()] == [path.name]


def test_the_configured_command_starts_the_server(satchel: Run, home: Path) -> None:
    """As written in the file, without a shell."""
    assert satchel("connect", "cursor").status == 0
    entry = json.loads((home / ".cursor/mcp.json").read_bytes())["mcpServers"]["satchel"]
    words = [entry["command"], *entry["args"], "--tools"]
    ran = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
    assert "remember" in ran.stdout


def test_connect_writes_the_id_of_the_default_bank(satchel: Run, home: Path) -> None:
    """So a later default does not change the host's bank; ``--bank`` overrides it."""
    assert satchel("remember", "Ada likes tea.").status == 0
    assert satchel("bank", "create", "other").status == 0
    assert satchel("bank", "use", "other").status == 0
    lines = json.loads(satchel("--json", "bank", "list").out)["banks"]
    (chosen,) = (line["id"] for line in lines if line.get("default"))
    assert satchel("connect", "cursor", "--bank", "ada").status == 0
    assert _cursor(home)["args"][-3:] == ["mcp", "--bank", "ada"]
    assert satchel("connect", "cursor").status == 0
    entry = _cursor(home)
    assert entry["args"][-3:] == ["mcp", "--bank", chosen]
    first = next(line["id"] for line in lines if not line.get("default"))
    assert satchel("bank", "use", first).status == 0
    words = [entry["command"], *entry["args"], "--tools"]
    subprocess.run(words, capture_output=True, check=True, timeout=60)
    assert "up to date" not in satchel("connect", "cursor").out
    assert _cursor(home)["args"][-1] == first


def test_connect_omits_a_missing_default_bank(satchel: Run, home: Path) -> None:
    """The host then uses the current default, as for a store without a chosen one."""
    assert satchel("remember", "Ada likes tea.").status == 0
    assert satchel("bank", "create", "other").status == 0
    assert satchel("bank", "use", "other").status == 0
    assert satchel("bank", "delete", "other", "--yes").status == 0
    assert satchel("connect", "cursor").status == 0
    assert _cursor(home)["args"][-1] == "mcp"


def test_the_server_and_the_hooks_use_the_same_bank(satchel: Run, home: Path) -> None:
    """The default bank by its ID, or the named one."""
    path = home / ".claude/settings.json"
    created = satchel("bank", "create", "work", "--json").json
    assert satchel("bank", "use", "work").status == 0
    for more, bank in (((), created["id"]), (("--bank", "work"), "work")):
        assert satchel("connect", "claude-code", "--hooks", *more).status == 0
        server = json.loads((home / ".claude.json").read_bytes())["mcpServers"]["satchel"]
        assert server["args"][-2:] == ["--bank", bank]
        for groups in json.loads(path.read_bytes())["hooks"].values():
            assert groups[-1]["hooks"][0]["command"].split()[-2:] == ["--bank", bank]


def _cursor(home: Path) -> dict[str, Any]:
    value = json.loads((home / ".cursor/mcp.json").read_bytes())
    return dict(value["mcpServers"]["satchel"])


def test_hooks_are_added_to_existing_hooks(satchel: Run, home: Path) -> None:
    """In the host's form; removal preserves the others."""
    path = home / ".claude/settings.json"
    path.parent.mkdir()
    others = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "say done"}]}]}}
    path.write_text(json.dumps(others))
    assert satchel("connect", "claude-code", "--hooks").status == 0
    events = json.loads(path.read_bytes())["hooks"]
    (start,) = events["SessionStart"]
    assert start["hooks"][0]["command"].endswith("hook session-start")
    assert [one["hooks"][0]["command"].split()[-1] for one in events["Stop"]] == [
        "done",
        "session-stop",
    ]
    assert satchel("connect", "claude-code", "--remove").status == 0
    assert path.read_text() == json.dumps(others)
    assert satchel("connect", "gemini", "--hooks").status == 2


_BEFORE = {
    ".claude.json": '{ "theme":\t"dark",\r\n"mcpServers": {}, "b": 1.0 }',
    ".claude/settings.json": '{"hooks": {"Stop": [{"hooks": []}]}, "é": "\\u00e9"}\n\n',
    ".codex/config.toml": 'model = "x" # mine\n\n[mcp_servers.other]\ncommand = "y"\n\n\n',
    ".codex/hooks.json": "",
    ".cursor/mcp.json": '{\n    "mcpServers": {\n        "other": {"command": "y"}\n    }\n}',
    ".cursor/hooks.json": '{"hooks": {}}',
    ".gemini/settings.json": "{}\n",
    ".claude/skills/satchel/SKILL.md": "a user's own\n",
}


@pytest.mark.parametrize("there", [_BEFORE, {}], ids=["files", "none"])
@pytest.mark.parametrize("host", ["claude-code", "codex", "cursor", "gemini"])
def test_plugin_removal_restores_every_byte(
    satchel: Run, home: Path, host: str, there: dict[str, str]
) -> None:
    """Twice, also after a change of the bank; no file remains."""
    for name, text in there.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_bytes(text.encode())
    before = _tree(home)
    for _ in range(2):
        assert satchel("connect", host, "--plugin").status == 0
        assert satchel("connect", host, "--plugin", "--bank", "ada").status == 0
        assert len(_tree(home)) > len(before)
        assert satchel("connect", host, "--remove").status == 0
        assert _tree(home) == before


def _tree(home: Path) -> dict[str, bytes]:
    found = (path for path in home.rglob("*") if path.is_file())
    return {str(path.relative_to(home)): path.read_bytes() for path in found}


def test_removal_preserves_later_changes_of_other_programs(satchel: Run, home: Path) -> None:
    """Only Satchel's entries are removed; the formatting stays."""
    path = home / ".claude.json"
    path.write_text('{\n    "theme": "dark"\n}')
    assert satchel("connect", "claude-code").status == 0
    value = json.loads(path.read_bytes()) | {"theme": "light", "new": True}
    path.write_text(json.dumps(value, indent=4))
    assert satchel("connect", "claude-code", "--remove").status == 0
    assert path.read_text() == '{\n    "theme": "light",\n    "new": true\n}'
    skill = home / ".claude/skills/satchel/SKILL.md"
    assert satchel("connect", "claude-code", "--plugin").status == 0
    skill.write_text(skill.read_text() + "\nand mine\n")
    assert satchel("connect", "claude-code", "--remove").status == 0
    assert skill.read_text().endswith("and mine\n")


def test_connect_finds_the_relocated_folder_of_a_host(
    satchel: Run, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the host's own environment variable."""
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    assert satchel("connect", "codex", "--hooks").status == 0
    assert satchel("connect", "claude-code", "--hooks").status == 0
    found = {str(one.relative_to(tmp_path)) for one in tmp_path.rglob("*") if one.is_file()}
    assert {
        "elsewhere/config.toml",
        "elsewhere/hooks.json",
        "claude/.claude.json",
        "claude/settings.json",
    } <= found
    assert not list(home.glob(".c*"))


def test_a_dry_run_of_connect_writes_nothing(satchel: Run, home: Path) -> None:
    """It prints a diff and creates no folder."""
    planned = satchel("connect", "cursor", "--dry-run")
    assert planned.out.startswith("--- /dev/null\n+++ ")
    assert '+    "satchel": {' in planned.out
    (change,) = satchel("connect", "cursor", "--dry-run", "--json").json["files"]
    assert change["diff"] == planned.out
    assert list(home.iterdir()) == []


@pytest.mark.parametrize(
    ("host", "file", "text"),
    [
        ("cursor", ".cursor/mcp.json", "// mine\n{}"),
        ("cursor", ".cursor/mcp.json", "[]"),
        ("cursor", ".cursor/mcp.json", '{"mcpServers": 1}'),
        ("codex", ".codex/config.toml", "a = ["),
        ("cursor", ".cursor/mcp.json", "[" * 100_000),
    ],
    ids=["comments", "array", "number", "toml", "deep"],
)
def test_an_unreadable_host_file_is_left_unchanged(
    satchel: Run, home: Path, host: str, file: str, text: str
) -> None:
    """The error names the file; no copy is created."""
    path = home / file
    path.parent.mkdir()
    path.write_text(text)
    refused = satchel("connect", host)
    assert refused.status == 4
    assert file.rpartition("/")[2] in refused.err
    assert path.read_text() == text
    assert len(list(path.parent.iterdir())) == 1


def test_a_linked_host_file_stays_a_link(satchel: Run, home: Path, tmp_path: Path) -> None:
    """Dotfiles are often kept elsewhere."""
    kept = tmp_path / "dotfiles.json"
    kept.write_text("{}")
    (home / ".cursor").mkdir()
    (home / ".cursor/mcp.json").symlink_to(kept)
    assert satchel("connect", "cursor").status == 0
    assert (home / ".cursor/mcp.json").is_symlink()
    assert "satchel" in kept.read_text()


def _project(tmp_path: Path) -> tuple[Path, Path]:
    """Return a project, and a folder outside it."""
    project, elsewhere = tmp_path / "project", tmp_path / "elsewhere"
    project.mkdir()
    elsewhere.mkdir()
    for name in ("settings.json", ".mcp.json", "mcp.json"):
        (elsewhere / name).write_text("{}\n")
    return project, elsewhere


LINKS = {
    "a folder": (".claude", ""),
    "a file": (".mcp.json", "mcp.json"),
    "a file in a folder": (".claude/settings.json", "settings.json"),
    "a missing file": (".mcp.json", "nothing.json"),
    "the skill folder": (".claude/skills", ""),
    "the saved copy": (".mcp.json.before-satchel", "mcp.json"),
    "the saved copy in a folder": (".claude/settings.json.before-satchel", "settings.json"),
}


@pytest.mark.parametrize("how", ["symbolic", "relative", "hard"])
@pytest.mark.parametrize("link", LINKS.values(), ids=LINKS)
def test_attack_a_link_in_a_project_redirects_writes_outside(
    satchel: Run, tmp_path: Path, link: tuple[str, str], how: str
) -> None:
    """Connect and removal change nothing, and the error names the alternative."""
    project, elsewhere = _project(tmp_path)
    at, target = project / link[0], elsewhere / link[1]
    if how == "hard" and not target.is_file():
        return  # only existing files have hard links
    at.parent.mkdir(exist_ok=True)
    if "before-satchel" in link[0]:
        at.with_name(at.name.removesuffix(".before-satchel")).write_text("{}\n")
    if how == "hard":
        at.hardlink_to(target)
    else:
        at.symlink_to(target if how == "symbolic" else Path(os.path.relpath(target, at.parent)))
    before = _state(project), _state(elsewhere)
    for more in (("--plugin",), ("--plugin", "--remove"), ("--plugin", "--dry-run")):
        refused = satchel("connect", "claude-code", "--project", project, *more)
        assert refused.status == 3, more
        assert "project" in refused.err
        assert "drop --project" in refused.err
        assert (_state(project), _state(elsewhere)) == before


def _state(folder: Path) -> dict[str, str]:
    return {
        str(one.relative_to(folder)): str(one.readlink()) if one.is_symlink() else one.read_text()
        for one in sorted(folder.rglob("*"))
        if one.is_symlink() or one.is_file()
    }


def test_a_project_may_be_a_link_itself(satchel: Run, tmp_path: Path) -> None:
    """The caller named it."""
    project, _ = _project(tmp_path)
    (tmp_path / "link").symlink_to(project)
    assert satchel("connect", "claude-code", "--project", tmp_path / "link").status == 0
    assert "satchel" in (project / ".mcp.json").read_text()
