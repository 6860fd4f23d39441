"""Files of hosts: read whole, changed in one step, kept as they were, and given back so."""

import json
import re
import stat
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from satchel.disk.private import make_folders
from satchel.disk.reading import reading
from satchel.disk.writing import PRIVATE_FILE, target_error, writing
from satchel.errors import ContainmentError, LimitError, MalformedError

_MOST_BYTES = 64 << 20
_INDENT = re.compile(r"\s*\{\r?\n([ \t]+)\S")
_USUAL_INDENT = "  "
_LINKED = (
    "Replace the link with a regular file or folder of the project, or drop --project to connect "
    "all projects."
)

Parse = Callable[[str, Path], dict[str, Any]]


class HostFile(NamedTuple):
    """A file as it was found."""

    path: Path
    text: str | None
    """None where there is none."""

    project: Path | None = None
    """The folder that it may not lead out of; None where it is the user's own."""

    @property
    def backup(self) -> Path:
        """Where it is kept as it was before it was changed."""
        return self.path.with_name(f"{self.path.name}.before-satchel")

    def given_back(
        self, value: Mapping[str, Any], parse: Parse, made: str, bare: Mapping[str, Any]
    ) -> str | None:
        """Return what the file is once what was added to it is gone.

        Byte for byte what it was, unless others have changed it since.

        Args:
            value: What it says then.
            parse: Reads it.
            made: A text that says that.
            bare: What it says then without what a file of this kind has anyhow.
        """
        before = found(self.backup, self.project).text
        if before is not None:
            was = _filled(parse(before, self.backup))
            if was in (_filled(value), _filled(bare)):
                return before
        return made if bare or before is not None else None

    def write(self, text: str | None, *, keeps: bool) -> Path | None:
        """Write the file whole, or take it away, and return where it is as it was before.

        Args:
            text: What it is to be; None where it is to be gone.
            keeps: Whether it is kept beside it as it is now.

        Raises:
            TargetError: If it cannot be written; then it is as it was.
        """
        require_inside(self.path, self.project)
        require_inside(self.backup, self.project)
        make_folders(self.path.parent)
        if keeps and self.text is not None:
            _write(self.backup, self.text, PRIVATE_FILE)
        if text is None:
            _remove(self.path)
        else:
            there = self.path.exists()
            _write(self.path, text, self.path.stat().st_mode & 0o777 if there else PRIVATE_FILE)
        if found(self.backup, self.project).text == (text or ""):
            _remove(self.backup)  # it is again what it was
        return self.backup if self.backup.exists() else None


def found(path: Path, project: Path | None = None) -> HostFile:
    """Return a file as it is.

    Args:
        path: The file.
        project: The folder of a project, which it may not lead out of.

    Raises:
        ContainmentError: If a link leads it elsewhere.
        LimitError: If it is too large.
        MalformedError: If it is no text.
        UnreadableError: If it cannot be read.
    """
    require_inside(path, project)
    if not path.exists():
        return HostFile(path, None, project)
    with reading(path) as stream:
        data = stream.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise LimitError(f"a file can have at most {_MOST_BYTES:,} bytes", file=str(path))
    try:
        return HostFile(path, data.decode(), project)
    except UnicodeDecodeError as error:
        raise MalformedError("not UTF-8", file=str(path), byte=error.start) from None


def require_inside(path: Path, project: Path | None) -> None:
    """Require that no link is on the way from a project's folder to a file in it.

    Somebody else's project may have a link to a file that counts for all projects, or for another
    program. A hard link is one as well: the same file has another name, maybe elsewhere.

    Raises:
        ContainmentError: If there is one; it says which.
    """
    if project is None:
        return
    step = project
    for part in path.relative_to(project).parts:
        step /= part
        try:
            seen = step.lstat()
        except FileNotFoundError:
            return
        except OSError as error:
            raise target_error(step, error) from error
        if stat.S_ISLNK(seen.st_mode):
            raise ContainmentError(
                "a symbolic link points outside the project", file=str(step), hint=_LINKED
            )
        if step == path and stat.S_ISREG(seen.st_mode) and seen.st_nlink > 1:
            raise ContainmentError(
                "the file has another hard link, which may be outside the project",
                file=str(step),
                hint=_LINKED,
            )


def json_of(text: str, path: Path) -> dict[str, Any]:
    """Return what a file of JSON says; of an empty one, nothing.

    Raises:
        MalformedError: If it is none.
    """
    if not text.strip():
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        line = error.lineno if isinstance(error, json.JSONDecodeError) else None
        hint = "Nothing was changed. Remove the comments, or add the entry by hand."
        raise MalformedError("not JSON", file=str(path), line=line, hint=hint) from None
    if not isinstance(value, dict):
        raise MalformedError("not an object", file=str(path))
    return value


def toml_of(text: str, path: Path) -> dict[str, Any]:
    """Return what a file of TOML says.

    Raises:
        MalformedError: If it is none.
    """
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise MalformedError(f"not TOML: {error}", file=str(path)) from None


def dumped(value: Mapping[str, Any], like: str | None) -> str:
    """Return JSON, set as another text of it is."""
    indent = _INDENT.match(like or "")
    text = json.dumps(value, indent=indent[1] if indent else _USUAL_INDENT, ensure_ascii=False)
    return text if like and not like.endswith("\n") else text + "\n"


def _filled(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a file says, without tables that have nothing in them."""
    return {name: said for name, said in value.items() if said != {}}


def _write(path: Path, text: str, mode: int) -> None:
    try:
        with writing(path, mode=mode) as file:
            file.write(text.encode())
    except OSError as error:
        raise target_error(path, error) from error


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise target_error(path, error) from error
