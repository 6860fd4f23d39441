"""The folder with the visible copies of memory files.

Each part of a path is opened below its parent. Links are never followed, and a file with more than
one hard link is not treated as the store's own. A file is replaced by renaming, so that readers see
complete files. The copies are not synced to the disk: after a power loss they are restored from the
manifest.
"""

import errno
import itertools
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from satchel.errors import MemoryStoreError, SatchelError
from satchel.files.paths import MOST_PARTS, OWN, check_path, is_own, is_reserved
from satchel.runtime.files import PRIVATE_FILE, PRIVATE_FOLDER

LARGEST = 64 << 20
"""Most bytes in one memory file."""

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_DRAFTS = f"{OWN}/drafts"


class StoreFolder:
    """A store's folder, held open. Thread-safe.

    Args:
        root: The folder; created with access for its owner only if missing.

    Raises:
        MemoryStoreError: If it, or a folder of the store in it, is a link or not a folder.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._numbers = itertools.count()
        self._root = self._drafts = -1
        try:
            root.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
            self._root = os.open(root, _DIRECTORY)
            os.close(self._folder(OWN.split("/"), make=True))
            for folder in ("audit", "versions"):  # created by the first write
                with suppress(FileNotFoundError):
                    os.close(self._folder([folder]))
            self._drafts = self._folder(_DRAFTS.split("/"), make=True)
        except OSError as error:
            self.close()
            raise _refused(root.name, error, file=str(root)) from error
        except SatchelError:
            self.close()
            raise

    def close(self) -> None:
        """Close the descriptors. May be called more than once."""
        for handle in (self._root, self._drafts):
            if handle >= 0:
                os.close(handle)
        self._root = self._drafts = -1

    def read(self, path: str) -> bytes | None:
        """Return the bytes at a path; None if it does not exist.

        Raises:
            MemoryStoreError: If a part of the path is a link, if it is not a regular file with one
                hard link, or if it is too large for a memory file.
        """
        *above, name = _parts(path)
        try:
            folder = self._folder(above)
        except FileNotFoundError:
            return None
        try:
            return _content(name, folder, path)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _refused(path, error) from error
        finally:
            os.close(folder)

    def kind(self, path: str) -> str | None:
        """Return ``file`` or ``folder``; None if the path does not exist.

        Raises:
            MemoryStoreError: If a part of the path is a link, or it is something else.
        """
        *above, name = _parts(path)
        try:
            folder = self._folder(above)
        except FileNotFoundError:
            return None
        try:
            mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        except FileNotFoundError:
            return None
        finally:
            os.close(folder)
        if stat.S_ISDIR(mode):
            return "folder"
        if stat.S_ISREG(mode):
            return "file"
        raise MemoryStoreError(_OUTSIDE if stat.S_ISLNK(mode) else _ODD, path=path)

    def place(self, path: str, data: bytes) -> None:
        """Replace the file at a path atomically. Requires the store's lock."""
        *above, name = _parts(path)
        draft = f"{os.getpid()}-{next(self._numbers)}-{secrets.token_hex(4)}"
        handle = os.open(draft, _NEW, PRIVATE_FILE, dir_fd=self._drafts)
        try:
            try:
                _write(handle, data)
            finally:
                os.close(handle)
            folder = self._folder(above, make=True)
            try:
                os.replace(draft, name, src_dir_fd=self._drafts, dst_dir_fd=folder)
            finally:
                os.close(folder)
        except BaseException as error:
            with suppress(OSError):
                os.unlink(draft, dir_fd=self._drafts)
            if isinstance(error, OSError):
                raise _refused(path, error) from error
            raise

    def remove(self, path: str) -> None:
        """Remove the file at a path, and parent folders that become empty."""
        parts = _parts(path)
        with suppress(OSError):
            folder = self._folder(parts[:-1])
            try:
                os.unlink(parts[-1], dir_fd=folder)
            finally:
                os.close(folder)
        for depth in range(len(parts) - 1, 0, -1):
            try:
                folder = self._folder(parts[: depth - 1])
                try:
                    os.rmdir(parts[depth - 1], dir_fd=folder)
                finally:
                    os.close(folder)
            except OSError:
                return

    def remove_folder(self, path: str) -> None:
        """Remove a folder and its files; subfolders are not touched."""
        with suppress(FileNotFoundError):
            folder = self._folder(_parts(path))
            try:
                for name in os.listdir(folder):  # noqa: PTH208 - a descriptor
                    with suppress(OSError):
                        os.unlink(name, dir_fd=folder)
            finally:
                os.close(folder)
        with suppress(OSError), self.within(path) as (above, name):
            os.rmdir(name, dir_fd=above)

    def sweep(self) -> None:
        """Remove temporary files of killed writers. Requires the store's lock."""
        for name in os.listdir(self._drafts):  # noqa: PTH208 - a descriptor
            os.unlink(name, dir_fd=self._drafts)

    @contextmanager
    def within(self, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        """Yield the descriptor of a path's folder, and the name in it.

        Raises:
            MemoryStoreError: If a part of the path is a link.
            FileNotFoundError: If there is no such folder, and none may be created.
        """
        *above, name = _parts(path)
        folder = self._folder(above, make=make)
        try:
            yield folder, name
        finally:
            os.close(folder)

    @contextmanager
    def opened(self, path: str, flags: int) -> Iterator[int]:
        """Open one of the store's own files by its path, and close it after the block.

        Raises:
            MemoryStoreError: As ``read``.
            FileNotFoundError: If it does not exist and ``flags`` do not create it.
        """
        with self.within(path, make=bool(flags & os.O_CREAT)) as (folder, name):
            try:
                handle = os.open(name, flags | _READ, PRIVATE_FILE, dir_fd=folder)
            except FileNotFoundError:
                raise
            except OSError as error:
                raise _refused(path, error) from error
        try:
            _sole(handle, path)
            yield handle
        finally:
            os.close(handle)

    def files(self, prefix: str = "", odd: list[str] | None = None) -> list[str]:
        """Return the paths of all files below a folder, unsorted.

        The store's own files, links, pipes and the like are skipped.

        Args:
            prefix: The folder; empty for all.
            odd: Receives the names of files that cannot be paths.

        Raises:
            MemoryStoreError: If a link leads to the folder.
        """
        paths: list[str] = []
        if prefix and is_reserved(prefix):
            return paths
        try:
            start = self._folder(_parts(prefix) if prefix else [])
        except FileNotFoundError:
            return paths
        except MemoryStoreError:
            if prefix and self.kind(prefix) == "file":
                return paths
            raise
        _walk(start, prefix + "/" if prefix else "", paths, [] if odd is None else odd)
        return paths

    def names(self, folder: str) -> list[str]:
        """Return the sorted names in one of the store's own folders; none if it does not exist.

        Raises:
            MemoryStoreError: If a part of the path is a link or a file.
        """
        try:
            handle = self._folder(folder.split("/"))
        except FileNotFoundError:
            return []
        try:
            return sorted(os.listdir(handle))  # noqa: PTH208 - of a descriptor
        finally:
            os.close(handle)

    def _folder(self, parts: list[str], *, make: bool = False) -> int:
        """Return the descriptor of a folder, which the caller closes.

        Raises:
            MemoryStoreError: If a part of the path is a link or a file.
            FileNotFoundError: If there is none.
        """
        handle = os.open(".", _DIRECTORY, dir_fd=self._root)
        for part in parts:
            try:
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(part, PRIVATE_FOLDER, dir_fd=handle)
                below = os.open(part, _DIRECTORY, dir_fd=handle)
            except FileNotFoundError:
                os.close(handle)
                raise
            except OSError as error:
                try:
                    raise _refused_folder("/".join(parts), part, handle, error) from error
                finally:
                    os.close(handle)
            os.close(handle)
            handle = below
        return handle


_OUTSIDE = "the path contains a symbolic link, which could lead outside the memory root"
_ODD = "not a regular file"


def _parts(path: str) -> list[str]:
    """Return the parts of a path, none of which is ``..``, also in an untrusted manifest.

    Raises:
        MemoryStoreError: If one is.
    """
    parts = path.split("/")
    if not {"", ".", ".."}.isdisjoint(parts) or "\0" in path:
        raise MemoryStoreError("the path is outside the memory root", path=ascii(path))
    return parts


def _content(name: str, folder: int, path: str) -> bytes:
    handle = os.open(name, _READ, dir_fd=folder)
    try:
        size = _sole(handle, path).st_size
        if size > LARGEST:
            raise MemoryStoreError(f"a memory file can have at most {LARGEST:,} bytes", path=path)
        data = os.read(handle, size + 1)
        while len(data) <= LARGEST and (more := os.read(handle, 1 << 20)):
            data += more
        return data
    finally:
        os.close(handle)


def _sole(handle: int, path: str) -> os.stat_result:
    status = os.fstat(handle)
    if stat.S_ISDIR(status.st_mode):
        raise MemoryStoreError("this is a folder", path=path)
    if not stat.S_ISREG(status.st_mode):
        raise MemoryStoreError(_ODD, path=path)
    if status.st_nlink > 1:
        raise MemoryStoreError(
            "this file has another hard link, which may be outside the memory root",
            path=path,
            hint="Replace it with a copy.",
        )
    return status


def _write(handle: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(handle, rest) :]


def _walk(handle: int, prefix: str, paths: list[str], odd: list[str]) -> None:
    """Add the files of an open folder, and close it."""
    folders: list[str] = []
    try:
        with os.scandir(handle) as entries:
            for entry in entries:
                name = entry.name
                if not prefix and is_reserved(name):
                    if not is_own(name):  # differs in case: neither a path nor the store's own
                        odd.append(name)
                    continue
                if entry.is_dir(follow_symlinks=False):
                    folders.append(name)
                elif entry.is_file(follow_symlinks=False):
                    path = prefix + name
                    (paths if is_plain(path) else odd).append(path)
        for name in folders if prefix.count("/") < MOST_PARTS else []:
            # A folder that is gone, or a link now, is not listed.
            with suppress(OSError):
                _walk(os.open(name, _DIRECTORY, dir_fd=handle), f"{prefix}{name}/", paths, odd)
    finally:
        os.close(handle)


def is_plain(path: str) -> bool:
    """Return whether a name in the folder is a normalized path."""
    if path.isascii() and path.isprintable() and "\\" not in path:
        return True
    try:
        return check_path(path) == path
    except MemoryStoreError:
        return False


def _refused_folder(path: str, part: str, within: int, error: OSError) -> MemoryStoreError:
    """Return the error for a part of a path that is not a folder."""
    if error.errno in {errno.ENOTDIR, errno.ELOOP}:
        with suppress(OSError):
            mode = os.stat(part, dir_fd=within, follow_symlinks=False).st_mode
            if not stat.S_ISLNK(mode):
                return MemoryStoreError(f"{part!a} is a file, not a folder", path=path)
        return MemoryStoreError(_OUTSIDE, path=path)
    return _refused(path, error)


def _refused(path: str, error: OSError, **location: str) -> MemoryStoreError:
    if error.errno in {errno.ELOOP, errno.EMLINK}:
        return MemoryStoreError(_OUTSIDE, path=path, **location)
    if error.errno == errno.EISDIR:
        return MemoryStoreError("this is a folder", path=path, **location)
    if error.errno in {errno.ENXIO, errno.ENODEV}:
        return MemoryStoreError(_ODD, path=path, **location)
    if error.errno == errno.ENOTDIR:
        return MemoryStoreError(
            "a file or a symbolic link exists where a folder is needed", path=path, **location
        )
    return MemoryStoreError(
        f"refused by the operating system: {error.strerror or error}", path=path, **location
    )
