"""Staging of an imported agent's files: written to a temporary folder, then renamed in one step.

The names are untrusted: each file is opened below the folder, and never outside it. Nothing is
removed: an existing folder is renamed.
"""

import base64
import binascii
import hashlib
import os
import secrets
import shutil
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Self

import msgspec

from satchel.agents.workspace import is_active
from satchel.errors import LimitError, MalformedError, TargetExistsError
from satchel.model.records import FileVersion
from satchel.runtime.contained_folder import ContainedFolder, parts_of
from satchel.runtime.files import target_error

MOST_FILES = 100_000
MOST_BYTES = 1 << 30
_CHUNK = 1 << 20
_MOST_TOLD = 1000


class PlacementResult(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Result of importing the files of an agent."""

    folder: str | None = None
    written: int = 0
    same: int = 0
    """Number of existing files with the same contents."""

    differ: list[str] = []
    """Existing files with other contents, which are not changed; the first thousand."""

    not_in_file: list[str] = []
    """Binary files of which only the name was imported; the first thousand."""

    active: list[str] = []
    """Skipped files that a tool would execute or obey; the first thousand."""

    kept: str | None = None
    """Path of the previous folder, if it was replaced."""

    added: dict[str, str] = {}
    """SHA-256 of each file that was added to an existing folder."""


class Staging:
    """A context manager for a staging folder.

    Args:
        final: Final path of the folder; its parent is created.
        active: Whether to write files that a tool would execute or obey.
    """

    def __init__(self, final: Path, *, active: bool = True) -> None:
        self.final = final
        self.active = list[str]()
        """Paths of skipped files that a tool would execute or obey; the first ones."""

        self._with_active = active
        self.names: list[str] = []
        """Paths of the staged files."""

        self.not_in_file = list[str]()
        self._path = final.with_name(f".{final.name}.satchel-{secrets.token_hex(8)}")
        with ContainedFolder(final.parent, create=True):
            pass
        self._folder = ContainedFolder(self._path, create=True)
        self._open: BinaryIO | None = None
        self._current: FileVersion | None = None
        self._hash = hashlib.sha256()
        self._size = self._bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._open is not None:
            self._open.close()
        self._folder.close()
        with suppress(FileNotFoundError):
            shutil.rmtree(self._path)

    def take(self, version: FileVersion) -> None:
        """Write a file, or the next part of it.

        Raises:
            PathRefusedError: If its path leads out of the folder.
            MalformedError: If the path is repeated, or the contents do not match their digest.
            LimitError: If the files are too large.
        """
        if not self._with_active and is_active(version.path):
            self.finish()
            parts_of(version.path)
            if not version.metadata.get("part") and len(self.active) < _MOST_TOLD:
                self.active.append(version.path)
            return
        data = self._data_of(version)
        if data is None:
            if len(self.not_in_file) < _MOST_TOLD:
                self.not_in_file.append(version.path)
            return
        if not version.metadata.get("part"):
            self.finish()
            self._begin(version)
        elif self._current is None or self._current.path != version.path:
            raise MalformedError(
                "a chunk of a file whose first chunk is missing", field=version.path[:80]
            )
        self._hash.update(data)
        self._size += len(data)
        assert self._open is not None  # noqa: S101 - it was begun
        self._write(self._open, data)

    def lay(self, path: str, data: bytes) -> None:
        """Write a whole file.

        Raises:
            PathRefusedError: If its path leads out of the folder.
            MalformedError: If the path is repeated.
            LimitError: If the files are too large.
            TargetError: If it cannot be written.
        """
        with self._create(path) as stream:
            self._write(stream, data)
            stream.flush()
            os.fsync(stream.fileno())

    def _write(self, stream: BinaryIO, data: bytes) -> None:
        self._bytes += len(data)
        if self._bytes > MOST_BYTES:
            raise LimitError(f"the files have more than {MOST_BYTES:,} bytes", field="workspace")
        try:
            stream.write(data)
        except OSError as error:
            raise target_error(self._path, error) from error

    def finish(self) -> None:
        """Complete the last file.

        Raises:
            MalformedError: If its contents do not match their digest.
        """
        stream, version = self._open, self._current
        if stream is None or version is None:
            return
        self._open = self._current = None
        with stream:
            stream.flush()
            os.fsync(stream.fileno())
        said, size = version.metadata.get("sha256"), version.metadata.get("sizeBytes")
        if said is not None and said != self._hash.hexdigest():
            raise MalformedError("a file does not match its SHA-256", field=version.path[:80])
        if size is not None and size != self._size:
            raise MalformedError(
                "a file does not have its declared length", field=version.path[:80]
            )

    def put(self, *, merge: bool) -> PlacementResult:
        """Move the files to their final folder.

        Args:
            merge: Whether to add them to an existing folder, whose files are kept. Otherwise an
                existing folder is renamed.

        Raises:
            TargetError: If it cannot be written.
        """
        self.finish()
        placed = PlacementResult(
            folder=str(self.final), not_in_file=self.not_in_file, active=self.active
        )
        try:
            exists = self.final.is_symlink() or self.final.exists()
            if exists and merge:
                self._merge(placed)
                return placed
            if exists:
                renamed = self.final.with_name(f"{self.final.name}.before-{_moment()}")
                self.final.rename(renamed)
                placed.kept = str(renamed)
            self._place_folder(placed)
        except OSError as error:
            raise target_error(self.final, error) from error
        placed.written = len(self.names)
        return placed

    def _place_folder(self, placed: PlacementResult) -> None:
        try:
            self._path.rename(self.final)
        except OSError:
            if placed.kept is not None:  # the agent must not lose its folder
                Path(placed.kept).rename(self.final)
            raise

    def _begin(self, version: FileVersion) -> None:
        self._open = self._create(version.path)
        self._current, self._hash, self._size = version, hashlib.sha256(), 0

    def _create(self, path: str) -> BinaryIO:
        parts = parts_of(path)
        if len(self.names) >= MOST_FILES:
            raise LimitError(f"there are more than {MOST_FILES:,} files", field="workspace")
        try:
            if parts[:-1]:
                self._folder.make_folder(parts[:-1])
            file = self._folder.create(parts)
        except TargetExistsError:
            raise MalformedError("two files have the same path", field=path[:80]) from None
        self.names.append(path)
        return file

    def _merge(self, placed: PlacementResult) -> None:
        with ContainedFolder(self.final) as target:
            for name in self.names:
                parts = parts_of(name)
                if parts[:-1]:
                    target.make_folder(parts[:-1])
                ours = _digest(self._folder, parts)
                if _is_in(target, parts):
                    same = _digest(target, parts) == ours
                    placed.same += same
                    if not same and len(placed.differ) < _MOST_TOLD:
                        placed.differ.append(name)
                    continue
                with (
                    self._folder.open(parts) as source,
                    target.writing(parts, overwrite=False) as sink,
                ):
                    shutil.copyfileobj(source, sink)
                placed.written += 1
                placed.added[name] = ours

    @staticmethod
    def _data_of(version: FileVersion) -> bytes | None:
        """Return the bytes of a version; None if only its name was imported."""
        metadata: dict[str, Any] = version.metadata
        if not metadata.get("binary"):
            return None if version.text is None else version.text.encode()
        if "contentsBase64" not in metadata:
            return None
        try:
            return base64.b64decode(str(metadata["contentsBase64"]), validate=True)
        except (binascii.Error, ValueError):
            raise MalformedError(
                "the contents are not valid base64", field=version.path[:80]
            ) from None


def take_back(placed: PlacementResult) -> list[str]:
    """Undo ``Staging.put``, and return the files that were changed since and are kept.

    A new folder is renamed, as other files may have been added to it.

    Raises:
        TargetError: If it cannot be written.
    """
    if placed.folder is None:
        return []
    folder = Path(placed.folder)
    try:
        if placed.added or placed.same or placed.differ:
            return _remove_added(folder, placed.added)
        if folder.exists() and placed.written:
            folder.rename(folder.with_name(f"{folder.name}.undone-{_moment()}"))
        if placed.kept is not None and not folder.exists():
            Path(placed.kept).rename(folder)
    except OSError as error:
        raise target_error(folder, error) from error
    return []


def _remove_added(folder: Path, added: dict[str, str]) -> list[str]:
    stays = []
    with ContainedFolder(folder) as contained:
        for name, digest in added.items():
            parts = parts_of(name)
            if not _is_in(contained, parts):
                continue
            if _digest(contained, parts) == digest:
                contained.remove(parts)
            else:
                stays.append(name)
    return stays


def _is_in(folder: ContainedFolder, parts: tuple[str, ...]) -> bool:
    return any(one.name == parts[-1] for one in folder.listing(parts[:-1]))


def _digest(folder: ContainedFolder, parts: tuple[str, ...]) -> str:
    digest = hashlib.sha256()
    with folder.open(parts) as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _moment() -> str:
    return datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
