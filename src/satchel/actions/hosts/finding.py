"""What there is to watch: transcripts and memories of hosts, and folders that somebody names."""

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from blake3 import blake3

from satchel.actions.hosts.known import KEPT, Host
from satchel.errors import UnreadableError, UsageError

_ENDINGS = (".jsonl", ".json", ".zip", ".html")
_TRANSCRIPT = ".jsonl"
_WORD = 8


class Seen(NamedTuple):
    """A file or a folder that may have something new."""

    time: int
    """When it was changed, in nanoseconds: the oldest is the next to be deleted."""

    path: Path
    size: int
    form: str | None
    """Its format; None to recognise it."""

    is_folder: bool = False

    @property
    def mark(self) -> tuple[int, int]:
        """What is another pair once it has changed."""
        return self.size, self.time

    @property
    def is_memory(self) -> bool:
        """Whether what is in it changes, and is not only added to."""
        return self.is_folder


def found_for(hosts: Sequence[Host], folders: Sequence[Path]) -> Iterator[Seen]:
    """Yield what hosts keep, and what is in folders; without either, of all hosts that are known.

    Links are not followed.

    Raises:
        UsageError: If a host keeps nothing that is known.
        UnreadableError: If there is no such folder.
    """
    for host in hosts or (() if folders else tuple(KEPT)):
        yield from _of_host(host)
    for folder in folders:
        if not folder.is_dir():
            raise UnreadableError("no such folder", file=str(folder))
        yield from _files_in(folder.absolute(), _ENDINGS, None)


def _of_host(host: Host) -> Iterator[Seen]:
    if host not in KEPT:
        known = ", ".join(KEPT)
        raise UsageError(
            f"the conversation folder of {host} is not known",
            field="host",
            hint=f"Add --folder FOLDER. Known: {known}.",
        )
    kept = KEPT[host]
    said = os.environ.get(kept.variable)
    root = (Path(said) if said else Path.home() / kept.folder).absolute()
    for name in kept.transcripts:
        yield from _files_in(root / name, (_TRANSCRIPT,), kept.form)
    for folder in sorted(root.glob(kept.memories)):
        if folder.is_dir() and not folder.is_symlink():
            yield from _memory_in(folder)


def _memory_in(folder: Path) -> Iterator[Seen]:
    """Yield a folder of memory, with a mark of all that is in it."""
    found = sorted(_files_in(folder, (".md",), None))
    if found:
        said = repr([(str(one.path), one.mark) for one in found]).encode("utf-8", "replace")
        mark = int.from_bytes(blake3(said).digest(_WORD)) >> 1
        yield Seen(max(one.time for one in found), folder, mark, None, is_folder=True)


def _files_in(folder: Path, endings: tuple[str, ...], form: str | None) -> Iterator[Seen]:
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in names:
            if not name.endswith(endings):
                continue
            path = Path(place, name)
            try:
                status = path.lstat()
            except OSError:  # deleted meanwhile
                continue
            if stat.S_ISREG(status.st_mode) and status.st_size:
                yield Seen(status.st_mtime_ns, path, status.st_size, form)
