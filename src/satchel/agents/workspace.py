"""The files of an agent: which are exported, in which form, and why others are skipped.

Links are reported and never followed, so nothing outside the workspace is read. A file is text if
it is valid UTF-8, whatever its name. Files whose names or contents look like secrets are skipped.
"""

import base64
import hashlib
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from satchel.code_graph.folders import (
    IGNORE_FILES,
    MOST_BYTES,
    IgnoreRules,
    part_matches,
    patterns_of,
    written_out,
)
from satchel.errors import InputError, LimitError, PathRefusedError
from satchel.runtime.contained_folder import ContainedFolder
from satchel.screening.secrets import find_secrets

MIB = 1 << 20
_NEVER = frozenset({".git", ".hg", ".svn", "node_modules", "__pycache__", ".cache", ".venv"})
_SECRET_FOLDERS = frozenset({".ssh", ".gnupg", ".aws", ".kube", ".docker"})
_SECRET_NAMES = (
    *(".env", ".env.*", "*.env", ".netrc", ".npmrc", ".pypirc", ".pgpass", ".git-credentials"),
    *("id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "*.pem", "*.key", "*.p12", "*.pfx"),
    *("*.jks", "*.keystore", "*.kdbx", "*.ppk", "*.asc", "credentials", "credentials.json"),
    *("secrets.json", "secrets.toml", "secrets.yaml", "secrets.yml", "service-account*.json"),
)
_HARMLESS = (".env.example", ".env.sample", ".env.template", "*.pub")
_KEY = b"PRIVATE KEY-----"
_DEEPEST = 64
_MOST_LISTED = 1000


class SkippedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A skipped file or folder."""

    path: str
    reason: str


class SymbolicLink(msgspec.Struct, frozen=True, kw_only=True):
    """A symbolic link, which is reported and not followed."""

    path: str
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceRules:
    """Which files of a workspace are exported."""

    binary: bool = False
    """Whether to export the contents of binary files, not only their names."""

    secrets: bool = False
    """Whether to export files that look like secrets."""

    file_bytes: int = 4 * MIB
    """Size limit of a file, in bytes."""

    total_bytes: int = 256 * MIB
    files: int = 20_000


class WorkspaceFile(msgspec.Struct, frozen=True, kw_only=True):
    """An exported file."""

    path: str
    text: str | None = None
    binary: dict[str, Any] | None = None
    """For a binary file: its size and SHA-256, and its contents if requested."""


@dataclass(slots=True)
class Workspace:
    """The files of one agent, read one after another.

    Args:
        folder: The workspace.
        rules: Which files are exported.
    """

    folder: Path
    rules: WorkspaceRules = field(default_factory=WorkspaceRules)
    links: list[SymbolicLink] = field(default_factory=list)
    left: list[SkippedFile] = field(default_factory=list)
    """Skipped files and the reasons; the first thousand."""

    counts: dict[str, int] = field(default_factory=dict)
    """Counts of skipped files, by reason."""

    named: list[str] = field(default_factory=list)
    """Binary files of which only the names are exported; the first thousand."""

    without: frozenset[Path] = frozenset()
    """Files and folders to skip: memory itself and its backups, as resolved paths.
    """

    texts: int = 0
    binaries: int = 0
    _bytes: int = 0

    def files(self) -> Iterator[WorkspaceFile]:
        """Yield the exported files, folder by folder, in the order of their names.

        Raises:
            PathRefusedError: If the workspace is a link, or not a folder.
            UnreadableError: If it cannot be read.
        """
        for path, data, text in self.contents():
            yield self._as_file(path, data, text)

    def contents(self) -> Iterator[tuple[str, bytes, str | None]]:
        """Yield the path, the bytes and, for a text file, the text of each exported file.

        Raises:
            PathRefusedError: If the workspace is a link, or not a folder.
            UnreadableError: If it cannot be read.
        """
        with ContainedFolder(self.folder) as folder:
            yield from self._through(folder, (), IgnoreRules())

    def _through(
        self, folder: ContainedFolder, parts: tuple[str, ...], rules: IgnoreRules
    ) -> Iterator[tuple[str, bytes, str | None]]:
        listed = folder.listing(parts)
        names = {one.name for one in listed}
        for name in IGNORE_FILES:
            if name in names:
                rules = rules.with_patterns(patterns_of(_rules_in(folder, (*parts, name))))
        folders = []
        for name, kind in listed:
            path = (*parts, name)
            if kind == "link":
                self._link(path)
            elif (reason := self._why_not(path, kind, rules)) is not None:
                self._leave(path, reason)
            elif kind == "folder":
                folders.append(path)
            else:
                yield from self._file(folder, path)
        for path in folders:
            if len(path) > _DEEPEST:
                self._leave(path, f"more than {_DEEPEST} folders deep")
            else:
                yield from self._through(folder, path, rules.below())

    def _why_not(self, path: tuple[str, ...], kind: str, rules: IgnoreRules) -> str | None:
        """Return why a file or folder is skipped, by its name and type; None if it is not."""
        is_folder = kind == "folder"
        if kind == "other":
            return "not a regular file"
        if path[-1] in _NEVER or rules.ignore(path, folder=is_folder):
            return "ignored"
        if not self.rules.secrets and _names_secret(path[-1], folder=is_folder):
            return "its name suggests a secret"
        if self.without and self.folder.resolve().joinpath(*path) in self.without:
            return "memory itself or its backups"
        return None

    def _file(
        self, folder: ContainedFolder, path: tuple[str, ...]
    ) -> Iterator[tuple[str, bytes, str | None]]:
        rules = self.rules
        if self.texts + self.binaries >= rules.files:
            self._leave(path, f"more than {rules.files:,} files")
            return
        try:
            data = folder.read(path, limit=rules.file_bytes)
        except LimitError:
            self._leave(path, f"larger than {rules.file_bytes:,} bytes")
            return
        except (InputError, PathRefusedError) as error:
            self._leave(path, f"cannot be read: {error.message}")
            return
        if self._bytes + len(data) > rules.total_bytes:
            self._leave(path, f"more than {rules.total_bytes:,} bytes in total")
            return
        text = _text_of(data)
        if not self.rules.secrets and (kinds := _secrets_in(text, data)):
            self._leave(path, f"appears to contain a secret: {kinds}")
            return
        self._bytes += len(data)
        if text is None:
            self.binaries += 1
        else:
            self.texts += 1
        yield "/".join(path), data, text

    def _as_file(self, path: str, data: bytes, text: str | None) -> WorkspaceFile:
        if text is not None:
            return WorkspaceFile(path=path, text=text)
        if not self.rules.binary:
            if len(self.named) < _MOST_LISTED:
                self.named.append(path)
            self._count("contents of a binary file; add --include-binary to include them")
            return WorkspaceFile(path=path, binary={})
        binary = {
            "sizeBytes": len(data),
            "sha256": hashlib.sha256(data).hexdigest(),
            "contentsBase64": base64.b64encode(data).decode(),
        }
        return WorkspaceFile(path=path, binary=binary)

    def _link(self, path: tuple[str, ...]) -> None:
        try:
            target = written_out(self.folder.joinpath(*path).readlink())
        except OSError as error:
            self._leave(path, f"cannot be read: {error.strerror}")
            return
        self._count("a symbolic link (reported, not followed)")
        if len(self.links) < _MOST_LISTED:
            self.links.append(SymbolicLink(path="/".join(path), target=target))

    def _leave(self, path: tuple[str, ...], reason: str) -> None:
        self._count(reason)
        if len(self.left) < _MOST_LISTED:
            shown = written_out(Path(*path))
            self.left.append(SkippedFile(path=shown, reason=reason))

    def _count(self, reason: str) -> None:
        self.counts[reason] = self.counts.get(reason, 0) + 1


def _rules_in(folder: ContainedFolder, path: tuple[str, ...]) -> str:
    try:
        with folder.open(path) as stream:
            return stream.read(MOST_BYTES).decode("utf-8", "replace")
    except (InputError, PathRefusedError):
        return ""


def _names_secret(name: str, *, folder: bool) -> bool:
    low = name.lower()
    if folder:
        return low in _SECRET_FOLDERS
    if any(part_matches(one, low) for one in _HARMLESS):
        return False
    return any(part_matches(one, low) for one in _SECRET_NAMES)


def _text_of(data: bytes) -> str | None:
    if b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _secrets_in(text: str | None, data: bytes) -> str:
    """Return the kinds of secrets in a file, as one text; empty for none."""
    if text is None:
        return "private-key" if _KEY in data else ""
    return ", ".join(sorted({one.kind for one in find_secrets(text)}))


FOLDERS = (
    *(".git", ".hg", ".svn", ".husky", ".githooks", ".github", ".gitlab", ".circleci"),
    *(".claude", ".cursor", ".codex", ".gemini", ".windsurf", ".continue", ".roo", ".clinerules"),
    *(".vscode", ".idea", ".devcontainer", ".zed", ".direnv", ".ssh", ".gnupg", ".config"),
    *("node_modules", "__pycache__", ".venv", "venv"),
)
"""Folders at any level of the workspace, with everything in them."""

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
"""Names of files at any level of the workspace; in lower case, ``*`` for anything."""


_UNSEEN = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")
"""Characters that HFS+ ignores in a name."""

_SHORT_GIT = re.compile(r"git~[1-9]")
"""Short names of ``.git`` on NTFS."""


def is_active(path: str) -> bool:
    """Return whether a tool would execute or obey a file, on any file system."""
    *folders, name = (_on_any_system(part) for part in path.split("/"))
    return not set(folders).isdisjoint(FOLDERS) or any(part_matches(one, name) for one in NAMES)


def _on_any_system(part: str) -> str:
    """Return the name of a part of a path where case, characters or suffixes are ignored."""
    name = unicodedata.normalize("NFKC", _UNSEEN.sub("", part)).casefold()
    name = (
        name.partition(":")[0].rstrip(". ") or name
    )  # NTFS: a stream, and ignored trailing characters
    return ".git" if _SHORT_GIT.fullmatch(name) else name
