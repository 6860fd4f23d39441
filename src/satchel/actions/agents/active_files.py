"""Files that a tool runs or obeys as soon as somebody works in their folder.

Whoever sends an agent could have them do anything, so an import writes them only when that is said.
"""

import re
import unicodedata

from satchel.code_graph.sources.ignoring import part_matches

FOLDERS = (
    *(".git", ".hg", ".svn", ".husky", ".githooks", ".github", ".gitlab", ".circleci"),
    *(".claude", ".cursor", ".codex", ".gemini", ".windsurf", ".continue", ".roo", ".clinerules"),
    *(".vscode", ".idea", ".devcontainer", ".zed", ".direnv", ".ssh", ".gnupg", ".config"),
    *("node_modules", "__pycache__", ".venv", "venv"),
)
"""Folders, wherever they are in the workspace; everything in them counts."""

NAMES = (
    *(
        ".envrc",
        ".env",
        ".env.*",
        ".bashrc",
        ".bash_*",
        ".profile",
        ".zshrc",
        ".zshenv",
        ".zprofile",
    ),
    *(".gitconfig", ".gitmodules", ".gitattributes", ".pre-commit-config.yaml", "lefthook.y*ml"),
    *("makefile", "gnumakefile", "*.mk", "justfile", "taskfile.y*ml", "rakefile", "jenkinsfile"),
    *("package.json", ".npmrc", ".yarnrc*", ".pnpmfile.cjs", "pip.conf", "setup.py", "noxfile.py"),
    *("conftest.py", "sitecustomize.py", "usercustomize.py", "*.pth", "build.rs", "*.nix"),
    *(".mcp.json", "mcp.json", "claude.md", "claude.local.md", "agents.md", "agents.override.md"),
    *("gemini.md", ".cursorrules", ".windsurfrules", ".clinerules", "copilot-instructions.md"),
    *(
        ".vimrc",
        ".nvimrc",
        ".exrc",
        ".nvim.lua",
        ".lvimrc",
        ".dir-locals.el",
        ".gdbinit",
        ".lldbinit",
        "*.code-workspace",
    ),
    *(".tool-versions", "mise.toml", ".mise.toml", ".gitlab-ci.yml", ".travis.yml"),
)
"""Names of files, wherever they are in the workspace; in small letters, ``*`` for anything."""


_UNSEEN = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")
"""Characters that HFS+ ignores in a name."""

_SHORT_GIT = re.compile(r"git~[1-9]")
"""What NTFS also calls ``.git``."""


def is_active(path: str) -> bool:
    """Tell whether a tool would run or obey a file of a workspace, on any file system."""
    *folders, name = (_on_any_system(part) for part in path.split("/"))
    return not set(folders).isdisjoint(FOLDERS) or any(part_matches(one, name) for one in NAMES)


def _on_any_system(part: str) -> str:
    """Return the name that a part of a path has where case, some characters or ends are ignored."""
    name = unicodedata.normalize("NFKC", _UNSEEN.sub("", part)).casefold()
    name = name.partition(":")[0].rstrip(". ") or name  # NTFS: a stream, and what it cuts off
    return ".git" if _SHORT_GIT.fullmatch(name) else name
